/* The channels of a patch become one vector: a learned query attends over them. See sensors.h.
 *
 * One query serves all patches. So keys are never made: the score of head h is x · (Wk_ht q_h), a product by as many
 * columns as there are heads. (A bias of keys would add the same to all scores of a head, and softmax takes it off.)
 * All of it is f32 in every precision.
 */
#include <math.h>

#include "model/modules.h"
#include "model/sensors.h"
#include "model/softmax.h"
#include "op/linear.h"
#include "op/pointwise.h"
#include "op/slice.h"

/* What scores are made by, [heads, F]. */
static hr_id score_weight(hr_builder *b, const hr_sensor_model *m) {
  int64_t width = m->width, head_dim = width / m->heads;
  float std = hr__sensors_deviation(width);
  hr__module(b, "pooling");
  hr_id query =
      hr__parameter(b, "pooling.query", hr__desc1(b->dtype, width), (hr_init){.rule = HR_INIT_NORMAL, .a = 1});
  query = hr__sensors_norm(b, m, "pooling", "query_norm", hr__reshape(b, query, 2, (const int64_t[]){1, width}));
  query = hr__sensors_linear(b, "pooling.attention", "q_proj", width, width, query, HR_NONE);
  hr__module(b, "pooling.attention.k_proj");
  hr_id keys = hr__table(b, "pooling.attention.k_proj", width, width, std);
  keys = hr__reshape(b, keys, 3, (const int64_t[]){m->heads, head_dim, width});
  query = hr__reshape(b, query, 3, (const int64_t[]){m->heads, head_dim, 1});
  query = hr__unary(b, HR_FORMULA_affine, query, (float)(1 / sqrt((double)head_dim)), 0);
  hr_id weight = hr__reduce(b, HR_REDUCE_SUM, hr__binary(b, HR_FORMULA_mul, keys, query), 1u << 1);
  return hr__squeeze(b, weight, 1u << 1);
}

hr_id hr__sensors_pool(hr_builder *b, const hr_sensor_model *m, hr_id tokens, const hr_model_batch *batch) {
  int64_t samples = batch->batch, patches = m->patches, channels = m->channels, heads = m->heads;
  hr__block_begin(b, "pooling");
  hr_id weight = score_weight(b, m);
  hr__module(b, "pooling.attention");
  hr_id scores = hr__linear(b, tokens, weight, HR_NONE); /* [B, P, D, heads] */
  if (b->status != HR_OK) return HR_NONE;
  hr_id parts = hr__softmax(b, hr__permute(b, scores, (const int[]){0, 1, 3, 2}));
  parts = hr__dropped(b, "pooling.attention", m->pooling_dropout, parts);
  hr_id values = hr__sensors_linear(b, "pooling.attention", "v_proj", m->width, m->width, tokens, HR_NONE);
  hr__module(b, "pooling.attention");
  values = hr__reshape(b, values, 5, (const int64_t[]){samples, patches, channels, heads, m->width / heads});
  parts = hr__permute(b, parts, (const int[]){0, 1, 3, 2});
  parts = hr__reshape(b, parts, 5, (const int64_t[]){samples, patches, channels, heads, 1});
  hr_id x = hr__reduce(b, HR_REDUCE_SUM, hr__binary(b, HR_FORMULA_mul, values, parts), 1u << 2);
  x = hr__reshape(b, x, 3, (const int64_t[]){samples, patches, m->width});
  x = hr__sensors_linear(b, "pooling.attention", "out_proj", m->width, m->width, x, HR_NONE);
  x = hr__sensors_norm(b, m, "pooling", "norm", x);
  hr__module(b, "pooling");
  x = hr__binary(b, HR_FORMULA_keep, x, hr__sensors_mask(b, m, batch, 3));
  hr__block_end(b);
  return x;
}
