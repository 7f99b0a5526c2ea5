/* References of programs: pointwise, rearrange and reduce evaluated element by element in f64.
 *
 * A formula is a line in the table below: its value, and where its operands may lie. Slopes are differences of it. */
#include "part_reference.h"

#include <math.h>

#include "op/pointwise.h"

/* Where operands lie: anywhere; away from 0 and from the bounds p and q of samples, where slopes jump; between whole
 * numbers; above 0; above 1; two operands apart from each other. */
typedef enum domain { ANY, AWAY, BETWEEN, POSITIVE, ABOVE_ONE, APART } domain;

typedef double (*formula)(double a, double b, double p, double q);
#define FORMULA(name, value)                                                                                           \
  static double name##_value(double a, double b, double p, double q) {                                                 \
    (void)a, (void)b, (void)p, (void)q;                                                                                \
    return value;                                                                                                      \
  }
#define FORMULAS(F)                                                                                                    \
  F(affine, ANY, p *a + q)                                                                                             \
  F(abs, AWAY, fabs(a))                                                                                                \
  F(square, ANY, a *a)                                                                                                 \
  F(sqrt, POSITIVE, sqrt(a))                                                                                           \
  F(rsqrt, POSITIVE, 1.0 / sqrt(a))                                                                                    \
  F(reciprocal, POSITIVE, 1.0 / a)                                                                                     \
  F(exp, ANY, exp(a))                                                                                                  \
  F(expm1, ANY, expm1(a))                                                                                              \
  F(log, POSITIVE, log(a))                                                                                             \
  F(log1p, POSITIVE, log1p(a))                                                                                         \
  F(sigmoid, ANY, 1.0 / (1.0 + exp(-a)))                                                                               \
  F(tanh, ANY, tanh(a))                                                                                                \
  F(sinh, ANY, sinh(a))                                                                                                \
  F(cosh, ANY, cosh(a))                                                                                                \
  F(asinh, ANY, asinh(a))                                                                                              \
  F(acosh, ABOVE_ONE, acosh(a))                                                                                        \
  F(relu, AWAY, a > 0.0 ? a : 0.0)                                                                                     \
  F(leaky_relu, AWAY, a > 0.0 ? a : p * a)                                                                             \
  F(silu, ANY, a / (1.0 + exp(-a)))                                                                                    \
  F(gelu, ANY, a *erfc(-a / sqrt(2.0)) / 2.0)                                                                          \
  F(softplus, ANY, log1p(exp(-fabs(a))) + fmax(a, 0.0))                                                                \
  F(clamp, AWAY, fmin(fmax(a, p), q))                                                                                  \
  F(sign, AWAY, (double)((a > 0.0) - (a < 0.0)))                                                                       \
  F(floor, BETWEEN, floor(a))                                                                                          \
  F(add, ANY, a + b)                                                                                                   \
  F(sub, ANY, a - b)                                                                                                   \
  F(mul, ANY, a *b)                                                                                                    \
  F(div, POSITIVE, a / b)                                                                                              \
  F(max, APART, fmax(a, b))                                                                                            \
  F(min, APART, fmin(a, b))                                                                                            \
  F(less, APART, a < b ? 1.0 : 0.0)                                                                                    \
  F(equal, APART, a == b ? 1.0 : 0.0)                                                                                  \
  F(keep, AWAY, b != 0.0 ? a : 0.0)                                                                                    \
  F(drop, AWAY, b != 0.0 ? 0.0 : a)

#define DEFINE(name, where, value) FORMULA(name, value)
FORMULAS(DEFINE)

static const struct {
  formula value;
  domain domain;
} table[HR_FORMULA_COUNT] = {
#define ROW(name, where, value) [HR_FORMULA_##name] = {name##_value, where},
    FORMULAS(ROW)};

static double step_value(const hr_step *step, const double *values) {
  double x = values[step->from[0]], y = values[step->from[1]], z = values[step->from[2]];
  double p = (double)step->p, q = (double)step->q;
  formula f = table[step->formula].value;
  const double h = 1e-4; /* of slopes: central differences of fourth order */
  if (step->part == HR_PART_VALUE) return f(x, y, p, q);
  if (step->part == HR_PART_SLOPE_A)
    return x * (8.0 * (f(y + h, z, p, q) - f(y - h, z, p, q)) - (f(y + 2 * h, z, p, q) - f(y - 2 * h, z, p, q))) /
           (12.0 * h);
  return x * (8.0 * (f(y, z + h, p, q) - f(y, z - h, p, q)) - (f(y, z + 2 * h, p, q) - f(y, z - 2 * h, p, q))) /
         (12.0 * h);
}

/* What an operand holds for one element of the result. */
static double operand_value(const hr_map *map, const double *x, const hr_desc *desc, int rank, const int64_t *index) {
  int64_t own[HR_RANK] = {0}, at = 0;
  for (int d = 0; d < rank; d++)
    if (map->axis[d] >= 0) own[map->axis[d]] = index[d] + map->first[map->axis[d]];
  for (int d = 0; d < desc->rank; d++) {
    if (own[d] < 0 || own[d] >= desc->dim[d]) return 0.0;
    at = at * desc->dim[d] + own[d];
  }
  return x[at];
}

static double rounded(double value, int dtype) {
  if (dtype == HR_BF16) return (double)hr__bf16_to_f32(hr__f32_to_bf16((float)value));
  if (dtype == HR_F16) return (double)hr__f16_to_f32(hr__f32_to_f16((float)value));
  return value;
}

