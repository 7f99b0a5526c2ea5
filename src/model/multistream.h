/* Video and motion of an object, fused into two binary heads: `event`, and `outcome`, which implies it. Settings
 * (multistream_settings.c), the parts (unet3d.c, motion.c, coolcurve.c, hotspots.c, twoframe.c, temporalconv.c,
 * crossfusion.c), and the forward pass with its losses (multistream.c).
 *
 * Shapes in comments: B samples, T frames of H x W, M tracks of a cooling curve, D width of the fusion.
 */
#ifndef HR_MODEL_MULTISTREAM_H
#define HR_MODEL_MULTISTREAM_H

#include "data/motion.h"
#include "model/model.h"

/* Names of the parts. */
#define HR_STREAM_VIDEO    "video"
#define HR_STREAM_GEOMETRY "geometry"
#define HR_STREAM_TEMPORAL "temporal"
#define HR_STREAM_COOLING  "cooling"
#define HR_STREAM_DETECTOR "detector"
#define HR_STREAM_BACKBONE "backbone"
#define HR_STREAM_PAIR     "pair"
#define HR_STREAM_CONVNEXT "convnext"
#define HR_STREAM_COURSE   "course"
#define HR_STREAM_FUSION   "fusion"

/* Of cooling curves: tracks, and instants of each. */
enum { HR_COOLING_TRACKS = 10, HR_COOLING_INSTANTS = 3 };

/* The settings of the whole as a recipe has them. */
typedef struct hr_multistream {
  bool video, motion, cooling, infrared, pair, course; /* which branches there are */
  int64_t frames, height, width;
  float mask_weight, spot_weight, fusion_weight, dropout;
  int64_t head, head_last; /* widths inside of a head */
} hr_multistream;

extern const hr_key_table hr_multistream_keys, hr_unet3d_keys, hr_motion_mlp_keys, hr_motion_temporal_keys,
    hr_coolcurve_keys, hr_hotspots_keys, hr_twoframe_keys, hr_temporalconv_keys, hr_crossfusion_keys;
enum { HR_MULTISTREAM_PARTS = 10 };
extern const hr_part_declared hr_multistream_parts[HR_MULTISTREAM_PARTS];
hr_multistream hr__multistream_read(const hr_model_part *whole);
hr_status hr__multistream_check(const hr_model_part *whole, hr_error *err);

/* ---- parts, each between hr__part_open and hr__part_close ---- */

/* frames [B, C, T, H, W], bytes -> embedding [B, E]; *mask: logits [B, 1, T, H, W]. */
hr_id hr__unet3d(hr_builder *b, const hr_model_part *part, hr_id frames, hr_id *mask);
/* motion [B, 3, 9], features [B, 24] -> [B, E]; *importance of each number that went in, [B, 69]. */
hr_id hr__motion_mlp(hr_builder *b, const hr_model_part *part, hr_id motion, hr_id features, hr_id *importance);
/* motion [B, 3, 9] -> [B, E] */
hr_id hr__motion_temporal(hr_builder *b, const hr_model_part *part, hr_id motion);
/* curves and areas [B, M, 3], mask [B, M] -> [B, E]; *tau [B, 1] > 0, *kinds: logits [B, 2]. */
hr_id hr__coolcurve(hr_builder *b, const hr_model_part *part, hr_id curves, hr_id areas, hr_id mask, hr_id *tau,
                    hr_id *kinds);

/* rgb u8 [B, 3, T, H, W], T even -> the frames T/4 and 3T/4 of all samples, [2 B, H, W, 3], earlier ones first. */
hr_id hr__twoframe_images(hr_builder *b, hr_id rgb);
typedef struct hr_two_frames {
  hr_id mask, integrity; /* logits of the later frame [B, 1, H, W]; [B, 1] in (-1, 1) */
} hr_two_frames;
/* A backbone's map of these, [2 B, C, h, w] -> [B, E]; size: H, W of the mask. */
hr_id hr__twoframe(hr_builder *b, const hr_model_part *part, hr_id map, const int64_t size[2], hr_two_frames *out);

