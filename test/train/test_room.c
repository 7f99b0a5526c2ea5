/* Room on the disk, on a small disk that is counted here: looked for before the first step, made by removing what is no
 * longer needed, and waited for. And when saves are due. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/file.h"
#include "part_tiny.h"
#include "train/saving.h"

/* With checkpoints of a megabyte, beside which a log is small. */
#define WIDE           "model.config.hidden_size=64", "model.config.intermediate_size=128"
#define OVERRIDES(...) ((const char *const[]){WIDE, __VA_ARGS__, NULL})

/* --- a disk that holds so many bytes ------------------------------------------------------------------------------ */

static hr_file_calls real;
static const char *disk;        /* folder whose files lie on it */
static uint64_t capacity_bytes; /* of the disk */
static int writes_left;         /* until there is room for all again; < 0: never */

static uint64_t used_bytes(void) {
  static const char *const names[] = {"config.json", "model.safetensors", "training/optimizer.safetensors",
                                      "manifest.json"};
  uint64_t used = 0;
  struct stat facts;
  char path[4096];
  snprintf(path, sizeof path, "%s/log.jsonl", disk);
  if (stat(path, &facts) == 0) used += (uint64_t)facts.st_size;
  for (int step = 0; step <= 16; step++)
    for (size_t i = 0; i < 8; i++) {
      snprintf(path, sizeof path, "%s/generation-%08d/%s%s", disk, step, names[i / 2], i % 2 ? ".tmp" : "");
      if (stat(path, &facts) == 0) used += (uint64_t)facts.st_size;
    }
  return used;
}

static long disk_write(int fd, const void *data, size_t bytes) {
  uint64_t used = used_bytes();
  if (used + bytes <= capacity_bytes || writes_left == 0) return real.write(fd, data, bytes);
  if (writes_left > 0) writes_left--;
  if (used < capacity_bytes) return real.write(fd, data, (size_t)(capacity_bytes - used));
  errno = ENOSPC;
  return -1;
}

static int disk_free(const char *path, uint64_t *bytes) {
  (void)path;
  uint64_t used = used_bytes();
  *bytes = used < capacity_bytes ? capacity_bytes - used : 0;
  return 0;
}

typedef struct told {
  int warnings;
  char first[1024], last[1024]; /* of the warnings */
} told;

static void message_note(void *user, hr_message_kind kind, const char *text) {
  told *t = user;
  if (kind != HR_MESSAGE_WARNING) return;
  snprintf(t->warnings++ == 0 ? t->first : t->last, sizeof t->last, "%s", text);
}

static int setup(void **state) {
  *state = (void *)(uintptr_t)(disk = folder_make("room"));
  capacity_bytes = UINT64_MAX;
  writes_left = -1;
  hr__file_calls.free_bytes = disk_free;
  return 0;
}

static int teardown(void **state) {
  folder_remove(disk);
  free(*state);
  return 0;
}

static uint64_t number_before(const char *text, const char *word) {
  const char *end = strstr(text, word), *at = end;
  assert_non_null(end);
  while (at > text && at[-1] >= '0' && at[-1] <= '9')
    at--;
  return strtoull(at, NULL, 10);
}

/* --- before the first step ---------------------------------------------------------------------------------------- */

static void test_refused_at_the_start(void **state) {
  (void)state;
  capacity_bytes = 1000;
  hr_error err = train_fails(OVERRIDES("training.seed=7"), (hr_train_options){.out = disk}, HR_NO_SPACE);
  assert_int_equal(hr_status_exit_code(HR_NO_SPACE), 1);
  assert_non_null(strstr(err.message, "(1000 bytes) are free"));
  uint64_t needed = number_before(err.message, " bytes) beside");
  assert_non_null(strstr(err.remedy, "--out"));
  assert_true(access(disk, F_OK) != 0); /* nothing was made */

  capacity_bytes = needed - 1;
  train_fails(OVERRIDES("training.seed=7"), (hr_train_options){.out = disk}, HR_NO_SPACE);
  capacity_bytes = needed;
  train_ok(OVERRIDES("training.save_every=1"), (hr_train_options){.out = disk});
  assert_true(used_bytes() <= needed); /* two checkpoints and the log are what is there at the end */
  /* Two are there: with less room than one takes, the run can go on, since the older one gives way. */
  hr_train_result more = train_ok(OVERRIDES("training.steps=12", "training.save_every=1"),
                                  (hr_train_options){.out = disk, .resume = true});
  assert_int_equal(more.steps_here, 4);
}

