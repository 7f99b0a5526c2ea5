/* The mixer of Mamba-2: one projection to gate z, to x, B, C of the state-space scan and to its step sizes; a short
 * causal convolution with SiLU over x, B and C; the scan (op/ssd.h); a norm that z gates; a projection back.
 *
 * Names are those of public checkpoints: in_proj, conv1d, dt_bias, A_log, D, norm and out_proj below the mixer's path.
 */
#ifndef HR_MODEL_MIXER_H
#define HR_MODEL_MIXER_H

#include "model/model.h"

typedef struct hr_mixer {
  int64_t width;                          /* H, of the residual stream */
  int64_t heads, head_dim, groups, state; /* of the scan: inner width is heads x head_dim */
  int64_t kernel, chunk;                  /* positions of the convolution, and of a chunk of the scan */
  float eps;                              /* of the norm */
  float step_least, step_most;            /* limits of step sizes; most 0: none */
  bool biased;                            /* both projections */
  bool conv_biased;
  hr_init in_init, out_init; /* first weights of both projections */
} hr_mixer;

/* Columns of what the first projection gives: z, x, B, C, steps. */
static inline int64_t hr__mixer_inner(const hr_mixer *m) {
  return m->heads * m->head_dim;
}
static inline int64_t hr__mixer_mixed(const hr_mixer *m) { /* x, B and C */
  return hr__mixer_inner(m) + 2 * m->groups * m->state;
}
static inline int64_t hr__mixer_columns(const hr_mixer *m) {
  return hr__mixer_inner(m) + hr__mixer_mixed(m) + m->heads;
}

/* x [..., L, H] -> [..., L, H]; a position sees those before it along L, as far back as starts [..., L] (or HR_NONE)
 * say. On top of `add`, or HR_NONE. In programs that generate a sequence goes on where it was left: by the last rows
 * that the convolution has read, PATH.conv1d.tail, and the states of the scan, PATH.state, which stay f32. */
hr_id hr__mixer_module(hr_builder *b, const char *path, const hr_mixer *m, hr_id x, hr_id starts,
                       const hr_model_batch *batch, hr_id add);

#endif
