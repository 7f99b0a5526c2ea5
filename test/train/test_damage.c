/* Damaged checkpoints: every flip, cut, swap and loss is detected, told, and the older generation is used; and nothing
 * is detected where there is nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "part_session.h"

enum { DAMAGES = 500, FILES = 4, OLD = 4, NEW = 8 };

static const char *const names[FILES] = {"config.json", "model.safetensors", "training/optimizer.safetensors",
                                         "manifest.json"};

typedef struct blob {
  char *data;
  size_t bytes;
} blob;

typedef struct fixture {
  desk d;
  const char *out;
  blob files[2][FILES]; /* [0: old, 1: new] */
  char sha256[2][HR_SHA256_HEX];
} fixture;

static char *file_path(const fixture *f, int generation, int file) {
  char name[64];
  snprintf(name, sizeof name, "generation-%08d/%s", generation ? NEW : OLD, names[file]);
  return path_join(f->out, name);
}

static void files_restore(const fixture *f) {
  for (int g = 0; g < 2; g++)
    for (int i = 0; i < FILES; i++)
      file_put(file_path(f, g, i), f->files[g][i].data, f->files[g][i].bytes);
}

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->out = folder_make("damage");
  mkdir(f->out, 0755);
  desk_open(&f->d, f->out, NULL);
  hr_error err = {0};
  for (int g = 0; g < 2; g++) {
    desk_steps(&f->d, g ? OLD + 1 : 1, g ? NEW : OLD);
    desk_sha256(&f->d, f->sha256[g]);
    if (desk_save(&f->d, g ? NEW : OLD, &err) != HR_OK) return -1;
  }
  for (int g = 0; g < 2; g++)
    for (int i = 0; i < FILES; i++)
      f->files[g][i].data = file_get(file_path(f, g, i), &f->files[g][i].bytes);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  desk_close(&f->d);
  folder_remove(f->out);
  for (int g = 0; g < 2; g++)
    for (int i = 0; i < FILES; i++)
      free(f->files[g][i].data);
  free((void *)(uintptr_t)f->out);
  free(f);
  return 0;
}

static uint64_t draw(int number, int what, uint64_t below) {
  return hr__random_below((hr_random_key){2024, 17}, (uint64_t)number, (uint64_t)what, below);
}

/* Damages generation g in way `number`; the text names it in failures. */
static void damage_do(const fixture *f, int number, int g, char text[96]) {
  int file = (int)draw(number, 1, FILES);
  const blob *b = &f->files[g][file];
  char *path = file_path(f, g, file), *copy = malloc(b->bytes + 8);
  memcpy(copy, b->data, b->bytes);
  switch (number % 7) {
  case 0:
  case 1: {
    size_t bit = (size_t)draw(number, 2, 8 * b->bytes);
    copy[bit / 8] = (char)(copy[bit / 8] ^ (1 << (bit % 8)));
    file_put(path, copy, b->bytes);
    snprintf(text, 96, "bit %zu of %s flipped", bit, names[file]);
    break;
  }
  case 2: {
    size_t bytes = (size_t)draw(number, 2, b->bytes);
    file_put(path, copy, bytes);
    snprintf(text, 96, "%s cut to %zu bytes", names[file], bytes);
    break;
  }
  case 3: {
    size_t more = 1 + (size_t)draw(number, 2, 8);
    memset(copy + b->bytes, (int)draw(number, 3, 2) * ' ', more);
    file_put(path, copy, b->bytes + more);
    snprintf(text, 96, "%s longer by %zu", names[file], more);
    break;
  }
  case 4: /* of the other generation; config.json is the same in both */
    if (file == 0) file = 3;
    file_put(file_path(f, g, file), f->files[!g][file].data, f->files[!g][file].bytes);
    snprintf(text, 96, "%s of the other generation", names[file]);
    break;
  case 5: {
    int other = (file + 1 + (int)draw(number, 2, FILES - 1)) % FILES;
    file_put(path, f->files[g][other].data, f->files[g][other].bytes);
    file_put(file_path(f, g, other), b->data, b->bytes);
    snprintf(text, 96, "%s and %s swapped", names[file], names[other]);
    break;
  }
  default:
    unlink(path);
    snprintf(text, 96, "%s missing", names[file]);
    break;
  }
  free(copy);
}

static void test_every_damage_is_found(void **state) {
  fixture *f = *state;
  for (int number = 0; number < DAMAGES; number++) {
    char text[96], hex[HR_SHA256_HEX];
    hr_error err = {0};
    int64_t step;
    files_restore(f);
    damage_do(f, number, 1, text);
    hr_status status = desk_load(&f->d, &step, &err);
    if (status != HR_OK || step != OLD || f->d.warnings < 1)
      fail_msg("%s: %s, step %lld, %d warnings: %s", text, hr_status_name(status), (long long)step, f->d.warnings,
               err.message);
    assert_non_null(strstr(f->d.last, "4")); /* the last warning says where it goes on, or what is passed over */
    desk_sha256(&f->d, hex);
    if (strcmp(hex, f->sha256[0]) != 0) fail_msg("%s: not the older weights", text);
  }
}

static void test_no_false_alarm(void **state) {
  fixture *f = *state;
  files_restore(f);
  for (int i = 0; i < 50; i++) {
    hr_error err = {0};
    char hex[HR_SHA256_HEX];
    int64_t step;
    assert_int_equal(desk_load(&f->d, &step, &err), HR_OK);
    assert_int_equal(step, NEW);
    assert_int_equal(f->d.warnings, 0);
    desk_sha256(&f->d, hex);
    assert_string_equal(hex, f->sha256[1]);
  }
}

static void test_all_damaged(void **state) {
  fixture *f = *state;
  char before[HR_SHA256_HEX], after[HR_SHA256_HEX];
  desk_sha256(&f->d, before);
  for (int number = 0; number < 70; number++) {
    if (number % 7 == 4 || number % 7 == 6) continue; /* those may leave no manifest, which is no checkpoint at all */
    char text[96];
    hr_error err = {0};
    int64_t step;
    files_restore(f);
    damage_do(f, number, 0, text);
    damage_do(f, number, 1, text);
    hr_status status = desk_load(&f->d, &step, &err);
    if (status != HR_BAD_INPUT) fail_msg("%s: %s", text, hr_status_name(status));
    assert_non_null(strstr(err.message, "generation-00000008/"));
    assert_non_null(strstr(err.message, "generation-00000004/"));
  }
  desk_sha256(&f->d, after);
  assert_string_equal(before, after); /* nothing is loaded before all is verified */
}

static void test_whole_generation_renamed(void **state) {
  fixture *f = *state;
  files_restore(f);
  char from[4096];
  snprintf(from, sizeof from, "%s", path_join(f->out, "generation-00000008"));
  assert_int_equal(rename(from, path_join(f->out, "generation-00000012")), 0);
  hr_error err = {0};
  int64_t step;
  assert_int_equal(desk_load(&f->d, &step, &err), HR_OK);
  assert_int_equal(step, OLD);
  assert_true(f->d.warnings > 0);
  assert_int_equal(rename(path_join(f->out, "generation-00000012"), from), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_damage_is_found),
      cmocka_unit_test(test_no_false_alarm),
      cmocka_unit_test(test_all_damaged),
      cmocka_unit_test(test_whole_generation_renamed),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
