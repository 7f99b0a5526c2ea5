/* Products of few rows take neighbours along where a program is recorded (op/few_match.cuh): what comes out has the
 * bits of launches one by one, also where results lie on what is dead by then. Skipped (77) without a GPU.
 * HEADROOM_CASES=few leaves out the longer rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/random.h"
#include "op/cache.h"
#include "op/rmsnorm.h"
#include "op/rope.h"
#include "part_sequence.h"

typedef enum follower { NOTHING, SWIGLU, ROPE, ROPE_AND_PUT } follower;

typedef struct shape {
  hr_dtype dtype;
  int64_t batch, length, k;
  int64_t n; /* with rope: 8 heads of 64, 4 of them queries, 2 keys, 2 values */
  bool norm, wide_norm /* its weights in f32 */, raised /* by 1 + w */, bias, add;
  follower behind;
  bool on_normed; /* the last result lies on the normed rows */
  bool on_x;      /* the product lies on the rows that are normed: nothing may be taken along */
} shape;

static const hr_rmsnorm_args norm_args = {.eps = 1e-5f}, raised_args = {.eps = 1e-5f, .raised = true};
static const hr_rope_args rope_args = {.head_dim = 64, .heads = 6};
static const hr_cache_args cache_args = {.heads = 4, .kv_heads = 2, .head_dim = 64, .scale = 0.125f};
enum { CONTEXT = 16 };

/* Inputs first, so that they lie in one place whatever is behind; `inputs`: their bytes. */
static void sequence_make(sequence *s, const shape *c, char *base, size_t *inputs) {
  *s = (sequence){.base = base};
  int64_t rows = c->batch * c->length;
  hr_tensor x = tensor_take(s, hr__desc3(c->dtype, c->batch, c->length, c->k));
  hr_tensor norm = tensor_take(s, hr__desc1(c->wide_norm ? HR_F32 : c->dtype, c->k));
  hr_tensor w = tensor_take(s, hr__desc2(c->dtype, c->n, c->k)), bias = tensor_take(s, hr__desc1(c->dtype, c->n));
  hr_tensor add = tensor_take(s, hr__desc3(c->dtype, c->batch, c->length, c->n));
  hr_tensor table = tensor_take(s, hr__desc3(HR_F32, 2, rows, 32));
  hr_tensor keys = tensor_take(s, hr__desc3(c->dtype, c->batch, CONTEXT, 128));
  hr_tensor values = tensor_take(s, hr__desc3(c->dtype, c->batch, CONTEXT, 128));
  *inputs = s->used;
  hr_tensor positions = tensor_take(s, hr__desc1(HR_I32, c->batch)),
            counts = tensor_take(s, hr__desc1(HR_I32, c->batch));
  hr_tensor normed = tensor_take(s, x.desc), rstds = tensor_take(s, hr__desc1(HR_F32, rows));
  hr_tensor y = tensor_take(s, add.desc), after = tensor_take(s, add.desc);
  if (c->on_x) y.data = x.data;
  if (c->on_normed) *(c->behind == NOTHING ? &y : &after) = (hr_tensor){.desc = y.desc, .data = normed.data};

  if (c->norm) {
    memcpy(s->in[s->count], (hr_tensor[]){x, norm}, 2 * sizeof x);
    memcpy(s->out[s->count], (hr_tensor[]){normed, rstds}, 2 * sizeof x);
    launch_add(s, "rmsnorm", 2, 2, c->raised ? &raised_args : &norm_args);
  }
  memcpy(s->in[s->count],
         (hr_tensor[]){c->norm ? normed : x, w, c->bias ? bias : (hr_tensor){0}, c->add ? add : (hr_tensor){0}},
         4 * sizeof x);
  s->out[s->count][0] = y;
  launch_add(s, "linear", 4, 1, NULL);
  if (c->behind == SWIGLU) {
    after.desc.dim[2] = c->n / 2;
    s->in[s->count][0] = y;
    s->out[s->count][0] = after;
    launch_add(s, "swiglu", 2, 1, NULL);
  }
  if (c->behind < ROPE) return;
  if (!c->on_normed) after = y; /* in place, as plans have it */
  memcpy(s->in[s->count], (hr_tensor[]){y, table}, 2 * sizeof x);
  s->out[s->count][0] = after;
  launch_add(s, "rope", 2, 1, &rope_args);
  if (c->behind == ROPE) return;
  memcpy(s->in[s->count], (hr_tensor[]){keys, values, after, {0}, positions, counts}, 6 * sizeof x);
  memcpy(s->out[s->count], (hr_tensor[]){keys, values}, 2 * sizeof x);
  launch_add(s, "cache_put", 6, 2, &cache_args);
}

