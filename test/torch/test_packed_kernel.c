/* Up to how many rows bitsandbytes 0.50.2 multiplies with a 4-bit weight as it is, asked of its own function for bf16:
 * a row for a kind of GPU, a column for a form of weight. With one row more it unpacks the weight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "torch/packed_kernel.h"

enum { WEIGHTS = 7 };
static const int64_t weights[WEIGHTS][2] = {{1024, 4096},  {896, 4864}, {4096, 4096}, {14336, 4096},
                                            {4096, 14336}, {2048, 512}, {512, 2048}}; /* in, out */
static const struct {
  hr_packed_gpu gpu;
  int64_t most[WEIGHTS];
} known[] = {
    {{75, 68}, {7, 7, 7, 7, 7, 7, 7}},
    {{80, 108}, {128, 128, 5, 5, 64, 32, 1536}},
    {{86, 84}, {64, 64, 64, 64, 128, 23, 320}},
    {{87, 16}, {4, 4, 4, 4, 4, 4, 4}},
    {{89, 128}, {8, 8, 8, 64, 128, 23, 320}},
    {{90, 132}, {7, 16, 7, 5, 32, 32, 512}},
    {{100, 148}, {4, 4, 4, 4, 8, 4, 4}},
    {{120, 170}, {8, 8, 8, 8, 64, 23, 320}},
    {{121, 48}, {256, 256, 256, 256, 256, 23, 192}},
};

static void test_known(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    for (int w = 0; w < WEIGHTS; w++) {
      int64_t most = known[i].most[w], in = weights[w][0], out = weights[w][1];
      assert_false(hr__packed_is_unpacked(&known[i].gpu, most, in, out));
      assert_true(hr__packed_is_unpacked(&known[i].gpu, most + 1, in, out));
    }
}

/* Its kernels want whole blocks. */
static void test_blocks(void **state) {
  (void)state;
  assert_true(hr__packed_is_unpacked(&known[1].gpu, 1, 1000, 4096));
  assert_false(hr__packed_is_unpacked(&known[1].gpu, 1, 1024, 4096));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known), cmocka_unit_test(test_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
