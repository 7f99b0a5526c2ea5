/* The precision pass: in which type every parameter is stored and every forward node computes.
 *
 * Models come in f32. By module name, precision_overrides before precision; those of a part before those of the model:
 *
 *   precision    nodes compute in    trained parameters    frozen parameters
 *   32-true      f32                 f32                   f32
 *   bf16-mixed   bf16                f32 (the masters)     bf16
 *   16-mixed     f16                 f32                   f16
 *   bf16-true    bf16                bf16                  bf16
 *
 * Modules that a family has declared `wide` are as with 32-true. Caches of keys and values are of the type that their
 * module computes in. Parameters marked `wide` are f32 always. What an op lists in `computes` (activations, all
 * operands of products) is brought into the node's type by a `copy`, one per value, type and program; weights of norms
 * and embedding tables are read as they are stored. Ops compute in f32 inside whatever the storage, and grad makes
 * gradients of parameters in the parameter's own type from 16-bit operands (graph/adjoint.h).
 */
#include <string.h>

#include "base/text.h"
#include "model/features.h"
#include "op/copy.h"
#include "pass/pass.h"

#define OVERRIDES "precision_overrides"

typedef struct precision {
  const char *name;
  hr_dtype compute;
  bool masters; /* trained parameters are f32 */
} precision;

static const precision precisions[] = {
    {"32-true", HR_F32, false},
    {"bf16-mixed", HR_BF16, true},
    {"16-mixed", HR_F16, true},
    {"bf16-true", HR_BF16, false},
};
static const char choices[] = "one of: 32-true, bf16-mixed, 16-mixed, bf16-true";

typedef struct rule {
  size_t part;             /* whose rule it is; 0: of all */
  const hr_doc_node *node; /* its key is the pattern */
  const precision *precision;
  bool used;
} rule;

/* A copy stands right before or right behind a node of the model. */
typedef struct chain {
  hr_id before, behind; /* first copy there, or HR_NONE */
} chain;

typedef struct typing {
  hr_builder *b;
  hr_model_parts parts;
  const precision *general[1 + HR_MODEL_PARTS]; /* per part */
  rule *rules;                                  /* those of the whole model last */
  size_t n_rules, cap_rules;
  size_t n_values, n_nodes; /* of the model as it came */
  hr_id *copies;            /* [HR_DTYPE_COUNT][n_values]: the copy of a value in a type, in the program at hand */
  chain *chains;            /* per node of the model */
  hr_id *next;              /* per node: next copy of its chain */
} typing;

static const precision *precision_find(const char *name) {
  for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
    if (strcmp(precisions[i].name, name) == 0) return &precisions[i];
  return NULL;
}

static const char *overrides_path(const typing *t, size_t part, char out[HR_SCOPE_PATH]) {
  return hr__scope_path(&t->parts.part[part].scope, OVERRIDES, out);
}

static hr_status part_read(typing *t, size_t part, hr_error *err) {
  char path[HR_SCOPE_PATH];
  const hr_scope *scope = &t->parts.part[part].scope;
  t->general[part] = precision_find(hr__scope_precision(scope));
  if (!hr__scope_has(scope, OVERRIDES)) return HR_OK;
  const hr_doc_node *tree = hr__recipe_tree(scope->recipe, overrides_path(t, part, path));
  if (tree->kind != HR_DOC_MAP)
    return hr__scope_fail(scope, OVERRIDES, "write for example { lm_head: 32-true }", err,
                          "%s must be a map from patterns of module names to precisions", path);
  for (const hr_doc_node *node = tree->child; node; node = node->next) {
    const precision *p = node->kind == HR_DOC_SCALAR ? precision_find(node->text) : NULL;
    if (!p)
      return hr__recipe_fail_at(scope->recipe, path, node, choices, err,
                                "\"%.60s\" is not a precision (pattern \"%.100s\")",
                                node->kind == HR_DOC_SCALAR ? node->text : "a map or list", node->key);
    if (hr__arena_grow(&t->b->graph->arena, (void **)&t->rules, &t->cap_rules, t->n_rules, sizeof *t->rules) != 0)
      return hr__nomem(err);
    t->rules[t->n_rules++] = (rule){.part = part, .node = node, .precision = p};
  }
  return HR_OK;
}

static hr_status rules_read(typing *t, const hr_recipe *recipe, hr_error *err) {
  hr__parts_read(recipe, &t->parts);
  for (size_t i = 1; i <= t->parts.count; i++)
    HR_TRY(part_read(t, i % t->parts.count, err));
  return HR_OK;
}

/* Whether a family has said that a module computes in f32 always: that of the whole model, or of the part it is in. */
static bool patterns_fit(const char *const *pattern, const char *module) {
  while (pattern && *pattern && !hr__name_matches(module, *pattern))
    pattern++;
  return pattern && *pattern;
}

