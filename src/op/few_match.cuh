/* Which neighbours of a product of few rows one launch does together with it: in front a rmsnorm, behind it swiglu, or
 * rope and then cache_put.
 *
 * Alone, each op ends before the next one begins; together, blocks of one kernel read and write as they come. So they
 * go together only where no block writes what another one reads, by address: all of them read the rows of x. What two
 * of the ops write may overlap only where the earlier result is dead by then, as the plan has it: it is not stored.
 */
#ifndef HR_OP_FEW_MATCH_CUH
#define HR_OP_FEW_MATCH_CUH

#include "dev/cuda/neighbours.cuh"
#include "op/few.cuh"
extern "C" {
#include "op/few.h"
#include "op/rmsnorm.h"
#include "op/rope.h"
}

extern "C" const hr_cuda_launcher hr_cuda_rmsnorm, hr_cuda_linear, hr_cuda_swiglu, hr_cuda_rope, hr_cuda_cache_put;

enum { FEW_BIAS = 2, FEW_ADD = 3 }; /* operands of linear */

struct few_group {
  const hr_call *norm, *product, *swiglu, *rope, *put; /* NULL: not there, but for product */
  size_t count;                                        /* launches */
};

static bool is_few(const hr_call *call) {
  const hr_desc &x = call->in[0].desc, &w = call->in[1].desc;
  return desc_rows(x) <= FEW && w.dim[1] % WIDE == 0 && w.dim[0] < 1 << 30 && w.dim[1] < 1 << 30 &&
         x.dtype == w.dtype && x.dtype == call->out[0].desc.dtype && wide(call->in[0].data, call->in[1].data);
}

static bool norm_goes(const hr_call *norm, const hr_call *product) {
  const hr_desc &x = norm->in[0].desc, &w = norm->in[1].desc;
  int64_t k = product->in[1].desc.dim[1];
  size_t normed = (size_t)(desc_rows(x) * k) * (x.dtype == HR_F32 ? 4 : 2);
  return product->in[0].data == norm->out[0].data && x.dtype == product->in[0].desc.dtype && desc_columns(x) == k &&
         w.dim[0] == k && (w.dtype == x.dtype || w.dtype == HR_F32) && row_fits(k) && normed <= FEW_NORMED &&
         wide(norm->in[0].data, norm->in[1].data, norm->out[0].data);
}

static bool swiglu_goes(const hr_call *swiglu, const hr_call *product) {
  return swiglu->in[0].data == product->out[0].data && !swiglu->in[1].data &&
         swiglu->out[0].desc.dtype == product->out[0].desc.dtype &&
         2 * desc_columns(swiglu->out[0].desc) == product->in[1].desc.dim[0];
}

static bool rope_goes(const hr_call *rope, const hr_call *product) {
  const hr_rope_args *args = (const hr_rope_args *)rope->args;
  return rope->in[0].data == product->out[0].data && !args->inverse && rope->in[0].desc.dim[2] % args->head_dim == 0;
}

static bool put_goes(const hr_call *put, const hr_call *rope) {
  const hr_cache_args *args = (const hr_cache_args *)put->args;
  return put->in[HR_PUT_K].data == rope->out[0].data && !put->in[HR_PUT_V].data &&
         put->in[0].data == put->out[0].data && put->in[1].data == put->out[1].data &&
         args->head_dim == ((const hr_rope_args *)rope->args)->head_dim;
}

/* Rows of x, which all blocks read, and what few lanes read on the way. */
static bool reads_are_safe(const few_group &g) {
  const hr_call *behind[] = {g.product, g.swiglu, g.rope, g.put};
  for (const hr_call *call : behind) {
    if (writes(call, (g.norm ? g.norm : g.product)->in[0])) return false;
    if (g.rope && writes(call, g.rope->in[1])) return false;
    if (g.put && call != g.put && (writes(call, g.put->in[HR_PUT_POSITIONS]) || writes(call, g.put->in[HR_PUT_COUNTS])))
      return false;
    /* `add` is read where the result is written */
    const hr_tensor &add = g.product->in[FEW_ADD];
    if (add.data && call != g.product && writes(call, add)) return false;
  }
  for (int i = 1; g.norm && i < g.product->n_in; i++)
    if (writes(g.norm, g.product->in[i])) return false;
  return true;
}

