/* Which probabilities attention drops, in words that C and CUDA both read.
 *
 * A block of random words serves 16 neighbouring keys of one query, a byte each: byte i % 4 of word i / 4 is that of
 * key 16 block + i, and a key is dropped where its byte is below a limit. So rates come in 256ths: what is drawn is the
 * nearest one to the rate asked for (0.1 is 26/256 = 0.1016), at least 1/256, and what is kept is scaled by the rate
 * that is drawn, which leaves the mean of the result as it is.
 *
 * The counter holds everything that names an element: head (counted through all samples of the run), query, block of
 * keys. It knows nothing of the length of a sequence, of the batch that a sample comes in, or of who asks.
 */
#ifndef HR_OP_ATTENTION_DROP_H
#define HR_OP_ATTENTION_DROP_H

#include "op/dropout.h"

enum { HR_DROP_KEYS = 16, HR_DROP_PARTS = 256, HR_DROP_ROUNDS = 7 };

/* Bytes below this are dropped. 0: nothing is. */
HR_PHILOX uint32_t hr__drop_limit(float rate) {
  uint32_t nearest = (uint32_t)(rate * (float)HR_DROP_PARTS + 0.5f);
  if (!(rate > 0.0f)) return 0;
  return nearest < 1 ? 1 : nearest > HR_DROP_PARTS - 1 ? HR_DROP_PARTS - 1 : nearest;
}

/* What kept probabilities are multiplied by. */
HR_PHILOX float hr__drop_scale(uint32_t limit) {
  return (float)HR_DROP_PARTS / (float)(HR_DROP_PARTS - limit);
}

/* The head's number among those of all samples, which is the upper half of the counter. */
HR_PHILOX uint64_t hr__drop_head(uint64_t sample, int64_t heads, int64_t head) {
  return sample * (uint64_t)heads + (uint64_t)head;
}

/* The bytes of keys [16 block, 16 block + 16). `key` is hr__dropout_key, `head` hr__drop_head. */
HR_PHILOX void hr__drop_draw(uint64_t key, uint64_t head, uint32_t query, uint32_t block, uint32_t word[4]) {
  hr__philox_rounds(key, head, (uint64_t)query << 32 | block, HR_DROP_ROUNDS, word);
}

/* Whether one key is kept. */
HR_PHILOX bool hr__drop_keeps(uint64_t key, uint64_t head, int64_t query, int64_t at, uint32_t limit) {
  uint32_t word[4];
  hr__drop_draw(key, head, (uint32_t)query, (uint32_t)(at / HR_DROP_KEYS), word);
  return (word[at % HR_DROP_KEYS / 4] >> 8 * (at % 4) & 255) >= limit;
}

#endif
