/* Which neighbours lora_up and its backward op take along in a recording:
 *
 *   lora_up, gelu                                 y goes through gelu on its way to memory
 *   lora_up, (dropout), (add), layernorm          rows of y are normed as they come (op/lora_up_norm.cuh)
 *   gelu_bwd or dropout, lora_up_bwd              dy is made as it is read (op/lora_up_source.cuh)
 *
 * All of them with the bits of one after another. Adapters are one group over all columns, in 16 bits, by tensor cores.
 */
#ifndef HR_OP_LORA_UP_MATCH_CUH
#define HR_OP_LORA_UP_MATCH_CUH

#include "dev/cuda/neighbours.cuh"
#include "op/lora_up_norm.cuh"
#include "op/lora_up_slab.cuh"
#include "op/lora_up_tile.cuh"
extern "C" {
#include "op/add.h"
#include "op/gelu.h"
#include "op/layernorm.h"
#include "op/lora_up_take.h"
}

extern "C" const hr_cuda_launcher hr_cuda_lora_up, hr_cuda_lora_up_bwd, hr_cuda_gelu, hr_cuda_gelu_bwd, hr_cuda_dropout,
    hr_cuda_add, hr_cuda_layernorm;

static bool one_group(const hr_lora_up_args &a) {
  return a.groups == 1 && a.first[0] == 0 && a.rows[0] == a.columns && (a.rank == 8 || a.rank == 16);
}

/* Operand 0 of `next` is result 0 of `call`. */
static bool goes_on(const hr_call *call, const hr_call *next) {
  return next && next->in[0].data == call->out[0].data;
}

static bool by_tanh(const hr_call *gelu) {
  return ((const hr_gelu_args *)gelu->args)->tanh;
}

/* ---- forward ---- */

struct up_group {
  const hr_call *up, *gelu, *dropout, *add, *norm; /* NULL: not there */
  size_t count;                                    /* launches; 0: no neighbour goes along */
};

/* The operand of add that is not `of`. alpha is 1: what is added to what does not matter. */
static const hr_tensor *other_operand(const hr_call *add, const void *of) {
  if (((const hr_add_args *)add->args)->alpha != 1.0f) return nullptr;
  if (add->in[0].data == of) return &add->in[1];
  return add->in[1].data == of ? &add->in[0] : nullptr;
}

static bool norm_goes_along(const up_group &g) {
  const hr_desc &x = g.norm->in[0].desc, &w = g.norm->in[1].desc;
  int64_t columns = desc_columns(x);
  const hr_call *calls[4] = {g.up};
  int count = 1;
  for (const hr_call *call : {g.dropout, g.add, g.norm})
    if (call) calls[count++] = call;
  return norm_tile_warps(columns) > 0 && w.dim[0] == columns && w.dtype == x.dtype &&
         x.dtype == g.up->in[0].desc.dtype && desc_rows(x) < INT32_MAX && g.up->in[2].data &&
         wide(g.norm->in[1].data, g.norm->in[2].data, g.norm->out[0].data) && calls_join(calls, count);
}

/* Results in between lie on each other: none but the last one is read later. */
static up_group up_group_of(const hr_launch *launches, size_t count) {
  up_group g = {};
  g.up = call_of(launches, count, 0, &hr_cuda_lora_up);
  const hr_lora_up_args &a = *(const hr_lora_up_args *)g.up->args;
  const void *y = g.up->out[0].data;
  if (g.up->in[0].desc.dtype == HR_F32 || !one_group(a) || a.columns % SLAB != 0 || !aligned(g.up->in[0].data, 4) ||
      !aligned(g.up->in[1].data, 4) || !wide(g.up->in[2].data, y))
    return g;
  size_t at = 1;
  g.gelu = call_of(launches, count, at, &hr_cuda_gelu);
  if (g.gelu) {
    const hr_call *calls[] = {g.up, g.gelu};
    if (g.gelu->in[0].data == y && wide(g.gelu->out[0].data) && calls_join(calls, 2)) g.count = 2;
    return g;
  }
  g.dropout = call_of(launches, count, at, &hr_cuda_dropout);
  if (g.dropout && (g.dropout->in[0].data != y || g.dropout->out[0].data != y)) return g;
  at += g.dropout ? 1 : 0;
  g.add = call_of(launches, count, at, &hr_cuda_add);
  if (g.add) {
    const hr_tensor *residual = other_operand(g.add, y);
    if (!residual || g.add->out[0].data != y || residual->data == y || !wide(residual->data)) return g;
  }
  at += g.add ? 1 : 0;
  g.norm = call_of(launches, count, at, &hr_cuda_layernorm);
  if (g.norm && g.norm->in[0].data == y && norm_goes_along(g)) g.count = at + 1;
  return g;
}

template <typename T, int RANK> static hr_status up_gelu_run(const up_group &g) {
  const hr_lora_up_args &a = *(const hr_lora_up_args *)g.up->args;
  T *y = (T *)g.up->out[0].data, *after = (T *)g.gelu->out[0].data, *kept = after == y ? nullptr : y;
  return by_tanh(g.gelu) ? up_slab_launch<T, RANK, SLAB_GELU_TANH>(g.up, a, kept, after)
                         : up_slab_launch<T, RANK, SLAB_GELU>(g.up, a, kept, after);
}

