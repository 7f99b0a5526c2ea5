#include "part_samples.h"

#include "op/adamw.h"
#include "op/adamw8bit.h"
#include "op/add_rows.h"
#include "op/attention.h"
#include "op/cache.h"
#include "op/carry.h"
#include "op/conv.h"
#include "op/embedding.h"
#include "op/gather.h"
#include "op/gelu.h"
#include "op/group_norm.h"
#include "op/head_loss.h"
#include "op/layernorm.h"
#include "op/linear.h"
#include "op/lora_down.h"
#include "op/lora_up.h"
#include "op/nf4.h"
#include "op/pointwise.h"
#include "op/rmsnorm.h"
#include "op/rope.h"
#include "op/ssd.h"
#include "op/topk.h"

#define F(...)                                                                                                         \
  {                                                                                                                    \
    HR_F32, sizeof((int[]){__VA_ARGS__}) / sizeof(int), {                                                              \
      __VA_ARGS__                                                                                                      \
    }                                                                                                                  \
  }
#define I(...)                                                                                                         \
  {                                                                                                                    \
    HR_I32, sizeof((int[]){__VA_ARGS__}) / sizeof(int), {                                                              \
      __VA_ARGS__                                                                                                      \
    }                                                                                                                  \
  }
#define BYTES(n)                                                                                                       \
  {                                                                                                                    \
    HR_U8, 1, {                                                                                                        \
      n                                                                                                                \
    }                                                                                                                  \
  }
#define CONTROL BYTES(sizeof(hr_control))

static const hr_attention_args heads64 = {.heads = 8, .kv_heads = 2, .head_dim = 64, .scale = 0.125f};
static const hr_attention_args heads128 = {.heads = 2, .kv_heads = 1, .head_dim = 128, .scale = 0.088f};
static const hr_attention_args heads80 = {.heads = 3, .kv_heads = 3, .head_dim = 80, .scale = 0.1f};
static const hr_attention_args window32 = {.heads = 2, .kv_heads = 1, .head_dim = 32, .scale = 0.2f, .window = 100};
static const hr_attention_args window64 = {.heads = 2, .kv_heads = 1, .head_dim = 64, .scale = 0.125f, .window = 33};
static const hr_attention_args window128 = {.heads = 2, .kv_heads = 1, .head_dim = 128, .scale = 0.088f, .window = 64};
static const hr_attention_args both32 = {
    .heads = 2, .kv_heads = 1, .head_dim = 32, .scale = 0.2f, .bidirectional = true};
static const hr_attention_args later32 = {.heads = 4, .kv_heads = 4, .head_dim = 32, .scale = 0.2f};
/* Scores far apart: what weights are relative to is raised on the way, and rows of a window see their first key late.
 */
static const hr_attention_args steep32 = {.heads = 4, .kv_heads = 4, .head_dim = 32, .scale = 2, .bidirectional = true};
static const hr_attention_args steep64 = {.heads = 2, .kv_heads = 1, .head_dim = 64, .scale = 1.5f, .window = 50};
static const hr_attention_args both64 = {
    .heads = 4, .kv_heads = 4, .head_dim = 64, .scale = 0.125f, .bidirectional = true};
static const hr_attention_args both128 = {
    .heads = 2, .kv_heads = 1, .head_dim = 128, .scale = 0.088f, .bidirectional = true};
static const hr_attention_args window200 = {.heads = 1, .kv_heads = 1, .head_dim = 200, .scale = 0.07f, .window = 20};
static const hr_attention_args packed32 = {
    .heads = 2, .kv_heads = 1, .head_dim = 32, .scale = 0.2f, .window = 100, .documents = true};
static const hr_attention_args packed64 = {
    .heads = 8, .kv_heads = 2, .head_dim = 64, .scale = 0.125f, .documents = true};
static const hr_attention_args packed128 = {
    .heads = 2, .kv_heads = 1, .head_dim = 128, .scale = 0.088f, .documents = true};
static const hr_attention_args packed200 = {
    .heads = 1, .kv_heads = 1, .head_dim = 200, .scale = 0.07f, .documents = true};
/* One for every kernel that draws: both kinds of sight, each head size of the matrix instructions, and beyond them. */
static const hr_attention_args drops32 = {
    .heads = 4, .kv_heads = 4, .head_dim = 32, .scale = 0.2f, .bidirectional = true, .dropout = 0.1f};
static const hr_attention_args drops64 = {
    .heads = 8, .kv_heads = 2, .head_dim = 64, .scale = 0.125f, .dropout = 0.7f, .first = 5, .use = 2};
static const hr_attention_args drops128 = {
    .heads = 2, .kv_heads = 1, .head_dim = 128, .scale = 0.088f, .window = 64, .dropout = 0.5f};
static const hr_attention_args drops64_documents = {
    .heads = 4, .kv_heads = 2, .head_dim = 64, .scale = 0.125f, .documents = true, .dropout = 0.2f};
static const hr_attention_args drops200 = {
    .heads = 2, .kv_heads = 1, .head_dim = 200, .scale = 0.07f, .bidirectional = true, .dropout = 0.1f};
static const hr_attention_args drops100_documents = {
    .heads = 1, .kv_heads = 1, .head_dim = 100, .scale = 0.1f, .documents = true, .dropout = 0.3f};
static const hr_cache_args cache64 = {.heads = 32, .kv_heads = 8, .head_dim = 64, .scale = 0.125f};
static const hr_cache_args cache128 = {.heads = 7, .kv_heads = 1, .head_dim = 128, .scale = 0.088f, .window = 700};
static const hr_cache_args cache256 = {.heads = 2, .kv_heads = 2, .head_dim = 256, .scale = 0.0625f};
static const hr_cache_args cache24 = {.heads = 4, .kv_heads = 2, .head_dim = 24, .scale = 0.2f};
static const hr_topk_args first = {1};
static const hr_rope_args rope64 = {.head_dim = 64, .heads = 10},
                          rope64_back = {.head_dim = 64, .inverse = true, .heads = 10};
static const hr_gather_args of_samples = {1};
/* Heads of 64 with states of 128, of 96 in two groups, and wider than what tensor cores take whole. */
static const hr_ssd_args scan128 = {5, 64, 1, 128, 256, 8, 0.0f, INFINITY},
                         scan96 = {4, 64, 2, 96, 256, 0, 0.0f, INFINITY},
                         scan_wide = {1, 72, 1, 20, 64, 0, 0.0f, INFINITY};
static const hr_causal_conv_args behind = {100};
static const hr_scatter_args to_samples = {1, 300, HR_F32}, to_elements = {1, 64, HR_F32};
static const hr_topk_args ten = {10};
static const hr_rmsnorm_args eps = {.eps = 1e-5f}, raised = {.eps = 1e-5f, .raised = true};
static const hr_norm_bwd_args both = {.want_dx = true, .want_dw = true}, only_dx = {.want_dx = true},
                              both_raised = {.want_dx = true, .want_dw = true, .raised = true};
static const hr_head_loss_args auto_chunks = {0};
static const hr_head_loss_bwd_args head_both = {.want_dx = true, .want_dw = true},
                                   head_narrow = {64, true, true, HR_BF16, false, HR_F32}, head_dx = {.want_dx = true},
                                   head_biased = {128, true, true, HR_F32, true, HR_F32},
                                   head_bias_narrow = {128, true, false, HR_F32, true, HR_BF16};
