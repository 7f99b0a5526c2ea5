/* Simulated streams: copies hide behind computing as far as they fit there, and waits take the rest. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/builder.h"
#include "op/add.h"
#include "op/transfer.h"
#include "plan/simulate.h"

enum { COUNT = 1000 };

static hr_graph *program_open(hr_builder *b) {
  hr_graph *graph;
  hr_error err = {0};
  assert_int_equal(hr__graph_create(&graph, &err), HR_OK);
  hr__builder_init(b, graph, HR_F32);
  hr__program_begin(b, HR_PROGRAM_STEP);
  return graph;
}

static void home_set(hr_graph *graph, hr_id value, hr_tier tier) {
  graph->buffers[graph->values[value].buffer].home = tier;
}

static hr_id state_declare(hr_builder *b, const char *name, hr_tier tier) {
  hr_init zero = {.rule = HR_INIT_ZERO};
  hr_id value = hr__persistent(b, name, HR_ROLE_OPTIMIZER, hr__desc1(HR_F32, COUNT), zero);
  home_set(b->graph, value, tier);
  return value;
}

/* fetch a, fetch b, compute, wait a, wait b, store, compute, wait: bytes are COUNT floats each. */
static void test_makespan(void **state) {
  (void)state;
  hr_builder b;
  hr_graph *graph = program_open(&b);
  hr_id m = state_declare(&b, "m", HR_TIER_HOST), v = state_declare(&b, "v", HR_TIER_DISK);
  hr_id x = hr__input(&b, "x", hr__desc1(HR_F32, COUNT));
  hr_id first = hr__fetch(&b, m, HR_NONE, false), second = hr__fetch(&b, v, HR_NONE, true);
  hr_id y = hr__add(&b, x, x, 1.0f);
  hr_id got = hr__wait(&b, first, m, HR_NONE);
  hr__wait(&b, second, v, hr__node_out(&b, second, 1));
  hr_id sum = hr__add(&b, y, got, 1.0f);
  hr_id back = hr__store(&b, sum, m, false);
  hr__add(&b, x, y, 1.0f);
  hr__wait(&b, back, sum, HR_NONE);
  assert_int_equal(hr__builder_status(&b, NULL), HR_OK);

  double bytes = 4.0 * COUNT;
  hr_rates rates = {.copies = {.host_bytes_per_second = bytes / 2,
                               .host_alone_bytes_per_second = bytes / 2,
                               .disk_read_bytes_per_second = bytes / 5,
                               .disk_write_bytes_per_second = bytes,
                               .overhead_seconds = 0.25}};
  double seconds[9] = {[2] = 3, [5] = 1, [7] = 4}, done[9];
  double all = hr__simulate(graph, 0, &rates, seconds, done);
  /* m is there at 2.25, v at 2.25 + 0.25 + 2 + 5 = 9.5; compute ends at 3, then waits for v; the store takes 2.25 of
   * the 4 s behind it. */
  assert_true(fabs(done[0] - 2.25) < 1e-9 && fabs(done[1] - 9.5) < 1e-9);
  assert_true(seconds[3] == 0 && fabs(seconds[4] - 6.5) < 1e-9);
  assert_true(seconds[8] == 0 && fabs(all - 14.5) < 1e-9);
  hr__graph_destroy(graph);
}

/* store x, wait, compute on the host, compute, fetch what the host made, wait. Beside a GPU the host computes while the
 * device does; the CPU has one after the other. */
static void test_host_beside(void **state) {
  (void)state;
  hr_builder b;
  hr_graph *graph = program_open(&b);
  hr_id x = hr__input(&b, "x", hr__desc1(HR_F32, COUNT));
  hr_id down = hr__store(&b, x, HR_NONE, false);
  home_set(graph, down, HR_TIER_HOST);
  hr_id below = hr__wait(&b, down, x, HR_NONE);
  hr_id made = hr__add(&b, below, below, 1.0f);
  home_set(graph, made, HR_TIER_HOST);
  graph->nodes[graph->values[made].producer].place = HR_ON_HOST;
  hr__add(&b, x, x, 1.0f);
  hr_id up = hr__fetch(&b, made, HR_NONE, false);
  hr__wait(&b, up, made, HR_NONE);
  assert_int_equal(hr__builder_status(&b, NULL), HR_OK);

  double bytes = 4.0 * COUNT;
  for (int gpu = 0; gpu < 2; gpu++) {
    hr_rates rates = {.kind = gpu ? HR_CUDA : HR_CPU,
                      .copies = {.host_bytes_per_second = bytes, .host_alone_bytes_per_second = bytes}};
    double seconds[6] = {[2] = 5, [3] = 3}, done[6];
    double all = hr__simulate(graph, 0, &rates, seconds, done);
    /* down until 1, on the host until 6, up until 7; on the CPU the device's 3 s come in between. */
    assert_true(fabs(all - (gpu ? 7 : 10)) < 1e-9);
    assert_true(fabs(seconds[5] - (gpu ? 3 : 1)) < 1e-9);
  }
  hr__graph_destroy(graph);
}

