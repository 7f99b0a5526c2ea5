/* How the kernels of op/conv_warpgroups.h bring channels-first tensors to shared memory: warps read words of two
 * neighbouring places of eight channels, and store eight channels of a place as 16 bytes, [channels / 8, places, 8].
 * Places lie 16 bytes apart then, which is the grain at which matrices can begin.
 */
#ifndef HR_OP_CONV_WARPGROUPS_READ_CUH
#define HR_OP_CONV_WARPGROUPS_READ_CUH

#include "op/conv_warpgroups.cuh"

/* Where a ring is: stages come round in turn, and with each round the parity of their barriers changes. */
template <int STAGES> struct ring_place {
  int stage = 0, parity;
  __device__ explicit ring_place(int first_parity) : parity(first_parity) {}
  __device__ void next(void) {
    if (++stage < STAGES) return;
    stage = 0;
    parity ^= 1;
  }
};

/* Lines of a strip. Shares: 2^20 over the pitch, and over the words that a line has, rounded up. */
struct strip_lines {
  int pitch;
  uint32_t pitch_share, words_share;
};

static inline uint32_t share_of(int number) {
  return ((1u << 20) + (uint32_t)number - 1) / (uint32_t)number;
}
static inline strip_lines strip_lines_of(int pitch) {
  strip_lines s = {pitch, share_of(pitch), share_of(pitch / 2 + 1)};
  return s;
}

/* What is read of a plane: `count` places of a strip from `first` on. The strip's first place is place `x` of line `y`
 * of the plane, which has lines and places; outside of it and from place `end` on there are zeros. */
struct strip_piece {
  const uint16_t *plane; /* of the first channel */
  int64_t channel;       /* elements from one to the next */
  int left;              /* channels that are there */
  int lines, places, end, y, x, first, count;
};

/* Eight channels of two places, given as words of both. */
__device__ inline uint4 words_low(const uint32_t (&x)[8]) {
  return make_uint4(__byte_perm(x[0], x[1], 0x5410), __byte_perm(x[2], x[3], 0x5410), __byte_perm(x[4], x[5], 0x5410),
                    __byte_perm(x[6], x[7], 0x5410));
}
__device__ inline uint4 words_high(const uint32_t (&x)[8]) {
  return make_uint4(__byte_perm(x[0], x[1], 0x7632), __byte_perm(x[2], x[3], 0x7632), __byte_perm(x[4], x[5], 0x7632),
                    __byte_perm(x[6], x[7], 0x7632));
}

/* Where all channels begin alike. [UNITS, ROWS, 8]; TOGETHER: times eight channels that a warp asks for before it
 * stores the first. */
template <int UNITS, int ROWS, int TOGETHER, int WARPS>
__device__ inline void piece_read_words(const strip_lines &s, const strip_piece &p, int warp, unsigned char *to) {
  int begin = p.first / s.pitch, skipped = p.first - begin * s.pitch, lane = (int)threadIdx.x % 32;
  int words = s.pitch / 2 + 1, items = ((skipped + p.count - 1) / s.pitch + 1) * words;
  int half = __shfl_sync(~0u, (int)((uintptr_t)p.plane >> 1 & 1), 0);
  const uint16_t *whole = p.plane - half; /* words begin where it does */
  for (int first = warp * 32; first < items; first += WARPS * 32) {
    int item = first + lane, line = (int)((uint32_t)item * s.words_share >> 20), y = begin + line + p.y;
    int odd = (half + y * p.places + p.x) & 1, place = 2 * (item - line * words) - odd, x = p.x + place;
    int row = line * s.pitch + place - skipped;
    bool some = item < items, inside = some && (unsigned)y < (unsigned)p.lines;
    uint32_t mask = (inside && place >= 0 && (unsigned)x < (unsigned)p.end ? 0xffffu : 0u) |
                    (inside && (unsigned)(x + 1) < (unsigned)p.end ? 0xffff0000u : 0u);
    uint32_t away = mask ? (uint32_t)(y * p.places + x + half) * 2 : 0; /* bytes */
    bool low = some && place >= 0 && place < s.pitch && (unsigned)row < (unsigned)p.count;
    bool high = some && place + 1 < s.pitch && (unsigned)(row + 1) < (unsigned)p.count;
    bool edge = __any_sync(~0u, mask != ~0u);
    unsigned char *own = to + row * 16;
#pragma unroll 1
    for (int unit = 0; unit < UNITS; unit += TOGETHER) {
      uint32_t word[TOGETHER][8];
      const unsigned char *from = (const unsigned char *)(whole + (int64_t)unit * 8 * p.channel);
      if ((unit + TOGETHER) * 8 <= p.left) {
#pragma unroll
        for (int u = 0; u < TOGETHER; u++)
#pragma unroll
          for (int c = 0; c < 8; c++, from += p.channel * 2)
            word[u][c] = *(const uint32_t *)(from + away);
      } else {
#pragma unroll
        for (int u = 0; u < TOGETHER; u++)
#pragma unroll
          for (int c = 0; c < 8; c++, from += p.channel * 2)
            word[u][c] = (unit + u) * 8 + c < p.left ? *(const uint32_t *)(from + away) : 0u;
      }
#pragma unroll
      for (int u = 0; u < TOGETHER; u++) {
        if (edge) {
#pragma unroll
          for (int c = 0; c < 8; c++)
            word[u][c] &= mask;
        }
        unsigned char *there = own + (unit + u) * ROWS * 16;
        if (low) *(uint4 *)there = words_low(word[u]);
        if (high) *(uint4 *)(there + 16) = words_high(word[u]);
      }
    }
  }
}

/* Anywhere: place by place. */
template <int UNITS, int ROWS, int WARPS>
__device__ inline void piece_read_halves(const strip_lines &s, const strip_piece &p, int warp, unsigned char *to) {
  int begin = p.first / s.pitch, skipped = p.first - begin * s.pitch, lane = (int)threadIdx.x % 32;
  for (int job = warp; job < (p.count + 31) / 32 * UNITS; job += WARPS) {
    int unit = job % UNITS, row = job / UNITS * 32 + lane;
    int line = (int)((uint32_t)(row + skipped) * s.pitch_share >> 20);
    int x = row + skipped - line * s.pitch + p.x, y = begin + line + p.y;
    bool inside = row < p.count && (unsigned)x < (unsigned)p.end && (unsigned)y < (unsigned)p.lines;
    const uint16_t *from = p.plane + (int64_t)unit * 8 * p.channel + (inside ? y * p.places + x : 0);
    uint32_t half[8];
#pragma unroll
    for (int c = 0; c < 8; c++)
      half[c] = inside && unit * 8 + c < p.left ? from[c * p.channel] : 0u;
    if (row < p.count)
      *(uint4 *)(to + (unit * ROWS + row) * 16) = make_uint4(half[0] | half[1] << 16, half[2] | half[3] << 16,
                                                             half[4] | half[5] << 16, half[6] | half[7] << 16);
  }
}

#endif
