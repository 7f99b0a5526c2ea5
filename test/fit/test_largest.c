/* The largest value that fits: against looking at every value, on peaks that grow, jump and have holes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fit/largest.h"

typedef struct setting {
  int64_t limit;   /* values up to it fit */
  int64_t divides; /* others than its divisors are refused; 0: none is */
  int64_t beyond;  /* values above are refused; 0: none is */
  int64_t broken;  /* trying this one fails */
  int tried;
} setting;

static hr_trial trial_of(const setting *s, int64_t value) {
  if (s->divides && s->divides % value != 0) return HR_TRIAL_REFUSED;
  if (s->beyond && value > s->beyond) return HR_TRIAL_REFUSED;
  return value <= s->limit ? HR_TRIAL_FITS : HR_TRIAL_OVER;
}

static hr_status value_try(void *user, int64_t value, hr_trial *out, hr_error *err) {
  setting *s = user;
  s->tried++;
  if (s->broken && value == s->broken) return hr__fail(err, HR_FAILURE, NULL, NULL, "broken");
  *out = trial_of(s, value);
  return HR_OK;
}

static hr_largest found(setting *s, int64_t least, int64_t start, int64_t most) {
  hr_largest out = {0};
  hr_error err = {0};
  s->tried = 0;
  assert_int_equal(hr__largest(least, start, most, value_try, s, &out, &err), HR_OK);
  assert_int_equal(out.tried, s->tried);
  return out;
}

static void every_limit_from_every_start(void **state) {
  (void)state;
  enum { MOST = 70 };
  for (int64_t limit = 0; limit <= MOST + 1; limit++)
    for (int64_t start = -1; start <= MOST + 2; start++) {
      setting s = {.limit = limit};
      hr_largest out = found(&s, 1, start, MOST);
      assert_true(out.found == (limit >= 1));
      if (!out.found) {
        assert_int_equal(out.value, 1);
        continue;
      }
      assert_int_equal(out.value, limit < MOST ? limit : MOST);
      assert_true(out.ends == (limit >= MOST));
      if (!out.ends) assert_true(out.next == limit + 1 && out.next_trial == HR_TRIAL_OVER);
      assert_true(out.tried <= 16);
    }
}

/* Divisors of the effective batch: the answer is the largest of them that fits, however they lie. */
static void values_that_are_refused_are_stepped_over(void **state) {
  (void)state;
  static const int64_t batches[] = {24, 60, 96, 97, 100, 128};
  for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
    for (int64_t limit = 1; limit <= batches[b]; limit++)
      for (int64_t start = 1; start <= 8; start++) {
        setting s = {.limit = limit, .divides = batches[b]};
        int64_t most = 1000, wanted = 1, over = 0;
        for (int64_t v = 1; v <= batches[b]; v++) {
          if (trial_of(&s, v) == HR_TRIAL_FITS) wanted = v;
          if (trial_of(&s, v) == HR_TRIAL_OVER && !over) over = v;
        }
        hr_largest out = found(&s, 1, start, most);
        assert_true(out.found);
        assert_int_equal(out.value, wanted);
        if (over) assert_true(out.next == over && out.next_trial == HR_TRIAL_OVER);
        if (!over) assert_true(out.next == wanted + 1 && out.next_trial == HR_TRIAL_REFUSED);
      }
}

static void a_limit_of_the_model_is_told_from_memory(void **state) {
  (void)state;
  setting s = {.limit = 1 << 20, .beyond = 4096};
  hr_largest out = found(&s, 1, 1024, (int64_t)1 << 40);
  assert_true(out.found && !out.ends && out.value == 4096 && out.next == 4097 && out.next_trial == HR_TRIAL_REFUSED);
  s = (setting){.limit = INT64_MAX};
  out = found(&s, 1, 1, (int64_t)1 << 40);
  assert_true(out.found && out.ends && out.value == (int64_t)1 << 40);
  s = (setting){.limit = 5, .beyond = 0};
  out = found(&s, 8, 64, 4096); /* the least that is allowed does not fit */
  assert_true(!out.found && out.value == 8);
}

static void failures_end_the_search(void **state) {
  (void)state;
  for (int64_t broken = 1; broken <= 16; broken *= 2) {
    setting s = {.limit = 20, .broken = broken};
    hr_largest out;
    hr_error err = {0};
    assert_int_equal(hr__largest(1, 1, 1000, value_try, &s, &out, &err), HR_FAILURE);
    assert_string_equal(err.message, "broken");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_limit_from_every_start), cmocka_unit_test(values_that_are_refused_are_stepped_over),
      cmocka_unit_test(a_limit_of_the_model_is_told_from_memory), cmocka_unit_test(failures_end_the_search)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