static void test_limit_of_file_sizes(void **state) {
  (void)state;
  struct rlimit before, low;
  getrlimit(RLIMIT_FSIZE, &before);
  low = before;
  low.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &low);
  hr_error err = train_fails(OVERRIDES("training.seed=7"), (hr_train_options){.out = disk}, HR_NO_SPACE);
  setrlimit(RLIMIT_FSIZE, &before);
  assert_non_null(strstr(err.message, "files may have 4096 bytes"));
  assert_non_null(strstr(err.remedy, "ulimit -f"));
}

/* --- in mid-run --------------------------------------------------------------------------------------------------- */

static uint64_t checkpoint_bytes(void) {
  capacity_bytes = 0;
  hr_error err = train_fails(OVERRIDES("training.seed=7"), (hr_train_options){.out = disk}, HR_NO_SPACE);
  capacity_bytes = UINT64_MAX;
  return number_before(err.message, " bytes) beside") / 2;
}

static void test_goes_on_and_saves_later(void **state) {
  (void)state;
  uint64_t one = checkpoint_bytes();
  hr_train_result whole = train_ok(OVERRIDES("training.seed=7"), (hr_train_options){0});
  train_ok(OVERRIDES("training.steps=2"), (hr_train_options){.out = disk, .stop_at = 2});
  told t = {.warnings = 0};
  capacity_bytes = UINT64_MAX;
  /* The check at the start finds room for all; then the disk is full for a while. */
  hr__file_calls.free_bytes = real.free_bytes;
  capacity_bytes = used_bytes() + one / 2;
  writes_left = 3; /* a save that fails writes what has room, and once more */
  hr_train_result result =
      train_ok(OVERRIDES("training.save_every=2"),
               (hr_train_options){.out = disk, .resume = true, .message = message_note, .message_user = &t});
  hr__file_calls.free_bytes = disk_free;
  assert_int_equal(writes_left, 0);
  assert_true(t.warnings > 0);
  assert_non_null(strstr(t.first, "NOT SAVED"));
  assert_non_null(strstr(t.first, "checkpoint of step 2 is whole"));
  assert_non_null(strstr(t.first, "No space left"));
  assert_non_null(strstr(t.first, "again"));
  assert_string_equal(result.weights_sha256, whole.weights_sha256);
  hr_train_result again = train_ok(OVERRIDES("training.seed=7"), (hr_train_options){.out = disk, .resume = true});
  assert_int_equal(again.steps_here, 0); /* the end is saved */
}

static void test_last_save_fails(void **state) {
  (void)state;
  uint64_t one = checkpoint_bytes();
  hr_train_result whole = train_ok(OVERRIDES("training.seed=7"), (hr_train_options){0});
  train_ok(OVERRIDES("training.steps=3"), (hr_train_options){.out = disk});
  hr__file_calls.free_bytes = real.free_bytes;
  capacity_bytes = used_bytes() + one / 2;
  hr_error err =
      train_fails(OVERRIDES("training.seed=7"), (hr_train_options){.out = disk, .resume = true}, HR_NO_SPACE);
  hr__file_calls.free_bytes = disk_free;
  assert_non_null(strstr(err.message, "No space left"));
  assert_non_null(strstr(err.remedy, "the checkpoint of step 3 is whole"));
  assert_non_null(strstr(err.remedy, "--resume"));
  assert_non_null(strstr(err.remedy, "generation-00000003"));
  capacity_bytes = UINT64_MAX;
  hr_train_result result = train_ok(OVERRIDES("training.seed=7"), (hr_train_options){.out = disk, .resume = true});
  assert_int_equal(result.steps_here, 5);
  assert_string_equal(result.weights_sha256, whole.weights_sha256);
}

