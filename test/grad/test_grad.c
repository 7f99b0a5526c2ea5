/* The backward walk: sums of gradients, shared parameters, persistent homes, and what is left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "grad/grad.h"
#include "op/add.h"
#include "op/copy.h"
#include "op/linear.h"
#include "op/mse.h"
#include "op/pointwise.h"

typedef struct fixture {
  hr_graph *graph;
  hr_builder b;
  hr_error err;
  hr_id x, target;
} fixture;

static int setup(void **state) {
  fixture *f = hr__alloc_zero(1, sizeof *f);
  assert_int_equal(hr__graph_create(&f->graph, &f->err), HR_OK);
  hr__builder_init(&f->b, f->graph, HR_F32);
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  f->x = hr__input(&f->b, "x", hr__desc2(HR_F32, 3, 4));
  f->target = hr__input(&f->b, "t", hr__desc2(HR_F32, 3, 4));
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  hr__graph_destroy(f->graph);
  hr__free(f);
  return 0;
}

static hr_id weight(fixture *f, const char *name) {
  return hr__parameter(&f->b, name, hr__desc2(HR_F32, 4, 4), (hr_init){.rule = HR_INIT_NORMAL, .a = 0.1f});
}

static void differentiate(fixture *f, hr_id y, hr_grad_mode mode) {
  hr_loss loss = {.value = hr__mse(&f->b, y, f->target), .weight = 1.0f};
  hr__program_set_output(&f->b, "loss", loss.value);
  if (hr__grad(&f->b, &loss, 1, mode, &f->err) != HR_OK) fail_msg("%s: %s", f->err.place, f->err.message);
  if (hr__graph_verify(f->graph, &f->err) != HR_OK) fail_msg("%s: %s", f->err.place, f->err.message);
}

static int count_ops(const fixture *f, const char *name) {
  int count = 0;
  for (size_t n = 0; n < f->graph->n_nodes; n++)
    count += strcmp(f->graph->nodes[n].op->name, name) == 0;
  return count;
}

static void test_chain(void **state) {
  fixture *f = *state;
  hr_id w1 = weight(f, "w1"), w2 = weight(f, "w2");
  hr_id h = hr__linear(&f->b, f->x, w1, HR_NONE);
  differentiate(f, hr__linear(&f->b, h, w2, HR_NONE), HR_GRAD_TRANSIENT);
  assert_int_equal(count_ops(f, "linear_dw"), 2);
  assert_int_equal(count_ops(f, "linear_dx"), 1); /* nothing trained lies behind x */
  hr_id dw1 = f->graph->values[w1].gradient;
  assert_int_not_equal(dw1, HR_NONE);
  assert_int_equal(f->graph->buffers[f->graph->values[dw1].buffer].role, HR_ROLE_GRADIENT);
  assert_false(f->graph->buffers[f->graph->values[dw1].buffer].persistent);
}

static void test_residual_gradients_are_summed_by_the_product(void **state) {
  fixture *f = *state;
  hr_id w1 = weight(f, "w1"), w2 = weight(f, "w2");
  hr_id h = hr__linear(&f->b, f->x, w1, HR_NONE);
  hr_id y = hr__add(&f->b, h, hr__linear(&f->b, h, w2, HR_NONE), 1.0f);
  differentiate(f, y, HR_GRAD_TRANSIENT);
  assert_int_equal(count_ops(f, "add"), 1); /* only the forward one: linear_dx takes the partial itself */
}

static void test_shared_parameter_accumulates(void **state) {
  fixture *f = *state;
  hr_id w = weight(f, "w");
  differentiate(f, hr__linear(&f->b, hr__linear(&f->b, f->x, w, HR_NONE), w, HR_NONE), HR_GRAD_TRANSIENT);
  hr_id total = f->graph->values[w].gradient;
  const hr_node *last = &f->graph->nodes[f->graph->values[total].producer];
  assert_string_equal(last->op->name, "linear_dw");
  assert_int_not_equal(last->in[2], HR_NONE);
}

static void test_write_mode_produces_in_the_home(void **state) {
  fixture *f = *state;
  hr_id w = weight(f, "w");
  differentiate(f, hr__linear(&f->b, hr__linear(&f->b, f->x, w, HR_NONE), w, HR_NONE), HR_GRAD_WRITE);
  hr_id home = hr__graph_find_value(f->graph, "grad.w");
  assert_int_not_equal(home, HR_NONE);
  assert_int_equal(f->graph->values[w].gradient, home);
  for (size_t n = 0; n < f->graph->n_nodes; n++) {
    const hr_node *node = &f->graph->nodes[n];
    if (strcmp(node->op->name, "linear_dw") != 0) continue;
    assert_int_equal(f->graph->values[node->out[0]].buffer, f->graph->values[home].buffer);
  }
}

