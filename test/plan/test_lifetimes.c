/* Who takes over whose storage, on toy ops with more than one result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/builder.h"
#include "plan/lifetimes.h"

enum { ALIGNMENT = 64 };

static hr_status same_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  (void)err;
  for (int j = 0; j < view->n_out; j++)
    out[j] = view->in[0];
  return HR_OK;
}

static const hr_op copy = {.name = "toy_copy", .n_in = 1, .n_out = 1, .shape = same_shape};
static const hr_op ease = {
    .name = "toy_ease", .n_in = 1, .n_out = 1, .shape = same_shape, .n_alias = 1, .alias = {{0, 0, HR_ALIAS_MAY}}};
/* Both results could lie on the operand: one must, the other may. */
static const hr_op split = {.name = "toy_split",
                            .n_in = 1,
                            .n_out = 2,
                            .shape = same_shape,
                            .n_alias = 2,
                            .alias = {{0, 0, HR_ALIAS_MUST}, {0, 1, HR_ALIAS_MAY}}};

typedef struct fixture {
  hr_graph *graph;
  hr_builder b;
  hr_error err;
  hr_lifetime life[16];
  hr_id x;
} fixture;

static int setup(void **state) {
  fixture *f = hr__alloc_zero(1, sizeof *f);
  assert_int_equal(hr__graph_create(&f->graph, &f->err), HR_OK);
  hr__builder_init(&f->b, f->graph, HR_F32);
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  f->x = hr__input(&f->b, "x", hr__desc1(HR_F32, 64));
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  hr__graph_destroy(f->graph);
  hr__free(f);
  return 0;
}

static hr_id emit(fixture *f, const hr_op *op, hr_id in) {
  return hr__emit(&f->b, op, &in, 1, NULL);
}

static void find(fixture *f) {
  assert_int_equal(hr__builder_status(&f->b, &f->err), HR_OK);
  assert_true(f->graph->n_buffers <= 16);
  assert_int_equal(hr__lifetimes(f->graph, HR_CPU, f->life, &f->err), HR_OK);
}

static const hr_lifetime *life_of(const fixture *f, hr_id value) {
  return &f->life[f->graph->values[value].buffer];
}

/* The first result lies on the operand, and nobody reads it: the second must not lie there as well. */
static void test_one_result_per_operand(void **state) {
  fixture *f = *state;
  hr_id a = emit(f, &copy, f->x), first = emit(f, &split, a), second = hr__node_out(&f->b, first, 1);
  hr__program_set_output(&f->b, "y", emit(f, &copy, second));
  find(f);
  assert_int_equal(f->graph->values[first].buffer, f->graph->values[a].buffer);
  assert_int_not_equal(life_of(f, second)->home, life_of(f, a)->home);
}

/* x -> a ~> b ~> c: one home, passed on twice; each position has one holder. */
static void test_a_home_is_passed_on(void **state) {
  fixture *f = *state;
  hr_id a = emit(f, &copy, f->x), b = emit(f, &ease, a), c = emit(f, &ease, b);
  hr__program_set_output(&f->b, "y", emit(f, &copy, c));
  find(f);
  hr_id home = life_of(f, a)->home;
  assert_int_equal(life_of(f, b)->home, home);
  assert_int_equal(life_of(f, c)->home, home);
  assert_int_equal(life_of(f, a)->last, 3);
  assert_int_equal(life_of(f, a)->own_last, 1);
  const hr_id held[] = {a, b, c, c};
  const hr_id all[] = {a, b, c};
  for (uint32_t p = 0; p < 4; p++)
    for (int i = 0; i < 3; i++)
      assert_int_equal(hr__lifetime_holds(life_of(f, all[i]), p), all[i] == held[p]);
}

static void test_an_operand_that_lives_on_is_left_alone(void **state) {
  fixture *f = *state;
  hr_id a = emit(f, &copy, f->x), b = emit(f, &ease, a);
  emit(f, &copy, a);
  find(f);
  assert_int_not_equal(life_of(f, b)->home, life_of(f, a)->home);
}

/* On one kind of device only, and by the type of the result. */
static void test_results_that_lie_apart(void **state) {
  fixture *f = *state;
  static const hr_op apart = {.name = "toy_apart",
                              .n_in = 1,
                              .n_out = 1,
                              .shape = same_shape,
                              .n_alias = 1,
                              .alias = {{0, 0, HR_ALIAS_ACCUMULATE}},
                              .not_in_place = {[HR_CUDA] = HR_DTYPE_BIT(HR_BF16)}};
  hr_id y[2];
  hr_id narrow = hr__input(&f->b, "narrow", hr__desc1(HR_BF16, 64));
  hr_id a[] = {emit(f, &copy, f->x), emit(f, &copy, narrow)};
  for (int i = 0; i < 2; i++)
    hr__program_set_output(&f->b, i ? "u" : "v", emit(f, &copy, y[i] = emit(f, &apart, a[i])));
  find(f);
  for (int i = 0; i < 2; i++)
    assert_int_equal(life_of(f, y[i])->home, life_of(f, a[i])->home);
  assert_int_equal(hr__lifetimes(f->graph, HR_CUDA, f->life, &f->err), HR_OK);
  assert_int_equal(life_of(f, y[0])->home, life_of(f, a[0])->home);
  assert_int_not_equal(life_of(f, y[1])->home, life_of(f, a[1])->home);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_one_result_per_operand, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_home_is_passed_on, setup, teardown),
      cmocka_unit_test_setup_teardown(test_an_operand_that_lives_on_is_left_alone, setup, teardown),
      cmocka_unit_test_setup_teardown(test_results_that_lie_apart, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
