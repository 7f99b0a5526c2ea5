/* From an op's cost to seconds.
 *
 * A node that was measured as it is takes what was measured. Any other:
 *
 * seconds = overhead + products + max(other flops / rate, other bytes / rate)
 *
 * A product's time is what was measured for that very shape; failing that, a smooth model of the rate over (m, n, k),
 * corrected by how far the nearest measured shapes lie off that model. Numbers of threads between one and all are
 * interpolated in the logarithm.
 */
#include "plan/rates.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "dev/gpus.h"

enum { NEIGHBOURS = 4 };

/* --- defaults --------------------------------------------------------------------------------------------------- */

/* By class, of one thread; memory-bound work gains less than twofold from a second core, and waking it costs
 * microseconds. */
static const hr_class_rate cpu_defaults[HR_CLASS_COUNT] = {
#define HR_COST_CLASS(name, text, flops, bytes, launch, gpu_flops, gpu_bytes) {flops, bytes, launch},
#include "graph/classes.def"
#undef HR_COST_CLASS
};
/* By class, shares of a GPU's f32 flops and of its bandwidth as programs reach it. */
static const struct {
  double flops, bytes;
} gpu_shares[HR_CLASS_COUNT] = {
#define HR_COST_CLASS(name, text, flops, bytes, launch, gpu_flops, gpu_bytes) {gpu_flops, gpu_bytes},
#include "graph/classes.def"
#undef HR_COST_CLASS
};
/* Products of bf16 against those of f32. Instructions for bf16 multiply two pairs where those of f32 multiply one;
 * without them bf16 is converted and multiplied as f32 (dev/cpu/gemm.h), and the conversions hardly count. */
static const double narrow_products_share = 2.0, converted_products_share = 1.0;
/* One thread's copy in memory; a solid-state disk. */
static const hr_copy_rates copy_defaults = {6e9, 6e9, 1.5e9, 1e9, 10e-6};

/* What programs reach of a vendor's figures, as measured on the H200: products 790 of 989 TFLOP/s in bf16, copies 4.0
 * to 4.3 of 4.8 TB/s, attention forward and backward 230 of 989. A node of a recorded graph starts about 2 us after the
 * one before it has. */
static const double product_share = 0.8, memory_share = 0.86, attention_16_share = 0.23;
static const double launch_seconds = 2e-6, copy_seconds = 5e-6, program_seconds = 60e-6;

/* For names that are not in the catalogue: a data-centre GPU of the last years. */
static const hr_gpu gpu_unknown = {.memory_bytes_per_second = 1.5e12,
                                   .f32_flops_per_second = 19.5e12,
                                   .bf16_flops_per_second = 312e12,
                                   .f16_flops_per_second = 312e12,
                                   .host_bytes_per_second = 24e9};

static void gpu_default(const hr_facts *facts, hr_rates *rates) {
  const hr_gpu *gpu = hr__gpu_like(facts);
  if (!gpu) gpu = &gpu_unknown;
  double f32 = gpu->f32_flops_per_second, bytes = memory_share * gpu->memory_bytes_per_second;
  double bf16 = gpu->bf16_flops_per_second > 0 ? gpu->bf16_flops_per_second : f32; /* without units for it */
  double f16 = gpu->f16_flops_per_second > 0 ? gpu->f16_flops_per_second : f32;
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    rates->classes[c][0] = rates->classes[c][1] =
        (hr_class_rate){gpu_shares[c].flops * f32, gpu_shares[c].bytes * bytes, launch_seconds};
  rates->gpu.product_flops[HR_F32] = product_share * f32;
  rates->gpu.product_flops[HR_BF16] = product_share * bf16;
  rates->gpu.product_flops[HR_F16] = product_share * f16;
  rates->gpu.attention_16 = (hr_class_rate){attention_16_share * fmax(bf16, f16), bytes, launch_seconds};
  rates->gpu.program_seconds = program_seconds;
  rates->copies.host_bytes_per_second = rates->copies.host_alone_bytes_per_second = gpu->host_bytes_per_second;
  rates->copies.overhead_seconds = copy_seconds;
}

