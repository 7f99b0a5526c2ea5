/* attention and attention_bwd on CUDA: which kernels take a call.
 *
 *   library   cuDNN, for 16-bit types without lengths, documents or dropout and the shapes it accepts
 *   mma       16-bit types with a head size that is a multiple of 8, up to 128 (op/attention_mma.cuh)
 *   fma       everything else with a head size up to 256 (op/attention_fma.cuh)
 *
 * HEADROOM_ATTENTION=own in the environment leaves the library out, to compare the two. All of them sum in an order
 * that follows from the shape; mma rounds a row at the same places as the rows of its warp, so that its last bits may
 * depend on these.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "dev/cuda/cudnn.h"
#include "op/attention_fma.cuh"
#include "op/attention_mma.cuh"
extern "C" {
#include "op/attention.h"
}

enum { MMA_DIM_MOST = 128, FMA_DIM_MOST = 256, LEAST_ROWS = 16 /* of a block, in any kernel */ };

/* A kernel of our own and what it is launched with. */
struct own_kernel {
  const void *function;
  size_t shared; /* bytes */
  int rows;      /* queries or keys that one block has */
  int threads;
};

struct attention_prepared {
  void (*free)(void *);
  void *plan;           /* the library's; NULL: kernels of our own */
  own_kernel kernel[2]; /* forward; or dkdv and dq */
};

template <typename T, int DIM, typename S, bool DROPS = false> static own_kernel mma_kernel_of(int which) {
  using shape = mma_shape<DIM>;
  if (which == 0)
    return {(const void *)attention_mma_forward<T, DIM, S, DROPS>, mma_forward_bytes<DIM>,
            16 * MMA_WARPS * shape::FORWARD_M, MMA_THREADS};
  if (which == 1)
    return {(const void *)attention_mma_dkdv<T, DIM, S, DROPS>, mma_dkdv_bytes<DIM>, 16 * MMA_WARPS * shape::DKDV_M,
            MMA_THREADS};
  return {(const void *)attention_mma_dq<T, DIM, S, DROPS>, mma_dq_bytes<DIM>, 16 * MMA_WARPS * shape::DQ_M,
          MMA_THREADS};
}
/* What a call hides from its queries, and whether it drops. */
struct hiding {
  enum { LATER /* keys, and nothing else */, DOCUMENTS, MORE } what;
  bool drops;
};

static hiding hiding_of(const attention_sizes &size) {
  bool drops = size.drop.limit > 0;
  if (size.starts) return {hiding::DOCUMENTS, drops};
  bool later = size.ahead == 0 && size.behind >= size.length && !size.lengths;
  return {later ? hiding::LATER : hiding::MORE, drops};
}

template <typename T, int DIM> static own_kernel mma_kernel(int which, hiding hides) {
  if (hides.what == hiding::DOCUMENTS)
    return hides.drops ? mma_kernel_of<T, DIM, document_sight, true>(which)
                       : mma_kernel_of<T, DIM, document_sight>(which);
  if (hides.drops) return mma_kernel_of<T, DIM, sight, true>(which);
  return hides.what == hiding::LATER ? mma_kernel_of<T, DIM, causal_sight>(which) : mma_kernel_of<T, DIM, sight>(which);
}

template <typename T, int DIM, typename S> static own_kernel fma_kernel_of(int which) {
  using shape = fma_shape<DIM>;
  if (which == 0) return {(const void *)attention_fma_forward<T, DIM, S>, shape::FORWARD_BYTES, shape::N, FMA_THREADS};
  if (which == 1) return {(const void *)attention_fma_dkdv<T, DIM, S>, shape::BACKWARD_BYTES, shape::N, FMA_THREADS};
  return {(const void *)attention_fma_dq<T, DIM, S>, shape::BACKWARD_BYTES, shape::N, FMA_THREADS};
}
template <typename T, int DIM> static own_kernel fma_kernel(int which, hiding hides) {
  return hides.what == hiding::DOCUMENTS ? fma_kernel_of<T, DIM, document_sight>(which)
                                         : fma_kernel_of<T, DIM, sight>(which);
}

/* `which`: 0 forward, 1 dkdv, 2 dq. */
template <typename T> static own_kernel choose(bool mma, hiding hides, int64_t dim, int which) {
  if constexpr (sizeof(T) == 2) {
    if (mma && dim <= 32) return mma_kernel<T, 32>(which, hides);
    if (mma && dim <= 64) return mma_kernel<T, 64>(which, hides);
    if (mma) return mma_kernel<T, 128>(which, hides);
  }
  if (dim <= 64) return fma_kernel<T, 64>(which, hides);
  return dim <= 128 ? fma_kernel<T, 128>(which, hides) : fma_kernel<T, 256>(which, hides);
}

