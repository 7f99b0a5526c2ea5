/* See bench.h. Operands get harmless numbers; then there is one call to warm up, and calls until there are enough of
 * them or enough time has gone by. */
#include "run/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/checked.h"
#include "base/mem.h"

enum { CALLS_MOST = 15, CALLS_LEAST = 3, LINE = 256 };
enum { RING_BYTES = 96 << 20, RING_POSITIONS = CALLS_MOST + 1 };
enum { GPU_RING_BYTES = 512 << 20, GPU_COLD_BYTES = 192 << 20 }; /* the second is larger than any cache */
static const double enough_seconds = 0.02, most_seconds = 0.25;

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Call number `index`; -1 is the one that warms up. */
typedef hr_status (*call_fn)(void *arg, int index);

static hr_status calls_time(call_fn call, void *arg, double *seconds) {
  double times[CALLS_MOST];
  HR_TRY(call(arg, -1));
  int count = 0;
  double begin = seconds_now(), end = begin;
  while (count < CALLS_MOST && end - begin < (count < CALLS_LEAST ? most_seconds : enough_seconds)) {
    double at = seconds_now();
    HR_TRY(call(arg, count));
    end = seconds_now();
    times[count++] = end - at;
  }
  qsort(times, (size_t)count, sizeof times[0], ascending);
  *seconds = times[count / 2];
  return HR_OK;
}

typedef struct dispatch {
  hr_device *device;
  int threads;
} dispatch;

static void task_nothing(void *arg, int64_t task, int worker) {
  (void)arg, (void)task, (void)worker;
}

static hr_status dispatch_call(void *arg, int index) {
  (void)index;
  const dispatch *d = arg;
  hr__pool_run(d->device->pool, d->threads, d->threads, task_nothing, NULL);
  return HR_OK;
}

double hr__bench_dispatch(hr_device *device, int threads) {
  dispatch d = {device, threads};
  double seconds = 0;
  (void)calls_time(dispatch_call, &d, &seconds); /* an empty task cannot fail */
  return seconds;
}

/* --- buffers: one mapping, handed out in lines -------------------------------------------------------------------- */

typedef struct block {
  char *base;
  size_t used, bytes;
} block;

static hr_status block_create(block *b, size_t bytes, hr_error *err) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return hr__nomem(err);
  *b = (block){memory, 0, bytes};
  return HR_OK;
}

static void *block_take(block *b, size_t bytes) {
  void *taken = b->base + b->used;
  b->used += (bytes + LINE - 1) / LINE * LINE;
  return taken;
}

static void *block_take_filled(block *b, hr_dtype dtype, int64_t count) {
  float value = 0.01f;
  size_t bytes = (size_t)count * hr_dtype_bytes(dtype);
  char *data = block_take(b, bytes);
  uint16_t half = dtype == HR_F16 ? hr__f32_to_f16(value) : hr__f32_to_bf16(value);
  for (int64_t i = 0; i < count; i++) {
    if (dtype == HR_F32) memcpy(data + 4 * i, &value, 4);
    if (dtype == HR_BF16 || dtype == HR_F16) memcpy(data + 2 * i, &half, 2);
  }
  return data;
}

/* --- the ring ----------------------------------------------------------------------------------------------------- */

static hr_status ring_map(hr_bench_ring *ring, size_t bytes, hr_error *err) {
  if (ring->device->facts.kind == HR_CPU) {
    block memory = {0};
    HR_TRY(block_create(&memory, bytes, err));
    ring->base = memory.base;
  } else {
    void *base = NULL;
    HR_TRY(ring->device->functions->arena_create(ring->device, HR_TIER_DEVICE, bytes, &base, err));
    ring->base = base;
  }
  ring->bytes = bytes;
  return HR_OK;
}

static void ring_unmap(hr_bench_ring *ring) {
  if (ring->base && ring->device->facts.kind == HR_CPU)
    munmap(ring->base, ring->bytes);
  else if (ring->base)
    ring->device->functions->arena_destroy(ring->device, HR_TIER_DEVICE, ring->base, ring->bytes);
  ring->base = NULL;
  ring->bytes = 0;
}

/* Two bf16, or one f32, of either sign and about 0.01 in each word: products of equal numbers draw less power than
 * those of a step, and so run faster. */
static void pattern_make(uint32_t *words, size_t count) {
  uint32_t state = 1;
  for (size_t i = 0; i < count; i++) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    words[i] = (state & 0x807f807fu) | 0x3c003c00u;
  }
}

