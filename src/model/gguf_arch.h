/* Architectures of GGUF files, shared by gguf.c (tensors) and gguf_config.c (settings). */
#ifndef HR_MODEL_GGUF_ARCH_H
#define HR_MODEL_GGUF_ARCH_H

#include "model/gguf.h"

typedef struct hr_gguf_arch {
  const char *name;                      /* as the file says, and as its keys begin */
  const char *model_type, *architecture; /* of config.json */
  bool pairs;                            /* rows of q and k lie in pairs */
  bool gemma;                            /* names, norms and settings of that family */
} hr_gguf_arch;

hr_status hr__gguf_arch(const hr_gguf *file, const hr_gguf_arch **out, hr_error *err);

/* The integer under ARCH.key; false: there is none. */
bool hr__gguf_setting(const hr_gguf *file, const hr_gguf_arch *arch, const char *key, int64_t *out);

#endif
