/* ssd: see ssd.h. */
#include "op/ssd.h"

#include <math.h>

#include "graph/adjoint.h"
#include "op/copy.h"
#include "op/shapes.h"
#include "op/slice.h"
#include "op/ssd_parts.h"
#include "op/ssd_rooms.h"

enum { PARAMETERS = 3 }; /* A_log, bias, D */

hr_id hr__ssd(hr_builder *b, hr_id mixed, hr_id steps, hr_id a_log, hr_id bias, hr_id d, hr_id starts,
              const hr_ssd_args *args) {
  return hr__emit(b, &hr_op_ssd, (hr_id[]){mixed, steps, a_log, bias, d, starts}, HR_SSD_OPERANDS, args);
}

/* ---- shape ---- */

static hr_status args_check(const hr_ssd_args *args, hr_error *err) {
  if (args->heads < 1 || args->head_dim < 1 || args->groups < 1 || args->state < 1 || args->heads % args->groups != 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL,
                    "%lld heads of %lld channels do not form %lld groups with states of %lld", (long long)args->heads,
                    (long long)args->head_dim, (long long)args->groups, (long long)args->state);
  if (args->chunk < 1 || args->chunk > HR_SSD_CHUNK_MOST)
    return hr__fail(err, HR_BAD_INPUT, NULL, "take 256, or less", "chunks of %lld positions", (long long)args->chunk);
  if (!(args->step_least >= 0.0f && args->step_least < args->step_most))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "steps between %g and %g", (double)args->step_least,
                    (double)args->step_most);
  return HR_OK;
}

/* Operands `first` (mixed) to `first` + HR_SSD_STARTS. */
static hr_status operands_check(const hr_op_view *view, int first, hr_error *err) {
  const hr_ssd_args *args = view->args;
  const hr_desc *mixed = &view->in[first], *steps = &view->in[first + HR_SSD_STEPS];
  HR_TRY(args_check(args, err));
  HR_TRY(hr__shape_float(view, first, err));
  HR_TRY(hr__shape_float(view, first + HR_SSD_STEPS, err));
  int64_t columns = args->heads * args->head_dim + 2 * args->groups * args->state;
  if (mixed->rank < 3 || mixed->dim[mixed->rank - 1] != columns)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "x, B and C must be [..., L, %lld] together", (long long)columns);
  hr_desc rows = *mixed;
  rows.dim[rows.rank - 1] = steps->dim[steps->rank - 1];
  HR_TRY(hr__shape_like(view, first + HR_SSD_STEPS, &rows, err));
  if (args->step_first < 0 || args->step_first + args->heads > steps->dim[steps->rank - 1])
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "steps from column %lld on of %lld for %lld heads",
                    (long long)args->step_first, (long long)steps->dim[steps->rank - 1], (long long)args->heads);
  hr_desc heads = hr__desc1(HR_F32, args->heads), starts = hr__shape_starts(mixed);
  for (int i = HR_SSD_A_LOG; i <= HR_SSD_D; i++)
    HR_TRY(hr__shape_like_float(view, first + i, &heads, err));
  return hr__shape_like(view, first + HR_SSD_STARTS, &starts, err);
}

static hr_desc y_desc(const hr_desc *mixed, const hr_ssd_args *args) {
  hr_desc y = *mixed;
  y.dim[y.rank - 1] = args->heads * args->head_dim;
  return y;
}

static hr_desc states_desc(const hr_desc *mixed, const hr_ssd_args *args) {
  hr_desc states = *mixed;
  states.dtype = HR_F32;
  states.dim[states.rank - 2] = (mixed->dim[mixed->rank - 2] + args->chunk - 1) / args->chunk;
  states.dim[states.rank - 1] = args->heads * args->head_dim * args->state;
  return states;
}

static hr_status ssd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  HR_TRY(hr__shape_operands(view, HR_SSD_OPERANDS, hr_op_ssd.optional, err));
  HR_TRY(operands_check(view, 0, err));
  out[0] = y_desc(&view->in[HR_SSD_MIXED], view->args);
  out[1] = states_desc(&view->in[HR_SSD_MIXED], view->args);
  return HR_OK;
}

static hr_status ssd_bwd_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_ssd_args *args = view->args;
  HR_TRY(hr__shape_operands(view, HR_SSD_BWD_OPERANDS, hr_op_ssd_bwd.optional, err));
  HR_TRY(operands_check(view, HR_SSD_BWD_MIXED, err));
  const hr_desc *mixed = &view->in[HR_SSD_BWD_MIXED];
  hr_desc y = y_desc(mixed, args), states = states_desc(mixed, args);
  HR_TRY(hr__shape_like(view, HR_SSD_DY, &y, err));
  HR_TRY(hr__shape_like(view, HR_SSD_BWD_STATES, &states, err));
  out[0] = *mixed;
  out[1] = view->in[HR_SSD_BWD_STEPS];
  out[2] = hr__desc2(HR_F32, PARAMETERS, args->heads);
  return hr__shape_like(view, HR_SSD_BWD_PARTIAL, &out[1], err);
}

