/* Backbones: networks of convolutions that make features of images, as parts of other models. Families resnet18,
 * resnet50 (resnet.c), efficientnet_b0 (efficientnet.c) and convnext_tiny (convnext.c), under the names that timm's
 * checkpoints have.
 *
 * Images come as they are stored, u8 [N, H, W, 3], and are brought to mean 0 and deviation 1 on the device. The body of
 * a family (hr__part_body) makes [N, features] of them, the means of its last map.
 */
#ifndef HR_MODEL_BACKBONE_H
#define HR_MODEL_BACKBONE_H

#include "model/batchnorm.h"

/* The settings of those with batch norms, as a recipe has them. */
typedef struct hr_backbone {
  int64_t width;     /* resnet: channels of the first stage */
  double multiplier; /* efficientnet: of all channels */
  bool by_batch;     /* norms, in programs that train */
} hr_backbone;
hr_backbone hr__backbone_read(const hr_model_part *part);

extern const hr_key_table hr_backbone_keys, hr_resnet_keys, hr_efficientnet_keys, hr_convnext_keys;

/* Whether a family is one of these. */
bool hr__is_backbone(const hr_model *model);
/* Why what it makes of an image may be other in the next step although its weights are not, and the setting that mends
 * it; NULL: it never is. */
typedef struct hr_backbone_change {
  const char *why, *setting;
} hr_backbone_change;
const hr_backbone_change *hr__backbone_changes(const hr_model_part *part);
/* Rows and columns that images have at least: it halves them without padding. */
int64_t hr__backbone_least(const hr_model_part *part);
/* Columns of what the body gives. */
int64_t hr__backbone_features(const hr_model_part *part);
/* The last map itself, [N, C, h, w], between hr__part_open and hr__part_close: that of the last stage, in front of what
 * only the features need. */
hr_id hr__backbone_map(hr_builder *b, const hr_model_part *part, hr_id images);

/* convnext_tiny: the last map of each stage, at a quarter, an eighth, ... of the size of images [N, 3, H, W], which
 * hr__backbone_images has made. */
enum { HR_CONVNEXT_STAGES = 4 };
void hr__convnext_maps(hr_builder *b, const hr_model_part *part, hr_id images, hr_id maps[HR_CONVNEXT_STAGES]);
int64_t hr__convnext_width(const hr_model_part *part, int stage); /* channels of that map */

/* ---- for the families ---- */

/* images u8 [N, H, W, 3] -> [N, 3, H, W], by the mean and deviation of ImageNet's channels. */
hr_id hr__backbone_images(hr_builder *b, hr_id images);
/* [N, C, h, w] -> [N, C]. */
hr_id hr__backbone_mean(hr_builder *b, hr_id map);
/* Norm of the module PATH.NAME with the settings of all these families. */
hr_batchnorm hr__backbone_norm(const hr_backbone *m, const char *path);
hr_unused hr__backbone_unused(const hr_model_part *part, const char *tensor);
json_t *hr__backbone_json(const hr_model_part *part);

hr_id hr__resnet_map(hr_builder *b, const hr_model_part *part, hr_id images);
int64_t hr__resnet_features(const hr_model_part *part);
hr_id hr__efficientnet_map(hr_builder *b, const hr_model_part *part, hr_id images);
int64_t hr__efficientnet_features(const hr_model_part *part);
hr_id hr__convnext_map(hr_builder *b, const hr_model_part *part, hr_id images);
int64_t hr__convnext_features(const hr_model_part *part);

#endif
