/* BERT: its settings (bert_settings.c), its forward pass (bert.c), and names of tensors in checkpoints that differ from
 * those of its parameters (bert_names.c). */
#ifndef HR_MODEL_BERT_H
#define HR_MODEL_BERT_H

#include "model/model.h"

/* The settings as a recipe has them. */
typedef struct hr_bert {
  int64_t hidden, inner, layers, heads, vocab, positions, types;
  float std, eps, dropout, attention_dropout;
  bool tanh;   /* gelu by tanh, not exact */
  bool pooler; /* declared, and read by nobody */
} hr_bert;

extern const hr_key_table hr_bert_keys;
extern const char hr_bert_defaults[];
hr_bert hr__bert_read(const hr_scope *scope);
hr_status hr__bert_check(const hr_model_part *part, hr_error *err);
/* config.json of the public checkpoints. NULL: out of memory. */
json_t *hr__bert_json(const hr_model_part *part);

/* torch_bert.c: hr_model.torch. */
void hr__bert_torch(const hr_model_part *part, hr_eager *e);

/* hr_model.unused: the second copy of the tied head, heads that are not trained here, and a buffer that holds 0,
 * 1, 2... Of a part, which has no head, the head as well. */
hr_unused hr__bert_unused(const hr_model_part *part, const char *tensor);
/* hr_model.other_name: older checkpoints have "….LayerNorm.gamma" and ".beta", and those of the encoder alone no
 * "bert." at the beginning. */
const char *hr__bert_other_name(const char *parameter, int i, char out[HR_TENSOR_NAME]);

#endif
