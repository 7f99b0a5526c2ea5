/* The tape by hand: who owns storages, what calls keep, in which order and place gradients are summed, what checkpoints
 * make again, and where they stop. Bytes are counted from the events; a block of 1 MiB is 1024 x 256 f32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "torch/aten.h"
#include "torch/call.h"

enum { ROWS = 1024, WIDTH = 256, MIB = 1 << 20 };

typedef struct fixture {
  hr_torch_events events;
  hr_tape t;
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  hr__torch_events_init(&f->events);
  hr__tape_init(&f->t, &f->events);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  hr__tape_fini(&f->t);
  hr__torch_events_fini(&f->events);
  free(f);
  return 0;
}

/* Bytes alive now, and the most at any moment since `from`. */
static uint64_t alive(const fixture *f, size_t from, uint64_t *most) {
  uint64_t now = 0, peak = 0;
  for (size_t i = 0; i < f->events.count; i++) {
    const hr_torch_event *e = &f->events.items[i];
    if (e->kind == HR_TORCH_ALLOCATE) now += e->bytes;
    if (e->kind == HR_TORCH_FREE) now -= f->events.items[f->events.lives[e->id].first].bytes;
    if (i >= from && now > peak) peak = now;
  }
  if (most) *most = peak;
  return now;
}

static hr_tt rows(fixture *f, bool trained) {
  return hr__tape_parameter(&f->t, hr__tdims2(ROWS, WIDTH), HR_F32, trained);
}

static hr_tt scalar_of(hr_tape *t, hr_tt x) {
  return hr__at_nll_loss(t, x, HR_TT_NONE); /* what it makes of x is a number */
}

/* What nobody names goes with the call that took it; a name holds it. */
static void test_owners(void **state) {
  fixture *f = *state;
  hr_tt x = rows(f, false);
  hr_tt y = hr__tape_name(hr__at_neg(&f->t, hr__at_neg(&f->t, x)));
  assert_int_equal(alive(f, 0, NULL), 2 * MIB);
  hr_tt again = hr__tape_again(&f->t, y);
  hr__tape_drop(&f->t, y);
  assert_int_equal(alive(f, 0, NULL), 2 * MIB);
  hr__tape_drop(&f->t, again);
  assert_int_equal(alive(f, 0, NULL), MIB);
  assert_int_equal(hr__tape_name(hr__at_to(&f->t, x, HR_F32)), x); /* nothing to do: the tensor itself */
}

/* Frozen inputs are not kept; the gradient of a leaf is taken over, and later ones are added to it. */
static void test_gradients(void **state) {
  fixture *f = *state;
  hr_tape *t = &f->t;
  hr_tt frozen = rows(f, false), trained = rows(f, true);
  for (int step = 0; step < 2; step++) {
    hr_tt product = hr__at_mul(t, trained, hr__at_neg(t, frozen)); /* keeps the second factor alone */
    hr_tt loss = hr__tape_name(scalar_of(t, product));
    assert_int_equal(alive(f, 0, NULL) / MIB, 2 + 2 + step); /* leaves; factor and product; from then on a gradient */
    hr__tape_backward(t, loss);
    hr__tape_drop(t, loss);
    assert_int_equal(alive(f, 0, NULL) / MIB, 3);
  }
  assert_int_not_equal(hr__tape_tensor(t, trained)->grad, HR_TT_NONE);
  assert_int_equal(hr__tape_tensor(t, frozen)->grad, HR_TT_NONE);
}

/* x + f(x): the gradient of the sum waits for that of f, and takes it in place. */
static void test_branches(void **state) {
  fixture *f = *state;
  hr_tape *t = &f->t;
  hr_tt w = rows(f, true);
  hr_tt x = hr__tape_name(hr__at_neg(t, w));
  hr_tt sum = hr__at_add(t, x, hr__at_neg(t, x));
  hr_tt loss = hr__tape_name(scalar_of(t, sum));
  hr__tape_drop(t, x);
  size_t from = f->events.count;
  uint64_t most;
  hr__tape_backward(t, loss);
  alive(f, from, &most);
  /* w, what the loss kept and its gradient; then the gradient and that of the branch, never a third for their sum */
  assert_int_equal(most / MIB, 3);
  hr__tape_drop(t, loss);
  assert_int_equal(alive(f, 0, NULL) / MIB, 2); /* w and its gradient */
}

/* Casts of trained f32 weights are kept to the end of the region, those of others are made each time. */
static void test_autocast(void **state) {
  fixture *f = *state;
  hr_tape *t = &f->t;
  hr_tt weight = hr__tape_parameter(t, hr__tdims2(WIDTH, WIDTH), HR_F32, true);
  hr_tt frozen = hr__tape_parameter(t, hr__tdims2(WIDTH, WIDTH), HR_F32, false);
  uint64_t before = alive(f, 0, NULL), half = (uint64_t)WIDTH * WIDTH * 2;
  hr__tape_autocast_begin(t, HR_BF16);
  for (int i = 0; i < 2; i++) {
    hr__tape_drop(t, hr__tape_narrowed(t, weight));
    hr__tape_drop(t, hr__tape_narrowed(t, frozen));
    assert_int_equal(alive(f, 0, NULL), before + half);
  }
  hr__tape_autocast_end(t);
  assert_int_equal(alive(f, 0, NULL), before);
}

