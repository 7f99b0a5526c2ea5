/* Figures as people read them: counts, rates, shares as bars. */
#ifndef HR_CLI_FIGURES_H
#define HR_CLI_FIGURES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/text.h"

const char *hr__count_text(uint64_t count, char out[HR_SIZE_TEXT]); /* 4978944 -> "4.98 M" */
const char *hr__rate_text(double rate, char out[HR_SIZE_TEXT]);     /* 12097.3 -> "12097", 0.125 -> "0.125" */
/* A size that may be negative. */
const char *hr__difference_text(int64_t bytes, char out[HR_SIZE_TEXT]);
/* (to - from) / from as "+12.3 %"; "-" where `from` is 0. */
const char *hr__change_text(double from, double to, char out[HR_SIZE_TEXT]);

/* `share` of `width` columns, behind two blanks; nothing where it would be none. */
void hr__bar_print(double share, int width, FILE *to);

/* Whether bars may use block characters: the terminal's locale says so. */
bool hr__utf8(void);

#endif
