/* lstm: one recurrent layer in one direction, over the valid positions of every sample.
 *
 *   i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of (x + h_before Wt)      c = f c_before + i g      h = o tanh(c)
 *
 * x is what the input gives to the gates, biases included: that product is one over all positions, and no part of this
 * op. States begin as zeros. Backward, a layer goes from the last valid position of each sample to the first; behind
 * the valid positions results are 0.
 */
#ifndef HR_OP_LSTM_H
#define HR_OP_LSTM_H

#include "graph/builder.h"

enum { HR_LSTM_GATES = 4 }; /* in the order i, f, g, o, each as wide as h */

typedef struct hr_lstm_args {
  bool reverse;
} hr_lstm_args;

/* x [B, T, 4 H], W [4 H, H], lengths? i32 [B] -> h [B, T, H]; also the gates, like x, and the cells c, f32 like h. */
extern const hr_op hr_op_lstm;
/* dh [B, T, H], W, gates, cells, lengths? -> dx [B, T, 4 H] */
extern const hr_op hr_op_lstm_bwd;

hr_id hr__lstm(hr_builder *b, hr_id x, hr_id weight, hr_id lengths, bool reverse); /* lengths: HR_NONE for none */

/* Sizes, and how positions follow each other: step s of a sample with n valid positions is at s, or at n - 1 - s. Steps
 * from n on are the positions behind the valid ones, in either direction. */
typedef struct hr_lstm_walk {
  int64_t batch, length, width;
  bool reverse;
} hr_lstm_walk;

static inline hr_lstm_walk hr__lstm_walk(const hr_desc *h, const hr_lstm_args *args) {
  hr_lstm_walk w = {h->dim[0], h->dim[1], h->dim[2], args->reverse};
  return w;
}

#endif
