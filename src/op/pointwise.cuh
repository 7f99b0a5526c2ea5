/* Programs on CUDA: interpreted by every thread for all of its elements at once.
 *
 * The program is a parameter of the kernel: all threads take the same branches, and what it costs to find out what a
 * step does is shared by up to 32 elements. A step works on the result of the one before, which stays in registers;
 * values that are read later, or are results, lie in shared memory meanwhile, each thread's own. Operands are read
 * again wherever a step names them: the second time from the cache.
 *
 * Where all values of a program are bf16, registers hold two of them each, as memory does: to round is to put a result
 * back, and some steps work on both at once (pointwise_pairs.cuh). Other programs are held in f32 and rounded where a
 * step says so.
 */
#ifndef HR_OP_POINTWISE_CUH
#define HR_OP_POINTWISE_CUH

#include "op/pointwise_pairs.cuh"

enum { COSTLY = 6 }; /* flops of a formula from which on its code is there for one group, taken in turn */

/* A thread's elements of one value: G groups of N, held as type T. */
template <typename T, int N, int G> struct values {
  static constexpr int PACK = N, GROUPS = G, IN_WORD = 4 / sizeof(T), GROUP_WORDS = N / IN_WORD;
  static constexpr int WORDS = GROUP_WORDS * G;
  typedef T type;
  uint32_t word[WORDS];

  /* Takes the first group away and puts another one at the end. */
  __device__ __forceinline__ void turn(const uint32_t *group) {
#pragma unroll
    for (int w = 0; w < WORDS; w++)
      word[w] = w + GROUP_WORDS < WORDS ? word[w + GROUP_WORDS] : group[w + GROUP_WORDS - WORDS];
  }
  __device__ __forceinline__ void turn() {
    uint32_t group[GROUP_WORDS];
#pragma unroll
    for (int w = 0; w < GROUP_WORDS; w++)
      group[w] = word[w];
    turn(group);
  }
};

/* MIXED: operands and results have any type, and steps round. BLOCKS: that a multiprocessor is to hold at once, by
 * which registers are shared out: what is on its way from memory meanwhile is what keeps memory busy. */
template <typename T, int N, int G, bool MIXED_TYPES, int AT_ONCE = 1> struct holding {
  typedef values<T, N, G> all;
  static constexpr bool MIXED = MIXED_TYPES;
  static constexpr int BLOCKS = AT_ONCE;
};

/* ---- words: one f32, or two elements of bf16 ---- */

template <typename T> __device__ __forceinline__ float word_low(uint32_t word) {
  return __uint_as_float(sizeof(T) == 4 ? word : word << 16);
}
__device__ __forceinline__ float word_high(uint32_t word) {
  return __uint_as_float(word & 0xffff0000u);
}
template <typename T> __device__ __forceinline__ uint32_t word_of(float low, float high) {
  if constexpr (sizeof(T) == 4) {
    return __float_as_uint(low);
  } else {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    uint32_t word;
    memcpy(&word, &both, sizeof word);
    return word;
  }
}

template <typename T, typename F>
__device__ __forceinline__ uint32_t word_map(uint32_t x, uint32_t y, uint32_t z, const F &formula) {
  float low = formula(word_low<T>(x), word_low<T>(y), word_low<T>(z));
  if constexpr (sizeof(T) == 4)
    return word_of<T>(low, 0.0f);
  else
    return word_of<T>(low, formula(word_high(x), word_high(y), word_high(z)));
}

/* x = formula(x, y, z); READS: how many of them the formula has. */
template <int FLOPS, int READS, typename V, typename F>
__device__ __forceinline__ void values_map(V &x, V &y, V &z, const F &formula) {
  if constexpr (FLOPS < COSTLY || V::GROUPS == 1) {
#pragma unroll
    for (int w = 0; w < V::WORDS; w++)
      x.word[w] = word_map<typename V::type>(x.word[w], y.word[w], z.word[w], formula);
  } else {
#pragma unroll 1
    for (int g = 0; g < V::GROUPS; g++) {
      uint32_t made[V::GROUP_WORDS];
#pragma unroll
      for (int w = 0; w < V::GROUP_WORDS; w++)
        made[w] = word_map<typename V::type>(x.word[w], y.word[w], z.word[w], formula);
      x.turn(made);
      if constexpr (READS > 1) y.turn();
      if constexpr (READS > 2) z.turn();
    }
  }
}

