/* The update: gradient norm and one optimizer step per trained parameter. */
#ifndef HR_PASS_UPDATE_H
#define HR_PASS_UPDATE_H

#include "graph/builder.h"

typedef struct hr_update_settings {
  float beta1, beta2, eps;
  float weight_decay; /* on matrices (rank >= 2) only */
  float clip_norm;    /* <= 0: no clipping */
} hr_update_settings;

/* Appends to the builder's current program; its output "grad_norm" is the L2 norm over all gradients. Parameters
 * without a gradient are left alone. Moments are persistent: adam.m.<parameter>, adam.v.<parameter>. */
hr_status hr__update_emit(hr_builder *b, const hr_update_settings *settings, hr_error *err);

#endif
