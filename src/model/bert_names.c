/* See bert.h. */
#include <stdio.h>
#include <string.h>

#include "model/bert.h"

/* `name` without the given ending, as a length; 0: it ends otherwise. */
static int stem(const char *name, const char *ending) {
  size_t length = strlen(name), tail = strlen(ending);
  return length > tail && length < HR_TENSOR_NAME - 8 && strcmp(name + length - tail, ending) == 0
             ? (int)(length - tail)
             : 0;
}

bool hr__bert_leaves(const hr_model_part *part, const char *tensor) {
  static const char *const names[] = {
      "cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "cls.seq_relationship.weight",
      "cls.seq_relationship.bias",      "bert.pooler.dense.weight",     "bert.pooler.dense.bias",
      "bert.embeddings.position_ids",   "pooler.dense.weight",          "pooler.dense.bias",
      "embeddings.position_ids"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(tensor, names[i]) == 0) return true;
  if (stem(tensor, ".LayerNorm.gamma") || stem(tensor, ".LayerNorm.beta")) return true; /* beside the newer name */
  return *part->name && strncmp(tensor, "cls.", 4) == 0;
}

/* The weight and bias of a norm were called gamma and beta. */
const char *hr__bert_other_name(const char *parameter, int i, char out[HR_TENSOR_NAME]) {
  int weight = stem(parameter, ".LayerNorm.weight"), bias = stem(parameter, ".LayerNorm.bias");
  if (i > 0 || (!weight && !bias)) return NULL;
  snprintf(out, HR_TENSOR_NAME, "%.*s.LayerNorm.%s", weight ? weight : bias, parameter, weight ? "gamma" : "beta");
  return out;
}
