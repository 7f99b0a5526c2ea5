/* reduce: sum, mean, largest or smallest of what a program gives, over any set of axes.
 *
 * The space is walked in the order [outer kept axes, reduced axes, inner kept axes]: where the last axis is reduced,
 * results are sums along runs, else sums of rows. Long ones are cut into pieces that go to different workers; pieces,
 * tiles and rows follow from the shape alone. Tiles are summed in f32, everything else in f64.
 */
#include <string.h>

#include "base/mem.h"
#include "graph/adjoint.h"
#include "op/pointwise_parts.h"
#include "op/shapes.h"
#include "op/stream.h"

enum { COLUMNS = 2048 }; /* of rows that are summed at once */

hr_id hr__reduce(hr_builder *b, hr_reduction reduction, hr_id x, unsigned axes) {
  if (b->status != HR_OK) return HR_NONE;
  hr_reduce_args args = {.program = hr__program_plain(b->graph->values[x].desc.rank, 1),
                         .reduction = reduction,
                         .axes = (uint8_t)axes,
                         .dtype = HR_SAME_TYPE};
  args.program.n_out = 1;
  return hr__emit(b, &hr_op_reduce, &x, 1, &args);
}

/* ---- rules ---- */

static hr_status reduce_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_reduce_args *args = view->args;
  HR_TRY(hr__program_shape(view, &args->program, &out[0], err));
  if (args->program.n_out != 1) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "reduces one result");
  if (args->axes >> args->program.rank)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "reduces axes beyond the %d there are", args->program.rank);
  for (int d = 0; d < args->program.rank; d++)
    if (args->axes >> d & 1) out[0].dim[d] = 1;
  if (args->dtype != HR_SAME_TYPE) out[0].dtype = (hr_dtype)args->dtype;
  return HR_OK;
}

static void space_of(const hr_op_view *view, hr_desc *space) {
  hr_error err;
  hr__program_shape(view, &((const hr_reduce_args *)view->args)->program, space, &err);
}

/* Scratch of a worker: the program's, and sums of a block of columns in f32 and f64. */
static size_t worker_bytes(const hr_reduce_args *args) {
  return hr__program_scratch_bytes(&args->program) + HR_TILE * sizeof(float) +
         COLUMNS * (sizeof(float) + sizeof(double));
}

/* On a GPU results of pieces, in f64 as well; see reduce.cu. */
static size_t reduce_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  const hr_reduce_args *args = view->args;
  hr_desc space;
  space_of(view, &space);
  hr_walk w;
  if (kind == HR_CUDA) {
    hr__walk_make_cuda(args, &space, &w);
    return hr__walk_bytes(&w);
  }
  hr__walk_make(args, &space, &w);
  return hr__walk_bytes(&w) + (size_t)threads * worker_bytes(args);
}

static void reduce_cost(const hr_op_view *view, hr_cost *cost) {
  hr_desc space;
  space_of(view, &space);
  double each = hr__program_flops(&((const hr_reduce_args *)view->args)->program) + 1.0;
  hr__cost_stream(view, each * (double)hr_desc_count(&space), cost);
}

/* The batch goes through a reduction of other axes. Behind these it is walked along with them: how sums are cut into
 * pieces depends on its size. */
static bool reduce_batch(const hr_op_view *view, const hr_batch *in, hr_batch *out) {
  const hr_reduce_args *a = view->args;
  bool whole = hr__program_batch(view, &a->program, in, out);
  if (out[0].axis < 0) return false;
  if (a->axes >> out[0].axis & 1) {
    out[0].axis = -1;
    return false;
  }
  bool exact = a->reduction == HR_REDUCE_MAX || a->reduction == HR_REDUCE_MIN;
  return whole && (exact || a->axes >> out[0].axis != 0);
}

static void reduce_resize(void *args, int axis, int64_t size) {
  hr__program_resize(&((hr_reduce_args *)args)->program, axis, size);
}

static hr_map repeated_map(const hr_reduce_args *args) {
  hr_map map = hr__program_plain(args->program.rank, 1).map[0];
  for (int d = 0; d < HR_RANK; d++)
    if (args->axes >> d & 1) map.axis[d] = -1;
  return map;
}

