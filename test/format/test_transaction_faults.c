/* Several files replaced at once: backups, modes, links, locks, what a cut-off process leaves, and file calls and
 * memory that fail at every single place. That a killed program leaves old or new is in test/cli/test_apply_kill.py. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/journal.h"
#include "format/part_folder.h"
#include "format/transaction.h"
#include "support/file_faults.h"

static const char *const names[] = {"a.yaml", "b.json", "c.yaml"};
enum { FILES = 3 };
static const char old_text[] = "old: 1\n", new_text[] = "new: 22\n";

static char paths[FILES][512];

static const char *const *paths_all(void) {
  static const char *list[FILES];
  for (size_t i = 0; i < FILES; i++) {
    snprintf(paths[i], sizeof paths[i], "%s", folder_path(names[i]));
    list[i] = paths[i];
  }
  return list;
}

static void remove_all(void) {
  static const char *const ends[] = {"",
                                     ".backup",
                                     ".backup.record",
                                     ".apply-new",
                                     ".apply-backup",
                                     ".apply-record",
                                     ".apply-journal",
                                     ".apply-journal.tmp"};
  for (size_t i = 0; i < FILES; i++)
    for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++) {
      char name[64];
      snprintf(name, sizeof name, "%s%s", names[i], ends[k]);
      unlink(folder_path(name));
    }
}

static void write_all(const char *text) {
  remove_all();
  for (size_t i = 0; i < FILES; i++)
    folder_write(names[i], text, strlen(text));
}

static bool holds(const char *name, const char *text) {
  const char *have;
  long bytes = folder_read(name, &have);
  return bytes == (long)strlen(text) && memcmp(have, text, (size_t)bytes) == 0;
}

static bool is_there(const char *name) {
  return access(folder_path(name), F_OK) == 0;
}

static hr_status replace(size_t count, const char *text, hr_error *err) {
  hr_transaction *t = NULL;
  HR_TRY(hr__transaction_open(paths_all(), count, false, &t, err));
  for (size_t i = 0; i < count; i++) {
    t->files[i].now = text;
    t->files[i].now_bytes = strlen(text);
  }
  hr_status status = hr__transaction_commit(t, err);
  hr__transaction_close(t);
  return status;
}

static hr_status revert(size_t count, hr_error *err) {
  hr_transaction *t = NULL;
  HR_TRY(hr__transaction_open(paths_all(), count, false, &t, err));
  hr_status status = hr__transaction_revert(t, false, err);
  hr__transaction_close(t);
  return status;
}

static void there_and_back(void **state) {
  (void)state;
  hr_error err = {0};
  for (size_t count = 1; count <= FILES; count += 2) {
    write_all(old_text);
    assert_int_equal(chmod(folder_path(names[0]), 0640), 0);
    assert_int_equal(replace(count, new_text, &err), HR_OK);
    struct stat facts;
    assert_int_equal(stat(folder_path(names[0]), &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0640);
    assert_int_equal(facts.st_uid, geteuid());
    for (size_t i = 0; i < count; i++) {
      char backup[64];
      snprintf(backup, sizeof backup, "%s.backup", names[i]);
      assert_true(holds(names[i], new_text) && holds(backup, old_text));
    }
    assert_int_equal(folder_count(), FILES + 2 * count); /* backups and records */
    assert_int_equal(revert(count, &err), HR_OK);
    assert_int_equal(stat(folder_path(names[0]), &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0640);
    for (size_t i = 0; i < count; i++)
      assert_true(holds(names[i], old_text));
    assert_int_equal(folder_count(), FILES);
    assert_int_equal(revert(count, &err), HR_BAD_INPUT);
    assert_non_null(strstr(err.message, "no backup"));
  }
}

/* Transactions in a row keep the first backup; a change by hand between them begins anew. */
static void backups(void **state) {
  (void)state;
  hr_error err = {0};
  write_all(old_text);
  assert_int_equal(replace(1, new_text, &err), HR_OK);
  assert_int_equal(replace(1, "newer: 3\n", &err), HR_OK);
  assert_true(holds("a.yaml", "newer: 3\n") && holds("a.yaml.backup", old_text));
  folder_write("a.yaml", "hand: 4\n", 8);
  assert_int_equal(replace(1, new_text, &err), HR_OK);
  assert_true(holds("a.yaml.backup", "hand: 4\n"));
  assert_int_equal(revert(1, &err), HR_OK);
  assert_true(holds("a.yaml", "hand: 4\n"));
}

/* A file system whose time stamps say nothing: all of them are the same. */
static void stamps_level(void) {
  static const char *const ends[] = {"a.yaml", "a.yaml.backup"};
  const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
    assert_int_equal(utimensat(AT_FDCWD, folder_path(ends[i]), times, 0), 0);
}

