/* NVML by dlopen: the few calls needed, declared here since its header is not part of every toolkit. */
#include "dev/cuda/nvml.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

struct nvml_process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
struct nvml_memory {
  unsigned long long total, free, used;
};

enum { NVML_OK = 0, NVML_PROCESSES = 256 };

static struct {
  int (*processes)(void *device, unsigned *count, nvml_process *list);
  int (*memory)(void *device, nvml_memory *memory);
  void *device; /* NULL: no NVML */
  uint64_t others_bytes;
} nvml;

static void *library_symbol(void *library, const char *name, bool *complete) {
  void *symbol = dlsym(library, name);
  if (!symbol) *complete = false;
  return symbol;
}

static uint64_t device_bytes(void) {
  nvml_memory memory;
  if (nvml.device && nvml.memory(nvml.device, &memory) == NVML_OK) return memory.used;
  size_t free_bytes, total_bytes;
  return cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess ? total_bytes - free_bytes : 0;
}

void hr__nvml_begin(const char *bus) {
  if (nvml.device) return; /* opened before: what others held then still counts */
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  bool complete = true;
  int (*init)(void) = (int (*)(void))library_symbol(library, "nvmlInit_v2", &complete);
  int (*find)(const char *, void **) =
      (int (*)(const char *, void **))library_symbol(library, "nvmlDeviceGetHandleByPciBusId_v2", &complete);
  nvml.processes = (int (*)(void *, unsigned *, nvml_process *))library_symbol(
      library, "nvmlDeviceGetComputeRunningProcesses_v3", &complete);
  nvml.memory = (int (*)(void *, nvml_memory *))library_symbol(library, "nvmlDeviceGetMemoryInfo", &complete);
  void *device;
  if (!complete || init() != NVML_OK || find(bus, &device) != NVML_OK) return;
  nvml.device = device;
  nvml.others_bytes = device_bytes();
}

uint64_t hr__nvml_process_bytes(void) {
  if (nvml.device) {
    static nvml_process list[NVML_PROCESSES];
    unsigned count = NVML_PROCESSES;
    if (nvml.processes(nvml.device, &count, list) == NVML_OK)
      for (unsigned i = 0; i < count; i++)
        if (list[i].pid == (unsigned)getpid() && list[i].used_bytes != ~0ull) return list[i].used_bytes;
  }
  uint64_t bytes = device_bytes();
  return bytes > nvml.others_bytes ? bytes - nvml.others_bytes : 0;
}
