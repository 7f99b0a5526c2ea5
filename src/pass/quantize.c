/* The quantize pass: frozen weights that only linears read are held as NF4 codes with their scales (op/nf4.h), and
 * unpacked into a value of the node's own before every forward use. What backward needs of it is unpacked again by the
 * checkpoint pass: the op is never_saved.
 */
#include <stdio.h>
#include <string.h>

#include "op/linear.h"
#include "op/nf4.h"
#include "pass/adapters.h"
#include "pass/pass.h"

#define SECTION "*.quantize"

static const hr_key keys[] = {
    {.path = SECTION ".kind",
     .type = HR_KEY_CHOICE,
     .choices = "nf4",
     .meaning = "nf4: 4 bits an element in blocks of 64, for frozen weights"},
    {.path = SECTION ".double",
     .type = HR_KEY_BOOL,
     .meaning = "the scales of blocks are quantized as well: 4.127 bits an element, not 4.5 (default: true)"},
    {.path = SECTION ".targets",
     .type = HR_KEY_TEXTS,
     .meaning = "names of linear modules, * for any text; all-linear: every one but the head (default: all-linear)"},
};
const hr_key_table hr_quantize_keys = {keys, sizeof keys / sizeof *keys};

/* What the nodes of all programs do with a value. */
typedef struct use {
  bool targeted;  /* the weight of a linear that a target names */
  bool otherwise; /* anything else than the weight of such a linear */
} use;

/* The settings of a part; without targets it has none. */
typedef struct packing {
  const char *const *targets;
  size_t n_targets;
  bool nested;
} packing;

static use *uses_find(hr_graph *g, const hr_model_parts *parts, const packing *of) {
  use *uses = hr__arena_array(&g->arena, g->n_values, sizeof *uses);
  for (size_t n = 0; uses && n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    size_t p = hr__parts_of(parts, node->module);
    const packing *here = &of[p];
    bool target =
        hr__linear_is_target(parts, p, node) && hr__targets_match(here->targets, here->n_targets, node->module);
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] == HR_NONE) continue;
      if (target && i == 1)
        uses[node->in[i]].targeted = true;
      else
        uses[node->in[i]].otherwise = true;
    }
  }
  return uses;
}

static hr_id part_declare(hr_builder *b, hr_id parameter, const char *part, hr_dtype dtype, int64_t count) {
  const char *name = hr__arena_format(&b->graph->arena, "%s.%s", b->graph->values[parameter].name, part);
  if (!name) {
    b->status = hr__nomem(&b->error);
    return HR_NONE;
  }
  hr_id id = hr__persistent(b, name, HR_ROLE_PARAMETER, hr__desc1(dtype, count), (hr_init){.rule = HR_INIT_ZERO});
  if (id != HR_NONE) hr__belongs(b->graph, id, parameter);
  return id;
}

/* Declares the parts of a packed parameter; its own storage is given up. */
static hr_status parameter_pack(hr_builder *b, hr_id parameter, bool nested, hr_error *err) {
  hr_graph *g = b->graph;
  const hr_value source = g->values[parameter];
  int64_t count = hr_desc_count(&source.desc), blocks = hr__nf4_blocks(count);
  if (hr__arena_grow(&g->arena, (void **)&g->packed, &g->cap_packed, g->n_packed, sizeof *g->packed) != 0)
    return hr__nomem(err);
  hr_packed *packed = &g->packed[g->n_packed++];
  *packed = (hr_packed){.name = source.name,
                        .desc = source.desc,
                        .init = source.init,
                        .nested_absmax = HR_NONE,
                        .nested_offset = HR_NONE};
  packed->codes = part_declare(b, parameter, "nf4", HR_U8, (count + 1) / 2);
  packed->absmax = part_declare(b, parameter, "absmax", nested ? HR_U8 : HR_F32, blocks);
  if (nested) {
    int64_t outer = (blocks + HR_NF4_NESTED - 1) / HR_NF4_NESTED;
    packed->nested_absmax = part_declare(b, parameter, "nested_absmax", HR_F32, outer);
    packed->nested_offset = part_declare(b, parameter, "nested_offset", HR_F32, 1);
  }
  g->values[parameter].producer = HR_DROPPED;
  hr_buffer *buffer = &g->buffers[source.buffer];
  buffer->persistent = false;
  buffer->program = 0;
  buffer->role = HR_ROLE_ACTIVATION;
  return hr__builder_status(b, err);
}

