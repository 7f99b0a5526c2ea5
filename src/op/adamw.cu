/* adamw on CUDA. op/adamw.h has the formula. */
#include "op/optimizer.cuh"
extern "C" {
#include "op/adamw.h"
extern const hr_cuda_launcher hr_cuda_adamw;
}

enum { PARAM, GRAD, M, V, CONTROL, NORM };

struct adamw_constants {
  float clip_norm;
  float rate1, keep2, rate2; /* 1 - beta1, beta2, 1 - beta2 */
  float eps;
};
typedef update_group<4, adamw_constants> adamw_group;

/* One tensor's factors in this step, the same for every element. */
struct adamw_step {
  uint64_t key, step;
  float gradient_scale;
  float decay;       /* 1 - lr * weight_decay */
  float size;        /* lr / bias_correction1 */
  float denominator; /* 1 / sqrt(bias_correction2) */
  bool skip;
};

__device__ inline adamw_step adamw_step_make(const adamw_group &group, int t) {
  const hr_control *control = group.control;
  float lr = __fmul_rn(control->learning_rate, group.tensor[t].lr_scale);
  adamw_step step;
  step.key = control->seed ^ group.tensor[t].stream_key;
  step.step = control->step;
  step.gradient_scale = update_scale(control, group.constants.clip_norm, group.norm);
  step.decay = update_decay(lr, group.tensor[t].weight_decay);
  step.size = lr / control->bias_correction1;
  step.denominator = 1.0f / sqrtf(control->bias_correction2);
  step.skip = control->skip != 0;
  return step;
}

/* P: parameter; G: gradient; S: both moments. Four blocks a multiprocessor keep 64 KiB of loads on their way. */
template <typename P, typename G, typename S>
static __global__ void __launch_bounds__(UPDATE_THREADS, 4) adamw_kernel(__grid_constant__ const adamw_group group) {
  __shared__ adamw_step shared_step;
  int t = group_find(group, (int32_t)blockIdx.x);
  const update_tensor<4> &tensor = group.tensor[t];
  P *param = (P *)tensor.at[PARAM];
  const G *grad = (const G *)tensor.at[GRAD];
  S *m = (S *)tensor.at[M], *v = (S *)tensor.at[V];
  bool packed = packs_aligned(param) && packs_aligned(grad) && packs_aligned(m) && packs_aligned(v);
  int64_t unit = (int64_t)((int32_t)blockIdx.x - group.begin[t]) * UPDATE_SPAN;
  int64_t at = unit + (int64_t)threadIdx.x * UPDATE_WIDTH;
  int n = update_left(tensor.count, at);

  span<P> old_p = span_load(param, at, n, packed, 0);
  span<G> old_g = span_load(grad, at, n, packed, 0);
  span<S> old_m = span_load(m, at, n, packed, 0), old_v = span_load(v, at, n, packed, 0);
  if (threadIdx.x == 0) shared_step = adamw_step_make(group, t);
  __syncthreads();
  const adamw_step step = shared_step;
  if (step.skip || n == 0) return;

  float new_p[UPDATE_WIDTH], new_m[UPDATE_WIDTH], new_v[UPDATE_WIDTH];
#pragma unroll
  for (int e = 0; e < UPDATE_WIDTH; e++) {
    float g = span_element(old_g, e) * step.gradient_scale, mean = span_element(old_m, e);
    mean += group.constants.rate1 * (g - mean);
    float square = group.constants.keep2 * span_element(old_v, e) + group.constants.rate2 * g * g;
    new_m[e] = mean;
    new_v[e] = square;
    new_p[e] = span_element(old_p, e) * step.decay -
               near_quotient(step.size * mean, near_root(square) * step.denominator + group.constants.eps);
  }
  update_random random = update_random_at(step.key, step.step, tensor.first, unit);
  update_store(param, at, n, packed, new_p, random, 0);
  update_store(m, at, n, packed, new_m, random, 1);
  update_store(v, at, n, packed, new_v, random, 2);
}

struct adamw_op {
  typedef adamw_group group;
  enum { FORMS = 12, SPAN = UPDATE_SPAN };
  static int form(const hr_call *call) { return update_form(call, M, 2); }
  static const void *function(int form) { return hr_cuda_adamw.functions[form]; }
  static int32_t blocks(int32_t units) { return units; }
  static void describe(const hr_call *call, group *group, update_tensor<4> *tensor) {
    const hr_adamw_args *args = (const hr_adamw_args *)call->args;
    group->control = (const hr_control *)call->in[CONTROL].data;
    group->norm = (const float *)call->in[NORM].data;
    group->constants = {args->clip_norm, 1.0f - args->beta1, args->beta2, 1.0f - args->beta2, args->eps};
    for (int i = PARAM; i <= V; i++)
      tensor->at[i] = call->in[i].data;
    tensor->stream_key = call->stream_key;
    tensor->first = args->first;
    tensor->weight_decay = args->weight_decay;
    tensor->lr_scale = args->lr_scale;
  }
};

static hr_status adamw_prepare(const hr_call *call, void **prepared, hr_error *err) {
  static const int ins[] = {PARAM, M, V};
  *prepared = nullptr;
  return update_in_place(call, ins, 3, err);
}

/* In the order of update_form. */
extern "C" const hr_cuda_launcher hr_cuda_adamw = {
    {adamw_prepare, nullptr, update_run<adamw_op>},
    {(const void *)adamw_kernel<float, float, float>, (const void *)adamw_kernel<float, float, bf16>,
     (const void *)adamw_kernel<float, bf16, float>, (const void *)adamw_kernel<float, bf16, bf16>,
     (const void *)adamw_kernel<float, f16, float>, (const void *)adamw_kernel<float, f16, bf16>,
     (const void *)adamw_kernel<bf16, float, float>, (const void *)adamw_kernel<bf16, float, bf16>,
     (const void *)adamw_kernel<bf16, bf16, float>, (const void *)adamw_kernel<bf16, bf16, bf16>,
     (const void *)adamw_kernel<bf16, f16, float>, (const void *)adamw_kernel<bf16, f16, bf16>},
    update_run_many<adamw_op>};
