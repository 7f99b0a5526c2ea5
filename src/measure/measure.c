/* Measuring rates: real kernels on real buffers.
 *
 * Products are timed shape by shape, on one thread and on all; nodes of a graph as they are, each kind once, in rounds
 * over all of them. For the other classes a few ops of a training step are timed, and the class's rates are scaled so
 * that hr__rates_seconds gives the sum of the measured times: what is calibrated is exactly what planning computes.
 * Times are medians, so that a disturbance does not count. Those of a GPU are as in a step that has gone on for long:
 * see bench.h.
 */
#include "measure/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dev/cpu/gemm.h"
#include "measure/measuring.h"
#include "op/linear.h"

static hr_status library_product(hr_device *device, const hr_product *product, int threads, double *seconds,
                                 hr_error *err) {
  int64_t m = product->m, n = product->n, k = product->k;
  hr_gemm_spec spec = {.m = m,
                       .n = n,
                       .k = k,
                       .lda = product->transpose_a ? m : k,
                       .ldb = product->transpose_b ? k : n,
                       .ldc = n,
                       .transpose_a = product->transpose_a,
                       .transpose_b = product->transpose_b,
                       .accumulate = product->accumulate,
                       .a = product->dtype,
                       .b = product->dtype,
                       .c = product->dtype};
  return hr__bench_product(device, &spec, threads, seconds, err);
}

/* The product as the op that makes it, less its launch: y = x Wt, dx = dy W, or dW = dyt x. */
static hr_status linear_product(hr_measuring *b, const hr_product *product, double *seconds, hr_error *err) {
  const hr_op *op = product->transpose_b ? &hr_op_linear : product->transpose_a ? &hr_op_linear_dw : &hr_op_linear_dx;
  int64_t m = product->m, n = product->n, k = product->k;
  hr_desc in[4] = {{product->dtype, 2, {product->transpose_a ? k : m, product->transpose_a ? m : k}},
                   {product->dtype, 2, {product->transpose_b ? n : k, product->transpose_b ? k : n}}};
  hr_desc out = {product->dtype, 2, {m, n}};
  hr_linear_gradient_args args = {product->dtype};
  hr_op_view view = {.in = in, .out = &out, .n_in = op->n_in, .n_out = 1, .args = op->args_bytes ? &args : NULL};
  HR_TRY(hr__bench_node(&b->ring, op, &view, 0, 1, seconds, err));
  double overhead = b->rates->classes[HR_CLASS_PRODUCT][0].overhead_seconds;
  *seconds = fmax(*seconds - overhead, 0.1 * *seconds);
  return HR_OK;
}

static hr_status product_time(hr_measuring *b, const hr_product *product, int threads, double *seconds, hr_error *err) {
  return b->device->facts.kind == HR_CPU ? library_product(b->device, product, threads, seconds, err)
                                         : linear_product(b, product, seconds, err);
}

static bool product_known(const hr_rates *rates, const hr_product *p, int threads) {
  for (size_t i = 0; i < rates->n_products; i++) {
    const hr_product *has = &rates->products[i].product;
    if (rates->products[i].threads == threads && has->m == p->m && has->n == p->n && has->k == p->k &&
        has->transpose_a == p->transpose_a && has->transpose_b == p->transpose_b && has->accumulate == p->accumulate &&
        has->dtype == p->dtype)
      return true;
  }
  return false;
}

static bool time_is_up(const hr_measuring *b) {
  return b->until > 0 && hr__seconds_now() > b->until;
}

/* One shape on one thread and on all. */
static hr_status product_measure(hr_measuring *b, const hr_product *product, hr_error *err) {
  int counts[2] = {1, b->rates->threads};
  for (int i = 0; i < (counts[1] > 1 ? 2 : 1); i++) {
    if (time_is_up(b) || product_known(b->rates, product, counts[i])) continue;
    hr_product_rate measured = {.product = *product, .threads = counts[i]};
    measured.product.times = 1;
    hr_status status = product_time(b, product, counts[i], &measured.seconds, err);
    if (hr__measuring_left_out(b, status)) continue;
    HR_TRY(status);
    HR_TRY(hr__rates_add(b->rates, &measured, err));
  }
  return HR_OK;
}

