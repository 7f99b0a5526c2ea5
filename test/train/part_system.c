/* See part_system.h. */
#include "part_system.h"

#include "model/losses.h"
#include "op/ema.h"
#include "op/pointwise.h"

enum { HIDDEN = 16 };

static const hr_part_declared parts[] = {{"text", NULL}, {"side", "mlp"}, {"head", "mlp"}};

static const hr_reported reported[] = {
    {.name = "fit", .weight = 1, .over = HR_OVER_SAMPLES},
    {.name = "flat", .weight = 0.5f, .over = HR_OVER_MASK, .mask = "seen"},
    {.name = "words", .weight = 0.25f, .over = HR_OVER_TOKENS},
    {.name = "size", .metric = true, .over = HR_OVER_SAMPLES},
};

static int64_t vocabulary(const hr_model_part *whole) {
  hr_model_part text = hr__part_find(whole, "text");
  return text.model->vocabulary(&text);
}

static void fields(const hr_model_part *whole, const hr_field_shape *shape, hr_fields *out) {
  hr_desc signal = hr__desc2(HR_F32, shape->batch, HIDDEN), seen = hr__desc2(HR_U8, shape->batch, HIDDEN);
  hr_desc tokens = hr__desc2(HR_I32, shape->batch, shape->length);
  hr__field_add(out, (hr_field){.name = "signal", .purpose = HR_FOR_VALUES, .desc = signal});
  hr__field_add(out, (hr_field){.name = "seen", .purpose = HR_FOR_VALUES, .desc = seen, .bound = 2});
  hr__field_add(out,
                (hr_field){.name = "tokens", .purpose = HR_FOR_TOKENS, .desc = tokens, .bound = vocabulary(whole)});
}

static hr_id mean(hr_builder *b, hr_id x, int axis) {
  return hr__reduce(b, HR_REDUCE_MEAN, x, 1u << axis);
}

/* (x - mean) / sqrt(variance + eps), of the batch where it trains, else of all that was seen. x [B, D]. */
static hr_id norm(hr_builder *b, hr_id x) {
  const float keep = 0.75f, eps = 1e-3f;
  hr_desc row = hr__desc2(HR_F32, 1, HIDDEN);
  hr__module(b, "norm");
  hr_id known_mean = hr__state(b, "norm.running_mean", row, (hr_init){.rule = HR_INIT_ZERO});
  hr_id known_variance = hr__state(b, "norm.running_var", row, (hr_init){.rule = HR_INIT_ONE});
  hr_id middle = known_mean, variance = known_variance;
  if (hr__program_kind_trains(b->graph->programs[b->program].key.kind)) {
    middle = mean(b, x, 0);
    hr_id apart = hr__binary(b, HR_FORMULA_sub, x, middle);
    variance = mean(b, hr__binary(b, HR_FORMULA_mul, apart, apart), 0);
    hr__state_follow(b, known_mean, middle, keep);
    hr__state_follow(b, known_variance, variance, keep);
  }
  hr_id deviation = hr__unary(b, HR_FORMULA_sqrt, hr__unary(b, HR_FORMULA_affine, variance, 1, eps), 0, 0);
  return hr__binary(b, HR_FORMULA_div, hr__binary(b, HR_FORMULA_sub, x, middle), deviation);
}

/* Sum of the squares of all elements, f32 [1]. */
static hr_id squares(hr_builder *b, hr_id x, unsigned axes) {
  hr_id sum = hr__reduce(b, HR_REDUCE_SUM, hr__unary(b, HR_FORMULA_square, x, 0, 0), axes);
  return hr__squeeze(b, sum, axes >> 1);
}

static hr_id forward(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  hr_model_part text = hr__part_find(whole, "text"), side = hr__part_find(whole, "side"),
                head = hr__part_find(whole, "head");
  hr_id signal = hr__batch_field(batch, "signal");
  hr_id words = hr__part_body(b, &text, hr__part_embed(b, &text, batch), batch);
  hr_id normed = norm(b, signal);
  hr__module(b, "join");
  hr_id x = hr__binary(b, HR_FORMULA_add, hr__squeeze(b, mean(b, words, 1), 1u << 1), normed);
  hr_id z = hr__part_body(b, &head, hr__part_body(b, &side, x, NULL), NULL);
  hr__module(b, "losses");
  hr_id fit = squares(b, hr__binary(b, HR_FORMULA_sub, z, signal), 3);
  hr__report(b, whole->model, batch, "fit", fit);
  hr__report(b, whole->model, batch, "flat", squares(b, z, 3));
  hr__report(b, whole->model, batch, "words", squares(b, words, 7));
  hr__report(b, whole->model, batch, "size", squares(b, signal, 3));
  return fit;
}

static const hr_model system_model = {.family = "system",
                                      .parts = parts,
                                      .n_parts = 3,
                                      .forward = forward,
                                      .fields = fields,
                                      .reported = reported,
                                      .n_reported = sizeof reported / sizeof *reported,
                                      .vocabulary = vocabulary};

void system_register(void) {
  trio_register();
  hr__model_register(&system_model);
}
