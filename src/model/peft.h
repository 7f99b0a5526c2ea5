/* A folder of adapters as PEFT writes them: adapter_config.json and adapter_model.safetensors. Whatever the config asks
 * for that is not LoRA as headroom has it is refused by name and place.
 */
#ifndef HR_MODEL_PEFT_H
#define HR_MODEL_PEFT_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/status.h"
#include "model/stored.h"

#define HR_PEFT_CONFIG "adapter_config.json"
#define HR_PEFT_FILE   "adapter_model.safetensors"
/* Names of the tensors begin and end with these. */
#define HR_PEFT_PREFIX "base_model.model."
#define HR_PEFT_A      ".lora_A.weight"
#define HR_PEFT_B      ".lora_B.weight"

typedef struct hr_peft {
  const char *base; /* base_model_name_or_path; NULL: it is not said */
  int64_t rank;
  double alpha, dropout;
  bool rank_stabilised;
  const char **modules; /* that have adapters, by their whole paths, as the tensors say */
  size_t n_modules;
} hr_peft;

/* Whether a folder holds adapters. */
bool hr__peft_is_there(const char *folder);
/* Strings in `arena`. */
hr_status hr__peft_read(const char *folder, hr_arena *arena, hr_peft *out, hr_error *err);
/* alpha / rank, or alpha / sqrt(rank). */
double hr__peft_scale(const hr_peft *peft);
/* The tensors; *out is to be closed. */
hr_status hr__peft_open(const char *folder, hr_stored **out, hr_error *err);

#endif
