/* Histograms of the norms of single gradients, for TensorBoard: one for all gradients of a kind, over its layers
 * ("gradients/model.layers.*.mlp.down_proj.weight"). training.gradient_norms asks for them. */
#ifndef HR_TRAIN_NORMS_H
#define HR_TRAIN_NORMS_H

#include "base/mem.h"
#include "train/board.h"
#include "train/session.h"

typedef struct hr_norms {
  int64_t every; /* steps; 0: never */
  hr_arena arena;
  double *squares, *values; /* of every gradient; the norms of a group */
  const char **tags;        /* of groups */
  size_t *group;            /* of every gradient */
  size_t count, n_groups;
} hr_norms;

/* HR_BAD_INPUT where they are asked for and there is nobody to read them (training.tensorboard). */
hr_status hr__norms_open(const hr_session *session, hr_norms *out, hr_error *err);
void hr__norms_close(hr_norms *norms);
/* After a step that is due. */
hr_status hr__norms_put(hr_norms *norms, hr_session *session, int64_t step, const hr_step_result *result,
                        hr_board *board, hr_error *err);

#endif