/* y = x Wt, dx = dy W and dW = dyt x of a layer [out, in] applied to `rows` rows. */
static hr_status layer_measure(hr_measuring *b, int64_t rows, int64_t in, int64_t out, hr_dtype dtype, hr_error *err) {
  hr_product products[3] = {
      {.m = rows, .n = out, .k = in, .transpose_b = true, .dtype = dtype},
      {.m = rows, .n = in, .k = out, .dtype = dtype},
      {.m = out, .n = in, .k = rows, .transpose_a = true, .dtype = dtype},
  };
  for (int i = 0; i < 3; i++)
    HR_TRY(product_measure(b, &products[i], err));
  return HR_OK;
}

/* Layers of every pair of sides for every number of rows, up to `most` multiplications. */
typedef struct grid {
  const int64_t *rows, *sides;
  size_t n_rows, n_sides;
  hr_dtype dtype;
  int64_t most;
} grid;

static hr_status grid_measure(hr_measuring *b, const grid *g, hr_error *err) {
  for (size_t r = 0; r < g->n_rows; r++)
    for (size_t i = 0; i < g->n_sides; i++)
      for (size_t o = 0; o < g->n_sides; o++)
        if (g->rows[r] * g->sides[i] * g->sides[o] <= g->most)
          HR_TRY(layer_measure(b, g->rows[r], g->sides[i], g->sides[o], g->dtype, err));
  return HR_OK;
}

static hr_status cpu_products(hr_measuring *b, hr_error *err) {
  static const int64_t rows[] = {128, 1024}, sides[] = {64, 256, 1024, 4096};
  HR_TRY(grid_measure(b, &(grid){rows, sides, 2, 4, HR_F32, (int64_t)1 << 32}, err));
  return grid_measure(b, &(grid){rows, sides, 2, 4, HR_BF16, (int64_t)1 << 32}, err);
}

/* The roughest picture of a GPU's products: a layer, the wide ones of its block, and an adapter's. */
static hr_status gpu_products_few(hr_measuring *b, hr_error *err) {
  HR_TRY(layer_measure(b, 4096, 2048, 2048, HR_BF16, err));
  HR_TRY(layer_measure(b, 4096, 2048, 8192, HR_BF16, err));
  HR_TRY(layer_measure(b, 4096, 8192, 2048, HR_BF16, err));
  HR_TRY(layer_measure(b, 4096, 2048, 16, HR_BF16, err));
  return layer_measure(b, 1024, 2048, 2048, HR_F32, err);
}

static hr_status gpu_products(hr_measuring *b, hr_error *err) {
  static const int64_t rows[] = {1024, 4096}, sides[] = {512, 2048, 4096, 16384}, thin[] = {16, 2048, 8192};
  HR_TRY(gpu_products_few(b, err));
  HR_TRY(grid_measure(b, &(grid){rows, sides, 2, 4, HR_BF16, (int64_t)1 << 38}, err));
  HR_TRY(grid_measure(b, &(grid){rows + 1, thin, 1, 3, HR_BF16, (int64_t)1 << 38}, err)); /* adapters */
  return grid_measure(b, &(grid){rows, sides, 2, 3, HR_F32, (int64_t)1 << 36}, err);
}

/* --- classes ------------------------------------------------------------------------------------------------------ */

/* The rate of a large product becomes the class's. */
static void cpu_product_set(hr_rates *rates) {
  for (size_t i = 0; i < rates->n_products; i++) {
    const hr_product_rate *p = &rates->products[i];
    double rate = 2.0 * (double)p->product.m * (double)p->product.n * (double)p->product.k / p->seconds;
    bool plain = p->product.dtype == HR_F32 && p->product.m == 1024 && p->product.n == 1024 && p->product.k == 1024 &&
                 p->product.transpose_b;
    if (plain && p->threads == 1) rates->classes[HR_CLASS_PRODUCT][0].flops_per_second = rate;
    if (plain && p->threads == rates->threads) rates->classes[HR_CLASS_PRODUCT][1].flops_per_second = rate;
  }
}

/* The best that any product of a type has reached. */
static void gpu_product_set(hr_rates *rates) {
  double best[HR_DTYPE_COUNT] = {0};
  for (size_t i = 0; i < rates->n_products; i++) {
    const hr_product_rate *p = &rates->products[i];
    double rate = 2.0 * (double)p->product.m * (double)p->product.n * (double)p->product.k / p->seconds;
    best[p->product.dtype] = fmax(best[p->product.dtype], rate);
  }
  if (best[HR_F16] == 0) best[HR_F16] = best[HR_BF16]; /* the same units */
  for (int d = 0; d < HR_DTYPE_COUNT; d++)
    if (best[d] > 0) rates->gpu.product_flops[d] = best[d];
  for (int all = 0; all < 2; all++)
    rates->classes[HR_CLASS_PRODUCT][all].flops_per_second = rates->gpu.product_flops[HR_F32];
}

