/* The floor under a step: its own matrix products, run back to back through plain oneDNN.
 *
 * Takes the products that the ops of a recipe's step declare in their costs (those inside attention and the loss head
 * included), creates one whole oneDNN product for each shape and runs them in the order of the step, on oneDNN's own
 * OpenMP threads. Operands move through a ring of memory, so that they are as cold as weights and activations are in a
 * real step; products that an op repeats in blocks stay where they are, as they do in the kernel.
 *
 * "tight_seconds" is a harder floor: every product in the faster of two ways, on all threads or on one, where products
 * that an op repeats in blocks count as if each thread took its share of them.
 *
 *     bench_products RECIPE [KEY=VALUE ...]      prints {"seconds", "tight_seconds", "flops", "products", "shapes"}
 */
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dev/dtype.h"
#include "job/job.h"

enum { REPEATS = 7, SHAPES = 256 };
static const double ENOUGH_SECONDS = 10; /* of repeating one thing */
static const size_t ring_bytes = (size_t)256 << 20;

typedef struct shape {
  hr_product product;
  dnnl_primitive_t primitive[2]; /* created for one thread, for all threads */
  dnnl_memory_t a, b, c;
  size_t a_bytes, b_bytes, c_bytes;
  double seconds[2]; /* of one product, in either way */
} shape;

static shape shapes[SHAPES];
static int n_shapes;
static dnnl_engine_t engine;
static dnnl_stream_t stream;
static int threads;
static void (*openmp_threads)(int); /* NULL where oneDNN runs without OpenMP: both ways are then the same */

/* oneDNN decides at creation how many threads a product uses, and runs must agree with it. */
static void threads_set(int all) {
  if (openmp_threads) openmp_threads(all ? threads : 1);
}

static void check(dnnl_status_t status, const char *what) {
  if (status == dnnl_success) return;
  fprintf(stderr, "error: oneDNN could not %s (status %d)\n", what, (int)status);
  exit(1);
}

#if DNNL_VERSION_MAJOR >= 3
static void layout_create(dnnl_memory_desc_t *layout, const dnnl_dims_t dims, dnnl_data_type_t type,
                          const dnnl_dims_t strides) {
  check(dnnl_memory_desc_create_with_strides(layout, 2, dims, type, strides), "describe a matrix");
}
static dnnl_status_t sum_append(dnnl_post_ops_t sum) {
  return dnnl_post_ops_append_sum(sum, 1.0f, 0, dnnl_data_type_undef);
}
static dnnl_status_t matmul_describe(dnnl_primitive_desc_t *out, const dnnl_memory_desc_t *l,
                                     dnnl_primitive_attr_t attr) {
  return dnnl_matmul_primitive_desc_create(out, engine, l[0], l[1], NULL, l[2], attr);
}
#define LAYOUT(layout) (layout)
#else
static void layout_create(dnnl_memory_desc_t *layout, const dnnl_dims_t dims, dnnl_data_type_t type,
                          const dnnl_dims_t strides) {
  check(dnnl_memory_desc_init_by_strides(layout, 2, dims, type, strides), "describe a matrix");
}
static dnnl_status_t sum_append(dnnl_post_ops_t sum) {
  return dnnl_post_ops_append_sum(sum, 1.0f);
}
static dnnl_status_t matmul_describe(dnnl_primitive_desc_t *out, const dnnl_memory_desc_t *l,
                                     dnnl_primitive_attr_t attr) {
  dnnl_matmul_desc_t matmul;
  dnnl_status_t status = dnnl_matmul_desc_init(&matmul, &l[0], &l[1], NULL, &l[2]);
  return status == dnnl_success ? dnnl_primitive_desc_create(out, &matmul, attr, engine, NULL) : status;
}
#define LAYOUT(layout) (&(layout))
#endif

