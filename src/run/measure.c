/* Measuring rates: real kernels on real buffers.
 *
 * Products are timed shape by shape, on one thread and on all. For the other classes a few ops of a training step are
 * timed, and the class's rates are scaled so that hr__rates_seconds gives the sum of the measured times: what is
 * calibrated is exactly what planning computes. Times are medians, so that a disturbance does not count.
 */
#include "run/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "dev/cpu/gemm.h"
#include "run/bench.h"

static hr_status product_time(hr_device *device, const hr_product *product, int threads, double *seconds,
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

/* One shape on one thread and on all. */
static hr_status product_measure(hr_device *device, const hr_product *product, hr_rates *rates, hr_error *err) {
  int counts[2] = {1, device->facts.threads};
  for (int i = 0; i < (counts[1] > 1 ? 2 : 1); i++) {
    if (product_known(rates, product, counts[i])) continue;
    hr_product_rate measured = {.product = *product, .threads = counts[i]};
    measured.product.times = 1;
    HR_TRY(product_time(device, product, counts[i], &measured.seconds, err));
    HR_TRY(hr__rates_add(rates, &measured, err));
  }
  return HR_OK;
}

/* y = x Wt, dx = dy W and dW = dyt x of a layer [out, in] applied to `rows` rows. */
static hr_status layer_measure(hr_device *device, int64_t rows, int64_t in, int64_t out, hr_dtype dtype,
                               hr_rates *rates, hr_error *err) {
  hr_product products[3] = {
      {.m = rows, .n = out, .k = in, .transpose_b = true, .dtype = dtype},
      {.m = rows, .n = in, .k = out, .dtype = dtype},
      {.m = out, .n = in, .k = rows, .transpose_a = true, .dtype = dtype},
  };
  for (int i = 0; i < 3; i++)
    HR_TRY(product_measure(device, &products[i], rates, err));
  return HR_OK;
}

static hr_status grid_measure(hr_device *device, hr_rates *rates, hr_error *err) {
  static const int64_t rows[] = {128, 1024}, sides[] = {64, 256, 1024, 4096};
  static const hr_dtype dtypes[] = {HR_F32, HR_BF16};
  enum { ROWS = sizeof rows / sizeof rows[0], SIDES = sizeof sides / sizeof sides[0] };
  for (size_t d = 0; d < 2; d++)
    for (size_t r = 0; r < ROWS; r++)
      for (size_t i = 0; i < SIDES; i++)
        for (size_t o = 0; o < SIDES; o++)
          if (rows[r] * sides[i] * sides[o] <= (int64_t)1 << 32)
            HR_TRY(layer_measure(device, rows[r], sides[i], sides[o], dtypes[d], rates, err));
  return HR_OK;
}

static hr_status graph_measure(hr_device *device, const hr_graph *graph, hr_rates *rates, hr_error *err) {
  for (size_t n = 0; n < graph->n_nodes; n++) {
    const hr_node *node = &graph->nodes[n];
    hr_desc *storage = hr__alloc_zero((size_t)(node->n_in + node->n_out) + 1, sizeof *storage);
    if (!storage) return hr__nomem(err);
    hr_cost cost = {0};
    hr_op_view view = hr__node_view(graph, node, storage);
    node->op->cost(&view, &cost);
    hr__free(storage);
    for (int p = 0; p < cost.n_products; p++)
      HR_TRY(product_measure(device, &cost.products[p], rates, err));
  }
  return HR_OK;
}

/* The rate of a large product becomes the class's. */
static void product_class_set(hr_rates *rates) {
  for (size_t i = 0; i < rates->n_products; i++) {
    const hr_product_rate *p = &rates->products[i];
    double rate = 2.0 * (double)p->product.m * (double)p->product.n * (double)p->product.k / p->seconds;
    bool plain = p->product.dtype == HR_F32 && p->product.m == 1024 && p->product.n == 1024 && p->product.k == 1024 &&
                 p->product.transpose_b;
    if (plain && p->threads == 1) rates->classes[HR_CLASS_PRODUCT][0].flops_per_second = rate;
    if (plain && p->threads == rates->threads) rates->classes[HR_CLASS_PRODUCT][1].flops_per_second = rate;
  }
}

/* Scales a class so that what hr__rates_seconds says of its cases is what they took. What products take is known, so
 * only the rest is scaled. */
static hr_status class_calibrate(hr_device *device, hr_op_class op_class, int threads, hr_rates *rates, hr_error *err) {
  size_t count;
  const hr_bench_case *cases = hr__bench_cases(&count);
  hr_class_rate *rate = &rates->classes[op_class][threads > 1];
  double measured_sum = 0, planned_sum = 0;
  for (size_t i = 0; i < count; i++) {
    if (cases[i].op_class != op_class) continue;
    double measured;
    hr_cost cost;
    HR_TRY(hr__bench_op(device, &cases[i], threads, &measured, &cost, err));
    hr_cost rest = cost;
    rest.n_products = 0;
    for (int p = 0; p < cost.n_products; p++) {
      const hr_product *product = &cost.products[p];
      rest.flops -= 2.0 * (double)product->m * (double)product->n * (double)product->k * (double)product->times;
    }
    double products = hr__rates_seconds(rates, &cost, threads) - hr__rates_seconds(rates, &rest, threads);
    double planned = hr__rates_seconds(rates, &rest, threads) - rate->overhead_seconds;
    double left = measured - products;
    measured_sum += left > 0.1 * planned ? left : 0.1 * planned;
    planned_sum += planned;
  }
  if (measured_sum <= 0) return HR_OK;
  double factor = planned_sum / measured_sum;
  rate->bytes_per_second *= factor;
  if (op_class != HR_CLASS_PRODUCT) {
    rate->flops_per_second *= factor;
    return HR_OK;
  }
  /* Flops of the product class are those of its products, measured above. What is left beside them is a difference of
   * two long times: hold it to what plain traffic makes likely. */
  double traffic = rates->classes[HR_CLASS_STREAM][threads > 1].bytes_per_second;
  rate->bytes_per_second = fmin(fmax(rate->bytes_per_second, traffic / 8), 2 * traffic);
  return HR_OK;
}

/* What a launch costs that does next to nothing. */
static hr_status overhead_measure(hr_device *device, int threads, hr_rates *rates, hr_error *err) {
  double seconds;
  hr_cost cost;
  HR_TRY(hr__bench_op(device, hr__bench_empty(), 1, &seconds, &cost, err));
  if (threads > 1) seconds += hr__bench_dispatch(device, threads);
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    rates->classes[c][threads > 1].overhead_seconds = seconds;
  return HR_OK;
}

static hr_status rates_measure(hr_device *device, const hr_graph *graph, hr_rates *rates, hr_error *err) {
  HR_TRY(grid_measure(device, rates, err));
  if (graph) HR_TRY(graph_measure(device, graph, rates, err));
  product_class_set(rates);
  int counts[2] = {1, device->facts.threads};
  for (int i = 0; i < (counts[1] > 1 ? 2 : 1); i++) {
    HR_TRY(overhead_measure(device, counts[i], rates, err));
    for (int c = 0; c < HR_CLASS_COUNT; c++)
      HR_TRY(class_calibrate(device, (hr_op_class)c, counts[i], rates, err));
  }
  rates->measured = true;
  return HR_OK;
}

hr_status hr__measure_rates(hr_device *device, const hr_graph *graph, hr_rates *out, hr_error *err) {
  if (device->facts.kind != HR_CPU)
    return hr__fail(err, HR_UNSUPPORTED, device->facts.name, "planning uses sound defaults there",
                    "rates are measured on the CPU only");
  hr__rates_default(&device->facts, out);
  hr_status status = rates_measure(device, graph, out, err);
  if (status != HR_OK) hr__rates_fini(out);
  return status;
}