/* ---- gradient ---- */

static void ssd_grad(hr_adjoint *a, const hr_node *node) {
  hr_builder *b = hr__adjoint_builder(a);
  const hr_ssd_args *args = node->args;
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE) return;
  bool wants_steps = hr__wants_grad(a, HR_SSD_STEPS);
  hr_id in[HR_SSD_BWD_OPERANDS] = {dy,
                                   hr__saved_in(a, HR_SSD_MIXED),
                                   hr__saved_in(a, HR_SSD_STEPS),
                                   hr__saved_in(a, HR_SSD_A_LOG),
                                   hr__saved_in(a, HR_SSD_BIAS),
                                   hr__saved_in(a, HR_SSD_D),
                                   hr__saved_in(a, HR_SSD_STARTS),
                                   hr__saved_out(a, 1),
                                   wants_steps ? hr__grad_partial(a, HR_SSD_STEPS) : HR_NONE};
  hr_id dmixed = hr__emit(b, &hr_op_ssd_bwd, in, HR_SSD_BWD_OPERANDS, args);
  if (dmixed == HR_NONE) return;
  if (wants_steps) hr__grad_set(a, HR_SSD_STEPS, hr__node_out(b, dmixed, 1));
  if (hr__wants_grad(a, HR_SSD_MIXED)) hr__grad_add(a, HR_SSD_MIXED, dmixed);
  hr_id parameters = hr__node_out(b, dmixed, 2);
  for (int i = 0; i < PARAMETERS; i++) {
    if (!hr__wants_grad(a, HR_SSD_A_LOG + i)) continue;
    hr_id one = hr__reshape(b, hr__slice(b, parameters, 0, i, 1), 1, &args->heads);
    if (hr__grad_dtype(a, HR_SSD_A_LOG + i) != HR_F32) one = hr__copy(b, one, hr__grad_dtype(a, HR_SSD_A_LOG + i));
    hr__grad_add(a, HR_SSD_A_LOG + i, one);
  }
}

/* ---- cost and workspace ---- */

/* Products of each position and head: with the T positions of its tile on average half of them, and with the state. */
static void work_of(const hr_op_view *view, int first, double in_tile, double with_state, hr_cost *cost) {
  hr_ssd_sizes s = hr__ssd_sizes(&view->in[first], &view->in[first + HR_SSD_STEPS], view->args);
  hr__cost_stream(view, 0, cost);
  double positions = (double)s.sequences * (double)s.length * (double)s.heads;
  double tile = (double)HR_SSD_TILE / 2 * (double)(s.state + s.dim), state = (double)(s.state * s.dim);
  cost->op_class = HR_CLASS_ATTENTION;
  cost->narrow = view->in[first].dtype != HR_F32;
  cost->flops = 2.0 * positions * (in_tile * tile + with_state * state);
  cost->bytes += 2.0 * (double)s.sequences * (double)s.chunks * (double)s.chunk_floats * sizeof(float);
}

static void ssd_cost(const hr_op_view *view, hr_cost *cost) {
  work_of(view, 0, 1, 2, cost);
}
static void ssd_bwd_cost(const hr_op_view *view, hr_cost *cost) {
  work_of(view, HR_SSD_BWD_MIXED, 4, 5, cost);
}

static size_t take(size_t *used, int64_t rows, int64_t columns) {
  size_t at = *used;
  *used += (size_t)(rows * columns + HR_SSD_LANES - 1) / HR_SSD_LANES * HR_SSD_LANES;
  return at;
}

static int64_t padded(int64_t columns) {
  return (columns + HR_SSD_LANES - 1) / HR_SSD_LANES * HR_SSD_LANES;
}

