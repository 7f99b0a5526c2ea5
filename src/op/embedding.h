/* embedding: y = W[token]. A token outside [0, rows of W) reads as a row of zeros and receives no gradient; nor does
 * the padding token, whose row is read as any other. */
#ifndef HR_OP_EMBEDDING_H
#define HR_OP_EMBEDDING_H

#include "graph/builder.h"

typedef struct hr_embedding_args {
  int64_t padded; /* 1 + the padding token; 0: there is none */
} hr_embedding_args;

typedef struct hr_embedding_dw_args {
  int64_t rows;   /* of W: the size of the vocabulary */
  hr_dtype dtype; /* of dW */
  int64_t padded; /* as above */
} hr_embedding_dw_args;

/* Workspace of embedding_dw on CUDA: tokens with their positions, sorted from one array into another. */
static inline size_t hr__embedding_sort_bytes(int64_t tokens) {
  return 2 * (size_t)tokens * sizeof(uint64_t);
}

extern const hr_op hr_op_embedding;
extern const hr_op hr_op_embedding_dw;

/* tokens i32 [...], weight [rows, H] -> [..., H] in the weight's type */
hr_id hr__embedding(hr_builder *b, hr_id tokens, hr_id weight);
/* The same with a padding token; below 0: none. */
hr_id hr__embedding_padded(hr_builder *b, hr_id tokens, hr_id weight, int64_t padding);

#endif
