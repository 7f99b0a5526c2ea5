/* See bench.h. Operands get harmless numbers; then there is one call to warm up, and calls until there are enough of
 * them or enough time has gone by. */
#include "run/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/checked.h"
#include "base/mem.h"
#include "op/linear.h"

enum { CALLS_MOST = 15, CALLS_LEAST = 3, LINE = 256 };
enum { RING_BYTES = 96 << 20, RING_POSITIONS = CALLS_MOST + 1, GPU_LAUNCHES = 4 };
enum { GPU_RING_BYTES = 512 << 20, GPU_COLD_BYTES = 192 << 20 }; /* the second is larger than any cache */
static const double enough_seconds = 0.02, most_seconds = 0.25;

static hr_status clock_create(hr_bench_ring *ring, hr_error *err);
static void clock_destroy(hr_bench_ring *ring);

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

/* A bf16 of mean 0 and deviation 0.02: the sum of four signed bytes, nearly normal. */
static uint32_t pattern_value(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  int sum = 0;
  for (int byte = 0; byte < 4; byte++)
    sum += (int8_t)(*state >> (8 * byte) & 0xff);
  float value = (float)sum * (0.02f / 148);
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits >> 16;
}

/* Two bf16, or one f32, in each word, spread as weights and activations are: the power that a product draws follows
 * from how many bits change from one number to the next, and from power the clocks. */
static void pattern_make(uint32_t *words, size_t count) {
  enum { PERIOD = 1 << 18 }; /* a megabyte; drawing all of them would take as long as measuring */
  uint32_t state = 1;
  for (size_t i = 0; i < count && i < PERIOD; i++) {
    uint32_t low = pattern_value(&state);
    words[i] = low | pattern_value(&state) << 16;
  }
  for (size_t i = PERIOD; i < count; i++)
    words[i] = words[i - PERIOD];
}

hr_status hr__bench_ring_create(hr_device *device, hr_bench_ring *ring, hr_error *err) {
  *ring = (hr_bench_ring){.device = device, .sample_seconds = 2e-3};
  if (device->facts.kind == HR_CPU) return ring_map(ring, RING_BYTES, err);
  void *pattern = NULL;
  HR_TRY(device->functions->arena_create(device, HR_TIER_HOST, HR_BENCH_PATTERN, &pattern, err));
  ring->pattern = pattern;
  pattern_make(pattern, HR_BENCH_PATTERN / sizeof(uint32_t));
  hr_status status = ring_map(ring, GPU_RING_BYTES, err);
  if (status == HR_OK && device->functions->mark) status = clock_create(ring, err);
  if (status != HR_OK) hr__bench_ring_destroy(ring);
  return status;
}

void hr__bench_ring_destroy(hr_bench_ring *ring) {
  if (ring->clock) clock_destroy(ring);
  ring_unmap(ring);
  if (ring->pattern)
    ring->device->functions->arena_destroy(ring->device, HR_TIER_HOST, ring->pattern, HR_BENCH_PATTERN);
  *ring = (hr_bench_ring){0};
}

/* On the CPU all of it, with words that are 0.01 as one f32 and as two bf16: walking over it also puts what was there
 * out of the caches. */
static void ring_fill(const hr_bench_ring *ring) {
  uint32_t *words = (uint32_t *)(void *)ring->base;
  for (size_t i = 0; i < ring->bytes / sizeof *words; i++)
    words[i] = 0x3c243c24u;
}

/* On a GPU by operands, when they are bound: trying algorithms has left zeros in some, which draw less power. Straight
 * out of pinned memory: copies in the order of launches go through another of the host's, which takes several times as
 * long. */
static hr_status pattern_fill(const hr_bench_ring *ring, char *data, size_t bytes, hr_error *err) {
  const hr_device_functions *functions = ring->device->functions;
  hr_status (*copy)(hr_device *, hr_copy, void *, const void *, size_t, hr_error *) =
      functions->copy_beside ? functions->copy_beside : functions->copy;
  for (size_t at = 0; at < bytes; at += HR_BENCH_PATTERN) {
    size_t part = bytes - at < HR_BENCH_PATTERN ? bytes - at : HR_BENCH_PATTERN;
    HR_TRY(copy(ring->device, HR_COPY_TO_DEVICE, data + at, ring->pattern, part, err));
  }
  return HR_OK;
}

/* --- recordings --------------------------------------------------------------------------------------------------- */

enum { SAMPLES = 3, REPLAYS = 128 };

