/* What backbones share: settings, images, names. See backbone.h. */
#include "model/backbone.h"

#include <string.h>

#include "format/json.h"
#include "op/concat.h"
#include "op/pointwise.h"
#include "op/slice.h"

static const hr_key keys[] = {
    {.path = "*.config.batch_norm",
     .type = HR_KEY_CHOICE,
     .choices = "eval|train",
     .fallback = "eval",
     .meaning = "backbones: norms go by running statistics, so that images do not meet (eval), or in training by those "
                "of the batch, which the running ones follow (train)"},
};
const hr_key_table hr_backbone_keys = {keys, sizeof keys / sizeof *keys};

static const hr_key resnet_keys[] = {
    {.path = "*.config.width",
     .type = HR_KEY_INT,
     .never_null = true,
     .min = 1,
     .max = 1 << 16,
     .meaning = "resnet: channels of the first stage, doubled by each further one (default: 64)"},
};
const hr_key_table hr_resnet_keys = {resnet_keys, sizeof resnet_keys / sizeof *resnet_keys};

static const hr_key efficientnet_keys[] = {
    {.path = "*.config.channel_multiplier",
     .type = HR_KEY_FLOAT,
     .never_null = true,
     .min = 0.05,
     .max = 100,
     .meaning = "efficientnet: of all numbers of channels, which are then rounded to multiples of 8 (default: 1)"},
};
const hr_key_table hr_efficientnet_keys = {efficientnet_keys, sizeof efficientnet_keys / sizeof *efficientnet_keys};

static bool is_efficientnet(const hr_model_part *part) {
  return part->model == &hr_model_efficientnet_b0;
}

hr_backbone hr__backbone_read(const hr_model_part *part) {
  bool efficient = is_efficientnet(part);
  return (hr_backbone){
      .width = efficient ? 0 : hr__scope_int(&part->scope, "config.width"),
      .multiplier = efficient ? hr__scope_float(&part->scope, "config.channel_multiplier") : 0,
      .by_batch = strcmp(hr__scope_text(&part->scope, "config.batch_norm"), "train") == 0,
  };
}

static const struct {
  const hr_model *model;
  int64_t (*features)(const hr_model_part *part);
  hr_id (*map)(hr_builder *b, const hr_model_part *part, hr_id images);
} families[] = {{&hr_model_resnet18, hr__resnet_features, hr__resnet_map},
                {&hr_model_resnet50, hr__resnet_features, hr__resnet_map},
                {&hr_model_efficientnet_b0, hr__efficientnet_features, hr__efficientnet_map},
                {&hr_model_convnext_tiny, hr__convnext_features, hr__convnext_map}};

static size_t family_of(const hr_model_part *part) {
  size_t i = 0;
  while (families[i].model != part->model)
    i++;
  return i;
}

bool hr__is_backbone(const hr_model *model) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    if (families[i].model == model) return true;
  return false;
}

const hr_backbone_change *hr__backbone_changes(const hr_model_part *part) {
  static const hr_backbone_change norms = {"has norms that go by the batch", "config.batch_norm: eval"},
                                  blocks = {"drops results of blocks at random", "config.drop_path: 0"};
  if (part->model == &hr_model_convnext_tiny)
    return hr__scope_float(&part->scope, "config.drop_path") > 0 ? &blocks : NULL;
  return hr__backbone_read(part).by_batch ? &norms : NULL;
}

int64_t hr__backbone_least(const hr_model_part *part) {
  return part->model == &hr_model_convnext_tiny ? 32 : 1;
}

int64_t hr__backbone_features(const hr_model_part *part) {
  return families[family_of(part)].features(part);
}

hr_id hr__backbone_map(hr_builder *b, const hr_model_part *part, hr_id images) {
  return families[family_of(part)].map(b, part, images);
}

hr_id hr__backbone_images(hr_builder *b, hr_id images) {
  enum { COLOURS = 3, FULL = 255 };
  static const double mean[COLOURS] = {0.485, 0.456, 0.406}, deviation[COLOURS] = {0.229, 0.224, 0.225};
  if (b->status != HR_OK) return HR_NONE;
  const hr_desc desc = b->graph->values[images].desc;
  hr_id colour[COLOURS];
  hr__module(b, "images");
  for (int c = 0; c < COLOURS; c++) {
    hr_id x = hr__window(b, images, 3, c, 1);
    x = hr__unary(b, HR_FORMULA_affine, x, (float)(1 / (FULL * deviation[c])), (float)(-mean[c] / deviation[c]));
    colour[c] = hr__reshape(b, x, 4, (const int64_t[]){desc.dim[0], 1, desc.dim[1], desc.dim[2]});
  }
  return b->status == HR_OK ? hr__concat(b, colour, COLOURS, 1) : HR_NONE;
}

hr_id hr__backbone_mean(hr_builder *b, hr_id map) {
  hr__module(b, "global_pool");
  return hr__squeeze(b, hr__reduce(b, HR_REDUCE_MEAN, map, 1u << 2 | 1u << 3), 1u << 2 | 1u << 3);
}

hr_batchnorm hr__backbone_norm(const hr_backbone *m, const char *path) {
  return (hr_batchnorm){.path = path, .groups = 1, .eps = 1e-5f, .momentum = 0.1f, .by_batch = m->by_batch};
}

/* Classifiers are of another task, and so is what stands between the last map and the features where only the map is
 * used; how many batches a norm has seen says nothing that is used. */
hr_unused hr__backbone_unused(const hr_model_part *part, const char *tensor) {
  static const char *const kept[] = {"fc.", "classifier.", "conv_head.", "bn2.", "head."};
  const char *end = strrchr(tensor, '.');
  (void)part;
  if (end && strcmp(end, ".num_batches_tracked") == 0) return HR_UNUSED_AGAIN;
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    if (strncmp(tensor, kept[i], strlen(kept[i])) == 0) return HR_UNUSED_KEPT;
  return HR_UNUSED_WRONG;
}

/* As timm writes it, with the settings that it has not. */
json_t *hr__backbone_json(const hr_model_part *part) {
  hr_backbone m = hr__backbone_read(part);
  hr__json_init();
  json_t *object = json_pack("{s:s, s:I, s:s, s:s}", "architecture", part->model->family, "num_features",
                             (json_int_t)hr__backbone_features(part), "global_pool", "avg", "batch_norm",
                             m.by_batch ? "train" : "eval");
  json_t *size = is_efficientnet(part) ? json_real(m.multiplier) : json_integer((json_int_t)m.width);
  if (!object || json_object_set_new(object, is_efficientnet(part) ? "channel_multiplier" : "width", size) != 0) {
    json_decref(object);
    return NULL;
  }
  return object;
}
