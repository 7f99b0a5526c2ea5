/* The nodes of a program, and its streams. See laying.h. */
#include <math.h>

#include "format/json.h"
#include "plan/timeline.h"
#include "report/laying.h"

static hr_status nodes_json(hr_laying *l, const hr_program *program, json_t **out) {
  hr_name_column op = {0}, module = {0};
  hr_column phase = {0};
  hr_status status = HR_OK;
  for (hr_id n = program->first; n < program->first + program->count && status == HR_OK; n++) {
    const hr_node *node = &l->plan->graph->nodes[n];
    status = hr__names_add(&l->names, node->op->name, &op, l->err);
    if (status == HR_OK) status = hr__names_add(&l->names, node->module, &module, l->err);
    hr__column_add(&phase, node->phase);
  }
  *out = json_pack("{s:o,s:o,s:o}", "op", hr__name_column_end(&op), "module", hr__name_column_end(&module), "phase",
                   hr__column_end(&phase));
  if (status == HR_OK && !*out) status = hr__nomem(l->err);
  if (status != HR_OK) json_decref(*out);
  return status;
}

static uint64_t nanoseconds(double seconds) {
  return (uint64_t)llround(seconds * 1e9);
}

/* One stream: node, nanoseconds since the end of the span before, nanoseconds twice with a bit for waits. */
static json_t *stream_json(const hr_timeline *t, hr_stream_kind stream, hr_id first) {
  hr_column node = {0}, idle = {0}, length = {0};
  uint64_t at = 0;
  json_int_t count = 0;
  for (size_t i = 0; i < t->count; i++) {
    const hr_span *span = &t->spans[i];
    if (span->stream != stream) continue;
    uint64_t begin = nanoseconds(span->begin), end = nanoseconds(span->end);
    if (begin < at) begin = at; /* by rounding */
    if (end < begin) end = begin;
    hr__column_add_next(&node, span->node - first);
    hr__column_add(&idle, begin - at);
    hr__column_add(&length, (end - begin) << 1 | span->waits);
    at = end;
    count++;
  }
  return json_pack("{s:s,s:I,s:f,s:I,s:o,s:o,s:o}", "name", hr_stream_name(stream), "count", count, "busy_seconds",
                   t->busy[stream], "bytes", (json_int_t)t->bytes[stream], "node", hr__column_end(&node), "idle",
                   hr__column_end(&idle), "length", hr__column_end(&length));
}

static json_t *streams_json(const hr_timeline *t, hr_id first) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (int s = 0; s < HR_STREAMS && !failed; s++)
    failed = json_array_append_new(list, stream_json(t, (hr_stream_kind)s, first));
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

hr_status hr__layout_program(hr_laying *l, hr_id id, json_t **out) {
  const hr_program *program = &l->plan->graph->programs[id];
  const hr_program_plan *planned = &l->plan->programs[id];
  hr_timeline timeline;
  json_t *nodes = NULL;
  HR_TRY(hr__timeline(l->plan, &l->job->rates, id, &l->arena, &timeline, l->err));
  HR_TRY(nodes_json(l, program, &nodes));
  *out = json_pack("{s:o,s:I,s:I,s:f,s:f,s:f,s:o,s:o}", "name", hr__json_string(program->name), "nodes",
                   (json_int_t)program->count, "peak_node", (json_int_t)planned->peak_node, "seconds", planned->seconds,
                   "runs", hr__program_runs(program, l->job->shape.accumulation), "wait_seconds", timeline.wait_seconds,
                   "what", nodes, "streams", streams_json(&timeline, program->first));
  return *out ? HR_OK : hr__nomem(l->err);
}
