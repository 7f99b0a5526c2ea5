/* Measuring: every case of the bench runs and times are sound; nodes of a graph are found again exactly, also out of
 * the cache file, and nodes of other shapes are not. The whole grid takes long: HR_TEST_MEASURE=1 runs it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "measure/bench.h"
#include "measure/measure.h"
#include "op/attention.h"
#include "part_net.h"
#include "support/faults.h"

static void test_cases(void **state) {
  (void)state;
  hr_device *device;
  hr_error err = {0};
  assert_int_equal(hr__cpu_open(&device, &err), HR_OK);
  hr_bench_ring ring;
  assert_int_equal(hr__bench_ring_create(device, &ring, &err), HR_OK);
  size_t count;
  const hr_bench_case *cases = hr__bench_cases(HR_CPU, &count);
  bool classes[HR_CLASS_COUNT] = {false};
  for (size_t i = 0; i < count; i++) {
    double seconds = 0;
    hr_cost cost;
    hr_status status = hr__bench_op(&ring, &cases[i], device->facts.threads, &seconds, &cost, &err);
    if (status != HR_OK) fail_msg("%s: %s", cases[i].op->name, err.message);
    if (!(seconds > 0 && seconds < 30)) fail_msg("%s took %g s", cases[i].op->name, seconds);
    assert_int_equal(cost.op_class, cases[i].op_class);
    classes[cost.op_class] = true;
  }
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    assert_true(classes[c]);
  hr__bench_ring_destroy(&ring);
  hr__device_close(device);
}

/* Attention to samples with lengths is timed with all positions there, not with none. */
static void test_lengths_are_full(void **state) {
  (void)state;
  hr_device *device;
  hr_error err = {0};
  assert_int_equal(hr__cpu_open(&device, &err), HR_OK);
  hr_bench_ring ring;
  assert_int_equal(hr__bench_ring_create(device, &ring, &err), HR_OK);
  static const hr_attention_args args = {
      .heads = 4, .kv_heads = 4, .head_dim = 32, .scale = 0.2f, .bidirectional = true};
  hr_bench_case cases[2] = {
      {.op = &hr_op_attention, .n_in = HR_ATTENTION_IN, .in = {{HR_F32, 3, {2, 256, 3 * 128}}}, .args = &args}};
  cases[1] = cases[0];
  cases[1].in[3] = (hr_desc){HR_I32, 1, {2}};
  double least[2] = {1e9, 1e9}, seconds; /* of three, by turns: another program may be in the way of one */
  hr_cost cost;
  for (int i = 0; i < 6; i++) {
    if (hr__bench_op(&ring, &cases[i % 2], 1, &seconds, &cost, &err) != HR_OK) fail_msg("%s", err.message);
    if (seconds < least[i % 2]) least[i % 2] = seconds;
  }
  if (least[1] < least[0] / 4) fail_msg("%g s with lengths, %g s without", least[1], least[0]);
  hr__bench_ring_destroy(&ring);
  hr__device_close(device);
}

