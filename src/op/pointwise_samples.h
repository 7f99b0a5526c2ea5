/* Samples of pointwise and rearrange: every value and every slope once, then ways to read operands, programs, sizes. */
#ifndef HR_OP_POINTWISE_SAMPLES_H
#define HR_OP_POINTWISE_SAMPLES_H

#include "op/pointwise.h"

#define AXES(...)                                                                                                      \
  {                                                                                                                    \
    {__VA_ARGS__}, {                                                                                                   \
      0                                                                                                                \
    }                                                                                                                  \
  }
#define PLAIN AXES(0, 1, 2, 3, 4, 5)
#define SMALL                                                                                                          \
  {                                                                                                                    \
    HR_F32, 2, {                                                                                                       \
      5, 19                                                                                                            \
    }                                                                                                                  \
  }
#define STEP(which, what, ...)                                                                                         \
  {                                                                                                                    \
    .formula = HR_FORMULA_##which, .part = HR_PART_##what, .round = HR_SAME_TYPE, .from = {__VA_ARGS__}, .p = 0.75f,   \
    .q = 1.25f                                                                                                         \
  }
#define ARGS(...)                                                                                                      \
  &(const hr_pointwise_args) {                                                                                         \
    .rank = 2, __VA_ARGS__                                                                                             \
  }
#define ONE_STEP(operands, which, what, ...)                                                                           \
  {.n_in = operands,                                                                                                   \
   .in = {SMALL, SMALL, SMALL},                                                                                        \
   .args = ARGS(.n_in = operands, .n_steps = 1, .n_out = 1, .map = {PLAIN, PLAIN, PLAIN},                              \
                .step = {STEP(which, what, __VA_ARGS__)}, .result = {{operands, HR_SAME_TYPE}})},
#define VALUE_1(name, flops, reads, value, slope)            ONE_STEP(1, name, VALUE, 0)
#define VALUE_2(name, flops, reads, value, slope_a, slope_b) ONE_STEP(2, name, VALUE, 0, 1)
#define SLOPES_1(name, flops, reads, value, slope)           ONE_STEP(2, name, SLOPE_A, 0, 1)
#define SLOPES_2(name, flops, reads, value, slope_a, slope_b)                                                          \
  ONE_STEP(3, name, SLOPE_A, 0, 1, 2) ONE_STEP(3, name, SLOPE_B, 0, 1, 2)

static const hr_sample pointwise_samples[] = {
    HR_FORMULAS_1(VALUE_1) HR_FORMULAS_2(VALUE_2)
    /* over several chunks, with a row and with a column that are repeated */
    {.n_in = 2,
     .in = {{HR_F32, 2, {67, 1031}}, {HR_F32, 1, {1031}}},
     .args = ARGS(.n_in = 2, .n_steps = 1, .n_out = 1, .map = {PLAIN, AXES(-1, 0, -1, -1, -1, -1)},
                  .step = {STEP(mul, VALUE, 0, 1)}, .result = {{2, HR_SAME_TYPE}})},
    {.n_in = 2,
     .in = {{HR_F32, 1, {83}}, {HR_F32, 2, {83, 1029}}},
     .args = ARGS(.n_in = 2, .n_steps = 1, .n_out = 1, .map = {AXES(0, -1, -1, -1, -1, -1), PLAIN},
                  .step = {STEP(sub, VALUE, 0, 1)}, .result = {{2, HR_SAME_TYPE}})},
    /* both repeated, the second one read by columns */
    {.n_in = 2,
     .in = {{HR_F32, 2, {3, 21}}, {HR_F32, 2, {21, 5}}},
     .args = &(const hr_pointwise_args){.rank = 3,
                                        .n_in = 2,
                                        .n_steps = 1,
                                        .n_out = 1,
                                        .map = {AXES(0, -1, 1, -1, -1, -1), AXES(-1, 1, 0, -1, -1, -1)},
                                        .step = {STEP(add, VALUE, 0, 1)},
                                        .result = {{2, HR_SAME_TYPE}}}},
    /* sigmoid(x w + b) x, as fused */
    {.n_in = 3,
     .in = {{HR_F32, 2, {37, 1031}}, {HR_F32, 1, {1031}}, {HR_F32, 1, {1031}}},
     .args =
         ARGS(.n_in = 3, .n_steps = 4, .n_out = 1,
              .map = {PLAIN, AXES(-1, 0, -1, -1, -1, -1), AXES(-1, 0, -1, -1, -1, -1)},
              .step = {STEP(mul, VALUE, 0, 1), STEP(add, VALUE, 3, 2), STEP(sigmoid, VALUE, 4), STEP(mul, VALUE, 5, 0)},
              .result = {{6, HR_SAME_TYPE}})},
    /* bytes scaled; bytes and whole numbers beside floats, in order and repeated */
    {.n_in = 1,
     .in = {{HR_U8, 2, {67, 1031}}},
     .args = ARGS(.n_in = 1, .n_steps = 1, .n_out = 1, .map = {PLAIN}, .step = {STEP(affine, VALUE, 0)},
                  .result = {{1, HR_SAME_TYPE}})},
    {.n_in = 3,
     .in = {{HR_U8, 2, {21, 2048}}, {HR_F32, 1, {2048}}, {HR_I32, 1, {21}}},
     .args = ARGS(.n_in = 3, .n_steps = 2, .n_out = 1,
                  .map = {PLAIN, AXES(-1, 0, -1, -1, -1, -1), AXES(0, -1, -1, -1, -1, -1)},
                  .step = {STEP(mul, VALUE, 0, 1), STEP(add, VALUE, 3, 2)}, .result = {{4, HR_SAME_TYPE}}),
     .index_below = 1000},
    {.n_in = 2,
     .in = {{HR_F32, 2, {19, 45}}, {HR_U8, 2, {45, 19}}},
     .args = ARGS(.n_in = 2, .n_steps = 1, .n_out = 1, .map = {PLAIN, AXES(1, 0, -1, -1, -1, -1)},
                  .step = {STEP(keep, VALUE, 0, 1)}, .result = {{2, HR_SAME_TYPE}})},
    {.n_in = 2,
     .in = {{HR_F32, 2, {96, 1024}}, {HR_F32, 2, {96, 1024}}},
     .args = ARGS(.n_in = 2, .n_steps = 1, .n_out = 1, .map = {PLAIN, PLAIN}, .step = {STEP(add, VALUE, 0, 1)},
                  .result = {{2, HR_SAME_TYPE}})},
};

