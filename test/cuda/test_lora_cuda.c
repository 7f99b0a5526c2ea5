/* lora_up, its backward op and dropout go together with their neighbours where a program is recorded
 * (op/lora_up_match.cuh, op/dropout.cu): what comes out has the bits of launches one by one, also where results lie on
 * what is dead by then, and nothing is taken along where they lie across what others still read. Skipped (77) without a
 * GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/random.h"
#include "dev/control.h"
#include "op/add.h"
#include "op/dropout.h"
#include "op/gelu.h"
#include "op/layernorm.h"
#include "op/lora_up_cuda.h"
#include "part_sequence.h"

enum { BATCH = 3, LENGTH = 23, ROWS = BATCH * LENGTH };

typedef enum group {
  UP_GELU,
  UP_NORM,
  GELU_UP_BWD,
  DROPOUT_UP_BWD,
  GELU_DROPOUT,
  DROPOUT_ADD,
  DROPOUT_GELU_BWD,
  GROUPS
} group;

typedef struct shape {
  hr_dtype dtype;
  group group;
  int64_t columns, rank;
  bool apart; /* gelu and gelu_bwd: not in place */
  bool tanh, wide_weights /* of the norm */, drops, adds, swapped /* the residual is operand 0 of add */;
  bool across; /* the last result lies across h: nothing may go along */
} shape;

static hr_lora_up_args lora_args;
static hr_lora_up_bwd_args bwd_args;
static hr_gelu_args gelu_args;
static const hr_dropout_args dropout_args = {.p = 0.1f, .first = 2, .use = 1};
static const hr_add_args add_args = {1.0f};
static const hr_layernorm_args norm_args = {1e-5f};

static void operands(sequence *s, const hr_tensor *in, int n_in, const hr_tensor *out, int n_out) {
  memcpy(s->in[s->count], in, (size_t)n_in * sizeof *in);
  memcpy(s->out[s->count], out, (size_t)n_out * sizeof *out);
}
#define OPERANDS(...) (hr_tensor[]){__VA_ARGS__}, sizeof((hr_tensor[]){__VA_ARGS__}) / sizeof(hr_tensor)

static void up_make(sequence *s, const shape *c, hr_tensor control) {
  hr_dtype weights = c->wide_weights ? HR_F32 : c->dtype;
  hr_tensor y = tensor_take(s, hr__desc3(c->dtype, BATCH, LENGTH, c->columns));
  hr_tensor B = tensor_take(s, hr__desc2(c->dtype, c->columns, c->rank));
  hr_tensor residual = tensor_take(s, y.desc), w = tensor_take(s, hr__desc1(weights, c->columns));
  hr_tensor bias = tensor_take(s, w.desc), h = tensor_take(s, hr__desc3(c->dtype, BATCH, LENGTH, c->rank));
  hr_tensor last = tensor_take(s, y.desc), statistics = tensor_take(s, hr__desc2(HR_F32, ROWS, 2));
  if (c->across) last.data = (char *)h.data + 64;
  operands(s, OPERANDS(h, B, y), &y, 1);
  launch_add(s, "lora_up", 3, 1, &lora_args);
  if (c->group == UP_GELU) {
    operands(s, &y, 1, c->apart ? &last : &y, 1);
    launch_add(s, "gelu", 1, 1, &gelu_args);
    return;
  }
  if (c->drops) {
    operands(s, OPERANDS(y, control), &y, 1);
    launch_add(s, "dropout", 2, 1, &dropout_args);
  }
  if (c->adds) {
    operands(s, c->swapped ? (hr_tensor[]){residual, y} : (hr_tensor[]){y, residual}, 2, &y, 1);
    launch_add(s, "add", 2, 1, &add_args);
  }
  operands(s, OPERANDS(y, w, bias), (hr_tensor[]){last, statistics}, 2);
  launch_add(s, "layernorm", 3, 2, &norm_args);
}

static void bwd_make(sequence *s, const shape *c, hr_tensor control) {
  hr_tensor given = tensor_take(s, hr__desc3(c->dtype, BATCH, LENGTH, c->columns)), x = tensor_take(s, given.desc);
  hr_tensor B = tensor_take(s, hr__desc2(c->dtype, c->columns, c->rank));
  hr_tensor h = tensor_take(s, hr__desc3(c->dtype, BATCH, LENGTH, c->rank));
  hr_tensor dy = c->apart ? tensor_take(s, given.desc) : given;
  if (c->across) dy.data = (char *)h.data - 64;
  hr_tensor dh = tensor_take(s, h.desc), db = tensor_take(s, hr__desc2(HR_F32, c->columns, c->rank));
  size_t bytes = hr__lora_cuda_of(ROWS, c->dtype, &lora_args).bytes;
  hr_tensor work = tensor_take(s, hr__desc1(HR_U8, (int64_t)bytes));
  bool gelu = c->group == GELU_UP_BWD;
  operands(s, gelu ? (hr_tensor[]){given, x} : (hr_tensor[]){given, control}, 2, &dy, 1);
  launch_add(s, gelu ? "gelu_bwd" : "dropout", 2, 1, gelu ? (const void *)&gelu_args : &dropout_args);
  operands(s, OPERANDS(dy, h, B, (hr_tensor){0}), (hr_tensor[]){dh, db}, 2);
  sequence_work(s, work.data, bytes);
  launch_add(s, "lora_up_bwd", 4, 2, &bwd_args);
}

