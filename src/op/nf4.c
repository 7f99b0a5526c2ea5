/* NF4: see nf4.h. */
#include "op/nf4.h"

#include <math.h>

#include "base/dynamic8.h"
#include "op/shapes.h"
#include "op/stream.h"

enum { ZERO = 7 }; /* code of the level 0 */

const float hr_nf4_levels[16] = HR_NF4_LEVELS;

static const float thresholds[15] = {
    -0.8480964004993439f,  -0.6106329262256622f,   -0.4599952697753906f, -0.33967943489551544f, -0.23460740596055984f,
    -0.13791173323988914f, -0.045525018125772476f, 0.03979014977812767f, 0.1202552504837513f,   0.2035212516784668f,
    0.2920137718319893f,   0.3893125355243683f,    0.5016634166240692f,  0.6427869200706482f,   0.8614784181118011f,
};

hr_id hr__nf4_unpack(hr_builder *b, hr_id codes, hr_id absmax, hr_id nested_absmax, hr_id nested_offset, hr_desc desc) {
  hr_nf4_args args = {desc};
  return hr__emit(b, &hr_op_nf4_unpack, (hr_id[]){codes, absmax, nested_absmax, nested_offset}, 4, &args);
}

static int64_t nested_blocks(int64_t blocks) {
  return (blocks + HR_NF4_NESTED - 1) / HR_NF4_NESTED;
}

static hr_status nf4_unpack_shape(const hr_op_view *view, hr_desc *out, hr_error *err) {
  const hr_nf4_args *args = view->args;
  HR_TRY(hr__shape_operands(view, 4, 1u << 2 | 1u << 3, err));
  hr_op_view weight = {.in = &args->desc, .n_in = 1};
  HR_TRY(hr__shape_float(&weight, 0, err));
  bool nested = view->in[2].rank != 0;
  if (nested != (view->in[3].rank != 0))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "takes the scales of scales and their offset only together");
  int64_t count = hr_desc_count(&args->desc), blocks = hr__nf4_blocks(count);
  const hr_desc expected[] = {{HR_U8, 1, {(count + 1) / 2}},
                              {nested ? HR_U8 : HR_F32, 1, {blocks}},
                              {HR_F32, 1, {nested_blocks(blocks)}},
                              {HR_F32, 1, {1}}};
  for (int i = 0; i < 4; i++)
    HR_TRY(hr__shape_like(view, i, &expected[i], err));
  out[0] = args->desc;
  return HR_OK;
}

static void nf4_unpack_cost(const hr_op_view *view, hr_cost *cost) {
  hr__cost_stream(view, (double)hr_desc_count(&view->out[0]), cost);
  if (view->out[0].dtype != HR_F32) cost->op_class = HR_CLASS_STREAM_16;
}

/* Scales of blocks [first, first + count), as floats. Not compiled for several instruction sets: where multiplying and
 * adding were one instruction, the bits would be others. */
__attribute__((noinline)) static void scales_load(const hr_call *call, int64_t first, int64_t count, float *scales) {
  const hr_tensor *absmax = &call->in[1];
  if (absmax->desc.dtype == HR_F32) {
    for (int64_t i = 0; i < count; i++)
      scales[i] = ((const float *)absmax->data)[first + i];
    return;
  }
  const float *code = hr__dynamic8_signed(), *nested = call->in[2].data, offset = *(const float *)call->in[3].data;
  for (int64_t i = 0; i < count; i++)
    scales[i] = code[((const uint8_t *)absmax->data)[first + i]] * nested[(first + i) / HR_NF4_NESTED] + offset;
}

HR_CLONES static void nf4_unpack_task(void *arg, int64_t task, int worker) {
  const hr_call *call = arg;
  const hr_tensor *w = &call->out[0];
  const uint8_t *codes = call->in[0].data;
  hr_range chunk = hr__chunk(hr_desc_count(&w->desc), HR_CHUNK, task);
  float scales[HR_BLOCK / HR_NF4_BLOCK], block[HR_BLOCK], pairs[256][2]; /* both levels of a byte */
  (void)worker;

  for (int i = 0; i < 256; i++) {
    pairs[i][0] = hr_nf4_levels[i >> 4];
    pairs[i][1] = hr_nf4_levels[i & 15];
  }
  for (int64_t at = chunk.first; at < chunk.end; at += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, chunk.end - at);
    scales_load(call, at / HR_NF4_BLOCK, hr__nf4_blocks(n), scales);
    float *to = hr__target(w, at, block);
    for (int64_t i = 0; i + 1 < n; i += 2) {
      const float *pair = pairs[codes[(at + i) / 2]];
      to[i] = pair[0] * scales[i / HR_NF4_BLOCK];
      to[i + 1] = pair[1] * scales[i / HR_NF4_BLOCK];
    }
    if (n % 2) to[n - 1] = pairs[codes[(at + n) / 2]][0] * scales[n / HR_NF4_BLOCK];
    hr__store(w, at, n, to);
  }
}

static hr_status nf4_unpack_run(const hr_call *call) {
  hr__run_chunks(call, hr_desc_count(&call->out[0].desc), nf4_unpack_task);
  return HR_OK;
}

