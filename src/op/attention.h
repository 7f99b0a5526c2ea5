/* attention: grouped-query, block by block; the T x T scores never exist.
 *
 *   y = softmax(q kt scale) v    per batch and head, over the keys that the query sees
 *   lse = log-sum-exp of the scaled scores, kept for the backward op
 *
 * Query head h uses key/value head h / (heads / kv_heads). The query at position i sees the keys j with
 *
 *   j <= i                 unless the mask is bidirectional
 *   j > i - window         where there is a window
 *   j < lengths[batch]     where there are lengths; a length above T counts as T, one below 0 as 0
 *   j >= starts[batch, i]  where there are starts: documents packed into one sequence do not see each other
 *
 * Starts say where the document of each position begins: they ascend along a sequence, and none is above its own
 * position. They go with causal masks.
 *
 * Positions at or beyond their length are not there: nothing is read from them (they may hold anything), their rows of
 * y and lse are zero, and so are their gradients.
 *
 * With dropout a probability is 0 or scaled up (op/attention_drop.h), each by itself:
 *
 *   y = (softmax(q kt scale) mask / (1 - rate)) v
 *
 * The mask is a pure function of (seed, step, module path, use, global sample, head, query, key): backward makes it
 * again, and nothing of the size of the scores is kept. lse is that of all keys.
 *
 * q, k and v may be one operand, packed by columns: q | k | v, as one product makes them; their gradient is then packed
 * the same way. Both forms give the same bits.
 */
#ifndef HR_OP_ATTENTION_H
#define HR_OP_ATTENTION_H

#include "graph/builder.h"

typedef struct hr_attention_args {
  int64_t heads, kv_heads, head_dim;
  int64_t window; /* keys that a query sees at most, its own position included; 0: no limit. Causal only */
  float scale;
  bool bidirectional; /* keys after the query are seen too */
  bool documents;     /* several in a sequence: bounds are starts. Causal only */
  float dropout;      /* part of the probabilities that is dropped, in [0, 1); 0: there is no control operand */
  int64_t first;      /* of dropout: row of the batch that row 0 of q is; not 0 in slices */
  uint64_t use;       /* of dropout: uses of the module before it in its program */
} hr_attention_args;

/* Operands of both ops; bounds and control are the last two. */
enum { HR_ATTENTION_IN = 5, HR_ATTENTION_BWD_IN = 8 };

/* q [B,T,heads*D], k?, v? [B,T,kv_heads*D], bounds?, control?   -> y [B,T,heads*D], lse f32
 * [B,heads,T] Without k and v, q is packed: [B,T,(heads+2*kv_heads)*D]. Bounds are lengths i32 [B]; with `documents`
 * starts i32 [B,T]. */
extern const hr_op hr_op_attention;
/* dy, q, k?, v?, y, lse, bounds?, control?   -> dq, dk, dv, of the shapes of q, k and v; without k and v, dk and dv
 * are [0] */
extern const hr_op hr_op_attention_bwd;

/* k and v may be HR_NONE, and so may bounds. With dropout, args->use is counted here. */
hr_id hr__attention(hr_builder *b, hr_id q, hr_id k, hr_id v, hr_id bounds, const hr_attention_args *args);

#endif
