/* The scan of Mamba-2 alone (op/ssd.h), forward and backward, against a copy of as many bytes.
 *
 *     bench_scan [cuda] [SEQUENCES LENGTH]...     (4 8192, which is one call of recipes/002-before.yaml with two
 * samples, and 131072 positions in two ways, where nothing is given)
 *
 * prints for each size {"sequences", "length", "forward_ms", "both_ms", "bytes", "share_of_copy", "flops_per_second"},
 * in bf16, 8 heads of 64 with states of 128. `bytes` are operands, results, gradients and f32 states, each once;
 * "share_of_copy" is the time of a copy that reads and writes as many over the time of both. Times are the least of 21.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dev/device.h"
#include "op/copy.h"
#include "op/ssd.h"
#include "run/run.h"

enum { HEADS = 8, HEAD = 64, GROUPS = 1, STATE = 128, CHUNK = 256, REPEATS = 21 };
enum { INNER = HEADS * HEAD, MIXED = INNER + 2 * GROUPS * STATE, PROJECTED = INNER + MIXED + HEADS };

static void must(hr_status status, const hr_error *err) {
  if (status == HR_OK) return;
  fprintf(stderr, "error: %s: %s\n", err->place, err->message);
  exit(1);
}

typedef enum way { FORWARD, BOTH, COPY } way;

typedef struct size {
  int64_t sequences, length;
} size;

static hr_id drawn(hr_builder *b, const char *name, hr_desc desc, float spread) {
  return hr__parameter(b, name, desc, (hr_init){.rule = HR_INIT_NORMAL, .a = spread});
}

static double bytes_of(size s) {
  double positions = (double)(s.sequences * s.length);
  double states = (double)(s.sequences * ((s.length + CHUNK - 1) / CHUNK)) * INNER * STATE * sizeof(float);
  /* mixed three times (read twice, its gradient), y and dy, steps three times, states written and read */
  return positions * 2.0 * (3 * MIXED + 2 * INNER + 3 * HEADS) + 2.0 * states;
}

/* Products of each position, with half a chunk's others on average; see op/ssd.h. */
static double flops_of(size s) {
  double half = CHUNK / 2.0, forward = STATE * half + HEADS * (HEAD * half + 2.0 * HEAD * STATE);
  double backward = 3.0 * STATE * half + HEADS * (2.0 * HEAD * half + 4.0 * HEAD * STATE);
  return 2.0 * (double)(s.sequences * s.length) * (forward + backward);
}