static const hr_attention_args *args_of(const hr_call *call) {
  return (const hr_attention_args *)call->args;
}

/* q, k and v, or their gradients, of operands[0..3): heads of operands[0] alone where it is packed. */
template <typename T>
static head_rows<T> rows_of(const hr_call *call, const hr_tensor *operands, bool packed, int which) {
  const hr_attention_args *args = args_of(call);
  const hr_tensor &tensor = operands[packed ? 0 : which];
  int64_t before = !packed || which == 0 ? 0 : which == 1 ? args->heads : args->heads + args->kv_heads;
  return {(T *)tensor.data + before * args->head_dim, tensor.desc.dim[2]};
}

/* The operand before the last, or NULL: lengths, or starts of documents. */
static const int *bounds_of(const hr_call *call) {
  return (const int *)call->in[call->n_in - 2].data;
}

static attention_sizes sizes_of(const hr_call *call) {
  const hr_attention_args *args = args_of(call);
  const hr_desc &rows = call->in[0].desc;
  attention_sizes size = {};
  size.batch = (int)rows.dim[0];
  size.length = (int)rows.dim[1];
  size.heads = (int)args->heads;
  size.kv_heads = (int)args->kv_heads;
  size.head_dim = (int)args->head_dim;
  size.scale = args->scale;
  size.ahead = args->bidirectional ? FAR_AWAY : 0;
  size.behind = args->window > 0 && args->window < FAR_AWAY ? (int)args->window : FAR_AWAY;
  (args->documents ? size.starts : size.lengths) = bounds_of(call);
  uint32_t limit = hr__drop_limit(args->dropout);
  size.drop = {(const hr_control *)call->in[call->n_in - 1].data,
               call->stream_key,
               args->use,
               args->first,
               limit,
               hr__drop_scale(limit)};
  return size;
}

/* Matrix instructions take rows in pieces of 16 bytes. A scale above 0 lets forward compare products, not scores. */
static bool mma_takes(const hr_call *call) {
  const hr_attention_args *args = args_of(call);
  bool takes = call->in[0].desc.dtype != HR_F32 && args->head_dim % 8 == 0 && args->head_dim <= MMA_DIM_MOST &&
               args->scale > 0.0f;
  for (int i = 0; i < call->n_in - 2; i++)
    takes = takes && aligned(call->in[i].data, 16);
  for (int j = 0; j < call->n_out; j++)
    takes = takes && (desc_count(call->out[j].desc) == 0 || aligned(call->out[j].data, 16));
  return takes;
}

static bool library_takes(const hr_call *call, bool backward, void **plan) {
  const hr_attention_args *args = args_of(call);
  const char *choice = getenv("HEADROOM_ATTENTION");
  if (call->in[0].desc.dtype == HR_F32 || bounds_of(call) || args->dropout > 0.0f ||
      (choice && strcmp(choice, "own") == 0))
    return false;
  const hr_tensor *operands = call->in + (backward ? 1 : 0);
  bool packed = operands[1].data == nullptr;
  hr_cudnn_attention shape = {};
  shape.batch = call->in[0].desc.dim[0];
  shape.length = call->in[0].desc.dim[1];
  shape.heads = args->heads;
  shape.kv_heads = args->kv_heads;
  shape.head_dim = args->head_dim;
  shape.window = args->window < shape.length ? args->window : 0;
  shape.bidirectional = args->bidirectional;
  shape.scale = args->scale;
  shape.dtype = call->in[0].desc.dtype;
  shape.q_stride = rows_of<char>(call, operands, packed, 0).stride;
  shape.k_stride = rows_of<char>(call, operands, packed, 1).stride;
  shape.v_stride = rows_of<char>(call, operands, packed, 2).stride;
  shape.y_stride = args->heads * args->head_dim;
  shape.backward = backward;
  return hr__cudnn_attention_prepare(call, &shape, plan);
}

