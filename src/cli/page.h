/* A page of lines for a terminal or a file: each no wider than the page, with a style of its own. */
#ifndef HR_CLI_PAGE_H
#define HR_CLI_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/mem.h"

typedef enum hr_page_style {
  HR_PAGE_PLAIN,
  HR_PAGE_BOLD,
  HR_PAGE_DIM,
  HR_PAGE_WARNING,
  HR_PAGE_GOOD,
  HR_PAGE_CHOSEN
} hr_page_style;

enum { HR_PAGE_LINE = 2048 }; /* bytes: 500 columns of anything */

typedef struct hr_page_line {
  hr_page_style style;
  char text[HR_PAGE_LINE];
} hr_page_line;

typedef struct hr_page {
  hr_page_line *lines; /* `rows` of them */
  size_t rows, count;
  size_t columns;
} hr_page;

/* False: out of memory. Lines beyond the last row are dropped. */
bool hr__page_init(hr_page *page, size_t rows, size_t columns);
void hr__page_fini(hr_page *page);

/* What is too wide is cut off. */
__attribute__((format(printf, 3, 4))) void hr__page_add(hr_page *page, hr_page_style style, const char *format, ...);
/* A line with something at its right end, which goes first where there is no room for both. */
void hr__page_add_sides(hr_page *page, hr_page_style style, const char *left, const char *right);
size_t hr__page_left(const hr_page *page);       /* rows */
void hr__page_fill(hr_page *page, size_t count); /* empty lines up to so many */

/* All lines as plain text, without blanks at their ends. */
void hr__page_print(const hr_page *page, FILE *to);

#endif
