/* Measuring copies between tiers. See measuring.h. */
#include <math.h>
#include <stdlib.h>

#include "base/courier.h"
#include "dev/disk.h"
#include "measure/measuring.h"

enum { COPY_BYTES = 4 << 20, COPY_ROUNDS = 8 };

static double copies_rate(double begin) {
  return (double)COPY_BYTES * COPY_ROUNDS / fmax(hr__seconds_now() - begin, 1e-9);
}

/* One thread copying in memory, out of cold memory as far as the ring reaches. */
void hr__measuring_host_copies(hr_measuring *b) {
  const hr_bench_ring *ring = &b->ring;
  size_t places = ring->bytes / COPY_BYTES;
  double begin = hr__seconds_now();
  for (size_t i = 0; i < COPY_ROUNDS; i++)
    (void)b->device->functions->copy(b->device, HR_COPY_TO_DEVICE, ring->base + (2 * i + 1) % places * COPY_BYTES,
                                     ring->base + 2 * i % places * COPY_BYTES, COPY_BYTES,
                                     NULL); /* memory cannot fail */
  b->rates->copies.host_bytes_per_second = b->rates->copies.host_alone_bytes_per_second = copies_rate(begin);
}

/* A file in the system's folder for such, hashes included. A machine without room there keeps the defaults. */
void hr__measuring_disk_copies(char *memory, hr_rates *rates) {
  hr_disk disk;
  const uint64_t all = (uint64_t)COPY_BYTES * COPY_ROUNDS;
  hr_disk_range range = {"a test file", 0, all};
  hr_error ignored;
  bool good = hr__disk_open(&disk, NULL, all, &ignored) == HR_OK;
  double begin = hr__seconds_now();
  for (uint64_t i = 0; good && i < COPY_ROUNDS; i++)
    good = hr__disk_write(&disk, &range, i * COPY_BYTES, memory, COPY_BYTES, &ignored) == HR_OK;
  if (good) rates->copies.disk_write_bytes_per_second = copies_rate(begin);
  begin = hr__seconds_now();
  for (uint64_t i = 0; good && i < COPY_ROUNDS; i++)
    good = hr__disk_read(&disk, &range, i * COPY_BYTES, memory, COPY_BYTES, &ignored) == HR_OK;
  if (good) rates->copies.disk_read_bytes_per_second = copies_rate(begin);
  hr__disk_close(&disk);
}

/* Copies in one direction, one after another, from or to its own half of the pinned memory, in rounds: a link that has
 * slept takes a while to reach its speed. */
typedef struct crossing {
  const hr_measuring *b;
  hr_copy kind;
  bool beside; /* by copy_beside */
  double seconds;
  hr_status status;
  hr_error error;
} crossing;
enum { CROSSING_BYTES = HR_BENCH_PATTERN / 2, CROSSINGS = 16, CROSSING_ROUNDS = 9, WAKING = 4 };

static void crossing_run(void *arg) {
  crossing *c = arg;
  const hr_device_functions *functions = c->b->device->functions;
  hr_status (*copy)(hr_device *, hr_copy, void *, const void *, size_t, hr_error *) =
      c->beside ? functions->copy_beside : functions->copy;
  bool in = c->kind == HR_COPY_TO_DEVICE;
  char *host = c->b->ring.pattern + (in ? 0 : CROSSING_BYTES), *device = c->b->ring.base + (in ? 0 : CROSSING_BYTES);
  c->status = HR_OK;
  double times[CROSSING_ROUNDS] = {0};
  for (int r = -WAKING; r < CROSSING_ROUNDS; r++) {
    double begin = hr__seconds_now();
    for (int i = 0; i < CROSSINGS && c->status == HR_OK; i++)
      c->status = copy(c->b->device, c->kind, in ? device : host, in ? host : device, CROSSING_BYTES, &c->error);
    if (r >= 0) times[r] = (hr__seconds_now() - begin) / CROSSINGS;
  }
  qsort(times, CROSSING_ROUNDS, sizeof times[0], hr__seconds_ascending);
  c->seconds = times[CROSSING_ROUNDS / 2];
}

/* The slower direction alone, and where both can go at once the slower of them then. */
hr_status hr__measuring_gpu_copies(hr_measuring *b, hr_error *err) {
  bool beside = b->device->functions->copy_beside != NULL; /* as a step's copies go: out of pinned memory, at once */
  crossing ways[2] = {{.b = b, .kind = HR_COPY_TO_DEVICE, .beside = beside},
                      {.b = b, .kind = HR_COPY_FROM_DEVICE, .beside = beside}};
  double alone = 0;
  for (int i = 0; i < 2; i++) {
    crossing_run(&ways[i]);
    alone = fmax(alone, ways[i].seconds);
  }
  double slowest = alone;
  if (beside && ways[0].status == HR_OK && ways[1].status == HR_OK) {
    hr_courier *courier;
    HR_TRY(hr__courier_create((int[]){1, 1}, 2, 1, &courier, err));
    hr_errand errands[2];
    for (int i = 0; i < 2; i++) {
      errands[i] = (hr_errand){.run = crossing_run, .arg = &ways[i]};
      hr__courier_send(courier, i, &errands[i]);
    }
    hr__courier_drain(courier);
    hr__courier_destroy(courier);
    for (int i = 0; i < 2; i++)
      slowest = fmax(slowest, ways[i].seconds);
  }
  for (int i = 0; i < 2; i++) {
    if (ways[i].status == HR_OK) continue;
    *err = ways[i].error;
    return ways[i].status;
  }
  b->rates->copies.host_alone_bytes_per_second = CROSSING_BYTES / alone;
  b->rates->copies.host_bytes_per_second = CROSSING_BYTES / slowest;
  return HR_OK;
}
