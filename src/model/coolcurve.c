/* How hot spots cool: intensities and areas of up to M tracks at three instants, with numbers that a physicist would
 * take of them; each track through an MLP, then a mean weighted by attention. See multistream.h.
 */
#include "model/modules.h"
#include "model/multistream.h"
#include "model/softmax.h"
#include "op/concat.h"
#include "op/pointwise.h"
#include "op/slice.h"

enum { SIZE_MOST = 1 << 14, FEATURES = 12, INPUTS = 2 * HR_COOLING_INSTANTS + FEATURES };

static const hr_key keys[] = {
    {.path = "*.config.hidden",
     .type = HR_KEY_INT,
     .fallback = "128",
     .min = 2,
     .max = SIZE_MOST,
     .meaning = "coolcurve: width of the first layer, and inside of its two heads; tracks have half of it"},
    {.path = "*.config.embedding",
     .type = HR_KEY_INT,
     .fallback = "256",
     .min = 1,
     .max = SIZE_MOST,
     .meaning = "coolcurve: width of what it gives"},
    {.path = "*.config.dropout",
     .type = HR_KEY_FLOAT,
     .fallback = "0.1",
     .min = 0,
     .max = 0.99,
     .meaning = "coolcurve: part that is dropped in training"},
};
const hr_key_table hr_coolcurve_keys = {keys, sizeof keys / sizeof *keys};

static hr_id scaled(hr_builder *b, hr_id x, float by, float plus) {
  return hr__unary(b, HR_FORMULA_affine, x, by, plus);
}

/* Of three values [B, M, 1] each: first, last, mean, what is lost, rate of change, curvature. */
static void curve_features(hr_builder *b, const hr_id v[HR_COOLING_INSTANTS], hr_id *out) {
  hr_id sum = hr__binary(b, HR_FORMULA_add, hr__binary(b, HR_FORMULA_add, v[0], v[1]), v[2]);
  hr_id lost = hr__binary(b, HR_FORMULA_sub, v[0], v[2]);
  hr_id ends = hr__binary(b, HR_FORMULA_add, v[0], v[2]);
  out[0] = scaled(b, sum, 1.0f / HR_COOLING_INSTANTS, 0);
  out[1] = lost;
  out[2] = scaled(b, lost, -0.5f, 0);
  out[3] = hr__binary(b, HR_FORMULA_sub, ends, scaled(b, v[1], 2, 0));
}

/* [B, M, 18] */
static hr_id inputs_of(hr_builder *b, hr_id curves, hr_id areas) {
  const float least = 1e-3f; /* below any area that is there */
  hr_id c[HR_COOLING_INSTANTS], a[HR_COOLING_INSTANTS], f[2 + FEATURES];
  hr__module(b, "features");
  for (int i = 0; i < HR_COOLING_INSTANTS; i++) {
    c[i] = hr__window(b, curves, 2, i, 1);
    a[i] = hr__window(b, areas, 2, i, 1);
  }
  f[0] = curves;
  f[1] = areas;
  curve_features(b, c, f + 2);
  curve_features(b, a, f + 6);
  f[10] = hr__binary(b, HR_FORMULA_div, c[2], scaled(b, c[0], 1, least)); /* part that is left */
  f[11] = hr__binary(b, HR_FORMULA_div, a[2], scaled(b, a[0], 1, least));
  f[12] = hr__binary(b, HR_FORMULA_div, c[0], scaled(b, a[0], 1, least)); /* by area */
  f[13] = hr__binary(b, HR_FORMULA_div, c[2], scaled(b, a[2], 1, least));
  return b->status == HR_OK ? hr__concat(b, f, 2 + FEATURES, 2) : HR_NONE;
}

static hr_id relu(hr_builder *b, const char *path, hr_id x) {
  hr__module(b, "%s.relu", path);
  return hr__unary(b, HR_FORMULA_relu, x, 0, 0);
}

/* in -> hidden -> hidden / 2 -> out */
static hr_id stack(hr_builder *b, const char *path, int64_t in, int64_t hidden, int64_t out, float dropout, hr_id x) {
  x = relu(b, path, hr__stream_linear(b, path, "0", in, hidden, x));
  x = relu(b, path, hr__stream_linear(b, path, "3", hidden, hidden / 2, hr__dropped(b, path, dropout, x)));
  return hr__stream_linear(b, path, "5", hidden / 2, out, x);
}

hr_id hr__coolcurve(hr_builder *b, const hr_model_part *part, hr_id curves, hr_id areas, hr_id mask, hr_id *tau,
                    hr_id *kinds) {
  const float never = -1e9f; /* logit of a track that is not there */
  int64_t hidden = hr__scope_int(&part->scope, "config.hidden"), track = hidden / 2;
  int64_t out = hr__scope_int(&part->scope, "config.embedding");
  int64_t samples = hr__desc_dim(b, curves, 0), tracks = hr__desc_dim(b, curves, 1);
  float dropout = (float)hr__scope_float(&part->scope, "config.dropout");
  hr_id x = stack(b, "tracks", INPUTS, hidden, track, dropout, inputs_of(b, curves, areas));
  hr_id score = relu(b, "attention", hr__stream_linear(b, "attention", "0", track, track / 2, x));
  score = hr__stream_linear(b, "attention", "2", track / 2, 1, score);
  hr__module(b, "attention");
  score = hr__reshape(b, score, 2, (const int64_t[]){samples, tracks});
  score = hr__softmax(b, hr__select(b, mask, score, scaled(b, score, 0, never)));
  score = hr__reshape(b, score, 3, (const int64_t[]){samples, tracks, 1});
  x = hr__squeeze(b, hr__reduce(b, HR_REDUCE_SUM, hr__binary(b, HR_FORMULA_mul, x, score), 1u << 1), 1u << 1);
  x = relu(b, "output", hr__stream_linear(b, "output", "0", track, out, x));
  x = hr__stream_linear(b, "output", "2", out, out, x);
  *tau = hr__unary(b, HR_FORMULA_softplus, stack(b, "tau", out, hidden, 1, dropout, x), 0, 0);
  *kinds = stack(b, "kinds", out, hidden, 2, dropout, x);
  return x;
}

static hr_status coolcurve_check(const hr_model_part *part, hr_error *err) {
  if (hr__scope_int(&part->scope, "config.hidden") % 4 == 0) return HR_OK;
  return hr__scope_fail(&part->scope, "config.hidden", "take a multiple of 4", err,
                        "a width that cannot be halved twice");
}

/* x: the curves. */
static hr_id coolcurve_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  hr_id tau, kinds, areas = hr__batch_field(batch, "curve_areas");
  return hr__coolcurve(b, part, x, areas, hr__batch_field(batch, "curve_mask"), &tau, &kinds);
}

const hr_model hr_model_coolcurve = {
    .family = "coolcurve", .keys = {&hr_coolcurve_keys}, .check = coolcurve_check, .body = coolcurve_body};
