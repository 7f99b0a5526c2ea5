/* A model with three losses over samples, tokens and a mask, and a metric, on fields of three types: losses and
 * gradients against sums in f64, the same for any division into micro-batches, in the log, and bit-exact when resumed.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/losses.h"
#include "op/embedding.h"
#include "op/linear.h"
#include "op/pointwise.h"
#include "part_session.h"

enum { WIDE = 6, TOKENS = 16, VOCABULARY = 20, TABLE = 4, EFFECTIVE = 8 };

static const hr_reported reported[] = {
    {.name = "fit", .weight = 1, .over = HR_OVER_SAMPLES},
    {.name = "flat", .weight = 0.5f, .over = HR_OVER_MASK, .mask = "seen"},
    {.name = "words", .weight = 0.25f, .over = HR_OVER_TOKENS},
    {.name = "size", .metric = true, .over = HR_OVER_SAMPLES},
};
enum { REPORTED = sizeof reported / sizeof *reported };

static void fields(const hr_model_part *part, const hr_field_shape *shape, hr_fields *out) {
  (void)part;
  hr_desc values = hr__desc2(HR_F32, shape->batch, WIDE), seen = hr__desc2(HR_U8, shape->batch, WIDE);
  hr_desc tokens = hr__desc2(HR_I32, shape->batch, shape->length);
  hr__field_add(out, (hr_field){.name = "x", .purpose = HR_FOR_VALUES, .desc = values});
  hr__field_add(out, (hr_field){.name = "y", .purpose = HR_FOR_VALUES, .desc = values});
  hr__field_add(out, (hr_field){.name = "seen", .purpose = HR_FOR_VALUES, .desc = seen, .bound = 2});
  hr__field_add(out, (hr_field){.name = "tokens", .purpose = HR_FOR_TOKENS, .desc = tokens, .bound = VOCABULARY});
}

/* Sum of the squares of all elements, f32 [1]. */
static hr_id squares(hr_builder *b, hr_id x, unsigned axes) {
  hr_id sum = hr__reduce(b, HR_REDUCE_SUM, hr__unary(b, HR_FORMULA_square, x, 0, 0), axes);
  return hr__squeeze(b, sum, axes >> 1);
}

static hr_id forward(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  hr_init normal = {.rule = HR_INIT_NORMAL, .a = 0.3f};
  hr__module(b, "map");
  hr_id w = hr__parameter(b, "map.weight", hr__desc2(b->dtype, WIDE, WIDE), normal);
  hr_id x = hr__batch_field(batch, "x"), p = hr__linear(b, x, w, HR_NONE);
  hr_id fit = squares(b, hr__binary(b, HR_FORMULA_sub, p, hr__batch_field(batch, "y")), 3);
  hr_id flat = squares(b, p, 3), size = squares(b, x, 3);
  hr__module(b, "words");
  hr_id table = hr__parameter(b, "words.weight", hr__desc2(b->dtype, VOCABULARY, TABLE), normal);
  hr_id words = squares(b, hr__embedding(b, batch->tokens, table), 7);
  hr__report(b, part->model, batch, "fit", fit);
  hr__report(b, part->model, batch, "flat", flat);
  hr__report(b, part->model, batch, "words", words);
  hr__report(b, part->model, batch, "size", size);
  return fit;
}

static hr_status check(const hr_model_part *part, hr_error *err) {
  (void)part;
  (void)err;
  return HR_OK;
}

static int64_t vocabulary(const hr_model_part *part) {
  (void)part;
  return VOCABULARY;
}

static json_t *config_json(const hr_model_part *part) {
  (void)part;
  return json_object();
}

static const hr_model several = {.family = "several",
                                 .task = "ForNothing",
                                 .check = check,
                                 .forward = forward,
                                 .vocabulary = vocabulary,
                                 .fields = fields,
                                 .reported = reported,
                                 .n_reported = REPORTED,
                                 .config_json = config_json};

#define SETTINGS(...)                                                                                                  \
  (const char *const[]) {                                                                                              \
    "model=null", "model.family=several", "training.optimizer={kind: sgd, lr: 0.01, weight_decay: 0}",                 \
        "training.schedule=null", "training.clip_norm=null", __VA_ARGS__, NULL                                         \
  }

/* The effective batch of the first step, straight from the data. */
typedef struct batch {
  float x[EFFECTIVE][WIDE], y[EFFECTIVE][WIDE];
  uint8_t seen[EFFECTIVE][WIDE];
  int32_t tokens[EFFECTIVE][TOKENS];
} batch;

static void batch_read(const desk *d, batch *out) {
  int64_t rows = d->session.shape.batch;
  for (int64_t first = 0; first < EFFECTIVE; first += rows) {
    hr_error err = {0};
    float unused;
    hr_micro micro = hr__data_micro(d->session.data, (uint64_t)first, false);
    void *const at[HR_FIELDS] = {out->x[first], out->y[first], out->seen[first], out->tokens[first],
                                 &unused,       &unused,       &unused,          &unused};
    assert_int_equal(hr__data_fill(d->session.data, &micro, 0, rows, 0, at, &err), HR_OK);
  }
}

static void parameter_read(desk *d, const char *name, float *out, size_t count) {
  hr_error err = {0};
  hr_id value = hr__graph_find_value(d->tiny.graph, name);
  assert_int_equal(hr__run_read(d->session.run, value, 0, out, count * sizeof *out, &err), HR_OK);
}

/* What is reported, and the gradients, in f64. */
typedef struct truth {
  double values[REPORTED], map[WIDE][WIDE], words[VOCABULARY][TABLE];
} truth;

