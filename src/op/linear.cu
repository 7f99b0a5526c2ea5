/* linear and its backward ops on CUDA: products through cuBLASLt, the bias in its epilogue, db as a column sum. */
#include "dev/cuda/cublaslt.h"
#include "dev/cuda/launch.cuh"

static const hr_tensor *operand(const hr_call *call, int in) {
  return in < call->n_in && call->in[in].data ? &call->in[in] : nullptr;
}

/* y [R, O] = x [R, I] Wt (+ bias) (+ add) */
static hr_status linear_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_lt_product product = {};
  product.a = &call->in[0];
  product.b = &call->in[1];
  product.transpose_b = true;
  product.bias = operand(call, 2);
  product.c = operand(call, 3);
  product.d = &call->out[0];
  product.m = desc_rows(call->in[0].desc);
  product.n = call->in[1].desc.dim[0];
  product.k = call->in[1].desc.dim[1];
  return hr__lt_prepare(call, &product, prepared, err);
}

/* dx [R, I] = dy [R, O] W (+ partial) */
static hr_status linear_dx_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_lt_product product = {};
  product.a = &call->in[0];
  product.b = &call->in[1];
  product.c = operand(call, 2);
  product.d = &call->out[0];
  product.m = desc_rows(call->in[0].desc);
  product.n = call->in[1].desc.dim[1];
  product.k = call->in[1].desc.dim[0];
  return hr__lt_prepare(call, &product, prepared, err);
}

/* dW [O, I] = dyt x (+ partial) */
static hr_status linear_dw_prepare(const hr_call *call, void **prepared, hr_error *err) {
  hr_lt_product product = {};
  product.a = &call->in[0];
  product.transpose_a = true;
  product.b = &call->in[1];
  product.c = operand(call, 2);
  product.d = &call->out[0];
  product.m = desc_columns(call->in[0].desc);
  product.n = desc_columns(call->in[1].desc);
  product.k = desc_rows(call->in[0].desc);
  return hr__lt_prepare(call, &product, prepared, err);
}

static hr_status linear_run(const hr_call *call) {
  return hr__lt_run(call, call->prepared);
}

/* A block sums DB_COLUMNS columns of dy [rows, columns]: DB_LANES rows at a time, then over the lanes in a fixed tree.
 */
enum { DB_COLUMNS = 32, DB_LANES = 32 };
template <typename T, typename P>
static __global__ void linear_db_kernel(const T *dy, const P *partial, P *db, int64_t rows, int64_t columns) {
  __shared__ float sums[DB_LANES][DB_COLUMNS + 1];
  int64_t column = (int64_t)blockIdx.x * DB_COLUMNS + threadIdx.x;
  float sum = 0.0f;
  if (column < columns)
    for (int64_t row = threadIdx.y; row < rows; row += DB_LANES)
      sum += to_float(dy[row * columns + column]);
  sums[threadIdx.y][threadIdx.x] = sum;
  for (unsigned lanes = DB_LANES / 2; lanes > 0; lanes /= 2) {
    __syncthreads();
    if (threadIdx.y < lanes) sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + lanes][threadIdx.x];
  }
  if (threadIdx.y == 0 && column < columns)
    db[column] = from_float<P>(sums[0][threadIdx.x] + (partial ? to_float(partial[column]) : 0.0f));
}

template <typename T, typename P> static hr_status linear_db_launch(const hr_call *call) {
  const hr_tensor *partial = operand(call, 1);
  int64_t rows = desc_rows(call->in[0].desc), columns = desc_columns(call->in[0].desc);
  linear_db_kernel<T, P>
      <<<(unsigned)((columns + DB_COLUMNS - 1) / DB_COLUMNS), dim3(DB_COLUMNS, DB_LANES), 0, call_stream(call)>>>(
          (const T *)call->in[0].data, partial ? (const P *)partial->data : nullptr, (P *)call->out[0].data, rows,
          columns);
  return launched();
}

static hr_status linear_db_run(const hr_call *call) {
  bool wide = call->out[0].desc.dtype == HR_F32;
  if (call->in[0].desc.dtype == HR_F32)
    return wide ? linear_db_launch<float, float>(call) : linear_db_launch<float, bf16>(call);
  return wide ? linear_db_launch<bf16, float>(call) : linear_db_launch<bf16, bf16>(call);
}

extern "C" const hr_cuda_launcher hr_cuda_linear = {{linear_prepare, hr__lt_release, linear_run}, {}};
extern "C" const hr_cuda_launcher hr_cuda_linear_dx = {{linear_dx_prepare, hr__lt_release, linear_run}, {}};
extern "C" const hr_cuda_launcher hr_cuda_linear_dw = {{linear_dw_prepare, hr__lt_release, linear_run}, {}};
extern "C" const hr_cuda_launcher hr_cuda_linear_db = {
    {nullptr, nullptr, linear_db_run},
    {(const void *)linear_db_kernel<float, float>, (const void *)linear_db_kernel<float, bf16>,
     (const void *)linear_db_kernel<bf16, float>, (const void *)linear_db_kernel<bf16, bf16>}};
