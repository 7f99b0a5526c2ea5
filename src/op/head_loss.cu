/* head_loss on CUDA: per chunk of rows the logits by cuBLASLt, one kernel that takes them to losses and to their own
 * gradient, dx and dW by cuBLASLt, and db as a sum of columns. op/head_loss_cuda.h says where things lie.
 *
 * Logits stay f32, as on the CPU: a 16-bit logit of size 16 is off by up to 1/16, which a probability shows at once.
 * Their gradient is rounded to the type of x, which the products need.
 */
#include "dev/cuda/columns.cuh"
#include "dev/cuda/cublaslt.h"
#include "dev/cuda/sum.cuh"
#include "op/head_loss_softmax.cuh"
extern "C" {
#include "op/head_loss.h"
#include "op/head_loss_cuda.h"
}

struct weighted {
  const hr_control *control;
  __device__ float operator()(double sum) const { return (float)(sum * (double)control->loss_weight); }
};

/* One call. Operands: x, W, targets, control, bias?; backward: x, W, targets, control, dloss, dx_partial?, dw_partial?,
 * bias?, db_partial?. */
struct head_call {
  hr_head_cuda layout;
  hr_dtype dtype, dw_dtype;
  bool backward, want_dx, want_dw, want_db;
};

static head_call head_of(const hr_call *call) {
  head_call h = {};
  const hr_desc &x = call->in[0].desc, &w = call->in[1].desc;
  int64_t wanted;
  h.dtype = h.dw_dtype = x.dtype;
  h.backward = call->n_out > 1;
  if (h.backward) {
    const hr_head_loss_bwd_args *args = (const hr_head_loss_bwd_args *)call->args;
    wanted = args->chunk_rows;
    h.want_dx = args->want_dx;
    h.want_dw = args->want_dw;
    h.want_db = args->want_db;
    h.dw_dtype = args->dw_dtype;
  } else {
    wanted = ((const hr_head_loss_args *)call->args)->chunk_rows;
  }
  h.layout = hr__head_cuda_of(desc_rows(x), w.dim[1], w.dim[0], wanted, x.dtype, h.want_dx, h.want_dw, h.dw_dtype);
  return h;
}

/* A product of a chunk. */
struct head_product {
  hr_lt_shape shape;
  hr_lt_operands at;
};

static size_t element_bytes(hr_dtype dtype) {
  return dtype == HR_F32 ? 4 : 2;
}

static int64_t chunk_size(const head_call *h, int64_t chunk) {
  int64_t left = h->layout.rows - chunk * h->layout.chunk_rows;
  return left < h->layout.chunk_rows ? left : h->layout.chunk_rows;
}

/* Rows of a chunk in a tensor like x. */
static char *chunk_rows(const head_call *h, const hr_tensor *tensor, int64_t chunk) {
  return (char *)tensor->data + (size_t)(chunk * h->layout.chunk_rows * h->layout.width) * element_bytes(h->dtype);
}

/* logits [C, V] = x Wt */
static head_product logits_of(const hr_call *call, const head_call *h, int64_t chunk) {
  head_product p = {};
  p.shape.m = chunk_size(h, chunk);
  p.shape.n = h->layout.vocabulary;
  p.shape.k = p.shape.lda = p.shape.ldb = h->layout.width;
  p.shape.ldd = h->layout.ld;
  p.shape.transpose_b = true;
  p.shape.in = h->dtype;
  p.shape.out = HR_F32;
  p.at = {chunk_rows(h, &call->in[0], chunk), call->in[1].data, nullptr, nullptr, call->workspace};
  return p;
}

/* Elements between rows of the logits' gradient. */
static int64_t gradient_ld(const head_call *h) {
  return h->layout.ld * 4 / (int64_t)element_bytes(h->dtype);
}

