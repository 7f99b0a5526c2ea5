/* The scan and the convolution of programs that generate; see op/carry.h. On the CPU a task is a head, or a block of
 * columns, of one sample. */
#include "op/carry.h"

#include <math.h>
#include <string.h>

#include "base/simd_math.h"
#include "op/shapes.h"
#include "op/ssd_parts.h"
#include "op/stream.h"

enum { MOST = HR_CAUSAL_CONV_MOST, COLUMNS = 128 /* of a block */ };

hr_id hr__conv_carry(hr_builder *b, hr_id x, hr_id weight, hr_id bias, hr_id tail, hr_id positions, hr_id counts,
                     int64_t first) {
  hr_causal_conv_args args = {first};
  hr_id in[HR_CONV_CARRY_OPERANDS] = {x, weight, bias, tail, positions, counts};
  return hr__emit(b, &hr_op_conv_carry, in, HR_CONV_CARRY_OPERANDS, &args);
}

hr_id hr__ssd_carry(hr_builder *b, const hr_id operands[HR_SSD_CARRY_OPERANDS], const hr_ssd_args *args) {
  return hr__emit(b, &hr_op_ssd_carry, operands, HR_SSD_CARRY_OPERANDS, args);
}

/* ---- shapes: those of the ops of training, and what is carried ---- */

/* `same` leading operands of the op of training, without the others. */
static hr_status training_shape(const hr_op *op, const hr_op_view *view, int same, hr_desc *out, hr_error *err) {
  hr_desc in[HR_OP_OPERANDS] = {{0}};
  for (int i = 0; i < same; i++)
    in[i] = view->in[i];
  hr_op_view training = *view;
  training.in = in;
  training.n_in = op->n_in;
  return op->shape(&training, out, err);
}

/* `carried` has the type that the op gives it; positions and counts stand behind it. */
static hr_status carried_check(const hr_op_view *view, int at, const hr_desc *carried, hr_error *err) {
  hr_desc numbers = hr__desc1(HR_I32, view->in[0].dim[0]);
  HR_TRY(hr__shape_like(view, at, carried, err));
  HR_TRY(hr__shape_like(view, at + 1, &numbers, err));
  return hr__shape_like(view, at + 2, &numbers, err);
}

static hr_status samples_check(const hr_op_view *view, hr_error *err) {
  if (view->in[0].rank == 3) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "sequences that go on must be [batch, positions, columns]");
}

static hr_status conv_carry_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, HR_CONV_CARRY_OPERANDS, hr_op_conv_carry.optional, err));
  HR_TRY(training_shape(&hr_op_causal_conv, view, HR_CONV_CARRY_TAIL, out, err));
  HR_TRY(samples_check(view, err));
  const hr_desc *x = &view->in[HR_CONV_CARRY_X], *w = &view->in[HR_CONV_CARRY_W];
  if (w->dim[2] < 2) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a kernel of one position carries nothing");
  out[1] = hr__desc3(x->dtype, x->dim[0], w->dim[2] - 1, w->dim[0]);
  return carried_check(view, HR_CONV_CARRY_TAIL, &out[1], err);
}

static hr_status ssd_carry_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_ssd_args *args = view->args;
  HR_TRY(hr__shape_operands(view, HR_SSD_CARRY_OPERANDS, 0, err));
  HR_TRY(training_shape(&hr_op_ssd, view, HR_SSD_CARRY_STATE, out, err));
  HR_TRY(samples_check(view, err));
  out[1] = hr__desc3(HR_F32, view->in[0].dim[0], args->heads, args->state * args->head_dim);
  return carried_check(view, HR_SSD_CARRY_STATE, &out[1], err);
}

/* ---- cost ---- */

static void conv_carry_cost(const hr_op_view *view, hr_cost *cost) {
  hr_causal_sizes s = hr__causal_sizes(&view->in[HR_CONV_CARRY_X], &view->in[HR_CONV_CARRY_W], view->args);
  double elements = (double)(s.sequences * s.length * s.channels);
  hr__cost_stream(view, 8.0 * elements * (double)s.kernel, cost);
  cost->bytes =
      2.0 * (elements * (double)hr_dtype_bytes(view->in[HR_CONV_CARRY_X].dtype) + (double)hr_desc_bytes(&view->out[1]));
}

/* A GPU holds a state in registers. */
static hr_status ssd_carry_limits(const hr_op_view *view, hr_device_kind kind, hr_error *err) {
  enum { STATE_MOST = 256 };
  const hr_ssd_args *args = view->args;
  if (kind == HR_CPU || args->state <= STATE_MOST) return HR_OK;
  return hr__fail(err, HR_UNSUPPORTED, NULL, "use memory.device: cpu",
                  "states of %lld numbers are larger than the %d that a GPU generates with", (long long)args->state,
                  STATE_MOST);
}