/* Dropout between others, in place unless `apart`. */
static void dropout_make(sequence *s, const shape *c, hr_tensor control) {
  hr_tensor x = tensor_take(s, hr__desc3(c->dtype, BATCH, LENGTH, c->columns)), other = tensor_take(s, x.desc);
  hr_tensor y = tensor_take(s, x.desc), last = c->apart ? tensor_take(s, x.desc) : y;
  if (c->across) last.data = (char *)x.data + 64;
  if (c->group == GELU_DROPOUT) {
    operands(s, &x, 1, &y, 1);
    launch_add(s, "gelu", 1, 1, &gelu_args);
    operands(s, OPERANDS(y, control), &last, 1);
    launch_add(s, "dropout", 2, 1, &dropout_args);
    return;
  }
  operands(s, OPERANDS(x, control), &y, 1);
  launch_add(s, "dropout", 2, 1, &dropout_args);
  operands(s, c->swapped && c->group == DROPOUT_ADD ? (hr_tensor[]){other, y} : (hr_tensor[]){y, other}, 2, &last, 1);
  bool add = c->group == DROPOUT_ADD;
  launch_add(s, add ? "add" : "gelu_bwd", 2, 1, add ? (const void *)&add_args : &gelu_args);
}

/* The control block first, so that it lies in one place whatever is behind. */
static void sequence_make(sequence *s, const shape *c, char *base) {
  *s = (sequence){.base = base};
  hr_tensor control = tensor_take(s, hr__desc1(HR_U8, sizeof(hr_control)));
  lora_args =
      (hr_lora_up_args){.scale = 1.7f, .rank = c->rank, .groups = 1, .rows = {c->columns}, .columns = c->columns};
  bwd_args = (hr_lora_up_bwd_args){lora_args, HR_F32};
  gelu_args = (hr_gelu_args){c->tanh};
  if (c->group <= UP_NORM)
    up_make(s, c, control);
  else if (c->group <= DROPOUT_UP_BWD)
    bwd_make(s, c, control);
  else
    dropout_make(s, c, control);
}

static void inputs_fill(const sequence *s, const shape *c) {
  hr_random_key key = {.seed = 5, .stream = hr__random_stream("lora")};
  hr_control control = {.seed = 3, .step = 2, .sample = 11};
  memset(host, 0, s->used);
  for (size_t l = 0; l < s->count; l++)
    for (int i = 0; i < s->launches[l].call.n_in; i++) {
      const hr_tensor *t = &s->in[l][i];
      if (!t->data || t->desc.dtype == HR_U8) continue;
      size_t at = (size_t)((const char *)t->data - s->base);
      for (int64_t e = 0; e < hr_desc_count(&t->desc); e++) {
        float value = hr__random_normal(key, l * 8 + (size_t)i, (uint64_t)e);
        uint16_t narrow = c->dtype == HR_BF16 ? hr__f32_to_bf16(value) : hr__f32_to_f16(value);
        if (t->desc.dtype == HR_F32)
          memcpy(host + at + 4 * e, &value, 4);
        else
          memcpy(host + at + 2 * e, &narrow, 2);
      }
    }
  memcpy(host, &control, sizeof control);
}

static void shape_check(const shape *c) {
  sequence one, recorded;
  sequence_make(&one, c, bases[0]);
  sequence_make(&recorded, c, bases[1]);
  inputs_fill(&one, c);
  sequences_run(&one, &recorded);
  size_t last = one.count - 1;
  for (size_t l = c->across ? last : 0; l <= last; l++)
    for (int i = 0; i < one.launches[l].call.n_out; i++) {
      size_t at = (size_t)((char *)one.out[l][i].data - one.base), bytes = hr_desc_bytes(&one.out[l][i].desc);
      bool written = false;
      for (size_t b = 0; b < bytes; b++)
        written |= results[0][at + b] != host[at + b];
      assert_true(written);
      if (memcmp(results[0] + at, results[1] + at, bytes) != 0)
        fail_msg("result %d of launch %zu of %zu: dtype %d, group %d, %lld columns, rank %lld, apart %d, across %d", i,
                 l, one.count, (int)c->dtype, (int)c->group, (long long)c->columns, (long long)c->rank, c->apart,
                 c->across);
    }
}

static void test_groups(void **state) {
  (void)state;
  static const hr_dtype dtypes[] = {HR_BF16, HR_F16, HR_F32}; /* of f32 nothing goes along */
  static const int64_t columns[] = {32, 96, 384, 512, 640, 1536};
  for (size_t d = 0; d < 3; d++)
    for (size_t n = 0; n < sizeof columns / sizeof *columns; n++)
      for (int which = 0; which < 8; which++)
        for (group g = UP_GELU; g < GROUPS; g++) {
          shape c = {.dtype = dtypes[d], .group = g, .columns = columns[n], .rank = which % 2 ? 16 : 8};
          c.apart = which & 2;
          c.tanh = which & 4;
          c.wide_weights = which & 4;
          c.drops = which != 1;
          c.adds = which != 2;
          c.swapped = which & 1;
          shape_check(&c);
        }
}

static void test_across(void **state) {
  (void)state;
  for (group g = UP_GELU; g < GROUPS; g++)
    shape_check(&(shape){.dtype = HR_BF16,
                         .group = g,
                         .columns = 384,
                         .rank = 8,
                         .apart = true,
                         .drops = true,
                         .adds = true,
                         .across = true});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups), cmocka_unit_test(test_across)};
  int skipped = sequences_open();
  if (skipped) return skipped;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  sequences_close();
  return failed;
}
