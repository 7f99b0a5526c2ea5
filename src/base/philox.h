/* Philox4x32 as an inline function, for loops that must be vectorised and for device code.
 *
 * Reference: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
 * base/random.h maps (seed, stream, high, low) to it: key = seed ^ stream, counter = high : low.
 */
#ifndef HR_BASE_PHILOX_H
#define HR_BASE_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define HR_PHILOX static __host__ __device__ inline
#else
#define HR_PHILOX static inline
#endif

/* Fills word[0..4) for a 64-bit key and a 128-bit counter. 7 rounds are the fewest that passed every test of the
 * authors; 10 are what they propose. */
HR_PHILOX void hr__philox_rounds(uint64_t key, uint64_t high, uint64_t low, int rounds, uint32_t word[4]) {
  uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
  uint32_t c0 = (uint32_t)low, c1 = (uint32_t)(low >> 32), c2 = (uint32_t)high, c3 = (uint32_t)(high >> 32);
  for (int round = 0; round < rounds; round++) {
    uint64_t product0 = 0xD2511F53ull * c0, product1 = 0xCD9E8D57ull * c2;
    c0 = (uint32_t)(product1 >> 32) ^ c1 ^ key0;
    c1 = (uint32_t)product1;
    c2 = (uint32_t)(product0 >> 32) ^ c3 ^ key1;
    c3 = (uint32_t)product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  word[0] = c0;
  word[1] = c1;
  word[2] = c2;
  word[3] = c3;
}

HR_PHILOX void hr__philox(uint64_t key, uint64_t high, uint64_t low, uint32_t word[4]) {
  hr__philox_rounds(key, high, low, 10, word);
}

#endif
