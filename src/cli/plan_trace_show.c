/* A plan of traces for people and as JSON. See plan_trace.h. */
#include <inttypes.h>
#include <string.h>

#include "cli/figures.h"
#include "cli/plan_trace.h"
#include "format/json.h"

enum { SHOWN = 8, NAME = 52 };

static const char *call_at(const hr_torch_result *r, const hr_torch_moment *moment) {
  const hr_torch_event *event = moment->event == SIZE_MAX ? NULL : &r->events->items[moment->event];
  return event && event->kind == HR_TORCH_ALLOCATE ? r->events->names[event->call] : "";
}

static const char *owner_at(const hr_torch_result *r, const hr_torch_moment *moment) {
  const hr_torch_event *event = moment->event == SIZE_MAX ? NULL : &r->events->items[moment->event];
  return event && event->kind == HR_TORCH_ALLOCATE ? r->events->names[event->owner] : "";
}

/* "backward of step 2, aten::mm of model.layers.0" */
static void moment_print(const hr_torch_result *r, const hr_torch_moment *moment) {
  char call[NAME], owner[NAME];
  if (moment->event == SIZE_MAX) return;
  printf("%s", hr__torch_phase_name(moment->phase));
  if (moment->step > 0) printf(" of step %" PRIu32, moment->step);
  hr__text_escape(call_at(r, moment), strlen(call_at(r, moment)), call, sizeof call);
  hr__text_escape(owner_at(r, moment), strlen(owner_at(r, moment)), owner, sizeof owner);
  if (call[0]) printf(", %s", call);
  if (owner[0]) printf(" of %s", owner);
}

static void shares_print(const hr_trace_plan *plan, const char *title, const hr_torch_share *shares, size_t count,
                         uint64_t total) {
  hr_style style = hr__cli_style(plan->cli, stdout);
  printf("\n%s  %-*s %12s %8s%s\n", style.bold, NAME, title, "bytes", "tensors", style.end);
  uint64_t rest = 0;
  size_t tensors = 0;
  char name[NAME], size[HR_SIZE_TEXT];
  for (size_t i = 0; i < count; i++) {
    if (i >= SHOWN) {
      rest += shares[i].bytes;
      tensors += shares[i].count;
      continue;
    }
    const char *text = shares[i].name[0] ? shares[i].name : "(no module)";
    hr__text_escape(text, strlen(text), name, sizeof name);
    printf("  %-*s %12s %8zu", NAME, name, hr__size_text(shares[i].bytes, size), shares[i].count);
    hr__bar_print((double)shares[i].bytes / (double)(total ? total : 1), 12, stdout);
    putchar('\n');
  }
  if (rest > 0) printf("  %-*s %12s %8zu\n", NAME, "all others", hr__size_text(rest, size), tensors);
}

static void categories_print(const hr_torch_moment *moment) {
  char size[HR_SIZE_TEXT];
  for (int i = 0; i < HR_TORCH_CATEGORIES; i++)
    if (moment->categories[i] > 0)
      printf("    %-12s %12s\n", hr__torch_category_name((hr_torch_category)i),
             hr__size_text(moment->categories[i], size));
}

static void verdict_print(const hr_trace_plan *plan, const hr_trace_answer *a) {
  hr_style style = hr__cli_style(plan->cli, stdout);
  char left[HR_SIZE_TEXT], usable[HR_SIZE_TEXT], margin[HR_SIZE_TEXT];
  if (a->target.usable_bytes == UINT64_MAX) return;
  int64_t free_bytes = (int64_t)a->target.usable_bytes - (int64_t)a->target.margin_bytes - (int64_t)a->driver_bytes;
  printf("%s%s%s on %s: %s usable, %s of it left as a margin, %s %s\n", a->fits ? style.green : style.red,
         a->fits ? "fits" : "does not fit", style.end, a->target.label, hr__size_text(a->target.usable_bytes, usable),
         hr__size_text(a->target.margin_bytes, margin),
         hr__size_text((uint64_t)(free_bytes < 0 ? -free_bytes : free_bytes), left),
         free_bytes < 0 ? "too much" : "left");
  if (!a->limited) return;
  if (a->gets_through)
    printf("  PyTorch would get through by giving cached memory back %zu times, which takes time\n",
           a->at_limit.retries);
  else {
    printf("  it runs out of memory in ");
    moment_print(&a->at_limit, &a->at_limit.failed);
    printf("\n");
  }
}

