/* Products by loops: sums in f32, in the order of k, rounded once at the end. */
#include "cublasLt.h"

#include <string.h>

#include <algorithm>
#include <vector>

#include "cuda_bf16.h"
#include "cuda_fp16.h"

struct cublasLtContext {
  int unused;
};
struct cublasLtMatmulDescOpaque {
  bool transpose_a, transpose_b, on_device, biased;
  const void *bias;
};
struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type;
  int64_t rows, columns, ld;
};
struct cublasLtMatmulPreferenceOpaque {
  size_t scratch_bytes;
};

const char *cublasLtGetStatusString(cublasStatus_t status) {
  static const char *const texts[] = {"success", "not supported", "execution failed", "invalid value"};
  return texts[status];
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = new cublasLtContext();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *to, cublasComputeType_t, cudaDataType_t) {
  *to = new cublasLtMatmulDescOpaque();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T> static bool value_read(T *to, const void *value, size_t bytes) {
  if (bytes != sizeof *to) return false;
  memcpy(to, value, bytes);
  return true;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
  int32_t number = 0;
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
    return value_read(&desc->bias, value, bytes) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  if (!value_read(&number, value, bytes)) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) desc->transpose_a = number == CUBLAS_OP_T;
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) desc->transpose_b = number == CUBLAS_OP_T;
  if (attribute == CUBLASLT_MATMUL_DESC_POINTER_MODE) desc->on_device = number == CUBLASLT_POINTER_MODE_DEVICE;
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) desc->biased = number == CUBLASLT_EPILOGUE_BIAS;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *to, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  if (ld < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
  *to = new cublasLtMatrixLayoutOpaque{type, (int64_t)rows, (int64_t)columns, ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- choosing: the plain sum, and one of two halves, which takes scratch and may have other bits ---- */

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *to) {
  *to = new cublasLtMatmulPreferenceOpaque();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes) {
  if (attribute != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return CUBLAS_STATUS_SUCCESS;
  return value_read(&preference->scratch_bytes, value, bytes) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *found, int *count) {
  size_t halves = 2 * sizeof(float) * (size_t)(d->rows * d->columns);
  *count = 0;
  if (wanted > *count) found[(*count)++] = {{1, 0}, 0, CUBLAS_STATUS_SUCCESS};
  if (wanted > *count && halves <= preference->scratch_bytes)
    found[(*count)++] = {{2, halves}, halves, CUBLAS_STATUS_SUCCESS};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t *, cublasLtMatmulAlgoCapAttributes_t,
                                                 void *value, size_t bytes, size_t *written) {
  int32_t yes = 1;
  if (bytes != sizeof yes) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(value, &yes, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t, void *value, size_t bytes,
                                                    size_t *written) {
  uint32_t scheme = algorithm->pieces > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
  if (bytes != sizeof scheme) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(value, &scheme, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- the product ---- */

static float element_read(cudaDataType_t type, const void *x, int64_t at) {
  if (type == CUDA_R_16BF) return __bfloat162float(((const __nv_bfloat16 *)x)[at]);
  if (type == CUDA_R_16F) return __half2float(((const __half *)x)[at]);
  return ((const float *)x)[at];
}
static void element_write(cudaDataType_t type, void *x, int64_t at, float value) {
  if (type == CUDA_R_16BF)
    ((__nv_bfloat16 *)x)[at] = __float2bfloat16_rn(value);
  else if (type == CUDA_R_16F)
    ((__half *)x)[at] = __float2half_rn(value);
  else
    ((float *)x)[at] = value;
}

/* A matrix as f32 with `rows` rows behind each other, whichever way it is stored. */
static std::vector<float> matrix_read(const cublasLtMatrixLayoutOpaque &layout, const void *x, bool transposed) {
  int64_t rows = transposed ? layout.columns : layout.rows, columns = transposed ? layout.rows : layout.columns;
  std::vector<float> all((size_t)(rows * columns));
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++)
      all[(size_t)(r * columns + c)] = element_read(layout.type, x, transposed ? r * layout.ld + c : c * layout.ld + r);
  return all;
}

struct product {
  cublasLtMatmulDescOpaque desc;
  cublasLtMatrixLayoutOpaque a, b, c, d;
  cublasLtMatmulAlgo_t algorithm;
  const void *at_a, *at_b, *at_c;
  void *at_d, *scratch;
  float alpha, beta;                       /* of the host */
  const float *device_alpha, *device_beta; /* read when the product is made */
};

static void product_run(const product &p) {
  float alpha = p.desc.on_device ? *p.device_alpha : p.alpha, beta = p.desc.on_device ? *p.device_beta : p.beta;
  /* [k][m] and [n][k] */
  std::vector<float> a = matrix_read(p.a, p.at_a, !p.desc.transpose_a),
                     b = matrix_read(p.b, p.at_b, !p.desc.transpose_b);
  int64_t m = p.d.rows, n = p.d.columns, k = p.desc.transpose_a ? p.a.rows : p.a.columns;
  if (p.algorithm.needed) memset(p.scratch, emulated::POISON, p.algorithm.needed); /* all that it may use, it uses */
  std::vector<float> sums((size_t)m), part((size_t)m);
  for (int64_t column = 0; column < n; column++) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (int piece = 0; piece < p.algorithm.pieces; piece++) {
      std::fill(part.begin(), part.end(), 0.0f);
      for (int64_t i = k * piece / p.algorithm.pieces; i < k * (piece + 1) / p.algorithm.pieces; i++) {
        float factor = b[(size_t)(column * k + i)];
        for (int64_t row = 0; row < m; row++)
          part[(size_t)row] += a[(size_t)(i * m + row)] * factor;
      }
      for (int64_t row = 0; row < m; row++)
        sums[(size_t)row] += part[(size_t)row];
    }
    for (int64_t row = 0; row < m; row++) {
      int64_t at = column * p.d.ld + row;
      float value = alpha * sums[(size_t)row];
      if (beta != 0.0f) value += beta * element_read(p.c.type, p.at_c, column * p.c.ld + row);
      if (p.desc.biased) value += element_read(p.d.type, p.desc.bias, row);
      element_write(p.d.type, p.at_d, at, value);
    }
  }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *scratch,
                              size_t scratch_bytes, cudaStream_t stream) {
  int64_t m = desc->transpose_a ? a_layout->columns : a_layout->rows;
  int64_t n = desc->transpose_b ? b_layout->rows : b_layout->columns;
  int64_t k = desc->transpose_a ? a_layout->rows : a_layout->columns;
  if (m != d_layout->rows || n != d_layout->columns || k != (desc->transpose_b ? b_layout->columns : b_layout->rows) ||
      scratch_bytes < algorithm->needed)
    return CUBLAS_STATUS_INVALID_VALUE;
  product p = {*desc,
               *a_layout,
               *b_layout,
               *c_layout,
               *d_layout,
               *algorithm,
               a,
               b,
               c,
               d,
               scratch,
               0.0f,
               0.0f,
               (const float *)alpha,
               (const float *)beta};
  if (!desc->on_device) {
    p.alpha = *(const float *)alpha;
    p.beta = *(const float *)beta;
  }
  return emulated::stream_add(stream, [=] { product_run(p); }) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                              : CUBLAS_STATUS_EXECUTION_FAILED;
}
