/* See bench.h: one node, at a few positions of the ring. */
#include "measure/bench.h"

#include "base/mem.h"
#include "measure/benching.h"

enum { RING_POSITIONS = HR_BENCH_CALLS + 1, GPU_LAUNCHES = 4 };
enum { GPU_COLD_BYTES = 192 << 20 }; /* larger than any cache */

/* A node bound at a few positions of the ring, on a GPU several times around. */
typedef struct bound {
  hr_launch launches[RING_POSITIONS];
  int count;
} bound;

static hr_status bound_call(void *arg, int index) {
  const bound *b = arg;
  const hr_launch *launch = &b->launches[(index + b->count) % b->count];
  return launch->kernel->run(&launch->call);
}

/* Where time goes into 16-bit arithmetic, which takes a card to its power limit: below so many operations on a byte a
 * GPU waits for its memory, and f32 leaves the clocks as they are (an H200's f32 step was 14 % below a prediction that
 * had them follow). */
static bool node_follows_clocks(const hr_device *device, const hr_op *op, const hr_op_view *view) {
  static const double flops_per_byte = 100;
  size_t bytes;
  hr_cost cost = {0};
  op->cost(view, &cost);
  bool narrow = cost.narrow || (cost.n_products > 0 && cost.products[0].dtype != HR_F32);
  return narrow && hr__bench_bytes(device, op, view, 1, &bytes) && cost.flops > flops_per_byte * (double)bytes;
}

/* Binds all positions before the first call: then calls follow each other as in a step, with the threads awake. Where
 * few positions fill the ring, a recording goes round more than once, so that the gap between two recordings, longer
 * than that between two nodes, counts little; not with groups, which would have the same tensor twice. */
static hr_status bound_time(hr_bench_ring *ring, const hr_op *op, const hr_op_view *view, uint32_t dead, int threads,
                            hr_tensor *tensors, int positions, bound *b, double *seconds, hr_error *err) {
  size_t each = ring->bytes / (size_t)positions / HR_BENCH_LINE * HR_BENCH_LINE;
  for (int p = 0; p < positions; p++, b->count++) {
    hr_bench_block memory = {ring->base + (size_t)p * each, 0, each};
    HR_TRY(hr__bench_bind(ring->device, op, view, dead, threads, &memory, p > 0 ? &b->launches[0] : NULL,
                          tensors + p * (view->n_in + view->n_out), &b->launches[p], err));
  }
  for (int p = 0; p < positions; p++)
    HR_TRY(hr__bench_fill(ring, &b->launches[p], view, err));
  if (ring->device->facts.kind == HR_CPU) {
    hr_status status = hr__bench_calls(bound_call, b, seconds);
    return status == HR_OK ? HR_OK : hr__fail(err, status, op->name, NULL, "the kernel failed while it was timed");
  }
  int launches = positions;
  for (; launches < GPU_LAUNCHES && !op->grouped; launches++)
    b->launches[launches] = b->launches[launches - positions];
  return hr__bench_recorded(ring, b->launches, (size_t)launches, node_follows_clocks(ring->device, op, view), seconds,
                            err);
}

/* On a GPU no more than make what is read cold: there each one may try library algorithms before it is bound. */
static int positions_of(const hr_bench_ring *ring, size_t bytes) {
  size_t room = ring->bytes / bytes, cold = GPU_COLD_BYTES / bytes + 1;
  if (ring->pattern && cold < room) room = cold;
  return room < RING_POSITIONS ? (int)room : RING_POSITIONS;
}

static bool dtype_is_known(hr_device_kind kind, const hr_op *op, const hr_op_view *view) {
  bool by_input = op->typed_by < view->n_in && view->in[op->typed_by].rank > 0;
  hr_dtype dtype = by_input ? view->in[op->typed_by].dtype : view->out[0].dtype;
  return op->dtypes[kind] & HR_DTYPE_BIT(dtype);
}

hr_status hr__bench_node(hr_bench_ring *ring, const hr_op *op, const hr_op_view *view, uint32_t dead, int threads,
                         double *seconds, hr_error *err) {
  size_t bytes;
  const hr_kernel *kernel = hr__bench_kernel(ring->device, op);
  if (!kernel || !dtype_is_known(ring->device->facts.kind, op, view))
    return hr__fail(err, HR_UNSUPPORTED, op->name, NULL, "there is no kernel of it for %s", ring->device->facts.name);
  if (!hr__bench_bytes(ring->device, op, view, threads, &bytes)) return hr__nomem(err);
  HR_TRY(hr__bench_ring_grow(ring, bytes, err));
  int positions = positions_of(ring, bytes);
  hr_tensor *tensors = hr__alloc_zero((size_t)(positions * (view->n_in + view->n_out)), sizeof *tensors);
  if (!tensors) return hr__nomem(err);
  bound b = {0};
  if (!ring->pattern) hr__bench_ring_fill(ring);
  hr_status status = bound_time(ring, op, view, dead, threads, tensors, positions, &b, seconds, err);
  for (int p = 0; p < b.count; p++)
    if (kernel->release && b.launches[p].call.prepared) kernel->release(b.launches[p].call.prepared);
  hr__free(tensors);
  return status;
}

hr_status hr__bench_op(hr_bench_ring *ring, const hr_bench_case *what, int threads, double *seconds, hr_cost *cost,
                       hr_error *err) {
  hr_desc out[HR_OP_OPERANDS] = {0};
  hr_op_view view = {.in = what->in,
                     .out = out,
                     .n_in = what->n_in,
                     .n_out = hr__op_results(what->op, what->args),
                     .args = what->args};
  HR_TRY(what->op->shape(&view, out, err));
  *cost = (hr_cost){0};
  view.kind = ring->device->facts.kind;
  what->op->cost(&view, cost);
  return hr__bench_node(ring, what->op, &view, 0, threads, seconds, err);
}
