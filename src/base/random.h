/* Counter-based random numbers (Philox4x32-10): a pure function of key and counter, no state to save.
 *
 * Every use is keyed by (seed, step, module path, global sample, element), never by node number or call order, so that
 * recompute, slicing, offload and resume change no bit. `stream` is the hash of a module path or of a purpose's name
 * ("data.order", "model.norm.weight").
 */
#ifndef HR_BASE_RANDOM_H
#define HR_BASE_RANDOM_H

#include <stdint.h>

typedef struct hr_random_key {
  uint64_t seed;
  uint64_t stream; /* hr__random_stream of a name */
} hr_random_key;

uint64_t hr__random_stream(const char *name);

/* Four 32-bit words for a 128-bit counter (high = step or epoch or sample, low = element). */
typedef struct hr_random_block {
  uint32_t word[4];
} hr_random_block;
hr_random_block hr__random_at(hr_random_key key, uint64_t high, uint64_t low);

/* Uniform in [0, n), unbiased enough for data (64-bit multiply-shift). n >= 1. */
uint64_t hr__random_below(hr_random_key key, uint64_t high, uint64_t low, uint64_t n);

/* Element `index` of a standard normal sequence (Box-Muller over one block per two elements). */
float hr__random_normal(hr_random_key key, uint64_t high, uint64_t index);
/* Elements 2 pair and 2 pair + 1 of it, for hardly more than one of them. */
void hr__random_normals(hr_random_key key, uint64_t high, uint64_t pair, float out[2]);

/* Position `index` of a pseudo-random permutation of [0, n) (Feistel network with cycle walking): a shuffled order that
 * needs no memory and can start anywhere. `epoch` selects the permutation. */
uint64_t hr__random_permute(hr_random_key key, uint64_t epoch, uint64_t index, uint64_t n);

#endif
