/* Reading a log: what each kind of line is, lines that are none, files that grow, are cut off, written on or replaced.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "part_tiny.h"
#include "train/history.h"

static const char header[] = "{\"schema\":1,\"recipe\":\"tiny\",\"fingerprint\":\"aa\",\"planned_peak_bytes\":7,"
                             "\"device\":\"two threads\",\"planned_step_seconds\":0.5,\"tiers\":{\"device\":"
                             "{\"planned_bytes\":5,\"budget_bytes\":9},\"host\":{\"planned_bytes\":2}},"
                             "\"steps\":9,\"step\":0}\n";

static const char *out, *path;

static int setup(void **state) {
  (void)state;
  out = folder_make("history");
  mkdir(out, 0755);
  path = strdup(path_join(out, "log.jsonl"));
  return 0;
}

static int teardown(void **state) {
  (void)state;
  folder_remove(out);
  free((void *)(uintptr_t)path);
  free((void *)(uintptr_t)out);
  return 0;
}

static void text_put(const char *text) {
  file_put(path, text, strlen(text));
}

static void text_add(const char *text) {
  FILE *file = fopen(path, "ab");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static hr_history *reader(void) {
  hr_history *history;
  hr_error err = {0};
  if (hr__history_open(path, &history, &err) != HR_OK) fail_msg("%s", err.message);
  return history;
}

static hr_record next(hr_history *history) {
  hr_record record;
  bool there;
  assert_int_equal(hr__history_next(history, &record, &there, NULL), HR_OK);
  assert_true(there);
  return record;
}

static void nothing_more(hr_history *history) {
  hr_record record;
  bool there;
  assert_int_equal(hr__history_next(history, &record, &there, NULL), HR_OK);
  assert_false(there);
}

static void test_kinds(void **state) {
  (void)state;
  text_put(header);
  text_add(
      "{\"step\":0,\"event\":\"started\",\"time\":12.5,\"resumed\":true,\"steps\":11,\"pid\":42,\"process_start\":77,"
      "\"machine\":\"m\",\"phases\":{\"prepare\":1,\"load\":2.5}}\n"
      "{\"step\":1,\"loss\":2.5,\"lr\":0.1,\"grad_norm\":null,\"seconds\":0.25,\"tokens\":32,\"samples\":2,\"time\":13,"
      "\"loss_scale\":8,\"skipped\":true,\"losses\":{\"a\":1,\"b\":null},\"metrics\":{\"c\":3}}\n"
      "{\"step\":1,\"eval_loss\":null,\"seconds\":1,\"eval_metrics\":{\"c\":4}}\n"
      "{\"step\":1,\"generated\":[{\"prompt\":\"p\",\"text\":\"\\u001b[31m\",\"end\":\"max_tokens\"},"
      "{\"prompt\":\"q\",\"text\":\"t\",\"end\":\"none\",\"expected\":\"e\"}],\"seconds\":2}\n"
      "{\"step\":1,\"event\":\"memory\",\"tiers\":{\"disk\":{\"held_bytes\":3}},\"bytes\":6}\n");
  hr_history *h = reader();
  hr_record r = next(h);
  assert_int_equal(r.kind, HR_RECORD_HEADER);
  assert_string_equal(r.recipe, "tiny");
  assert_string_equal(r.fingerprint, "aa");
  assert_string_equal(r.device, "two threads");
  assert_true(r.steps == 9 && r.planned_peak_bytes == 7 && r.planned_step_seconds == 0.5 && r.line == 1);
  assert_true(r.tiers[HR_TIER_DEVICE].planned_bytes == 5 && r.tiers[HR_TIER_DEVICE].budget_bytes == 9);
  assert_true(r.tiers[HR_TIER_HOST].planned_bytes == 2 && r.tiers[HR_TIER_DISK].planned_bytes == 0);
  r = next(h);
  assert_int_equal(r.kind, HR_RECORD_EVENT);
  assert_string_equal(r.event, "started");
  assert_string_equal(r.machine, "m");
  assert_true(r.time == 12.5 && r.resumed && r.steps == 11 && r.pid == 42 && r.process_start == 77);
  assert_true(r.phases.count == 2 && hr__record_value(&r.phases, "load") == 2.5);
  r = next(h);
  assert_int_equal(r.kind, HR_RECORD_STEP);
  assert_true(r.step == 1 && r.loss == 2.5 && r.lr == 0.1 && isnan(r.grad_norm) && r.seconds == 0.25 && r.time == 13);
  assert_true(r.tokens == 32 && r.samples == 2 && r.loss_scale == 8 && r.skipped);
  assert_true(r.losses.count == 2 && hr__record_value(&r.losses, "a") == 1 && isnan(r.losses.list[1].value));
  assert_true(hr__record_value(&r.metrics, "c") == 3 && isnan(hr__record_value(&r.metrics, "z")));
  r = next(h);
  assert_int_equal(r.kind, HR_RECORD_EVAL);
  assert_true(isnan(r.loss) && isnan(r.time) && hr__record_value(&r.metrics, "c") == 4);
  r = next(h);
  assert_int_equal(r.kind, HR_RECORD_SAMPLES);
  assert_int_equal(r.n_generated, 2);
  assert_string_equal(r.generated[0].text, "\x1b[31m");
  assert_null(r.generated[0].expected);
  assert_string_equal(r.generated[1].expected, "e");
  r = next(h);
  assert_true(r.tiers[HR_TIER_DISK].held_bytes == 3 && r.bytes == 6);
  nothing_more(h);
  assert_int_equal(hr__history_broken(h), 0);
  assert_int_equal(hr__history_read_bytes(h), hr__history_file_bytes(h));
  hr__history_close(h);
}

static void test_broken_lines(void **state) {
  (void)state;
  static const char *const broken[] = {"",
                                       "notes",
                                       "{\"step\":1,\"loss\":",
                                       "[1,2]",
                                       "{\"loss\":1}",
                                       "{\"step\":-1,\"loss\":1}",
                                       "{\"step\":\"1\",\"loss\":1}",
                                       "{\"step\":1e300,\"loss\":1}",
                                       "{\"step\":1,\"step\":2,\"loss\":1}",
                                       "{\"step\":1,\"loss\":\"\xff\"}",
                                       "{\"step\":1}",
                                       "\x1b[2J"};
  enum { BROKEN = sizeof broken / sizeof broken[0] };
  text_put(header);
  for (size_t i = 0; i < BROKEN; i++) {
    text_add(broken[i]);
    text_add("\n{\"step\":1,\"loss\":1}\n");
  }
  hr_history *h = reader();
  assert_int_equal(next(h).kind, HR_RECORD_HEADER);
  for (size_t i = 0; i < BROKEN; i++) {
    hr_record r = next(h);
    assert_int_equal(r.kind, HR_RECORD_STEP);
    assert_int_equal(r.line, 3 + 2 * i);
    assert_int_equal(hr__history_broken(h), i + 1);
  }
  nothing_more(h);
  hr__history_close(h);
}

/* A line longer than any of ours does not take memory without end, and what follows it is read. */
static void test_long_lines(void **state) {
  (void)state;
  enum { LONG = 9 << 20, SHORT = 1 << 20 };
  char *text = malloc(LONG + 1);
  assert_non_null(text);
  memset(text, 'x', LONG);
  text[LONG] = 0;
  text_put(header);
  text_add(text);
  text_add("\n{\"step\":1,\"loss\":1}\n");
  memset(text, ' ', SHORT);
  text[SHORT] = 0;
  text_add("{\"step\":2,");
  text_add(text);
  text_add("\"loss\":1}\n");
  free(text);
  hr_history *h = reader();
  next(h);
  assert_int_equal(next(h).step, 1);
  assert_int_equal(hr__history_broken(h), 1);
  assert_int_equal(next(h).step, 2);
  nothing_more(h);
  hr__history_close(h);
}

