/* Measuring: every case of the bench runs, times are sound, and rates calibrated by them give back their sum. The whole
 * grid takes long: HR_TEST_MEASURE=1 runs it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "part_net.h"
#include "run/bench.h"
#include "run/measure.h"

static void test_cases(void **state) {
  (void)state;
  hr_device *device;
  hr_error err = {0};
  assert_int_equal(hr__cpu_open(&device, &err), HR_OK);
  size_t count;
  const hr_bench_case *cases = hr__bench_cases(&count);
  bool classes[HR_CLASS_COUNT] = {false};
  for (size_t i = 0; i < count; i++) {
    double seconds = 0;
    hr_cost cost;
    hr_status status = hr__bench_op(device, &cases[i], device->facts.threads, &seconds, &cost, &err);
    if (status != HR_OK) fail_msg("%s: %s", cases[i].op->name, err.message);
    if (!(seconds > 0 && seconds < 30)) fail_msg("%s took %g s", cases[i].op->name, seconds);
    assert_int_equal(cost.op_class, cases[i].op_class);
    classes[cost.op_class] = true;
  }
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    assert_true(classes[c]);
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

static void test_whole(void **state) {
  (void)state;
  if (!getenv("HR_TEST_MEASURE")) skip();
  net n;
  hr_rates rates;
  hr_error err = {0};
  net_open(&n, HR_F32);
  assert_int_equal(hr__measure_rates(n.device, n.graph, &rates, &err), HR_OK);
  assert_true(rates.measured && rates.n_products > 50);
  bool found = false;
  for (size_t i = 0; i < rates.n_products; i++) {
    const hr_product *p = &rates.products[i].product;
    assert_true(rates.products[i].seconds > 0);
    found |= p->m == 4 && p->n == 16 && p->k == 8; /* the first layer of the graph */
  }
  assert_true(found);
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    for (int all = 0; all < 2; all++)
      assert_true(rates.classes[c][all].bytes_per_second > 1e7 && rates.classes[c][all].flops_per_second > 1e7);
  hr__rates_fini(&rates);
  net_close(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_products),
                                     cmocka_unit_test(test_whole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
