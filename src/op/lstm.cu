/* lstm on CUDA: a launch for every step; what a step reads of the one before lies in the results themselves.
 *
 * Forward, a warp has one unit and the four rows of W that make its gates. Backward, it has a part of the gates for 32
 * units, whose columns of W it reads side by side; parts are added in order. Either takes a few samples at a time, so
 * that what is read of W serves them all.
 */
#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/lstm.h"
}

enum { WARP = 32, STEP_WARPS = 8, STEP_THREADS = WARP * STEP_WARPS, SAMPLES = 4, GATES = HR_LSTM_GATES };
/* Backward there is a block for 32 units only, and how long one takes is what all wait for: as many warps as it can
 * have. */
enum { BACK_WARPS = 32, BACK_THREADS = WARP * BACK_WARPS };

__device__ inline int64_t valid_positions(const int32_t *lengths, const hr_lstm_walk &w, int64_t sample) {
  if (!lengths) return w.length;
  int64_t n = lengths[sample];
  return n < 0 ? 0 : n < w.length ? n : w.length;
}

/* Row of a sample at a step, in [B, T]. */
__device__ inline int64_t row_of(const hr_lstm_walk &w, int64_t sample, int64_t valid, int64_t step) {
  return sample * w.length + (w.reverse && step < valid ? valid - 1 - step : step);
}

__device__ inline float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

/* One unit of one sample: gates, cell and h from the sums of its gates. `before`: its row at the step before; -1: none.
 */
template <typename T>
__device__ inline void unit_forward(const float *sum, const T *x, T *h, T *gates, float *cells, int64_t row,
                                    int64_t before, int64_t width, int64_t unit) {
  float gate[GATES];
#pragma unroll
  for (int g = 0; g < GATES; g++) {
    int64_t at = (row * GATES + g) * width + unit;
    float whole = to_float(x[at]) + sum[g];
    gate[g] = g == 2 ? tanhf(whole) : sigmoid(whole);
    gates[at] = from_float<T>(gate[g]);
  }
  float c = gate[0] * gate[2] + (before < 0 ? 0.0f : gate[1] * cells[before * width + unit]);
  cells[row * width + unit] = c;
  h[row * width + unit] = from_float<T>(gate[3] * tanhf(c));
}

template <typename T>
static __global__ void __launch_bounds__(STEP_THREADS)
    lstm_step(const T *x, const T *weight, const int32_t *lengths, T *h, T *gates, float *cells, hr_lstm_walk w,
              int64_t step) {
  int lane = (int)threadIdx.x % WARP;
  int64_t unit = (int64_t)blockIdx.x * STEP_WARPS + threadIdx.x / WARP, first = (int64_t)blockIdx.y * SAMPLES;
  if (unit >= w.width) return; /* a whole warp */
  int64_t row[SAMPLES], before[SAMPLES];
  float sum[SAMPLES][GATES] = {};
#pragma unroll
  for (int s = 0; s < SAMPLES; s++) {
    row[s] = before[s] = -1;
    if (first + s >= w.batch) continue;
    int64_t valid = valid_positions(lengths, w, first + s);
    if (step >= valid) { /* zeros behind the valid positions */
      int64_t at = row_of(w, first + s, valid, step);
      if (lane < GATES) gates[(at * GATES + lane) * w.width + unit] = from_float<T>(0.0f);
      if (lane == GATES) h[at * w.width + unit] = from_float<T>(0.0f);
      if (lane == GATES + 1) cells[at * w.width + unit] = 0.0f;
      continue;
    }
    row[s] = row_of(w, first + s, valid, step);
    if (step > 0) before[s] = row_of(w, first + s, valid, step - 1);
  }
  for (int64_t k = lane; k < w.width && step > 0; k += WARP) {
    float part[GATES];
#pragma unroll
    for (int g = 0; g < GATES; g++)
      part[g] = to_float(weight[(g * w.width + unit) * w.width + k]);
#pragma unroll
    for (int s = 0; s < SAMPLES; s++) {
      float from = before[s] < 0 ? 0.0f : to_float(h[before[s] * w.width + k]);
#pragma unroll
      for (int g = 0; g < GATES; g++)
        sum[s][g] += from * part[g];
    }
  }
#pragma unroll
  for (int s = 0; s < SAMPLES; s++) {
#pragma unroll
    for (int g = 0; g < GATES; g++)
      for (int apart = WARP / 2; apart > 0; apart /= 2)
        sum[s][g] += __shfl_xor_sync(~0u, sum[s][g], apart);
    if (lane == s && row[s] >= 0) unit_forward(sum[s], x, h, gates, cells, row[s], before[s], w.width, unit);
  }
}

