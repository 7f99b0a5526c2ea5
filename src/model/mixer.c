/* See mixer.h. */
#include "model/mixer.h"

#include <math.h>
#include <stdio.h>

#include "model/modules.h"
#include "op/carry.h"
#include "op/gated_norm.h"
#include "op/linear.h"

enum { NAME = 256 };

static hr_id parameter(hr_builder *b, const char *path, const char *name, hr_desc desc, hr_init init) {
  char whole[NAME];
  snprintf(whole, sizeof whole, "%s.%s", path, name);
  return hr__parameter(b, whole, desc, init);
}

static hr_id projected(hr_builder *b, const char *path, const char *name, const hr_mixer *m, int64_t in, int64_t out,
                       hr_init init, hr_id x, hr_id add) {
  char module[NAME];
  snprintf(module, sizeof module, "%s.%s", path, name);
  hr__module(b, "%s", module);
  hr_id weight = parameter(b, module, "weight", hr__desc2(b->dtype, out, in), init);
  hr_id bias =
      m->biased ? parameter(b, module, "bias", hr__desc1(b->dtype, out), (hr_init){.rule = HR_INIT_ZERO}) : HR_NONE;
  return add == HR_NONE ? hr__linear(b, x, weight, bias) : hr__linear_add(b, x, weight, bias, add);
}

static hr_id convolved(hr_builder *b, const char *path, const hr_mixer *m, hr_id projected, hr_id starts,
                       const hr_model_batch *batch) {
  char module[NAME];
  int64_t channels = hr__mixer_mixed(m);
  hr_init init = {.rule = HR_INIT_UNIFORM, .a = (float)(1 / sqrt((double)m->kernel))};
  snprintf(module, sizeof module, "%s.conv1d", path);
  hr__module(b, "%s", module);
  hr_id weight = parameter(b, module, "weight", hr__desc3(b->dtype, channels, 1, m->kernel), init);
  hr_id bias = m->conv_biased ? parameter(b, module, "bias", hr__desc1(b->dtype, channels), init) : HR_NONE;
  if (batch->context == 0 || m->kernel == 1)
    return hr__causal_conv(b, projected, weight, bias, starts, hr__mixer_inner(m));
  char name[NAME + 8]; /* below the convolution's module, in whose type it is kept */
  snprintf(name, sizeof name, "%s.tail", module);
  hr_id tail = hr__cache(b, name, hr__desc3(b->dtype, batch->batch, m->kernel - 1, channels));
  return hr__conv_carry(b, projected, weight, bias, tail, batch->positions, batch->counts, hr__mixer_inner(m));
}

static hr_id scanned(hr_builder *b, const char *path, const hr_mixer *m, hr_id mixed, hr_id projected, hr_id starts,
                     const hr_model_batch *batch) {
  hr_desc heads = hr__desc1(b->dtype, m->heads);
  hr__module(b, "%s", path);
  hr_id a_log = parameter(b, path, "A_log", heads, (hr_init){.rule = HR_INIT_LOG_OF_UNIFORM, .a = 1, .b = 16});
  hr_id bias = parameter(b, path, "dt_bias", heads, (hr_init){.rule = HR_INIT_STEP_BIAS, .a = 1e-3f, .b = 0.1f});
  hr_id d = parameter(b, path, "D", heads, (hr_init){.rule = HR_INIT_ONE});
  hr_ssd_args args = {.heads = m->heads,
                      .head_dim = m->head_dim,
                      .groups = m->groups,
                      .state = m->state,
                      .chunk = m->chunk,
                      .step_first = hr__mixer_columns(m) - m->heads,
                      .step_least = m->step_least,
                      .step_most = m->step_most > 0 ? m->step_most : INFINITY};
  if (batch->context == 0) return hr__ssd(b, mixed, projected, a_log, bias, d, starts, &args);
  char name[NAME];
  snprintf(name, sizeof name, "%s.state", path);
  hr_id state = hr__cache_f32(b, name, hr__desc3(HR_F32, batch->batch, m->heads, m->state * m->head_dim));
  hr_id in[HR_SSD_CARRY_OPERANDS] = {mixed, projected, a_log, bias, d, state, batch->positions, batch->counts};
  return hr__ssd_carry(b, in, &args);
}

/* norm(y silu(z)); z are the first columns of what the first projection gives. */
static hr_id gated(hr_builder *b, const char *path, const hr_mixer *m, hr_id y, hr_id projected) {
  char module[NAME];
  snprintf(module, sizeof module, "%s.norm", path);
  hr__module(b, "%s", module);
  hr_desc desc = hr__desc1(b->dtype, hr__mixer_inner(m));
  hr_id weight = parameter(b, module, "weight", desc, (hr_init){.rule = HR_INIT_ONE});
  return hr__gated_norm(b, y, projected, weight, &(hr_gated_norm_args){.groups = m->groups, .eps = m->eps});
}

hr_id hr__mixer_module(hr_builder *b, const char *path, const hr_mixer *m, hr_id x, hr_id starts,
                       const hr_model_batch *batch, hr_id add) {
  int64_t inner = hr__mixer_inner(m);
  hr_id whole = projected(b, path, "in_proj", m, m->width, hr__mixer_columns(m), m->in_init, x, HR_NONE);
  hr_id y = scanned(b, path, m, convolved(b, path, m, whole, starts, batch), whole, starts, batch);
  return projected(b, path, "out_proj", m, inner, m->width, m->out_init, gated(b, path, m, y, whole), add);
}
