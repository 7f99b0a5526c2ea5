/* Builder, verifier, regroup and dumps, on two toy ops of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/adjoint.h"

static hr_status same_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  if (view->n_in > 1 && view->in[1].rank && !hr_desc_same_shape(&view->in[0], &view->in[1]))
    return hr__fail(err, HR_FAILURE, NULL, NULL, "operands differ in shape");
  out[0] = view->in[0];
  return HR_OK;
}

/* y = a + b, in place on a where the plan likes. */
static const hr_op toy_sum = {
    .name = "toy_sum", .n_in = 2, .n_out = 1, .shape = same_shape, .n_alias = 1, .alias = {{0, 0, HR_ALIAS_MAY}}};
/* state += x, always in place. */
static const hr_op toy_step = {.name = "toy_step",
                               .n_in = 2,
                               .n_out = 1,
                               .shape = same_shape,
                               .effect = true,
                               .n_alias = 1,
                               .alias = {{0, 0, HR_ALIAS_MUST}}};
/* y = a + partial: accumulates in place on persistent partials. */
static const hr_op toy_gather = {.name = "toy_gather",
                                 .n_in = 2,
                                 .n_out = 1,
                                 .optional = 2u,
                                 .shape = same_shape,
                                 .n_alias = 1,
                                 .alias = {{1, 0, HR_ALIAS_ACCUMULATE}}};

typedef struct fixture {
  hr_graph *graph;
  hr_builder b;
  hr_error err;
} fixture;

static int setup(void **state) {
  fixture *f = hr__alloc_zero(1, sizeof *f);
  assert_int_equal(hr__graph_create(&f->graph, &f->err), HR_OK);
  hr__builder_init(&f->b, f->graph, HR_F32);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  hr__graph_destroy(f->graph);
  hr__free(f);
  return 0;
}

static hr_id emit2(fixture *f, const hr_op *op, hr_id a, hr_id c) {
  return hr__emit(&f->b, op, (hr_id[]){a, c}, 2, NULL);
}

static void expect_refused(fixture *f, const char *fragment) {
  assert_int_equal(hr__graph_verify(f->graph, &f->err), HR_FAILURE);
  if (!strstr(f->err.message, fragment)) fail_msg("message '%s' lacks '%s'", f->err.message, fragment);
}

static void test_shapes_and_storage(void **state) {
  fixture *f = *state;
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  hr__module(&f->b, "layer.%d", 3);
  hr_id w = hr__parameter(&f->b, "w", hr__desc2(HR_F32, 4, 8), (hr_init){.rule = HR_INIT_ONE});
  hr_id x = hr__input(&f->b, "x", hr__desc2(HR_F32, 4, 8));
  hr_id y = emit2(f, &toy_sum, w, x);
  assert_int_equal(hr__builder_status(&f->b, &f->err), HR_OK);
  assert_int_equal(hr__graph_verify(f->graph, &f->err), HR_OK);
  assert_int_equal(f->graph->buffers[f->graph->values[y].buffer].bytes, 128);
  assert_int_not_equal(f->graph->values[y].buffer, f->graph->values[w].buffer);
  assert_int_equal(f->graph->values[y].stride[0], 8);
  assert_string_equal(f->graph->nodes[0].module, "layer.3");
  assert_int_equal(hr__parameter(&f->b, "w", hr__desc2(HR_F32, 4, 8), (hr_init){0}), w);
  assert_int_equal(hr__program_input(f->graph, 0, "x"), x);
}

static void test_first_error_sticks(void **state) {
  fixture *f = *state;
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  hr__module(&f->b, "here");
  hr_id x = hr__input(&f->b, "x", hr__desc1(HR_F32, 4)), z = hr__input(&f->b, "z", hr__desc1(HR_F32, 5));
  assert_int_equal(emit2(f, &toy_sum, x, z), HR_NONE);
  assert_int_equal(emit2(f, &toy_sum, x, x), HR_NONE);
  assert_int_equal(hr__builder_status(&f->b, &f->err), HR_FAILURE);
  assert_string_equal(f->err.place, "here");
  assert_string_equal(f->err.message, "toy_sum: operands differ in shape");
}

static void test_sizes_are_checked(void **state) {
  fixture *f = *state;
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  hr__input(&f->b, "huge", hr__desc3(HR_F32, INT64_C(1) << 40, INT64_C(1) << 20, 16));
  assert_int_equal(hr__builder_status(&f->b, &f->err), HR_BAD_INPUT);
}

static void test_missing_operand(void **state) {
  fixture *f = *state;
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&f->b, "x", hr__desc1(HR_F32, 4));
  assert_int_equal(emit2(f, &toy_sum, x, HR_NONE), HR_NONE);
  assert_non_null(strstr(f->b.error.message, "needs operand 1"));
}

