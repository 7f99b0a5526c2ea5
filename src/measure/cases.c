/* What classes of ops are calibrated with: see bench.h and cases.def. */
#include "measure/bench.h"
#include "op/adamw.h"
#include "op/add.h"
#include "op/attention.h"
#include "op/embedding.h"
#include "op/head_loss.h"
#include "op/rmsnorm.h"
#include "op/rope.h"
#include "op/swiglu.h"

#define F    HR_F32
#define HALF HR_BF16

/* clang-format off */
#define NONE                 {0}
#define LINE_OF(dtype, a)    {dtype, 1, {a}}
#define MATRIX(dtype, a, b)  {dtype, 2, {a, b}}
#define CUBE(dtype, a, b, c) {dtype, 3, {a, b, c}}
#define ROWS(dtype, width)   CUBE(dtype, B, T, width)
#define CONTROL              LINE_OF(HR_U8, sizeof(hr_control))
#define HR_CASE(name, of_class, with, ...)                                                                             \
  {.op = &hr_op_##name, .op_class = of_class, .args = with, .in = {__VA_ARGS__},                                       \
   .n_in = sizeof((hr_desc[]){__VA_ARGS__}) / sizeof(hr_desc)}
/* clang-format on */

static const hr_add_args add_args = {.alpha = 1};
static const hr_rmsnorm_args rmsnorm_args = {.eps = 1e-5f};
static const hr_norm_bwd_args rmsnorm_bwd_args = {.want_dx = true, .want_dw = true};
static const hr_adamw_args adamw_args = {.beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .lr_scale = 1};

/* On the CPU a small transformer: 2 x 512 rows of width 512. */
#define B          2
#define T          512
#define H          512
#define HEADS      8
#define WIDTH      1408
#define VOCABULARY 8192
#define HEAD       F
#define ARGS(name) &cpu_##name
static const hr_rope_args cpu_rope = {.head_dim = H / HEADS};
static const hr_attention_args cpu_attention = {
    .heads = HEADS, .kv_heads = HEADS / 2, .head_dim = H / HEADS, .scale = 0.125f};
static const hr_embedding_dw_args cpu_embedding = {.rows = VOCABULARY, .dtype = HR_F32};
static const hr_head_loss_bwd_args cpu_head = {.want_dx = true, .want_dw = true, .dw_dtype = HR_F32};

static const hr_bench_case cpu_cases[] = {
#include "measure/cases.def"
};
static const hr_bench_case empty_case =
    HR_CASE(rmsnorm, HR_CLASS_STREAM, &rmsnorm_args, MATRIX(F, 4, 16), LINE_OF(F, 16)); /* next to nothing */

#undef B
#undef T
#undef H
#undef HEADS
#undef WIDTH
#undef VOCABULARY
#undef HEAD
#undef ARGS

/* On a GPU a layer of a model of 1 B parameters: smaller work is over before it has begun. Attention of 16-bit floats
 * has a rate of its own there. */
#define B          4
#define T          1024
#define H          2048
#define HEADS      32
#define WIDTH      5632
#define VOCABULARY 32768
#define HEAD       HALF
#define ARGS(name) &gpu_##name
static const hr_rope_args gpu_rope = {.head_dim = H / HEADS};
static const hr_attention_args gpu_attention = {
    .heads = HEADS, .kv_heads = HEADS / 2, .head_dim = H / HEADS, .scale = 0.125f};
static const hr_embedding_dw_args gpu_embedding = {.rows = VOCABULARY, .dtype = HR_F32};
static const hr_head_loss_bwd_args gpu_head = {.want_dx = true, .want_dw = true, .dw_dtype = HR_BF16};

static const hr_bench_case gpu_cases[] = {
#include "measure/cases.def"
    HR_CASE(attention, HR_CLASS_ATTENTION, ARGS(attention), ROWS(HALF, H), ROWS(HALF, H / 2), ROWS(HALF, H / 2), NONE,
            NONE),
    HR_CASE(attention_bwd, HR_CLASS_ATTENTION, ARGS(attention), ROWS(HALF, H), ROWS(HALF, H), ROWS(HALF, H / 2),
            ROWS(HALF, H / 2), ROWS(HALF, H), CUBE(F, B, HEADS, T), NONE, NONE)};

const hr_bench_case *hr__bench_cases(hr_device_kind kind, size_t *count) {
  *count = kind == HR_CPU ? sizeof cpu_cases / sizeof *cpu_cases : sizeof gpu_cases / sizeof *gpu_cases;
  return kind == HR_CPU ? cpu_cases : gpu_cases;
}

const hr_bench_case *hr__bench_empty(void) {
  return &empty_case;
}