/* The largest magnitude of n elements. Magnitudes are compared as integers, which order them alike and which the
 * compiler may take in any order; what is no number counts as 0. */
static inline __attribute__((always_inline)) float largest_of(const float *w, int64_t n) {
  int32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; i++) {
    int32_t word;
    memcpy(&word, &w[i], sizeof word);
    word &= 0x7fffffff;
    word = word > 0x7f800000 ? 0 : word;
    largest = word > largest ? word : largest;
  }
  float value;
  memcpy(&value, &largest, sizeof value);
  return value;
}

HR_CLONES void hr__nf4_scales(const float *w, int64_t count, float *absmax) {
  int64_t whole = count / HR_NF4_BLOCK;
  for (int64_t b = 0; b < whole; b++)
    absmax[b] = largest_of(w + b * HR_NF4_BLOCK, HR_NF4_BLOCK);
  if (whole * HR_NF4_BLOCK < count) absmax[whole] = largest_of(w + whole * HR_NF4_BLOCK, count % HR_NF4_BLOCK);
}

/* Codes of one block, a byte each. 0 times infinity, where a scale is too small to have a reciprocal, is no number; it
 * stands for 0. All thresholds are looked at, so that many elements go side by side. */
static inline __attribute__((always_inline)) void block_codes(const float *w, float scale, uint8_t code[HR_NF4_BLOCK]) {
  float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
#pragma omp simd
  for (int i = 0; i < HR_NF4_BLOCK; i++) {
    float x = w[i] * inverse;
    int32_t below = 0;
#pragma GCC unroll 15
    for (int t = 0; t < 15; t++)
      below += x > thresholds[t];
    code[i] = (uint8_t)(x == x ? below : ZERO);
  }
}

static inline __attribute__((always_inline)) void pairs_put(const uint8_t code[HR_NF4_BLOCK], int64_t bytes,
                                                            uint8_t *to) {
#pragma omp simd
  for (int64_t i = 0; i < bytes; i++)
    to[i] = (uint8_t)(code[2 * i] << 4 | code[2 * i + 1]);
}

HR_CLONES void hr__nf4_codes(const float *w, int64_t count, const float *absmax, uint8_t *codes) {
  int64_t whole = count / HR_NF4_BLOCK, left = count % HR_NF4_BLOCK;
  uint8_t code[HR_NF4_BLOCK];
  for (int64_t b = 0; b < whole; b++) {
    block_codes(w + b * HR_NF4_BLOCK, absmax[b], code);
    pairs_put(code, HR_NF4_BLOCK / 2, codes + b * (HR_NF4_BLOCK / 2));
  }
  if (left == 0) return;
  float rest[HR_NF4_BLOCK] = {0}; /* an element beyond the end, in the last byte, is 0 */
  memcpy(rest, w + whole * HR_NF4_BLOCK, (size_t)left * sizeof *rest);
  block_codes(rest, absmax[whole], code);
  pairs_put(code, (left + 1) / 2, codes + whole * (HR_NF4_BLOCK / 2));
}

void hr__nf4_nest(const float *absmax, int64_t count, float offset, uint8_t *codes, float *nested_absmax) {
  const float *code = hr__dynamic8_signed();
  float largest = 0.0f;
  for (int64_t i = 0; i < count; i++)
    largest = fmaxf(largest, fabsf(absmax[i] - offset));
  for (int64_t i = 0; i < count; i++)
    codes[i] = hr__dynamic8_encode(code, largest > 0.0f ? (absmax[i] - offset) / largest : 0.0f);
  *nested_absmax = largest;
}

static const hr_sample nf4_unpack_samples[] = {
    {.n_in = 4, .in = {{HR_U8, 1, {4096}}, {HR_F32, 1, {128}}}, .args = &(const hr_nf4_args){{HR_F32, 2, {64, 128}}}},
    {.n_in = 4,
     .in = {{HR_U8, 1, {67}}, {HR_U8, 1, {3}}, {HR_F32, 1, {1}}, {HR_F32, 1, {1}}},
     .args = &(const hr_nf4_args){{HR_F32, 2, {7, 19}}}},
    {.n_in = 4,
     .in = {{HR_U8, 1, {8896}}, {HR_U8, 1, {278}}, {HR_F32, 1, {2}}, {HR_F32, 1, {1}}},
     .args = &(const hr_nf4_args){{HR_BF16, 2, {139, 128}}}},
};

const hr_op hr_op_nf4_unpack = {
    .name = "nf4_unpack",
    .n_in = 4,
    .n_out = 1,
    .optional = 1u << 2 | 1u << 3,
    .args_bytes = sizeof(hr_nf4_args),
    .never_saved = true,
    .axes = HR_AXES_NONE,
    .dtypes = {[HR_CPU] = HR_DTYPE_BIT(HR_U8), [HR_CUDA] = HR_DTYPE_BIT(HR_U8)},
    .shape = nf4_unpack_shape,
    .cost = nf4_unpack_cost,
    .cpu = {.run = nf4_unpack_run},
    .samples = nf4_unpack_samples,
    .n_samples = sizeof nf4_unpack_samples / sizeof *nf4_unpack_samples,
};
