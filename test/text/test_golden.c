/* Small tokenizers of every kind against ids and texts of the reference libraries (make_golden.py makes both), at once,
 * token by token, and from an encoder that has seen every text before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "format/item.h"
#include "text/tokenizer.h"

typedef struct open {
  hr_tokenizer *tokenizer;
  hr_encoder *encoder;
} open;

static void stream_check(const hr_tokenizer *tokenizer, const hr_ids *ids, const char *back, size_t bytes) {
  hr_error err = {0};
  hr_text_stream *stream = NULL;
  hr_string text = {0};
  assert_int_equal(hr__text_stream_create(tokenizer, false, &stream, &err), HR_OK);
  for (size_t i = 0; i < ids->count; i++)
    assert_int_equal(hr__text_stream_put(stream, ids->items[i], &text, &err), HR_OK);
  assert_int_equal(hr__text_stream_end(stream, &text, &err), HR_OK);
  assert_int_equal(text.count, bytes);
  if (bytes > 0) assert_memory_equal(text.data, back, bytes);
  hr__text_stream_destroy(stream);
  hr__string_fini(&text);
}

static void row_check(const open *o, const char *name, json_t *row) {
  json_t *text = json_object_get(row, "text"), *expected = json_object_get(row, "ids"),
         *back = json_object_get(row, "back");
  hr_error err = {0};
  hr_ids ids = {0};
  hr_string decoded = {0};
  assert_int_equal(hr__encode(o->encoder, json_string_value(text), json_string_length(text), true, &ids, &err), HR_OK);
  bool same = ids.count == json_array_size(expected);
  for (size_t i = 0; same && i < ids.count; i++)
    same = ids.items[i] == json_integer_value(json_array_get(expected, i));
  if (!same) {
    print_error("%s: '%s'\n", name, json_string_value(text));
    for (size_t i = 0; i < ids.count; i++)
      print_error(" %d", (int)ids.items[i]);
    fail_msg("other ids than the reference");
  }
  assert_int_equal(hr__decode(o->tokenizer, ids.items, ids.count, false, &decoded, &err), HR_OK);
  if (back) {
    if (decoded.count != json_string_length(back) ||
        memcmp(decoded.data ? decoded.data : "", json_string_value(back), decoded.count) != 0)
      fail_msg("%s: '%s' comes back as '%.*s'", name, json_string_value(back), (int)decoded.count, decoded.data);
    /* What a run of byte tokens means shows only at its end: a stream may have given a part of it before. */
    if (strncmp(name, "fallback", 8) != 0)
      stream_check(o->tokenizer, &ids, json_string_value(back), json_string_length(back));
  }
  hr__ids_fini(&ids);
  hr__string_fini(&decoded);
}

static void folder_check(const char *name) {
  char path[512];
  hr_error err = {0};
  hr_arena arena = {0};
  hr_item_file golden;
  open o = {0};
  snprintf(path, sizeof path, HR_SOURCE_DIR "/test/text/tokenizers/%s/golden.json", name);
  assert_int_equal(hr__item_open(path, &arena, &golden, &err), HR_OK);
  snprintf(path, sizeof path, HR_SOURCE_DIR "/test/text/tokenizers/%s", name);
  if (hr__tokenizer_open(path, &o.tokenizer, &err) != HR_OK) fail_msg("%s: %s: %s", name, err.place, err.message);
  assert_null(hr__tokenizer_remark(o.tokenizer));
  assert_int_equal(hr__encoder_create(o.tokenizer, &o.encoder, &err), HR_OK);
  assert_true(json_array_size(golden.root) > 50);
  for (int again = 0; again < 2; again++) /* the second time from the cache */
    for (size_t i = 0; i < json_array_size(golden.root); i++)
      row_check(&o, name, json_array_get(golden.root, i));
  hr__encoder_destroy(o.encoder);
  hr__tokenizer_close(o.tokenizer);
  hr__arena_fini(&arena);
}

static void golden(void **state) {
  (void)state;
  DIR *folder = opendir(HR_SOURCE_DIR "/test/text/tokenizers");
  assert_non_null(folder);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
    if (entry->d_name[0] != '.') {
      folder_check(entry->d_name);
      count++;
    }
  closedir(folder);
  assert_true(count >= 20);
}