static void test_accumulate_mode_starts_from_the_home(void **state) {
  fixture *f = *state;
  hr_id w = weight(f, "w");
  differentiate(f, hr__linear(&f->b, f->x, w, HR_NONE), HR_GRAD_ACCUMULATE);
  hr_id home = hr__graph_find_value(f->graph, "grad.w");
  const hr_node *dw = NULL;
  for (size_t n = 0; n < f->graph->n_nodes; n++)
    if (strcmp(f->graph->nodes[n].op->name, "linear_dw") == 0) dw = &f->graph->nodes[n];
  assert_non_null(dw);
  assert_int_equal(dw->in[2], home);
  assert_int_equal(f->graph->values[dw->out[0]].buffer, f->graph->values[home].buffer);
}

static void test_passed_through_gradient_is_copied_home(void **state) {
  fixture *f = *state;
  hr_id p = hr__parameter(&f->b, "p", hr__desc2(HR_F32, 3, 4), (hr_init){0});
  hr_id q = hr__parameter(&f->b, "q", hr__desc2(HR_F32, 3, 4), (hr_init){0});
  differentiate(f, hr__add(&f->b, p, q, 1.0f), HR_GRAD_WRITE); /* both gradients are the same value */
  assert_true(count_ops(f, "copy") >= 1);
  assert_int_not_equal(f->graph->values[f->graph->values[p].gradient].buffer,
                       f->graph->values[f->graph->values[q].gradient].buffer);
}

static void test_parameter_without_path_has_no_gradient(void **state) {
  fixture *f = *state;
  hr_id w = weight(f, "w"), idle = weight(f, "idle");
  hr__linear(&f->b, f->x, idle, HR_NONE);
  differentiate(f, hr__linear(&f->b, f->x, w, HR_NONE), HR_GRAD_TRANSIENT);
  assert_int_equal(f->graph->values[idle].gradient, HR_NONE);
}

/* What is detached is read as any other value, and nothing flows to what it was made of. */
static void test_detached_value_is_taken_as_given(void **state) {
  fixture *f = *state;
  hr_id w = weight(f, "w"), behind = weight(f, "behind");
  hr_id given = hr__detached(&f->b, hr__linear(&f->b, f->x, behind, HR_NONE));
  differentiate(f, hr__linear(&f->b, given, w, HR_NONE), HR_GRAD_TRANSIENT);
  assert_int_not_equal(f->graph->values[w].gradient, HR_NONE);
  assert_int_equal(f->graph->values[behind].gradient, HR_NONE);
  assert_int_equal(count_ops(f, "linear_dx"), 0);
}

/* With persistent gradients as well: no home is declared for what nothing flows to. */
static void test_parameter_without_path_has_no_home(void **state) {
  fixture *f = *state;
  static const hr_grad_mode modes[] = {HR_GRAD_WRITE, HR_GRAD_ACCUMULATE};
  hr_id idle = HR_NONE, w = HR_NONE, found[2];
  for (int m = 0; m < 2; m++) {
    if (m == 1) {
      hr__program_begin(&f->b, HR_PROGRAM_MICRO_NEXT);
      f->x = hr__input(&f->b, "x", hr__desc2(HR_F32, 3, 4));
      f->target = hr__input(&f->b, "t", hr__desc2(HR_F32, 3, 4));
    }
    w = weight(f, "w"), idle = weight(f, "idle");
    hr__linear(&f->b, f->x, idle, HR_NONE);
    differentiate(f, hr__linear(&f->b, f->x, w, HR_NONE), modes[m]);
    assert_int_equal(f->graph->values[idle].gradient, HR_NONE);
    assert_int_equal(hr__graph_find_value(f->graph, "grad.idle"), HR_NONE);
    assert_int_equal(f->graph->values[w].gradient, hr__graph_find_value(f->graph, "grad.w"));
    assert_int_not_equal(f->graph->values[w].gradient, HR_NONE);
  }
  assert_int_equal(hr__graph_untrained(f->graph, found, 2), 1);
  assert_int_equal(found[0], idle);
  assert_int_equal(hr__graph_untrained(f->graph, NULL, 0), 1);
}

static void test_frozen_weight_needs_no_dw(void **state) {
  fixture *f = *state;
  hr_id w1 = weight(f, "w1"), w2 = weight(f, "w2");
  f->graph->values[w2].trained = false;
  differentiate(f, hr__linear(&f->b, hr__linear(&f->b, f->x, w1, HR_NONE), w2, HR_NONE), HR_GRAD_TRANSIENT);
  assert_int_equal(count_ops(f, "linear_dw"), 1);
  assert_int_equal(count_ops(f, "linear_dx"), 1);
}

