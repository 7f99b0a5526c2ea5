/* resize and its adjoint on CUDA: a block for each row of the result; tables of places come first. */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/resize.h"
}

enum {
  RESIZE_THREADS = 256,
  RESIZE_ROWS = 16,      /* of the result, that a block makes */
  RESIZE_ROWS_MOST = 16, /* of the input, that one of them is made of */
  RESIZE_NEAR = 4
};

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
    if (i < c.s.to[d]) c.between[d][i] = hr__resize_between_of(&c.s, d, i);
    if (c.reached[0] && i < c.s.from[d]) c.reached[d][i] = hr__resize_reached_of(&c.s, d, i);
  }
}

/* The rows of the input that one of the result is made of, with their shares; found by one thread for all of its block.
 */
struct resize_row {
  int64_t begin[RESIZE_ROWS_MOST]; /* elements of the input in front of it */
  float share[RESIZE_ROWS_MOST];
  int count;
};

template <typename T> __device__ inline void row_gathers(const resize_call<T> &c, int64_t row, resize_row *r) {
  int64_t plane = row / (c.s.to[0] * c.s.to[1]);
  hr_between up = c.between[0][row / c.s.to[1] % c.s.to[0]], along = c.between[1][row % c.s.to[1]];
  r->count = 0;
  for (int corner = 0; corner < 4; corner++) {
    int64_t i = min((int64_t)up.place + corner / 2, c.s.from[0] - 1);
    int64_t j = min((int64_t)along.place + corner % 2, c.s.from[1] - 1);
    float share = (corner / 2 ? up.part : 1.0f - up.part) * (corner % 2 ? along.part : 1.0f - along.part);
    if (share == 0.0f) continue;
    r->begin[r->count] = ((plane * c.s.from[0] + i) * c.s.from[1] + j) * c.s.from[2];
    r->share[r->count++] = share;
  }
}

/* A block takes RESIZE_ROWS rows of the result; a thread the same places of each. */
template <typename T> static __global__ void __launch_bounds__(RESIZE_THREADS) resize_kernel(resize_call<T> c) {
  __shared__ resize_row rows[RESIZE_ROWS];
  int64_t first = (int64_t)blockIdx.x * RESIZE_ROWS;
  int count = (int)min((int64_t)RESIZE_ROWS, c.rows - first);
  if ((int)threadIdx.x < count) row_gathers(c, first + threadIdx.x, &rows[threadIdx.x]);
  __syncthreads();
  for (int k = (int)threadIdx.x; k < (int)c.s.to[2]; k += (int)blockDim.x) {
    hr_between here = c.between[2][k];
    int next = min(here.place + 1, (int)c.s.from[2] - 1);
#pragma unroll 4
    for (int row = 0; row < count; row++) {
      float sum = 0.0f;
      for (int i = 0; i < rows[row].count; i++) {
        const T *x = c.in + rows[row].begin[i];
        sum += rows[row].share[i] * (to_float(x[here.place]) * (1.0f - here.part) + to_float(x[next]) * here.part);
      }
      c.out[(first + row) * c.s.to[2] + k] = from_float<T>(sum);
    }
  }
}

/* Rows of dy that have a share in one of dx; false: more than there is room for. */
template <typename T> __device__ inline bool row_reached(const resize_call<T> &c, int64_t row, resize_row *r) {
  int64_t plane = row / (c.s.from[0] * c.s.from[1]), p0 = row / c.s.from[1] % c.s.from[0], p1 = row % c.s.from[1];
  hr_reached over0 = c.reached[0][p0], over1 = c.reached[1][p1];
  r->count = 0;
  for (int64_t i = over0.first; i < over0.end; i++) {
    float up = hr__resize_share(c.between[0][i], p0);
    for (int64_t j = over1.first; up != 0.0f && j < over1.end; j++) {
      float share = up * hr__resize_share(c.between[1][j], p1);
      if (share == 0.0f) continue;
      if (r->count == RESIZE_ROWS_MOST) return false;
      r->begin[r->count] = ((plane * c.s.to[0] + i) * c.s.to[1] + j) * c.s.to[2];
      r->share[r->count++] = share;
    }
  }
  return true;
}

