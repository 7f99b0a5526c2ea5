/* Source synthetic: random numbers for every field, keyed by (seed, sample, element). Targets of tokens are the tokens
 * behind them; whole numbers are below the field's bound, unless it says what they are (hr_made_up); measurements are
 * spread evenly over [-1, 1). */
#include <string.h>

#include "base/clones.h"
#include "base/mem.h"
#include "base/philox.h"
#include "base/random.h"
#include "data/source.h"
#include "dev/dtype.h"

typedef struct synthetic {
  hr_random_key tokens[2], values[2]; /* of training, of evaluation */
} synthetic;

static hr_status synthetic_open(const hr_source_request *request, void **state, hr_error *err) {
  synthetic *s = hr__alloc_zero(1, sizeof *s);
  if (!s) return hr__nomem(err);
  uint64_t seed = request->seed;
  *s = (synthetic){
      .tokens = {{seed, hr__random_stream("data.synthetic")}, {seed, hr__random_stream("data.synthetic.eval")}},
      .values = {{seed, hr__random_stream("data.synthetic.values")},
                 {seed, hr__random_stream("data.synthetic.values.eval")}}};
  *state = s;
  return HR_OK;
}

static void tokens_draw(hr_random_key key, uint64_t sample, uint64_t bound, int64_t length, int32_t *tokens,
                        int32_t *targets) {
  for (int64_t t = 0; t < length; t++)
    tokens[t] = (int32_t)hr__random_below(key, sample, (uint64_t)t, bound);
  if (!targets) return;
  for (int64_t t = 0; t + 1 < length; t++)
    targets[t] = tokens[t + 1];
  targets[length - 1] = (int32_t)hr__random_below(key, sample, (uint64_t)length, bound);
}

enum { DRAWN = 1024 }; /* numbers at a time, four from each block of random bits */

HR_CLONES static void drawn_fill(uint64_t key, uint64_t sample, uint64_t block, float *to) {
  uint32_t word[4][DRAWN / 4];
  for (int i = 0; i < DRAWN / 4; i++) {
    uint32_t four[4];
    hr__philox(key, sample, block + (uint64_t)i, four);
    for (int k = 0; k < 4; k++)
      word[k][i] = four[k];
  }
  for (int i = 0; i < DRAWN / 4; i++)
    for (int k = 0; k < 4; k++)
      to[4 * i + k] = (float)(int32_t)word[k][i] * 0x1p-31f;
}

static void floats_draw(hr_random_key key, uint64_t sample, hr_dtype dtype, int64_t count, void *to) {
  float drawn[DRAWN];
  for (int64_t i = 0; i < count; i += DRAWN) {
    int64_t here = count - i < DRAWN ? count - i : DRAWN;
    drawn_fill(key.seed ^ key.stream, sample, (uint64_t)i / 4, drawn);
    for (int64_t k = 0; k < here; k++)
      if (dtype == HR_BF16)
        ((uint16_t *)to)[i + k] = hr__f32_to_bf16(drawn[k]);
      else if (dtype == HR_F16)
        ((uint16_t *)to)[i + k] = hr__f32_to_f16(drawn[k]);
      else if (dtype == HR_F64)
        ((double *)to)[i + k] = (double)drawn[k];
      else
        ((float *)to)[i + k] = drawn[k];
  }
}

/* Number i of a field of whole numbers. */
static uint64_t whole_number(hr_random_key key, uint64_t sample, const hr_field *field, int64_t i) {
  uint64_t bound = field->bound > 0 ? (uint64_t)field->bound : 256;
  if (field->desc.dtype == HR_U8 && bound > 256) bound = 256;
  if (field->made_up == HR_MADE_LARGEST) return bound - 1;
  if (field->made_up == HR_MADE_IN_ORDER) {
    uint64_t behind = (uint64_t)(hr_desc_columns(&field->desc) - 1 - i % hr_desc_columns(&field->desc));
    return behind < bound ? bound - 1 - behind : 0;
  }
  return hr__random_below(key, sample, (uint64_t)i, bound);
}

