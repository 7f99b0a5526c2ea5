/* Measuring rates: real kernels on real buffers.
 *
 * Products are timed shape by shape, on one thread and on all; nodes of a graph as they are, each kind once, in rounds
 * over all of them. For the other classes a few ops of a training step are timed, and the class's rates are scaled so
 * that hr__rates_seconds gives the sum of the measured times: what is calibrated is exactly what planning computes.
 * Times are medians, so that a disturbance does not count. Those of a GPU are as in a step that has gone on for long:
 * see bench.h.
 */
#include "run/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/courier.h"
#include "dev/cpu/gemm.h"
#include "op/linear.h"
#include "run/bench.h"
#include "run/disk.h"

/* What a measuring has at hand. */
typedef struct bench {
  hr_device *device;
  hr_bench_ring ring;
  hr_rates *rates;
  double until; /* nothing more is begun after that; 0: there is time */
} bench;

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

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
static hr_status linear_product(bench *b, const hr_product *product, double *seconds, hr_error *err) {
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

static hr_status product_time(bench *b, const hr_product *product, int threads, double *seconds, hr_error *err) {
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

static bool time_is_up(const bench *b) {
  return b->until > 0 && seconds_now() > b->until;
}

/* What a GPU has no kernel or no room for is left to the rates that there are. */
static bool left_out(const bench *b, hr_status status) {
  return b->device->facts.kind != HR_CPU && (status == HR_UNSUPPORTED || status == HR_NOMEM);
}

/* One shape on one thread and on all. */
static hr_status product_measure(bench *b, const hr_product *product, hr_error *err) {
  int counts[2] = {1, b->rates->threads};
  for (int i = 0; i < (counts[1] > 1 ? 2 : 1); i++) {
    if (time_is_up(b) || product_known(b->rates, product, counts[i])) continue;
    hr_product_rate measured = {.product = *product, .threads = counts[i]};
    measured.product.times = 1;
    hr_status status = product_time(b, product, counts[i], &measured.seconds, err);
    if (left_out(b, status)) continue;
    HR_TRY(status);
    HR_TRY(hr__rates_add(b->rates, &measured, err));
  }
  return HR_OK;
}

/* y = x Wt, dx = dy W and dW = dyt x of a layer [out, in] applied to `rows` rows. */
static hr_status layer_measure(bench *b, int64_t rows, int64_t in, int64_t out, hr_dtype dtype, hr_error *err) {
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

static hr_status grid_measure(bench *b, const grid *g, hr_error *err) {
  for (size_t r = 0; r < g->n_rows; r++)
    for (size_t i = 0; i < g->n_sides; i++)
      for (size_t o = 0; o < g->n_sides; o++)
        if (g->rows[r] * g->sides[i] * g->sides[o] <= g->most)
          HR_TRY(layer_measure(b, g->rows[r], g->sides[i], g->sides[o], g->dtype, err));
  return HR_OK;
}

static hr_status cpu_products(bench *b, hr_error *err) {
  static const int64_t rows[] = {128, 1024}, sides[] = {64, 256, 1024, 4096};
  HR_TRY(grid_measure(b, &(grid){rows, sides, 2, 4, HR_F32, (int64_t)1 << 32}, err));
  return grid_measure(b, &(grid){rows, sides, 2, 4, HR_BF16, (int64_t)1 << 32}, err);
}

/* The roughest picture of a GPU's products: a layer, the wide ones of its block, and an adapter's. */
static hr_status gpu_products_few(bench *b, hr_error *err) {
  HR_TRY(layer_measure(b, 4096, 2048, 2048, HR_BF16, err));
  HR_TRY(layer_measure(b, 4096, 2048, 8192, HR_BF16, err));
  HR_TRY(layer_measure(b, 4096, 8192, 2048, HR_BF16, err));
  HR_TRY(layer_measure(b, 4096, 2048, 16, HR_BF16, err));
  return layer_measure(b, 1024, 2048, 2048, HR_F32, err);
}

static hr_status gpu_products(bench *b, hr_error *err) {
  static const int64_t rows[] = {1024, 4096}, sides[] = {512, 2048, 4096, 16384}, thin[] = {16, 2048, 8192};
  HR_TRY(gpu_products_few(b, err));
  HR_TRY(grid_measure(b, &(grid){rows, sides, 2, 4, HR_BF16, (int64_t)1 << 38}, err));
  HR_TRY(grid_measure(b, &(grid){rows + 1, thin, 1, 3, HR_BF16, (int64_t)1 << 38}, err)); /* adapters */
  return grid_measure(b, &(grid){rows, sides, 2, 3, HR_F32, (int64_t)1 << 36}, err);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static const double node_share = 0.4; /* of the memory: larger ones are not measured */
enum { ROUNDS = 3 };
static const double nodes_seconds = 15; /* no further node is begun after that */

/* Nodes of one key on one number of threads. Rounds lie seconds apart: what disturbs one leaves the others alone. A GPU
 * is ours alone, and one round is enough. */
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
  hr_desc *storage;      /* room for the shapes of any node */
  const hr_rates *known; /* (optional) nodes that are there already are passed over */
  hr_arena arena;
} kinds;

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

/* On the CPU a gigabyte is as long as one has to wait for a node. */
static size_t node_most(const hr_device *device) {
  return device->facts.kind == HR_CPU ? (size_t)1 << 30 : (size_t)(node_share * (double)device->facts.memory_bytes);
}

static hr_status kinds_init(kinds *k, const hr_graph *graph, hr_error *err) {
  size_t operands = 1;
  for (size_t n = 0; n < graph->n_nodes; n++) {
    size_t has = (size_t)(graph->nodes[n].n_in + graph->nodes[n].n_out);
    if (has > operands) operands = has;
  }
  k->storage = hr__arena_array(&k->arena, operands, sizeof *k->storage);
  return k->storage ? HR_OK : hr__nomem(err);
}

static hr_status kinds_collect(kinds *k, hr_device *device, const hr_graph *graph, int threads, hr_error *err) {
  size_t bytes, most = node_most(device);
  HR_TRY(kinds_init(k, graph, err));
  for (hr_id n = 0; n < graph->n_nodes; n++) {
    const hr_node *node = &graph->nodes[n];
    hr_op_view view = hr__node_view(graph, node, k->storage);
    kind found = {.node = n, .rate = {.op = node->op}};
    hr__rates_key(node->op, &view, found.rate.key);
    bool ours = hr__bench_kernel(device, node->op) && (device->facts.kind == HR_CPU || node->place == HR_ON_DEVICE);
    if (!ours || node->op->transfer || kind_known(k, found.rate.key)) continue;
    if (k->known && hr__rates_find_op(k->known, found.rate.key, 1)) continue;
    if (!hr__bench_bytes(device, node->op, &view, threads, &bytes) || bytes > most) continue;
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

static hr_status kinds_time(kinds *k, bench *b, const hr_graph *graph, hr_error *err) {
  double begin = seconds_now();
  for (int round = 0; round < (b->device->facts.kind == HR_CPU ? ROUNDS : 1); round++)
    for (size_t i = 0; i < k->count && seconds_now() - begin < nodes_seconds; i++) {
      kind *item = &k->items[i];
      hr_op_view view = hr__node_view(graph, &graph->nodes[item->node], k->storage);
      hr_status status = hr__bench_node(&b->ring, item->rate.op, &view, item->dead, item->rate.threads,
                                        &item->times[item->count], err);
      if (left_out(b, status)) continue;
      HR_TRY(status);
      item->count++;
    }
  return HR_OK;
}

/* A node of a GPU that is a product and nothing else also says something of products near to it. */
static hr_status product_keep(const hr_op_rate *rate, const hr_op_view *view, hr_rates *rates, hr_error *err) {
  hr_cost cost = {0};
  rate->op->cost(view, &cost);
  if (rates->kind == HR_CPU || cost.n_products != 1 || cost.products[0].times != 1 || cost.bytes > 0) return HR_OK;
  double overhead = rates->classes[HR_CLASS_PRODUCT][0].overhead_seconds;
  hr_product_rate product = {cost.products[0], fmax(rate->seconds - overhead, 0.1 * rate->seconds), 1};
  return hr__rates_add(rates, &product, err);
}

static hr_status kinds_keep(kinds *k, const hr_graph *graph, hr_rates *rates, hr_error *err) {
  for (size_t i = 0; i < k->count; i++) {
    kind *item = &k->items[i];
    if (item->count == 0) continue;
    qsort(item->times, (size_t)item->count, sizeof item->times[0], ascending);
    item->rate.seconds = item->times[(item->count - 1) / 2];
    HR_TRY(hr__rates_add_op(rates, &item->rate, err));
    hr_op_view view = hr__node_view(graph, &graph->nodes[item->node], k->storage);
    view.kind = rates->kind;
    HR_TRY(product_keep(&item->rate, &view, rates, err));
  }
  return HR_OK;
}

static void nodes_spread(const kinds *k, const hr_graph *graph, const hr_rates *rates, double *seconds) {
  for (size_t n = 0; n < graph->n_nodes; n++) {
    char key[HR_XXH_HEX];
    hr_op_view view = hr__node_view(graph, &graph->nodes[n], k->storage);
    hr__rates_key(graph->nodes[n].op, &view, key);
    const hr_op_rate *rate = hr__rates_find_op(rates, key, rates->threads);
    seconds[n] = rate ? rate->seconds : 0;
  }
}

/* `seconds` (optional): of every node. */
static hr_status nodes_measure(bench *b, const hr_graph *graph, bool missing, double *seconds, hr_error *err) {
  kinds k = {.known = missing ? b->rates : NULL};
  hr__arena_init(&k.arena);
  hr_status status = kinds_collect(&k, b->device, graph, b->rates->threads, err);
  if (status == HR_OK) status = kinds_time(&k, b, graph, err);
  if (status == HR_OK) status = kinds_keep(&k, graph, b->rates, err);
  if (status == HR_OK && seconds) nodes_spread(&k, graph, b->rates, seconds);
  hr__arena_fini(&k.arena);
  return status;
}

static hr_status nodes_alone(hr_device *device, const hr_graph *graph, bool missing, hr_rates *rates, double *seconds,
                             hr_error *err) {
  bench b = {.device = device, .rates = rates};
  HR_TRY(hr__bench_ring_create(device, &b.ring, err));
  hr_status status = nodes_measure(&b, graph, missing, seconds, err);
  hr__bench_ring_destroy(&b.ring);
  return status;
}

hr_status hr__measure_nodes(hr_device *device, const hr_graph *graph, hr_rates *rates, hr_error *err) {
  return nodes_alone(device, graph, false, rates, NULL, err);
}

/* --- nodes that were not measured yet ------------------------------------------------------------------------------
 */

/* The next node at or behind *at that a GPU runs and that was not measured. */
static bool missing_find(const kinds *k, const hr_graph *graph, const hr_rates *rates, hr_id *at, hr_op_rate *rate) {
  for (; *at < graph->n_nodes && rates->n_ops < HR_RATES_OPS; ++*at) {
    const hr_node *node = &graph->nodes[*at];
    if (node->place != HR_ON_DEVICE || node->op->transfer) continue;
    *rate = (hr_op_rate){.op = node->op, .threads = 1};
    hr_op_view view = hr__node_view(graph, node, k->storage);
    hr__rates_key(node->op, &view, rate->key);
    if (!hr__rates_find_op(rates, rate->key, 1)) return true;
  }
  return false;
}

hr_status hr__measure_lacks(const hr_graph *graph, const hr_rates *rates, bool *lacks, hr_error *err) {
  kinds k = {0};
  hr_op_rate ignored;
  hr__arena_init(&k.arena);
  hr_status status = kinds_init(&k, graph, err);
  *lacks = status == HR_OK && missing_find(&k, graph, rates, &(hr_id){0}, &ignored);
  hr__arena_fini(&k.arena);
  return status;
}

/* What is still missing, as it is planned. */
static hr_status missing_fill(kinds *k, const hr_graph *graph, hr_rates *rates, hr_error *err) {
  hr_op_rate rate;
  for (hr_id n = 0; missing_find(k, graph, rates, &n, &rate); n++) {
    hr_op_view view = hr__node_view(graph, &graph->nodes[n], k->storage);
    hr__rates_node(rates, rate.op, &view, 1, &rate.seconds);
    HR_TRY(hr__rates_add_op(rates, &rate, err));
  }
  return HR_OK;
}

hr_status hr__measure_missing(hr_device *device, const hr_graph *graph, hr_rates *rates, hr_error *err) {
  HR_TRY(nodes_alone(device, graph, true, rates, NULL, err));
  kinds k = {0};
  hr__arena_init(&k.arena);
  hr_status status = kinds_init(&k, graph, err);
  if (status == HR_OK) status = missing_fill(&k, graph, rates, err);
  hr__arena_fini(&k.arena);
  return status;
}

hr_status hr__measure_each(hr_device *device, const hr_graph *graph, double *seconds, hr_error *err) {
  hr_rates rates;
  hr__rates_default(&device->facts, &rates);
  hr_status status = nodes_alone(device, graph, false, &rates, seconds, err);
  hr__rates_fini(&rates);
  return status;
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

static hr_status case_add(bench *b, const hr_bench_case *what, const hr_class_rate *rate, int threads, sums *s,
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
static hr_status class_calibrate(bench *b, hr_op_class op_class, bool narrow, int threads, hr_class_rate *rate,
                                 hr_error *err) {
  size_t count;
  const hr_bench_case *cases = hr__bench_cases(b->device->facts.kind, &count);
  bool two = b->device->facts.kind != HR_CPU && op_class == HR_CLASS_ATTENTION;
  sums s = {0};
  for (size_t i = 0; i < count; i++) {
    bool fits = !time_is_up(b) && cases[i].op_class == op_class && (!two || (cases[i].in[0].dtype != HR_F32) == narrow);
    hr_status status = fits ? case_add(b, &cases[i], rate, threads, &s, err) : HR_OK;
    if (!left_out(b, status)) HR_TRY(status);
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
static hr_status overhead_measure(bench *b, int threads, hr_error *err) {
  double seconds;
  hr_cost cost;
  HR_TRY(hr__bench_op(&b->ring, hr__bench_empty(), 1, &seconds, &cost, err));
  if (threads > 1) seconds += hr__bench_dispatch(b->device, threads);
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    b->rates->classes[c][threads > 1].overhead_seconds = seconds;
  b->rates->gpu.attention_16.overhead_seconds = seconds;
  return HR_OK;
}

static hr_status classes_measure(bench *b, hr_error *err) {
  hr_rates *rates = b->rates;
  for (int i = 0; i < (rates->threads > 1 ? 2 : 1); i++) {
    int threads = i ? rates->threads : 1;
    for (int c = 0; c < HR_CLASS_COUNT; c++)
      HR_TRY(class_calibrate(b, (hr_op_class)c, false, threads, &rates->classes[c][i], err));
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
  rates->copies.host_bytes_per_second = rates->copies.host_alone_bytes_per_second = copies_rate(begin);
}

/* A file in the system's folder for such, hashes included. A machine without room there keeps the defaults. */
static void disk_copy_measure(char *memory, hr_rates *rates) {
  hr_disk disk;
  const uint64_t all = (uint64_t)COPY_BYTES * COPY_ROUNDS;
  hr_disk_range range = {"a test file", 0, all};
  hr_error ignored;
  bool good = hr__disk_open(&disk, NULL, all, &ignored) == HR_OK;
  double begin = seconds_now();
  for (uint64_t i = 0; good && i < COPY_ROUNDS; i++)
    good = hr__disk_write(&disk, &range, i * COPY_BYTES, memory, COPY_BYTES, &ignored) == HR_OK;
  if (good) rates->copies.disk_write_bytes_per_second = copies_rate(begin);
  begin = seconds_now();
  for (uint64_t i = 0; good && i < COPY_ROUNDS; i++)
    good = hr__disk_read(&disk, &range, i * COPY_BYTES, memory, COPY_BYTES, &ignored) == HR_OK;
  if (good) rates->copies.disk_read_bytes_per_second = copies_rate(begin);
  hr__disk_close(&disk);
}

/* Copies in one direction, one after another, from or to its own half of the pinned memory, in rounds: a link that has
 * slept takes a while to reach its speed. */
typedef struct crossing {
  const bench *b;
  hr_copy kind;
  bool beside; /* by copy_beside */
  double seconds;
  hr_status status;
  hr_error error;
} crossing;
enum { CROSSING_BYTES = HR_BENCH_PATTERN / 2, CROSSINGS = 16, CROSSING_ROUNDS = 9, WAKING = 4 };

static void crossing_run(void *arg) {
  crossing *c = arg;
  const hr_device_functions *functions = c->b->device->functions;
  hr_status (*copy)(hr_device *, hr_copy, void *, const void *, size_t, hr_error *) =
      c->beside ? functions->copy_beside : functions->copy;
  bool in = c->kind == HR_COPY_TO_DEVICE;
  char *host = c->b->ring.pattern + (in ? 0 : CROSSING_BYTES), *device = c->b->ring.base + (in ? 0 : CROSSING_BYTES);
  c->status = HR_OK;
  double times[CROSSING_ROUNDS] = {0};
  for (int r = -WAKING; r < CROSSING_ROUNDS; r++) {
    double begin = seconds_now();
    for (int i = 0; i < CROSSINGS && c->status == HR_OK; i++)
      c->status = copy(c->b->device, c->kind, in ? device : host, in ? host : device, CROSSING_BYTES, &c->error);
    if (r >= 0) times[r] = (seconds_now() - begin) / CROSSINGS;
  }
  qsort(times, CROSSING_ROUNDS, sizeof times[0], ascending);
  c->seconds = times[CROSSING_ROUNDS / 2];
}

/* The slower direction alone, and where both can go at once the slower of them then. */
static hr_status gpu_copy_measure(bench *b, hr_error *err) {
  bool beside = b->device->functions->copy_beside != NULL; /* as a step's copies go: out of pinned memory, at once */
  crossing ways[2] = {{.b = b, .kind = HR_COPY_TO_DEVICE, .beside = beside},
                      {.b = b, .kind = HR_COPY_FROM_DEVICE, .beside = beside}};
  double alone = 0;
  for (int i = 0; i < 2; i++) {
    crossing_run(&ways[i]);
    alone = fmax(alone, ways[i].seconds);
  }
  double slowest = alone;
  if (beside && ways[0].status == HR_OK && ways[1].status == HR_OK) {
    hr_courier *courier;
    HR_TRY(hr__courier_create((int[]){1, 1}, 2, 1, &courier, err));
    hr_errand errands[2];
    for (int i = 0; i < 2; i++) {
      errands[i] = (hr_errand){.run = crossing_run, .arg = &ways[i]};
      hr__courier_send(courier, i, &errands[i]);
    }
    hr__courier_drain(courier);
    hr__courier_destroy(courier);
    for (int i = 0; i < 2; i++)
      slowest = fmax(slowest, ways[i].seconds);
  }
  for (int i = 0; i < 2; i++) {
    if (ways[i].status == HR_OK) continue;
    *err = ways[i].error;
    return ways[i].status;
  }
  b->rates->copies.host_alone_bytes_per_second = CROSSING_BYTES / alone;
  b->rates->copies.host_bytes_per_second = CROSSING_BYTES / slowest;
  return HR_OK;
}

/* --- programs of a GPU -------------------------------------------------------------------------------------------- */

static const double replay_seconds = 8e-6; /* from the call until the first node of a graph begins */

/* What a program takes beside its nodes: a batch and the control block go up, it is started and waited for, and its
 * loss comes back. */
static hr_status program_measure(bench *b, hr_error *err) {
  enum { ROUNDS_OF_ONE = 21, BATCH_BYTES = 16384 };
  hr_device *device = b->device;
  const hr_device_functions *f = device->functions;
  char *batch = hr__alloc_zero(1, BATCH_BYTES);
  if (!batch) return hr__nomem(err);
  double times[ROUNDS_OF_ONE];
  hr_status status = HR_OK;
  for (int i = 0; i < ROUNDS_OF_ONE && status == HR_OK; i++) {
    double begin = seconds_now();
    status = f->copy(device, HR_COPY_TO_DEVICE, b->ring.base, batch, BATCH_BYTES, err);
    if (status == HR_OK) status = f->copy(device, HR_COPY_TO_DEVICE, b->ring.base, batch, BATCH_BYTES, err);
    if (status == HR_OK) status = f->copy(device, HR_COPY_TO_DEVICE, b->ring.base, batch, sizeof(hr_control), err);
    if (status == HR_OK) status = f->synchronize(device, err);
    if (status == HR_OK) status = f->copy(device, HR_COPY_FROM_DEVICE, batch, b->ring.base, sizeof(float), err);
    times[i] = seconds_now() - begin;
  }
  hr__free(batch);
  HR_TRY(status);
  qsort(times, ROUNDS_OF_ONE, sizeof times[0], ascending);
  b->rates->gpu.program_seconds = times[ROUNDS_OF_ONE / 2] + replay_seconds;
  return HR_OK;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static hr_status cpu_measure(bench *b, const hr_graph *graph, hr_error *err) {
  HR_TRY(cpu_products(b, err));
  cpu_product_set(b->rates);
  for (int i = 0; i < (b->rates->threads > 1 ? 2 : 1); i++)
    HR_TRY(overhead_measure(b, i ? b->rates->threads : 1, err));
  HR_TRY(classes_measure(b, err));
  host_copy_measure(b->device, &b->ring, b->rates);
  disk_copy_measure(b->ring.base, b->rates);
  return graph ? nodes_measure(b, graph, false, NULL, err) : HR_OK;
}

/* From the beginning, with the clock of the bench settled; and for the grid of products, of which a graph's own nodes
 * need none. */
static const double quick_seconds = 4, grid_seconds = 10;

static hr_status gpu_measure(bench *b, const hr_graph *graph, bool quick, double begin, hr_error *err) {
  if (quick) b->ring.sample_seconds = 1.5e-3;
  b->until = begin + (quick ? quick_seconds : grid_seconds);
  HR_TRY(overhead_measure(b, 1, err));
  HR_TRY(program_measure(b, err));
  HR_TRY(gpu_copy_measure(b, err));
  HR_TRY(quick ? gpu_products_few(b, err) : gpu_products(b, err));
  gpu_product_set(b->rates);
  if (!quick) b->until = 0;
  HR_TRY(class_calibrate(b, HR_CLASS_ATTENTION, true, 1, &b->rates->gpu.attention_16, err));
  HR_TRY(classes_measure(b, err));
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    b->rates->classes[c][1] = b->rates->classes[c][0]; /* threads are nothing to a GPU */
  if (!quick) disk_copy_measure(b->ring.pattern, b->rates);
  return graph ? nodes_measure(b, graph, false, NULL, err) : HR_OK;
}

static hr_status rates_measure(hr_device *device, const hr_graph *graph, bool quick, hr_rates *out, hr_error *err) {
  hr__rates_default(&device->facts, out);
  bench b = {.device = device, .rates = out};
  double begin = seconds_now();
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