static hr_status replays_start(hr_device *device, hr_recording *recording, int replays, hr_error *err) {
  for (int i = 0; i < replays; i++) {
    size_t failed;
    hr_status status = device->functions->replay(device, recording, &failed);
    if (status != HR_OK) return hr__fail(err, status, NULL, NULL, "a recording failed while it was timed");
  }
  return HR_OK;
}

static hr_status replays_time(hr_device *device, hr_recording *recording, int replays, double *seconds, hr_error *err) {
  double begin = seconds_now();
  HR_TRY(replays_start(device, recording, replays, err));
  HR_TRY(device->functions->synchronize(device, err));
  *seconds = (seconds_now() - begin) / replays;
  return HR_OK;
}

/* A part of a sequence of replays. */
typedef struct stretch {
  hr_recording *recording;
  int replays;
  double seconds; /* of one replay */
} stretch;
enum { STRETCHES = SAMPLES + 2 };

/* The product that goes along, on memory of its own. */
struct hr_bench_clock {
  char *memory;
  size_t bytes;
  hr_tensor tensors[5];
  hr_launch launches[4];
  void *prepared;
  hr_recording *recording;
  double settled; /* seconds of a replay when it has run for long */
  hr_mark *marks[STRETCHES + 1];
};

/* Stretches one after another, without a pause, by the device's own clock: it may be through with the first of them
 * before the caller has sent the last. */
static hr_status stretches_time(hr_bench_ring *ring, stretch *stretches, int count, hr_error *err) {
  hr_device *device = ring->device;
  hr_mark **marks = ring->clock->marks;
  HR_TRY(device->functions->mark(device, &marks[0], err));
  for (int i = 0; i < count; i++) {
    HR_TRY(replays_start(device, stretches[i].recording, stretches[i].replays, err));
    HR_TRY(device->functions->mark(device, &marks[i + 1], err));
  }
  HR_TRY(device->functions->reach(device, marks[count], err));
  for (int i = 0; i < count; i++) {
    double seconds;
    HR_TRY(device->functions->between(device, marks[i], marks[i + 1], &seconds, err));
    stretches[i].seconds = seconds / stretches[i].replays;
  }
  return HR_OK;
}

static int replays_for(double seconds, double once) {
  double fill = seconds / once;
  return fill < 1 ? 1 : fill > REPLAYS ? REPLAYS : (int)fill;
}

static double samples_median(double *times, int count) {
  qsort(times, (size_t)count, sizeof times[0], ascending);
  return times[count / 2];
}

/* Samples between two stretches of the clock; *slower: what a node that follows clocks takes longer in the long run. */
static hr_status clocked_time(hr_bench_ring *ring, hr_recording *recording, int replays, double *seconds,
                              double *slower, hr_error *err) {
  const hr_bench_clock *clock = ring->clock;
  stretch all[STRETCHES];
  int clocks = replays_for(ring->sample_seconds, clock->settled);
  for (int i = 0; i < STRETCHES; i++)
    all[i] = (stretch){.recording = recording, .replays = replays};
  all[0] = all[STRETCHES - 1] = (stretch){.recording = clock->recording, .replays = clocks};
  HR_TRY(stretches_time(ring, all, STRETCHES, err));
  double times[SAMPLES];
  for (int i = 0; i < SAMPLES; i++)
    times[i] = all[i + 1].seconds;
  *seconds = samples_median(times, SAMPLES);
  *slower = clock->settled / (0.5 * (all[0].seconds + all[STRETCHES - 1].seconds));
  return HR_OK;
}

static hr_status plain_time(hr_bench_ring *ring, hr_recording *recording, int replays, double *seconds, hr_error *err) {
  double times[SAMPLES];
  for (int i = 0; i < SAMPLES; i++)
    HR_TRY(replays_time(ring->device, recording, replays, &times[i], err));
  *seconds = samples_median(times, SAMPLES);
  return HR_OK;
}

/* Records and runs once to warm up; *once: seconds of the second replay. */
static hr_status recording_make(hr_device *device, const hr_launch *launches, size_t count, hr_recording **out,
                                double *once, hr_error *err) {
  size_t failed;
  HR_TRY(device->functions->record(device, launches, count, out, &failed, err));
  hr_status status = replays_time(device, *out, 1, once, err);
  if (status == HR_OK) status = replays_time(device, *out, 1, once, err);
  if (status != HR_OK) device->functions->recording_destroy(device, *out);
  return status;
}