void hr__rates_default(const hr_facts *facts, hr_rates *rates) {
  memset(rates, 0, sizeof *rates);
  hr__arena_init(&rates->arena);
  rates->kind = facts->kind;
  rates->copies = copy_defaults;
  rates->threads = facts->kind == HR_CPU && facts->threads > 1 ? facts->threads : 1;
  if (facts->kind == HR_CUDA) {
    gpu_default(facts, rates);
    return;
  }
  rates->bf16_products = facts->narrow_products ? narrow_products_share : converted_products_share;
  double more = rates->threads - 1;
  for (int c = 0; c < HR_CLASS_COUNT; c++) {
    hr_class_rate one = cpu_defaults[c], all = one;
    if (rates->threads > 1) {
      all.flops_per_second *= 1 + 0.85 * more;
      all.bytes_per_second *= 1 + 0.7 * (more < 7 ? more : 7); /* few cores fill the memory bus */
      all.overhead_seconds += 5e-6;
    }
    rates->classes[c][0] = one;
    rates->classes[c][1] = all;
  }
}

void hr__rates_fini(hr_rates *rates) {
  hr__arena_fini(&rates->arena);
  memset(rates, 0, sizeof *rates);
}

static bool product_same_kind(const hr_product *a, const hr_product *b) {
  return a->dtype == b->dtype && a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b &&
         a->accumulate == b->accumulate;
}

static bool product_same_shape(const hr_product *a, const hr_product *b) {
  return a->m == b->m && a->n == b->n && a->k == b->k;
}

static bool measured_on_all(const hr_rates *rates, const hr_product_rate *measured) {
  return measured->threads == 0 || measured->threads == rates->threads;
}

hr_status hr__rates_add(hr_rates *rates, const hr_product_rate *measured, hr_error *err) {
  for (size_t i = 0; i < rates->n_products; i++) {
    hr_product_rate *has = &rates->products[i];
    if (has->threads != measured->threads || !product_same_kind(&has->product, &measured->product) ||
        !product_same_shape(&has->product, &measured->product))
      continue;
    *has = *measured;
    return HR_OK;
  }
  if (hr__arena_grow(&rates->arena, (void **)&rates->products, &rates->cap_products, rates->n_products,
                     sizeof *rates->products) != 0)
    return hr__nomem(err);
  rates->products[rates->n_products++] = *measured;
  return HR_OK;
}

/* --- measured nodes --------------------------------------------------------------------------------------------- */

/* Folds `bytes` into a key. */
static void key_fold(char key[HR_XXH_HEX], const void *data, size_t bytes) {
  char both[HR_XXH_HEX + sizeof(int64_t) * (HR_RANK + 2)] = {0};
  memcpy(both, key, HR_XXH_HEX);
  memcpy(both + HR_XXH_HEX, data, bytes);
  hr__xxh128_hex(both, HR_XXH_HEX + bytes, key);
}

/* Field by field: what lies between fields is undefined. */
static void key_fold_desc(char key[HR_XXH_HEX], const hr_desc *desc) {
  int64_t words[HR_RANK + 2] = {desc->rank > 0 ? (int64_t)desc->dtype : 0, desc->rank};
  for (int d = 0; d < desc->rank; d++)
    words[2 + d] = desc->dim[d];
  key_fold(key, words, sizeof words);
}

static void key_fold_product(char key[HR_XXH_HEX], const hr_product *p) {
  int64_t words[] = {p->m, p->n, p->k, p->times, p->transpose_a, p->transpose_b, p->accumulate, (int64_t)p->dtype};
  key_fold(key, words, sizeof words);
}

void hr__rates_key(const hr_op *op, const hr_op_view *view, char key[HR_XXH_HEX]) {
  hr_cost cost = {0};
  hr_op_view anywhere = *view; /* a key says what a node is, not where it runs */
  anywhere.kind = HR_CPU;
  op->cost(&anywhere, &cost);
  hr__xxh128_hex(op->name, strlen(op->name), key);
  int64_t counts[] = {view->n_in, view->n_out, cost.n_products};
  key_fold(key, counts, sizeof counts);
  for (int i = 0; i < view->n_in; i++)
    key_fold_desc(key, &view->in[i]);
  for (int j = 0; j < view->n_out; j++)
    key_fold_desc(key, &view->out[j]);
  for (int p = 0; p < cost.n_products; p++)
    key_fold_product(key, &cost.products[p]);
  double work[] = {cost.flops, cost.bytes};
  key_fold(key, work, sizeof work);
}

