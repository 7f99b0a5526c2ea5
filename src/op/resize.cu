/* resize and its adjoint on CUDA: a block for each row of the result; tables of places come first. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/resize.h"
}

enum { RESIZE_THREADS = 256, RESIZE_NEAR = 4 };

template <typename T> struct resize_call {
  hr_resize_sizes s;
  const T *in, *partial; /* partial: NULL where there is none */
  T *out;
  hr_between *between[HR_RESIZE_AXES];
  hr_reached *reached[HR_RESIZE_AXES]; /* NULL: forward */
  int64_t rows;                        /* of the result's last axis */
};

template <typename T> static __global__ void __launch_bounds__(RESIZE_THREADS) resize_tables_kernel(resize_call<T> c) {
  int64_t i = blockIdx.x * (int64_t)RESIZE_THREADS + threadIdx.x;
#pragma unroll
  for (int d = 0; d < HR_RESIZE_AXES; d++) {
    if (i < c.s.to[d]) c.between[d][i] = hr__resize_between(i, c.s.from[d], c.s.to[d]);
    if (c.reached[0] && i < c.s.from[d]) c.reached[d][i] = hr__resize_reached(i, c.s.from[d], c.s.to[d]);
  }
}

/* A block goes along rows of the result's last axis. */
template <typename T> static __global__ void __launch_bounds__(RESIZE_THREADS) resize_kernel(resize_call<T> c) {
  for (int64_t row = blockIdx.x; row < c.rows; row += gridDim.x) {
    int64_t plane = row / (c.s.to[0] * c.s.to[1]);
    hr_between up = c.between[0][row / c.s.to[1] % c.s.to[0]], along = c.between[1][row % c.s.to[1]];
    const T *x[4];
    float share[4];
#pragma unroll
    for (int corner = 0; corner < 4; corner++) {
      int64_t i = min((int64_t)up.place + corner / 2, c.s.from[0] - 1);
      int64_t j = min((int64_t)along.place + corner % 2, c.s.from[1] - 1);
      x[corner] = c.in + ((plane * c.s.from[0] + i) * c.s.from[1] + j) * c.s.from[2];
      share[corner] = (corner / 2 ? up.part : 1.0f - up.part) * (corner % 2 ? along.part : 1.0f - along.part);
    }
    for (int k = (int)threadIdx.x; k < (int)c.s.to[2]; k += (int)blockDim.x) {
      hr_between here = c.between[2][k];
      int next = min(here.place + 1, (int)c.s.from[2] - 1);
      float sum = 0.0f;
#pragma unroll
      for (int corner = 0; corner < 4; corner++)
        if (share[corner] != 0.0f)
          sum += share[corner] *
                 (to_float(x[corner][here.place]) * (1.0f - here.part) + to_float(x[corner][next]) * here.part);
      c.out[row * c.s.to[2] + k] = from_float<T>(sum);
    }
  }
}

/* Elements of a row of dy that one of dx has a share in, of which the first few are looked up once for all rows. */
template <typename T> static __global__ void __launch_bounds__(RESIZE_THREADS) resize_bwd_kernel(resize_call<T> c) {
  for (int64_t row = blockIdx.x; row < c.rows; row += gridDim.x) {
    int64_t plane = row / (c.s.from[0] * c.s.from[1]), p0 = row / c.s.from[1] % c.s.from[0], p1 = row % c.s.from[1];
    hr_reached over0 = c.reached[0][p0], over1 = c.reached[1][p1];
    for (int p2 = (int)threadIdx.x; p2 < (int)c.s.from[2]; p2 += (int)blockDim.x) {
      hr_reached over2 = c.reached[2][p2];
      while (over2.first < over2.end && hr__resize_share(c.between[2][over2.first], p2) == 0.0f)
        over2.first++;
      float near[RESIZE_NEAR], sum = 0.0f;
#pragma unroll
      for (int k = 0; k < RESIZE_NEAR; k++)
        near[k] = over2.first + k < over2.end ? hr__resize_share(c.between[2][over2.first + k], p2) : 0.0f;
      for (int64_t i = over0.first; i < over0.end; i++) {
        float up = hr__resize_share(c.between[0][i], p0);
        if (up == 0.0f) continue;
        for (int64_t j = over1.first; j < over1.end; j++) {
          float share = up * hr__resize_share(c.between[1][j], p1), line = 0.0f;
          if (share == 0.0f) continue;
          const T *dy = c.in + ((plane * c.s.to[0] + i) * c.s.to[1] + j) * c.s.to[2] + over2.first;
#pragma unroll
          for (int k = 0; k < RESIZE_NEAR; k++)
            if (near[k] != 0.0f) line += near[k] * to_float(dy[k]);
          for (int k = RESIZE_NEAR; k < over2.end - over2.first; k++)
            line += hr__resize_share(c.between[2][over2.first + k], p2) * to_float(dy[k]);
          sum += share * line;
        }
      }
      int64_t at = row * c.s.from[2] + p2;
      c.out[at] = from_float<T>((c.partial ? to_float(c.partial[at]) : 0.0f) + sum);
    }
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
  hr_between *at = (hr_between *)call->workspace;
  for (int d = 0; d < HR_RESIZE_AXES; at += c.s.to[d++])
    c.between[d] = at;
  hr_reached *behind = (hr_reached *)at;
  for (int d = 0; d < HR_RESIZE_AXES; behind += c.s.from[d++]) {
    if (backward) c.reached[d] = behind;
    longest = c.s.to[d] > longest ? c.s.to[d] : longest;
    longest = c.s.from[d] > longest ? c.s.from[d] : longest;
  }
  const int64_t *size = backward ? c.s.from : c.s.to;
  c.rows = c.s.planes * size[0] * size[1];
  unsigned grid = (unsigned)(c.rows < INT32_MAX ? c.rows : INT32_MAX);
  unsigned threads = size[2] < RESIZE_THREADS ? (unsigned)(divide_up(size[2], 32) * 32) : (unsigned)RESIZE_THREADS;
  cudaStream_t stream = call_stream(call);
  launch(resize_tables_kernel<T>, (unsigned)divide_up(longest, RESIZE_THREADS), RESIZE_THREADS, 0, stream, c);
  if (backward)
    launch(resize_bwd_kernel<T>, grid, threads, 0, stream, c);
  else
    launch(resize_kernel<T>, grid, threads, 0, stream, c);
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
