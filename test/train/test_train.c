/* Training as a whole: the loss falls, accumulation adds up, a stop and a resume anywhere change no bit, and the log
 * and the refusals are as promised. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "part_tiny.h"
#include "train/signals.h"

#define OVERRIDES(...)                                                                                                 \
  (const char *const[]) {                                                                                              \
    __VA_ARGS__, NULL                                                                                                  \
  }

static void test_loss_falls(void **state) {
  (void)state;
  hr_train_result first = train_ok(OVERRIDES("training.steps=1"), (hr_train_options){0});
  /* One fixed batch is learnt by heart: the text has exactly two windows. */
  const char *folder = folder_make("falls");
  (void)folder;
  char text[2 * 16 + 1];
  for (size_t i = 0; i < sizeof text; i++)
    text[i] = (char)('a' + i % 5);
  char *path = path_join(HR_BINARY_DIR, "train-falls.txt");
  file_put(path, text, sizeof text);
  char set[4200];
  snprintf(set, sizeof set, "data.path=%s", path);
  hr_train_result last = train_ok(
      OVERRIDES("data.source=text", set, "training.steps=120", "training.optimizer.lr=2e-2"), (hr_train_options){0});
  unlink(path);
  free((void *)(uintptr_t)folder);
  assert_true(first.loss > 5.0 && first.loss < 6.2); /* ln 256 = 5.545 */
  assert_true(last.loss < 1.0);
}

static void test_same_twice(void **state) {
  (void)state;
  hr_train_result a = train_ok(NULL, (hr_train_options){0}), b = train_ok(NULL, (hr_train_options){0});
  assert_string_equal(a.weights_sha256, b.weights_sha256);
  assert_true(a.loss == b.loss);
  hr_train_result c = train_ok(OVERRIDES("training.seed=8"), (hr_train_options){0});
  assert_string_not_equal(a.weights_sha256, c.weights_sha256);
}

static void test_accumulation_adds_up(void **state) {
  (void)state;
  const char *const *whole = OVERRIDES("training.batch_size=4", "training.clip_norm=null");
  const char *const *parts =
      OVERRIDES("training.batch_size=1", "training.gradient_accumulation=4", "training.clip_norm=null");
  hr_train_result a = train_ok(whole, (hr_train_options){0}), b = train_ok(parts, (hr_train_options){0});
  assert_true(a.loss > b.loss ? a.loss - b.loss < 2e-4 : b.loss - a.loss < 2e-4);
  assert_int_equal(a.steps, b.steps);
}

static void resume_everywhere(const char *const *overrides) {
  hr_train_result whole = train_ok(overrides, (hr_train_options){0});
  for (int64_t stop = 1; stop < 8; stop++) {
    const char *out = folder_make("resume");
    train_ok(overrides, (hr_train_options){.out = out, .stop_at = stop});
    hr_train_result rest = train_ok(overrides, (hr_train_options){.out = out, .resume = true});
    assert_int_equal(rest.steps_here, 8 - stop);
    assert_string_equal(rest.weights_sha256, whole.weights_sha256);
    assert_true(rest.loss == whole.loss);
    folder_remove(out);
    free((void *)(uintptr_t)out);
  }
}

static void test_resume_f32(void **state) {
  (void)state;
  resume_everywhere(NULL);
}

static void test_resume_bf16_accumulated(void **state) {
  (void)state;
  resume_everywhere(
      OVERRIDES("model.precision=bf16-true", "training.batch_size=1", "training.gradient_accumulation=2"));
}

