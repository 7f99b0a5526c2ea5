/* The instruction of tensor cores that multiplies 16-bit matrices spread over a warp. */
#ifndef HR_OP_MMA_CUH
#define HR_OP_MMA_CUH

#include "dev/cuda/launch.cuh"

/* d += a b, with a [16, 16], b [16, 8] and d [16, 8] spread over the warp. Lane 4 q + t holds
 *   a: (q, 2t), (q + 8, 2t), (q, 2t + 8), (q + 8, 2t + 8), each with its right neighbour;
 *   b: (2t, q), (2t + 8, q), each with the one below;
 *   d: (q, 2t), (q, 2t + 1), (q + 8, 2t), (q + 8, 2t + 1). */
template <typename T> __device__ inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <> __device__ inline void multiply<bf16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> __device__ inline void multiply<f16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
