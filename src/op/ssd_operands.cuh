/* What kernels of the scan on a GPU are told, and what they share; see ssd.cu. */
#ifndef HR_OP_SSD_OPERANDS_CUH
#define HR_OP_SSD_OPERANDS_CUH

#include "dev/cuda/launch.cuh"

extern "C" {
#include "op/ssd_rooms.h"
}

/* Of each position and head, [sequence, head, L]: what the gradient of its step is made of, by ssd_kernel_bwd.c's
 * names. Sums over pairs of positions come in parts: rows of part p from tile p of the chunk, columns likewise. */
struct ssd_terms {
  float *rows;     /* [parts, ...] sum over j < i of K_ij */
  float *columns;  /* [parts, ...] sum over i > j of (s o E o R)_ij */
  float *spread;   /* [parts, ...] sum over j < i of K_ij (a_i - a_j); where there is one part, over i > j */
  float *through;  /* exp(a_i) C_i h dy_i */
  float *q;        /* B_j g x_j */
  float *own;      /* R_jj */
  float *diagonal; /* (s o R)_jj */
};

/* Operands that a kernel does not have are NULL. */
template <typename T> struct ssd_operands {
  hr_ssd_sizes size;
  const T *mixed, *dy;
  float *steps, *decays, *decays_low; /* d, and sums of d A from the chunk's beginning on; what these are short of */
  const float *skip;                  /* D of each head */
  float *states, *slopes;             /* [sequence, chunk, head, N, P]: before a chunk; gradients behind it */
  T *narrow_states, *narrow_slopes;   /* the same, where tiles are multiplied */
  T *scores;                          /* see ssd_pairs.cuh */
  T *y, *dmixed;
  ssd_terms terms;
  int tile, tiles; /* positions of a tile, tiles of a chunk */
};

/* d, and dd / dstep, of a step with its bias. */
struct step_made {
  float size, slope;
};
__device__ inline step_made step_of_raw(float raw, const hr_ssd_args &args) {
  float e = expf(-fabsf(raw)), step = fmaxf(raw, 0.0f) + log1pf(e);
  bool held = step < args.step_least || step > args.step_most;
  return {fminf(fmaxf(step, args.step_least), args.step_most), held ? 0.0f : (raw < 0.0f ? e : 1.0f) / (1.0f + e)};
}

/* Where a state begins. */
__device__ inline int64_t state_at(const hr_ssd_sizes &size, int64_t sequence, int64_t chunk, int64_t head) {
  return ((sequence * size.chunks + chunk) * size.heads + head) * size.state_floats;
}

#endif
