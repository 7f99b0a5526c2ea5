/* Runs as others see them: what a log, a process and a GPU come to, and the signs that need a GPU to be seen. */
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

#include "base/clock.h"
#include "watch/watched.h"

static char folder[64], path[96];

static int setup(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "watched-%ld", (long)getpid());
  snprintf(path, sizeof path, "%s/log.jsonl", folder);
  return mkdir(folder, 0755);
}

static int teardown(void **state) {
  (void)state;
  unlink(path);
  return rmdir(folder);
}

/* A log of this very process, on a device of that kind. */
static void log_write(const char *kind, int steps) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file,
          "{\"schema\":1,\"recipe\":\"a/"
          "r.yaml\",\"fingerprint\":\"aa\",\"planned_peak_bytes\":9,\"device\":\"d\",\"device_kind\":"
          "\"%s\",\"planned_step_seconds\":0.5,\"tiers\":{\"device\":{\"planned_bytes\":100000000,\"budget_bytes\":"
          "200000000}},"
          "\"steps\":1000,\"step\":0}\n{\"step\":0,\"event\":\"started\",\"time\":1000,\"resumed\":false,\"steps\":"
          "1000,\"pid\":%ld,"
          "\"process_start\":0,\"machine\":\"here\"}\n",
          kind, (long)getpid());
  for (int i = 1; i <= steps; i++)
    fprintf(file, "{\"step\":%d,\"loss\":%g,\"seconds\":0.1,\"tokens\":50,\"samples\":5,\"time\":%g}\n", i,
            5.0 - i * 0.01, 1000 + i * 0.5);
  fclose(file);
}

static hr_watched *opened(void) {
  hr_watched *w;
  bool more;
  assert_int_equal(hr__watched_open(folder, &w, NULL), HR_OK);
  assert_int_equal(hr__watched_read(w, 10, &more, NULL), HR_OK);
  assert_false(more);
  return w;
}

static bool has_sign(const hr_watched *w, const char *name) {
  for (size_t i = 0; i < w->n_signs; i++)
    if (strcmp(w->signs[i].name, name) == 0) return true;
  return false;
}

static void test_rates(void **state) {
  (void)state;
  log_write("cpu", 100);
  hr_watched *w = opened();
  hr_watch_now now = {.time = 1051, .clock = hr__seconds_now(), .machine = "here", .processors = 2};
  hr__watched_look(w, &now);
  assert_int_equal(w->state, HR_WATCH_RUNNING);
  assert_string_equal(w->recipe, "r.yaml");
  assert_true(fabs(hr__watched_step_seconds(w) - 0.5) < 1e-9);
  assert_true(fabs(hr__watched_tokens_per_second(w) - 100) < 1e-6);
  assert_true(fabs(hr__watched_left_seconds(w) - 450) < 1e-6);
  assert_true(w->process.there && w->process.resident_bytes > 0 && isnan(w->processors) && w->n_signs == 0);
  now.time = 2000; /* longer than a minute and twenty steps */
  hr__watched_look(w, &now);
  assert_true(has_sign(w, "stalled"));
  now.machine = "elsewhere";
  hr__watched_look(w, &now);
  assert_int_equal(w->state, HR_WATCH_SILENT);
  hr__watched_close(w);
}

static void test_gpu(void **state) {
  (void)state;
  log_write("cuda", 100);
  hr_watched *w = opened();
  hr_nvml_gpu gpus[2] = {{.name = "idle", .use = 0.9},
                         {.name = "ours",
                          .use = 0.2,
                          .used_bytes = 500 << 20,
                          .processes = {{.pid = getpid(), .bytes = 90 << 20}, {.pid = 1, .bytes = 400 << 20}},
                          .n_processes = 2}};
  hr_watch_now now = {.time = 1051, .clock = 100, .machine = "here", .processors = 2, .gpus = gpus, .n_gpus = 2};
  for (int i = 0; i < 12; i++, now.clock++)
    hr__watched_look(w, &now);
  assert_int_equal(w->gpu, 1);
  assert_int_equal(w->gpu_bytes, 90 << 20);
  assert_true(isfinite(w->processors));
  assert_true(has_sign(w, "shared_gpu") && has_sign(w, "low_use"));
  gpus[1].n_processes = 1;
  gpus[1].use = 0.95;
  for (int i = 0; i < 12; i++, now.clock++)
    hr__watched_look(w, &now);
  assert_int_equal(w->n_signs, 0);
  hr__watched_close(w);
}

static void test_memory(void **state) {
  (void)state;
  log_write("cpu", 100);
  hr_watched *w = opened();
  hr_watch_now now = {.time = 1051, .clock = hr__seconds_now(), .machine = "here", .processors = 2};
  FILE *file = fopen(path, "a");
  for (int i = 0; i < 8; i++)
    fprintf(file, "{\"step\":100,\"event\":\"memory\",\"time\":1051,\"tiers\":{\"device\":{\"held_bytes\":%d}}}\n",
            90000000 + i * 5000000);
  fclose(file);
  bool more;
  assert_int_equal(hr__watched_read(w, 10, &more, NULL), HR_OK);
  hr__watched_look(w, &now);
  assert_true(has_sign(w, "creeping") && has_sign(w, "above_plan"));
  assert_int_equal(w->tiers[HR_TIER_DEVICE].held_bytes, 125000000);
  hr__watched_close(w);
}

static void test_curve(void **state) {
  (void)state;
  hr_curve curve = {.columns = 0};
  char text[3 * HR_CURVE + 1];
  assert_string_equal(hr__curve_text(&curve, 10, false, text), "");
  for (int i = 0; i < 10000; i++)
    hr__curve_add(&curve, i);
  assert_true(curve.first == 0 && curve.last == 9999 && curve.columns <= HR_CURVE);
  assert_string_equal(hr__curve_text(&curve, 8, false, text), "_.-~=+*#");
  assert_string_equal(hr__curve_text(&curve, 2, true, text), "▁█");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_rates, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_gpu, setup, teardown),
                                     cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
                                     cmocka_unit_test(test_curve)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
