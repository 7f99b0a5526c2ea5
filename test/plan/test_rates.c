/* Rates: from costs to seconds and threads; the cache file and what may be wrong with it. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "op/adamw8bit.h"
#include "op/head_loss.h"
#include "plan/part_graphs.h"

static hr_cost product_cost(int64_t m, int64_t n, int64_t k) {
  hr_cost cost = {.op_class = HR_CLASS_PRODUCT, .flops = 2.0 * (double)m * (double)n * (double)k, .n_products = 1};
  cost.products[0] = (hr_product){.m = m, .n = n, .k = k, .times = 1, .transpose_b = true, .dtype = HR_F32};
  return cost;
}

static void add_product(hr_rates *rates, int64_t m, int64_t n, int64_t k, int threads, double seconds) {
  hr_error err = {0};
  hr_product_rate rate = {product_cost(m, n, k).products[0], seconds, threads};
  assert_int_equal(hr__rates_add(rates, &rate, &err), HR_OK);
}

static void assert_near(double value, double expected) {
  if (fabs(value - expected) > 1e-9 * fabs(expected)) fail_msg("%.12g is not %.12g", value, expected);
}

static void small_work_stays_on_one_thread(void **state) {
  (void)state;
  hr_facts facts = test_facts();
  hr_rates rates;
  hr__rates_default(&facts, &rates);
  hr_cost small = product_cost(8, 8, 8), large = product_cost(1024, 1024, 1024);
  assert_int_equal(hr__rates_threads(&rates, &small, 2), 1);
  assert_int_equal(hr__rates_threads(&rates, &large, 2), 2);
  assert_int_equal(hr__rates_threads(&rates, &large, 1), 1);
  hr_cost stream = {.op_class = HR_CLASS_STREAM, .bytes = 4096};
  assert_int_equal(hr__rates_threads(&rates, &stream, 2), 1);
  stream.bytes = 64 << 20;
  assert_int_equal(hr__rates_threads(&rates, &stream, 2), 2);
  assert_true(hr__rates_seconds(&rates, &stream, 2) < hr__rates_seconds(&rates, &stream, 1));
  hr__rates_fini(&rates);
}

/* Instructions for bf16 halve the time of its products, and of nothing else. */
static void bf16_is_as_fast_as_the_processor_has_it(void **state) {
  (void)state;
  hr_facts facts = test_facts();
  hr_rates rates;
  hr_cost wide = product_cost(512, 768, 1024), narrow = wide;
  narrow.products[0].dtype = HR_BF16;
  double overhead = 0, f32 = 0;
  for (int native = 0; native < 2; native++) {
    facts.narrow_products = native;
    hr__rates_default(&facts, &rates);
    overhead = rates.classes[HR_CLASS_PRODUCT][0].overhead_seconds;
    if (!native) f32 = hr__rates_seconds(&rates, &wide, 1);
    assert_near(hr__rates_seconds(&rates, &wide, 1), f32);
    assert_near(hr__rates_seconds(&rates, &narrow, 1) - overhead, (f32 - overhead) / (native ? 2 : 1));
    hr__rates_fini(&rates);
  }
}

static void more_threads_pay_more_on_larger_machines(void **state) {
  (void)state;
  hr_facts facts = test_facts();
  facts.threads = 12;
  hr_rates rates;
  hr__rates_default(&facts, &rates);
  hr_cost cost = product_cost(2048, 2048, 2048);
  double before = hr__rates_seconds(&rates, &cost, 1);
  for (int threads = 2; threads <= 12; threads++) {
    double seconds = hr__rates_seconds(&rates, &cost, threads);
    assert_true(seconds < before);
    before = seconds;
  }
  assert_int_equal(hr__rates_threads(&rates, &cost, 12), 12);
  assert_int_equal(hr__rates_threads(&rates, &cost, 5), 5);
  hr__rates_fini(&rates);
}

static void measured_products_count_exactly(void **state) {
  (void)state;
  hr_facts facts = test_facts();
  hr_rates rates;
  hr__rates_default(&facts, &rates);
  double overhead = rates.classes[HR_CLASS_PRODUCT][0].overhead_seconds;
  add_product(&rates, 100, 200, 300, 1, 0.25);
  hr_cost cost = product_cost(100, 200, 300);
  assert_near(hr__rates_seconds(&rates, &cost, 1), 0.25 + overhead);
  cost.products[0].times = 4;
  cost.flops *= 4;
  assert_near(hr__rates_seconds(&rates, &cost, 1), 1 + overhead);
  add_product(&rates, 100, 200, 300, 1, 0.5); /* measured again */
  assert_int_equal(rates.n_products, 1);
  cost = product_cost(100, 200, 300);
  assert_near(hr__rates_seconds(&rates, &cost, 1), 0.5 + overhead);
  assert_true(hr__rates_seconds(&rates, &cost, 2) < 0.1); /* nothing known of two threads */
  hr__rates_fini(&rates);
}

