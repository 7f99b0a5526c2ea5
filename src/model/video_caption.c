/* The video model's forward pass: a backbone makes features of frames; of these, a detector says which frames trigger,
 * and an encoder makes vectors of the decoder's width, which stand in front of the caption that the decoder writes. See
 * video_caption.h.
 *
 * Three losses: cross-entropy of triggers over valid frames, that of the caption's tokens, and how much the probability
 * of a trigger differs from one frame to the next. Each is reported with its weight.
 */
#include "model/video_caption.h"

#include <math.h>

#include "model/backbone.h"
#include "model/features.h"
#include "model/greedy.h"
#include "model/losses.h"
#include "model/parts.h"
#include "op/concat.h"
#include "op/gather.h"
#include "op/pointwise.h"
#include "op/slice.h"

static const hr_reported reported[] = {
    {.name = "caption", .weight = 1, .over = HR_OVER_TARGETS},
    {.name = "trigger", .weight = 1, .over = HR_OVER_MASK, .mask = "frame_mask"},
    {.name = "smoothness", .weight = 1, .over = HR_OVER_MASK, .mask = "pair_mask"},
    {.name = "caption_accuracy", .metric = true, .evaluated = true, .over = HR_OVER_MASK, .mask = "caption_mask"},
    {.name = "captions_exact", .metric = true, .evaluated = true, .over = HR_OVER_SAMPLES},
    {.name = "trigger_f1", .metric = true, .over = HR_OVER_DATA},
    {.name = "trigger_time_error", .metric = true, .over = HR_OVER_DATA},
};

static const hr_part_declared parts[] = {{HR_VIDEO_BACKBONE, "resnet50"}, {HR_VIDEO_DECODER, "gemma3"}};

/* In these modules everything is f32. */
#define TRIGGERS "triggers"
static const char *const wide[] = {HR_VIDEO_WIDE, TRIGGERS, HR_GREEDY_MODULE, NULL};

static int64_t vocabulary(const hr_model_part *whole) {
  hr_model_part decoder = hr__part_find(whole, HR_VIDEO_DECODER);
  return decoder.model->vocabulary(&decoder);
}

