/* See batchnorm.h. */
#include "model/batchnorm.h"

#include <math.h>
#include <stdio.h>

#include "op/conv.h"
#include "op/ema.h"
#include "op/pointwise.h"
#include "op/slice.h"

enum { NAME = 192 };

static hr_id vector(hr_builder *b, const hr_batchnorm *n, const char *kind, bool state, hr_init_rule rule) {
  char name[NAME];
  hr_desc desc = hr__desc1(b->dtype, n->channels);
  snprintf(name, sizeof name, "%s.%s", n->path, kind);
  hr__module(b, "%s", n->path);
  return state ? hr__state(b, name, desc, (hr_init){.rule = rule})
               : hr__parameter(b, name, desc, (hr_init){.rule = rule});
}

static hr_id running_mean(hr_builder *b, const hr_batchnorm *n) {
  return vector(b, n, "running_mean", true, HR_INIT_ZERO);
}

static hr_id running_variance(hr_builder *b, const hr_batchnorm *n) {
  return vector(b, n, "running_var", true, HR_INIT_ONE);
}

static hr_id weight_of(hr_builder *b, const hr_batchnorm *n) {
  return vector(b, n, "weight", false, HR_INIT_ONE);
}

static hr_id bias_of(hr_builder *b, const hr_batchnorm *n) {
  return vector(b, n, "bias", false, HR_INIT_ZERO);
}

static bool goes_by_batch(const hr_builder *b, const hr_batchnorm *n) {
  return n->by_batch && b->status == HR_OK && hr__program_kind_trains(b->graph->programs[b->program].key.kind);
}

/* weight / sqrt(variance + eps), like variance. */
static hr_id scale_of(hr_builder *b, const hr_batchnorm *n, hr_id weight, hr_id variance) {
  hr_id inverse = hr__unary(b, HR_FORMULA_rsqrt, hr__unary(b, HR_FORMULA_affine, variance, 1, n->eps), 0, 0);
  return hr__binary(b, HR_FORMULA_mul, inverse, weight);
}

/* ---- by what is known ---- */

/* The norm as y = scale x + shift, [channels] each. */
static void known(hr_builder *b, const hr_batchnorm *n, hr_id *scale, hr_id *shift) {
  hr_id mean = running_mean(b, n), variance = running_variance(b, n), weight = weight_of(b, n), bias = bias_of(b, n);
  hr__module(b, "%s", n->path);
  *scale = scale_of(b, n, weight, variance);
  *shift = hr__binary(b, HR_FORMULA_sub, bias, hr__binary(b, HR_FORMULA_mul, mean, *scale));
}

/* [channels] beside x of any rank: [channels, 1...]. */
static hr_id column(hr_builder *b, const hr_batchnorm *n, int rank, hr_id x) {
  int64_t size[HR_RANK] = {n->channels, 1, 1, 1, 1, 1};
  return hr__reshape(b, x, rank - 1, size);
}

/* ---- by the batch ---- */

/* Over samples of a group and places, [G, n, C, P] -> [G, 1, C, 1]; f32 whatever x is. */
static hr_id mean_of(hr_builder *b, hr_id x) {
  if (b->status != HR_OK) return HR_NONE;
  hr_reduce_args args = {
      .program = hr__program_plain(4, 1), .reduction = HR_REDUCE_MEAN, .axes = 1u << 1 | 1u << 3, .dtype = HR_F32};
  args.program.n_out = 1;
  return hr__emit(b, &hr_op_reduce, &x, 1, &args);
}

/* A state follows the statistics [G, 1, C, 1] of one group after another. */
static void follow(hr_builder *b, const hr_batchnorm *n, hr_id state, hr_id statistics) {
  for (int64_t g = 0; g < n->groups && b->status == HR_OK; g++) {
    hr_id one = n->groups > 1 ? hr__slice(b, statistics, 0, g, 1) : statistics;
    state = hr__state_follow(b, state, hr__reshape(b, one, 1, &n->channels), 1 - n->momentum);
  }
}