static hr_dtype dtype_of(const fixture *f, hr_id value) {
  return f->graph->values[value].desc.dtype;
}

/* A parameter in f32 that products read in 16 bits: its gradient comes from 16-bit operands in f32, without a copy. */
static void test_narrowed_parameter_counts_as_itself(void **state) {
  fixture *f = *state;
  hr_id w = weight(f, "w"), narrow = hr__copy(&f->b, w, HR_BF16);
  f->x = hr__copy(&f->b, f->x, HR_BF16);
  f->target = hr__copy(&f->b, f->target, HR_BF16);
  hr_id h = hr__linear(&f->b, f->x, narrow, HR_NONE);
  differentiate(f, hr__linear(&f->b, h, narrow, HR_NONE), HR_GRAD_TRANSIENT);
  assert_int_equal(count_ops(f, "copy"), 3); /* only those of the forward pass */
  assert_int_equal(count_ops(f, "linear_dw"), 2);
  hr_id total = f->graph->values[w].gradient;
  assert_int_equal(dtype_of(f, total), HR_F32);
  assert_int_equal(f->graph->values[narrow].gradient, HR_NONE);
  const hr_node *last = &f->graph->nodes[f->graph->values[total].producer];
  assert_int_equal(dtype_of(f, last->in[0]), HR_BF16);
  assert_int_equal(dtype_of(f, last->in[2]), HR_F32);
  for (size_t v = 0; v < f->graph->n_values; v++)
    if (f->graph->buffers[f->graph->values[v].buffer].role == HR_ROLE_GRADIENT)
      assert_int_equal(f->graph->values[v].desc.dtype, HR_F32);
}

/* Used as it is and in two 16-bit types at once: one sum, in the persistent home. */
static void test_all_types_of_a_parameter_add_up(void **state) {
  fixture *f = *state;
  hr_id w = weight(f, "w");
  hr_id bf16 = hr__copy(&f->b, w, HR_BF16), f16 = hr__copy(&f->b, w, HR_F16);
  hr_id y = hr__linear(&f->b, f->x, w, HR_NONE);
  y = hr__linear(&f->b, hr__copy(&f->b, y, HR_BF16), bf16, HR_NONE);
  y = hr__linear(&f->b, hr__copy(&f->b, y, HR_F16), f16, HR_NONE);
  differentiate(f, hr__copy(&f->b, y, HR_F32), HR_GRAD_WRITE);
  hr_id home = hr__graph_find_value(f->graph, "grad.w");
  assert_int_equal(dtype_of(f, home), HR_F32);
  assert_int_equal(count_ops(f, "linear_dw"), 3);
  for (size_t n = 0; n < f->graph->n_nodes; n++) {
    const hr_node *node = &f->graph->nodes[n];
    if (strcmp(node->op->name, "linear_dw") != 0) continue;
    assert_int_equal(f->graph->values[node->out[0]].buffer, f->graph->values[home].buffer);
  }
}

/* Conversions of what is not a parameter have gradients of their own, back in the type before. */
static void test_converted_activation_flows_back(void **state) {
  fixture *f = *state;
  hr_id w = weight(f, "w");
  hr_id h = hr__copy(&f->b, hr__linear(&f->b, f->x, w, HR_NONE), HR_F16);
  differentiate(f, hr__copy(&f->b, h, HR_F32), HR_GRAD_TRANSIENT);
  assert_int_equal(count_ops(f, "copy"), 4);
  assert_int_equal(dtype_of(f, f->graph->values[w].gradient), HR_F32);
}

static void test_frozen_parameter_narrowed_has_no_gradient(void **state) {
  fixture *f = *state;
  hr_id w1 = weight(f, "w1"), w2 = weight(f, "w2");
  f->graph->values[w1].trained = false;
  hr_id y = hr__linear(&f->b, hr__copy(&f->b, f->x, HR_BF16), hr__copy(&f->b, w1, HR_BF16), HR_NONE);
  differentiate(f, hr__linear(&f->b, hr__copy(&f->b, y, HR_F32), w2, HR_NONE), HR_GRAD_TRANSIENT);
  assert_int_equal(count_ops(f, "linear_dw"), 1);
  assert_int_equal(f->graph->values[w1].gradient, HR_NONE);
}