void hr__trace_print(const hr_trace_plan *plan, const hr_trace_answer *a) {
  hr_style style = hr__cli_style(plan->cli, stdout);
  const hr_torch_result *r = &a->result;
  char size[HR_SIZE_TEXT], name[NAME];
  hr__text_escape(plan->traces[0].path, strlen(plan->traces[0].path), name, sizeof name);
  printf("%s%s%s", style.bold, name, style.end);
  if (plan->n_traces > 1) printf(" and %zu more", plan->n_traces - 1);
  hr__text_escape(plan->traces[0].version, strlen(plan->traces[0].version), name, sizeof name);
  printf(": PyTorch %s", name);
  if (a->batch) printf(", batch %" PRIu64, a->batch);
  printf(", %zu events\n\n", r->events->count);
  verdict_print(plan, a);
  printf("\n%s  %-10s %12s  %s%s\n", style.bold, "peak", "bytes", "when", style.end);
  printf("  %-10s %12s  ", "allocated", hr__size_text(r->allocated.use.allocated_bytes, size));
  moment_print(r, &r->allocated);
  printf("\n");
  categories_print(&r->allocated);
  printf("  %-10s %12s  ", "reserved", hr__size_text(r->reserved.use.reserved_bytes, size));
  moment_print(r, &r->reserved);
  printf("\n  %-10s %12s  with %s of context and libraries%s\n", "driver", hr__size_text(a->driver_bytes, size),
         hr__size_text(a->target.context.bytes, name), a->target.context.measured ? "" : " (an estimate)");
  if (plan->traces[0].recorded_bytes)
    printf("  %-10s %12s  reserved on the GPU that it was recorded on\n", "recorded",
           hr__size_text(plan->traces[0].recorded_bytes, size));
  shares_print(plan, "module, when most is allocated", a->owners, a->n_owners, r->allocated.use.allocated_bytes);
  shares_print(plan, "call, when most is allocated", a->calls, a->n_calls, r->allocated.use.allocated_bytes);
}

static void remark(const hr_trace_plan *plan, const char *text) {
  hr__cli_tell(plan->cli, stderr, "", "remark:", text);
}

