/* The multistream model's forward pass and its losses. See multistream.h.
 *
 * Outcome implies event: p_outcome is the smaller of the two heads' probabilities. A sigmoid ascends, so that the
 * smaller logit has it, and cross-entropy is taken of logits, where nothing is lost to rounding. The order loss is of
 * what the heads say before that rule, which would leave nothing of it.
 */
#include "model/multistream.h"

#include "data/spots.h"
#include "model/backbone.h"
#include "model/losses.h"
#include "model/modules.h"
#include "model/parts.h"
#include "op/concat.h"
#include "op/gather.h"
#include "op/pointwise.h"
#include "op/resize.h"
#include "op/slice.h"
#include "op/topk.h"

static const hr_reported reported[] = {
    {.name = "event", .weight = 1, .over = HR_OVER_SAMPLES},
    {.name = "outcome", .weight = 1, .over = HR_OVER_SAMPLES},
    {.name = "brier", .weight = 0.25f, .over = HR_OVER_SAMPLES}, /* of both heads */
    {.name = "order", .weight = 0.2f, .over = HR_OVER_SAMPLES},
    {.name = "mask", .weight = 1, .over = HR_OVER_SAMPLES},
    {.name = "pair_mask", .weight = 1, .over = HR_OVER_SAMPLES},   /* of the later of two frames */
    {.name = "course_mask", .weight = 1, .over = HR_OVER_SAMPLES}, /* of a few frames */
    {.name = "spot_found", .weight = 1, .over = HR_OVER_SAMPLES},
    {.name = "spot_offset", .weight = 0.25f, .over = HR_OVER_SAMPLES},
    {.name = "spot_size", .weight = 0.25f, .over = HR_OVER_SAMPLES},
    {.name = "spot_brightness", .weight = 0.25f, .over = HR_OVER_SAMPLES},
    {.name = "event_right", .metric = true, .over = HR_OVER_SAMPLES},
    {.name = "outcome_right", .metric = true, .over = HR_OVER_SAMPLES},
    {.name = "auc_event", .metric = true, .over = HR_OVER_DATA},
    {.name = "auc_outcome", .metric = true, .over = HR_OVER_DATA},
    {.name = "spot_recall", .metric = true, .over = HR_OVER_DATA},    /* part of the hot spots that are found */
    {.name = "spot_precision", .metric = true, .over = HR_OVER_DATA}, /* part of what is found that is one */
};

/* In these modules everything is f32: the heads, and what is summed over a whole video. */
static const char *const wide[] = {"heads", "losses", NULL};

