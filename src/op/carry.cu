/* The scan and the convolution of programs that generate, on a GPU; see op/carry.h.
 *
 * Of the scan a block has LANES channels of one head of one sample, for whose states it goes along the positions with
 * all of them in registers: a thread has one channel and each DEPTH-th of its N numbers. Of the convolution a thread
 * has one column. Few positions come at a time, so that what takes time is to read what was carried and to write it.
 */
#include "op/ssd_operands.cuh"

extern "C" {
#include "op/carry.h"
}

enum { LANES = 32, DEPTH = 8, SCAN_THREADS = LANES * DEPTH, CONV_THREADS = 128, MOST = HR_CAUSAL_CONV_MOST };
enum { PARAMETERS = 3, STATE_MOST = 256 };

/* Out of plans what is carried may lie in two places. */
static hr_status carried_copy(const hr_call *call, int in, size_t element) {
  if (call->out[1].data == call->in[in].data) return HR_OK;
  size_t bytes = (size_t)desc_count(call->out[1].desc) * element;
  return cudaMemcpyAsync(call->out[1].data, call->in[in].data, bytes, cudaMemcpyDeviceToDevice, call_stream(call)) ==
                 cudaSuccess
             ? HR_OK
             : HR_FAILURE;
}

/* ---- conv_carry ---- */

template <typename T> struct conv_carry_operands {
  hr_causal_sizes size;
  const T *x;
  const void *w, *bias;
  int w_dtype, bias_dtype;
  const int32_t *positions, *counts;
  T *y, *tail;
};

template <typename T>
static __global__ void __launch_bounds__(CONV_THREADS) conv_carry_kernel(conv_carry_operands<T> o) {
  int64_t c = blockIdx.x * (int64_t)CONV_THREADS + threadIdx.x, sample = blockIdx.y;
  if (c >= o.size.channels) return;
  int k = (int)o.size.kernel;
  int64_t rows = hr__carry_rows(o.counts[sample], o.size.length);
  T *tail = o.tail + sample * (k - 1) * o.size.channels + c, *y = o.y + sample * o.size.length * o.size.channels + c;
  const T *x = o.x + sample * o.size.length * o.size.columns + o.size.first + c;
  float weight[MOST], line[MOST] = {}, bias = o.bias ? element_at(o.bias, o.bias_dtype, c) : 0.0f;
#pragma unroll
  for (int j = 0; j < MOST; j++) {
    weight[j] = j < k ? element_at(o.w, o.w_dtype, c * k + j) : 0.0f;
    if (j + 1 < k && o.positions[sample] != 0) line[j] = to_float(tail[j * o.size.channels]);
  }
  for (int64_t t = 0; t < rows; t++) { /* line: the k - 1 rows before this one, then this one */
    float newest = to_float(x[t * o.size.columns]), sum = bias;
#pragma unroll
    for (int j = 0; j < MOST; j++) {
      if (j + 1 == k) line[j] = newest;
      if (j < k) sum = fmaf(weight[j], line[j], sum);
    }
#pragma unroll
    for (int j = 0; j + 1 < MOST; j++)
      line[j] = line[j + 1];
    y[t * o.size.channels] = from_float<T>(sum / (1.0f + expf(-sum)));
  }
  for (int64_t t = rows; t < o.size.length; t++)
    y[t * o.size.channels] = from_float<T>(0.0f);
  if (rows == 0) return;
#pragma unroll
  for (int j = 0; j < MOST; j++)
    if (j + 1 < k) tail[j * o.size.channels] = from_float<T>(line[j]);
}

static hr_status conv_carry_run(const hr_call *call) {
  const hr_tensor *x = &call->in[HR_CONV_CARRY_X], *w = &call->in[HR_CONV_CARRY_W];
  const hr_tensor *bias = &call->in[HR_CONV_CARRY_BIAS];
  return by_dtype(x->desc.dtype, [&](auto t) {
    using T = decltype(t);
    conv_carry_operands<T> o = {};
    o.size = hr__causal_sizes(&x->desc, &w->desc, (const hr_causal_conv_args *)call->args);
    o.x = (const T *)x->data;
    o.w = w->data;
    o.bias = bias->data;
    o.w_dtype = (int)w->desc.dtype;
    o.bias_dtype = (int)bias->desc.dtype;
    o.positions = (const int32_t *)call->in[HR_CONV_CARRY_POSITIONS].data;
    o.counts = (const int32_t *)call->in[HR_CONV_CARRY_COUNTS].data;
    o.y = (T *)call->out[0].data;
    o.tail = (T *)call->out[1].data;
    if (carried_copy(call, HR_CONV_CARRY_TAIL, sizeof(T)) != HR_OK) return HR_FAILURE;
    dim3 grid((unsigned)divide_up(o.size.channels, CONV_THREADS), (unsigned)o.size.sequences);
    launch(conv_carry_kernel<T>, grid, CONV_THREADS, 0, call_stream(call), o);
    return launched();
  });
}

/* ---- ssd_carry ---- */

template <typename T> struct ssd_carry_operands {
  hr_ssd_sizes size;
  hr_ssd_args args;
  const T *mixed, *steps;
  const void *of_head[PARAMETERS]; /* A_log, bias, D */
  int dtype[PARAMETERS];
  const int32_t *positions, *counts;
  T *y;
  float *state;
};

