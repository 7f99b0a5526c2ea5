/* What a process with PyTorch holds on a GPU beside tensors: cuBLAS's workspaces, which the allocator has, and the
 * context with handles and kernels of libraries, which only the driver sees. */
#ifndef HR_TORCH_DRIVER_H
#define HR_TORCH_DRIVER_H

#include "dev/gpus.h"

/* Of one handle: there is one for the thread that runs forward and one for that which runs backward. */
uint64_t hr__torch_workspace_bytes(int capability);
/* Threads that a multiprocessor holds. */
int hr__torch_threads(int capability);

/* What the driver shows of a process beyond the reserved bytes. Measured on the H200 (driver 580, CUDA 13): 742 MiB,
 * and 758 where attention has kernels of 16 bits. Of other GPUs it is an estimate: the context (528 MiB of that) by
 * multiprocessors, the libraries' share as there. */
typedef struct hr_torch_context {
  uint64_t bytes;
  bool measured;
} hr_torch_context;
/* gpu NULL: one that is not in the catalogue. */
hr_torch_context hr__torch_context(const hr_gpu *gpu, bool attention);

#endif
