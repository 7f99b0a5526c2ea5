/* The courier: a lane of one thread keeps its order, lanes run side by side, and nothing that was sent is lost. */
#include "base/courier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"

enum { ERRANDS = 200, ROUNDS = 20 };

static _Atomic int counter;
static int order[ERRANDS];

static void note(void *arg) {
  *(int *)arg = atomic_fetch_add(&counter, 1);
}

static void test_order(void **state) {
  (void)state;
  hr_courier *c;
  hr_error err = {0};
  hr_errand errands[ERRANDS];
  assert_int_equal(hr__courier_create((const int[]){1, 0, 3}, 3, ERRANDS, &c, &err), HR_OK);
  uint64_t requests = hr__alloc_count();
  for (int round = 0; round < ROUNDS; round++) {
    int lane = round % 2 ? 2 : 0;
    counter = 0;
    for (int i = 0; i < ERRANDS; i++) {
      order[i] = -1;
      errands[i] = (hr_errand){.run = note, .arg = &order[i]};
      hr__courier_send(c, lane, &errands[i]);
    }
    hr__courier_wait(c, &errands[ERRANDS / 2]);
    assert_true(order[ERRANDS / 2] >= 0);
    hr__courier_drain(c);
    uint64_t sum = 0;
    for (int i = 0; i < ERRANDS; i++) {
      assert_true(order[i] >= 0);
      if (lane == 0) assert_int_equal(order[i], i);
      sum += (uint64_t)order[i];
    }
    assert_int_equal(sum, ERRANDS * (ERRANDS - 1) / 2);
  }
  assert_int_equal(hr__alloc_count(), requests);
  for (int i = 0; i < ERRANDS; i++) /* what is under way at the end is still done */
    hr__courier_send(c, 0, &errands[i]);
  counter = 0;
  hr__courier_destroy(c);
  for (int i = 0; i < ERRANDS; i++)
    assert_true(errands[i].done);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