const hr_op_rate *hr__rates_find_op(const hr_rates *rates, const char *key, int threads) {
  for (size_t i = 0; i < rates->n_ops; i++)
    if (rates->ops[i].threads == threads && strcmp(rates->ops[i].key, key) == 0) return &rates->ops[i];
  return NULL;
}

hr_status hr__rates_add_op(hr_rates *rates, const hr_op_rate *measured, hr_error *err) {
  const hr_op_rate *has = hr__rates_find_op(rates, measured->key, measured->threads);
  if (has) {
    rates->ops[has - rates->ops] = *measured;
    return HR_OK;
  }
  if (rates->n_ops == HR_RATES_OPS) return HR_OK;
  if (hr__arena_grow(&rates->arena, (void **)&rates->ops, &rates->cap_ops, rates->n_ops, sizeof *rates->ops) != 0)
    return hr__nomem(err);
  rates->ops[rates->n_ops++] = *measured;
  return HR_OK;
}

/* --- products --------------------------------------------------------------------------------------------------- */

static double product_flops(const hr_product *product) {
  return 2.0 * (double)product->m * (double)product->n * (double)product->k;
}

/* Short sides leave vector lanes and tiles half empty: the rate of a large product, times a loss per side. On a GPU
 * tiles are larger, and a thin product takes as long as its matrices take to be read and written. */
static double product_model(const hr_rates *rates, const hr_product *product, bool all) {
  const hr_class_rate *rate = &rates->classes[HR_CLASS_PRODUCT][all];
  double m = (double)product->m, n = (double)product->n, k = (double)product->k;
  if (rates->kind == HR_CPU) {
    double share = product->dtype == HR_BF16 ? rates->bf16_products : 1.0;
    return product_flops(product) / (share * rate->flops_per_second * m / (m + 6) * n / (n + 24) * k / (k + 32));
  }
  double peak = rates->gpu.product_flops[product->dtype];
  if (!(peak > 0)) peak = rate->flops_per_second;
  double reached = peak * m / (m + 96) * n / (n + 96) * k / (k + 128);
  double bytes = (m * k + k * n + m * n * (product->accumulate ? 2 : 1)) * (double)hr_dtype_bytes(product->dtype);
  return fmax(product_flops(product) / reached, bytes / rate->bytes_per_second);
}

/* Both 16-bit types go through the same units of a GPU at the same rate: one of them was measured. */
static hr_dtype product_kin(const hr_rates *rates, hr_dtype dtype) {
  return rates->kind == HR_CUDA && dtype == HR_F16 ? HR_BF16 : dtype;
}

typedef struct neighbour {
  double distance; /* in doublings of m, n, k; other layouts and types count as further away */
  double off;      /* log of measured / model */
} neighbour;

static double product_distance(const hr_product *a, const hr_product *b) {
  double m = log2((double)a->m / (double)b->m), n = log2((double)a->n / (double)b->n);
  double k = log2((double)a->k / (double)b->k), far = 0;
  if (a->transpose_a != b->transpose_a) far += 4;
  if (a->transpose_b != b->transpose_b) far += 4;
  if (a->accumulate != b->accumulate) far += 0.25;
  return m * m + n * n + k * k + far;
}

/* Nearest measured shapes of the same type on one thread, or on all; nearest first. */
static int neighbours_find(const hr_rates *rates, const hr_product *product, bool all, neighbour *found) {
  int count = 0;
  for (size_t i = 0; i < rates->n_products; i++) {
    const hr_product_rate *measured = &rates->products[i];
    bool fits = all ? measured_on_all(rates, measured) : measured->threads == 1;
    if (!fits || product_kin(rates, measured->product.dtype) != product_kin(rates, product->dtype)) continue;
    double distance = product_distance(product, &measured->product);
    if (count == NEIGHBOURS && distance >= found[count - 1].distance) continue;
    int at = count < NEIGHBOURS ? count++ : count - 1;
    for (; at > 0 && found[at - 1].distance > distance; at--)
      found[at] = found[at - 1];
    double model = product_model(rates, &measured->product, all);
    found[at] = (neighbour){distance, log(measured->seconds / model)};
  }
  return count;
}

