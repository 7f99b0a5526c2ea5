/* Regular expressions of tokenizer files, by PCRE2.
 *
 * The files are written for Oniguruma or for Rust's engine, which read some signs differently and know Unicode 16: a
 * pattern is rewritten so that PCRE2 means the same (text/dialect.c).
 */
#ifndef HR_TEXT_REGEX_H
#define HR_TEXT_REGEX_H

#include <stddef.h>

#include "text/grow.h"

typedef enum hr_dialect {
  HR_DIALECT_ONIGURUMA, /* tokenizer.json */
  HR_DIALECT_RUST       /* tekken.json, tiktoken */
} hr_dialect;

/* The pattern as PCRE2 has to get it, NUL-terminated. HR_BAD_INPUT with message and without place. */
hr_status hr__dialect_write(const char *pattern, size_t bytes, hr_dialect dialect, hr_string *out, hr_error *err);

typedef struct hr_regex hr_regex;
hr_status hr__regex_create(const char *pattern, size_t bytes, hr_dialect dialect, hr_regex **out, hr_error *err);
void hr__regex_destroy(hr_regex *regex);

/* What matching needs besides the pattern; one for each thread, for all patterns. */
typedef struct hr_regex_room hr_regex_room;
hr_status hr__regex_room_create(hr_regex_room **out, hr_error *err);
void hr__regex_room_destroy(hr_regex_room *room);

/* The first match at or behind `from`; *begin == `bytes` + 1: there is none. */
hr_status hr__regex_find(const hr_regex *regex, hr_regex_room *room, const char *text, size_t bytes, size_t from,
                         size_t *begin, size_t *end, hr_error *err);

#endif