/* Numbers of all sizes that products have, in the type of each input; positions near the end of the caches. */
static void inputs_fill(const sequence *s, const shape *c, size_t inputs) {
  hr_random_key key = {.seed = 5, .stream = hr__random_stream("few")};
  memset(host, 0, s->used);
  for (size_t i = 0; i * 2 < inputs; i++) {
    float value = hr__random_normal(key, 0, i);
    if (c->dtype == HR_F32) {
      if (i % 2 == 0) memcpy(host + i * 2, &value, 4);
    } else {
      uint16_t narrow = c->dtype == HR_BF16 ? hr__f32_to_bf16(value) : hr__f32_to_f16(value);
      memcpy(host + i * 2, &narrow, 2);
    }
  }
  /* f32 among 16-bit numbers: norm weights and angles */
  for (size_t l = 0; l < s->count; l++)
    for (int i = 0; i < s->launches[l].call.n_in; i++) {
      const hr_tensor *t = &s->in[l][i];
      size_t at = t->data ? (size_t)((const char *)t->data - s->base) : 0,
             count = t->data ? hr_desc_bytes(&t->desc) / 4 : 0;
      for (size_t e = 0; t->data && t->desc.dtype == HR_F32 && at < inputs && e < count; e++) {
        float value = hr__random_normal(key, 1 + l, e);
        memcpy(host + at + e * 4, &value, 4);
      }
      if (!t->data || t->desc.dtype != HR_I32) continue;
      for (int64_t b = 0; b < c->batch; b++) { /* positions, then how many rows there are: not all of the last sample */
        int32_t number = i == HR_PUT_POSITIONS ? (int32_t)(CONTEXT - 2 - b) : (int32_t)(c->length - (b > 0));
        memcpy(host + at + (size_t)b * 4, &number, 4);
      }
    }
}

static void shape_check(const shape *c) {
  sequence one, recorded;
  size_t inputs;
  sequence_make(&one, c, bases[0], &inputs);
  sequence_make(&recorded, c, bases[1], &inputs);
  inputs_fill(&one, c, inputs);
  sequences_run(&one, &recorded);
  for (size_t l = c->on_normed || c->on_x ? one.count - 1 : 0; l < one.count; l++) /* what is not dead */
    for (int i = 0; i < one.launches[l].call.n_out; i++) {
      size_t at = (size_t)((char *)one.out[l][i].data - one.base), bytes = hr_desc_bytes(&one.out[l][i].desc);
      bool written = false;
      for (size_t b = 0; b < bytes; b++)
        written |= results[0][at + b] != 0;
      assert_true(written);
      if (memcmp(results[0] + at, results[1] + at, bytes) != 0)
        fail_msg("result %d of launch %zu of %zu: dtype %d, %lld x %lld rows, k %lld, n %lld, norm %d %d, bias %d, add "
                 "%d, behind %d, on normed %d, on x %d",
                 i, l, one.count, (int)c->dtype, (long long)c->batch, (long long)c->length, (long long)c->k,
                 (long long)c->n, c->norm, c->wide_norm, c->bias, c->add, (int)c->behind, c->on_normed, c->on_x);
    }
}

static void test_few(void **state) {
  (void)state;
  static const hr_dtype dtypes[] = {HR_F32, HR_BF16, HR_F16};
  static const int64_t widths[] = {64, 264, 2048, 8192, 20480};
  const char *cases = getenv("HEADROOM_CASES");
  size_t n_widths = cases && strcmp(cases, "few") == 0 ? 2 : sizeof widths / sizeof *widths;
  for (size_t d = 0; d < 3; d++)
    for (size_t w = 0; w < n_widths; w++)
      for (int64_t rows = 1; rows <= 4; rows++)
        for (follower behind = NOTHING; behind <= ROPE_AND_PUT; behind++) {
          shape c = {.dtype = dtypes[d],
                     .batch = rows % 2 == 0 ? 2 : 1,
                     .length = rows % 2 == 0 ? rows / 2 : rows,
                     .k = widths[w],
                     .n = behind >= ROPE ? 512 : 338,
                     .behind = behind};
          c.norm = rows != 2;
          c.wide_norm = rows == 3;
          c.raised = rows != 1;
          c.bias = rows >= 2;
          c.add = behind == NOTHING;
          shape_check(&c);
        }
}