static const hr_layernorm_args layer_eps = {1e-5f};
static const hr_norm_bwd_args layer_all = {.want_dx = true, .want_dw = true, .want_db = true},
                              layer_dx = {.want_dx = true};
static const hr_group_norm_args eighths = {8, 1e-5f, true};
static const hr_group_norm_bwd_args eighths_bwd = {{8, 1e-5f, true}, true, true, true, false},
                                    eighths_given = {{8, 1e-5f, true}, true, true, true, true};
static const hr_group_statistics_args eighths_first = {8, 0, 1e-5f}, eighths_behind = {8, 40000, 1e-5f};
static const hr_gelu_args by_erf = {false}, by_tanh = {true};
static const hr_add_rows_args positions = {.period = 130}, one_row = {.period = 1};
static const hr_add_rows_dw_args positions_dw = {.period = 130, .rows = 160, .dtype = HR_F32},
                                 one_row_dw = {.period = 1, .rows = 2, .dtype = HR_F32};
static const hr_linear_gradient_args wide = {HR_F32};
static const hr_embedding_args no_padding = {0};
static const hr_embedding_dw_args table = {.rows = 3000, .dtype = HR_F32},
                                  padded_table = {.rows = 3000, .dtype = HR_F32, .padded = 18};
static const hr_adamw_args adam = {.beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f, .lr_scale = 1};
static const hr_adamw8bit_args adam8 = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8f, .weight_decay = 0.1f, .lr_scale = 1};
static const hr_nf4_args nf4 = {{HR_F32, 2, {512, 1024}}};
static const hr_lora_up_args lora8 = {
    .scale = 2, .rank = 8, .groups = 3, .first = {0, 2048, 2560}, .rows = {2048, 512, 512}, .columns = 3072};
static const hr_lora_up_args lora8_one = {
    .scale = 2, .rank = 8, .groups = 1, .first = {0}, .rows = {2048}, .columns = 2048};
static const hr_lora_up_args lora16 = {
    .scale = 0.5f, .rank = 16, .groups = 2, .first = {0, 2560}, .rows = {2048, 512}, .columns = 3072};
static const hr_lora_up_args lora64 = {
    .scale = 1, .rank = 64, .groups = 1, .first = {0}, .rows = {1024}, .columns = 1024};
static const hr_dropout_args down10 = {.p = 0.1f, .first = 3}, down50 = {.p = 0.5f, .use = 1};
static const hr_lora_down_dw_args down10_f32 = {{.p = 0.1f, .first = 3}, HR_F32};
static const hr_lora_down_dw_args down50_bf16 = {{.p = 0.5f, .use = 1}, HR_BF16};
static const hr_lora_up_bwd_args lora8_bwd = {
    .up = {.scale = 2, .rank = 8, .groups = 3, .first = {0, 2048, 2560}, .rows = {2048, 512, 512}, .columns = 3072},
    .dtype = HR_F32};
static const hr_lora_up_bwd_args lora8_narrow_bwd = {
    .up = {.scale = 2, .rank = 8, .groups = 3, .first = {0, 384, 768}, .rows = {384, 384, 384}, .columns = 1152},
    .dtype = HR_F32};

/* Convolutions: {strides}, {padding}, {dilation}, groups. */
#define CONV_FIRST                                                                                                     \
  { {2}, {3}, {1}, 1 }
#define CONV_MIDDLE                                                                                                    \
  { {2}, {2}, {1}, 1 }
#define CONV_LAST                                                                                                      \
  { {4}, {0}, {1}, 1 }
#define CONV_LAST_GROUPED                                                                                              \
  { {1}, {0}, {1}, 3 }
#define CONV_DILATED                                                                                                   \
  { {1}, {4}, {4}, 1 }
#define CONV_LONG                                                                                                      \
  { {3}, {20}, {1}, 1 }
#define CONV_PLANE                                                                                                     \
  { {1, 1}, {1, 1}, {1, 1}, 4 }
#define CONV_POINTS                                                                                                    \
  { {2, 2}, {0, 0}, {1, 1}, 1 }
#define CONV_DEPTHWISE                                                                                                 \
  { {1, 2}, {1, 1}, {1, 1}, 96 }
#define CONV_MULTIPLIED                                                                                                \
  { {1, 1}, {2, 1}, {2, 1}, 24 }
#define CONV_VOLUME                                                                                                    \
  { {2, 1, 2}, {1, 1, 0}, {1, 1, 1}, 2 }
static const hr_conv_args conv_first = CONV_FIRST, conv_middle = CONV_MIDDLE, conv_last = CONV_LAST,
                          conv_last_grouped = CONV_LAST_GROUPED, conv_dilated = CONV_DILATED, conv_long = CONV_LONG,
                          conv_plane = CONV_PLANE, conv_points = CONV_POINTS, conv_depthwise = CONV_DEPTHWISE,
                          conv_multiplied = CONV_MULTIPLIED, conv_volume = CONV_VOLUME;
static const hr_conv_dx_args dx_first = {CONV_FIRST, {32}}, dx_middle = {CONV_MIDDLE, {16}}, dx_last = {CONV_LAST, {4}},
                             dx_last_grouped = {CONV_LAST_GROUPED, {5}}, dx_dilated = {CONV_DILATED, {200}},
                             dx_plane = {CONV_PLANE, {28, 28}}, dx_points = {CONV_POINTS, {20, 20}},
                             dx_depthwise = {CONV_DEPTHWISE, {14, 14}}, dx_multiplied = {CONV_MULTIPLIED, {14, 14}},
                             dx_volume = {CONV_VOLUME, {10, 12, 9}};
static const hr_conv_dw_args dw_first = {CONV_FIRST, {7}, HR_F32}, dw_middle = {CONV_MIDDLE, {5}, HR_F32},
                             dw_middle_narrow = {CONV_MIDDLE, {5}, HR_BF16}, dw_last = {CONV_LAST, {4}, HR_F32},
                             dw_last_grouped = {CONV_LAST_GROUPED, {5}, HR_F16},
                             dw_dilated = {CONV_DILATED, {3}, HR_F32}, dw_long = {CONV_LONG, {300}, HR_F32},
                             dw_plane = {CONV_PLANE, {3, 3}, HR_F32}, dw_points = {CONV_POINTS, {1, 1}, HR_F32},
                             dw_depthwise = {CONV_DEPTHWISE, {3, 3}, HR_BF16},
                             dw_multiplied = {CONV_MULTIPLIED, {3, 3}, HR_F32},
                             dw_volume = {CONV_VOLUME, {3, 3, 2}, HR_F32};
#define CONV_CUBE                                                                                                      \
  { .stride = {1, 1, 1}, .padding = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1 }
#define CONV_HALVE                                                                                                     \
  { .stride = {2, 2, 2}, .padding = {0, 1, 1}, .dilation = {1, 1, 1}, .groups = 1 }
#define CONV_STEM                                                                                                      \
  { .stride = {2, 2}, .padding = {3, 3}, .dilation = {1, 1}, .groups = 1 }
#define CONV_HALVED                                                                                                    \
  { .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1 }
#define CONV_SMALL                                                                                                     \
  { .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1 }
#define CONV_STRIP                                                                                                     \
  { .stride = {1, 1, 1}, .padding = {0, 2, 1}, .dilation = {1, 1, 1}, .groups = 1 }