/* fetch m, compute, store x, fetch v, compute, store x again: alone a copy takes 2 s, beside another 4 s. */
static void test_directions_share(void **state) {
  (void)state;
  hr_builder b;
  hr_graph *graph = program_open(&b);
  hr_id m = state_declare(&b, "m", HR_TIER_HOST), v = state_declare(&b, "v", HR_TIER_HOST);
  hr_id x = hr__input(&b, "x", hr__desc1(HR_F32, COUNT));
  hr__fetch(&b, m, HR_NONE, false);
  hr__add(&b, x, x, 1.0f);
  hr_id down = hr__store(&b, x, HR_NONE, false);
  hr_id second = hr__fetch(&b, v, HR_NONE, false);
  hr__add(&b, x, x, 1.0f);
  hr_id again = hr__store(&b, x, HR_NONE, false);
  hr__wait(&b, again, x, HR_NONE);
  hr__wait(&b, second, v, HR_NONE);
  home_set(graph, down, HR_TIER_HOST);
  home_set(graph, again, HR_TIER_HOST);
  assert_int_equal(hr__builder_status(&b, NULL), HR_OK);

  double bytes = 4.0 * COUNT;
  hr_rates rates = {.kind = HR_CUDA,
                    .copies = {.host_bytes_per_second = bytes / 4, .host_alone_bytes_per_second = bytes / 2}};
  double seconds[8] = {[1] = 1, [4] = 9}, done[8];
  double all = hr__simulate(graph, 0, &rates, seconds, done);
  /* m comes alone until 1, and its other half beside the first of x until 3; v comes beside the second half of x until
   * 5, and its own second half alone. The second x has the way to itself. */
  assert_true(fabs(done[0] - 3) < 1e-9 && fabs(done[2] - 5) < 1e-9 && fabs(done[3] - 6) < 1e-9);
  assert_true(fabs(done[5] - 12) < 1e-9 && fabs(seconds[6] - 2) < 1e-9);
  assert_true(seconds[7] == 0 && fabs(all - 12) < 1e-9);

  /* m crosses from 1 on, x from 1.5 on; three quarters of each go at once in 1.875 s, and the last one of x alone while
   * v is being started. */
  seconds[1] = 0.5, seconds[4] = 0;
  rates.copies.host_bytes_per_second = bytes / 2.5, rates.copies.overhead_seconds = 1;
  hr__simulate(graph, 0, &rates, seconds, done);
  assert_true(fabs(done[0] - 3.375) < 1e-9 && fabs(done[2] - 3.875) < 1e-9);
  rates.copies.host_bytes_per_second = bytes / 2; /* one rate: nothing depends on the other direction */
  hr__simulate(graph, 0, &rates, seconds, done);
  assert_true(fabs(done[0] - 3) < 1e-9 && fabs(done[2] - 3.5) < 1e-9);
  assert_true(fabs(done[3] - 6) < 1e-9 && fabs(done[5] - 6.5) < 1e-9);

  /* While m is read from the disk, for 10 s, both x go out as if alone. */
  home_set(graph, m, HR_TIER_DISK);
  rates.copies = (hr_copy_rates){bytes / 4, bytes / 2, bytes / 10, bytes, 0};
  hr__simulate(graph, 0, &rates, seconds, done);
  assert_true(fabs(done[0] - 12) < 1e-9 && fabs(done[2] - 2.5) < 1e-9);
  assert_true(fabs(done[3] - 14) < 1e-9 && fabs(done[5] - 4.5) < 1e-9);
  hr__graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_makespan), cmocka_unit_test(test_host_beside),
                                     cmocka_unit_test(test_directions_share)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