hr_ssd_rooms hr__ssd_rooms(const hr_ssd_sizes *size, bool backward) {
  hr_ssd_rooms r = {.size = *size, .dim = padded(size->dim), .state = padded(size->state)};
  int64_t tile = HR_SSD_TILE, wider = r.dim > r.state ? r.dim : r.state;
  r.b = take(&r.floats, tile, r.state);
  r.c = take(&r.floats, tile, r.state);
  r.x = take(&r.floats, tile, r.dim);
  r.turned = take(&r.floats, wider, tile);
  r.scaled = take(&r.floats, tile, r.state);
  r.scores = take(&r.floats, tile, tile);
  r.y = take(&r.floats, tile, r.dim);
  r.h = take(&r.floats, r.state, r.dim);
  r.d = take(&r.floats, 1, size->chunk);
  r.a = take(&r.floats, 1, size->chunk);
  r.slope = take(&r.floats, 1, size->chunk);
  if (!backward) return r;
  r.dy = take(&r.floats, tile, r.dim);
  r.other = take(&r.floats, tile, tile);
  r.inner = take(&r.floats, tile, r.state);
  r.g = take(&r.floats, r.state, r.dim);
  r.h_turned = take(&r.floats, r.dim, r.state);
  r.tile_states = take(&r.floats, (size->chunk + tile - 1) / tile, r.state * r.dim);
  r.group_g = take(&r.floats, size->heads / size->groups, r.state * r.dim);
  r.db = take(&r.floats, size->chunk, r.state);
  r.dc = take(&r.floats, size->chunk, r.state);
  r.da = take(&r.floats, 1, size->chunk);
  r.dd = take(&r.floats, 1, size->chunk);
  return r;
}

static size_t ssd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_ssd_sizes s = hr__ssd_sizes(&view->in[HR_SSD_MIXED], &view->in[HR_SSD_STEPS], view->args);
  size_t floats = kind == HR_CPU ? hr__ssd_rooms(&s, false).floats * (size_t)threads
                                 : hr__ssd_cuda_rooms(&s, view->in[HR_SSD_MIXED].dtype, false).floats;
  return floats * sizeof(float);
}

/* On the CPU also three sums of each sequence and head. */
static size_t ssd_bwd_workspace(const hr_op_view *view, hr_device_kind kind, int threads) {
  hr_ssd_sizes s = hr__ssd_sizes(&view->in[HR_SSD_BWD_MIXED], &view->in[HR_SSD_BWD_STEPS], view->args);
  if (kind != HR_CPU) return hr__ssd_cuda_rooms(&s, view->in[HR_SSD_BWD_MIXED].dtype, true).floats * sizeof(float);
  return (hr__ssd_rooms(&s, true).floats * (size_t)threads + (size_t)(s.sequences * s.heads * PARAMETERS)) *
         sizeof(float);
}

/* ---- samples ---- */

#define HEADS(n)                                                                                                       \
  {HR_F32, 1, {n}}, {HR_F32, 1, {n}}, {                                                                                \
    HR_F32, 1, {                                                                                                       \
      n                                                                                                                \
    }                                                                                                                  \
  }

/* One chunk that is not full; several with an odd end, groups, and steps amid other columns; wider than a tile, with
 * limits that hold. Documents: in one chunk; with borders anywhere in chunks, in tiles, and between them. */
static const hr_ssd_args one_chunk = {2, 8, 1, 4, 16, 0, 0.0f, INFINITY}, chunks = {4, 5, 2, 7, 8, 3, 0.0f, INFINITY},
                         tiles = {2, 16, 1, 16, 128, 1, 0.0f, INFINITY}, held = {2, 16, 1, 16, 128, 1, 0.2f, 1.0f};
