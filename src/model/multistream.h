/* Video and motion of an object, fused into two binary heads: `event`, and `outcome`, which implies it. Settings
 * (multistream_settings.c), the parts (unet3d.c, motion.c, coolcurve.c, crossfusion.c), and the forward pass with its
 * losses (multistream.c).
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
#define HR_STREAM_FUSION   "fusion"

/* Of cooling curves: tracks, and instants of each. */
enum { HR_COOLING_TRACKS = 10, HR_COOLING_INSTANTS = 3 };

/* The settings of the whole as a recipe has them. */
typedef struct hr_multistream {
  bool video, motion, cooling; /* which branches there are */
  int64_t frames, height, width;
  float mask_weight, fusion_weight, dropout;
  int64_t head, head_last; /* widths inside of a head */
} hr_multistream;

extern const hr_key_table hr_multistream_keys, hr_unet3d_keys, hr_motion_mlp_keys, hr_motion_temporal_keys,
    hr_coolcurve_keys, hr_crossfusion_keys;
enum { HR_MULTISTREAM_PARTS = 5 };
extern const hr_part_declared hr_multistream_parts[HR_MULTISTREAM_PARTS];
hr_multistream hr__multistream_read(const hr_model_part *whole);
hr_status hr__multistream_check(const hr_model_part *whole, hr_error *err);

/* ---- parts, each between hr__part_open and hr__part_close ---- */

/* frames [B, C, T, H, W] -> embedding [B, E]; *mask: logits [B, 1, T, H, W]. */
hr_id hr__unet3d(hr_builder *b, const hr_model_part *part, hr_id frames, hr_id *mask);
/* motion [B, 3, 9], features [B, 24] -> [B, E]; *importance of each number that went in, [B, 69]. */
hr_id hr__motion_mlp(hr_builder *b, const hr_model_part *part, hr_id motion, hr_id features, hr_id *importance);
/* motion [B, 3, 9] -> [B, E] */
hr_id hr__motion_temporal(hr_builder *b, const hr_model_part *part, hr_id motion);
/* curves and areas [B, M, 3], mask [B, M] -> [B, E]; *tau [B, 1] > 0, *kinds: logits [B, 2]. */
hr_id hr__coolcurve(hr_builder *b, const hr_model_part *part, hr_id curves, hr_id areas, hr_id mask, hr_id *tau,
                    hr_id *kinds);

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
