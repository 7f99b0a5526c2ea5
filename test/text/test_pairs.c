/* Two texts as one list of ids, with their types, against the reference library (make_pairs.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/item.h"
#include "text/tokenizer.h"

#define FOLDER HR_SOURCE_DIR "/test/text/"

static void list_equal(const char *name, const char *what, const json_t *expected, const hr_ids *ids) {
  if (json_array_size(expected) != ids->count)
    fail_msg("%s: %zu %s, expected %zu", name, ids->count, what, json_array_size(expected));
  for (size_t i = 0; i < ids->count; i++)
    if (json_integer_value(json_array_get(expected, i)) != ids->items[i])
      fail_msg("%s: %s number %zu is %d, expected %d", name, what, i, (int)ids->items[i],
               (int)json_integer_value(json_array_get(expected, i)));
}

static hr_text_pair texts_of(const json_t *row) {
  const json_t *first = json_object_get(row, "first"), *second = json_object_get(row, "second");
  return (hr_text_pair){{json_string_value(first), json_string_value(second)},
                        {json_string_length(first), json_string_length(second)}};
}

static void rows_check(const char *name, const char *source) {
  char path[512];
  hr_error err = {0};
  hr_arena arena = {0};
  hr_item_file golden;
  hr_tokenizer *t = NULL;
  hr_encoder *encoder = NULL;
  hr_ids ids = {0}, types = {0};
  snprintf(path, sizeof path, FOLDER "pairs/%s/pairs.json", name);
  assert_int_equal(hr__item_open(path, &arena, &golden, &err), HR_OK);
  if (hr__tokenizer_open(source, &t, &err) != HR_OK) fail_msg("%s: %s: %s", source, err.place, err.message);
  assert_int_equal(hr__encoder_create(t, &encoder, &err), HR_OK);
  assert_true(json_array_size(golden.root) >= 36);
  for (size_t i = 0; i < json_array_size(golden.root); i++) {
    const json_t *row = json_array_get(golden.root, i);
    hr_text_pair texts = texts_of(row);
    for (int special = 0; special < 2; special++) {
      const json_t *expected = json_object_get(row, special ? "special" : "plain");
      ids.count = types.count = 0;
      assert_int_equal(hr__encode_pair(encoder, &texts, special, &ids, &types, &err), HR_OK);
      list_equal(name, "ids", json_object_get(expected, "ids"), &ids);
      list_equal(name, "types", json_object_get(expected, "types"), &types);
      ids.count = 0;
      assert_int_equal(hr__encode_pair(encoder, &texts, special, &ids, NULL, &err), HR_OK); /* types are not wanted */
      list_equal(name, "ids", json_object_get(expected, "ids"), &ids);
    }
  }
  hr__ids_fini(&ids);
  hr__ids_fini(&types);
  hr__encoder_destroy(encoder);
  hr__tokenizer_close(t);
  hr__arena_fini(&arena);
}

static void golden(void **state) {
  static const char *const names[] = {"template",  "swapped",    "roberta", "levels",
                                      "wordpiece", "byte-level", "llama3",  "fallback"};
  char source[512];
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(source, sizeof source, FOLDER "pairs/%s", names[i]);
    if (!hr__tokenizer_is_there(source)) snprintf(source, sizeof source, FOLDER "tokenizers/%s", names[i]);
    rows_check(names[i], source);
  }
  rows_check("wordpiece", FOLDER "tokenizers/vocab-txt"); /* the same vocabulary, without a post-processor */
}

static hr_tokenizer *with_pair(const char *processor) {
  char path[] = "/tmp/hr_pair_XXXXXX.json";
  int fd = mkstemps(path, 5);
  hr_tokenizer *t = NULL;
  hr_error err = {0};
  assert_true(fd >= 0);
  dprintf(fd,
          "{\"added_tokens\": [], \"post_processor\": %s, \"model\": {\"type\": \"WordLevel\", \"unk_token\": \"u\", "
          "\"vocab\": {\"u\": 0, \"c\": 1}}}",
          processor);
  close(fd);
  if (hr__tokenizer_open(path, &t, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  unlink(path);
  return t;
}

#define TEMPLATE(pair)                                                                                                 \
  "{\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": " pair  \
  ", \"special_tokens\": {\"c\": {\"id\": \"c\", \"ids\": [1], \"tokens\": [\"c\"]}}}"
#define A "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"
#define B "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}"

/* What is not understood of a pair is refused where two texts are encoded, and nowhere else. */
static void refused(void **state) {
  static const char *const cases[] = {
      TEMPLATE("[" A "]"),
      TEMPLATE("[" A ", " B ", " A "]"),
      TEMPLATE("[]"),
      TEMPLATE("null"),
      TEMPLATE("[" A ", {\"SpecialToken\": {\"id\": \"x\", \"type_id\": 0}}, " B "]"),
      TEMPLATE("[" A ", {\"Sequence\": {\"id\": \"B\", \"type_id\": -1}}]"),
      "{\"type\": \"Sequence\", \"processors\": [" TEMPLATE("[" A ", " B "]") ", " TEMPLATE("[" A ", " B "]") "]}",
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_tokenizer *t = with_pair(cases[i]);
    hr_encoder *encoder = NULL;
    hr_error err = {0};
    hr_ids ids = {0}, types = {0};
    hr_text_pair texts = {{"c", "u"}, {1, 1}};
    assert_int_equal(hr__encoder_create(t, &encoder, &err), HR_OK);
    assert_int_equal(hr__encode(encoder, "c", 1, true, &ids, &err), HR_OK);
    assert_int_equal(ids.count, 1);
    assert_int_equal(hr__encode_pair(encoder, &texts, true, &ids, &types, &err), HR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "two texts"));
    assert_int_equal(ids.count, 1);
    assert_int_equal(types.count, 0);
    hr__ids_fini(&ids);
    hr__encoder_destroy(encoder);
    hr__tokenizer_close(t);
  }
}

/* Text that is not UTF-8 leaves nothing behind, and is named. */
static void damaged(void **state) {
  (void)state;
  hr_tokenizer *t = with_pair(TEMPLATE("[{\"SpecialToken\": {\"id\": \"c\", \"type_id\": 0}}, " A ", " B "]"));
  hr_encoder *encoder = NULL;
  hr_error err = {0};
  hr_ids ids = {0}, types = {0};
  hr_text_pair texts = {{"c", "x\xff"}, {1, 2}};
  assert_int_equal(hr__encoder_create(t, &encoder, &err), HR_OK);
  assert_int_equal(hr__encode_pair(encoder, &texts, true, &ids, &types, &err), HR_BAD_INPUT);
  assert_string_equal(err.place, "second text, line 1, byte 2");
  assert_int_equal(ids.count, 0);
  assert_int_equal(types.count, 0);
  hr__ids_fini(&ids);
  hr__ids_fini(&types);
  hr__encoder_destroy(encoder);
  hr__tokenizer_close(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(golden), cmocka_unit_test(refused), cmocka_unit_test(damaged)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