/* A machine that reaches 50 GFLOP/s whatever the shape: predictions between the measured shapes come near to that. */
static void shapes_between_are_interpolated(void **state) {
  (void)state;
  hr_facts facts = test_facts();
  hr_rates rates;
  hr__rates_default(&facts, &rates);
  for (int64_t m = 64; m <= 1024; m *= 4)
    for (int64_t n = 64; n <= 1024; n *= 4)
      for (int64_t k = 64; k <= 1024; k *= 4)
        for (int threads = 1; threads <= 2; threads++)
          add_product(&rates, m, n, k, threads, 2.0 * (double)(m * n * k) / 50e9);
  for (int64_t size = 96; size < 1024; size += 100) {
    hr_cost cost = product_cost(size, size, size);
    double seconds = hr__rates_seconds(&rates, &cost, 1), expected = cost.flops / 50e9;
    assert_true(seconds > 0.85 * expected && seconds < 1.15 * expected + 3e-6);
    assert_int_equal(hr__rates_threads(&rates, &cost, 2), 1); /* the second thread brings nothing here */
  }
  hr__rates_fini(&rates);
}

/* --- GPUs ------------------------------------------------------------------------------------------------------- */

static hr_facts gpu_facts(const char *name) {
  hr_facts facts = {.kind = HR_CUDA, .alignment = 256, .threads = 1, .version = "driver 1, CUDA 2"};
  strcpy(facts.name, name);
  return facts;
}

static double gpu_seconds(const hr_rates *rates, int64_t m, int64_t n, int64_t k, hr_dtype dtype) {
  hr_cost cost = product_cost(m, n, k);
  cost.products[0].dtype = dtype;
  return hr__rates_seconds(rates, &cost, 1);
}

/* Figures of the H200: 790 TFLOP/s in large bf16 products, and a layer of 4096 x 2048 x 2048 at 675. */
static void a_gpu_has_rates_by_type(void **state) {
  (void)state;
  hr_facts facts = gpu_facts("NVIDIA H200");
  hr_rates rates;
  hr__rates_default(&facts, &rates);
  assert_int_equal(rates.threads, 1);
  double large = gpu_seconds(&rates, 8192, 8192, 8192, HR_BF16), flops = 2.0 * 8192 * 8192 * 8192;
  assert_true(flops / large > 700e12 && flops / large < 800e12);
  double layer = 2.0 * 4096 * 2048 * 2048 / gpu_seconds(&rates, 4096, 2048, 2048, HR_BF16);
  assert_true(layer > 550e12 && layer < 720e12);
  assert_true(gpu_seconds(&rates, 4096, 4096, 4096, HR_F32) > 8 * gpu_seconds(&rates, 4096, 4096, 4096, HR_BF16));
  assert_near(gpu_seconds(&rates, 4096, 4096, 4096, HR_F16), gpu_seconds(&rates, 4096, 4096, 4096, HR_BF16));
  /* thin ones take as long as their matrices take to be moved */
  assert_true(gpu_seconds(&rates, 4096, 16384, 8, HR_BF16) > 4096.0 * 16384 * 2 / 4.8e12);
  assert_true(gpu_seconds(&rates, 4096, 16384, 8, HR_BF16) < 60e-6);

  hr_cost attention = {.op_class = HR_CLASS_ATTENTION, .flops = 1e12};
  double wide = hr__rates_seconds(&rates, &attention, 1);
  attention.narrow = true;
  assert_true(wide > 5 * hr__rates_seconds(&rates, &attention, 1));
  assert_true(rates.gpu.program_seconds > 0 && rates.gpu.program_seconds < 1e-3);
  hr__rates_fini(&rates);
}

