/* The embedder: codes of a taxonomy, each described by several texts, become points of hyperbolic space whose distances
 * follow the tree. Its settings (embedder_settings.c), its forward pass (embedder.c), and the mixture of experts in it
 * (experts.c).
 */
#ifndef HR_MODEL_EMBEDDER_H
#define HR_MODEL_EMBEDDER_H

#include "model/model.h"

enum { HR_EMBEDDER_CHANNELS = 6, HR_EMBEDDER_DEFAULT = 4 }; /* at most; unless the recipe names others */
/* Names of the parts, and of the texts that they read, unless the recipe names others. */
extern const hr_part_declared hr_embedder_parts[HR_EMBEDDER_DEFAULT];

/* The settings as a recipe has them. */
typedef struct hr_embedder {
  int channels;
  const char *channel[HR_EMBEDDER_CHANNELS]; /* names of the parts */
  int64_t negatives;                         /* of each sample, beside its anchor and its positive */
  int64_t title_length;                      /* of the first channel; others are as long as the batch */
  int64_t experts, chosen, inner, projection, tangent;
  int64_t width; /* of all channels together */
  float dropout, curvature, temperature, balance;
} hr_embedder;

extern const hr_key_table hr_embedder_keys;
hr_embedder hr__embedder_read(const hr_model_part *whole);
hr_status hr__embedder_check(const hr_model_part *whole, hr_error *err);

/* Positions of a channel in batches of a length. */
int64_t hr__embedder_length(const hr_embedder *m, int channel, int64_t length);

/* experts.c: x [rows, width] -> [rows, width], the sum of the chosen experts by their gates. All are computed, with
 * gates of 0 where they are not chosen. *balance f32 [1]: E · sum of (part of the rows that choose an expert) · (its
 * mean probability), k where all are used alike. */
hr_id hr__experts(hr_builder *b, const hr_embedder *m, hr_id x, hr_id *balance);

#endif
