/* Groups of items by their points: what lies together is one group, whenever and wherever it is computed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "data/groups.h"
#include "support/faults.h"

enum { ITEMS = 47, WIDTH = 3, PLACES = 20, LEFT_OUT = 7 };

/* Two items at each place but the last ones, which are farther from each other than items of one place. */
static int place_of(size_t item) {
  return (int)(item % PLACES);
}

static void points_put(float points[ITEMS][WIDTH]) {
  hr_random_key key = {5, hr__random_stream("test")};
  for (size_t i = 0; i < ITEMS; i++) {
    double v[2] = {place_of(i) % 5 - 2.0,
                   (double)(place_of(i) / 5) - 1.5}; /* tangent vectors on a grid of steps of 1 */
    for (int k = 0; k < 2; k++)
      v[k] += 0.02 * ((double)hr__random_below(key, 0, 2 * i + (size_t)k, 101) / 100 - 0.5);
    double n = sqrt(v[0] * v[0] + v[1] * v[1]);
    points[i][0] = (float)cosh(n);
    for (int k = 0; k < 2; k++)
      points[i][1 + k] = (float)(sinh(n) * v[k] / n);
  }
}

static hr_groups groups_make(int32_t members[ITEMS]) {
  hr_groups g = {.from = 2, .every = 3, .most = 500, .seed = 1, .items = ITEMS, .members = members};
  for (int32_t i = 0; i < ITEMS; i++)
    if (i != LEFT_OUT) members[g.n_members++] = i;
  return g;
}

static void test_together(void **state) {
  (void)state;
  float points[ITEMS][WIDTH];
  int32_t members[ITEMS], first[1 + ITEMS];
  hr_error err = {0};
  hr_groups g = groups_make(members);
  assert_int_equal(hr__groups_number(&g), 20);
  points_put(points);
  assert_int_equal(hr__groups_open(&g, WIDTH, &err), HR_OK);
  assert_false(hr__groups_same(&g, 0, PLACES));
  hr__groups_make(&g, 2, &points[0][0]);
  int apart = 0, wrong = 0;
  for (int32_t a = 0; a < ITEMS; a++)
    for (int32_t b = 0; b < a; b++) {
      bool out = a == LEFT_OUT || b == LEFT_OUT, same = hr__groups_same(&g, a, b);
      assert_false(out && same);
      apart += !out && place_of((size_t)a) == place_of((size_t)b) && !same;
      wrong += place_of((size_t)a) != place_of((size_t)b) && same;
    }
  assert_true(apart <= 2 && wrong <= 6); /* drawn centres may miss a place */
  memcpy(first, g.saved, sizeof first);
  hr__groups_make(&g, 2, &points[0][0]);
  assert_memory_equal(first, g.saved, sizeof first);
  hr__groups_close(&g);
}

static void test_due(void **state) {
  (void)state;
  int32_t members[ITEMS];
  uint64_t of;
  hr_error err = {0};
  float points[ITEMS][WIDTH];
  hr_groups g = groups_make(members);
  points_put(points);
  assert_int_equal(hr__groups_open(&g, WIDTH, &err), HR_OK);
  static const int made_in[] = {-1, -1, 2, 2, 2, 5, 5, 5, 8};
  for (int epoch = 0; epoch < 9; epoch++) {
    bool due = hr__groups_due(&g, (uint64_t)epoch, &of), first = made_in[epoch] == epoch;
    assert_int_equal(due, first);
    if (due) hr__groups_make(&g, of, &points[0][0]);
    assert_int_equal(g.saved[0], 1 + made_in[epoch]);
  }
  g.saved[0] = 3; /* as a checkpoint of epoch 4 has it */
  assert_true(hr__groups_due(&g, 10, &of) && of == 8);
  g.n_members = 19; /* too few to be told apart */
  assert_false(hr__groups_due(&g, 10, &of));
  g.n_members = ITEMS - 1;
  g.most = 12;
  assert_int_equal(hr__groups_number(&g), 12);
  hr__groups_close(&g);
}

/* All in one place: one group, whatever is drawn. */
static void test_one_place(void **state) {
  (void)state;
  int32_t members[ITEMS];
  hr_error err = {0};
  float points[ITEMS][WIDTH];
  hr_groups g = groups_make(members);
  for (int i = 0; i < ITEMS; i++)
    memcpy(points[i], (float[]){1, 0, 0}, sizeof points[i]);
  assert_int_equal(hr__groups_open(&g, WIDTH, &err), HR_OK);
  hr__groups_make(&g, 2, &points[0][0]);
  assert_true(hr__groups_same(&g, 0, ITEMS - 1));
  hr__groups_close(&g);
}

static hr_status opened_and_closed(void *arg, hr_error *err) {
  int32_t members[ITEMS];
  hr_groups g = groups_make(members);
  (void)arg;
  hr_status status = hr__groups_open(&g, WIDTH, err);
  hr__groups_close(&g);
  return status;
}

static void test_memory_that_runs_out(void **state) {
  (void)state;
  assert_true(hr_test_each_fault(opened_and_closed, NULL) >= 6);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_together), cmocka_unit_test(test_due),
                                     cmocka_unit_test(test_one_place), cmocka_unit_test(test_memory_that_runs_out)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
