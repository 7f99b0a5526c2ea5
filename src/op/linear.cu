/* linear and its backward ops on CUDA: products through cuBLASLt, the bias in its epilogue, db as sums of columns. Few
 * rows, as programs that generate have, only wait for the weights: they have a kernel of their own. */
#include "dev/cuda/cublaslt.h"
#include "op/few_chain_match.cuh"
extern "C" {
#include "op/linear_cuda.h"
}

/* A product over operands 0 and 1 of a call into output 0, with operands `bias` and `add` (-1: the op has none). */
struct linear_product {
  hr_lt_shape shape;
  hr_lt_operands at;
};

static const void *operand(const hr_call *call, int in) {
  return in >= 0 && in < call->n_in ? call->in[in].data : nullptr;
}

static linear_product product_of(const hr_call *call, int64_t m, int64_t n, int64_t k, int bias, int add) {
  linear_product p = {};
  p.shape.m = m;
  p.shape.n = p.shape.ldd = n;
  p.shape.k = k;
  p.shape.lda = desc_columns(call->in[0].desc);
  p.shape.ldb = desc_columns(call->in[1].desc);
  p.shape.in = call->in[0].desc.dtype;
  p.shape.out = call->out[0].desc.dtype;
  p.at = {call->in[0].data, call->in[1].data, operand(call, add), operand(call, bias), call->out[0].data};
  p.shape.add = p.at.c != nullptr;
  p.shape.bias = p.at.bias != nullptr;
  return p;
}

/* Of linear and linear_dx, as hr_op.not_in_place of both says. */
static bool added_apart(const hr_lt_shape *shape) {
  return shape->add && shape->out != HR_F32;
}

/* y [R, O] = x [R, I] Wt (+ bias) (+ add) */
static linear_product linear_of(const hr_call *call) {
  const hr_desc &x = call->in[0].desc, &w = call->in[1].desc;
  linear_product p = product_of(call, desc_rows(x), w.dim[0], w.dim[1], 2, 3);
  p.shape.transpose_b = true;
  p.shape.apart = added_apart(&p.shape);
  return p;
}

/* dx [R, I] = dy [R, O] W (+ partial) */
static linear_product linear_dx_of(const hr_call *call) {
  const hr_desc &dy = call->in[0].desc, &w = call->in[1].desc;
  linear_product p = product_of(call, desc_rows(dy), w.dim[1], w.dim[0], -1, 2);
  p.shape.apart = added_apart(&p.shape);
  return p;
}

/* dW [O, I] = dyt x (+ partial) */
static linear_product linear_dw_of(const hr_call *call) {
  const hr_desc &dy = call->in[0].desc, &x = call->in[1].desc;
  linear_product p = product_of(call, desc_columns(dy), desc_columns(x), desc_rows(dy), -1, 2);
  p.shape.transpose_a = true;
  return p;
}

/* A product of few rows with those of its neighbours that go together with it. */
static hr_status few_run(const few_group &group, bool early) {
  return by_dtype(group.product->in[0].desc.dtype, [&](auto t) {
    few_product<decltype(t)> product = few_of<decltype(t)>(group);
    product.early = early;
    return few_do(group.product, product, desc_rows(group.product->in[0].desc));
  });
}

hr_status hr__few_take(const hr_launch *launches, size_t at, size_t count, size_t *taken) {
  hr_status status = chain_take(launches, at, count, taken);
  if (status != HR_OK || *taken > 0) return status;
  few_group group = group_of(launches + at, count - at);
  *taken = group.count;
  return group.count ? few_run(group, !written_by(launches, at, group.product->in[1])) : HR_OK;
}

template <linear_product (*OF)(const hr_call *)>
static hr_status product_prepare(const hr_call *call, void **prepared, hr_error *err) {
  linear_product p = OF(call);
  const hr_lt_product *product = nullptr;
  hr_status status = hr__lt_prepare(call, &p.shape, &p.at, call->workspace, call->workspace_bytes, &product, err);
  *prepared = (void *)product; /* the device's: there is nothing to release */
  return status;
}

template <linear_product (*OF)(const hr_call *)> static hr_status product_run(const hr_call *call) {
  linear_product p = OF(call);
  return hr__lt_run(call, (const hr_lt_product *)call->prepared, &p.at, call->workspace);
}

/* A block sums DB_PACKS packs of W columns over block_rows rows of dy [rows, columns], into row blockIdx.y of the
 * result: DB_LANES rows at a time, then over the lanes in a fixed tree. W > 1: columns are a multiple of it and rows
 * aligned for packs. */
