/* Settings of the multistream model under model.config, and their checks. */
#include <inttypes.h>

#include "model/multistream.h"
#include "model/parts.h"

enum { SIZE_MOST = 1 << 14 };

#define BRANCH(name, preset, text)                                                                                     \
  { .path = "*.config." name, .type = HR_KEY_BOOL, .fallback = preset, .meaning = "multistream: " text }
#define SIZE(name, preset, most, text)                                                                                 \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_INT, .fallback = preset, .min = 1, .max = most,                           \
    .meaning = "multistream: " text                                                                                    \
  }
#define WEIGHT(name, text)                                                                                             \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_FLOAT, .fallback = "1", .min = 0, .max = 1e6,                             \
    .meaning = "multistream: " text                                                                                    \
  }

static const hr_key keys[] = {
    BRANCH("video_branch", "true", "whether there is the U-Net over RGB video (part video)"),
    BRANCH("motion_branch", "true", "whether there are the two parts that read motion (geometry, temporal)"),
    BRANCH("cooling_branch", "true", "whether there is the part that reads cooling curves (part cooling)"),
    BRANCH("infrared_branch", "true", "whether there is the detector of hot spots over infrared video (part detector)"),
    BRANCH("pair_branch", "true", "whether there are the two parts that compare two frames (backbone, pair)"),
    BRANCH("temporal_conv_branch", "false",
           "whether there are the two parts that follow a few frames by convolutions over space, then time (convnext, "
           "course)"),
    SIZE("frames", "16", SIZE_MOST,
         "frames of a sample; 4 or more where there is video, an even number with pair_branch"),
    SIZE("frame_height", "720", SIZE_MOST, "rows of a frame"),
    SIZE("frame_width", "1280", SIZE_MOST, "columns of a frame"),
    SIZE("head_size", "256", SIZE_MOST, "width of the first layer of a head"),
    SIZE("head_last", "64", SIZE_MOST, "width of the second layer of a head"),
    {.path = "*.config.head_dropout",
     .type = HR_KEY_FLOAT,
     .fallback = "0.1",
     .min = 0,
     .max = 0.99,
     .meaning = "multistream: part of the heads that is dropped in training"},
    WEIGHT("mask_weight", "weight of the loss of masks: 0.5 cross-entropy + 0.5 Dice; 0: masks are not trained"),
    WEIGHT("spot_weight", "weight of the four losses of hot spots; 0: the detector is trained by the heads alone"),
    WEIGHT("fusion_weight", "weight of the losses of the two heads; 0: they are not trained"),
};
const hr_key_table hr_multistream_keys = {keys, sizeof keys / sizeof *keys};

const hr_part_declared hr_multistream_parts[HR_MULTISTREAM_PARTS] = {
    {HR_STREAM_VIDEO, "unet3d"},      {HR_STREAM_GEOMETRY, "geomlp"},        {HR_STREAM_TEMPORAL, "tempoformer"},
    {HR_STREAM_COOLING, "coolcurve"}, {HR_STREAM_DETECTOR, "hotspots"},      {HR_STREAM_BACKBONE, "efficientnet_b0"},
    {HR_STREAM_PAIR, "twoframe"},     {HR_STREAM_CONVNEXT, "convnext_tiny"}, {HR_STREAM_COURSE, "temporalconv"},
    {HR_STREAM_FUSION, "crossfusion"}};

hr_multistream hr__multistream_read(const hr_model_part *whole) {
  const hr_scope *s = &whole->scope;
  return (hr_multistream){.video = hr__scope_bool(s, "config.video_branch"),
                          .motion = hr__scope_bool(s, "config.motion_branch"),
                          .cooling = hr__scope_bool(s, "config.cooling_branch"),
                          .infrared = hr__scope_bool(s, "config.infrared_branch"),
                          .pair = hr__scope_bool(s, "config.pair_branch"),
                          .course = hr__scope_bool(s, "config.temporal_conv_branch"),
                          .frames = hr__scope_int(s, "config.frames"),
                          .height = hr__scope_int(s, "config.frame_height"),
                          .width = hr__scope_int(s, "config.frame_width"),
                          .mask_weight = (float)hr__scope_float(s, "config.mask_weight"),
                          .spot_weight = (float)hr__scope_float(s, "config.spot_weight"),
                          .fusion_weight = (float)hr__scope_float(s, "config.fusion_weight"),
                          .dropout = (float)hr__scope_float(s, "config.head_dropout"),
                          .head = hr__scope_int(s, "config.head_size"),
                          .head_last = hr__scope_int(s, "config.head_last")};
}

