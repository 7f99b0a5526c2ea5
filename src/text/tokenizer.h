/* Tokenizers: text to token ids and back, as the libraries do that models were trained with.
 *
 *   hr_tokenizer *tokenizer;                      one for all threads: it never changes
 *   hr__tokenizer_open("models/x", &tokenizer, err);
 *   hr_encoder *encoder;                          one for each thread: buffers, and a cache of words
 *   hr__encoder_create(tokenizer, &encoder, err);
 *   hr_ids ids = {0};
 *   hr__encode(encoder, text, bytes, true, &ids, err);
 */
#ifndef HR_TEXT_TOKENIZER_H
#define HR_TEXT_TOKENIZER_H

#include <stdbool.h>

#include "text/grow.h"

typedef struct hr_tokenizer hr_tokenizer;
typedef struct hr_encoder hr_encoder;

/* Opens the vocabulary file that a path names, or the best one of a model's folder (text/kinds.c says which there are).
 * Whatever the file asks for that is not known here is an error with its name, line and column. */
hr_status hr__tokenizer_open(const char *path, hr_tokenizer **out, hr_error *err);
bool hr__tokenizer_is_there(const char *path); /* whether a model's folder has any of these files; GGUF files may */
/* The name in a model's folder of the vocabulary file that a path names; NULL: it is none. */
const char *hr__tokenizer_file_name(const char *path);
/* Of the file that would be opened, of a GGUF file about those of the same tokenizer.json; 0: there is none. */
uint64_t hr__tokenizer_file_bytes(const char *path);
void hr__tokenizer_close(hr_tokenizer *tokenizer);

/* Ids are 0 to count - 1; some of them may stand for nothing. */
size_t hr__tokenizer_count(const hr_tokenizer *tokenizer);
const char *hr__tokenizer_file(const hr_tokenizer *tokenizer);   /* that it was read from */
const char *hr__tokenizer_model(const hr_tokenizer *tokenizer);  /* "byte-level BPE", "WordPiece", ... */
const char *hr__tokenizer_remark(const hr_tokenizer *tokenizer); /* something a user should know of the file, or NULL */

/* A token as its file writes it ("Ġthe", "▁the", "##the"); NULL: no such token. */
const char *hr__tokenizer_piece(const hr_tokenizer *tokenizer, int64_t id, size_t *bytes);
int32_t hr__tokenizer_find(const hr_tokenizer *tokenizer, const char *piece, size_t bytes); /* -1: none */
bool hr__tokenizer_is_special(const hr_tokenizer *tokenizer, int64_t id);
/* The bytes of text that a token stands for, appended; those of byte-level tokenizers need not be UTF-8. */
hr_status hr__tokenizer_text(const hr_tokenizer *tokenizer, int64_t id, hr_string *out, hr_error *err);

/* Tokens with a role, as the model's folder names them. */
typedef enum hr_token_role {
  HR_TOKEN_BEGIN,
  HR_TOKEN_END,
  HR_TOKEN_UNKNOWN,
  HR_TOKEN_PAD,
  HR_TOKEN_MASK,
  HR_TOKEN_CLASS,
  HR_TOKEN_SEPARATOR,
  HR_TOKEN_ROLES
} hr_token_role;
const char *hr__token_role_name(hr_token_role role);                           /* "eos_token", as configs write it */
int32_t hr__tokenizer_role(const hr_tokenizer *tokenizer, hr_token_role role); /* -1: none */
/* All ids that end a text: the end token, and what generation_config.json adds to it. */
const int32_t *hr__tokenizer_ends(const hr_tokenizer *tokenizer, size_t *count);

hr_status hr__encoder_create(const hr_tokenizer *tokenizer, hr_encoder **out, hr_error *err);
void hr__encoder_destroy(hr_encoder *encoder);
/* Of its buffers, which grow with the longest text so far; the cache of words comes on top. */
uint64_t hr__encoder_bytes(const hr_encoder *encoder);

/* Appends the ids of a text, with those that the tokenizer puts round a text where `add_special`. Text that is not
 * UTF-8 is HR_BAD_INPUT with line and byte; nothing is then appended. Texts are never truncated or padded. */
hr_status hr__encode(hr_encoder *encoder, const char *text, size_t bytes, bool add_special, hr_ids *ids, hr_error *err);

/* Two texts as one list of ids, with a type for each in `types` (NULL: not wanted), by the tokenizer's post-processor
 * for two texts: [CLS] first [SEP] second [SEP] for BERT, with types 0 0 0 1 1. Without one, each has round it what one
 * text alone has. Errors as above; the place says which text. */
typedef struct hr_text_pair {
  const char *text[2];
  size_t bytes[2];
} hr_text_pair;
hr_status hr__encode_pair(hr_encoder *encoder, const hr_text_pair *texts, bool add_special, hr_ids *ids, hr_ids *types,
                          hr_error *err);

/* What goes before a text with special tokens, and behind it: for texts that are encoded in pieces. */
hr_status hr__encode_before(const hr_tokenizer *tokenizer, hr_ids *ids, hr_error *err);
hr_status hr__encode_behind(const hr_tokenizer *tokenizer, hr_ids *ids, hr_error *err);

/* Appends the text of ids, well-formed UTF-8. An id that the tokenizer does not have is HR_BAD_INPUT. */
hr_status hr__decode(const hr_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special, hr_string *out,
                     hr_error *err);

/* The same token by token: what is appended is final, and a character whose last byte is still to come is held back.
 * hr__text_stream_end appends what is left. */
typedef struct hr_text_stream hr_text_stream;
hr_status hr__text_stream_create(const hr_tokenizer *tokenizer, bool skip_special, hr_text_stream **out, hr_error *err);
hr_status hr__text_stream_put(hr_text_stream *stream, int32_t id, hr_string *out, hr_error *err);
hr_status hr__text_stream_end(hr_text_stream *stream, hr_string *out, hr_error *err);
void hr__text_stream_destroy(hr_text_stream *stream);

#endif