static void test_overlap(void **state) {
  (void)state;
  for (follower behind = NOTHING; behind <= ROPE_AND_PUT; behind++) {
    shape c = {.dtype = HR_BF16, .batch = 1, .length = 1, .k = 2048, .n = 512, .norm = true, .behind = behind};
    c.on_x = true;
    shape_check(&c);
    c.on_x = false;
    if (behind == NOTHING) continue; /* a product never lies on its own operand */
    c.on_normed = true;
    shape_check(&c);
  }
}

/* ---- a whole run: layers as a decoder has them ---- */

enum { HIDDEN = 264, INNER = 344, RUN_HEADS = 4, QKV = 512, LAYERS = 2, LONG = 1100 /* keys: parts to join */ };

typedef struct run {
  hr_dtype dtype;
  int64_t samples, context;
  bool weights_late; /* the last product's weights are what the run itself writes */
} run;

static hr_tensor take(sequence *s, const run *r, int64_t columns) {
  return tensor_take(s, hr__desc3(r->dtype, r->samples, 1, columns));
}
static hr_tensor weights_take(sequence *s, const run *r, int64_t n, int64_t k) {
  return tensor_take(s, hr__desc2(r->dtype, n, k));
}
static void linear_add(sequence *s, hr_tensor x, hr_tensor w, hr_tensor add, hr_tensor y) {
  memcpy(s->in[s->count], (hr_tensor[]){x, w, {0}, add}, 4 * sizeof x);
  s->out[s->count][0] = y;
  launch_add(s, "linear", 4, 1, NULL);
}
static void norm_add(sequence *s, hr_tensor x, hr_tensor norm, hr_tensor y, hr_tensor rstds) {
  memcpy(s->in[s->count], (hr_tensor[]){x, norm}, 2 * sizeof x);
  memcpy(s->out[s->count], (hr_tensor[]){y, rstds}, 2 * sizeof x);
  launch_add(s, "rmsnorm", 2, 2, &norm_args);
}