#define CONV_SINGLE                                                                                                    \
  { .stride = {1, 1, 1}, .padding = {0, 0, 0}, .dilation = {1, 1, 1}, .groups = 1 }
static const hr_conv_args conv_cube = CONV_CUBE, conv_halve = CONV_HALVE, conv_stem = CONV_STEM,
                          conv_halved = CONV_HALVED, conv_single = CONV_SINGLE, conv_small = CONV_SMALL;
static const hr_conv_dx_args dx_cube = {CONV_CUBE, {5, 9, 37}}, dx_halve = {CONV_HALVE, {4, 9, 21}},
                             dx_stem = {CONV_STEM, {30, 30}}, dx_halved = {CONV_HALVED, {29, 28}},
                             dx_single = {CONV_SINGLE, {3, 12, 40}}, dx_small = {CONV_SMALL, {7, 7}};
static const hr_conv_dw_args dw_cube = {CONV_CUBE, {3, 3, 3}, HR_F32}, dw_halve = {CONV_HALVE, {2, 2, 2}, HR_F32},
                             dw_stem = {CONV_STEM, {7, 7}, HR_F32}, dw_halved = {CONV_HALVED, {3, 3}, HR_BF16},
                             dw_strip = {CONV_STRIP, {3, 3, 3}, HR_F32}, dw_single = {CONV_SINGLE, {1, 1, 1}, HR_F32};
static const hr_conv_db_args db_wide = {HR_F32}, db_narrow = {HR_BF16};

/* Sums of x times a mask along a middle axis; of rows and of runs with few results, which are cut into pieces. */
#define PLAIN_MAP                                                                                                      \
  {                                                                                                                    \
    {0, 1, 2, 3, 4, 5}, {                                                                                              \
      0                                                                                                                \
    }                                                                                                                  \
  }
static const hr_reduce_args masked_sum = {
    .program = {.rank = 3,
                .n_in = 2,
                .n_steps = 1,
                .n_out = 1,
                .map = {PLAIN_MAP, {{0, 1, -1, -1, -1, -1}, {0}}},
                .step = {{.formula = HR_FORMULA_mul, .round = -1, .from = {0, 1}}},
                .result = {{2, HR_SAME_TYPE}}},
    .reduction = HR_REDUCE_SUM,
    .axes = 2,
    .dtype = HR_SAME_TYPE};
#define REDUCE(kind, which, dimensions)                                                                                \
  {                                                                                                                    \
    .program = {.rank = dimensions, .n_in = 1, .n_out = 1, .map = {PLAIN_MAP}}, .reduction = HR_REDUCE_##kind,         \
    .axes = which, .dtype = HR_SAME_TYPE                                                                               \
  }
static const hr_reduce_args rows_sum = REDUCE(SUM, 2, 3), rows_largest = REDUCE(MAX, 2, 3),
                            run_mean = REDUCE(MEAN, 2, 2);