static void fields(const hr_model_part *whole, const hr_field_shape *shape, hr_fields *out) {
  hr_multistream m = hr__multistream_read(whole);
  hr_model_part fusion = hr__part_find(whole, HR_STREAM_FUSION);
  int64_t b = shape->batch, classes = hr__scope_int(&fusion.scope, "config.classes");
  hr_desc label = hr__desc2(HR_U8, b, 1), curve = hr__desc3(HR_F32, b, HR_COOLING_TRACKS, HR_COOLING_INSTANTS);
  const hr_field rgb = {.name = "rgb",
                        .purpose = HR_FOR_VALUES,
                        .desc = {HR_U8, 5, {b, 3, m.frames, m.height, m.width}},
                        .bound = 256},
                 frame_mask = {.name = "frame_mask",
                               .purpose = HR_FOR_VALUES,
                               .desc = {HR_U8, 5, {b, 1, m.frames, m.height, m.width}},
                               .bound = 2},
                 always[] = {{.name = "class_id",
                              .purpose = HR_FOR_VALUES,
                              .desc = hr__desc1(HR_I32, b),
                              .bound = classes + 1},
                             {.name = "event_label", .purpose = HR_FOR_VALUES, .desc = label, .bound = 2},
                             {.name = "outcome_label", .purpose = HR_FOR_VALUES, .desc = label, .bound = 2}},
                 moving[] = {{.name = "motion",
                              .purpose = HR_FOR_VALUES,
                              .desc = hr__desc3(HR_F32, b, HR_MOTION_INSTANTS, HR_MOTION_NUMBERS)},
                             {.name = "motion_features",
                              .purpose = HR_FOR_VALUES,
                              .desc = hr__desc2(HR_F32, b, HR_MOTION_FEATURES)}},
                 cooling[] = {{.name = "curves", .purpose = HR_FOR_VALUES, .desc = curve},
                              {.name = "curve_areas", .purpose = HR_FOR_VALUES, .desc = curve},
                              {.name = "curve_mask",
                               .purpose = HR_FOR_VALUES,
                               .desc = hr__desc2(HR_U8, b, HR_COOLING_TRACKS),
                               .bound = 2,
                               .made_up = HR_MADE_LARGEST}};
  const hr_field hot[] = {
      {.name = "infrared",
       .purpose = HR_FOR_VALUES,
       .desc = {HR_U8, 5, {b, 1, m.frames, m.height, m.width}},
       .bound = 256},
      {.name = "spots", .purpose = HR_FOR_VALUES, .desc = {HR_F32, 4, {b, m.frames, HR_SPOTS, HR_SPOT_NUMBERS}}},
      {.name = "spot_cells",
       .purpose = HR_FOR_VALUES,
       .desc = hr__desc3(HR_I32, b, m.frames, HR_SPOTS),
       .bound = hr__spot_cells(m.height) * hr__spot_cells(m.width) + 1},
      {.name = "spot_mask", .purpose = HR_FOR_VALUES, .desc = hr__desc3(HR_U8, b, m.frames, HR_SPOTS), .bound = 2}};
  if (m.video || m.pair || m.course) {
    hr__field_add(out, rgb);
    hr__field_add(out, frame_mask);
  }
  for (int i = 0; i < 4 && m.infrared; i++)
    hr__field_add(out, hot[i]);
  for (int i = 0; i < 2 && m.motion; i++)
    hr__field_add(out, moving[i]);
  for (int i = 0; i < 3 && m.cooling; i++)
    hr__field_add(out, cooling[i]);
  for (int i = 0; i < 3; i++)
    hr__field_add(out, always[i]);
}

/* Sum of all elements of x [B, 1], f32 [1]; times a factor. */
static hr_id sum_of(hr_builder *b, hr_id x, float factor) {
  hr_id sum = hr__squeeze(b, hr__reduce(b, HR_REDUCE_SUM, x, 3), 1u << 1);
  return factor == 1.0f ? sum : hr__unary(b, HR_FORMULA_affine, sum, factor, 0);
}

/* Cross-entropy of what logits say and labels, both of one shape: softplus(x) - x t. */
static hr_id cross_entropy(hr_builder *b, hr_id logits, hr_id labels) {
  hr_id product = hr__binary(b, HR_FORMULA_mul, logits, labels);
  return hr__binary(b, HR_FORMULA_sub, hr__unary(b, HR_FORMULA_softplus, logits, 0, 0), product);
}

/* ---- the mask ---- */

/* Mean or sum over all of a sample but the first axis: [B, 1]. */
static hr_id over_sample(hr_builder *b, hr_reduction reduction, hr_id x) {
  return hr__squeeze(b, hr__reduce(b, reduction, x, 15u << 1), 7u << 2);
}

/* Of each sample 0.5 cross-entropy + 0.5 Dice, 1 - (2 sum(p t) + 1) / (sum(p) + sum(t) + 1): [B, 1]. Logits are the
 * only thing of the video's size; what sums are taken of is made where it is summed. */
static hr_id mask_loss(hr_builder *b, hr_id logits, hr_id target) {
  hr__module(b, "losses.mask");
  hr_id entropy = over_sample(b, HR_REDUCE_MEAN, cross_entropy(b, logits, target));
  hr_id p = hr__unary(b, HR_FORMULA_sigmoid, logits, 0, 0);
  hr_id both = over_sample(b, HR_REDUCE_SUM, hr__binary(b, HR_FORMULA_mul, p, target));
  hr_id all = hr__binary(b, HR_FORMULA_add, over_sample(b, HR_REDUCE_SUM, p), over_sample(b, HR_REDUCE_SUM, target));
  hr_id dice = hr__binary(b, HR_FORMULA_div, hr__unary(b, HR_FORMULA_affine, both, 2, 1),
                          hr__unary(b, HR_FORMULA_affine, all, 1, 1));
  entropy = hr__unary(b, HR_FORMULA_affine, entropy, 0.5f, 0);
  return hr__binary(b, HR_FORMULA_add, entropy, hr__unary(b, HR_FORMULA_affine, dice, -0.5f, 0.5f));
}

