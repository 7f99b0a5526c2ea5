/* Pointwise ops as a model writes them, one node each, and as the fuse pass joins them, against a copy of the same
 * bytes: six ops with a row that is repeated over 64 MiB, in f32 and bf16.
 *
 *     bench_pointwise [cuda]      prints for each type {"copy_bytes_per_second", "apart", "fused", "nodes",
 * "same_bits"}
 *
 * "apart" and "fused" are shares of the copy's rate: seconds of the copy over seconds of the ops, the median of 21.
 * "with_exp" is the same with two of the six made of exponentials. DNNL_MAX_CPU_ISA=AVX2 holds chains to AVX2, where
 * the processor has more.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dev/device.h"
#include "op/copy.h"
#include "op/pointwise.h"
#include "pass/pass.h"
#include "run/run.h"

enum { COLUMNS = 4096, REPEATS = 21 };
static const int64_t BYTES = (int64_t)64 << 20;

static void must(hr_status status, const hr_error *err) {
  if (status == HR_OK) return;
  fprintf(stderr, "error: %s: %s\n", err->place, err->message);
  exit(1);
}

/* x w + b, bounded, scaled, and joined with x again: 6 ops. */
static hr_id chain_make(hr_builder *b, hr_id x, bool exponentials) {
  hr_init init = {.rule = HR_INIT_NORMAL, .a = 0.5f};
  hr_id w = hr__parameter(b, "w", hr__desc1(b->dtype, COLUMNS), init);
  hr_id bias = hr__parameter(b, "b", hr__desc1(b->dtype, COLUMNS), init);
  hr_id y = hr__binary(b, HR_FORMULA_mul, x, w);
  y = hr__binary(b, HR_FORMULA_add, y, bias);
  y = hr__unary(b, exponentials ? HR_FORMULA_silu : HR_FORMULA_relu, y, 0.0f, 0.0f);
  y = hr__unary(b, HR_FORMULA_affine, y, 0.5f, 0.25f);
  y = hr__unary(b, exponentials ? HR_FORMULA_tanh : HR_FORMULA_clamp, y, -1.0f, 1.0f);
  return hr__binary(b, HR_FORMULA_add, y, x);
}

typedef enum way { COPY, APART, FUSED, APART_EXP, FUSED_EXP, WAYS } way;

/* One way to get from x to y, ready to run. */
typedef struct runner {
  hr_graph *g;
  hr_rates rates;
  hr_plan *plan;
  hr_run *run;
  hr_id x, y;
  double seconds[REPEATS];
} runner;

