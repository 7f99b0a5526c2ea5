/* The mask of dropout in the kernels of attention, as they hold their scores: who draws what, so that every draw is
 * made once or few times and serves all lanes that need it.
 */
#ifndef HR_OP_ATTENTION_MASK_CUH
#define HR_OP_ATTENTION_MASK_CUH

#include "op/attention_rows.cuh"

/* The mask of one sequence (op/attention_drop.h). What a draw gives is a word with a bit for each of 16 keys,
 * 1 where it is kept: that of key i is bit 8 (i % 4) + i / 4, so that of a byte of the word the lower four bits are
 * taken, and a second draw may lie in the upper ones. */
struct attention_mask {
  uint64_t key, head;    /* that of head 0 */
  uint32_t least, small; /* the limit's lower bits in each byte; all bits where it has no other */

  __device__ inline attention_mask(const attention_sizes &size, int batch) : key(0), head(0) {
    const attention_dropping &drop = size.drop;
    least = (drop.limit & 127) * 0x01010101u;
    small = drop.limit < 128 ? ~0u : 0;
    if (drop.limit == 0) return; /* there is no control block */
    key = hr__dropout_key(drop.control->seed, drop.stream_key, drop.control->step, drop.use);
    head = hr__drop_head(drop.control->sample + (uint64_t)(drop.first + batch), size.heads, 0);
  }

  /* The upper bit of each byte of the result: byte >= limit. Without that bit a byte is compared by subtracting, which
   * borrows nothing from its neighbour; with it, it is above any limit below 128, and needs the rest of one that is
   * not.
   */
  __device__ inline uint32_t kept(uint32_t bytes) const {
    uint32_t rest = (bytes | 0x80808080u) - least;
    return ((rest & bytes) | ((rest | bytes) & small)) & 0x80808080u;
  }

  __device__ inline uint32_t draw(int of_head, int query, int block) const {
    uint32_t word[4];
    hr__drop_draw(key, head + (uint64_t)of_head, (uint32_t)query, (uint32_t)block, word);
    return kept(word[0]) >> 7 | kept(word[1]) >> 6 | kept(word[2]) >> 5 | kept(word[3]) >> 4;
  }
};

/* Where the bit of key i of a block lies in what was drawn. */
static __device__ constexpr int mask_bit(int i) {
  return 8 * (i % 4) + i / 4;
}

/* ---- scores in fragments of matrix instructions (op/attention_mma.cuh); g = lane / 4, t = lane % 4 ---- */

/* Which of a warp's scores [16, 8 N] are kept, rows being queries from `query` on and columns keys from `key` on: of
 * the lane's elements e of C tile n bit 8 (e % 2) + 2 (n % 2) + 4 (e / 2) of word[n / 2].
 *
 * A row has N / 2 blocks of 16 keys, which the four lanes of the quad that hold rows g and g + 8 draw and exchange.
 * With N = 8 lane t draws block t of both rows; with N = 4 block t % 2 of row g + 8 (t / 2), and halves meet. */
template <int N>
static __device__ inline void mask_make(uint32_t (&word)[N / 2], const attention_mask &mask, int head, int query,
                                        int key) {
  static_assert(N == 4 || N == 8, "a quad draws two or four blocks of keys");
  int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, block = key / HR_DROP_KEYS;
  uint32_t drawn;
  if constexpr (N == 8) {
    drawn = mask.draw(head, query + g, block + t) | mask.draw(head, query + g + 8, block + t) << 4;
  } else {
    drawn = mask.draw(head, query + g + 8 * (t / 2), block + t % 2) << 4 * (t / 2);
    drawn |= __shfl_xor_sync(~0u, drawn, 2);
  }
#pragma unroll
  for (int b = 0; b < N / 2; b++) /* key 8 (n % 2) + 2 t + e % 2 of the block */
    word[b] = __shfl_sync(~0u, drawn, lane / 4 * 4 + b) >> (16 * (t % 2) + t / 2);
}
static __device__ inline bool mask_keeps(uint32_t word, int n, int e) {
  return word >> (8 * (e % 2) + 2 * (n % 2) + 4 * (e / 2)) & 1;
}

/* The same of transposed scores [16, 8 N], rows being keys and columns queries. All rows are of one block of keys,
 * which every lane draws for query `lane` of each 32; word[n % 4][e % 2] has the keys g and g + 8 of the lane's
 * queries, those of the second 32 in the upper four bits of a byte. */
template <int N>
static __device__ inline void mask_make_transposed(uint32_t (&word)[4][2], const attention_mask &mask, int head,
                                                   int query, int key) {
  static_assert(N == 4 || N == 8, "a warp draws for 32 or 64 queries");
  int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, block = key / HR_DROP_KEYS;
  uint32_t drawn = mask.draw(head, query + lane, block);
  if constexpr (N == 8) drawn |= mask.draw(head, query + 32 + lane, block) << 4;
#pragma unroll
  for (int n = 0; n < 4; n++)
#pragma unroll
    for (int e = 0; e < 2; e++)
      word[n][e] = __shfl_sync(~0u, drawn, 8 * n + 2 * t + e) >> mask_bit(g);
}
static __device__ inline bool mask_keeps_transposed(const uint32_t (&word)[4][2], int n, int e) {
  return word[n % 4][e % 2] >> (4 * (n / 4) + 2 * (e / 2)) & 1;
}

#endif
