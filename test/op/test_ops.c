/* Conformance of every op in ops.def: one set of properties, held against each op's own samples in every combination of
 * float types that its shape rule accepts. An op is covered by being listed; only its reference is written here
 * (part_reference_*.c). */
#include <math.h>
#include <string.h>

#include "graph/builder.h"
#include "part_case.h"
#include "part_gradient.h"

static const double GRADIENT_TOLERANCE = 1e-4;

/* Of a gradient, compared with differences of the reference, which take the longest: the sanitizers' build runs every
 * kernel as often, and compares less. */
#ifdef HR_ASAN
enum { ELEMENTS = 4, DIRECTIONS = 1 };
#else
enum { ELEMENTS = 16, DIRECTIONS = 3 };
#endif

/* ---- descriptors ---- */

static bool sample_is_odd(const hr_op *op, const hr_sample *sample) {
  hr_desc out[HR_OP_OPERANDS];
  hr_error err;
  hr_op_view view = {.in = sample->in,
                     .out = out,
                     .n_in = sample->n_in,
                     .n_out = hr__op_results(op, sample->args),
                     .args = sample->args};
  if (op->shape(&view, out, &err) != HR_OK) return false;
  const hr_desc *typed = sample->n_in ? &sample->in[op->typed_by] : &out[0];
  return hr_desc_columns(typed) % 16 != 0;
}

static void test_descriptors(void **state) {
  (void)state;
  for (size_t o = 0; o < hr_op_count; o++) {
    const hr_op *op = hr_ops[o];
    bool odd = false;
    if (hr__op_find(op->name) != op) fail_msg("%s: not found by its name", op->name);
    if (!reference_find(op->name)) fail_msg("%s: no reference in part_reference_*.c", op->name);
    if (reference_find(op->name)->differentiable != (op->grad != NULL)) fail_msg("%s: gradient rule or not?", op->name);
    if (!op->shape || !op->cost || !op->cpu.run) fail_msg("%s: shape, cost or kernel is missing", op->name);
    if (op->dtypes[HR_CPU] == 0) fail_msg("%s: no type on the CPU", op->name);
    if (op->n_samples < 2) fail_msg("%s: fewer than two samples", op->name);
    for (int s = 0; s < op->n_samples; s++) {
      const hr_sample *sample = &op->samples[s];
      odd |= sample_is_odd(op, sample);
      if (!op->variadic && sample->n_in != op->n_in) fail_msg("%s: sample %d has not all operands", op->name, s);
      if ((sample->args != NULL) != (op->args_bytes != 0)) fail_msg("%s: arguments of sample %d", op->name, s);
    }
    if (!odd) fail_msg("%s: no sample whose last dimension is not a multiple of 16", op->name);
    for (int a = 0; a < op->n_alias; a++)
      if (!op->takes && (op->alias[a].in >= op->n_in || op->alias[a].out >= op->n_out))
        fail_msg("%s: alias %d", op->name, a);
  }
  assert_null(hr__op_find("no such op"));
}

/* Optional operands occur, and are left out, somewhere among the samples or in the tests below. */
static void test_optional_operands_are_sampled(void **state) {
  (void)state;
  for (size_t o = 0; o < hr_op_count; o++) {
    uint32_t seen = 0;
    for (int s = 0; s < hr_ops[o]->n_samples; s++)
      for (int i = 0; i < hr_ops[o]->samples[s].n_in; i++)
        if (hr_ops[o]->samples[s].in[i].rank) seen |= 1u << i;
    if (hr_ops[o]->optional & ~seen) fail_msg("%s: an optional operand is in no sample", hr_ops[o]->name);
  }
}

static void cost_visit(op_case *c) {
  hr_cost cost = {0};
  hr_op_view view = case_view(c);
  c->op->cost(&view, &cost);
  if (!(cost.bytes >= 0.0 && cost.flops >= 0.0 && cost.bytes + cost.flops > 0.0))
    case_fail(c, "cost of %g flops, %g bytes", cost.flops, cost.bytes);
  if (cost.op_class >= HR_CLASS_COUNT) case_fail(c, "no such class");
  if (cost.n_products < 0 || cost.n_products > HR_COST_PRODUCTS) case_fail(c, "%d products", cost.n_products);
  if (cost.op_class == HR_CLASS_PRODUCT && cost.n_products == 0) case_fail(c, "a product op without products");
  for (int p = 0; p < cost.n_products; p++) {
    const hr_product *product = &cost.products[p];
    if (product->m < 1 || product->n < 1 || product->k < 1 || product->times < 1) case_fail(c, "an empty product");
  }
}