/* ---- what is noticed ---- */

/* Of each frame the largest logit along an axis of the mask's columns (axis 4) or rows (3), and where: [B, T, 1]. */
static hr_id largest(hr_builder *b, hr_id logits, int axis, hr_id *where) {
  int64_t samples = hr__desc_dim(b, logits, 0), frames = hr__desc_dim(b, logits, 2),
          size = hr__desc_dim(b, logits, axis);
  hr_id x = hr__reduce(b, HR_REDUCE_MAX, logits, 1u << (axis == 4 ? 3 : 4));
  x = hr__topk(b, hr__reshape(b, x, 3, (const int64_t[]){samples, frames, size}), 1);
  if (b->status != HR_OK) return HR_NONE;
  /* the middle of that column, as a part of all */
  *where = hr__unary(b, HR_FORMULA_affine, hr__node_out(b, x, 1), 1.0f / (float)size, 0.5f / (float)size);
  return x;
}

/* The frames in which the mask is surest of something: how sure, and where, [B, n, 3]. Nothing flows back. */
static hr_id noticed_of(hr_builder *b, hr_id logits, int64_t frames) {
  enum { MOST = 5 };
  int64_t count = frames < MOST ? frames : MOST, samples = hr__desc_dim(b, logits, 0);
  hr_id x = HR_NONE, y = HR_NONE;
  hr__module(b, "losses.noticed");
  hr_id sure = largest(b, logits, 4, &x);
  largest(b, logits, 3, &y);
  if (b->status != HR_OK) return HR_NONE;
  sure = hr__unary(b, HR_FORMULA_sigmoid, sure, 0, 0);
  hr_id frame = hr__topk(b, hr__reshape(b, sure, 2, (const int64_t[]){samples, frames}), (int)count);
  if (b->status != HR_OK) return HR_NONE;
  hr_id rows = hr__concat(b, (hr_id[]){sure, x, y}, 3, 2);
  return hr__detached(b, hr__gather(b, hr__node_out(b, frame, 1), rows));
}

/* ---- branches ---- */

static hr_id video_branch(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch, hr_id *mask) {
  hr_model_part part = hr__part_find(whole, HR_STREAM_VIDEO);
  hr_part_names before = hr__part_open(b, &part);
  hr_id x = hr__unet3d(b, &part, hr__batch_field(batch, "rgb"), mask);
  hr__part_close(b, before);
  return x;
}

static hr_id motion_branch(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch, hr_id *importance) {
  hr_model_part geometry = hr__part_find(whole, HR_STREAM_GEOMETRY),
                temporal = hr__part_find(whole, HR_STREAM_TEMPORAL);
  hr_id motion = hr__batch_field(batch, "motion"), embeddings[2];
  hr_part_names before = hr__part_open(b, &geometry);
  embeddings[0] = hr__motion_mlp(b, &geometry, motion, hr__batch_field(batch, "motion_features"), importance);
  hr__part_close(b, before);
  before = hr__part_open(b, &temporal);
  embeddings[1] = hr__motion_temporal(b, &temporal, motion);
  hr__part_close(b, before);
  hr__module(b, "embeddings");
  return b->status == HR_OK ? hr__concat(b, embeddings, 2, 1) : HR_NONE;
}

static hr_id cooling_branch(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch, hr_id *tau,
                            hr_id *kinds) {
  hr_model_part part = hr__part_find(whole, HR_STREAM_COOLING);
  hr_part_names before = hr__part_open(b, &part);
  hr_id x = hr__coolcurve(b, &part, hr__batch_field(batch, "curves"), hr__batch_field(batch, "curve_areas"),
                          hr__batch_field(batch, "curve_mask"), tau, kinds);
  hr__part_close(b, before);
  return x;
}

