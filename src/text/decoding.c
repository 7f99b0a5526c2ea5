/* Decoding: pieces of ids through the tokenizer's decoders, at once or as a stream. */
#include "text/build.h"

static hr_status pieces_list(const hr_tokenizer *t, const int32_t *ids, size_t count, bool skip_special, hr_texts *out,
                             hr_error *err) {
  for (size_t i = 0; i < count; i++) {
    size_t bytes = 0;
    const char *piece = hr__tokenizer_piece(t, ids[i], &bytes);
    if (!piece)
      return hr__fail(err, HR_BAD_INPUT, t->file, NULL, "there is no token %d; ids go from 0 to %zu", (int)ids[i],
                      t->count - (t->count > 0));
    if (skip_special && t->pieces[ids[i]].special) continue;
    HR_TRY(hr__string_add(&out->bytes, piece, bytes, err));
    HR_TRY(hr__texts_end(out, err));
  }
  return HR_OK;
}

static hr_status texts_join(const hr_texts *texts, const char *between, hr_string *out, hr_error *err) {
  for (size_t i = 0; i < texts->count; i++) {
    size_t bytes;
    const char *text = hr__texts_at(texts, i, &bytes);
    if (i > 0) HR_TRY(hr__string_add(out, between, strlen(between), err));
    HR_TRY(hr__string_add(out, text, bytes, err));
  }
  return HR_OK;
}

static hr_status decode(const hr_tokenizer *t, const int32_t *ids, size_t count, bool skip_special, hr_texts texts[2],
                        hr_string *out, hr_error *err) {
  hr__texts_clear(&texts[0]);
  HR_TRY(pieces_list(t, ids, count, skip_special, &texts[0], err));
  size_t from = texts[0].bytes.count;
  if (t->decoder_count == 0) return texts_join(&texts[0], " ", out, err);
  for (size_t i = 0; i < t->decoder_count; i++) {
    hr__texts_clear(&texts[(i + 1) % 2]);
    HR_TRY(t->decoders[i].run(&t->decoders[i], &texts[i % 2], &texts[(i + 1) % 2], err));
    HR_TRY(hr__string_bounded(&texts[(i + 1) % 2].bytes, from, err));
  }
  return texts_join(&texts[t->decoder_count % 2], "", out, err);
}

hr_status hr__decode(const hr_tokenizer *t, const int32_t *ids, size_t count, bool skip_special, hr_string *out,
                     hr_error *err) {
  hr_texts texts[2] = {{{0}, {0}, 0}, {{0}, {0}, 0}};
  hr_status status = decode(t, ids, count, skip_special, texts, out, err);
  hr__texts_fini(&texts[0]);
  hr__texts_fini(&texts[1]);
  return status;
}

/* A window of the last tokens is decoded again with each new one; what is longer than before is new. It begins at the
 * tokens of the last text that was given out, so that what a decoder does to a first token stays behind. */
struct hr_text_stream {
  const hr_tokenizer *tokenizer;
  bool skip_special;
  hr_ids ids;       /* of the window */
  size_t given;     /* of them, those whose text was given out */
  hr_string before; /* their text */
  hr_string now;
  hr_texts texts[2];
};

hr_status hr__text_stream_create(const hr_tokenizer *t, bool skip_special, hr_text_stream **out, hr_error *err) {
  hr_text_stream *stream = hr__alloc_zero(1, sizeof *stream);
  if (!stream) return hr__nomem(err);
  stream->tokenizer = t;
  stream->skip_special = skip_special;
  *out = stream;
  return HR_OK;
}

void hr__text_stream_destroy(hr_text_stream *stream) {
  if (!stream) return;
  hr__ids_fini(&stream->ids);
  hr__string_fini(&stream->before);
  hr__string_fini(&stream->now);
  hr__texts_fini(&stream->texts[0]);
  hr__texts_fini(&stream->texts[1]);
  hr__free(stream);
}

static hr_status window_decode(hr_text_stream *s, hr_string *out, hr_error *err) {
  out->count = 0;
  return decode(s->tokenizer, s->ids.items, s->ids.count, s->skip_special, s->texts, out, err);
}

static bool ends_open(const hr_string *text) {
  return text->count >= 3 && memcmp(text->data + text->count - 3, "\xef\xbf\xbd", 3) == 0;
}

static hr_status rest_give(hr_text_stream *s, hr_string *out, hr_error *err) {
  if (s->now.count <= s->before.count) return HR_OK;
  return hr__string_add(out, s->now.data + s->before.count, s->now.count - s->before.count, err);
}

hr_status hr__text_stream_put(hr_text_stream *s, int32_t id, hr_string *out, hr_error *err) {
  HR_TRY(hr__ids_add(&s->ids, id, err));
  hr_status status = window_decode(s, &s->now, err);
  if (status != HR_OK) {
    s->ids.count--;
    return status;
  }
  if (s->now.count <= s->before.count || ends_open(&s->now)) return HR_OK;
  HR_TRY(rest_give(s, out, err));
  memmove(s->ids.items, s->ids.items + s->given, (s->ids.count - s->given) * sizeof *s->ids.items);
  s->ids.count -= s->given;
  s->given = s->ids.count;
  return window_decode(s, &s->before, err);
}

hr_status hr__text_stream_end(hr_text_stream *s, hr_string *out, hr_error *err) {
  HR_TRY(window_decode(s, &s->now, err));
  HR_TRY(rest_give(s, out, err));
  s->ids.count = s->given = s->before.count = 0;
  return HR_OK;
}