static const hr_sample ssd_samples[] = {
    {.n_in = HR_SSD_OPERANDS, .in = {{HR_F32, 3, {2, 11, 24}}, {HR_F32, 3, {2, 11, 2}}, HEADS(2)}, .args = &one_chunk},
    {.n_in = HR_SSD_OPERANDS,
     .in = {{HR_F32, 4, {2, 3, 29, 48}}, {HR_F32, 4, {2, 3, 29, 9}}, HEADS(4)},
     .args = &chunks},
    {.n_in = HR_SSD_OPERANDS, .in = {{HR_F32, 3, {1, 150, 64}}, {HR_F32, 3, {1, 150, 3}}, HEADS(2)}, .args = &tiles},
    {.n_in = HR_SSD_OPERANDS,
     .in = {{HR_F32, 3, {2, 11, 24}}, {HR_F32, 3, {2, 11, 2}}, HEADS(2), {HR_I32, 2, {2, 11}}},
     .args = &one_chunk,
     .index_below = 11,
     .index_ascends = true},
    {.n_in = HR_SSD_OPERANDS,
     .in = {{HR_F32, 4, {2, 3, 29, 48}}, {HR_F32, 4, {2, 3, 29, 9}}, HEADS(4), {HR_I32, 3, {2, 3, 29}}},
     .args = &chunks,
     .index_below = 29,
     .index_ascends = true},
    {.n_in = HR_SSD_OPERANDS,
     .in = {{HR_F32, 3, {1, 150, 64}}, {HR_F32, 3, {1, 150, 3}}, HEADS(2), {HR_I32, 2, {1, 150}}},
     .args = &tiles,
     .index_below = 150,
     .index_ascends = true},
};
static const hr_sample ssd_bwd_samples[] = {
    {.n_in = HR_SSD_BWD_OPERANDS,
     .in = {{HR_F32, 3, {2, 11, 16}},
            {HR_F32, 3, {2, 11, 24}},
            {HR_F32, 3, {2, 11, 2}},
            HEADS(2),
            {0},
            {HR_F32, 3, {2, 1, 64}}},
     .args = &one_chunk},
    {.n_in = HR_SSD_BWD_OPERANDS,
     .in = {{HR_F32, 4, {2, 3, 29, 20}},
            {HR_F32, 4, {2, 3, 29, 48}},
            {HR_F32, 4, {2, 3, 29, 9}},
            HEADS(4),
            {0},
            {HR_F32, 4, {2, 3, 4, 140}},
            {HR_F32, 4, {2, 3, 29, 9}}},
     .args = &chunks},
    {.n_in = HR_SSD_BWD_OPERANDS,
     .in = {{HR_F32, 3, {1, 150, 32}},
            {HR_F32, 3, {1, 150, 64}},
            {HR_F32, 3, {1, 150, 3}},
            HEADS(2),
            {0},
            {HR_F32, 3, {1, 2, 512}},
            {HR_F32, 3, {1, 150, 3}}},
     .args = &held},
    {.n_in = HR_SSD_BWD_OPERANDS,
     .in = {{HR_F32, 3, {2, 11, 16}},
            {HR_F32, 3, {2, 11, 24}},
            {HR_F32, 3, {2, 11, 2}},
            HEADS(2),
            {HR_I32, 2, {2, 11}},
            {HR_F32, 3, {2, 1, 64}}},
     .args = &one_chunk,
     .index_below = 11,
     .index_ascends = true},
    {.n_in = HR_SSD_BWD_OPERANDS,
     .in = {{HR_F32, 4, {2, 3, 29, 20}},
            {HR_F32, 4, {2, 3, 29, 48}},
            {HR_F32, 4, {2, 3, 29, 9}},
            HEADS(4),
            {HR_I32, 3, {2, 3, 29}},
            {HR_F32, 4, {2, 3, 4, 140}},
            {HR_F32, 4, {2, 3, 29, 9}}},
     .args = &chunks,
     .index_below = 29,
     .index_ascends = true},
    {.n_in = HR_SSD_BWD_OPERANDS,
     .in = {{HR_F32, 3, {1, 150, 32}},
            {HR_F32, 3, {1, 150, 64}},
            {HR_F32, 3, {1, 150, 3}},
            HEADS(2),
            {HR_I32, 2, {1, 150}},
            {HR_F32, 3, {1, 2, 512}},
            {HR_F32, 3, {1, 150, 3}}},
     .args = &tiles,
     .index_below = 150,
     .index_ascends = true},
};

const hr_op hr_op_ssd = {
    .name = "ssd",
    .n_in = HR_SSD_OPERANDS,
    .n_out = 2,
    .optional = 1u << HR_SSD_STARTS,
    .args_bytes = sizeof(hr_ssd_args),
    .saves = HR_SAVE_IN(HR_SSD_MIXED) | HR_SAVE_IN(HR_SSD_STEPS) | HR_SAVE_IN(HR_SSD_A_LOG) | HR_SAVE_IN(HR_SSD_BIAS) |
             HR_SAVE_IN(HR_SSD_D) | HR_SAVE_IN(HR_SSD_STARTS) | HR_SAVE_OUT(1),
    .computes = 1u << HR_SSD_MIXED | 1u << HR_SSD_STEPS,
    .axes = HR_AXES_BATCH,
    .shares = 1u << HR_SSD_A_LOG | 1u << HR_SSD_BIAS | 1u << HR_SSD_D,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = ssd_shape,
    .grad = ssd_grad,
    .cost = ssd_cost,
    .workspace = ssd_workspace,
    .cpu = {.run = hr__ssd_run},
    .samples = ssd_samples,
    .n_samples = sizeof ssd_samples / sizeof *ssd_samples,
};

const hr_op hr_op_ssd_bwd = {
    .name = "ssd_bwd",
    .n_in = HR_SSD_BWD_OPERANDS,
    .n_out = 3,
    .optional = 1u << HR_SSD_BWD_STARTS | 1u << HR_SSD_BWD_PARTIAL,
    .args_bytes = sizeof(hr_ssd_args),
    .alias = {{HR_SSD_BWD_PARTIAL, 1, HR_ALIAS_ACCUMULATE}},
    .n_alias = 1,
    .axes = HR_AXES_NONE,
    .typed_by = HR_SSD_BWD_MIXED,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = ssd_bwd_shape,
    .cost = ssd_bwd_cost,
    .workspace = ssd_bwd_workspace,
    .cpu = {.run = hr__ssd_bwd_run},
    .samples = ssd_bwd_samples,
    .n_samples = sizeof ssd_bwd_samples / sizeof *ssd_bwd_samples,
};