static hr_id infrared_branch(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch,
                             hr_spot_maps *maps) {
  hr_model_part part = hr__part_find(whole, HR_STREAM_DETECTOR);
  hr_part_names before = hr__part_open(b, &part);
  hr_id x = hr__hotspots(b, &part, hr__batch_field(batch, "infrared"), maps);
  hr__part_close(b, before);
  return x;
}

static hr_id pair_branch(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch, hr_two_frames *out) {
  hr_model_part backbone = hr__part_find(whole, HR_STREAM_BACKBONE), pair = hr__part_find(whole, HR_STREAM_PAIR);
  hr_id rgb = hr__batch_field(batch, "rgb");
  const int64_t size[] = {hr__desc_dim(b, rgb, 3), hr__desc_dim(b, rgb, 4)};
  hr_part_names before = hr__part_open(b, &backbone);
  hr_id map = hr__backbone_map(b, &backbone, hr__twoframe_images(b, rgb));
  hr__part_close(b, before);
  before = hr__part_open(b, &pair);
  hr_id x = hr__twoframe(b, &pair, map, size, out);
  hr__part_close(b, before);
  return x;
}

static hr_id course_branch(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch, hr_id *saliency) {
  hr_model_part convnext = hr__part_find(whole, HR_STREAM_CONVNEXT), course = hr__part_find(whole, HR_STREAM_COURSE);
  hr_id rgb = hr__batch_field(batch, "rgb"), maps[HR_CONVNEXT_STAGES];
  hr__module(b, "frames");
  hr_id x = hr__course_images(b, &course, rgb);
  hr_part_names before = hr__part_open(b, &convnext);
  hr__convnext_maps(b, &convnext, x, maps);
  hr__part_close(b, before);
  before = hr__part_open(b, &course);
  x = hr__course(b, &course, maps, hr__desc_dim(b, rgb, 0), saliency);
  hr__part_close(b, before);
  return x;
}

/* The masks of the frames that are followed, by the truth of the whole video. */
static hr_id course_loss(hr_builder *b, const hr_multistream *m, const hr_model_part *whole,
                         const hr_model_batch *batch, hr_id saliency) {
  hr_model_part course = hr__part_find(whole, HR_STREAM_COURSE);
  hr_course_frames followed = hr__course_frames(&course, m->frames);
  const int64_t size[] = {m->height, m->width};
  hr_id target[HR_COURSE_FRAMES], all = hr__batch_field(batch, "frame_mask");
  hr__module(b, "losses.course");
  for (int64_t i = 0; i < followed.count; i++)
    target[i] = hr__unary(b, HR_FORMULA_affine, hr__window(b, all, 2, followed.number[i], 1), 1, 0);
  if (b->status != HR_OK) return HR_NONE;
  hr_id truth = hr__concat(b, target, (int)followed.count, 2);
  saliency = hr__reshape(b, hr__resize(b, saliency, size), 5,
                         (const int64_t[]){batch->batch, 1, followed.count, m->height, m->width});
  return mask_loss(b, saliency, truth);
}

/* The mask of the later frame, by the truth of the whole video. */
static hr_id pair_loss(hr_builder *b, const hr_multistream *m, const hr_model_batch *batch, hr_id logits) {
  int64_t samples = hr__desc_dim(b, logits, 0), half = m->frames / 2;
  hr_id target = hr__window(b, hr__batch_field(batch, "frame_mask"), 2, half + half / 2, 1);
  logits = hr__reshape(b, logits, 5, (const int64_t[]){samples, 1, 1, m->height, m->width});
  return mask_loss(b, logits, target);
}

/* Embeddings of one modality side by side; HR_NONE for one that is not there. */
static hr_id beside(hr_builder *b, hr_id x, hr_id y) {
  if (x == HR_NONE || y == HR_NONE || b->status != HR_OK) return x == HR_NONE ? y : x;
  hr__module(b, "embeddings");
  return hr__concat(b, (hr_id[]){x, y}, 2, 1);
}

/* ---- heads ---- */

