/* The run: first values, execution, numerics, timings, ranges. */
#include "run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/random.h"
#include "part_net.h"

static double loss_by_hand(net *n, hr_run *run) {
  float x[4][8], t[4][8], first[16][8], second[8][16];
  hr_error err = {0};
  net_fill(n, run);
  assert_int_equal(hr__run_read(run, n->x, 0, x, sizeof x, &err), HR_OK);
  assert_int_equal(hr__run_read(run, n->t, 0, t, sizeof t, &err), HR_OK);
  assert_int_equal(hr__run_read(run, n->first, 0, first, sizeof first, &err), HR_OK);
  assert_int_equal(hr__run_read(run, n->second, 0, second, sizeof second, &err), HR_OK);
  double sum = 0;
  for (int r = 0; r < 4; r++) {
    double y[16] = {0};
    for (int o = 0; o < 16; o++)
      for (int i = 0; i < 8; i++)
        y[o] += (double)x[r][i] * (double)first[o][i];
    for (int o = 0; o < 8; o++) {
      double z = 0;
      for (int i = 0; i < 16; i++)
        z += y[i] * (double)second[o][i];
      sum += (z - (double)t[r][o]) * (z - (double)t[r][o]);
    }
  }
  return sum / 32;
}

static void test_program(void **state) {
  (void)state;
  for (int way = 0; way < 3; way++) { /* recorded, checked, timed */
    net n;
    net_open(&n, HR_F32);
    hr_run *run = net_run(&n, (hr_run_options){.check_numerics = way == 1, .time_nodes = way == 2});
    double expected = loss_by_hand(&n, run);
    hr_error err = {0};
    float loss;
    uint64_t requests = hr__alloc_count();
    for (int i = 0; i < 3; i++) {
      net_fill(&n, run);
      assert_int_equal(hr__run_program(run, n.program, &err), HR_OK);
      assert_int_equal(hr__run_read(run, n.loss, 0, &loss, sizeof loss, &err), HR_OK);
      assert_true(fabs((double)loss - expected) < 1e-5 * expected);
    }
    assert_int_equal(hr__alloc_count(), requests);
    assert_true((hr__run_node_seconds(run, 0) > 0) == (way == 2));
    assert_int_equal(hr__run_arena_bytes(run, HR_TIER_DEVICE), n.plan->tiers[HR_TIER_DEVICE].arena_bytes);
    hr__run_destroy(run);
    net_close(&n);
  }
}

static void test_first_values(void **state) {
  (void)state;
  net n, half;
  hr_error err = {0};
  net_open(&n, HR_F32);
  net_open(&half, HR_BF16);
  hr_run *run = net_run(&n, (hr_run_options){0}), *half_run = net_run(&half, (hr_run_options){0});
  float first[128], second[128], ones[3];
  uint16_t rounded[128];
  assert_int_equal(hr__run_read(run, n.first, 0, first, sizeof first, &err), HR_OK);
  assert_int_equal(hr__run_read(run, n.second, 0, second, sizeof second, &err), HR_OK);
  assert_int_equal(hr__run_read(half_run, half.first, 0, rounded, sizeof rounded, &err), HR_OK);
  assert_memory_not_equal(first, second, sizeof first); /* each name has its own numbers */
  hr_random_key key = {11, hr__random_stream("first.weight")};
  double mean = 0, square = 0;
  for (int i = 0; i < 128; i++) {
    assert_true(first[i] == 0.5f * hr__random_normal(key, 0, (uint64_t)i));
    assert_int_equal(rounded[i], hr__f32_to_bf16(first[i]));
    mean += (double)first[i] / 128;
    square += (double)(first[i] * first[i]) / 128;
  }
  assert_true(fabs(mean) < 0.15 && fabs(sqrt(square) - 0.5) < 0.12);
  /* Known answers: they hold on every machine and for every later version. */
  static const uint32_t known[4] = {0xbdc29f27u, 0xbe935a2au, 0x3f11014bu, 0x3e9fc3bdu};
  for (int i = 0; i < 4; i++) {
    uint32_t bits;
    memcpy(&bits, &first[i], sizeof bits);
    uint32_t off = bits > known[i] ? bits - known[i] : known[i] - bits;
    if (off > 2) fail_msg("element %d is 0x%08x, not 0x%08x", i, bits, known[i]);
  }
  hr_id id = hr__graph_find_value(n.graph, "ones");
  assert_int_equal(hr__run_read(run, id, 0, ones, sizeof ones, &err), HR_OK);
  for (int i = 0; i < 3; i++)
    assert_true(ones[i] == 1.0f);
  hr__run_destroy(run);
  hr__run_destroy(half_run);
  net_close(&n);
  net_close(&half);
}

