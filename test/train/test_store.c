/* The folder of a run: which generations are kept, files that are not ours, and what cannot be read is no damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "part_session.h"

typedef struct fixture {
  desk d;
  const char *out;
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->out = folder_make("store");
  mkdir(f->out, 0755);
  desk_open(&f->d, f->out, NULL);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  desk_close(&f->d);
  folder_remove(f->out);
  free((void *)(uintptr_t)f->out);
  free(f);
  return 0;
}

static void save(fixture *f, int64_t step) {
  hr_error err = {0};
  if (desk_save(&f->d, step, &err) != HR_OK) fail_msg("step %d: %s: %s", (int)step, err.place, err.message);
}

static int64_t load(fixture *f) {
  hr_error err = {0};
  int64_t step;
  if (desk_load(&f->d, &step, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  return step;
}

static bool exists(const fixture *f, const char *name) {
  return access(path_join(f->out, name), F_OK) == 0;
}

/* A damaged generation that was passed over is not kept in place of the one that was resumed from. */
static void test_keeps_what_is_known_good(void **state) {
  fixture *f = *state;
  save(f, 4);
  save(f, 8);
  file_put(path_join(f->out, "generation-00000008/model.safetensors"), "damaged", 7);
  assert_int_equal(load(f), 4);
  save(f, 9);
  assert_true(exists(f, "generation-00000004/manifest.json"));
  assert_true(exists(f, "generation-00000009/manifest.json"));
  assert_false(exists(f, "generation-00000008"));
  save(f, 12);
  assert_true(exists(f, "generation-00000009/manifest.json"));
  assert_false(exists(f, "generation-00000004"));
}

static void test_foreign_files_stay(void **state) {
  fixture *f = *state;
  save(f, 1);
  file_put(path_join(f->out, "generation-00000001/notes.txt"), "mine", 4);
  mkdir(path_join(f->out, "generation-00000003"), 0755); /* where a save is going to be */
  file_put(path_join(f->out, "generation-00000003/notes.txt"), "mine", 4);
  save(f, 2);
  save(f, 3);
  save(f, 4);
  assert_int_equal(f->d.warnings, 0);
  assert_true(exists(f, "generation-00000001/notes.txt"));
  assert_false(exists(f, "generation-00000001/manifest.json"));
  assert_true(exists(f, "generation-00000003/notes.txt"));
  assert_int_equal(load(f), 4);
  save(f, 5);
  save(f, 6);
  assert_true(exists(f, "generation-00000003/notes.txt"));
  assert_false(exists(f, "generation-00000003/model.safetensors"));
}

/* Whether there is a manifest cannot be told: an error, not a fresh start. */
static void test_unknown_is_no_absence(void **state) {
  fixture *f = *state;
  hr_error err = {0};
  int64_t step;
  assert_int_equal(symlink("generation-00000005", path_join(f->out, "generation-00000005")), 0); /* a loop */
  assert_int_equal(desk_load(&f->d, &step, &err), HR_IO);
  assert_non_null(strstr(err.place, "generation-00000005"));
}

/* A file that may not be read is as good as it was. Root may read all, so it steps down. */
static void test_unreadable_is_no_damage(void **state) {
  fixture *f = *state;
  hr_error err = {0};
  int64_t step;
  save(f, 1);
  save(f, 2);
  assert_int_equal(chmod(path_join(f->out, "generation-00000002/training/optimizer.safetensors"), 0), 0);
  bool root = geteuid() == 0;
  if (root && seteuid(65534) != 0) skip();
  hr_status status = desk_load(&f->d, &step, &err);
  if (root) assert_int_equal(seteuid(0), 0);
  if (status != HR_IO) fail_msg("%s: %s", hr_status_name(status), err.message);
  assert_int_equal(f->d.warnings, 0);
}

/* Settings are as long as they are. */
static void test_long_settings(void **state) {
  (void)state;
  char set[6000] = "data.path=";
  memset(set + 10, 'a', sizeof set - 11);
  const char *out = folder_make("long");
  desk d;
  desk_open(&d, out, (const char *const[]){set, NULL});
  bool found = false;
  for (size_t i = 0; i < d.manifest.n_settings; i++)
    found = found || (strcmp(d.manifest.settings[i].path, "data.path") == 0 &&
                      strlen(d.manifest.settings[i].value) >= sizeof set - 11);
  assert_true(found);
  desk_close(&d);
  free((void *)(uintptr_t)out);
}