static bool module_is_wide(const typing *t, size_t part, const char *module) {
  return patterns_fit(t->parts.part[0].model->wide, module) ||
         (part > 0 && patterns_fit(t->parts.part[part].model->wide, module));
}

static const precision *precision_of(typing *t, const char *module) {
  size_t part = hr__parts_of(&t->parts, module);
  if (module_is_wide(t, part, module)) return &precisions[0];
  for (size_t i = 0; i < t->n_rules; i++) {
    if (t->rules[i].part != 0 && t->rules[i].part != part) continue;
    if (!hr__name_matches(module, t->rules[i].node->key)) continue;
    t->rules[i].used = true;
    return t->rules[i].precision;
  }
  return t->general[part];
}

/* The precision of the module that a parameter belongs to: its name without the last component. */
static hr_status parameter_precision(typing *t, const char *name, const precision **out, hr_error *err) {
  char *module = hr__arena_text(&t->b->graph->arena, name);
  if (!module) return hr__nomem(err);
  char *dot = strrchr(module, '.');
  if (dot) *dot = '\0';
  *out = precision_of(t, module);
  return HR_OK;
}

static bool dtype_is_float(hr_dtype dtype) {
  return (HR_DTYPE_BIT(dtype) & HR_FLOATS) != 0;
}

/* Values of a model are dense and alone in their buffers, but for the members of stacked ones. */
static void value_retype(hr_graph *g, hr_id value, hr_dtype dtype) {
  size_t was = hr_dtype_bytes(g->values[value].desc.dtype);
  for (hr_id i = 0; i <= g->values[value].members; i++) {
    hr_value *v = &g->values[value + i];
    v->desc.dtype = dtype;
    v->offset = v->offset / was * hr_dtype_bytes(dtype);
  }
  g->buffers[g->values[value].buffer].bytes = hr_desc_bytes(&g->values[value].desc);
}

static hr_status parameters_retype(typing *t, hr_error *err) {
  hr_graph *g = t->b->graph;
  for (hr_id v = 0; v < t->n_values; v++) {
    const hr_value *value = &g->values[v];
    const hr_buffer *buffer = &g->buffers[value->buffer];
    bool cache = buffer->role == HR_ROLE_CACHE;
    if (!buffer->persistent || (buffer->role != HR_ROLE_PARAMETER && !cache) || value->producer != HR_NONE) continue;
    if (value->base != HR_NONE) continue; /* a member: it follows */
    if (value->keep_f32 || !dtype_is_float(value->desc.dtype)) continue;
    const precision *p = NULL;
    HR_TRY(parameter_precision(t, value->name, &p, err));
    value_retype(g, v, value->trained && p->masters ? HR_F32 : p->compute);
  }
  return HR_OK;
}

static void chain_append(typing *t, hr_id *first, hr_id node) {
  t->next[node] = HR_NONE;
  while (*first != HR_NONE)
    first = &t->next[*first];
  *first = node;
}

/* A copy serves all slices of a split, so it belongs to what is around the slice of its first user. */
static hr_id block_around(const hr_graph *g, hr_id block) {
  while (block != HR_NONE && g->blocks[block].recompute)
    block = g->blocks[block].parent;
  return block;
}

/* The value in another type. A copy that narrows an activation stands behind its producer, so that the wide form dies
 * there. Copies of `wide` parameters, which are small, stand side by side at the beginning of the program, outside of
 * blocks, so that one launch makes them and they stay. Any other stands right before its first use. */
static hr_id value_convert(typing *t, hr_id value, hr_dtype dtype, hr_id user) {
  hr_graph *g = t->b->graph;
  hr_id *copy = &t->copies[(size_t)dtype * t->n_values + value];
  if (*copy != HR_NONE) return *copy;
  hr_id producer = g->values[value].producer;
  bool behind = producer != HR_NONE && hr_dtype_bytes(dtype) < hr_dtype_bytes(g->values[value].desc.dtype);
  bool early = g->values[value].keep_f32;
  hr_id anchor = behind ? producer : early ? g->programs[g->nodes[user].program].first : user;
  t->b->program = g->nodes[user].program;
  t->b->phase = g->nodes[anchor].phase;
  t->b->block = behind ? g->nodes[anchor].block : early ? HR_NONE : block_around(g, g->nodes[anchor].block);
  t->b->module = g->nodes[behind ? anchor : user].module;
  *copy = hr__copy(t->b, value, dtype);
  if (*copy == HR_NONE) return HR_NONE;
  chain_append(t, behind ? &t->chains[anchor].behind : &t->chains[anchor].before, g->values[*copy].producer);
  return *copy;
}