/* Of the largest, every element that equals it gets an equal share: dx = (x == y) dy / (how many equal y). */
static hr_id extreme_share(hr_adjoint *a, const hr_reduce_args *args, hr_id dy, hr_id *equal) {
  hr_builder *b = hr__adjoint_builder(a);
  *equal = hr__binary(b, HR_FORMULA_equal, hr__saved_in(a, 0), hr__saved_out(a, 0));
  hr_id count = hr__reduce(b, HR_REDUCE_SUM, *equal, args->axes);
  return hr__binary(b, HR_FORMULA_div, dy, count);
}

static void reduce_grad(hr_adjoint *a, const hr_node *node) {
  const hr_reduce_args *args = node->args;
  hr_builder *b = hr__adjoint_builder(a);
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  hr_desc storage[HR_PROGRAM_INPUTS + 1], space;
  hr_op_view view = hr__node_view(b->graph, node, storage);
  space_of(&view, &space);
  if (args->reduction == HR_REDUCE_MAX || args->reduction == HR_REDUCE_MIN) {
    hr_id equal, share = extreme_share(a, args, dy, &equal);
    hr__grad_add(a, 0, hr__binary(b, HR_FORMULA_mul, equal, share));
    return;
  }
  if (args->reduction == HR_REDUCE_MEAN) {
    double depth = (double)hr_desc_count(&space) / (double)hr_desc_count(&view.out[0]);
    dy = hr__unary(b, HR_FORMULA_affine, dy, (float)(1.0 / depth), 0.0f);
  }
  hr_map map = repeated_map(args);
  if (dy != HR_NONE) hr__program_grad(a, node, &args->program, dy, &map, &space);
}

/* ---- CPU ---- */

typedef struct ready {
  hr_walk walk;
  hr_ready program; /* last: what it says lies behind it */
} ready;

static hr_status reduce_prepare(const hr_call *call, void **prepared, hr_error *err) {
  const hr_reduce_args *args = call->args;
  hr_desc space;
  hr__program_space(&args->program, call->in, &space);
  ready *r = hr__alloc(offsetof(ready, program) + hr__ready_bytes(&args->program));
  if (!r) return hr__nomem(err);
  hr__walk_make(args, &space, &r->walk);
  hr__ready_make(&args->program, call->in, &space, r->walk.order, NULL, &r->program);
  *prepared = r;
  return HR_OK;
}

static void reduce_release(void *prepared) {
  hr__free(prepared);
}

static double start_of(hr_reduction reduction) {
  return reduction == HR_REDUCE_MAX ? -__builtin_inf() : reduction == HR_REDUCE_MIN ? __builtin_inf() : 0.0;
}

/* NaN stays. */
HR_INLINE float extreme(hr_reduction reduction, float a, float b) {
  bool takes = reduction == HR_REDUCE_MAX ? b > a : b < a;
  return takes || b != b ? b : a;
}

HR_INLINE double joined(hr_reduction reduction, double a, double b) {
  if (reduction == HR_REDUCE_MAX) return b > a || b != b ? b : a;
  if (reduction == HR_REDUCE_MIN) return b < a || b != b ? b : a;
  return a + b;
}

HR_INLINE double run_reduce(hr_reduction reduction, const float *x, int64_t n) {
  if (reduction == HR_REDUCE_SUM || reduction == HR_REDUCE_MEAN) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
      sum += x[i];
    return (double)sum;
  }
  float best = x[0];
  for (int64_t i = 1; i < n; i++)
    best = extreme(reduction, best, x[i]);
  return (double)best;
}

HR_INLINE void row_join(hr_reduction reduction, float *to, const float *x, int64_t n) {
  if (reduction == HR_REDUCE_SUM || reduction == HR_REDUCE_MEAN) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] += x[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] = extreme(reduction, to[i], x[i]);
  }
}

typedef struct desk {
  const hr_call *call;
  const ready *r;
  hr_reduction reduction;
  float *scratch, *row;
  double *sum;
} desk;

static desk desk_of(const hr_call *call, int worker) {
  const hr_reduce_args *args = call->args;
  const ready *r = call->prepared;
  size_t partial = hr__walk_bytes(&r->walk);
  char *own = (char *)call->workspace + partial + (size_t)worker * worker_bytes(args);
  desk d = {.call = call, .r = r, .reduction = args->reduction, .sum = (double *)own};
  d.row = (float *)(own + COLUMNS * sizeof(double));
  d.scratch = d.row + COLUMNS;
  return d;
}

static const float *tile_of(const desk *d, int64_t at, int64_t n) {
  const float *values[HR_PROGRAM_VALUES];
  hr__tile_run(&d->r->program, d->call->in, at, n, d->scratch, values, NULL);
  return values[d->r->program.args->result[0].from];
}