/* One unit of one sample at a step: gradients of its gates. state: what of the cell's gradient goes on. */
template <typename T>
__device__ inline void unit_backward(float back, bool follows, const T *dh, const T *gates, const float *cells,
                                     float *state, T *dx, int64_t row, int64_t before, int64_t width, int64_t unit) {
  float gate[GATES], made[GATES];
#pragma unroll
  for (int g = 0; g < GATES; g++)
    gate[g] = to_float(gates[(row * GATES + g) * width + unit]);
  float t = tanhf(cells[row * width + unit]), dy = to_float(dh[row * width + unit]) + back;
  float dc = dy * gate[3] * (1.0f - t * t) + (follows ? *state : 0.0f);
  made[0] = dc * gate[2] * gate[0] * (1.0f - gate[0]);
  made[1] = before < 0 ? 0.0f : dc * cells[before * width + unit] * gate[1] * (1.0f - gate[1]);
  made[2] = dc * gate[0] * (1.0f - gate[2] * gate[2]);
  made[3] = dy * t * gate[3] * (1.0f - gate[3]);
  *state = dc * gate[1];
#pragma unroll
  for (int g = 0; g < GATES; g++)
    dx[(row * GATES + g) * width + unit] = from_float<T>(made[g]);
}

template <typename T>
static __global__ void __launch_bounds__(BACK_THREADS)
    lstm_bwd_step(const T *dh, const T *weight, const T *gates, const float *cells, const int32_t *lengths,
                  float *states, T *dx, hr_lstm_walk w, int64_t step) {
  __shared__ float parts[BACK_WARPS][SAMPLES][WARP];
  int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
  int64_t unit = (int64_t)blockIdx.x * WARP + lane, first = (int64_t)blockIdx.y * SAMPLES;
  float sum[SAMPLES] = {};
  int64_t behind[SAMPLES]; /* row of the step behind, whose gradients are there; -1: none */
#pragma unroll
  for (int s = 0; s < SAMPLES; s++) {
    behind[s] = -1;
    if (first + s >= w.batch) continue;
    int64_t valid = valid_positions(lengths, w, first + s);
    if (step + 1 < valid) behind[s] = row_of(w, first + s, valid, step + 1);
  }
#pragma unroll 4
  for (int64_t k = warp; k < GATES * w.width && unit < w.width; k += BACK_WARPS) {
    float part = to_float(weight[k * w.width + unit]);
#pragma unroll
    for (int s = 0; s < SAMPLES; s++)
      if (behind[s] >= 0) sum[s] += part * to_float(dx[behind[s] * GATES * w.width + k]);
  }
#pragma unroll
  for (int s = 0; s < SAMPLES; s++)
    parts[warp][s][lane] = sum[s];
  __syncthreads();
  int64_t sample = first + warp;
  if (warp >= SAMPLES || sample >= w.batch || unit >= w.width) return;
  float back = 0.0f;
#pragma unroll
  for (int p = 0; p < BACK_WARPS; p++)
    back += parts[p][warp][lane];
  int64_t valid = valid_positions(lengths, w, sample), row = row_of(w, sample, valid, step);
  if (step < valid) {
    int64_t before = step > 0 ? row_of(w, sample, valid, step - 1) : -1;
    unit_backward(back, step + 1 < valid, dh, gates, cells, states + sample * w.width + unit, dx, row, before, w.width,
                  unit);
  } else {
#pragma unroll
    for (int g = 0; g < GATES; g++)
      dx[(row * GATES + g) * w.width + unit] = from_float<T>(0.0f);
  }
}

static hr_status lstm_run(const hr_call *call) {
  hr_lstm_walk w = hr__lstm_walk(&call->out[0].desc, (const hr_lstm_args *)call->args);
  dim3 grid((unsigned)divide_up(w.width, STEP_WARPS), (unsigned)divide_up(w.batch, SAMPLES));
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    for (int64_t step = 0; step < w.length; step++)
      launch(lstm_step<T>, grid, STEP_THREADS, 0, call_stream(call), (const T *)call->in[0].data,
             (const T *)call->in[1].data, (const int32_t *)call->in[2].data, (T *)call->out[0].data,
             (T *)call->out[1].data, (float *)call->out[2].data, w, step);
    return launched();
  });
}

static hr_status lstm_bwd_run(const hr_call *call) {
  hr_lstm_walk w = hr__lstm_walk(&call->in[0].desc, (const hr_lstm_args *)call->args);
  dim3 grid((unsigned)divide_up(w.width, WARP), (unsigned)divide_up(w.batch, SAMPLES));
  return by_dtype(call->in[0].desc.dtype, [&](auto t) {
    using T = decltype(t);
    for (int64_t step = w.length - 1; step >= 0; step--)
      launch(lstm_bwd_step<T>, grid, BACK_THREADS, 0, call_stream(call), (const T *)call->in[0].data,
             (const T *)call->in[1].data, (const T *)call->in[2].data, (const float *)call->in[3].data,
             (const int32_t *)call->in[4].data, (float *)call->workspace, (T *)call->out[0].data, w, step);
    return launched();
  });
}

extern "C" const hr_cuda_launcher hr_cuda_lstm = {
    {nullptr, nullptr, lstm_run},
    {(const void *)lstm_step<float>, (const void *)lstm_step<bf16>, (const void *)lstm_step<f16>}};
extern "C" const hr_cuda_launcher hr_cuda_lstm_bwd = {
    {nullptr, nullptr, lstm_bwd_run},
    {(const void *)lstm_bwd_step<float>, (const void *)lstm_bwd_step<bf16>, (const void *)lstm_bwd_step<f16>}};
