/* Manifests: written and read again, and no change of any byte goes unseen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train/identity.h"
#include "train/manifest.h"

static hr_run_setting settings[] = {{.path = "training.seed", .value = "7"},
                                    {.path = "odd \"name\"\n", .value = "\"\\u00e4\""},
                                    {.path = "memory.budget", .value = "1"}};

static hr_manifest sample(void) {
  hr_manifest m = {.step = 40,
                   .state = {.known = true,
                             .sample = (uint64_t)1 << 52,
                             .scaler = {.scale = 49152.3f, .good_steps = 3, .applied_steps = 38, .skipped_in_a_row = 1},
                             .best = {.value = 2.1234567890123456, .step = 30, .waited = 1}},
                   .seed = 7,
                   .fingerprint = "0123456789abcdef0123456789abcdef",
                   .recipe_hash = "00000000000000000000000000000000",
                   .settings = settings,
                   .n_settings = 3};
  static const char *const names[] = {"config.json", "model.safetensors", "optimizer.safetensors",
                                      "text/adapter_config.json", "text/adapter_model.safetensors"};
  for (size_t f = 0; f < sizeof names / sizeof *names; f++) {
    m.files[m.n_files] = (hr_manifest_file){.name = names[f], .bytes = 100 + f};
    memset(m.files[m.n_files++].hash, 'a' + (int)f, 32);
  }
  return m;
}

static void test_round_trip(void **state) {
  (void)state;
  hr_arena arena = {0};
  hr_error err = {0};
  hr_manifest m = sample(), again;
  char *text, *second;
  size_t bytes, second_bytes;
  assert_int_equal(hr__manifest_text(&m, &arena, &text, &bytes, &err), HR_OK);
  assert_int_equal(hr__manifest_parse("m", text, bytes, &arena, &again, &err), HR_OK);
  assert_int_equal(again.step, 40);
  assert_int_equal(again.n_files, 5);
  assert_int_equal(hr__manifest_file(&again, "model.safetensors")->bytes, 101);
  assert_null(hr__manifest_file(&again, "text/model.safetensors"));
  assert_memory_equal(&again.state.scaler, &m.state.scaler, sizeof m.state.scaler);
  assert_memory_equal(&again.state.best, &m.state.best, sizeof m.state.best);
  assert_true(again.state.known && again.state.sample == m.state.sample);
  assert_string_equal(again.settings[1].path, settings[1].path);
  assert_string_equal(again.settings[1].value, settings[1].value);
  assert_int_equal(hr__manifest_text(&again, &arena, &second, &second_bytes, &err), HR_OK);
  assert_int_equal(second_bytes, bytes);
  assert_memory_equal(text, second, bytes);
  hr__arena_fini(&arena);
}

/* What was written before the position of a run was part of it. */
static void test_without_state(void **state) {
  (void)state;
  hr_arena arena = {0};
  hr_error err = {0};
  hr_manifest m = sample(), again;
  m.state.known = false;
  char *text;
  size_t bytes;
  assert_int_equal(hr__manifest_text(&m, &arena, &text, &bytes, &err), HR_OK);
  assert_null(strstr(text, "sample"));
  assert_int_equal(hr__manifest_parse("m", text, bytes, &arena, &again, &err), HR_OK);
  assert_false(again.state.known);
  hr__arena_fini(&arena);
}

/* Names lead to files: none leads out of the checkpoint's folder. */
static void test_names_of_files(void **state) {
  (void)state;
  static const char *const names[] = {"/etc/passwd", "../config.json", "text/../../x", "text//x", "", "text/", ".x",
                                      "a b"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    hr_arena arena = {0};
    hr_error err = {0};
    hr_manifest m = sample(), again;
    char *text;
    size_t bytes;
    m.files[3].name = names[i];
    assert_int_equal(hr__manifest_text(&m, &arena, &text, &bytes, &err), HR_OK);
    assert_int_equal(hr__manifest_parse("m", text, bytes, &arena, &again, &err), HR_BAD_INPUT);
    hr__arena_fini(&arena);
  }
}

static void test_every_bit_counts(void **state) {
  (void)state;
  hr_arena arena = {0};
  hr_error err = {0};
  hr_manifest m = sample(), again;
  char *text;
  size_t bytes;
  assert_int_equal(hr__manifest_text(&m, &arena, &text, &bytes, &err), HR_OK);
  char *copy = malloc(bytes + 1);
  for (size_t bit = 0; bit < 8 * bytes; bit++) {
    hr_arena work = {0};
    memcpy(copy, text, bytes);
    copy[bit / 8] = (char)(copy[bit / 8] ^ (1 << (bit % 8)));
    hr_status status = hr__manifest_parse("m", copy, bytes, &work, &again, &err);
    if (status != HR_BAD_INPUT) fail_msg("bit %zu: %s", bit, hr_status_name(status));
    hr__arena_fini(&work);
  }
  for (size_t cut = 0; cut < bytes; cut++) {
    hr_arena work = {0};
    assert_int_equal(hr__manifest_parse("m", text, cut, &work, &again, &err), HR_BAD_INPUT);
    hr__arena_fini(&work);
  }
  memcpy(copy, text, bytes);
  copy[bytes] = ' ';
  assert_int_equal(hr__manifest_parse("m", copy, bytes + 1, &arena, &again, &err), HR_BAD_INPUT);
  free(copy);
  hr__arena_fini(&arena);
}

static void test_identity(void **state) {
  (void)state;
  hr_error err = {0};
  hr_manifest m = sample();
  hr_run_setting now[] = {{.path = "training.seed", .value = "7"},
                          {.path = "odd \"name\"\n", .value = "\"\\u00e4\""},
                          {.path = "memory.budget", .value = "999"},
                          {.path = "training.gradient_accumulation.4", .value = "2"},
                          {.path = "training.new", .value = "1", .fallback = true}};
  assert_int_equal(hr__identity_check(&m, now, 5, NULL, &err), HR_OK); /* a setting that is new, by default */
  now[4].fallback = false;
  assert_int_equal(hr__identity_check(&m, now, 5, NULL, &err), HR_USAGE);
  assert_non_null(strstr(err.message, "training.new was not set, is 1"));
  assert_int_equal(hr__identity_check(&m, now, 3, NULL, &err), HR_OK); /* memory settings may change */
  now[0].value = "8";
  assert_int_equal(hr__identity_check(&m, now, 3, NULL, &err), HR_USAGE);
  assert_non_null(strstr(err.message, "training.seed was 7, is 8"));
  assert_int_equal(hr__identity_check(&m, now + 1, 2, NULL, &err), HR_USAGE);
  assert_non_null(strstr(err.message, "training.seed was 7, is not set"));
  hr_run_setting hashed[] = {now[0], now[1], {.path = "run.data_hash", .value = "\"ab\"", .fallback = true}};
  hashed[0].value = "7";
  assert_int_equal(hr__identity_check(&m, hashed, 3, NULL, &err), HR_OK); /* saved before there was a hash */
  m.n_settings = 0;
  assert_int_equal(hr__identity_check(&m, now, 1, NULL, &err), HR_USAGE);
  assert_non_null(strstr(err.message, "was not set"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_without_state),
                                     cmocka_unit_test(test_names_of_files), cmocka_unit_test(test_every_bit_counts),
                                     cmocka_unit_test(test_identity)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