/* The first backup is known by what files hold, not by time stamps; one that is cut off keeps it too. */
static void backups_known(void **state) {
  (void)state;
  hr_error err = {0};
  write_all(old_text);
  assert_int_equal(replace(1, new_text, &err), HR_OK);
  stamps_level();
  assert_int_equal(replace(1, "newer: 3\n", &err), HR_OK);
  assert_true(holds("a.yaml.backup", old_text));
  folder_write("a.yaml", new_text, strlen(new_text)); /* as if it had ended before the last rename */
  assert_int_equal(replace(1, "newest: 4\n", &err), HR_OK);
  assert_true(holds("a.yaml.backup", old_text));
  assert_int_equal(revert(1, &err), HR_OK);
  assert_true(holds("a.yaml", old_text));
  assert_int_equal(folder_count(), FILES);
}

/* A backup that no transaction made is neither replaced nor put back, whatever its time stamp says. */
static void backups_foreign(void **state) {
  (void)state;
  hr_error err = {0};
  for (int recorded = 0; recorded < 2; recorded++)
    for (size_t count = 1; count <= FILES; count += 2) {
      write_all(old_text);
      if (recorded) assert_int_equal(replace(1, new_text, &err), HR_OK);
      const char *have = recorded ? new_text : old_text;
      folder_write("a.yaml.backup", "mine\n", 5);
      stamps_level();
      assert_int_equal(replace(count, "newer: 3\n", &err), HR_BAD_INPUT);
      assert_non_null(strstr(err.place, "a.yaml.backup"));
      assert_non_null(strstr(err.remedy, "move it away"));
      assert_int_equal(revert(1, &err), HR_BAD_INPUT);
      assert_non_null(strstr(err.message, "none that headroom apply has made"));
      assert_true(holds("a.yaml", have) && holds("a.yaml.backup", "mine\n"));
      assert_int_equal(folder_count(), FILES + 1 + (size_t)recorded);
    }
  /* a link is no backup, not even to the right text */
  write_all(old_text);
  assert_int_equal(replace(1, new_text, &err), HR_OK);
  assert_int_equal(rename(folder_path("a.yaml.backup"), folder_path("b.json")), 0);
  assert_int_equal(symlink("b.json", folder_path("a.yaml.backup")), 0);
  assert_int_equal(revert(1, &err), HR_BAD_INPUT);
  assert_int_equal(replace(1, "newer: 3\n", &err), HR_BAD_INPUT);
  assert_true(holds("a.yaml", new_text) && holds("b.json", old_text));
  /* one that is the file itself is no loss: so ends who was cut off behind the first rename */
  write_all(old_text);
  folder_write("a.yaml.backup", old_text, strlen(old_text));
  assert_int_equal(replace(1, new_text, &err), HR_OK);
  assert_int_equal(revert(1, &err), HR_OK);
  assert_true(holds("a.yaml", old_text));
  remove_all();
}

static void links(void **state) {
  (void)state;
  hr_error err = {0};
  write_all(old_text);
  unlink(folder_path("b.json"));
  assert_int_equal(symlink("c.yaml", folder_path("b.json")), 0);
  const char *one[] = {folder_path("b.json"), folder_path("c.yaml")};
  hr_transaction *t = NULL;
  assert_int_equal(hr__transaction_open(one, 2, false, &t, &err), HR_USAGE);
  assert_int_equal(hr__transaction_open(one, 1, false, &t, &err), HR_OK);
  t->files[0].now = new_text;
  t->files[0].now_bytes = strlen(new_text);
  assert_int_equal(hr__transaction_commit(t, &err), HR_OK);
  hr__transaction_close(t);
  struct stat facts;
  assert_int_equal(lstat(folder_path("b.json"), &facts), 0);
  assert_true(S_ISLNK(facts.st_mode));
  assert_true(holds("c.yaml", new_text) && holds("c.yaml.backup", old_text));
  /* a second name of the same file */
  unlink(folder_path("b.json"));
  assert_int_equal(link(folder_path("c.yaml"), folder_path("b.json")), 0);
  assert_int_equal(hr__transaction_open(one, 2, false, &t, &err), HR_USAGE);
  assert_non_null(strstr(err.message, "same file"));
  remove_all();
}

