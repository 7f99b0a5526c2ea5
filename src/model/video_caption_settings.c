/* Settings of the video model under model.config, and their checks. */
#include <inttypes.h>
#include <stdio.h>

#include "data/keys.h"
#include "data/video.h"
#include "model/backbone.h"
#include "model/parts.h"
#include "model/video_caption.h"

enum { SIZE_MOST = 1 << 16, LAYERS_MOST = 1 << 10 };

#define SIZE(name, preset, most, text)                                                                                 \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_INT, .fallback = preset, .min = 1, .max = most,                           \
    .meaning = "video_caption: " text                                                                                  \
  }
#define PART(name, preset, most, text)                                                                                 \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_FLOAT, .fallback = preset, .min = 0, .max = most,                         \
    .meaning = "video_caption: " text                                                                                  \
  }

static const hr_key keys[] = {
    SIZE("feature_size", "512", SIZE_MOST, "width of what is made of a frame"),
    SIZE("trigger_size", "256", SIZE_MOST, "width of the trigger detector; even"),
    SIZE("time_size", "768", SIZE_MOST, "width of the time-aware encoder; even"),
    SIZE("time_layers", "4", LAYERS_MOST, "layers of the time-aware encoder"),
    SIZE("time_heads", "8", SIZE_MOST, "heads of its attention"),
    SIZE("time_mlp_size", "3072", SIZE_MOST, "width inside of its MLPs"),
    SIZE("lstm_size", "512", SIZE_MOST, "units of the LSTM behind it, in each direction"),
    SIZE("lstm_layers", "2", LAYERS_MOST, "layers of that LSTM"),
    PART("dropout", "0.1", 0.99, "part that is dropped in training"),
    PART("trigger_dropout", "0.2", 0.99, "the same in the trigger detector"),
    PART("trigger_weight", "1.0", 1e6, "weight of the loss of triggers: cross-entropy of valid frames"),
    PART("caption_weight", "1.0", 1e6, "weight of the loss of captions"),
    PART("smoothness_weight", "0.5", 1e6, "weight of the mean difference of neighbouring trigger probabilities"),
    {.path = "*.config.trigger_threshold",
     .type = HR_KEY_FLOAT,
     .fallback = "0.5",
     .min = 0.001,
     .max = 0.999,
     .meaning = "video_caption: probability above which a frame triggers, for metrics and for headroom generate"},
};
const hr_key_table hr_video_caption_keys = {keys, sizeof keys / sizeof *keys};

hr_video_caption hr__video_caption_read(const hr_model_part *whole) {
  const hr_scope *r = &whole->scope;
  hr_video_caption m = {
      .sizes = {.feature = hr__scope_int(r, "config.feature_size"),
                .trigger = hr__scope_int(r, "config.trigger_size"),
                .width = hr__scope_int(r, "config.time_size"),
                .layers = hr__scope_int(r, "config.time_layers"),
                .heads = hr__scope_int(r, "config.time_heads"),
                .mlp = hr__scope_int(r, "config.time_mlp_size"),
                .lstm = hr__scope_int(r, "config.lstm_size"),
                .lstm_layers = hr__scope_int(r, "config.lstm_layers"),
                .dropout = (float)hr__scope_float(r, "config.dropout"),
                .trigger_dropout = (float)hr__scope_float(r, "config.trigger_dropout")},
      .trigger_weight = (float)hr__scope_float(r, "config.trigger_weight"),
      .caption_weight = (float)hr__scope_float(r, "config.caption_weight"),
      .smoothness_weight = (float)hr__scope_float(r, "config.smoothness_weight"),
      .trigger_threshold = (float)hr__scope_float(r, "config.trigger_threshold"),
  };
  hr_error ignored; /* it has been checked */
  if (hr__video_shape(r->recipe, &m.sizes.frames, &m.height, &m.image_width, &ignored) != HR_OK) m.sizes.frames = 1;
  return m;
}

hr_video_caption hr__video_caption_of(const hr_model_part *whole, int64_t length) {
  hr_video_caption m = hr__video_caption_read(whole);
  m.sizes.frames = hr__video_room(m.sizes.frames, length);
  return m;
}