/* Room for two and a half checkpoints: the older one of two gives way to the third, the newer one never. */
static void test_the_oldest_gives_way(void **state) {
  (void)state;
  uint64_t one = checkpoint_bytes();
  capacity_bytes = 5 * one / 2;
  told t = {.warnings = 0};
  hr_train_result result = train_ok(OVERRIDES("training.save_every=1"),
                                    (hr_train_options){.out = disk, .message = message_note, .message_user = &t});
  assert_int_equal(t.warnings, 0);
  assert_int_equal(result.steps, 8);
  assert_true(access(path_join(disk, "generation-00000007/manifest.json"), F_OK) == 0);
  assert_true(access(path_join(disk, "generation-00000008/manifest.json"), F_OK) == 0);
  /* With too little room even so, both stay. */
  hr__file_calls.free_bytes = real.free_bytes;
  capacity_bytes = used_bytes() + 100;
  train_fails(OVERRIDES("training.steps=9"), (hr_train_options){.out = disk, .resume = true}, HR_NO_SPACE);
  hr__file_calls.free_bytes = disk_free;
  assert_true(access(path_join(disk, "generation-00000007/manifest.json"), F_OK) == 0);
  assert_true(access(path_join(disk, "generation-00000008/manifest.json"), F_OK) == 0);
}

/* --- when --------------------------------------------------------------------------------------------------------- */

static hr_saving saving_of(const char *const *overrides, double now) {
  tiny t;
  hr_error err = {0};
  hr_saving saving;
  assert_int_equal(tiny_open(&t, overrides, &err), HR_OK);
  hr__saving_begin(&saving, t.recipe, now);
  tiny_close(&t);
  return saving;
}

static void test_when(void **state) {
  (void)state;
  hr_saving s = saving_of(NULL, 100);
  assert_false(hr__saving_due(&s, 1000, 100 + 1799));
  assert_true(hr__saving_due(&s, 1000, 100 + 1800)); /* half an hour where nothing is said */
  hr__saving_done(&s, 2000);
  assert_false(hr__saving_due(&s, 1000, 2000 + 1799));
  hr__saving_postpone(&s, 2000);
  assert_false(hr__saving_due(&s, 1000, 2000 + 299));
  assert_true(hr__saving_due(&s, 1000, 2000 + 300));

  s = saving_of(OVERRIDES("training.save_every=10"), 100); /* then not by time */
  assert_true(hr__saving_due(&s, 20, 100) && !hr__saving_due(&s, 21, 1e9));
  hr__saving_postpone(&s, 100);
  assert_true(hr__saving_due(&s, 21, 400));
  hr__saving_done(&s, 400);
  assert_false(hr__saving_due(&s, 21, 1e9));

  s = saving_of(OVERRIDES("training.save_every=10", "training.save_minutes=2"), 0);
  assert_true(hr__saving_due(&s, 10, 0) && hr__saving_due(&s, 11, 120) && !hr__saving_due(&s, 11, 119));
  hr__saving_postpone(&s, 0);
  assert_true(hr__saving_due(&s, 11, 120)); /* no later than it would be anyway */
  s = saving_of(OVERRIDES("training.save_minutes=0"), 0);
  assert_false(hr__saving_due(&s, 1000, 1e9));
}

/* Saves by time are where the clock puts them, and change nothing. */
static void test_by_time(void **state) {
  (void)state;
  hr_train_result whole = train_ok(OVERRIDES("training.save_minutes=0"), (hr_train_options){.out = disk});
  assert_true(access(path_join(disk, "generation-00000007"), F_OK) != 0);
  folder_remove(disk);
  hr_train_result often = train_ok(OVERRIDES("training.save_minutes=1e-9"), (hr_train_options){.out = disk});
  assert_true(access(path_join(disk, "generation-00000007/manifest.json"), F_OK) == 0);
  assert_string_equal(often.weights_sha256, whole.weights_sha256);
  /* The interval may change when a run is resumed. */
  train_ok(OVERRIDES("training.save_minutes=5", "training.steps=9"), (hr_train_options){.out = disk, .resume = true});
  train_ok(OVERRIDES("training.save_every=3", "training.steps=10"), (hr_train_options){.out = disk, .resume = true});
}

static int sync_nothing(int fd) {
  (void)fd;
  return 0;
}

int main(void) {
  hr__file_calls.fdatasync = sync_nothing;
  hr__file_calls.fsync = sync_nothing;
  real = hr__file_calls;
  hr__file_calls.write = disk_write;
  hr__file_calls.free_bytes = disk_free;
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_refused_at_the_start),
      TEST(test_limit_of_file_sizes),
      TEST(test_goes_on_and_saves_later),
      TEST(test_last_save_fails),
      TEST(test_the_oldest_gives_way),
      TEST(test_when),
      TEST(test_by_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