static void test_log(void **state) {
  (void)state;
  const char *out = folder_make("log");
  const char *const *with_eval = OVERRIDES("training.eval_every=4", "training.save_every=3");
  train_ok(with_eval, (hr_train_options){.out = out, .stop_at = 7});
  size_t bytes;
  char *path = path_join(out, "log.jsonl"), *text = file_get(path, &bytes);
  assert_non_null(text);
  assert_non_null(strstr(text, "\"fingerprint\":\""));
  assert_non_null(strstr(text, "\"planned_peak_bytes\":"));
  assert_non_null(strstr(text, "{\"step\":4,\"eval_loss\":"));
  assert_non_null(strstr(text, "{\"step\":7,\"loss\":"));
  free(text);
  /* Lines after the checkpoint and a torn line go away on resume. */
  FILE *file = fopen(path, "ab");
  assert_non_null(file);
  fputs("{\"step\":8,\"loss\":1,\"lr\":1,\"grad_norm\":1,\"seconds\":1,\"tokens\":1}\n{\"step\":9,\"lo", file);
  fclose(file);
  train_ok(with_eval, (hr_train_options){.out = out, .resume = true});
  text = file_get(path, &bytes);
  int lines = 0, eights = 0, events = 0;
  for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) /* events are not counted */
    lines += !memmem(at, (size_t)(end - at), "\"event\":", 8);
  for (char *at = text; (at = strstr(at, "\"event\":")); at++)
    events++;
  for (char *at = text; (at = strstr(at, "{\"step\":8,")); at++)
    eights++;
  assert_int_equal(lines, 1 + 8 + 2);
  assert_true(events >= 8);    /* twice started, memory and ended, and two saves */
  assert_int_equal(eights, 5); /* one step, one evaluation, memory, saved, ended */
  assert_null(strstr(text, "\"step\":9"));
  free(text);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

