/* dropout: see dropout.h. Axis 0 of x counts samples; a task works on a chunk of one sample. */
#include "op/dropout.h"

#include <stddef.h>
#include <string.h>

#include "graph/adjoint.h"
#include "op/shapes.h"
#include "op/stream.h"

uint64_t hr__dropout_uses(const hr_builder *b) {
  const hr_graph *g = b->graph;
  uint64_t count = 0;
  for (size_t n = 0; n < g->n_nodes; n++)
    count += g->nodes[n].op->random && g->nodes[n].program == b->program && b->module &&
             strcmp(g->nodes[n].module, b->module) == 0;
  return count;
}

hr_id hr__dropout(hr_builder *b, hr_id x, float p) {
  hr_dropout_args args = {.p = p, .use = hr__dropout_uses(b)};
  return hr__emit(b, &hr_op_dropout, (hr_id[]){x, hr__control(b)}, 2, &args);
}

static hr_status dropout_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_dropout_args *args = view->args;
  hr_desc control = {HR_U8, 1, {(int64_t)sizeof(hr_control)}};
  HR_TRY(hr__shape_operands(view, 2, 0, err));
  HR_TRY(hr__shape_float(view, 0, err));
  HR_TRY(hr__shape_like(view, 1, &control, err));
  if (!(args->p >= 0.0f && args->p < 1.0f) || args->first < 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "drops a part of %g from row %lld on", (double)args->p,
                    (long long)args->first);
  out[0] = view->in[0];
  return HR_OK;
}

/* The same mask on the gradient. */
static void dropout_grad(hr_adjoint *a, const hr_node *node) {
  hr_id dy = hr__out_grad(a, 0);
  if (dy == HR_NONE || !hr__wants_grad(a, 0)) return;
  hr_id in[] = {dy, hr__saved_in(a, 1)};
  hr__grad_add(a, 0, hr__emit(hr__adjoint_builder(a), &hr_op_dropout, in, 2, node->args));
}

static void dropout_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, 16.0 * (double)hr_desc_count(&view->in[0]), cost);
}

_Static_assert((int)HR_MASK_MOST == (int)HR_BLOCK, "a block of a stream is drawn at once");

HR_CLONES void hr__mask_lanes(uint64_t key, uint64_t sample, int64_t first, int64_t n, uint16_t *lanes) {
  int64_t block = first / HR_MASK_LANES, skip = first % HR_MASK_LANES;
  uint32_t words[(HR_MASK_MOST + HR_MASK_LANES) / 2];
  for (int64_t i = 0; i < skip + n; i += HR_MASK_LANES)
    hr__mask_draw(key, sample, (uint64_t)(block + i / HR_MASK_LANES), words + i / 2);
  memcpy(lanes, (const uint16_t *)words + skip, (size_t)n * sizeof *lanes); /* little-endian: the lower half first */
}

HR_INLINE int64_t sample_chunks(const hr_desc *desc) {
  return hr__chunks(hr_desc_count(desc) / desc->dim[0], HR_CHUNK);
}

HR_CLONES static void dropout_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_dropout_args *args = call->args;
  const hr_control *control = call->in[1].data;
  const hr_tensor *x = &call->in[0], *y = &call->out[0];
  int64_t row = task / sample_chunks(&x->desc), each = hr_desc_count(&x->desc) / x->desc.dim[0];
  hr_range chunk = hr__chunk(each, HR_CHUNK, task % sample_chunks(&x->desc));
  uint64_t key = hr__dropout_key(control->seed, call->stream_key, control->step, args->use);
  uint64_t sample = control->sample + (uint64_t)(args->first + row);
  uint32_t limit = hr__mask_limit(args->p);
  float scale = hr__mask_scale(limit);
  float from_block[HR_BLOCK], block[HR_BLOCK];
  uint16_t lanes[HR_BLOCK];
  (void)worker;

  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at), first = row * each + at;
    hr__mask_lanes(key, sample, at, n, lanes);
    const float *from = hr__load(x, first, n, from_block);
    float *to = hr__target(y, first, block);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] = lanes[i] >= limit ? from[i] * scale : 0.0f;
    hr__store(y, first, n, to);
  }
}

static hr_status dropout_run(const hr_call *call) {
  const hr_desc *x = &call->in[0].desc;
  hr__pool_run(call->device->pool, call->threads, x->dim[0] * sample_chunks(x), dropout_task, (void *)(uintptr_t)call);
  return HR_OK;
}

static const hr_sample dropout_samples[] = {
    {.n_in = 2,
     .in = {{HR_F32, 3, {4, 16, 32}}, {HR_U8, 1, {sizeof(hr_control)}}},
     .args = &(const hr_dropout_args){.p = 0.25f}},
    {.n_in = 2,
     .in = {{HR_F32, 3, {3, 7, 13}}, {HR_U8, 1, {sizeof(hr_control)}}},
     .args = &(const hr_dropout_args){.p = 0.5f, .first = 2, .use = 1}},
    {.n_in = 2,
     .in = {{HR_F32, 2, {2, 40001}}, {HR_U8, 1, {sizeof(hr_control)}}},
     .args = &(const hr_dropout_args){.p = 0.1f}},
};

const hr_op hr_op_dropout = {
    .name = "dropout",
    .n_in = 2,
    .n_out = 1,
    .light = true,
    .random = true,
    .sample_at = offsetof(hr_dropout_args, first),
    .args_bytes = sizeof(hr_dropout_args),
    .saves = HR_SAVE_IN(1),
    .computes = 1u << 0,
    .alias = {{0, 0, HR_ALIAS_MAY}},
    .n_alias = 1,
    .axes = HR_AXES_BATCH,
    .shares = 1u << 1,
    .dtypes = {[HR_CPU] = HR_FLOATS, [HR_CUDA] = HR_FLOATS},
    .shape = dropout_shape,
    .grad = dropout_grad,
    .cost = dropout_cost,
    .cpu = {.run = dropout_run},
    .samples = dropout_samples,
    .n_samples = sizeof dropout_samples / sizeof *dropout_samples,
};
