/* Products through cuBLASLt.
 *
 * The library thinks in columns: a row-major matrix is its transpose there, and D = op(A) op(B) becomes
 * Dt = op(B)t op(A)t. So B is the library's first operand and A its second, each with its stored row length as leading
 * dimension, and a bias over n runs along the library's rows, which is its bias epilogue.
 */
#include "dev/cuda/cublaslt.h"

#include <cublasLt.h>

struct lt_plan {
  void (*free)(void *);
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t first, second, result; /* the library's A, B, and C = D */
  cublasLtMatmulAlgo_t algorithm;
  const void *a, *b, *c;
  void *d;
  float beta;
  size_t scratch_bytes;
};

static hr_status lt_fail(const hr_cuda_state *state, hr_error *err, const char *what, cublasStatus_t status) {
  return state->host.fail(err, HR_FAILURE, "cuBLASLt", NULL, "%s: %s", what, cublasLtGetStatusString(status));
}

hr_status hr__lt_create(hr_cuda_state *state, hr_error *err) {
  cublasLtHandle_t handle;
  cublasStatus_t status = cublasLtCreate(&handle);
  if (status != CUBLAS_STATUS_SUCCESS) return lt_fail(state, err, "cannot create a handle", status);
  state->products = handle;
  return HR_OK;
}

void hr__lt_destroy(hr_cuda_state *state) {
  if (state->products) cublasLtDestroy((cublasLtHandle_t)state->products);
  state->products = nullptr;
}

/* Largest power of two, up to 256, that divides an address. */
static uint32_t alignment_of(const void *pointer) {
  uint32_t alignment = 256;
  while (!aligned(pointer, alignment))
    alignment /= 2;
  return alignment;
}

