/* What the driver says this process holds on the GPU. NVML is loaded at run time; without it the runtime's own count of
 * free memory stands in. */
#ifndef HR_DEV_CUDA_NVML_H
#define HR_DEV_CUDA_NVML_H

#include <stdint.h>

/* Before the process has a context on the device: notes what others hold. `bus` is the PCI address of the GPU. */
void hr__nvml_begin(const char *bus);

/* Bytes that the driver counts for this process; if it keeps no such count (containers, virtual machines), what the
 * whole device holds more than at hr__nvml_begin. 0: unknown. */
uint64_t hr__nvml_process_bytes(void);

#endif