static void result_put(const desk *d, int64_t at, double value) {
  if (d->reduction == HR_REDUCE_MEAN) value /= (double)d->r->walk.depth;
  float rounded = (float)value;
  if (d->call->out[0].desc.dtype == HR_F32)
    ((float *)d->call->out[0].data)[at] = rounded;
  else
    hr__store(&d->call->out[0], at, 1, &rounded);
}

/* A partial of a piece, or the result where there is one piece only. */
static void partial_put(const desk *d, int64_t outer, int64_t piece, int64_t inner, double value) {
  const hr_walk *w = &d->r->walk;
  if (w->pieces == 1)
    result_put(d, outer * w->inner + inner, value);
  else
    ((double *)d->call->workspace)[(outer * w->pieces + piece) * w->inner + inner] = value;
}

/* inner is 1: one run of the walked space for each result. */
HR_CLONES static void runs_reduce(const desk *d, int64_t outer, int64_t piece) {
  const hr_walk *w = &d->r->walk;
  int64_t first = piece * w->piece, end = hr__min(w->depth, first + w->piece);
  double sum = start_of(d->reduction);
  for (int64_t at = first; at < end; at += HR_TILE) {
    int64_t n = hr__min(HR_TILE, end - at);
    sum = joined(d->reduction, sum, run_reduce(d->reduction, tile_of(d, outer * w->depth + at, n), n));
  }
  partial_put(d, outer, piece, 0, sum);
}

/* Rows of one piece and one block of columns. */
HR_CLONES static void rows_reduce(const desk *d, int64_t outer, int64_t piece, int64_t column, int64_t columns) {
  const hr_walk *w = &d->r->walk;
  int64_t first = piece * w->piece, end = hr__min(w->depth, first + w->piece);
  int64_t together = columns == w->inner && columns <= HR_TILE ? HR_TILE / columns : 1; /* rows in one tile */
  float start = (float)start_of(d->reduction);
  for (int64_t i = 0; i < columns; i++)
    d->sum[i] = (double)start;
  for (int64_t block = first; block < end; block += HR_WALK_ROWS) {
    int64_t block_end = hr__min(end, block + HR_WALK_ROWS);
    for (int64_t i = 0; i < columns; i++)
      d->row[i] = start;
    for (int64_t k = block; k < block_end; k += together) {
      int64_t rows = hr__min(together, block_end - k), at = (outer * w->depth + k) * w->inner + column;
      for (int64_t i = 0; i < columns; i += HR_TILE) {
        int64_t n = together > 1 ? rows * columns : hr__min(HR_TILE, columns - i);
        const float *x = tile_of(d, at + i, n);
        for (int64_t r = 0; r < rows; r++)
          row_join(d->reduction, d->row + i, x + r * columns, together > 1 ? columns : n);
      }
    }
    for (int64_t i = 0; i < columns; i++)
      d->sum[i] = joined(d->reduction, d->sum[i], (double)d->row[i]);
  }
  for (int64_t i = 0; i < columns; i++)
    partial_put(d, outer, piece, column + i, d->sum[i]);
}

/* Tasks of small results go together. */
static int64_t results_together(const hr_walk *w) {
  int64_t elements = w->piece * hr__min(w->inner, COLUMNS);
  return elements >= HR_CHUNK ? 1 : HR_CHUNK / elements;
}

static int64_t jobs_of(const hr_walk *w) {
  return w->outer * w->pieces * hr__chunks(w->inner, COLUMNS);
}

static void reduce_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  desk d = desk_of(call, worker);
  const hr_walk *w = &d.r->walk;
  int64_t blocks = hr__chunks(w->inner, COLUMNS), together = results_together(w);
  int64_t end = hr__min(jobs_of(w), (task + 1) * together);
  for (int64_t job = task * together; job < end; job++) {
    int64_t column = job % blocks * COLUMNS, piece = job / blocks % w->pieces, outer = job / blocks / w->pieces;
    if (w->inner == 1)
      runs_reduce(&d, outer, piece);
    else
      rows_reduce(&d, outer, piece, column, hr__min(COLUMNS, w->inner - column));
  }
}

