/* Training: a recipe and its plan -> trained weights, a log and checkpoints.
 *
 * A run is a function of (recipe, seed, step): data order, learning rate and random numbers depend on the step number
 * alone, so a run that was stopped anywhere and resumed gives the same bits as one that was not.
 */
#ifndef HR_TRAIN_TRAIN_H
#define HR_TRAIN_TRAIN_H

#include <stdio.h>

#include "base/hash.h"
#include "data/confusion.h"
#include "plan/plan.h"
#include "recipe/recipe.h"
#include "train/best.h"
#include "train/reports.h"

/* What the trainer wants to tell a person while it runs. A warning is to be shown loudly. */
typedef enum hr_message_kind { HR_MESSAGE_INFO, HR_MESSAGE_WARNING } hr_message_kind;
typedef void (*hr_message_fn)(void *user, hr_message_kind kind, const char *text);

typedef struct hr_train_options {
  const hr_recipe *recipe; /* closed: no `auto` left */
  const hr_plan *plan;     /* of the recipe's whole graph (hr__compile with until == NULL) */
  /* Where features are read from the cache: recipe and plan of what makes them; else NULL. */
  const hr_recipe *features_recipe;
  const hr_plan *features_plan;
  hr_device *device;             /* open; of the kind the plan was made for */
  const char *out;               /* folder of the run; NULL: no log, no checkpoints */
  const char *begin;             /* folder of the run whose weights this one begins with (a stage before); NULL: none */
  const char *const *begin_also; /* further ones, of which what those before have not is taken; ends with NULL */
  int64_t steps;                 /* instead of training.steps; 0: as in the recipe */
  int64_t stop_at;               /* stop after this step as if interrupted there (saved, HR_OK); 0: run to the end */
  bool resume;
  bool accept_changed_data; /* resume although the data is not what the run was saved with */
  bool check_numerics;
  bool handle_signals;   /* SIGHUP, SIGINT, SIGTERM: finish the step, save, stop; a second one quits at once */
  bool check_peak;       /* HR_ABOVE_PLAN when the process held more than planned */
  FILE *progress;        /* gets a bar where it is a terminal; NULL: none */
  hr_message_fn message; /* (optional) */
  void (*begins)(void *message_user); /* (optional) nothing stands in the way any more: the first step follows */
  void *message_user;
} hr_train_options;

typedef struct hr_train_result {
  int64_t steps;           /* last step done, counted from the beginning of the run */
  int64_t steps_here;      /* steps done by this call */
  double loss;             /* of the last step that was not skipped; 0 when none was done here */
  double eval_loss;        /* newest, need not be finite; negative when never evaluated here */
  bool stopped_early;      /* by training.patience, before its last step */
  hr_best best;            /* evaluation of the run; step 0: none */
  const char *best_metric; /* what it goes by, owned by the recipe */
  int64_t tokens;          /* trained on by this call; 0 where the model has none */
  int64_t samples;         /* trained on by this call */
  hr_reports reports;      /* losses and metrics of that step */
  hr_reports eval_reports; /* of the newest evaluation; count 0: none was made here */
  hr_confusion confusion;  /* of the newest evaluation, where it is a classification */
  double seconds;          /* in steps, without saving and evaluation */
  double tokens_per_second, samples_per_second;
  uint64_t planned_bytes;                         /* peak of the whole process by the plan */
  uint64_t measured_bytes;                        /* as the operating system or the driver counts it */
  uint64_t arena_bytes;                           /* device tier */
  uint64_t resident[HR_TIER_COUNT][HR_CAT_COUNT]; /* what is held of the arenas, by category (hr__run_resident) */
  char weights_sha256[HR_SHA256_HEX];             /* trained parameters in order of name, bytes as stored */
} hr_train_result;

/* Statuses beside failures: HR_HUNG_UP, HR_INTERRUPTED and HR_TERMINATED (stopped by a signal, saved), HR_ABOVE_PLAN
 * (trained and saved, but the process held more than planned). The result is filled for these as well. */
hr_status hr__train(const hr_train_options *options, hr_train_result *result, hr_error *err);

enum { HR_PROFILE_STEPS = 64 }; /* most that are measured */

typedef struct hr_profile {
  int steps;                                    /* measured, after one that warms up */
  double step_seconds;                          /* median of an effective step */
  double tokens_per_second, samples_per_second; /* the first is 0 where the model has no tokens */
  uint64_t planned_bytes;                       /* peak of the whole process by the plan */
  uint64_t process_bytes;                       /* as the operating system or the driver counts it */
  uint64_t arena_bytes[HR_TIER_COUNT];
  uint64_t resident[HR_TIER_COUNT][HR_CAT_COUNT]; /* as above */
  double loss;                                    /* of the last step */
} hr_profile;

/* A few real steps on real data; nothing is written. `node_seconds` (optional, one per graph node) receives the time of
 * each node in one effective step, mean over the measured steps; nodes then run singly. On a GPU it is the time of one
 * run of the node, apart from the steps. HR_ABOVE_PLAN as above;
 * HR_USAGE unless 1 <= steps <= HR_PROFILE_STEPS. */
hr_status hr__profile(const hr_train_options *options, int steps, hr_profile *profile, double *node_seconds,
                      hr_error *err);

/* Whether `measured` is within what the plan promises: 2 % or 16 MiB above, whichever is larger. */
bool hr__within_plan(uint64_t planned_bytes, uint64_t measured_bytes);

#endif
