/* See bench.h. Every case gets fresh buffers with harmless numbers, one call to warm up, then calls until there are
 * enough of them or enough time has gone by. */
#include "run/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/checked.h"
#include "op/adamw.h"
#include "op/add.h"
#include "op/attention.h"
#include "op/embedding.h"
#include "op/head_loss.h"
#include "op/rmsnorm.h"
#include "op/rope.h"
#include "op/swiglu.h"

enum { CALLS_MOST = 15, CALLS_LEAST = 3, LINE = 64 };
static const double enough_seconds = 0.02;

/* Shapes of a small transformer: 2 x 512 rows of width 512. */
enum { B = 2, T = 512, H = 512, HEADS = 8, WIDTH = 1408, VOCABULARY = 8192 };
#define F HR_F32
#define ROWS_H                                                                                                         \
  {                                                                                                                    \
    F, 3, {                                                                                                            \
      B, T, H                                                                                                          \
    }                                                                                                                  \
  }
#define ROWS_W                                                                                                         \
  {                                                                                                                    \
    F, 3, {                                                                                                            \
      B, T, WIDTH                                                                                                      \
    }                                                                                                                  \
  }
#define CONTROL                                                                                                        \
  {                                                                                                                    \
    HR_U8, 1, {                                                                                                        \
      sizeof(hr_control)                                                                                               \
    }                                                                                                                  \
  }

static const hr_add_args add_args = {.alpha = 1};
static const hr_rmsnorm_args rmsnorm_args = {.eps = 1e-5f};
static const hr_rope_args rope_args = {.head_dim = H / HEADS};
static const hr_adamw_args adamw_args = {.beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f};
static const hr_attention_args attention_args = {
    .heads = HEADS, .kv_heads = HEADS / 2, .head_dim = H / HEADS, .scale = 0.125f};
static const hr_embedding_dw_args embedding_dw_args = {.rows = VOCABULARY};
static const hr_head_loss_bwd_args head_args = {.want_dx = true, .want_dw = true};

static const hr_bench_case cases[] = {
    {&hr_op_add, HR_CLASS_STREAM, 2, {ROWS_H, ROWS_H}, &add_args, 1},
    {&hr_op_rmsnorm, HR_CLASS_STREAM, 2, {ROWS_H, {F, 1, {H}}}, &rmsnorm_args, 1},
    {&hr_op_rmsnorm_bwd,
     HR_CLASS_STREAM,
     6,
     {ROWS_H, ROWS_H, {F, 1, {H}}, {F, 1, {B * T}}, {0}, {0}},
     &rmsnorm_args,
     1},
    {&hr_op_swiglu, HR_CLASS_STREAM, 2, {ROWS_W, ROWS_W}, NULL, 1},
    {&hr_op_swiglu_bwd, HR_CLASS_STREAM, 3, {ROWS_W, ROWS_W, ROWS_W}, NULL, 1},
    {&hr_op_rope, HR_CLASS_STREAM, 2, {ROWS_H, {F, 3, {2, T, H / HEADS / 2}}}, &rope_args, 1},
    {&hr_op_adamw,
     HR_CLASS_STREAM,
     6,
     {{F, 2, {WIDTH, H}}, {F, 2, {WIDTH, H}}, {F, 2, {WIDTH, H}}, {F, 2, {WIDTH, H}}, CONTROL, {0}},
     &adamw_args,
     1},
    {&hr_op_embedding, HR_CLASS_GATHER, 2, {{HR_I32, 2, {B, T}}, {F, 2, {VOCABULARY, H}}}, NULL, VOCABULARY},
    {&hr_op_embedding_dw, HR_CLASS_GATHER, 3, {{HR_I32, 2, {B, T}}, ROWS_H, {0}}, &embedding_dw_args, VOCABULARY},
    {&hr_op_attention,
     HR_CLASS_ATTENTION,
     3,
     {ROWS_H, {F, 3, {B, T, H / 2}}, {F, 3, {B, T, H / 2}}},
     &attention_args,
     1},
    {&hr_op_attention_bwd,
     HR_CLASS_ATTENTION,
     6,
     {ROWS_H, ROWS_H, {F, 3, {B, T, H / 2}}, {F, 3, {B, T, H / 2}}, ROWS_H, {F, 3, {B, HEADS, T}}},
     &attention_args,
     1},
    {&hr_op_head_loss_bwd,
     HR_CLASS_PRODUCT,
     7,
     {ROWS_H, {F, 2, {VOCABULARY, H}}, {HR_I32, 2, {B, T}}, CONTROL, {F, 1, {1}}, {0}, {0}},
     &head_args,
     VOCABULARY},
};

