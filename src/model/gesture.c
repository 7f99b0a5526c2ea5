/* The gesture model's forward pass. See gesture.h. */
#include "model/gesture.h"

#include <stdio.h>

#include "model/losses.h"
#include "model/modules.h"
#include "model/softmax.h"
#include "op/gather.h"
#include "op/gelu.h"
#include "op/linear.h"
#include "op/pointwise.h"
#include "op/slice.h"

enum { PATH = 96 };
static const float NORM_EPS = 1e-5f;

static const hr_reported reported[] = {
    {.name = "loss", .weight = 1, .over = HR_OVER_SAMPLES},
    {.name = "accuracy", .metric = true, .over = HR_OVER_SAMPLES},
};

/* In these modules everything is f32: they have one row for each sample. */
static const char *const wide[] = {"pooling", "classifier", "losses", NULL};

/* vectors: real parts, then imaginary ones; 0 behind the sample. orders: which vector stands at each position of an
 * order; inverses: where each vector stands in it; positions behind the sample are their own. pooling: weights of
 * positions, 0 behind the sample, and in rows that only fill a batch up: they are known by it.
 *
 * Where recordings share a row: orders are those of each within its own positions, which `starts` names, alike for all
 * six; `recordings` says which one of the row a piece is of, and none behind the last; labels are theirs. */