/* How a few frames follow each other, evenly spread over the video: of these the number of each, rising. */
enum { HR_COURSE_FRAMES = 16 };
typedef struct hr_course_frames {
  int64_t count, number[HR_COURSE_FRAMES];
} hr_course_frames;
hr_course_frames hr__course_frames(const hr_model_part *part, int64_t frames);
/* rgb u8 [B, 3, T, H, W] -> these, [B n, 3, h, w] in the size that the part has, a sample's one behind another. */
hr_id hr__course_images(hr_builder *b, const hr_model_part *part, hr_id rgb);
/* ConvNeXt's maps of them -> [B, E]; *saliency: logits [B n, 1, h, w]. */
hr_id hr__course(hr_builder *b, const hr_model_part *part, const hr_id *maps, int64_t samples, hr_id *saliency);

/* What a detector says of the cells of all frames, frames of a sample one behind another: logit of a spot's middle
 * [B T, cells, 1], where in the cell and how large, in cells, [B T, cells, 2] each, and how bright [B T, cells, 1]. */
typedef struct hr_spot_maps {
  int64_t rows, columns; /* of cells */
  hr_id found, offset, size, brightness;
} hr_spot_maps;
/* infrared u8 [B, 1, T, H, W] -> [B, E] */
hr_id hr__hotspots(hr_builder *b, const hr_model_part *part, hr_id infrared, hr_spot_maps *maps);

/* ---- hot spots (spots.c) ---- */

/* By what the batch has of the spots (data/spots.h), [B, 1] each, per spot of the sample. */
typedef struct hr_spot_loss {
  hr_id found, offset, size, brightness;
} hr_spot_loss;
void hr__spot_losses(hr_builder *b, const hr_spot_maps *maps, const hr_model_batch *batch, hr_spot_loss *out);
/* Peaks of a frame, the surest first, at most 24: [B T, K, 6], how sure, x, y, width, height (parts of the frame's) and
 * brightness. Nothing flows back. */
hr_id hr__spot_detections(hr_builder *b, const hr_spot_maps *maps);
/* The same followed through the video, [B, 16, T, 6]; zeros where a track is not seen. */
hr_id hr__spot_tracks(hr_builder *b, int64_t samples, hr_id detections);
/* Of each sample [B, 4]: spots that have a sure detection close by, all spots; sure detections that have a spot close
 * by, all of them. */
hr_id hr__spots_counted(hr_builder *b, const hr_model_batch *batch, hr_id detections);

/* What the fusion reads: embeddings of each modality, HR_NONE where there is none; class i32 [B]; what was noticed,
 * [B, n, 3] (how sure, x, y, all in [0, 1]), or HR_NONE. */
enum { HR_MODALITY_IMAGE, HR_MODALITY_THERMAL, HR_MODALITY_MOTION, HR_MODALITIES };
typedef struct hr_fused {
  hr_id embedding[HR_MODALITIES], class_id, noticed;
} hr_fused;
hr_id hr__crossfusion(hr_builder *b, const hr_model_part *part, const hr_fused *from); /* [B, D] */
int64_t hr__crossfusion_width(const hr_model_part *part);

/* ---- what parts share ---- */

/* PATH.NAME with a bias, drawn as PyTorch draws it. */
hr_id hr__stream_linear(hr_builder *b, const char *path, const char *name, int64_t in, int64_t out, hr_id x);

/* A transformer layer over x [B, n, width]; before: norms stand before attention and MLP, not behind the sums. */
typedef struct hr_stream_layer {
  const char *path;
  int64_t width, heads, inner;
  float dropout;
  bool before;
} hr_stream_layer;
hr_id hr__stream_layer(hr_builder *b, const hr_scope *scope, const hr_stream_layer *layer, hr_id x);

int64_t hr__desc_dim(const hr_builder *b, hr_id x, int axis); /* of a value; 1 after an error */

#endif
