/* Several files as one: which they are and in what order, samples across and at their ends, files to evaluate on, and
 * what tells them from others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "part_data.h"
#include "support/faults.h"

enum { LENGTH = 4, BATCH = 1 };

static char folder[4096];

static void put(const char *name, const char *text) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  file_put(path, text, strlen(text));
}

static int setup(void **state) {
  (void)state;
  char inner[4200];
  snprintf(folder, sizeof folder, "%s/files-%ld", HR_BINARY_DIR, (long)getpid());
  snprintf(inner, sizeof inner, "%s/deeper.txt", folder);
  mkdir(folder, 0700);
  mkdir(inner, 0700); /* no file, whatever its name */
  put("b.txt", "ijklmnop");
  put("a.txt", "abcdefgh");
  put("c.md", "qrstuvwxyz");
  put("empty.txt", "");
  put("other.log", "OTHER");
  put(".hidden.txt", "HIDDEN");
  put("lines-1.text", "one\ntwo");
  put("lines-2.text", "three\n\nfour\n");
  return 0;
}

static int teardown(void **state) {
  (void)state;
  char command[4200];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command);
}

/* Data of bytes over the files that `paths` says, FOLDER/ before each name: "a.txt", "[a.txt, b.txt]". */
static hr_status open_try(fixture *f, const char *source, const char *path, const char *eval, hr_error *err) {
  char first[9000], second[9000], from[64];
  const char *set[3] = {first, from, second};
  *f = (fixture){0};
  snprintf(first, sizeof first, "data.path=%s", path);
  snprintf(from, sizeof from, "data.source=%s", source);
  snprintf(second, sizeof second, "data.eval_path=%s", eval ? eval : "");
  const hr_key_table tables[] = {hr_data_keys, hr_masking_keys};
  HR_TRY(hr__recipe_parse("r.yaml", folder, "data: { sequence_length: 4, tokenizer: bytes }\n", 47, set, eval ? 3 : 2,
                          tables, 2, &f->recipe, err));
  static const int64_t buckets[] = {LENGTH};
  hr_fields fields[1];
  token_fields(fields, BATCH, buckets, 1, VOCABULARY, false);
  hr_data_shape shape = {.seed = 3,
                         .eval = eval != NULL,
                         .batch = BATCH,
                         .buckets = buckets,
                         .fields = fields,
                         .n_buckets = 1,
                         .fillers = 1};
  return hr__data_open(f->recipe, &shape, &f->data, err);
}

