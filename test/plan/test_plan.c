/* The plan of hand-made graphs: who shares storage with whom, offsets to the byte, peak, time, verdict. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "grad/grad.h"
#include "op/add.h"
#include "op/conv.h"
#include "op/copy.h"
#include "op/linear.h"
#include "op/mse.h"
#include "pass/update.h"
#include "plan/part_graphs.h"
#include "plan/verdict.h"

typedef struct fixture {
  hr_graph *graph;
  hr_builder b;
  hr_facts facts;
  hr_plan *plan;
} fixture;

static int setup(void **state) {
  fixture *f = hr__alloc_zero(1, sizeof *f);
  hr_error err = {0};
  assert_int_equal(hr__graph_create(&f->graph, &err), HR_OK);
  hr__builder_init(&f->b, f->graph, HR_F32);
  hr__program_begin(&f->b, HR_PROGRAM_STEP);
  hr__module(&f->b, "test");
  f->facts = test_facts();
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  hr__plan_destroy(f->plan);
  hr__graph_destroy(f->graph);
  hr__free(f);
  return 0;
}

static void plan_it(fixture *f) {
  hr_error err = {0};
  if (hr__builder_status(&f->b, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  if (hr__graph_verify(f->graph, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  f->plan = test_plan(f->graph, &f->facts, 1);
  test_replay(f->plan);
}

static hr_id input(fixture *f, const char *name, int64_t rows, int64_t columns) {
  return hr__input(&f->b, name, hr__desc2(HR_F32, rows, columns));
}

static hr_id slot_of(const fixture *f, hr_id value) {
  return f->plan->slot_of_buffer[f->graph->values[value].buffer];
}

static void a_sum_takes_over_an_operand_that_dies(void **state) {
  fixture *f = *state;
  hr_id x = input(f, "x", 4, 16), y = input(f, "y", 4, 16);
  hr_id a = hr__add(&f->b, x, y, 1), c = hr__add(&f->b, a, y, 1), d = hr__add(&f->b, c, x, 1);
  hr__program_set_output(&f->b, "d", d);
  plan_it(f);
  assert_int_not_equal(slot_of(f, x), slot_of(f, a)); /* both inputs are needed later */
  assert_int_equal(slot_of(f, c), slot_of(f, a));
  assert_int_equal(slot_of(f, d), slot_of(f, c));
  assert_int_equal(f->plan->n_slots, 3);
  const hr_slot *slot = &f->plan->slots[slot_of(f, a)];
  assert_int_equal(slot->first, 0);
  assert_int_equal(slot->last, 2);
  assert_int_equal(f->plan->tiers[HR_TIER_DEVICE].arena_bytes, 3 * 256);
  assert_int_equal(f->plan->tiers[HR_TIER_DEVICE].peak_bytes, 3 * 256 + 1000 + test_nodes_bytes(f->plan));
}

static void an_input_is_taken_over_at_its_last_use(void **state) {
  fixture *f = *state;
  hr_id x = input(f, "x", 4, 16), y = input(f, "y", 4, 16);
  hr_id a = hr__add(&f->b, x, y, 1);
  hr__program_set_output(&f->b, "a", a);
  plan_it(f);
  assert_int_equal(slot_of(f, a), slot_of(f, x));
}

static void an_operand_read_twice_is_not_taken_over(void **state) {
  fixture *f = *state;
  hr_id x = input(f, "x", 4, 16), a = hr__add(&f->b, x, x, 1);
  hr__program_set_output(&f->b, "a", a);
  plan_it(f);
  assert_int_not_equal(slot_of(f, a), slot_of(f, x));
}

static void an_output_of_the_program_is_not_taken_over(void **state) {
  fixture *f = *state;
  hr_id x = input(f, "x", 4, 16), y = input(f, "y", 4, 16);
  hr_id a = hr__add(&f->b, x, y, 1), c = hr__add(&f->b, a, y, 1);
  hr__program_set_output(&f->b, "a", a);
  hr__program_set_output(&f->b, "c", c);
  plan_it(f);
  assert_int_not_equal(slot_of(f, c), slot_of(f, a));
  assert_int_equal(slot_of(f, c), slot_of(f, y)); /* the other operand may be */
  assert_int_equal(f->plan->slots[slot_of(f, a)].last, 1);
}

static void other_sizes_are_not_taken_over(void **state) {
  fixture *f = *state;
  hr_id x = input(f, "x", 4, 16), half = hr__copy(&f->b, x, HR_BF16);
  hr__program_set_output(&f->b, "half", half);
  plan_it(f);
  assert_int_not_equal(slot_of(f, half), slot_of(f, x));
}

