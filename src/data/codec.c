/* See codec.h. */
#include "data/codec.h"

#include "data/tokens.h"
#include "text/decode.h"

hr_status hr__codec_open(const hr_recipe *recipe, hr_codec *out, hr_error *err) {
  *out = (hr_codec){0};
  if (hr__tokens_are_bytes(recipe)) return HR_OK;
  HR_TRY(hr__tokens_tokenizer(recipe, &out->tokenizer, err));
  hr_status status = hr__encoder_create(out->tokenizer, &out->encoder, err);
  if (status != HR_OK) hr__codec_close(out);
  return status;
}

hr_codec_bytes hr__codec_bytes(const hr_recipe *recipe) {
  if (hr__tokens_are_bytes(recipe)) return (hr_codec_bytes){0};
  uint64_t bytes = hr__tokenizer_file_bytes(hr__recipe_text(recipe, hr__tokens_setting(recipe)));
  return (hr_codec_bytes){.open = 4 * bytes, .reading = 10 * bytes};
}

void hr__codec_close(hr_codec *codec) {
  if (codec->encoder) hr__encoder_destroy(codec->encoder);
  if (codec->tokenizer) hr__tokenizer_close(codec->tokenizer);
  *codec = (hr_codec){0};
}

hr_status hr__codec_encode(const hr_codec *codec, const char *text, size_t bytes, bool begins, hr_ids *ids,
                           hr_error *err) {
  if (codec->tokenizer) {
    if (begins) HR_TRY(hr__encode_before(codec->tokenizer, ids, err));
    return hr__encode(codec->encoder, text, bytes, false, ids, err);
  }
  HR_TRY(hr__ids_room(ids, bytes, err));
  for (size_t i = 0; i < bytes; i++)
    ids->items[ids->count++] = (unsigned char)text[i];
  return HR_OK;
}

hr_status hr__codec_stream_begin(const hr_codec *codec, hr_codec_stream *out, hr_error *err) {
  *out = (hr_codec_stream){0};
  return codec->tokenizer ? hr__text_stream_create(codec->tokenizer, true, &out->tokens, err) : HR_OK;
}

/* Bytes that a character takes, by its first one. */
static size_t character_bytes(unsigned char first) {
  return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
}

/* How many bytes at the end are the beginning of a character that more may follow. */
static size_t unfinished(const hr_string *text) {
  for (size_t back = 1; back <= 3 && back <= text->count; back++) {
    unsigned char byte = (unsigned char)text->data[text->count - back];
    if (byte >= 0xc0) return character_bytes(byte) > back ? back : 0;
    if (byte < 0x80) return 0;
  }
  return 0;
}

static hr_status held_release(hr_string *held, size_t count, hr_string *out, hr_error *err) {
  if (count == 0) return HR_OK;
  HR_TRY(hr__utf8_mend(held->data, count, out, err));
  memmove(held->data, held->data + count, held->count - count);
  held->count -= count;
  return HR_OK;
}

hr_status hr__codec_stream_put(hr_codec_stream *stream, int32_t id, hr_string *out, hr_error *err) {
  if (stream->tokens) return hr__text_stream_put(stream->tokens, id, out, err);
  char byte = (char)(unsigned char)id;
  if (id < 0 || id > 255) return HR_OK; /* a vocabulary may be larger than bytes are many: it stands for nothing */
  HR_TRY(hr__string_add(&stream->held, &byte, 1, err));
  return held_release(&stream->held, stream->held.count - unfinished(&stream->held), out, err);
}

hr_status hr__codec_stream_end(hr_codec_stream *stream, hr_string *out, hr_error *err) {
  if (stream->tokens) return hr__text_stream_end(stream->tokens, out, err);
  return held_release(&stream->held, stream->held.count, out, err);
}

void hr__codec_stream_destroy(hr_codec_stream *stream) {
  if (stream->tokens) hr__text_stream_destroy(stream->tokens);
  hr__string_fini(&stream->held);
  *stream = (hr_codec_stream){0};
}