typedef struct part {
  hr_tt weight;
  int runs, ends; /* how often it ran, and to its end */
} part;

/* silu(x) w, then a sum that keeps nothing. */
static hr_tt part_run(hr_tape *t, void *user, hr_tt x) {
  part *p = user;
  p->runs++;
  hr_tt y = hr__at_neg(t, hr__at_mul(t, hr__at_silu(t, x), p->weight));
  p->ends += y != HR_TT_NONE;
  return y;
}

static void checkpointed(fixture *f, hr_tape_checkpoint how, int ends) {
  hr_tape *t = &f->t;
  part p = {.weight = rows(f, true)};
  hr_tt leaf = rows(f, true);
  hr_tt x = hr__tape_name(hr__at_neg(t, leaf));
  uint64_t before = alive(f, 0, NULL);
  t->checkpointing = how;
  hr_tt y = hr__tape_name(hr__tape_part(t, part_run, &p, x, NULL, 0));
  assert_int_equal((alive(f, 0, NULL) - before) / MIB, 1); /* its result: nothing of what is inside is kept */
  hr_tt loss = hr__tape_name(scalar_of(t, y));
  hr__tape_drop(t, x);
  hr__tape_drop(t, y);
  hr__tape_backward(t, loss);
  hr__tape_drop(t, loss);
  assert_int_equal(p.runs, 2);
  assert_int_equal(p.ends, ends);
  assert_false(t->stopped);
  assert_int_equal(alive(f, 0, NULL) / MIB, 4); /* two leaves and their gradients */
  assert_int_equal(hr__tape_check(t, NULL), HR_OK);
}

/* Run again, it ends with the last tensor that backward asked for. */
static void test_checkpoint(void **state) {
  checkpointed(*state, HR_TAPE_NON_REENTRANT, 1);
}

static void test_checkpoint_reentrant(void **state) {
  checkpointed(*state, HR_TAPE_REENTRANT, 2);
}

/* What a part reads beside its input is a reentrant checkpoint's until the graph goes, as Python's context has it;
 * others let go of it once they have what they keep. */
static void reads(fixture *f, hr_tape_checkpoint how, uint64_t held) {
  hr_tape *t = &f->t;
  part p = {.weight = rows(f, true)};
  hr_tt leaf = rows(f, true), table = hr__tape_name(hr__tape_made(t, "table", hr__tdims2(ROWS, WIDTH), HR_F32));
  hr_tt x = hr__tape_name(hr__at_neg(t, leaf));
  t->checkpointing = how;
  hr_tt y = hr__tape_name(hr__tape_part(t, part_run, &p, x, &table, 1));
  hr_tt loss = hr__tape_name(scalar_of(t, y));
  hr__tape_drop(t, x);
  hr__tape_drop(t, y);
  hr__tape_drop(t, table);
  hr__tape_backward(t, loss);
  assert_int_equal(alive(f, 0, NULL) / MIB, 4 + held);
  hr__tape_drop(t, loss);
  assert_int_equal(alive(f, 0, NULL) / MIB, 4);
}

static void test_checkpoint_reads(void **state) {
  reads(*state, HR_TAPE_NON_REENTRANT, 0);
}

static void test_checkpoint_reads_reentrant(void **state) {
  reads(*state, HR_TAPE_REENTRANT, 1);
}

static uint64_t made_by(const fixture *f, const char *call) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < f->events.count; i++)
    if (f->events.items[i].kind == HR_TORCH_ALLOCATE && strcmp(f->events.names[f->events.items[i].call], call) == 0)
      bytes += f->events.items[i].bytes;
  return bytes;
}

/* One head for all is a view, which a product of several rows copies, and one of a single row does not. */
static void test_one_head(void **state) {
  fixture *f = *state;
  hr_tape *t = &f->t;
  for (int64_t batch = 1; batch <= 2; batch++) {
    hr_tt q = hr__tape_parameter(t, hr__tdims4(batch, 8, 64, 32), HR_F32, false);
    hr_tt k = hr__tape_parameter(t, hr__tdims4(batch, 1, 64, 32), HR_F32, false);
    hr_tt keys = hr__tape_name(hr__at_expanded(t, k, 8));
    assert_int_equal(made_by(f, "aten::clone"), 0);
    hr__tape_drop(t, hr__at_matmul(t, q, keys, true));
    assert_int_equal(made_by(f, "aten::clone"), batch == 1 ? 0 : 2 * 8 * 64 * 32 * 4);
  }
}

/* The gradient of what is multiplied turned round lies so that it needs no copy to become rows again. */
static void test_turned(void **state) {
  fixture *f = *state;
  hr_tape *t = &f->t;
  hr_tt rows_of[2], of_heads[2];
  for (int i = 0; i < 2; i++) {
    rows_of[i] = hr__tape_parameter(t, hr__tdims3(1, 64, 8 * 32), HR_F32, true);
    of_heads[i] = hr__tape_name(hr__at_heads(t, rows_of[i], 8));
  }
  hr_tt loss = hr__tape_name(scalar_of(t, hr__at_matmul(t, of_heads[0], of_heads[1], true)));
  hr__tape_backward(t, loss);
  assert_int_equal(made_by(f, "aten::clone"), 8 * 64 * 32 * 4); /* the query's alone */
}

