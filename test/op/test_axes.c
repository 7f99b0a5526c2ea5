/* How the batch goes through an op (hr_op.axes, hr_op.batch): whatever operands are said to carry it, along whichever
 * axis and with however many rows to a sample, a rule that lets it through must give the same bits for some of the
 * samples as for all, and where it says. An op that draws random numbers is told how many rows come before a part
 * (hr_op.sample_at).
 *
 * And how rows are made a few at a time (hr_op.cut): of the rows of operands that an op names they have the same bits
 * as of all of them. */
#include <string.h>

#include "graph/batch.h"
#include "part_case.h"

enum { TRIED_MOST = 4096, RUN_MOST = 12, SAMPLES = 8 };

/* Runs along an axis: `runs` of them, each with `whole` elements. */
typedef struct layout {
  int64_t runs, whole;
} layout;

static layout layout_of(const hr_desc *desc, int axis) {
  layout l = {1, 1};
  for (int d = 0; d < desc->rank; d++)
    *(d < axis ? &l.runs : &l.whole) *= desc->dim[d];
  return l;
}

/* Samples [first, first + count) of what carries them. */
static void elements_take(const hr_desc *desc, hr_batch batch, int64_t first, int64_t count, const char *from, char *to,
                          size_t bytes) {
  layout l = layout_of(desc, batch.axis);
  int64_t sample = l.whole / (desc->dim[batch.axis] / batch.rows);
  for (int64_t run = 0; run < l.runs; run++)
    memcpy(to + (size_t)(run * count * sample) * bytes, from + (size_t)(run * l.whole + first * sample) * bytes,
           (size_t)(count * sample) * bytes);
}

/* Runs samples [first, first + count) alone and compares with what the whole case gave there. */
static void part_compare(op_case *c, const run_result *whole, const hr_batch *in, const hr_batch *out, int64_t first,
                         int64_t count) {
  const op_case kept = *c;
  hr_sample sample = *c->sample;
  if (c->op->args_bytes) {
    char *args = hr__arena_alloc(&c->arena, c->op->args_bytes);
    memcpy(args, sample.args, c->op->args_bytes);
    if (c->op->resize) c->op->resize(args, out[0].axis, count * out[0].rows);
    if (c->op->sample_at) {
      int64_t before;
      memcpy(&before, args + c->op->sample_at, sizeof before);
      before += first * out[0].rows;
      memcpy(args + c->op->sample_at, &before, sizeof before);
    }
    sample.args = args;
    c->sample = &sample;
  }
  for (int i = 0; i < sample.n_in; i++) {
    if (in[i].axis < 0) continue;
    c->in[i].dim[in[i].axis] = count * in[i].rows;
    c->value[i] = hr__arena_array(&c->arena, (size_t)hr_desc_count(&c->in[i]) + 1, sizeof(double));
    elements_take(&kept.in[i], in[i], first, count, (const char *)kept.value[i], (char *)c->value[i], sizeof(double));
  }
  hr_op_view view = case_view(c);
  hr_error err;
  if (c->op->shape(&view, c->out, &err) != HR_OK) case_fail(c, "refuses %d samples: %s", (int)count, err.message);
  run_result part = case_run(c, (run_options){.threads = 2});
  for (int j = 0; j < c->n_out; j++) {
    if (out[j].axis < 0) continue;
    hr_desc expected = kept.out[j];
    expected.dim[out[j].axis] = count * out[j].rows;
    if (!hr_desc_same_shape(&c->out[j], &expected)) case_fail(c, "result %d has its batch elsewhere", j);
    size_t size = hr_dtype_bytes(expected.dtype), bytes = hr_desc_bytes(&expected);
    char *want = hr__arena_alloc(&c->arena, bytes + 1);
    elements_take(&kept.out[j], out[j], first, count, whole->data[j], want, size);
    if (memcmp(part.data[j], want, bytes) != 0)
      case_fail(c, "samples %d to %d alone give other bits of result %d (batch of operand 0: axis %d, %d rows)",
                (int)first, (int)(first + count - 1), j, in[0].axis, (int)in[0].rows);
  }
  memcpy(c->in, kept.in, sizeof kept.in);
  memcpy(c->out, kept.out, sizeof kept.out);
  memcpy(c->value, kept.value, sizeof kept.value);
  c->sample = kept.sample;
}

/* Assignment number `which` of the batch to operands, mixed radix: none, or an axis that samples divide. */
static bool assign(const op_case *c, int64_t samples, int64_t which, hr_batch *in) {
  bool any = false;
  for (int i = 0; i < c->sample->n_in; i++) {
    int choices = 1 + c->in[i].rank, axis = (int)(which % choices) - 1;
    which /= choices;
    in[i] = (hr_batch){axis, axis < 0 ? 0 : c->in[i].dim[axis] / samples};
    if (axis >= 0 && c->in[i].dim[axis] % samples != 0) return false;
    any |= axis >= 0;
  }
  return any && which == 0;
}

static int compared[256]; /* per op */

static int op_number(const hr_op *op) {
  size_t k = 0;
  while (hr_ops[k] != op)
    k++;
  return (int)k;
}

static void samples_try(op_case *c, int64_t samples, int *runs) {
  hr_batch in[HR_OP_OPERANDS], out[HR_OP_OPERANDS];
  int64_t all = 1;
  for (int i = 0; i < c->sample->n_in; i++)
    all *= 1 + c->in[i].rank;
  for (int64_t which = 1; which < all && which < TRIED_MOST && *runs < RUN_MOST; which++) {
    hr_op_view view = case_view(c);
    if (!assign(c, samples, which, in) || !hr__batch_through(c->op, &view, in, out)) continue;
    if (out[0].axis < 0) case_fail(c, "lets the batch through to nowhere");
    run_result whole = case_run(c, (run_options){.threads = 2});
    part_compare(c, &whole, in, out, 0, samples / 2);
    part_compare(c, &whole, in, out, samples / 2, samples - samples / 2);
    compared[op_number(c->op)]++;
    (*runs)++;
  }
}

