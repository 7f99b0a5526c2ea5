/* Dumps of a graph: text for people and golden files, JSON for programs. */
#include <inttypes.h>

#include "format/json.h"
#include "graph/graph.h"

static void shape_text(const hr_desc *desc, char text[128]) {
  int used = snprintf(text, 128, "%s[", hr_dtype_name(desc->dtype));
  for (int i = 0; i < desc->rank; i++)
    used += snprintf(text + used, 128 - (size_t)used, "%s%" PRId64, i ? "," : "", desc->dim[i]);
  snprintf(text + used, 128 - (size_t)used, "]");
}

static void dump_operands(const hr_graph *g, FILE *to, const hr_id *ids, int count, bool shapes) {
  for (int i = 0; i < count; i++) {
    fputs(i ? ", " : "", to);
    if (ids[i] == HR_NONE) {
      fputs("-", to);
      continue;
    }
    const hr_value *v = &g->values[ids[i]];
    char shape[128];
    shape_text(&v->desc, shape);
    if (v->producer == HR_NONE)
      fprintf(to, "%s", v->name);
    else
      fprintf(to, "%%%u", ids[i]);
    if (shapes) fprintf(to, " %s", shape);
    if (shapes && g->buffers[v->buffer].persistent) fprintf(to, " in %s", g->buffers[v->buffer].name);
  }
}

static void dump_program(const hr_graph *g, FILE *to, const hr_program *p) {
  fprintf(to, "program %s: %u nodes\n", p->name, p->count);
  hr_id block = HR_NONE;
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->block != block) {
      block = node->block;
      fprintf(to, "  block %s\n", block == HR_NONE ? "-" : g->blocks[block].name);
    }
    fprintf(to, "    %-8s %-40s ", hr_phase_name(node->phase), node->module);
    dump_operands(g, to, node->out, node->n_out, true);
    fprintf(to, " = %s(", node->op->name);
    dump_operands(g, to, node->in, node->n_in, false);
    fputs(")\n", to);
  }
  for (int i = 0; i < p->n_outputs; i++) {
    fprintf(to, "  output %s = ", p->output[i].name);
    dump_operands(g, to, &p->output[i].value, 1, false);
    fputs("\n", to);
  }
}

hr_status hr__graph_dump_text(const hr_graph *graph, FILE *to, hr_error *err) {
  fputs("persistent\n", to);
  for (size_t i = 0; i < graph->n_values; i++) {
    const hr_value *v = &graph->values[i];
    const hr_buffer *b = &graph->buffers[v->buffer];
    if (v->producer != HR_NONE || !b->persistent) continue;
    char shape[128];
    shape_text(&v->desc, shape);
    bool member = v->base != HR_NONE && hr__graph_is_tensor(graph, (hr_id)i);
    fprintf(to, "  %-10s %s %s\n", member ? "- member" : hr_role_name(b->role), v->name, shape);
  }
  for (size_t p = 0; p < graph->n_programs; p++)
    dump_program(graph, to, &graph->programs[p]);
  if (ferror(to)) return hr__fail(err, HR_IO, "dump", NULL, "could not write the dump");
  return HR_OK;
}

/* Hands the object on, or gives it up after a failure. */
static json_t *json_unless(int failed, json_t *object) {
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

static json_t *shape_json(const hr_desc *desc) {
  json_t *shape = json_array();
  int failed = shape == NULL;
  for (int i = 0; i < desc->rank && !failed; i++)
    failed = json_array_append_new(shape, json_integer(desc->dim[i]));
  return json_unless(failed, shape);
}

static json_t *value_json(const hr_graph *g, hr_id id) {
  const hr_value *v = &g->values[id];
  const hr_buffer *b = &g->buffers[v->buffer];
  return json_pack("{s:s, s:o, s:I, s:s, s:I, s:s, s:b}", "dtype", hr_dtype_name(v->desc.dtype), "shape",
                   shape_json(&v->desc), "id", (json_int_t)id, "name", v->name, "buffer", (json_int_t)v->buffer, "role",
                   hr_role_name(b->role), "persistent", b->persistent);
}

static json_t *operands_json(const hr_id *ids, int count) {
  json_t *list = json_array();
  int failed = list == NULL;
  for (int i = 0; i < count && !failed; i++)
    failed = json_array_append_new(list, ids[i] == HR_NONE ? json_null() : json_integer((json_int_t)ids[i]));
  return json_unless(failed, list);
}

static json_t *node_json(const hr_graph *g, const hr_node *node) {
  return json_pack("{s:s, s:s, s:s, s:s?, s:o, s:o}", "op", node->op->name, "module", node->module, "phase",
                   hr_phase_name(node->phase), "block", node->block == HR_NONE ? NULL : g->blocks[node->block].name,
                   "in", operands_json(node->in, node->n_in), "out", operands_json(node->out, node->n_out));
}

static json_t *program_json(const hr_graph *g, const hr_program *p) {
  json_t *object =
      json_pack("{s:s, s:s, s:i, s:i, s:[], s:{}}", "name", p->name, "kind", hr_program_kind_name(p->key.kind),
                "bucket", p->key.bucket, "stage", p->key.stage, "nodes", "outputs");
  json_t *nodes = json_object_get(object, "nodes"), *outputs = json_object_get(object, "outputs");
  int failed = object == NULL;
  for (hr_id n = p->first; n < p->first + p->count && !failed; n++)
    failed = json_array_append_new(nodes, node_json(g, &g->nodes[n]));
  for (int i = 0; i < p->n_outputs && !failed; i++)
    failed = json_object_set_new(outputs, p->output[i].name, json_integer((json_int_t)p->output[i].value));
  return json_unless(failed, object);
}

/* Dropped values, and transient ones that no program touches, say nothing about the graph. */
static bool value_listed(const hr_graph *g, const hr_value *v) {
  const hr_buffer *b = &g->buffers[v->buffer];
  return v->producer != HR_DROPPED && (b->persistent || b->programs != 0);
}

json_t *hr__graph_json(const hr_graph *graph) {
  hr__json_init();
  json_t *object = json_pack("{s:i, s:[], s:[]}", "schema", 1, "values", "programs");
  json_t *values = json_object_get(object, "values"), *programs = json_object_get(object, "programs");
  int failed = object == NULL;
  for (hr_id v = 0; v < graph->n_values && !failed; v++)
    if (value_listed(graph, &graph->values[v])) failed = json_array_append_new(values, value_json(graph, v));
  for (size_t p = 0; p < graph->n_programs && !failed; p++)
    failed = json_array_append_new(programs, program_json(graph, &graph->programs[p]));
  return json_unless(failed, object);
}
