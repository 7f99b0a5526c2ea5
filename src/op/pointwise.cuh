/* Programs on CUDA: made ready on the host, then interpreted by every thread for a few neighbouring elements.
 *
 * The program is a parameter of the kernel: all threads take the same branches. A step's result stays in registers for
 * the next one; only values that are read later, or are results, go to the thread's own array. Operands are read again
 * wherever a step names them: the second time from the cache.
 */
#ifndef HR_OP_POINTWISE_CUH
#define HR_OP_POINTWISE_CUH

#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/pointwise_walk.h"
}

enum {
  PROGRAM_THREADS = 256,
  PROGRAM_BLOCKS = 8192,
  KEPT = 16,          /* values of a thread's array */
  SOURCE_BEFORE = 64, /* the step before */
  SOURCE_KEPT = 65,   /* + number in the array */
  NOT_KEPT = 255
};

struct program_step {
  uint8_t code; /* formula x HR_PARTS + part */
  int8_t round;
  uint8_t from[3]; /* an operand, SOURCE_BEFORE, SOURCE_KEPT + k; the first stands for those that are not read */
  uint8_t kept;    /* where the result is kept for later, or NOT_KEPT */
  float p, q;
};

struct program_operand {
  const void *data;
  hr_dtype dtype;
  int axes;
  bool plain, windowed;
  int64_t size[HR_RANK], stride[HR_RANK], first[HR_RANK], limit[HR_RANK];
};

struct program {
  int n_in, n_steps;
  uint8_t result[HR_PROGRAM_RESULTS]; /* source */
  program_operand in[HR_PROGRAM_INPUTS];
  program_step step[HR_PROGRAM_STEPS];
};

/* ---- host ---- */

/* Where values are found by the step after `s` on. Every value that is not only read by the next step is kept. */
static bool program_lower(const hr_pointwise_args *args, program *to) {
  int last[HR_PROGRAM_INPUTS + HR_PROGRAM_STEPS], place[HR_PROGRAM_INPUTS + HR_PROGRAM_STEPS], holder[KEPT];
  int n_in = args->n_in, n_steps = args->n_steps;
  for (int v = 0; v < n_in + n_steps; v++) {
    last[v] = -1;
    place[v] = NOT_KEPT;
  }
  for (int k = 0; k < KEPT; k++)
    holder[k] = -1;
  for (int s = 0; s < n_steps; s++)
    for (int i = 0; i < 3; i++)
      if (hr__step_reads(&args->step[s], i)) last[args->step[s].from[i]] = s;
  for (int j = 0; j < args->n_out; j++)
    if (args->n_out > 1 || args->result[j].from != n_in + n_steps - 1) last[args->result[j].from] = n_steps + 1;
  for (int s = 0; s < n_steps; s++) {
    const hr_step *step = &args->step[s];
    program_step *out = &to->step[s];
    int value = n_in + s;
    out->code = (uint8_t)(step->formula * HR_PARTS + step->part);
    out->round = step->round;
    out->p = step->p;
    out->q = step->q;
    out->kept = NOT_KEPT;
    for (int i = 0; i < 3; i++) {
      int from = step->from[i];
      bool reads = hr__step_reads(step, i);
      out->from[i] = (uint8_t)(!reads              ? out->from[0]
                               : from < n_in       ? from
                               : from == value - 1 ? (int)SOURCE_BEFORE
                                                   : SOURCE_KEPT + place[from]);
    }
    if (last[value] <= s + 1) continue;
    int k = 0;
    while (k < KEPT && holder[k] >= 0 && last[holder[k]] > s)
      k++;
    if (k == KEPT) return false;
    holder[k] = value;
    place[value] = k;
    out->kept = (uint8_t)k;
  }
  for (int j = 0; j < args->n_out; j++) {
    int from = args->result[j].from;
    to->result[j] = (uint8_t)(from < n_in               ? from
                              : place[from] != NOT_KEPT ? SOURCE_KEPT + place[from]
                                                        : (int)SOURCE_BEFORE);
  }
  return true;
}

static hr_status program_make(const hr_call *call, const hr_pointwise_args *args, const hr_desc &space,
                              const int *order, program *to) {
  memset(to, 0, sizeof *to);
  to->n_in = args->n_in;
  to->n_steps = args->n_steps;
  for (int i = 0; i < args->n_in; i++) {
    hr_reading r;
    hr__reading_make(args, i, &call->in[i], &space, order, &r);
    program_operand *x = &to->in[i];
    x->data = call->in[i].data;
    x->dtype = call->in[i].desc.dtype;
    x->axes = r.axes;
    x->plain = r.plain;
    x->windowed = r.windowed;
    memcpy(x->size, r.size, sizeof r.size);
    memcpy(x->stride, r.stride, sizeof r.stride);
    memcpy(x->first, r.first, sizeof r.first);
    memcpy(x->limit, r.limit, sizeof r.limit);
  }
  return program_lower(args, to) ? HR_OK : HR_UNSUPPORTED;
}

/* ---- device ---- */

__device__ inline float typed_read(const void *data, hr_dtype dtype, int64_t at) {
  if (dtype == HR_BF16) return to_float(((const bf16 *)data)[at]);
  if (dtype == HR_F16) return to_float(((const f16 *)data)[at]);
  return ((const float *)data)[at];
}