static const large_sample samples[] = {
    {"rmsnorm", {.n_in = 2, .in = {F(300, 2048), F(2048)}, .args = &eps}},
    {"rmsnorm", {.n_in = 2, .in = {F(40, 8192), F(8192)}, .args = &eps}},
    {"rmsnorm_bwd",
     {.n_in = 6, .in = {F(300, 2048), F(300, 2048), F(2048), F(300), F(300, 2048), F(2048)}, .args = &both}},
    {"rmsnorm_bwd", {.n_in = 6, .in = {F(300, 2048), F(300, 2048), F(2048), F(300), F(300, 2048)}, .args = &only_dx}},
    {"rmsnorm", {.n_in = 2, .in = {F(2, 101, 1024), F(128)}, .args = &eps}},
    {"rmsnorm_bwd",
     {.n_in = 6, .in = {F(5, 333, 256), F(5, 333, 256), F(64), F(6660), F(5, 333, 256), F(64)}, .args = &both}},
    {"rmsnorm_bwd", {.n_in = 6, .in = {F(2, 101, 1024), F(2, 101, 1024), F(128), F(1616)}, .args = &both}},
    {"rmsnorm_bwd", {.n_in = 6, .in = {F(2, 101, 1024), F(2, 101, 1024), F(128), F(1616)}, .args = &only_dx}},
    {"rmsnorm", {.n_in = 2, .in = {F(300, 1152), F(1152)}, .args = &raised}},
    {"rmsnorm", {.n_in = 2, .in = {F(2, 101, 1024), F(256)}, .args = &raised}},
    {"rmsnorm_bwd", {.n_in = 6, .in = {F(300, 1152), F(300, 1152), F(1152), F(300)}, .args = &both_raised}},
    {"rmsnorm_bwd", {.n_in = 6, .in = {F(2, 101, 1024), F(2, 101, 1024), F(256), F(808)}, .args = &both_raised}},
    {"layernorm", {.n_in = 3, .in = {F(300, 768), F(768), F(768)}, .args = &layer_eps}},
    {"layernorm", {.n_in = 3, .in = {F(40, 8192), F(8192), F(8192)}, .args = &layer_eps}},
    {"layernorm_bwd",
     {.n_in = 7, .in = {F(700, 768), F(700, 768), F(768), F(700, 2), F(700, 768), F(768), F(768)}, .args = &layer_all}},
    {"layernorm_bwd",
     {.n_in = 7, .in = {F(300, 2048), F(300, 2048), F(2048), F(300, 2), F(300, 2048)}, .args = &layer_dx}},
    {"group_norm", {.n_in = 4, .in = {F(1, 16, 4, 90, 160), F(16), F(16)}, .args = &eighths}},
    {"group_norm_bwd",
     {.n_in = 8, .in = {F(2, 16, 2, 90, 160), F(2, 16, 2, 90, 160), F(16), F(16), F(2, 8, 2)}, .args = &eighths_bwd}},
    {"group_norm", {.n_in = 4, .in = {F(1, 16, 4, 90, 160), F(16), F(16), F(1, 8, 2)}, .args = &eighths}},
    {"group_norm_bwd",
     {.n_in = 8, .in = {F(2, 16, 2, 90, 160), F(2, 16, 2, 90, 160), F(16), F(16), F(2, 8, 2)}, .args = &eighths_given}},
    {"group_statistics", {.n_in = 2, .in = {F(1, 16, 4, 90, 160)}, .args = &eighths_first}},
    {"group_statistics", {.n_in = 2, .in = {F(1, 16, 4, 90, 160), F(1, 8, 2)}, .args = &eighths_behind}},
    {"group_statistics_bwd",
     {.n_in = 6,
      .in = {F(2, 8, 2), F(2, 16, 2, 90, 160), F(2, 8, 2), F(2, 8, 2), F(2, 8, 2)},
      .args = &eighths_behind}},
    {"gelu", {.n_in = 1, .in = {F(64, 3072)}, .args = &by_erf}},
    {"gelu", {.n_in = 1, .in = {F(64, 3072)}, .args = &by_tanh}},
    {"gelu_bwd", {.n_in = 2, .in = {F(64, 3072), F(64, 3072)}, .args = &by_erf}},
    {"gelu_bwd", {.n_in = 2, .in = {F(64, 3072), F(64, 3072)}, .args = &by_tanh}},
    {"add_rows", {.n_in = 2, .in = {F(4, 130, 768), F(160, 768)}, .args = &positions}},
    {"add_rows", {.n_in = 2, .in = {F(4, 130, 768), F(2, 768)}, .args = &one_row}},
    {"add_rows_dw", {.n_in = 2, .in = {F(4, 130, 768), F(160, 768)}, .args = &positions_dw}},
    {"add_rows_dw", {.n_in = 2, .in = {F(4, 700, 768)}, .args = &one_row_dw}},
    {"swiglu", {.n_in = 2, .in = {F(64, 2048), F(64, 2048)}}},
    {"swiglu", {.n_in = 2, .in = {F(33, 16384)}}},
    {"swiglu_bwd", {.n_in = 3, .in = {F(33, 8192), F(33, 16384)}}},
    {"geglu", {.n_in = 2, .in = {F(64, 2048), F(64, 2048)}}},
    {"geglu", {.n_in = 2, .in = {F(33, 13824)}}},
    {"geglu_bwd", {.n_in = 3, .in = {F(33, 6912), F(33, 13824)}}},
    {"rope", {.n_in = 2, .in = {F(2, 100, 768), F(2, 100, 32)}, .args = &rope64}},
    {"rope", {.n_in = 2, .in = {F(2, 100, 768), F(2, 100, 32)}, .args = &rope64_back}},
    {"attention", {.n_in = 5, .in = {F(2, 200, 768)}, .args = &heads64}},
    {"cache_put",
     {.n_in = 6,
      .in = {F(2, 3000, 512), F(2, 3000, 512), F(2, 1, 3072), {0}, I(2), I(2)},
      .args = &cache64,
      .index_below = 2999}},
    {"cache_attention", /* one token each, keys in parts */
     {.n_in = 5,
      .in = {F(2, 1, 3072), F(2, 3000, 512), F(2, 3000, 512), I(2), I(2)},
      .args = &cache64,
      .index_below = 2999}},
    {"cache_attention",
     {.n_in = 5,
      .in = {F(3, 1, 896), F(3, 2000, 128), F(3, 2000, 128), I(3), I(3)},
      .args = &cache128,
      .index_below = 1999}},
    {"cache_attention", /* a prompt */
     {.n_in = 5,
      .in = {F(2, 100, 896), F(2, 1000, 128), F(2, 1000, 128), I(2), I(2)},
      .args = &cache128,
      .index_below = 800}},
    {"cache_attention",
     {.n_in = 5,
      .in = {F(1, 3, 512), F(1, 600, 512), F(1, 600, 512), I(1), I(1)},
      .args = &cache256,
      .index_below = 500}},
    {"cache_attention",
     {.n_in = 5, .in = {F(2, 30, 192), F(2, 100, 48), F(2, 100, 48), I(2), I(2)}, .args = &cache24, .index_below = 90}},
    {"linear", {.n_in = 4, .in = {F(1, 2048), F(3072, 2048)}}},
    {"linear", {.n_in = 4, .in = {F(2, 8192), F(2048, 8192), {0}, F(2, 2048)}}},
    {"linear", {.n_in = 4, .in = {F(4, 1000), F(515, 1000), F(515), F(4, 515)}}},
    {"topk", {.n_in = 1, .in = {F(2, 128256)}, .args = &first}},
    {"attention", {.n_in = 5, .in = {F(1, 257, 512), F(1, 257, 128), F(1, 257, 128)}, .args = &heads64}},
    {"attention", {.n_in = 5, .in = {F(2, 130, 512)}, .args = &heads128}},
    {"attention", {.n_in = 5, .in = {F(1, 100, 720)}, .args = &heads80}},
    {"attention_bwd",
     {.n_in = 8, .in = {F(2, 200, 512), F(2, 200, 768), {0}, {0}, F(2, 200, 512), F(2, 8, 200)}, .args = &heads64}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(1, 257, 512), F(1, 257, 512), F(1, 257, 128), F(1, 257, 128), F(1, 257, 512), F(1, 8, 257)},
      .args = &heads64}},
    {"attention_bwd",
     {.n_in = 8, .in = {F(2, 130, 256), F(2, 130, 512), {0}, {0}, F(2, 130, 256), F(2, 2, 130)}, .args = &heads128}},
    {"attention_bwd",
     {.n_in = 8, .in = {F(1, 100, 240), F(1, 100, 720), {0}, {0}, F(1, 100, 240), F(1, 3, 100)}, .args = &heads80}},
    {"attention", {.n_in = 5, .in = {F(2, 390, 128)}, .args = &window32}},
    {"attention", {.n_in = 5, .in = {F(1, 384, 256)}, .args = &window64}},
    {"attention", {.n_in = 5, .in = {F(4, 260, 256), {0}, {0}, I(4)}, .args = &window64, .index_below = 261}},
    {"attention", {.n_in = 5, .in = {F(3, 200, 512), {0}, {0}, I(3)}, .args = &window128, .index_below = 201}},
    {"attention", {.n_in = 5, .in = {F(4, 150, 600), {0}, {0}, I(4)}, .args = &window200, .index_below = 151}},
    {"attention", {.n_in = 5, .in = {F(4, 190, 768), {0}, {0}, I(4)}, .args = &heads64, .index_below = 191}},
    {"attention", {.n_in = 5, .in = {F(4, 150, 128), {0}, {0}, I(4)}, .args = &both32, .index_below = 151}},
    /* lengths: mixed; 0 and 1; all of them whole */
    {"attention", {.n_in = 5, .in = {F(4, 256, 384), {0}, {0}, I(4)}, .args = &later32, .index_below = 257}},
    {"attention", {.n_in = 5, .in = {F(2, 200, 384), {0}, {0}, I(2)}, .args = &steep32, .index_below = 201}},
    {"attention", {.n_in = 5, .in = {F(2, 200, 256)}, .args = &steep64}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(4, 256, 128), F(4, 256, 384), {0}, {0}, F(4, 256, 128), F(4, 4, 256), I(4)},
      .args = &later32,
      .index_below = 257}},
    {"attention", {.n_in = 5, .in = {F(8, 128, 128), {0}, {0}, I(8)}, .args = &both32, .index_below = 2}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(8, 128, 64), F(8, 128, 128), {0}, {0}, F(8, 128, 64), F(8, 2, 128), I(8)},
      .args = &both32,
      .index_below = 2}},
    {"attention", {.n_in = 5, .in = {F(4, 512, 128), {0}, {0}, I(4)}, .args = &both32, .index_below = 513}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(4, 512, 64), F(4, 512, 128), {0}, {0}, F(4, 512, 64), F(4, 2, 512), I(4)},
      .args = &both32,
      .index_below = 513}},
    {"attention", {.n_in = 5, .in = {F(3, 128, 768), {0}, {0}, I(3)}, .args = &both64, .index_below = 100000}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(3, 128, 256), F(3, 128, 768), {0}, {0}, F(3, 128, 256), F(3, 4, 128), I(3)},
      .args = &both64,
      .index_below = 100000}},
    {"attention", {.n_in = 5, .in = {F(4, 192, 512), {0}, {0}, I(4)}, .args = &heads128, .index_below = 193}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(4, 192, 256), F(4, 192, 512), {0}, {0}, F(4, 192, 256), F(4, 2, 192), I(4)},
      .args = &heads128,
      .index_below = 193}},
    {"attention", {.n_in = 5, .in = {F(4, 130, 512), {0}, {0}, I(4)}, .args = &both128, .index_below = 131}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(4, 130, 256), F(4, 130, 512), {0}, {0}, F(4, 130, 256), F(4, 2, 130), I(4)},
      .args = &both128,
      .index_below = 131}},
    {"attention", {.n_in = 5, .in = {F(2, 128, 768)}, .args = &both64}},
    {"attention",
     {.n_in = 5, .in = {F(5, 200, 256), F(5, 200, 256), F(5, 200, 256), I(5)}, .args = &both64, .index_below = 201}},
    {"attention", {.n_in = 5, .in = {F(2, 130, 512)}, .args = &both128}},
    {"attention_bwd",
     {.n_in = 8, .in = {F(2, 390, 64), F(2, 390, 128), {0}, {0}, F(2, 390, 64), F(2, 2, 390)}, .args = &window32}},
    {"attention_bwd",
     {.n_in = 8, .in = {F(1, 384, 128), F(1, 384, 256), {0}, {0}, F(1, 384, 128), F(1, 2, 384)}, .args = &window64}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(4, 260, 128), F(4, 260, 256), {0}, {0}, F(4, 260, 128), F(4, 2, 260), I(4)},
      .args = &window64,
      .index_below = 261}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(3, 200, 256), F(3, 200, 512), {0}, {0}, F(3, 200, 256), F(3, 2, 200), I(3)},
      .args = &window128,
      .index_below = 201}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(4, 150, 200), F(4, 150, 600), {0}, {0}, F(4, 150, 200), F(4, 1, 150), I(4)},
      .args = &window200,
      .index_below = 151}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(4, 190, 512), F(4, 190, 768), {0}, {0}, F(4, 190, 512), F(4, 8, 190), I(4)},
      .args = &heads64,
      .index_below = 191}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(4, 150, 64), F(4, 150, 128), {0}, {0}, F(4, 150, 64), F(4, 2, 150), I(4)},
      .args = &both32,
      .index_below = 151}},
    {"attention_bwd",
     {.n_in = 8, .in = {F(2, 128, 256), F(2, 128, 768), {0}, {0}, F(2, 128, 256), F(2, 4, 128)}, .args = &both64}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(5, 200, 256), F(5, 200, 256), F(5, 200, 256), F(5, 200, 256), F(5, 200, 256), F(5, 4, 200), I(5)},
      .args = &both64,
      .index_below = 201}},
    {"attention_bwd",
     {.n_in = 8, .in = {F(2, 130, 256), F(2, 130, 512), {0}, {0}, F(2, 130, 256), F(2, 2, 130)}, .args = &both128}},
    {"attention", {.n_in = 5, .in = {F(4, 150, 384), {0}, {0}, I(4), CONTROL}, .args = &drops32, .index_below = 151}},
    {"attention", {.n_in = 5, .in = {F(2, 300, 768), {0}, {0}, {0}, CONTROL}, .args = &drops64}},
    {"attention", {.n_in = 5, .in = {F(2, 260, 512), {0}, {0}, {0}, CONTROL}, .args = &drops128}},
    {"attention",
     {.n_in = 5,
      .in = {F(2, 300, 512), {0}, {0}, I(2, 300), CONTROL},
      .args = &drops64_documents,
      .index_below = 300,
      .index_ascends = true}},
    {"attention", {.n_in = 5, .in = {F(3, 150, 800), {0}, {0}, I(3), CONTROL}, .args = &drops200, .index_below = 151}},
    {"attention",
     {.n_in = 5,
      .in = {F(2, 150, 300), {0}, {0}, I(2, 150), CONTROL},
      .args = &drops100_documents,
      .index_below = 150,
      .index_ascends = true}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(4, 150, 128), F(4, 150, 384), {0}, {0}, F(4, 150, 128), F(4, 4, 150), I(4), CONTROL},
      .args = &drops32,
      .index_below = 151}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(2, 300, 512), F(2, 300, 768), {0}, {0}, F(2, 300, 512), F(2, 8, 300), {0}, CONTROL},
      .args = &drops64}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(2, 260, 256), F(2, 260, 512), {0}, {0}, F(2, 260, 256), F(2, 2, 260), {0}, CONTROL},
      .args = &drops128}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(2, 300, 256), F(2, 300, 512), {0}, {0}, F(2, 300, 256), F(2, 4, 300), I(2, 300), CONTROL},
      .args = &drops64_documents,
      .index_below = 300,
      .index_ascends = true}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(3, 150, 400), F(3, 150, 800), {0}, {0}, F(3, 150, 400), F(3, 2, 150), I(3), CONTROL},
      .args = &drops200,
      .index_below = 151}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(2, 150, 100), F(2, 150, 300), {0}, {0}, F(2, 150, 100), F(2, 1, 150), I(2, 150), CONTROL},
      .args = &drops100_documents,
      .index_below = 150,
      .index_ascends = true}},
    {"attention",
     {.n_in = 5,
      .in = {F(2, 390, 128), {0}, {0}, I(2, 390)},
      .args = &packed32,
      .index_below = 390,
      .index_ascends = true}},
    {"attention",
     {.n_in = 5,
      .in = {F(3, 520, 768), {0}, {0}, I(3, 520)},
      .args = &packed64,
      .index_below = 520,
      .index_ascends = true}},
    {"attention",
     {.n_in = 5,
      .in = {F(2, 300, 512), {0}, {0}, I(2, 300)},
      .args = &packed128,
      .index_below = 300,
      .index_ascends = true}},
    {"attention",
     {.n_in = 5,
      .in = {F(2, 150, 600), {0}, {0}, I(2, 150)},
      .args = &packed200,
      .index_below = 150,
      .index_ascends = true}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(2, 390, 64), F(2, 390, 128), {0}, {0}, F(2, 390, 64), F(2, 2, 390), I(2, 390)},
      .args = &packed32,
      .index_below = 390,
      .index_ascends = true}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(3, 520, 512), F(3, 520, 768), {0}, {0}, F(3, 520, 512), F(3, 8, 520), I(3, 520)},
      .args = &packed64,
      .index_below = 520,
      .index_ascends = true}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(2, 300, 256), F(2, 300, 512), {0}, {0}, F(2, 300, 256), F(2, 2, 300), I(2, 300)},
      .args = &packed128,
      .index_below = 300,
      .index_ascends = true}},
    {"attention_bwd",
     {.n_in = 8,
      .in = {F(2, 150, 200), F(2, 150, 600), {0}, {0}, F(2, 150, 200), F(2, 1, 150), I(2, 150)},
      .args = &packed200,
      .index_below = 150,
      .index_ascends = true}},
    {"head_loss",
     {.n_in = 5, .in = {F(300, 256), F(5000, 256), I(300), CONTROL}, .args = &auto_chunks, .index_below = 5000}},
    {"head_loss",
     {.n_in = 5,
      .in = {F(300, 256), F(5001, 256), I(300), CONTROL, F(5001)},
      .args = &auto_chunks,
      .index_below = 5001}},
    {"head_loss_bwd",
     {.n_in = 9, .in = {F(300, 256), F(5000, 256), I(300), CONTROL, F(1)}, .args = &head_both, .index_below = 5000}},
    {"head_loss_bwd",
     {.n_in = 9, .in = {F(300, 256), F(5001, 256), I(300), CONTROL, F(1)}, .args = &head_dx, .index_below = 5001}},
    {"head_loss_bwd",
     {.n_in = 9,
      .in = {F(300, 256), F(5000, 256), I(300), CONTROL, F(1), F(300, 256), {HR_BF16, 2, {5000, 256}}},
      .args = &head_narrow,
      .index_below = 5000}},
    {"head_loss_bwd",
     {.n_in = 9,
      .in = {F(300, 256), F(5000, 256), I(300), CONTROL, F(1), {0}, {0}, F(5000), F(5000)},
      .args = &head_biased,
      .index_below = 5000}},
    {"head_loss_bwd",
     {.n_in = 9,
      .in = {F(300, 256), F(5001, 256), I(300), CONTROL, F(1), {0}, {0}, F(5001)},
      .args = &head_bias_narrow,
      .index_below = 5001}},
    {"linear", {.n_in = 4, .in = {F(384, 512), F(768, 512), {0}, F(384, 768)}}},
    {"linear_dx", {.n_in = 3, .in = {F(384, 768), F(768, 512), F(384, 512)}}},
    {"linear_dw", {.n_in = 3, .in = {F(384, 768), F(384, 512), F(768, 512)}, .args = &wide}},
    {"linear_db", {.n_in = 2, .in = {F(2100, 768), F(768)}, .args = &wide}},
    {"embedding", {.n_in = 2, .in = {I(4, 128), F(3000, 1024)}, .args = &no_padding, .index_below = 3000}},
    {"embedding_dw", {.n_in = 3, .in = {I(4, 500), F(4, 500, 64)}, .args = &padded_table, .index_below = 40}},
    {"embedding_dw", {.n_in = 3, .in = {I(4, 128), F(4, 128, 256), F(3000, 256)}, .args = &table, .index_below = 3000}},
    {"embedding_dw", {.n_in = 3, .in = {I(4, 500), F(4, 500, 64)}, .args = &table, .index_below = 40}},
    {"conv_carry", /* one token each */
     {.n_in = 6,
      .in = {F(3, 1, 901), F(576, 1, 4), F(576), F(3, 3, 576), I(3), I(3)},
      .args = &behind,
      .index_below = 2}},
    {"conv_carry",
     {.n_in = 6,
      .in = {F(5, 33, 300), F(200, 1, 16), {0}, F(5, 15, 200), I(5), I(5)},
      .args = &behind,
      .index_below = 40}},
    {"ssd_carry",
     {.n_in = 8,
      .in = {F(3, 1, 576), F(3, 1, 13), F(5), F(5), F(5), F(3, 5, 8192), I(3), I(3)},
      .args = &scan128,
      .index_below = 2}},
    {"ssd_carry", /* a prompt */
     {.n_in = 8,
      .in = {F(4, 40, 576), F(4, 40, 13), F(5), F(5), F(5), F(4, 5, 8192), I(4), I(4)},
      .args = &scan128,
      .index_below = 50}},
    {"ssd", {.n_in = HR_SSD_OPERANDS, .in = {F(2, 600, 576), F(2, 600, 13), F(5), F(5), F(5)}, .args = &scan128}},
    {"ssd",
     {.n_in = HR_SSD_OPERANDS,
      .in = {F(2, 600, 576), F(2, 600, 13), F(5), F(5), F(5), I(2, 600)},
      .args = &scan128,
      .index_below = 600,
      .index_ascends = true}},
    {"ssd_bwd",
     {.n_in = HR_SSD_BWD_OPERANDS,
      .in = {F(2, 600, 320), F(2, 600, 576), F(2, 600, 13), F(5), F(5), F(5), {0}, F(2, 3, 40960), F(2, 600, 13)},
      .args = &scan128}},
    {"ssd_bwd",
     {.n_in = HR_SSD_BWD_OPERANDS,
      .in = {F(2, 600, 320), F(2, 600, 576), F(2, 600, 13), F(5), F(5), F(5), I(2, 600), F(2, 3, 40960), F(2, 600, 13)},
      .args = &scan128,
      .index_below = 600,
      .index_ascends = true}},
    {"ssd", {.n_in = HR_SSD_OPERANDS, .in = {F(1, 300, 640), F(1, 300, 4), F(4), F(4), F(4)}, .args = &scan96}},
    {"ssd",
     {.n_in = HR_SSD_OPERANDS,
      .in = {F(1, 300, 640), F(1, 300, 4), F(4), F(4), F(4), I(1, 300)},
      .args = &scan96,
      .index_below = 300,
      .index_ascends = true}},
    {"ssd_bwd",
     {.n_in = HR_SSD_BWD_OPERANDS,
      .in = {F(1, 300, 256), F(1, 300, 640), F(1, 300, 4), F(4), F(4), F(4), {0}, F(1, 2, 24576), F(1, 300, 4)},
      .args = &scan96}},
    {"ssd_bwd",
     {.n_in = HR_SSD_BWD_OPERANDS,
      .in = {F(1, 300, 256), F(1, 300, 640), F(1, 300, 4), F(4), F(4), F(4), I(1, 300), F(1, 2, 24576), F(1, 300, 4)},
      .args = &scan96,
      .index_below = 300,
      .index_ascends = true}},
    {"ssd", {.n_in = HR_SSD_OPERANDS, .in = {F(1, 150, 112), F(1, 150, 1), F(1), F(1), F(1)}, .args = &scan_wide}},
    {"ssd",
     {.n_in = HR_SSD_OPERANDS,
      .in = {F(1, 150, 112), F(1, 150, 1), F(1), F(1), F(1), I(1, 150)},
      .args = &scan_wide,
      .index_below = 150,
      .index_ascends = true}},
    {"ssd_bwd",
     {.n_in = HR_SSD_BWD_OPERANDS,
      .in = {F(1, 150, 72), F(1, 150, 112), F(1, 150, 1), F(1), F(1), F(1), {0}, F(1, 3, 1440), F(1, 150, 1)},
      .args = &scan_wide}},
    {"ssd_bwd",
     {.n_in = HR_SSD_BWD_OPERANDS,
      .in = {F(1, 150, 72), F(1, 150, 112), F(1, 150, 1), F(1), F(1), F(1), I(1, 150), F(1, 3, 1440), F(1, 150, 1)},
      .args = &scan_wide,
      .index_below = 150,
      .index_ascends = true}},
    {"gather", {.n_in = 3, .in = {I(4, 500), F(4, 300, 1024)}, .args = &of_samples, .index_below = 300}},
    {"scatter",
     {.n_in = 3, .in = {I(4, 500), F(4, 500, 1100), F(4, 300, 1100)}, .args = &to_samples, .index_below = 300}},
    {"scatter", {.n_in = 3, .in = {I(900, 8), F(900, 8)}, .args = &to_elements, .index_below = 64}},
    {"topk", {.n_in = 1, .in = {F(900, 4099)}, .args = &ten}},
    {"adamw", {.n_in = 6, .in = {F(517, 1024), F(517, 1024), F(517, 1024), F(517, 1024), CONTROL}, .args = &adam}},
    {"adamw8bit",
     {.n_in = 8,
      .in = {F(512, 1024), F(512, 1024), {HR_U8, 2, {512, 1024}}, {HR_U8, 2, {512, 1024}}, F(2048), F(2048), CONTROL},
      .args = &adam8}},
    {"nf4_unpack", {.n_in = 4, .in = {BYTES(512 * 512), BYTES(8192), F(32), F(1)}, .args = &nf4}},
    /* Widths that tensor cores take, one that they do not, rows in many blocks, columns that fill no block. */
    {"lora_down", {.n_in = 3, .in = {F(3, 70, 384), F(24, 384), CONTROL}, .args = &down10}},
    {"lora_down", {.n_in = 3, .in = {F(2, 33, 2048), F(64, 2048), CONTROL}, .args = &down50}},
    {"lora_down", {.n_in = 3, .in = {F(5, 3, 7, 96), F(16, 96), CONTROL}, .args = &down10}},
    {"lora_down", {.n_in = 3, .in = {F(2, 40, 256), F(192, 256), CONTROL}, .args = &down10}},
    {"lora_down", {.n_in = 3, .in = {F(2, 40, 72), F(8, 72), CONTROL}, .args = &down10}},
    {"lora_down_dx", {.n_in = 4, .in = {F(3, 70, 24), F(24, 384), CONTROL, F(3, 70, 384)}, .args = &down10}},
    {"lora_down_dx", {.n_in = 4, .in = {F(2, 33, 64), F(64, 2048), CONTROL}, .args = &down50}},
    {"lora_down_dx", {.n_in = 4, .in = {F(5, 3, 7, 16), F(16, 96), CONTROL, F(5, 3, 7, 96)}, .args = &down10}},
    {"lora_down_dx", {.n_in = 4, .in = {F(2, 40, 192), F(192, 256), CONTROL, F(2, 40, 256)}, .args = &down10}},
    {"lora_down_dw", {.n_in = 4, .in = {F(3, 700, 24), F(3, 700, 384), CONTROL, F(24, 384)}, .args = &down10_f32}},
    {"lora_down_dw", {.n_in = 4, .in = {F(2, 33, 64), F(2, 33, 2048), CONTROL}, .args = &down50_bf16}},
    {"lora_down_dw", {.n_in = 4, .in = {F(5, 3, 7, 16), F(5, 3, 7, 96), CONTROL}, .args = &down10_f32}},
    {"lora_down_dw", {.n_in = 4, .in = {F(2, 40, 192), F(2, 40, 256), CONTROL, F(192, 256)}, .args = &down10_f32}},
    {"lora_up", {.n_in = 3, .in = {F(160, 24), F(3072, 8), F(160, 3072)}, .args = &lora8}},
    {"lora_up", {.n_in = 3, .in = {F(130, 8), F(2048, 8)}, .args = &lora8_one}},
    {"lora_up", {.n_in = 3, .in = {F(130, 32), F(2560, 16), F(130, 3072)}, .args = &lora16}},
    {"lora_up", {.n_in = 3, .in = {F(130, 64), F(1024, 64), F(130, 1024)}, .args = &lora64}},
    {"reduce", {.n_in = 2, .in = {F(5, 512, 384), {HR_F32, 2, {5, 512}}}, .args = &masked_sum}},
    {"reduce", {.n_in = 2, .in = {F(3, 300, 72), {HR_F32, 2, {3, 300}}}, .args = &masked_sum}},
    {"reduce", {.n_in = 1, .in = {F(1, 50001, 8)}, .args = &rows_sum}},
    {"reduce", {.n_in = 1, .in = {F(2, 9001, 19)}, .args = &rows_sum}},
    {"reduce", {.n_in = 1, .in = {F(2, 9001, 64)}, .args = &rows_largest}},
    {"reduce", {.n_in = 1, .in = {F(3, 100003)}, .args = &run_mean}},
    {"conv", {.n_in = 4, .in = {F(700, 1, 32), F(128, 1, 7), F(128)}, .args = &conv_first}},
    {"conv", {.n_in = 4, .in = {F(300, 1, 33), F(45, 1, 7), {0}, F(300, 45, 17)}, .args = &conv_first}},
    {"conv", {.n_in = 4, .in = {F(200, 128, 16), F(128, 128, 5), F(128), F(200, 128, 8)}, .args = &conv_middle}},
    {"conv", {.n_in = 4, .in = {F(6001, 32, 16), F(16, 32, 5), F(16)}, .args = &conv_middle}}, /* blocks of rows */
    {"conv", {.n_in = 4, .in = {F(500, 128, 4), F(256, 128, 4), F(256), F(500, 256, 1)}, .args = &conv_last}},
    {"conv", {.n_in = 4, .in = {F(70, 12, 5), F(21, 4, 5), F(21), F(70, 21, 1)}, .args = &conv_last_grouped}},
    {"conv", {.n_in = 4, .in = {F(6, 64, 200), F(80, 64, 3), F(80)}, .args = &conv_dilated}},
    {"conv", {.n_in = 4, .in = {F(3, 1, 700), F(5, 1, 300), F(5)}, .args = &conv_long}},
    {"conv", {.n_in = 4, .in = {F(3, 64, 28, 28), F(96, 16, 3, 3), F(96), F(3, 96, 28, 28)}, .args = &conv_plane}},
    {"conv", {.n_in = 4, .in = {F(4, 65, 20, 20), F(48, 65, 1, 1)}, .args = &conv_points}},
    {"conv", {.n_in = 4, .in = {F(4, 96, 14, 14), F(96, 1, 3, 3), F(96)}, .args = &conv_depthwise}},
    {"conv", {.n_in = 4, .in = {F(4, 24, 14, 14), F(72, 1, 3, 3), F(72)}, .args = &conv_multiplied}},
    {"conv", {.n_in = 4, .in = {F(3, 8, 10, 12, 9), F(26, 4, 3, 3, 2), F(26)}, .args = &conv_volume}},
    {"conv",
     {.n_in = 4, .in = {F(2, 20, 5, 9, 37), F(40, 20, 3, 3, 3), F(40), F(2, 40, 5, 9, 37)}, .args = &conv_cube}},
    {"conv", {.n_in = 4, .in = {F(1, 35, 3, 10, 33), F(70, 35, 3, 3, 3), F(70)}, .args = &conv_cube}},
    {"conv", {.n_in = 4, .in = {F(2, 24, 4, 9, 21), F(24, 24, 2, 2, 2), F(24)}, .args = &conv_halve}},
    {"conv", {.n_in = 4, .in = {F(3, 3, 30, 30), F(64, 3, 7, 7), F(64)}, .args = &conv_stem}},
    {"conv", {.n_in = 4, .in = {F(2, 72, 29, 28), F(130, 72, 3, 3), F(130), F(2, 130, 15, 14)}, .args = &conv_halved}},
    {"conv", {.n_in = 4, .in = {F(2, 33, 3, 12, 40), F(1, 33, 1, 1, 1), F(1)}, .args = &conv_single}},
    {"conv", {.n_in = 4, .in = {F(7, 40, 7, 7), F(130, 40, 3, 3), F(130)}, .args = &conv_small}}, /* tiles of samples */
    {"conv", {.n_in = 4, .in = {F(5, 70, 7, 7), F(96, 70, 1, 1), F(96)}, .args = &conv_single}},
    {"conv_dx", {.n_in = 3, .in = {F(7, 130, 7, 7), F(130, 40, 3, 3)}, .args = &dx_small}},
    {"conv_dx", {.n_in = 3, .in = {F(2, 40, 5, 9, 37), F(40, 20, 3, 3, 3), F(2, 20, 5, 9, 37)}, .args = &dx_cube}},
    {"conv_dx", {.n_in = 3, .in = {F(2, 24, 2, 5, 11), F(24, 24, 2, 2, 2)}, .args = &dx_halve}},
    {"conv_dx", {.n_in = 3, .in = {F(3, 64, 15, 15), F(64, 3, 7, 7)}, .args = &dx_stem}},
    {"conv_dx", {.n_in = 3, .in = {F(2, 130, 15, 14), F(130, 72, 3, 3), F(2, 72, 29, 28)}, .args = &dx_halved}},
    {"conv_dx", {.n_in = 3, .in = {F(2, 1, 3, 12, 40), F(1, 33, 1, 1, 1)}, .args = &dx_single}},
    {"conv_dw", {.n_in = 3, .in = {F(2, 40, 5, 9, 37), F(2, 20, 5, 9, 37), F(40, 20, 3, 3, 3)}, .args = &dw_cube}},
    {"conv_dw", {.n_in = 3, .in = {F(2, 33, 3, 10, 37), F(2, 40, 3, 10, 37)}, .args = &dw_cube}}, /* lines: odd, */
    {"conv_dw", {.n_in = 3, .in = {F(1, 40, 4, 9, 50), F(1, 33, 4, 9, 50), F(40, 33, 3, 3, 3)}, .args = &dw_cube}},
    {"conv_dw", {.n_in = 3, .in = {F(1, 20, 2, 8, 35), F(1, 20, 4, 6, 35)}, .args = &dw_strip}}, /* of a strip */
    {"conv_dw", {.n_in = 3, .in = {F(2, 24, 2, 5, 11), F(2, 24, 4, 9, 21)}, .args = &dw_halve}},
    {"conv_dw", {.n_in = 3, .in = {F(3, 64, 15, 15), F(3, 3, 30, 30), F(64, 3, 7, 7)}, .args = &dw_stem}},
    {"conv_dw", {.n_in = 3, .in = {F(2, 130, 15, 14), F(2, 72, 29, 28)}, .args = &dw_halved}},
    {"conv_dw", {.n_in = 3, .in = {F(2, 1, 3, 12, 40), F(2, 33, 3, 12, 40), F(1, 33, 1, 1, 1)}, .args = &dw_single}},
    {"conv_dw", {.n_in = 3, .in = {F(2, 3, 5, 96, 104), F(2, 5, 5, 96, 104)}, .args = &dw_single}}, /* parts */
    {"conv_dx", {.n_in = 3, .in = {F(200, 64, 16), F(64, 1, 7), F(200, 1, 32)}, .args = &dx_first}},
    {"conv_dx", {.n_in = 3, .in = {F(200, 128, 8), F(128, 128, 5), F(200, 128, 16)}, .args = &dx_middle}},
    {"conv_dx", {.n_in = 3, .in = {F(14001, 16, 8), F(16, 32, 5)}, .args = &dx_middle}}, /* blocks of rows */
    {"conv_dx", {.n_in = 3, .in = {F(500, 256, 1), F(256, 128, 4), F(500, 128, 4)}, .args = &dx_last}},
    {"conv_dx", {.n_in = 3, .in = {F(70, 21, 1), F(21, 4, 5), F(70, 12, 5)}, .args = &dx_last_grouped}},
    {"conv_dx", {.n_in = 3, .in = {F(6, 80, 200), F(80, 64, 3)}, .args = &dx_dilated}},
    {"conv_dx", {.n_in = 3, .in = {F(3, 96, 28, 28), F(96, 16, 3, 3), F(3, 64, 28, 28)}, .args = &dx_plane}},
    {"conv_dx", {.n_in = 3, .in = {F(4, 48, 10, 10), F(48, 65, 1, 1), F(4, 65, 20, 20)}, .args = &dx_points}},
    {"conv_dx", {.n_in = 3, .in = {F(4, 96, 14, 7), F(96, 1, 3, 3)}, .args = &dx_depthwise}},
    {"conv_dx", {.n_in = 3, .in = {F(4, 72, 14, 14), F(72, 1, 3, 3), F(4, 24, 14, 14)}, .args = &dx_multiplied}},
    {"conv_dx", {.n_in = 3, .in = {F(3, 26, 5, 12, 4), F(26, 4, 3, 3, 2)}, .args = &dx_volume}},
    {"conv_dw", {.n_in = 3, .in = {F(700, 128, 16), F(700, 1, 32), F(128, 1, 7)}, .args = &dw_first}},
    {"conv_dw", {.n_in = 3, .in = {F(300, 45, 17), F(300, 1, 33)}, .args = &dw_first}},
    {"conv_dw", {.n_in = 3, .in = {F(200, 128, 8), F(200, 128, 16), F(128, 128, 5)}, .args = &dw_middle}},
    {"conv_dw", {.n_in = 3, .in = {F(6001, 16, 8), F(6001, 32, 16), F(16, 32, 5)}, .args = &dw_middle}},
    {"conv_dw",
     {.n_in = 3, .in = {F(6001, 16, 8), F(6001, 32, 16), {HR_BF16, 3, {16, 32, 5}}}, .args = &dw_middle_narrow}},
    {"conv_dw", {.n_in = 3, .in = {F(500, 256, 1), F(500, 128, 4), F(256, 128, 4)}, .args = &dw_last}},
    {"conv_dw", {.n_in = 3, .in = {F(70, 21, 1), F(70, 12, 5)}, .args = &dw_last_grouped}},
    {"conv_dw", {.n_in = 3, .in = {F(6, 80, 200), F(6, 64, 200)}, .args = &dw_dilated}},
    {"conv_dw", {.n_in = 3, .in = {F(3, 5, 147), F(3, 1, 700)}, .args = &dw_long}},
    {"conv_dw", {.n_in = 3, .in = {F(3, 96, 28, 28), F(3, 64, 28, 28), F(96, 16, 3, 3)}, .args = &dw_plane}},
    {"conv_dw", {.n_in = 3, .in = {F(4, 48, 10, 10), F(4, 65, 20, 20)}, .args = &dw_points}},
    {"conv_dw", {.n_in = 3, .in = {F(4, 96, 14, 7), F(4, 96, 14, 14)}, .args = &dw_depthwise}},
    {"conv_dw", {.n_in = 3, .in = {F(4, 72, 14, 14), F(4, 24, 14, 14), F(72, 1, 3, 3)}, .args = &dw_multiplied}},
    {"conv_dw", {.n_in = 3, .in = {F(3, 26, 5, 12, 4), F(3, 8, 10, 12, 9)}, .args = &dw_volume}},
    {"conv_db", {.n_in = 2, .in = {F(700, 128, 16), F(128)}, .args = &db_wide}},
    {"conv_db", {.n_in = 2, .in = {F(500, 300, 1)}, .args = &db_narrow}},
    {"conv_db", {.n_in = 2, .in = {F(3, 7, 45, 67)}, .args = &db_wide}},
    {"conv_db", {.n_in = 2, .in = {F(20, 9, 24, 16)}, .args = &db_wide}},
    {"conv_db", {.n_in = 2, .in = {F(2, 3, 131, 1001), F(3)}, .args = &db_wide}}, /* pieces of channels */
    {"conv_db", {.n_in = 2, .in = {F(1, 5, 16, 16, 1000)}, .args = &db_wide}},
    {"lora_up_bwd", {.n_in = 4, .in = {F(530, 3072), F(530, 24), F(3072, 8), F(3072, 8)}, .args = &lora8_bwd}},
    {"lora_up_bwd", {.n_in = 4, .in = {F(530, 1152), F(530, 24), F(1152, 8)}, .args = &lora8_narrow_bwd}},
};

const large_sample *large_samples(size_t *count) {
  *count = sizeof samples / sizeof *samples;
  return samples;
}