static const hr_bench_case empty_case = {
    &hr_op_rmsnorm, HR_CLASS_STREAM, 2, {{F, 2, {4, 16}}, {F, 1, {16}}}, &rmsnorm_args, 1};

const hr_bench_case *hr__bench_cases(size_t *count) {
  *count = sizeof cases / sizeof cases[0];
  return cases;
}

const hr_bench_case *hr__bench_empty(void) {
  return &empty_case;
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

typedef hr_status (*call_fn)(void *arg);

static hr_status calls_time(call_fn call, void *arg, double *seconds) {
  double times[CALLS_MOST];
  HR_TRY(call(arg));
  int count = 0;
  double begin = seconds_now();
  while (count < CALLS_MOST && (count < CALLS_LEAST || seconds_now() - begin < enough_seconds)) {
    double at = seconds_now();
    HR_TRY(call(arg));
    times[count++] = seconds_now() - at;
  }
  qsort(times, (size_t)count, sizeof times[0], ascending);
  *seconds = times[count / 2];
  return HR_OK;
}

typedef struct dispatch {
  hr_device *device;
  int threads;
} dispatch;

static void task_nothing(void *arg, int64_t task, int worker) {
  (void)arg, (void)task, (void)worker;
}

static hr_status dispatch_call(void *arg) {
  const dispatch *d = arg;
  hr__pool_run(d->device->pool, d->threads, d->threads, task_nothing, NULL);
  return HR_OK;
}

double hr__bench_dispatch(hr_device *device, int threads) {
  dispatch d = {device, threads};
  double seconds = 0;
  (void)calls_time(dispatch_call, &d, &seconds); /* an empty task cannot fail */
  return seconds;
}

/* --- buffers: one mapping, handed out in lines -------------------------------------------------------------------- */

typedef struct block {
  char *base;
  size_t used, bytes;
} block;

static hr_status block_create(block *b, size_t bytes, hr_error *err) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return hr__nomem(err);
  *b = (block){memory, 0, bytes};
  return HR_OK;
}

static void *block_take(block *b, size_t bytes) {
  void *taken = b->base + b->used;
  b->used += (bytes + LINE - 1) / LINE * LINE;
  return taken;
}

static void operand_fill(void *data, const hr_desc *desc, int64_t index_below) {
  int64_t count = hr_desc_count(desc);
  for (int64_t i = 0; i < count; i++) {
    float value = (float)((i * 37) % 101 - 50) * 0.01f;
    if (desc->dtype == HR_F32) ((float *)data)[i] = value;
    if (desc->dtype == HR_BF16) ((uint16_t *)data)[i] = hr__f32_to_bf16(value);
    if (desc->dtype == HR_I32) ((int32_t *)data)[i] = (int32_t)((i * 7919) % index_below);
  }
  if (desc->dtype == HR_U8 && desc->dim[0] == (int64_t)sizeof(hr_control)) {
    hr_control control = {.step = 1,
                          .learning_rate = 1e-6f,
                          .bias_correction1 = 0.1f,
                          .bias_correction2 = 0.001f,
                          .loss_weight = 1e-3f,
                          .loss_scale = 1};
    memcpy(data, &control, sizeof control);
  }
}

/* --- ops ------------------------------------------------------------------------------------------------------------
 */

static hr_status op_call(void *arg) {
  const hr_launch *launch = arg;
  return launch->kernel->run(&launch->call);
}

/* Which input an output is written over, or -1. */
static int output_alias(const hr_op *op, int out) {
  for (int a = 0; a < op->n_alias; a++)
    if (op->alias[a].out == out && op->alias[a].kind == HR_ALIAS_MUST) return op->alias[a].in;
  return -1;
}

static void tensor_set(hr_tensor *tensor, void *data, const hr_desc *desc) {
  *tensor = (hr_tensor){.data = data, .desc = *desc};
  int64_t step = 1;
  for (int d = desc->rank - 1; d >= 0; d--) {
    tensor->stride[d] = step;
    step *= desc->dim[d];
  }
}

