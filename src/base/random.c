/* Counter-based random numbers on Philox (base/philox.h). Nothing here holds state. */
#include "base/random.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"

#define XXH_INLINE_ALL /* the hash is compiled in: no dependency on the library's build options */
#include <xxhash.h>

uint64_t hr__random_stream(const char *name) {
  return XXH3_64bits(name, strlen(name));
}

hr_random_block hr__random_at(hr_random_key key, uint64_t high, uint64_t low) {
  hr_random_block block;
  hr__philox(key.seed ^ key.stream, high, low, block.word);
  return block;
}

static uint64_t block_word64(const hr_random_block *block, int half) {
  return (uint64_t)block->word[2 * half + 1] << 32 | block->word[2 * half];
}

uint64_t hr__random_below(hr_random_key key, uint64_t high, uint64_t low, uint64_t n) {
  hr_random_block block = hr__random_at(key, high, low);
  return (uint64_t)((unsigned __int128)block_word64(&block, 0) * n >> 64);
}

void hr__random_normals(hr_random_key key, uint64_t high, uint64_t pair, float out[2]) {
  hr_random_block block = hr__random_at(key, high, pair);
  /* 53 bits each; the radius takes (0, 1] so that the logarithm is finite. */
  double radius_uniform = (double)((block_word64(&block, 0) >> 11) + 1) * 0x1p-53;
  double angle_uniform = (double)(block_word64(&block, 1) >> 11) * 0x1p-53;
  double radius = sqrt(-2.0 * log(radius_uniform));
  double angle = 6.283185307179586476925286766559 * angle_uniform;
  out[0] = (float)(radius * cos(angle));
  out[1] = (float)(radius * sin(angle));
}

float hr__random_normal(hr_random_key key, uint64_t high, uint64_t index) {
  float pair[2];
  hr__random_normals(key, high, index / 2, pair);
  return pair[index & 1];
}

/* One pass of a Feistel network over 2 x half_bits bits: a bijection whatever the round function is. */
static uint64_t feistel(hr_random_key key, uint64_t epoch, uint64_t value, unsigned half_bits) {
  enum { ROUNDS = 6 };
  uint64_t mask = ((uint64_t)1 << half_bits) - 1;
  uint64_t left = value >> half_bits, right = value & mask;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    hr_random_block block = hr__random_at(key, epoch, round << 32 | right);
    uint64_t mixed = (left ^ block.word[0]) & mask;
    left = right;
    right = mixed;
  }
  return left << half_bits | right;
}

uint64_t hr__random_permute(hr_random_key key, uint64_t epoch, uint64_t index, uint64_t n) {
  if (n <= 1) return 0;
  unsigned bits = 64u - (unsigned)__builtin_clzll(n - 1);
  unsigned half_bits = (bits + 1) / 2;
  /* Cycle walking: the network permutes [0, 4^half_bits), at most 4 n values; stepping until the value falls into [0,
   * n) is again a bijection. Ends because the cycle through `index` returns to `index` < n at the latest. */
  uint64_t value = index;
  do
    value = feistel(key, epoch, value, half_bits);
  while (value >= n);
  return value;
}
