/* Nets of include/headroom.h: what a caller may do wrong, and inputs that stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "headroom.h"

enum { ROWS = 8, WIDTH = 4, COUNT = ROWS * WIDTH };

typedef struct fixture {
  hr_net *net;
  hr_error *err;
  hr_value_id x, target, weight, loss;
  float in[COUNT], out[COUNT];
} fixture;

static int setup(void **state) {
  fixture *f = test_calloc(1, sizeof *f);
  f->err = hr_error_create();
  assert_int_equal(hr_net_create(&f->net, f->err), HR_RESULT_OK);
  f->x = hr_net_input(f->net, "x", ROWS, WIDTH);
  f->target = hr_net_input(f->net, "target", ROWS, WIDTH);
  f->weight = hr_net_parameter(f->net, "weight", WIDTH, WIDTH, 0.5f);
  hr_value_id h = hr_net_swiglu(f->net, f->x, f->x); /* a chain whose results could take over the input */
  f->loss = hr_net_mse(f->net, hr_net_add(f->net, h, hr_net_linear(f->net, h, f->weight)), f->target);
  for (int i = 0; i < COUNT; i++) {
    f->in[i] = 0.25f * (float)(i % 7 - 3);
    f->out[i] = 0.5f * (float)(i % 3 - 1);
  }
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  hr_net_destroy(f->net);
  hr_error_destroy(f->err);
  test_free(f);
  return 0;
}

static void must(const fixture *f, hr_result result) {
  if (result != HR_RESULT_OK) fail_msg("%s: %s", hr_error_place(f->err), hr_error_message(f->err));
}

static void fill(fixture *f) {
  must(f, hr_net_write(f->net, f->x, f->in, COUNT, f->err));
  must(f, hr_net_write(f->net, f->target, f->out, COUNT, f->err));
}

/* Losses of steps with and without writing the inputs again are the same, and inputs can be read back. */
static void test_inputs_stay(void **state) {
  fixture *f = *state;
  float weight[WIDTH * WIDTH], again[6], once[6], back[COUNT];
  must(f, hr_net_compile(f->net, f->loss, 5, f->err));
  must(f, hr_net_read(f->net, f->weight, weight, WIDTH * WIDTH, f->err));
  for (int s = 0; s < 6; s++) {
    fill(f);
    must(f, hr_net_step(f->net, 0, &again[s], f->err)); /* rate 0: the weights stay */
  }
  for (int s = 0; s < 6; s++)
    must(f, hr_net_step(f->net, 0, &once[s], f->err));
  assert_memory_equal(again, once, sizeof again);
  assert_true(once[0] > 0);
  must(f, hr_net_read(f->net, f->x, back, COUNT, f->err));
  assert_memory_equal(back, f->in, sizeof back);
  must(f, hr_net_read(f->net, f->target, back, COUNT, f->err));
  assert_memory_equal(back, f->out, sizeof back);
}

static void test_compile_once_and_nothing_after(void **state) {
  fixture *f = *state;
  must(f, hr_net_compile(f->net, f->loss, 5, f->err));
  fill(f);
  float before, after;
  must(f, hr_net_step(f->net, 0, &before, f->err));
  assert_int_equal(hr_net_input(f->net, "late", ROWS, WIDTH), HR_NO_VALUE);
  assert_int_equal(hr_net_parameter(f->net, "later", ROWS, WIDTH, 1), HR_NO_VALUE);
  assert_int_equal(hr_net_add(f->net, f->x, f->x), HR_NO_VALUE);
  assert_int_equal(hr_net_compile(f->net, f->loss, 5, f->err), HR_RESULT_USAGE);
  must(f, hr_net_step(f->net, 0, &after, f->err)); /* it still works */
  assert_true(before == after);
}