template <int N> __device__ inline void typed_pack(const void *data, hr_dtype dtype, int64_t at, float *to) {
  if (dtype == HR_BF16)
    pack_read<N>((const bf16 *)data + at, to);
  else if (dtype == HR_F16)
    pack_read<N>((const f16 *)data + at, to);
  else
    pack_read<N>((const float *)data + at, to);
}

/* Element `at` of the walked space, for any way to read. */
__device__ inline float operand_element(const program_operand &x, int64_t at) {
  int64_t from = 0;
  bool inside = true;
  for (int d = x.axes - 1; d >= 0; d--) {
    int64_t own = at % x.size[d] + x.first[d];
    at /= x.size[d];
    inside = inside && own >= 0 && own < x.limit[d];
    from += own * x.stride[d];
  }
  return inside ? typed_read(x.data, x.dtype, from) : 0.0f;
}

/* N neighbours. With N > 1 the innermost axis of every operand is a multiple of N, and addresses allow packs. */
template <int N> __device__ inline void operand_read(const program_operand &x, int64_t at, float *to) {
  if (N == 1) {
    to[0] = x.plain ? typed_read(x.data, x.dtype, at) : operand_element(x, at);
    return;
  }
  if (x.plain) {
    typed_pack<N>(x.data, x.dtype, at, to);
    return;
  }
  int inner = x.axes - 1;
  if (x.windowed) {
#pragma unroll
    for (int e = 0; e < N; e++)
      to[e] = operand_element(x, at + e);
    return;
  }
  int64_t from = 0, left = at;
  for (int d = inner; d >= 0; d--) {
    int64_t size = x.size[d], index = (uint64_t)left >> 32 ? left % size : (int64_t)((uint32_t)left % (uint32_t)size);
    left = (uint64_t)left >> 32 ? left / size : (int64_t)((uint32_t)left / (uint32_t)size);
    from += index * x.stride[d];
  }
  int64_t stride = x.stride[inner];
  if (stride == 1) {
    typed_pack<N>(x.data, x.dtype, from, to);
  } else {
#pragma unroll
    for (int e = 0; e < N; e++)
      to[e] = typed_read(x.data, x.dtype, from + e * stride);
  }
}

template <int N>
__device__ inline void step_run(const program_step &step, const float *x, const float *y, const float *z, float *to) {
  float p = step.p, q = step.q;
  switch (step.code) {
#define HR_CASE(name, part, expression)                                                                                \
  case HR_FORMULA_##name *HR_PARTS + part:                                                                             \
    _Pragma("unroll") for (int e = 0; e < N; e++) to[e] = expression;                                                  \
    break;
#define HR_CASES_1(name, flops, reads, value, slope)                                                                   \
  HR_CASE(name, HR_PART_VALUE, hr__value_##name(x[e], 0.0f, p, q))                                                     \
  HR_CASE(name, HR_PART_SLOPE_A, hr__slope_a_##name(x[e], y[e], 0.0f, p, q))
#define HR_CASES_2(name, flops, reads, value, slope_a, slope_b)                                                        \
  HR_CASE(name, HR_PART_VALUE, hr__value_##name(x[e], y[e], p, q))                                                     \
  HR_CASE(name, HR_PART_SLOPE_A, hr__slope_a_##name(x[e], y[e], z[e], p, q))                                           \
  HR_CASE(name, HR_PART_SLOPE_B, hr__slope_b_##name(x[e], y[e], z[e], p, q))
    HR_FORMULAS_1(HR_CASES_1)
    HR_FORMULAS_2(HR_CASES_2)
#undef HR_CASE
#undef HR_CASES_1
#undef HR_CASES_2
  default:
    break;
  }
#pragma unroll
  for (int e = 0; e < N; e++) {
    if (step.round == HR_BF16) to[e] = to_float(from_float<bf16>(to[e]));
    if (step.round == HR_F16) to[e] = to_float(from_float<f16>(to[e]));
  }
}

template <int N>
__device__ inline void source_read(const program &p, int source, int64_t at, const float *before, float (*kept)[N],
                                   float *to) {
  if (source < SOURCE_BEFORE) {
    operand_read<N>(p.in[source], at, to);
    return;
  }
#pragma unroll
  for (int e = 0; e < N; e++)
    to[e] = source == SOURCE_BEFORE ? before[e] : kept[source - SOURCE_KEPT][e];
}

/* All steps for elements [at, at + N); the last one's result is in `before`. */
template <int N> __device__ inline void program_run(const program &p, int64_t at, float *before, float (*kept)[N]) {
  for (int s = 0; s < p.n_steps; s++) {
    const program_step &step = p.step[s];
    float x[N], y[N], z[N], result[N];
    source_read<N>(p, step.from[0], at, before, kept, x);
    if (step.from[1] != step.from[0]) {
      source_read<N>(p, step.from[1], at, before, kept, y);
    } else {
#pragma unroll
      for (int e = 0; e < N; e++)
        y[e] = x[e];
    }
    if (step.from[2] != step.from[0]) {
      source_read<N>(p, step.from[2], at, before, kept, z);
    } else {
#pragma unroll
      for (int e = 0; e < N; e++)
        z[e] = x[e];
    }
    step_run<N>(step, x, y, z, result);
#pragma unroll
    for (int e = 0; e < N; e++) {
      before[e] = result[e];
      if (step.kept != NOT_KEPT) kept[step.kept][e] = result[e];
    }
  }
}

#endif