static hr_status sizes_check(const hr_call *call, bool backward, hr_error *err) {
  const hr_attention_args *args = args_of(call);
  const hr_cuda_host &host = device_state(call)->host;
  int64_t batch = call->in[0].desc.dim[0], length = call->in[0].desc.dim[1];
  if (args->head_dim > FMA_DIM_MOST)
    return host.fail(err, HR_UNSUPPORTED, NULL, "train on the CPU", "attention on CUDA has heads of up to %d, not %lld",
                     FMA_DIM_MOST, (long long)args->head_dim);
  int64_t heads = batch * args->heads;
  if (heads > INT_MAX || length > FAR_AWAY || heads > INT_MAX / (length / LEAST_ROWS + 1))
    return host.fail(err, HR_UNSUPPORTED, NULL, "use a smaller batch",
                     "%lld heads of length %lld are too many for one launch", (long long)heads, (long long)length);
  if (backward && call->workspace_bytes < (size_t)(heads * length) * sizeof(query_facts))
    return host.fail(err, HR_FAILURE, NULL, NULL, "workspace of %zu bytes is too small", call->workspace_bytes);
  return HR_OK;
}

static void attention_release(void *prepared) {
  attention_prepared *p = (attention_prepared *)prepared;
  if (!p) return;
  if (p->plan) hr__cudnn_attention_release(p->plan);
  p->free(p);
}

/* The kernels of our own for a call, allowed as much shared memory as they take. */
static cudaError_t own_prepare(const hr_call *call, bool backward, attention_prepared *p) {
  int64_t dim = args_of(call)->head_dim;
  attention_sizes size = sizes_of(call);
  bool mma = mma_takes(call);
  cudaError_t error = cudaSuccess;
  for (int i = 0; i < (backward ? 2 : 1); i++) {
    by_dtype(call->in[0].desc.dtype, [&](auto t) {
      p->kernel[i] = choose<decltype(t)>(mma, hiding_of(size), dim, backward ? 1 + i : 0);
      return HR_OK;
    });
    if (error == cudaSuccess)
      error = cudaFuncSetAttribute(p->kernel[i].function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)p->kernel[i].shared);
  }
  return error;
}

static hr_status any_prepare(const hr_call *call, bool backward, void **prepared, hr_error *err) {
  const hr_cuda_host &host = device_state(call)->host;
  attention_prepared *p = (attention_prepared *)host.alloc(sizeof *p);
  if (!p) return host.fail(err, HR_NOMEM, NULL, NULL, "no memory for the kernels of attention");
  memset(p, 0, sizeof *p);
  p->free = host.free;
  hr_status status = HR_OK;
  if (!library_takes(call, backward, &p->plan)) {
    p->plan = nullptr;
    status = sizes_check(call, backward, err);
    cudaError_t error = status == HR_OK ? own_prepare(call, backward, p) : cudaSuccess;
    if (error != cudaSuccess)
      status = host.fail(err, HR_FAILURE, NULL, NULL, "attention: %s", cudaGetErrorString(error));
  }
  if (status != HR_OK) {
    attention_release(p);
    return status;
  }
  *prepared = p;
  return HR_OK;
}

static hr_status attention_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return any_prepare(call, false, prepared, err);
}
static hr_status attention_bwd_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return any_prepare(call, true, prepared, err);
}

/* One block for every `rows` positions of every one of `heads` heads of a batch. */
template <typename Operands>
static hr_status own_launch(const hr_call *call, const own_kernel &kernel, int heads, const Operands &operands) {
  const attention_sizes &size = operands.size;
  unsigned blocks = (unsigned)(size.batch * heads) * (unsigned)((size.length + kernel.rows - 1) / kernel.rows);
  launch((void (*)(Operands))kernel.function, blocks, (unsigned)kernel.threads, kernel.shared, call_stream(call),
         operands);
  return launched();
}

template <typename T> static hr_status forward_run(const hr_call *call, const attention_prepared *p) {
  bool packed = call->in[1].data == nullptr;
  forward_operands<T> o = {sizes_of(call),
                           rows_of<const T>(call, call->in, packed, 0),
                           rows_of<const T>(call, call->in, packed, 1),
                           rows_of<const T>(call, call->in, packed, 2),
                           {(T *)call->out[0].data, call->out[0].desc.dim[2]},
                           (float *)call->out[1].data};
  if (p->plan) return hr__cudnn_attention_forward(call, p->plan, o.q.data, o.k.data, o.v.data, o.y.data, o.lse);
  return own_launch(call, p->kernel[0], o.size.heads, o);
}

