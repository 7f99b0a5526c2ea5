/* Products of warpgroups (four neighbouring warps), barriers in shared memory, and copies that they wait for: what GPUs
 * of compute capability 9.0 have and no others. Files that include this are compiled for those alone
 * (cmake/cuda.cmake).
 *
 * Beside instructions.cuh the only place for assembly; test/cuda/host has a file of the same name in plain C++.
 */
#ifndef HR_DEV_CUDA_WARPGROUP_CUH
#define HR_DEV_CUDA_WARPGROUP_CUH

#include "dev/cuda/instructions.cuh"

#ifdef __CUDACC__

/* ---- products ---- */

/* Matrices of 8 x 8 numbers in shared memory, 128 bytes each, row by row: from `first` on, which is a multiple of 16
 * bytes, `along` bytes from one to the next along what is summed over and `across` bytes along the other axis. A row is
 * of one number of the other axis and eight that are summed over. */
__device__ inline uint64_t matrices_at(const void *first, uint32_t along, uint32_t across) {
  return (uint64_t)((shared_address(first) & 0x3ffff) >> 4) | (uint64_t)(along >> 4) << 16 |
         (uint64_t)(across >> 4) << 32;
}

/* Before the first product of a warpgroup, and wherever other instructions have touched its sums. */
__device__ inline void products_begin(void) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/* Ends a group of products, which go on beside what follows. */
__device__ inline void products_end(void) {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until no more than so many groups of products are under way. */
template <int GROUPS> __device__ inline void products_wait(void) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}

#define SUMS_4(d, i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS_16(d, i) SUMS_4(d, i), SUMS_4(d, i + 4), SUMS_4(d, i + 8), SUMS_4(d, i + 12)
#define SUMS_64(d)    SUMS_16(d, 0), SUMS_16(d, 16), SUMS_16(d, 32), SUMS_16(d, 48)

/* d (+)= a b, with a [64, 16] and b [16, 128], both from shared memory. Warp w has rows 16 w and on of d; its lane 4 q
 * + t holds of columns 8 j and on d[4 j]: (q, 2t), (q, 2t + 1), (q + 8, 2t), (q + 8, 2t + 1). `more`: whether d counts.
 */
template <typename T> __device__ inline void warpgroup_multiply(float (&d)[64], uint64_t a, uint64_t b, bool more);
#define WARPGROUP_MULTIPLY(T, NAME)                                                                                    \
  template <> __device__ inline void warpgroup_multiply<T>(float(&d)[64], uint64_t a, uint64_t b, bool more) {         \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME    \
                 " "                                                                                                   \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                             \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                    \
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                    \
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "                   \
                 "%64, %65, p, 1, 1, 0, 0;}"                                                                           \
                 : SUMS_64(d)                                                                                          \
                 : "l"(a), "l"(b), "r"((int)more));                                                                    \
  }
WARPGROUP_MULTIPLY(__nv_bfloat16, "bf16")
WARPGROUP_MULTIPLY(__half, "f16")

/* What the thread has stored to shared memory is seen by products and copies of those who wait for it later. */
__device__ inline void stores_publish(void) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* A warpgroup gives registers of its threads away, or takes some that others gave; each thread has N then. */
template <int N> __device__ inline void registers_give(void) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ inline void registers_take(void) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* ---- barriers in shared memory: rounds, each of which ends when all have arrived and all its bytes have come ---- */

__device__ inline void rounds_init(uint64_t *barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
/* Behind the last rounds_init, before others use them. */
__device__ inline void rounds_publish(void) {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void round_arrive(uint64_t *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
/* Arrives, and says that so many bytes will come by copy_bytes_start. */
__device__ inline void round_expect(uint64_t *barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
/* Until a round of this parity has ended: the first one's is 0, and one of parity 1 has ended before it. */
__device__ inline void round_wait(uint64_t *barrier, int parity) {
  asm volatile("{.reg .pred p;\n"
               "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
               "@!p bra AGAIN;}" ::"r"(shared_address(barrier)),
               "r"(parity)
               : "memory");
}

/* Copies to shared memory; addresses and bytes are multiples of 16. */
__device__ inline void copy_bytes_start(void *to, const void *from, int bytes, uint64_t *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

#endif
#endif
