#include "torch/driver.h"

#include <string.h>

static const uint64_t MIB = UINT64_C(1) << 20;
enum { LIBRARIES_MIB = 240 }; /* handles, cuDNN, kernels that are loaded when they are first used */

uint64_t hr__torch_workspace_bytes(int capability) {
  int major = capability / 10;
  /* else what ":4096:2:16:8" asks for */
  return major == 9 || major == 10 || major == 12 ? 32 * MIB : (4096 * 2 + 16 * 8) * UINT64_C(1024);
}

hr_torch_context hr__torch_context(const hr_gpu *gpu) {
  hr_facts facts;
  if (gpu)
    hr__gpu_facts(gpu, &facts);
  else
    hr__gpu_facts_generic(0, &facts);
  uint64_t context = facts.fixed_bytes - facts.margin_bytes;
  return (hr_torch_context){context + LIBRARIES_MIB * MIB, gpu && strcmp(gpu->label, "H200") == 0};
}