static void a_value_nobody_reads_lives_at_its_node(void **state) {
  fixture *f = *state;
  hr_id x = input(f, "x", 4, 16), unread = hr__add(&f->b, x, x, 1), y = hr__add(&f->b, x, x, 1);
  hr__program_set_output(&f->b, "y", y);
  plan_it(f);
  const hr_slot *slot = &f->plan->slots[slot_of(f, unread)];
  assert_int_equal(slot->first, 0);
  assert_int_equal(slot->last, 0);
  assert_int_equal(f->plan->slots[slot_of(f, y)].offset, slot->offset); /* its place is free again at once */
}

/* A perceptron with AdamW: parameters and moments lie at the bottom, by role, and are updated where they are. */
static hr_id perceptron(fixture *f, hr_program_kind kind, hr_grad_mode mode) {
  if (kind != HR_PROGRAM_STEP) hr__program_begin(&f->b, kind);
  hr_id x = input(f, "x", 8, 32), t = input(f, "t", 8, 16);
  hr_id w = hr__parameter(&f->b, "w", hr__desc2(HR_F32, 16, 32), (hr_init){.rule = HR_INIT_ONE});
  hr_id loss = hr__mse(&f->b, hr__linear(&f->b, x, w, HR_NONE), t);
  hr__program_set_output(&f->b, "loss", loss);
  hr_error err = {0};
  assert_int_equal(hr__grad(&f->b, &(hr_loss){loss, 1}, 1, mode, &err), HR_OK);
  return w;
}

static void update(fixture *f) {
  hr_error err = {0};
  hr_update_settings settings = {.beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f};
  assert_int_equal(hr__update_emit(&f->b, &settings, &err), HR_OK);
}

static const hr_slot *slot_named(const fixture *f, const char *name) {
  for (size_t s = 0; s < f->plan->n_slots; s++)
    if (strcmp(f->plan->slots[s].name, name) == 0) return &f->plan->slots[s];
  fail_msg("no slot %s", name);
  return NULL;
}

static void persistent_values_lie_at_the_bottom(void **state) {
  fixture *f = *state;
  perceptron(f, HR_PROGRAM_STEP, HR_GRAD_TRANSIENT);
  update(f);
  plan_it(f);
  size_t bytes = 16 * 32 * 4;
  assert_int_equal(slot_named(f, "w")->offset, 0);
  assert_int_equal(slot_named(f, "adam.m.w")->offset, bytes);
  assert_int_equal(slot_named(f, "adam.v.w")->offset, 2 * bytes);
  assert_int_equal(slot_named(f, "control")->offset, 3 * bytes);
  const hr_tier_plan *tier = &f->plan->tiers[HR_TIER_DEVICE];
  assert_int_equal(tier->persistent_bytes, 3 * bytes + 64);
  assert_int_equal(slot_named(f, "w")->program, HR_NONE);
  assert_int_equal(slot_named(f, "w")->last, UINT32_MAX);
  assert_int_equal(tier->categories[HR_CAT_PARAMETERS], bytes);
  assert_int_equal(tier->categories[HR_CAT_OPTIMIZER], 2 * bytes);
  assert_int_equal(tier->categories[HR_CAT_FIXED], 1000 + test_nodes_bytes(f->plan));
  for (size_t s = 0; s < f->plan->n_slots; s++)
    if (f->plan->slots[s].program != HR_NONE) assert_true(f->plan->slots[s].offset >= tier->persistent_bytes);
}

static void programs_share_the_room_above(void **state) {
  fixture *f = *state;
  f->graph->n_programs = 0; /* not the step */
  perceptron(f, HR_PROGRAM_MICRO_FIRST, HR_GRAD_WRITE);
  perceptron(f, HR_PROGRAM_MICRO_NEXT, HR_GRAD_ACCUMULATE);
  hr__program_begin(&f->b, HR_PROGRAM_UPDATE);
  update(f);
  plan_it(f);
  const hr_plan *plan = f->plan;
  assert_int_equal(slot_named(f, "grad.w")->program, HR_NONE);
  assert_int_equal(slot_named(f, "grad.w")->category, HR_CAT_GRADIENTS);
  size_t largest = 0;
  for (int p = 0; p < 3; p++)
    if (plan->programs[p].transient_bytes[HR_TIER_DEVICE] > largest)
      largest = plan->programs[p].transient_bytes[HR_TIER_DEVICE];
  const hr_tier_plan *tier = &plan->tiers[HR_TIER_DEVICE];
  assert_int_equal(tier->arena_bytes, tier->persistent_bytes + largest);
  assert_int_equal(plan->phases.load, tier->peak_bytes);
  assert_int_equal(plan->phases.steady, tier->peak_bytes);

  hr_rates rates;
  hr_error err = {0};
  hr_plan *eight;
  hr__rates_default(&f->facts, &rates);
  assert_int_equal(hr__plan_build(f->graph, &f->facts, &rates, &(hr_plan_options){.accumulation = 8}, &eight, &err),
                   HR_OK);
  double seconds = plan->programs[0].seconds + 7 * plan->programs[1].seconds + plan->programs[2].seconds;
  assert_true(eight->step_seconds > 0.999999 * seconds && eight->step_seconds < 1.000001 * seconds);
  assert_string_equal(eight->fingerprint, plan->fingerprint); /* seconds are no part of it */
  hr__plan_destroy(eight);
  hr__rates_fini(&rates);
}