/* A part must be of the family that it is declared with: the whole calls it by more than a body. */
static hr_status family_check(const hr_model_part *whole, const hr_part_declared *declared, hr_error *err) {
  hr_model_part part = hr__part_find(whole, declared->name);
  if (part.model == hr__model_named(declared->family)) return HR_OK;
  return hr__scope_fail(&part.scope, "family", "leave it out", err, "%s.family: %s, expected %s", part.scope.section,
                        part.model->family, declared->family);
}

/* Embeddings of a modality fit into what the fusion reads of it. */
static hr_status width_check(const hr_model_part *whole, const char *key, int64_t width, hr_error *err) {
  hr_model_part fusion = hr__part_find(whole, HR_STREAM_FUSION);
  int64_t room = hr__scope_int(&fusion.scope, key);
  if (width <= room) return HR_OK;
  return hr__scope_fail(&fusion.scope, key, "make it larger, or embeddings smaller", err,
                        "%s.%s has room for %" PRId64 " numbers, the parts give %" PRId64, fusion.scope.section, key,
                        room, width);
}

static int64_t embedding_of(const hr_model_part *whole, const char *name) {
  hr_model_part part = hr__part_find(whole, name);
  return hr__scope_int(&part.scope, "config.embedding");
}

/* As many frames as it follows. */
static hr_status course_check(const hr_model_part *whole, const hr_multistream *m, hr_error *err) {
  hr_model_part course = hr__part_find(whole, HR_STREAM_COURSE);
  int64_t followed = hr__scope_int(&course.scope, "config.frames");
  if (!m->course || followed <= m->frames) return HR_OK;
  return hr__scope_fail(&course.scope, "config.frames", "follow fewer, or take more frames of a sample", err,
                        "%" PRId64 " frames are to be followed in a video of %" PRId64, followed, m->frames);
}

hr_status hr__multistream_check(const hr_model_part *whole, hr_error *err) {
  hr_multistream m = hr__multistream_read(whole);
  for (int i = 0; i < HR_MULTISTREAM_PARTS; i++)
    HR_TRY(family_check(whole, &hr_multistream_parts[i], err));
  if (!m.video && !m.motion && !m.cooling && !m.infrared && !m.pair && !m.course)
    return hr__scope_fail(&whole->scope, "config.video_branch", "leave one of them on", err, "all branches are off");
  if (m.video && (m.frames < 4 || m.height < 4 || m.width < 4))
    return hr__scope_fail(&whole->scope, "config.frames", "take 4 frames or more, of 4 x 4 or more", err,
                          "%" PRId64 " frames of %" PRId64 " x %" PRId64 " cannot be halved twice", m.frames, m.height,
                          m.width);
  if (m.pair && m.frames % 2 != 0)
    return hr__scope_fail(&whole->scope, "config.frames", "take an even number", err,
                          "%" PRId64 " frames have no two halves", m.frames);
  HR_TRY(course_check(whole, &m, err));
  int64_t image = (m.video ? embedding_of(whole, HR_STREAM_VIDEO) : 0) +
                  (m.pair ? embedding_of(whole, HR_STREAM_PAIR) : 0) +
                  (m.course ? embedding_of(whole, HR_STREAM_COURSE) : 0);
  if (image > 0) HR_TRY(width_check(whole, "config.image", image, err));
  int64_t thermal = (m.infrared ? embedding_of(whole, HR_STREAM_DETECTOR) : 0) +
                    (m.cooling ? embedding_of(whole, HR_STREAM_COOLING) : 0);
  if (thermal > 0) HR_TRY(width_check(whole, "config.thermal", thermal, err));
  if (!m.motion) return HR_OK;
  return width_check(whole, "config.motion",
                     embedding_of(whole, HR_STREAM_GEOMETRY) + embedding_of(whole, HR_STREAM_TEMPORAL), err);
}
