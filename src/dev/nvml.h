/* What the driver says of the GPUs of this machine, whoever uses them: for whatever watches. NVML is opened at run time
 * and may be missing; nothing is taken on a GPU by asking. (dev/cuda/nvml.h is the device's own count of itself.) */
#ifndef HR_DEV_NVML_H
#define HR_DEV_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HR_NVML_GPUS = 16, HR_NVML_PROCESSES = 64 };

typedef struct hr_nvml_process {
  int64_t pid;
  uint64_t bytes; /* 0: the driver does not tell (containers, virtual machines) */
} hr_nvml_process;

typedef struct hr_nvml_gpu {
  char name[96];
  uint64_t used_bytes, total_bytes;
  double use; /* 0 to 1: part of the time in which any kernel ran; negative: it does not tell */
  hr_nvml_process processes[HR_NVML_PROCESSES];
  size_t n_processes;
} hr_nvml_gpu;

typedef struct hr_nvml hr_nvml;

hr_nvml *hr__nvml_open(void); /* NULL: there is no NVML, or no memory */
void hr__nvml_close(hr_nvml *nvml);
size_t hr__nvml_count(const hr_nvml *nvml); /* of NULL: 0 */
/* False: the driver did not tell. */
bool hr__nvml_look(hr_nvml *nvml, size_t index, hr_nvml_gpu *out);

#endif
