/* Data that is another when a run is resumed is found and refused, of whatever size; and a run whose data goes away
 * saves what it has done. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/trace.h"
#include "format/file.h"
#include "part_tiny.h"

enum { BYTES = 4000 };

typedef struct fixture {
  const char *folder;
  char out[4096], path[4096], set[4200], text[BYTES];
  int warnings;
  char warning[1024]; /* the newest one */
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->folder = folder_make("data");
  mkdir(f->folder, 0755);
  snprintf(f->out, sizeof f->out, "%s/out", f->folder);
  snprintf(f->path, sizeof f->path, "%s/text", f->folder);
  snprintf(f->set, sizeof f->set, "data.path=%s", f->path);
  for (int i = 0; i < BYTES; i++)
    f->text[i] = (char)(i % 37 == 36 ? '\n' : 'a' + i * 131 % 23);
  file_put(f->path, f->text, BYTES);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  folder_remove(f->folder);
  free((void *)(uintptr_t)f->folder);
  free(f);
  return 0;
}

static void warning_note(void *user, hr_message_kind kind, const char *text) {
  fixture *f = user;
  if (kind != HR_MESSAGE_WARNING) return;
  f->warnings++;
  snprintf(f->warning, sizeof f->warning, "%s", text);
}

static hr_train_options going_on(fixture *f) {
  return (hr_train_options){.out = f->out, .resume = true, .message = warning_note, .message_user = f};
}

static void changed_and_put_back(fixture *f, const char *source) {
  const char *const settings[] = {source, f->set, NULL};
  const char *const other[] = {source, f->set, "training.eval_every=4", NULL};
  hr_train_result whole = train_ok(settings, (hr_train_options){0});
  train_ok(settings, (hr_train_options){.out = f->out, .stop_at = 3});

  char changed[BYTES];
  memcpy(changed, f->text, BYTES);
  changed[BYTES / 2 + 1] ^= 1;
  file_put(f->path, changed, BYTES);
  hr_error err = train_fails(settings, going_on(f), HR_USAGE);
  assert_string_equal(err.place, f->path);
  assert_non_null(strstr(err.message, "same length, but other bytes"));
  assert_non_null(strstr(err.remedy, "--accept-changed-data"));
  file_put(f->path, f->text, BYTES - 100);
  err = train_fails(settings, going_on(f), HR_USAGE);
  assert_non_null(strstr(err.message, "another length"));

  file_put(f->path, f->text, BYTES); /* written anew, with another time: the same data */
  err = train_fails(other, going_on(f), HR_USAGE);
  assert_non_null(strstr(err.message, "other settings"));
  assert_int_equal(f->warnings, 0);
  hr_train_result result = train_ok(settings, going_on(f));
  assert_int_equal(result.steps_here, 5);
  assert_string_equal(result.weights_sha256, whole.weights_sha256);
}

static void test_text(void **state) {
  changed_and_put_back(*state, "data.source=text");
}

static void test_lines(void **state) {
  changed_and_put_back(*state, "data.source=lines");
}

static void test_accepted(void **state) {
  fixture *f = *state;
  const char *const settings[] = {"data.source=text", f->set, NULL};
  train_ok(settings, (hr_train_options){.out = f->out, .stop_at = 3});
  memset(f->text, 'x', BYTES / 2);
  file_put(f->path, f->text, BYTES - 500);
  train_fails(settings, going_on(f), HR_USAGE);
  hr_train_options accepting = going_on(f);
  accepting.accept_changed_data = true;
  accepting.stop_at = 5;
  assert_int_equal(train_ok(settings, accepting).steps_here, 2);
  assert_int_equal(f->warnings, 1);
  assert_non_null(strstr(f->warning, "data has changed"));
  assert_int_equal(train_ok(settings, going_on(f)).steps_here, 3); /* from then on that is its data */
}

/* --- large files ---------------------------------------------------------------------------------------------------*/

static hr_trace trace_of(const char *path, bool read_whole) {
  hr_trace trace;
  hr_error err = {0};
  hr_data_file file = {.path = path, .fd = open(path, O_RDONLY), .read_whole = read_whole};
  assert_true(file.fd >= 0 && fstat(file.fd, &file.opened) == 0);
  file.bytes = (uint64_t)file.opened.st_size;
  if (hr__trace_file(&file, &trace, &err) != HR_OK) fail_msg("%s", err.message);
  hr__data_file_close(&file);
  return trace;
}

static void byte_put(const char *path, off_t at, char byte) {
  int fd = open(path, O_WRONLY);
  assert_int_equal(pwrite(fd, &byte, 1, at), 1);
  close(fd);
}