/* dx [C, H] = dlogits W (+ partial) */
static head_product dx_of(const hr_call *call, const head_call *h, int64_t chunk) {
  head_product p = {};
  p.shape.m = chunk_size(h, chunk);
  p.shape.n = p.shape.ldb = p.shape.ldd = h->layout.width;
  p.shape.k = h->layout.vocabulary;
  p.shape.lda = gradient_ld(h);
  p.shape.in = p.shape.out = h->dtype;
  p.shape.add = call->in[HR_HEAD_BWD_DX_PARTIAL].data != nullptr;
  p.at = {call->workspace, call->in[1].data,
          p.shape.add ? chunk_rows(h, &call->in[HR_HEAD_BWD_DX_PARTIAL], chunk) : nullptr, nullptr,
          chunk_rows(h, &call->out[1], chunk)};
  return p;
}

/* dW [V, H] = dlogitst x (+ partial, or what the chunks before gave) */
static head_product dw_of(const hr_call *call, const head_call *h, int64_t chunk) {
  head_product p = {};
  p.shape.m = h->layout.vocabulary;
  p.shape.n = p.shape.ldb = p.shape.ldd = h->layout.width;
  p.shape.k = chunk_size(h, chunk);
  p.shape.lda = gradient_ld(h);
  p.shape.transpose_a = true;
  p.shape.in = h->dtype;
  p.shape.out = h->dw_dtype;
  const void *before = chunk > 0 ? call->out[2].data : call->in[HR_HEAD_BWD_DW_PARTIAL].data;
  p.shape.add = before != nullptr;
  p.at = {call->workspace, chunk_rows(h, &call->in[0], chunk), before, nullptr, call->out[2].data};
  return p;
}

/* The products of one chunk; those that are not wanted are NULL. */
struct head_step {
  const hr_lt_product *logits, *dx, *dw;
};

struct head_plan {
  void (*free)(void *);
  head_step *steps; /* behind this struct, one for each chunk */
};

static void head_release(void *prepared) {
  head_plan *plan = (head_plan *)prepared;
  if (plan) plan->free(plan);
}

static void *head_scratch(const hr_call *call, const head_call *h) {
  return (char *)call->workspace + h->layout.scratch;
}

static hr_status product_prepare(const hr_call *call, const head_call *h, const head_product &p,
                                 const hr_lt_product **product, hr_error *err) {
  return hr__lt_prepare(call, &p.shape, &p.at, head_scratch(call, h), call->workspace_bytes - h->layout.scratch,
                        product, err);
}

static hr_status step_prepare(const hr_call *call, const head_call *h, int64_t chunk, head_step *step, hr_error *err) {
  hr_status status = product_prepare(call, h, logits_of(call, h, chunk), &step->logits, err);
  if (status == HR_OK && h->want_dx) status = product_prepare(call, h, dx_of(call, h, chunk), &step->dx, err);
  if (status == HR_OK && h->want_dw) status = product_prepare(call, h, dw_of(call, h, chunk), &step->dw, err);
  return status;
}

static hr_status head_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_cuda_state *state = device_state(call);
  head_call h = head_of(call);
  if (call->workspace_bytes < h.layout.bytes)
    return state->host.fail(err, HR_FAILURE, NULL, NULL, "%zu bytes of workspace were planned, %zu are needed",
                            call->workspace_bytes, h.layout.bytes);
  size_t steps = (size_t)h.layout.chunks * sizeof(head_step);
  head_plan *plan = (head_plan *)state->host.alloc(sizeof *plan + steps);
  if (!plan) return state->host.fail(err, HR_NOMEM, NULL, NULL, "out of memory");
  plan->free = state->host.free;
  plan->steps = (head_step *)(plan + 1);
  hr_status status = HR_OK;
  for (int64_t chunk = 0; chunk < h.layout.chunks && status == HR_OK; chunk++) {
    plan->steps[chunk] = head_step();
    status = step_prepare(call, &h, chunk, &plan->steps[chunk], err);
  }
  if (status != HR_OK) {
    head_release(plan);
    return status;
  }
  *prepared = plan;
  return HR_OK;
}

