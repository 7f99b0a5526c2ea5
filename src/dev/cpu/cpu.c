/* The CPU as a device: arenas are anonymous mappings, launches run in the caller and on the pool, a recording is the
 * list of launches itself.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "dev/cpu/gemm.h"
#include "dev/cpu/onednn.h"
#include "dev/device.h"

enum {
  BUFFER_ALIGNMENT = 64, /* a cache line, and the widest vector */
  PAGE_BYTES = 4096,
  TOUCH_BYTES = 8 << 20, /* one task of touching an arena */
  THREADS_MOST = 1024
};

/* Program text, libraries, and what a session has on the heap. Measured as resident beside arena, nodes and library
 * code (plan/peak.c), on a processor with instructions for bf16: 16 to 17.5 MiB in a profile, 2 more in a training run
 * that also hashes and saves, 1 more in one that goes on from a checkpoint: 18.9 to 20 (test/cli/test_small_memory.py).
 */
static const uint64_t fixed_bytes = (uint64_t)41 << 19;           /* 20.5 MiB */
static const uint64_t fixed_bytes_per_thread = (uint64_t)1 << 17; /* stack, streams, memory objects */

/* The value of the first "key : value" line of a /proc file; empty when there is none. */
static void proc_value(const char *path, const char *key, char *out, size_t capacity) {
  out[0] = 0;
  FILE *file = fopen(path, "re");
  if (!file) return;
  char line[512];
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, key, strlen(key)) != 0) continue;
    const char *colon = strchr(line, ':');
    if (!colon) continue;
    snprintf(out, capacity, "%s", colon + 1 + strspn(colon + 1, " \t"));
    out[strcspn(out, "\n")] = 0;
    break;
  }
  fclose(file);
}

static uint64_t proc_kilobytes(const char *path, const char *key) {
  char text[64];
  proc_value(path, key, text, sizeof text);
  return (uint64_t)strtoull(text, NULL, 10) * 1024;
}

static int threads_wanted(void) {
  const char *text = getenv("HEADROOM_THREADS");
  char *end = NULL;
  long wanted = text && *text ? strtol(text, &end, 10) : 0;
  if (wanted >= 1 && *end == 0) return wanted < THREADS_MOST ? (int)wanted : THREADS_MOST;
  int processors = hr__cpu_count();
  return processors < THREADS_MOST ? processors : THREADS_MOST;
}

void hr__cpu_facts(hr_facts *facts) {
  char model[64];
  proc_value("/proc/cpuinfo", "model name", model, sizeof model);
  *facts = (hr_facts){.kind = HR_CPU,
                      .alignment = BUFFER_ALIGNMENT,
                      .threads = threads_wanted(),
                      .narrow_products = hr__dnn_native(HR_BF16),
                      .compiled = hr__gemm_is_compiled()};
  snprintf(facts->name, sizeof facts->name, "%s (%d thread%s)", model[0] ? model : "x86-64 processor", facts->threads,
           facts->threads == 1 ? "" : "s");
  facts->memory_bytes = hr__memory_limit_bytes();
  facts->fixed_bytes = fixed_bytes + fixed_bytes_per_thread * (uint64_t)facts->threads;
}

typedef struct touch {
  char *base;
  size_t bytes;
} touch;

/* A fresh mapping is zero; writing one byte per page makes it resident. */
static void touch_task(void *arg, int64_t task, int worker) {
  (void)worker;
  const touch *t = arg;
  size_t from = (size_t)task * TOUCH_BYTES;
  size_t to = t->bytes - from < TOUCH_BYTES ? t->bytes : from + TOUCH_BYTES;
  for (size_t at = from; at < to; at += PAGE_BYTES)
    *(volatile char *)(t->base + at) = 0;
}

