/* Models that consist of parts (model.parts.NAME): each part is a model of its own family, with the settings of its
 * section, and its modules, blocks and parameters carry its name in front: "text.bert.encoder.layer.0". What belongs to
 * no part is the whole model's own. A model without parts is the whole alone.
 */
#ifndef HR_MODEL_PARTS_H
#define HR_MODEL_PARTS_H

#include "model/model.h"

enum { HR_MODEL_PARTS = 16 };
typedef struct hr_model_parts {
  hr_model_part part[1 + HR_MODEL_PARTS]; /* the whole model first */
  size_t count;
} hr_model_parts;

void hr__parts_read(const hr_recipe *recipe, hr_model_parts *out);
/* Number of the part that a module, block or parameter belongs to, by its name: 0 for the whole model's own. */
size_t hr__parts_of(const hr_model_parts *parts, const char *name);

/* For the forward pass of a model of parts, which finds them by the names that it has declared. */
hr_model_part hr__part_find(const hr_model_part *whole, const char *name);
/* What a part makes of tokens: [B, T, width]. */
hr_id hr__part_embed(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch);
/* What it makes of x, its own embeddings or any others: hidden states of a text model, [B, T, width]. */
hr_id hr__part_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch);
/* Its loss head on hidden states. */
hr_id hr__part_loss(hr_builder *b, const hr_model_part *part, hr_id hidden, const hr_model_batch *batch);

#endif