static void fields(const hr_model_part *whole, const hr_field_shape *shape, hr_fields *out) {
  hr_video_caption m = hr__video_caption_of(whole, shape->length);
  int64_t b = shape->batch, l = shape->length, t = m.sizes.frames, words = vocabulary(whole);
  hr_desc text = hr__desc2(HR_I32, b, l), of_frames = hr__desc2(HR_U8, b, t);
  hr_field frames = {
      .name = "frames", .purpose = HR_FOR_VALUES, .desc = {HR_U8, 5, {b, t, m.height, m.image_width, 3}}, .bound = 256};
  hr_model_part backbone = hr__part_find(whole, HR_VIDEO_BACKBONE);
  hr_field features = {
      .name = "features", .purpose = HR_FOR_VALUES, .desc = hr__desc3(HR_F32, b, t, hr__backbone_features(&backbone))};
  const hr_field list[] = {
      hr__video_features_cached(whole) ? features : frames,
      {.name = "timestamps", .purpose = HR_FOR_VALUES, .desc = hr__desc2(HR_F32, b, t)},
      {.name = "frame_lengths",
       .purpose = HR_FOR_VALUES,
       .desc = hr__desc1(HR_I32, b),
       .bound = t + 1,
       .made_up = HR_MADE_LARGEST},
      {.name = "triggers", .purpose = HR_FOR_VALUES, .desc = hr__desc2(HR_I32, b, t), .bound = 2},
      {.name = "frame_mask", .purpose = HR_FOR_VALUES, .desc = of_frames, .bound = 2, .made_up = HR_MADE_LARGEST},
      {.name = "pair_mask", .purpose = HR_FOR_VALUES, .desc = of_frames, .bound = 2, .made_up = HR_MADE_LARGEST},
      {.name = "tokens", .purpose = HR_FOR_TOKENS, .desc = text, .bound = words},
      {.name = "targets", .purpose = HR_FOR_TARGETS, .desc = text, .bound = words},
      {.name = "caption_mask",
       .purpose = HR_FOR_VALUES,
       .desc = hr__desc2(HR_U8, b, l),
       .bound = 2,
       .made_up = HR_MADE_LARGEST},
      {.name = "placement", .purpose = HR_FOR_VALUES, .desc = text, .bound = l + t, .made_up = HR_MADE_IN_ORDER},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    hr__field_add(out, list[i]);
}

/* Features alone: rows are frames of any video. */
static hr_field frame_field(const hr_model_part *whole, int64_t rows) {
  hr_video_caption m = hr__video_caption_read(whole);
  return (hr_field){
      .name = "frames", .purpose = HR_FOR_VALUES, .desc = {HR_U8, 4, {rows, m.height, m.image_width, 3}}, .bound = 256};
}

static hr_id frames_see(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  hr_model_part backbone = hr__part_find(whole, HR_VIDEO_BACKBONE);
  return hr__part_body(b, &backbone, hr__batch_field(batch, "frames"), batch);
}

static const hr_model_features features = {
    .part = HR_VIDEO_BACKBONE, .cached = hr__video_features_cached, .field = frame_field, .make = frames_see};

/* [B, T, F] of the batch's frames. */
static hr_id seen(hr_builder *b, const hr_model_part *whole, const hr_video_caption *m, const hr_model_batch *batch) {
  hr_model_part backbone = hr__part_find(whole, HR_VIDEO_BACKBONE);
  int64_t rows = batch->batch * m->sizes.frames, width = hr__backbone_features(&backbone);
  hr_id x = hr__batch_field(batch, "features");
  if (x != HR_NONE) {
    x = hr__reshape(b, x, 2, (const int64_t[]){rows, width});
  } else {
    x = hr__reshape(b, hr__batch_field(batch, "frames"), 4, (const int64_t[]){rows, m->height, m->image_width, 3});
    x = hr__part_body(b, &backbone, x, batch);
  }
  hr__block_begin(b, "visual_encoder");
  x = hr__video_features(b, &m->sizes, x, width);
  hr__block_end(b);
  return hr__reshape(b, x, 3, (const int64_t[]){batch->batch, m->sizes.frames, m->sizes.feature});
}

/* How much more a trigger is likely than none, as logits differ: f32 [B, T]. */
static hr_id trigger_of(hr_builder *b, const hr_video_caption *m, const hr_model_batch *batch, hr_id x) {
  hr_id logits = hr__video_trigger(b, &m->sizes, x, hr__batch_field(batch, "frame_lengths"));
  hr__module(b, TRIGGERS);
  hr_id none = hr__window(b, logits, 2, 0, 1), some = hr__window(b, logits, 2, 1, 1);
  return hr__squeeze(b, hr__binary(b, HR_FORMULA_sub, some, none), 1u << 2);
}

/* The sum of what the mask keeps, times a weight: f32 [1]. */
static hr_id weighed(hr_builder *b, const hr_model_batch *batch, hr_id x, const char *mask, float weight) {
  x = hr__binary(b, HR_FORMULA_keep, x, hr__batch_field(batch, mask));
  x = hr__squeeze(b, hr__reduce(b, HR_REDUCE_SUM, x, 1u << 0 | 1u << 1), 1u << 1);
  return hr__unary(b, HR_FORMULA_affine, x, weight, 0);
}

/* Cross-entropy of two logits that differ by z: log(1 + e^z), less z where the frame is to trigger. */
static void triggers_report(hr_builder *b, const hr_model_part *whole, const hr_video_caption *m,
                            const hr_model_batch *batch, hr_id z) {
  hr__module(b, TRIGGERS);
  hr_id kept = hr__binary(b, HR_FORMULA_keep, z, hr__batch_field(batch, "triggers"));
  hr_id loss = hr__binary(b, HR_FORMULA_sub, hr__unary(b, HR_FORMULA_softplus, z, 0, 0), kept);
  hr__report(b, whole->model, batch, "trigger", weighed(b, batch, loss, "frame_mask", m->trigger_weight));
  hr_id p = hr__unary(b, HR_FORMULA_sigmoid, z, 0, 0);
  hr_id before = hr__window(b, p, 1, -1, m->sizes.frames);
  hr_id change = hr__unary(b, HR_FORMULA_abs, hr__binary(b, HR_FORMULA_sub, p, before), 0, 0);
  hr__report(b, whole->model, batch, "smoothness", weighed(b, batch, change, "pair_mask", m->smoothness_weight));
}

/* [B, L, H]: of each position the frame's vector, or the embedding of its token. */
static hr_id placed(hr_builder *b, const hr_model_part *whole, const hr_video_caption *m, const hr_model_batch *batch,
                    hr_id x) {
  hr_model_part decoder = hr__part_find(whole, HR_VIDEO_DECODER);
  hr_id lengths = hr__batch_field(batch, "frame_lengths");
  x = hr__video_encode(b, &whole->scope, &m->sizes, x, hr__batch_field(batch, "timestamps"), lengths);
  x = hr__video_temporal(b, &m->sizes, x, lengths);
  x = hr__video_project(b, &m->sizes, x, hr__scope_int(&decoder.scope, "config.hidden_size"));
  hr_id words = hr__part_embed(b, &decoder, batch);
  hr__module(b, "placement");
  if (b->status != HR_OK) return HR_NONE;
  return hr__gather(b, hr__batch_field(batch, "placement"), hr__concat(b, (hr_id[]){words, x}, 2, 1));
}

static hr_id prompt(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  hr_video_caption m = hr__video_caption_of(whole, batch->length);
  return placed(b, whole, &m, batch, seen(b, whole, &m, batch));
}

/* Tokens of captions that are the likeliest, and captions all of whose tokens are. Samples that only fill a batch up
 * have no caption. */
static void captions_report(hr_builder *b, const hr_model_part *whole, const hr_model_part *decoder,
                            const hr_model_batch *batch, hr_id hidden) {
  hr__module(b, HR_GREEDY_MODULE);
  hr_id expected =
      hr__reshape(b, hr__batch_field(batch, "caption_mask"), 3, (const int64_t[]){batch->batch, batch->length, 1});
  expected = hr__unary(b, HR_FORMULA_affine, expected, 1, 0);
  hr_id wrong = hr__greedy_mistakes(b, decoder, batch, hidden, expected);
  hr__module(b, HR_GREEDY_MODULE);
  hr_id tokens = hr__reduce(b, HR_REDUCE_SUM, expected, 1u << 1);
  hr_id right = hr__reduce(b, HR_REDUCE_SUM, hr__binary(b, HR_FORMULA_sub, tokens, wrong), 1u << 0);
  hr__report(b, whole->model, batch, "caption_accuracy", hr__squeeze(b, right, 3u << 1));
  hr_id exact = hr__binary(b, HR_FORMULA_equal, wrong, hr__unary(b, HR_FORMULA_affine, wrong, 0, 0));
  exact = hr__reduce(b, HR_REDUCE_SUM, hr__binary(b, HR_FORMULA_keep, exact, tokens), 1u << 0);
  hr__report(b, whole->model, batch, "captions_exact", hr__squeeze(b, exact, 3u << 1));
}

/* What frames are judged by, [B, T]: above 0 they trigger. */
static void points_put(hr_builder *b, const hr_video_caption *m, hr_id z) {
  double threshold = (double)m->trigger_threshold;
  hr__module(b, TRIGGERS);
  hr_id points = hr__unary(b, HR_FORMULA_affine, z, 1, (float)-log(threshold / (1 - threshold)));
  hr__program_set_output(b, HR_OUTPUT_POINTS, points);
}

static hr_id forward(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  hr_video_caption m = hr__video_caption_of(whole, batch->length);
  hr_model_part decoder = hr__part_find(whole, HR_VIDEO_DECODER);
  hr_id x = seen(b, whole, &m, batch), z = trigger_of(b, &m, batch, x);
  if (b->status != HR_OK) return HR_NONE;
  triggers_report(b, whole, &m, batch, z);
  x = hr__part_body(b, &decoder, placed(b, whole, &m, batch, x), batch);
  hr_id loss = hr__part_loss(b, &decoder, x, batch);
  hr__module(b, TRIGGERS);
  if (m.caption_weight != 1) loss = hr__unary(b, HR_FORMULA_affine, loss, m.caption_weight, 0);
  hr__report(b, whole->model, batch, "caption", loss);
  if (b->status == HR_OK && b->graph->programs[b->program].key.kind == HR_PROGRAM_EVAL) {
    captions_report(b, whole, &decoder, batch, x);
    points_put(b, &m, z);
  }
  return loss;
}

const hr_model hr_model_video_caption = {
    .family = "video_caption",
    .keys = {&hr_video_caption_keys},
    .parts = parts,
    .n_parts = sizeof parts / sizeof *parts,
    .check = hr__video_caption_check,
    .forward = forward,
    .features = &features,
    .speaker = HR_VIDEO_DECODER,
    .prompt = prompt,
    .vocabulary = vocabulary,
    .reported = reported,
    .n_reported = sizeof reported / sizeof *reported,
    .wide = wide,
    .fields = fields,
};