/* ---- where a thread is ---- */

template <typename I> struct place {
  I index[HR_RANK]; /* per axis, innermost first; axis 0 in packs */
  int groups;       /* of this thread that are inside of the space */
};

__device__ __forceinline__ void place_find(const program &p, uint32_t at, place<uint32_t> *to) {
#pragma unroll
  for (int d = 0; d < HR_RANK; d++) {
    if (d >= p.axes) break;
    uint32_t above = d == p.axes - 1 ? 0 : (__umulhi(at, p.axis[d].magic) + at) >> p.axis[d].shift;
    to->index[d] = at - above * (uint32_t)p.axis[d].size;
    at = above;
  }
  int64_t along = 0;
#pragma unroll
  for (int d = 0; d < HR_RANK; d++)
    if (d == p.group_axis) along = to->index[d];
  to->groups = 0;
  for (; along < p.group_size; along += p.group_distance)
    to->groups++;
}

/* For one group, of spaces of any size. */
__device__ __forceinline__ void place_find(const program &p, int64_t at, place<int64_t> *to) {
  to->groups = 1;
  if (at >> 31 == 0) {
    place<uint32_t> small;
    place_find(p, (uint32_t)at, &small);
#pragma unroll
    for (int d = 0; d < HR_RANK; d++)
      if (d < p.axes) to->index[d] = small.index[d];
    return;
  }
#pragma unroll
  for (int d = 0; d < HR_RANK; d++) {
    if (d >= p.axes) break;
    int64_t above = d == p.axes - 1 ? 0 : at / p.axis[d].size;
    to->index[d] = at - above * p.axis[d].size;
    at = above;
  }
}

template <typename I>
__device__ __forceinline__ int64_t place_offset(const place<I> &at, int axes, const int64_t *step) {
  int64_t offset = 0;
#pragma unroll
  for (int d = 0; d < HR_RANK; d++) {
    if (d >= axes) break;
    offset += (int64_t)at.index[d] * step[d];
  }
  return offset;
}

/* ---- operands ---- */

/* N neighbours, or one for all of them, as words of T. */
template <typename V, typename S> __device__ __forceinline__ void group_read(const S *from, uint32_t *to) {
  if constexpr (sizeof(S) == sizeof(typename V::type)) {
    constexpr int BYTES = V::PACK * sizeof(S);
    if constexpr (BYTES % 16 == 0) {
#pragma unroll
      for (int i = 0; i < BYTES / 16; i++) {
        uint4 words = ((const uint4 *)from)[i];
        to[4 * i] = words.x;
        to[4 * i + 1] = words.y;
        to[4 * i + 2] = words.z;
        to[4 * i + 3] = words.w;
      }
    } else {
      memcpy(to, from, BYTES);
    }
  } else {
    float element[V::PACK];
    pack_read<V::PACK>(from, element);
#pragma unroll
    for (int e = 0; e < V::PACK; e++)
      to[e] = __float_as_uint(element[e]);
  }
}

template <typename V> __device__ __forceinline__ uint32_t word_repeat(float value) {
  return word_of<typename V::type>(value, value);
}

/* Element by element, where the operand has one. */
template <typename V, typename S, typename I>
__device__ __forceinline__ void any_read(const program &p, const program_operand &x, const place<I> &at, V &to) {
  int64_t base = place_offset(at, p.axes, x.step) + x.start;
#pragma unroll 1
  for (int g = 0; g < V::GROUPS; g++) {
    bool inside = g < at.groups;
    int64_t inner = 0;
#pragma unroll
    for (int d = 0; d < HR_RANK; d++) {
      if (d >= p.axes) break;
      int64_t index = (int64_t)at.index[d] + (d == p.group_axis ? g * p.group_distance : 0);
      if (d == 0) {
        inner = index * V::PACK + x.first[0];
      } else {
        index += x.first[d];
        inside = inside && index >= 0 && index < x.limit[d];
      }
    }
    const S *from = (const S *)x.data + base + g * x.group;
    float element[V::PACK];
#pragma unroll
    for (int e = 0; e < V::PACK; e++) {
      bool has = inside && inner + e >= 0 && inner + e < x.limit[0];
      element[e] = has ? to_float(from[e * x.element]) : 0.0f;
    }
    uint32_t group[V::GROUP_WORDS];
#pragma unroll
    for (int w = 0; w < V::GROUP_WORDS; w++)
      group[w] = word_of<typename V::type>(element[w * V::IN_WORD], element[(w + 1) * V::IN_WORD - 1]);
    to.turn(group);
  }
}

