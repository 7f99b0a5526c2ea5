/* What the optimizers' kernels share on the CPU: the factor on gradients, and stochastic rounding.
 *
 * Every optimizer is elementwise over a flat range of a parameter. args.first is the number of the range's first
 * element within the whole parameter: a node on a view gives the bits that a node on all of it gives there.
 *
 * What is stored in bf16 is rounded stochastically, else changes below half a unit would be lost for ever: the 16 bits
 * below the stored ones are added to 16 random bits and the carry decides. The random bits of element e are half-word
 * e % 8 (low half of each word first) of hr__random_at({seed, stream_key}, step, e / 8 + slot * 2^62), where slot is 0
 * for the parameter and counts its states from 1.
 */
#ifndef HR_OP_OPTIMIZER_H
#define HR_OP_OPTIMIZER_H

#include "op/shapes.h"
#include "op/stream.h"

/* Parts of a parameter begin at multiples of this many elements. */
enum { HR_UPDATE_TILE = 4096 };

enum { HR_UPDATED = HR_DTYPE_BIT(HR_F32) | HR_DTYPE_BIT(HR_BF16) }; /* types that parameters may have */

/* What every optimizer asks of its operands: parameter 0 and gradient 1 of one shape, the control block, the norm
 * (optional) where gradients are clipped, and where the range begins. */
static inline hr_status hr__update_shape(const hr_op_view *view, int control_in, int norm_in, float clip_norm,
                                         int64_t first, hr_error *err) {
  hr_desc control = hr__desc1(HR_U8, (int64_t)sizeof(hr_control)), norm = hr__desc1(HR_F32, 1);
  HR_TRY(hr__shape_float(view, 0, err));
  if (!(HR_DTYPE_BIT(view->in[0].dtype) & HR_UPDATED))
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a parameter of type %s cannot be updated",
                    hr_dtype_name(view->in[0].dtype));
  HR_TRY(hr__shape_like_float(view, 1, &view->in[0], err));
  HR_TRY(hr__shape_like(view, control_in, &control, err));
  HR_TRY(hr__shape_like(view, norm_in, &norm, err));
  if (clip_norm > 0.0f && view->in[norm_in].rank == 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "clipping needs the gradient norm");
  if (first < 0 || first % HR_UPDATE_TILE != 0)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "a part begins at element %lld, expected a multiple of %d",
                    (long long)first, HR_UPDATE_TILE);
  return HR_OK;
}

/* Factor on gradients: min(1, clip_norm / (norm / loss_scale + 1e-6)) / loss_scale. A norm that is not a number makes
 * the factor one too: better loud than silent. */
static inline float hr__update_scale(const hr_control *control, float clip_norm, const hr_tensor *norm) {
  float scale = 1.0f / control->loss_scale;
  if (!(clip_norm > 0.0f) || !norm->data) return scale;
  float clip = clip_norm / (*(const float *)norm->data * scale + 1e-6f);
  return clip >= 1.0f ? scale : scale * clip;
}

/* A skipped step leaves everything as it was; only results with storage of their own still need the old values. */
static inline void hr__update_keep(const hr_call *call, const hr_op *op) {
  for (int a = 0; a < op->n_alias; a++) {
    const hr_tensor *in = &call->in[op->alias[a].in], *out = &call->out[op->alias[a].out];
    if (in->data != out->data) memcpy(out->data, in->data, hr_desc_bytes(&in->desc));
  }
}

/* Where a call's random bits come from. */
typedef struct hr_update_random {
  uint64_t key, step;
  int64_t first;
} hr_update_random;

static inline hr_update_random hr__update_random(const hr_call *call, const hr_control *control, int64_t first) {
  return (hr_update_random){.key = control->seed ^ call->stream_key, .step = control->step, .first = first};
}

/* Random bits for the elements of a block: Philox for many counters side by side (base/philox.h does one). */
enum { HR_UPDATE_LANES = HR_BLOCK / 8 };
typedef union hr_update_bits {
  uint32_t word[HR_BLOCK / 2];
  uint16_t half[HR_BLOCK];
} hr_update_bits;

/* For `lanes` times 8 elements from element `at` of the range. */
HR_INLINE void hr__update_draw(const hr_update_random *random, int64_t at, uint64_t slot, int lanes,
                               hr_update_bits *bits) {
  uint32_t c0[HR_UPDATE_LANES], c1[HR_UPDATE_LANES], c2[HR_UPDATE_LANES], c3[HR_UPDATE_LANES];
  uint64_t first = (uint64_t)(random->first + at) / 8 + (slot << 62);
  uint32_t key0 = (uint32_t)random->key, key1 = (uint32_t)(random->key >> 32);
  for (int i = 0; i < lanes; i++) {
    uint64_t low = first + (uint64_t)i;
    c0[i] = (uint32_t)low;
    c1[i] = (uint32_t)(low >> 32);
    c2[i] = (uint32_t)random->step;
    c3[i] = (uint32_t)(random->step >> 32);
  }
  for (int round = 0; round < 10; round++) {
#pragma omp simd
    for (int i = 0; i < lanes; i++) {
      uint64_t product0 = 0xD2511F53ull * c0[i], product1 = 0xCD9E8D57ull * c2[i];
      c0[i] = (uint32_t)(product1 >> 32) ^ c1[i] ^ key0;
      c1[i] = (uint32_t)product1;
      c2[i] = (uint32_t)(product0 >> 32) ^ c3[i] ^ key1;
      c3[i] = (uint32_t)product0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int i = 0; i < lanes; i++) {
    bits->word[4 * i] = c0[i];
    bits->word[4 * i + 1] = c1[i];
    bits->word[4 * i + 2] = c2[i];
    bits->word[4 * i + 3] = c3[i];
  }
}

/* Completes a block of at most `width` elements (a multiple of 8 known to the compiler) as hr__store does, but rounds
 * to bf16 stochastically. Infinities have no bits to carry from; NaN stays NaN. */
HR_INLINE void hr__update_store(const hr_tensor *tensor, int64_t at, int64_t n, const float *block,
                                const hr_update_random *random, uint64_t slot, int width) {
  if (tensor->desc.dtype == HR_F32) return;
  uint16_t *to = (uint16_t *)tensor->data + at;
  hr_update_bits bits;
  hr__update_draw(random, at, slot, width / 8, &bits);
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    uint32_t word;
    memcpy(&word, &block[i], sizeof word);
    uint32_t rounded = (word + bits.half[i]) >> 16, quiet = (word >> 16) | 0x40u;
    to[i] = (uint16_t)((word & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

#endif