static void shape_create(shape *s) {
  const hr_product *p = &s->product;
  dnnl_data_type_t type = p->dtype == HR_BF16 ? dnnl_bf16 : dnnl_f32;
  dnnl_memory_desc_t layout[3];
  const dnnl_dims_t dims[3] = {{p->m, p->k}, {p->k, p->n}, {p->m, p->n}};
  const dnnl_dims_t strides[3] = {{p->transpose_a ? 1 : p->k, p->transpose_a ? p->m : 1},
                                  {p->transpose_b ? 1 : p->n, p->transpose_b ? p->k : 1},
                                  {p->n, 1}};
  for (int i = 0; i < 3; i++)
    layout_create(&layout[i], dims[i], type, strides[i]);
  dnnl_primitive_attr_t attr;
  check(dnnl_primitive_attr_create(&attr), "create attributes");
  if (p->accumulate) {
    dnnl_post_ops_t sum;
    check(dnnl_post_ops_create(&sum), "create post-ops");
    check(sum_append(sum), "add a sum");
    check(dnnl_primitive_attr_set_post_ops(attr, sum), "set post-ops");
    dnnl_post_ops_destroy(sum);
  }
  for (int all = 0; all < 2; all++) {
    threads_set(all);
    dnnl_primitive_desc_t description;
    check(matmul_describe(&description, layout, attr), "describe a product");
    check(dnnl_primitive_create(&s->primitive[all], description), "create a product");
    dnnl_primitive_desc_destroy(description);
  }
  check(dnnl_memory_create(&s->a, LAYOUT(layout[0]), engine, DNNL_MEMORY_NONE), "create memory");
  check(dnnl_memory_create(&s->b, LAYOUT(layout[1]), engine, DNNL_MEMORY_NONE), "create memory");
  check(dnnl_memory_create(&s->c, LAYOUT(layout[2]), engine, DNNL_MEMORY_NONE), "create memory");
  size_t element = hr_dtype_bytes(p->dtype);
  s->a_bytes = (size_t)(p->m * p->k) * element;
  s->b_bytes = (size_t)(p->k * p->n) * element;
  s->c_bytes = (size_t)(p->m * p->n) * element;
  dnnl_primitive_attr_destroy(attr);
}

static bool product_same(const hr_product *x, const hr_product *y) {
  return x->m == y->m && x->n == y->n && x->k == y->k && x->transpose_a == y->transpose_a &&
         x->transpose_b == y->transpose_b && x->accumulate == y->accumulate && x->dtype == y->dtype;
}

static int shape_of(const hr_product *product) {
  for (int i = 0; i < n_shapes; i++)
    if (product_same(&shapes[i].product, product)) return i;
  if (n_shapes == SHAPES) {
    fprintf(stderr, "error: more than %d shapes\n", SHAPES);
    exit(1);
  }
  shapes[n_shapes].product = *product;
  shape_create(&shapes[n_shapes]);
  return n_shapes++;
}

/* One entry per product of the step, in order. */
typedef struct entry {
  int shape;
  int64_t times;
} entry;

typedef struct sequence {
  entry *entries;
  size_t count, capacity;
  double flops;
} sequence;

static void sequence_add(sequence *list, const hr_product *product) {
  if (list->count == list->capacity) {
    list->capacity = list->capacity ? 2 * list->capacity : 256;
    list->entries = realloc(list->entries, list->capacity * sizeof *list->entries);
    if (!list->entries) exit(1);
  }
  list->entries[list->count++] = (entry){shape_of(product), product->times};
  list->flops += 2.0 * (double)product->m * (double)product->n * (double)product->k * (double)product->times;
}

static void sequence_program(sequence *list, const hr_graph *graph, const hr_program *program) {
  for (hr_id n = program->first; n < program->first + program->count; n++) {
    const hr_node *node = &graph->nodes[n];
    hr_desc *descs = calloc((size_t)(node->n_in + node->n_out), sizeof *descs);
    if (!descs) exit(1);
    hr_op_view view = hr__node_view(graph, node, descs);
    hr_cost cost = {0};
    node->op->cost(&view, &cost);
    for (int i = 0; i < cost.n_products; i++)
      sequence_add(list, &cost.products[i]);
    free(descs);
  }
}

/* One effective step: every program as often as a step runs it. */
static void sequence_step(sequence *list, const hr_job *job) {
  for (size_t p = 0; p < job->graph->n_programs; p++) {
    const hr_program *program = &job->graph->programs[p];
    int64_t runs = (int64_t)hr__program_runs(program, job->shape.accumulation);
    for (int64_t r = 0; r < runs; r++)
      sequence_program(list, job->graph, program);
  }
}

static char *ring, *ring_next;