static void truth_make(const batch *b, float w[WIDE][WIDE], float table[VOCABULARY][TABLE], truth *t) {
  *t = (truth){0};
  double masked = 0;
  for (int r = 0; r < EFFECTIVE; r++)
    for (int k = 0; k < WIDE; k++)
      masked += b->seen[r][k] != 0;
  assert_true(masked > 0 && masked < EFFECTIVE * WIDE);
  for (int r = 0; r < EFFECTIVE; r++) {
    for (int o = 0; o < WIDE; o++) {
      double p = 0;
      for (int k = 0; k < WIDE; k++)
        p += (double)w[o][k] * (double)b->x[r][k];
      double off = p - (double)b->y[r][o];
      t->values[0] += off * off / EFFECTIVE;
      t->values[1] += p * p / masked;
      t->values[3] += (double)b->x[r][o] * (double)b->x[r][o] / EFFECTIVE;
      for (int k = 0; k < WIDE; k++)
        t->map[o][k] += (2 * off / EFFECTIVE + 0.5 * 2 * p / masked) * (double)b->x[r][k];
    }
    for (int i = 0; i < TOKENS; i++)
      for (int c = 0; c < TABLE; c++) {
        double v = (double)table[b->tokens[r][i]][c];
        t->values[2] += v * v / (EFFECTIVE * TOKENS);
        t->words[b->tokens[r][i]][c] += 0.25 * 2 * v / (EFFECTIVE * TOKENS);
      }
  }
}

static void near(double got, double expected, const char *what) {
  if (fabs(got - expected) > 2e-6 * fabs(expected) + 1e-7) fail_msg("%s: %.9g, expected %.9g", what, got, expected);
}

/* However the effective batch is divided. */
static void test_losses_and_gradients(void **state) {
  (void)state;
  static const char *const divided[][2] = {{"training.batch_size=8", "training.gradient_accumulation=1"},
                                           {"training.batch_size=4", "training.gradient_accumulation=2"},
                                           {"training.batch_size=1", "training.gradient_accumulation=8"}};
  for (int c = 0; c < 3; c++) {
    desk d;
    batch b;
    truth t;
    hr_error err = {0};
    hr_step_result result;
    float w[2][WIDE][WIDE], table[2][VOCABULARY][TABLE];
    desk_open(&d, "none", SETTINGS(divided[c][0], divided[c][1]));
    batch_read(&d, &b);
    parameter_read(&d, "map.weight", w[0][0], WIDE * WIDE);
    parameter_read(&d, "words.weight", table[0][0], VOCABULARY * TABLE);
    truth_make(&b, w[0], table[0], &t);
    assert_int_equal(hr__session_step(&d.session, 1, &result, &err), HR_OK);
    for (int i = 0; i < REPORTED; i++)
      near(d.session.reports.values[i], t.values[i], reported[i].name);
    near(result.loss, t.values[0] + 0.5 * t.values[1] + 0.25 * t.values[2], "loss");
    assert_int_equal(result.samples, EFFECTIVE);
    assert_int_equal(result.tokens, EFFECTIVE * TOKENS);
    parameter_read(&d, "map.weight", w[1][0], WIDE * WIDE);
    parameter_read(&d, "words.weight", table[1][0], VOCABULARY * TABLE);
    for (int o = 0; o < WIDE; o++)
      for (int k = 0; k < WIDE; k++)
        near((double)w[1][o][k], (double)w[0][o][k] - 0.01 * t.map[o][k], "map");
    for (int v = 0; v < VOCABULARY; v++)
      for (int k = 0; k < TABLE; k++)
        near((double)table[1][v][k], (double)table[0][v][k] - 0.01 * t.words[v][k], "words");
    desk_close(&d);
  }
}

static hr_train_result trained(const char *out, int64_t stop_at, bool resume) {
  hr_train_options options = {.out = out, .stop_at = stop_at, .resume = resume};
  return train_ok(SETTINGS("training.batch_size=2", "training.gradient_accumulation=3", "training.eval_every=2",
                           "training.eval_batches=2"),
                  options);
}

/* Each is in the log, of steps and of evaluations; and a run that is resumed gives the same bits and lines. */
static void test_log_and_resume(void **state) {
  (void)state;
  const char *whole = folder_make("losses-whole"), *parts = folder_make("losses-parts");
  hr_train_result once = trained(whole, 0, false);
  trained(parts, 3, false);
  hr_train_result again = trained(parts, 0, true);
  assert_string_equal(once.weights_sha256, again.weights_sha256);
  assert_int_equal(again.reports.count, REPORTED);
  for (int i = 0; i < REPORTED; i++)
    assert_true(once.reports.values[i] == again.reports.values[i]);
  assert_true(once.eval_loss == again.eval_loss);
  size_t bytes;
  char *log = file_get(path_join(whole, "log.jsonl"), &bytes);
  static const char *const parts_of[] = {"\"losses\":{\"fit\":",
                                         "\"flat\":",
                                         "\"words\":",
                                         "\"metrics\":{\"size\":",
                                         "\"eval_losses\":{\"fit\":",
                                         "\"eval_metrics\":{\"size\":",
                                         "\"samples\":6"};
  for (size_t i = 0; i < sizeof parts_of / sizeof *parts_of; i++)
    if (!strstr(log, parts_of[i])) fail_msg("%s is not in the log:\n%s", parts_of[i], log);
  free(log);
  folder_remove(whole);
  folder_remove(parts);
  free((void *)whole);
  free((void *)parts);
}

int main(void) {
  hr__model_register(&several);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_losses_and_gradients),
      cmocka_unit_test(test_log_and_resume),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