void hr__trace_remarks(const hr_trace_plan *plan, const hr_trace_target *target) {
  const hr_torch_trace *trace = &plan->traces[0];
  char text[512];
  enum { EACH = 4 };
  bool recorded = trace->capability == 0;
  if (trace->n_guesses || trace->n_unmodelled || plan->scaling.bent) fputc('\n', stderr);
  for (size_t i = 0; i < trace->n_guesses && i < EACH; i++)
    remark(plan, trace->guesses[i]);
  for (size_t i = 0; i < trace->n_unmodelled && i < EACH; i++)
    remark(plan, trace->unmodelled[i]);
  if (trace->n_guesses > EACH || trace->n_unmodelled > EACH) remark(plan, "the file names more of them");
  if (plan->scaling.bent) {
    snprintf(text, sizeof text,
             "%zu allocations do not grow along a line with the batch: between traces it is an estimate",
             plan->scaling.bent);
    remark(plan, text);
  }
  if (target->gpu && !recorded && target->gpu->capability / 10 != trace->capability / 10) {
    snprintf(text, sizeof text,
             "traced for compute capability %d.%d, the %s has %d.%d: kernels of attention may differ (torch_trace.py "
             "--capability)",
             trace->capability / 10, trace->capability % 10, target->label, target->gpu->capability / 10,
             target->gpu->capability % 10);
    remark(plan, text);
  }
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static json_t *moment_json(const hr_torch_result *r, const hr_torch_moment *moment) {
  if (moment->event == SIZE_MAX) return json_null();
  json_t *categories = json_object();
  for (int i = 0; i < HR_TORCH_CATEGORIES; i++)
    json_object_set_new(categories, hr__torch_category_name((hr_torch_category)i),
                        json_integer((json_int_t)moment->categories[i]));
  return json_pack("{s:I, s:I, s:s, s:I, s:o, s:o, s:o}", "allocated_bytes", (json_int_t)moment->use.allocated_bytes,
                   "reserved_bytes", (json_int_t)moment->use.reserved_bytes, "phase",
                   hr__torch_phase_name(moment->phase), "step", (json_int_t)moment->step, "call",
                   hr__json_string(call_at(r, moment)), "module", hr__json_string(owner_at(r, moment)), "categories",
                   categories);
}

static json_t *shares_json(const hr_torch_share *shares, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(list, json_pack("{s:o, s:I, s:I}", "name", hr__json_string(shares[i].name), "bytes",
                                          (json_int_t)shares[i].bytes, "tensors", (json_int_t)shares[i].count));
  return list;
}

static json_t *peaks_json(const hr_torch_result *r) {
  json_t *phases = json_object();
  for (int i = 0; i < HR_TORCH_PHASES; i++)
    json_object_set_new(phases, hr__torch_phase_name((hr_torch_phase)i),
                        json_pack("{s:I, s:I}", "allocated_bytes", (json_int_t)r->phases[i].allocated_bytes,
                                  "reserved_bytes", (json_int_t)r->phases[i].reserved_bytes));
  return phases;
}

static json_t *steps_json(const hr_torch_result *r) {
  json_t *steps = json_array();
  for (size_t i = 0; i < r->n_steps; i++)
    json_array_append_new(steps, json_pack("{s:I, s:I}", "allocated_bytes", (json_int_t)r->steps[i].allocated_bytes,
                                           "reserved_bytes", (json_int_t)r->steps[i].reserved_bytes));
  return steps;
}

static json_t *texts_json(const char **texts, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(list, hr__json_string(texts[i]));
  return list;
}

static json_t *torch_json(const hr_trace_plan *plan, const hr_trace_answer *a) {
  const hr_torch_result *r = &a->result;
  const hr_torch_trace *trace = &plan->traces[0];
  json_t *categories = json_object();
  for (int i = 0; i < HR_TORCH_CATEGORIES; i++)
    json_object_set_new(categories, hr__torch_category_name((hr_torch_category)i),
                        json_integer((json_int_t)r->allocated.categories[i]));
  json_t *torch = json_pack(
      "{s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:o}", "allocated_bytes", (json_int_t)r->allocated.use.allocated_bytes,
      "requested_bytes", (json_int_t)r->requested_bytes, "reserved_bytes", (json_int_t)r->reserved.use.reserved_bytes,
      "driver_bytes", (json_int_t)a->driver_bytes, "context_bytes", (json_int_t)a->target.context.bytes,
      "context_measured", a->target.context.measured, "phase", hr__torch_phase_name(r->allocated.phase), "categories",
      categories);
  json_t *more = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "at_allocated", moment_json(r, &r->allocated),
                           "at_reserved", moment_json(r, &r->reserved), "phases", peaks_json(r), "steps", steps_json(r),
                           "owners", shares_json(a->owners, a->n_owners), "calls", shares_json(a->calls, a->n_calls),
                           "guesses", texts_json(trace->guesses, trace->n_guesses), "unmodelled",
                           texts_json(trace->unmodelled, trace->n_unmodelled));
  if (torch == NULL || more == NULL || json_object_update_missing(torch, more) != 0) {
    json_decref(torch);
    torch = NULL;
  }
  json_decref(more);
  return torch;
}

json_t *hr__trace_json(const hr_trace_plan *plan, const hr_trace_answer *a) {
  bool limit = a->target.usable_bytes != UINT64_MAX;
  const hr_torch_trace *trace = &plan->traces[0];
  json_t *device = json_pack("{s:o, s:o, s:I}", "name", a->target.gpu ? hr__json_string(a->target.label) : json_null(),
                             "budget_bytes", limit ? json_integer((json_int_t)a->target.usable_bytes) : json_null(),
                             "margin_bytes", (json_int_t)a->target.margin_bytes);
  json_t *out_of_memory = a->limited && !a->gets_through ? moment_json(&a->at_limit, &a->at_limit.failed) : json_null();
  return json_pack("{s:i, s:b, s:{s:o, s:o, s:o, s:I}, s:o, s:o, s:o, s:I, s:b, s:o}", "schema", 1, "fits", a->fits,
                   "trace", "path", hr__json_string(trace->path), "source", hr__json_string(trace->source), "version",
                   hr__json_string(trace->version), "events", (json_int_t)a->result.events->count, "batch",
                   a->batch ? json_integer((json_int_t)a->batch) : json_null(), "device", device, "torch",
                   torch_json(plan, a), "bent", (json_int_t)plan->scaling.bent, "gets_through",
                   a->fits || a->gets_through, "out_of_memory", out_of_memory);
}
