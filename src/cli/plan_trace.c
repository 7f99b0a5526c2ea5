/* See plan_trace.h. */
#include "cli/plan_trace.h"

#include <stdlib.h>
#include <string.h>

#include "torch/conf.h"

enum { MARGIN_PERCENT = 3, BATCH_MOST = 1 << 20 };

static hr_status gpu_find(const char *name, const hr_gpu **gpu, hr_error *err) {
  *gpu = hr__gpu_find(name);
  if (*gpu || strcmp(name, "any") == 0) return HR_OK;
  hr_gpu_refusal why;
  hr__gpu_refuse(name, &why);
  return hr__fail(err, HR_USAGE, "--gpu", why.remedy, "%s", why.message);
}

static hr_status margin_of(const hr_cli *cli, uint64_t usable_bytes, uint64_t *margin, hr_error *err) {
  const char *text = hr__cli_value(cli, "margin");
  *margin = usable_bytes == UINT64_MAX ? 0 : usable_bytes / 100 * MARGIN_PERCENT;
  if (text == NULL) return HR_OK;
  char *end;
  double share = strtod(text, &end);
  if (end != text && strcmp(end, "%") == 0 && share >= 0 && share < 100) {
    *margin = usable_bytes == UINT64_MAX ? 0 : (uint64_t)((double)usable_bytes * share / 100);
    return HR_OK;
  }
  if (hr__size_parse(text, margin)) return HR_OK;
  return hr__fail(err, HR_USAGE, "--margin", "write it as 512MiB, 3% or 0", "'%.32s' is not a size or a share", text);
}

hr_status hr__trace_target(const hr_trace_plan *plan, const char *name, hr_trace_target *out, hr_error *err) {
  const char *memory = hr__cli_value(plan->cli, "gpu-memory");
  *out = (hr_trace_target){.label = "any GPU", .usable_bytes = UINT64_MAX};
  if (name) HR_TRY(gpu_find(name, &out->gpu, err));
  if (out->gpu) {
    out->label = out->gpu->label;
    out->usable_bytes = out->gpu->usable_bytes;
  }
  uint64_t bytes;
  if (memory && (!hr__size_parse(memory, &bytes) || bytes == 0))
    return hr__fail(err, HR_USAGE, "--gpu-memory", "write it as 24GiB", "'%.32s' is not a size", memory);
  if (memory && bytes < out->usable_bytes) out->usable_bytes = bytes;
  out->context = hr__torch_context(out->gpu, true);
  return margin_of(plan->cli, out->usable_bytes, &out->margin_bytes, err);
}

/* What tensors can have. */
static uint64_t reservable(const hr_trace_target *target) {
  if (target->usable_bytes == UINT64_MAX) return UINT64_MAX;
  uint64_t taken = target->margin_bytes + target->context.bytes;
  return target->usable_bytes > taken ? target->usable_bytes - taken : 0;
}

/* The events of a batch size, with cuBLAS's workspaces as on the GPU at hand. */
static const hr_torch_events *events_at(hr_trace_plan *plan, const hr_trace_target *target, uint64_t batch) {
  hr_torch_trace *trace = plan->n_traces > 1 ? plan->scaling.traces[0] : &plan->traces[0];
  if (plan->n_traces > 1) hr__torch_scale(&plan->scaling, batch);
  if (target->gpu) hr__torch_trace_workspaces(trace, target->gpu->capability);
  return &trace->events;
}

/* What explains an answer: how it ends where it does not fit, and whose the bytes are. */
static hr_status answer_explain(hr_trace_plan *plan, const hr_torch_events *events, hr_trace_answer *out,
                                hr_error *err) {
  hr_arena *arena = &plan->cli->arena;
  const hr_torch_result *r = &out->result;
  if (!out->fits) {
    hr_torch_rules rules = plan->rules;
    rules.limit_bytes = reservable(&out->target);
    out->limited = true;
    HR_TRY(hr__torch_replay(events, &rules, arena, &out->at_limit, err));
    out->gets_through = !out->at_limit.out_of_memory;
  }
  HR_TRY(hr__torch_shares(r, &r->allocated, HR_TORCH_BY_OWNER, arena, &out->owners, &out->n_owners, err));
  return hr__torch_shares(r, &r->allocated, HR_TORCH_BY_CALL, arena, &out->calls, &out->n_calls, err);
}