static hr_status reduce_run(const hr_call *call) {
  const ready *r = call->prepared;
  const hr_walk *w = &r->walk;
  hr__pool_run(call->device->pool, call->threads, hr__chunks(jobs_of(w), results_together(w)), reduce_task,
               (void *)(uintptr_t)call);
  desk d = desk_of(call, 0);
  const double *partial = call->workspace;
  for (int64_t outer = 0; w->pieces > 1 && outer < w->outer; outer++)
    for (int64_t i = 0; i < w->inner; i++) {
      double sum = start_of(d.reduction);
      for (int64_t piece = 0; piece < w->pieces; piece++)
        sum = joined(d.reduction, sum, partial[(outer * w->pieces + piece) * w->inner + i]);
      result_put(&d, outer * w->inner + i, sum);
    }
  return HR_OK;
}

/* ---- samples ---- */

#define PLAIN                                                                                                          \
  {                                                                                                                    \
    {0, 1, 2, 3, 4, 5}, {                                                                                              \
      0                                                                                                                \
    }                                                                                                                  \
  }
#define REDUCE(kind, which, dimensions, type)                                                                          \
  &(const hr_reduce_args) {                                                                                            \
    .program = {.rank = dimensions, .n_in = 1, .n_out = 1, .map = {PLAIN}}, .reduction = HR_REDUCE_##kind,             \
    .axes = which, .dtype = type                                                                                       \
  }
static const hr_sample reduce_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 2, {37, 1031}}}, .args = REDUCE(SUM, 2, 2, HR_SAME_TYPE)},
    {.n_in = 1, .in = {{HR_F32, 2, {131, 67}}}, .args = REDUCE(SUM, 1, 2, HR_F32)},
    {.n_in = 1, .in = {{HR_U8, 2, {131, 67}}}, .args = REDUCE(MEAN, 1, 2, HR_SAME_TYPE)},
    {.n_in = 1, .in = {{HR_F32, 2, {9, 5003}}}, .args = REDUCE(MEAN, 1, 2, HR_SAME_TYPE)},
    {.n_in = 1, .in = {{HR_F32, 4, {3, 5, 7, 21}}}, .args = REDUCE(MEAN, 1 | 4 | 8, 4, HR_SAME_TYPE)},
    {.n_in = 1, .in = {{HR_F32, 4, {3, 5, 7, 21}}}, .args = REDUCE(SUM, 1 | 4, 4, HR_SAME_TYPE)},
    {.n_in = 1, .in = {{HR_F32, 3, {4, 33, 19}}}, .args = REDUCE(MAX, 4, 3, HR_SAME_TYPE)},
    {.n_in = 1, .in = {{HR_F32, 3, {4, 33, 19}}}, .args = REDUCE(MIN, 2, 3, HR_SAME_TYPE)},
    {.n_in = 1, .in = {{HR_F32, 2, {600, 1031}}}, .args = REDUCE(MEAN, 3, 2, HR_SAME_TYPE)},
    {.n_in = 1, .in = {{HR_F32, 2, {70000, 5}}}, .args = REDUCE(SUM, 1, 2, HR_SAME_TYPE)},
    /* the mean of squares of x - b along rows, as fused */
    {.n_in = 2,
     .in = {{HR_F32, 2, {21, 531}}, {HR_F32, 1, {531}}},
     .args = &(const hr_reduce_args){.program = {.rank = 2,
                                                 .n_in = 2,
                                                 .n_steps = 2,
                                                 .n_out = 1,
                                                 .map = {PLAIN, {{-1, 0, -1, -1, -1, -1}, {0}}},
                                                 .step = {{.formula = HR_FORMULA_sub, .round = -1, .from = {0, 1}},
                                                          {.formula = HR_FORMULA_square, .round = -1, .from = {2}}},
                                                 .result = {{3, HR_SAME_TYPE}}},
                                     .reduction = HR_REDUCE_MEAN,
                                     .axes = 2,
                                     .dtype = HR_SAME_TYPE}},
};

const hr_op hr_op_reduce = {
    .name = "reduce",
    .n_in = 1,
    .n_out = 1,
    .variadic = true,
    .args_bytes = sizeof(hr_reduce_args),
    .saves = HR_SAVE_ALL_IN | HR_SAVE_OUT(0),
    .computes = 1u << 0,
    .batch = reduce_batch,
    .resize = reduce_resize,
    .dtypes = {[HR_CPU] = HR_PROGRAM_DTYPES, [HR_CUDA] = HR_PROGRAM_DTYPES},
    .shape = reduce_shape,
    .grad = reduce_grad,
    .cost = reduce_cost,
    .workspace = reduce_workspace,
    .cpu = {reduce_prepare, reduce_release, reduce_run},
    .samples = reduce_samples,
    .n_samples = sizeof reduce_samples / sizeof *reduce_samples,
};
