/* The embedder's forward pass.
 *
 * A sample is an anchor, a positive (a code near it in the tree) and k negatives. Each code has a text in every
 * channel, which the encoder of that channel (a part) reads; the means over their tokens, side by side, go through
 * experts and two linears to a tangent vector, and from there to a point of hyperbolic space. The loss takes the anchor
 * to its positive and away from its negatives: cross-entropy of -distance / temperature with the positive as target.
 *
 * Shapes: B samples, G = 2 + k codes of each, R = B G rows, T positions of a channel, H its width, D of all of them.
 */
#include "model/embedder.h"

#include <math.h>
#include <stdio.h>

#include "model/hyperbolic.h"
#include "model/losses.h"
#include "model/modules.h"
#include "model/parts.h"
#include "model/softmax.h"
#include "op/concat.h"
#include "op/pointwise.h"
#include "op/slice.h"

/* By number, since a recipe names the channels. */
static const char *const length_names[HR_EMBEDDER_CHANNELS] = {"lengths_0", "lengths_1", "lengths_2",
                                                               "lengths_3", "lengths_4", "lengths_5"};
static const char *const mask_names[HR_EMBEDDER_CHANNELS] = {"mask_0", "mask_1", "mask_2",
                                                             "mask_3", "mask_4", "mask_5"};

static const hr_reported reported[] = {
    {.name = "contrastive", .weight = 1, .over = HR_OVER_SAMPLES},
    {.name = "balance", .weight = 1, .over = HR_OVER_SAMPLES},
    {.name = "rank", .metric = true, .over = HR_OVER_SAMPLES},
    {.name = "first", .metric = true, .over = HR_OVER_SAMPLES},
    {.name = "recall_1", .metric = true, .over = HR_OVER_DATA},
    {.name = "recall_5", .metric = true, .over = HR_OVER_DATA},
    {.name = "mean_rank", .metric = true, .over = HR_OVER_DATA},
    {.name = "correlation", .metric = true, .over = HR_OVER_DATA},
};

/* In these modules everything is f32: all that stands behind the encoders, which is little. Losses take distances by
 * 1 / temperature, and so every error of points. */
static const char *const wide[] = {"moe", "projection", "hyperbolic", "losses", NULL};

static int64_t vocabulary(const hr_model_part *whole) {
  const char *names[HR_MODEL_PARTS];
  hr__parts_names(whole, names);
  hr_model_part first = hr__part_find(whole, names[0]);
  return first.model->vocabulary(&first);
}

/* Of each channel tokens, how many of them there are, and a mask of the same. valid: which of the positive and the
 * negatives count; the positive does. */
static void fields(const hr_model_part *whole, const hr_field_shape *shape, hr_fields *out) {
  hr_embedder m = hr__embedder_read(whole);
  int64_t codes = 2 + m.negatives;
  for (int i = 0; i < m.channels; i++) {
    int64_t length = hr__embedder_length(&m, i, shape->length);
    hr_desc tokens = hr__desc3(HR_I32, shape->batch, codes, length),
            mask = hr__desc3(HR_U8, shape->batch, codes, length);
    hr_desc lengths = hr__desc2(HR_I32, shape->batch, codes);
    hr__field_add(
        out, (hr_field){.name = m.channel[i], .purpose = HR_FOR_TOKENS, .desc = tokens, .bound = vocabulary(whole)});
    hr__field_add(out,
                  (hr_field){.name = length_names[i], .purpose = HR_FOR_VALUES, .desc = lengths, .bound = length + 1});
    hr__field_add(out, (hr_field){.name = mask_names[i], .purpose = HR_FOR_VALUES, .desc = mask, .bound = 2});
  }
  hr_desc valid = hr__desc2(HR_U8, shape->batch, codes - 1);
  hr__field_add(out, (hr_field){.name = "valid", .purpose = HR_FOR_VALUES, .desc = valid, .bound = 2});
}

/* Mean of x [R, T, H] over the positions of a mask [B, G, T] that are not 0: [R, H]. */
static hr_id pooled(hr_builder *b, hr_id x, hr_id mask, int64_t rows, int64_t length) {
  hr__module(b, "pooling");
  mask = hr__reshape(b, mask, 3, (const int64_t[]){rows, length, 1});
  hr_id sum = hr__reduce(b, HR_REDUCE_SUM, hr__binary(b, HR_FORMULA_mul, x, mask), 1u << 1);
  hr_id count = hr__unary(b, HR_FORMULA_clamp, hr__reduce(b, HR_REDUCE_SUM, mask, 1u << 1), 1, (float)length);
  return hr__squeeze(b, hr__binary(b, HR_FORMULA_div, sum, count), 1u << 1);
}