static void test_costs(void **state) {
  (void)state;
  cases_visit(cost_visit);
}

/* ---- shape rules ---- */

static bool descs_equal(const hr_desc *a, const hr_desc *b, int count) {
  bool equal = true;
  for (int i = 0; i < count; i++)
    equal &= a[i].dtype == b[i].dtype && hr_desc_same_shape(&a[i], &b[i]);
  return equal;
}

/* Tries the case with operand i replaced. Accepting it is right only where the results follow the new shape. */
static void broken_try(op_case *c, int i, hr_desc broken, bool always_wrong, const char *what) {
  hr_desc good = c->in[i], out[HR_OP_OPERANDS] = {0};
  hr_error err = {0};
  hr_op_view view = case_view(c);
  c->in[i] = broken;
  hr_status status = c->op->shape(&view, out, &err);
  c->in[i] = good;
  bool loose = (c->reference->loose & (1u << i)) != 0;
  if (status == HR_OK && (always_wrong || (!loose && descs_equal(out, c->out, c->n_out))))
    case_fail(c, "operand %d with %s is accepted", i, what);
  if (status != HR_OK && err.message[0] == 0) case_fail(c, "operand %d with %s is refused without a message", i, what);
}

static void shape_visit(op_case *c) {
  for (int i = 0; i < c->sample->n_in; i++) {
    if (c->in[i].rank == 0) continue;
    hr_desc broken = c->in[i];
    broken.dtype = HR_I64;
    if (!(c->reference->any_type & (1u << i))) broken_try(c, i, broken, true, "another type");
    for (int d = 0; d < c->in[i].rank; d++) {
      broken = c->in[i];
      broken.dim[d]++;
      broken_try(c, i, broken, false, "a longer axis");
    }
    broken = c->in[i];
    broken.dim[broken.rank++] = 3;
    broken_try(c, i, broken, false, "one axis more");
    if (c->in[i].rank == 1) continue;
    broken = c->in[i];
    broken.rank--;
    broken_try(c, i, broken, false, "one axis less");
  }
}

static void test_shape_rules_refuse_what_does_not_match(void **state) {
  (void)state;
  cases_visit(shape_visit);
}

/* Emits the case's op with operand `missing` left out (-1: with one operand too few). */
static hr_status missing_emit(op_case *c, int missing, hr_error *err) {
  hr_graph *graph;
  hr_builder b;
  hr_id in[HR_OP_OPERANDS];
  assert_int_equal(hr__graph_create(&graph, err), HR_OK);
  hr__builder_init(&b, graph, HR_F32);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  for (int i = 0; i < c->sample->n_in; i++)
    in[i] = c->in[i].rank && i != missing ? hr__input(&b, "operand", c->in[i]) : HR_NONE;
  hr__emit(&b, c->op, in, c->sample->n_in - (missing < 0), c->sample->args);
  hr_status status = hr__builder_status(&b, err);
  hr__graph_destroy(graph);
  return status;
}

static void missing_visit(op_case *c) {
  for (int i = -1; i < c->sample->n_in; i++) {
    hr_error err = {0};
    bool fine = c->op->variadic ? i < 0 && c->sample->n_in > 1 : i >= 0 && (c->op->optional & (1u << i));
    if (fine || c->sample->n_in == 0) continue;
    if (missing_emit(c, i, &err) == HR_OK) case_fail(c, "is accepted without operand %d", i);
    if (err.message[0] == 0) case_fail(c, "is refused without a message");
  }
}

static void test_missing_operands_are_refused(void **state) {
  (void)state;
  cases_visit(missing_visit);
}

/* ---- results ---- */

static void result_visit(op_case *c) {
  run_result got = case_run(c, (run_options){.threads = 1}), want = case_reference(c);
  for (int j = 0; j < c->n_out; j++) {
    char what[16] = "output 0";
    what[7] = (char)('0' + j);
    values_close(c, what, got.value[j], want.value[j], hr_desc_count(&c->out[j]), case_tolerance(c));
  }
}

static void test_results_match_the_reference(void **state) {
  (void)state;
  cases_visit(result_visit);
}

static void results_equal(const op_case *c, const char *what, const run_result *a, const run_result *b) {
  for (int j = 0; j < c->n_out; j++)
    if (memcmp(a->data[j], b->data[j], hr_desc_bytes(&c->out[j])) != 0) case_fail(c, "%s changes output %d", what, j);
}

