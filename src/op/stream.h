/* Streaming kernels: how ops that are bound by memory walk over their operands on the CPU.
 *
 * - A chunk is what one task of the pool handles. Its bounds follow from the shape alone, never from the number of
 *   threads, so that sums come out the same on any machine with the same instruction set.
 * - A block is the part of a chunk that is in hand at once, at most HR_BLOCK elements. All arithmetic is f32: hr__load
 *   gives a block as floats, hr__store puts one back. For f32 tensors both work on the tensor itself, nothing is
 * copied; for bf16 and f16 they convert through the caller's scratch on the stack.
 *
 * A block is read whole before it is written, so a result may take over the storage of an input of the same size.
 */
#ifndef HR_OP_STREAM_H
#define HR_OP_STREAM_H

#include "base/clones.h"
#include "graph/op.h"

enum {
  HR_BLOCK = 1024,      /* elements; 4 KiB of scratch for each operand */
  HR_CHUNK = 32 * 1024, /* elements of one task in an elementwise op */
};

#define HR_INLINE static inline __attribute__((always_inline))

typedef struct hr_range {
  int64_t first, end;
} hr_range;

HR_INLINE int64_t hr__min(int64_t a, int64_t b) {
  return a < b ? a : b;
}

HR_INLINE int64_t hr__chunks(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

HR_INLINE hr_range hr__chunk(int64_t count, int64_t size, int64_t chunk) {
  return (hr_range){chunk * size, hr__min(count, (chunk + 1) * size)};
}

/* `n` elements from element `at`, as floats: the tensor itself, or a conversion in `scratch`. Whole numbers are those
 * of programs (op/pointwise.h). */
HR_INLINE const float *hr__load(const hr_tensor *tensor, int64_t at, int64_t n, float *scratch) {
  if (tensor->desc.dtype == HR_F32) return (const float *)tensor->data + at;
  const uint16_t *from = (const uint16_t *)tensor->data + at;
  if (tensor->desc.dtype == HR_BF16) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      scratch[i] = hr__bf16_to_f32(from[i]);
  } else if (tensor->desc.dtype == HR_F16) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      scratch[i] = hr__f16_to_f32(from[i]);
  } else if (tensor->desc.dtype == HR_U8) {
    const uint8_t *bytes = (const uint8_t *)tensor->data + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      scratch[i] = (float)bytes[i];
  } else {
    const int32_t *whole = (const int32_t *)tensor->data + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      scratch[i] = (float)whole[i];
  }
  return scratch;
}

/* Where to compute the block that starts at element `at`; hr__store completes it. */
HR_INLINE float *hr__target(const hr_tensor *tensor, int64_t at, float *scratch) {
  return tensor->desc.dtype == HR_F32 ? (float *)tensor->data + at : scratch;
}

/* Completes a block that was computed at hr__target. */
HR_INLINE void hr__store(const hr_tensor *tensor, int64_t at, int64_t n, const float *block) {
  if (tensor->desc.dtype == HR_F32) return;
  uint16_t *to = (uint16_t *)tensor->data + at;
  if (tensor->desc.dtype == HR_BF16) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] = hr__f32_to_bf16(block[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      to[i] = hr__f32_to_f16(block[i]);
  }
}

/* A float as a tensor of that type would hold it. */
HR_INLINE void hr__round(hr_dtype dtype, int64_t n, float *block) {
  if (dtype == HR_BF16) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      block[i] = hr__bf16_to_f32(hr__f32_to_bf16(block[i]));
  } else if (dtype == HR_F16) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      block[i] = hr__f16_to_f32(hr__f32_to_f16(block[i]));
  }
}

/* Runs `task` over the chunks of an elementwise call with `count` elements; the task's argument is the call. */
static inline void hr__run_chunks(const hr_call *call, int64_t count, hr_task task) {
  hr__pool_run(call->device->pool, call->threads, hr__chunks(count, HR_CHUNK), task, (void *)(uintptr_t)call);
}

#endif