template <typename V, typename S, typename I>
__device__ __forceinline__ void operand_read_as(const program &p, const program_operand &x, const place<I> &at, V &to) {
  if (x.read == READ_ANY) {
    any_read<V, S>(p, x, at, to);
    return;
  }
  const S *from = (const S *)x.data + place_offset(at, p.axes, x.step);
  if (x.read == READ_SAME) {
    group_read<V>(from, to.word);
#pragma unroll
    for (int w = V::GROUP_WORDS; w < V::WORDS; w++)
      to.word[w] = to.word[w - V::GROUP_WORDS];
  } else if (x.read == READ_PACK) {
#pragma unroll
    for (int g = 0; g < V::GROUPS; g++)
      if (g < at.groups) group_read<V>(from + g * x.group, to.word + g * V::GROUP_WORDS);
  } else {
    float one[V::GROUPS];
#pragma unroll
    for (int g = 0; g < V::GROUPS; g++)
      one[g] = g < at.groups ? to_float(from[g * x.group]) : 0.0f;
#pragma unroll
    for (int w = 0; w < V::WORDS; w++)
      to.word[w] = word_repeat<V>(one[w / V::GROUP_WORDS]);
  }
}

__device__ inline float to_float(uint8_t x) {
  return (float)x;
}
__device__ inline float to_float(int32_t x) {
  return (float)x;
}

template <typename H, typename I>
__device__ __forceinline__ void operand_read(const program &p, const program_operand &x, const place<I> &at,
                                             typename H::all &to) {
  typedef typename H::all V;
  if constexpr (!H::MIXED)
    operand_read_as<V, typename V::type>(p, x, at, to);
  else if (x.dtype == HR_BF16)
    operand_read_as<V, bf16>(p, x, at, to);
  else if (x.dtype == HR_F16)
    operand_read_as<V, f16>(p, x, at, to);
  else if (x.dtype == HR_U8)
    any_read<V, uint8_t>(p, x, at, to);
  else if (x.dtype == HR_I32)
    any_read<V, int32_t>(p, x, at, to);
  else
    operand_read_as<V, float>(p, x, at, to);
}

/* ---- kept values: [value][word of a thread][thread] ---- */

template <typename V> __host__ __device__ constexpr size_t kept_bytes(int n_kept, int threads) {
  return (size_t)n_kept * V::WORDS * sizeof(uint32_t) * threads;
}

template <typename V> __device__ __forceinline__ void kept_write(int number, const V &from) {
  if constexpr (V::WORDS % 4 == 0) {
    uint4 *to = launch_shared<uint4>() + number * (V::WORDS / 4) * blockDim.x + threadIdx.x;
#pragma unroll
    for (int w = 0; w < V::WORDS; w += 4)
      to[w / 4 * blockDim.x] = make_uint4(from.word[w], from.word[w + 1], from.word[w + 2], from.word[w + 3]);
  } else {
    uint32_t *to = launch_shared<uint32_t>() + number * V::WORDS * blockDim.x + threadIdx.x;
#pragma unroll
    for (int w = 0; w < V::WORDS; w++)
      to[w * blockDim.x] = from.word[w];
  }
}