static void test_products(void **state) {
  (void)state;
  hr_device *device;
  hr_error err = {0};
  assert_int_equal(hr__cpu_open(&device, &err), HR_OK);
  for (int t = 0; t < 8; t++) {
    hr_dtype dtype = t & 4 ? HR_BF16 : HR_F32;
    hr_gemm_spec spec = {.m = 48,
                         .n = 80,
                         .k = 32,
                         .transpose_a = t & 1,
                         .transpose_b = t & 2,
                         .ldc = 80,
                         .lda = t & 1 ? 48 : 32,
                         .ldb = t & 2 ? 32 : 80,
                         .a = dtype,
                         .b = dtype,
                         .c = dtype};
    double seconds = 0;
    assert_int_equal(hr__bench_product(device, &spec, 1, &seconds, &err), HR_OK);
    assert_true(seconds > 0 && seconds < 10);
  }
  assert_true(hr__bench_dispatch(device, device->facts.threads) >= 0);
  hr__device_close(device);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static char cache_folder[] = "/tmp/headroom-measure-XXXXXX";

static int cache_open(void **state) {
  (void)state;
  return mkdtemp(cache_folder) && setenv("XDG_CACHE_HOME", cache_folder, 1) == 0 ? 0 : -1;
}

static int cache_close(void **state) {
  (void)state;
  hr_device *device;
  hr_error err = {0};
  hr_arena arena;
  hr__arena_init(&arena);
  if (hr__cpu_open(&device, &err) != HR_OK) return -1;
  const char *path = hr__rates_path(&device->facts, &arena);
  (void)unlink(path);
  char *folder = hr__arena_text(&arena, path);
  *strrchr(folder, '/') = '\0';
  int status = rmdir(folder) == 0 && rmdir(cache_folder) == 0 ? 0 : -1;
  hr__device_close(device);
  hr__arena_fini(&arena);
  return status;
}

/* Seconds of the graph's first node, a layer, with `rows` rows of input. */
static double layer_seconds(const net *n, const hr_rates *rates, int64_t rows, int *threads) {
  hr_desc descs[8];
  hr_op_view view = hr__node_view(n->graph, &n->graph->nodes[0], descs);
  descs[0].dim[0] = rows;
  descs[view.n_in].dim[0] = rows;
  double seconds;
  *threads = hr__rates_node(rates, n->graph->nodes[0].op, &view, rates->threads, &seconds);
  return seconds;
}

static void test_nodes(void **state) {
  (void)state;
  for (int narrow = 0; narrow < 2; narrow++) {
    net n;
    hr_error err = {0};
    net_open(&n, narrow ? HR_BF16 : HR_F32);
    hr_rates loaded;
    int threads, by_class;
    double other = layer_seconds(&n, &n.rates, 5, &by_class);
    assert_int_equal(hr__measure_missing(n.device, n.graph, &n.rates, &err), HR_OK);
    assert_int_equal(n.rates.n_ops, 3 * (n.rates.threads > 1 ? 2 : 1)); /* two layers and the error */
    for (size_t i = 0; i < n.rates.n_ops; i++) {
      assert_true(n.rates.ops[i].seconds > 0 && n.rates.ops[i].seconds < 1);
      n.rates.ops[i].seconds = n.rates.ops[i].threads == 1 ? 3.0 : 2.0; /* nothing else gives such times */
    }
    double faster = n.rates.threads > 1 ? 2.0 : 3.0;
    assert_float_equal(layer_seconds(&n, &n.rates, 4, &threads), faster, 1e-9);
    assert_int_equal(threads, n.rates.threads);
    assert_true(layer_seconds(&n, &n.rates, 5, &threads) == other);
    assert_int_equal(threads, by_class);

    assert_int_equal(hr__rates_save(&n.device->facts, &n.rates, &err), HR_OK);
    assert_int_equal(hr__rates_load(&n.device->facts, &loaded, &err), HR_OK);
    assert_int_equal(loaded.n_ops, n.rates.n_ops);
    for (size_t i = 0; i < loaded.n_ops; i++) {
      assert_ptr_equal(loaded.ops[i].op, n.rates.ops[i].op);
      assert_string_equal(loaded.ops[i].key, n.rates.ops[i].key);
    }
    assert_float_equal(layer_seconds(&n, &loaded, 4, &threads), faster, 1e-9);
    hr__rates_fini(&loaded);
    net_close(&n);
  }
}

/* --- as on a GPU -------------------------------------------------------------------------------------------------- */

/* The CPU in the clothes of a GPU: kernels by name, memory through arenas, time through recordings. */
static const hr_kernel *named_kernel(hr_device *device, const char *name) {
  (void)device;
  const hr_op *op = hr__op_find(name);
  return op ? &op->cpu : NULL;
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* As a GPU it lags behind its callers: replays wait in a queue until a mark behind them is to be reached. */
enum { QUEUE = 4096 };
typedef struct lagging {
  size_t place;   /* of a mark in the queue */
  double reached; /* when the device came there */
} lagging;
static struct queue {
  const hr_device_functions *cpu;
  hr_recording *items[QUEUE]; /* NULL: a mark */
  lagging *at[QUEUE];         /* the mark */
  size_t count, done, marks;
} queue;

static hr_status lagging_replay(hr_device *device, hr_recording *recording, size_t *failed) {
  (void)device;
  *failed = 0;
  assert_true(queue.count < QUEUE);
  queue.items[queue.count++] = recording;
  return HR_OK;
}

static hr_status queue_run(hr_device *device, size_t until) {
  for (; queue.done < until; queue.done++) {
    size_t failed;
    if (queue.items[queue.done])
      HR_TRY(queue.cpu->replay(device, queue.items[queue.done], &failed));
    else
      queue.at[queue.done]->reached = seconds_now();
  }
  return HR_OK;
}

static hr_status lagging_synchronize(hr_device *device, hr_error *err) {
  (void)err;
  HR_TRY(queue_run(device, queue.count));
  queue.count = queue.done = 0;
  return HR_OK;
}

static hr_status lagging_mark(hr_device *device, hr_mark **mark, hr_error *err) {
  (void)device, (void)err;
  if (!*mark) {
    *mark = malloc(sizeof(lagging));
    queue.marks++;
  }
  assert_true(queue.count < QUEUE);
  queue.at[queue.count] = (lagging *)(void *)*mark;
  queue.items[queue.count++] = NULL;
  *(lagging *)(void *)*mark = (lagging){.place = queue.count};
  return HR_OK;
}

static hr_status lagging_reach(hr_device *device, hr_mark *mark, hr_error *err) {
  (void)err;
  return queue_run(device, ((const lagging *)(const void *)mark)->place);
}

static hr_status lagging_between(hr_device *device, hr_mark *from, hr_mark *to, double *seconds, hr_error *err) {
  (void)device, (void)err;
  const lagging *begin = (const void *)from, *end = (const void *)to;
  assert_true(begin->place <= end->place && end->place <= queue.done);
  *seconds = end->reached - begin->reached;
  return HR_OK;
}

static void lagging_mark_destroy(hr_device *device, hr_mark *mark) {
  (void)device;
  free(mark);
  queue.marks--;
}

static void lag_behind(hr_device_functions *functions, const hr_device *device) {
  queue = (struct queue){.cpu = device->functions};
  functions->replay = lagging_replay;
  functions->synchronize = lagging_synchronize;
  functions->mark = lagging_mark;
  functions->reach = lagging_reach;
  functions->between = lagging_between;
  functions->mark_destroy = lagging_mark_destroy;
}

static void recorded_nodes(bool lags) {
  net n;
  hr_error err = {0};
  net_open(&n, HR_F32);
  hr_device_functions functions = *n.device->functions;
  functions.kernel = named_kernel;
  if (lags) lag_behind(&functions, n.device);
  hr_device gpu = *n.device;
  gpu.functions = &functions;
  gpu.facts.kind = HR_CUDA;
  gpu.facts.threads = 1;
  gpu.facts.memory_bytes = (uint64_t)1 << 30;
  strcpy(gpu.facts.name, "NVIDIA H200");
  hr_rates rates;
  hr__rates_default(&gpu.facts, &rates);
  assert_int_equal(hr__measure_missing(&gpu, n.graph, &rates, &err), HR_OK);
  assert_int_equal(rates.n_ops, 3);
  for (size_t i = 0; i < rates.n_ops; i++)
    assert_true(rates.ops[i].seconds > 0 && rates.ops[i].seconds < 1);
  hr__rates_fini(&rates);

  /* all that is too large for the memory is left out */
  double seconds[16] = {1};
  assert_true(n.graph->n_nodes <= 16);
  gpu.facts.memory_bytes = 1000;
  assert_int_equal(hr__measure_each(&gpu, n.graph, seconds, &err), HR_OK);
  for (size_t i = 0; i < n.graph->n_nodes; i++)
    assert_true(seconds[i] == 0);

  /* only what is missing, and what cannot be measured as it is planned: nothing is missing afterwards */
  for (int large = 0; large < 2; large++) {
    bool lacks = false;
    gpu.facts.memory_bytes = large ? 1000 : (uint64_t)1 << 30;
    hr__rates_default(&gpu.facts, &rates);
    assert_int_equal(hr__measure_lacks(n.graph, &rates, &lacks, &err), HR_OK);
    assert_true(lacks);
    assert_int_equal(hr__measure_missing(&gpu, n.graph, &rates, &err), HR_OK);
    assert_int_equal(rates.n_ops, 3);
    assert_int_equal(hr__measure_lacks(n.graph, &rates, &lacks, &err), HR_OK);
    assert_false(lacks);
    rates.ops[1].seconds = 17; /* stays: it is known */
    assert_int_equal(hr__measure_missing(&gpu, n.graph, &rates, &err), HR_OK);
    assert_true(rates.n_ops == 3 && rates.ops[1].seconds == 17);
    hr__rates_fini(&rates);
  }
  assert_int_equal(queue.marks, 0);

  if (getenv("HR_TEST_MEASURE")) { /* a layer of 1 B parameters takes the CPU a while */
    gpu.facts.memory_bytes = (uint64_t)8 << 30;
    assert_int_equal(hr__measure_quick(&gpu, &rates, &err), HR_OK);
    assert_true(rates.measured && rates.n_products >= 1 && rates.gpu.product_flops[HR_BF16] < 10e12);
    assert_true(rates.copies.host_bytes_per_second > 1e8);
    assert_true(rates.copies.host_alone_bytes_per_second >= rates.copies.host_bytes_per_second);
    assert_true(rates.gpu.program_seconds < 1);
    hr__rates_fini(&rates);
  }
  net_close(&n);
}

static void test_recorded_nodes(void **state) {
  (void)state;
  recorded_nodes(false);
}

static void test_recorded_nodes_with_a_clock(void **state) {
  (void)state;
  recorded_nodes(true);
}

/* A file with one wrong entry is not believed at all. */
static void test_damaged_file(void **state) {
  (void)state;
  static const struct {
    const char *name, *key;
    double seconds;
  } entries[] = {
      {"linear", "0123456789abcdef0123456789abcdef", 1.0}, /* a good one */
      {"linear", "0123456789abcdef0123456789abcdeF", 1.0},  {"linear", "0123456789abcdef0123456789abcde", 1.0},
      {"linear", "0123456789abcdef0123456789abcdef", -1.0}, {"lin", "0123456789abcdef0123456789abcdef", 1.0},
  };
  hr_device *device;
  hr_error err = {0};
  assert_int_equal(hr__cpu_open(&device, &err), HR_OK);
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
    hr_rates rates;
    hr__rates_default(&device->facts, &rates);
    hr_op op = {.name = entries[i].name};
    hr_op_rate rate = {.op = &op, .seconds = entries[i].seconds, .threads = 1};
    strcpy(rate.key, entries[i].key);
    assert_int_equal(hr__rates_add_op(&rates, &rate, &err), HR_OK);
    assert_int_equal(hr__rates_save(&device->facts, &rates, &err), HR_OK);
    hr__rates_fini(&rates);
    assert_int_equal(hr__rates_load(&device->facts, &rates, &err), HR_OK);
    assert_int_equal(rates.measured, i == 0);
    assert_int_equal(rates.n_ops, i == 0);
    hr__rates_fini(&rates);
  }
  hr__device_close(device);
}

static hr_status file_body(void *arg, hr_error *err) {
  const hr_facts *facts = arg;
  hr_rates rates;
  hr__rates_default(facts, &rates);
  hr_op_rate rate = {
      .op = hr__op_find("linear"), .key = "0123456789abcdef0123456789abcdef", .seconds = 1, .threads = 1};
  hr_status status = hr__rates_add_op(&rates, &rate, err);
  if (status == HR_OK) status = hr__rates_save(facts, &rates, err);
  hr__rates_fini(&rates);
  HR_TRY(status);
  status = hr__rates_load(facts, &rates, err);
  if (status == HR_OK && rates.n_ops != 1) status = HR_BAD_INPUT;
  hr__rates_fini(&rates);
  return status;
}

static void test_file_faults(void **state) {
  (void)state;
  hr_device *device;
  hr_error err = {0};
  assert_int_equal(hr__cpu_open(&device, &err), HR_OK);
  assert_true(hr_test_each_fault(file_body, &device->facts) > 10);
  hr__device_close(device);
}

static void test_whole(void **state) {
  (void)state;
  if (!getenv("HR_TEST_MEASURE")) skip();
  net n;
  hr_rates rates;
  hr_error err = {0};
  net_open(&n, HR_F32);
  assert_int_equal(hr__measure_rates(n.device, n.graph, &rates, &err), HR_OK);
  assert_true(rates.measured && rates.n_products > 50);
  for (size_t i = 0; i < rates.n_products; i++) {
    assert_true(rates.products[i].seconds > 0);
  }
  assert_true(rates.n_ops >= 3); /* two layers and the error */
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    for (int all = 0; all < 2; all++)
      assert_true(rates.classes[c][all].bytes_per_second > 1e7 && rates.classes[c][all].flops_per_second > 1e7);
  hr__rates_fini(&rates);
  net_close(&n);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases),
                                     cmocka_unit_test(test_lengths_are_full),
                                     cmocka_unit_test(test_products),
                                     cmocka_unit_test(test_nodes),
                                     cmocka_unit_test(test_damaged_file),
                                     cmocka_unit_test(test_recorded_nodes),
                                     cmocka_unit_test(test_recorded_nodes_with_a_clock),
                                     cmocka_unit_test(test_file_faults),
                                     cmocka_unit_test(test_whole)};
  return cmocka_run_group_tests(tests, cache_open, cache_close);
}