static void scan_emit(hr_builder *b, size s, bool backward) {
  hr_ssd_args args = {.heads = HEADS,
                      .head_dim = HEAD,
                      .groups = GROUPS,
                      .state = STATE,
                      .chunk = CHUNK,
                      .step_first = PROJECTED - HEADS,
                      .step_most = INFINITY};
  hr_desc heads = hr__desc1(HR_F32, HEADS);
  hr_id mixed = drawn(b, "mixed", hr__desc3(HR_BF16, s.sequences, s.length, MIXED), 0.5f);
  hr_id steps = drawn(b, "steps", hr__desc3(HR_BF16, s.sequences, s.length, PROJECTED), 0.5f);
  hr_id a_log = hr__parameter(b, "A_log", heads, (hr_init){.rule = HR_INIT_LOG_OF_UNIFORM, .a = 1, .b = 16});
  hr_id bias = hr__parameter(b, "bias", heads, (hr_init){.rule = HR_INIT_STEP_BIAS, .a = 1e-3f, .b = 0.1f});
  hr_id d = hr__parameter(b, "D", heads, (hr_init){.rule = HR_INIT_ONE});
  hr_id y = hr__ssd(b, mixed, steps, a_log, bias, d, HR_NONE, &args);
  if (!backward || y == HR_NONE) {
    hr__program_set_output(b, "y", y);
    return;
  }
  hr_id dy = drawn(b, "dy", hr__desc3(HR_BF16, s.sequences, s.length, INNER), 0.5f);
  hr_id in[HR_SSD_BWD_OPERANDS] = {dy, mixed, steps, a_log, bias, d, HR_NONE, hr__node_out(b, y, 1), HR_NONE};
  hr_id dmixed = hr__emit(b, &hr_op_ssd_bwd, in, HR_SSD_BWD_OPERANDS, &args);
  hr__program_set_output(b, "y", y);
  hr__program_set_output(b, "dmixed", dmixed);
  if (dmixed != HR_NONE) hr__program_set_output(b, "parameters", hr__node_out(b, dmixed, 2));
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of one run of a program, the least of REPEATS. On a GPU ten runs are queued behind each other. */
static double seconds_of(hr_device *device, size s, way how) {
  hr_error err = {0};
  hr_builder b;
  hr_graph *g;
  hr_rates rates;
  hr_plan *plan;
  hr_run *run;
  must(hr__graph_create(&g, &err), &err);
  hr__builder_init(&b, g, HR_BF16);
  hr__program_begin(&b, HR_PROGRAM_STEP);
  if (how == COPY) {
    hr_id x = drawn(&b, "x", hr__desc1(HR_BF16, (int64_t)(bytes_of(s) / 4)), 1.0f);
    hr__program_set_output(&b, "y", hr__copy(&b, x, HR_BF16));
  } else
    scan_emit(&b, s, how == BOTH);
  must(hr__builder_status(&b, &err), &err);
  hr__rates_default(&device->facts, &rates);
  must(hr__plan_build(g, &device->facts, &rates, &(hr_plan_options){.accumulation = 1}, &plan, &err), &err);
  must(hr__run_create(plan, device, &(hr_run_options){0}, &run, &err), &err);
  must(hr__run_init_values(run, 7, &err), &err);
  double best = HUGE_VAL;
  int queued = device->facts.kind == HR_CPU ? 1 : 10;
  for (int i = 0; i < (device->facts.kind == HR_CPU ? 3 : REPEATS); i++) {
    must(device->functions->synchronize(device, &err), &err);
    double begin = now();
    for (int k = 0; k < queued; k++)
      must(hr__run_program(run, 0, &err), &err);
    must(device->functions->synchronize(device, &err), &err);
    best = fmin(best, (now() - begin) / queued);
  }
  hr__run_destroy(run);
  hr__plan_destroy(plan);
  hr__rates_fini(&rates);
  hr__graph_destroy(g);
  return best;
}

int main(int argc, char **argv) {
  hr_error err = {0};
  hr_device *device;
  bool cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
  size sizes[16] = {{4, 8192}, {4, 32768}, {1, 131072}};
  int count = 3;
  must(cuda ? hr__cuda_open(&device, &err) : hr__cpu_open(&device, &err), &err);
  if (argc > 2 + cuda) {
    count = 0;
    for (int i = 1 + cuda; i + 1 < argc && count < 16; i += 2)
      sizes[count++] = (size){strtoll(argv[i], NULL, 10), strtoll(argv[i + 1], NULL, 10)};
  }
  for (int i = 0; i < count; i++) {
    double forward = seconds_of(device, sizes[i], FORWARD), both = seconds_of(device, sizes[i], BOTH);
    double copy = seconds_of(device, sizes[i], COPY);
    printf("{\"sequences\": %lld, \"length\": %lld, \"forward_ms\": %.3f, \"both_ms\": %.3f, \"bytes\": %.4g, "
           "\"copy_bytes_per_second\": %.3g, \"share_of_copy\": %.3f, \"flops_per_second\": %.3g}\n",
           (long long)sizes[i].sequences, (long long)sizes[i].length, 1e3 * forward, 1e3 * both, bytes_of(sizes[i]),
           bytes_of(sizes[i]) / copy, copy / both, flops_of(sizes[i]) / both);
    fflush(stdout);
  }
  hr__device_close(device);
  return 0;
}