/* On the CPU seconds that all its threads have worked: others on the machine do not count. */
static double now(const hr_device *device) {
  struct timespec t;
  clock_gettime(device->facts.kind == HR_CPU ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void runner_init(runner *r, hr_device *device, hr_dtype dtype, way how, const void *data) {
  hr_error err = {0};
  hr_builder b;
  *r = (runner){0};
  must(hr__graph_create(&r->g, &err), &err);
  hr__builder_init(&b, r->g, dtype);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  /* persistent, so that no result takes its place */
  hr_desc desc = hr__desc2(dtype, BYTES / COLUMNS / (int64_t)hr_dtype_bytes(dtype), COLUMNS);
  r->x = hr__parameter(&b, "x", desc, (hr_init){.rule = HR_INIT_ZERO});
  r->y = how == COPY ? hr__copy(&b, r->x, dtype) : chain_make(&b, r->x, how >= APART_EXP);
  hr__program_set_output(&b, "y", r->y);
  must(hr__builder_status(&b, &err), &err);
  if (how == FUSED || how == FUSED_EXP) must(hr__pass_fuse(&b, NULL, NULL, &err), &err);
  hr__rates_default(&device->facts, &r->rates);
  must(hr__plan_build(r->g, &device->facts, &r->rates, &(hr_plan_options){.accumulation = 1}, &r->plan, &err), &err);
  must(hr__run_create(r->plan, device, &(hr_run_options){0}, &r->run, &err), &err);
  must(hr__run_init_values(r->run, 7, &err), &err);
  must(hr__run_write(r->run, r->x, 0, data, (size_t)BYTES, &err), &err);
}

static void runner_fini(runner *r) {
  hr__run_destroy(r->run);
  hr__plan_destroy(r->plan);
  hr__rates_fini(&r->rates);
  hr__graph_destroy(r->g);
}

static double runner_time(runner *r, hr_device *device) {
  hr_error err = {0};
  double begin = now(device);
  must(hr__run_program(r->run, 0, &err), &err);
  must(device->functions->synchronize(device, &err), &err);
  return now(device) - begin;
}

static int by_size(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

/* Of the copy's seconds over a way's, turn by turn, the one in the middle. */
static double share(const runner *copy, const runner *r) {
  double ratio[REPEATS];
  for (int i = 0; i < REPEATS; i++)
    ratio[i] = copy->seconds[i] / r->seconds[i];
  qsort(ratio, REPEATS, sizeof *ratio, by_size);
  return ratio[REPEATS / 2];
}

/* Of the result's bits. */
static uint64_t runner_digest(runner *r, uint16_t *data) {
  hr_error err = {0};
  uint64_t digest = 0;
  must(hr__run_read(r->run, r->y, 0, data, (size_t)BYTES, &err), &err);
  for (size_t i = 0; i < (size_t)BYTES / 2; i++)
    digest = (digest ^ data[i]) * 0x100000001b3u;
  return digest;
}

/* Prints what there is to say of one type; returns whether the bits are the same. Ways take turns: what else runs on
 * the machine slows neighbours alike. */
static bool dtype_run(hr_device *device, hr_dtype dtype, uint16_t *data) {
  runner runs[WAYS];
  for (size_t i = 0; i < (size_t)BYTES / 2; i++) /* sound numbers in either type */
    data[i] = (uint16_t)(0x3e00 + i * 7919 % 0x1ff + (i % 5 < 2 ? 0x8000 : 0));
  for (int w = 0; w < WAYS; w++)
    runner_init(&runs[w], device, dtype, (way)w, data);
  for (int i = 0; i < REPEATS; i++)
    for (int w = 0; w < WAYS; w++)
      runs[w].seconds[i] = runner_time(&runs[w], device);
  double rate = 0.0;
  for (int i = 0; i < REPEATS; i++)
    rate = fmax(rate, 2.0 * (double)BYTES / runs[COPY].seconds[i] * device->facts.threads);
  bool same = runner_digest(&runs[APART], data) == runner_digest(&runs[FUSED], data) &&
              runner_digest(&runs[APART_EXP], data) == runner_digest(&runs[FUSED_EXP], data);
  printf("\"%s\": {\"copy_bytes_per_second\": %.3g, \"apart\": %.2f, \"fused\": %.2f, \"apart_with_exp\": %.2f, "
         "\"fused_with_exp\": %.2f, \"nodes\": [%zu, %zu], \"same_bits\": %s}",
         hr_dtype_name(dtype), rate, share(&runs[COPY], &runs[APART]), share(&runs[COPY], &runs[FUSED]),
         share(&runs[COPY], &runs[APART_EXP]), share(&runs[COPY], &runs[FUSED_EXP]), runs[APART].g->n_nodes,
         runs[FUSED].g->n_nodes, same ? "true" : "false");
  for (int w = 0; w < WAYS; w++)
    runner_fini(&runs[w]);
  return same;
}

int main(int argc, char **argv) {
  hr_error err = {0};
  hr_device *device;
  bool cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
  must(cuda ? hr__cuda_open(&device, &err) : hr__cpu_open(&device, &err), &err);
  uint16_t *data = malloc((size_t)BYTES);
  if (!data) return 1;
  printf("{");
  bool same = dtype_run(device, HR_F32, data);
  printf(",\n ");
  same &= dtype_run(device, HR_BF16, data);
  printf("}\n");
  free(data);
  hr__device_close(device);
  return same ? 0 : 1;
}