static void refusals(void **state) {
  (void)state;
  hr_error err = {0};
  hr_transaction *t = NULL, *other = NULL;
  write_all(old_text);
  const char *absent[] = {folder_path("absent.yaml")}, *folder[] = {folder_path("")};
  assert_int_equal(hr__transaction_open(absent, 1, false, &t, &err), HR_BAD_INPUT);
  assert_int_equal(hr__transaction_open(folder, 1, false, &t, &err), HR_BAD_INPUT);
  /* two at once */
  assert_int_equal(hr__transaction_open(paths_all(), 1, false, &t, &err), HR_OK);
  assert_int_equal(hr__transaction_open(paths_all(), FILES, false, &other, &err), HR_FAILURE);
  assert_non_null(strstr(err.message, "another process"));
  assert_int_equal(hr__transaction_open(paths_all(), FILES, true, &other, &err), HR_FAILURE);
  hr__transaction_close(t);
  /* several may look, and nobody writes meanwhile */
  assert_int_equal(hr__transaction_open(paths_all(), 1, true, &t, &err), HR_OK);
  assert_int_equal(hr__transaction_open(paths_all(), FILES, true, &other, &err), HR_OK);
  hr__transaction_close(other);
  assert_int_equal(hr__transaction_open(paths_all(), FILES, false, &other, &err), HR_FAILURE);
  hr__transaction_close(t);
  assert_int_equal(hr__transaction_open(paths_all(), 1, false, &t, &err), HR_OK);
  /* a backup of somebody else's: told before anything is written */
  t->files[0].now = new_text;
  t->files[0].now_bytes = strlen(new_text);
  folder_write("a.yaml.backup", "mine\n", 5);
  assert_int_equal(hr__transaction_check(t, &err), HR_BAD_INPUT);
  assert_non_null(strstr(err.message, "has not made it"));
  unlink(folder_path("a.yaml.backup"));
  assert_int_equal(hr__transaction_check(t, &err), HR_OK);
  /* changed behind its back */
  t->files[0].now = new_text;
  t->files[0].now_bytes = strlen(new_text);
  folder_write("a.yaml", "hand: 4\n", 8);
  assert_int_equal(hr__transaction_commit(t, &err), HR_FAILURE);
  assert_non_null(strstr(err.message, "changed meanwhile"));
  hr__transaction_close(t);
  assert_true(holds("a.yaml", "hand: 4\n"));
  assert_int_equal(folder_count(), FILES);
}

/* All that a process leaves which ends right behind the decision. */
static void leave_decided(void) {
  hr_error err = {0};
  write_all(old_text);
  hr_journal journal = {.kind = HR_JOURNAL_REPLACE, .count = FILES};
  memset(journal.id, 'a', sizeof journal.id - 1);
  bool stands;
  for (size_t i = 0; i < FILES; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s.apply-new", names[i]);
    folder_write(name, new_text, strlen(new_text));
    snprintf(name, sizeof name, "%s.apply-backup", names[i]);
    folder_write(name, old_text, strlen(old_text));
    journal.files[i] = paths_all()[i];
  }
  assert_int_equal(hr__journal_write(&journal, &stands, &err), HR_OK);
}