static void test_large(void **state) {
  fixture *f = *state;
  off_t bytes = (off_t)HR_TRACE_WHOLE_BYTES + 12345; /* with holes: nothing is written */
  assert_int_equal(truncate(f->path, bytes), 0);
  hr_trace before = trace_of(f->path, false), whole = trace_of(f->path, true);
  assert_false(before.whole);
  assert_true(before.changed_ns != 0 && whole.whole && whole.changed_ns == 0);
  off_t seen[] = {0, bytes - 1, HR_TRACE_PIECE_BYTES - 1}, between = HR_TRACE_PIECE_BYTES;
  for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
    char old;
    int fd = open(f->path, O_RDONLY);
    assert_int_equal(pread(fd, &old, 1, seen[i]), 1);
    close(fd);
    byte_put(f->path, seen[i], (char)(old + 1));
    assert_string_not_equal(trace_of(f->path, false).hash, before.hash);
    byte_put(f->path, seen[i], old);
    assert_string_equal(trace_of(f->path, false).hash, before.hash);
  }
  byte_put(f->path, between, 1); /* between two pieces: the time tells, or all bytes do */
  assert_string_equal(trace_of(f->path, false).hash, before.hash);
  assert_true(trace_of(f->path, false).changed_ns != before.changed_ns);
  assert_string_not_equal(trace_of(f->path, true).hash, whole.hash);
}

static void test_large_resumed(void **state) {
  fixture *f = *state;
  const char *const settings[] = {"data.source=text", f->set, NULL};
  assert_int_equal(truncate(f->path, (off_t)HR_TRACE_WHOLE_BYTES + 12345), 0);
  train_ok(settings, (hr_train_options){.out = f->out, .stop_at = 3});
  train_ok(settings, (hr_train_options){.out = f->out, .resume = true, .stop_at = 4});
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000}};
  assert_int_equal(utimensat(AT_FDCWD, f->path, times, 0), 0);
  hr_error err = train_fails(settings, going_on(f), HR_USAGE);
  assert_non_null(strstr(err.message, "changed at another time"));
}

/* --- data that goes away in mid-run --------------------------------------------------------------------------------*/

/* Takes the data away where a text of one's choice is written. */
typedef struct thief {
  fixture *f;
  const char *text; /* NULL: not any more */
} thief;
static thief at_work;
static long (*real_write)(int fd, const void *data, size_t bytes);

static bool strikes(const void *data, size_t bytes) {
  if (!at_work.text || !memmem(data, bytes, at_work.text, strlen(at_work.text))) return false;
  at_work.text = NULL;
  return true;
}

static long write_and_take(int fd, const void *data, size_t bytes) {
  if (strikes(data, bytes)) assert_int_equal(truncate(at_work.f->path, 10), 0);
  return real_write(fd, data, bytes);
}

static void test_truncated_in_mid_run(void **state) {
  fixture *f = *state;
  const char *const settings[] = {"data.source=text", f->set, "training.gradient_accumulation=2", NULL};
  hr_train_result whole = train_ok(settings, (hr_train_options){0});
  real_write = hr__file_calls.write;
  hr__file_calls.write = write_and_take;
  at_work = (thief){f, "{\"step\":5,"};
  hr_error err = train_fails(settings, (hr_train_options){.out = f->out}, HR_BAD_INPUT);
  hr__file_calls.write = real_write;
  assert_non_null(strstr(err.message, "became shorter while training"));
  assert_string_equal(err.place, f->path);
  assert_non_null(strstr(err.remedy, "put the file back"));
  assert_non_null(strstr(err.remedy, "the checkpoint of step 5 is whole"));
  assert_non_null(strstr(err.remedy, "--resume"));
  assert_non_null(strstr(err.remedy, "out/generation-00000005"));
  file_put(f->path, f->text, BYTES);
  hr_train_result result = train_ok(settings, going_on(f));
  assert_int_equal(result.steps_here, 3);
  assert_string_equal(result.weights_sha256, whole.weights_sha256);
}

static long write_and_remove(int fd, const void *data, size_t bytes) {
  if (strikes(data, bytes)) assert_int_equal(unlink(at_work.f->path), 0);
  return real_write(fd, data, bytes);
}

/* An open file can be read to the end; a run that is to be resumed needs it again. */
static void test_removed_in_mid_run(void **state) {
  fixture *f = *state;
  const char *const settings[] = {"data.source=text", f->set, "training.save_every=2", NULL};
  hr_train_result whole = train_ok(settings, (hr_train_options){0});
  real_write = hr__file_calls.write;
  hr__file_calls.write = write_and_remove;
  at_work = (thief){f, "{\"step\":3,"};
  hr_train_options options = going_on(f);
  hr_train_result result = train_ok(settings, options);
  hr__file_calls.write = real_write;
  assert_string_equal(result.weights_sha256, whole.weights_sha256);
  assert_int_equal(f->warnings, 1);
  assert_non_null(strstr(f->warning, "was removed"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_text),
      TEST(test_lines),
      TEST(test_accepted),
      TEST(test_large),
      TEST(test_large_resumed),
      TEST(test_truncated_in_mid_run),
      TEST(test_removed_in_mid_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
