/* The log: numbers that are not finite leave it readable, and every plan that a run has had is named in it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "part_tiny.h"
#include "train/history.h"
#include "train/log_lines.h"

static const char plan_a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", plan_b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

static hr_status log_try(hr_log *log, const char *out, int64_t step, const char *plan, hr_error *err) {
  static hr_store store;
  store = (hr_store){.lock = -1};
  snprintf(store.out, sizeof store.out, "%s", out);
  hr_log_header header = {
      .recipe = "folder/tiny", .fingerprint = plan, .resumed = plan_a, .planned_bytes = 1, .steps = 9};
  return hr__log_open(log, &store, step, &header, err);
}

static void log_open(hr_log *log, const char *out, int64_t step, const char *plan) {
  hr_error err = {0};
  if (log_try(log, out, step, plan, &err) != HR_OK) fail_msg("%s", err.message);
}

static void step_put(hr_log *log, int64_t step) {
  assert_int_equal(hr__log_step(log, &(hr_log_step){.step = step, .loss = 1}, NULL), HR_OK);
}

static int occurrences(const char *out, const char *part) {
  size_t bytes;
  char *text = file_get(path_join(out, "log.jsonl"), &bytes);
  int count = 0;
  for (char *at = text; (at = strstr(at, part)); at++)
    count++;
  free(text);
  return count;
}

static void test_not_finite(void **state) {
  (void)state;
  const char *out = folder_make("log-nan");
  mkdir(out, 0755);
  hr_log log;
  log_open(&log, out, 0, plan_a);
  assert_int_equal(hr__log_eval(&log, 1, (double)NAN, NULL, 0, NULL), HR_OK);
  assert_int_equal(hr__log_eval(&log, 1, (double)INFINITY, NULL, 0, NULL), HR_OK);
  step_put(&log, 2);
  hr__log_close(&log);
  log_open(&log, out, 2, plan_a);
  hr__log_close(&log);
  assert_int_equal(occurrences(out, "\"eval_loss\":null"), 2);
  assert_int_equal(occurrences(out, "\"step\":2"), 1); /* reading did not stop before it */
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