/* x - mean is written once for each use, so that nobody keeps it: programs take it in. */
static hr_id normed_by_batch(hr_builder *b, const hr_batchnorm *n, hr_id x) {
  const hr_desc desc = b->graph->values[x].desc;
  int64_t samples = desc.dim[0] / n->groups, places = hr_desc_count(&desc) / desc.dim[0] / n->channels;
  int64_t count = samples * places;
  hr_id known_mean = running_mean(b, n), known_variance = running_variance(b, n);
  hr_id weight = weight_of(b, n), bias = bias_of(b, n);
  hr__module(b, "%s", n->at);
  x = hr__reshape(b, x, 4, (const int64_t[]){n->groups, samples, n->channels, places});
  hr_id mean = mean_of(b, x);
  hr_id variance = mean_of(b, hr__unary(b, HR_FORMULA_square, hr__binary(b, HR_FORMULA_sub, x, mean), 0, 0));
  hr__module(b, "%s", n->path);
  double unbiased = count > 1 ? (double)count / (double)(count - 1) : 1;
  follow(b, n, known_mean, mean);
  follow(b, n, known_variance, hr__unary(b, HR_FORMULA_affine, variance, (float)unbiased, 0));
  hr_id scale = scale_of(b, n, column(b, n, 3, weight), variance);
  hr__module(b, "%s", n->at);
  hr_id y = hr__binary(b, HR_FORMULA_mul, hr__binary(b, HR_FORMULA_sub, x, mean), scale);
  y = hr__binary(b, HR_FORMULA_add, y, column(b, n, 3, bias));
  return hr__reshape(b, y, desc.rank, desc.dim);
}

hr_id hr__batchnorm(hr_builder *b, const hr_batchnorm *n, hr_id x) {
  if (b->status != HR_OK) return HR_NONE;
  if (goes_by_batch(b, n)) return normed_by_batch(b, n, x);
  int rank = b->graph->values[x].desc.rank;
  hr_id scale, shift;
  known(b, n, &scale, &shift);
  hr__module(b, "%s", n->at);
  hr_id y = hr__binary(b, HR_FORMULA_mul, x, column(b, n, rank, scale));
  return hr__binary(b, HR_FORMULA_add, y, column(b, n, rank, shift));
}

/* ---- convolutions ---- */

hr_id hr__normed_conv(hr_builder *b, const hr_normed_conv *c, hr_id x, hr_id add) {
  char weight[NAME], bias[NAME];
  hr_conv_args args = {.stride = {c->stride, c->stride},
                       .padding = {c->kernel / 2, c->kernel / 2},
                       .dilation = {1, 1},
                       .groups = c->groups};
  hr_batchnorm norm = c->norm;
  norm.at = c->path;
  norm.channels = c->out;
  hr_desc desc = {b->dtype, 4, {c->out, c->in / c->groups, c->kernel, c->kernel}};
  snprintf(weight, sizeof weight, "%s.weight", c->path);
  snprintf(bias, sizeof bias, "%s.bias", c->path);
  hr__module(b, "%s", c->path);
  hr_id w = hr__parameter(b, weight, desc, hr__init_kaiming(c->out * c->kernel * c->kernel / c->groups, sqrt(2)));
  hr_id own = HR_NONE;
  if (c->biased) own = hr__parameter(b, bias, hr__desc1(b->dtype, c->out), (hr_init){.rule = HR_INIT_ZERO});
  if (goes_by_batch(b, &norm)) {
    hr_id y = hr__batchnorm(b, &norm, hr__conv(b, x, w, own, &args));
    return add == HR_NONE ? y : hr__binary(b, HR_FORMULA_add, y, add);
  }
  hr_id scale, shift;
  known(b, &norm, &scale, &shift);
  if (own != HR_NONE) shift = hr__binary(b, HR_FORMULA_add, shift, hr__binary(b, HR_FORMULA_mul, own, scale));
  w = hr__binary(b, HR_FORMULA_mul, w, column(b, &norm, 5, scale));
  hr__module(b, "%s", c->path);
  return hr__conv_add(b, x, w, shift, add, &args);
}