/* One product on one thread or on all. */
static double product_seconds(const hr_rates *rates, const hr_product *product, bool all) {
  if (product->m <= 0 || product->n <= 0 || product->k <= 0) return 0;
  neighbour found[NEIGHBOURS];
  int count = neighbours_find(rates, product, all, found);
  double model = product_model(rates, product, all);
  if (count == 0) return model;
  if (found[0].distance == 0) return model * exp(found[0].off);
  double weight = 0, off = 0;
  for (int i = 0; i < count; i++) {
    double w = 1 / found[i].distance;
    weight += w;
    off += w * found[i].off;
  }
  return model * exp(off / weight);
}

/* --- ops -------------------------------------------------------------------------------------------------------- */

static const hr_class_rate *class_rate(const hr_rates *rates, const hr_cost *cost, bool all) {
  if (rates->kind == HR_CUDA && cost->op_class == HR_CLASS_ATTENTION && cost->narrow) return &rates->gpu.attention_16;
  return &rates->classes[cost->op_class][all];
}

static double cost_seconds(const hr_rates *rates, const hr_cost *cost, bool all) {
  const hr_class_rate *rate = class_rate(rates, cost, all);
  double seconds = 0, flops = cost->flops;
  for (int i = 0; i < cost->n_products; i++) {
    double times = (double)cost->products[i].times;
    seconds += times * product_seconds(rates, &cost->products[i], all);
    flops -= times * product_flops(&cost->products[i]);
  }
  double arithmetic = flops > 0 ? flops / rate->flops_per_second : 0;
  double traffic = cost->bytes / rate->bytes_per_second;
  return rate->overhead_seconds + seconds + (arithmetic > traffic ? arithmetic : traffic);
}

/* Between one thread and all: straight in the logarithms. */
static double threads_between(const hr_rates *rates, double one, double all, int threads) {
  double share = log((double)threads) / log((double)rates->threads);
  return exp((1 - share) * log(one) + share * log(all));
}

double hr__rates_seconds(const hr_rates *rates, const hr_cost *cost, int threads) {
  if (threads <= 1 || rates->threads <= 1) return cost_seconds(rates, cost, false);
  double all = cost_seconds(rates, cost, true);
  if (threads >= rates->threads) return all;
  return threads_between(rates, cost_seconds(rates, cost, false), all, threads);
}

int hr__rates_threads(const hr_rates *rates, const hr_cost *cost, int available) {
  if (available > rates->threads) available = rates->threads;
  int best = 1;
  double best_seconds = hr__rates_seconds(rates, cost, 1);
  for (int threads = 2; best < available && threads / 2 < available; threads *= 2) {
    int tried = threads < available ? threads : available;
    double seconds = hr__rates_seconds(rates, cost, tried);
    if (seconds > 0.95 * best_seconds) continue; /* a gain within the error of the rates is none */
    best = tried;
    best_seconds = seconds;
  }
  return best;
}

int hr__rates_node(const hr_rates *rates, const hr_op *op, const hr_op_view *view, int available, double *seconds) {
  const hr_op_rate *one = NULL, *all = NULL;
  if (rates->n_ops > 0) {
    char key[HR_XXH_HEX];
    hr__rates_key(op, view, key);
    one = hr__rates_find_op(rates, key, 1);
    all = hr__rates_find_op(rates, key, rates->threads);
  }
  if (!one || !all) {
    hr_cost cost = {0};
    hr_op_view here = *view;
    here.kind = rates->kind;
    op->cost(&here, &cost);
    int threads = hr__rates_threads(rates, &cost, available);
    *seconds = hr__rates_seconds(rates, &cost, threads);
    /* Measured ones have their share of a launch in them. */
    if (rates->kind == HR_CUDA && op->grouped && view->follows)
      *seconds -= class_rate(rates, &cost, false)->overhead_seconds;
    return threads;
  }
  *seconds = one->seconds;
  if (available > rates->threads) available = rates->threads;
  /* Alone only where that is clearly faster: a disturbed measurement must not take a core away for good. */
  if (available <= 1 || one->seconds < 0.85 * all->seconds) return 1;
  *seconds = threads_between(rates, one->seconds, all->seconds, available);
  return available;
}