static void the_fingerprint_tells_plans_apart(void **state) {
  fixture *f = *state;
  hr_id x = input(f, "x", 4, 16), a = hr__add(&f->b, x, x, 1);
  hr__program_set_output(&f->b, "a", a);
  plan_it(f);
  assert_int_equal(strlen(f->plan->fingerprint), 32);
  hr_facts other = f->facts;
  other.alignment = 256;
  hr_plan *plan = test_plan(f->graph, &other, 1);
  assert_string_not_equal(plan->fingerprint, f->plan->fingerprint);
  hr__plan_destroy(plan);
  other = f->facts;
  other.fixed_bytes += 5;
  strcpy(other.name, "another name");
  plan = test_plan(f->graph, &other, 1);
  assert_string_equal(plan->fingerprint, f->plan->fingerprint);
  hr__plan_destroy(plan);
}

static hr_id product(fixture *f, hr_id x, int64_t columns) {
  return hr__linear(&f->b, x, input(f, "w", columns, f->graph->values[x].desc.dim[1]), HR_NONE);
}

/* The library compiles a shape once, however many products have it. */
static void library_code_is_counted_for_each_shape(void **state) {
  fixture *f = *state;
  hr_id x = input(f, "x", 8, 16), y = product(f, product(f, product(f, x, 16), 16), 16);
  hr__program_set_output(&f->b, "y", product(f, y, 48));
  plan_it(f);
  uint64_t fixed = f->plan->tiers[HR_TIER_DEVICE].fixed_bytes, workers = 0;
  for (size_t n = 2; n < f->graph->n_nodes; n++)
    workers += (uint64_t)f->plan->threads_of_node[n];
  assert_int_equal(f->graph->n_nodes, 4);
  assert_int_equal(fixed, 1000 + 4 * HR_NODE_BYTES + 2 * HR_CODE_BYTES + workers * HR_DESK_BYTES);
}

/* On a GPU fixed costs are what the driver reports, library code, and the recorded graph; a program takes time of its
 * own beside its nodes. */
static void a_gpu_has_fixed_costs_of_its_own(void **state) {
  fixture *f = *state;
  f->facts.kind = HR_CUDA;
  f->facts.threads = 1;
  f->facts.fixed_bytes = (uint64_t)500 << 20;
  strcpy(f->facts.name, "NVIDIA H200");
  hr_id x = input(f, "x", 4, 16), a = hr__add(&f->b, x, x, 1);
  hr__program_set_output(&f->b, "a", a);
  plan_it(f);
  const hr_tier_plan *tier = &f->plan->tiers[HR_TIER_DEVICE];
  assert_true(tier->fixed_bytes == f->facts.fixed_bytes + HR_CUDA_LIBRARY_BYTES + HR_CUDA_NODE_BYTES);
  assert_true(tier->peak_bytes == tier->arena_bytes + tier->fixed_bytes);
  hr_rates rates;
  hr__rates_default(&f->facts, &rates);
  assert_true(f->plan->programs[0].seconds == f->plan->seconds_of_node[0] + rates.gpu.program_seconds);
  assert_true(f->plan->seconds_of_node[0] > 0);
  hr__rates_fini(&rates);
}

