/* Text and lines as tokens of a tokenizer: the samples, the file that tokens are kept in, and input that is no good. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/keys.h"
#include "part_data.h"
#include "support/faults.h"
#include "text/tokenizer.h"

enum { LENGTH = 8, BATCH = 2, WORDS = 4096 };

static const char words[] = HR_SOURCE_DIR "/test/text/tokenizers/byte-level";

/* Data over a file, read with the tokenizer at `path` as a model of `vocabulary` words takes it. */
typedef struct opening {
  const char *source, *path, *text;
  size_t bytes;
  int64_t vocabulary;
  fixture f;
} opening;

static hr_status data_open(opening *o, hr_error *err) {
  char tokenizer[4200], source[64];
  snprintf(source, sizeof source, "data.source=%s", o->source);
  snprintf(tokenizer, sizeof tokenizer, "data.tokenizer=%s", o->path);
  data_request request = {.file = "tokens.txt",
                          .text = o->text,
                          .bytes = o->bytes,
                          .settings = (const char *const[]){source, tokenizer, NULL},
                          .length = LENGTH,
                          .batch = BATCH,
                          .vocabulary = o->vocabulary ? o->vocabulary : WORDS};
  return request_open(&o->f, &request, err);
}

static void data_close(opening *o) {
  fixture_close(&o->f);
}

static void open_good(opening *o) {
  hr_error err = {0};
  if (data_open(o, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
}

static hr_ids encoded_by(const char *folder, const char *text, size_t bytes) {
  hr_tokenizer *tokenizer;
  hr_encoder *encoder;
  hr_ids ids = {0};
  assert_int_equal(hr__tokenizer_open(folder, &tokenizer, NULL), HR_OK);
  assert_int_equal(hr__encoder_create(tokenizer, &encoder, NULL), HR_OK);
  assert_int_equal(hr__encode(encoder, text, bytes, true, &ids, NULL), HR_OK);
  int32_t end = hr__tokenizer_role(tokenizer, HR_TOKEN_END);
  if (end >= 0 && ids.items[ids.count - 1] != end) assert_int_equal(hr__ids_add(&ids, end, NULL), HR_OK);
  hr__encoder_destroy(encoder);
  hr__tokenizer_close(tokenizer);
  return ids;
}

static hr_ids encoded(const char *text, size_t bytes) {
  return encoded_by(words, text, bytes);
}

static const char prose[] = "In the beginning was the word,\nand the word was with us: 1 + 1 = 2.\n\n"
                            "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.\n"
                            "the end of the text, and a few words more\n";

/* A tokenizer that puts a token behind a text and none before it, as a file of its own. */
static void behind_make(char path[4200]) {
  static const char
      none[] = "\"post_processor\": null",
      behind[] = "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": "
                 "\"A\", \"type_id\": 0}}, {\"SpecialToken\": {\"id\": \"<|end|>\", \"type_id\": 0}}], \"pair\": [], "
                 "\"special_tokens\": {\"<|end|>\": {\"id\": \"<|end|>\", \"ids\": [0], \"tokens\": [\"<|end|>\"]}}}";
  static char text[1 << 20], changed[1 << 20];
  snprintf(path, 4200, "%s/tokenizer.json", words);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  char *at = strstr(text, none);
  assert_non_null(at);
  int bytes = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, behind, at + sizeof none - 1);
  snprintf(path, 4200, "%s/tokens-behind-%ld.json", HR_BINARY_DIR, (long)getpid());
  file_put(path, changed, (size_t)bytes);
}

/* What goes round a text goes round the whole of it. */
static void test_special_tokens_go_round_the_text(void **state) {
  (void)state;
  static const char *const kinds[] = {"fallback", "wordpiece", NULL};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char folder[4200];
    if (kinds[i])
      snprintf(folder, sizeof folder, "%s/test/text/tokenizers/%s", HR_SOURCE_DIR, kinds[i]);
    else
      behind_make(folder);
    opening o = {.source = "text", .path = folder, .text = prose, .bytes = sizeof prose - 1, .vocabulary = 1 << 20};
    hr_ids ids = encoded_by(folder, prose, sizeof prose - 1);
    open_good(&o);
    assert_int_equal(hr__data_train_samples(o.f.data), (ids.count - 1) / LENGTH);
    hr_micro micro = hr__data_micro(o.f.data, 0, false);
    int32_t tokens[BATCH][LENGTH], targets[BATCH][LENGTH];
    assert_int_equal(fill(o.f.data, &micro, tokens[0], targets[0], NULL, NULL), HR_OK);
    for (uint64_t row = 0; row < BATCH; row++)
      assert_memory_equal(tokens[row], ids.items + hr__data_entry(o.f.data, row) * LENGTH, sizeof tokens[row]);
    hr__ids_fini(&ids);
    data_close(&o);
    if (!kinds[i]) unlink(folder);
  }
}

