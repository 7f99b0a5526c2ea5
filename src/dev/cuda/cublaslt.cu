/* Products through cuBLASLt.
 *
 * The library thinks in columns: a row-major matrix is its transpose there, and D = op(A) op(B) becomes
 * Dt = op(B)t op(A)t. So B is the library's first operand and A its second, each with its stored row length as leading
 * dimension, and a bias over n runs along the library's rows, which is its bias epilogue.
 */
#include "dev/cuda/cublaslt.h"

#include <cublasLt.h>

enum {
  LT_TRIES = 16,    /* algorithms asked for */
  LT_REPEATS = 3,   /* times that a promising one is timed */
  LT_TAIL = 256,    /* bytes at the end of the scratch that hold a fingerprint while algorithms are tried */
  LT_THREADS = 256, /* of the kernels below */
  LT_BLOCKS = 1056, /* of the kernels below, at most */
  LT_KEY = 16       /* numbers that tell kinds of products apart */
};
static const int64_t LT_WORTH = (int64_t)1 << 24; /* m n k from which algorithms are compared */
static const float LT_HOPELESS = 1.3f;            /* timed once this much slower: not timed again */

struct hr_lt_product {
  hr_lt_product *next;
  int64_t key[LT_KEY];
  hr_lt_shape shape;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t first, second, result; /* the library's A, B, and C = D */
  cublasLtMatmulAlgo_t algorithm;
  size_t scratch_bytes; /* what the algorithm uses of the scratch */
  size_t stage_at;      /* where in the scratch a staged result lies */
};

/* alpha and beta of products that may add in place: cublaslt.h */
static __device__ float lt_one = 1.0f;

/* All products of a device. */
struct lt_state {
  cublasLtHandle_t handle;
  const float *one; /* address of lt_one */
  cudaEvent_t begin, end;
  hr_lt_product *products;
};

static lt_state *lt_of(const hr_cuda_state *state) {
  return (lt_state *)state->products;
}

static hr_status lt_fail(const hr_cuda_state *state, hr_error *err, const char *what, cublasStatus_t status) {
  cudaGetLastError();
  return state->host.fail(err, HR_FAILURE, "cuBLASLt", NULL, "%s: %s", what, cublasLtGetStatusString(status));
}

static cublasStatus_t as_status(cudaError_t error) {
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* --- kernels: what trying algorithms needs, and rounding --------------------------------------------------------- */

__device__ inline uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 32);
}

/* x [rows, columns] with rows ld apart: pseudo-random numbers in [-1, 1) times `size`, which may be 0. */
template <typename T>
static __global__ void fill_kernel(T *x, int64_t rows, int64_t columns, int64_t ld, uint64_t seed, float size) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    for (int64_t column = threadIdx.x; column < columns; column += blockDim.x) {
      uint64_t random = mixed(seed + (uint64_t)(row * columns + column));
      x[row * ld + column] = from_float<T>(((float)(random >> 40) * 0x1p-23f - 1.0f) * size);
    }
}

/* Adds to *sum a number that depends on every element and its place. A sum of integers has no order. */
template <typename T>
static __global__ void fingerprint_kernel(const T *x, int64_t rows, int64_t columns, int64_t ld,
                                          unsigned long long *sum) {
  uint64_t total = 0;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    for (int64_t column = threadIdx.x; column < columns; column += blockDim.x) {
      uint64_t bits = __float_as_uint(to_float(x[row * ld + column])); /* one to one, also for 16-bit types */
      total += mixed(bits << 32 ^ mixed((uint64_t)(row * columns + column)));
    }
  atomicAdd(sum, (unsigned long long)total);
}

/* d = rounded sums (+ c), all [rows, columns]; d and c with rows ld apart. */
template <typename T>
static __global__ void round_kernel(const float *sums, const T *c, T *d, int64_t rows, int64_t columns, int64_t ld) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    for (int64_t column = threadIdx.x; column < columns; column += blockDim.x) {
      int64_t at = row * ld + column;
      d[at] = from_float<T>(sums[row * columns + column] + (c ? to_float(c[at]) : 0.0f));
    }
}