/* Nothing is finished while somebody else has one of the files. */
static void cut_off_and_taken(void **state) {
  (void)state;
  for (size_t taken = 0; taken < FILES; taken++) {
    hr_error err = {0};
    hr_transaction *t = NULL;
    leave_decided();
    int fd = open(paths_all()[taken], O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    const char *one[] = {paths_all()[(taken + 1) % FILES]};
    assert_int_equal(hr__transaction_open(one, 1, false, &t, &err), HR_FAILURE);
    assert_non_null(strstr(err.message, "another process"));
    assert_non_null(strstr(err.place, names[taken]));
    for (size_t i = 0; i < FILES; i++)
      assert_true(holds(names[i], old_text));
    close(fd);
    assert_int_equal(hr__transaction_open(one, 1, false, &t, &err), HR_OK);
    hr__transaction_close(t);
    for (size_t i = 0; i < FILES; i++)
      assert_true(holds(names[i], new_text));
  }
}

/* What a process leaves that ends before or behind the decision, as seen from each of the files. */
static void cut_off(void **state) {
  (void)state;
  hr_error err = {0};
  for (int decided = 0; decided < 2; decided++)
    for (size_t seen = 0; seen < FILES; seen++) {
      leave_decided();
      if (!decided) unlink(folder_path("a.yaml.apply-journal"));
      const char *one[] = {paths_all()[seen]};
      hr_transaction *t = NULL;
      if (decided || seen > 0) { /* only to look: an error that says so */
        assert_int_equal(hr__transaction_open(one, 1, true, &t, &err), HR_FAILURE);
        assert_non_null(strstr(err.message, "cut off"));
        assert_true(holds(names[seen], old_text));
      }
      assert_int_equal(hr__transaction_open(one, 1, false, &t, &err), HR_OK);
      assert_int_equal(t->finished, decided);
      assert_string_equal(t->files[0].text, decided ? new_text : old_text);
      hr__transaction_close(t);
      for (size_t i = 0; i < FILES; i++)
        assert_true(holds(names[i], decided ? new_text : old_text));
      if (decided) assert_int_equal(folder_count(), 2 * FILES);
    }
}

/* A journal that somebody planted moves nothing in folders that it does not lie in, and nothing else than its file. */
static void planted(void **state) {
  (void)state;
  hr_error err = {0};
  write_all(old_text);
  folder_write("c.yaml.apply-new", "evil\n", 5);
  char text[2048];
  int used = snprintf(text, sizeof text, "headroom apply 1%creplace%c%064d%c%s%c%s%c", 0, 0, 7, 0, paths_all()[0], 0,
                      paths_all()[2], 0);
  folder_write("a.yaml.apply-journal", text, (size_t)used);
  assert_int_equal(replace(1, new_text, &err), HR_OK);
  assert_true(holds("c.yaml", old_text) && holds("a.yaml", new_text));
  static const char *const bad[] = {"", "x", "headroom apply 2", "headroom apply 1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    write_all(old_text);
    folder_write("a.yaml.apply-journal", bad[i], strlen(bad[i]) + 1);
    assert_int_equal(replace(1, new_text, &err), HR_BAD_INPUT);
    assert_true(holds("a.yaml", old_text) && is_there("a.yaml.apply-journal"));
  }
  remove_all();
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

typedef struct fault_state {
  size_t count;
  bool back; /* revert */
} fault_state;

static hr_status fault_body(void *arg, hr_error *err) {
  const fault_state *f = arg;
  write_all(old_text);
  if (!f->back) return replace(f->count, new_text, err);
  hr_test_file_fault kind = hr_test_files.kind;
  size_t failing = hr_test_files.failing;
  bool lasting = hr_test_files.lasting;
  hr_test_file_faults_disarm(); /* the way there is not what is tested */
  assert_int_equal(replace(f->count, new_text, err), HR_OK);
  hr_test_file_faults_arm(kind, failing, lasting);
  return revert(f->count, err);
}

/* All old or all new; or, where it was decided, all new as soon as the next one has looked at any of them. */
static void fault_check(void *arg, hr_status status) {
  const fault_state *f = arg;
  const char *before = f->back ? new_text : old_text, *after = f->back ? old_text : new_text;
  bool decided = f->count > 1 && is_there("a.yaml.apply-journal");
  if (decided) {
    hr_error err = {0};
    hr_transaction *t = NULL;
    const char *one[] = {paths_all()[f->count - 1]};
    assert_int_equal(hr__transaction_open(one, 1, false, &t, &err), HR_OK);
    hr__transaction_close(t);
    t = NULL;
    assert_int_equal(hr__transaction_open(paths_all(), 1, false, &t, &err),
                     HR_OK); /* its part may be all that is left */
    hr__transaction_close(t);
  }
  size_t replaced = 0;
  for (size_t i = 0; i < f->count; i++) {
    bool is_new = holds(names[i], after);
    replaced += is_new;
    if (!is_new && !holds(names[i], before)) fail_msg("%s is neither old nor new", names[i]);
    char backup[64];
    snprintf(backup, sizeof backup, "%s.backup", names[i]);
    if (!f->back && is_new && !holds(backup, old_text)) fail_msg("%s is new without a backup", names[i]);
  }
  if (replaced != 0 && replaced != f->count) fail_msg("%zu of %zu are new", replaced, f->count);
  if (status == HR_OK && replaced != f->count) fail_msg("not done");
}

static void file_faults(void **state) {
  (void)state;
  size_t injected = 0;
  for (int back = 0; back < 2; back++)
    for (size_t count = 1; count <= FILES; count += 2) {
      fault_state f = {count, back};
      injected += hr_test_each_file_fault(fault_body, fault_check, &f);
    }
  print_message("%zu file faults\n", injected);
  assert_true(injected > 200);
  remove_all();
}

static hr_status memory_body(void *arg, hr_error *err) {
  (void)arg;
  write_all(old_text);
  hr_status status = replace(FILES, new_text, err);
  if (status != HR_OK) return status;
  return revert(FILES, err);
}

static void memory_faults(void **state) {
  (void)state;
  size_t injected = hr_test_each_fault(memory_body, NULL);
  print_message("%zu memory faults\n", injected);
  assert_true(injected > 20);
  remove_all();
}

/* Nothing here loses power, so waiting for the disk would only slow the test down. */
static int sync_nothing(int fd) {
  (void)fd;
  return 0;
}

int main(void) {
  hr_test_faults_install();
  hr__file_calls.fdatasync = sync_nothing;
  hr__file_calls.fsync = sync_nothing;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(there_and_back), cmocka_unit_test(backups),
      cmocka_unit_test(backups_known),  cmocka_unit_test(backups_foreign),
      cmocka_unit_test(links),          cmocka_unit_test(refusals),
      cmocka_unit_test(cut_off),        cmocka_unit_test(cut_off_and_taken),
      cmocka_unit_test(planted),        cmocka_unit_test(file_faults),
      cmocka_unit_test(memory_faults),
  };
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