template <typename V> __device__ __forceinline__ void kept_read(int number, V &to) {
  if constexpr (V::WORDS % 4 == 0) {
    const uint4 *from = launch_shared<uint4>() + number * (V::WORDS / 4) * blockDim.x + threadIdx.x;
#pragma unroll
    for (int w = 0; w < V::WORDS; w += 4) {
      uint4 words = from[w / 4 * blockDim.x];
      to.word[w] = words.x;
      to.word[w + 1] = words.y;
      to.word[w + 2] = words.z;
      to.word[w + 3] = words.w;
    }
  } else {
    const uint32_t *from = launch_shared<uint32_t>() + number * V::WORDS * blockDim.x + threadIdx.x;
#pragma unroll
    for (int w = 0; w < V::WORDS; w++)
      to.word[w] = from[w * blockDim.x];
  }
}

/* ---- steps ---- */

template <typename H, typename I>
__device__ __forceinline__ void source_read(const program &p, int source, const place<I> &at,
                                            const typename H::all &before, typename H::all &to) {
  if (source < SOURCE_BEFORE)
    operand_read<H>(p, p.in[source], at, to);
  else if (source == SOURCE_BEFORE)
    to = before;
  else
    kept_read(source - SOURCE_KEPT, to);
}

template <typename V> __device__ __forceinline__ void step_run(const program_step &step, V &x, V &y, V &z) {
  float p = step.p, q = step.q;
  if constexpr (sizeof(typename V::type) == 2)
    if (pairs_run(step, x, y, z)) return;
  switch (step.code) {
#define HR_CASE(name, part, flops, reads, expression)                                                                  \
  case HR_FORMULA_##name *HR_PARTS + part:                                                                             \
    values_map<flops, reads>(x, y, z, [p, q](float u, float v, float w) {                                              \
      (void)u, (void)v, (void)w, (void)p, (void)q;                                                                     \
      return expression;                                                                                               \
    });                                                                                                                \
    break;
#define HR_CASES_1(name, flops, reads, value, slope)                                                                   \
  HR_CASE(name, HR_PART_VALUE, flops, 1, hr__value_##name(u, 0.0f, p, q))                                              \
  HR_CASE(name, HR_PART_SLOPE_A, flops, 2, hr__slope_a_##name(u, v, 0.0f, p, q))
#define HR_CASES_2(name, flops, reads, value, slope_a, slope_b)                                                        \
  HR_CASE(name, HR_PART_VALUE, flops, 2, hr__value_##name(u, v, p, q))                                                 \
  HR_CASE(name, HR_PART_SLOPE_A, flops, 3, hr__slope_a_##name(u, v, w, p, q))                                          \
  HR_CASE(name, HR_PART_SLOPE_B, flops, 3, hr__slope_b_##name(u, v, w, p, q))
    HR_FORMULAS_1(HR_CASES_1)
    HR_FORMULAS_2(HR_CASES_2)
#undef HR_CASE
#undef HR_CASES_1
#undef HR_CASES_2
  default:
    break;
  }
}

template <typename V> __device__ __forceinline__ void values_round(int dtype, V &x) {
  if (dtype == HR_BF16) {
#pragma unroll
    for (int w = 0; w < V::WORDS; w++)
      x.word[w] = __float_as_uint(to_float(from_float<bf16>(__uint_as_float(x.word[w]))));
  } else if (dtype == HR_F16) {
#pragma unroll
    for (int w = 0; w < V::WORDS; w++)
      x.word[w] = __float_as_uint(to_float(from_float<f16>(__uint_as_float(x.word[w]))));
  }
}

/* All steps; the last one's result is in x. */
template <typename H, typename I>
__device__ __forceinline__ void program_run(const program &p, const place<I> &at, typename H::all &x) {
#pragma unroll 1
  for (int s = 0; s < p.n_steps; s++) {
    const program_step &step = p.step[s];
    typename H::all y, z;
    if (step.from[1] != SOURCE_NONE) source_read<H>(p, step.from[1], at, x, y);
    if (step.from[2] != SOURCE_NONE) source_read<H>(p, step.from[2], at, x, z);
    if (step.from[0] != SOURCE_BEFORE) source_read<H>(p, step.from[0], at, x, x);
    step_run(step, x, y, z);
    if constexpr (H::MIXED) values_round(step.round, x);
    if (step.kept != NOT_KEPT) kept_write(step.kept, x);
  }
}

#endif