static void axes_visit(op_case *c) {
  if (c->op->effect || (c->op->axes == HR_AXES_NONE && !c->op->batch)) return;
  for (int64_t samples = 2; samples <= SAMPLES; samples++) {
    int runs = 0;
    samples_try(c, samples, &runs);
  }
  int runs = 0; /* as many samples as the first axis is long */
  if (c->in[0].dim[0] > SAMPLES) samples_try(c, c->in[0].dim[0], &runs);
}

static void test_parts_give_the_same_bits(void **state) {
  (void)state;
  cases_visit(axes_visit);
  for (size_t k = 0; k < hr_op_count; k++) {
    bool lets = !hr_ops[k]->effect && (hr_ops[k]->axes != HR_AXES_NONE || hr_ops[k]->batch);
    if (lets && compared[k] == 0) fail_msg("%s: no sample of it shows how the batch goes through", hr_ops[k]->name);
  }
}

/* ---- strips of rows ---- */

/* Rows of an operand, 0 beyond its ends. */
static void rows_take(const hr_desc *desc, int axis, hr_rows rows, const double *from, double *to) {
  layout l = layout_of(desc, axis);
  int64_t row = l.whole / desc->dim[axis];
  for (int64_t run = 0; run < l.runs; run++)
    for (int64_t i = 0; i < rows.count; i++) {
      int64_t at = rows.first + i;
      double *put = to + (run * rows.count + i) * row;
      if (at < 0 || at >= desc->dim[axis])
        memset(put, 0, (size_t)row * sizeof *put);
      else
        memcpy(put, from + run * l.whole + at * row, (size_t)row * sizeof *put);
    }
}

/* The rows of a strip that were asked for, against those of the whole; what was not made has nothing in it. */
static void rows_compare(op_case *c, const hr_desc *desc, int axis, hr_rows rows, hr_rows made, const char *whole,
                         const char *part) {
  layout l = layout_of(desc, axis);
  int64_t row = l.whole / desc->dim[axis];
  size_t size = hr_dtype_bytes(desc->dtype), bytes = (size_t)row * size;
  char *nothing = hr__arena_alloc(&c->arena, bytes + 1);
  memset(nothing, 0, bytes);
  for (int64_t run = 0; run < l.runs; run++)
    for (int64_t at = rows.first; at < rows.first + rows.count; at++) {
      bool there = at >= made.first && at < made.first + made.count;
      const char *has = there ? part + (size_t)((run * made.count + at - made.first) * row) * size : nothing;
      if (memcmp(has, whole + (size_t)(run * l.whole + at * row) * size, bytes) != 0)
        case_fail(c, "row %d of axis %d has other bits in a strip of %d", (int)at, axis, (int)rows.count);
    }
}

static int strips[256]; /* per op */

static void strip_try(op_case *c, const run_result *whole, int axis, hr_rows rows) {
  const op_case kept = *c;
  hr_sample sample = *c->sample;
  hr_rows in[HR_OP_OPERANDS] = {{0, 0}}, made;
  hr_op_view view = case_view(c);
  char *args = hr__arena_alloc(&c->arena, c->op->args_bytes);
  memcpy(args, sample.args, c->op->args_bytes);
  if (!c->op->cut(&view, axis, rows, in, &made, args)) return;
  sample.args = args;
  c->sample = &sample;
  for (int i = 0; i < sample.n_in; i++) {
    if (in[i].count == 0 || c->in[i].rank == 0) continue;
    c->in[i].dim[axis] = in[i].count;
    c->value[i] = hr__arena_array(&c->arena, (size_t)hr_desc_count(&c->in[i]) + 1, sizeof(double));
    rows_take(&kept.in[i], axis, in[i], (const double *)kept.value[i], (double *)c->value[i]);
  }
  view = case_view(c);
  hr_error err;
  if (c->op->shape(&view, c->out, &err) != HR_OK) case_fail(c, "refuses %d rows: %s", (int)rows.count, err.message);
  if (c->out[0].dim[axis] != made.count) case_fail(c, "makes other rows than it says");
  run_result part = case_run(c, (run_options){.threads = 2});
  rows_compare(c, &kept.out[0], axis, rows, made, whole->data[0], part.data[0]);
  strips[op_number(c->op)]++;
  memcpy(c->in, kept.in, sizeof kept.in);
  memcpy(c->out, kept.out, sizeof kept.out);
  memcpy(c->value, kept.value, sizeof kept.value);
  c->sample = kept.sample;
}

static void strips_visit(op_case *c) {
  if (!c->op->cut) return;
  run_result whole = case_run(c, (run_options){.threads = 2});
  for (int axis = 2; axis < c->out[0].rank; axis++) {
    int64_t size = c->out[0].dim[axis], half = size / 2;
    if (size > 40) continue; /* rows, of which there are few */
    strip_try(c, &whole, axis, (hr_rows){0, half + 1});
    strip_try(c, &whole, axis, (hr_rows){half, size - half});
    strip_try(c, &whole, axis, (hr_rows){half, 1});
  }
}

static void test_strips_give_the_same_bits(void **state) {
  (void)state;
  cases_visit(strips_visit);
  for (size_t k = 0; k < hr_op_count; k++)
    if (hr_ops[k]->cut && strips[k] == 0) fail_msg("%s: no sample of it shows how rows are cut", hr_ops[k]->name);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts_give_the_same_bits),
                                     cmocka_unit_test(test_strips_give_the_same_bits)};
  return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
