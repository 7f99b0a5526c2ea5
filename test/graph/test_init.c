/* Initialisers: what they promise of their elements, drawn whole and in pieces. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/init.h"

enum { COUNT = 40000 };

static const hr_random_key key = {.seed = 3, .stream = 99};

/* Mean and standard deviation of f(element). */
static void moments(hr_init init, double (*f)(double), double *mean, double *deviation, float *least, float *most) {
  static float whole[COUNT], piece[COUNT];
  double sum = 0, squares = 0;
  init.rule(&init, key, 0, COUNT, whole);
  for (int64_t at = 0; at < COUNT; at += 777) /* an odd number: normals come in pairs */
    init.rule(&init, key, (uint64_t)at, at + 777 < COUNT ? 777 : COUNT - at, piece + at);
  assert_memory_equal(whole, piece, sizeof whole);
  *least = *most = whole[0];
  for (int i = 0; i < COUNT; i++) {
    double x = f((double)whole[i]);
    sum += x;
    squares += x * x;
    *least = fminf(*least, whole[i]);
    *most = fmaxf(*most, whole[i]);
  }
  *mean = sum / COUNT;
  *deviation = sqrt(squares / COUNT - *mean * *mean);
}

static double itself(double x) {
  return x;
}

/* Five standard errors of the mean; the deviation within 2 %. */
static void expect(double mean, double deviation, double want_mean, double want_deviation) {
  assert_true(fabs(mean - want_mean) <= 5.0 * want_deviation / sqrt(COUNT));
  assert_true(fabs(deviation - want_deviation) <= 0.02 * want_deviation);
}

static void test_rules(void **state) {
  (void)state;
  double mean, deviation;
  float least, most;
  moments((hr_init){.rule = HR_INIT_CONSTANT, .a = 0.75f}, itself, &mean, &deviation, &least, &most);
  assert_true(least == 0.75f && most == 0.75f);
  moments((hr_init){.rule = HR_INIT_ONE}, itself, &mean, &deviation, &least, &most);
  assert_true(least == 1.0f && most == 1.0f);
  moments((hr_init){.rule = HR_INIT_NORMAL, .a = 0.5f}, itself, &mean, &deviation, &least, &most);
  expect(mean, deviation, 0.0, 0.5);
  moments((hr_init){.rule = HR_INIT_UNIFORM, .a = 0.5f}, itself, &mean, &deviation, &least, &most);
  expect(mean, deviation, 0.0, 0.5 / sqrt(3.0));
  assert_true(least >= -0.5f && most <= 0.5f);
  moments((hr_init){.rule = HR_INIT_LOG_UNIFORM, .a = 1e-3f, .b = 0.1f}, log, &mean, &deviation, &least, &most);
  expect(mean, deviation, log(1e-2), log(100.0) / sqrt(12.0));
  assert_true(least >= 0.999e-3f && most <= 0.1001f);
}

static void test_by_fans(void **state) {
  (void)state;
  double mean, deviation;
  float least, most;
  moments(hr__init_xavier(300, 500), itself, &mean, &deviation, &least, &most);
  expect(mean, deviation, 0.0, sqrt(2.0 / 800.0));
  moments(hr__init_kaiming(300, sqrt(2.0)), itself, &mean, &deviation, &least, &most);
  expect(mean, deviation, 0.0, sqrt(2.0 / 300.0));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_by_fans)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
