/* Chains have the bits of their steps by themselves, by every size of vectors that this processor has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/random.h"
#include "op/pointwise_parts.h"

enum { MOST = 700, CHAINS = 400 };

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Every upper half of a word with lower halves on both sides of where rounding turns; of NaNs those without a lower
 * half. */
static void test_rounding(void **state) {
  (void)state;
  static const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  enum { LOWER = sizeof lower / sizeof *lower };
  static float x[65536], wide[65536];
  static uint16_t narrow[65536];
  for (int bytes = hr__chain_vector_bytes(); bytes >= 32; bytes /= 2)
    for (int l = 0; l < LOWER; l++) {
      for (uint32_t upper = 0; upper < 65536; upper++)
        x[upper] = float_of(upper << 16 | ((upper & 0x7fff) > 0x7f80 ? 0 : lower[l]));
      if (l > 0) x[0x7f80] = x[0xff80] = 0.0f; /* would be NaNs with a lower half only */
      hr_chain chain = {.first = {x, false}, .link = {{.kind = HR_LINK_NONE, .rounds = true}}, .count = 1, .to = wide};
      hr__chain_run(&chain, 65536, bytes);
      chain =
          (hr_chain){.first = {x, false}, .link = {{.kind = HR_LINK_NONE}}, .count = 1, .to = narrow, .narrow = true};
      hr__chain_run(&chain, 65536, bytes);
      for (uint32_t i = 0; i < 65536; i++) {
        uint16_t expected = (x[i] != x[i]) ? (uint16_t)(bits_of(x[i]) >> 16) : hr__f32_to_bf16(x[i]);
        if (narrow[i] != expected || bits_of(wide[i]) != (uint32_t)expected << 16)
          fail_msg("%08x by %d bytes: %04x and %08x instead of %04x", bits_of(x[i]), bytes, narrow[i], bits_of(wide[i]),
                   expected);
      }
    }
}

typedef struct dice {
  uint64_t chain, at;
} dice;

static uint32_t roll(dice *d, uint32_t below) {
  return (uint32_t)hr__random_below((hr_random_key){.seed = 11, .stream = d->chain}, 0, d->at++, below);
}

/* Small numbers mostly; sometimes zeros, subnormals, the largest and infinities. */
static uint16_t any_bf16(dice *d) {
  static const uint16_t special[] = {0, 0x8000, 1, 0x807f, 0x0080, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x3f80};
  if (roll(d, 8) == 0) return special[roll(d, sizeof special / sizeof *special)];
  return (uint16_t)(0x3e00 + roll(d, 0x200) + (roll(d, 2) ? 0x8000 : 0));
}

/* A row of operands as f32 and as bf16. */
typedef struct row {
  float wide[MOST];
  uint16_t narrow[MOST];
} row;

static void row_fill(row *r, dice *d, int n) {
  for (int i = 0; i < n; i++) {
    r->narrow[i] = any_bf16(d);
    r->wide[i] = hr__bf16_to_f32(r->narrow[i]);
  }
}

static hr_elements row_elements(const row *r, bool narrow) {
  return narrow ? (hr_elements){r->narrow, true} : (hr_elements){r->wide, false};
}

static const struct {
  hr_link_kind kind;
  hr_formula formula;
  bool reads, turned; /* another value, as the first operand */
} kinds[] = {{HR_LINK_ADD, HR_FORMULA_add, true, false},        {HR_LINK_SUB, HR_FORMULA_sub, true, false},
             {HR_LINK_FROM, HR_FORMULA_sub, true, true},        {HR_LINK_MUL, HR_FORMULA_mul, true, false},
             {HR_LINK_SQUARE, HR_FORMULA_square, false, false}, {HR_LINK_AFFINE, HR_FORMULA_affine, false, false},
             {HR_LINK_RELU, HR_FORMULA_relu, false, false},     {HR_LINK_CLAMP, HR_FORMULA_clamp, false, false}};

/* One chain of random links over random operands, all bf16 (`parted`) or either type, compared with its steps. */
static void chain_check(dice *d, bool parted) {
  static row first, other[HR_LINKS];
  static float value[MOST], kept[HR_LINKS][MOST], keep[HR_LINKS][MOST], wide[MOST];
  static uint16_t narrow[MOST];
  int n = 1 + (int)roll(d, MOST);
  hr_chain chain = {.count = 1 + (int)roll(d, HR_LINKS), .narrow = parted || roll(d, 2)};
  row_fill(&first, d, n);
  first.narrow[0] = 0x7fc0; /* NaN */
  first.wide[0] = float_of(0x7fc00000);
  chain.first = row_elements(&first, parted || roll(d, 2));
  memcpy(value, first.wide, sizeof value);
  for (int l = 0; l < chain.count; l++) {
    int k = (int)roll(d, sizeof kinds / sizeof *kinds);
    hr_link *link = &chain.link[l];
    *link = (hr_link){.kind = kinds[k].kind, .rounds = roll(d, 2), .p = -0.75f, .q = 0.5f};
    if (kinds[k].reads) {
      row_fill(&other[l], d, n);
      link->other = row_elements(&other[l], parted || roll(d, 2));
    }
    if (!parted && roll(d, 3) == 0) link->keep = keep[l];
    hr_step step = {.formula = (uint8_t)kinds[k].formula, .part = HR_PART_VALUE, .p = link->p, .q = link->q};
    const float *from[3] = {kinds[k].turned ? other[l].wide : value, kinds[k].turned ? value : other[l].wide, value};
    hr__step_run(&step, link->rounds ? HR_BF16 : HR_SAME_TYPE, true, n, from, kept[l]);
    memcpy(value, kept[l], sizeof value);
  }
  for (int bytes = hr__chain_vector_bytes(); bytes >= 32; bytes /= 2) {
    chain.to = chain.narrow ? (void *)narrow : (void *)wide;
    memset(narrow, 0x55, sizeof narrow);
    memset(wide, 0x55, sizeof wide);
    memset(keep, 0x55, sizeof keep);
    hr__chain_run(&chain, n, bytes);
    for (int i = 0; i < n; i++) {
      bool same = chain.narrow ? narrow[i] == hr__f32_to_bf16(value[i]) : bits_of(wide[i]) == bits_of(value[i]);
      for (int l = 0; l < chain.count; l++)
        same &= !chain.link[l].keep || bits_of(keep[l][i]) == bits_of(kept[l][i]);
      if (!same) fail_msg("chain %d by %d bytes differs in element %d of %d", (int)d->chain, bytes, i, n);
    }
    if (n < MOST) assert_true(chain.narrow ? narrow[n] == 0x5555 : bits_of(wide[n]) == 0x55555555); /* nothing behind */
  }
}

static void test_random_chains(void **state) {
  (void)state;
  for (int i = 0; i < CHAINS && hr__chain_vector_bytes() > 0; i++)
    chain_check(&(dice){.chain = (uint64_t)i}, i % 2);
}

/* A model has thousands of small programs: what one holds is as long as it is, not as the longest. */
static void test_a_small_program_holds_little(void **state) {
  (void)state;
  hr_pointwise_args args = hr__program_plain(4, 2);
  args.n_steps = args.n_out = 1;
  assert_true(hr__ready_bytes(&args) < 1024);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounding), cmocka_unit_test(test_random_chains),
                                     cmocka_unit_test(test_a_small_program_holds_little)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