/* Bytes below `bound`, 16 random bits each: eight from a block of random bits. Frames of videos are hundreds of
 * megabytes of them a second. */
HR_CLONES static void bytes_fill(uint64_t key, uint64_t sample, uint64_t block, uint32_t bound, uint8_t *to) {
  uint32_t word[4][DRAWN / 8];
  for (int i = 0; i < DRAWN / 8; i++) {
    uint32_t four[4];
    hr__philox(key, sample, block + (uint64_t)i, four);
    for (int k = 0; k < 4; k++)
      word[k][i] = four[k];
  }
  for (int i = 0; i < DRAWN / 8; i++)
    for (int k = 0; k < 4; k++) {
      to[8 * i + 2 * k] = (uint8_t)((word[k][i] & 0xffff) * bound >> 16);
      to[8 * i + 2 * k + 1] = (uint8_t)((word[k][i] >> 16) * bound >> 16);
    }
}

static void bytes_draw(hr_random_key key, uint64_t sample, const hr_field *field, int64_t count, uint8_t *to) {
  uint32_t bound = field->bound > 0 && field->bound < 256 ? (uint32_t)field->bound : 256;
  uint8_t drawn[DRAWN];
  for (int64_t i = 0; i < count; i += DRAWN) {
    int64_t here = count - i < DRAWN ? count - i : DRAWN;
    bytes_fill(key.seed ^ key.stream, sample, (uint64_t)i / 8, bound, drawn);
    memcpy(to + i, drawn, (size_t)here);
  }
}

static void values_draw(hr_random_key key, uint64_t sample, const hr_field *field, void *to) {
  hr_dtype dtype = field->desc.dtype;
  int64_t count = (int64_t)(hr__field_sample_bytes(field) / hr_dtype_bytes(dtype));
  if (dtype == HR_I32)
    for (int64_t i = 0; i < count; i++)
      ((int32_t *)to)[i] = (int32_t)whole_number(key, sample, field, i);
  else if (dtype == HR_I64)
    for (int64_t i = 0; i < count; i++)
      ((int64_t *)to)[i] = (int64_t)whole_number(key, sample, field, i);
  else if (dtype == HR_U8 && field->made_up != HR_MADE_LARGEST && field->made_up != HR_MADE_IN_ORDER)
    bytes_draw(key, sample, field, count, to);
  else if (dtype == HR_U8)
    for (int64_t i = 0; i < count; i++)
      ((uint8_t *)to)[i] = (uint8_t)whole_number(key, sample, field, i);
  else
    floats_draw(key, sample, dtype, count, to);
}

static hr_status synthetic_fill(const void *state, bool eval, uint64_t sample, const hr_room *room, hr_error *err) {
  (void)err;
  const synthetic *s = state;
  const hr_fields *fields = room->fields;
  int tokens = hr__field_for(fields, HR_FOR_TOKENS);
  bool of_values = room->only && room->only->purpose == HR_FOR_VALUES;
  if (tokens >= 0 && !of_values)
    tokens_draw(s->tokens[eval], sample, (uint64_t)fields->list[tokens].bound, room->length, room->at[tokens],
                hr__room_for(room, HR_FOR_TARGETS));
  for (int i = 0; i < fields->count; i++) {
    if (fields->list[i].purpose != HR_FOR_VALUES || (room->only && room->only != &fields->list[i])) continue;
    hr_random_key key = s->values[eval];
    key.stream ^= hr__random_stream(fields->list[i].name);
    values_draw(key, sample, &fields->list[i], room->at[i]);
  }
  return HR_OK;
}

const hr_source hr_source_synthetic = {
    .name = "synthetic",
    .endless = true,
    .purposes = 1u << HR_FOR_TOKENS | 1u << HR_FOR_TARGETS | 1u << HR_FOR_VALUES,
    .open = synthetic_open,
    .close = hr__free,
    .fill = synthetic_fill,
};
