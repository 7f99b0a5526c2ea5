/* plan TRACE... --sweep gpu=...: a line for each GPU. See plan_trace.h. */
#include <inttypes.h>
#include <string.h>

#include "cli/plan.h"
#include "cli/plan_trace.h"
#include "format/json.h"

typedef struct table {
  hr_trace_plan *plan;
  json_t *entries; /* NULL without --json */
  int fit;
} table;

static void head_print(const table *t) {
  hr_style style = hr__cli_style(t->plan->cli, stdout);
  const char *batch = t->plan->n_traces > 1 ? "largest batch" : "";
  printf("%s  %-24s %-4s %12s %12s %12s %s%s\n", style.bold, "gpu", "fits", "reserved", "driver", "usable", batch,
         style.end);
}

static void line_print(const table *t, const hr_trace_answer *a) {
  hr_style style = hr__cli_style(t->plan->cli, stdout);
  char reserved[HR_SIZE_TEXT], driver[HR_SIZE_TEXT], usable[HR_SIZE_TEXT];
  printf("  %-24s %s%-4s%s %12s %12s %12s", a->target.label, a->fits ? style.green : style.red, a->fits ? "yes" : "no",
         style.end, hr__size_text(a->result.reserved.use.reserved_bytes, reserved),
         hr__size_text(a->driver_bytes, driver), hr__size_text(a->target.usable_bytes, usable));
  if (t->plan->n_traces > 1) printf(" %13" PRIu64, a->fits ? a->batch : 0);
  putchar('\n');
}

static json_t *line_json(const table *t, const hr_trace_answer *a) {
  const hr_torch_use *reserved = &a->result.reserved.use;
  json_t *batch =
      a->batch == 0 ? json_null() : json_integer(t->plan->n_traces > 1 && !a->fits ? 0 : (json_int_t)a->batch);
  return json_pack("{s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:o}", "value", hr__json_string(a->target.label), "fits",
                   a->fits, "allocated_bytes", (json_int_t)a->result.allocated.use.allocated_bytes, "reserved_bytes",
                   (json_int_t)reserved->reserved_bytes, "driver_bytes", (json_int_t)a->driver_bytes, "budget_bytes",
                   (json_int_t)a->target.usable_bytes, "margin_bytes", (json_int_t)a->target.margin_bytes, "batch",
                   batch);
}

/* With several traces the largest batch that fits, else the trace as it is. */
static hr_status gpu_show(table *t, const char *name, hr_error *err) {
  hr_trace_plan *plan = t->plan;
  hr_trace_target target;
  hr_trace_answer answer;
  int64_t given;
  HR_TRY(hr__trace_target(plan, name, &target, err));
  HR_TRY(hr__cli_int(plan->cli, "batch", 1, 0, &given, err));
  uint64_t batch = plan->n_traces > 1 ? (uint64_t)given : plan->traces[0].batch;
  if (plan->n_traces > 1 && given == 0) HR_TRY(hr__trace_largest(plan, &target, &batch, err));
  if (batch == 0 && plan->n_traces > 1) batch = 1;
  HR_TRY(hr__trace_answer(plan, &target, batch, false, &answer, err));
  t->fit += answer.fits;
  if (t->entries) return json_array_append_new(t->entries, line_json(t, &answer)) == 0 ? HR_OK : hr__nomem(err);
  if (!plan->cli->quiet) line_print(t, &answer);
  return HR_OK;
}

static hr_status gpus_show(table *t, const char *values, hr_error *err) {
  hr_arena *arena = &t->plan->cli->arena;
  if (strcmp(values, "all") != 0) {
    bool failed;
    for (const char *value; (value = hr__part_next(arena, &values, &failed)) != NULL;)
      HR_TRY(gpu_show(t, value, err));
    return failed ? hr__nomem(err) : HR_OK;
  }
  size_t count;
  const hr_gpu **gpus = hr__gpus_by_memory(arena, &count);
  if (gpus == NULL) return hr__nomem(err);
  for (size_t i = 0; i < count; i++)
    HR_TRY(gpu_show(t, gpus[i]->label, err));
  return HR_OK;
}

hr_status hr__trace_sweep(hr_trace_plan *plan, const char *values, hr_error *err) {
  hr_cli *cli = plan->cli;
  table t = {.plan = plan};
  if (cli->json && (t.entries = json_array()) == NULL) return hr__nomem(err);
  if (!cli->json && !cli->quiet) head_print(&t);
  hr_status status = gpus_show(&t, values, err);
  if (status == HR_OK && cli->json)
    status = hr__cli_put_json(json_pack("{s:i, s:s, s:O}", "schema", 1, "sweep", "gpu", "entries", t.entries), err);
  json_decref(t.entries);
  HR_TRY(status);
  if (!cli->json) {
    HR_TRY(hr__cli_flush(err));
    if (!cli->quiet) hr__trace_remarks(plan, &(hr_trace_target){0});
  }
  cli->answered = t.fit == 0;
  return t.fit > 0 ? HR_OK : HR_NO_FIT;
}