/* Measured bf16 products say nothing of f32, and all of f16. */
static void measured_types_stay_apart(void **state) {
  (void)state;
  hr_facts facts = gpu_facts("NVIDIA H200");
  hr_rates rates;
  hr_error err = {0};
  hr__rates_default(&facts, &rates);
  double f32 = gpu_seconds(&rates, 1024, 1024, 1024, HR_F32),
         launch = rates.classes[HR_CLASS_PRODUCT][0].overhead_seconds;
  hr_product_rate rate = {product_cost(1024, 1024, 1024).products[0], 0.5, 1};
  rate.product.dtype = HR_BF16;
  assert_int_equal(hr__rates_add(&rates, &rate, &err), HR_OK);
  assert_near(gpu_seconds(&rates, 1024, 1024, 1024, HR_BF16), 0.5 + launch);
  assert_near(gpu_seconds(&rates, 1024, 1024, 1024, HR_F16), 0.5 + launch);
  assert_near(gpu_seconds(&rates, 1024, 1024, 1024, HR_F32), f32);
  hr__rates_fini(&rates);
}

/* head_loss cuts its rows on each device as its kernels there do; 8-bit states have their tables on a GPU's
 * chip, so that only traffic counts. */
static void costs_know_the_device(void **state) {
  (void)state;
  hr_desc x = {HR_BF16, 3, {4, 1024, 2048}}, w = {HR_BF16, 2, {128256, 2048}}, ids = {HR_I32, 2, {4, 1024}};
  hr_desc in[9] = {x, w, ids, {HR_U8, 1, {sizeof(hr_control)}}, {HR_F32, 1, {1}}}, out[4] = {{0}};
  hr_head_loss_bwd_args args = {.want_dx = true, .dw_dtype = HR_BF16};
  hr_op_view view = {.in = in, .out = out, .n_in = 9, .n_out = 4, .args = &args};
  hr_cost cpu = {0}, gpu = {0};
  hr_op_head_loss_bwd.cost(&view, &cpu);
  view.kind = HR_CUDA;
  hr_op_head_loss_bwd.cost(&view, &gpu);
  assert_int_equal(gpu.n_products, 2);
  int64_t rows = gpu.products[0].m;
  assert_true(rows * 128256 * 4 <= 256 << 20 && rows > 256 && rows % 128 == 0);
  assert_true(gpu.products[0].times * rows >= 4096 && (gpu.products[0].times - 1) * rows < 4096);
  assert_true(cpu.products[0].times * cpu.products[0].m >= 4096 && cpu.flops == gpu.flops);

  hr_desc p = {HR_BF16, 2, {2048, 2048}}, code = {HR_U8, 2, {2048, 2048}}, largest = {HR_F32, 1, {16384}};
  hr_desc state8[8] = {p, p, code, code, largest, largest, {HR_U8, 1, {sizeof(hr_control)}}};
  hr_desc new8[5] = {p, code, code, largest, largest};
  view = (hr_op_view){.in = state8, .out = new8, .n_in = 8, .n_out = 5};
  hr_op_adamw8bit.cost(&view, &cpu);
  view.kind = HR_CUDA;
  hr_op_adamw8bit.cost(&view, &gpu);
  double count = 2048.0 * 2048.0;
  assert_true(gpu.bytes < 11 * count && cpu.bytes > 70 * count);
}

static void faster_gpus_are_faster(void **state) {
  (void)state;
  static const char *const order[] = {"NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 3090", "NVIDIA A100-SXM4-80GB",
                                      "NVIDIA H200"};
  double product = 1, stream = 1;
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    hr_facts facts = gpu_facts(order[i]);
    hr_rates rates;
    hr__rates_default(&facts, &rates);
    hr_cost cost = {.op_class = HR_CLASS_STREAM_16, .bytes = 1 << 28};
    assert_true(gpu_seconds(&rates, 4096, 4096, 4096, HR_BF16) < product);
    assert_true(hr__rates_seconds(&rates, &cost, 1) < stream);
    product = gpu_seconds(&rates, 4096, 4096, 4096, HR_BF16);
    stream = hr__rates_seconds(&rates, &cost, 1);
    hr__rates_fini(&rates);
  }
  hr_facts unknown = gpu_facts("NVIDIA Something New");
  hr_rates rates;
  hr__rates_default(&unknown, &rates);
  assert_true(gpu_seconds(&rates, 4096, 4096, 4096, HR_BF16) > 0 && rates.copies.host_bytes_per_second > 1e9);
  assert_true(rates.copies.host_alone_bytes_per_second == rates.copies.host_bytes_per_second);
  hr__rates_fini(&rates);
}

