/* Pointwise ops as a model writes them, one node each, and as the fuse pass joins them, against a copy of the same
 * bytes: six ops with a row that is repeated over 64 MiB, in f32 and bf16.
 *
 *     bench_pointwise [cuda]      prints for each type {"copy_bytes_per_second", "apart", "fused", "nodes",
 * "same_bits"}
 *
 * "apart" and "fused" are shares of the copy's rate: seconds of the copy over seconds of the ops. "with_exp" is the
 * same with two of the six made of exponentials.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dev/device.h"
#include "op/copy.h"
#include "op/pointwise.h"
#include "pass/pass.h"
#include "run/run.h"

enum { COLUMNS = 4096, REPEATS = 15 };
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

typedef struct timed {
  double seconds;
  size_t nodes;
  uint64_t digest; /* of the result's bits */
} timed;

/* On the CPU seconds that all its threads have worked: others on the machine do not count. */
static double now(const hr_device *device) {
  struct timespec t;
  clock_gettime(device->facts.kind == HR_CPU ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static timed graph_time(hr_device *device, const hr_graph *g, hr_id x, hr_id y) {
  hr_error err = {0};
  hr_rates rates;
  hr_plan *plan;
  hr_run *run;
  size_t bytes = hr_desc_bytes(&g->values[x].desc);
  hr__rates_default(&device->facts, &rates);
  must(hr__plan_build(g, &device->facts, &rates, &(hr_plan_options){.accumulation = 1}, &plan, &err), &err);
  must(hr__run_create(plan, device, &(hr_run_options){0}, &run, &err), &err);
  must(hr__run_init_values(run, 7, &err), &err);
  uint16_t *data = malloc(bytes);
  if (!data) exit(1);
  for (size_t i = 0; i < bytes / 2; i++) /* sound numbers in either type */
    data[i] = (uint16_t)(0x3e00 + i * 7919 % 0x1ff + (i % 5 < 2 ? 0x8000 : 0));
  must(hr__run_write(run, x, 0, data, bytes, &err), &err);
  timed t = {.seconds = 1e9, .nodes = g->n_nodes};
  for (int i = 0; i < REPEATS; i++) {
    double begin = now(device);
    must(hr__run_program(run, 0, &err), &err);
    must(device->functions->synchronize(device, &err), &err);
    double seconds = now(device) - begin;
    if (seconds < t.seconds) t.seconds = seconds;
  }
  must(hr__run_read(run, y, 0, data, bytes, &err), &err);
  for (size_t i = 0; i < bytes / 2; i++)
    t.digest = (t.digest ^ data[i]) * 0x100000001b3u;
  free(data);
  hr__run_destroy(run);
  hr__plan_destroy(plan);
  hr__rates_fini(&rates);
  return t;
}

typedef enum way { COPY, APART, FUSED } way;

static timed way_time(hr_device *device, hr_dtype dtype, way how, bool exponentials) {
  hr_error err = {0};
  hr_graph *g;
  hr_builder b;
  must(hr__graph_create(&g, &err), &err);
  hr__builder_init(&b, g, dtype);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  /* persistent, so that no result takes its place */
  hr_desc desc = hr__desc2(dtype, BYTES / COLUMNS / (int64_t)hr_dtype_bytes(dtype), COLUMNS);
  hr_id x = hr__parameter(&b, "x", desc, (hr_init){.rule = HR_INIT_ZERO});
  hr_id y = how == COPY ? hr__copy(&b, x, dtype) : chain_make(&b, x, exponentials);
  hr__program_set_output(&b, "y", y);
  must(hr__builder_status(&b, &err), &err);
  if (how == FUSED) must(hr__pass_fuse(&b, NULL, NULL, &err), &err);
  timed t = graph_time(device, g, x, y);
  hr__graph_destroy(g);
  return t;
}

int main(int argc, char **argv) {
  hr_error err = {0};
  hr_device *device;
  bool cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
  must(cuda ? hr__cuda_open(&device, &err) : hr__cpu_open(&device, &err), &err);
  static const hr_dtype dtypes[] = {HR_F32, HR_BF16};
  bool same = true;
  printf("{");
  for (int i = 0; i < 2; i++) {
    timed copy = way_time(device, dtypes[i], COPY, false);
    timed apart = way_time(device, dtypes[i], APART, false), fused = way_time(device, dtypes[i], FUSED, false);
    timed apart_exp = way_time(device, dtypes[i], APART, true), fused_exp = way_time(device, dtypes[i], FUSED, true);
    bool bits = apart.digest == fused.digest && apart_exp.digest == fused_exp.digest;
    same &= bits;
    printf("%s\"%s\": {\"copy_bytes_per_second\": %.3g, \"apart\": %.2f, \"fused\": %.2f, \"apart_with_exp\": %.2f, "
           "\"fused_with_exp\": %.2f, \"nodes\": [%zu, %zu], \"same_bits\": %s}",
           i ? ",\n " : "", hr_dtype_name(dtypes[i]), 2.0 * (double)BYTES / copy.seconds * device->facts.threads,
           copy.seconds / apart.seconds, copy.seconds / fused.seconds, copy.seconds / apart_exp.seconds,
           copy.seconds / fused_exp.seconds, apart.nodes, fused.nodes, bits ? "true" : "false");
  }
  printf("}\n");
  hr__device_close(device);
  return same ? 0 : 1;
}
