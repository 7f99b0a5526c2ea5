/* Lines of log.jsonl: docs/json.md says what each has. Nothing is allocated but for samples. */
#ifndef HR_TRAIN_LOG_LINES_H
#define HR_TRAIN_LOG_LINES_H

#include "train/log.h"

typedef struct hr_log_step {
  int64_t step;
  double loss, lr, grad_norm, seconds;
  int64_t tokens, samples;   /* of this step that are data */
  const hr_reports *reports; /* (optional) losses and metrics, shown where there are several */
  double loss_scale;         /* 0: there is none */
  bool skipped;              /* the gradients overflowed: nothing was changed */
} hr_log_step;
hr_status hr__log_step(hr_log *log, const hr_log_step *line, hr_error *err);
hr_status hr__log_eval(hr_log *log, int64_t step, double loss, const hr_reports *reports, double seconds,
                       hr_error *err);
/* What the model writes: a list of {prompt, text, end}. */
hr_status hr__log_samples(hr_log *log, int64_t step, const json_t *samples, double seconds, hr_error *err);

/* Seconds of a run so far, by what they went to. */
typedef enum hr_run_phase {
  HR_PHASE_PREPARE, /* opening data, making tokens, taking memory */
  HR_PHASE_LOAD,    /* weights, or a checkpoint */
  HR_PHASE_STEPS,
  HR_PHASE_EVALUATE,
  HR_PHASE_GENERATE,
  HR_PHASE_SAVE,
  HR_PHASE_COUNT
} hr_run_phase;

/* An event: what has happened beside steps. Members that are 0 or NULL are left out. */
typedef struct hr_log_event {
  int64_t step;
  const char *name; /* of ours, not escaped: started, memory, saved, warning, ended */
  const char *text; /* any */
  const char *status;
  double seconds;
  uint64_t bytes;
  const uint64_t *held;  /* HR_TIER_COUNT */
  const double *phases;  /* HR_PHASE_COUNT */
  bool started, resumed; /* `started`: with process and machine, */
  int64_t steps;         /* and with the steps that the run is to have */
} hr_log_event;
/* One that cannot be written is not worth a run: what stands in its way is found by the next step's line. */
void hr__log_event(hr_log *log, const hr_log_event *event);

#endif
