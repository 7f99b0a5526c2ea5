/* The engine: who is to run a recipe. headroom's own execution is what all other stages plan; for PyTorch a run is told
 * as calls (torch/eager.h) whose memory is simulated. */
#ifndef HR_JOB_ENGINE_H
#define HR_JOB_ENGINE_H

#include "dev/device.h"
#include "model/model.h"
#include "torch/replay.h"

extern const hr_key_table hr_engine_keys;

bool hr__engine_is_torch(const hr_recipe *recipe);

/* What a run in PyTorch holds. Everything lies in the arena of hr__engine_simulate. */
typedef struct hr_engine_run {
  hr_torch_events events; /* hr__engine_fini */
  hr_torch_result result;
  uint64_t context_bytes; /* of the process on the GPU, outside of the allocator */
  uint64_t driver_bytes;  /* what the driver shows: reserved and context */
} hr_engine_run;

/* HR_UNSUPPORTED where the recipe asks for something whose calls are not known, by name. */
hr_status hr__engine_check(const hr_recipe *recipe, hr_error *err);
/* Runs some steps. `out` is to be zeroed, and is hr__engine_fini's whatever comes of it. */
hr_status hr__engine_simulate(const hr_recipe *recipe, const hr_facts *facts, hr_arena *arena, hr_engine_run *out,
                              hr_error *err);
void hr__engine_fini(hr_engine_run *run);

#endif