/* Seconds of a launch out of `count`, which go round. */
static hr_status recorded_time(hr_bench_ring *ring, const hr_launch *launches, size_t count, bool follows_clocks,
                               double *seconds, hr_error *err) {
  hr_device *device = ring->device;
  hr_recording *recording = NULL;
  double once, slower = 1;
  HR_TRY(recording_make(device, launches, count, &recording, &once, err));
  int replays = replays_for(ring->sample_seconds, once);
  hr_status status = ring->clock ? clocked_time(ring, recording, replays, seconds, &slower, err)
                                 : plain_time(ring, recording, replays, seconds, err);
  device->functions->recording_destroy(device, recording);
  if (status == HR_OK) *seconds *= (follows_clocks && ring->clock ? slower : 1) / (double)count;
  return status;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

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

/* Which input a result is written over, or -1. */
static int result_over(hr_device_kind kind, const hr_op *op, const hr_op_view *view, uint32_t dead, int out) {
  for (int a = 0; a < op->n_alias; a++) {
    const hr_alias *alias = &op->alias[a];
    if (alias->out != out || alias->in >= view->n_in || view->in[alias->in].rank == 0) continue;
    if (!hr__op_takes(op, alias, kind, view->out[0].dtype)) continue;
    bool same = hr_desc_bytes(&view->in[alias->in]) == hr_desc_bytes(&view->out[out]);
    if (alias->kind != HR_ALIAS_MAY || (same && (dead >> alias->in & 1))) return alias->in;
  }
  return -1;
}

/* Integer operands are rows of a table, below the rows of the smallest matrix there is. Without one they are lengths of
 * samples [batch, length, ...], all of them full: minus that length. */
static int64_t index_below(const hr_op_view *view) {
  int64_t below = INT32_MAX;
  for (int i = 0; i < view->n_in + view->n_out; i++) {
    const hr_desc *desc = i < view->n_in ? &view->in[i] : &view->out[i - view->n_in];
    if (desc->rank == 2 && desc->dtype != HR_I32 && desc->dim[0] > 0 && desc->dim[0] < below) below = desc->dim[0];
  }
  if (below < INT32_MAX) return below;
  return view->n_in > 0 && view->in[0].rank == 3 ? -view->in[0].dim[1] : 1;
}

static hr_status indices_fill(hr_device *device, void *data, int64_t count, int64_t below, hr_error *err) {
  int32_t *indices = hr__alloc_zero((size_t)count, sizeof *indices);
  if (!indices) return hr__nomem(err);
  for (int64_t i = 0; i < count; i++)
    indices[i] = (int32_t)(below < 0 ? -below : (i * 7919) % below);
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

/* One launch with its operands one after another in `memory`. What all nodes of a step share (the control block, a
 * norm) is that of `first`, the launch at position 0, where that is given: groups are of nodes that do. */
static hr_status launch_bind(hr_device *device, const hr_op *op, const hr_op_view *view, uint32_t dead, int threads,
                             block *memory, const hr_launch *first, hr_tensor *tensors, hr_launch *launch,
                             hr_error *err) {
  hr_tensor *in = tensors, *out = tensors + view->n_in;
  for (int i = 0; i < view->n_in; i++) {
    if (view->in[i].rank == 0) continue;
    size_t bytes = hr_desc_bytes(&view->in[i]);
    bool control = view->in[i].dtype == HR_U8 && bytes == sizeof(hr_control);
    bool shared = first && op->grouped && (control || hr_desc_count(&view->in[i]) == 1);
    tensor_set(&in[i], shared ? first->call.in[i].data : block_take(memory, bytes), &view->in[i]);
  }
  for (int j = 0; j < view->n_out; j++) {
    int over = result_over(device->facts.kind, op, view, dead, j);
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

static hr_status launch_fill(const hr_bench_ring *ring, const hr_launch *launch, const hr_op_view *view,
                             hr_error *err) {
  int64_t below = index_below(view);
  if (ring->pattern) HR_TRY(ring->device->functions->synchronize(ring->device, err)); /* what binding has begun */
  for (int i = 0; i < view->n_in; i++) {
    if (view->in[i].rank == 0) continue;
    char *data = launch->call.in[i].data;
    if (ring->pattern) HR_TRY(pattern_fill(ring, data, hr_desc_bytes(&view->in[i]), err));
    HR_TRY(operand_fill(ring->device, data, &view->in[i], below, err));
  }
  return HR_OK;
}

/* --- the clock ---------------------------------------------------------------------------------------------------- */

static const double settle_seconds = 0.3;

/* Its recording is four products of 4096^3, less than a millisecond on a GPU of a data centre; of 512^3 where memory is
 * scarce. */
static hr_status clock_bind(hr_bench_ring *ring, hr_bench_clock *clock, hr_error *err) {
  int64_t side = ring->device->facts.memory_bytes >> 32 ? 4096 : 512;
  hr_desc matrix = {HR_BF16, 2, {side, side}}, in[4] = {matrix, matrix};
  hr_op_view view = {.in = in, .out = &matrix, .n_in = 4, .n_out = 1};
  if (!hr__bench_bytes(ring->device, &hr_op_linear, &view, 1, &clock->bytes)) return hr__nomem(err);
  void *base = NULL;
  HR_TRY(ring->device->functions->arena_create(ring->device, HR_TIER_DEVICE, clock->bytes, &base, err));
  clock->memory = base;
  block memory = {clock->memory, 0, clock->bytes};
  HR_TRY(
      launch_bind(ring->device, &hr_op_linear, &view, 0, 1, &memory, NULL, clock->tensors, &clock->launches[0], err));
  clock->prepared = clock->launches[0].call.prepared;
  for (size_t i = 1; i < sizeof clock->launches / sizeof clock->launches[0]; i++)
    clock->launches[i] = clock->launches[0];
  return launch_fill(ring, &clock->launches[0], &view, err);
}

/* Runs for long; the last part is timed. */
static hr_status clock_settle(hr_bench_ring *ring, double once, hr_error *err) {
  hr_bench_clock *clock = ring->clock;
  stretch parts[STRETCHES];
  for (int i = 0; i < STRETCHES; i++)
    parts[i] = (stretch){.recording = clock->recording, .replays = replays_for(settle_seconds / STRETCHES, once)};
  HR_TRY(stretches_time(ring, parts, STRETCHES, err));
  clock->settled = parts[STRETCHES - 1].seconds;
  return HR_OK;
}

static void clock_destroy(hr_bench_ring *ring) {
  const hr_device_functions *functions = ring->device->functions;
  hr_bench_clock *clock = ring->clock;
  if (clock->recording) functions->recording_destroy(ring->device, clock->recording);
  for (int i = 0; i <= STRETCHES; i++)
    if (clock->marks[i]) functions->mark_destroy(ring->device, clock->marks[i]);
  const hr_kernel *kernel = clock->launches[0].kernel;
  if (clock->prepared && kernel->release) kernel->release(clock->prepared);
  if (clock->memory) functions->arena_destroy(ring->device, HR_TIER_DEVICE, clock->memory, clock->bytes);
  hr__free(clock);
  ring->clock = NULL;
}

/* A GPU that cannot make that product has no clock, and is measured as it is. */
static hr_status clock_create(hr_bench_ring *ring, hr_error *err) {
  if (!hr__bench_kernel(ring->device, &hr_op_linear)) return HR_OK;
  hr_bench_clock *clock = hr__alloc_zero(1, sizeof *clock);
  if (!clock) return hr__nomem(err);
  ring->clock = clock;
  double once = 0;
  hr_status status = clock_bind(ring, clock, err);
  if (status == HR_OK)
    status = recording_make(ring->device, clock->launches, sizeof clock->launches / sizeof clock->launches[0],
                            &clock->recording, &once, err);
  if (status == HR_OK) return clock_settle(ring, once, err);
  clock->recording = NULL;
  clock_destroy(ring);
  return status == HR_UNSUPPORTED ? HR_OK : status;
}

/* --- one node ----------------------------------------------------------------------------------------------------- */

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
  size_t each = ring->bytes / (size_t)positions / LINE * LINE;
  for (int p = 0; p < positions; p++, b->count++) {
    block memory = {ring->base + (size_t)p * each, 0, each};
    HR_TRY(launch_bind(ring->device, op, view, dead, threads, &memory, p > 0 ? &b->launches[0] : NULL,
                       tensors + p * (view->n_in + view->n_out), &b->launches[p], err));
  }
  for (int p = 0; p < positions; p++)
    HR_TRY(launch_fill(ring, &b->launches[p], view, err));
  if (ring->device->facts.kind == HR_CPU) {
    hr_status status = calls_time(bound_call, b, seconds);
    return status == HR_OK ? HR_OK : hr__fail(err, status, op->name, NULL, "the kernel failed while it was timed");
  }
  int launches = positions;
  for (; launches < GPU_LAUNCHES && !op->grouped; launches++)
    b->launches[launches] = b->launches[launches - positions];
  return recorded_time(ring, b->launches, (size_t)launches, node_follows_clocks(ring->device, op, view), seconds, err);
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
  if (!ring->pattern) ring_fill(ring);
  hr_status status = bound_time(ring, op, view, dead, threads, tensors, positions, &b, seconds, err);
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
  view.kind = ring->device->facts.kind;
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