/* The encoder of a channel over the texts of all codes of the batch: [R, H]. */
static hr_id channel_mean(hr_builder *b, const hr_model_part *whole, const hr_embedder *m, int i,
                          const hr_model_batch *batch) {
  hr_model_part part = hr__part_find(whole, m->channel[i]);
  int64_t rows = batch->batch * (2 + m->negatives), length = hr__embedder_length(m, i, batch->length);
  hr__module(b, "batch.%s", part.name);
  hr_model_batch own = {.batch = rows, .length = length, .targets = HR_NONE, .starts = HR_NONE};
  own.tokens = hr__reshape(b, hr__batch_field(batch, part.name), 2, (const int64_t[]){rows, length});
  own.lengths = hr__reshape(b, hr__batch_field(batch, length_names[i]), 1, &rows);
  own.positions = own.counts = HR_NONE;
  hr_part_names before = hr__part_open(b, &part); /* from tokens to means: slices of rows keep nothing that is larger */
  hr_id x = part.model->body(b, &part, part.model->embed(b, &part, &own), &own);
  x = pooled(b, x, hr__batch_field(batch, mask_names[i]), rows, length);
  hr__part_close(b, before);
  return x;
}

static hr_id projected(hr_builder *b, const char *name, int64_t in, int64_t rows, hr_id x) {
  hr_linears l = {.path = "projection",
                  .count = 1,
                  .name = {name},
                  .rows = {rows},
                  .in = in,
                  .biased = true,
                  .std = (float)(1 / sqrt(3 * (double)in))};
  return hr__linears(b, &l, x, HR_NONE);
}

/* The points of all codes of the batch, [R, 1 + tangent], and the balance of the experts. */
static hr_id points_of(hr_builder *b, const hr_model_part *whole, const hr_embedder *m, const hr_model_batch *batch,
                       hr_id *balance) {
  hr_id means[HR_EMBEDDER_CHANNELS];
  for (int i = 0; i < m->channels; i++)
    means[i] = channel_mean(b, whole, m, i, batch);
  hr__module(b, "pooling");
  hr_id x = b->status == HR_OK ? hr__concat(b, means, m->channels, 1) : HR_NONE;
  x = hr__experts(b, m, x, balance);
  x = projected(b, "linear", m->width, m->projection, x);
  x = projected(b, "tangent", m->projection, m->tangent, x);
  hr__module(b, "hyperbolic");
  return hr__exp_map(b, x, m->curvature);
}

/* Sum of all elements of x [B, n], f32 [1]. */
static hr_id sum_of(hr_builder *b, hr_id x) {
  return hr__squeeze(b, hr__reduce(b, HR_REDUCE_SUM, x, 3), 1u << 1);
}

static hr_id embedder_forward(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  const float never = -1e30f; /* logit of what does not count */
  hr_embedder m = hr__embedder_read(whole);
  int64_t samples = batch->batch, codes = 2 + m.negatives;
  hr_id balance = HR_NONE, points = points_of(b, whole, &m, batch, &balance);
  if (b->status != HR_OK) return HR_NONE;
  if (b->graph->programs[b->program].key.kind == HR_PROGRAM_EVAL) hr__program_set_output(b, HR_OUTPUT_POINTS, points);
  hr_id grouped = hr__reshape(b, points, 3, (const int64_t[]){samples, codes, 1 + m.tangent});
  hr_id anchor = hr__window(b, grouped, 1, 0, 1), others = hr__window(b, grouped, 1, 1, codes - 1);
  hr_id distance = hr__squeeze(b, hr__lorentz_distance(b, others, anchor, m.curvature), 1u << 2);
  hr__module(b, "losses");
  hr_id logits = hr__unary(b, HR_FORMULA_affine, distance, -1 / m.temperature, 0); /* [B, 1 + k] */
  hr_id none = hr__unary(b, HR_FORMULA_affine, logits, 0, never);
  logits = hr__select(b, hr__batch_field(batch, "valid"), logits, none);
  hr_id positive = hr__window(b, logits, 1, 0, 1);
  hr_id there = hr__window(b, hr__batch_field(batch, "valid"), 1, 0, 1); /* not in rows that only fill a batch up */
  hr_id losses = hr__binary(b, HR_FORMULA_sub, hr__log_sum_exp(b, logits), positive);
  hr_id loss = sum_of(b, hr__binary(b, HR_FORMULA_keep, losses, there));
  /* How many are as near as the positive, itself included: [B, 1]. */
  hr_id near = hr__unary(b, HR_FORMULA_affine, hr__binary(b, HR_FORMULA_less, logits, positive), -1, 1);
  hr_id rank = hr__binary(b, HR_FORMULA_keep, hr__reduce(b, HR_REDUCE_SUM, near, 1u << 1), there);
  hr_id first = hr__binary(b, HR_FORMULA_equal, rank, hr__unary(b, HR_FORMULA_affine, rank, 0, 1));
  hr__report(b, whole->model, batch, "contrastive", loss);
  hr__report(b, whole->model, batch, "balance",
             hr__unary(b, HR_FORMULA_affine, balance, m.balance * (float)samples, 0)); /* a mean over samples */
  hr__report(b, whole->model, batch, "rank", sum_of(b, rank));
  hr__report(b, whole->model, batch, "first", sum_of(b, first));
  return loss;
}

const hr_model hr_model_embedder = {
    .family = "embedder",
    .keys = {&hr_embedder_keys},
    .parts = hr_embedder_parts,
    .n_parts = HR_EMBEDDER_DEFAULT,
    .part_names = "config.texts",
    .most_parts = HR_EMBEDDER_CHANNELS,
    .check = hr__embedder_check,
    .forward = embedder_forward,
    .vocabulary = vocabulary,
    .reported = reported,
    .n_reported = sizeof reported / sizeof *reported,
    .wide = wide,
    .fields = fields,
};
