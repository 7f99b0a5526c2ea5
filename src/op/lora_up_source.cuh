/* Where the backward kernel of lora_up has dy from: from memory, or from what the op in front of it makes dy of, which
 * it then does on its way, with the same bits, and stores for others that read it.
 *
 * `raw`: what is read for 8 neighbours in a row; `make`: dy of them.
 */
#ifndef HR_OP_LORA_UP_SOURCE_CUH
#define HR_OP_LORA_UP_SOURCE_CUH

#include "op/gelu.cuh"
#include "op/lora_up_place.cuh"
#include "op/mask.cuh"

template <typename T> struct dy_stored {
  const T *dy;
  int64_t columns;

  typedef uint4 raw;
  __device__ void begin() {}
  __device__ raw load(int64_t row, int64_t column) const { return *(const uint4 *)(dy + row * columns + column); }
  __device__ uint4 make(const raw &from, int64_t, int64_t) const { return from; }
};

/* Of gelu_bwd: to = from slope(x). */
template <typename T, bool TANH> struct dy_through_gelu {
  const T *from, *x;
  T *to;
  int64_t columns;

  struct raw {
    pack<T, 8> from, x;
  };
  __device__ void begin() {}
  __device__ raw load(int64_t row, int64_t column) const {
    return {pack_load<8>(from + row * columns + column), pack_load<8>(x + row * columns + column)};
  }
  __device__ uint4 make(const raw &given, int64_t row, int64_t column) const {
    pack<T, 8> made;
#pragma unroll
    for (int e = 0; e < 8; e++)
      made.value[e] = from_float<T>(to_float(given.from.value[e]) * gelu_slope<T, TANH>(to_float(given.x.value[e])));
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

  typedef pack<T, 8> raw;
  __device__ void begin() { mask.begin(); }
  __device__ raw load(int64_t row, int64_t column) const { return pack_load<8>(from + row * mask.columns + column); }
  __device__ uint4 make(const raw &given, int64_t row, int64_t column) const {
    float value[8];
    pack<T, 8> made;
#pragma unroll
    for (int e = 0; e < 8; e++)
      value[e] = to_float(given.value[e]);
    mask.apply(value, row, column);
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
