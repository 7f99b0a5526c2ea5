/* The axes along which an op says it works independently: a case cut in two along the first axis gives the same bits as
 * the whole. Which operands are cut follows from the shape rule: the fewest that make output 0 shorter there. An op
 * that draws random numbers is told how many samples come before a part (hr_op.sample_at); of one that cannot be told
 * only the leading part is compared. */
#include <string.h>

#include "part_case.h"

static bool shape_accepts(const op_case *c, uint32_t cut, int64_t rows, hr_desc *in, hr_desc *out) {
  hr_error err;
  memcpy(in, c->in, sizeof c->in);
  memset(out, 0, sizeof c->out);
  for (int i = 0; i < c->sample->n_in; i++) {
    if (!(cut & (1u << i))) continue;
    if (in[i].rank == 0 || in[i].dim[0] % c->out[0].dim[0] != 0) return false;
    in[i].dim[0] = in[i].dim[0] / c->out[0].dim[0] * rows;
  }
  hr_op_view view = case_view(c);
  view.in = in;
  view.out = out;
  if (c->op->shape(&view, out, &err) != HR_OK) return false;
  hr_desc wanted = c->out[0];
  wanted.dim[0] = rows;
  return hr_desc_same_shape(&out[0], &wanted);
}

static uint32_t operands_cut(const op_case *c, int64_t rows, hr_desc *in, hr_desc *out) {
  uint32_t best = 0;
  for (uint32_t cut = 1; cut < 1u << c->sample->n_in; cut++) {
    bool fewer = best == 0 || __builtin_popcount(cut) < __builtin_popcount(best);
    if (fewer && shape_accepts(c, cut, rows, in, out)) best = cut;
  }
  if (best == 0) case_fail(c, "no operands can be cut along the first axis");
  shape_accepts(c, best, rows, in, out);
  return best;
}

/* Runs rows [begin, begin + rows) alone and compares with what the whole case gave there. */
static void part_compare(op_case *c, const run_result *whole, int64_t begin, int64_t rows) {
  op_case kept = *c;
  hr_sample sample = *c->sample;
  if (c->op->sample_at) {
    char *args = hr__arena_alloc(&c->arena, c->op->args_bytes);
    int64_t before;
    memcpy(args, sample.args, c->op->args_bytes);
    memcpy(&before, args + c->op->sample_at, sizeof before);
    before += begin;
    memcpy(args + c->op->sample_at, &before, sizeof before);
    sample.args = args;
    c->sample = &sample;
  }
  hr_desc in[HR_OP_OPERANDS], out[HR_OP_OPERANDS];
  uint32_t cut = operands_cut(c, rows, in, out);
  for (int i = 0; i < c->sample->n_in; i++)
    if (cut & (1u << i)) c->value[i] += hr_desc_count(&in[i]) / rows * begin;
  memcpy(c->in, in, sizeof in);
  memcpy(c->out, out, sizeof out);
  run_result part = case_run(c, (run_options){.threads = 2});
  size_t bytes = hr_desc_bytes(&out[0]);
  bool same = memcmp(part.data[0], (char *)whole->data[0] + bytes / (size_t)rows * (size_t)begin, bytes) == 0;
  memcpy(c->in, kept.in, sizeof kept.in);
  memcpy(c->out, kept.out, sizeof kept.out);
  memcpy(c->value, kept.value, sizeof kept.value);
  c->sample = kept.sample;
  if (!same) case_fail(c, "rows %d to %d alone give other bits", (int)begin, (int)(begin + rows - 1));
}

static int compared;

static void axes_visit(op_case *c) {
  int64_t rows = c->out[0].dim[0];
  hr_axes axes = hr__op_axes(c->op, c->sample->args);
  if (axes == HR_AXES_NONE || rows < 2 || (axes == HR_AXES_ROWS && c->out[0].rank < 2)) return;
  run_result whole = case_run(c, (run_options){.threads = 2});
  part_compare(c, &whole, 0, rows / 2);
  if (!c->op->random || c->op->sample_at) part_compare(c, &whole, rows / 2, rows - rows / 2);
  compared++;
}

static void test_parts_give_the_same_bits(void **state) {
  (void)state;
  cases_visit(axes_visit);
  assert_true(compared >= 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts_give_the_same_bits)};
  return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