template <typename T> static hr_status up_norm_run(const up_group &g) {
  const hr_lora_up_args &a = *(const hr_lora_up_args *)g.up->args;
  up_norm<T> c = {};
  c.h = (const T *)g.up->in[0].data;
  c.weight = (const T *)g.up->in[1].data;
  c.y = (const T *)g.up->in[2].data;
  c.sum = (T *)g.up->out[0].data;
  c.scale = a.scale;
  if (g.dropout) c.mask = rows_mask_of(g.dropout);
  if (g.add) c.residual = (const T *)other_operand(g.add, c.sum)->data;
  c.norm = {(const T *)g.norm->in[1].data,
            (const T *)g.norm->in[2].data,
            (T *)g.norm->out[0].data,
            (float *)g.norm->out[1].data,
            desc_rows(g.norm->in[0].desc),
            a.columns,
            ((const hr_layernorm_args *)g.norm->args)->eps};
  return up_norm_launch(g.up, c, (int)a.rank);
}

template <typename T> static hr_status up_group_run(const up_group &g) {
  if (g.norm) return up_norm_run<T>(g);
  return ((const hr_lora_up_args *)g.up->args)->rank == 8 ? up_gelu_run<T, 8>(g) : up_gelu_run<T, 16>(g);
}

static hr_status up_take(const hr_launch *launches, size_t at, size_t count, size_t *taken) {
  up_group g = up_group_of(launches + at, count - at);
  *taken = g.count;
  if (g.count == 0) return HR_OK;
  return g.up->in[0].desc.dtype == HR_BF16 ? up_group_run<bf16>(g) : up_group_run<f16>(g);
}

/* ---- backward ---- */

/* Whether `front`, which makes dy, may be done by the kernel that reads it. That one writes sums into the workspace
 * while others still read; dh and dB are completed by a second kernel. */
static bool front_goes_along(const hr_call *front, const hr_call *bwd) {
  const hr_tensor &dy = front->out[0];
  const char *work = (const char *)bwd->workspace;
  span sums = {work, work + bwd->workspace_bytes};
  if (dy.data != bwd->in[0].data || overlap(span_of(dy), sums)) return false;
  for (int i = 0; i < front->n_in; i++)
    if (!same_or_apart(dy, front->in[i]) || !aligned(front->in[i].data, 16) || overlap(span_of(front->in[i]), sums))
      return false;
  return !overlap(span_of(dy), span_of(bwd->in[1])) && !overlap(span_of(dy), span_of(bwd->in[2])) &&
         !overlap(sums, span_of(bwd->in[1])) && !overlap(sums, span_of(bwd->in[2])) && aligned(dy.data, 16);
}

template <typename T, typename SOURCE> static hr_status bwd_group_run(const hr_call *bwd, const SOURCE &dy) {
  const hr_lora_up_args &a = ((const hr_lora_up_bwd_args *)bwd->args)->up;
  int64_t rows = desc_rows(bwd->in[0].desc);
  hr_lora_cuda l = hr__lora_cuda_of(rows, bwd->in[0].desc.dtype, &a);
  return by_dtype(bwd->out[1].desc.dtype, [&](auto p) {
    using P = decltype(p);
    return a.rank == 8 ? bwd_tile_launch<T, P, 8>(bwd, dy, a, l, rows) : bwd_tile_launch<T, P, 16>(bwd, dy, a, l, rows);
  });
}

template <typename T, bool TANH> static hr_status gelu_bwd_run(const hr_call *front, const hr_call *bwd) {
  dy_through_gelu<T, TANH> dy = {(const T *)front->in[0].data, (const T *)front->in[1].data, (T *)front->out[0].data,
                                 desc_columns(front->out[0].desc)};
  return bwd_group_run<T>(bwd, dy);
}

template <typename T> static hr_status front_run(const hr_call *front, const hr_call *bwd, bool gelu) {
  if (gelu) return by_tanh(front) ? gelu_bwd_run<T, true>(front, bwd) : gelu_bwd_run<T, false>(front, bwd);
  dy_dropped<T> dy = {(const T *)front->in[0].data, (T *)front->out[0].data, rows_mask_of(front), {}};
  return bwd_group_run<T>(bwd, dy);
}

hr_status hr__lora_bwd_take(const hr_launch *launches, size_t at, size_t count, size_t *taken) {
  const hr_call *gelu = call_of(launches + at, count - at, 0, &hr_cuda_gelu_bwd);
  const hr_call *front = gelu ? gelu : call_of(launches + at, count - at, 0, &hr_cuda_dropout);
  const hr_call *bwd = call_of(launches + at, count - at, 1, &hr_cuda_lora_up_bwd);
  *taken = 0;
  if (!front || !bwd || bwd->in[0].desc.dtype == HR_F32) return HR_OK;
  const hr_lora_up_args &a = ((const hr_lora_up_bwd_args *)bwd->args)->up;
  int64_t rows = desc_rows(bwd->in[0].desc);
  bool tiled = hr__lora_cuda_of(rows, bwd->in[0].desc.dtype, &a).tiled;
  if (!tiled || !one_group(a) || rows >= INT32_MAX || desc_columns(front->out[0].desc) != a.columns ||
      !front_goes_along(front, bwd))
    return HR_OK;
  *taken = 2;
  return bwd->in[0].desc.dtype == HR_BF16 ? front_run<bf16>(front, bwd, gelu) : front_run<f16>(front, bwd, gelu);
}

#endif