/* What a data source asks for: vocabulary, roles, text with and without special tokens. */
static void interface(void **state) {
  (void)state;
  hr_error err = {0};
  hr_tokenizer *t = NULL;
  assert_int_equal(hr__tokenizer_open(HR_SOURCE_DIR "/test/text/tokenizers/byte-level/", &t, &err), HR_OK);
  assert_int_equal(hr__tokenizer_count(t), 420);
  assert_int_equal(hr__tokenizer_role(t, HR_TOKEN_END), 0);
  assert_int_equal(hr__tokenizer_role(t, HR_TOKEN_BEGIN), 0);
  assert_int_equal(hr__tokenizer_role(t, HR_TOKEN_PAD), -1);
  size_t count = 0, bytes = 0;
  const int32_t *ends = hr__tokenizer_ends(t, &count);
  assert_int_equal(count, 1);
  assert_int_equal(ends[0], 0);
  assert_string_equal(hr__tokenizer_piece(t, 0, &bytes), "<|end|>");
  assert_true(hr__tokenizer_is_special(t, 0) && !hr__tokenizer_is_special(t, 1) && !hr__tokenizer_is_special(t, 420));
  assert_null(hr__tokenizer_piece(t, 420, &bytes));
  assert_null(hr__tokenizer_piece(t, -1, &bytes));
  hr_string text = {0};
  int32_t none = 420, end = 0;
  assert_int_equal(hr__decode(t, &none, 1, false, &text, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "no token 420"));
  assert_int_equal(hr__decode(t, &end, 1, true, &text, &err), HR_OK);
  assert_int_equal(text.count, 0);
  hr__string_fini(&text);
  hr__tokenizer_close(t);
  assert_int_equal(hr__tokenizer_open(HR_SOURCE_DIR "/test/text/tokenizers/fallback", &t, &err), HR_OK);
  hr_encoder *encoder = NULL;
  hr_ids ids = {0};
  assert_int_equal(hr__encoder_create(t, &encoder, &err), HR_OK);
  assert_int_equal(hr__encode(encoder, "", 0, false, &ids, &err), HR_OK);
  assert_int_equal(ids.count, 0);
  assert_int_equal(hr__encode(encoder, "", 0, true, &ids, &err), HR_OK);
  assert_int_equal(ids.count, 2);
  /* Broken UTF-8 is named by line and byte, and leaves the ids as they were. */
  assert_int_equal(hr__encode(encoder, "one\ntwo \xff", 9, true, &ids, &err), HR_BAD_INPUT);
  assert_string_equal(err.place, "line 2, byte 5");
  assert_int_equal(ids.count, 2);
  hr__ids_fini(&ids);
  hr__encoder_destroy(encoder);
  hr__tokenizer_close(t);
}

/* A character of three bytes in three tokens: nothing is given out before the last one. */
static void held_back(void **state) {
  (void)state;
  hr_error err = {0};
  hr_tokenizer *t = NULL;
  hr_text_stream *stream = NULL;
  assert_int_equal(hr__tokenizer_open(HR_SOURCE_DIR "/test/text/tokenizers/fallback", &t, &err), HR_OK);
  assert_int_equal(hr__text_stream_create(t, true, &stream, &err), HR_OK);
  hr_string text = {0};
  static const char *const pieces[] = {"<s>", "▁the", "<0xE2>", "<0x82>", "<0xAC>", "▁the"};
  static const size_t expected[] = {0, 3, 3, 3, 6, 10};
  for (size_t i = 0; i < 6; i++) {
    int32_t id = hr__tokenizer_find(t, pieces[i], strlen(pieces[i]));
    assert_true(id >= 0);
    assert_int_equal(hr__text_stream_put(stream, id, &text, &err), HR_OK);
    assert_int_equal(text.count, expected[i]);
  }
  assert_int_equal(hr__text_stream_end(stream, &text, &err), HR_OK);
  assert_memory_equal(text.data, "the\xe2\x82\xac the", 10);
  hr__text_stream_destroy(stream);
  hr__string_fini(&text);
  hr__tokenizer_close(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(golden), cmocka_unit_test(interface),
                                     cmocka_unit_test(held_back)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
