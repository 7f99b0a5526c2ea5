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

static hr_run_setting settings[] = {{"training.seed", "7"}, {"odd \"name\"\n", "\"\\u00e4\""}, {"memory.budget", "1"}};

static hr_manifest sample(void) {
  hr_manifest m = {.step = 40,
                   .seed = 7,
                   .fingerprint = "0123456789abcdef0123456789abcdef",
                   .recipe_hash = "00000000000000000000000000000000",
                   .settings = settings,
                   .n_settings = 3};
  for (int f = 0; f < HR_RUN_FILES; f++) {
    m.files[f].bytes = 100 + (uint64_t)f;
    memset(m.files[f].hash, 'a' + f, 32);
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
  assert_int_equal(again.files[HR_RUN_MODEL].bytes, 101);
  assert_string_equal(again.settings[1].path, settings[1].path);
  assert_string_equal(again.settings[1].value, settings[1].value);
  assert_int_equal(hr__manifest_text(&again, &arena, &second, &second_bytes, &err), HR_OK);
  assert_int_equal(second_bytes, bytes);
  assert_memory_equal(text, second, bytes);
  hr__arena_fini(&arena);
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
  hr_run_setting now[] = {{"training.seed", "7"}, {"odd \"name\"\n", "\"\\u00e4\""}, {"memory.budget", "999"}};
  assert_int_equal(hr__identity_check(&m, now, 3, &err), HR_OK); /* memory settings may change */
  now[0].value = "8";
  assert_int_equal(hr__identity_check(&m, now, 3, &err), HR_USAGE);
  assert_non_null(strstr(err.message, "training.seed was 7, is 8"));
  assert_int_equal(hr__identity_check(&m, now + 1, 2, &err), HR_USAGE);
  assert_non_null(strstr(err.message, "training.seed was 7, is not set"));
  m.n_settings = 0;
  assert_int_equal(hr__identity_check(&m, now, 1, &err), HR_USAGE);
  assert_non_null(strstr(err.message, "was not set"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_every_bit_counts),
                                     cmocka_unit_test(test_identity)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