/* The backward of sigmoid(x w) x: dw for every element, and dx on top of a sum. */
static const hr_sample pointwise_bwd_samples[] = {
    HR_FORMULAS_1(SLOPES_1) HR_FORMULAS_2(SLOPES_2){
        .n_in = 4,
        .in = {{HR_F32, 2, {37, 1031}}, {HR_F32, 2, {37, 1031}}, {HR_F32, 2, {37, 1031}}, {HR_F32, 1, {1031}}},
        .args = ARGS(.n_in = 4, .n_steps = 8, .n_out = 2, .map = {PLAIN, PLAIN, PLAIN, AXES(-1, 0, -1, -1, -1, -1)},
                     .step = {STEP(mul, VALUE, 2, 3), STEP(sigmoid, VALUE, 4), STEP(mul, SLOPE_B, 1, 5, 2),
                              STEP(add, VALUE, 0, 6), STEP(mul, SLOPE_A, 1, 5, 2), STEP(sigmoid, SLOPE_A, 8, 4),
                              STEP(mul, SLOPE_A, 9, 2, 3), STEP(mul, SLOPE_B, 9, 2, 3)},
                     .result = {{7, HR_SAME_TYPE}, {11, HR_F32}})},
    /* dw of x w, x in bytes */
    {.n_in = 3,
     .in = {{HR_F32, 2, {37, 1031}}, {HR_U8, 2, {37, 1031}}, {HR_F32, 1, {1031}}},
     .args = ARGS(.n_in = 3, .n_steps = 1, .n_out = 1, .map = {PLAIN, PLAIN, AXES(-1, 0, -1, -1, -1, -1)},
                  .step = {STEP(mul, SLOPE_B, 0, 1, 2)}, .result = {{3, HR_SAME_TYPE}})},
};

#define VIEW(...)                                                                                                      \
  &(const hr_pointwise_args) {                                                                                         \
    .n_in = 1, .n_out = 1, .result = {{0, HR_SAME_TYPE}}, __VA_ARGS__                                                  \
  }
static const hr_sample rearrange_samples[] = {
    {.n_in = 1, .in = {{HR_F32, 3, {4, 21, 35}}}, .args = VIEW(.rank = 3, .map = {AXES(1, 2, 0, -1, -1, -1)})},
    {.n_in = 1, .in = {{HR_U8, 3, {4, 21, 35}}}, .args = VIEW(.rank = 3, .map = {AXES(2, 0, 1, -1, -1, -1)})},
    {.n_in = 1, .in = {{HR_F32, 2, {130, 70}}}, .args = VIEW(.rank = 2, .map = {AXES(1, 0, -1, -1, -1, -1)})},
    /* rows 2 to 5 of columns 3 to 19; and padded by 2 on the left, 4 on the right */
    {.n_in = 1,
     .in = {{HR_F32, 2, {9, 33}}},
     .args = VIEW(.rank = 2, .size = {4, 17}, .map = {{{0, 1, -1, -1, -1, -1}, {2, 3}}})},
    {.n_in = 1, .in = {{HR_F32, 2, {3, 33}}}, .args = VIEW(.rank = 2, .size = {0, 39}, .map = {{{0, 1}, {0, -2}}})},
    {.n_in = 1,
     .in = {{HR_F32, 2, {5, 1}}},
     .args = VIEW(.rank = 3, .size = {3, 0, 19}, .map = {AXES(-1, 0, -1, -1, -1, -1)})},
    {.n_in = 1,
     .in = {{HR_F32, 1, {1031}}},
     .args = VIEW(.rank = 2, .size = {64, 0}, .map = {AXES(-1, 0, -1, -1, -1, -1)})},
};

#endif
