/* Runs that are disturbed at random moments, by signals, a full disk and data that goes away:
 * nothing that was saved before is lost, and
 * the run that goes on ends with the weights of one that was never disturbed. HR_TEST_STOPS sets the number of moments
 * of each kind (default 20). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "format/file.h"
#include "part_tiny.h"
#include "train/session.h"

/* Wide enough that products are those of a real model, which a signal may find in the middle of. */
static const char *overrides[] = {
    "model.config.hidden_size=32",
    "model.config.intermediate_size=64",
    "model.config.max_position_embeddings=128",
    "data.sequence_length=128",
    "training.steps=24",
    "training.save_every=5",
    NULL,
    NULL,
    NULL, /* room for settings of a test */
};

/* What a run in a process of its own tells when it ends. */
typedef struct ending {
  hr_status status;
  int64_t begun, steps; /* first and last step */
  char sha256[HR_SHA256_HEX];
} ending;
static int pipe_ends[2];

static pid_t run_start(const char *out) {
  pid_t child = fork();
  if (child != 0) return child;
  hr_train_result result = {0};
  hr_error err = {0};
  ending e = {.status = tiny_train(overrides, (hr_train_options){.out = out, .resume = true, .handle_signals = true},
                                   &result, &err)};
  bool told =
      e.status == HR_OK || e.status == HR_NO_SPACE || e.status == HR_BAD_INPUT || hr_status_exit_code(e.status) > 128;
  if (!told) fprintf(stderr, "%s: %s: %s\n", hr_status_name(e.status), err.place, err.message);
  e.steps = result.steps;
  e.begun = result.steps - result.steps_here;
  memcpy(e.sha256, result.weights_sha256, sizeof e.sha256);
  if (write(pipe_ends[1], &e, sizeof e) != sizeof e) _exit(2);
  _exit(hr_status_exit_code(e.status));
}

/* Whether it came to an end of its own; otherwise `number` killed it. One that has told its end may be killed on its
 * way out, which is an end of its own. */
static bool run_wait(pid_t child, int number, ending *e) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  struct pollfd told = {.fd = pipe_ends[0], .events = POLLIN};
  if (WIFSIGNALED(status) && poll(&told, 1, 0) == 0) {
    assert_int_equal(WTERMSIG(status), number);
    return false;
  }
  assert_int_equal(read(pipe_ends[0], e, sizeof *e), sizeof *e);
  return true;
}

/* Step of the newest checkpoint that has its manifest; 0: none. */
static int64_t newest_saved(const char *out) {
  int64_t newest = 0;
  DIR *folder = opendir(out);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    long long step;
    char name[300];
    snprintf(name, sizeof name, "%s/manifest.json", entry->d_name);
    if (sscanf(entry->d_name, "generation-%lld", &step) == 1 && access(path_join(out, name), F_OK) == 0 &&
        step > newest)
      newest = step;
  }
  if (folder) closedir(folder);
  return newest;
}