static void test_text_is_cut_into_windows(void **state) {
  (void)state;
  opening o = {.source = "text", .path = words, .text = prose, .bytes = sizeof prose - 1};
  hr_error err = {0};
  hr_ids ids = encoded(prose, sizeof prose - 1);
  open_good(&o);
  int64_t windows = ((int64_t)ids.count - 1) / LENGTH;
  assert_int_equal(hr__data_train_samples(o.f.data), windows);
  assert_true(windows >= 2 * BATCH);
  for (uint64_t sample = 0; sample + BATCH <= (uint64_t)windows; sample += BATCH) {
    hr_micro micro = hr__data_micro(o.f.data, sample, false);
    int32_t tokens[BATCH][LENGTH], targets[BATCH][LENGTH];
    assert_int_equal(fill(o.f.data, &micro, tokens[0], targets[0], NULL, &err), HR_OK);
    for (uint64_t row = 0; row < BATCH; row++) {
      const int32_t *expected = ids.items + hr__data_entry(o.f.data, sample + row) * LENGTH;
      assert_memory_equal(tokens[row], expected, sizeof tokens[row]);
      assert_memory_equal(targets[row], expected + 1, sizeof targets[row]);
    }
  }
  hr__ids_fini(&ids);
  data_close(&o);
}

static void test_lines_end_with_the_end_token(void **state) {
  (void)state;
  static const char text[] = "the word\n\nand\r\na line that is longer than all others of this text, and is cut\n";
  opening o = {.source = "lines", .path = words, .text = text, .bytes = sizeof text - 1};
  hr_error err = {0};
  open_good(&o);
  assert_int_equal(hr__data_train_samples(o.f.data), 3);
  assert_int_equal(hr__data_cut(o.f.data), 1);
  static const char *const lines[] = {"the word", "and",
                                      "a line that is longer than all others of this text, and is cut"};
  bool seen[3] = {false};
  for (uint64_t sample = 0; sample < 4; sample += BATCH) {
    hr_micro micro = hr__data_micro(o.f.data, sample, false);
    int32_t tokens[BATCH][LENGTH], targets[BATCH][LENGTH];
    assert_int_equal(fill(o.f.data, &micro, tokens[0], targets[0], NULL, &err), HR_OK);
    for (int64_t row = 0; row < micro.rows; row++)
      for (int line = 0; line < 3; line++) {
        hr_ids ids = encoded(lines[line], strlen(lines[line]));
        int64_t count = (int64_t)ids.count - 1 < LENGTH ? (int64_t)ids.count - 1 : LENGTH;
        bool same = memcmp(tokens[row], ids.items, (size_t)count * sizeof(int32_t)) == 0 &&
                    memcmp(targets[row], ids.items + 1, (size_t)count * sizeof(int32_t)) == 0;
        for (int64_t t = count; t < LENGTH; t++)
          same = same && tokens[row][t] == 0 && targets[row][t] == -1;
        seen[line] |= same;
        hr__ids_fini(&ids);
      }
  }
  assert_true(seen[0] && seen[1] && seen[2]);
  data_close(&o);
}

static void hash_of(opening *o, char out[HR_XXH_HEX]) {
  hr_trace trace;
  open_good(o);
  assert_int_equal(hr__data_trace(o->f.data, false, &trace, NULL), HR_OK);
  memcpy(out, trace.hash, HR_XXH_HEX);
  data_close(o);
}

