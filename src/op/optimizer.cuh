/* What the optimizers' kernels share on CUDA: many tensors in one launch, the factor on gradients, and stochastic
 * rounding. op/optimizer.h says which random bits round which element.
 *
 * A launch takes a group of tensors, described in the kernel's parameters, and deals out their units: spans of a fixed
 * number of elements, numbered through all tensors of the group.
 */
#ifndef HR_OP_OPTIMIZER_CUH
#define HR_OP_OPTIMIZER_CUH

#include <string.h>

#include "dev/cuda/launch.cuh"
extern "C" {
#include "base/philox.h"
}

/* A thread takes 8 neighbouring elements: as many as one block of random numbers has half-words. */
enum { UPDATE_THREADS = 256, UPDATE_WIDTH = 8, UPDATE_SPAN = UPDATE_THREADS * UPDATE_WIDTH };
enum { UPDATE_PARAMETER_BYTES = 4096 }; /* of a kernel, with every driver */

/* OPERANDS: arrays that an update reads and writes for each tensor. */
template <int OPERANDS> struct update_tensor {
  void *at[OPERANDS];
  uint64_t stream_key;
  int64_t first, count; /* element of the parameter at which the operands begin, and how many they have */
  float weight_decay, lr_scale;
};

/* Constants: floats that all tensors of a group have in common, clip_norm among them. */
template <int OPERANDS_, typename Constants> struct update_group {
  static constexpr int OPERANDS = OPERANDS_;
  static constexpr int ROOM =
      (int)((UPDATE_PARAMETER_BYTES - 64 - sizeof(Constants)) / (sizeof(update_tensor<OPERANDS>) + sizeof(int32_t)));
  const hr_control *control;
  const float *norm; /* NULL: no clipping */
  Constants constants;
  int32_t tensors;
  int32_t begin[ROOM + 1]; /* first unit of each tensor; [tensors]: number of units */
  update_tensor<OPERANDS> tensor[ROOM];
};

/* ---- on the host ---- */

static inline int64_t update_units(int64_t count, int64_t span) {
  return (count + span - 1) / span;
}

/* Which of a kernel's forms a call needs: by parameter (f32, bf16), gradient (f32, bf16, f16) and, where `states` is 2,
 * state (f32, bf16). */
static inline int update_form(const hr_call *call, int state_in, int states) {
  hr_dtype grad = call->in[1].desc.dtype;
  int form = (call->in[0].desc.dtype == HR_BF16) * 3 + (grad == HR_BF16 ? 1 : grad == HR_F16 ? 2 : 0);
  return states == 2 ? form * 2 + (call->in[state_in].desc.dtype == HR_BF16) : form;
}

/* For prepare: results lie where the `count` operands ins[] do. */
static inline hr_status update_in_place(const hr_call *call, const int *ins, int count, hr_error *err) {
  for (int i = 0; i < count; i++)
    if (call->out[i].data != call->in[ins[i]].data)
      return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL, "an update must be in place");
  return HR_OK;
}

template <typename Op> static hr_status update_flush(const typename Op::group &group, int form, cudaStream_t stream) {
  if (group.tensors == 0) return HR_OK;
  static_assert(sizeof group <= UPDATE_PARAMETER_BYTES, "a kernel takes no more");
  auto kernel = (void (*)(typename Op::group))Op::function(form);
  launch(kernel, (unsigned)Op::blocks(group.begin[group.tensors]), UPDATE_THREADS, 0, stream, group);
  return launched();
}

/* Op has: `group`, FORMS, SPAN (elements of a unit), form(call), function(form), blocks(units), and describe(call,
 * group, tensor), which sets what tensors have in common in the group and all but the count in the tensor. Calls go by
 * form, since types may change from one tensor to the next; every tensor has an element at least. */
template <typename Op> static hr_status update_run_many(const hr_launch *launches, size_t count) {
  for (int form = 0; form < Op::FORMS; form++) {
    typename Op::group group = {}, head = {};
    cudaStream_t stream = nullptr;
    for (size_t i = 0; i < count; i++) {
      const hr_call *call = &launches[i].call;
      if (Op::form(call) != form) continue;
      update_tensor<Op::group::OPERANDS> tensor = {};
      Op::describe(call, &head, &tensor);
      tensor.count = desc_count(call->out[0].desc);
      bool fits = group.tensors < Op::group::ROOM && stream == call_stream(call) && group.control == head.control &&
                  group.norm == head.norm && memcmp(&group.constants, &head.constants, sizeof head.constants) == 0;
      if (!fits) {
        hr_status status = update_flush<Op>(group, form, stream);
        if (status != HR_OK) return status;
        group = head;
        stream = call_stream(call);
      }
      int32_t t = group.tensors++;
      group.tensor[t] = tensor;
      group.begin[t + 1] = group.begin[t] + (int32_t)update_units(tensor.count, Op::SPAN);
    }
    hr_status status = update_flush<Op>(group, form, stream);
    if (status != HR_OK) return status;
  }
  return HR_OK;
}

template <typename Op> static hr_status update_run(const hr_call *call) {
  hr_launch one = {};
  one.call = *call;
  return update_run_many<Op>(&one, 1);
}

/* ---- on the device ---- */

