/* SIGKILL: a run that is killed again and again, at random times and at every single file call of a save, ends with the
 * weights of a run that was not. HR_TEST_KILLS sets the number of random kills (default 100; under the sanitizers,
 * which see nothing of a process that was killed, 20). */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "format/file.h"
#include "part_tiny.h"

#ifdef HR_ASAN
enum { KILLS = 20 };
#else
enum { KILLS = 100 };
#endif

static const char *const many_steps[] = {"training.steps=24", "training.save_every=3", NULL};
static const char *const few_steps[] = {"training.steps=3", "training.save_every=1", NULL};

/* --- calls that end the process ----------------------------------------------------------------------------------- */

static hr_file_calls real;
static long calls_left; /* before the process ends itself; < 0: never */
static bool after;      /* the call is done first */

static void call_before(void) {
  if (!after && calls_left-- == 0) kill(getpid(), SIGKILL);
}
static void call_after(void) {
  if (after && calls_left-- == 0) kill(getpid(), SIGKILL);
}

#define CALL(type, name, parameters, arguments)                                                                        \
  static type kill_##name parameters {                                                                                 \
    call_before();                                                                                                     \
    type result = real.name arguments;                                                                                 \
    call_after();                                                                                                      \
    return result;                                                                                                     \
  }
CALL(int, open, (const char *path, int flags, unsigned mode), (path, flags, mode))
CALL(long, write, (int fd, const void *data, size_t bytes), (fd, data, bytes))
CALL(int, rename, (const char *from, const char *to), (from, to))
CALL(int, mkdir, (const char *path, unsigned mode), (path, mode))
CALL(int, unlink, (const char *path), (path))
CALL(int, rmdir, (const char *path), (path))

/* A kill loses nothing that was written, so waiting for the disk would only slow the test down. */
static int sync_nothing(int fd) {
  (void)fd;
  return 0;
}

static void calls_replace(void) {
  real = hr__file_calls;
  hr__file_calls.open = kill_open;
  hr__file_calls.write = kill_write;
  hr__file_calls.rename = kill_rename;
  hr__file_calls.mkdir = kill_mkdir;
  hr__file_calls.unlink = kill_unlink;
  hr__file_calls.rmdir = kill_rmdir;
  hr__file_calls.fdatasync = sync_nothing;
  hr__file_calls.fsync = sync_nothing;
}

/* --- runs in a process of their own ------------------------------------------------------------------------------- */

static int report[2]; /* pipe: hash of a run that came to its end */

static pid_t run_start(const char *const *overrides, const char *out, long kill_at) {
  pid_t child = fork();
  if (child != 0) return child;
  calls_left = kill_at;
  hr_train_result result;
  hr_error err = {0};
  hr_status status = tiny_train(overrides, (hr_train_options){.out = out, .resume = true}, &result, &err);
  if (status != HR_OK) fprintf(stderr, "%s: %s: %s\n", hr_status_name(status), err.place, err.message);
  if (status == HR_OK && write(report[1], result.weights_sha256, HR_SHA256_HEX) != HR_SHA256_HEX) _exit(1);
  _exit(status == HR_OK ? 0 : 1);
}

/* Whether the child came to its end; a failure of its own fails the test. */
static bool run_wait(pid_t child, char hex[HR_SHA256_HEX]) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) {
    assert_int_equal(WTERMSIG(status), SIGKILL);
    return false;
  }
  if (WEXITSTATUS(status) != 0) fail_msg("a resumed run failed");
  assert_int_equal(read(report[0], hex, HR_SHA256_HEX), HR_SHA256_HEX);
  return true;
}

/* Whether some generation has no manifest: a save was cut off. */
static bool save_was_cut(const char *out) {
  for (int step = 0; step <= 24; step++) {
    char name[64];
    snprintf(name, sizeof name, "generation-%08d", step);
    if (access(path_join(out, name), F_OK) != 0) continue;
    snprintf(name, sizeof name, "generation-%08d/manifest.json", step);
    if (access(path_join(out, name), F_OK) != 0) return true;
  }
  return false;
}

static void reference(const char *const *overrides, char hex[HR_SHA256_HEX]) {
  hr_train_result result;
  hr_error err = {0};
  assert_int_equal(tiny_train(overrides, (hr_train_options){0}, &result, &err), HR_OK);
  memcpy(hex, result.weights_sha256, HR_SHA256_HEX);
}

static void test_random_times(void **state) {
  (void)state;
  const char *wanted = getenv("HR_TEST_KILLS");
  int kills = wanted && atoi(wanted) > 0 ? atoi(wanted) : KILLS, killed = 0, runs = 0, cut_saves = 0;
  char expected[HR_SHA256_HEX], hex[HR_SHA256_HEX];
  reference(many_steps, expected);
  const char *out = folder_make("kill");
  bool ended = true;
  for (uint64_t attempt = 0; killed < kills || !ended; attempt++) {
    pid_t child = run_start(many_steps, out, -1);
    if (killed < kills) { /* afterwards the last run is left alone */
      usleep((useconds_t)(500 + hr__random_below((hr_random_key){5, 6}, attempt, 0, 20000)));
      kill(child, SIGKILL);
    }
    ended = run_wait(child, hex);
    killed += !ended;
    cut_saves += !ended && save_was_cut(out);
    if (!ended) continue;
    runs++;
    assert_string_equal(hex, expected);
    folder_remove(out);
  }
  print_message("%d kills in %d runs, %d of them in a save\n", killed, runs, cut_saves);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

static void test_every_call(void **state) {
  (void)state;
  char expected[HR_SHA256_HEX], hex[HR_SHA256_HEX];
  reference(few_steps, expected);
  const char *out = folder_make("calls");
  int killed = 0;
  for (int late = 0; late < 2; late++) {
    bool ended = false;
    for (long at = 0; !ended; at++) {
      after = late;
      ended = run_wait(run_start(few_steps, out, at), hex);
      killed += !ended;
      if (!ended && !run_wait(run_start(few_steps, out, -1), hex)) fail_msg("killed without being asked");
      if (strcmp(hex, expected) != 0) fail_msg("killed %s call %ld: other weights", late ? "after" : "before", at);
      folder_remove(out);
    }
  }
  print_message("%d kills at file calls\n", killed);
  assert_true(killed > 100);
  free((void *)(uintptr_t)out);
}

int main(void) {
  if (pipe(report) != 0) return 1;
  calls_left = -1;
  calls_replace();
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_call), cmocka_unit_test(test_random_times)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
