/* See nvml.h. The few calls needed are declared here, since NVML's header is not part of every toolkit. */
#include "dev/nvml.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/mem.h"

struct nvml_process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
struct nvml_memory {
  unsigned long long total, free, used;
};
struct nvml_use {
  unsigned gpu, memory; /* per cent */
};

enum { NVML_OK = 0 };

struct hr_nvml {
  void *library;
  int (*init)(void), (*shutdown)(void);
  int (*count)(unsigned *count);
  int (*find)(unsigned index, void **device);
  int (*name)(void *device, char *name, unsigned length);
  int (*memory)(void *device, struct nvml_memory *memory);
  int (*use)(void *device, struct nvml_use *use);
  int (*processes)(void *device, unsigned *count, struct nvml_process *list);
  void *devices[HR_NVML_GPUS];
  size_t n_devices;
};

static bool symbols_find(hr_nvml *n) {
  /* What dlsym gives is an object pointer, which C does not convert to a function: it is copied as bytes. */
  const struct {
    const char *name;
    void *to;
  } wanted[] = {{"nvmlInit_v2", &n->init},
                {"nvmlShutdown", &n->shutdown},
                {"nvmlDeviceGetCount_v2", &n->count},
                {"nvmlDeviceGetHandleByIndex_v2", &n->find},
                {"nvmlDeviceGetName", &n->name},
                {"nvmlDeviceGetMemoryInfo", &n->memory},
                {"nvmlDeviceGetUtilizationRates", &n->use},
                {"nvmlDeviceGetComputeRunningProcesses_v3", &n->processes}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    *(void **)wanted[i].to = dlsym(n->library, wanted[i].name);
    if (!*(void **)wanted[i].to) return false;
  }
  return true;
}

hr_nvml *hr__nvml_open(void) {
  hr_nvml *n = hr__alloc_zero(1, sizeof *n);
  unsigned count = 0;
  if (!n) return NULL;
  n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (n->library && symbols_find(n) && n->init() == NVML_OK) {
    if (n->count(&count) != NVML_OK) count = 0;
    for (unsigned i = 0; i < count && n->n_devices < HR_NVML_GPUS; i++)
      if (n->find(i, &n->devices[n->n_devices]) == NVML_OK) n->n_devices++;
    return n;
  }
  if (n->library) dlclose(n->library);
  hr__free(n);
  return NULL;
}

void hr__nvml_close(hr_nvml *n) {
  if (!n) return;
  (void)n->shutdown();
  dlclose(n->library);
  hr__free(n);
}

size_t hr__nvml_count(const hr_nvml *n) {
  return n ? n->n_devices : 0;
}

bool hr__nvml_look(hr_nvml *n, size_t index, hr_nvml_gpu *out) {
  void *device = n->devices[index];
  struct nvml_memory memory;
  struct nvml_use use;
  struct nvml_process list[HR_NVML_PROCESSES];
  unsigned count = HR_NVML_PROCESSES;
  *out = (hr_nvml_gpu){.use = -1};
  if (n->memory(device, &memory) != NVML_OK) return false;
  out->used_bytes = memory.used;
  out->total_bytes = memory.total;
  if (n->name(device, out->name, sizeof out->name) != NVML_OK) snprintf(out->name, sizeof out->name, "GPU");
  if (n->use(device, &use) == NVML_OK) out->use = (double)use.gpu / 100;
  if (n->processes(device, &count, list) != NVML_OK) return true;
  for (unsigned i = 0; i < count && i < HR_NVML_PROCESSES; i++)
    out->processes[out->n_processes++] =
        (hr_nvml_process){list[i].pid, list[i].used_bytes == ~0ull ? 0 : list[i].used_bytes};
  return true;
}