/* What a GPU goes through in pieces is as many nodes of the recorded graph. */
static void pieces_are_nodes_of_the_recorded_graph(void **state) {
  fixture *f = *state;
  f->facts.kind = HR_CUDA;
  f->facts.threads = 1;
  hr_conv_args args = {.stride = {1, 1, 1}, .padding = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1};
  hr_desc films = {HR_F32, 5, {1, 4, 8, 256, 256}}, windows = {HR_F32, 5, {4, 4, 3, 3, 3}};
  hr_id x = hr__input(&f->b, "x", films), w = hr__input(&f->b, "w", windows);
  hr__program_set_output(&f->b, "y", hr__conv(&f->b, x, w, HR_NONE, &args));
  plan_it(f);
  hr_desc storage[HR_OP_OPERANDS];
  hr_op_view view = hr__node_view(f->graph, &f->graph->nodes[0], storage);
  uint64_t pieces = (uint64_t)f->graph->nodes[0].op->launches(&view);
  assert_true(pieces > 20); /* 32 MiB at a time of 224 MiB: 27 elements for each of the film */
  assert_int_equal(f->plan->tiers[HR_TIER_DEVICE].fixed_bytes,
                   f->facts.fixed_bytes + HR_CUDA_LIBRARY_BYTES + pieces * HR_CUDA_NODE_BYTES);
}

/* Neighbours that a GPU runs as one launch pay for one. */
static void a_launch_of_a_group_counts_once(void **state) {
  fixture *f = *state;
  f->facts.kind = HR_CUDA;
  f->facts.threads = 1;
  strcpy(f->facts.name, "NVIDIA H200");
  hr_id x = input(f, "x", 4, 16), narrow[2];
  for (int i = 0; i < 2; i++)
    narrow[i] = hr__copy(&f->b, x, HR_BF16);
  hr_id first = hr__add(&f->b, x, x, 1), second = hr__add(&f->b, first, x, 1);
  hr__program_set_output(&f->b, "a", narrow[0]);
  hr__program_set_output(&f->b, "b", narrow[1]);
  hr__program_set_output(&f->b, "c", second);
  plan_it(f);
  hr_rates rates;
  hr__rates_default(&f->facts, &rates);
  double launch = rates.classes[HR_CLASS_STREAM][0].overhead_seconds, *seconds = f->plan->seconds_of_node;
  assert_true(fabs(seconds[1] - seconds[0] + launch) < 1e-12);
  assert_true(seconds[2] > launch && seconds[3] >= launch);
  hr__rates_fini(&rates);
}

/* What a GPU's program leaves to the CPU takes the CPU's time and threads. */
static void nodes_on_the_host_take_its_rates(void **state) {
  fixture *f = *state;
  hr_facts gpu = f->facts;
  gpu.kind = HR_CUDA;
  gpu.threads = 1;
  hr_id x = input(f, "x", 1024, 4096), a = hr__add(&f->b, x, x, 1);
  hr__program_set_output(&f->b, "a", a);
  plan_it(f);
  f->graph->nodes[0].place = HR_ON_HOST;
  hr_rates rates, host;
  hr_error err = {0};
  hr__rates_default(&gpu, &rates);
  hr__rates_default(&f->facts, &host);
  rates.host = &host;
  hr_plan *plan = NULL;
  assert_int_equal(hr__plan_build(f->graph, &gpu, &rates, &(hr_plan_options){.accumulation = 1}, &plan, &err), HR_OK);
  assert_true(plan->seconds_of_node[0] == f->plan->seconds_of_node[0]);
  assert_int_equal(plan->threads_of_node[0], f->plan->threads_of_node[0]);
  hr__plan_destroy(plan);
  hr__rates_fini(&rates);
  hr__rates_fini(&host);
}

static void alignment_is_kept(void **state) {
  fixture *f = *state;
  f->facts.alignment = 256;
  hr_id x = input(f, "x", 3, 5), y = input(f, "y", 3, 7);
  hr_id a = hr__add(&f->b, x, x, 1), c = hr__add(&f->b, y, y, 1);
  hr__program_set_output(&f->b, "a", a);
  hr__program_set_output(&f->b, "c", c);
  plan_it(f);
  for (size_t s = 0; s < f->plan->n_slots; s++) {
    assert_int_equal(f->plan->slots[s].offset % 256, 0);
    assert_int_equal(f->plan->slots[s].bytes, 256);
  }
}

static hr_status none_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  (void)err;
  out[0] = view->in[0];
  return HR_OK;
}

static void none_cost(const hr_op_view *view, hr_cost *cost) {
  (void)view;
  *cost = (hr_cost){0};
}