/* Filling again brings back what filling a fresh run gave, also where that was nothing but the zeros of the arena. */
static void test_first_values_again(void **state) {
  (void)state;
  net n;
  hr_error err = {0};
  net_open(&n, HR_F32);
  for (int way = 0; way < 2; way++) { /* written through the run, or by address */
    hr_run *run = net_run(&n, (hr_run_options){0});
    hr_id zeros = hr__graph_find_value(n.graph, "zeros");
    float before[128], after[128], three[3];
    assert_int_equal(hr__run_read(run, n.first, 0, before, sizeof before, &err), HR_OK);
    assert_int_equal(hr__run_read(run, zeros, 0, three, sizeof three, &err), HR_OK);
    const float other[3] = {5, 6, 7};
    for (int i = 0; i < 3; i++)
      assert_true(three[i] == 0.0f);
    if (way == 0)
      assert_int_equal(hr__run_write(run, zeros, 0, other, sizeof other, &err), HR_OK);
    else
      memcpy(hr__run_address(run, zeros), other, sizeof other);
    assert_int_equal(hr__run_write(run, n.first, 0, other, sizeof other, &err), HR_OK);
    assert_int_equal(hr__run_init_values(run, 11, &err), HR_OK);
    assert_int_equal(hr__run_read(run, n.first, 0, after, sizeof after, &err), HR_OK);
    assert_int_equal(hr__run_read(run, zeros, 0, three, sizeof three, &err), HR_OK);
    assert_memory_equal(before, after, sizeof before);
    for (int i = 0; i < 3; i++)
      assert_true(three[i] == 0.0f);
    hr__run_destroy(run);
  }
  net_close(&n);
}

/* Parameters that are read from a file are not drawn. */
static void test_first_values_in_part(void **state) {
  (void)state;
  net n;
  hr_error err = {0};
  net_open(&n, HR_F32);
  n.graph->values[n.second].trained = false;
  hr_run *run = NULL;
  assert_int_equal(hr__run_create(n.plan, n.device, &(hr_run_options){0}, &run, &err), HR_OK);
  static const struct {
    hr_init_part part;
    bool drawn[3]; /* the trained parameter, the frozen one, state */
  } cases[] = {{HR_INIT_OTHERS, {false, false, true}},
               {HR_INIT_TRAINED, {true, false, true}},
               {HR_INIT_FROZEN, {true, true, true}}};
  const hr_id values[3] = {n.first, n.second, hr__graph_find_value(n.graph, "ones")};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    assert_int_equal(hr__run_init_parts(run, cases[c].part, NULL, NULL, 11, &err), HR_OK);
    for (int i = 0; i < 3; i++) {
      float value;
      assert_int_equal(hr__run_read(run, values[i], 0, &value, sizeof value, &err), HR_OK);
      assert_int_equal(value != 0.0f, cases[c].drawn[i]);
    }
  }
  hr__run_destroy(run);
  net_close(&n);
}

static void numerics_named(hr_dtype dtype, float planted) {
  net n;
  net_open(&n, dtype);
  hr_run *run = net_run(&n, (hr_run_options){.check_numerics = true});
  hr_error err = {0};
  net_fill(&n, run);
  assert_int_equal(hr__run_program(run, n.program, &err), HR_OK);
  uint16_t half = hr__f32_to_bf16(planted);
  size_t element = hr_dtype_bytes(dtype);
  const void *data = dtype == HR_BF16 ? (const void *)&half : (const void *)&planted;
  assert_int_equal(hr__run_write(run, n.second, 21 * element, data, element, &err), HR_OK);
  net_fill(&n, run);
  assert_int_equal(hr__run_program(run, n.program, &err), HR_FAILURE);
  assert_string_equal(err.place, "node 1 (linear)");
  assert_non_null(strstr(err.message, "module second"));
  assert_non_null(strstr(err.message, "second.weight) has"));
  assert_non_null(strstr(err.message, "first at element 21"));
  assert_non_null(strstr(err.message, "is finite"));
  hr__run_destroy(run);
  net_close(&n);
}

static void test_numerics(void **state) {
  (void)state;
  numerics_named(HR_F32, NAN);
  numerics_named(HR_BF16, NAN);
  numerics_named(HR_F32, INFINITY);
}

static void test_ranges(void **state) {
  (void)state;
  net n;
  net_open(&n, HR_F32);
  hr_run *run = net_run(&n, (hr_run_options){0});
  hr_error err = {0};
  char data[128 * 4 + 8] = {0};
  assert_int_equal(hr__run_write(run, n.first, 8, data, 504, &err), HR_OK);
  assert_int_equal(hr__run_write(run, n.first, 8, data, 508, &err), HR_FAILURE);
  assert_int_equal(hr__run_read(run, n.first, 513, data, 0, &err), HR_FAILURE);
  assert_int_equal(hr__run_read(run, n.first, SIZE_MAX, data, 8, &err), HR_FAILURE);
  hr__run_destroy(run);
  hr_facts cuda = n.plan->facts;
  cuda.kind = HR_CUDA;
  n.plan->facts = cuda;
  assert_int_equal(hr__run_create(n.plan, n.device, NULL, &run, &err), HR_FAILURE); /* another kind of device */
  net_close(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_program),
                                     cmocka_unit_test(test_first_values),
                                     cmocka_unit_test(test_first_values_again),
                                     cmocka_unit_test(test_first_values_in_part),
                                     cmocka_unit_test(test_numerics),
                                     cmocka_unit_test(test_ranges)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