/* A copy that converts is the parameter itself to its users; one that scales as well is not. */
static void test_scaled_copies_are_no_parameters(void **state) {
  fixture *f = *state;
  hr_id w = weight(f, "w");
  hr_copy_args args = {.dtype = HR_BF16, .factor = 2.0f};
  hr_id scaled = hr__emit(&f->b, &hr_op_copy, &w, 1, &args);
  hr_id y = hr__linear(&f->b, hr__copy(&f->b, f->x, HR_BF16), scaled, HR_NONE);
  differentiate(f, hr__copy(&f->b, y, HR_F32), HR_GRAD_TRANSIENT);
  const hr_node *last = &f->graph->nodes[f->graph->values[f->graph->values[w].gradient].producer];
  assert_ptr_equal(last->op, &hr_op_copy);
  assert_true(((const hr_copy_args *)last->args)->factor == 2.0f);
  assert_int_equal(f->graph->values[last->in[0]].desc.dtype, HR_BF16);
}

/* Elements of what nodes of an op give, all together. */
static int64_t elements_of(const fixture *f, const char *name) {
  int64_t count = 0;
  for (size_t n = 0; n < f->graph->n_nodes; n++)
    for (int j = 0; j < f->graph->nodes[n].n_out && strcmp(f->graph->nodes[n].op->name, name) == 0; j++)
      count += hr_desc_count(&f->graph->values[f->graph->nodes[n].out[j]].desc);
  return count;
}

/* y = (h - mean) scale: of as many elements as h has there is one gradient, that of h; the others are summed as they
 * are made. */
static void test_repeated_operands_have_no_gradient_of_full_size(void **state) {
  fixture *f = *state;
  hr_desc row = hr__desc1(HR_F32, 4);
  hr_id mean = hr__parameter(&f->b, "mean", row, (hr_init){.rule = HR_INIT_ZERO});
  hr_id scale = hr__parameter(&f->b, "scale", row, (hr_init){.rule = HR_INIT_ONE});
  hr_id h = hr__linear(&f->b, f->x, weight(f, "w"), HR_NONE);
  h = hr__binary(&f->b, HR_FORMULA_sub, h, mean);
  differentiate(f, hr__binary(&f->b, HR_FORMULA_mul, h, scale), HR_GRAD_TRANSIENT);
  assert_int_equal(elements_of(f, "pointwise_bwd"), 3 * 4); /* dy scale, of h */
  assert_int_equal(elements_of(f, "reduce"), 2 * 4);
}

/* y = h c with a constant c: h itself is not read, and need not be kept. */
static void test_products_do_not_keep_what_has_a_constant_beside_it(void **state) {
  fixture *f = *state;
  hr_id c = hr__input(&f->b, "c", hr__desc2(HR_F32, 3, 4));
  hr_id h = hr__linear(&f->b, f->x, weight(f, "w"), HR_NONE);
  differentiate(f, hr__binary(&f->b, HR_FORMULA_mul, h, c), HR_GRAD_TRANSIENT);
  for (size_t n = 0; n < f->graph->n_nodes; n++)
    for (int i = 0; i < f->graph->nodes[n].n_in && f->graph->nodes[n].phase == HR_BACKWARD; i++)
      assert_int_not_equal(f->graph->nodes[n].in[i], h);
  assert_int_equal(count_ops(f, "pointwise_bwd"), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_scaled_copies_are_no_parameters, setup, teardown),
      cmocka_unit_test_setup_teardown(test_chain, setup, teardown),
      cmocka_unit_test_setup_teardown(test_residual_gradients_are_summed_by_the_product, setup, teardown),
      cmocka_unit_test_setup_teardown(test_shared_parameter_accumulates, setup, teardown),
      cmocka_unit_test_setup_teardown(test_write_mode_produces_in_the_home, setup, teardown),
      cmocka_unit_test_setup_teardown(test_accumulate_mode_starts_from_the_home, setup, teardown),
      cmocka_unit_test_setup_teardown(test_passed_through_gradient_is_copied_home, setup, teardown),
      cmocka_unit_test_setup_teardown(test_parameter_without_path_has_no_gradient, setup, teardown),
      cmocka_unit_test_setup_teardown(test_parameter_without_path_has_no_home, setup, teardown),
      cmocka_unit_test_setup_teardown(test_detached_value_is_taken_as_given, setup, teardown),
      cmocka_unit_test_setup_teardown(test_frozen_weight_needs_no_dw, setup, teardown),
      cmocka_unit_test_setup_teardown(test_narrowed_parameter_counts_as_itself, setup, teardown),
      cmocka_unit_test_setup_teardown(test_all_types_of_a_parameter_add_up, setup, teardown),
      cmocka_unit_test_setup_teardown(test_converted_activation_flows_back, setup, teardown),
      cmocka_unit_test_setup_teardown(test_repeated_operands_have_no_gradient_of_full_size, setup, teardown),
      cmocka_unit_test_setup_teardown(test_products_do_not_keep_what_has_a_constant_beside_it, setup, teardown),
      cmocka_unit_test_setup_teardown(test_frozen_parameter_narrowed_has_no_gradient, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
