/* headroom plan TRACE...: what a run of the user's own PyTorch holds, from traces (tools/torch_trace.py). */
#ifndef HR_CLI_PLAN_TRACE_H
#define HR_CLI_PLAN_TRACE_H

#include "cli/cli.h"
#include "dev/gpus.h"
#include "torch/driver.h"
#include "torch/replay.h"
#include "torch/scale.h"

/* One GPU, or an amount of memory. */
typedef struct hr_trace_target {
  const hr_gpu *gpu; /* NULL: any */
  const char *label;
  uint64_t usable_bytes; /* UINT64_MAX: no limit was named */
  uint64_t margin_bytes;
  hr_torch_context context;
} hr_trace_target;

/* What a batch size was found to reserve. */
typedef struct hr_trace_known {
  uint64_t batch, workspace_bytes, reserved_bytes;
} hr_trace_known;

typedef struct hr_trace_plan {
  hr_cli *cli;
  hr_torch_trace traces[HR_TORCH_TRACES];
  size_t n_traces;
  hr_torch_scaling scaling; /* of several */
  hr_torch_rules rules;     /* without a limit */
  const char *conf;         /* the allocator's settings as given; NULL: none */
  hr_trace_known *known;
  size_t n_known, known_capacity;
} hr_trace_plan;

/* What one batch size comes to on one target. */
typedef struct hr_trace_answer {
  hr_trace_target target;
  uint64_t batch;         /* 0: not said */
  hr_torch_result result; /* without a limit */
  uint64_t driver_bytes;
  bool fits;         /* driver_bytes are within what is usable, less the margin */
  bool limited;      /* it does not, and was replayed with what there is: */
  bool gets_through; /* PyTorch runs none the less, by giving cached memory back */
  hr_torch_result at_limit;
  hr_torch_share *owners, *calls; /* at the peak of allocated */
  size_t n_owners, n_calls;
} hr_trace_answer;

/* The command, where its arguments are traces. */
hr_status hr__plan_trace(hr_cli *cli, hr_error *err);

/* plan_trace_show.c */
void hr__trace_print(const hr_trace_plan *plan, const hr_trace_answer *answer);
json_t *hr__trace_json(const hr_trace_plan *plan, const hr_trace_answer *answer); /* NULL: out of memory */
/* What makes it an estimate, as remarks on stderr. */
void hr__trace_remarks(const hr_trace_plan *plan, const hr_trace_target *target);

/* plan_trace_table.c: a line for each GPU, with the largest batch that fits where there are several traces. */
hr_status hr__trace_sweep(hr_trace_plan *plan, const char *values, hr_error *err);

/* For both; `in_full`: with what explains the answer. Largest: 0 where none fits; most that is tried is 2^20. */
hr_status hr__trace_target(const hr_trace_plan *plan, const char *gpu, hr_trace_target *out, hr_error *err);
hr_status hr__trace_answer(hr_trace_plan *plan, const hr_trace_target *target, uint64_t batch, bool in_full,
                           hr_trace_answer *out, hr_error *err);
hr_status hr__trace_largest(hr_trace_plan *plan, const hr_trace_target *target, uint64_t *batch, hr_error *err);

#endif