/* An unpacking node before every linear whose weight is packed; `packed` is per value, 1 + its number. */
static hr_status uses_unpack(hr_builder *b, const size_t *packed, size_t n_values, hr_error *err) {
  hr_graph *g = b->graph;
  size_t n_nodes = g->n_nodes, count = 0;
  hr_id *order = hr__arena_array(&g->arena, 2 * n_nodes, sizeof *order);
  if (!order) return hr__nomem(err);
  for (hr_id n = 0; n < n_nodes; n++) {
    const hr_node node = g->nodes[n];
    if (node.op == &hr_op_linear && node.in[1] < n_values && packed[node.in[1]]) {
      const hr_packed *p = &g->packed[packed[node.in[1]] - 1];
      hr_id *in = hr__arena_array(&g->arena, (size_t)node.n_in, sizeof *in);
      if (!in) return hr__nomem(err);
      b->program = node.program;
      b->block = node.block;
      b->phase = node.phase;
      b->module = node.module;
      order[count++] = (hr_id)g->n_nodes;
      memcpy(in, node.in, (size_t)node.n_in * sizeof *in);
      in[1] = hr__nf4_unpack(b, p->codes, p->absmax, p->nested_absmax, p->nested_offset, p->desc);
      HR_TRY(hr__builder_status(b, err));
      g->nodes[n].in = in;
    }
    order[count++] = n;
  }
  return hr__graph_arrange(g, order, count, err);
}

/* Whether any part has such a section. */
static hr_status packings_read(const hr_graph *g, const hr_model_parts *parts, packing *of, bool *any, hr_error *err) {
  static const char *const all[] = {"all-linear"};
  for (size_t p = 0; p < parts->count; p++) {
    const hr_scope *scope = &parts->part[p].scope;
    if (!hr__scope_given(scope, "quantize")) continue;
    of[p] = (packing){.targets = all, .n_targets = 1, .nested = true};
    *any = true;
    if (hr__scope_has(scope, "quantize.targets"))
      of[p].targets = hr__scope_texts(scope, "quantize.targets", &of[p].n_targets);
    if (hr__scope_has(scope, "quantize.double")) of[p].nested = hr__scope_bool(scope, "quantize.double");
    HR_TRY(hr__targets_check(g, parts, p, "quantize.targets", of[p].targets, of[p].n_targets, err));
  }
  return HR_OK;
}

static hr_status trained_fail(const hr_model_part *part, const hr_value *value, hr_error *err) {
  char remedy[2 * HR_SECTION_TEXT + 96];
  const char *section = part->scope.section;
  snprintf(remedy, sizeof remedy, "add %s.adapters, which freezes it, or remove %s.quantize", section, section);
  return hr__scope_fail(&part->scope, "quantize", remedy, err, "NF4 is for frozen weights, but %s would be trained",
                        value->name);
}

hr_status hr__pass_quantize(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)choices;
  hr_graph *g = b->graph;
  hr_model_parts parts;
  packing of[1 + HR_MODEL_PARTS] = {{0}};
  size_t n_values = g->n_values;
  bool any = false;
  hr__parts_read(recipe, &parts);
  HR_TRY(packings_read(g, &parts, of, &any, err));
  if (!any) return HR_OK;
  const use *uses = uses_find(g, &parts, of);
  size_t *packed = hr__arena_array(&g->arena, n_values, sizeof *packed);
  if (!uses || !packed) return hr__nomem(err);
  for (hr_id v = 0; v < n_values; v++) {
    const hr_value *value = &g->values[v];
    bool parameter = value->producer == HR_NONE && g->buffers[value->buffer].role == HR_ROLE_PARAMETER;
    if (!parameter || value->keep_f32 || !uses[v].targeted || uses[v].otherwise) continue;
    size_t p = hr__parts_of(&parts, value->name);
    if (value->trained) return trained_fail(&parts.part[p], value, err);
    HR_TRY(parameter_pack(b, v, of[p].nested, err));
    packed[v] = g->n_packed;
  }
  return uses_unpack(b, packed, n_values, err);
}
