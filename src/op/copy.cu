/* copy on CUDA: between float types, or as it is; times a factor. Many tensors go in one launch, up to COPY_TENSORS of
 * them described in the kernel's parameters: adapters are converted by the hundred, and each is small. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/copy.h"
}

enum { COPY_TENSORS = 96, COPY_THREADS = 256, COPY_PACKS = 4, COPY_CHUNK = COPY_THREADS * COPY_PACKS * WIDE };

struct copy_group {
  const void *from[COPY_TENSORS];
  void *to[COPY_TENSORS];
  int64_t count[COPY_TENSORS];
  float factor[COPY_TENSORS];
  int32_t first[COPY_TENSORS + 1]; /* first chunk of each tensor; [tensors]: number of chunks */
  int32_t tensors;
};

/* `packs` packs at aligned addresses. A thread reads all it has before it writes: y may lie on x. */
template <typename From, typename To>
__device__ inline void packs_copy(const From *from, To *to, float factor, int packs) {
  pack<From, WIDE> block[COPY_PACKS];
#pragma unroll
  for (int k = 0; k < COPY_PACKS; k++) {
    int at = k * COPY_THREADS + (int)threadIdx.x;
    if (at < packs) block[k] = pack_load<WIDE>(from + at * WIDE);
  }
#pragma unroll
  for (int k = 0; k < COPY_PACKS; k++) {
    int at = k * COPY_THREADS + (int)threadIdx.x;
    if (at >= packs) break;
    float value[WIDE];
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      value[e] = factor * to_float(block[k].value[e]);
    pack_write<WIDE>(to + at * WIDE, value);
  }
}

/* Block c: chunk c of the group. */
template <typename From, typename To>
static __global__ void __launch_bounds__(COPY_THREADS) copy_kernel(__grid_constant__ const copy_group group) {
  int chunk = (int)blockIdx.x, t = 0, above = group.tensors;
  while (above - t > 1) {
    int middle = (t + above) / 2;
    if (chunk < group.first[middle])
      above = middle;
    else
      t = middle;
  }
  int64_t first = (int64_t)(chunk - group.first[t]) * COPY_CHUNK;
  int n = (int)min((int64_t)COPY_CHUNK, group.count[t] - first), packed = 0;
  const From *from = (const From *)group.from[t] + first;
  To *to = (To *)group.to[t] + first;
  float factor = group.factor[t];
  if ((uintptr_t)from % 16 == 0 && (uintptr_t)to % 16 == 0) {
    packs_copy(from, to, factor, n / WIDE);
    packed = n / WIDE * WIDE;
  }
  for (int i = packed + (int)threadIdx.x; i < n; i += COPY_THREADS)
    to[i] = from_float<To>(factor * to_float(from[i]));
}

template <typename From, typename To> static hr_status group_launch(const copy_group &group, cudaStream_t stream) {
  launch(copy_kernel<From, To>, (unsigned)group.first[group.tensors], COPY_THREADS, 0, stream, group);
  return launched();
}

static hr_status group_run(copy_group *group, hr_dtype from, hr_dtype to, cudaStream_t stream) {
  if (group->tensors == 0) return HR_OK;
  hr_status status = by_dtype(from, [&](auto f) {
    return by_dtype(to, [&](auto t) { return group_launch<decltype(f), decltype(t)>(*group, stream); });
  });
  group->tensors = 0;
  return status;
}

/* Adds a tensor to the group. Nothing to do: one that stays where and as it is. */
static void group_add(copy_group *group, const hr_call *call) {
  float factor = ((const hr_copy_args *)call->args)->factor;
  int64_t count = desc_count(call->in[0].desc);
  bool same = call->in[0].data == call->out[0].data && call->in[0].desc.dtype == call->out[0].desc.dtype;
  if (count == 0 || (same && factor == 1.0f)) return;
  int32_t t = group->tensors++;
  group->from[t] = call->in[0].data;
  group->to[t] = call->out[0].data;
  group->count[t] = count;
  group->factor[t] = factor;
  group->first[t + 1] = group->first[t] + (int32_t)divide_up(count, COPY_CHUNK);
}

static bool overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes) {
  return (const char *)a < (const char *)b + b_bytes && (const char *)b < (const char *)a + a_bytes;
}

/* Whether a call of the group's types touches what the group writes, or writes what it reads: the plan gives memory on
 * as soon as its last reader is through, so a later copy may well lie on the operand of an earlier one. */
static bool group_meets(const copy_group &group, const hr_call *call, int64_t from_size, int64_t to_size) {
  const void *from = call->in[0].data, *to = call->out[0].data;
  int64_t count = desc_count(call->in[0].desc);
  for (int32_t t = 0; t < group.tensors; t++) {
    int64_t read = group.count[t] * from_size, written = group.count[t] * to_size;
    if (overlap(to, count * to_size, group.from[t], read) || overlap(to, count * to_size, group.to[t], written) ||
        overlap(from, count * from_size, group.to[t], written))
      return true;
  }
  return false;
}

/* A group has one pair of types. */
static hr_status copy_run_many(const hr_launch *launches, size_t count) {
  copy_group group = {};
  hr_dtype from = launches[0].call.in[0].desc.dtype, to = launches[0].call.out[0].desc.dtype;
  cudaStream_t stream = call_stream(&launches[0].call);
  for (size_t i = 0; i < count; i++) {
    const hr_call *call = &launches[i].call;
    bool fits = call->in[0].desc.dtype == from && call->out[0].desc.dtype == to && group.tensors < COPY_TENSORS &&
                !group_meets(group, call, from == HR_F32 ? 4 : 2, to == HR_F32 ? 4 : 2);
    if (!fits) {
      hr_status status = group_run(&group, from, to, stream);
      if (status != HR_OK) return status;
      from = call->in[0].desc.dtype;
      to = call->out[0].desc.dtype;
    }
    group_add(&group, call);
  }
  return group_run(&group, from, to, stream);
}

static hr_status copy_run(const hr_call *call) {
  copy_group group = {};
  group_add(&group, call);
  return group_run(&group, call->in[0].desc.dtype, call->out[0].desc.dtype, call_stream(call));
}

extern "C" const hr_cuda_launcher hr_cuda_copy = {
    {nullptr, nullptr, copy_run},
    {(const void *)copy_kernel<float, float>, (const void *)copy_kernel<float, bf16>,
     (const void *)copy_kernel<float, f16>, (const void *)copy_kernel<bf16, float>,
     (const void *)copy_kernel<bf16, bf16>, (const void *)copy_kernel<bf16, f16>, (const void *)copy_kernel<f16, float>,
     (const void *)copy_kernel<f16, bf16>, (const void *)copy_kernel<f16, f16>},
    copy_run_many};
