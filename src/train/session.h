/* A session: everything one call of train or profile holds, from the opened data to the bound programs. */
#ifndef HR_TRAIN_SESSION_H
#define HR_TRAIN_SESSION_H

#include "model/model.h"
#include "pass/compile.h"
#include "train/data.h"
#include "train/schedule.h"
#include "train/tensors.h"
#include "train/train.h"

/* A program as the trainer drives it. HR_NONE where the program has no such value. */
typedef struct hr_driven {
  hr_id program; /* HR_NONE: not in this plan */
  hr_id tokens, targets;
  hr_id loss, grad_norm;
} hr_driven;

typedef struct hr_session {
  const hr_train_options *options;
  const hr_model *model;
  hr_training_shape shape;
  hr_schedule schedule;
  uint64_t seed;
  int64_t eval_batches;
  hr_data *data;
  hr_run *run;
  hr_tensors tensors;
  hr_id control; /* value of the control block */
  hr_driven step, first, next, update, eval;
  int32_t *staging; /* one batch of tokens and targets, where the host cannot reach the inputs */
} hr_session;

/* Checks settings, opens the data, takes the arenas. Weights are not there yet. */
hr_status hr__session_create(const hr_train_options *options, bool time_nodes, hr_session *session, hr_error *err);
void hr__session_destroy(hr_session *session); /* also of one that failed half-way */

/* begin.c: first weights, from model.path where it is given, else from the init rules and the seed. A run that is
 * resumed needs neither, and the folder of model.path need not be there any more, unless it has frozen parameters:
 * checkpoints do not hold those, and the second function fills just them. */
hr_status hr__session_begin(hr_session *session, hr_error *err);
hr_status hr__session_begin_frozen(hr_session *session, hr_error *err);

typedef struct hr_step_result {
  double loss;      /* mean over the tokens of the effective batch */
  double grad_norm; /* before clipping */
  double lr;
  double seconds;
} hr_step_result;

/* One optimizer step, from 1: all micro-batches and the update. HR_FAILURE when the loss is not finite. */
hr_status hr__session_step(hr_session *session, int64_t step, hr_step_result *result, hr_error *err);
/* Mean loss over training.eval_batches batches of held-out data; it need not be finite. */
hr_status hr__session_eval(hr_session *session, int64_t step, double *loss, hr_error *err);

int64_t hr__session_step_tokens(const hr_session *session);
/* Peak of the whole process by the plan: on the CPU all tiers in RAM, else the device's. */
uint64_t hr__session_planned_bytes(const hr_session *session);
/* HR_ABOVE_PLAN when asked for by the options and true. */
hr_status hr__session_check_peak(const hr_session *session, uint64_t measured_bytes, hr_error *err);

double hr__seconds_now(void);

#endif
