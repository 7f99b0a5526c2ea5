/* Convolutions of the sizes that models have: a sample alone has the bits that it has among others, on any number of
 * threads; and what is refused, with which words. */
#include <string.h>

#include "op/conv.h"
#include "part_case.h"

/* Operand 0 and result 0 carry the samples along their first axis; so does what is added, operand `added`. */
typedef struct shape {
  const hr_op *op;
  hr_sample sample;
  int added; /* -1: nothing */
} shape;

#define ALONG(s, p)                                                                                                    \
  { .stride = {s}, .padding = {p}, .dilation = {1}, .groups = 1 }
#define FIELD                                                                                                          \
  { .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 4 }

/* Several blocks of rows in each; inner sizes of one product from 7 to 1,280. */
static const shape shapes[] = {
    {&hr_op_conv,
     {4,
      {{HR_F32, 3, {13, 1, 128}}, {HR_F32, 3, {64, 1, 7}}, {HR_F32, 1, {64}}},
      &(const hr_conv_args)ALONG(2, 3),
      0,
      0},
     -1},
    {&hr_op_conv,
     {4,
      {{HR_F32, 3, {29, 256, 16}}, {HR_F32, 3, {40, 256, 5}}, {HR_F32, 1, {40}}, {HR_F32, 3, {29, 40, 8}}},
      &(const hr_conv_args)ALONG(2, 2),
      0,
      0},
     3},
    {&hr_op_conv,
     {4,
      {{HR_F32, 3, {300, 64, 4}}, {HR_F32, 3, {96, 64, 4}}, {HR_F32, 1, {96}}},
      &(const hr_conv_args)ALONG(4, 0),
      0,
      0},
     -1},
    {&hr_op_conv, {4, {{HR_F32, 4, {3, 8, 19, 17}}, {HR_F32, 4, {12, 2, 3, 3}}}, &(const hr_conv_args)FIELD, 0, 0}, -1},
    {&hr_op_conv_dx,
     {3,
      {{HR_F32, 3, {29, 256, 16}}, {HR_F32, 3, {256, 40, 5}}, {HR_F32, 3, {29, 40, 32}}},
      &(const hr_conv_dx_args){ALONG(2, 2), {32}},
      0,
      0},
     2},
    {&hr_op_conv_dx,
     {3, {{HR_F32, 3, {300, 96, 1}}, {HR_F32, 3, {96, 64, 4}}}, &(const hr_conv_dx_args){ALONG(4, 0), {4}}, 0, 0},
     -1},
    {&hr_op_conv_dx,
     {3, {{HR_F32, 4, {3, 12, 19, 17}}, {HR_F32, 4, {12, 2, 3, 3}}}, &(const hr_conv_dx_args){FIELD, {19, 17}}, 0, 0},
     -1},
};

static uint32_t operands_there(const hr_sample *sample) {
  uint32_t there = 0;
  for (int i = 0; i < sample->n_in; i++)
    if (sample->in[i].rank) there |= 1u << i;
  return there;
}

/* Samples [first, first + count) of a case, on their own. */
static void samples_compare(op_case *whole, const shape *s, const run_result *all, int64_t first, int64_t count) {
  op_case part;
  hr_sample sample = s->sample;
  hr_dtype dtype = whole->in[0].dtype;
  const int carry[] = {0, s->added};
  for (int i = 0; i < 2; i++)
    if (carry[i] >= 0) sample.in[carry[i]].dim[0] = count;
  assert_true(case_create_as(&part, s->op, &sample, 0, dtype == HR_F32 ? 0 : operands_there(&sample), dtype));
  for (int i = 0; i < sample.n_in; i++) {
    int64_t before = i == 0 || i == s->added ? hr_desc_count(&part.in[i]) / count * first : 0;
    if (whole->value[i]) part.value[i] = whole->value[i] + before;
  }
  run_result alone = case_run(&part, (run_options){.threads = 1});
  size_t bytes = hr_desc_bytes(&part.out[0]);
  if (memcmp(alone.data[0], (const char *)all->data[0] + bytes / (size_t)count * (size_t)first, bytes) != 0)
    case_fail(whole, "samples %d to %d alone have other bits", (int)first, (int)(first + count - 1));
  case_destroy(&part);
}

