/* Where the driver put what cudaMalloc asked for on an H200 (driver 580), in a process that had run no kernel: the same
 * in every process, and what the simulated driver says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "torch/addresses.h"

/* MiB that are asked for, or given back where negative; where, in MiB above the driver's first chunk. */
typedef struct step {
  int mib, at;
} step;

static const step mixed[] = {{2, 414},    {2, 488},    {2, 490},   {2, 492},   {2, 494},   {2, 496},   {20, -32},
                             {20, -64},   {20, -96},   {20, -128}, {38, -192}, {38, -256}, {38, -320}, {38, -384},
                             {74, -480},  {74, -576},  {74, -672}, {14, -598}, {14, -502}, {14, -406}, {14, -346},
                             {2, -584},   {2, -582},   {2, -580},  {20, -282}, {20, -218}, {20, -154}, {-38, -192},
                             {-38, -320}, {-74, -576}, {2, -578},  {14, -576}, {38, -562}, {38, -320}, {74, -768},
                             {20, -694},  {10, -524}};
static const step whole_chunks[] = {{64, -64},    {64, -128},  {64, -192},   {64, -256},   {96, -352},  {96, -448},
                                    {96, -544},   {96, -640},  {-64, -128},  {-64, -192},  {-96, -448}, {20, 488},
                                    {20, -96},    {70, -736},  {40, -160},   {128, -864},  {2, -120},   {90, -960},
                                    {40, -416},   {40, -1024}, {40, -1088},  {-40, -1024}, {38, -1152}, {22, -1114},
                                    {10, -1048},  {-40, -416}, {-40, -1088}, {100, -1280}, {36, -1088}, {120, -1408},
                                    {64, -416},   {64, -1472}, {64, -1536},  {64, -1600},  {-64, -416}, {-64, -1472},
                                    {-64, -1536}, {96, -1504}, {190, -1792}, {64, -416},   {30, -992}};
static const step large[] = {{512, -512},  {512, -1024},   {1024, -2048}, {1536, -3584}, {352, -3936}, {352, -4288},
                             {256, -4544}, {128, -4672},   {2, 414},      {20, 488},     {176, -4864}, {1536, -6400},
                             {2, -4688},   {4096, -10496}, {30, -10528},  {64, -10592},  {96, -10688}, {32, -10720},
                             {16, -10752}, {16, -10736},   {12, -4686},   {700, -11456}, {36, -11520}};

#define COUNT(list) (sizeof(list) / sizeof *(list))
enum { FIRST_MIB = 416, SECOND_MIB = 96, UNIT_MIB = 2 };

static void compare(const step *steps, size_t count) {
  static const uint64_t mib = 1 << 20;
  hr_torch_addresses a;
  hr__torch_addresses_init(&a);
  const int64_t first = ((int64_t)1 << 31) * UNIT_MIB - SECOND_MIB - FIRST_MIB;
  for (size_t i = 0; i < count; i++) {
    uint32_t place = (uint32_t)((first + steps[i].at) / UNIT_MIB);
    if (steps[i].mib < 0) {
      hr__torch_address_give(&a, place, (uint64_t)-steps[i].mib * mib);
      continue;
    }
    uint32_t said;
    assert_int_equal(hr__torch_address_take(&a, (uint64_t)steps[i].mib * mib, &said), HR_OK);
    if (said != place)
      fail_msg("step %zu, %d MiB: at %lld MiB, recorded at %d", i, steps[i].mib,
               (long long)((int64_t)said * UNIT_MIB - first), steps[i].at);
  }
  hr__torch_addresses_fini(&a);
}

static void test_holes_are_filled_from_below(void **state) {
  (void)state;
  compare(mixed, COUNT(mixed));
}

static void test_chunks_go_whole_and_come_in_gaps(void **state) {
  (void)state;
  compare(whole_chunks, COUNT(whole_chunks));
}

static void test_large_ones_leave_nothing_over(void **state) {
  (void)state;
  compare(large, COUNT(large));
}

/* The driver's own 414 MiB are a hole then, or, where nothing else is in its chunk, a gap. */
static void test_the_first_kernel(void **state) {
  (void)state;
  for (int used = 0; used < 2; used++) {
    uint32_t small = 0, place, lower;
    hr_torch_addresses a;
    hr__torch_addresses_init(&a);
    if (used) assert_int_equal(hr__torch_address_take(&a, 2 << 20, &small), HR_OK);
    assert_int_equal(hr__torch_addresses_kernel(&a), HR_OK);
    assert_int_equal(hr__torch_address_take(&a, 40 << 20, &place), HR_OK);
    assert_int_equal(hr__torch_address_take(&a, 40 << 20, &lower), HR_OK);
    if (used)
      assert_true(place + 20 == lower && lower + 20 < small); /* they rise */
    else
      assert_true(lower + 32 == place); /* they fall, by chunks of 64 MiB */
    hr__torch_addresses_fini(&a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_holes_are_filled_from_below), cmocka_unit_test(test_chunks_go_whole_and_come_in_gaps),
      cmocka_unit_test(test_large_ones_leave_nothing_over), cmocka_unit_test(test_the_first_kernel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