hr_status hr__host_memory_create(hr_pool *pool, size_t bytes, void **base, hr_error *err) {
  *base = NULL;
  if (bytes == 0) return HR_OK;
  /* Touching more than there is would end the process without a word. */
  uint64_t available = hr__memory_available_bytes();
  if (bytes > available)
    return hr__fail(
        err, HR_NO_FIT, NULL, "close other programs, or lower memory.budget and see what headroom plan says",
        "the run takes %zu bytes of memory, but only %llu are available now", bytes, (unsigned long long)available);
  void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return errno == ENOMEM ? hr__nomem(err) : hr__fail_errno(err, NULL, "map memory", errno);
  madvise(mapping, bytes, MADV_HUGEPAGE); /* a hint: kernels without huge pages refuse it */
  touch t = {mapping, bytes};
  int64_t tasks = (int64_t)((bytes - 1) / TOUCH_BYTES) + 1;
  hr__pool_run(pool, hr__pool_threads(pool), tasks, touch_task, &t);
  *base = mapping;
  return HR_OK;
}

void hr__host_memory_destroy(void *base, size_t bytes) {
  if (base) munmap(base, bytes);
}

static hr_status cpu_arena_create(hr_device *device, hr_tier tier, size_t bytes, void **base, hr_error *err) {
  (void)tier;
  return hr__host_memory_create(device->pool, bytes, base, err);
}

static void cpu_arena_destroy(hr_device *device, hr_tier tier, void *base, size_t bytes) {
  (void)device, (void)tier;
  hr__host_memory_destroy(base, bytes);
}

static hr_status cpu_copy(hr_device *device, hr_copy kind, void *to, const void *from, size_t bytes, hr_error *err) {
  (void)device, (void)kind, (void)err;
  if (bytes) memcpy(to, from, bytes);
  return HR_OK;
}

static hr_status cpu_launch(hr_device *device, const hr_launch *launch) {
  (void)device;
  return launch->kernel->run(&launch->call);
}

struct hr_recording {
  const hr_launch *launches; /* the caller's */
  size_t count;
};

static hr_status cpu_record(hr_device *device, const hr_launch *launches, size_t count, hr_recording **out,
                            size_t *failed, hr_error *err) {
  (void)device;
  *failed = count;
  hr_recording *recording = hr__alloc(sizeof *recording);
  if (!recording) return hr__nomem(err);
  *recording = (hr_recording){launches, count};
  *out = recording;
  return HR_OK;
}

static hr_status cpu_replay(hr_device *device, hr_recording *recording, size_t *failed) {
  for (size_t i = 0; i < recording->count; i++) {
    hr_status status = cpu_launch(device, &recording->launches[i]);
    if (status != HR_OK) {
      *failed = i;
      return status;
    }
  }
  return HR_OK;
}

static void cpu_recording_destroy(hr_device *device, hr_recording *recording) {
  (void)device;
  hr__free(recording);
}

static hr_status cpu_synchronize(hr_device *device, hr_error *err) {
  (void)device, (void)err;
  return HR_OK;
}

static hr_status cpu_process_bytes(hr_device *device, uint64_t *bytes, hr_error *err) {
  (void)device;
  *bytes = proc_kilobytes("/proc/self/status", "VmHWM");
  if (*bytes == 0) return hr__fail(err, HR_FAILURE, "/proc/self/status", NULL, "no VmHWM: peak memory is unknown");
  return HR_OK;
}

/* 5 stands for the high-water mark alone. Where it may not be written, what was held before counts as well. */
void hr__cpu_peak_restart(void) {
  hr__dnn_forget();
  hr__alloc_trim();
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file) return;
  fputs("5\n", file);
  fclose(file);
}

static void cpu_destroy(hr_device *device) {
  hr__free(device);
}

static const hr_device_functions cpu_functions = {
    .arena_create = cpu_arena_create,
    .arena_destroy = cpu_arena_destroy,
    .copy = cpu_copy,
    .launch = cpu_launch,
    .record = cpu_record,
    .replay = cpu_replay,
    .recording_destroy = cpu_recording_destroy,
    .synchronize = cpu_synchronize,
    .process_bytes = cpu_process_bytes,
    .destroy = cpu_destroy,
    .copy_beside = cpu_copy,
};

hr_status hr__cpu_open(hr_device **out, hr_error *err) {
  hr_device *device = hr__alloc_zero(1, sizeof *device);
  if (!device) return hr__nomem(err);
  device->functions = &cpu_functions;
  hr__cpu_facts(&device->facts);
  hr_status status = hr__pool_create(device->facts.threads, &device->pool, err);
  if (status != HR_OK) {
    hr__free(device);
    return status;
  }
  *out = device;
  return HR_OK;
}
