#include "torch/driver.h"

#include <string.h>

static const uint64_t MIB = UINT64_C(1) << 20;
/* Handles and kernels that are loaded when they are first used; cuDNN with its kernels for attention in 16 bits. */
enum { LIBRARIES_MIB = 214, ATTENTION_MIB = 16 };

uint64_t hr__torch_workspace_bytes(int capability) {
  int major = capability / 10;
  /* else what ":4096:2:16:8" asks for */
  return major == 9 || major == 10 || major == 12 ? 32 * MIB : (4096 * 2 + 16 * 8) * UINT64_C(1024);
}

int hr__torch_threads(int capability) {
  bool few = capability == 86 || capability == 89 || capability / 10 == 12; /* what graphics cards have since Ampere */
  return few ? 1536 : capability == 75 ? 1024 : 2048;
}

hr_torch_context hr__torch_context(const hr_gpu *gpu, bool attention) {
  hr_facts facts;
  if (gpu)
    hr__gpu_facts(gpu, &facts);
  else
    hr__gpu_facts_generic(0, &facts);
  uint64_t context = facts.fixed_bytes - facts.margin_bytes;
  uint64_t libraries = (uint64_t)(LIBRARIES_MIB + (attention ? ATTENTION_MIB : 0)) * MIB;
  return (hr_torch_context){context + libraries, gpu && strcmp(gpu->label, "H200") == 0};
}
