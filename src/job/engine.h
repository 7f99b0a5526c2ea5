/* The engine: who is to run a recipe. headroom's own execution is what all other stages plan; for PyTorch a run is told
 * as calls (torch/eager.h) whose memory is simulated. */
#ifndef HR_JOB_ENGINE_H
#define HR_JOB_ENGINE_H

#include "dev/device.h"
#include "model/model.h"
#include "plan/rates.h"
#include "torch/replay.h"
#include "torch/tape.h"
#include "torch/zero.h"

extern const hr_key_table hr_engine_keys;

bool hr__engine_is_torch(const hr_recipe *recipe);

/* What a run in PyTorch holds. */
typedef struct hr_engine_run {
  hr_arena arena; /* of the result */
  hr_torch_events events;
  hr_torch_result result;
  hr_tape_work micro, update; /* what a micro-batch computes, and an update */
  bool attended;              /* by kernels of 16 bits: hr__torch_context */
  uint64_t context_bytes;     /* of the process on the GPU, outside of the allocator */
  uint64_t driver_bytes;      /* what the driver shows: reserved and context */
  hr_zero_host host;          /* what DeepSpeed keeps there; the optimizer updates it there */
  bool deepspeed;             /* it trains */
} hr_engine_run;

/* Whether a technique (recipe/techniques.def), by its key, is one that PyTorch has not. */
bool hr__engine_lacks(const char *technique);
/* HR_BAD_INPUT where the recipe asks for something whose calls are not known, by name. */
hr_status hr__engine_check(const hr_recipe *recipe, hr_error *err);
/* Whether settings of the engine are given that change nothing, as they are another's: with place and remedy. */
bool hr__engine_idle(const hr_recipe *recipe, hr_error *remark);
/* Runs some steps. `out` is to be zeroed, and is hr__engine_fini's whatever comes of it. */
hr_status hr__engine_simulate(const hr_recipe *recipe, const hr_facts *facts, hr_engine_run *out, hr_error *err);
/* About how long a step takes: products and attention by the rates of the device, what is written and read by its
 * memory, and no less than Python needs to launch its calls. An estimate. */
double hr__engine_seconds(const hr_engine_run *run, const hr_rates *rates, int64_t accumulation);
/* What is not counted, so that the run is an estimate; NULL where there is nothing of the kind. */
const char *hr__engine_estimate(const hr_engine_run *run);
void hr__engine_fini(hr_engine_run *run);

#endif
