/* Lack of memory in text: every request of ours, jansson's and PCRE2's fails in turn, while tokenizers of every kind
 * are opened and used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/faults.h"
#include "text/tokenizer.h"

static hr_status use(const hr_tokenizer *t, hr_error *err) {
  static const char text[] = "The cats, it's 12345 caf\xc3\xa9 \xe4\xbd\xa0 <mask> [CLS]--word ab";
  hr_encoder *encoder = NULL;
  hr_text_stream *stream = NULL;
  hr_ids ids = {0};
  hr_string back = {0};
  HR_TRY(hr__encoder_create(t, &encoder, err));
  hr_status status = hr__encode(encoder, text, sizeof text - 1, true, &ids, err);
  if (status == HR_OK) status = hr__decode(t, ids.items, ids.count, false, &back, err);
  if (status == HR_OK) status = hr__text_stream_create(t, false, &stream, err);
  for (size_t i = 0; i < ids.count && status == HR_OK; i++)
    status = hr__text_stream_put(stream, ids.items[i], &back, err);
  if (status == HR_OK) status = hr__text_stream_end(stream, &back, err);
  hr__text_stream_destroy(stream);
  hr__encoder_destroy(encoder);
  hr__ids_fini(&ids);
  hr__string_fini(&back);
  return status;
}

static hr_status body(void *arg, hr_error *err) {
  hr_tokenizer *t = NULL;
  HR_TRY(hr__tokenizer_open(arg, &t, err));
  hr_status status = use(t, err);
  hr__tokenizer_close(t);
  return status;
}

static void faults(void **state) {
  (void)state;
  static const char *const names[] = {"added",   "behind-bytes", "wordpiece", "unigram",    "fallback",  "delimiter",
                                      "spm-bpe", "spm-unigram",  "tekken",    "vocab-json", "vocab-txt", "deepseek"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[512];
    snprintf(path, sizeof path, HR_SOURCE_DIR "/test/text/tokenizers/%s", names[i]);
    assert_true(hr_test_each_fault(body, path) >= 15);
  }
  static const char *const files[] = {"qwen", "fallback"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[512];
    snprintf(path, sizeof path, HR_SOURCE_DIR "/test/text/gguf/%s.gguf", files[i]);
    assert_true(hr_test_each_fault(body, path) >= 15);
  }
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(faults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
