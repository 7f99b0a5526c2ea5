/* A session: everything one call of train or profile holds, from the opened data to the bound programs. */
#ifndef HR_TRAIN_SESSION_H
#define HR_TRAIN_SESSION_H

#include "compile/compile.h"
#include "data/reader.h"
#include "model/model.h"
#include "train/batches.h"
#include "train/handover.h"
#include "train/manifest.h"
#include "train/reports.h"
#include "train/schedule.h"
#include "train/tensors.h"
#include "train/train.h"

/* A program as the trainer drives it. HR_NONE where the program has no such value. */
typedef struct hr_driven {
  hr_id program;               /* HR_NONE: not in this plan */
  hr_id reported[HR_REPORTED]; /* losses and metrics, in the order of hr_session.reports */
  hr_id grad_norm;
  hr_id grad_squares; /* of every gradient (norms.h) */
} hr_driven;

typedef struct hr_session {
  const hr_train_options *options;
  hr_model_part model;
  hr_training_shape shape;
  hr_batches batches;
  hr_schedule schedule;
  bool scales; /* 16-mixed, if only in parts: the loss is scaled, and a step that overflows is skipped */
  hr_scaling scaling;
  hr_scaler scaler;
  uint64_t seed;
  int64_t eval_batches;
  hr_data *data;
  hr_reports reports; /* of the newest step, and what there is */
  hr_reports eval_reports;
  hr_confusion confusion;        /* of the newest evaluation */
  float *points;                 /* of all items of the data, once they were evaluated; NULL: never */
  hr_fields fields[HR_PROGRAMS]; /* of batches, by bucket */
  char *slots[HR_BATCH_SLOTS];   /* where they are read to */
  hr_reader *reader;
  hr_run *run;
  hr_handover handover; /* from the stage before */
  hr_tensors tensors;
  char remark[640];       /* something a user should know of the first weights; or "" */
  uint64_t reading_bytes; /* that the process may hold before its arenas are there: reading a tokenizer, finding samples
                           */
  uint64_t data_bytes;    /* by which samples are found, on the host beside the plan */
  uint64_t features_bytes;   /* that it may hold before, while features are made */
  char features[HR_XXH_HEX]; /* hash of what makes those that are read; empty: none are */
  char base[HR_XXH_HEX];     /* hash of the frozen weights that came from model.path; empty: none did */
  hr_id control;             /* value of the control block */
  struct {
    hr_driven first, next; /* of a bucket; `first` does the whole step where there is no update of its own */
  } micro[HR_PROGRAMS];
  hr_driven update, eval;
  hr_best_rule best_rule;
  hr_best best;      /* evaluation */
  int64_t done;      /* steps up to `sample` */
  uint64_t sample;   /* position in the data after them (batches.h) */
  int64_t saved;     /* step of the newest checkpoint, for messages; 0: none */
  bool input_failed; /* data could not be read: weights and state are those of the last step that was done */
} hr_session;

/* Checks settings, opens the data, takes the arenas. Weights are not there yet. */
hr_status hr__session_create(const hr_train_options *options, bool time_nodes, hr_session *session, hr_error *err);
/* The same for programs that generate, or make features, and nothing else: no data is opened. Afterwards the weights
 * are there: those of model.path and of model.adapters.path. */
hr_status hr__session_create_untrained(const hr_train_options *options, hr_session *session, hr_error *err);
void hr__session_destroy(hr_session *session); /* also of one that failed half-way */

/* begin.c: first weights, from model.path where it is given, else from the init rules and the seed. A run that is
 * resumed needs neither, and the folder of model.path need not be there any more, unless it has frozen parameters:
 * checkpoints do not hold those, and the second function fills just them. */
hr_status hr__session_begin(hr_session *session, hr_error *err);
hr_status hr__session_begin_frozen(hr_session *session, hr_error *err);

typedef struct hr_step_result {
  double loss;      /* sum of the losses by weight, each a mean over the effective batch; not scaled */
  double grad_norm; /* before clipping; not scaled */
  double lr;
  double seconds;
  int64_t tokens; /* that are data; 0 where the model has none */
  int64_t samples;
  double loss_scale;  /* that it was computed with; 0: there is none */
  hr_id grad_squares; /* of every gradient, until the next step; HR_NONE: not told */
  bool skipped; /* the gradients overflowed: weights and optimizer are as before, loss and norm need not be finite */
} hr_step_result;

/* One optimizer step, from 1: all micro-batches and the update. HR_FAILURE when the loss is not finite, or, where the
 * loss is scaled, when one step after the other overflows. Data and learning rate depend on the number of the step; the
 * loss scale on the steps before it. */
hr_status hr__session_step(hr_session *session, int64_t step, hr_step_result *result, hr_error *err);
/* Mean loss over training.eval_batches batches of held-out data; it need not be finite. Notes whether it is the best.
 */
hr_status hr__session_eval(hr_session *session, int64_t step, double *loss, hr_error *err);

/* The points of all items of the data, in session->points, each *width numbers; *width 0: the model makes none. */
hr_status hr__session_points(hr_session *session, int64_t *width, hr_error *err);

/* Where the run stands after the steps done, and going on from there after `step` steps. */
hr_run_state hr__session_state(const hr_session *session);
void hr__session_resume(hr_session *session, int64_t step, const hr_run_state *state);

/* Peak of the whole process by the plan: on the CPU all tiers in RAM, else the device's. */
uint64_t hr__session_planned_bytes(const hr_session *session);
/* HR_ABOVE_PLAN when asked for by the options and true. */
hr_status hr__session_check_peak(const hr_session *session, uint64_t measured_bytes, hr_error *err);

#endif
