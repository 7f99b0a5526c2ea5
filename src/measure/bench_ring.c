/* Memory of the bench: the ring that operands lie in, and the numbers that they hold. */
#include <string.h>
#include <sys/mman.h>

#include "measure/benching.h"

enum { RING_BYTES = 96 << 20, GPU_RING_BYTES = 512 << 20 };

hr_status hr__bench_map(size_t bytes, char **base, hr_error *err) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return hr__nomem(err);
  *base = memory;
  return HR_OK;
}

void *hr__bench_take(hr_bench_block *b, size_t bytes) {
  void *taken = b->base + b->used;
  b->used += (bytes + HR_BENCH_LINE - 1) / HR_BENCH_LINE * HR_BENCH_LINE;
  return taken;
}

static hr_status ring_map(hr_bench_ring *ring, size_t bytes, hr_error *err) {
  if (ring->device->facts.kind == HR_CPU) {
    HR_TRY(hr__bench_map(bytes, &ring->base, err));
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

hr_status hr__bench_ring_grow(hr_bench_ring *ring, size_t bytes, hr_error *err) {
  if (bytes <= ring->bytes) return HR_OK;
  ring_unmap(ring);
  return ring_map(ring, bytes, err);
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
  if (status == HR_OK && device->functions->mark) status = hr__bench_clock_create(ring, err);
  if (status != HR_OK) hr__bench_ring_destroy(ring);
  return status;
}

void hr__bench_ring_destroy(hr_bench_ring *ring) {
  if (ring->clock) hr__bench_clock_destroy(ring);
  ring_unmap(ring);
  if (ring->pattern)
    ring->device->functions->arena_destroy(ring->device, HR_TIER_HOST, ring->pattern, HR_BENCH_PATTERN);
  *ring = (hr_bench_ring){0};
}

/* On the CPU all of it, with words that are 0.01 as one f32 and as two bf16: walking over it also puts what was there
 * out of the caches. */
void hr__bench_ring_fill(const hr_bench_ring *ring) {
  uint32_t *words = (uint32_t *)(void *)ring->base;
  for (size_t i = 0; i < ring->bytes / sizeof *words; i++)
    words[i] = 0x3c243c24u;
}

/* On a GPU by operands, when they are bound: trying algorithms has left zeros in some, which draw less power. Straight
 * out of pinned memory: copies in the order of launches go through another of the host's, which takes several times as
 * long. */
hr_status hr__bench_pattern(const hr_bench_ring *ring, char *data, size_t bytes, hr_error *err) {
  const hr_device_functions *functions = ring->device->functions;
  hr_status (*copy)(hr_device *, hr_copy, void *, const void *, size_t, hr_error *) =
      functions->copy_beside ? functions->copy_beside : functions->copy;
  for (size_t at = 0; at < bytes; at += HR_BENCH_PATTERN) {
    size_t part = bytes - at < HR_BENCH_PATTERN ? bytes - at : HR_BENCH_PATTERN;
    HR_TRY(copy(ring->device, HR_COPY_TO_DEVICE, data + at, ring->pattern, part, err));
  }
  return HR_OK;
}