static void test_tokens_are_made_once(void **state) {
  (void)state;
  opening o = {.source = "text", .path = words, .text = prose, .bytes = sizeof prose - 1};
  char path[4500], first[HR_XXH_HEX], again[HR_XXH_HEX], other[HR_XXH_HEX];
  struct stat made, now;
  cache_clear();
  hash_of(&o, first);
  assert_int_equal(cache_files(path), 1);
  assert_int_equal(stat(path, &made), 0);
  hash_of(&o, again);
  assert_int_equal(stat(path, &now), 0);
  assert_true(cache_files(path) == 1 && made.st_ino == now.st_ino);
  assert_string_equal(first, again);
  o.bytes--; /* another text */
  hash_of(&o, other);
  assert_string_not_equal(first, other);
  assert_int_equal(cache_files(path), 2);
  o.bytes++;
  o.source = "lines"; /* other documents */
  hash_of(&o, other);
  assert_string_not_equal(first, other);
  o.source = "text";
  o.path = HR_SOURCE_DIR "/test/text/tokenizers/llama3"; /* another tokenizer */
  o.vocabulary = 1 << 20;
  hash_of(&o, other);
  assert_string_not_equal(first, other);
}

/* What a file of the cache may have become: shorter, longer, of other numbers. */
static void test_a_broken_file_is_made_again(void **state) {
  (void)state;
  opening o = {.source = "text", .path = words, .text = prose, .bytes = sizeof prose - 1};
  char path[4500], hash[HR_XXH_HEX];
  cache_clear();
  hash_of(&o, hash);
  assert_int_equal(cache_files(path), 1);
  struct stat whole, now;
  assert_int_equal(stat(path, &whole), 0);
  for (int way = 0; way < 5; way++) {
    FILE *file = fopen(path, "r+");
    uint64_t many = UINT64_MAX / 4;
    if (way == 2 || way == 3) fseek(file, 16 + 8 * (way - 2), SEEK_SET); /* tokens, documents */
    if (way == 4) fseek(file, -8, SEEK_END);                             /* where the last document ends */
    if (way > 0) assert_int_equal(fwrite(&many, sizeof many, 1, file), 1);
    fclose(file);
    if (way == 0) assert_int_equal(truncate(path, whole.st_size - 8), 0);
    open_good(&o);
    assert_true(hr__data_train_samples(o.f.data) > 4);
    data_close(&o);
    assert_true(stat(path, &now) == 0 && now.st_size == whole.st_size && cache_files(path) == 1);
  }
}

static void refused(opening *o, const char *place, const char *message) {
  hr_error err = {0};
  assert_int_equal(data_open(o, &err), HR_BAD_INPUT);
  if (!strstr(err.place, place) || !strstr(err.message, message)) fail_msg("%s: %s", err.place, err.message);
  data_close(o);
}

static void test_bad_input(void **state) {
  (void)state;
  static const char broken[] = "a line\nanother \xff one\n";
  refused(&(opening){.source = "text", .path = words, .text = broken, .bytes = sizeof broken - 1}, ".txt:2:9",
          "not UTF-8: byte 0xff");
  refused(&(opening){.source = "lines", .path = words, .text = broken, .bytes = sizeof broken - 1}, ".txt:2:9",
          "UTF-8");
  refused(&(opening){.source = "text", .path = words, .text = prose, .bytes = sizeof prose - 1, .vocabulary = 40},
          "data.tokenizer", "vocabulary has only 40");
  refused(&(opening){.source = "text", .path = words, .text = "the", .bytes = 3}, ".txt", "tokens are too few");
  refused(&(opening){.source = "text", .path = "/nowhere", .text = "the", .bytes = 3}, "/nowhere", "no such file");
}

static hr_status opened_and_closed(void *arg, hr_error *err) {
  cache_clear();
  hr_status status = data_open(arg, err);
  data_close(arg);
  return status;
}

static void test_memory_that_runs_out(void **state) {
  (void)state;
  opening o = {.source = "lines", .path = words, .text = prose, .bytes = sizeof prose - 1};
  assert_true(hr_test_each_fault(opened_and_closed, &o) > 50);
  char path[4500];
  assert_int_equal(cache_files(path), 1);
}

int main(void) {
  hr_test_faults_install();
  cache_begin("tokens");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text_is_cut_into_windows),     cmocka_unit_test(test_special_tokens_go_round_the_text),
      cmocka_unit_test(test_lines_end_with_the_end_token), cmocka_unit_test(test_tokens_are_made_once),
      cmocka_unit_test(test_a_broken_file_is_made_again),  cmocka_unit_test(test_bad_input),
      cmocka_unit_test(test_memory_that_runs_out),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cache_end();
  return failed;
}