enum { DB_PACKS = 4, DB_LANES = 64 };
template <typename T, typename P, int W>
static __global__ void linear_db_kernel(const T *dy, const P *partial, P *db, int64_t rows, int64_t columns,
                                        int64_t block_rows) {
  __shared__ float sums[DB_LANES][DB_PACKS * W + 1];
  int64_t column = ((int64_t)blockIdx.x * DB_PACKS + threadIdx.x) * W, at = blockIdx.y * columns + column;
  int64_t first = blockIdx.y * block_rows, end = first + block_rows < rows ? first + block_rows : rows;
  float sum[W];
#pragma unroll
  for (int i = 0; i < W; i++)
    sum[i] = 0.0f;
  if (column < columns)
#pragma unroll 4
    for (int64_t row = first + threadIdx.y; row < end; row += DB_LANES) {
      pack<T, W> from = *(const pack<T, W> *)(dy + row * columns + column);
#pragma unroll
      for (int i = 0; i < W; i++)
        sum[i] += to_float(from.value[i]);
    }
#pragma unroll
  for (int i = 0; i < W; i++)
    sums[threadIdx.y][threadIdx.x * W + i] = sum[i];
  for (unsigned lanes = DB_LANES / 2; lanes > 0; lanes /= 2) {
    __syncthreads();
    if (threadIdx.y < lanes)
      for (int i = 0; i < W; i++)
        sums[threadIdx.y][threadIdx.x * W + i] += sums[threadIdx.y + lanes][threadIdx.x * W + i];
  }
  if (threadIdx.y == 0 && column < columns)
    for (int i = 0; i < W; i++)
      db[at + i] = from_float<P>(sums[0][threadIdx.x * W + i] + (partial ? to_float(partial[at + i]) : 0.0f));
}

template <typename T> constexpr int DB_WIDE = 16 / (int)sizeof(T);

/* to [blocks, columns] = (partial +) the sums of the rows of each block. */
template <typename T, typename P>
static hr_status linear_db_sums(const hr_call *call, const T *from, const P *partial, P *to, int64_t rows,
                                int64_t columns, hr_linear_db_cuda cut) {
  bool wide = columns % DB_WIDE<T> == 0 && aligned(from, 16);
  int64_t packs = DB_PACKS * (wide ? DB_WIDE<T> : 1);
  launch(wide ? linear_db_kernel<T, P, DB_WIDE<T>> : linear_db_kernel<T, P, 1>,
         dim3((unsigned)divide_up(columns, packs), (unsigned)cut.blocks), dim3(DB_PACKS, DB_LANES), 0,
         call_stream(call), from, partial, to, rows, columns, cut.block_rows);
  return launched();
}

static hr_status linear_db_run(const hr_call *call) {
  const hr_desc &dy = call->in[0].desc;
  int64_t rows = desc_rows(dy), columns = desc_columns(dy);
  hr_linear_db_cuda cut = hr__linear_db_cuda_of(&dy);
  return by_dtype(dy.dtype, [&](auto t) {
    return by_dtype(call->out[0].desc.dtype, [&](auto p) {
      using T = decltype(t);
      using P = decltype(p);
      const T *from = (const T *)call->in[0].data;
      const P *partial = (const P *)operand(call, 1);
      P *db = (P *)call->out[0].data;
      float *sums = (float *)call->workspace;
      if (cut.blocks == 1) return linear_db_sums<T, P>(call, from, partial, db, rows, columns, cut);
      hr_status status = linear_db_sums<T, float>(call, from, nullptr, sums, rows, columns, cut);
      hr_linear_db_cuda whole = {1, cut.blocks};
      return status == HR_OK ? linear_db_sums<float, P>(call, sums, partial, db, cut.blocks, columns, whole) : status;
    });
  });
}

static hr_status linear_db_prepare(const hr_call *call, void **prepared, hr_error *err) {
  size_t needed = hr__linear_db_bytes(&call->in[0].desc);
  *prepared = nullptr;
  if (call->workspace_bytes >= needed) return HR_OK;
  return device_state(call)->host.fail(err, HR_FAILURE, NULL, NULL,
                                       "%zu bytes of workspace were planned, %zu are needed", call->workspace_bytes,
                                       needed);
}

#define LINEAR_DB(T, P) (const void *)linear_db_kernel<T, P, DB_WIDE<T>>, (const void *)linear_db_kernel<T, P, 1>

static hr_status linear_prepare(const hr_call *call, void **prepared, hr_error *err) {
  return is_few(call) ? HR_OK : product_prepare<linear_of>(call, prepared, err);
}

static hr_status linear_run(const hr_call *call) {
  few_group alone = {};
  alone.product = call;
  return is_few(call) ? few_run(alone, false) : product_run<linear_of>(call);
}

extern "C" const hr_cuda_launcher hr_cuda_linear = {
    {linear_prepare, nullptr, linear_run},
    {FEW_KERNELS(float), FEW_KERNELS(bf16), FEW_KERNELS(f16), CHAIN_KERNELS(bf16), CHAIN_KERNELS(f16)},
    nullptr,
    hr__few_take};
extern "C" const hr_cuda_launcher hr_cuda_linear_dx = {
    {product_prepare<linear_dx_of>, nullptr, product_run<linear_dx_of>}, {}};
extern "C" const hr_cuda_launcher hr_cuda_linear_dw = {
    {product_prepare<linear_dw_of>, nullptr, product_run<linear_dw_of>}, {}};
extern "C" const hr_cuda_launcher hr_cuda_linear_db = {
    {linear_db_prepare, nullptr, linear_db_run},
    {LINEAR_DB(float, float), LINEAR_DB(float, bf16), LINEAR_DB(float, f16), LINEAR_DB(bf16, float),
     LINEAR_DB(bf16, bf16), LINEAR_DB(bf16, f16), LINEAR_DB(f16, float), LINEAR_DB(f16, bf16), LINEAR_DB(f16, f16)}};