static void ssd_carry_cost(const hr_op_view *view, hr_cost *cost) {
  hr_ssd_sizes s = hr__ssd_sizes(&view->in[HR_SSD_MIXED], &view->in[HR_SSD_STEPS], view->args);
  double updates = (double)(s.sequences * s.length * s.chunk_floats);
  hr__cost_stream(view, 5.0 * updates, cost);
  cost->bytes =
      2.0 * (double)hr_desc_bytes(&view->out[1]) +
      (double)(s.sequences * s.length * (s.mixed + s.heads + s.y)) * (double)hr_dtype_bytes(view->in[0].dtype);
}

/* ---- the convolution on the CPU ---- */

/* The rows that a kernel sees, as floats: row t of the call at t mod MOST, with those of the tail before row 0. */
typedef float ring[MOST][COLUMNS];

HR_INLINE float *ring_row(float (*rows)[COLUMNS], int64_t t) {
  return rows[t & (MOST - 1)];
}

HR_INLINE void row_load(const hr_tensor *from, int64_t at, int64_t count, float *to) {
  const float *row = hr__load(from, at, count, to);
  if (row != to) memcpy(to, row, (size_t)count * sizeof *to);
}

HR_INLINE void row_store(const hr_tensor *to, int64_t at, int64_t count, float *row) {
  float *target = hr__target(to, at, row);
  if (target != row) memcpy(target, row, (size_t)count * sizeof *row);
  hr__store(to, at, count, row);
}

/* Columns [column, column + count) of a sample. */
HR_CLONES static void columns_convolve(const hr_call *call, const hr_causal_sizes *s, int64_t sample, int64_t column,
                                       int64_t count) {
  const hr_tensor *x = &call->in[HR_CONV_CARRY_X], *y = &call->out[0], *tail = &call->out[1];
  const hr_tensor *w = &call->in[HR_CONV_CARRY_W], *bias = &call->in[HR_CONV_CARRY_BIAS];
  int64_t k = s->kernel,
          rows = hr__carry_rows(((const int32_t *)call->in[HR_CONV_CARRY_COUNTS].data)[sample], s->length);
  bool begins = ((const int32_t *)call->in[HR_CONV_CARRY_POSITIONS].data)[sample] == 0;
  float weight[MOST][COLUMNS], added[COLUMNS], block[COLUMNS], scratch;
  ring seen;
  for (int64_t c = 0; c < count; c++) {
    added[c] = bias->data ? *hr__load(bias, column + c, 1, &scratch) : 0.0f;
    for (int64_t j = 0; j < k; j++)
      weight[j][c] = *hr__load(w, (column + c) * k + j, 1, &scratch);
  }
  for (int64_t t = 1 - k; t < 0; t++)
    if (begins)
      memset(ring_row(seen, t), 0, (size_t)count * sizeof(float));
    else
      row_load(tail, (sample * (k - 1) + t + k - 1) * s->channels + column, count, ring_row(seen, t));
  for (int64_t t = 0; t < s->length; t++) {
    int64_t at = (sample * s->length + t) * s->channels + column;
    memset(block, 0, (size_t)count * sizeof *block);
    if (t < rows) {
      row_load(x, (sample * s->length + t) * s->columns + s->first + column, count, ring_row(seen, t));
      memcpy(block, added, (size_t)count * sizeof *block);
      for (int64_t j = 0; j < k; j++) {
        const float *row = ring_row(seen, t - (k - 1) + j), *by = weight[j];
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
          block[c] += by[c] * row[c];
      }
#pragma omp simd
      for (int64_t c = 0; c < count; c++)
        block[c] = block[c] / (1.0f + hr__expf(-block[c]));
    }
    row_store(y, at, count, block);
  }
  for (int64_t t = rows - (k - 1); rows > 0 && t < rows; t++)
    row_store(tail, (sample * (k - 1) + t - rows + k - 1) * s->channels + column, count, ring_row(seen, t));
}

static hr_causal_sizes conv_sizes(const hr_call *call) {
  return hr__causal_sizes(&call->in[HR_CONV_CARRY_X].desc, &call->in[HR_CONV_CARRY_W].desc, call->args);
}

static void conv_carry_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  hr_causal_sizes s = conv_sizes(call);
  int64_t blocks = hr__chunks(s.channels, COLUMNS);
  hr_range columns = hr__chunk(s.channels, COLUMNS, task % blocks);
  (void)worker;
  columns_convolve(call, &s, task / blocks, columns.first, columns.end - columns.first);
}

/* Out of plans what is carried may lie in two places. */
static void carried_copy(const hr_call *call, int in) {
  if (call->out[1].data != call->in[in].data)
    memcpy(call->out[1].data, call->in[in].data, hr_desc_bytes(&call->out[1].desc));
}

