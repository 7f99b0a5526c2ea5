/* BERT: its settings (bert_settings.c), its forward pass (bert.c), and names of tensors in checkpoints that differ from
 * those of its parameters (bert_names.c). */
#ifndef HR_MODEL_BERT_H
#define HR_MODEL_BERT_H

#include "model/model.h"

/* The settings as a recipe has them. */
typedef struct hr_bert {
  int64_t hidden, inner, layers, heads, vocab, positions, types;
  float std, eps, dropout;
  bool tanh; /* gelu by tanh, not exact */
} hr_bert;

extern const hr_key_table hr_bert_keys;
extern const char hr_bert_defaults[];
hr_bert hr__bert_read(const hr_recipe *recipe);
hr_status hr__bert_check(const hr_recipe *recipe, hr_error *err);
/* config.json of the public checkpoints. NULL: out of memory. */
json_t *hr__bert_json(const hr_recipe *recipe);

/* Whether a tensor is rightly unused: the second copy of the tied head, heads that are not trained here, a buffer that
 * holds 0, 1, 2..., and a norm under its old name, which hr__bert_old_name finds. */
bool hr__bert_leaves(const char *tensor);

/* What older checkpoints call the weight and bias of a norm: "….LayerNorm.gamma" and "….LayerNorm.beta". NULL: the
 * parameter has one name only. */
enum { HR_BERT_NAME = 256 };
const char *hr__bert_old_name(const char *parameter, char out[HR_BERT_NAME]);

#endif
