/* Attention through cuDNN's graph interface, described with NVIDIA's headers cudnn_frontend (fetched by tools/setup).
 *
 * Where they were missing at build time, nothing is available. libcudnn itself is opened at the first use.
 */
#include "dev/cuda/cudnn.h"

#if HR_CUDNN

#include <cstring> /* cudnn_frontend.h needs it and does not say so */

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <climits>
#include <initializer_list>
#include <memory>
#include <unordered_map>
#include <vector>

namespace fe = cudnn_frontend;

/* Before this version the headers copy small tables from the host in every run, out of memory that a recording would
 * outlive. */
enum { OLDEST_VERSION = 91600 };

/* What the headers call of the library: (result, name, parameters, arguments). */
#define LIBRARY_FUNCTIONS(X)                                                                                           \
  X(size_t, cudnnGetVersion, (void), ())                                                                               \
  X(const char *, cudnnGetErrorString, (cudnnStatus_t status), (status))                                               \
  X(void, cudnnGetLastErrorString, (char *message, size_t size), (message, size))                                      \
  X(cudnnStatus_t, cudnnCreate, (cudnnHandle_t * handle), (handle))                                                    \
  X(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t handle), (handle))                                                     \
  X(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t handle, cudaStream_t stream), (handle, stream))                      \
  X(cudnnStatus_t, cudnnGetStream, (cudnnHandle_t handle, cudaStream_t * stream), (handle, stream))                    \
  X(cudnnStatus_t, cudnnBackendCreateDescriptor,                                                                       \
    (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t * descriptor), (type, descriptor))                    \
  X(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor), (descriptor))                 \
  X(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor), (descriptor))                          \
  X(cudnnStatus_t, cudnnBackendSetAttribute,                                                                           \
    (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,          \
     int64_t count, const void *elements),                                                                             \
    (descriptor, name, type, count, elements))                                                                         \
  X(cudnnStatus_t, cudnnBackendGetAttribute,                                                                           \
    (cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,    \
     int64_t room, int64_t *count, void *elements),                                                                    \
    (descriptor, name, type, room, count, elements))                                                                   \
  X(cudnnStatus_t, cudnnBackendExecute,                                                                                \
    (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t operands),                          \
    (handle, plan, operands))

static struct {
#define LIBRARY_MEMBER(result, name, parameters, arguments) result(*name) parameters;
  LIBRARY_FUNCTIONS(LIBRARY_MEMBER)
#undef LIBRARY_MEMBER
} library;

/* The linker finds these in place of the library's own. */
#define LIBRARY_CALL(result, name, parameters, arguments)                                                              \
  extern "C" result name parameters {                                                                                  \
    return library.name arguments;                                                                                     \
  }
LIBRARY_FUNCTIONS(LIBRARY_CALL)
#undef LIBRARY_CALL

