/* See part_trio.h. */
#include "part_trio.h"

#include <inttypes.h>
#include <math.h>

#include "op/gelu.h"
#include "op/head_loss.h"
#include "op/linear.h"
#include "op/pointwise.h"

/* --- a family of parts: x [B, T, 16] -> down(gelu(up(x))), through `width` ---------------------------------------- */

static const hr_key mlp_key_list[] = {
    {.path = "*.config.width", .type = HR_KEY_INT, .fallback = "32", .min = 1, .max = 4096},
};
static const hr_key_table mlp_keys = {mlp_key_list, 1};
static const char *const mlp_targets[] = {"up", "down"};
enum { HIDDEN = 16 };

static hr_status mlp_check(const hr_model_part *part, hr_error *err) {
  int64_t width = hr__scope_int(&part->scope, "config.width");
  if (width % 2 == 0) return HR_OK;
  return hr__scope_fail(&part->scope, "config.width", "take an even one", err, "%s.config.width is odd (%" PRId64 ")",
                        part->scope.section, width);
}

static hr_id mlp_linear(hr_builder *b, const char *name, int64_t in, int64_t out, hr_id x) {
  char weight[64];
  snprintf(weight, sizeof weight, "%s.weight", name);
  hr__module(b, "%s", name);
  hr_init init = {.rule = HR_INIT_NORMAL, .a = (float)(1 / sqrt((double)in))};
  return hr__linear(b, x, hr__parameter(b, weight, hr__desc2(b->dtype, out, in), init), HR_NONE);
}

static hr_id mlp_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  (void)batch;
  int64_t width = hr__scope_int(&part->scope, "config.width");
  hr__block_begin(b, "layer");
  x = mlp_linear(b, "up", HIDDEN, width, x);
  hr__module(b, "act");
  x = mlp_linear(b, "down", width, HIDDEN, hr__gelu(b, x, false));
  hr__block_end(b);
  return x;
}

static const hr_model mlp = {
    .family = "mlp", .keys = {&mlp_keys}, .targets = mlp_targets, .n_targets = 2, .check = mlp_check, .body = mlp_body};

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static const hr_part_declared trio_parts[] = {{"text", NULL}, {"side", "mlp"}, {"head", "mlp"}};

static int64_t trio_vocabulary(const hr_model_part *whole) {
  hr_model_part text = hr__part_find(whole, "text");
  return text.model->vocabulary(&text);
}

static hr_id trio_forward(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  hr_model_part text = hr__part_find(whole, "text"), side = hr__part_find(whole, "side"),
                head = hr__part_find(whole, "head");
  hr_id x = hr__part_body(b, &text, hr__part_embed(b, &text, batch), batch);
  x = hr__part_body(b, &side, x, NULL);
  x = hr__part_body(b, &head, x, NULL);
  hr__module(b, "out");
  hr_init init = {.rule = HR_INIT_NORMAL, .a = 0.02f};
  hr_id table = hr__parameter(b, "out.weight", hr__desc2(b->dtype, trio_vocabulary(whole), HIDDEN), init);
  return hr__head_loss(b, x, table, batch->targets);
}

static const hr_model trio = {.family = "trio",
                              .keys = {NULL},
                              .parts = trio_parts,
                              .n_parts = 3,
                              .forward = trio_forward,
                              .vocabulary = trio_vocabulary};

/* --- a part that is used twice ------------------------------------------------------------------------------------ */

static const hr_part_declared twins_parts[] = {{"text", NULL}};

static hr_id twins_forward(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch) {
  hr_model_part text = hr__part_find(whole, "text");
  hr_id x = hr__part_embed(b, &text, batch);
  hr_id one = hr__part_body(b, &text, x, batch), two = hr__part_body(b, &text, x, batch);
  hr__module(b, "out");
  hr_init init = {.rule = HR_INIT_NORMAL, .a = 0.5f};
  hr_id table = hr__parameter(b, "out.weight", hr__desc2(b->dtype, trio_vocabulary(whole), HIDDEN), init);
  return hr__head_loss(b, hr__binary(b, HR_FORMULA_sub, one, two), table, batch->targets);
}

static const hr_model twins = {.family = "twins",
                               .keys = {NULL},
                               .parts = twins_parts,
                               .n_parts = 1,
                               .forward = twins_forward,
                               .vocabulary = trio_vocabulary};

void trio_register(void) {
  hr__model_register(&twins);
  hr__model_register(&mlp);
  hr__model_register(&trio);
}
