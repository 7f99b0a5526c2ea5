/* Documents packed into one sequence, for the ops that go along it: what they give for each is what they give for it
 * alone, to rounding. Borders are anywhere: documents of one position, and such that begin at the edge of a chunk, or
 * of the CPU's tile or strip. */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "op/causal_conv.h"
#include "op/ssd.h"
#include "part_case.h"

enum { SHAPES = 24, MOST_DOCUMENTS = 512 };

static int64_t between(uint64_t number, uint64_t what, int64_t least, int64_t most) {
  hr_random_key key = {20261119, hr__random_stream("test.documents")};
  return least + (int64_t)hr__random_below(key, number, what, (uint64_t)(most - least + 1));
}

/* An op with one sequence of documents. Operands and results of rows are [1, length, columns]. */
typedef struct packed_op {
  const hr_op *op;
  int starts, states; /* operands; states: -1 where there are none */
  uint32_t rows_in, rows_out, sums_out;
  hr_sample sample;
} packed_op;

/* First positions of documents, and behind the last one the length. */
typedef struct documents {
  int64_t begin[MOST_DOCUMENTS + 1];
  int count;
} documents;

/* Half of those that would go over a multiple of `edge` end there. */
static documents documents_make(uint64_t number, int64_t length, int64_t edge) {
  documents d = {.count = 0};
  int64_t most = number % 3 == 0 ? 4 : 90;
  for (int64_t at = 0; at < length;) {
    assert_true(d.count < MOST_DOCUMENTS);
    d.begin[d.count++] = at;
    int64_t next = at + between(number, 1000 + (uint64_t)at, 1, most), border = (at / edge + 1) * edge;
    at = next > border && between(number, 2000 + (uint64_t)at, 0, 1) ? border : next;
  }
  d.begin[d.count] = length;
  return d;
}

static hr_desc states_of(const hr_ssd_args *args, int64_t length) {
  return hr__desc3(HR_F32, 1, (length + args->chunk - 1) / args->chunk, args->heads * args->head_dim * args->state);
}

static int64_t row_at(const hr_desc *rows, int64_t position) {
  return position * rows->dim[rows->rank - 1];
}

/* States that belong to the other operands, as f32 has them. */
static void states_make(op_case *c, const packed_op *p) {
  if (p->states < 0) return;
  c->reference->fill(c->value, c->in, c->sample->args);
  for (int64_t e = 0; e < hr_desc_count(&c->in[p->states]); e++)
    c->value[p->states][e] = (double)(float)c->value[p->states][e];
}

/* Positions [begin, end) of the case `whole` alone. */
static void alone_make(op_case *c, const packed_op *p, hr_sample *sample, const op_case *whole, int64_t begin,
                       int64_t end) {
  *sample = p->sample;
  for (int i = 0; i < sample->n_in; i++)
    if (p->rows_in >> i & 1 && sample->in[i].rank > 0) sample->in[i].dim[1] = end - begin;
  sample->in[p->starts] = (hr_desc){.rank = 0};
  if (p->states >= 0) sample->in[p->states] = states_of(sample->args, end - begin);
  assert_true(case_create_as(c, p->op, sample, 0, 0, HR_F32));
  for (int i = 0; i < sample->n_in; i++) {
    if (!c->value[i] || i == p->states) continue;
    const double *from = whole->value[i] + (p->rows_in >> i & 1 ? row_at(&c->in[i], begin) : 0);
    memcpy(c->value[i], from, (size_t)hr_desc_count(&c->in[i]) * sizeof(double));
  }
  states_make(c, p);
}

static void packed_check(const packed_op *p, const documents *d, uint64_t number) {
  op_case whole;
  double *expected[HR_OP_OPERANDS] = {NULL};
  assert_true(case_create_as(&whole, p->op, &p->sample, (int)number, 0, HR_F32));
  for (int i = 0; i < d->count; i++)
    for (int64_t t = d->begin[i]; t < d->begin[i + 1]; t++)
      whole.value[p->starts][t] = (double)d->begin[i];
  states_make(&whole, p);
  for (int j = 0; j < whole.n_out; j++)
    expected[j] = hr__alloc_zero((size_t)hr_desc_count(&whole.out[j]), sizeof(double));
  for (int i = 0; i < d->count; i++) {
    op_case one;
    hr_sample sample;
    alone_make(&one, p, &sample, &whole, d->begin[i], d->begin[i + 1]);
    run_result got = case_run(&one, (run_options){.threads = 1});
    for (int j = 0; j < one.n_out; j++)
      for (int64_t e = 0; e < hr_desc_count(&one.out[j]); e++) {
        if (p->rows_out >> j & 1) expected[j][row_at(&one.out[j], d->begin[i]) + e] = got.value[j][e];
        if (p->sums_out >> j & 1) expected[j][e] += got.value[j][e];
      }
    case_destroy(&one);
  }
  run_result got = case_run(&whole, (run_options){.threads = 1 + (int)(number % 3)});
  for (int j = 0; j < whole.n_out; j++) {
    if ((p->rows_out | p->sums_out) >> j & 1)
      values_close(&whole, "packed", got.value[j], expected[j], hr_desc_count(&whole.out[j]), case_tolerance(&whole));
    hr__free(expected[j]);
  }
  case_destroy(&whole);
}