static const void *const lt_functions[] = {
    (const void *)fill_kernel<float>,       (const void *)fill_kernel<bf16>,
    (const void *)fill_kernel<f16>,         (const void *)fingerprint_kernel<float>,
    (const void *)fingerprint_kernel<bf16>, (const void *)fingerprint_kernel<f16>,
    (const void *)round_kernel<bf16>,       (const void *)round_kernel<f16>,
};

static unsigned blocks_of(int64_t rows) {
  return rows < LT_BLOCKS ? (unsigned)rows : (unsigned)LT_BLOCKS;
}

/* --- the device's part ------------------------------------------------------------------------------------------- */

hr_status hr__lt_create(hr_cuda_state *state, hr_error *err) {
  lt_state *lt = (lt_state *)state->host.alloc(sizeof *lt);
  if (!lt) return state->host.fail(err, HR_NOMEM, NULL, NULL, "out of memory");
  *lt = lt_state();
  state->products = lt;
  cublasStatus_t status = cublasLtCreate(&lt->handle);
  if (status == CUBLAS_STATUS_SUCCESS) status = as_status(cudaGetSymbolAddress((void **)&lt->one, lt_one));
  if (status == CUBLAS_STATUS_SUCCESS) status = as_status(cudaEventCreate(&lt->begin));
  if (status == CUBLAS_STATUS_SUCCESS) status = as_status(cudaEventCreate(&lt->end));
  for (const void *function : lt_functions) {
    cudaFuncAttributes attributes;
    if (status == CUBLAS_STATUS_SUCCESS) status = as_status(cudaFuncGetAttributes(&attributes, function));
  }
  return status == CUBLAS_STATUS_SUCCESS ? HR_OK : lt_fail(state, err, "cannot create a handle", status);
}

static void product_destroy(const hr_cuda_state *state, hr_lt_product *product) {
  if (product->operation) cublasLtMatmulDescDestroy(product->operation);
  if (product->first) cublasLtMatrixLayoutDestroy(product->first);
  if (product->second) cublasLtMatrixLayoutDestroy(product->second);
  if (product->result) cublasLtMatrixLayoutDestroy(product->result);
  state->host.free(product);
}

void hr__lt_destroy(hr_cuda_state *state) {
  lt_state *lt = lt_of(state);
  if (!lt) return;
  while (lt->products) {
    hr_lt_product *product = lt->products;
    lt->products = product->next;
    product_destroy(state, product);
  }
  if (lt->begin) cudaEventDestroy(lt->begin);
  if (lt->end) cudaEventDestroy(lt->end);
  if (lt->handle) cublasLtDestroy(lt->handle);
  state->host.free(lt);
  state->products = nullptr;
}

/* --- library objects --------------------------------------------------------------------------------------------- */

