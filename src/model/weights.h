/* Weights of a checkpoint folder (model.safetensors, or model.safetensors.index.json with its shards), matched against
 * the parameters of a graph by name.
 *
 * Opening compares names, shapes and types only. Reading converts F32, BF16 and F16 to the parameter's type (to
 * nearest even) through small windows, so that no second copy of a tensor ever exists.
 */
#ifndef HR_MODEL_WEIGHTS_H
#define HR_MODEL_WEIGHTS_H

#include "base/threads.h"
#include "model/model.h"

typedef struct hr_weights hr_weights;

/* Every parameter of a part of the graph's model (or of all of it), packed ones included, must be in the folder with
 * its shape, under its name in that part or another that its family knows, but no adapters; nothing else may be there,
 * except what the family knows to be unused (hr_model.unused). A folder of the body alone may lack the head
 * (hr_model.body_name), if that is trained. The graph must outlive the result. */
hr_status hr__weights_open(const char *folder, const hr_graph *graph, const hr_model_part *part, hr_weights **out,
                           hr_error *err);

/* Which values of the graph a file has, by the beginnings of their names, BEFORE and PART, and how it calls them:
 * PREFIX and the rest of the name. */
typedef struct hr_weight_names {
  const char *before; /* "ema."; or "" */
  const char *part;   /* "text", which a dot follows; "" where the model has no parts: any */
  const char *prefix; /* "base_model.model."; or "" */
} hr_weight_names;
/* What one file has of the graph's persistent values that `wanted` takes, packed parameters among them (by their own
 * names, with HR_NONE for the value). Shapes must be those of the graph; *missed (256 bytes) gets the name of a tensor
 * that is no value of the graph, nor one that the family of `part` (NULL: none) keeps, or "". */
hr_status hr__weights_open_file(const char *path, const hr_graph *graph, const hr_weight_names *names,
                                bool (*wanted)(const hr_graph *graph, hr_id value), const hr_model_part *part,
                                char missed[256], hr_weights **out, hr_error *err);
/* peft_weights.c: what adapters.path of a part has, each of its adapters; *out NULL: it is not given. */
hr_status hr__peft_weights_open(const hr_model_part *part, const hr_graph *graph, hr_weights **out, hr_error *err);
void hr__weights_close(hr_weights *weights);

/* Later reads are shared among the threads of a pool. */
void hr__weights_share(hr_weights *weights, hr_pool *pool);

bool hr__weights_has(const hr_weights *weights, hr_id parameter); /* false: an adapter, or no parameter */
/* A parameter of the head where the folder has the body alone: it is drawn. The remark names them; NULL: there are
 * none.
 */
bool hr__weights_is_fresh(const hr_weights *weights, hr_id parameter);
const char *hr__weights_remark(const hr_weights *weights);
bool hr__weights_has_packed(const hr_weights *weights, size_t packed);

/* Elements [first, first + count) of a parameter (a value of the graph), in the parameter's own type. */
hr_status hr__weights_read(const hr_weights *weights, hr_id parameter, int64_t first, int64_t count, void *to,
                           hr_error *err);
/* The same of a packed parameter, by its number in the graph, as floats. */
hr_status hr__weights_read_packed(const hr_weights *weights, size_t packed, int64_t first, int64_t count, float *to,
                                  hr_error *err);

#endif