/* The tensor that has this unit. */
template <typename Group> __device__ inline int group_find(const Group &group, int32_t unit) {
  int low = 0, high = group.tensors - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (group.begin[middle] <= unit)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* Factor on gradients, with the roundings of hr__update_scale: a norm that is not a number spreads. */
__device__ inline float update_scale(const hr_control *control, float clip_norm, const float *norm) {
  float scale = 1.0f / control->loss_scale;
  if (!(clip_norm > 0.0f) || !norm) return scale;
  float clip = clip_norm / __fadd_rn(__fmul_rn(*norm, scale), 1e-6f);
  return clip >= 1.0f ? scale : __fmul_rn(scale, clip);
}

__device__ inline float update_decay(float lr, float weight_decay) {
  return __fsub_rn(1.0f, __fmul_rn(lr, weight_decay));
}

/* Within 2 units of the last place, in a few instructions, as near_root is: what a parameter moves by needs no more,
 * and exact ones would take longer than the memory. y below 2^126. */
__device__ inline float near_quotient(float x, float y) {
  return __fdividef(x, y);
}

__device__ inline bool packs_aligned(const void *a) {
  return ((uintptr_t)a & 15) == 0;
}

/* How many of the elements from `at` on a thread has: UPDATE_WIDTH but at the end; none beyond it. */
__device__ inline int update_left(int64_t count, int64_t at) {
  int64_t left = count - at;
  return left >= UPDATE_WIDTH ? UPDATE_WIDTH : left > 0 ? (int)left : 0;
}

/* A thread's elements as they are stored, two 16-bit ones in a word: as elements, each would take a register. */
template <typename T> struct alignas(16) span {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "a float type");
  static constexpr int PER_WORD = 4 / sizeof(T), WORDS = UPDATE_WIDTH / PER_WORD;
  uint32_t word[WORDS];
};
template <int BYTES> struct stored;
template <> struct stored<2> { typedef uint16_t type; };
template <> struct stored<4> { typedef uint32_t type; };

__device__ inline float span_element(const span<float> &from, int e) {
  return __uint_as_float(from.word[e]);
}
__device__ inline float span_element(const span<bf16> &from, int e) {
  return __uint_as_float(e % 2 ? from.word[e / 2] & 0xffff0000u : from.word[e / 2] << 16);
}
__device__ inline float span_element(const span<f16> &from, int e) {
  return __half2float(__ushort_as_half((unsigned short)(from.word[e / 2] >> e % 2 * 16)));
}

/* Elements [at, at + n), behind them elements of which all bits are `missing`'s. packed: the tensor is aligned for
 * 16 bytes at once. */
template <typename T>
__device__ inline span<T> span_load(const T *from, int64_t at, int n, bool packed, uint32_t missing) {
  typedef typename stored<sizeof(T)>::type bits;
  if (packed && n == UPDATE_WIDTH) return *(const span<T> *)(from + at);
  span<T> block;
#pragma unroll
  for (int w = 0; w < span<T>::WORDS; w++) {
    block.word[w] = 0;
#pragma unroll
    for (int i = 0; i < span<T>::PER_WORD; i++) {
      int e = w * span<T>::PER_WORD + i;
      block.word[w] |= (uint32_t)(e < n ? ((const bits *)from)[at + e] : (bits)missing) << i * 16;
    }
  }
  return block;
}

template <typename T> __device__ inline void span_store(T *to, int64_t at, int n, bool packed, const span<T> &block) {
  typedef typename stored<sizeof(T)>::type bits;
  if (packed && n == UPDATE_WIDTH) {
    *(span<T> *)(to + at) = block;
    return;
  }
#pragma unroll
  for (int e = 0; e < UPDATE_WIDTH; e++)
    if (e < n) ((bits *)to)[at + e] = (bits)(block.word[e / span<T>::PER_WORD] >> e % span<T>::PER_WORD * 16);
}

/* Where a thread's random bits come from. The number of its elements within the parameter by 8 is kept in halves: slots
 * differ in the upper one, which all threads of a block have in common, and share what Philox makes of the lower one.
 */
struct update_random {
  uint64_t key, step;
  uint32_t lower, upper;
};

/* For the thread's place in a block of UPDATE_SPAN elements from element `unit` of the operands. `first` is a multiple
 * of 4096, so the lower half does not run over. */
__device__ inline update_random update_random_at(uint64_t key, uint64_t step, int64_t first, int64_t unit) {
  uint64_t number = (uint64_t)(first + unit) / UPDATE_WIDTH;
  return {key, step, (uint32_t)number + threadIdx.x, (uint32_t)(number >> 32)};
}

/* NaN stays NaN, infinities have no bits to carry from. Result in the upper half. */
__device__ inline uint32_t round_randomly(float value, uint32_t random16) {
  uint32_t word = __float_as_uint(value);
  return isnan(value) ? word | 0x400000u : word + random16;
}

/* Stores what an update computed; slot: 0 parameter, 1 and 2 its states. */
__device__ inline void update_store(float *to, int64_t at, int n, bool packed, const float *from, const update_random &,
                                    uint32_t) {
  span<float> block;
#pragma unroll
  for (int e = 0; e < UPDATE_WIDTH; e++)
    block.word[e] = __float_as_uint(from[e]);
  span_store(to, at, n, packed, block);
}
__device__ inline void update_store(bf16 *to, int64_t at, int n, bool packed, const float *from,
                                    const update_random &random, uint32_t slot) {
  uint32_t word[UPDATE_WIDTH / 2];
  hr__philox(random.key, random.step, (uint64_t)(random.upper + (slot << 30)) << 32 | random.lower, word);
  span<bf16> block;
#pragma unroll
  for (int w = 0; w < UPDATE_WIDTH / 2; w++)
    block.word[w] = __byte_perm(round_randomly(from[2 * w], word[w] & 0xffffu),
                                round_randomly(from[2 * w + 1], word[w] >> 16), 0x7632);
  span_store(to, at, n, packed, block);
}

#endif