static void test_failed_compile_is_final(void **state) {
  fixture *f = *state;
  hr_value_id lone = hr_net_mse(f->net, f->x, f->target); /* nothing trained lies behind it */
  assert_int_equal(hr_net_compile(f->net, lone, 5, f->err), HR_RESULT_FAILURE);
  assert_int_equal(hr_net_compile(f->net, f->loss, 5, f->err), HR_RESULT_USAGE);
  assert_non_null(strstr(hr_error_message(f->err), "compiled already"));
  float loss;
  assert_int_equal(hr_net_step(f->net, 0, &loss, f->err), HR_RESULT_USAGE);
  assert_int_equal(hr_net_add(f->net, f->x, f->x), HR_NO_VALUE);
}

/* A loss that is none is found before anything changes: the net can still be compiled. */
static void test_wrong_loss(void **state) {
  fixture *f = *state;
  assert_int_equal(hr_net_compile(f->net, HR_NO_VALUE, 5, f->err), HR_RESULT_USAGE);
  assert_int_equal(hr_net_compile(f->net, 1000, 5, f->err), HR_RESULT_USAGE);
  assert_int_equal(hr_net_compile(f->net, f->x, 5, f->err), HR_RESULT_USAGE);
  must(f, hr_net_compile(f->net, f->loss, 5, f->err));
}

/* The same for a net without parameters. */
static void test_nothing_to_train(void **state) {
  fixture *f = *state;
  hr_net_destroy(f->net);
  must(f, hr_net_create(&f->net, f->err));
  f->x = hr_net_input(f->net, "x", ROWS, WIDTH);
  f->loss = hr_net_mse(f->net, f->x, f->x);
  assert_int_equal(hr_net_compile(f->net, f->loss, 5, f->err), HR_RESULT_USAGE);
  assert_non_null(strstr(hr_error_message(f->err), "nothing of this net is trained"));
  f->weight = hr_net_parameter(f->net, "weight", WIDTH, WIDTH, 0.5f);
  f->loss = hr_net_mse(f->net, hr_net_linear(f->net, f->x, f->weight), f->x);
  must(f, hr_net_compile(f->net, f->loss, 5, f->err));
}

/* Nets are of no family that recipes could name. */
static void test_recipes_have_no_nets(void **state) {
  fixture *f = *state;
  static const char *const by_hand[] = {"model.family=by hand"};
  hr_job *job = NULL;
  assert_int_equal(hr_job_create(HR_SOURCE_DIR "/recipes/demo.yaml", by_hand, 1, &job, f->err), HR_RESULT_BAD_INPUT);
  assert_non_null(strstr(hr_error_message(f->err), "no model family \"by hand\""));
}

static void test_wrong_ids(void **state) {
  fixture *f = *state;
  assert_int_equal(hr_net_linear(f->net, f->x, 1u << 30), HR_NO_VALUE);
  assert_int_equal(hr_net_compile(f->net, f->loss, 5, f->err), HR_RESULT_FAILURE);
  assert_non_null(strstr(hr_error_message(f->err), "is not a value"));
}

static void test_names_are_not_mixed_up(void **state) {
  fixture *f = *state;
  assert_int_equal(hr_net_input(f->net, "x", ROWS, WIDTH), f->x);
  assert_int_equal(hr_net_parameter(f->net, "x", ROWS, WIDTH, 1), HR_NO_VALUE);
  assert_int_equal(hr_net_compile(f->net, f->loss, 5, f->err), HR_RESULT_FAILURE);
  assert_non_null(strstr(hr_error_message(f->err), "declared twice"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_inputs_stay, setup, teardown),
      cmocka_unit_test_setup_teardown(test_compile_once_and_nothing_after, setup, teardown),
      cmocka_unit_test_setup_teardown(test_failed_compile_is_final, setup, teardown),
      cmocka_unit_test_setup_teardown(test_wrong_loss, setup, teardown),
      cmocka_unit_test_setup_teardown(test_nothing_to_train, setup, teardown),
      cmocka_unit_test_setup_teardown(test_recipes_have_no_nets, setup, teardown),
      cmocka_unit_test_setup_teardown(test_wrong_ids, setup, teardown),
      cmocka_unit_test_setup_teardown(test_names_are_not_mixed_up, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
