/* The vocabulary of a GGUF file, checked. */
#ifndef HR_TEXT_GGUF_VOCABULARY_H
#define HR_TEXT_GGUF_VOCABULARY_H

#include "text/gguf.h"

#define HR_GGUF_TOKENIZER "tokenizer.ggml." /* what keys of tokenizers begin with */

typedef enum hr_gguf_token_type {
  HR_GGUF_TOKEN_NORMAL = 1,
  HR_GGUF_TOKEN_UNKNOWN,
  HR_GGUF_TOKEN_CONTROL,
  HR_GGUF_TOKEN_USER,
  HR_GGUF_TOKEN_UNUSED,
  HR_GGUF_TOKEN_BYTE
} hr_gguf_token_type;

typedef struct hr_gguf_vocabulary {
  const hr_gguf_value *tokens, *types, *scores, *merges; /* the last three may be NULL */
  size_t count;
} hr_gguf_vocabulary;

hr_status hr__gguf_vocabulary(const hr_gguf *file, const char *name, hr_gguf_vocabulary *out, hr_error *err);
hr_gguf_text hr__gguf_token(const hr_gguf_vocabulary *v, size_t id);
hr_gguf_token_type hr__gguf_token_type(const hr_gguf_vocabulary *v, size_t id);

/* Values of keys; false: there is no such text. */
bool hr__gguf_text_of(const hr_gguf *file, const char *key, hr_gguf_text *out);
bool hr__gguf_text_is(hr_gguf_text text, const char *word);
bool hr__gguf_flag_of(const hr_gguf *file, const char *key, bool fallback);
hr_status hr__gguf_damaged(const char *name, const char *what, hr_error *err);

/* Appends normalizer, pre_tokenizer and decoder of byte-level BPE. *whole: words that are tokens are taken whole.
 * (gguf_pre.c) */
hr_status hr__gguf_pre_put(const hr_gguf *file, const char *name, bool *whole, hr_string *out, hr_error *err);

/* The merges of sentencepiece BPE: every cut of a piece into two others, those of higher scores first. Appended as
 * JSON,
 * ["a","b"] each. (gguf_merges.c) */
hr_status hr__gguf_merges(const hr_gguf_vocabulary *v, const char *name, hr_string *out, hr_error *err);

/* Appends a text as a JSON string, text as it is, and a number. */
hr_status hr__json_quote(hr_string *out, const char *text, size_t bytes, hr_error *err);
hr_status hr__json_put(hr_string *out, const char *text, hr_error *err);
hr_status hr__json_put_number(hr_string *out, int64_t number, hr_error *err);

#endif
