/* Measuring the nodes of a graph as they are, each kind once. See measuring.h and measure.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/measure.h"
#include "measure/measuring.h"

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

/* Bit i: input i is gone after node `id`, as far as a plan sees it. */
static uint32_t dead_inputs(const hr_graph *graph, hr_id id) {
  const hr_node *node = &graph->nodes[id];
  const hr_program *program = &graph->programs[node->program];
  uint32_t dead = 0;
  for (int i = 0; i < node->n_in && i < 32; i++) {
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

static hr_status kinds_time(kinds *k, hr_measuring *b, const hr_graph *graph, hr_error *err) {
  double begin = hr__seconds_now();
  for (int round = 0; round < (b->device->facts.kind == HR_CPU ? ROUNDS : 1); round++)
    for (size_t i = 0; i < k->count && hr__seconds_now() - begin < nodes_seconds; i++) {
      kind *item = &k->items[i];
      hr_op_view view = hr__node_view(graph, &graph->nodes[item->node], k->storage);
      hr_status status = hr__bench_node(&b->ring, item->rate.op, &view, item->dead, item->rate.threads,
                                        &item->times[item->count], err);
      if (hr__measuring_left_out(b, status)) continue;
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
    qsort(item->times, (size_t)item->count, sizeof item->times[0], hr__seconds_ascending);
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

hr_status hr__measuring_nodes(hr_measuring *b, const hr_graph *graph, bool missing, double *seconds, hr_error *err) {
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
  hr_measuring b = {.device = device, .rates = rates};
  HR_TRY(hr__bench_ring_create(device, &b.ring, err));
  hr_status status = hr__measuring_nodes(&b, graph, missing, seconds, err);
  hr__bench_ring_destroy(&b.ring);
  return status;
}

/* --- nodes that were not measured yet ----------------------------------------------------------------------------- */

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