static void threads_visit(op_case *c) {
  run_result one = case_run(c, (run_options){.threads = 1});
  run_result again = case_run(c, (run_options){.threads = 1});
  run_result two = case_run(c, (run_options){.threads = 2});
  run_result three = case_run(c, (run_options){.threads = 3});
  results_equal(c, "running twice", &one, &again);
  results_equal(c, "a second thread", &one, &two);
  results_equal(c, "a third thread", &one, &three);
}

static void test_bits_do_not_depend_on_threads(void **state) {
  (void)state;
  cases_visit(threads_visit);
}

/* As many aliases at once as do not share an operand. */
static uint32_t aliases_together(const hr_op *op) {
  uint32_t chosen = 0, inputs = 0, outputs = 0;
  for (int a = 0; a < op->n_alias; a++) {
    uint32_t in = 1u << op->alias[a].in, out = 1u << op->alias[a].out;
    if ((inputs & in) || (outputs & out)) continue;
    chosen |= 1u << a;
    inputs |= in;
    outputs |= out;
  }
  return chosen;
}

static void alias_visit(op_case *c) {
  if (c->op->n_alias == 0) return;
  run_result apart = case_run(c, (run_options){.threads = 2});
  for (int a = 0; a <= c->op->n_alias; a++) {
    uint32_t in_place = a < c->op->n_alias ? 1u << a : aliases_together(c->op);
    run_result together = case_run(c, (run_options){.threads = 2, .in_place = in_place});
    results_equal(c, "working in place", &apart, &together);
  }
}

static void test_in_place_is_the_same(void **state) {
  (void)state;
  cases_visit(alias_visit);
}

/* out = partial + out without partial, for every pair declared as accumulating. */
static void partial_visit(op_case *c) {
  for (int a = 0; a < c->op->n_alias; a++) {
    int in = c->op->alias[a].in, out = c->op->alias[a].out;
    if (c->op->alias[a].kind != HR_ALIAS_ACCUMULATE || c->in[in].rank == 0) continue;
    run_result with = case_run(c, (run_options){.threads = 1});
    run_result without = case_run(c, (run_options){.threads = 1, .absent = 1u << in});
    int64_t count = hr_desc_count(&c->out[out]);
    double moved = 0.0;
    for (int64_t i = 0; i < count; i++) {
      without.value[out][i] += c->value[in][i];
      moved += fabs(c->value[in][i]);
    }
    assert_true(moved > 0.0);
    values_close(c, "sum with a partial", with.value[out], without.value[out], count, case_tolerance(c));
  }
}

static void test_partials_are_added(void **state) {
  (void)state;
  cases_visit(partial_visit);
}

/* ---- gradients ---- */

/* sum of seed * output 0 by the reference, with `step` times a direction added to one operand. */
static double weighted_loss(op_case *c, const double *seed, int in, const double *direction, double step) {
  int64_t count = hr_desc_count(&c->in[in]);
  double *plain = c->value[in], loss = 0.0;
  hr_arena scratch = {0}, kept = c->arena;
  double *moved = hr__arena_array(&scratch, (size_t)count, sizeof *moved);
  for (int64_t i = 0; i < count; i++)
    moved[i] = plain[i] + step * direction[i];
  c->value[in] = moved;
  c->arena = scratch;
  run_result result = case_reference(c);
  for (int64_t i = 0; i < hr_desc_count(&c->out[0]); i++)
    loss += seed[i] * result.value[0][i];
  hr__arena_fini(&c->arena);
  c->arena = kept;
  c->value[in] = plain;
  return loss;
}

/* The slope of that along a direction, by central differences of fourth order: the step can be large enough for
 * rounding not to matter where a loss is a mean over many elements. */
static double weighted_slope(op_case *c, const double *seed, int in, const double *direction) {
  const double step = 4e-3;
  double near = weighted_loss(c, seed, in, direction, step) - weighted_loss(c, seed, in, direction, -step);
  double far = weighted_loss(c, seed, in, direction, 2.0 * step) - weighted_loss(c, seed, in, direction, -2.0 * step);
  return (8.0 * near - far) / (12.0 * step);
}

/* Compares the gradient of one operand, alone and added to a sum, with differences: along single elements spread over
 * it, and along random directions, which every element takes part in. */