static void a_missing_kernel_is_named(void **state) {
  static const hr_op nowhere = {.name = "nowhere", .n_in = 1, .n_out = 1, .shape = none_shape, .cost = none_cost};
  fixture *f = *state;
  hr_id x = input(f, "x", 4, 16);
  hr__module(&f->b, "model.layers.3");
  hr__program_set_output(&f->b, "y", hr__emit(&f->b, &nowhere, &x, 1, NULL));
  hr_rates rates;
  hr_error err = {0};
  hr__rates_default(&f->facts, &rates);
  assert_int_equal(hr__plan_build(f->graph, &f->facts, &rates, &(hr_plan_options){.accumulation = 1}, &f->plan, &err),
                   HR_UNSUPPORTED);
  assert_non_null(strstr(err.message, "nowhere"));
  assert_non_null(strstr(err.message, "f32"));
  assert_non_null(strstr(err.message, "cpu"));
  assert_non_null(strstr(err.place, "model.layers.3"));
  hr__rates_fini(&rates);
}

static void the_verdict_names_the_owners(void **state) {
  fixture *f = *state;
  hr_id x = input(f, "x", 64, 64), sum = x;
  for (int layer = 0; layer < 3; layer++) {
    char name[64];
    snprintf(name, sizeof name, "model.layers.%d.weight", layer);
    hr_id w = hr__parameter(&f->b, name, hr__desc2(HR_F32, 64, 64), (hr_init){.rule = HR_INIT_ONE});
    sum = hr__add(&f->b, sum, w, 1);
  }
  hr__program_set_output(&f->b, "sum", sum);
  plan_it(f);
  hr_verdict verdict;
  hr_error err = {0};
  uint64_t peak = f->plan->tiers[HR_TIER_DEVICE].peak_bytes;
  assert_int_equal(hr__verdict(f->plan, NULL, &(hr_budget){.budget_bytes = peak}, &verdict, &err), HR_OK);
  assert_true(verdict.fits);
  assert_int_equal(verdict.missing_bytes, 0);
  assert_int_equal(hr__verdict(f->plan, NULL, &(hr_budget){.budget_bytes = peak, .margin_bytes = 1}, &verdict, &err),
                   HR_OK);
  assert_false(verdict.fits);
  assert_int_equal(verdict.missing_bytes, 1);
  assert_string_equal(verdict.categories[0].name, "parameters");
  assert_int_equal(verdict.categories[0].bytes, 3 * 64 * 64 * 4);
  assert_string_equal(verdict.buffers[0].name, "model.layers.*.weight");
  assert_int_equal(verdict.buffers[0].slots, 3);
  assert_int_equal(verdict.buffers[0].bytes, 3 * 64 * 64 * 4);
}

/* The host has to have the most that any phase takes; what is prepared before has, on the CPU, the arena's memory. */
static void the_host_has_its_largest_phase(void **state) {
  fixture *f = *state;
  hr__program_set_output(&f->b, "x", hr__add(&f->b, input(f, "x", 64, 64), input(f, "y", 64, 64), 1));
  plan_it(f);
  uint64_t arena = f->plan->tiers[HR_TIER_DEVICE].arena_bytes, host = f->plan->tiers[HR_TIER_HOST].peak_bytes;
  hr_host_phases phases = hr__host_phases(f->plan, NULL);
  assert_true(arena > 0 && phases.prepare == 0 && phases.load == host && phases.train == host && phases.save == host);
  assert_int_equal(hr__host_most(f->plan, &phases), host);
  phases.prepare = arena + host + 1;
  assert_int_equal(hr__host_most(f->plan, &phases), host + 1);
  phases.prepare = arena + host;
  assert_int_equal(hr__host_most(f->plan, &phases), host);
}

#define PLAN_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      PLAN_TEST(a_sum_takes_over_an_operand_that_dies),
      PLAN_TEST(an_input_is_taken_over_at_its_last_use),
      PLAN_TEST(an_operand_read_twice_is_not_taken_over),
      PLAN_TEST(an_output_of_the_program_is_not_taken_over),
      PLAN_TEST(other_sizes_are_not_taken_over),
      PLAN_TEST(a_value_nobody_reads_lives_at_its_node),
      PLAN_TEST(persistent_values_lie_at_the_bottom),
      PLAN_TEST(programs_share_the_room_above),
      PLAN_TEST(the_fingerprint_tells_plans_apart),
      PLAN_TEST(alignment_is_kept),
      PLAN_TEST(library_code_is_counted_for_each_shape),
      PLAN_TEST(a_gpu_has_fixed_costs_of_its_own),
      PLAN_TEST(pieces_are_nodes_of_the_recorded_graph),
      PLAN_TEST(a_launch_of_a_group_counts_once),
      PLAN_TEST(nodes_on_the_host_take_its_rates),
      PLAN_TEST(a_missing_kernel_is_named),
      PLAN_TEST(the_verdict_names_the_owners),
      PLAN_TEST(the_host_has_its_largest_phase),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
