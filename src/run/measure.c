/* Measuring rates: real kernels on real buffers.
 *
 * Products are timed shape by shape, on one thread and on all; nodes of a graph as they are, each kind once,
 * in rounds over all of them. For the
 * other classes a few ops of a training step are timed, and the class's rates are scaled so that hr__rates_seconds
 * gives the sum of the measured times: what is calibrated is exactly what planning computes. Times are medians, so that
 * a disturbance does not count.
 */
#include "run/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "dev/cpu/gemm.h"
#include "run/bench.h"
#include "run/disk.h"

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

/* --- nodes -------------------------------------------------------------------------------------------------------- */

enum { NODE_BYTES = 1 << 30 }; /* larger ones are not measured */
enum { ROUNDS = 3 };
static const double nodes_seconds = 15; /* no further node is begun after that */

/* Nodes of one key on one number of threads. Rounds lie seconds apart: what disturbs one leaves the others alone. */
typedef struct kind {
  hr_id node; /* the first of them */
  uint32_t dead;
  hr_op_rate rate;
  double times[ROUNDS];
  int count;
} kind;

typedef struct kinds {
  kind *items;
  size_t count, capacity;
  hr_desc *storage; /* room for the shapes of any node */
  hr_bench_ring ring;
  hr_arena arena;
} kinds;

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Bit i: input i is gone after node `id`, as far as a plan sees it. */
static uint32_t dead_inputs(const hr_graph *graph, hr_id id) {
  const hr_node *node = &graph->nodes[id];
  const hr_program *program = &graph->programs[node->program];
  uint32_t dead = 0;
  for (int i = 0; i < node->n_in && i < HR_OP_OPERANDS; i++) {
    if (node->in[i] == HR_NONE) continue;
    hr_id buffer = graph->values[node->in[i]].buffer;
    bool read = graph->buffers[buffer].persistent || graph->buffers[buffer].role == HR_ROLE_INPUT;
    for (hr_id n = id + 1; !read && n < program->first + program->count; n++)
      for (int k = 0; k < graph->nodes[n].n_in; k++)
        read |= graph->nodes[n].in[k] != HR_NONE && graph->values[graph->nodes[n].in[k]].buffer == buffer;
    if (!read) dead |= 1u << i;
  }
  return dead;
}

static bool kind_known(const kinds *k, const char *key) {
  for (size_t i = 0; i < k->count; i++)
    if (strcmp(k->items[i].rate.key, key) == 0) return true;
  return false;
}

static hr_status kinds_collect(kinds *k, const hr_graph *graph, int threads, hr_error *err) {
  size_t operands = 1, bytes;
  for (size_t n = 0; n < graph->n_nodes; n++) {
    size_t has = (size_t)(graph->nodes[n].n_in + graph->nodes[n].n_out);
    if (has > operands) operands = has;
  }
  k->storage = hr__arena_array(&k->arena, operands, sizeof *k->storage);
  if (!k->storage) return hr__nomem(err);
  for (hr_id n = 0; n < graph->n_nodes; n++) {
    const hr_node *node = &graph->nodes[n];
    hr_op_view view = hr__node_view(graph, node, k->storage);
    kind found = {.node = n, .rate = {.op = node->op}};
    hr__rates_key(node->op, &view, found.rate.key);
    if (!node->op->cpu.run || node->op->transfer || kind_known(k, found.rate.key)) continue;
    if (!hr__bench_bytes(node->op, &view, threads, &bytes) || bytes > NODE_BYTES) continue;
    found.dead = dead_inputs(graph, n);
    for (int i = 0; i < (threads > 1 ? 2 : 1); i++) {
      found.rate.threads = i ? threads : 1;
      if (hr__arena_grow(&k->arena, (void **)&k->items, &k->capacity, k->count, sizeof *k->items) != 0)
        return hr__nomem(err);
      k->items[k->count++] = found;
    }
  }
  return HR_OK;
}

static hr_status kinds_time(kinds *k, hr_device *device, const hr_graph *graph, hr_error *err) {
  double begin = seconds_now();
  for (int round = 0; round < ROUNDS; round++)
    for (size_t i = 0; i < k->count && seconds_now() - begin < nodes_seconds; i++) {
      kind *item = &k->items[i];
      hr_op_view view = hr__node_view(graph, &graph->nodes[item->node], k->storage);
      HR_TRY(hr__bench_node(device, &k->ring, item->rate.op, &view, item->dead, item->rate.threads,
                            &item->times[item->count], err));
      item->count++;
    }
  return HR_OK;
}

static hr_status kinds_keep(kinds *k, hr_rates *rates, hr_error *err) {
  for (size_t i = 0; i < k->count; i++) {
    kind *item = &k->items[i];
    if (item->count == 0) continue;
    qsort(item->times, (size_t)item->count, sizeof item->times[0], ascending);
    item->rate.seconds = item->times[(item->count - 1) / 2];
    HR_TRY(hr__rates_add_op(rates, &item->rate, err));
  }
  return HR_OK;
}