/* dy, q, k?, v?, y, lse, bounds?, control? -> dq, dk, dv */
template <typename T> static hr_status backward_run(const hr_call *call, const attention_prepared *p) {
  bool packed = call->in[2].data == nullptr;
  const T *dy = (const T *)call->in[0].data, *y = (const T *)call->in[4].data;
  const float *lse = (const float *)call->in[5].data;
  query_facts *facts = (query_facts *)call->workspace;
  backward_operands<T> o = {sizes_of(call),
                            rows_of<const T>(call, call->in + 1, packed, 0),
                            rows_of<const T>(call, call->in + 1, packed, 1),
                            rows_of<const T>(call, call->in + 1, packed, 2),
                            {dy, call->in[0].desc.dim[2]},
                            rows_of<T>(call, call->out, packed, 0),
                            rows_of<T>(call, call->out, packed, 1),
                            rows_of<T>(call, call->out, packed, 2),
                            facts};
  if (p->plan)
    return hr__cudnn_attention_backward(call, p->plan, o.q.data, o.k.data, o.v.data, y, lse, dy, o.dq.data, o.dk.data,
                                        o.dv.data);
  int64_t rows = (int64_t)o.size.batch * o.size.length * o.size.heads;
  bool pieces = aligned(y, 16) && aligned(dy, 16) && (size_t)o.size.head_dim * sizeof(T) % 16 == 0;
  int power = facts_lanes(o.size.head_dim, sizeof(T));
  launch(attention_facts<T>, (unsigned)divide_up(rows << power, FACTS_THREADS), FACTS_THREADS, 0, call_stream(call),
         o.size, y, dy, lse, facts, power, pieces);
  hr_status status = own_launch(call, p->kernel[0], o.size.kv_heads, o);
  return status == HR_OK ? own_launch(call, p->kernel[1], o.size.heads, o) : status;
}

static hr_status attention_run(const hr_call *call) {
  const attention_prepared *p = (const attention_prepared *)call->prepared;
  return by_dtype(call->in[0].desc.dtype, [&](auto t) { return forward_run<decltype(t)>(call, p); });
}
static hr_status attention_bwd_run(const hr_call *call) {
  const attention_prepared *p = (const attention_prepared *)call->prepared;
  return by_dtype(call->in[0].desc.dtype, [&](auto t) { return backward_run<decltype(t)>(call, p); });
}

#define MMA_FUNCTIONS_OF(kernel, S, drops)                                                                             \
  (const void *)kernel<bf16, 32, S, drops>, (const void *)kernel<bf16, 64, S, drops>,                                  \
      (const void *)kernel<bf16, 128, S, drops>, (const void *)kernel<f16, 32, S, drops>,                              \
      (const void *)kernel<f16, 64, S, drops>, (const void *)kernel<f16, 128, S, drops>
#define MMA_FUNCTIONS(kernel)                                                                                          \
  MMA_FUNCTIONS_OF(kernel, sight, false), MMA_FUNCTIONS_OF(kernel, causal_sight, false),                               \
      MMA_FUNCTIONS_OF(kernel, document_sight, false), MMA_FUNCTIONS_OF(kernel, sight, true),                          \
      MMA_FUNCTIONS_OF(kernel, document_sight, true)
#define FMA_FUNCTIONS_OF(kernel, S)                                                                                    \
  (const void *)kernel<float, 64, S>, (const void *)kernel<float, 128, S>, (const void *)kernel<float, 256, S>,        \
      (const void *)kernel<bf16, 64, S>, (const void *)kernel<bf16, 128, S>, (const void *)kernel<bf16, 256, S>,       \
      (const void *)kernel<f16, 64, S>, (const void *)kernel<f16, 128, S>, (const void *)kernel<f16, 256, S>
#define FMA_FUNCTIONS(kernel) FMA_FUNCTIONS_OF(kernel, sight), FMA_FUNCTIONS_OF(kernel, document_sight)

extern "C" const hr_cuda_launcher hr_cuda_attention = {
    {attention_prepare, attention_release, attention_run},
    {MMA_FUNCTIONS(attention_mma_forward), FMA_FUNCTIONS(attention_fma_forward)}};
extern "C" const hr_cuda_launcher hr_cuda_attention_bwd = {
    {attention_bwd_prepare, attention_release, attention_bwd_run},
    {(const void *)attention_facts<float>, (const void *)attention_facts<bf16>, (const void *)attention_facts<f16>,
     MMA_FUNCTIONS(attention_mma_dkdv), MMA_FUNCTIONS(attention_mma_dq), FMA_FUNCTIONS(attention_fma_dkdv),
     FMA_FUNCTIONS(attention_fma_dq)}};
