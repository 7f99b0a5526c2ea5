/* What reading costs: steps whose batch is made while the one before is computed, against the same steps on a batch
 * that is there already, and the memory of the process against its plan.
 *
 *     bench_input RECIPE [key=value...]      RECIPE: bench/input.yaml
 *
 * Prints a line for 0, 1 and 2 threads that read (data.workers). A round is some steps that each need a new batch, then
 * the last of them as often again, whose batch both slots of the reader know: nothing is read then, all else is the
 * same. "ratio" is the median over the rounds of one by the other. On the CPU set HEADROOM_THREADS so that a core is
 * left for reading; what then remains is what readers take of the memory's rate.
 *
 * Exits with 4 where the process has not held what was planned: more, or on the CPU 2 % (at least 16 MiB) less.
 * "host_bytes" is by how much its own memory in RAM has grown since the device was opened.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/job.h"
#include "model/losses.h"
#include "op/gelu.h"
#include "op/linear.h"
#include "op/pointwise.h"
#include "train/session.h"

enum { ROWS = 1024, COLUMNS = 1024, ROUNDS = 5, STEPS = 3 };

/* --- the model: signals x [B, 1024, 1024], layers of products with gelu, sum of the squares ----------------------- */

static const hr_key key_list[] = {
    {.path = "*.config.width", .type = HR_KEY_INT, .fallback = "512", .min = 1, .max = 65536},
    {.path = "*.config.layers", .type = HR_KEY_INT, .fallback = "1", .min = 1, .max = 1024},
};
static const hr_key_table keys = {key_list, 2};
static const hr_reported reported[] = {{.name = "loss", .weight = 1, .over = HR_OVER_SAMPLES}};

static void signals_fields(const hr_model_part *part, const hr_field_shape *shape, hr_fields *out) {
  (void)part;
  hr_desc desc = hr__desc3(HR_F32, shape->batch, ROWS, COLUMNS);
  hr__field_add(out, (hr_field){.name = "x", .purpose = HR_FOR_VALUES, .desc = desc});
}

static hr_id signals_forward(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  int64_t width = hr__scope_int(&part->scope, "config.width"), in = COLUMNS;
  hr_id x = hr__batch_field(batch, "x");
  for (int64_t i = 0; i < hr__scope_int(&part->scope, "config.layers"); i++, in = width) {
    char name[64];
    snprintf(name, sizeof name, "layers.%d.weight", (int)i);
    hr__module(b, "layers.%d", (int)i);
    hr__block_begin(b, "layer");
    hr_init init = {.rule = HR_INIT_NORMAL, .a = (float)(1 / sqrt((double)in))};
    x = hr__gelu(b, hr__linear(b, x, hr__parameter(b, name, hr__desc2(b->dtype, width, in), init), HR_NONE), false);
    hr__block_end(b);
  }
  hr__module(b, "loss");
  hr_id squares = hr__unary(b, HR_FORMULA_square, x, 0, 0);
  hr_id loss = hr__squeeze(b, hr__reduce(b, HR_REDUCE_SUM, squares, 7), 3);
  hr__report(b, part->model, batch, "loss", loss);
  return loss;
}

static const hr_model signals = {.family = "signals",
                                 .keys = {&keys},
                                 .forward = signals_forward,
                                 .fields = signals_fields,
                                 .reported = reported,
                                 .n_reported = 1};

/* --- measuring ---------------------------------------------------------------------------------------------------- */

static void must(hr_status status, const hr_error *err) {
  if (status == HR_OK) return;
  fprintf(stderr, "error: %s: %s\n", err->place, err->message);
  exit(hr_status_exit_code(status));
}

/* A line of /proc/self/status, in bytes. */
static uint64_t process_bytes(const char *name) {
  char line[256];
  unsigned long long kilobytes = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (strncmp(line, name, strlen(name)) == 0) sscanf(line + strlen(name), ": %llu", &kilobytes);
  if (file) fclose(file);
  return (uint64_t)kilobytes * 1024;
}

typedef struct timed {
  double reading, without; /* seconds of a step, mean of a round */
} timed;

/* What the process holds while it trains: as its device counts it, and its own memory in RAM (libraries, which other
 * programs may have loaded as well, are not in it). */
typedef struct held {
  uint64_t device, host;
} held;

static double steps_time(hr_session *s, int64_t first, int64_t last) {
  double seconds = 0;
  hr_error err = {0};
  hr_step_result result;
  for (int64_t i = 0; i < STEPS; i++) {
    must(hr__session_step(s, first + i < last ? first + i : last, &result, &err), &err);
    seconds += result.seconds;
  }
  return seconds / STEPS;
}