static void test_ids_out_of_range(void **state) {
  fixture *f = *state;
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&f->b, "x", hr__desc1(HR_F32, 4));
  assert_int_equal(emit2(f, &toy_sum, x, 77), HR_NONE);
  assert_non_null(strstr(f->b.error.message, "operand 1 of toy_sum is not a value"));
  f->b.status = HR_OK;
  hr__program_set_output(&f->b, "y", 77);
  assert_int_equal(hr__builder_status(&f->b, &f->err), HR_FAILURE);
  f->b.status = HR_OK;
  hr__program_set_output(&f->b, "y", HR_NONE);
  assert_int_equal(hr__builder_status(&f->b, &f->err), HR_FAILURE);
  assert_int_equal(f->graph->programs[0].n_outputs, 0);
}

static void test_programs_have_a_limit(void **state) {
  fixture *f = *state;
  for (int p = 0; p < HR_PROGRAMS; p++)
    assert_int_equal(hr__program_begin(&f->b, HR_PROGRAM_EVAL), p);
  assert_int_equal(hr__program_begin(&f->b, HR_PROGRAM_EVAL), HR_NONE);
  assert_non_null(strstr(f->b.error.message, "at most 32 programs"));
}

static void test_a_name_has_one_role(void **state) {
  fixture *f = *state;
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&f->b, "x", hr__desc1(HR_F32, 4));
  assert_int_equal(hr__parameter(&f->b, "x", hr__desc1(HR_F32, 4), (hr_init){0}), HR_NONE);
  assert_false(f->graph->values[x].trained);
  f->b.status = HR_OK;
  hr__parameter(&f->b, "w", hr__desc1(HR_F32, 4), (hr_init){0});
  assert_int_equal(hr__persistent(&f->b, "w", HR_ROLE_GRADIENT, hr__desc1(HR_F32, 4), (hr_init){0}), HR_NONE);
  assert_non_null(strstr(f->b.error.message, "declared twice"));
}

static void test_update_is_in_place_and_kills_the_old_value(void **state) {
  fixture *f = *state;
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  hr_id w = hr__parameter(&f->b, "w", hr__desc1(HR_F32, 4), (hr_init){0});
  hr_id x = hr__input(&f->b, "x", hr__desc1(HR_F32, 4));
  hr_id next = emit2(f, &toy_step, w, x);
  assert_int_equal(f->graph->values[next].buffer, f->graph->values[w].buffer);
  assert_int_equal(hr__graph_verify(f->graph, &f->err), HR_OK);
  emit2(f, &toy_sum, w, x);
  expect_refused(f, "was overwritten in place");
}

static void test_accumulate_follows_persistence(void **state) {
  fixture *f = *state;
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&f->b, "x", hr__desc1(HR_F32, 4));
  hr_id sum = emit2(f, &toy_sum, x, x);
  hr_id home = hr__persistent(&f->b, "grad.w", HR_ROLE_GRADIENT, hr__desc1(HR_F32, 4), (hr_init){0});
  hr_id loose = emit2(f, &toy_gather, x, sum), bound = emit2(f, &toy_gather, x, home);
  hr_id alone = emit2(f, &toy_gather, x, HR_NONE);
  assert_int_not_equal(f->graph->values[loose].buffer, f->graph->values[sum].buffer);
  assert_int_equal(f->graph->values[bound].buffer, f->graph->values[home].buffer);
  assert_int_not_equal(alone, HR_NONE);
  assert_int_equal(hr__graph_verify(f->graph, &f->err), HR_OK);
}

static void test_verifier_finds_planted_faults(void **state) {
  fixture *f = *state;
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  hr_id x = hr__input(&f->b, "x", hr__desc1(HR_F32, 4));
  hr_id y = emit2(f, &toy_sum, x, x), z = emit2(f, &toy_sum, y, x);
  assert_int_equal(hr__graph_verify(f->graph, &f->err), HR_OK);
  hr_graph *g = f->graph;

  g->values[x].desc.dim[0] = 3;
  expect_refused(f, "not what the op's shape rule says");
  g->values[x].desc.dim[0] = 4;

  g->values[z].desc.dim[0] = 3;
  expect_refused(f, "not what the op's shape rule says");
  g->values[z].desc.dim[0] = 4;

  g->values[z].offset = 8;
  expect_refused(f, "beyond its buffer");
  g->values[z].offset = 0;

  hr_id own = g->values[z].buffer;
  g->values[z].buffer = g->values[x].buffer; /* operand 1: not declared as aliasing */
  expect_refused(f, "which the op does not allow");
  g->values[z].buffer = own;

  hr_node first = g->nodes[0];
  g->nodes[0] = g->nodes[1];
  g->nodes[1] = first;
  expect_refused(f, "read before it is produced");
  g->nodes[1] = g->nodes[0];
  g->nodes[0] = first;

  g->programs[0].first = 1;
  expect_refused(f, "not contiguous");
  g->programs[0].first = 0;

  g->programs[0].count = 1;
  expect_refused(f, "belong to no program");
  g->programs[0].count = 2;
  assert_int_equal(hr__graph_verify(g, &f->err), HR_OK);
}