static void test_header_of_every_plan(void **state) {
  (void)state;
  const char *out = folder_make("log-plans");
  mkdir(out, 0755);
  hr_log log;
  log_open(&log, out, 0, plan_a);
  step_put(&log, 1);
  step_put(&log, 2);
  hr__log_close(&log);
  for (int i = 0; i < 2; i++) { /* the second time it is the same plan */
    log_open(&log, out, 2, plan_b);
    hr__log_close(&log);
    assert_int_equal(occurrences(out, plan_a), 1);
    assert_int_equal(occurrences(out, plan_b), 1);
    assert_int_equal(occurrences(out, "\"steps\":9,\"step\":2}"), 1);
  }
  log_open(&log, out, 2, plan_b);
  step_put(&log, 3);
  hr__log_close(&log);
  log_open(&log, out, 3, plan_b); /* lines behind the second header stay */
  hr__log_close(&log);
  assert_int_equal(occurrences(out, "{\"step\":3,"), 1);
  log_open(&log, out, 1, plan_a); /* back before the change of plans: its header goes */
  hr__log_close(&log);
  assert_int_equal(occurrences(out, plan_a), 1);
  assert_int_equal(occurrences(out, plan_b), 0);
  assert_int_equal(occurrences(out, "{\"step\":"), 1);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

/* Answers of a model may be long: a line of them, and what follows it, is there after the run was resumed. */
static void test_long_line_stays(void **state) {
  (void)state;
  const char *out = folder_make("log-long");
  char text[12000];
  mkdir(out, 0755);
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  hr_log log;
  log_open(&log, out, 0, plan_a);
  json_t *samples = json_pack("[{s:s}]", "text", text);
  assert_int_equal(hr__log_samples(&log, 1, samples, 0, NULL), HR_OK);
  json_decref(samples);
  step_put(&log, 2);
  hr__log_close(&log);
  log_open(&log, out, 2, plan_a);
  hr__log_close(&log);
  assert_int_equal(occurrences(out, "\"generated\""), 1);
  assert_int_equal(occurrences(out, "{\"step\":2,"), 1);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

/* Events hold any text, and no line of them is too long. A budget without a limit is no number. */
static void test_events(void **state) {
  (void)state;
  const char *out = folder_make("log-events");
  char text[3000];
  mkdir(out, 0755);
  memset(text, '"', sizeof text - 1);
  text[sizeof text - 1] = 0;
  hr_store store = {.lock = -1};
  snprintf(store.out, sizeof store.out, "%s", out);
  hr_log_header header = {.recipe = "tiny",
                          .fingerprint = plan_a,
                          .device = "a \"device\"",
                          .kind = "cpu",
                          .tiers = {[HR_TIER_HOST] = {.planned_bytes = 5, .budget_bytes = UINT64_MAX}},
                          .steps = 9};
  hr_log log;
  assert_int_equal(hr__log_open(&log, &store, 0, &header, NULL), HR_OK);
  const char *const texts[] = {"\x1b[2J\xff\n\"\\", text};
  for (int i = 0; i < 2; i++)
    hr__log_event(&log, &(hr_log_event){.step = i, .name = "warning", .text = texts[i]});
  hr__log_close(&log);
  hr_history *history;
  hr_record record;
  bool there;
  assert_int_equal(hr__history_open(path_join(out, "log.jsonl"), &history, NULL), HR_OK);
  assert_int_equal(hr__history_next(history, &record, &there, NULL), HR_OK);
  assert_int_equal(record.kind, HR_RECORD_HEADER);
  assert_true(record.tiers[HR_TIER_HOST].planned_bytes == 5 && record.tiers[HR_TIER_HOST].budget_bytes == 0);
  assert_int_equal(hr__history_next(history, &record, &there, NULL), HR_OK);
  assert_string_equal(record.text, "\\x1b[2J\\xff\\x0a\"\\");
  assert_int_equal(hr__history_next(history, &record, &there, NULL), HR_OK);
  assert_true(there && strlen(record.text) > 900);
  assert_int_equal(hr__history_broken(history), 0);
  hr__history_close(history);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

/* Whatever is in a file that is not the log of this run is still there afterwards. */
static void test_other_files_are_left(void **state) {
  (void)state;
  static const struct {
    int64_t step;
    const char *text;
  } cases[] = {
      {0, "notes of mine\n"},
      {0, "notes of mine without an end"},
      {2, "{\"step\":1,\"loss\":3.5}\n{\"step\":2,\"loss\":3.5}\n"}, /* of another program */
      {0, "{\"step\":1,\"loss\":3.5}\n"},
      {0, "{\"schema\":1,\"recipe\":\"other.yaml\",\"fingerprint\":\"cc\",\"step\":0}\n{\"step\":1}\n"},
      {2, "{\"schema\":1,\"recipe\":\"tiny\",\"fingerprint\":\"cc\",\"step\":0}\n{\"step\":1}\n{\"step\":9}\n"},
  };
  const char *out = folder_make("log-foreign"), *path = path_join(out, "log.jsonl");
  mkdir(out, 0755);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    file_put(path, cases[i].text, strlen(cases[i].text));
    hr_log log;
    hr_error err = {0};
    hr_status status = log_try(&log, out, cases[i].step, plan_b, &err);
    hr__log_close(&log);
    if (status != HR_USAGE) fail_msg("case %zu: %s", i, hr_status_name(status));
    assert_string_equal(err.place, path);
    size_t bytes;
    char *text = file_get(path, &bytes);
    assert_string_equal(text, cases[i].text);
    free(text);
  }
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

/* A run that begins again writes over its own log, whichever plan it had, and over a header that was cut off. */
static void test_begun_again(void **state) {
  (void)state;
  static const char *const own[] = {
      "",
      "{\"schema\":1,\"reci",
      "{\"schema\":1,\"recipe\":\"a/tiny\",\"fingerprint\":\"cc\",\"step\":0}\n{\"step\":1}\n{\"st",
      "{\"schema\":1,\"recipe\":\"moved\",\"fingerprint\":\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\",\"step\":0}\n",
  };
  const char *out = folder_make("log-again");
  mkdir(out, 0755);
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
    file_put(path_join(out, "log.jsonl"), own[i], strlen(own[i]));
    hr_log log;
    log_open(&log, out, 0, plan_b);
    hr__log_close(&log);
    assert_int_equal(occurrences(out, "\n"), 1);
    assert_int_equal(occurrences(out, plan_b), 1);
  }
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_not_finite),           cmocka_unit_test(test_header_of_every_plan),
      cmocka_unit_test(test_long_line_stays),      cmocka_unit_test(test_events),
      cmocka_unit_test(test_other_files_are_left), cmocka_unit_test(test_begun_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
