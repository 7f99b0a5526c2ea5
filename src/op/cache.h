/* Attention over a cache of keys and values, for programs that generate: a sequence goes on where it was left, some
 * positions at a time.
 *
 * Caches are [B, C, kv_heads*D]: row j of a sample holds the key, or the value, of its position j. A call brings T
 * positions of each sample, right padded: sample b goes on at positions[b], and counts[b] of its T rows are there, as
 * far as the cache reaches. What is not there is neither written nor seen, and its rows of y are zero.
 *
 *   cache_put         keys[positions[b] + t] = k[b, t], and values so, in place
 *   cache_attention   y = softmax(q keyst scale) values    per sample and head; the query at position p sees j <= p,
 * and j > p - window where there is a window
 *
 * Sums run over blocks of keys that begin at fixed positions: a row has the same bits however a sequence was cut into
 * calls, and whatever else is in the batch.
 */
#ifndef HR_OP_CACHE_H
#define HR_OP_CACHE_H

#include "graph/builder.h"

typedef struct hr_cache_args {
  int64_t heads, kv_heads, head_dim;
  int64_t window; /* keys that a query sees at most, its own position included; 0: no limit. Of cache_attention */
  float scale;    /* of cache_attention */
} hr_cache_args;

/* keys, values, k, v?, positions i32 [B], counts i32 [B]   -> keys, values
 * k and v are [B, T, kv_heads*D]; without v, k is q | k | v side by side: [B, T, (heads + 2*kv_heads)*D]. */
extern const hr_op hr_op_cache_put;
enum { HR_PUT_KEYS, HR_PUT_VALUES, HR_PUT_K, HR_PUT_V, HR_PUT_POSITIONS, HR_PUT_COUNTS, HR_PUT_OPERANDS };
/* q, keys, values, positions, counts   -> y [B, T, heads*D]
 * q is [B, T, heads*D], or the leading columns of q | k | v. */
extern const hr_op hr_op_cache_attention;

/* Returns the keys; the values are result 1 (hr__node_out). v may be HR_NONE. */
hr_id hr__cache_put(hr_builder *b, hr_id keys, hr_id values, hr_id k, hr_id v, hr_id positions, hr_id counts,
                    const hr_cache_args *args);
hr_id hr__cache_attention(hr_builder *b, hr_id q, hr_id keys, hr_id values, hr_id positions, hr_id counts,
                          const hr_cache_args *args);

/* Rows of a sample that are there. For both devices. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline int64_t
    hr__cache_rows(int64_t position, int64_t count, int64_t length, int64_t context) {
  if (position < 0 || position >= context || count < 0) return 0;
  int64_t rows = count < length ? count : length;
  return rows < context - position ? rows : context - position;
}

/* On CUDA keys are divided into parts of HR_CACHE_PART, each for a block of its own, where few queries would leave most
 * of a GPU idle: how many. */
enum { HR_CACHE_PART = 512, HR_CACHE_FEW = 8 };
static inline int64_t hr__cache_parts(int64_t length, int64_t context) {
  return length <= HR_CACHE_FEW ? (context + HR_CACHE_PART - 1) / HR_CACHE_PART : 1;
}

#endif
