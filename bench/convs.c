/* Convolutions of a tokenizer of signals against the bare products that are in them, and a sum along a middle axis
 * against a copy.
 *
 *     bench_convs cuda volumes          the levels of a U-Net over videos, in bf16, of zeros
 *     bench_convs [cuda] [SAMPLES]      one line for each layer and op: microseconds, and times those of the product
 *
 * Layers of backbones of images follow, with their rates (on the CPU with 4 images, on a GPU with 64).
 *
 * "product" is linear with as many rows as there are windows: what a convolution would take if nothing had to be
 * unfolded or put into another order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dev/device.h"
#include "op/conv.h"
#include "op/copy.h"
#include "op/linear.h"
#include "op/pointwise.h"
#include "pass/pass.h"
#include "run/run.h"

/* TIMES: nodes of one program, so that its start hardly counts; DRAWN_MOST: elements of larger operands are 0. */
enum { REPEATS = 15, TIMES = 8, DRAWN_MOST = 1 << 26 };

static hr_device *device;

static void must(hr_status status, const hr_error *err) {
  if (status == HR_OK) return;
  fprintf(stderr, "error: %s: %s\n", err->place, err->message);
  exit(1);
}

/* On the CPU seconds that all its threads have worked: others on the machine do not count. */
static double now(void) {
  struct timespec t;
  clock_gettime(device->facts.kind == HR_CPU ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One op on operands of these shapes; rank 0: there is none. */
typedef struct task {
  const hr_op *op;
  hr_desc in[4];
  int n_in;
  const void *args;
} task;

static double graph_seconds(const hr_graph *g) {
  hr_error err = {0};
  hr_rates rates;
  hr_plan *plan;
  hr_run *run;
  hr__rates_default(&device->facts, &rates);
  must(hr__plan_build(g, &device->facts, &rates, &(hr_plan_options){.accumulation = 1}, &plan, &err), &err);
  must(hr__run_create(plan, device, &(hr_run_options){0}, &run, &err), &err);
  must(hr__run_init_values(run, 7, &err), &err);
  double best = 1e9;
  for (int i = 0; i < REPEATS; i++) {
    double begin = now();
    must(hr__run_program(run, 0, &err), &err);
    must(device->functions->synchronize(device, &err), &err);
    double seconds = now() - begin;
    if (seconds < best) best = seconds;
  }
  hr__run_destroy(run);
  hr__plan_destroy(plan);
  hr__rates_fini(&rates);
  return best / TIMES;
}

static void graph_begin(hr_graph **g, hr_builder *b, hr_dtype dtype) {
  hr_error err = {0};
  must(hr__graph_create(g, &err), &err);
  hr__builder_init(b, *g, dtype);
  hr__program_begin(b, HR_PROGRAM_STEP);
}

static double task_seconds(const task *t) {
  hr_error err = {0};
  hr_graph *g;
  hr_builder b;
  hr_id in[4];
  graph_begin(&g, &b, t->in[0].dtype);
  for (int i = 0; i < t->n_in; i++) {
    char name[8];
    snprintf(name, sizeof name, "in%d", i);
    bool drawn = hr_desc_count(&t->in[i]) < DRAWN_MOST;
    hr_init init = {.rule = drawn ? HR_INIT_NORMAL : HR_INIT_ZERO, .a = 0.1f};
    in[i] = t->in[i].rank ? hr__parameter(&b, name, t->in[i], init) : HR_NONE;
  }
  for (int i = 0; i < TIMES; i++) {
    char name[8];
    snprintf(name, sizeof name, "out%d", i);
    hr__program_set_output(&b, name, hr__emit(&b, t->op, in, t->n_in, t->args));
  }
  must(hr__builder_status(&b, &err), &err);
  double seconds = graph_seconds(g);
  hr__graph_destroy(g);
  return seconds;
}

typedef struct layer {
  const char *name;
  int64_t in, out, size, kernel;
  hr_conv_args args;
} layer;

static const layer layers[] = {
    {"1 -> 128, kernel 7, stride 2, of 32", 1, 128, 32, 7, {{2}, {3}, {1}, 1}},
    {"128 -> 128, kernel 5, stride 2, of 16", 128, 128, 16, 5, {{2}, {2}, {1}, 1}},
    {"128 -> 128, kernel 5, stride 2, of 8", 128, 128, 8, 5, {{2}, {2}, {1}, 1}},
    {"128 -> 256, kernel 4, stride 4, of 4", 128, 256, 4, 4, {{4}, {0}, {1}, 1}},
};

static void compare(const layer *l, const char *what, const task *conv, const task *product) {
  double seconds = task_seconds(conv), bare = task_seconds(product);
  printf("%-4s %-38s %-8s %9.1f us, %5.2f times the product\n", hr_dtype_name(conv->in[0].dtype), l->name, what,
         1e6 * seconds, seconds / bare);
  fflush(stdout);
}

static void layer_run(const layer *l, int64_t samples, hr_dtype dtype) {
  int64_t windows = (l->size + 2 * l->args.padding[0] - l->kernel) / l->args.stride[0] + 1;
  int64_t rows = samples * windows, inner = l->in * l->kernel;
  hr_desc x = {dtype, 3, {samples, l->in, l->size}}, w = {dtype, 3, {l->out, l->in, l->kernel}};
  hr_desc y = {dtype, 3, {samples, l->out, windows}}, bias = {dtype, 1, {l->out}};
  hr_desc flat_x = hr__desc2(dtype, rows, inner), flat_w = hr__desc2(dtype, l->out, inner),
          flat_y = hr__desc2(dtype, rows, l->out);
  hr_conv_dx_args dx = {l->args, {l->size}};
  hr_conv_dw_args dw = {l->args, {l->kernel}, HR_F32};
  hr_linear_gradient_args wide = {HR_F32};
  compare(l, "forward", &(task){&hr_op_conv, {x, w, bias}, 4, &l->args},
          &(task){&hr_op_linear, {flat_x, flat_w, bias}, 4, NULL});
  if (l->in > 1)
    compare(l, "dx", &(task){&hr_op_conv_dx, {y, w}, 3, &dx}, &(task){&hr_op_linear_dx, {flat_y, flat_w}, 3, NULL});
  compare(l, "dW", &(task){&hr_op_conv_dw, {y, x}, 3, &dw}, &(task){&hr_op_linear_dw, {flat_y, flat_x}, 3, &wide});
  compare(l, "db", &(task){&hr_op_conv_db, {y}, 2, &(hr_conv_db_args){HR_F32}},
          &(task){&hr_op_linear_db, {flat_y}, 2, &wide});
}

/* Layers of backbones of images, along two axes: [samples, in, size, size], padding half of the kernel. */
typedef struct image_layer {
  const char *name;
  int64_t in, out, size, kernel, stride, groups;
} image_layer;

static const image_layer image_layers[] = {
    {"3 -> 64, kernel 7, stride 2, of 224", 3, 64, 224, 7, 2, 1},
    {"64 -> 64, kernel 1, of 56", 64, 64, 56, 1, 1, 1},
    {"64 -> 64, kernel 3, of 56", 64, 64, 56, 3, 1, 1},
    {"128 -> 128, kernel 3, stride 2, of 56", 128, 128, 56, 3, 2, 1},
    {"1024 -> 256, kernel 1, of 14", 1024, 256, 14, 1, 1, 1},
    {"512 -> 512, kernel 3, of 7", 512, 512, 7, 3, 1, 1},
    {"96, each by itself, kernel 3, stride 2, of 112", 96, 96, 112, 3, 2, 96},
    {"480, each by itself, kernel 5, of 14", 480, 480, 14, 5, 1, 480},
};

static void image_run(const image_layer *l, int64_t samples, hr_dtype dtype) {
  int64_t windows = (l->size + l->kernel / 2 * 2 - l->kernel) / l->stride + 1, padding = l->kernel / 2;
  hr_conv_args args = {{l->stride, l->stride}, {padding, padding}, {1, 1}, l->groups};
  hr_desc x = {dtype, 4, {samples, l->in, l->size, l->size}}, y = {dtype, 4, {samples, l->out, windows, windows}};
  hr_desc w = {dtype, 4, {l->out, l->in / l->groups, l->kernel, l->kernel}}, bias = {dtype, 1, {l->out}};
  hr_conv_dx_args dx = {args, {l->size, l->size}};
  hr_conv_dw_args dw = {args, {l->kernel, l->kernel}, HR_F32};
  const task tasks[] = {
      {&hr_op_conv, {x, w, bias}, 4, &args}, {&hr_op_conv_dx, {y, w}, 3, &dx}, {&hr_op_conv_dw, {y, x}, 3, &dw}};
  static const char *const names[] = {"forward", "dx", "dW"};
  double flops = 2.0 * (double)hr_desc_count(&y) * (double)(hr_desc_count(&w) / l->out);
  for (int i = 0; i < 3; i++) {
    double seconds = task_seconds(&tasks[i]);
    printf("%-4s %-46s %-8s %9.1f us, %6.1f GFLOP/s\n", hr_dtype_name(dtype), l->name, names[i], 1e6 * seconds,
           1e-9 * flops / seconds);
    fflush(stdout);
  }
}

/* Levels of a U-Net over 16 frames of 720p, one sample. */
typedef struct volume_layer {
  const char *name;
  int64_t in, out, size[3], kernel, stride,
      padding; /* padding: of the last two axes, and of the first where stride is 1 */
} volume_layer;

static const volume_layer volume_layers[] = {
    {"32 -> 32, of 16 x 724 x 1284", 32, 32, {16, 724, 1284}, 3, 1, 1},
    {"3 -> 32, of 16 x 720 x 1280", 3, 32, {16, 720, 1280}, 3, 1, 1},
    {"64 -> 64, of 8 x 362 x 642", 64, 64, {8, 362, 642}, 3, 1, 1},
    {"32 -> 64, of 8 x 361 x 641", 32, 64, {8, 361, 641}, 3, 1, 1},
    {"256 -> 128, of 4 x 181 x 321", 256, 128, {4, 181, 321}, 3, 1, 1},
    {"64 -> 128, of 4 x 181 x 321", 64, 128, {4, 181, 321}, 3, 1, 1},
    {"128 -> 256, of 4 x 181 x 321", 128, 256, {4, 181, 321}, 3, 1, 1},
    {"32 -> 32, halved, of 16 x 720 x 1280", 32, 32, {16, 720, 1280}, 2, 2, 1},
    {"32 -> 64, halved, of 16 x 724 x 1284", 32, 64, {16, 724, 1284}, 2, 2, 0},
    {"32 -> 1, kernel 1, of 16 x 724 x 1284", 32, 1, {16, 724, 1284}, 1, 1, 0},
};

static void volume_run(const volume_layer *l, hr_dtype dtype) {
  hr_conv_args args = {.groups = 1};
  hr_desc x = {dtype, 5, {1, l->in}}, y = {dtype, 5, {1, l->out}}, w = {dtype, 5, {l->out, l->in}};
  hr_conv_dx_args dx = {0};
  hr_conv_dw_args dw = {.dtype = HR_F32};
  for (int d = 0; d < 3; d++) {
    args.stride[d] = l->stride;
    args.padding[d] = d == 0 && l->stride > 1 ? 0 : l->padding;
    args.dilation[d] = 1;
    x.dim[2 + d] = dx.size[d] = l->size[d];
    w.dim[2 + d] = dw.kernel[d] = l->kernel;
    y.dim[2 + d] = (l->size[d] + 2 * args.padding[d] - l->kernel) / l->stride + 1;
  }
  dx.conv = dw.conv = args;
  const task tasks[] = {
      {&hr_op_conv, {x, w}, 4, &args}, {&hr_op_conv_dx, {y, w}, 3, &dx}, {&hr_op_conv_dw, {y, x}, 3, &dw}};
  static const char *const names[] = {"forward", "dx", "dW"};
  double flops = 2.0 * (double)hr_desc_count(&y) * (double)(hr_desc_count(&w) / l->out);
  for (int i = 0; i < 3; i++) {
    double seconds = task_seconds(&tasks[i]);
    printf("%-4s %-46s %-8s %9.3f ms, %6.1f TFLOP/s\n", hr_dtype_name(dtype), l->name, names[i], 1e3 * seconds,
           1e-12 * flops / seconds);
    fflush(stdout);
  }
}

/* The masked sum over positions with which embeddings of sentences are made. */
static void sum_run(hr_dtype dtype) {
  const int64_t samples = 78, length = 512, width = 384;
  hr_error err = {0};
  double seconds[2];
  for (int copies = 0; copies < 2; copies++) {
    hr_graph *g;
    hr_builder b;
    graph_begin(&g, &b, dtype);
    hr_init init = {.rule = HR_INIT_NORMAL, .a = 1.0f};
    hr_id x = hr__parameter(&b, "x", hr__desc3(dtype, samples, length, width), init);
    hr_id mask = hr__parameter(&b, "mask", hr__desc3(dtype, samples, length, 1), init);
    for (int i = 0; i < TIMES; i++) {
      char name[8];
      snprintf(name, sizeof name, "out%d", i);
      hr_id y = copies ? hr__copy(&b, x, dtype)
                       : hr__reduce(&b, HR_REDUCE_SUM, hr__binary(&b, HR_FORMULA_mul, x, mask), 1u << 1);
      hr__program_set_output(&b, name, y);
    }
    must(hr__builder_status(&b, &err), &err);
    must(hr__pass_fuse(&b, NULL, NULL, &err), &err); /* the product becomes part of the sum */
    seconds[copies] = graph_seconds(g);
    hr__graph_destroy(g);
  }
  printf("%-4s sum of [%lld, %lld, %lld] x mask over axis 1 %9.1f us, %5.2f times a copy\n", hr_dtype_name(dtype),
         (long long)samples, (long long)length, (long long)width, 1e6 * seconds[0], seconds[0] / seconds[1]);
}

int main(int argc, char **argv) {
  hr_error err = {0};
  bool cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
  int64_t samples = argc > 1 + cuda ? atoll(argv[1 + cuda]) : cuda ? 10080 : 512;
  must(cuda ? hr__cuda_open(&device, &err) : hr__cpu_open(&device, &err), &err);
  static const hr_dtype dtypes[] = {HR_F32, HR_BF16};
  if (cuda && argc > 2 && strcmp(argv[2], "volumes") == 0) {
    for (size_t i = 0; i < sizeof volume_layers / sizeof *volume_layers; i++)
      volume_run(&volume_layers[i], HR_BF16);
    hr__device_close(device);
    return 0;
  }
  for (int d = 0; d < 2; d++) {
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
      layer_run(&layers[i], samples, dtypes[d]);
    sum_run(dtypes[d]);
    for (size_t i = 0; i < sizeof image_layers / sizeof *image_layers; i++)
      image_run(&image_layers[i], cuda ? 64 : 4, dtypes[d]);
  }
  hr__device_close(device);
  return 0;
}