static void open_good(fixture *f, const char *source, const char *path, const char *eval) {
  hr_error err = {0};
  if (open_try(f, source, path, eval, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
}

/* All samples to train on or to evaluate on, as text, in the order of the files; the last target of each behind it. */
static void text_is(const fixture *f, bool eval, const char *expected) {
  char text[256] = "";
  int64_t samples = eval ? hr__data_eval_samples(f->data) : hr__data_train_samples(f->data);
  char *found[32] = {0};
  for (int64_t s = 0; s < samples; s++) {
    int32_t tokens[LENGTH], targets[LENGTH];
    hr_micro micro = hr__data_micro(f->data, (uint64_t)s, eval);
    assert_int_equal(fill(f->data, &micro, tokens, targets, NULL, NULL), HR_OK);
    found[s] = calloc(1, 16);
    size_t used = 0;
    for (int t = 0; t < LENGTH && targets[t] >= 0; t++) {
      found[s][used++] = (char)tokens[t];
      found[s][used] = (char)targets[t];
    }
  }
  for (int64_t i = 0; i < samples; i++) { /* an epoch has its own order: sorted, to be compared */
    int64_t least = -1;
    for (int64_t k = 0; k < samples; k++)
      if (found[k] && (least < 0 || strcmp(found[k], found[least]) < 0)) least = k;
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s|", found[least]);
    free(found[least]);
    found[least] = NULL;
  }
  assert_string_equal(text, expected);
}

static void opened_is(const char *source, const char *path, const char *expected) {
  fixture f;
  open_good(&f, source, path, NULL);
  text_is(&f, false, expected);
  fixture_close(&f);
}

static void test_windows_across_files(void **state) {
  (void)state;
  opened_is("text", "a.txt", "abcde|");
  opened_is("text", "[a.txt, b.txt]", "abcde|efghi|ijklm|");
  opened_is("text", "[b.txt, empty.txt, a.txt]", "abcde|ijklm|mnopa|");
  opened_is("text", "?.txt", "abcde|efghi|ijklm|");
  opened_is("text", "[\"[ab].txt\", c.md]", "abcde|efghi|ijklm|mnopq|qrstu|uvwxy|");
}

static void test_a_folder(void **state) {
  (void)state;
  fixture f;
  open_good(&f, "text", ".", NULL);
  static const char *const names[] = {"a.txt", "b.txt", "c.md", "empty.txt", "lines-1.text", "lines-2.text"};
  for (size_t i = 0; i < 6; i++)
    assert_string_equal(strrchr(hr__data_file(f.data, false, i)->path, '/') + 1, names[i]);
  assert_null(hr__data_file(f.data, false, 6));
  fixture_close(&f);
}

/* A line ends with its file: the newline that is missing is there, and nothing of the next file. */
static void test_lines_of_files(void **state) {
  (void)state;
  opened_is("lines", "lines-*.text", "four\n|one\n|three|two\n|");
}

static void test_files_to_evaluate_on(void **state) {
  (void)state;
  fixture f;
  open_good(&f, "text", "a.txt", "[b.txt, c.md]");
  assert_true(hr__data_own_eval(f.data));
  text_is(&f, false, "abcde|");
  text_is(&f, true, "ijklm|mnopq|qrstu|uvwxy|");
  hr_trace train, eval, alone;
  assert_int_equal(hr__data_trace(f.data, false, &train, NULL), HR_OK);
  assert_int_equal(hr__data_trace(f.data, true, &eval, NULL), HR_OK);
  fixture_close(&f);
  open_good(&f, "text", "a.txt", NULL);
  assert_int_equal(hr__data_trace(f.data, false, &alone, NULL), HR_OK);
  assert_string_equal(alone.hash, train.hash);
  assert_string_not_equal(eval.hash, train.hash);
  fixture_close(&f);
  open_good(&f, "lines", "lines-1.text", "lines-2.text");
  text_is(&f, false, "one\n|two\n|");
  text_is(&f, true, "four\n|three|");
  fixture_close(&f);
}

static void hash_of(const char *path, char out[HR_XXH_HEX]) {
  fixture f;
  hr_trace trace;
  open_good(&f, "text", path, NULL);
  assert_int_equal(hr__data_trace(f.data, false, &trace, NULL), HR_OK);
  memcpy(out, trace.hash, HR_XXH_HEX);
  fixture_close(&f);
}

static void test_hashes(void **state) {
  (void)state;
  char both[HR_XXH_HEX], swapped[HR_XXH_HEX], again[HR_XXH_HEX];
  hash_of("[a.txt, b.txt]", both);
  hash_of("[b.txt, a.txt]", swapped);
  assert_string_not_equal(both, swapped);
  hash_of("?.txt", again);
  assert_string_equal(both, again);
  put("b.txt", "ijklmnoX");
  hash_of("[a.txt, b.txt]", again);
  assert_string_not_equal(both, again);
  put("b.txt", "ijklmnop");
}

static void fails(const char *source, const char *path, const char *eval, const char *message) {
  fixture f;
  hr_error err = {0};
  assert_int_equal(open_try(&f, source, path, eval, &err), HR_BAD_INPUT);
  if (!strstr(err.message, message) && !strstr(err.place, message)) fail_msg("%s: %s", err.place, err.message);
  fixture_close(&f);
}

static void test_refused(void **state) {
  (void)state;
  fails("text", "none-*.txt", NULL, "matches no file");
  fails("text", "[a.txt, absent.txt]", NULL, "absent.txt");
  fails("rows", ".", NULL, "tokenizer");
  fails("text", "a.txt", "absent.txt", "absent.txt");
  fails("text", "a.txt", "empty.txt", "too few");
  fails("synthetic", "a.txt", "b.txt", "reads no files");
  char name[64] = "odd[1]*.txt";
  put(name, "0123456789");
  opened_is("text", "\"odd[1]*.txt\"", "01234|45678|"); /* what is there by its name is no pattern */
}

static hr_status open_and_close(void *user, hr_error *err) {
  (void)user;
  fixture f;
  hr_status status = open_try(&f, "lines", "[lines-*.text, .]", "c.md", err);
  fixture_close(&f);
  return status;
}

/* What is no plain file is not left open. */
static void test_nothing_open(void **state) {
  (void)state;
  hr_data_file file;
  hr_error err = {0};
  int before = dup(0);
  close(before);
  assert_int_equal(hr__data_file_at(folder, &file, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "this is a folder"));
  int after = dup(0);
  close(after);
  assert_int_equal(after, before);
  hr__data_file_close(&file); /* nothing to do */
}

static void test_faults(void **state) {
  (void)state;
  assert_true(hr_test_each_fault(open_and_close, NULL) > 10);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_windows_across_files),
      cmocka_unit_test(test_a_folder),
      cmocka_unit_test(test_lines_of_files),
      cmocka_unit_test(test_files_to_evaluate_on),
      cmocka_unit_test(test_hashes),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_nothing_open),
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