static void test_values_stay_in_their_program(void **state) {
  fixture *f = *state;
  hr__program_begin(&f->b, HR_PROGRAM_MICRO_FIRST);
  hr_id x = hr__input(&f->b, "x", hr__desc1(HR_F32, 4));
  emit2(f, &toy_sum, x, x);
  hr__program_begin(&f->b, HR_PROGRAM_MICRO_NEXT);
  emit2(f, &toy_sum, x, x);
  expect_refused(f, "belongs to another program");
}

static void test_parameters_are_only_written_by_effects(void **state) {
  fixture *f = *state;
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  hr_id w = hr__parameter(&f->b, "w", hr__desc1(HR_F32, 4), (hr_init){0});
  hr_id x = hr__input(&f->b, "x", hr__desc1(HR_F32, 4));
  hr_id y = emit2(f, &toy_sum, w, x);
  f->graph->values[y].buffer = f->graph->values[w].buffer;
  expect_refused(f, "overwrites the parameter w");
}

static void test_regroup_keeps_order_and_arrange_drops(void **state) {
  fixture *f = *state;
  hr_id one = hr__program_begin(&f->b, HR_PROGRAM_MICRO_FIRST);
  hr_id x = hr__input(&f->b, "x", hr__desc1(HR_F32, 4));
  hr_id a = emit2(f, &toy_sum, x, x);
  hr__program_begin(&f->b, HR_PROGRAM_MICRO_NEXT);
  hr_id z = hr__input(&f->b, "z", hr__desc1(HR_F32, 4));
  hr_id c = emit2(f, &toy_sum, z, z);
  f->b.program = one;
  hr_id d = emit2(f, &toy_sum, a, x), e = emit2(f, &toy_sum, a, x);
  assert_int_equal(hr__graph_regroup(f->graph, &f->err), HR_OK);
  assert_int_equal(hr__graph_verify(f->graph, &f->err), HR_OK);
  assert_int_equal(f->graph->programs[0].count, 3);
  assert_int_equal(f->graph->values[d].producer, 1);
  assert_int_equal(f->graph->values[c].producer, 3);
  const hr_id order[] = {0, 2, 3};
  assert_int_equal(hr__graph_arrange(f->graph, order, 3, &f->err), HR_OK);
  assert_int_equal(hr__graph_verify(f->graph, &f->err), HR_OK);
  assert_int_equal(f->graph->n_nodes, 3);
  assert_int_equal(f->graph->values[e].producer, 1);
  assert_int_equal(f->graph->buffers[f->graph->values[d].buffer].programs, 0);
  assert_int_equal(f->graph->values[d].producer, HR_DROPPED);
  json_t *json = hr__graph_json(f->graph), *values = json_object_get(json, "values");
  assert_int_equal(json_array_size(values), 5); /* x, a, z, c, e */
  for (size_t i = 0; i < 5; i++)
    assert_int_not_equal(json_integer_value(json_object_get(json_array_get(values, i), "id")), d);
  json_decref(json);

  hr__program_set_output(&f->b, "d", d);
  expect_refused(f, "does not survive");
  f->graph->programs[one].n_outputs = 0;
  f->b.program = 1;
  emit2(f, &toy_sum, d, d);
  f->graph->buffers[f->graph->values[d].buffer].program = 1;
  expect_refused(f, "made by a node that was dropped");
}

static void test_dump_is_stable(void **state) {
  fixture *f = *state;
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  hr__block_begin(&f->b, "layer.%d", 0);
  hr__module(&f->b, "layer.0.mix");
  hr_id w = hr__parameter(&f->b, "w", hr__desc1(HR_F32, 4), (hr_init){0});
  hr_id x = hr__input(&f->b, "x", hr__desc1(HR_F32, 4));
  hr_id y = emit2(f, &toy_sum, x, w);
  hr__block_end(&f->b);
  hr__program_set_output(&f->b, "y", y);
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  assert_int_equal(hr__graph_dump_text(f->graph, to, &f->err), HR_OK);
  fclose(to);
  assert_string_equal(text, "persistent\n"
                            "  parameter  w f32[4]\n"
                            "program step: 1 nodes\n"
                            "  block layer.0\n"
                            "    forward  layer.0.mix                              %2 f32[4] = toy_sum(x, w)\n"
                            "  output y = %2\n");
  free(text);
  json_t *json = hr__graph_json(f->graph);
  assert_non_null(json);
  assert_int_equal(json_array_size(json_object_get(json, "values")), 3);
  json_decref(json);
}