static cudaDataType_t library_type(hr_dtype dtype) {
  return dtype == HR_F32 ? CUDA_R_32F : dtype == HR_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

/* What the library is asked for: a staged result is f32, dense, and nothing is added. */
static hr_lt_shape library_shape(hr_lt_shape shape) {
  if (!hr__lt_staged(shape.in, shape.out)) return shape;
  shape.out = HR_F32;
  shape.ldd = shape.n;
  shape.add = false;
  return shape;
}

static cublasStatus_t objects_create(hr_lt_product *product) {
  hr_lt_shape s = library_shape(product->shape);
  cudaDataType_t type = library_type(s.in), result = library_type(s.out);
  cublasOperation_t first = s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t second = s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  uint64_t m = (uint64_t)s.m, n = (uint64_t)s.n, k = (uint64_t)s.k;
  cublasStatus_t status = cublasLtMatmulDescCreate(&product->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulDescSetAttribute(product->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulDescSetAttribute(product->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
  if (status == CUBLAS_STATUS_SUCCESS && s.add && !s.apart) {
    int32_t mode = CUBLASLT_POINTER_MODE_DEVICE;
    status = cublasLtMatmulDescSetAttribute(product->operation, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode);
  }
  if (status == CUBLAS_STATUS_SUCCESS && s.bias) {
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    status =
        cublasLtMatmulDescSetAttribute(product->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  }
  if (status == CUBLAS_STATUS_SUCCESS)
    status = s.transpose_b ? cublasLtMatrixLayoutCreate(&product->first, type, k, n, s.ldb)
                           : cublasLtMatrixLayoutCreate(&product->first, type, n, k, s.ldb);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = s.transpose_a ? cublasLtMatrixLayoutCreate(&product->second, type, m, k, s.lda)
                           : cublasLtMatrixLayoutCreate(&product->second, type, k, m, s.lda);
  if (status == CUBLAS_STATUS_SUCCESS) status = cublasLtMatrixLayoutCreate(&product->result, result, n, m, s.ldd);
  return status;
}

static cublasStatus_t bias_point(const hr_lt_product *product, const void *bias) {
  return cublasLtMatmulDescSetAttribute(product->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

/* The library's part of a product, by any algorithm. */
static cublasStatus_t library_run(const hr_call *call, const hr_lt_product *product, const hr_lt_operands *at,
                                  const cublasLtMatmulAlgo_t *algorithm, void *scratch, size_t scratch_bytes) {
  const hr_cuda_state *state = device_state(call);
  bool staged = hr__lt_staged(product->shape.in, product->shape.out), add = product->shape.add && !staged;
  const float one = 1.0f, zero = 0.0f;
  const float *alpha = add && !product->shape.apart ? lt_of(state)->one : &one, *beta = add ? alpha : &zero;
  void *d = staged ? (char *)scratch + product->stage_at : at->d;
  cublasStatus_t status = product->shape.bias ? bias_point(product, at->bias) : CUBLAS_STATUS_SUCCESS;
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  return cublasLtMatmul(lt_of(state)->handle, product->operation, alpha, at->b, product->first, at->a, product->second,
                        beta, add ? at->c : d, product->result, d, product->result, algorithm, scratch, scratch_bytes,
                        state->stream);
}

hr_status hr__lt_run(const hr_call *call, const hr_lt_product *product, const hr_lt_operands *at, void *scratch) {
  const hr_lt_shape &s = product->shape;
  cublasStatus_t status = library_run(call, product, at, &product->algorithm, scratch, product->scratch_bytes);
  if (status != CUBLAS_STATUS_SUCCESS) return HR_FAILURE;
  if (!hr__lt_staged(s.in, s.out)) return HR_OK;
  return by_dtype(s.out, [&](auto t) {
    using T = decltype(t);
    launch(round_kernel<T>, blocks_of(s.m), LT_THREADS, 0, call_stream(call),
           (const float *)((char *)scratch + product->stage_at), s.add ? (const T *)at->c : nullptr, (T *)at->d, s.m,
           s.n, s.ldd);
    return launched();
  });
}

/* --- choosing ---------------------------------------------------------------------------------------------------- */

/* Largest power of two, up to 256, that divides an address. */
static uint32_t alignment_of(const void *pointer) {
  uint32_t alignment = 256;
  while (!aligned(pointer, alignment))
    alignment /= 2;
  return alignment;
}

/* Result and addend as the library sees them. */
static hr_lt_operands library_operands(const hr_lt_product *product, const hr_lt_operands *at, void *scratch) {
  hr_lt_operands seen = *at;
  if (hr__lt_staged(product->shape.in, product->shape.out)) {
    seen.d = (char *)scratch + product->stage_at;
    seen.c = nullptr;
  }
  if (!seen.c) seen.c = seen.d;
  return seen;
}

static cublasStatus_t preference_set(cublasLtMatmulPreference_t preference, const hr_lt_operands *at,
                                     size_t scratch_bytes) {
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* partial sums stay f32, in the scratch */
  uint32_t a = alignment_of(at->b), b = alignment_of(at->a), c = alignment_of(at->c), d = alignment_of(at->d);
  const struct {
    cublasLtMatmulPreferenceAttributes_t name;
    const void *value;
    size_t bytes;
  } attributes[] = {
      {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &scratch_bytes, sizeof scratch_bytes},
      {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &d, sizeof d},
  };
  for (const auto &attribute : attributes) {
    cublasStatus_t status =
        cublasLtMatmulPreferenceSetAttribute(preference, attribute.name, attribute.value, attribute.bytes);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

/* The library's proposals, best first as it thinks. */
static cublasStatus_t proposals_get(const hr_call *call, const hr_lt_product *product, const hr_lt_operands *at,
                                    size_t scratch_bytes, int wanted, cublasLtMatmulHeuristicResult_t *found,
                                    int *count) {
  cublasLtMatmulPreference_t preference;
  cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  status = preference_set(preference, at, scratch_bytes);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulAlgoGetHeuristic(lt_of(device_state(call))->handle, product->operation, product->first,
                                            product->second, product->result, product->result, preference, wanted,
                                            found, count);
  cublasLtMatmulPreferenceDestroy(preference);
  return status;
}

/* Whether a proposal can be taken: C need not be D, and sums do not go through the result. An algorithm that does not
 * know of a question keeps to what it was asked for. */
static bool proposal_allowed(const cublasLtMatmulHeuristicResult_t *proposal, bool add, size_t scratch_bytes) {
  int32_t apart = 1;
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  size_t written;
  if (proposal->state != CUBLAS_STATUS_SUCCESS || proposal->workspaceSize > scratch_bytes) return false;
  if (cublasLtMatmulAlgoCapGetAttribute(&proposal->algo, CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT, &apart,
                                        sizeof apart, &written) != CUBLAS_STATUS_SUCCESS)
    apart = 1;
  if (cublasLtMatmulAlgoConfigGetAttribute(&proposal->algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                           sizeof scheme, &written) != CUBLAS_STATUS_SUCCESS)
    scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  return (apart || !add) && (scheme & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == 0;
}

static cublasStatus_t matrix_fill(const hr_call *call, hr_dtype dtype, const void *x, int64_t rows, int64_t columns,
                                  int64_t ld, uint64_t seed, float size) {
  hr_status status = by_dtype(dtype, [&](auto t) {
    using T = decltype(t);
    launch(fill_kernel<T>, blocks_of(rows), LT_THREADS, 0, call_stream(call), (T *)x, rows, columns, ld, seed << 56,
           size);
    return launched();
  });
  return status == HR_OK ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* A, B and bias as random numbers, or as zeros. */
static cublasStatus_t operands_fill(const hr_call *call, const hr_lt_shape *s, const hr_lt_operands *at, float size) {
  cublasStatus_t status =
      matrix_fill(call, s->in, at->a, s->transpose_a ? s->k : s->m, s->transpose_a ? s->m : s->k, s->lda, 1, size);
  if (status == CUBLAS_STATUS_SUCCESS)
    status =
        matrix_fill(call, s->in, at->b, s->transpose_b ? s->n : s->k, s->transpose_b ? s->k : s->n, s->ldb, 2, size);
  if (status == CUBLAS_STATUS_SUCCESS && s->bias) status = matrix_fill(call, s->out, at->bias, 1, s->n, s->n, 3, size);
  return status;
}

/* What is added to, or the result when nothing is. */
static cublasStatus_t result_fill(const hr_call *call, const hr_lt_shape *s, const hr_lt_operands *at, float size) {
  return matrix_fill(call, s->out, at->c, s->m, s->n, s->ldd, 4, size);
}

/* Everything that trying algorithms has to do with. */
struct lt_trial {
  const hr_call *call;
  hr_lt_product *product;
  hr_lt_shape shape; /* as the library sees it, like the operands */
  const hr_lt_operands *given;
  hr_lt_operands at;
  void *scratch;
  size_t scratch_bytes;
  unsigned long long *sum; /* on the device */
};

static cublasStatus_t trial_run(const lt_trial *t, const cublasLtMatmulHeuristicResult_t *proposal) {
  return library_run(t->call, t->product, t->given, &proposal->algo, t->scratch, proposal->workspaceSize);
}

/* Runs a proposal once, which loads its code; *fingerprint is that of its result. */
static cublasStatus_t trial_fingerprint(const lt_trial *t, const cublasLtMatmulHeuristicResult_t *proposal,
                                        unsigned long long *fingerprint) {
  cudaStream_t stream = call_stream(t->call);
  cublasStatus_t status = result_fill(t->call, &t->shape, &t->at, 1.0f);
  if (status == CUBLAS_STATUS_SUCCESS) status = trial_run(t, proposal);
  if (status == CUBLAS_STATUS_SUCCESS) status = as_status(cudaMemsetAsync(t->sum, 0, sizeof *t->sum, stream));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  hr_status counted = by_dtype(t->shape.out, [&](auto type) {
    using T = decltype(type);
    launch(fingerprint_kernel<T>, blocks_of(t->shape.m), LT_THREADS, 0, stream, (const T *)t->at.d, t->shape.m,
           t->shape.n, t->shape.ldd, t->sum);
    return launched();
  });
  if (counted != HR_OK) return CUBLAS_STATUS_EXECUTION_FAILED;
  status = as_status(cudaMemcpyAsync(fingerprint, t->sum, sizeof *fingerprint, cudaMemcpyDeviceToHost, stream));
  return status == CUBLAS_STATUS_SUCCESS ? as_status(cudaStreamSynchronize(stream)) : status;
}

static cublasStatus_t trial_time(const lt_trial *t, const cublasLtMatmulHeuristicResult_t *proposal, float *ms) {
  const lt_state *lt = lt_of(device_state(t->call));
  cudaStream_t stream = call_stream(t->call);
  cublasStatus_t status = as_status(cudaEventRecord(lt->begin, stream));
  if (status == CUBLAS_STATUS_SUCCESS) status = trial_run(t, proposal);
  if (status == CUBLAS_STATUS_SUCCESS) status = as_status(cudaEventRecord(lt->end, stream));
  if (status == CUBLAS_STATUS_SUCCESS) status = as_status(cudaEventSynchronize(lt->end));
  return status == CUBLAS_STATUS_SUCCESS ? as_status(cudaEventElapsedTime(ms, lt->begin, lt->end)) : status;
}

/* The shortest time of a proposal; given up early when it cannot be the best. */
static cublasStatus_t trial_best_time(const lt_trial *t, const cublasLtMatmulHeuristicResult_t *proposal, float best,
                                      float *ms) {
  cublasStatus_t status = trial_time(t, proposal, ms);
  for (int i = 1; i < LT_REPEATS && status == CUBLAS_STATUS_SUCCESS && *ms <= LT_HOPELESS * best; i++) {
    float again = 0.0f;
    status = trial_time(t, proposal, &again);
    if (again < *ms) *ms = again;
  }
  return status;
}

static void product_take(hr_lt_product *product, const cublasLtMatmulHeuristicResult_t *proposal) {
  product->algorithm = proposal->algo;
  product->scratch_bytes = proposal->workspaceSize;
}

/* The first proposal that runs says what the bits are; the fastest with these bits is taken. */
static cublasStatus_t proposals_compare(const lt_trial *t, const cublasLtMatmulHeuristicResult_t *found, int count,
                                        bool timed) {
  const float unknown = 1e30f;
  unsigned long long first = 0;
  bool any = false;
  float best = unknown;
  for (int i = 0; i < count && !(any && !timed); i++) {
    unsigned long long fingerprint = 0;
    float ms = unknown;
    if (!proposal_allowed(&found[i], t->shape.add, t->scratch_bytes)) continue;
    if (trial_fingerprint(t, &found[i], &fingerprint) != CUBLAS_STATUS_SUCCESS) {
      cudaGetLastError(); /* a proposal that cannot run is none */
      continue;
    }
    if (any && fingerprint != first) continue;
    if (timed && trial_best_time(t, &found[i], best, &ms) != CUBLAS_STATUS_SUCCESS)
      return CUBLAS_STATUS_EXECUTION_FAILED;
    if (!any || ms < best) {
      product_take(t->product, &found[i]);
      best = ms;
    }
    if (!any) first = fingerprint;
    any = true;
  }
  return any ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t algorithm_choose(const hr_call *call, hr_lt_product *product, const hr_lt_operands *at,
                                       void *scratch, size_t scratch_bytes) {
  const hr_lt_shape &s = product->shape;
  bool timed = s.m * s.n >= LT_WORTH / s.k;
  cublasLtMatmulHeuristicResult_t found[LT_TRIES] = {};
  int count = 0;
  /* Where the addend may be the result, tried so wherever it lies: nodes of one shape share the algorithm, and whether
   * the plan adds in place must not change it. */
  hr_lt_operands tried = *at, seen = library_operands(product, at, scratch);
  if (s.add && !s.apart) tried.c = tried.d;
  lt_trial t = {call,    product, library_shape(s), &tried, library_operands(product, &tried, scratch),
                scratch, 0,       nullptr};
  t.scratch_bytes = scratch_bytes - LT_TAIL;
  t.sum = (unsigned long long *)((char *)scratch + t.scratch_bytes);
  cublasStatus_t status = proposals_get(call, product, &seen, t.scratch_bytes, LT_TRIES, found, &count);
  if (status == CUBLAS_STATUS_SUCCESS) status = operands_fill(call, &s, at, 1.0f);
  if (status == CUBLAS_STATUS_SUCCESS) status = proposals_compare(&t, found, count, timed);
  /* Back to zeros: what was touched, and the scratch. */
  cublasStatus_t cleared = operands_fill(call, &s, at, 0.0f);
  if (cleared == CUBLAS_STATUS_SUCCESS) cleared = result_fill(call, &t.shape, &t.at, 0.0f);
  if (cleared == CUBLAS_STATUS_SUCCESS && t.at.c != t.at.d)
    cleared = matrix_fill(call, t.shape.out, t.at.d, t.shape.m, t.shape.n, t.shape.ldd, 4, 0.0f);
  if (cleared == CUBLAS_STATUS_SUCCESS)
    cleared = as_status(cudaMemsetAsync(scratch, 0, scratch_bytes, call_stream(call)));
  if (cleared == CUBLAS_STATUS_SUCCESS) cleared = as_status(cudaStreamSynchronize(call_stream(call)));
  return status == CUBLAS_STATUS_SUCCESS ? cleared : status;
}

/* Everything that proposals depend on. */
static void key_make(const hr_lt_shape *s, const hr_lt_operands *at, size_t scratch_bytes, int64_t *key) {
  int64_t flags = s->transpose_a | s->transpose_b << 1 | s->add << 2 | s->bias << 3 | s->apart << 4;
  const int64_t words[LT_KEY] = {s->m,
                                 s->n,
                                 s->k,
                                 s->lda,
                                 s->ldb,
                                 s->ldd,
                                 flags,
                                 s->in,
                                 s->out,
                                 alignment_of(at->a),
                                 alignment_of(at->b),
                                 s->add ? alignment_of(at->c) : 0,
                                 s->bias ? alignment_of(at->bias) : 0,
                                 alignment_of(at->d),
                                 (int64_t)scratch_bytes};
  for (int i = 0; i < LT_KEY; i++)
    key[i] = words[i];
}

static hr_lt_product *product_find(const lt_state *lt, const int64_t *key) {
  for (hr_lt_product *product = lt->products; product; product = product->next) {
    bool same = true;
    for (int i = 0; i < LT_KEY && same; i++)
      same = product->key[i] == key[i];
    if (same) return product;
  }
  return nullptr;
}

hr_status hr__lt_prepare(const hr_call *call, const hr_lt_shape *shape, const hr_lt_operands *at, void *scratch,
                         size_t scratch_bytes, const hr_lt_product **out, hr_error *err) {
  hr_cuda_state *state = device_state(call);
  lt_state *lt = lt_of(state);
  size_t needed = hr__lt_bytes(shape->m, shape->n, shape->in, shape->out);
  if (scratch_bytes < needed)
    return state->host.fail(err, HR_FAILURE, NULL, NULL, "%zu bytes of workspace were planned, %zu are needed",
                            scratch_bytes, needed);
  if (shape->apart && at->c == at->d)
    return state->host.fail(err, HR_FAILURE, NULL, NULL, "a product that is to be added apart was planned in place");
  int64_t key[LT_KEY];
  key_make(shape, at, needed, key);
  *out = product_find(lt, key);
  if (*out) return HR_OK;

  hr_lt_product *product = (hr_lt_product *)state->host.alloc(sizeof *product);
  if (!product) return state->host.fail(err, HR_NOMEM, NULL, NULL, "out of memory");
  *product = hr_lt_product();
  for (int i = 0; i < LT_KEY; i++)
    product->key[i] = key[i];
  product->shape = *shape;
  product->stage_at = hr__lt_bytes(shape->m, shape->n, shape->in, HR_F32);
  cublasStatus_t status = objects_create(product);
  if (status == CUBLAS_STATUS_SUCCESS) status = algorithm_choose(call, product, at, scratch, product->stage_at);
  if (status != CUBLAS_STATUS_SUCCESS) {
    product_destroy(state, product);
    return lt_fail(state, err, "cannot prepare a product", status);
  }
  product->next = lt->products;
  lt->products = product;
  *out = product;
  return HR_OK;
}
