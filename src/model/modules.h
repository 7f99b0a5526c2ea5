/* Modules that families share: linear ones, norms, tables of embeddings, dropout. Each goes into the builder's current
 * program under the path that public checkpoints have for it, and declares its parameters as they name them. Shapes in
 * comments: B batch, T length, H width of the residual stream.
 */
#ifndef HR_MODEL_MODULES_H
#define HR_MODEL_MODULES_H

#include "model/model.h"
#include "op/attention.h"

/* Linear modules that read the same x: one, or several side by side. */
typedef struct hr_linears {
  const char *path; /* of the module around them: "model.layers.0.self_attn" */
  int count;
  const char *name[HR_MEMBERS]; /* "q_proj" */
  int64_t rows[HR_MEMBERS];     /* columns of its result */
  int64_t in;
  bool biased;
  float std; /* of fresh weights; biases begin as zero */
} hr_linears;

/* Whether they may be one product (model/stack.h). */
bool hr__linears_join(const hr_scope *scope, const hr_linears *linears);
/* x [B, T, in] -> [B, T, all rows], on top of `add` (or HR_NONE), by one product with the parameters PATH.NAME.weight
 * [rows, in] and, where biased, PATH.NAME.bias [rows]; the module is "PATH.NAME+NAME". */
hr_id hr__linears(hr_builder *b, const hr_linears *linears, hr_id x, hr_id add);
/* One of them by itself. */
hr_id hr__linears_one(hr_builder *b, const hr_linears *linears, int i, hr_id x);

/* Over `width` columns at a time: all of the residual stream's, or a head's. PATH.weight and, of LayerNorm, PATH.bias.
 */
hr_id hr__rmsnorm_module(hr_builder *b, const char *path, int64_t width, float eps, hr_id x);
hr_id hr__rmsnorm_raised_module(hr_builder *b, const char *path, int64_t width, float eps, hr_id x); /* by 1 + weight */
hr_id hr__layernorm_module(hr_builder *b, const char *path, int64_t width, float eps, hr_id x);

/* Causal attention of the module at `path`: over the rows of the batch, or, in programs that generate, over the
 * module's caches of keys and values, PATH.keys and PATH.values, into which those of the batch go first. k and v may
 * lie in q (op/attention.h). */
hr_id hr__attention_module(hr_builder *b, const char *path, hr_id q, hr_id k, hr_id v, const hr_model_batch *batch,
                           const hr_attention_args *args);

/* A table of embeddings, or of a head: PATH.weight [rows, width]. The builder's module stays as it is. */
hr_id hr__table(hr_builder *b, const char *path, int64_t rows, int64_t width, float std);

/* Whether the current program drops: those that only evaluate do not. */
bool hr__drops(const hr_builder *b, float part);
/* dropout(x), where it does; else x. */
hr_id hr__dropped(hr_builder *b, const char *path, float part, hr_id x);

#endif