static void test_stacked(void **state) {
  fixture *f = *state;
  hr_init one = {.rule = HR_INIT_ONE}, zero = {.rule = HR_INIT_ZERO};
  const hr_member members[] = {{"q", 4, one}, {"k", 2, zero}};
  hr_id whole = hr__parameter_stacked(&f->b, "q+k", hr__desc2(HR_F32, 6, 3), members, 2);
  assert_int_equal(hr__parameter_stacked(&f->b, "q+k", hr__desc2(HR_F32, 6, 3), members, 2), whole);
  hr_id q = hr__graph_find_value(f->graph, "q"), k = hr__graph_find_value(f->graph, "k");
  const hr_value *v = f->graph->values;
  assert_true(q == whole + 1 && k == whole + 2 && v[whole].members == 2);
  assert_true(v[k].base == whole && v[k].buffer == v[whole].buffer && v[k].offset == 4 * 3 * sizeof(float));
  assert_true(v[k].desc.dim[0] == 2 && v[k].desc.dim[1] == 3 && v[q].init.rule == HR_INIT_ONE && v[k].trained);
  assert_true(!hr__graph_is_tensor(f->graph, whole) && hr__graph_is_tensor(f->graph, q));
  assert_int_equal(hr__graph_untrained(f->graph, NULL, 0), 2); /* by their own names */
  /* a value with a third of the rows is divided as they are */
  hr_id beside = hr__beside(&f->b, whole, "scale", HR_ROLE_OPTIMIZER, hr__desc1(HR_F32, 3), zero);
  hr_id part = hr__graph_find_value(f->graph, "scale.q");
  assert_int_equal(f->graph->values[beside].members, 2);
  assert_int_equal(f->graph->values[part].desc.dim[0], 2);
  hr_id view = hr__view(&f->b, whole, 0, 4);
  assert_false(hr__graph_is_tensor(f->graph, view));
  /* one alone is what it always was */
  hr_id alone = hr__parameter_stacked(&f->b, "unused", hr__desc2(HR_F32, 5, 3), &(hr_member){"v", 5, one}, 1);
  assert_string_equal(f->graph->values[alone].name, "v");
  assert_int_equal(f->graph->values[alone].members, 0);
  assert_int_equal(hr__graph_verify(f->graph, &f->err), HR_OK);
  assert_int_equal(hr__parameter_stacked(&f->b, "bad", hr__desc2(HR_F32, 7, 3), members, 2), HR_NONE);
  assert_int_equal(hr__builder_status(&f->b, &f->err), HR_FAILURE);
}

static void test_module_members(void **state) {
  (void)state;
  char out[HR_MODULE_PATH];
  static const char *const expected[] = {"a.q.lora_A", "a.k.lora_A", "a.v.lora_A"};
  for (int i = 0; i < 3; i++) {
    assert_true(hr__module_member("a.q+k+v.lora_A", i, out));
    assert_string_equal(out, expected[i]);
  }
  assert_false(hr__module_member("a.q+k+v.lora_A", 3, out));
  assert_true(hr__module_member("q+k", 1, out));
  assert_string_equal(out, "k");
  assert_false(hr__module_member("q+k", 2, out));
  assert_true(hr__module_member("a.b", 0, out));
  assert_string_equal(out, "a.b");
  assert_false(hr__module_member("a.b", 1, out));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_shapes_and_storage, setup, teardown),
      cmocka_unit_test_setup_teardown(test_first_error_sticks, setup, teardown),
      cmocka_unit_test_setup_teardown(test_sizes_are_checked, setup, teardown),
      cmocka_unit_test_setup_teardown(test_missing_operand, setup, teardown),
      cmocka_unit_test_setup_teardown(test_ids_out_of_range, setup, teardown),
      cmocka_unit_test_setup_teardown(test_programs_have_a_limit, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_name_has_one_role, setup, teardown),
      cmocka_unit_test_setup_teardown(test_update_is_in_place_and_kills_the_old_value, setup, teardown),
      cmocka_unit_test_setup_teardown(test_accumulate_follows_persistence, setup, teardown),
      cmocka_unit_test_setup_teardown(test_verifier_finds_planted_faults, setup, teardown),
      cmocka_unit_test_setup_teardown(test_values_stay_in_their_program, setup, teardown),
      cmocka_unit_test_setup_teardown(test_parameters_are_only_written_by_effects, setup, teardown),
      cmocka_unit_test_setup_teardown(test_regroup_keeps_order_and_arrange_drops, setup, teardown),
      cmocka_unit_test_setup_teardown(test_dump_is_stable, setup, teardown),
      cmocka_unit_test_setup_teardown(test_stacked, setup, teardown),
      cmocka_unit_test(test_module_members),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