static void test_scan(void **unused) {
  (void)unused;
  for (uint64_t i = 0; i < SHAPES; i++) {
    int64_t groups = between(i, 0, 1, 2), heads = groups * between(i, 1, 1, 3), dim = between(i, 2, 1, 20);
    int64_t state = between(i, 3, 1, 20), length = between(i, 4, 2, 400), chunk = between(i, 5, 2, 140);
    hr_ssd_args args = {heads, dim, groups, state, i % 4 == 0 ? HR_SSD_CHUNK_MOST : chunk, 2, 0.0f, INFINITY};
    hr_desc mixed = hr__desc3(HR_F32, 1, length, heads * dim + 2 * groups * state), head = hr__desc1(HR_F32, heads);
    hr_desc steps = hr__desc3(HR_F32, 1, length, 2 + heads), y = hr__desc3(HR_F32, 1, length, heads * dim);
    hr_desc starts = hr__desc2(HR_I32, 1, length);
    documents d = documents_make(i, length, i % 2 ? 64 : args.chunk);
    packed_op forward = {.op = &hr_op_ssd,
                         .starts = HR_SSD_STARTS,
                         .states = -1,
                         .rows_in = 1u << HR_SSD_MIXED | 1u << HR_SSD_STEPS,
                         .rows_out = 1,
                         .sample = {.n_in = HR_SSD_OPERANDS,
                                    .in = {mixed, steps, head, head, head, starts},
                                    .args = &args,
                                    .index_below = length,
                                    .index_ascends = true}};
    packed_check(&forward, &d, i);
    packed_op backward = forward;
    backward.op = &hr_op_ssd_bwd;
    backward.starts = HR_SSD_BWD_STARTS;
    backward.states = HR_SSD_BWD_STATES;
    backward.rows_in = 1u << HR_SSD_DY | 1u << HR_SSD_BWD_MIXED | 1u << HR_SSD_BWD_STEPS | 1u << HR_SSD_BWD_PARTIAL;
    backward.rows_out = 3;
    backward.sums_out = 4;
    backward.sample.n_in = HR_SSD_BWD_OPERANDS;
    hr_desc in[] = {y, mixed, steps, head, head, head, starts, states_of(&args, length), steps};
    memcpy(backward.sample.in, in, sizeof in);
    packed_check(&backward, &d, i);
  }
}

static void test_convolution(void **unused) {
  (void)unused;
  for (uint64_t i = 0; i < SHAPES; i++) {
    int64_t length = between(i, 6, 2, 300), channels = between(i, 7, 1, 140), kernel = between(i, 8, 1, 16);
    hr_causal_conv_args args = {between(i, 9, 0, 3)};
    hr_desc x = hr__desc3(HR_F32, 1, length, args.first + channels + 1), y = hr__desc3(HR_F32, 1, length, channels);
    hr_desc w = hr__desc3(HR_F32, channels, 1, kernel), bias = hr__desc1(HR_F32, channels);
    hr_desc starts = hr__desc2(HR_I32, 1, length);
    documents d = documents_make(i, length, HR_CAUSAL_STRIP);
    packed_op forward = {.op = &hr_op_causal_conv,
                         .starts = HR_CAUSAL_STARTS,
                         .states = -1,
                         .rows_in = 1u << HR_CAUSAL_X,
                         .rows_out = 1,
                         .sample = {.n_in = HR_CAUSAL_OPERANDS,
                                    .in = {x, w, bias, starts},
                                    .args = &args,
                                    .index_below = length,
                                    .index_ascends = true}};
    packed_check(&forward, &d, i);
    packed_op backward = forward;
    backward.op = &hr_op_causal_conv_bwd;
    backward.starts = HR_CAUSAL_BWD_STARTS;
    backward.rows_in = 1u << HR_CAUSAL_DY | 1u << HR_CAUSAL_BWD_X | 1u << HR_CAUSAL_BWD_PARTIAL;
    backward.sums_out = 6;
    backward.sample.n_in = HR_CAUSAL_BWD_OPERANDS;
    hr_desc in[] = {y, x, w, bias, starts, x};
    memcpy(backward.sample.in, in, sizeof in);
    packed_check(&backward, &d, i);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_scan), cmocka_unit_test(test_convolution)};
  return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
