/* The scan on random shapes: forward against the quadratic form in f64, which has no states, backward against the
 * reference, which has one for every position. Shapes are of any size, odd ones included; every other one has documents
 * in its sequences, from such of one position to some that are longer than a chunk. */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "op/ssd.h"
#include "part_case.h"

enum { SHAPES = 100 };

typedef struct shape {
  hr_ssd_args args;
  hr_sample forward, backward;
} shape;

static int64_t between(uint64_t number, uint64_t what, int64_t least, int64_t most) {
  hr_random_key key = {20261118, hr__random_stream("test.ssd")};
  return least + (int64_t)hr__random_below(key, number, what, (uint64_t)(most - least + 1));
}

static void shape_make(uint64_t number, shape *s) {
  int64_t groups = between(number, 0, 1, 3), members = between(number, 1, 1, 3), heads = groups * members;
  int64_t dim = between(number, 2, 1, 40), state = between(number, 3, 1, 40), before = between(number, 4, 0, 5);
  int64_t batch = between(number, 5, 1, 3), length = between(number, 6, 1, number % 4 == 0 ? 400 : 150);
  int64_t chunk = number % 3 == 0 ? HR_SSD_CHUNK_MOST : between(number, 7, 1, 140);
  s->args = (hr_ssd_args){heads, dim, groups, state, chunk, before, 0.0f, INFINITY};
  hr_desc mixed = hr__desc3(HR_F32, batch, length, heads * dim + 2 * groups * state), head = hr__desc1(HR_F32, heads);
  hr_desc steps = hr__desc3(HR_F32, batch, length, before + heads + between(number, 8, 0, 2));
  hr_desc y = hr__desc3(HR_F32, batch, length, heads * dim);
  hr_desc states = hr__desc3(HR_F32, batch, (length + chunk - 1) / chunk, heads * dim * state);
  hr_desc starts = number % 2 ? hr__desc2(HR_I32, batch, length) : (hr_desc){.rank = 0};
  int64_t below = between(number, 9, 5, number % 3 == 0 ? 8 : 500); /* a border at 5 of so many positions */
  s->forward = (hr_sample){.n_in = HR_SSD_OPERANDS,
                           .in = {mixed, steps, head, head, head, starts},
                           .args = &s->args,
                           .index_below = below,
                           .index_ascends = true};
  s->backward = (hr_sample){.n_in = HR_SSD_BWD_OPERANDS,
                            .in = {y, mixed, steps, head, head, head, starts, states, {.rank = 0}},
                            .args = &s->args,
                            .index_below = below,
                            .index_ascends = true};
  if (number / 2 % 2 == 0) s->backward.in[HR_SSD_BWD_PARTIAL] = steps;
}

/* y_i = sum over j <= i, of i's document, of (C_i B_j) exp(sum of d A over l in (j, i]) d_j x_j + D x_i. */
static void quadratic(const op_case *c, double *y) {
  const hr_ssd_args *args = c->sample->args;
  hr_ssd_sizes s = hr__ssd_sizes(&c->in[HR_SSD_MIXED], &c->in[HR_SSD_STEPS], args);
  const double *mixed = c->value[HR_SSD_MIXED], *starts = c->value[HR_SSD_STARTS];
  for (int64_t q = 0; q < s.sequences; q++)
    for (int64_t head = 0; head < s.heads; head++)
      for (int64_t i = 0; i < s.length; i++) {
        const double *own = mixed + (q * s.length + i) * s.mixed;
        double *to = y + (q * s.length + i) * s.y + head * s.dim, decay = 0;
        int64_t group = head / (s.heads / s.groups), first = starts ? (int64_t)starts[q * s.length + i] : 0;
        for (int64_t p = 0; p < s.dim; p++)
          to[p] = c->value[HR_SSD_D][head] * own[head * s.dim + p];
        for (int64_t j = i; j >= first; j--) {
          const double *row = mixed + (q * s.length + j) * s.mixed;
          double raw = c->value[HR_SSD_STEPS][(q * s.length + j) * s.steps + args->step_first + head] +
                       c->value[HR_SSD_BIAS][head];
          double d = fmax(raw, 0) + log1p(exp(-fabs(raw)));
          double score = reference_dot(own + s.c_first + group * s.state, row + s.b_first + group * s.state, s.state);
          for (int64_t p = 0; p < s.dim; p++)
            to[p] += score * exp(decay) * d * row[head * s.dim + p];
          decay -= exp(c->value[HR_SSD_A_LOG][head]) * d;
        }
      }
}

static void test_forward(void **unused) {
  (void)unused;
  for (uint64_t i = 0; i < SHAPES; i++) {
    shape s;
    op_case c;
    shape_make(i, &s);
    assert_true(case_create_as(&c, &hr_op_ssd, &s.forward, (int)i, 0, HR_F32));
    int64_t count = hr_desc_count(&c.out[0]);
    double *expected = hr__arena_array(&c.arena, (size_t)count, sizeof *expected);
    quadratic(&c, expected);
    run_result got = case_run(&c, (run_options){.threads = 1 + (int)(i % 3)});
    values_close(&c, "y", got.value[0], expected, count, case_tolerance(&c));
    case_destroy(&c);
  }
}

static void test_backward(void **unused) {
  (void)unused;
  for (uint64_t i = 0; i < SHAPES; i++) {
    shape s;
    op_case c;
    shape_make(i, &s);
    assert_true(case_create_as(&c, &hr_op_ssd_bwd, &s.backward, (int)i, 0, HR_F32));
    run_result expected = case_reference(&c), got = case_run(&c, (run_options){.threads = 1 + (int)(i % 3)});
    values_close(&c, "dmixed", got.value[0], expected.value[0], hr_desc_count(&c.out[0]), case_tolerance(&c));
    values_close(&c, "dsteps", got.value[1], expected.value[1], hr_desc_count(&c.out[1]), case_tolerance(&c));
    case_destroy(&c);
  }
}

static void test_sizes_that_are_refused(void **unused) {
  (void)unused;
  shape s;
  hr_desc out[3];
  hr_error err;
  shape_make(0, &s);
  const hr_ssd_args good = s.args;
  hr_op_view view = {.in = s.forward.in, .n_in = HR_SSD_OPERANDS, .args = &s.args};
  assert_int_equal(hr_op_ssd.shape(&view, out, &err), HR_OK);
  s.args.chunk = HR_SSD_CHUNK_MOST + 1;
  assert_int_equal(hr_op_ssd.shape(&view, out, &err), HR_BAD_INPUT);
  s.args = good;
  s.args.step_first += 100;
  assert_int_equal(hr_op_ssd.shape(&view, out, &err), HR_BAD_INPUT);
  s.args = good;
  s.args.step_least = 2;
  s.args.step_most = 1;
  assert_int_equal(hr_op_ssd.shape(&view, out, &err), HR_BAD_INPUT);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_forward), cmocka_unit_test(test_backward),
                                     cmocka_unit_test(test_sizes_that_are_refused)};
  return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