hr_status hr__bench_ring_create(hr_device *device, hr_bench_ring *ring, hr_error *err) {
  *ring = (hr_bench_ring){.device = device, .sample_seconds = 10e-3};
  if (device->facts.kind == HR_CPU) return ring_map(ring, RING_BYTES, err);
  void *pattern = NULL;
  HR_TRY(device->functions->arena_create(device, HR_TIER_HOST, HR_BENCH_PATTERN, &pattern, err));
  ring->pattern = pattern;
  pattern_make(pattern, HR_BENCH_PATTERN / sizeof(uint32_t));
  hr_status status = ring_map(ring, GPU_RING_BYTES, err);
  if (status != HR_OK) hr__bench_ring_destroy(ring);
  return status;
}

void hr__bench_ring_destroy(hr_bench_ring *ring) {
  ring_unmap(ring);
  if (ring->pattern)
    ring->device->functions->arena_destroy(ring->device, HR_TIER_HOST, ring->pattern, HR_BENCH_PATTERN);
  *ring = (hr_bench_ring){0};
}

/* The first `bytes`. On the CPU words that are 0.01 as one f32 and as two bf16, and all of it: walking over it also
 * puts what was there out of the caches. */
static hr_status ring_fill(const hr_bench_ring *ring, size_t bytes, hr_error *err) {
  if (!ring->pattern) {
    uint32_t *words = (uint32_t *)(void *)ring->base;
    for (size_t i = 0; i < ring->bytes / sizeof *words; i++)
      words[i] = 0x3c243c24u;
    return HR_OK;
  }
  for (size_t at = 0; at < bytes; at += HR_BENCH_PATTERN) {
    size_t part = bytes - at < HR_BENCH_PATTERN ? bytes - at : HR_BENCH_PATTERN;
    HR_TRY(ring->device->functions->copy(ring->device, HR_COPY_TO_DEVICE, ring->base + at, ring->pattern, part, err));
  }
  return HR_OK;
}

/* --- recordings --------------------------------------------------------------------------------------------------- */

enum { SAMPLES = 5, REPLAYS = 512 };

static hr_status replays_time(hr_device *device, hr_recording *recording, int replays, double *seconds, hr_error *err) {
  double begin = seconds_now();
  for (int i = 0; i < replays; i++) {
    size_t failed;
    hr_status status = device->functions->replay(device, recording, &failed);
    if (status != HR_OK) return hr__fail(err, status, NULL, NULL, "a recording failed while it was timed");
  }
  HR_TRY(device->functions->synchronize(device, err));
  *seconds = (seconds_now() - begin) / replays;
  return HR_OK;
}

/* A sample is long beside the wait at its end, and a GPU that is busy for long has the clocks that it can keep. */
static hr_status recording_time(hr_device *device, hr_recording *recording, double sample_seconds, double *seconds,
                                hr_error *err) {
  double times[SAMPLES];
  HR_TRY(replays_time(device, recording, 1, &times[0], err)); /* warms up */
  HR_TRY(replays_time(device, recording, 1, &times[0], err));
  double fill = sample_seconds / times[0];
  int replays = fill < 1 ? 1 : fill > REPLAYS ? REPLAYS : (int)fill;
  int samples = times[0] < most_seconds / SAMPLES ? SAMPLES : 1;
  for (int i = 0; i < samples; i++)
    HR_TRY(replays_time(device, recording, replays, &times[i], err));
  qsort(times, (size_t)samples, sizeof times[0], ascending);
  *seconds = times[samples / 2];
  return HR_OK;
}

