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

/* Number of the part that holds the weights of part `p`: itself; or, where adapters are all that is trained of it, the
 * first part of which the same is true and that loads the same folder. So one copy of frozen weights serves them, with
 * adapters of their own. */
size_t hr__parts_weights(const hr_model_parts *parts, size_t p);

/* Names of the parts of a model, in order; returns how many there are. */
size_t hr__parts_names(const hr_model_part *whole, const char *names[HR_MODEL_PARTS]);

/* For the forward pass of a model of parts, which finds them by the names that it has declared. */
hr_model_part hr__part_find(const hr_model_part *whole, const char *name);
/* What stands between these is the part's: named after it, and one component. The first gives what the second takes. */
typedef struct hr_part_names {
  const char *prefix, *weights;
} hr_part_names;
hr_part_names hr__part_open(hr_builder *b, const hr_model_part *part);
void hr__part_close(hr_builder *b, hr_part_names before);
/* What a part makes of tokens: [B, T, width]. */
hr_id hr__part_embed(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch);
/* What it makes of x, its own embeddings or any others: hidden states of a text model, [B, T, width]. */
hr_id hr__part_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch);
/* Its loss head on hidden states, and the logits of that head. */
hr_id hr__part_loss(hr_builder *b, const hr_model_part *part, hr_id hidden, const hr_model_batch *batch);
hr_id hr__part_logits(hr_builder *b, const hr_model_part *part, hr_id hidden);
/* HR_BAD_INPUT unless the part of that name predicts the next token of embeddings that others have made. */
hr_status hr__part_writes(const hr_model_part *whole, const char *name, hr_error *err);

#endif
