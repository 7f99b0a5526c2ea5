/* Template text into tokens. Whitespace is settled here: newlines of any system are one byte, the last one of the file
 * is dropped, one behind a block or comment is dropped, blanks before one that begins a line are dropped, `-` strips
 * everything on its side and `+` keeps everything.
 */
#ifndef HR_TEXT_TEMPLATE_LEXER_H
#define HR_TEXT_TEMPLATE_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

typedef enum hr_token_kind {
  HR_TOKEN_END,
  HR_TOKEN_DATA,
  HR_TOKEN_PRINT_BEGIN,
  HR_TOKEN_PRINT_END,
  HR_TOKEN_BLOCK_BEGIN,
  HR_TOKEN_BLOCK_END,
  HR_TOKEN_NAME,
  HR_TOKEN_STRING, /* its value */
  HR_TOKEN_INTEGER,
  HR_TOKEN_FLOAT,
  HR_TOKEN_SIGN /* an operator or bracket */
} hr_token_kind;

typedef struct hr_token {
  hr_token_kind kind;
  int line;
  const char *text;
  size_t bytes;
  int64_t integer;
  double real;
} hr_token;

typedef struct hr_tokens {
  hr_token *items; /* the last is HR_TOKEN_END */
  size_t count, capacity;
} hr_tokens;

/* `text` is UTF-8. Tokens and what they point to lie in `arena`. */
hr_status hr__template_tokens(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_tokens *out,
                              hr_error *err);

/* An error at a line of a template. */
__attribute__((format(printf, 5, 6))) hr_status hr__template_fail(hr_error *err, hr_status status, const char *name,
                                                                  int line, const char *format, ...);

#endif