static void test_refusals(void **state) {
  (void)state;
  const char *out = folder_make("refuse");
  train_ok(NULL, (hr_train_options){.out = out, .resume = true, .stop_at = 4}); /* nothing there: starts fresh */
  train_fails(NULL, (hr_train_options){.out = out}, HR_USAGE);
  hr_error err = train_fails(OVERRIDES("training.seed=9"), (hr_train_options){.out = out, .resume = true}, HR_USAGE);
  assert_non_null(strstr(err.message, "training.seed was 7, is 9"));
  train_fails(OVERRIDES("training.batch_size=4"), (hr_train_options){.out = out, .resume = true}, HR_USAGE);
  train_fails(OVERRIDES("model.config.hidden_size=32"), (hr_train_options){.out = out, .resume = true}, HR_USAGE);
  train_fails(OVERRIDES("training.steps=2"), (hr_train_options){.out = out, .resume = true}, HR_USAGE);
  hr_train_result more = train_ok(OVERRIDES("training.steps=10", "training.save_every=5", "memory.budget=1GiB"),
                                  (hr_train_options){.out = out, .resume = true});
  assert_int_equal(more.steps, 10);
  hr_train_result again = train_ok(OVERRIDES("training.steps=10"), (hr_train_options){.out = out, .resume = true});
  assert_int_equal(again.steps_here, 0);
  assert_string_equal(again.weights_sha256, more.weights_sha256);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

static void test_two_generations(void **state) {
  (void)state;
  const char *out = folder_make("two");
  train_ok(OVERRIDES("training.save_every=2"), (hr_train_options){.out = out});
  assert_int_equal(access(path_join(out, "generation-00000008/manifest.json"), F_OK), 0);
  assert_int_equal(access(path_join(out, "generation-00000006/manifest.json"), F_OK), 0);
  assert_int_not_equal(access(path_join(out, "generation-00000004"), F_OK), 0);
  assert_int_not_equal(access(path_join(out, "generation-00000002"), F_OK), 0);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

static void test_bad_data(void **state) {
  (void)state;
  const char *out = folder_make("bad");
  char set[4200], *path = path_join(HR_BINARY_DIR, "train-short.txt");
  snprintf(set, sizeof set, "data.path=%s", path);
  file_put(path, "0123456789abcdef", 16); /* one byte short of a window */
  hr_train_options options = {.out = out};
  hr_error err = train_fails(OVERRIDES("data.source=text", set), options, HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "too few"));
  file_put(path, "0123456789abcdefg", 17);
  train_fails(OVERRIDES("data.source=text", set, "training.eval_every=2"), options, HR_BAD_INPUT);
  train_fails(OVERRIDES("data.source=text", set, "model.config.vocab_size=255"), options, HR_BAD_INPUT);
  train_fails(OVERRIDES("data.source=text"), options, HR_BAD_INPUT);
  train_fails(OVERRIDES("data.source=text", "data.path=/"), options, HR_BAD_INPUT);
  train_fails(OVERRIDES("data.source=text", "data.path=not-there.txt"), options, HR_BAD_INPUT);
  assert_int_not_equal(access(out, F_OK), 0); /* nothing was written */
  unlink(path);
  free((void *)(uintptr_t)out);
}

static void test_not_finite_stops(void **state) {
  (void)state;
  const char *out = folder_make("nan");
  hr_error err = train_fails(OVERRIDES("training.optimizer.lr=1000", "training.clip_norm=null", "training.steps=400",
                                       "training.schedule.kind=constant", "training.schedule.warmup_steps=0",
                                       "training.optimizer.weight_decay=500", "training.save_every=1"),
                             (hr_train_options){.out = out}, HR_FAILURE);
  assert_true(strstr(err.message, "NaN") || strstr(err.message, "infinite") || strstr(err.message, "not finite"));
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

static void test_weights_of_a_folder(void **state) {
  (void)state;
  const char *out = folder_make("weights");
  hr_train_result saved = train_ok(NULL, (hr_train_options){.out = out});
  char set[4200];
  snprintf(set, sizeof set, "model.path=%s", path_join(out, "generation-00000008"));
  /* The first step of a warm-up has rate 0: the weights are still those of the folder. */
  hr_train_result same =
      train_ok(OVERRIDES(set, "training.seed=99", "training.steps=3"), (hr_train_options){.stop_at = 1});
  assert_string_equal(same.weights_sha256, saved.weights_sha256);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

/* A checkpoint stands in for the weights of model.path, which may be gone by then; a fresh run writes nothing without
 * them. */
static void test_resume_without_weights(void **state) {
  (void)state;
  const char *base = folder_make("base"), *out = folder_make("tuned");
  train_ok(NULL, (hr_train_options){.out = base});
  char set[4200], file[4200];
  snprintf(set, sizeof set, "model.path=%s", path_join(base, "generation-00000008"));
  snprintf(file, sizeof file, "%s", path_join(base, "generation-00000008/model.safetensors"));
  train_ok(OVERRIDES(set), (hr_train_options){.out = out, .stop_at = 3});
  assert_int_equal(unlink(file), 0);
  hr_train_result rest = train_ok(OVERRIDES(set), (hr_train_options){.out = out, .resume = true});
  assert_int_equal(rest.steps_here, 5);
  folder_remove(out);
  train_fails(OVERRIDES(set), (hr_train_options){.out = out, .resume = true}, HR_BAD_INPUT);
  assert_int_not_equal(access(out, F_OK), 0);
  folder_remove(base);
  free((void *)(uintptr_t)base);
  free((void *)(uintptr_t)out);
}

static void warning_count(void *user, hr_message_kind kind, const char *text) {
  if (kind == HR_MESSAGE_WARNING && strstr(text, "held-out loss")) ++*(int *)user;
}

/* Weights that spoil only what evaluation looks at: the embedding of a byte that is in the held-out text alone. */
static void test_eval_not_finite(void **state) {
  (void)state;
  const char *base = folder_make("eval-base");
  train_ok(NULL, (hr_train_options){.out = base});
  char weights[4200], set[4200], data[4200];
  snprintf(weights, sizeof weights, "%s", path_join(base, "generation-00000008/model.safetensors"));
  snprintf(set, sizeof set, "model.path=%s", path_join(base, "generation-00000008"));
  snprintf(data, sizeof data, "data.path=%s", path_join(base, "text"));
  size_t bytes;
  char *file = file_get(weights, &bytes);
  uint64_t header;
  memcpy(&header, file, sizeof header);
  char *entry = strstr(file + 8, "\"model.embed_tokens.weight\"");
  assert_non_null(entry);
  size_t begin = strtoull(strstr(entry, "\"data_offsets\":[") + 16, NULL, 10);
  memset(file + 8 + header + begin + 'z' * 16 * sizeof(float), 0xff, 16 * sizeof(float)); /* NaN */
  file_put(weights, file, bytes);
  free(file);
  char text[10 * 16 + 1];
  memset(text, 'a', sizeof text);
  memset(text + sizeof text - 16, 'z', 16);
  file_put(path_join(base, "text"), text, sizeof text);
  int warnings = 0;
  hr_train_result result =
      train_ok(OVERRIDES(set, data, "data.source=text", "data.tokenizer=bytes", "data.eval_fraction=0.1",
                         "training.eval_every=2", "training.eval_batches=1", "training.steps=4"),
               (hr_train_options){.message = warning_count, .message_user = &warnings});
  assert_true(isfinite(result.loss) && !isfinite(result.eval_loss));
  assert_int_equal(warnings, 2);
  folder_remove(base);
  free((void *)(uintptr_t)base);
}

/* nohup and shells start what runs in the background with these signals ignored. */
static void test_ignored_signal_stays_ignored(void **state) {
  (void)state;
  signal(SIGINT, SIG_IGN);
  hr__signals_begin();
  raise(SIGINT);
  assert_int_equal(hr__signals_caught(), 0);
  raise(SIGTERM);
  assert_int_equal(hr__signals_caught(), SIGTERM);
  raise(SIGINT); /* still ignored after the other one */
  assert_int_equal(hr__signals_caught(), SIGTERM);
  hr__signals_end();
  assert_true(signal(SIGINT, SIG_DFL) == SIG_IGN);
}

static void stop_by_signal(int number, hr_status expected) {
  const char *out = folder_make("signal");
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    usleep(150000);
    kill(parent, number);
    _exit(0);
  }
  hr_error err = train_fails(OVERRIDES("training.steps=1000000"),
                             (hr_train_options){.out = out, .handle_signals = true}, expected);
  assert_non_null(strstr(err.message, "saved"));
  int64_t step = strtoll(strstr(err.message, "step ") + 5, NULL, 10);
  hr_train_result more = train_ok(OVERRIDES("training.steps=1000000"),
                                  (hr_train_options){.out = out, .resume = true, .stop_at = step + 1});
  assert_int_equal(more.steps_here, 1);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

static void test_signals(void **state) {
  (void)state;
  stop_by_signal(SIGHUP, HR_HUNG_UP);
  stop_by_signal(SIGINT, HR_INTERRUPTED);
  stop_by_signal(SIGTERM, HR_TERMINATED);
}

static void test_profile(void **state) {
  (void)state;
  tiny t;
  hr_error err = {0};
  assert_int_equal(tiny_open(&t, OVERRIDES("training.gradient_accumulation=3", "training.eval_every=5"), &err), HR_OK);
  hr_train_options options = {.recipe = t.recipe, .plan = t.plan, .device = t.device};
  hr_profile profile;
  double *nodes = calloc(t.graph->n_nodes, sizeof *nodes);
  assert_int_equal(hr__profile(&options, 0, &profile, nodes, &err), HR_USAGE);
  assert_int_equal(hr__profile(&options, HR_PROFILE_STEPS + 1, &profile, nodes, &err), HR_USAGE);
  assert_int_equal(hr__profile(&options, 4, &profile, nodes, &err), HR_OK);
  double sum = 0;
  for (size_t n = 0; n < t.graph->n_nodes; n++) {
    assert_true(nodes[n] >= 0);
    sum += nodes[n];
  }
  assert_true(sum > 0 && profile.step_seconds > 0);
  assert_int_equal(profile.arena_bytes[HR_TIER_DEVICE], t.plan->tiers[HR_TIER_DEVICE].arena_bytes);
  assert_true(profile.process_bytes > profile.arena_bytes[HR_TIER_DEVICE]);
  assert_true(hr__within_plan(100 << 20, (100 << 20) + (16 << 20)) && !hr__within_plan(100 << 20, (117 << 20)));
  assert_true(hr__within_plan((uint64_t)10 << 30, ((uint64_t)10 << 30) + (200 << 20)));
  free(nodes);
  tiny_close(&t);
}

int main(void) {
  signal(SIGINT, SIG_DFL); /* whatever this was started from */
  signal(SIGHUP, SIG_DFL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_loss_falls),
      cmocka_unit_test(test_same_twice),
      cmocka_unit_test(test_accumulation_adds_up),
      cmocka_unit_test(test_resume_f32),
      cmocka_unit_test(test_resume_bf16_accumulated),
      cmocka_unit_test(test_log),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_two_generations),
      cmocka_unit_test(test_bad_data),
      cmocka_unit_test(test_not_finite_stops),
      cmocka_unit_test(test_resume_without_weights),
      cmocka_unit_test(test_eval_not_finite),
      cmocka_unit_test(test_ignored_signal_stays_ignored),
      cmocka_unit_test(test_signals),
      cmocka_unit_test(test_profile),
      cmocka_unit_test(test_weights_of_a_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