static bool library_open(void) {
  void *file = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (!file) return false;
#define LIBRARY_FIND(result, name, parameters, arguments)                                                              \
  library.name = (result(*) parameters)dlsym(file, #name);                                                             \
  if (!library.name) return false;
  LIBRARY_FUNCTIONS(LIBRARY_FIND)
#undef LIBRARY_FIND
  return library.cudnnGetVersion() >= OLDEST_VERSION;
}

/* Names of the operands in a graph. */
enum operand : int64_t { Q = 1, K, V, Y, LSE, DY, DQ, DK, DV };
typedef std::unordered_map<int64_t, void *> operand_map;

struct attention_plan {
  hr_cudnn_attention shape;
  size_t room; /* bytes of workspace that it was chosen for */
  bool usable;
  fe::graph::Graph graph;
};

/* hr_cuda_state.attention: made at the first use. */
struct attention_state {
  cudnnHandle_t handle; /* NULL: no library */
  std::vector<std::unique_ptr<attention_plan>> plans;
};

static attention_state *attention_of(const hr_call *call) {
  hr_cuda_state *state = device_state(call);
  if (!state->attention) {
    std::unique_ptr<attention_state> attention(new attention_state());
    if (library_open() && cudnnCreate(&attention->handle) == CUDNN_STATUS_SUCCESS &&
        cudnnSetStream(attention->handle, state->stream) != CUDNN_STATUS_SUCCESS) {
      cudnnDestroy(attention->handle);
      attention->handle = nullptr;
    }
    state->attention = attention.release();
  }
  return (attention_state *)state->attention;
}

void hr__cudnn_destroy(hr_cuda_state *state) {
  attention_state *attention = (attention_state *)state->attention;
  if (!attention) return;
  attention->plans.clear();
  if (attention->handle) cudnnDestroy(attention->handle);
  delete attention;
  state->attention = nullptr;
}

static bool same_shape(const hr_cudnn_attention &a, const hr_cudnn_attention &b) {
  return a.batch == b.batch && a.length == b.length && a.heads == b.heads && a.kv_heads == b.kv_heads &&
         a.head_dim == b.head_dim && a.window == b.window && a.bidirectional == b.bidirectional &&
         a.scale == b.scale && a.dtype == b.dtype && a.q_stride == b.q_stride && a.k_stride == b.k_stride &&
         a.v_stride == b.v_stride && a.y_stride == b.y_stride && a.backward == b.backward;
}

/* What is asked of the library at all. The headers put [batch, heads, length] floats at the start of the workspace and
 * hand on the rest, which should stay aligned. */
static bool shape_fits(const hr_cudnn_attention &s) {
  bool strides = s.q_stride % 8 == 0 && s.k_stride % 8 == 0 && s.v_stride % 8 == 0 && s.y_stride % 8 == 0;
  return (s.dtype == HR_BF16 || s.dtype == HR_F16) && s.batch > 0 && s.length > 0 && s.kv_heads > 0 &&
         s.heads % s.kv_heads == 0 && s.head_dim > 0 && s.head_dim % 8 == 0 && s.head_dim <= 128 && strides &&
         s.window <= INT_MAX && (!s.backward || s.batch * s.heads * s.length % 32 == 0);
}

/* The library's order is [batch, heads, length, head_dim], with any strides. */
static fe::graph::Tensor_attributes rows_of(const hr_cudnn_attention &s, operand name, int64_t heads, int64_t stride) {
  return fe::graph::Tensor_attributes()
      .set_uid(name)
      .set_dim({s.batch, heads, s.length, s.head_dim})
      .set_stride({s.length * stride, s.head_dim, stride, 1});
}

static fe::graph::Tensor_attributes lse_of(const hr_cudnn_attention &s) {
  return fe::graph::Tensor_attributes()
      .set_uid(LSE)
      .set_dim({s.batch, s.heads, s.length, 1})
      .set_stride({s.heads * s.length, s.length, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

static void output_as(const std::shared_ptr<fe::graph::Tensor_attributes> &output,
                      const fe::graph::Tensor_attributes &like) {
  output->set_output(true).set_uid(like.get_uid()).set_dim(like.get_dim()).set_stride(like.get_stride());
  if (like.get_data_type() != fe::DataType_t::NOT_SET) output->set_data_type(like.get_data_type());
}

/* What a query sees. A left bound of n keeps the keys j > i - n. */
template <typename Attributes> static void mask_describe(Attributes &attributes, const hr_cudnn_attention &s) {
  attributes.set_attn_scale(s.scale).set_causal_mask(!s.bidirectional);
  if (s.window > 0) attributes.set_diagonal_band_left_bound((int)s.window);
}

static void graph_describe(fe::graph::Graph &graph, const hr_cudnn_attention &s) {
  graph.set_io_data_type(s.dtype == HR_BF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  auto q = graph.tensor(rows_of(s, Q, s.heads, s.q_stride));
  auto k = graph.tensor(rows_of(s, K, s.kv_heads, s.k_stride));
  auto v = graph.tensor(rows_of(s, V, s.kv_heads, s.v_stride));
  if (!s.backward) {
    auto attributes = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
    mask_describe(attributes, s);
    auto results = graph.sdpa(q, k, v, attributes);
    output_as(results[0], rows_of(s, Y, s.heads, s.y_stride));
    output_as(results[1], lse_of(s));
    return;
  }
  auto y = graph.tensor(rows_of(s, Y, s.heads, s.y_stride));
  auto dy = graph.tensor(rows_of(s, DY, s.heads, s.y_stride));
  auto lse = graph.tensor(lse_of(s));
  auto attributes = fe::graph::SDPA_backward_attributes().set_name("attention_bwd").set_deterministic_algorithm(true);
  mask_describe(attributes, s);
  auto results = graph.sdpa_backward(q, k, v, y, dy, lse, attributes);
  output_as(results[0], rows_of(s, DQ, s.heads, s.q_stride));
  output_as(results[1], rows_of(s, DK, s.kv_heads, s.k_stride));
  output_as(results[2], rows_of(s, DV, s.kv_heads, s.v_stride));
}

/* The first plan of the library's list that it supports and that fits into `room`. */
static bool plan_build(attention_plan *plan, cudnnHandle_t handle) {
  fe::graph::Graph &graph = plan->graph;
  graph_describe(graph, plan->shape);
  if (graph.validate().is_bad() || graph.build_operation_graph(handle).is_bad() ||
      graph.create_execution_plans({fe::HeurMode_t::A}).is_bad())
    return false;
  graph.deselect_workspace_greater_than((int64_t)plan->room);
  if (graph.check_support().is_bad() || graph.build_plans().is_bad()) return false;
  int64_t bytes = 0;
  return graph.get_workspace_size(bytes).is_good() && bytes >= 0 && (size_t)bytes <= plan->room;
}

/* The operands of a call of op attention (q, k?, v? -> y, lse) or attention_bwd (dy, q, k?, v?, y, lse -> dq, dk?,
 * dv?), both without lengths; without k and v the columns of q, and of dq, are q | k | v. */
static operand_map operands_of(const hr_call *call, const hr_cudnn_attention &s) {
  size_t q_bytes = (size_t)(s.heads * s.head_dim) * 2, k_bytes = (size_t)(s.kv_heads * s.head_dim) * 2;
  const hr_tensor *q = &call->in[s.backward ? 1 : 0], *out = call->out;
  bool packed = !q[1].data;
  operand_map map;
  map[Q] = q[0].data;
  map[K] = packed ? (char *)q[0].data + q_bytes : q[1].data;
  map[V] = packed ? (char *)q[0].data + q_bytes + k_bytes : q[2].data;
  map[Y] = s.backward ? call->in[4].data : out[0].data;
  map[LSE] = s.backward ? call->in[5].data : out[1].data;
  if (!s.backward) return map;
  map[DY] = call->in[0].data;
  map[DQ] = out[0].data;
  map[DK] = packed ? (char *)out[0].data + q_bytes : out[1].data;
  map[DV] = packed ? (char *)out[0].data + q_bytes + k_bytes : out[2].data;
  return map;
}

static bool operands_aligned(const operand_map &map) {
  for (const auto &entry : map)
    if (!aligned(entry.second, 16)) return false;
  return true;
}

static hr_status plan_run(const hr_call *call, void *prepared,
                          std::initializer_list<operand_map::value_type> operands) {
  attention_plan *plan = (attention_plan *)prepared;
  try {
    operand_map map(operands);
    return plan->graph.execute(attention_of(call)->handle, map, call->workspace).is_good() ? HR_OK : HR_FAILURE;
  } catch (...) {
    return HR_FAILURE;
  }
}

hr_status hr__cudnn_attention_forward(const hr_call *call, void *prepared, const void *q, const void *k, const void *v,
                                      void *y, float *lse) {
  return plan_run(call, prepared, {{Q, (void *)q}, {K, (void *)k}, {V, (void *)v}, {Y, y}, {LSE, lse}});
}

hr_status hr__cudnn_attention_backward(const hr_call *call, void *prepared, const void *q, const void *k, const void *v,
                                       const void *y, const float *lse, const void *dy, void *dq, void *dk, void *dv) {
  return plan_run(call, prepared,
                  {{Q, (void *)q},
                   {K, (void *)k},
                   {V, (void *)v},
                   {Y, (void *)y},
                   {LSE, (void *)lse},
                   {DY, (void *)dy},
                   {DQ, dq},
                   {DK, dk},
                   {DV, dv}});
}

/* Runs a new plan, so that its code is loaded, and clears what it wrote: other calls are tried on zeros too. */
static bool plan_try(const hr_call *call, attention_plan *plan) {
  cudaStream_t stream = call_stream(call);
  operand_map m = operands_of(call, plan->shape);
  float *lse = (float *)m[LSE];
  hr_status status = plan->shape.backward ? hr__cudnn_attention_backward(call, plan, m[Q], m[K], m[V], m[Y], lse, m[DY],
                                                                         m[DQ], m[DK], m[DV])
                                          : hr__cudnn_attention_forward(call, plan, m[Q], m[K], m[V], m[Y], lse);
  cudaError_t error = cudaSuccess;
  for (int i = 0; i < call->n_out && error == cudaSuccess; i++) {
    const hr_desc &desc = call->out[i].desc;
    size_t bytes = (size_t)desc_count(desc) * (desc.dtype == HR_F32 ? sizeof(float) : 2);
    if (call->out[i].data) error = cudaMemsetAsync(call->out[i].data, 0, bytes, stream);
  }
  if (error == cudaSuccess && call->workspace_bytes > 0)
    error = cudaMemsetAsync(call->workspace, 0, call->workspace_bytes, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  return status == HR_OK && error == cudaSuccess;
}

static attention_plan *plan_find(const hr_call *call, const hr_cudnn_attention &shape) {
  attention_state *attention = attention_of(call);
  if (!attention->handle) return nullptr;
  for (const auto &plan : attention->plans)
    if (plan->room == call->workspace_bytes && same_shape(plan->shape, shape)) return plan.get();

  std::unique_ptr<attention_plan> plan(new attention_plan{shape, call->workspace_bytes, false, {}});
  attention->plans.push_back(std::move(plan)); /* also when refused: asking once is enough */
  attention_plan *made = attention->plans.back().get();
  made->usable = plan_build(made, attention->handle) && plan_try(call, made);
  return made;
}

bool hr__cudnn_attention_prepare(const hr_call *call, const hr_cudnn_attention *shape, void **prepared) {
  *prepared = nullptr;
  if (!shape_fits(*shape)) return false;
  try {
    if (!operands_aligned(operands_of(call, *shape))) return false;
    attention_plan *plan = plan_find(call, *shape);
    if (plan && plan->usable) *prepared = plan;
  } catch (...) {
  }
  if (!*prepared) cudaGetLastError(); /* a refusal is no error of ours */
  return *prepared != nullptr;
}

#else

bool hr__cudnn_attention_prepare(const hr_call *, const hr_cudnn_attention *, void **prepared) {
  *prepared = nullptr;
  return false;
}

hr_status hr__cudnn_attention_forward(const hr_call *, void *, const void *, const void *, const void *, void *,
                                      float *) {
  return HR_UNSUPPORTED;
}

hr_status hr__cudnn_attention_backward(const hr_call *, void *, const void *, const void *, const void *, const void *,
                                       const float *, const void *, void *, void *, void *) {
  return HR_UNSUPPORTED;
}

void hr__cudnn_destroy(hr_cuda_state *) {}

#endif

void hr__cudnn_attention_release(void *) {}