template <typename T, int EACH>
static __global__ void __launch_bounds__(SCAN_THREADS) ssd_carry_kernel(ssd_carry_operands<T> o) {
  __shared__ float sums[DEPTH][LANES];
  const hr_ssd_sizes &s = o.size;
  int lane = (int)threadIdx.x % LANES, depth = (int)threadIdx.x / LANES;
  int64_t p = blockIdx.y * (int64_t)LANES + lane, sample = blockIdx.x / s.heads, head = blockIdx.x % s.heads;
  int64_t group = head / (s.heads / s.groups), rows = hr__carry_rows(o.counts[sample], s.length);
  bool there = p < s.dim, goes_on = o.positions[sample] != 0;
  float decay = -expf(element_at(o.of_head[0], o.dtype[0], head)), bias = element_at(o.of_head[1], o.dtype[1], head);
  float skip = element_at(o.of_head[2], o.dtype[2], head);
  float *state = o.state + blockIdx.x * s.state_floats + p, h[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    int64_t n = depth + i * DEPTH;
    h[i] = there && goes_on && n < s.state ? state[n * s.dim] : 0.0f;
  }
  for (int64_t t = 0; t < rows; t++) { /* the same for all threads: they meet */
    int64_t row = sample * s.length + t;
    const T *b = o.mixed + row * s.mixed + s.b_first + group * s.state, *c = b + s.groups * s.state;
    float x = there ? to_float(o.mixed[row * s.mixed + head * s.dim + p]) : 0.0f, sum = 0.0f;
    float d = step_of_raw(to_float(o.steps[row * s.steps + o.args.step_first + head]) + bias, o.args).size;
    float keep = expf(d * decay);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      int64_t n = depth + i * DEPTH;
      if (n >= s.state) break;
      h[i] = keep * h[i] + d * to_float(b[n]) * x;
      sum = fmaf(to_float(c[n]), h[i], sum);
    }
    sums[depth][lane] = sum;
    __syncthreads();
    if (depth == 0 && there) {
      float y = skip * x;
#pragma unroll
      for (int part = 0; part < DEPTH; part++)
        y += sums[part][lane];
      o.y[row * s.y + head * s.dim + p] = from_float<T>(y);
    }
    __syncthreads();
  }
  if (!there) return;
  for (int64_t t = rows + depth; t < s.length; t += DEPTH)
    o.y[(sample * s.length + t) * s.y + head * s.dim + p] = from_float<T>(0.0f);
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    int64_t n = depth + i * DEPTH;
    if (rows > 0 && n < s.state) state[n * s.dim] = h[i];
  }
}

static hr_status ssd_carry_prepare(const hr_call *call, void **prepared, hr_error *err) {
  const hr_ssd_args *args = (const hr_ssd_args *)call->args;
  *prepared = nullptr;
  if (args->state <= STATE_MOST) return HR_OK;
  return device_state(call)->host.fail(err, HR_UNSUPPORTED, NULL, "use memory.device: cpu",
                                       "states of %lld numbers are larger than the %d that a GPU generates with",
                                       (long long)args->state, STATE_MOST);
}

static hr_status ssd_carry_run(const hr_call *call) {
  const hr_tensor *in = call->in;
  return by_dtype(in[HR_SSD_MIXED].desc.dtype, [&](auto t) {
    using T = decltype(t);
    ssd_carry_operands<T> o = {};
    o.args = *(const hr_ssd_args *)call->args;
    o.size = hr__ssd_sizes(&in[HR_SSD_MIXED].desc, &in[HR_SSD_STEPS].desc, &o.args);
    o.mixed = (const T *)in[HR_SSD_MIXED].data;
    o.steps = (const T *)in[HR_SSD_STEPS].data;
    for (int i = 0; i < PARAMETERS; i++) {
      o.of_head[i] = in[HR_SSD_A_LOG + i].data;
      o.dtype[i] = (int)in[HR_SSD_A_LOG + i].desc.dtype;
    }
    o.positions = (const int32_t *)in[HR_SSD_CARRY_POSITIONS].data;
    o.counts = (const int32_t *)in[HR_SSD_CARRY_COUNTS].data;
    o.y = (T *)call->out[0].data;
    o.state = (float *)call->out[1].data;
    if (carried_copy(call, HR_SSD_CARRY_STATE, sizeof(float)) != HR_OK) return HR_FAILURE;
    auto kernel = o.size.state <= 8 * DEPTH    ? ssd_carry_kernel<T, 8>
                  : o.size.state <= 16 * DEPTH ? ssd_carry_kernel<T, 16>
                                               : ssd_carry_kernel<T, STATE_MOST / DEPTH>;
    dim3 grid((unsigned)(o.size.sequences * o.size.heads), (unsigned)divide_up(o.size.dim, LANES));
    launch(kernel, grid, SCAN_THREADS, 0, call_stream(call), o);
    return launched();
  });
}

#define SCAN(T)                                                                                                        \
  (const void *)ssd_carry_kernel<T, 8>, (const void *)ssd_carry_kernel<T, 16>,                                         \
      (const void *)ssd_carry_kernel<T, STATE_MOST / DEPTH>

extern "C" const hr_cuda_launcher hr_cuda_conv_carry = {{nullptr, nullptr, conv_carry_run},
                                                        {(const void *)conv_carry_kernel<float>,
                                                         (const void *)conv_carry_kernel<bf16>,
                                                         (const void *)conv_carry_kernel<f16>}};
extern "C" const hr_cuda_launcher hr_cuda_ssd_carry = {{ssd_carry_prepare, nullptr, ssd_carry_run},
                                                       {SCAN(float), SCAN(bf16), SCAN(f16)}};