/* --- the cache file --------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/headroom-rates-XXXXXX";

static int cache_setup(void **state) {
  (void)state;
  strcpy(folder + sizeof folder - 7, "XXXXXX");
  assert_non_null(mkdtemp(folder));
  setenv("XDG_CACHE_HOME", folder, 1);
  return 0;
}

static int cache_teardown(void **state) {
  (void)state;
  hr_arena arena = {0};
  hr_facts facts = test_facts();
  const char *path = hr__rates_path(&facts, &arena);
  char inner[128];
  snprintf(inner, sizeof inner, "%s/headroom", folder);
  remove(path);
  rmdir(inner);
  rmdir(folder);
  hr__arena_fini(&arena);
  unsetenv("XDG_CACHE_HOME");
  return 0;
}

static void saved_rates_come_back(void **state) {
  (void)state;
  hr_facts facts = test_facts();
  hr_rates rates, loaded;
  hr_error err = {0};
  assert_int_equal(hr__rates_load(&facts, &rates, &err), HR_OK);
  assert_false(rates.measured);
  add_product(&rates, 10, 20, 30, 1, 1.0 / 3);
  add_product(&rates, 10, 20, 30, 2, 1.0 / 7);
  rates.classes[HR_CLASS_GATHER][1].bytes_per_second = 12345678.9;
  assert_int_equal(hr__rates_save(&facts, &rates, &err), HR_OK);
  assert_int_equal(hr__rates_load(&facts, &loaded, &err), HR_OK);
  assert_true(loaded.measured);
  assert_int_equal(loaded.n_products, 2);
  assert_memory_equal(loaded.classes, rates.classes, sizeof rates.classes);
  assert_true(loaded.products[0].seconds == 1.0 / 3 && loaded.products[1].seconds == 1.0 / 7);
  assert_int_equal(loaded.products[1].threads, 2);
  assert_int_equal(loaded.products[0].product.n, 20);
  assert_true(loaded.products[0].product.transpose_b);
  hr__rates_fini(&loaded);
  facts.threads = 3; /* another machine */
  assert_int_equal(hr__rates_load(&facts, &loaded, &err), HR_OK);
  assert_false(loaded.measured);
  hr__rates_fini(&loaded);
  hr__rates_fini(&rates);
}

/* Rates of a GPU come back with the same driver and libraries, and not with others. */
static void rates_of_a_gpu_come_back(void **state) {
  (void)state;
  hr_facts facts = gpu_facts("NVIDIA H200");
  hr_rates rates, loaded;
  hr_error err = {0};
  hr_arena arena = {0};
  hr__rates_default(&facts, &rates);
  rates.gpu.product_flops[HR_BF16] = 1.25e14;
  rates.gpu.attention_16.flops_per_second = 2.5e14;
  rates.gpu.program_seconds = 3e-5;
  rates.copies.host_alone_bytes_per_second = 1.25 * rates.copies.host_bytes_per_second;
  assert_int_equal(hr__rates_save(&facts, &rates, &err), HR_OK);
  assert_int_equal(hr__rates_load(&facts, &loaded, &err), HR_OK);
  assert_true(loaded.measured);
  assert_memory_equal(&loaded.gpu, &rates.gpu, sizeof rates.gpu);
  assert_memory_equal(&loaded.copies, &rates.copies, sizeof rates.copies);
  hr__rates_fini(&loaded);
  hr_facts other = facts;
  strcpy(other.version, "driver 2, CUDA 2");
  assert_int_equal(hr__rates_load(&other, &loaded, &err), HR_OK);
  assert_false(loaded.measured);
  hr__rates_fini(&loaded);
  rates.gpu.program_seconds = -1;
  assert_int_equal(hr__rates_save(&facts, &rates, &err), HR_OK);
  assert_int_equal(hr__rates_load(&facts, &loaded, &err), HR_OK);
  assert_false(loaded.measured);
  assert_true(loaded.gpu.program_seconds > 0);
  hr__rates_fini(&loaded);
  assert_int_equal(remove(hr__rates_path(&facts, &arena)), 0);
  hr__rates_fini(&rates);
  hr__arena_fini(&arena);
}