/* The math kernel makes scores of 16 bits in f32, adds the mask in place, and asks which of them are masked. */
static void test_math(void **state) {
  fixture *f = *state;
  hr_tape *t = &f->t;
  uint64_t scores = 2 * 8 * 64 * 64, most;
  hr_tt q = hr__tape_parameter(t, hr__tdims4(2, 8, 64, 8), HR_BF16, false);
  hr_sdpa_args args = {.rules = {.first = HR_SDPA_MATH}, .causal = true};
  size_t from = f->events.count;
  hr__tape_drop(t, hr__at_sdpa(t, q, q, q, &args));
  alive(f, from, &most);
  assert_int_equal(made_by(f, "aten::bmm"), 4 * scores + 4 * 2 * 8 * 64 * 8);
  assert_int_equal(made_by(f, "aten::_safe_softmax"), 5 * scores + 2 * 8 * 64 + 4);
  assert_int_equal(made_by(f, "aten::add"), 0);
  assert_true(most > 9 * scores && most < 12 * scores); /* scores, result, one byte each */
}

/* Rows of the efficient kernel's mask begin at whole 8 elements. */
static void test_mask_aligned(void **state) {
  fixture *f = *state;
  hr_tape *t = &f->t;
  hr_tt q = hr__tape_parameter(t, hr__tdims4(2, 8, 61, 32), HR_F32, false);
  hr_tt mask = hr__tape_parameter(t, hr__tdims4(2, 1, 61, 61), HR_U8, false);
  hr_sdpa_args args = {.mask = mask};
  hr__tape_drop(t, hr__at_sdpa(t, q, q, q, &args));
  assert_int_equal(made_by(f, "aten::where"), 2 * 61 * 61 * 4);
  assert_int_equal(made_by(f, "aten::constant_pad_nd"), 2 * 61 * 64 * 4);
}

/* x.data = x.data.to(dtype): who has the tensor has the new memory. */
static void test_retype(void **state) {
  fixture *f = *state;
  hr_tt x = rows(f, false);
  hr__tape_retype(&f->t, x, HR_BF16);
  assert_int_equal(hr__tape_dtype(&f->t, x), HR_BF16);
  assert_int_equal(alive(f, 0, NULL), ROWS * WIDTH * 2);
  hr__tape_drop(&f->t, x);
  assert_int_equal(alive(f, 0, NULL), 0);
}

/* The kernels of attention that PyTorch picks. */
static void test_attention(void **state) {
  fixture *f = *state;
  hr_tape *t = &f->t;
  hr_tt q = hr__tape_parameter(t, hr__tdims4(2, 8, 64, 128), HR_BF16, false);
  hr_tt shared = hr__tape_parameter(t, hr__tdims4(2, 2, 64, 128), HR_BF16, false);
  hr_tt wide = hr__tape_parameter(t, hr__tdims4(2, 8, 64, 128), HR_F32, false);
  hr_tt wide_shared = hr__tape_parameter(t, hr__tdims4(2, 2, 64, 128), HR_F32, false);
  hr_sdpa_args hopper = {.rules = {.cudnn_first = true}, .causal = true}, ada = {.causal = true}, drops = hopper;
  hr_sdpa_args masked = {.mask = wide}, named = {.rules = {.first = HR_SDPA_EFFICIENT}};
  drops.dropout = 0.1;
  assert_int_equal(hr__at_sdpa_choice(t, q, shared, &hopper), HR_SDPA_CUDNN);
  assert_int_equal(hr__at_sdpa_choice(t, q, shared, &ada), HR_SDPA_FLASH);
  assert_int_equal(hr__at_sdpa_choice(t, q, shared, &drops), HR_SDPA_CUDNN); /* as on the H200 with 0.1 */
  assert_int_equal(hr__at_sdpa_choice(t, q, q, &masked), HR_SDPA_EFFICIENT);
  assert_int_equal(hr__at_sdpa_choice(t, wide, wide, &hopper), HR_SDPA_EFFICIENT);
  assert_int_equal(hr__at_sdpa_choice(t, wide, wide_shared, &hopper), HR_SDPA_MATH);
  assert_int_equal(hr__at_sdpa_choice(t, q, shared, &named), HR_SDPA_EFFICIENT);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {TEST(test_owners),
                                     TEST(test_gradients),
                                     TEST(test_branches),
                                     TEST(test_autocast),
                                     TEST(test_checkpoint),
                                     TEST(test_checkpoint_reentrant),
                                     TEST(test_checkpoint_reads),
                                     TEST(test_checkpoint_reads_reentrant),
                                     TEST(test_one_head),
                                     TEST(test_turned),
                                     TEST(test_math),
                                     TEST(test_mask_aligned),
                                     TEST(test_retype),
                                     TEST(test_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