static void test_grows(void **state) {
  (void)state;
  text_put(header);
  hr_history *h = reader();
  next(h);
  nothing_more(h);
  text_add("{\"step\":1,\"lo");
  nothing_more(h);
  text_add("ss\":1}\n{\"step\":2,\"loss\":1}\n");
  assert_int_equal(next(h).step, 1);
  assert_int_equal(next(h).step, 2);
  nothing_more(h);
  assert_int_equal(hr__history_broken(h), 0);
  hr__history_close(h);
}

static void again(hr_history *h, int64_t last) {
  assert_int_equal(next(h).kind, HR_RECORD_AGAIN);
  assert_int_equal(next(h).kind, HR_RECORD_HEADER);
  for (int64_t step = 1; step <= last; step++)
    assert_int_equal(next(h).step, step);
  nothing_more(h);
}

static void test_begins_again(void **state) {
  (void)state;
  text_put(header);
  text_add("{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":1}\n{\"step\":3,\"loss\":1}\n");
  hr_history *h = reader();
  for (int i = 0; i < 4; i++)
    next(h);
  nothing_more(h);
  size_t one = strlen(header) + strlen("{\"step\":1,\"loss\":1}\n");
  assert_int_equal(truncate(path, (off_t)one), 0); /* cut off */
  again(h, 1);
  text_add("{\"step\":2,\"loss\":1}\n");
  next(h);
  nothing_more(h);
  /* Cut off, and written on beyond where it was read to. */
  assert_int_equal(truncate(path, (off_t)one), 0);
  text_add("{\"step\":2,\"loss\":2}\n{\"step\":3,\"loss\":2}\n");
  again(h, 3);
  char *other = path_join(out, "other"); /* replaced */
  text_put(header);
  file_put(other, header, strlen(header));
  assert_int_equal(rename(other, path), 0);
  again(h, 0);
  unlink(path); /* a folder that is taken away leaves what there was */
  nothing_more(h);
  hr__history_close(h);
}

static void test_no_log(void **state) {
  (void)state;
  hr_history *h;
  hr_error err = {0};
  unlink(path);
  assert_int_equal(hr__history_open(path, &h, &err), HR_BAD_INPUT);
  assert_null(h);
  assert_int_equal(hr__history_open(out, &h, &err), HR_BAD_INPUT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_kinds, setup, teardown),
      cmocka_unit_test_setup_teardown(test_broken_lines, setup, teardown),
      cmocka_unit_test_setup_teardown(test_long_lines, setup, teardown),
      cmocka_unit_test_setup_teardown(test_grows, setup, teardown),
      cmocka_unit_test_setup_teardown(test_begins_again, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_log, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
