/* Shapes that training has, larger than the ops' own samples: the vectorised and tiled paths of kernels. */
#ifndef HR_TEST_CUDA_SAMPLES_H
#define HR_TEST_CUDA_SAMPLES_H

#include "graph/op.h"

typedef struct large_sample {
  const char *op;
  hr_sample sample;
} large_sample;

const large_sample *large_samples(size_t *count);

#endif