static void program_values(const hr_pointwise_args *args, const reference_call *c, const int64_t *index,
                           double *values) {
  for (int i = 0; i < args->n_in; i++)
    values[i] = operand_value(&args->map[i], c->in[i], &c->in_desc[i], args->rank, index);
  for (int s = 0; s < args->n_steps; s++)
    values[args->n_in + s] = rounded(step_value(&args->step[s], values), args->step[s].round);
}

static void index_of(int64_t i, const hr_desc *desc, int64_t *index) {
  for (int d = desc->rank - 1; d >= 0; d--) {
    index[d] = i % desc->dim[d];
    i /= desc->dim[d];
  }
}

static void pointwise_reference(const reference_call *c) {
  const hr_pointwise_args *args = c->args;
  double values[HR_PROGRAM_INPUTS + HR_PROGRAM_STEPS];
  for (int64_t i = 0, count = hr_desc_count(&c->out_desc[0]); i < count; i++) {
    int64_t index[HR_RANK];
    index_of(i, &c->out_desc[0], index);
    program_values(args, c, index, values);
    for (int j = 0; j < args->n_out; j++)
      c->out[j][i] = values[args->result[j].from];
  }
}

static void reduce_reference(const reference_call *c) {
  const hr_reduce_args *args = c->args;
  hr_op_view view = {.in = c->in_desc, .n_in = c->n_in, .args = args};
  hr_desc space;
  hr_error err;
  double values[HR_PROGRAM_INPUTS + HR_PROGRAM_STEPS];
  if (hr__program_shape(&view, &args->program, &space, &err) != HR_OK) return;
  int64_t results = hr_desc_count(&c->out_desc[0]), count = hr_desc_count(&space);
  for (int64_t i = 0; i < results; i++)
    c->out[0][i] = args->reduction == HR_REDUCE_MAX ? -INFINITY : args->reduction == HR_REDUCE_MIN ? INFINITY : 0.0;
  for (int64_t i = 0; i < count; i++) {
    int64_t index[HR_RANK], at = 0;
    index_of(i, &space, index);
    program_values(&args->program, c, index, values);
    for (int d = 0; d < space.rank; d++)
      at = at * c->out_desc[0].dim[d] + (args->axes >> d & 1 ? 0 : index[d]);
    double *to = &c->out[0][at], x = values[args->program.result[0].from];
    *to = args->reduction == HR_REDUCE_MAX ? fmax(*to, x) : args->reduction == HR_REDUCE_MIN ? fmin(*to, x) : *to + x;
  }
  for (int64_t i = 0; args->reduction == HR_REDUCE_MEAN && i < results; i++)
    c->out[0][i] *= (double)results / (double)count;
}

/* Moves drawn operands to where a program's formulas are smooth. In samples p is 0.75 and q 1.25. */
static void program_fill(const hr_pointwise_args *args, double *const *in, const hr_desc *desc) {
  domain where = ANY;
  for (int s = 0; s < args->n_steps; s++)
    if (table[args->step[s].formula].domain != ANY) where = table[args->step[s].formula].domain;
  bool slope = args->n_steps == 1 && args->step[0].part != HR_PART_VALUE;
  for (int i = slope; i < args->n_in; i++)
    for (int64_t e = 0, count = hr_desc_count(&desc[i]); e < count; e++) {
      double *x = &in[i][e];
      if (where == POSITIVE) *x = 0.5 + fabs(*x);
      if (where == ABOVE_ONE) *x = 1.25 + fabs(*x);
      if (where == BETWEEN && fabs(*x - round(*x)) < 0.1) *x = round(*x) + 0.5;
      if (where == AWAY && fabs(*x) < 0.1) *x += *x < 0.0 ? -0.1 : 0.1;
      if (where == AWAY && fabs(*x - 0.75) < 0.1) *x = 1.0;
      if (where == AWAY && fabs(*x - 1.25) < 0.1) *x = 1.5;
      if (where == APART) *x = floor(*x * 4.0) / 4.0 + (i == args->n_in - 1 ? 0.125 : 0.0);
    }
}

static void pointwise_fill(double *const *in, const hr_desc *desc, const void *args) {
  program_fill(args, in, desc);
}

/* Elements of the largest and smallest are far enough apart for differences. */
static void reduce_fill(double *const *in, const hr_desc *desc, const void *args) {
  const hr_reduce_args *a = args;
  bool extreme = a->reduction == HR_REDUCE_MAX || a->reduction == HR_REDUCE_MIN;
  for (int64_t e = 0, count = hr_desc_count(&desc[0]); extreme && e < count; e++)
    in[0][e] = (double)(e * 7919 % 1009) / 32.0 - 16.0;
}

static const reference ops[] = {
    {.op = "pointwise", .run = pointwise_reference, .fill = pointwise_fill, .differentiable = true},
    {.op = "pointwise_bwd", .run = pointwise_reference, .fill = pointwise_fill},
    {.op = "rearrange", .run = pointwise_reference, .differentiable = true, .loose = 1u << 0},
    {.op = "reduce", .run = reduce_reference, .fill = reduce_fill, .differentiable = true, .loose = 1u << 0},
};
const reference_family references_of_programs = {ops, sizeof ops / sizeof *ops};
