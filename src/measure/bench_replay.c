/* Timing on a GPU: launches recorded as those of a step and replayed, beside the product that serves as a clock. */
#include "base/mem.h"
#include "measure/benching.h"
#include "op/linear.h"

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
  double begin = hr__bench_now();
  HR_TRY(replays_start(device, recording, replays, err));
  HR_TRY(device->functions->synchronize(device, err));
  *seconds = (hr__bench_now() - begin) / replays;
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
  *seconds = hr__bench_median(times, SAMPLES);
  *slower = clock->settled / (0.5 * (all[0].seconds + all[STRETCHES - 1].seconds));
  return HR_OK;
}

static hr_status plain_time(hr_bench_ring *ring, hr_recording *recording, int replays, double *seconds, hr_error *err) {
  double times[SAMPLES];
  for (int i = 0; i < SAMPLES; i++)
    HR_TRY(replays_time(ring->device, recording, replays, &times[i], err));
  *seconds = hr__bench_median(times, SAMPLES);
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
hr_status hr__bench_recorded(hr_bench_ring *ring, const hr_launch *launches, size_t count, bool follows_clocks,
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
  hr_bench_block memory = {clock->memory, 0, clock->bytes};
  HR_TRY(hr__bench_bind(ring->device, &hr_op_linear, &view, 0, 1, &memory, NULL, clock->tensors, &clock->launches[0],
                        err));
  clock->prepared = clock->launches[0].call.prepared;
  for (size_t i = 1; i < sizeof clock->launches / sizeof clock->launches[0]; i++)
    clock->launches[i] = clock->launches[0];
  return hr__bench_fill(ring, &clock->launches[0], &view, err);
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

void hr__bench_clock_destroy(hr_bench_ring *ring) {
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
hr_status hr__bench_clock_create(hr_bench_ring *ring, hr_error *err) {
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
  hr__bench_clock_destroy(ring);
  return status == HR_UNSUPPORTED ? HR_OK : status;
}