static hr_status op_run(hr_device *device, const hr_bench_case *what, const hr_op_view *view, int threads,
                        block *memory, size_t workspace, double *seconds, hr_error *err) {
  hr_tensor in[HR_OP_OPERANDS] = {0}, out[HR_OP_OPERANDS] = {0};
  for (int i = 0; i < what->n_in; i++) {
    if (what->in[i].rank == 0) continue;
    tensor_set(&in[i], block_take(memory, hr_desc_bytes(&what->in[i])), &what->in[i]);
    operand_fill(in[i].data, &what->in[i], what->index_below);
  }
  for (int j = 0; j < view->n_out; j++) {
    int alias = output_alias(what->op, j);
    tensor_set(&out[j], alias >= 0 ? in[alias].data : block_take(memory, hr_desc_bytes(&view->out[j])), &view->out[j]);
  }
  hr_launch launch = {.kernel = &what->op->cpu,
                      .call = {.in = in,
                               .out = out,
                               .n_in = what->n_in,
                               .n_out = view->n_out,
                               .args = what->args,
                               .workspace = workspace ? block_take(memory, workspace) : NULL,
                               .workspace_bytes = workspace,
                               .threads = threads,
                               .device = device}};
  if (launch.kernel->prepare) HR_TRY(launch.kernel->prepare(&launch.call, &launch.call.prepared, err));
  hr_status status = calls_time(op_call, &launch, seconds);
  if (launch.kernel->release && launch.call.prepared) launch.kernel->release(launch.call.prepared);
  return status == HR_OK ? HR_OK : hr__fail(err, status, what->op->name, NULL, "the kernel failed while it was timed");
}

hr_status hr__bench_op(hr_device *device, const hr_bench_case *what, int threads, double *seconds, hr_cost *cost,
                       hr_error *err) {
  hr_desc out[HR_OP_OPERANDS] = {0};
  hr_op_view view = {.in = what->in, .out = out, .n_in = what->n_in, .n_out = what->op->n_out, .args = what->args};
  HR_TRY(what->op->shape(&view, out, err));
  *cost = (hr_cost){0};
  what->op->cost(&view, cost);
  size_t workspace = what->op->workspace ? what->op->workspace(&view, HR_CPU, threads) : 0;
  size_t bytes = workspace + LINE * (2 * HR_OP_OPERANDS + 2);
  for (int i = 0; i < what->n_in; i++)
    bytes += what->in[i].rank ? hr_desc_bytes(&what->in[i]) : 0;
  for (int j = 0; j < view.n_out; j++)
    bytes += hr_desc_bytes(&out[j]);
  block memory = {0};
  HR_TRY(block_create(&memory, bytes, err));
  hr_status status = op_run(device, what, &view, threads, &memory, workspace, seconds, err);
  munmap(memory.base, memory.bytes);
  return status;
}

/* --- products
 * --------------------------------------------------------------------------------------------------------- */

typedef struct product_run {
  hr_gemm *gemm;
  hr_device *device;
  int threads;
  const void *a, *b;
  void *c, *workspace;
} product_run;

static hr_status product_call(void *arg) {
  const product_run *run = arg;
  return hr__gemm_run(run->gemm, run->device->pool, run->threads, run->a, run->b, run->c, run->workspace);
}

static hr_status product_timed(hr_device *device, const hr_gemm_spec *spec, int threads, block *memory,
                               const hr_desc matrices[3], size_t workspace, double *seconds, hr_error *err) {
  product_run run = {.device = device, .threads = threads};
  void *operands[3];
  for (int i = 0; i < 3; i++) {
    operands[i] = block_take(memory, hr_desc_bytes(&matrices[i]));
    if (i < 2) operand_fill(operands[i], &matrices[i], 1);
  }
  run.a = operands[0];
  run.b = operands[1];
  run.c = operands[2];
  run.workspace = block_take(memory, workspace);
  HR_TRY(hr__gemm_create(spec, threads, &run.gemm, err));
  hr_status status = calls_time(product_call, &run, seconds);
  hr__gemm_destroy(run.gemm);
  return status == HR_OK ? HR_OK
                         : hr__fail(err, status, "matrix product", NULL, "the library failed while it was timed");
}

hr_status hr__bench_product(hr_device *device, const hr_gemm_spec *spec, int threads, double *seconds, hr_error *err) {
  hr_desc matrices[3] = {
      {spec->a, 2, {spec->m, spec->k}}, {spec->b, 2, {spec->k, spec->n}}, {spec->c, 2, {spec->m, spec->n}}};
  size_t workspace = hr__gemm_workspace(spec, threads), bytes;
  if (!hr__add_size(workspace, LINE * 8, &bytes)) return hr__nomem(err);
  for (int i = 0; i < 3; i++)
    if (!hr__add_size(bytes, hr_desc_bytes(&matrices[i]), &bytes)) return hr__nomem(err);
  block memory = {0};
  HR_TRY(block_create(&memory, bytes, err));
  hr_status status = product_timed(device, spec, threads, &memory, matrices, workspace, seconds, err);
  munmap(memory.base, memory.bytes);
  return status;
}
