/* Files beside the weights that checkpoints copy: through a window, counted as room, there although the originals have
 * gone meanwhile, and left out with a warning where they can no longer be read. */
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
#include "train/room.h"

enum { BYTES = 3 * HR_WINDOW_BYTES / 2 };

typedef struct fixture {
  const char *out, *model;
  char *text;
  desk desk;
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->out = folder_make("companions");
  f->model = folder_make("companions-model");
  mkdir(f->model, 0755);
  mkdir(f->out, 0755);
  f->text = malloc(BYTES);
  for (size_t i = 0; i < BYTES; i++)
    f->text[i] = (char)(i * 7 + i / 251);
  file_put(path_join(f->model, "tokenizer.json"), f->text, BYTES);
  file_put(path_join(f->model, "chat_template.jinja"), "{{ messages }}", 14);
  char set[4096];
  snprintf(set, sizeof set, "data.tokenizer=%s", f->model);
  desk_open(&f->desk, f->out, (const char *const[]){set, NULL});
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  desk_close(&f->desk);
  folder_remove(f->out);
  folder_remove(f->model);
  free((void *)(uintptr_t)f->out);
  free((void *)(uintptr_t)f->model);
  free(f->text);
  free(f);
  return 0;
}

static void is_copied(const fixture *f, const char *name) {
  size_t bytes;
  char *text = file_get(path_join(f->out, name), &bytes);
  assert_non_null(text);
  assert_int_equal(bytes, BYTES);
  assert_memory_equal(text, f->text, BYTES);
  free(text);
}

static void test_copied_and_verified(void **state) {
  fixture *f = *state;
  hr_error err = {0};
  int64_t step;
  assert_int_equal(desk_save(&f->desk, 1, &err), HR_OK);
  is_copied(f, "generation-00000001/tokenizer.json");
  assert_int_equal(desk_load(&f->desk, &step, &err), HR_OK);
  assert_int_equal(step, 1);
  assert_int_equal(f->desk.warnings, 0);
}

/* A run takes hours: what it was begun with may be gone when it saves. */
static void test_originals_gone(void **state) {
  fixture *f = *state;
  hr_error err = {0};
  unlink(path_join(f->model, "tokenizer.json"));
  unlink(path_join(f->model, "chat_template.jinja"));
  assert_int_equal(desk_save(&f->desk, 1, &err), HR_OK);
  is_copied(f, "generation-00000001/tokenizer.json");
}

static void test_originals_cut_off(void **state) {
  fixture *f = *state;
  hr_error err = {0};
  int64_t step;
  assert_int_equal(truncate(path_join(f->model, "tokenizer.json"), BYTES / 2), 0);
  assert_int_equal(desk_save(&f->desk, 1, &err), HR_OK);
  assert_int_equal(f->desk.warnings, 1);
  assert_non_null(strstr(f->desk.last, "tokenizer.json is not in this checkpoint"));
  assert_int_not_equal(access(path_join(f->out, "generation-00000001/tokenizer.json"), F_OK), 0);
  assert_int_not_equal(access(path_join(f->out, "generation-00000001/tokenizer.json.tmp"), F_OK), 0);
  assert_int_equal(access(path_join(f->out, "generation-00000001/chat_template.jinja"), F_OK), 0);
  assert_int_equal(desk_load(&f->desk, &step, &err), HR_OK);
  assert_int_equal(step, 1);
}

static void test_room_is_counted(void **state) {
  fixture *f = *state;
  hr_error err = {0};
  desk without;
  desk_open(&without, f->out, NULL);
  assert_int_equal(hr__room_check(&without.store, &without.session.tensors, &err), HR_OK);
  assert_int_equal(hr__room_check(&f->desk.store, &f->desk.session.tensors, &err), HR_OK);
  assert_in_range(f->desk.store.checkpoint_bytes - without.store.checkpoint_bytes, BYTES, BYTES + 2 * 4096);
  desk_close(&without);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {CASE(test_copied_and_verified), CASE(test_originals_gone),
                                     CASE(test_originals_cut_off), CASE(test_room_is_counted)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
