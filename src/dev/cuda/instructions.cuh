/* What C++ has no words for: single instructions of the GPU, and shared memory whose size a launch gives.
 *
 * All assembly stands here and nowhere else. test/cuda/host has a file of the same name which does the same in plain
 * C++, for running kernels without a GPU: whoever adds an instruction adds it there too.
 */
#ifndef HR_DEV_CUDA_INSTRUCTIONS_CUH
#define HR_DEV_CUDA_INSTRUCTIONS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <stdint.h>

#ifdef __CUDACC__ /* files for the host's compiler have no kernels */

/* The shared memory that the launch of a block asked for, at a multiple of 16 bytes. */
template <typename T> __device__ __forceinline__ T *launch_shared(void) {
  extern __shared__ uint4 launch_shared_memory[];
  return (T *)launch_shared_memory;
}

/* Kernels that begin early: before the one in front of them has ended, as soon as all its blocks have begun and said
 * next_may_begin(), or ended. Until front_wait() such a kernel may read only what no kernel of the recording writes,
 * and write nothing; behind it everything that stands before the kernel is done. Every block has to come to its
 * front_wait().
 */
__device__ inline void next_may_begin(void) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void front_wait(void) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* ---- matrices spread over a warp, of 16-bit numbers; lane 4 q + t ---- */

/* d += a b, with a [16, 16], b [16, 8] and d [16, 8]. The lane holds
 *   a: (q, 2t), (q + 8, 2t), (q, 2t + 8), (q + 8, 2t + 8), each with its right neighbour;
 *   b: (2t, q), (2t + 8, q), each with the one below;
 *   d: (q, 2t), (q, 2t + 1), (q + 8, 2t), (q + 8, 2t + 1). */
template <typename T> __device__ inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
__device__ inline void multiply<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> __device__ inline void multiply<__half>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* An 8 x 8 matrix, the lane with (q, 2t) and (q, 2t + 1), transposed. */
__device__ inline uint32_t transposed(uint32_t x) {
  uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

__device__ inline uint32_t shared_address(const void *pointer) {
  return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* Four 8 x 8 matrices from shared memory: lane 8 i + r names row r of matrix i, 16 bytes at a multiple of 16; each lane
 * gets (q, 2t) and (q, 2t + 1) of every one, or of its transpose. */
__device__ inline void matrices_load(uint32_t (&to)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ inline void matrices_load_transposed(uint32_t (&to)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

/* ---- copies to shared memory beside computing ---- */

/* Copies BYTES (8 or 16) to shared memory, or zeros where `there` is false. Done after copies_wait. */
template <int BYTES> __device__ inline void copy_start(void *to, const void *from, bool there) {
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(there ? BYTES : 0)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(there ? BYTES : 0)
                 : "memory");
}
/* A word of shared memory: its first `bytes` bytes (0, 2 or 4) from memory, zeros behind them. */
__device__ inline void copy_word_start(void *to, const void *from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
               : "memory");
}
/* The thread's own; those of others are done behind a barrier that follows theirs. */
__device__ inline void copies_wait(void) {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Copies of any length to shared memory that the memory does on its own: what one thread asks for, a sign in shared
 * memory tells all of. Addresses and bytes are multiples of 16. From compute capability 9.0 on. */
__device__ inline void bulk_sign_make(uint64_t *sign) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(sign)) : "memory");
#endif
}
/* By who made them, before any is used. */
__device__ inline void bulk_signs_made(void) {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
/* The sign's turn ends once so many bytes have come. */
__device__ inline void bulk_expect(uint64_t *sign, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(sign)), "r"(bytes)
               : "memory");
#endif
}
/* What is read once: it is the first to leave the device's cache. All who want what lies in `to` have read it. */
__device__ inline void bulk_start(void *to, const void *from, uint32_t bytes, uint64_t *sign) {
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n\t"
               ".reg .b64 once;\n\t"
               "createpolicy.fractional.L2::evict_first.b64 once, 1.0;\n\t"
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
               "once;\n\t"
               "}" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(sign))
               : "memory");
#endif
}
/* Ends the turn of a sign that no copy goes with. */
__device__ inline void bulk_turn_end(uint64_t *sign) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(sign)) : "memory");
#endif
}
/* Until a turn has ended: 0 for the first one, then 1, 0, 1. */
__device__ inline void bulk_wait(uint64_t *sign, uint32_t turn) {
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n\t"
               ".reg .pred there;\n"
               "again:\n\t"
               "mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\n\t"
               "@!there bra again;\n\t"
               "}" ::"r"(shared_address(sign)),
               "r"(turn)
               : "memory");
#endif
}

/* A barrier of the block's first THREADS threads, whole warps. */
template <int THREADS> __device__ inline void threads_meet(void) {
  asm volatile("barrier.sync 1, %0;" ::"n"(THREADS) : "memory");
}

/* Asks for a line of memory: it will be in the device's cache. */
__device__ inline void ask_ahead(const void *from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

/* ---- blocks that wait for each other ---- */

/* One more; whoever reads that has all that this thread, and those it met at a barrier, have written. */
__device__ inline void count_up(unsigned *counted) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counted) : "memory");
}
__device__ inline unsigned count_of(const unsigned *counted) {
  unsigned count;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(counted) : "memory");
  return count;
}

/* The same number, of which the compiler knows nothing: what is made of it in a loop is made there, and not once for
 * all rounds, in registers that sums need. */
__device__ inline uint32_t opaque(uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}

/* ---- functions within 2 units of the last place ---- */

/* 2^x; 0 where the result would be subnormal. */
__device__ inline float near_power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/* 1 / x for x >= 1; 0 where the result would be subnormal. */
__device__ inline float near_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float near_root(float x) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}

#endif
#endif
