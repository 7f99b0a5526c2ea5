/* Dumps of a graph: text for people and golden files, JSON for programs. */
#include <inttypes.h>

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
    fprintf(to, "  %-10s %s %s\n", hr_role_name(b->role), v->name, shape);
  }
  for (size_t p = 0; p < graph->n_programs; p++) dump_program(graph, to, &graph->programs[p]);
  if (ferror(to)) return hr__fail(err, HR_IO, "dump", NULL, "could not write the dump");
  return HR_OK;
}

static json_t *desc_json(const hr_desc *desc) {
  json_t *shape = json_array();
  for (int i = 0; i < desc->rank; i++) json_array_append_new(shape, json_integer(desc->dim[i]));
  return json_pack("{s:s, s:o}", "dtype", hr_dtype_name(desc->dtype), "shape", shape);
}

static json_t *operands_json(const hr_id *ids, int count) {
  json_t *list = json_array();
  for (int i = 0; i < count; i++)
    json_array_append_new(list, ids[i] == HR_NONE ? json_null() : json_integer((json_int_t)ids[i]));
  return list;
}

static json_t *program_json(const hr_graph *g, const hr_program *p) {
  json_t *nodes = json_array(), *outputs = json_object();
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    const hr_node *node = &g->nodes[n];
    json_t *block = node->block == HR_NONE ? json_null() : json_string(g->blocks[node->block].name);
    json_array_append_new(nodes, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "op", node->op->name, "module", node->module,
                                           "phase", hr_phase_name(node->phase), "block", block, "in",
                                           operands_json(node->in, node->n_in), "out",
                                           operands_json(node->out, node->n_out)));
  }
  for (int i = 0; i < p->n_outputs; i++)
    json_object_set_new(outputs, p->output[i].name, json_integer((json_int_t)p->output[i].value));
  return json_pack("{s:s, s:o, s:o}", "name", p->name, "nodes", nodes, "outputs", outputs);
}

json_t *hr__graph_json(const hr_graph *graph) {
  json_t *values = json_array(), *programs = json_array();
  for (size_t i = 0; i < graph->n_values; i++) {
    const hr_value *v = &graph->values[i];
    const hr_buffer *b = &graph->buffers[v->buffer];
    json_t *item = desc_json(&v->desc);
    json_object_set_new(item, "id", json_integer((json_int_t)i));
    json_object_set_new(item, "name", json_string(v->name));
    json_object_set_new(item, "buffer", json_integer((json_int_t)v->buffer));
    json_object_set_new(item, "role", json_string(hr_role_name(b->role)));
    json_object_set_new(item, "persistent", json_boolean(b->persistent));
    json_array_append_new(values, item);
  }
  for (size_t p = 0; p < graph->n_programs; p++)
    json_array_append_new(programs, program_json(graph, &graph->programs[p]));
  return json_pack("{s:i, s:o, s:o}", "schema", 1, "values", values, "programs", programs);
}