static hr_status recorded_time(const hr_bench_ring *ring, const hr_launch *launches, size_t count, double *seconds,
                               hr_error *err) {
  hr_device *device = ring->device;
  hr_recording *recording = NULL;
  size_t failed;
  HR_TRY(device->functions->record(device, launches, count, &recording, &failed, err));
  hr_status status = recording_time(device, recording, ring->sample_seconds, seconds, err);
  device->functions->recording_destroy(device, recording);
  if (status == HR_OK) *seconds /= (double)count;
  return status;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

/* A node bound at a few positions of the ring. */
typedef struct bound {
  hr_launch launches[RING_POSITIONS];
  int count;
} bound;

static hr_status bound_call(void *arg, int index) {
  const bound *b = arg;
  const hr_launch *launch = &b->launches[(index + b->count) % b->count];
  return launch->kernel->run(&launch->call);
}

/* Which input a result is written over, or -1. */
static int result_over(const hr_op *op, const hr_op_view *view, uint32_t dead, int out) {
  for (int a = 0; a < op->n_alias; a++) {
    const hr_alias *alias = &op->alias[a];
    if (alias->out != out || alias->in >= view->n_in || view->in[alias->in].rank == 0) continue;
    bool same = hr_desc_bytes(&view->in[alias->in]) == hr_desc_bytes(&view->out[out]);
    if (alias->kind != HR_ALIAS_MAY || (same && (dead >> alias->in & 1))) return alias->in;
  }
  return -1;
}

/* Integer operands are rows of a table: below the rows of the smallest matrix there is. */
static int64_t index_below(const hr_op_view *view) {
  int64_t below = INT32_MAX;
  for (int i = 0; i < view->n_in + view->n_out; i++) {
    const hr_desc *desc = i < view->n_in ? &view->in[i] : &view->out[i - view->n_in];
    if (desc->rank == 2 && desc->dtype != HR_I32 && desc->dim[0] > 0 && desc->dim[0] < below) below = desc->dim[0];
  }
  return below == INT32_MAX ? 1 : below;
}

static hr_status indices_fill(hr_device *device, void *data, int64_t count, int64_t below, hr_error *err) {
  int32_t *indices = hr__alloc_zero((size_t)count, sizeof *indices);
  if (!indices) return hr__nomem(err);
  for (int64_t i = 0; i < count; i++)
    indices[i] = (int32_t)((i * 7919) % below);
  hr_status status = device->functions->copy(device, HR_COPY_TO_DEVICE, data, indices, (size_t)count * 4, err);
  hr__free(indices);
  return status;
}

/* Numbers where the ring's words are none. */
static hr_status operand_fill(hr_device *device, void *data, const hr_desc *desc, int64_t below, hr_error *err) {
  static const hr_control control = {.step = 1,
                                     .learning_rate = 1e-6f,
                                     .bias_correction1 = 0.1f,
                                     .bias_correction2 = 0.001f,
                                     .loss_weight = 1e-3f,
                                     .loss_scale = 1};
  int64_t count = hr_desc_count(desc);
  if (desc->dtype == HR_I32 && count > 0) return indices_fill(device, data, count, below, err);
  if (desc->dtype == HR_U8 && count == (int64_t)sizeof control)
    return device->functions->copy(device, HR_COPY_TO_DEVICE, data, &control, sizeof control, err);
  return HR_OK;
}

static void tensor_set(hr_tensor *tensor, void *data, const hr_desc *desc) {
  *tensor = (hr_tensor){.data = data, .desc = *desc};
  int64_t step = 1;
  for (int d = desc->rank - 1; d >= 0; d--) {
    tensor->stride[d] = step;
    step *= desc->dim[d];
  }
}

/* One launch with its operands one after another in `memory`. */
static hr_status launch_bind(hr_device *device, const hr_op *op, const hr_op_view *view, uint32_t dead, int threads,
                             block *memory, hr_tensor *tensors, hr_launch *launch, hr_error *err) {
  hr_tensor *in = tensors, *out = tensors + view->n_in;
  int64_t below = index_below(view);
  for (int i = 0; i < view->n_in; i++) {
    if (view->in[i].rank == 0) continue;
    tensor_set(&in[i], block_take(memory, hr_desc_bytes(&view->in[i])), &view->in[i]);
    HR_TRY(operand_fill(device, in[i].data, &view->in[i], below, err));
  }
  for (int j = 0; j < view->n_out; j++) {
    int over = result_over(op, view, dead, j);
    tensor_set(&out[j], over >= 0 ? in[over].data : block_take(memory, hr_desc_bytes(&view->out[j])), &view->out[j]);
  }
  size_t workspace = op->workspace ? op->workspace(view, device->facts.kind, threads) : 0;
  launch->call = (hr_call){.in = in,
                           .out = out,
                           .n_in = view->n_in,
                           .n_out = view->n_out,
                           .args = view->args,
                           .workspace = workspace ? block_take(memory, workspace) : NULL,
                           .workspace_bytes = workspace,
                           .threads = threads,
                           .device = device};
  launch->kernel = hr__bench_kernel(device, op);
  return launch->kernel->prepare ? launch->kernel->prepare(&launch->call, &launch->call.prepared, err) : HR_OK;
}

const hr_kernel *hr__bench_kernel(hr_device *device, const hr_op *op) {
  const hr_kernel *kernel = device->functions->kernel ? device->functions->kernel(device, op->name) : &op->cpu;
  return kernel && kernel->run ? kernel : NULL;
}

bool hr__bench_bytes(const hr_device *device, const hr_op *op, const hr_op_view *view, int threads, size_t *bytes) {
  *bytes = LINE * ((size_t)(view->n_in + view->n_out) + 2);
  for (int i = 0; i < view->n_in; i++)
    if (view->in[i].rank > 0 && !hr__add_size(*bytes, hr_desc_bytes(&view->in[i]), bytes)) return false;
  for (int j = 0; j < view->n_out; j++)
    if (!hr__add_size(*bytes, hr_desc_bytes(&view->out[j]), bytes)) return false;
  return !op->workspace || hr__add_size(*bytes, op->workspace(view, device->facts.kind, threads), bytes);
}

/* Binds all positions before the first call: then calls follow each other as in a step, with the threads awake. */
static hr_status bound_time(const hr_bench_ring *ring, const hr_op *op, const hr_op_view *view, uint32_t dead,
                            int threads, hr_tensor *tensors, int positions, bound *b, double *seconds, hr_error *err) {
  size_t each = ring->bytes / (size_t)positions / LINE * LINE;
  for (int p = 0; p < positions; p++, b->count++) {
    block memory = {ring->base + (size_t)p * each, 0, each};
    HR_TRY(launch_bind(ring->device, op, view, dead, threads, &memory, tensors + p * (view->n_in + view->n_out),
                       &b->launches[p], err));
  }
  if (ring->device->facts.kind != HR_CPU) return recorded_time(ring, b->launches, (size_t)b->count, seconds, err);
  hr_status status = calls_time(bound_call, b, seconds);
  return status == HR_OK ? HR_OK : hr__fail(err, status, op->name, NULL, "the kernel failed while it was timed");
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
  if (bytes > ring->bytes) {
    ring_unmap(ring);
    HR_TRY(ring_map(ring, bytes, err));
  }
  int positions = positions_of(ring, bytes);
  hr_tensor *tensors = hr__alloc_zero((size_t)(positions * (view->n_in + view->n_out)), sizeof *tensors);
  if (!tensors) return hr__nomem(err);
  bound b = {0};
  hr_status status = ring_fill(ring, (size_t)positions * bytes, err);
  if (status == HR_OK) status = bound_time(ring, op, view, dead, threads, tensors, positions, &b, seconds, err);
  for (int p = 0; p < b.count; p++)
    if (kernel->release && b.launches[p].call.prepared) kernel->release(b.launches[p].call.prepared);
  hr__free(tensors);
  return status;
}

hr_status hr__bench_op(hr_bench_ring *ring, const hr_bench_case *what, int threads, double *seconds, hr_cost *cost,
                       hr_error *err) {
  hr_desc out[HR_OP_OPERANDS] = {0};
  hr_op_view view = {.in = what->in, .out = out, .n_in = what->n_in, .n_out = what->op->n_out, .args = what->args};
  HR_TRY(what->op->shape(&view, out, err));
  *cost = (hr_cost){0};
  what->op->cost(&view, cost);
  return hr__bench_node(ring, what->op, &view, 0, threads, seconds, err);
}

/* --- products ----------------------------------------------------------------------------------------------------- */

typedef struct product_run {
  hr_gemm *gemm;
  hr_device *device;
  int threads;
  const void *a, *b;
  void *c, *workspace;
} product_run;

static hr_status product_call(void *arg, int index) {
  (void)index;
  const product_run *run = arg;
  return hr__gemm_run(run->gemm, run->device->pool, run->threads, run->a, run->b, run->c, run->workspace);
}

static hr_status product_timed(hr_device *device, const hr_gemm_spec *spec, int threads, block *memory,
                               const hr_desc matrices[3], size_t workspace, double *seconds, hr_error *err) {
  product_run run = {.device = device, .threads = threads};
  void *operands[3];
  for (int i = 0; i < 3; i++)
    operands[i] = block_take_filled(memory, matrices[i].dtype, hr_desc_count(&matrices[i]));
  run.a = operands[0];
  run.b = operands[1];
  run.c = operands[2];
  run.workspace = block_take(memory, workspace);
  HR_TRY(hr__gemm_create(spec, threads, NULL, &run.gemm, err));
  hr_status status = calls_time(product_call, &run, seconds);
  hr__gemm_destroy(run.gemm);
  return status == HR_OK ? HR_OK
                         : hr__fail(err, status, "matrix product", NULL, "the library failed while it was timed");
}

hr_status hr__bench_product(hr_device *device, const hr_gemm_spec *spec, int threads, double *seconds, hr_error *err) {
  hr_desc matrices[3] = {
      {spec->a, 2, {spec->m, spec->k}}, {spec->b, 2, {spec->k, spec->n}}, {spec->c, 2, {spec->m, spec->n}}};
  size_t workspace = hr__gemm_workspace(spec, threads), bytes;
  if (!hr__add_size(workspace, LINE * 8, &bytes)) return hr__nomem(err);
  for (int i = 0; i < 3; i++)
    if (!hr__add_size(bytes, hr_desc_bytes(&matrices[i]), &bytes)) return hr__nomem(err);
  block memory = {0};
  HR_TRY(block_create(&memory, bytes, err));
  hr_status status = product_timed(device, spec, threads, &memory, matrices, workspace, seconds, err);
  munmap(memory.base, memory.bytes);
  return status;
}