/* Why features of frames would change while the rest is trained; NULL: they do not. */
static const hr_backbone_change *features_change(const hr_model_part *backbone, const hr_scope *whole) {
  static const hr_backbone_change adapted = {"has adapters", "adapters: null"}, trained = {"is trained", "train: none"};
  char path[HR_SCOPE_PATH];
  const hr_scope *s = hr__scope_has(&backbone->scope, "train") ? &backbone->scope : whole;
  bool frozen = hr__scope_has(s, "train") && hr__recipe_word_is(s->recipe, hr__scope_path(s, "train", path), "none");
  if (hr__scope_given(&backbone->scope, "adapters")) return &adapted;
  return frozen ? hr__backbone_changes(backbone) : &trained;
}

bool hr__video_features_cached(const hr_model_part *whole) {
  const hr_recipe *recipe = whole->scope.recipe;
  hr_model_part backbone = hr__part_find(whole, HR_VIDEO_BACKBONE);
  if (hr__recipe_word_is(recipe, HR_CACHE_FEATURES, "true")) return true;
  return hr__recipe_word_is(recipe, HR_CACHE_FEATURES, "auto") && !features_change(&backbone, &whole->scope);
}

static hr_status features_check(const hr_model_part *whole, hr_error *err) {
  char remedy[160];
  const hr_recipe *recipe = whole->scope.recipe;
  hr_model_part backbone = hr__part_find(whole, HR_VIDEO_BACKBONE);
  if (!hr__recipe_word_is(recipe, HR_CACHE_FEATURES, "true")) return HR_OK;
  const hr_backbone_change *change = features_change(&backbone, &whole->scope);
  if (!change) return HR_OK;
  snprintf(remedy, sizeof remedy, "set %s.%s, or leave data.cache_features out", backbone.scope.section,
           change->setting);
  return hr__recipe_fail(recipe, HR_CACHE_FEATURES, remedy, err,
                         "features of frames cannot be made once: the backbone %s, so they change", change->why);
}

static hr_status backbone_check(const hr_model_part *whole, hr_error *err) {
  hr_model_part part = hr__part_find(whole, HR_VIDEO_BACKBONE);
  if (hr__is_backbone(part.model)) return HR_OK;
  return hr__scope_fail(&part.scope, "family", "take a backbone: resnet18, resnet50, efficientnet_b0 or convnext_tiny",
                        err, "%s.family: %s makes no features of images", part.scope.section, part.model->family);
}

hr_status hr__video_caption_check(const hr_model_part *whole, hr_error *err) {
  const hr_scope *r = &whole->scope;
  int64_t frames, height, width, length = hr__recipe_int(r->recipe, "data.sequence_length");
  HR_TRY(backbone_check(whole, err));
  HR_TRY(features_check(whole, err));
  HR_TRY(hr__part_writes(whole, HR_VIDEO_DECODER, err));
  HR_TRY(hr__video_shape(r->recipe, &frames, &height, &width, err));
  hr_model_part backbone = hr__part_find(whole, HR_VIDEO_BACKBONE);
  int64_t least = hr__backbone_least(&backbone);
  if (height < least || width < least)
    return hr__recipe_fail(r->recipe, height < least ? "data.video.height" : "data.video.width",
                           "bring frames to a larger size, or take another backbone", err,
                           "frames of %" PRId64 " x %" PRId64 " are too small for %s, which takes %" PRId64
                           " each way at least",
                           height, width, backbone.model->family, least);
  hr_video_caption m = hr__video_caption_read(whole);
  if (frames >= length)
    return hr__recipe_fail(r->recipe, "data.max_frames", "raise data.sequence_length, or lower data.max_frames", err,
                           "%" PRId64 " frames leave no room for a caption in %" PRId64 " positions", frames, length);
  if (m.sizes.width % m.sizes.heads != 0)
    return hr__scope_fail(r, "config.time_heads", "take a divisor", err,
                          "%" PRId64 " heads do not divide time_size %" PRId64, m.sizes.heads, m.sizes.width);
  if (m.sizes.width % 2 != 0)
    return hr__scope_fail(r, "config.time_size", "take an even number", err,
                          "positions of %" PRId64 " numbers are not halves of sines and cosines", m.sizes.width);
  if (m.sizes.trigger % 2 != 0)
    return hr__scope_fail(r, "config.trigger_size", "take an even number", err,
                          "the trigger detector ends with half of its width, and %" PRId64 " is odd", m.sizes.trigger);
  return HR_OK;
}
