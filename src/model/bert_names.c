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

static bool is_one_of(const char *name, const char *const *names) {
  while (*names && strcmp(name, *names) != 0)
    names++;
  return *names != NULL;
}

hr_unused hr__bert_unused(const hr_model_part *part, const char *tensor) {
  static const char *const again[] = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias",
                                      "bert.embeddings.position_ids", "embeddings.position_ids", NULL};
  static const char *const kept[] = {"cls.seq_relationship.weight",
                                     "cls.seq_relationship.bias",
                                     "bert.pooler.dense.weight",
                                     "bert.pooler.dense.bias",
                                     "pooler.dense.weight",
                                     "pooler.dense.bias",
                                     NULL};
  if (is_one_of(tensor, again)) return HR_UNUSED_AGAIN;
  if (stem(tensor, ".LayerNorm.gamma") || stem(tensor, ".LayerNorm.beta")) /* beside the newer name */
    return strncmp(tensor, "cls.", 4) == 0 && *part->name ? HR_UNUSED_KEPT : HR_UNUSED_AGAIN;
  if (is_one_of(tensor, kept) || (*part->name && strncmp(tensor, "cls.", 4) == 0)) return HR_UNUSED_KEPT;
  return HR_UNUSED_WRONG;
}

/* The weight and bias of a norm were called gamma and beta. */
const char *hr__bert_other_name(const char *parameter, int i, char out[HR_TENSOR_NAME]) {
  int weight = stem(parameter, ".LayerNorm.weight"), bias = stem(parameter, ".LayerNorm.bias");
  if (i > 0 || (!weight && !bias)) return NULL;
  snprintf(out, HR_TENSOR_NAME, "%.*s.LayerNorm.%s", weight ? weight : bias, parameter, weight ? "gamma" : "beta");
  return out;
}
