/* Text to tokens and back as a recipe's model has them: by its tokenizer, or byte by byte. */
#ifndef HR_DATA_CODEC_H
#define HR_DATA_CODEC_H

#include "recipe/recipe.h"
#include "text/tokenizer.h"

typedef struct hr_codec {
  hr_tokenizer *tokenizer; /* NULL: tokens are bytes */
  hr_encoder *encoder;
} hr_codec;

/* What hr__tokens_setting (tokens.h) names. */
hr_status hr__codec_open(const hr_recipe *recipe, hr_codec *out, hr_error *err);
void hr__codec_close(hr_codec *codec);

/* Memory that one of a recipe takes, at most, by the size of its file: once it is open, and while it is read. Measured
 * with vocabularies of 128,000 tokens in tokenizer.json: 3.6, and 8.9 to 9.4 bytes for each of the file's. */
typedef struct hr_codec_bytes {
  uint64_t open, reading;
} hr_codec_bytes;
hr_codec_bytes hr__codec_bytes(const hr_recipe *recipe);

/* Appends the tokens of a text, with what the tokenizer puts before one where `begins`. */
hr_status hr__codec_encode(const hr_codec *codec, const char *text, size_t bytes, bool begins, hr_ids *ids,
                           hr_error *err);

/* Text of tokens, one after the other: what is appended is final and well-formed UTF-8, and special tokens are left
 * out. hr__codec_stream_end appends what was held back. */
typedef struct hr_codec_stream {
  hr_text_stream *tokens; /* NULL: bytes */
  hr_string held;         /* of bytes: the beginning of a character */
} hr_codec_stream;
hr_status hr__codec_stream_begin(const hr_codec *codec, hr_codec_stream *out, hr_error *err);
hr_status hr__codec_stream_put(hr_codec_stream *stream, int32_t id, hr_string *out, hr_error *err);
hr_status hr__codec_stream_end(hr_codec_stream *stream, hr_string *out, hr_error *err);
void hr__codec_stream_destroy(hr_codec_stream *stream);

#endif
