/* Weights of a checkpoint folder (model.safetensors, or model.safetensors.index.json with its shards), matched against
 * the parameters of a graph by name.
 *
 * Opening compares names, shapes and types only. Reading converts F32, BF16 and F16 to the parameter's type (to
 * nearest even) through one small window, so that no second copy of a tensor ever exists.
 */
#ifndef HR_MODEL_WEIGHTS_H
#define HR_MODEL_WEIGHTS_H

#include "graph/graph.h"

enum { HR_WEIGHTS_WINDOW = 256 << 10 }; /* bytes */

typedef struct hr_weights hr_weights;

/* Every parameter of the graph, packed ones included, must be in the folder with its shape, but no adapters; nothing
 * else may be there, except buffers that a model computes itself (rotary_emb.inv_freq) and the head of a model whose
 * head is tied to its embedding. The graph must outlive the result. */
hr_status hr__weights_open(const char *folder, const hr_graph *graph, hr_weights **out, hr_error *err);
void hr__weights_close(hr_weights *weights);

bool hr__weights_has(const hr_weights *weights, hr_id parameter); /* false: an adapter, or no parameter */

/* Elements [first, first + count) of a parameter (a value of the graph), in the parameter's own type. */
hr_status hr__weights_read(hr_weights *weights, hr_id parameter, int64_t first, int64_t count, void *to, hr_error *err);
/* The same of a packed parameter, by its number in the graph, as floats. */
hr_status hr__weights_read_packed(hr_weights *weights, size_t packed, int64_t first, int64_t count, float *to,
                                  hr_error *err);

#endif
