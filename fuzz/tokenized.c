#include "tokenized.h"

#include <string.h>

#include "demand.h"
#include "format/doc.h"

static void text_check(const hr_tokenizer *t, hr_encoder *encoder, const char *text, size_t bytes) {
  hr_error err = {0};
  hr_ids ids = {0}, again = {0};
  hr_string back = {0};
  hr_status status = hr__encode(encoder, text, bytes, true, &ids, &err);
  DEMAND(status == HR_OK || ((status == HR_BAD_INPUT || status == HR_FAILURE) && err.message[0]));
  if (status == HR_OK) {
    for (size_t i = 0; i < ids.count; i++)
      DEMAND(ids.items[i] >= 0 && (size_t)ids.items[i] < hr__tokenizer_count(t));
    DEMAND(hr__encode(encoder, text, bytes, true, &again, &err) == HR_OK); /* from the cache the same */
    DEMAND(again.count == ids.count && (ids.count == 0 || memcmp(again.items, ids.items, 4 * ids.count) == 0));
    status = hr__decode(t, ids.items, ids.count, false, &back, &err);
    DEMAND(status == HR_OK || (status == HR_BAD_INPUT && err.message[0]));
    DEMAND(status != HR_OK || hr__utf8_check(back.data, back.count) == back.count);
    hr_text_stream *stream = NULL;
    DEMAND(hr__text_stream_create(t, true, &stream, &err) == HR_OK);
    for (size_t i = 0; i < ids.count && i < 64 && status == HR_OK; i++)
      status = hr__text_stream_put(stream, ids.items[i], &back, &err);
    hr__text_stream_destroy(stream);
  }
  hr__ids_fini(&ids);
  hr__ids_fini(&again);
  hr__string_fini(&back);
}

void tokenized_check(hr_tokenizer *t, const char *text, size_t bytes) {
  static const char *const texts[] = {"", "the a b ab", " it's 12345\n\n x\xc3\xa9\xe4\xbd\xa0 \xf0\x9f\x91\x8d <s>",
                                      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  hr_encoder *encoder = NULL;
  hr_error err = {0};
  DEMAND(hr__encoder_create(t, &encoder, &err) == HR_OK);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    text_check(t, encoder, texts[i], strlen(texts[i]));
  text_check(t, encoder, text, bytes < 4096 ? bytes : 4096);
  hr__encoder_destroy(encoder);
}
