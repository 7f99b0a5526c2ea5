/* Batch norm, and convolutions with one behind them, as models of images have them. No op of its own: statistics are
 * `reduce`, their application is a program, and what a program knows of all batches is state that follows them.
 *
 *   y = weight (x - mean) / sqrt(variance + eps) + bias        per channel
 *
 * By the batch, mean and variance are those of x, and running_mean and running_var follow them: r = (1 - momentum) r +
 * momentum s, with the variance of n elements by n - 1. Otherwise, and in programs that do not train, they are the
 * running ones; then the norm is a scale and a shift, which go into the convolution in front of it: its weight is
 * scaled, its bias is the shift, and nothing of the size of x is computed or kept.
 */
#ifndef HR_MODEL_BATCHNORM_H
#define HR_MODEL_BATCHNORM_H

#include "model/model.h"

typedef struct hr_batchnorm {
  const char *path; /* "layer1.0.bn1": weight, bias, running_mean, running_var, [channels] each. Families with parts in
                       16 bits declare such modules `wide`: what is made of these few numbers is f32 */
  const char *at;   /* module that computes on x, not a wide one: that of the convolution in front */
  int64_t channels;
  int64_t groups; /* x's first axis is this many runs, each with statistics of its own, followed one after another */
  float eps, momentum;
  bool by_batch; /* in programs that train; else by what is known */
} hr_batchnorm;

/* x [N, channels, ...] -> the same. Its weight and bias are trained as any. */
hr_id hr__batchnorm(hr_builder *b, const hr_batchnorm *norm, hr_id x);

/* A convolution along two axes with a norm behind it. */
typedef struct hr_normed_conv {
  const char *path; /* PATH.weight [out, in / groups, kernel, kernel] and, where biased, PATH.bias [out] */
  int64_t in, out, kernel, stride, groups; /* padding: half of the kernel */
  bool biased;
  hr_batchnorm norm; /* `at` and `channels` are the convolution's own */
} hr_normed_conv;

/* norm(conv(x)) (+ add): x [N, in, h, w] -> [N, out, h', w']; add: HR_NONE for none. */
hr_id hr__normed_conv(hr_builder *b, const hr_normed_conv *conv, hr_id x, hr_id add);

#endif