/* What stands where the run is going to write is named before it trains, and stays. */
static void test_obstacles(void **state) {
  (void)state;
  static const char *const names[] = {"log.jsonl",
                                      "lock",
                                      "generation-00000008/model.safetensors",
                                      "generation-00000008/training/optimizer.safetensors.tmp",
                                      "generation-00000004/manifest.json",
                                      "generation-00000008/training"};
  for (int resume = 0; resume < 2; resume++) {
    for (size_t i = 0; i <= sizeof names / sizeof names[0]; i++) {
      const char *out = folder_make("obstacles"), *name = i > 0 ? names[i - 1] : "generation-00000008";
      char *path = path_join(out, name), parent[4096];
      snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
      bool is_folder = strchr(name, '.') || strcmp(name, "lock") == 0;
      mkdir(out, 0755);
      mkdir(path_join(out, "generation-00000008"), 0755);
      mkdir(parent, 0755);
      if (i == 0) rmdir(path);
      if (is_folder)
        mkdir(path, 0755);
      else
        file_put(path, "mine", 4);
      hr_error err = train_fails(NULL, (hr_train_options){.out = out, .resume = resume}, HR_USAGE);
      assert_string_equal(err.place, path);
      assert_non_null(strstr(err.remedy, "--out"));
      assert_true(access(path, F_OK) == 0);
      folder_remove(out);
      free((void *)(uintptr_t)out);
    }
  }
}

/* A checkpoint as they were before there was a folder for what only training reads. */
static void make_old(const char *folder) {
  hr_arena arena = {0};
  hr_error err = {0};
  hr_manifest manifest;
  size_t bytes;
  char *text = file_get(path_join(folder, "manifest.json"), &bytes);
  assert_int_equal(hr__manifest_parse("m", text, bytes, &arena, &manifest, &err), HR_OK);
  for (size_t f = 0; f < manifest.n_files; f++) {
    const char *name = manifest.files[f].name, *old = hr__run_file_old_name(name);
    if (old != name) assert_int_equal(rename(path_join(folder, name), path_join(folder, old)), 0);
    manifest.files[f].name = old;
  }
  assert_int_equal(rmdir(path_join(folder, "training")), 0);
  free(text);
  assert_int_equal(hr__manifest_text(&manifest, &arena, &text, &bytes, &err), HR_OK);
  file_put(path_join(folder, "manifest.json"), text, bytes);
  hr__arena_fini(&arena);
}

static void test_old_folders(void **state) {
  (void)state;
  const char *out = folder_make("old");
  mkdir(out, 0755);
  desk d, again;
  hr_error err = {0};
  char trained[HR_SHA256_HEX], loaded[HR_SHA256_HEX], old[4096];
  desk_open(&d, out, (const char *const[]){"training.ema=0.9", NULL});
  desk_steps(&d, 1, 2);
  assert_int_equal(desk_save(&d, 2, &err), HR_OK);
  snprintf(old, sizeof old, "%s", path_join(out, "generation-00000002"));
  make_old(old);
  desk_open(&again, out, (const char *const[]){"training.ema=0.9", NULL});
  int64_t step = 0;
  assert_int_equal(desk_load(&again, &step, &err), HR_OK);
  assert_true(step == 2 && again.warnings == 0);
  hr__session_resume(&again.session, step, &again.store.state);
  desk_steps(&d, 3, 4); /* the optimizer's state and the averages came back too */
  desk_steps(&again, 3, 4);
  desk_sha256(&d, trained);
  desk_sha256(&again, loaded);
  assert_string_equal(trained, loaded);
  assert_int_equal(desk_save(&again, 3, &err), HR_OK);
  assert_int_equal(desk_save(&again, 4, &err), HR_OK);
  assert_int_not_equal(access(old, F_OK), 0);
  desk_close(&d);
  desk_close(&again);
  folder_remove(out);
  free((void *)(uintptr_t)out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_obstacles),
      cmocka_unit_test_setup_teardown(test_keeps_what_is_known_good, setup, teardown),
      cmocka_unit_test_setup_teardown(test_foreign_files_stay, setup, teardown),
      cmocka_unit_test_setup_teardown(test_unknown_is_no_absence, setup, teardown),
      cmocka_unit_test_setup_teardown(test_unreadable_is_no_damage, setup, teardown),
      cmocka_unit_test(test_long_settings),
      cmocka_unit_test(test_old_folders),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