/* The largest group that begins with launches[0]; 0 launches: none. */
static few_group group_of(const hr_launch *launches, size_t count) {
  few_group g = {};
  g.norm = call_of(launches, count, 0, &hr_cuda_rmsnorm);
  size_t at = g.norm ? 1 : 0;
  g.product = call_of(launches, count, at, &hr_cuda_linear);
  if (!g.product || !is_few(g.product) || (g.norm && !norm_goes(g.norm, g.product))) return {};
  at++;
  g.count = reads_are_safe(g) ? at : 0;
  few_group longer = g;
  longer.swiglu = call_of(launches, count, at, &hr_cuda_swiglu);
  longer.rope = call_of(launches, count, at, &hr_cuda_rope);
  if (longer.swiglu ? !swiglu_goes(longer.swiglu, g.product) : !longer.rope || !rope_goes(longer.rope, g.product))
    return g;
  if (!reads_are_safe(longer)) return g;
  g = longer;
  g.count = ++at;
  if (!g.rope) return g;
  longer = g;
  longer.put = call_of(launches, count, at, &hr_cuda_cache_put);
  if (!longer.put || !put_goes(longer.put, g.rope) || !reads_are_safe(longer)) return g;
  longer.count = at + 1;
  return longer;
}

/* A result as an address to write to; NULL where one behind it lies on it. */
template <typename T> static T *stored(const hr_tensor &result, const hr_call *next, const hr_call *last) {
  return writes(next, result) || writes(last, result) ? nullptr : (T *)result.data;
}

template <typename T> static few_product<T> few_of(const few_group &g) {
  const hr_call *call = g.product, *after = g.swiglu ? g.swiglu : g.rope;
  few_product<T> p = {};
  p.x = (const T *)call->in[0].data;
  p.w = (const T *)call->in[1].data;
  p.bias = (const T *)call->in[FEW_BIAS].data;
  p.add = (const T *)call->in[FEW_ADD].data;
  p.n = call->in[1].desc.dim[0];
  p.k = call->in[1].desc.dim[1];
  p.y = stored<T>(call->out[0], after, nullptr);
  if (g.norm) {
    p.x = (const T *)g.norm->in[0].data;
    p.norm = g.norm->in[1].data;
    p.norm_f32 = g.norm->in[1].desc.dtype == HR_F32;
    p.norm_args = *(const hr_rmsnorm_args *)g.norm->args;
    p.normed = writes(call, g.norm->out[0]) ? nullptr : stored<T>(g.norm->out[0], after, g.put);
    p.rstds = writes(call, g.norm->out[1]) ? nullptr : stored<float>(g.norm->out[1], after, g.put);
  }
  if (!after) return p;
  p.after = (T *)after->out[0].data;
  p.distance = p.n / 2;
  if (!g.rope) return p;
  const hr_rope_args *rope = (const hr_rope_args *)g.rope->args;
  p.distance = rope->head_dim / 2;
  p.angles = g.rope->in[1].desc.dim[1];
  p.cosines = (const float *)g.rope->in[1].data;
  p.sines = p.cosines + p.angles * p.distance;
  p.rotated_pairs = (rope->heads ? rope->heads : p.n / rope->head_dim) * p.distance;
  if (!g.put) return p;
  const hr_cache_args *cache = (const hr_cache_args *)g.put->args;
  p.keys = (T *)g.put->out[0].data;
  p.values = (T *)g.put->out[1].data;
  p.positions = (const int32_t *)g.put->in[HR_PUT_POSITIONS].data;
  p.counts = (const int32_t *)g.put->in[HR_PUT_COUNTS].data;
  p.first_key = cache->heads * cache->head_dim;
  p.width = cache->kv_heads * cache->head_dim;
  p.length = g.put->in[HR_PUT_K].desc.dim[1];
  p.context = g.put->out[0].desc.dim[1];
  return p;
}

/* Whether any of the launches writes it: weights that are fetched or unpacked. */
static bool written_by(const hr_launch *launches, size_t count, const hr_tensor &tensor) {
  for (size_t i = 0; i < count; i++) {
    const hr_launch &launch = launches[i];
    if (launch.kind == HR_LAUNCH_KERNEL && writes(&launch.call, tensor)) return true;
    if (launch.kind != HR_LAUNCH_COPY || !launch.copy.to_device) continue;
    const char *to = (const char *)launch.copy.to;
    if (overlap({to, to + launch.copy.bytes}, span_of(tensor))) return true;
  }
  return false;
}

#endif
