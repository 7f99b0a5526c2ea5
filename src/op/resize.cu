/* resize and its adjoint on CUDA: a thread for each element of the result; tables of places come first. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/resize.h"
}

enum { RESIZE_THREADS = 256 };

template <typename T> struct resize_call {
  hr_resize_sizes s;
  const T *in, *partial; /* partial: NULL where there is none */
  T *out;
  hr_between *between[HR_RESIZE_AXES];
  hr_reached *reached[HR_RESIZE_AXES]; /* NULL: forward */
  int64_t count;
};

template <typename T> static __global__ void __launch_bounds__(RESIZE_THREADS) resize_tables_kernel(resize_call<T> c) {
  int64_t i = blockIdx.x * (int64_t)RESIZE_THREADS + threadIdx.x;
#pragma unroll
  for (int d = 0; d < HR_RESIZE_AXES; d++) {
    if (i < c.s.to[d]) c.between[d][i] = hr__resize_between(i, c.s.from[d], c.s.to[d]);
    if (c.reached[0] && i < c.s.from[d]) c.reached[d][i] = hr__resize_reached(i, c.s.from[d], c.s.to[d]);
  }
}

template <typename T> static __global__ void __launch_bounds__(RESIZE_THREADS) resize_kernel(resize_call<T> c) {
  for (int64_t at = blockIdx.x * (int64_t)RESIZE_THREADS + threadIdx.x; at < c.count;
       at += gridDim.x * (int64_t)RESIZE_THREADS) {
    int64_t row = at / c.s.to[2], plane = row / (c.s.to[0] * c.s.to[1]);
    hr_between up = c.between[0][row / c.s.to[1] % c.s.to[0]], along = c.between[1][row % c.s.to[1]];
    hr_between here = c.between[2][at % c.s.to[2]];
    int64_t next = min((int64_t)here.place + 1, c.s.from[2] - 1);
    float sum = 0.0f;
#pragma unroll
    for (int corner = 0; corner < 4; corner++) {
      int64_t i = min((int64_t)up.place + corner / 2, c.s.from[0] - 1);
      int64_t j = min((int64_t)along.place + corner % 2, c.s.from[1] - 1);
      const T *x = c.in + ((plane * c.s.from[0] + i) * c.s.from[1] + j) * c.s.from[2];
      float share = (corner / 2 ? up.part : 1.0f - up.part) * (corner % 2 ? along.part : 1.0f - along.part);
      sum += share * (to_float(x[here.place]) * (1.0f - here.part) + to_float(x[next]) * here.part);
    }
    c.out[at] = from_float<T>(sum);
  }
}

template <typename T> static __global__ void __launch_bounds__(RESIZE_THREADS) resize_bwd_kernel(resize_call<T> c) {
  for (int64_t at = blockIdx.x * (int64_t)RESIZE_THREADS + threadIdx.x; at < c.count;
       at += gridDim.x * (int64_t)RESIZE_THREADS) {
    int64_t row = at / c.s.from[2], plane = row / (c.s.from[0] * c.s.from[1]);
    int64_t p0 = row / c.s.from[1] % c.s.from[0], p1 = row % c.s.from[1], p2 = at % c.s.from[2];
    hr_reached over0 = c.reached[0][p0], over1 = c.reached[1][p1], over2 = c.reached[2][p2];
    float sum = 0.0f;
    for (int64_t i = over0.first; i < over0.end; i++) {
      float up = hr__resize_share(c.between[0][i], p0);
      if (up == 0.0f) continue;
      for (int64_t j = over1.first; j < over1.end; j++) {
        float share = up * hr__resize_share(c.between[1][j], p1), line = 0.0f;
        if (share == 0.0f) continue;
        const T *dy = c.in + ((plane * c.s.to[0] + i) * c.s.to[1] + j) * c.s.to[2];
        for (int64_t k = over2.first; k < over2.end; k++)
          line += hr__resize_share(c.between[2][k], p2) * to_float(dy[k]);
        sum += share * line;
      }
    }
    c.out[at] = from_float<T>((c.partial ? to_float(c.partial[at]) : 0.0f) + sum);
  }
}

template <typename T> static hr_status resize_launch(const hr_call *call, bool backward) {
  const hr_desc *in = &call->in[0].desc, *out = &call->out[0].desc;
  resize_call<T> c = {};
  int64_t longest = 1;
  c.s = backward ? hr__resize_sizes(out, in) : hr__resize_sizes(in, out);
  c.in = (const T *)call->in[0].data;
  if (backward) c.partial = (const T *)call->in[1].data;
  c.out = (T *)call->out[0].data;
  c.count = desc_count(*out);
  hr_between *at = (hr_between *)call->workspace;
  for (int d = 0; d < HR_RESIZE_AXES; at += c.s.to[d++])
    c.between[d] = at;
  hr_reached *behind = (hr_reached *)at;
  for (int d = 0; d < HR_RESIZE_AXES; behind += c.s.from[d++]) {
    if (backward) c.reached[d] = behind;
    longest = c.s.to[d] > longest ? c.s.to[d] : longest;
    longest = c.s.from[d] > longest ? c.s.from[d] : longest;
  }
  const int64_t blocks_most = INT32_MAX;
  int64_t blocks = divide_up(c.count, RESIZE_THREADS);
  unsigned grid = (unsigned)(blocks < blocks_most ? blocks : blocks_most);
  cudaStream_t stream = call_stream(call);
  launch(resize_tables_kernel<T>, (unsigned)divide_up(longest, RESIZE_THREADS), RESIZE_THREADS, 0, stream, c);
  if (backward)
    launch(resize_bwd_kernel<T>, grid, RESIZE_THREADS, 0, stream, c);
  else
    launch(resize_kernel<T>, grid, RESIZE_THREADS, 0, stream, c);
  return launched();
}

static hr_status room_check(const hr_call *call, bool backward, hr_error *err) {
  const hr_desc *in = &call->in[0].desc, *out = &call->out[0].desc;
  hr_resize_sizes s = backward ? hr__resize_sizes(out, in) : hr__resize_sizes(in, out);
  size_t bytes = (size_t)hr__resize_entries(&s, backward) * sizeof(hr_between);
  if (call->workspace_bytes >= bytes) return HR_OK;
  return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL, "workspace of %zu bytes, %zu are needed",
                                       call->workspace_bytes, bytes);
}

static hr_status resize_prepare(const hr_call *call, void **prepared, hr_error *err) {
  *prepared = nullptr;
  return room_check(call, false, err);
}

static hr_status resize_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  *prepared = nullptr;
  return room_check(call, true, err);
}

static hr_status resize_run(const hr_call *call) {
  return by_dtype(call->in[0].desc.dtype, [&](auto t) { return resize_launch<decltype(t)>(call, false); });
}

static hr_status resize_bwd_run(const hr_call *call) {
  return by_dtype(call->in[0].desc.dtype, [&](auto t) { return resize_launch<decltype(t)>(call, true); });
}

#define EVERY_TYPE(kernel) (const void *)kernel<float>, (const void *)kernel<bf16>, (const void *)kernel<f16>

extern "C" const hr_cuda_launcher hr_cuda_resize = {{resize_prepare, nullptr, resize_run},
                                                    {EVERY_TYPE(resize_tables_kernel), EVERY_TYPE(resize_kernel)}};

extern "C" const hr_cuda_launcher hr_cuda_resize_bwd = {
    {resize_bwd_prepare, nullptr, resize_bwd_run}, {EVERY_TYPE(resize_tables_kernel), EVERY_TYPE(resize_bwd_kernel)}};