static void differences_compare(op_case *c, const gradient_result g[2], int in) {
  enum { PROBES = ELEMENTS + DIRECTIONS };
  double got[2][PROBES] = {{0}}, want[2][PROBES];
  int64_t count = hr_desc_count(&c->in[in]);
  double *direction = hr__arena_array(&c->arena, (size_t)count, sizeof *direction);
  for (int p = 0; p < PROBES; p++) {
    memset(direction, 0, (size_t)count * sizeof *direction);
    if (p < ELEMENTS) direction[(int64_t)p * 7919 % count] = 1.0;
    if (p >= ELEMENTS) draw("direction", (uint64_t)p, direction, count);
    want[0][p] = want[1][p] = weighted_slope(c, g[0].seed, in, direction);
    for (int added = 0; added < 2; added++)
      for (int64_t i = 0; i < count; i++) {
        got[added][p] += direction[i] * g[added].gradient[in][i];
        want[added][p] += direction[i] * (g[added].partial[in] ? g[added].partial[in][i] : 0.0);
      }
  }
  for (int added = 0; added < 2; added++) {
    values_close(c, "gradient by single elements", got[added], want[added], ELEMENTS, GRADIENT_TOLERANCE);
    values_close(c, "gradient along directions", got[added] + ELEMENTS, want[added] + ELEMENTS, DIRECTIONS,
                 GRADIENT_TOLERANCE);
  }
}

static uint32_t case_differentiable(const op_case *c) {
  uint32_t floats = 0;
  for (int i = 0; i < c->sample->n_in; i++)
    if (c->in[i].rank && c->in[i].dtype == HR_F32) floats |= 1u << i;
  return floats & ~c->reference->constants;
}

static void gradient_visit(op_case *c) {
  if (!c->op->grad || case_is_narrow(c)) return;
  uint32_t floats = case_differentiable(c);
  gradient_result g[2];
  for (int added = 0; added < 2; added++) {
    g[added] = gradient_run(c, (gradient_options){.trained = floats, .with_partial = added});
    if (g[added].reads & ~c->op->saves) case_fail(c, "the rule reads more than the op declares");
  }
  assert_memory_equal(g[0].seed, g[1].seed, (size_t)hr_desc_count(&c->out[0]) * sizeof *g[0].seed);
  for (int i = 0; i < c->sample->n_in; i++) {
    if (!(floats & (1u << i))) continue;
    if (!g[0].gradient[i] || !g[1].gradient[i]) case_fail(c, "no gradient for operand %d", i);
    differences_compare(c, g, i);
  }
}

static void test_gradients_match_differences(void **state) {
  (void)state;
  cases_visit(gradient_visit);
}

/* With one operand trained and the others frozen, the rule still gives that one's gradient. */
static void frozen_visit(op_case *c) {
  if (!c->op->grad || case_is_narrow(c)) return;
  uint32_t floats = case_differentiable(c);
  gradient_result all = gradient_run(c, (gradient_options){.trained = floats});
  for (int i = 0; i < c->sample->n_in; i++) {
    if (!(floats & (1u << i))) continue;
    gradient_result one = gradient_run(c, (gradient_options){.trained = 1u << i});
    if (!one.gradient[i]) case_fail(c, "no gradient for operand %d alone", i);
    values_close(c, "gradient with the others frozen", one.gradient[i], all.gradient[i], hr_desc_count(&c->in[i]),
                 1e-6);
    for (int k = 0; k < c->sample->n_in; k++)
      if (k != i && one.gradient[k]) case_fail(c, "frozen operand %d received a gradient", k);
  }
}

static void test_gradients_with_frozen_operands(void **state) {
  (void)state;
  cases_visit(frozen_visit);
}

/* Over all samples, the rule reads exactly what is declared: nothing else, and nothing is declared in vain. */
static void test_declared_saves_are_what_is_read(void **state) {
  (void)state;
  for (size_t o = 0; o < hr_op_count; o++) {
    const hr_op *op = hr_ops[o];
    uint32_t reads = 0;
    for (int s = 0; op->grad && s < op->n_samples; s++) {
      op_case c;
      assert_true(case_create(&c, op, s, 0));
      reads |= gradient_run(&c, (gradient_options){.trained = case_differentiable(&c)}).reads;
      case_destroy(&c);
    }
    if (reads != op->saves) fail_msg("%s: declares %#x, reads %#x", op->name, op->saves, reads);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_descriptors),
      cmocka_unit_test(test_optional_operands_are_sampled),
      cmocka_unit_test(test_costs),
      cmocka_unit_test(test_shape_rules_refuse_what_does_not_match),
      cmocka_unit_test(test_missing_operands_are_refused),
      cmocka_unit_test(test_results_match_the_reference),
      cmocka_unit_test(test_bits_do_not_depend_on_threads),
      cmocka_unit_test(test_in_place_is_the_same),
      cmocka_unit_test(test_partials_are_added),
      cmocka_unit_test(test_gradients_match_differences),
      cmocka_unit_test(test_gradients_with_frozen_operands),
      cmocka_unit_test(test_declared_saves_are_what_is_read),
  };
  return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