hr_status hr__trace_answer(hr_trace_plan *plan, const hr_trace_target *target, uint64_t batch, bool in_full,
                           hr_trace_answer *out, hr_error *err) {
  *out = (hr_trace_answer){.target = *target, .batch = batch};
  hr_arena brief = {0}; /* a line of a table keeps no lists */
  const hr_torch_events *events = events_at(plan, target, batch);
  hr_torch_result *r = &out->result;
  hr_status status = hr__torch_replay(events, &plan->rules, in_full ? &plan->cli->arena : &brief, r, err);
  if (!in_full) {
    r->steps = NULL;
    r->block_bytes = NULL;
    r->n_steps = 0;
  }
  hr__arena_fini(&brief);
  HR_TRY(status);
  out->driver_bytes = r->reserved.use.reserved_bytes + target->context.bytes;
  out->fits = !r->out_of_memory && r->reserved.use.reserved_bytes <= reservable(target);
  return in_full ? answer_explain(plan, events, out, err) : HR_OK;
}

/* Whether a batch fits: GPUs differ by what they have and by their workspaces only, so that few replays do for all. */
static hr_status fits_at(hr_trace_plan *plan, const hr_trace_target *target, uint64_t batch, bool *fits,
                         hr_error *err) {
  uint64_t workspace = target->gpu ? hr__torch_workspace_bytes(target->gpu->capability) : 0;
  size_t at = 0;
  while (at < plan->n_known && (plan->known[at].batch != batch || plan->known[at].workspace_bytes != workspace))
    at++;
  if (at == plan->n_known) {
    hr_arena arena = {0};
    hr_torch_result result;
    hr_status status = hr__torch_replay(events_at(plan, target, batch), &plan->rules, &arena, &result, err);
    hr__arena_fini(&arena);
    HR_TRY(status);
    if (hr__arena_grow(&plan->cli->arena, (void **)&plan->known, &plan->known_capacity, at, sizeof *plan->known) != 0)
      return hr__nomem(err);
    uint64_t reserved = result.out_of_memory ? UINT64_MAX : result.reserved.use.reserved_bytes;
    plan->known[plan->n_known++] = (hr_trace_known){batch, workspace, reserved};
  }
  *fits = plan->known[at].reserved_bytes <= reservable(target);
  return HR_OK;
}

/* By doubling and halving: what is reserved grows with the batch, if not at every step. */
hr_status hr__trace_largest(hr_trace_plan *plan, const hr_trace_target *target, uint64_t *batch, hr_error *err) {
  uint64_t low = 0, high = 1;
  bool fits;
  if (target->usable_bytes == UINT64_MAX) {
    *batch = BATCH_MOST;
    return HR_OK;
  }
  for (; high <= BATCH_MOST; high *= 2) {
    HR_TRY(fits_at(plan, target, high, &fits, err));
    if (!fits) break;
    low = high;
  }
  while (low + 1 < high) {
    uint64_t middle = low + (high - low) / 2;
    HR_TRY(fits_at(plan, target, middle, &fits, err));
    if (fits)
      low = middle;
    else
      high = middle;
  }
  *batch = low;
  return HR_OK;
}

/* Options that are for recipes say so. */
static hr_status options_check(const hr_cli *cli, hr_error *err) {
  static const char *const taken[] = {"gpu", "gpu-memory", "margin", "sweep", "batch", "largest", "alloc-conf"};
  for (size_t i = 0; i < cli->command->n_options; i++) {
    const char *name = cli->command->options[i].name;
    bool known = cli->values[i] == NULL;
    for (size_t k = 0; k < sizeof taken / sizeof *taken; k++)
      known |= strcmp(name, taken[k]) == 0;
    if (!known) return hr__fail(err, HR_USAGE, NULL, "leave it out", "--%s is for recipes, not for traces", name);
  }
  if (cli->n_overrides > 0)
    return hr__fail(err, HR_USAGE, "--set", "the allocator's settings are --alloc-conf",
                    "a trace has no settings of a recipe");
  return HR_OK;
}

