/* sgd and sgd_momentum on CUDA. op/sgd.h has the formulas. */
#include "op/optimizer.cuh"
extern "C" {
#include "op/sgd.h"
extern const hr_cuda_launcher hr_cuda_sgd, hr_cuda_sgd_momentum;
}

enum { PARAM, GRAD, SUM };

struct sgd_constants {
  float clip_norm;
  float momentum;
  float of_sum, of_gradient; /* what p moves along: of_sum s + of_gradient g */
};
template <bool MOMENTUM> using sgd_group = update_group<MOMENTUM ? 3 : 2, sgd_constants>;

/* One tensor's factors in this step, the same for every element. */
struct sgd_step {
  uint64_t key, step;
  float gradient_scale, lr;
  bool skip;
};

/* P: parameter; G: gradient. */
template <typename P, typename G, bool MOMENTUM>
static __global__ void __launch_bounds__(UPDATE_THREADS, 4)
    sgd_kernel(__grid_constant__ const sgd_group<MOMENTUM> group) {
  __shared__ sgd_step shared_step;
  int t = group_find(group, (int32_t)blockIdx.x);
  const auto &tensor = group.tensor[t];
  P *param = (P *)tensor.at[PARAM];
  const G *grad = (const G *)tensor.at[GRAD];
  float *sum = nullptr;
  if constexpr (MOMENTUM) sum = (float *)tensor.at[SUM];
  bool packed = packs_aligned(param) && packs_aligned(grad) && packs_aligned(sum);
  int64_t unit = (int64_t)((int32_t)blockIdx.x - group.begin[t]) * UPDATE_SPAN;
  int64_t at = unit + (int64_t)threadIdx.x * UPDATE_WIDTH;
  int n = update_left(tensor.count, at);

  span<P> old_p = span_load(param, at, n, packed, 0);
  span<G> old_g = span_load(grad, at, n, packed, 0);
  span<float> old_sum = {};
  if constexpr (MOMENTUM) old_sum = span_load(sum, at, n, packed, 0);
  if (threadIdx.x == 0) {
    const hr_control *control = group.control;
    shared_step.key = control->seed ^ tensor.stream_key;
    shared_step.step = control->step;
    shared_step.gradient_scale = update_scale(control, group.constants.clip_norm, group.norm);
    shared_step.lr = __fmul_rn(control->learning_rate, tensor.lr_scale);
    shared_step.skip = control->skip != 0;
  }
  __syncthreads();
  const sgd_step step = shared_step;
  if (step.skip || n == 0) return;

  float new_p[UPDATE_WIDTH], new_sum[UPDATE_WIDTH];
#pragma unroll
  for (int e = 0; e < UPDATE_WIDTH; e++) {
    float p = span_element(old_p, e), along;
    float g = span_element(old_g, e) * step.gradient_scale + tensor.weight_decay * p;
    if constexpr (MOMENTUM) {
      new_sum[e] = group.constants.momentum * span_element(old_sum, e) + g;
      along = group.constants.of_gradient * g + group.constants.of_sum * new_sum[e];
    } else {
      along = g;
    }
    new_p[e] = p - step.lr * along;
  }
  update_random random = update_random_at(step.key, step.step, tensor.first, unit);
  update_store(param, at, n, packed, new_p, random, 0);
  if constexpr (MOMENTUM) update_store(sum, at, n, packed, new_sum, random, 1);
}

template <bool MOMENTUM> struct sgd_op {
  typedef sgd_group<MOMENTUM> group;
  enum { FORMS = 6, SPAN = UPDATE_SPAN };
  enum { CONTROL = MOMENTUM ? 3 : 2, NORM };
  static int form(const hr_call *call) { return update_form(call, 0, 1); }
  static const void *function(int form) { return (MOMENTUM ? hr_cuda_sgd_momentum : hr_cuda_sgd).functions[form]; }
  static int32_t blocks(int32_t units) { return units; }
  static void describe(const hr_call *call, group *group, update_tensor<MOMENTUM ? 3 : 2> *tensor) {
    const hr_sgd_args *args = (const hr_sgd_args *)call->args;
    group->control = (const hr_control *)call->in[CONTROL].data;
    group->norm = (const float *)call->in[NORM].data;
    group->constants = {args->clip_norm, args->momentum, args->nesterov ? args->momentum : 1.0f,
                        args->nesterov ? 1.0f : 0.0f};
    for (int i = PARAM; i < CONTROL; i++)
      tensor->at[i] = call->in[i].data;
    tensor->stream_key = call->stream_key;
    tensor->first = args->first;
    tensor->weight_decay = args->weight_decay;
    tensor->lr_scale = args->lr_scale;
  }
};

static hr_status sgd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  static const int ins[] = {PARAM, SUM};
  *prepared = nullptr;
  return update_in_place(call, ins, call->n_out, err);
}

/* Both in the order of update_form. */
extern "C" const hr_cuda_launcher hr_cuda_sgd = {
    {sgd_prepare, nullptr, update_run<sgd_op<false>>},
    {(const void *)sgd_kernel<float, float, false>, (const void *)sgd_kernel<float, bf16, false>,
     (const void *)sgd_kernel<float, f16, false>, (const void *)sgd_kernel<bf16, float, false>,
     (const void *)sgd_kernel<bf16, bf16, false>, (const void *)sgd_kernel<bf16, f16, false>},
    update_run_many<sgd_op<false>>};

extern "C" const hr_cuda_launcher hr_cuda_sgd_momentum = {
    {sgd_prepare, nullptr, update_run<sgd_op<true>>},
    {(const void *)sgd_kernel<float, float, true>, (const void *)sgd_kernel<float, bf16, true>,
     (const void *)sgd_kernel<float, f16, true>, (const void *)sgd_kernel<bf16, float, true>,
     (const void *)sgd_kernel<bf16, bf16, true>, (const void *)sgd_kernel<bf16, f16, true>},
    update_run_many<sgd_op<true>>};
