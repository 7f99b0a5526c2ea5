/* Where the backward kernel of lora_up has dy from: from memory, or from what the op in front of it makes dy of, which
 * it then does on its way, with the same bits, and stores for others that read it.
 *
 * A thread has rows `half` = 0 and 1 of a step: begin() says which, rows_next() that a step of `step` rows is done.
 * `raw`: what is read for 8 neighbours in a row; `make`: dy of them.
 */
#ifndef HR_OP_LORA_UP_SOURCE_CUH
#define HR_OP_LORA_UP_SOURCE_CUH

#include "dev/cuda/pair.cuh"
#include "op/gelu.cuh"
#include "op/lora_up_place.cuh"
#include "op/mask.cuh"

template <typename T> struct dy_stored {
  const T *dy;
  int64_t columns;

  typedef uint4 raw;
  __device__ void begin(int64_t, int64_t) {}
  __device__ void rows_next(int) {}
  __device__ raw load(int64_t row, int64_t column) const { return *(const uint4 *)(dy + row * columns + column); }
  __device__ uint4 make(const raw &from, int, int64_t, int64_t) const { return from; }
};

/* Of gelu_bwd: to = from slope(x). */
template <typename T, bool TANH> struct dy_through_gelu {
  const T *from, *x;
  T *to;
  int64_t columns;

  struct raw {
    pack<T, 8> from, x;
  };
  __device__ void begin(int64_t, int64_t) {}
  __device__ void rows_next(int) {}
  __device__ raw load(int64_t row, int64_t column) const {
    return {pack_load<8>(from + row * columns + column), pack_load<8>(x + row * columns + column)};
  }
  __device__ uint4 make(const raw &given, int, int64_t row, int64_t column) const {
    float value[8], at[8];
    pack<T, 8> made;
    pack_floats(given.from, value);
    pack_floats(given.x, at);
#pragma unroll
    for (int e = 0; e < 8; e++)
      made.value[e] = from_float<T>(value[e] * gelu_slope<T, TANH>(at[e]));
    pack_store<8>(to + row * columns + column, made);
    uint4 words;
    memcpy(&words, &made, sizeof words);
    return words;
  }
};

/* Of dropout: to = mask from / (1 - p). */
template <typename T> struct dy_dropped {
  const T *from;
  T *to;
  rows_mask mask;
  masked_row row_at[2];

  typedef pack<T, 8> raw;
  __device__ void begin(int64_t first, int64_t second) {
    mask.begin();
    row_at[0] = mask.row_of(first), row_at[1] = mask.row_of(second);
  }
  __device__ void rows_next(int step) {
    mask.advance(row_at[0], step);
    mask.advance(row_at[1], step);
  }
  __device__ raw load(int64_t row, int64_t column) const { return pack_load<8>(from + row * mask.columns + column); }
  __device__ uint4 make(const raw &given, int half, int64_t row, int64_t column) const {
    float value[8];
    pack<T, 8> made;
    pack_floats(given, value);
    mask.apply(value, row_at[half], column);
#pragma unroll
    for (int e = 0; e < 8; e++)
      made.value[e] = from_float<T>(value[e]);
    pack_store<8>(to + row * mask.columns + column, made);
    uint4 words;
    memcpy(&words, &made, sizeof words);
    return words;
  }
};

#endif