static int by_ratio(const void *a, const void *b) {
  const timed *x = a, *y = b;
  double one = x->reading / x->without, other = y->reading / y->without;
  return one < other ? -1 : one > other;
}

/* Median round of all. */
static timed rounds_time(const hr_job *job, hr_device *device, held *most) {
  hr_error err = {0};
  hr_session session;
  hr_step_result result;
  timed rounds[ROUNDS];
  hr_train_options options = {.recipe = job->recipe, .plan = job->plan, .device = device};
  must(hr__session_create(&options, false, &session, &err), &err);
  must(hr__session_begin(&session, &err), &err);
  must(hr__session_step(&session, 1, &result, &err), &err); /* caches, lazily made library objects */
  int64_t done = 1;
  for (int i = 0; i < ROUNDS; i++, done += STEPS)
    rounds[i] = (timed){.reading = steps_time(&session, done + 1, done + STEPS),
                        .without = steps_time(&session, done + STEPS, done + STEPS)};
  must(device->functions->process_bytes(device, &most->device, &err), &err);
  most->host = process_bytes("RssAnon");
  hr__session_destroy(&session);
  qsort(rounds, ROUNDS, sizeof *rounds, by_ratio);
  return rounds[ROUNDS / 2];
}

/* What libraries take when they are first used, of the process and not of any run: some steps that nobody looks at. */
static void libraries_load(const hr_job_source *recipe) {
  hr_error err = {0};
  hr_job *job;
  hr_device *device;
  held unused;
  must(hr__job_open(recipe, &job, &err), &err);
  must(hr__job_device(job, &device, &err), &err);
  rounds_time(job, device, &unused);
  hr__device_close(device);
  hr__job_close(job);
}

/* One line; whether the process is within its plan. */
static bool workers_measure(const hr_job_source *recipe, int workers) {
  hr_error err = {0};
  hr_job *job;
  hr_device *device;
  char setting[32];
  const char *overrides[64];
  size_t n = recipe->n_overrides;
  if (n >= 64) exit(2);
  snprintf(setting, sizeof setting, "data.workers=%d", workers);
  memcpy(overrides, recipe->overrides, n * sizeof *overrides);
  overrides[n] = setting;
  must(hr__job_open(&(hr_job_source){recipe->path, overrides, n + 1}, &job, &err), &err);
  must(hr__job_check(job, &err), &err);
  must(hr__job_device(job, &device, &err), &err);
  uint64_t before = process_bytes("RssAnon"), host_planned = job->plan->tiers[HR_TIER_HOST].peak_bytes;
  uint64_t planned = job->plan->tiers[HR_TIER_DEVICE].peak_bytes;
  held most;
  timed t = rounds_time(job, device, &most);
  uint64_t host = most.host - before;
  bool cpu = device->facts.kind == HR_CPU;
  if (cpu) planned += host_planned; /* one memory */
  bool within = hr__within_plan(planned, most.device) && (cpu || hr__within_plan(host_planned, host));
  if (cpu) within &= hr__within_plan(most.device, planned); /* all of it is touched at the start */
#ifdef HR_ASAN
  within = true; /* a sanitizer's own memory is nobody's plan */
#endif
  hr_id batch = hr__graph_find_value(job->graph, HR_BATCH);
  printf("{\"workers\": %d, \"batch_bytes\": %zu, \"step_seconds\": %.4f, \"reading_seconds\": %.4f, \"ratio\": %.3f, "
         "\"planned_bytes\": %llu, \"process_bytes\": %llu, \"host_planned_bytes\": %llu, \"host_bytes\": %llu, "
         "\"within\": %s}\n",
         workers, hr_desc_bytes(&job->graph->values[batch].desc) / HR_BATCH_SLOTS, t.without, t.reading,
         t.reading / t.without, (unsigned long long)planned, (unsigned long long)most.device,
         (unsigned long long)host_planned, (unsigned long long)host, within ? "true" : "false");
  fflush(stdout);
  hr__device_close(device);
  hr__job_close(job);
  return within;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fputs("usage: bench_input RECIPE [key=value...]\n", stderr);
    return 2;
  }
  hr__model_register(&signals);
  const hr_job_source recipe = {argv[1], (const char *const *)argv + 2, (size_t)argc - 2};
  bool within = true;
  libraries_load(&recipe);
  for (int workers = 0; workers <= 2; workers++)
    within &= workers_measure(&recipe, workers);
  return within ? 0 : hr_status_exit_code(HR_ABOVE_PLAN);
}