/* A logit of each sample, [B, 1]. */
static hr_id head(hr_builder *b, const hr_multistream *m, const char *path, int64_t width, hr_id x) {
  x = hr__stream_linear(b, path, "0", width, m->head, x);
  hr__module(b, "%s.1", path);
  x = hr__dropped(b, path, m->dropout, hr__unary(b, HR_FORMULA_relu, x, 0, 0));
  x = hr__stream_linear(b, path, "3", m->head, m->head_last, x);
  hr__module(b, "%s.4", path);
  return hr__stream_linear(b, path, "5", m->head_last, 1, hr__unary(b, HR_FORMULA_relu, x, 0, 0));
}

static hr_id probability(hr_builder *b, hr_id logit) {
  return hr__unary(b, HR_FORMULA_sigmoid, logit, 0, 0);
}

static hr_id squared_error(hr_builder *b, hr_id p, hr_id label) {
  return hr__unary(b, HR_FORMULA_square, hr__binary(b, HR_FORMULA_sub, p, label), 0, 0);
}

/* 1 where a logit is on the label's side of 0. */
static hr_id right(hr_builder *b, hr_id logit, hr_id label) {
  hr_id said = hr__binary(b, HR_FORMULA_less, hr__unary(b, HR_FORMULA_affine, logit, 0, 0), logit);
  return hr__binary(b, HR_FORMULA_equal, said, hr__unary(b, HR_FORMULA_affine, label, 1, 0));
}

/* found [B, 4]: what hr__spots_counted says; HR_NONE without a detector. */
static void heads_report(hr_builder *b, const hr_model_part *whole, const hr_multistream *m,
                         const hr_model_batch *batch, hr_id event, hr_id raw, hr_id found) {
  hr_id is_event = hr__batch_field(batch, "event_label"), is_outcome = hr__batch_field(batch, "outcome_label");
  hr__module(b, "losses.heads");
  hr_id outcome = hr__binary(b, HR_FORMULA_min, raw, event);
  hr_id p_event = probability(b, event), p_outcome = probability(b, outcome);
  hr_id brier =
      hr__binary(b, HR_FORMULA_add, squared_error(b, p_event, is_event), squared_error(b, p_outcome, is_outcome));
  hr_id above = hr__unary(b, HR_FORMULA_relu, hr__binary(b, HR_FORMULA_sub, probability(b, raw), p_event), 0, 0);
  const hr_model *model = whole->model;
  hr__report(b, model, batch, "event", sum_of(b, cross_entropy(b, event, is_event), m->fusion_weight));
  hr__report(b, model, batch, "outcome", sum_of(b, cross_entropy(b, outcome, is_outcome), m->fusion_weight));
  hr__report(b, model, batch, "brier", sum_of(b, brier, m->fusion_weight));
  hr__report(b, model, batch, "order", sum_of(b, above, m->fusion_weight));
  hr__report(b, model, batch, "event_right", sum_of(b, right(b, event, is_event), 1));
  hr__report(b, model, batch, "outcome_right", sum_of(b, right(b, outcome, is_outcome), 1));
  if (b->status != HR_OK || b->graph->programs[b->program].key.kind != HR_PROGRAM_EVAL) return;
  hr__program_set_output(b, HR_OUTPUT_POINTS,
                         hr__concat(b, (hr_id[]){p_event, p_outcome, found}, found == HR_NONE ? 2 : 3, 1));
}

/* Losses of branches that are not there are 0: `nothing` [B, 1]. */
static void spots_report(hr_builder *b, const hr_model_part *whole, const hr_multistream *m,
                         const hr_model_batch *batch, const hr_spot_maps *maps, hr_id nothing) {
  hr_spot_loss loss = {nothing, nothing, nothing, nothing};
  if (m->infrared) hr__spot_losses(b, maps, batch, &loss);
  const struct {
    const char *name;
    hr_id value;
  } each[] = {{"spot_found", loss.found},
              {"spot_offset", loss.offset},
              {"spot_size", loss.size},
              {"spot_brightness", loss.brightness}};
  hr__module(b, "losses.spots");
  for (size_t i = 0; i < sizeof each / sizeof *each; i++)
    hr__report(b, whole->model, batch, each[i].name, sum_of(b, each[i].value, m->spot_weight));
}