static void test_a_sample_alone_has_the_same_bits(void **state) {
  static const hr_dtype dtypes[] = {HR_F32, HR_BF16, HR_F16};
  (void)state;
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
    for (int d = 0; d < 3; d++) {
      op_case c;
      uint32_t there = operands_there(&shapes[k].sample);
      assert_true(case_create_as(&c, shapes[k].op, &shapes[k].sample, (int)k, d ? there : 0, dtypes[d]));
      run_result one = case_run(&c, (run_options){.threads = 1}), three = case_run(&c, (run_options){.threads = 3});
      if (memcmp(one.data[0], three.data[0], hr_desc_bytes(&c.out[0])) != 0) case_fail(&c, "three threads change bits");
      int64_t samples = c.in[0].dim[0];
      samples_compare(&c, &shapes[k], &one, 0, 1);
      samples_compare(&c, &shapes[k], &one, samples / 2, 1);
      samples_compare(&c, &shapes[k], &one, 1, samples - 1);
      case_destroy(&c);
    }
}

/* Against the reference where rows are many, and where a product is cut along what it sums over. */
static void test_sizes_of_models_match_the_reference(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
    op_case c;
    assert_true(case_create_as(&c, shapes[k].op, &shapes[k].sample, (int)k, 0, HR_F32));
    run_result got = case_run(&c, (run_options){.threads = 2}), want = case_reference(&c);
    values_close(&c, "result", got.value[0], want.value[0], hr_desc_count(&c.out[0]), case_tolerance(&c));
    case_destroy(&c);
  }
}

typedef struct refusal {
  hr_desc x, w;
  hr_conv_args args;
  const char *words;
} refusal;

static const refusal refusals[] = {
    {{HR_F32, 3, {2, 4, 9}}, {HR_F32, 3, {6, 4, 3}}, {{0}, {0}, {1}, 1}, "stride 0"},
    {{HR_F32, 3, {2, 4, 9}}, {HR_F32, 3, {6, 4, 3}}, {{1}, {-1}, {1}, 1}, "padding -1"},
    {{HR_F32, 3, {2, 4, 9}}, {HR_F32, 3, {6, 4, 3}}, {{1}, {0}, {0}, 1}, "dilation 0"},
    {{HR_F32, 3, {2, 4, 9}}, {HR_F32, 3, {6, 4, 3}}, {{1}, {INT64_MAX}, {1}, 1}, "padding is 0 to"},
    {{HR_F32, 4, {2, 4, 9, 9}}, {HR_F32, 4, {6, 4, 3, 3}}, {{65, 64}, {0}, {1, 1}, 1}, "multiply to 4160"},
    {{HR_F32, 3, {2, 4, 9}}, {HR_F32, 3, {6, 4, 3}}, {{1}, {0}, {1}, 0}, "in 0 groups"},
    {{HR_F32, 3, {2, 4, 9}}, {HR_F32, 3, {6, 1, 3}}, {{1}, {0}, {1}, 4}, "4 channels cannot go to 6 in 4 groups"},
    {{HR_F32, 3, {2, 4, 9}}, {HR_F32, 3, {6, 4, 3}}, {{1}, {0}, {1}, 2}, "takes 4 channels, expected 2"},
    {{HR_F32, 3, {2, 4, 9}},
     {HR_F32, 3, {6, 4, 12}},
     {{1}, {1}, {1}, 1},
     "a kernel of 12 with dilation 1 does not fit"},
    {{HR_F32, 3, {2, 4, 9}}, {HR_F32, 3, {6, 4, 3}}, {{1}, {0}, {5}, 1}, "a kernel of 3 with dilation 5 does not fit"},
    {{HR_F32, 4, {2, 4, 9, 2}}, {HR_F32, 4, {6, 4, 3, 3}}, {{1, 1}, {0}, {1, 1}, 1}, "(axis 1)"},
    {{HR_F32, 3, {2, 4, 9}}, {HR_F32, 4, {6, 4, 3, 3}}, {{1, 1}, {0}, {1, 1}, 1}, "a weight of rank 4"},
    {{HR_F32, 2, {2, 4}}, {HR_F32, 2, {6, 4}}, {{1}, {0}, {1}, 1}, "x of rank 2"},
    {{HR_F32, 3, {2, 4, 9}}, {HR_BF16, 3, {6, 4, 3}}, {{1}, {0}, {1}, 1}, "operands of f32 and bf16"},
};

static void test_what_does_not_go_together_is_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const refusal *r = &refusals[i];
    hr_desc in[4] = {r->x, r->w}, out;
    hr_error err = {0};
    hr_op_view view = {.in = in, .n_in = 4, .args = &r->args};
    if (hr_op_conv.shape(&view, &out, &err) != HR_BAD_INPUT) fail_msg("\"%s\" is not refused", r->words);
    if (!strstr(err.message, r->words)) fail_msg("expected \"%s\", got \"%s\"", r->words, err.message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_sample_alone_has_the_same_bits),
      cmocka_unit_test(test_sizes_of_models_match_the_reference),
      cmocka_unit_test(test_what_does_not_go_together_is_refused),
  };
  return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
