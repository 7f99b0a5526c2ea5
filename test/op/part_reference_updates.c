/* References of gradient norms and optimizers. */
#include "part_reference.h"

#include <math.h>

#include "base/dynamic8.h"
#include "op/adamw.h"
#include "op/adamw8bit.h"
#include "op/ema.h"
#include "op/sgd.h"

static void grad_squares_reference(const reference_call *c) {
  for (int j = 0; j < c->n_in; j++)
    c->out[0][j] = reference_dot(c->in[j], c->in[j], hr_desc_count(&c->in_desc[j]));
}

static void grad_norm_reference(const reference_call *c) {
  double sum = 0.0;
  for (int j = 0; j < c->n_in; j++)
    for (int64_t i = 0; i < hr_desc_count(&c->in_desc[j]); i++)
      sum += c->in[j][i];
  c->out[0][0] = sqrt(sum);
}

static void grad_norm_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)args;
  for (int j = 0; j < HR_OP_OPERANDS && in[j]; j++)
    for (int64_t i = 0; i < hr_desc_count(&desc[j]); i++)
      in[j][i] = in[j][i] * in[j][i];
}

static void found_inf_reference(const reference_call *c) {
  hr_control control = *c->control;
  control.skip = (uint32_t)!isfinite(c->in[1][0]);
  for (size_t i = 0; i < sizeof control; i++)
    c->out[0][i] = (double)((const unsigned char *)&control)[i];
}

static double clipped_scale(const hr_control *control, float clip_norm, const double *norm) {
  double scale = 1.0 / (double)control->loss_scale;
  return clip_norm > 0.0f ? scale * fmin(1.0, (double)clip_norm / (norm[0] * scale + 1e-6)) : scale;
}

static void ema_reference(const reference_call *c) {
  double decay = (double)((const hr_ema_args *)c->args)->decay;
  for (int64_t i = 0, count = hr_desc_count(&c->in_desc[0]); i < count; i++)
    c->out[0][i] = decay * c->in[0][i] + (1.0 - decay) * c->in[1][i];
}

/* param, grad, m, v, control, norm? -> param, m, v, by the formula of the paper: corrected moments, decoupled decay. */
static void adamw_reference(const reference_call *c) {
  const hr_adamw_args *a = c->args;
  const hr_control *k = c->control;
  double scale = clipped_scale(k, a->clip_norm, c->in[5]);
  double lr = (double)k->learning_rate * (double)a->lr_scale;
  for (int64_t i = 0, count = hr_desc_count(&c->in_desc[0]); i < count; i++) {
    double g = c->in[1][i] * scale;
    double m = (double)a->beta1 * c->in[2][i] + (1.0 - (double)a->beta1) * g;
    double v = (double)a->beta2 * c->in[3][i] + (1.0 - (double)a->beta2) * g * g;
    double m_hat = m / (double)k->bias_correction1, v_hat = v / (double)k->bias_correction2;
    double decayed = c->in[0][i] - lr * (double)a->weight_decay * c->in[0][i];
    c->out[0][i] = decayed - lr * m_hat / (sqrt(v_hat) + (double)a->eps);
    c->out[1][i] = m;
    c->out[2][i] = v;
  }
}

static void adamw_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)args;
  for (int64_t i = 0; i < hr_desc_count(&desc[3]); i++)
    in[3][i] = in[3][i] * in[3][i];
  if (in[5]) in[5][0] = 3.0 + fabs(in[5][0]);
}