static void reference(char hex[HR_SHA256_HEX], double *seconds) {
  const char *out = folder_make("stops-whole");
  ending e;
  double begin = hr__seconds_now();
  assert_true(run_wait(run_start(out), 0, &e));
  *seconds = hr__seconds_now() - begin;
  assert_int_equal(e.status, HR_OK);
  memcpy(hex, e.sha256, HR_SHA256_HEX);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

static int moments(void) {
  const char *wanted = getenv("HR_TEST_STOPS");
#ifdef HR_ASAN
  int usual = 5; /* every run takes several times as long */
#else
  int usual = 20;
#endif
  return wanted && atoi(wanted) > 0 ? atoi(wanted) : usual;
}

static void random_sleep(uint64_t number, double most_seconds) {
  usleep((useconds_t)hr__random_below((hr_random_key){11, 12}, number, 0, (uint64_t)(most_seconds * 1e6) + 1));
}

static void signals_at_random(int number, hr_status expected) {
  char whole[HR_SHA256_HEX];
  double seconds;
  reference(whole, &seconds);
  const char *out = folder_make("stops");
  int stopped = 0, killed = 0, runs = 0;
  bool ended = true;
  for (uint64_t i = 0; stopped < moments() || !ended; i++) {
    int64_t saved = newest_saved(out);
    pid_t child = run_start(out);
    if (stopped < moments()) { /* afterwards the last run is left alone */
      random_sleep(i, seconds);
      kill(child, number);
    }
    ending e;
    ended = false;
    if (!run_wait(child, number, &e)) { /* before it trained: nothing new, nothing lost */
      killed++;
      assert_true(newest_saved(out) >= saved);
      continue;
    }
    if (e.begun < saved) fail_msg("went on from step %d, %d was saved", (int)e.begun, (int)saved);
    assert_int_equal(newest_saved(out), e.steps); /* what it tells is saved */
    if (e.status == expected) {
      stopped++;
      continue;
    }
    assert_int_equal(e.status, HR_OK);
    assert_string_equal(e.sha256, whole);
    ended = true;
    runs++;
    folder_remove(out);
  }
  print_message("%s: %d stops in %d runs, %d before training began\n", strsignal(number), stopped, runs, killed);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

static void test_hangup(void **state) {
  (void)state;
  signals_at_random(SIGHUP, HR_HUNG_UP);
}

static void test_interrupt(void **state) {
  (void)state;
  signals_at_random(SIGINT, HR_INTERRUPTED);
}

static void test_terminate(void **state) {
  (void)state;
  signals_at_random(SIGTERM, HR_TERMINATED);
}

/* --- a disk that is full for a while ------------------------------------------------------------------------------ */

static hr_file_calls real;
static long calls, full_from, full_to; /* calls that write, and those that find no room */

static bool disk_is_full(void) {
  long number = calls++;
  errno = ENOSPC;
  return number >= full_from && number < full_to;
}
static int full_open(const char *path, int flags, unsigned mode) {
  return flags & O_CREAT && disk_is_full() ? -1 : real.open(path, flags, mode);
}
static long full_write(int fd, const void *data, size_t bytes) {
  if (!disk_is_full()) return real.write(fd, data, bytes);
  return calls % 2 ? -1 : real.write(fd, data, bytes > 1 ? bytes / 2 : bytes); /* what has room is written */
}
static int full_mkdir(const char *path, unsigned mode) {
  return disk_is_full() ? -1 : real.mkdir(path, mode);
}

static void test_full_disk(void **state) {
  (void)state;
  char whole[HR_SHA256_HEX];
  double seconds;
  hr_random_key key = {21, 22};
  full_from = full_to = -1;
  reference(whole, &seconds);
  real = hr__file_calls;
  hr__file_calls.open = full_open;
  hr__file_calls.write = full_write;
  hr__file_calls.mkdir = full_mkdir;
  const char *out = folder_make("stops-full");
  int ended_without_room = 0, went_on = 0, saved_nothing = 0;
  for (int i = 0; i < moments(); i++) {
    ending e;
    full_from = 1 + (long)hr__random_below(key, (uint64_t)i, 0, 100); /* a run makes about 100 such calls */
    full_to = full_from + 1 + (long)hr__random_below(key, (uint64_t)i, 1, 60);
    assert_true(run_wait(run_start(out), 0, &e));
    int64_t saved = newest_saved(out);
    bool no_room = e.status == HR_NO_SPACE;
    ended_without_room += no_room;
    went_on += !no_room;
    saved_nothing += saved == 0;
    if (!no_room) {
      assert_int_equal(e.status, HR_OK);
      assert_int_equal(saved, e.steps);
    }
    full_from = full_to = -1;
    assert_true(run_wait(run_start(out), 0, &e));
    assert_int_equal(e.status, HR_OK);
    assert_int_equal(e.begun, saved);
    assert_string_equal(e.sha256, whole);
    folder_remove(out);
  }
  hr__file_calls = real;
  print_message(
      "full disk: %d times until there was room again, %d times to the end, %d of them before the first save\n",
      went_on, ended_without_room, saved_nothing);
  assert_true(went_on > 0 && ended_without_room > 0);
  free((void *)(uintptr_t)out);
}

/* --- data that goes away ------------------------------------------------------------------------------------------ */

enum { TEXT_BYTES = 20000, FIRST_FREE = 6 };

static void test_vanished_data(void **state) {
  (void)state;
  char whole[HR_SHA256_HEX], set[4200], text[TEXT_BYTES];
  double seconds;
  for (int i = 0; i < TEXT_BYTES; i++)
    text[i] = (char)(i * 131 % 251);
  const char *path = folder_make("stops-text"), *out = folder_make("stops-data");
  snprintf(set, sizeof set, "data.path=%s", path);
  overrides[FIRST_FREE] = "data.source=text";
  overrides[FIRST_FREE + 1] = set;
  file_put(path, text, TEXT_BYTES);
  reference(whole, &seconds);
  int gone = 0, at_start = 0, runs = 0;
  bool ended = true;
  for (uint64_t i = 0; gone < moments() || !ended; i++) {
    ending e;
    int64_t saved = newest_saved(out);
    pid_t child = run_start(out);
    if (gone < moments()) {
      random_sleep(i, seconds);
      assert_int_equal(truncate(path, 0), 0);
    }
    assert_true(run_wait(child, 0, &e));
    file_put(path, text, TEXT_BYTES);
    int64_t after = newest_saved(out);
    assert_true(after >= saved);
    ended = e.status == HR_OK;
    gone += !ended;
    at_start += !ended && after == saved;
    if (!ended) {
      assert_int_equal(e.status, HR_BAD_INPUT);
      continue;
    }
    assert_true(e.begun >= saved);
    assert_string_equal(e.sha256, whole);
    runs++;
    folder_remove(out);
  }
  overrides[FIRST_FREE] = overrides[FIRST_FREE + 1] = NULL;
  print_message("vanished data: %d times in %d runs, %d of them before a step was done\n", gone, runs, at_start);
  assert_true(at_start < gone);
  folder_remove(out);
  unlink(path);
  free((void *)(uintptr_t)path);
  free((void *)(uintptr_t)out);
}

/* A process that is stopped loses nothing that was written, so waiting for the disk would only slow the test down. */
static int sync_nothing(int fd) {
  (void)fd;
  return 0;
}

int main(void) {
  if (pipe(pipe_ends) != 0) return 1;
  signal(SIGHUP, SIG_DFL); /* whatever this was started from */
  signal(SIGINT, SIG_DFL);
  hr__file_calls.fdatasync = sync_nothing;
  hr__file_calls.fsync = sync_nothing;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_hangup), cmocka_unit_test(test_interrupt),
                                     cmocka_unit_test(test_terminate), cmocka_unit_test(test_full_disk),
                                     cmocka_unit_test(test_vanished_data)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