/* Every layer writes where the one before it did, as plans have it. */
static void run_make(sequence *s, const run *r, char *base, size_t *inputs) {
  *s = (sequence){.base = base};
  hr_tensor norms[LAYERS][2], qkv[LAYERS], o[LAYERS], wide[LAYERS], narrow[LAYERS], keys[LAYERS], values[LAYERS];
  hr_tensor x = take(s, r, HIDDEN), norm = tensor_take(s, hr__desc1(r->dtype, HIDDEN));
  hr_tensor head = weights_take(s, r, 339, HIDDEN), table = tensor_take(s, hr__desc3(HR_F32, 2, r->samples, 32));
  for (int l = 0; l < LAYERS; l++) {
    for (int i = 0; i < 2; i++)
      norms[l][i] = tensor_take(s, hr__desc1(r->dtype, HIDDEN));
    qkv[l] = weights_take(s, r, QKV, HIDDEN);
    o[l] = weights_take(s, r, HIDDEN, RUN_HEADS * 64);
    wide[l] = weights_take(s, r, 2 * INNER, HIDDEN);
    narrow[l] = weights_take(s, r, HIDDEN, INNER);
    keys[l] = tensor_take(s, hr__desc3(r->dtype, r->samples, r->context, 128));
    values[l] = tensor_take(s, keys[l].desc);
  }
  *inputs = s->used;
  hr_tensor positions = tensor_take(s, hr__desc1(HR_I32, r->samples)), counts = tensor_take(s, positions.desc);
  hr_tensor normed = take(s, r, HIDDEN), rstds = tensor_take(s, hr__desc1(HR_F32, r->samples));
  hr_tensor packed = take(s, r, QKV), mixed = take(s, r, RUN_HEADS * 64), between = take(s, r, HIDDEN);
  hr_tensor pairs = take(s, r, 2 * INNER), inner = take(s, r, INNER), y = take(s, r, 339);
  size_t work_bytes = hr__cache_parts(1, r->context) > 1
                          ? (size_t)(r->samples * RUN_HEADS * hr__cache_parts(1, r->context) * (64 + 2)) * sizeof(float)
                          : 0;
  hr_tensor work = tensor_take(s, hr__desc1(HR_F32, 1 + (int64_t)work_bytes / 4));
  for (int l = 0; l < LAYERS; l++) {
    norm_add(s, x, norms[l][0], normed, rstds);
    linear_add(s, normed, qkv[l], (hr_tensor){0}, packed);
    memcpy(s->in[s->count], (hr_tensor[]){packed, table}, 2 * sizeof x);
    s->out[s->count][0] = packed;
    launch_add(s, "rope", 2, 1, &rope_args);
    memcpy(s->in[s->count], (hr_tensor[]){keys[l], values[l], packed, {0}, positions, counts}, 6 * sizeof x);
    memcpy(s->out[s->count], (hr_tensor[]){keys[l], values[l]}, 2 * sizeof x);
    launch_add(s, "cache_put", 6, 2, &cache_args);
    memcpy(s->in[s->count], (hr_tensor[]){packed, keys[l], values[l], positions, counts}, 5 * sizeof x);
    s->out[s->count][0] = mixed;
    if (work_bytes > 0) sequence_work(s, work.data, work_bytes);
    launch_add(s, "cache_attention", 5, 1, &cache_args);
    linear_add(s, mixed, o[l], x, between);
    norm_add(s, between, norms[l][1], normed, rstds);
    linear_add(s, normed, wide[l], (hr_tensor){0}, pairs);
    s->in[s->count][0] = pairs;
    s->out[s->count][0] = inner;
    launch_add(s, "swiglu", 2, 1, NULL);
    linear_add(s, inner, narrow[l], between, x);
  }
  norm_add(s, x, norm, normed, rstds);
  if (r->weights_late) {
    head = (hr_tensor){.desc = hr__desc2(r->dtype, 1, HIDDEN), .data = x.data};
    y.desc.dim[2] = 1;
  }
  linear_add(s, normed, head, (hr_tensor){0}, y);
}

static void run_check(const run *r) {
  sequence one, recorded;
  size_t inputs;
  run_make(&one, r, bases[0], &inputs);
  run_make(&recorded, r, bases[1], &inputs);
  shape c = {.dtype = r->dtype, .batch = r->samples, .length = 1};
  inputs_fill(&one, &c, inputs);
  for (size_t l = 0; l < one.count; l++) /* far into the caches, and not all samples there */
    for (int i = 0; i < one.launches[l].call.n_in; i++) {
      if (!one.in[l][i].data || one.in[l][i].desc.dtype != HR_I32) continue;
      for (int64_t b = 0; b < r->samples; b++) {
        bool position = one.launches[l].call.n_in == 6 ? i == HR_PUT_POSITIONS : i == 3;
        int32_t number = position ? (int32_t)(r->context - 2 - b) : 1;
        memcpy(host + ((char *)one.in[l][i].data - one.base) + (size_t)b * 4, &number, 4);
      }
    }
  sequences_run(&one, &recorded);
  for (size_t i = 0; i < one.used; i++)
    if (results[0][i] != results[1][i])
      fail_msg("byte %zu of %zu of a run: dtype %d, %lld samples, %lld keys, weights late %d", i, one.used,
               (int)r->dtype, (long long)r->samples, (long long)r->context, r->weights_late);
}

static void test_run(void **state) {
  (void)state;
  static const hr_dtype dtypes[] = {HR_BF16, HR_F16};
  for (size_t d = 0; d < 2; d++)
    for (int64_t samples = 1; samples <= 3; samples++)
      for (int late = 0; late < 2; late++)
        run_check(&(run){dtypes[d], samples, samples == 2 ? LONG : CONTEXT, late > 0});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_few), cmocka_unit_test(test_overlap),
                                     cmocka_unit_test(test_run)};
  int skipped = sequences_open();
  if (skipped) return skipped;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  sequences_close();
  return failed;
}
