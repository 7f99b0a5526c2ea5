/* References of caches of keys and values. */
#include <math.h>
#include <string.h>

#include "op/cache.h"
#include "part_reference.h"

/* keys, values, k, v?, positions, counts -> keys, values */
static void cache_put_reference(const reference_call *c) {
  const hr_cache_args *a = c->args;
  int64_t T = c->in_desc[2].dim[1], columns = c->in_desc[2].dim[2], C = c->in_desc[0].dim[1], D = c->in_desc[0].dim[2];
  for (int i = 0; i < 2; i++) {
    const double *from = c->in[3] ? c->in[2 + i] : c->in[2] + a->heads * a->head_dim + i * D;
    memcpy(c->out[i], c->in[i], (size_t)hr_desc_count(&c->in_desc[0]) * sizeof(double));
    for (int64_t b = 0; b < c->in_desc[0].dim[0]; b++)
      for (int64_t t = 0; t < T; t++) {
        int64_t position = (int64_t)c->in[4][b] + t;
        if ((double)t < c->in[5][b] && position < C)
          memcpy(c->out[i] + (b * C + position) * D, from + (b * T + t) * columns, (size_t)D * sizeof(double));
      }
  }
}

/* q, keys, values, positions, counts -> y */
static void cache_attention_reference(const reference_call *c) {
  const hr_cache_args *a = c->args;
  int64_t T = c->in_desc[0].dim[1], columns = c->in_desc[0].dim[2], C = c->in_desc[1].dim[1], D = a->head_dim;
  int64_t width = a->kv_heads * D;
  memset(c->out[0], 0, (size_t)hr_desc_count(&c->out_desc[0]) * sizeof(double));
  for (int64_t b = 0; b < c->in_desc[0].dim[0]; b++)
    for (int64_t t = 0; t < T; t++)
      for (int64_t head = 0; head < a->heads; head++) {
        int64_t position = (int64_t)c->in[3][b] + t, column = head / (a->heads / a->kv_heads) * D;
        if ((double)t >= c->in[4][b] || position >= C) continue;
        const double *q = c->in[0] + (b * T + t) * columns + head * D;
        double *y = c->out[0] + ((b * T + t) * a->heads + head) * D, total = 0.0;
        for (int64_t j = 0; j <= position; j++) {
          if (a->window > 0 && j <= position - a->window) continue;
          int64_t row = (b * C + j) * width + column;
          double weight = exp((double)a->scale * reference_dot(q, c->in[1] + row, D));
          total += weight;
          for (int64_t d = 0; d < D; d++)
            y[d] += weight * c->in[2][row + d];
        }
        for (int64_t d = 0; d < D; d++)
          y[d] /= total;
      }
}

static const reference ops[] = {
    {.op = "cache_put", .run = cache_put_reference, .loose = 1u << 2},
    {.op = "cache_attention", .run = cache_attention_reference},
};
const reference_family references_of_caches = {ops, sizeof ops / sizeof *ops};
