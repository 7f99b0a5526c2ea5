/* Rows of a product to their places in the result of a convolution, on the CPU: in stretches that lie side by side
 * there, of all channels where a sample's places are all in hand. Bias and sums so far join them before they are
 * rounded.
 */
#include <string.h>

#include "dev/cpu/matrix.h"
#include "op/conv_parts.h"
#include "op/stream.h"

HR_CLONES static void bias_add(const hr_tensor *bias, int64_t first, int64_t rows, int64_t columns, float *product) {
  float scratch[HR_BLOCK];
  for (int64_t c = 0; c < columns; c += HR_BLOCK) {
    int64_t n = hr__min(HR_BLOCK, columns - c);
    const float *from = hr__load(bias, first + c, n, scratch);
    for (int64_t r = 0; r < rows; r++) {
      float *to = product + r * columns + c;
#pragma omp simd
      for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
    }
  }
}

/* n elements of the result from `at` on. */
HR_CLONES static void stretch_put(const hr_conv_put *p, int64_t at, int64_t n, const float *values) {
  float sums[HR_BLOCK], made[HR_BLOCK];
  for (int64_t i = 0; i < n; i += HR_BLOCK) {
    int64_t count = hr__min(HR_BLOCK, n - i);
    const float *from = values + i;
    if (p->add->data) {
      const float *before = hr__load(p->add, at + i, count, sums);
      float *to = hr__target(p->out, at + i, made);
#pragma omp simd
      for (int64_t k = 0; k < count; k++)
        to[k] = from[k] + before[k];
      from = to;
    } else if (p->out->desc.dtype == HR_F32) {
      memcpy((float *)p->out->data + at + i, from, (size_t)count * sizeof *from);
    }
    hr__store(p->out, at + i, count, from);
  }
}

/* [columns, n] of `turned`, whose rows are `apart`, without gaps. */
HR_CLONES static void stretch_gather(const float *turned, int64_t apart, int64_t columns, int64_t n, float *to) {
  if (n == 16)
    for (int64_t c = 0; c < columns; c++) /* of a size that is known, which is a few instructions */
      memcpy(to + c * 16, turned + c * apart, 16 * sizeof *to);
  else if (n == 8)
    for (int64_t c = 0; c < columns; c++)
      memcpy(to + c * 8, turned + c * apart, 8 * sizeof *to);
  else
    for (int64_t c = 0; c < columns; c++)
      for (int64_t i = 0; i < n; i++)
        to[c * n + i] = turned[c * apart + i];
}

/* The same to elements that lie `step` apart, and channels `size`. */
HR_CLONES static void steps_put(const hr_conv_put *p, int64_t at, int64_t step, int64_t columns, int64_t size,
                                int64_t n, float *values) {
  const uint16_t *before = p->add->data;
  uint16_t *to = p->out->data, narrow[HR_BLOCK];
  if (p->out->desc.dtype == HR_F32) {
    const float *wide_before = p->add->data;
    float *wide = p->out->data;
    for (int64_t c = 0; c < columns; c++)
      for (int64_t i = 0; i < n; i++) {
        int64_t place = at + c * size + i * step;
        wide[place] = values[c * n + i] + (wide_before ? wide_before[place] : 0.0f);
      }
    return;
  }
  bool bf16 = p->out->desc.dtype == HR_BF16;
  for (int64_t c = 0; before && c < columns; c++)
    for (int64_t i = 0; i < n; i++) {
      uint16_t element = before[at + c * size + i * step];
      values[c * n + i] += bf16 ? hr__bf16_to_f32(element) : hr__f16_to_f32(element);
    }
  hr_tensor rounded = {.desc = {p->out->desc.dtype, 1, {HR_BLOCK}}, .data = narrow};
  for (int64_t first = 0, c = 0, i = 0; first < columns * n; first += HR_BLOCK) {
    int64_t count = hr__min(HR_BLOCK, columns * n - first);
    hr__store(&rounded, 0, count, values + first);
    for (int64_t k = 0; k < count; k++) {
      to[at + c * size + i * step] = narrow[k];
      if (++i == n) i = 0, c++;
    }
  }
}

/* Rows [first, first + n) of `turned` [columns, rows], which are places `at` and onwards along the last axis. */
static void run_put(const hr_conv_put *p, int64_t sample, const int64_t at[HR_CONV_AXES], int64_t n,
                    const float *turned, int64_t rows, float *spare) {
  const hr_conv_walk *w = p->walk;
  int64_t place = 0, size = hr__conv_volume(w->to);
  for (int d = 0; d < HR_CONV_AXES; d++)
    place = place * w->to[d] + w->to_first[d] + at[d] * w->to_step[d];
  stretch_gather(turned, rows, p->columns, n, spare);
  steps_put(p, sample * p->columns * size + place, w->to_step[HR_CONV_AXES - 1], p->columns, size, n, spare);
}

void hr__conv_put(const hr_conv_put *p, int64_t group, hr_range range, float *product, float *turned) {
  const hr_conv_walk *w = p->walk;
  int64_t rows = range.end - range.first, columns = p->columns;
  int64_t places = hr__conv_volume(w->places), size = hr__conv_volume(w->to), last = w->places[HR_CONV_AXES - 1];
  if (p->bias->data) bias_add(p->bias, group * columns, rows, columns, product);
  if (p->flat) {
    if (p->groups == 1) {
      stretch_put(p, range.first * columns, rows * columns, product);
      return;
    }
    for (int64_t r = 0; r < rows; r++)
      stretch_put(p, ((range.first + r) * p->groups + group) * columns, columns, product + r * columns);
    return;
  }
  hr__f32_transpose(product, columns, rows, columns, turned, rows);
  bool dense = places == size; /* a sample's places are all of it, in their order */
  for (int64_t r = 0; r < rows;) {
    int64_t at[HR_CONV_AXES], sample = hr__conv_place(w, range.first + r, at) * p->groups + group;
    int64_t place = (at[0] * w->places[1] + at[1]) * last + at[2];
    int64_t n = hr__min(rows - r, dense ? places - place : last - at[2]);
    if (!dense) {
      run_put(p, sample, at, n, turned + r, rows, product);
    } else if (n == places) {
      int64_t first = sample * columns * size;
      bool straight = p->out->desc.dtype == HR_F32 && !p->add->data;
      float *to = straight ? (float *)p->out->data + first : product;
      stretch_gather(turned + r, rows, columns, n, to);
      if (!straight) stretch_put(p, first, columns * size, product);
    } else {
      for (int64_t c = 0; c < columns; c++)
        stretch_put(p, (sample * columns + c) * size + place, n, turned + c * rows + r);
    }
    r += n;
  }
}