/* Types of a node's outputs by its op's rule, from the inputs as they are now. */
static hr_status outputs_retype(typing *t, hr_id n, hr_error *err) {
  hr_graph *g = t->b->graph;
  const hr_node *node = &g->nodes[n];
  size_t operands = (size_t)node->n_in + 2 * (size_t)node->n_out;
  hr_desc *storage = hr__arena_array(&g->arena, operands + 1, sizeof *storage);
  if (!storage) return hr__nomem(err);
  hr_op_view view = hr__node_view(g, node, storage);
  hr_desc *out = storage + node->n_in + node->n_out;
  hr_error why = {0};
  hr_status status = node->op->shape(&view, out, &why);
  if (status != HR_OK) return hr__fail(err, status, node->module, why.remedy, "%s: %s", node->op->name, why.message);
  for (int j = 0; j < node->n_out; j++)
    value_retype(g, node->out[j], out[j].dtype);
  return HR_OK;
}

static hr_status node_retype(typing *t, hr_id n, hr_error *err) {
  hr_graph *g = t->b->graph;
  hr_node node = g->nodes[n];
  hr_dtype compute = precision_of(t, node.module)->compute;
  hr_id *in = hr__arena_array(&g->arena, (size_t)node.n_in + 1, sizeof *in);
  if (!in) return hr__nomem(err);
  for (int i = 0; i < node.n_in; i++) {
    in[i] = node.in[i];
    if (in[i] == HR_NONE || !(node.op->computes & (1u << (node.op->variadic ? 0 : i)))) continue;
    hr_dtype has = g->values[in[i]].desc.dtype;
    if (has != compute && dtype_is_float(has)) in[i] = value_convert(t, in[i], compute, n);
  }
  HR_TRY(hr__builder_status(t->b, err));
  g->nodes[n].in = in;
  if (node.op == &hr_op_copy) { /* of a model in f32: it scales, it does not convert */
    hr_copy_args *args = hr__arena_alloc(&g->arena, sizeof *args);
    if (!args) return hr__nomem(err);
    *args = *(const hr_copy_args *)node.args;
    args->dtype = compute;
    g->nodes[n].args = args;
  }
  return outputs_retype(t, n, err);
}

static size_t chain_list(const typing *t, hr_id first, hr_id *order, size_t count) {
  for (; first != HR_NONE; first = t->next[first])
    order[count++] = first;
  return count;
}

static hr_status nodes_arrange(typing *t, hr_error *err) {
  hr_graph *g = t->b->graph;
  hr_id *order = hr__arena_array(&g->arena, g->n_nodes + 1, sizeof *order);
  if (!order) return hr__nomem(err);
  size_t count = 0;
  for (hr_id n = 0; n < t->n_nodes; n++) {
    count = chain_list(t, t->chains[n].before, order, count);
    order[count++] = n;
    count = chain_list(t, t->chains[n].behind, order, count);
  }
  return hr__graph_arrange(g, order, count, err);
}

static hr_status nodes_retype(typing *t, hr_error *err) {
  hr_graph *g = t->b->graph;
  size_t operands = 0;
  for (size_t n = 0; n < t->n_nodes; n++)
    operands += (size_t)g->nodes[n].n_in;
  t->copies = hr__arena_array(&g->arena, t->n_values * HR_DTYPE_COUNT + 1, sizeof *t->copies);
  t->chains = hr__arena_array(&g->arena, t->n_nodes + 1, sizeof *t->chains);
  t->next = hr__arena_array(&g->arena, t->n_nodes + operands + 1, sizeof *t->next);
  if (!t->copies || !t->chains || !t->next) return hr__nomem(err);
  for (hr_id n = 0; n < t->n_nodes; n++) {
    t->chains[n] = (chain){HR_NONE, HR_NONE};
    if (n == 0 || g->nodes[n].program != g->nodes[n - 1].program)
      for (size_t i = 0; i < t->n_values * HR_DTYPE_COUNT; i++)
        t->copies[i] = HR_NONE;
    HR_TRY(node_retype(t, n, err));
  }
  return nodes_arrange(t, err);
}

static hr_status rules_used(const typing *t, const hr_recipe *recipe, hr_error *err) {
  char path[HR_SCOPE_PATH];
  const hr_graph *g = t->b->graph;
  for (size_t i = 0; i < t->n_rules; i++) {
    const rule *one = &t->rules[i];
    if (one->used || hr__part_left_out(&t->parts, one->part, g) || hr__pattern_left_out(&t->parts, one->node->key, g))
      continue;
    return hr__recipe_fail_at(
        recipe, overrides_path(t, one->part, path), one->node,
        "`headroom dump RECIPE --after model` lists the modules; the first pattern that fits counts", err,
        "no module is left for the pattern \"%.100s\"", one->node->key);
  }
  return HR_OK;
}

hr_status hr__pass_precision(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices_made, hr_error *err) {
  (void)choices_made;
  typing t = {.b = b, .n_values = b->graph->n_values, .n_nodes = b->graph->n_nodes};
  HR_TRY(rules_read(&t, recipe, err));
  HR_TRY(parameters_retype(&t, err));
  HR_TRY(nodes_retype(&t, err));
  return rules_used(&t, recipe, err);
}
