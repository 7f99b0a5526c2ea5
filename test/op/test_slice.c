/* Slices joined again are the whole, bit for bit: also zeros of either sign, infinities and the smallest numbers. */
#include <string.h>

#include "op/slice.h"
#include "part_case.h"

enum { ROWS = 7, COLUMNS = 5, COUNT = ROWS * COLUMNS };

static void op_run(const hr_op *op, hr_tensor *in, int n_in, hr_tensor *out, const void *args) {
  hr_call call = {.in = in, .out = out, .n_in = n_in, .n_out = 1, .args = args, .threads = 2, .device = device_get()};
  assert_int_equal(op->cpu.run(&call), HR_OK);
}

/* Cuts `whole` into slices of `step` rows, last ones first as backward does, and joins them in place. */
static void slices_join(hr_dtype dtype, const void *whole, int64_t step, void *joined) {
  uint32_t part[COUNT];
  bool begun = false;
  for (int64_t first = (ROWS - 1) / step * step; first >= 0; first -= step) {
    int64_t count = first + step > ROWS ? ROWS - first : step;
    hr_tensor x = {.data = (void *)(uintptr_t)whole, .desc = {dtype, 2, {ROWS, COLUMNS}}, .stride = {COLUMNS, 1}};
    hr_tensor cut = {.data = part, .desc = {dtype, 2, {count, COLUMNS}}, .stride = {COLUMNS, 1}};
    hr_tensor y = {.data = joined, .desc = {dtype, 2, {ROWS, COLUMNS}}, .stride = {COLUMNS, 1}};
    op_run(&hr_op_slice, &x, 1, &cut, &(hr_slice_args){first, count, 0});
    op_run(&hr_op_join, (hr_tensor[]){cut, begun ? y : (hr_tensor){0}}, 2, &y, &(hr_join_args){first, ROWS, 0});
    begun = true;
  }
}

static void test_joined_slices_are_the_whole(void **state) {
  (void)state;
  static const uint32_t special[] = {0x00000000, 0x80000000, 0x7f800000, 0xff800000,
                                     0x00010000, 0x80010000, 0x3f800000};
  uint32_t wide[COUNT], wide_joined[COUNT];
  uint16_t narrow[COUNT], narrow_joined[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    wide[i] = special[i * 3 % 7];
    narrow[i] = (uint16_t)(wide[i] >> 16);
  }
  for (int64_t step = 1; step <= ROWS; step++) {
    slices_join(HR_F32, wide, step, wide_joined);
    assert_memory_equal(wide, wide_joined, sizeof wide);
    slices_join(HR_BF16, narrow, step, narrow_joined);
    assert_memory_equal(narrow, narrow_joined, sizeof narrow);
  }
}

/* Bytes along the second axis, as of images. */
static void test_bytes_are_sliced(void **state) {
  (void)state;
  uint8_t whole[3 * 11], part[3 * 4];
  for (int i = 0; i < 3 * 11; i++)
    whole[i] = (uint8_t)(i * 37);
  hr_tensor x = {.data = whole, .desc = {HR_U8, 2, {3, 11}}, .stride = {11, 1}};
  hr_tensor cut = {.data = part, .desc = {HR_U8, 2, {3, 4}}, .stride = {4, 1}};
  op_run(&hr_op_slice, &x, 1, &cut, &(hr_slice_args){5, 4, 1});
  for (int i = 0; i < 3 * 4; i++)
    assert_int_equal(part[i], whole[i / 4 * 11 + 5 + i % 4]);
}

static hr_status shape_try(const hr_op *op, int64_t rows, const void *args) {
  hr_desc in[2] = {{HR_F32, 2, {rows, COLUMNS}}}, out[1];
  hr_error err;
  hr_op_view view = {.in = in, .out = out, .n_in = op->n_in, .n_out = 1, .args = args};
  return op->shape(&view, out, &err);
}

static void test_rows_must_lie_inside(void **state) {
  (void)state;
  assert_int_equal(shape_try(&hr_op_slice, 7, &(hr_slice_args){4, 3, 0}), HR_OK);
  assert_int_equal(shape_try(&hr_op_slice, 7, &(hr_slice_args){5, 3, 0}), HR_BAD_INPUT);
  assert_int_equal(shape_try(&hr_op_slice, 7, &(hr_slice_args){-1, 3, 0}), HR_BAD_INPUT);
  assert_int_equal(shape_try(&hr_op_slice, 7, &(hr_slice_args){2, 0, 0}), HR_BAD_INPUT);
  assert_int_equal(shape_try(&hr_op_slice, 7, &(hr_slice_args){INT64_MAX, INT64_MAX, 0}), HR_BAD_INPUT);
  assert_int_equal(shape_try(&hr_op_slice, 7, &(hr_slice_args){0, 1, 2}), HR_BAD_INPUT);
  assert_int_equal(shape_try(&hr_op_slice, 7, &(hr_slice_args){0, 1, -1}), HR_BAD_INPUT);
  assert_int_equal(shape_try(&hr_op_reshape, 7, &(hr_reshape_args){3, {COLUMNS, 1, 7}}), HR_OK);
  assert_int_equal(shape_try(&hr_op_reshape, 7, &(hr_reshape_args){2, {COLUMNS, 6}}), HR_BAD_INPUT);
  assert_int_equal(shape_try(&hr_op_reshape, 7, &(hr_reshape_args){0, {0}}), HR_BAD_INPUT);
  assert_int_equal(shape_try(&hr_op_join, 3, &(hr_join_args){4, 7, 0}), HR_OK);
  assert_int_equal(shape_try(&hr_op_join, 3, &(hr_join_args){5, 7, 0}), HR_BAD_INPUT);
  assert_int_equal(shape_try(&hr_op_join, 3, &(hr_join_args){-1, 7, 0}), HR_BAD_INPUT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_joined_slices_are_the_whole),
      cmocka_unit_test(test_bytes_are_sliced),
      cmocka_unit_test(test_rows_must_lie_inside),
  };
  return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