hr_status hr__measure_nodes(hr_device *device, const hr_graph *graph, hr_rates *rates, hr_error *err) {
  kinds k = {0};
  hr__arena_init(&k.arena);
  hr_status status = hr__bench_ring_create(&k.ring, err);
  if (status == HR_OK) status = kinds_collect(&k, graph, rates->threads, err);
  if (status == HR_OK) status = kinds_time(&k, device, graph, err);
  if (status == HR_OK) status = kinds_keep(&k, rates, err);
  hr__bench_ring_destroy(&k.ring);
  hr__arena_fini(&k.arena);
  return status;
}

/* --- classes ------------------------------------------------------------------------------------------------------ */

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
static hr_status class_calibrate(hr_device *device, hr_bench_ring *ring, hr_op_class op_class, int threads,
                                 hr_rates *rates, hr_error *err) {
  size_t count;
  const hr_bench_case *cases = hr__bench_cases(&count);
  hr_class_rate *rate = &rates->classes[op_class][threads > 1];
  double measured_sum = 0, planned_sum = 0;
  for (size_t i = 0; i < count; i++) {
    if (cases[i].op_class != op_class) continue;
    double measured;
    hr_cost cost;
    HR_TRY(hr__bench_op(device, ring, &cases[i], threads, &measured, &cost, err));
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
static hr_status overhead_measure(hr_device *device, hr_bench_ring *ring, int threads, hr_rates *rates, hr_error *err) {
  double seconds;
  hr_cost cost;
  HR_TRY(hr__bench_op(device, ring, hr__bench_empty(), 1, &seconds, &cost, err));
  if (threads > 1) seconds += hr__bench_dispatch(device, threads);
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    rates->classes[c][threads > 1].overhead_seconds = seconds;
  return HR_OK;
}

static hr_status classes_measure(hr_device *device, hr_bench_ring *ring, hr_rates *rates, hr_error *err) {
  for (int i = 0; i < (rates->threads > 1 ? 2 : 1); i++) {
    int threads = i ? rates->threads : 1;
    HR_TRY(overhead_measure(device, ring, threads, rates, err));
    for (int c = 0; c < HR_CLASS_COUNT; c++)
      HR_TRY(class_calibrate(device, ring, (hr_op_class)c, threads, rates, err));
  }
  return HR_OK;
}

/* --- copies between tiers ----------------------------------------------------------------------------------------- */

enum { COPY_BYTES = 4 << 20, COPY_ROUNDS = 8 };

static double copies_rate(double begin) {
  return (double)COPY_BYTES * COPY_ROUNDS / fmax(seconds_now() - begin, 1e-9);
}

/* One thread copying in memory, out of cold memory as far as the ring reaches. */
static void host_copy_measure(hr_device *device, const hr_bench_ring *ring, hr_rates *rates) {
  size_t places = ring->bytes / COPY_BYTES;
  double begin = seconds_now();
  for (size_t i = 0; i < COPY_ROUNDS; i++)
    (void)device->functions->copy(device, HR_COPY_TO_DEVICE, ring->base + (2 * i + 1) % places * COPY_BYTES,
                                  ring->base + 2 * i % places * COPY_BYTES, COPY_BYTES, NULL); /* memory cannot fail */
  rates->copies.host_bytes_per_second = copies_rate(begin);
}

/* A file in the system's folder for such, hashes included. A machine without room there keeps the defaults. */
static void disk_copy_measure(const hr_bench_ring *ring, hr_rates *rates) {
  hr_disk disk;
  const uint64_t all = (uint64_t)COPY_BYTES * COPY_ROUNDS;
  hr_disk_range range = {"a test file", 0, all};
  hr_error ignored;
  bool good = hr__disk_open(&disk, NULL, all, &ignored) == HR_OK;
  double begin = seconds_now();
  for (uint64_t i = 0; good && i < COPY_ROUNDS; i++)
    good = hr__disk_write(&disk, &range, i * COPY_BYTES, ring->base, COPY_BYTES, &ignored) == HR_OK;
  if (good) rates->copies.disk_write_bytes_per_second = copies_rate(begin);
  begin = seconds_now();
  for (uint64_t i = 0; good && i < COPY_ROUNDS; i++)
    good = hr__disk_read(&disk, &range, i * COPY_BYTES, ring->base, COPY_BYTES, &ignored) == HR_OK;
  if (good) rates->copies.disk_read_bytes_per_second = copies_rate(begin);
  hr__disk_close(&disk);
}

static hr_status rates_measure(hr_device *device, const hr_graph *graph, hr_rates *rates, hr_error *err) {
  HR_TRY(grid_measure(device, rates, err));
  product_class_set(rates);
  hr_bench_ring ring;
  HR_TRY(hr__bench_ring_create(&ring, err));
  hr_status status = classes_measure(device, &ring, rates, err);
  host_copy_measure(device, &ring, rates);
  disk_copy_measure(&ring, rates);
  hr__bench_ring_destroy(&ring);
  HR_TRY(status);
  if (graph) HR_TRY(hr__measure_nodes(device, graph, rates, err));
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
