/* Names of tensors in checkpoints of the BERT family that differ from those of its parameters. */
#ifndef HR_MODEL_BERT_H
#define HR_MODEL_BERT_H

#include <stdbool.h>

/* Whether a tensor is rightly unused: the second copy of the tied head, heads that are not trained here, a buffer that
 * holds 0, 1, 2..., and a norm under its old name, which hr__bert_old_name finds. */
bool hr__bert_leaves(const char *tensor);

/* What older checkpoints call the weight and bias of a norm: "….LayerNorm.gamma" and "….LayerNorm.beta". NULL: the
 * parameter has one name only. */
enum { HR_BERT_NAME = 256 };
const char *hr__bert_old_name(const char *parameter, char out[HR_BERT_NAME]);

#endif