/* In evaluations: detections, tracks, and how many of them are right. */
static hr_id spots_show(hr_builder *b, const hr_model_batch *batch, const hr_spot_maps *maps) {
  if (b->status != HR_OK || b->graph->programs[b->program].key.kind != HR_PROGRAM_EVAL) return HR_NONE;
  hr_id detections = hr__spot_detections(b, maps), tracks = hr__spot_tracks(b, batch->batch, detections);
  if (b->status != HR_OK) return HR_NONE;
  hr__program_set_output(b, "detections", detections);
  hr__program_set_output(b, "tracks", tracks);
  return hr__spots_counted(b, batch, detections);
}

static void output_show(hr_builder *b, const char *name, hr_id value) {
  if (b->status != HR_OK || value == HR_NONE) return;
  if (b->graph->programs[b->program].key.kind == HR_PROGRAM_EVAL) hr__program_set_output(b, name, value);
}

static hr_id multistream_forward(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  hr_multistream m = hr__multistream_read(whole);
  hr_model_part fusion = hr__part_find(whole, HR_STREAM_FUSION);
  hr_id mask = HR_NONE, importance = HR_NONE, tau = HR_NONE, kinds = HR_NONE;
  hr_id video = HR_NONE, two = HR_NONE, followed = HR_NONE, saliency = HR_NONE;
  hr_spot_maps maps = {0};
  hr_two_frames frames = {HR_NONE, HR_NONE};
  hr_fused from = {
      .embedding = {HR_NONE, HR_NONE, HR_NONE}, .class_id = hr__batch_field(batch, "class_id"), .noticed = HR_NONE};
  if (m.video) {
    video = video_branch(b, whole, batch, &mask);
    from.noticed = noticed_of(b, mask, m.frames);
  }
  if (m.pair) two = pair_branch(b, whole, batch, &frames);
  if (m.course) followed = course_branch(b, whole, batch, &saliency);
  from.embedding[HR_MODALITY_IMAGE] = beside(b, beside(b, video, two), followed);
  hr_id hot = m.infrared ? infrared_branch(b, whole, batch, &maps) : HR_NONE;
  hr_id cooled = m.cooling ? cooling_branch(b, whole, batch, &tau, &kinds) : HR_NONE;
  from.embedding[HR_MODALITY_THERMAL] = beside(b, hot, cooled);
  if (m.motion) from.embedding[HR_MODALITY_MOTION] = motion_branch(b, whole, batch, &importance);
  hr_part_names before = hr__part_open(b, &fusion);
  hr_id x = hr__crossfusion(b, &fusion, &from);
  hr__part_close(b, before);
  int64_t width = hr__crossfusion_width(&fusion);
  hr_id event = head(b, &m, "heads.event", width, x), outcome = head(b, &m, "heads.outcome", width, x);
  heads_report(b, whole, &m, batch, event, outcome, m.infrared ? spots_show(b, batch, &maps) : HR_NONE);
  hr_id nothing = hr__detached(b, hr__unary(b, HR_FORMULA_affine, event, 0, 0));
  spots_report(b, whole, &m, batch, &maps, nothing);
  hr_id masked = m.video ? mask_loss(b, mask, hr__batch_field(batch, "frame_mask")) : nothing;
  hr_id loss = sum_of(b, masked, m.mask_weight);
  hr__report(b, whole->model, batch, "mask", loss);
  hr_id changed = m.pair ? pair_loss(b, &m, batch, frames.mask) : nothing;
  hr__report(b, whole->model, batch, "pair_mask", sum_of(b, changed, m.mask_weight));
  hr_id course = m.course ? course_loss(b, &m, whole, batch, saliency) : nothing;
  hr__report(b, whole->model, batch, "course_mask", sum_of(b, course, m.mask_weight));
  output_show(b, "integrity", frames.integrity);
  output_show(b, "saliency", saliency);
  output_show(b, "importance", importance);
  output_show(b, "tau", tau);
  output_show(b, "kinds", kinds);
  return loss;
}

const hr_model hr_model_multistream = {
    .family = "multistream",
    .keys = {&hr_multistream_keys},
    .parts = hr_multistream_parts,
    .n_parts = HR_MULTISTREAM_PARTS,
    .check = hr__multistream_check,
    .forward = multistream_forward,
    .reported = reported,
    .n_reported = sizeof reported / sizeof *reported,
    .wide = wide,
    .fields = fields,
};