/* One element of dx, whatever it reaches: rows are looked for anew. */
template <typename T> __device__ inline float resize_far(const resize_call<T> &c, int64_t row, int p2) {
  int64_t plane = row / (c.s.from[0] * c.s.from[1]), p0 = row / c.s.from[1] % c.s.from[0], p1 = row % c.s.from[1];
  hr_reached over0 = c.reached[0][p0], over1 = c.reached[1][p1], over2 = c.reached[2][p2];
  float sum = 0.0f;
  for (int64_t i = over0.first; i < over0.end; i++) {
    float up = hr__resize_share(c.between[0][i], p0);
    for (int64_t j = over1.first; up != 0.0f && j < over1.end; j++) {
      float share = up * hr__resize_share(c.between[1][j], p1), line = 0.0f;
      if (share == 0.0f) continue;
      const T *dy = c.in + ((plane * c.s.to[0] + i) * c.s.to[1] + j) * c.s.to[2];
      for (int64_t k = over2.first; k < over2.end; k++)
        line += hr__resize_share(c.between[2][k], p2) * to_float(dy[k]);
      sum += share * line;
    }
  }
  return sum;
}

/* The same for dx: what a thread's places reach along the last axis is looked up once for all rows. */
template <typename T> static __global__ void __launch_bounds__(RESIZE_THREADS) resize_bwd_kernel(resize_call<T> c) {
  __shared__ resize_row rows[RESIZE_ROWS];
  __shared__ int few[RESIZE_ROWS];
  int64_t first = (int64_t)blockIdx.x * RESIZE_ROWS;
  int count = (int)min((int64_t)RESIZE_ROWS, c.rows - first);
  if ((int)threadIdx.x < count) few[threadIdx.x] = row_reached(c, first + threadIdx.x, &rows[threadIdx.x]);
  __syncthreads();
  for (int p2 = (int)threadIdx.x; p2 < (int)c.s.from[2]; p2 += (int)blockDim.x) {
    hr_reached over = c.reached[2][p2];
    while (over.first < over.end && hr__resize_share(c.between[2][over.first], p2) == 0.0f)
      over.first++;
    float near[RESIZE_NEAR];
#pragma unroll
    for (int k = 0; k < RESIZE_NEAR; k++)
      near[k] = over.first + k < over.end ? hr__resize_share(c.between[2][over.first + k], p2) : 0.0f;
#pragma unroll 4
    for (int row = 0; row < count; row++) {
      int64_t at = (first + row) * c.s.from[2] + p2;
      float sum = 0.0f;
      for (int i = 0; few[row] && i < rows[row].count; i++) {
        const T *dy = c.in + rows[row].begin[i] + over.first;
        float line = 0.0f;
#pragma unroll
        for (int k = 0; k < RESIZE_NEAR; k++)
          if (near[k] != 0.0f) line += near[k] * to_float(dy[k]);
        for (int k = RESIZE_NEAR; k < over.end - over.first; k++)
          line += hr__resize_share(c.between[2][over.first + k], p2) * to_float(dy[k]);
        sum += rows[row].share[i] * line;
      }
      if (!few[row]) sum = resize_far(c, first + row, p2);
      c.out[at] = from_float<T>((c.partial ? to_float(c.partial[at]) : 0.0f) + sum);
    }
  }
}

template <typename T> static hr_status resize_launch(const hr_call *call, bool backward) {
  const hr_desc *in = &call->in[0].desc, *out = &call->out[0].desc;
  resize_call<T> c = {};
  int64_t longest = 1;
  const hr_resize_args *args = (const hr_resize_args *)call->args;
  c.s = hr__resize_sizes(backward ? out : in, backward ? in : out, args);
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
  unsigned grid = (unsigned)divide_up(c.rows, RESIZE_ROWS);
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
  const hr_resize_args *args = (const hr_resize_args *)call->args;
  hr_resize_sizes s = hr__resize_sizes(backward ? out : in, backward ? in : out, args);
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