static hr_status traces_read(hr_trace_plan *plan, hr_error *err) {
  hr_cli *cli = plan->cli;
  for (int i = 0; i < cli->n_arguments; i++) {
    if (!hr__torch_trace_is(cli->arguments[i]))
      return hr__fail(err, HR_USAGE, cli->arguments[i], "give one recipe, or traces of tools/torch_trace.py",
                      "it is no trace, as %.80s is", cli->arguments[0]);
    plan->n_traces++;
    HR_TRY(hr__torch_trace_read(cli->arguments[i], &cli->arena, &plan->traces[i], err));
  }
  if (plan->n_traces == 1) return HR_OK;
  return hr__torch_scaling_init(&plan->scaling, plan->traces, plan->n_traces, &cli->arena, err);
}

/* The batch to show: --batch, the largest that fits, or that of the trace. */
static hr_status batch_choose(hr_trace_plan *plan, const hr_trace_target *target, uint64_t *batch, hr_error *err) {
  const hr_cli *cli = plan->cli;
  const char *largest = hr__cli_value(cli, "largest");
  int64_t given;
  HR_TRY(hr__cli_int(cli, "batch", 1, 0, &given, err));
  *batch = plan->n_traces == 1 ? plan->traces[0].batch : (uint64_t)given;
  if (plan->n_traces == 1) {
    const char *option = given ? "--batch" : largest ? "--largest" : NULL;
    return option == NULL ? HR_OK
                          : hr__fail(err, HR_USAGE, option, "trace with --batch 2,4 and give both files",
                                     "one trace says nothing of other batch sizes");
  }
  if (largest && strcmp(largest, "batch") != 0)
    return hr__fail(err, HR_USAGE, "--largest", "write --largest batch", "traces have no '%.40s'", largest);
  if (given) return HR_OK;
  HR_TRY(hr__trace_largest(plan, target, batch, err));
  if (*batch == 0) *batch = 1; /* and that does not fit */
  if (target->usable_bytes == UINT64_MAX) *batch = plan->scaling.traces[plan->n_traces - 1]->batch;
  return HR_OK;
}

static hr_status plan_show(hr_trace_plan *plan, hr_error *err) {
  hr_cli *cli = plan->cli;
  const char *gpu = hr__cli_value(cli, "gpu"), *sweep = hr__cli_value(cli, "sweep");
  if (sweep && strncmp(sweep, "gpu=", 4) == 0) return hr__trace_sweep(plan, sweep + 4, err);
  if (sweep) return hr__fail(err, HR_USAGE, "--sweep", "write --sweep gpu=all", "traces are for GPUs to vary");
  hr_trace_target target;
  hr_trace_answer answer;
  uint64_t batch;
  HR_TRY(hr__trace_target(plan, gpu, &target, err));
  HR_TRY(batch_choose(plan, &target, &batch, err));
  HR_TRY(hr__trace_answer(plan, &target, batch, true, &answer, err));
  if (cli->json) {
    HR_TRY(hr__cli_put_json(hr__trace_json(plan, &answer), err));
  } else if (!cli->quiet) {
    hr__trace_print(plan, &answer);
    HR_TRY(hr__cli_flush(err));
    hr__trace_remarks(plan, &target);
  }
  cli->answered = !answer.fits && !cli->quiet;
  if (answer.fits) return HR_OK;
  char size[HR_SIZE_TEXT];
  return hr__fail(err, HR_NO_FIT, cli->arguments[0], "make the batch smaller, or name a GPU with more memory",
                  "%s on the driver's count do not fit %s", hr__size_text(answer.driver_bytes, size), target.label);
}

hr_status hr__plan_trace(hr_cli *cli, hr_error *err) {
  hr_trace_plan *plan = hr__arena_alloc(&cli->arena, sizeof *plan);
  if (plan == NULL) return hr__nomem(err);
  plan->cli = cli;
  plan->conf = hr__cli_value(cli, "alloc-conf");
  hr__torch_rules_init(&plan->rules);
  HR_TRY(options_check(cli, err));
  if (plan->conf) HR_TRY(hr__torch_conf(plan->conf, "--alloc-conf", &plan->rules, err));
  hr_status status = traces_read(plan, err);
  if (status == HR_OK && plan->n_traces == 1) {
    plan->rules.places = plan->traces[0].places;
    plan->rules.n_places = plan->traces[0].n_places;
  }
  if (status == HR_OK) status = plan_show(plan, err);
  for (size_t i = 0; i < plan->n_traces; i++)
    hr__torch_trace_fini(&plan->traces[i]);
  return status;
}