/* What the cases of a class take beside their products, measured and as planned so far. `narrow`: only those of 16-bit
 * floats, or only the others, where that makes two classes. */
typedef struct sums {
  double measured, planned;
} sums;

static hr_status case_add(hr_measuring *b, const hr_bench_case *what, const hr_class_rate *rate, int threads, sums *s,
                          hr_error *err) {
  double measured;
  hr_cost cost;
  HR_TRY(hr__bench_op(&b->ring, what, threads, &measured, &cost, err));
  hr_cost rest = cost;
  rest.n_products = 0;
  for (int p = 0; p < cost.n_products; p++) {
    const hr_product *product = &cost.products[p];
    rest.flops -= 2.0 * (double)product->m * (double)product->n * (double)product->k * (double)product->times;
  }
  double products = hr__rates_seconds(b->rates, &cost, threads) - hr__rates_seconds(b->rates, &rest, threads);
  double planned = hr__rates_seconds(b->rates, &rest, threads) - rate->overhead_seconds;
  double left = measured - products - (b->device->facts.kind == HR_CPU ? 0 : rate->overhead_seconds);
  s->measured += left > 0.1 * planned ? left : 0.1 * planned;
  s->planned += planned;
  return HR_OK;
}

/* Scales a class so that what hr__rates_seconds says of its cases is what they took. What products take is known, so
 * only the rest is scaled. */
static hr_status class_calibrate(hr_measuring *b, hr_op_class op_class, bool narrow, int threads, hr_class_rate *rate,
                                 hr_error *err) {
  size_t count;
  const hr_bench_case *cases = hr__bench_cases(b->device->facts.kind, &count);
  bool two = b->device->facts.kind != HR_CPU && op_class == HR_CLASS_ATTENTION;
  sums s = {0};
  for (size_t i = 0; i < count; i++) {
    bool fits = !time_is_up(b) && cases[i].op_class == op_class && (!two || (cases[i].in[0].dtype != HR_F32) == narrow);
    hr_status status = fits ? case_add(b, &cases[i], rate, threads, &s, err) : HR_OK;
    if (!hr__measuring_left_out(b, status)) HR_TRY(status);
  }
  if (s.measured <= 0) return HR_OK;
  double factor = s.planned / s.measured;
  rate->bytes_per_second *= factor;
  if (op_class != HR_CLASS_PRODUCT) {
    rate->flops_per_second *= factor;
    return HR_OK;
  }
  /* Flops of the product class are those of its products, measured above. What is left beside them is a difference of
   * two long times: hold it to what plain traffic makes likely. */
  double traffic = b->rates->classes[HR_CLASS_STREAM][threads > 1].bytes_per_second;
  rate->bytes_per_second = fmin(fmax(rate->bytes_per_second, traffic / 8), 2 * traffic);
  return HR_OK;
}

/* What a launch costs that does next to nothing. */
static hr_status overhead_measure(hr_measuring *b, int threads, hr_error *err) {
  double seconds;
  hr_cost cost;
  HR_TRY(hr__bench_op(&b->ring, hr__bench_empty(), 1, &seconds, &cost, err));
  if (threads > 1) seconds += hr__bench_dispatch(b->device, threads);
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    b->rates->classes[c][threads > 1].overhead_seconds = seconds;
  b->rates->gpu.attention_16.overhead_seconds = seconds;
  return HR_OK;
}

static hr_status classes_measure(hr_measuring *b, hr_error *err) {
  hr_rates *rates = b->rates;
  for (int i = 0; i < (rates->threads > 1 ? 2 : 1); i++) {
    int threads = i ? rates->threads : 1;
    for (int c = 0; c < HR_CLASS_COUNT; c++)
      HR_TRY(class_calibrate(b, (hr_op_class)c, false, threads, &rates->classes[c][i], err));
  }
  return HR_OK;
}

/* --- programs of a GPU -------------------------------------------------------------------------------------------- */

static const double replay_seconds = 8e-6; /* from the call until the first node of a graph begins */

/* What a program takes beside its nodes: a batch and the control block go up, it is started and waited for, and its
 * loss comes back. */