static void *ring_take(size_t bytes) {
  bytes = (bytes + 63) & ~(size_t)63;
  if (ring_next + bytes > ring + ring_bytes) ring_next = ring;
  char *taken = ring_next;
  ring_next += bytes;
  return taken;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void shape_run(shape *s, int all, int64_t times) {
  dnnl_memory_set_data_handle(s->a, ring_take(s->a_bytes));
  dnnl_memory_set_data_handle(s->b, ring_take(s->b_bytes));
  dnnl_memory_set_data_handle(s->c, ring_take(s->c_bytes));
  dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->a}, {DNNL_ARG_WEIGHTS, s->b}, {DNNL_ARG_DST, s->c}};
  for (int64_t t = 0; t < times; t++)
    check(dnnl_primitive_execute(s->primitive[all], stream, 3, args), "run a product");
}

static void sequence_run(const sequence *list) {
  threads_set(1);
  for (size_t i = 0; i < list->count; i++)
    shape_run(&shapes[list->entries[i].shape], 1, list->entries[i].times);
  check(dnnl_stream_wait(stream), "wait");
}

/* The best of a few runs of each shape, either way. */
static void shapes_time(void) {
  for (int i = 0; i < n_shapes; i++)
    for (int all = 0; all < 2; all++) {
      threads_set(all);
      shapes[i].seconds[all] = 1e30;
      double begin = now();
      for (int r = 0; r < REPEATS && (r < 2 || now() - begin < ENOUGH_SECONDS / 10); r++) {
        double start = now();
        shape_run(&shapes[i], all, 4);
        double each = (now() - start) / 4;
        if (each < shapes[i].seconds[all]) shapes[i].seconds[all] = each;
      }
    }
}

static double sequence_tight(const sequence *list) {
  double seconds = 0;
  for (size_t i = 0; i < list->count; i++) {
    const shape *s = &shapes[list->entries[i].shape];
    double one = list->entries[i].times > 1 ? s->seconds[0] / threads : s->seconds[0];
    seconds += (double)list->entries[i].times * (one < s->seconds[1] ? one : s->seconds[1]);
  }
  return seconds;
}

static int double_order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: bench_products RECIPE [KEY=VALUE ...]\n");
    return 2;
  }
  hr_job_source source = {argv[1], (const char *const *)argv + 2, (size_t)argc - 2};
  hr_job *job = NULL;
  hr_error err = {0};
  if (hr__job_open(&source, &job, &err) != HR_OK) {
    fprintf(stderr, "error: %s\n", err.message);
    return 1;
  }
  threads = job->facts.threads;
  *(void **)&openmp_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
  check(dnnl_engine_create(&engine, dnnl_cpu, 0), "create its engine");
  check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "create a stream");
  ring = aligned_alloc(64, ring_bytes);
  if (!ring) return 1;
  ring_next = ring;
  /* Small numbers: 0x3c00 is below 0.01 both as bf16 and as the upper half of an f32. */
  for (size_t i = 0; i < ring_bytes / 2; i++)
    ((uint16_t *)(void *)ring)[i] = 0x3c00;

  sequence list = {0};
  sequence_step(&list, job);
  double seconds[REPEATS];
  sequence_run(&list); /* warms up */
  int rounds = 0;
  for (double begin = now(); rounds < REPEATS && (rounds < 3 || now() - begin < ENOUGH_SECONDS); rounds++) {
    double start = now();
    sequence_run(&list);
    seconds[rounds] = now() - start;
  }
  qsort(seconds, (size_t)rounds, sizeof seconds[0], double_order);
  shapes_time();
  printf("{\"seconds\": %.9f, \"tight_seconds\": %.9f, \"flops\": %.0f, \"products\": %zu, \"shapes\": %d}\n",
         seconds[rounds / 2], sequence_tight(&list), list.flops, list.count, n_shapes);
  for (int i = 0; i < n_shapes; i++) {
    for (int all = 0; all < 2; all++)
      dnnl_primitive_destroy(shapes[i].primitive[all]);
    dnnl_memory_destroy(shapes[i].a);
    dnnl_memory_destroy(shapes[i].b);
    dnnl_memory_destroy(shapes[i].c);
  }
  dnnl_stream_destroy(stream);
  dnnl_engine_destroy(engine);
  free(list.entries);
  free(ring);
  hr__job_close(job);
  return 0;
}