static hr_status conv_carry_run(const hr_call *call) {
  hr_causal_sizes s = conv_sizes(call);
  carried_copy(call, HR_CONV_CARRY_TAIL);
  hr__pool_run(call->device->pool, call->threads, s.sequences * hr__chunks(s.channels, COLUMNS), conv_carry_task,
               (void *)(uintptr_t)call);
  return HR_OK;
}

/* ---- the scan on the CPU ---- */

typedef struct job {
  const hr_call *call;
  hr_ssd_rooms rooms;
} job;

/* One position: h = decay h + d B x^T, and y = C h + D x. */
HR_INLINE void position_advance(const hr_ssd_sizes *s, float decay, float d, float skip, const float *x, const float *b,
                                const float *c, float *h, float *y) {
  for (int64_t p = 0; p < s->dim; p++)
    y[p] = skip * x[p];
  for (int64_t n = 0; n < s->state; n++, h += s->dim) {
    float in = d * b[n], out = c[n];
#pragma omp simd
    for (int64_t p = 0; p < s->dim; p++) {
      h[p] = decay * h[p] + in * x[p];
      y[p] += out * h[p];
    }
  }
}

/* Rows [begin, begin + count), whose d are made. */
HR_CLONES static void rows_advance(const hr_ssd_head *w, const hr_call *call, int64_t begin, int64_t count, float *h) {
  const hr_ssd_rooms *r = w->rooms;
  const hr_ssd_sizes *s = &r->size;
  const hr_tensor *mixed = &call->in[HR_SSD_MIXED];
  float *x = w->base + r->x, *b = w->base + r->b, *c = w->base + r->c, *y = w->base + r->y;
  const float *d = w->base + r->d;
  hr__ssd_rows(w, mixed, begin, count, w->head * s->dim, s->dim, r->dim, x);
  hr__ssd_rows(w, mixed, begin, count, s->b_first + w->group * s->state, s->state, r->state, b);
  hr__ssd_rows(w, mixed, begin, count, s->c_first + w->group * s->state, s->state, r->state, c);
  for (int64_t i = 0; i < count; i++) {
    position_advance(s, hr__expf(d[i] * w->decay), d[i], w->skip, x + i * r->dim, b + i * r->state, c + i * r->state, h,
                     y);
    row_store(&call->out[0], (w->sequence * s->length + begin + i) * s->y + w->head * s->dim, s->dim, y);
  }
}

static void ssd_carry_task(void *arg, int64_t task, int worker) {
  const job *j = arg;
  const hr_call *call = j->call;
  const hr_ssd_rooms *r = &j->rooms;
  const hr_ssd_sizes *s = &r->size;
  int64_t sample = task / s->heads, most = hr__min(HR_SSD_TILE, s->chunk);
  int64_t rows = hr__carry_rows(((const int32_t *)call->in[HR_SSD_CARRY_COUNTS].data)[sample], s->length);
  bool begins = ((const int32_t *)call->in[HR_SSD_CARRY_POSITIONS].data)[sample] == 0;
  float *base = (float *)call->workspace + (size_t)worker * r->floats;
  float *h = (float *)call->out[1].data + task * s->state_floats;
  hr_ssd_head w = hr__ssd_head(call, 0, r, base, sample, task % s->heads);
  w.starts = NULL; /* the state stands in their place */
  if (begins && rows > 0) memset(h, 0, (size_t)s->state_floats * sizeof *h);
  for (int64_t t = 0; t < rows; t += most) {
    int64_t count = hr__min(most, rows - t);
    hr__ssd_steps(&w, &call->in[HR_SSD_STEPS], call->args, t, count);
    rows_advance(&w, call, t, count, h);
  }
  float *none = base + r->y;
  for (int64_t t = rows; t < s->length; t++) {
    memset(none, 0, (size_t)s->dim * sizeof *none);
    row_store(&call->out[0], (sample * s->length + t) * s->y + w.head * s->dim, s->dim, none);
  }
}

static hr_status ssd_carry_run(const hr_call *call) {
  job j = {.call = call};
  hr_ssd_sizes s = hr__ssd_sizes(&call->in[HR_SSD_MIXED].desc, &call->in[HR_SSD_STEPS].desc, call->args);
  j.rooms = hr__ssd_rooms(&s, false);
  carried_copy(call, HR_SSD_CARRY_STATE);
  hr__pool_run(call->device->pool, call->threads, s.sequences * s.heads, ssd_carry_task, &j);
  return HR_OK;
}

static size_t ssd_carry_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_ssd_sizes s = hr__ssd_sizes(&view->in[HR_SSD_MIXED], &view->in[HR_SSD_STEPS], view->args);
  return kind == HR_CPU ? hr__ssd_rooms(&s, false).floats * (size_t)threads * sizeof(float) : 0;
}

/* ---- samples ---- */

