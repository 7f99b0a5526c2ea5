/* Adapters (LoRA) and packed weights: their settings, and what a graph that has been through these passes tells. */
#ifndef HR_PASS_ADAPTERS_H
#define HR_PASS_ADAPTERS_H

#include "model/parts.h"

/* A linear module may be named by any of these patterns (base/text.h), or by "all-linear". */
bool hr__targets_match(const char *const *targets, size_t count, const char *module);
/* Whether every target of a setting of part `p` matches a linear of that part; the message names the modules there are.
 */
/* Whether a node is a linear of part `p` that can be a target: any but the head that gives logits. */
bool hr__linear_is_target(const hr_model_parts *parts, size_t p, const hr_node *node);
hr_status hr__targets_check(const hr_graph *graph, const hr_model_parts *parts, size_t p, const char *key,
                            const char *const *targets, size_t count, hr_error *err);

/* The adapters of a model or part that has them. */
typedef struct hr_lora {
  int64_t rank;
  double alpha, dropout;
  double scale; /* on the adapter's output: alpha / rank, or alpha / sqrt(rank) where rank_stabilised */
  bool rank_stabilised;
  const char *const *targets;
  size_t n_targets;
} hr_lora;
bool hr__lora_given(const hr_model_part *part);
hr_lora hr__lora_read(const hr_model_part *part);

#endif