static void fields(const hr_model_part *whole, const hr_field_shape *shape, hr_fields *out) {
  hr_gesture m = hr__gesture_read(whole);
  int64_t b = shape->batch, l = shape->length;
  int64_t pieces = shape->documents ? l / m.mixer.chunk : 1;
  hr_desc order = hr__desc3(HR_I32, b, HR_GESTURE_ORDERS, l), recordings = hr__desc2(HR_I32, b, pieces);
  const hr_field list[] = {
      {.name = "vectors", .purpose = HR_FOR_VALUES, .desc = hr__desc3(HR_F32, b, l, 2 * m.encoding)},
      {.name = "orders", .purpose = HR_FOR_VALUES, .desc = order, .bound = l, .made_up = HR_MADE_IN_ORDER},
      {.name = "inverses", .purpose = HR_FOR_VALUES, .desc = order, .bound = l, .made_up = HR_MADE_IN_ORDER},
      {.name = "pooling", .purpose = HR_FOR_VALUES, .desc = hr__desc3(HR_F32, b, m.pooling.count, l)},
      {.name = "labels",
       .purpose = HR_FOR_VALUES,
       .desc = shape->documents ? recordings : hr__desc1(HR_I32, b),
       .bound = m.classes},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    hr__field_add(out, list[i]);
  if (!shape->documents) return;
  hr__field_add(out, (hr_field){.name = "starts", .purpose = HR_FOR_STARTS, .desc = order});
  hr__field_add(out,
                (hr_field){.name = "recordings", .purpose = HR_FOR_VALUES, .desc = recordings, .bound = pieces + 1});
}

hr_id hr__gesture_linear(hr_builder *b, const char *path, int64_t in, int64_t out, hr_id x) {
  char name[PATH];
  hr__module(b, "%s", path);
  snprintf(name, sizeof name, "%s.weight", path);
  hr_id weight = hr__parameter(b, name, hr__desc2(b->dtype, out, in), hr__init_xavier(in, out));
  snprintf(name, sizeof name, "%s.bias", path);
  hr_id bias = hr__parameter(b, name, hr__desc1(b->dtype, out), (hr_init){.rule = HR_INIT_ZERO});
  return hr__linear(b, x, weight, bias);
}

/* GELU and dropout behind a module. */
static hr_id activated(hr_builder *b, const hr_gesture *m, const char *path, hr_id x) {
  hr__module(b, "%s", path);
  return hr__dropped(b, path, m->dropout, hr__gelu(b, x, false));
}

static hr_id projected(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch) {
  hr_id x = hr__gesture_linear(b, "input_proj.0", 2 * m->encoding, m->hidden, hr__batch_field(batch, "vectors"));
  x = hr__layernorm_module(b, "input_proj.1", m->hidden, NORM_EPS, x);
  return activated(b, m, "input_proj", x);
}

/* What the six orders say of a position, [B, L, 6 H] -> [B, L, H]. */
static hr_id fused(hr_builder *b, const hr_gesture *m, hr_id x) {
  int64_t wide_columns = HR_GESTURE_ORDERS * m->hidden;
  x = hr__layernorm_module(b, "fusion.0", wide_columns, NORM_EPS, x);
  x = hr__gesture_linear(b, "fusion.1", wide_columns, m->hidden, x);
  return activated(b, m, "fusion", x);
}

/* [B, L, H] -> [B C, S H]: weighted sums over positions of each recording. */
static hr_id pooled(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, hr_id x) {
  int64_t pieces = hr__gesture_pieces(m, batch), rows = batch->batch * pieces, scales = m->pooling.count;
  hr__module(b, "pooling");
  x = hr__reshape(b, x, 4, (const int64_t[]){rows, 1, batch->length / pieces, m->hidden});
  hr_id weights = hr__gesture_by_piece(b, m, batch, hr__batch_field(batch, "pooling"), scales);
  x = hr__reduce(b, HR_REDUCE_SUM, hr__binary(b, HR_FORMULA_mul, x, weights), 1u << 2);
  return hr__gesture_by_recording(b, m, batch, x, scales * m->hidden);
}

/* [B C, S H] -> logits [B C, classes]. Rows of the batch stay the first axis in between: what is dropped is drawn for
 * each of them. */
static hr_id classified(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, hr_id x) {
  int64_t in = m->pooling.count * m->hidden, pieces = hr__gesture_pieces(m, batch);
  if (pieces > 1) x = hr__reshape(b, x, 3, (const int64_t[]){batch->batch, pieces, in});
  x = hr__layernorm_module(b, "classifier.0", in, NORM_EPS, x);
  x = activated(b, m, "classifier.2", hr__gesture_linear(b, "classifier.1", in, 2 * m->hidden, x));
  x = activated(b, m, "classifier.5", hr__gesture_linear(b, "classifier.4", 2 * m->hidden, m->hidden, x));
  x = hr__gesture_linear(b, "classifier.7", m->hidden, m->classes, x);
  return pieces > 1 ? hr__reshape(b, x, 2, (const int64_t[]){batch->batch * pieces, m->classes}) : x;
}

/* Sum of all elements of x [B C, 1], f32 [1]. */
static hr_id sum_of(hr_builder *b, hr_id x) {
  return hr__squeeze(b, hr__reduce(b, HR_REDUCE_SUM, x, 3), 1u << 1);
}

/* Cross-entropy with smoothed labels, -(1 - e) log p_label - e mean of log p, and how many samples have their label as
 * the one likeliest class. */
static void losses_report(hr_builder *b, const hr_model_part *whole, const hr_gesture *m, const hr_model_batch *batch,
                          hr_id logits) {
  int64_t samples = batch->batch * hr__gesture_pieces(m, batch);
  hr__module(b, "losses");
  if (b->status != HR_OK) return;
  bool smooth = hr__drops(b, m->smoothing); /* in training only */
  hr_id there = hr__window(b, hr__batch_field(batch, "pooling"), 1, 0, 1);
  there = hr__reduce(b, HR_REDUCE_MAX, hr__gesture_by_piece(b, m, batch, there, 1), 1u << 2);
  there = hr__gesture_by_recording(b, m, batch, there, 1); /* more than 0 where there is one */
  hr_id label = hr__reshape(b, hr__batch_field(batch, "labels"), 2, (const int64_t[]){samples, 1});
  hr_id own = hr__gather(b, label, logits);
  hr_id expected =
      smooth
          ? hr__binary(b, HR_FORMULA_add, hr__unary(b, HR_FORMULA_affine, own, 1 - m->smoothing, 0),
                       hr__unary(b, HR_FORMULA_affine, hr__reduce(b, HR_REDUCE_MEAN, logits, 1u << 1), m->smoothing, 0))
          : own;
  hr_id loss = hr__binary(b, HR_FORMULA_sub, hr__log_sum_exp(b, logits), expected);
  hr__report(b, whole->model, batch, "loss", sum_of(b, hr__binary(b, HR_FORMULA_keep, loss, there)));
  hr_id as_large = hr__unary(b, HR_FORMULA_affine, hr__binary(b, HR_FORMULA_less, logits, own), -1, 1);
  as_large = hr__reduce(b, HR_REDUCE_SUM, as_large, 1u << 1); /* 1: the label alone */
  hr_id right = hr__binary(b, HR_FORMULA_equal, as_large, hr__unary(b, HR_FORMULA_affine, as_large, 0, 1));
  hr__report(b, whole->model, batch, "accuracy", sum_of(b, hr__binary(b, HR_FORMULA_keep, right, there)));
}

/* Logits of each row's first recording, [B, classes]: in evaluation it has no other. */
static hr_id first_of_rows(hr_builder *b, const hr_gesture *m, const hr_model_batch *batch, hr_id logits) {
  int64_t pieces = hr__gesture_pieces(m, batch);
  if (pieces == 1) return logits;
  logits = hr__reshape(b, logits, 3, (const int64_t[]){batch->batch, pieces, m->classes});
  return hr__squeeze(b, hr__window(b, logits, 1, 0, 1), 1u << 1);
}

static hr_id forward(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  hr_gesture m = hr__gesture_read(whole);
  hr_id x = hr__gesture_stacks(b, &m, batch, projected(b, &m, batch));
  hr_id logits = classified(b, &m, batch, pooled(b, &m, batch, fused(b, &m, x)));
  if (b->status != HR_OK) return HR_NONE;
  if (b->graph->programs[b->program].key.kind == HR_PROGRAM_EVAL)
    hr__program_set_output(b, HR_OUTPUT_POINTS, first_of_rows(b, &m, batch, logits));
  losses_report(b, whole, &m, batch, logits);
  return b->status == HR_OK ? logits : HR_NONE;
}

const hr_model hr_model_gesture = {
    .family = "gesture",
    .keys = {&hr_gesture_keys},
    .check = hr__gesture_check,
    .forward = forward,
    .reported = reported,
    .n_reported = sizeof reported / sizeof *reported,
    .wide = wide,
    .fields = fields,
};