static cublasStatus_t preference_set(cublasLtMatmulPreference_t preference, const lt_plan *plan, size_t scratch_bytes) {
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* partial sums stay f32, in the scratch */
  uint32_t a = alignment_of(plan->b), b = alignment_of(plan->a), c = alignment_of(plan->c), d = alignment_of(plan->d);
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

static cublasStatus_t algorithm_choose(cublasLtHandle_t handle, lt_plan *plan, size_t scratch_bytes) {
  cublasLtMatmulPreference_t preference;
  cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  status = preference_set(preference, plan, scratch_bytes);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulAlgoGetHeuristic(handle, plan->operation, plan->first, plan->second, plan->result,
                                            plan->result, preference, 1, &result, &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (found == 0 || result.workspaceSize > scratch_bytes) return CUBLAS_STATUS_NOT_SUPPORTED;
  plan->algorithm = result.algo;
  plan->scratch_bytes = result.workspaceSize;
  return result.state;
}

/* Bytes at the end of the workspace that stand in for the bias while the product is tried. */
static size_t bias_bytes(const hr_lt_product *product) {
  if (!product->bias) return 0;
  return ((size_t)product->n * sizeof(float) + 255) / 256 * 256;
}

static cublasStatus_t bias_point(lt_plan *plan, const void *bias) {
  return cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

static cublasStatus_t objects_create(lt_plan *plan, const hr_lt_product *product) {
  cudaDataType_t type = product->a->desc.dtype == HR_F32 ? CUDA_R_32F : CUDA_R_16BF;
  cudaDataType_t result = product->d->desc.dtype == HR_F32 ? CUDA_R_32F : CUDA_R_16BF;
  cublasOperation_t first = product->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t second = product->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  uint64_t m = (uint64_t)product->m, n = (uint64_t)product->n, k = (uint64_t)product->k;
  cublasStatus_t status = cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
  if (status == CUBLAS_STATUS_SUCCESS && product->bias) {
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (status == CUBLAS_STATUS_SUCCESS) status = bias_point(plan, product->bias->data);
  }
  if (status == CUBLAS_STATUS_SUCCESS)
    status = product->transpose_b ? cublasLtMatrixLayoutCreate(&plan->first, type, k, n, product->k)
                                  : cublasLtMatrixLayoutCreate(&plan->first, type, n, k, product->n);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = product->transpose_a ? cublasLtMatrixLayoutCreate(&plan->second, type, m, k, product->m)
                                  : cublasLtMatrixLayoutCreate(&plan->second, type, k, m, product->k);
  if (status == CUBLAS_STATUS_SUCCESS) status = cublasLtMatrixLayoutCreate(&plan->result, result, n, m, product->n);
  return status;
}

static cublasStatus_t plan_run(const hr_call *call, const lt_plan *plan, float alpha, float beta, const void *c) {
  const hr_cuda_state *state = device_state(call);
  return cublasLtMatmul((cublasLtHandle_t)state->products, plan->operation, &alpha, plan->b, plan->first, plan->a,
                        plan->second, &beta, c, plan->result, plan->d, plan->result, &plan->algorithm, call->workspace,
                        plan->scratch_bytes, state->stream);
}

/* Runs D = 0 op(A) op(B) + D + 0: the code is loaded and D stays as it is. */
static cublasStatus_t plan_try(const hr_call *call, lt_plan *plan, const hr_lt_product *product, char *zeros) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  cudaStream_t stream = device_state(call)->stream;
  if (product->bias) {
    if (cudaMemsetAsync(zeros, 0, bias_bytes(product), stream) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
    status = bias_point(plan, zeros);
  }
  if (status == CUBLAS_STATUS_SUCCESS) status = plan_run(call, plan, 0.0f, 1.0f, plan->d);
  if (cudaStreamSynchronize(stream) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (status == CUBLAS_STATUS_SUCCESS && product->bias) status = bias_point(plan, product->bias->data);
  return status;
}

hr_status hr__lt_prepare(const hr_call *call, const hr_lt_product *product, void **prepared, hr_error *err) {
  hr_cuda_state *state = device_state(call);
  size_t tail = bias_bytes(product);
  if (tail > call->workspace_bytes)
    return state->host.fail(err, HR_FAILURE, NULL, NULL, "workspace of %zu bytes is too small", call->workspace_bytes);
  lt_plan *plan = (lt_plan *)state->host.alloc(sizeof *plan);
  if (!plan) return state->host.fail(err, HR_NOMEM, NULL, NULL, "out of memory");
  *plan = lt_plan();
  plan->free = state->host.free;
  plan->a = product->a->data;
  plan->b = product->b->data;
  plan->d = product->d->data;
  plan->c = product->c ? product->c->data : plan->d;
  plan->beta = product->c ? 1.0f : 0.0f;

  size_t scratch_bytes = call->workspace_bytes - tail;
  cublasStatus_t status = objects_create(plan, product);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = algorithm_choose((cublasLtHandle_t)state->products, plan, scratch_bytes);
  if (status == CUBLAS_STATUS_SUCCESS) status = plan_try(call, plan, product, (char *)call->workspace + scratch_bytes);
  if (status != CUBLAS_STATUS_SUCCESS) {
    hr__lt_release(plan);
    return lt_fail(state, err, "cannot prepare a product", status);
  }
  *prepared = plan;
  return HR_OK;
}

void hr__lt_release(void *prepared) {
  lt_plan *plan = (lt_plan *)prepared;
  if (!plan) return;
  if (plan->operation) cublasLtMatmulDescDestroy(plan->operation);
  if (plan->first) cublasLtMatrixLayoutDestroy(plan->first);
  if (plan->second) cublasLtMatrixLayoutDestroy(plan->second);
  if (plan->result) cublasLtMatrixLayoutDestroy(plan->result);
  plan->free(plan);
}

hr_status hr__lt_run(const hr_call *call, void *prepared) {
  const lt_plan *plan = (const lt_plan *)prepared;
  cublasStatus_t status = plan_run(call, plan, 1.0f, plan->beta, plan->c);
  return status == CUBLAS_STATUS_SUCCESS ? HR_OK : HR_FAILURE;
}