static hr_status softmax_run(const hr_call *call, const head_call *h, int64_t chunk, double *losses) {
  int64_t first = chunk * h->layout.chunk_rows;
  unsigned rows = (unsigned)chunk_size(h, chunk);
  float *logits = (float *)call->workspace;
  const int32_t *targets = (const int32_t *)call->in[2].data + first;
  const hr_control *control = (const hr_control *)call->in[3].data;
  cudaStream_t stream = call_stream(call);
  int64_t ld = h->layout.ld, columns = h->layout.vocabulary;
  const hr_tensor &added = call->in[h->backward ? HR_HEAD_BWD_BIAS : HR_HEAD_BIAS];
  head_bias bias = {added.data, added.desc.dtype};
  if (!h->backward) {
    launch(softmax_kernel<float, false>, rows, HEAD_THREADS, 0, stream, logits, ld, columns, bias, targets, nullptr,
           control, losses + first);
    return launched();
  }
  const float *dloss = (const float *)call->in[HR_HEAD_BWD_DLOSS].data;
  return by_dtype(h->dtype, [&](auto g) {
    launch(softmax_kernel<decltype(g), true>, rows, HEAD_THREADS, 0, stream, logits, ld, columns, bias, targets, dloss,
           control, losses + first);
    return launched();
  });
}

/* db [V] = the sum over a chunk's rows of dlogits (+ partial, or what the chunks before gave) */
static hr_status db_run(const hr_call *call, const head_call *h, int64_t chunk) {
  columns_shape s = {};
  s.rows = chunk_size(h, chunk);
  s.columns = h->layout.vocabulary;
  s.groups = s.used = 1;
  s.row = gradient_ld(h);
  const void *before = chunk > 0 ? call->out[3].data : call->in[HR_HEAD_BWD_DB_PARTIAL].data;
  return by_dtype(h->dtype, [&](auto g) {
    return by_dtype(call->out[3].desc.dtype, [&](auto p) {
      using G = decltype(g);
      using P = decltype(p);
      return columns_run<G, P>(call, (const G *)call->workspace, (const P *)before, (P *)call->out[3].data, s);
    });
  });
}

static hr_status head_run(const hr_call *call) {
  const head_plan *plan = (const head_plan *)call->prepared;
  head_call h = head_of(call);
  void *scratch = head_scratch(call, &h);
  double *losses = (double *)((char *)call->workspace + h.layout.losses);
  for (int64_t chunk = 0; chunk < h.layout.chunks; chunk++) {
    const head_step &step = plan->steps[chunk];
    hr_lt_operands at = logits_of(call, &h, chunk).at;
    hr_status status = hr__lt_run(call, step.logits, &at, scratch);
    if (status == HR_OK) status = softmax_run(call, &h, chunk, losses);
    if (status == HR_OK && step.dx) {
      at = dx_of(call, &h, chunk).at;
      status = hr__lt_run(call, step.dx, &at, scratch);
    }
    if (status == HR_OK && step.dw) {
      at = dw_of(call, &h, chunk).at;
      status = hr__lt_run(call, step.dw, &at, scratch);
    }
    if (status == HR_OK && h.want_db) status = db_run(call, &h, chunk);
    if (status != HR_OK) return status;
  }
  launch(sum_finish_kernel<weighted>, 1, SUM_THREADS, 0, call_stream(call), losses, h.layout.rows,
         (float *)call->out[0].data, weighted{(const hr_control *)call->in[3].data});
  return launched();
}

extern "C" const hr_cuda_launcher hr_cuda_head_loss = {
    {head_prepare, head_release, head_run},
    {(const void *)softmax_kernel<float, false>, (const void *)sum_finish_kernel<weighted>}};
extern "C" const hr_cuda_launcher hr_cuda_head_loss_bwd = {
    {head_prepare, head_release, head_run},
    {(const void *)softmax_kernel<float, true>, (const void *)softmax_kernel<bf16, true>,
     (const void *)softmax_kernel<f16, true>, (const void *)sum_finish_kernel<weighted>, COLUMNS_FUNCTIONS}};