static void file_write(const char *path, const char *text, size_t bytes) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static void a_damaged_file_means_defaults(void **state) {
  (void)state;
  hr_facts facts = test_facts();
  hr_rates rates, loaded;
  hr_error err = {0};
  hr_arena arena = {0};
  hr__rates_default(&facts, &rates);
  add_product(&rates, 10, 20, 30, 1, 0.5);
  assert_int_equal(hr__rates_save(&facts, &rates, &err), HR_OK);
  const char *path = hr__rates_path(&facts, &arena);
  char text[8192];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t bytes = fread(text, 1, sizeof text, file);
  fclose(file);
  assert_true(bytes > 200 && bytes < sizeof text);

  for (size_t cut = 0; cut + 2 < bytes; cut += 7) { /* truncated */
    file_write(path, text, cut);
    assert_int_equal(hr__rates_load(&facts, &loaded, &err), HR_OK);
    assert_false(loaded.measured);
    assert_int_equal(loaded.n_products, 0);
    assert_memory_equal(loaded.classes, rates.classes, sizeof rates.classes);
    hr__rates_fini(&loaded);
  }
  static const char *const bad[][2] = {
      {"\"seconds\": 0.5", "\"seconds\": -.5"},
      {"\"seconds\": 0.5", "\"seconds\": 0.0"},
      {"\"m\": 10", "\"m\": -1"},
      {"\"schema\": ", "\"schema\": -"},
      {"\"host_alone_bytes_per_second\": ", "\"host_alone_bytes_per_second\": -"},
      {"\"dtype\": \"f32\"", "\"dtype\": \"f3x\""},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char damaged[8192];
    memcpy(damaged, text, bytes);
    damaged[bytes] = '\0';
    char *at = strstr(damaged, bad[i][0]);
    if (!at) fail_msg("%s is not in the file", bad[i][0]);
    size_t behind = (size_t)(at - damaged) + strlen(bad[i][0]), length = strlen(bad[i][1]);
    memcpy(at, bad[i][1], length);
    memcpy(at + length, text + behind, bytes - behind);
    file_write(path, damaged, (size_t)(at - damaged) + length + bytes - behind);
    assert_int_equal(hr__rates_load(&facts, &loaded, &err), HR_OK);
    assert_false(loaded.measured);
    hr__rates_fini(&loaded);
  }
  hr__rates_fini(&rates);
  hr__arena_fini(&arena);
}

/* A file from before copies of one direction alone had a rate of their own. */
static void an_older_file_has_one_rate_of_copies(void **state) {
  (void)state;
  hr_facts facts = test_facts();
  hr_rates rates, loaded;
  hr_error err = {0};
  hr_arena arena = {0};
  hr__rates_default(&facts, &rates);
  assert_true(rates.copies.host_alone_bytes_per_second == rates.copies.host_bytes_per_second);
  rates.copies.host_bytes_per_second = 3e9;
  assert_int_equal(hr__rates_save(&facts, &rates, &err), HR_OK);
  const char *path = hr__rates_path(&facts, &arena);
  char text[8192] = {0};
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t bytes = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  char *field = strstr(text, "host_alone_bytes_per_second");
  assert_non_null(field);
  memcpy(field, "of_no_meaning", strlen("of_no_meaning"));
  file_write(path, text, bytes);
  assert_int_equal(hr__rates_load(&facts, &loaded, &err), HR_OK);
  assert_true(loaded.measured);
  assert_true(loaded.copies.host_bytes_per_second == 3e9 && loaded.copies.host_alone_bytes_per_second == 3e9);
  hr__rates_fini(&loaded);
  hr__rates_fini(&rates);
  hr__arena_fini(&arena);
}

static void without_a_home_there_are_defaults(void **state) {
  (void)state;
  hr_facts facts = test_facts();
  hr_rates rates;
  hr_error err = {0};
  const char *home = getenv("HOME");
  char *saved = home ? strdup(home) : NULL;
  unsetenv("HOME");
  unsetenv("XDG_CACHE_HOME");
  assert_int_equal(hr__rates_load(&facts, &rates, &err), HR_OK);
  assert_int_equal(hr__rates_save(&facts, &rates, &err), HR_IO);
  assert_non_null(strstr(err.remedy, "HOME"));
  hr__rates_fini(&rates);
  if (saved) setenv("HOME", saved, 1);
  free(saved);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_work_stays_on_one_thread),
      cmocka_unit_test(bf16_is_as_fast_as_the_processor_has_it),
      cmocka_unit_test(more_threads_pay_more_on_larger_machines),
      cmocka_unit_test(measured_products_count_exactly),
      cmocka_unit_test(shapes_between_are_interpolated),
      cmocka_unit_test(a_gpu_has_rates_by_type),
      cmocka_unit_test(measured_types_stay_apart),
      cmocka_unit_test(costs_know_the_device),
      cmocka_unit_test(faster_gpus_are_faster),
      cmocka_unit_test_setup_teardown(rates_of_a_gpu_come_back, cache_setup, cache_teardown),
      cmocka_unit_test_setup_teardown(saved_rates_come_back, cache_setup, cache_teardown),
      cmocka_unit_test_setup_teardown(a_damaged_file_means_defaults, cache_setup, cache_teardown),
      cmocka_unit_test_setup_teardown(an_older_file_has_one_rate_of_copies, cache_setup, cache_teardown),
      cmocka_unit_test(without_a_home_there_are_defaults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