/* As op/adamw8bit.h has it, block by block in single precision: which code is nearest depends on the last bit. */
static void adamw8bit_reference(const reference_call *c) {
  const hr_adamw8bit_args *a = c->args;
  const hr_control *k = c->control;
  const float *m_code = hr__dynamic8_signed(), *v_code = hr__dynamic8_unsigned();
  float scale = 1.0f / k->loss_scale, lr = k->learning_rate * a->lr_scale, c2 = sqrtf(k->bias_correction2);
  if (a->clip_norm > 0.0f) {
    float clip = a->clip_norm / ((float)c->in[7][0] * scale + 1e-6f);
    if (clip < 1.0f) scale *= clip;
  }
  int64_t count = hr_desc_count(&c->in_desc[0]);
  for (int64_t begin = 0; begin < count; begin += 256) {
    int64_t end = begin + 256 < count ? begin + 256 : count, block = begin / 256;
    float m[256], v[256], m_largest = 0.0f, v_largest = 0.0f;
    for (int64_t i = begin; i < end; i++) {
      float g = (float)c->in[1][i] * scale;
      float m_old = m_code[(int)c->in[2][i]] * (float)c->in[4][block];
      float v_old = v_code[(int)c->in[3][i]] * (float)c->in[5][block];
      m[i - begin] = (float)a->beta1 * m_old + (float)(1.0 - a->beta1) * g;
      v[i - begin] = (float)a->beta2 * v_old + (float)(1.0 - a->beta2) * g * g;
      m_largest = fmaxf(m_largest, fabsf(m[i - begin]));
      v_largest = fmaxf(v_largest, v[i - begin]);
    }
    for (int64_t i = begin; i < end; i++) {
      float mi = m[i - begin], vi = v[i - begin];
      float p = (float)c->in[0][i] - lr * c2 / k->bias_correction1 * mi / (sqrtf(vi) + c2 * a->eps);
      int code = hr__dynamic8_encode(m_code, mi / m_largest);
      if (!signbit(m_code[code]) != !signbit(mi)) code += mi > 0.0f ? 1 : -1;
      c->out[0][i] = (double)(p * (1.0f - lr * a->weight_decay));
      c->out[1][i] = code;
      c->out[2][i] = hr__dynamic8_encode(v_code, vi / v_largest);
    }
    c->out[3][block] = (double)m_largest;
    c->out[4][block] = (double)v_largest;
  }
}

static void adamw8bit_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)args;
  for (int64_t i = 0; i < hr_desc_count(&desc[4]); i++) {
    in[4][i] = fabs(in[4][i]);
    in[5][i] = in[5][i] * in[5][i];
  }
  if (in[7]) in[7][0] = 3.0 + fabs(in[7][0]);
}

/* param, grad, [s,] control, norm? -> param [, s] */
static void sgd_reference_with(const reference_call *c, const double *s, const double *norm) {
  const hr_sgd_args *a = c->args;
  double scale = clipped_scale(c->control, a->clip_norm, norm);
  double lr = (double)c->control->learning_rate * (double)a->lr_scale, momentum = (double)a->momentum;
  for (int64_t i = 0, count = hr_desc_count(&c->in_desc[0]); i < count; i++) {
    double g = c->in[1][i] * scale + (double)a->weight_decay * c->in[0][i], along = g;
    if (s) {
      c->out[1][i] = momentum * s[i] + g;
      along = a->nesterov ? g + momentum * c->out[1][i] : c->out[1][i];
    }
    c->out[0][i] = c->in[0][i] - lr * along;
  }
}

static void sgd_reference(const reference_call *c) {
  sgd_reference_with(c, NULL, c->in[3]);
}

static void sgd_momentum_reference(const reference_call *c) {
  sgd_reference_with(c, c->in[2], c->in[4]);
}

static void sgd_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)desc, (void)args;
  if (in[3]) in[3][0] = 3.0 + fabs(in[3][0]);
}

static void sgd_momentum_fill(double *const *in, const hr_desc *desc, const void *args) {
  (void)desc, (void)args;
  if (in[4]) in[4][0] = 3.0 + fabs(in[4][0]);
}

static const reference ops[] = {
    {.op = "grad_squares", .run = grad_squares_reference, .loose = 0xff},
    {.op = "grad_norm", .run = grad_norm_reference, .fill = grad_norm_fill, .loose = 0xff},
    {.op = "found_inf", .run = found_inf_reference},
    {.op = "ema", .run = ema_reference},
    {.op = "adamw", .run = adamw_reference, .fill = adamw_fill},
    {.op = "adamw8bit", .run = adamw8bit_reference, .fill = adamw8bit_fill},
    {.op = "sgd", .run = sgd_reference, .fill = sgd_fill},
    {.op = "sgd_momentum", .run = sgd_momentum_reference, .fill = sgd_momentum_fill},
};
const reference_family references_of_updates = {ops, sizeof ops / sizeof *ops};
