/* The kinds of vocabulary files: one row each, the best one first. */
#ifndef HR_TEXT_KINDS_H
#define HR_TEXT_KINDS_H

#include "format/gguf.h"
#include "text/build.h"

typedef struct hr_vocabulary_kind {
  const char *file;   /* its name in a model's folder; NULL: it is in none */
  const char *ending; /* of other names that it goes by; NULL: none */
  /* Whether a file of that name is of this kind, from its first bytes; NULL: the name is enough. */
  bool (*looks_like)(const char *head, size_t bytes);
  hr_status (*load)(hr_tokenizer *t, const char *path, hr_error *err);
} hr_vocabulary_kind;

hr_status hr__load_tokenizer_json(hr_tokenizer *t, const char *path, hr_error *err);
hr_status hr__load_tekken(hr_tokenizer *t, const char *path, hr_error *err);
hr_status hr__load_tiktoken(hr_tokenizer *t, const char *path, hr_error *err);
hr_status hr__load_sentencepiece(hr_tokenizer *t, const char *path, hr_error *err);
hr_status hr__load_vocab_json(hr_tokenizer *t, const char *path, hr_error *err);
hr_status hr__load_gguf(hr_tokenizer *t, const char *path, hr_error *err);
hr_status hr__load_vocab_txt(hr_tokenizer *t, const char *path, hr_error *err);

/* tokenizer.json that is in memory; `name` is for places. */
hr_status hr__parse_tokenizer_json(hr_tokenizer *t, const char *name, const char *text, size_t bytes, hr_error *err);

/* The tokenizer of an open GGUF file. */
hr_status hr__parse_gguf(hr_tokenizer *t, const hr_gguf *file, const char *name, hr_error *err);

bool hr__looks_tiktoken(const char *head, size_t bytes);
bool hr__looks_sentencepiece(const char *head, size_t bytes);
bool hr__looks_gguf(const char *head, size_t bytes);

/* What the model's folder says beside the vocabulary: roles of tokens, ids that end a text. `path` is the vocabulary
 * file; files that are not there say nothing. */
hr_status hr__load_roles(hr_tokenizer *t, const char *path, hr_error *err);

#endif
