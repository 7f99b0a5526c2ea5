/* What a process with PyTorch holds on a GPU beside tensors: cuBLAS's workspaces, which the allocator has, and the
 * context with handles and kernels of libraries, which only the driver sees. */
#ifndef HR_TORCH_DRIVER_H
#define HR_TORCH_DRIVER_H

#include "dev/gpus.h"

/* Of one handle: there is one for the thread that runs forward and one for that which runs backward. */
uint64_t hr__torch_workspace_bytes(int capability);

/* What the driver shows beyond the reserved bytes. Measured on the H200 (driver 580, CUDA 13): 767 to 769 MiB, of which
 * a bare context is 527. Of other GPUs it is an estimate: the context by multiprocessors, the libraries' share as
 * there. */
typedef struct hr_torch_context {
  uint64_t bytes;
  bool measured;
} hr_torch_context;
/* gpu NULL: one that is not in the catalogue. */
hr_torch_context hr__torch_context(const hr_gpu *gpu);

#endif