#define NUMBERS(n)                                                                                                     \
  {HR_I32, 1, {n}}, {                                                                                                  \
    HR_I32, 1, {                                                                                                       \
      n                                                                                                                \
    }                                                                                                                  \
  }
#define HEADS(n)                                                                                                       \
  {HR_F32, 1, {n}}, {HR_F32, 1, {n}}, {                                                                                \
    HR_F32, 1, {                                                                                                       \
      n                                                                                                                \
    }                                                                                                                  \
  }

/* Some rows of several samples, columns amid others; one row, no bias; fewer rows than the tail has. Numbers are drawn
 * so that sequences begin, go on, rest and are cut off. */
static const hr_causal_conv_args amid = {5}, whole = {0};
static const hr_sample conv_carry_samples[] = {
    {.n_in = HR_CONV_CARRY_OPERANDS,
     .in = {{HR_F32, 3, {4, 7, 32}}, {HR_F32, 3, {16, 1, 4}}, {HR_F32, 1, {16}}, {HR_F32, 3, {4, 3, 16}}, NUMBERS(4)},
     .args = &amid,
     .index_below = 9},
    {.n_in = HR_CONV_CARRY_OPERANDS,
     .in = {{HR_F32, 3, {3, 1, 131}}, {HR_F32, 3, {131, 1, 4}}, {0}, {HR_F32, 3, {3, 3, 131}}, NUMBERS(3)},
     .args = &whole,
     .index_below = 2},
    {.n_in = HR_CONV_CARRY_OPERANDS,
     .in = {{HR_F32, 3, {6, 2, 9}}, {HR_F32, 3, {4, 1, 6}}, {HR_F32, 1, {4}}, {HR_F32, 3, {6, 5, 4}}, NUMBERS(6)},
     .args = &amid,
     .index_below = 4},
};

/* One token each; a prompt, groups, steps amid other columns; more rows than a chunk, with limits that hold. */
static const hr_ssd_args one = {2, 8, 1, 4, 16, 0, 0.0f, INFINITY}, groups = {4, 5, 2, 7, 8, 3, 0.0f, INFINITY},
                         held = {2, 16, 1, 16, 32, 1, 0.2f, 1.0f};
static const hr_sample ssd_carry_samples[] = {
    {.n_in = HR_SSD_CARRY_OPERANDS,
     .in = {{HR_F32, 3, {5, 1, 24}}, {HR_F32, 3, {5, 1, 2}}, HEADS(2), {HR_F32, 3, {5, 2, 32}}, NUMBERS(5)},
     .args = &one,
     .index_below = 2},
    {.n_in = HR_SSD_CARRY_OPERANDS,
     .in = {{HR_F32, 3, {4, 6, 48}}, {HR_F32, 3, {4, 6, 9}}, HEADS(4), {HR_F32, 3, {4, 4, 35}}, NUMBERS(4)},
     .args = &groups,
     .index_below = 8},
    {.n_in = HR_SSD_CARRY_OPERANDS,
     .in = {{HR_F32, 3, {2, 70, 64}}, {HR_F32, 3, {2, 70, 3}}, HEADS(2), {HR_F32, 3, {2, 2, 256}}, NUMBERS(2)},
     .args = &held,
     .index_below = 75},
};

const hr_op hr_op_conv_carry = {
    .name = "conv_carry",
    .n_in = HR_CONV_CARRY_OPERANDS,
    .n_out = 2,
    .optional = 1u << HR_CONV_CARRY_BIAS,
    .effect = true,
    .args_bytes = sizeof(hr_causal_conv_args),
    .computes = 1u << HR_CONV_CARRY_X,
    .alias = {{HR_CONV_CARRY_TAIL, 1, HR_ALIAS_MUST}},
    .n_alias = 1,
    .axes = HR_AXES_NONE, /* what is carried persists for all samples together */
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = conv_carry_shape,
    .cost = conv_carry_cost,
    .cpu = {.run = conv_carry_run},
    .samples = conv_carry_samples,
    .n_samples = sizeof conv_carry_samples / sizeof *conv_carry_samples,
};

const hr_op hr_op_ssd_carry = {
    .name = "ssd_carry",
    .n_in = HR_SSD_CARRY_OPERANDS,
    .n_out = 2,
    .effect = true,
    .args_bytes = sizeof(hr_ssd_args),
    .computes = 1u << HR_SSD_MIXED | 1u << HR_SSD_STEPS,
    .alias = {{HR_SSD_CARRY_STATE, 1, HR_ALIAS_MUST}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .limits = ssd_carry_limits,
    .shape = ssd_carry_shape,
    .cost = ssd_carry_cost,
    .workspace = ssd_carry_workspace,
    .cpu = {.run = ssd_carry_run},
    .samples = ssd_carry_samples,
    .n_samples = sizeof ssd_carry_samples / sizeof *ssd_carry_samples,
};