static hr_status program_measure(hr_measuring *b, hr_error *err) {
  enum { ROUNDS_OF_ONE = 21, BATCH_BYTES = 16384 };
  hr_device *device = b->device;
  const hr_device_functions *f = device->functions;
  char *batch = hr__alloc_zero(1, BATCH_BYTES);
  if (!batch) return hr__nomem(err);
  double times[ROUNDS_OF_ONE];
  hr_status status = HR_OK;
  for (int i = 0; i < ROUNDS_OF_ONE && status == HR_OK; i++) {
    double begin = hr__seconds_now();
    status = f->copy(device, HR_COPY_TO_DEVICE, b->ring.base, batch, BATCH_BYTES, err);
    if (status == HR_OK) status = f->copy(device, HR_COPY_TO_DEVICE, b->ring.base, batch, BATCH_BYTES, err);
    if (status == HR_OK) status = f->copy(device, HR_COPY_TO_DEVICE, b->ring.base, batch, sizeof(hr_control), err);
    if (status == HR_OK) status = f->synchronize(device, err);
    if (status == HR_OK) status = f->copy(device, HR_COPY_FROM_DEVICE, batch, b->ring.base, sizeof(float), err);
    times[i] = hr__seconds_now() - begin;
  }
  hr__free(batch);
  HR_TRY(status);
  qsort(times, ROUNDS_OF_ONE, sizeof times[0], hr__seconds_ascending);
  b->rates->gpu.program_seconds = times[ROUNDS_OF_ONE / 2] + replay_seconds;
  return HR_OK;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static hr_status cpu_measure(hr_measuring *b, const hr_graph *graph, hr_error *err) {
  HR_TRY(cpu_products(b, err));
  cpu_product_set(b->rates);
  for (int i = 0; i < (b->rates->threads > 1 ? 2 : 1); i++)
    HR_TRY(overhead_measure(b, i ? b->rates->threads : 1, err));
  HR_TRY(classes_measure(b, err));
  hr__measuring_host_copies(b);
  hr__measuring_disk_copies(b->ring.base, b->rates);
  return graph ? hr__measuring_nodes(b, graph, false, NULL, err) : HR_OK;
}

/* From the beginning, with the clock of the bench settled; and for the grid of products, of which a graph's own nodes
 * need none. */
static const double quick_seconds = 4, grid_seconds = 10;

static hr_status gpu_measure(hr_measuring *b, const hr_graph *graph, bool quick, double begin, hr_error *err) {
  if (quick) b->ring.sample_seconds = 1.5e-3;
  b->until = begin + (quick ? quick_seconds : grid_seconds);
  HR_TRY(overhead_measure(b, 1, err));
  HR_TRY(program_measure(b, err));
  HR_TRY(hr__measuring_gpu_copies(b, err));
  HR_TRY(quick ? gpu_products_few(b, err) : gpu_products(b, err));
  gpu_product_set(b->rates);
  if (!quick) b->until = 0;
  HR_TRY(class_calibrate(b, HR_CLASS_ATTENTION, true, 1, &b->rates->gpu.attention_16, err));
  HR_TRY(classes_measure(b, err));
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    b->rates->classes[c][1] = b->rates->classes[c][0]; /* threads are nothing to a GPU */
  if (!quick) hr__measuring_disk_copies(b->ring.pattern, b->rates);
  return graph ? hr__measuring_nodes(b, graph, false, NULL, err) : HR_OK;
}

static hr_status rates_measure(hr_device *device, const hr_graph *graph, bool quick, hr_rates *out, hr_error *err) {
  hr__rates_default(&device->facts, out);
  hr_measuring b = {.device = device, .rates = out};
  double begin = hr__seconds_now();
  hr_status status = hr__bench_ring_create(device, &b.ring, err);
  if (status == HR_OK)
    status = device->facts.kind == HR_CPU ? cpu_measure(&b, graph, err) : gpu_measure(&b, graph, quick, begin, err);
  hr__bench_ring_destroy(&b.ring);
  out->measured = status == HR_OK;
  if (status != HR_OK) hr__rates_fini(out);
  return status;
}

hr_status hr__measure_rates(hr_device *device, const hr_graph *graph, hr_rates *out, hr_error *err) {
  return rates_measure(device, graph, false, out, err);
}

hr_status hr__measure_quick(hr_device *device, hr_rates *out, hr_error *err) {
  return rates_measure(device, NULL, true, out, err);
}
