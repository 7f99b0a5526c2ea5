/* The adapters pass (LoRA): every linear that a target names gets a second way of rank r around its frozen weight,
 *
 *   y = x Wt (+ bias) (+ residual);  h = dropout(x) At;  y = y + scale * h Bt      A [r, in], B [out, r]
 *
 * summed in place. Adapters stand behind their linear, so that in backward their gradients, which need x, are done
 * before the gradient of x by the linear, as large as x, is made. The adapters of a stacked linear's modules are
 * stacked as well, A [modules * r, in] and B [their rows, r], so that they take two nodes and not two each; they
 * drop the same elements of x. A and B are shared by all programs and stay f32 in every precision; the other parameters
 * of the model, or of the part that the adapters belong to, are frozen (pass/train.c), so that nothing of theirs is
 * kept, summed or updated. Programs that only evaluate do not drop.
 */
#include "pass/adapters.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "model/features.h"
#include "model/stack.h"
#include "op/linear.h"
#include "op/lora_down.h"
#include "op/lora_up.h"
#include "pass/pass.h"

#define SECTION "*.adapters"

static const hr_key keys[] = {
    {.path = SECTION ".kind",
     .type = HR_KEY_CHOICE,
     .choices = "lora",
     .meaning = "lora: two small matrices beside each target; the weights themselves are frozen"},
    {.path = SECTION ".path",
     .type = HR_KEY_PATH,
     .meaning = "folder of adapters as PEFT writes them, to begin with: rank, alpha, dropout and targets are theirs"},
    {.path = SECTION ".rank",
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1 << 16,
     .choices = "auto",
     .quality = true,
     .meaning = "width between the two matrices (default: 8); auto: of 8 to 64 the largest that fits"},
    {.path = SECTION ".alpha",
     .type = HR_KEY_FLOAT,
     .min = 1e-6,
     .max = 1e6,
     .meaning = "the adapter's output counts alpha / rank (default: rank)"},
    {.path = SECTION ".dropout",
     .type = HR_KEY_FLOAT,
     .min = 0,
     .max = 0.99,
     .meaning = "part of the adapter's input that is dropped in training (default: 0)"},
    {.path = SECTION ".targets",
     .type = HR_KEY_TEXTS,
     .meaning = "names of linear modules, * for any text; all-linear: every one but the head (default: those "
                "that are usual for the family)"},
    {.path = SECTION ".rank_stabilised",
     .type = HR_KEY_BOOL,
     .meaning = "alpha / sqrt(rank) instead of alpha / rank (default: false)"},
};
const hr_key_table hr_adapter_keys = {keys, sizeof keys / sizeof *keys};

bool hr__lora_given(const hr_model_part *part) {
  return hr__scope_given(&part->scope, "adapters");
}

/* Defaults are here and not in the table: a recipe without adapters has no settings of theirs. */
hr_lora hr__lora_read(const hr_model_part *part) {
  const hr_scope *s = &part->scope;
  hr_lora lora = {.rank = 8, .targets = part->model->targets, .n_targets = part->model->n_targets};
  if (hr__scope_has(s, "adapters.rank")) lora.rank = hr__scope_int(s, "adapters.rank");
  if (hr__scope_has(s, "adapters.dropout")) lora.dropout = hr__scope_float(s, "adapters.dropout");
  if (hr__scope_has(s, "adapters.targets")) lora.targets = hr__scope_texts(s, "adapters.targets", &lora.n_targets);
  if (hr__scope_has(s, "adapters.rank_stabilised"))
    lora.rank_stabilised = hr__scope_bool(s, "adapters.rank_stabilised");
  double rank = (double)lora.rank;
  lora.alpha = hr__scope_has(s, "adapters.alpha") ? hr__scope_float(s, "adapters.alpha") : rank;
  lora.scale = lora.alpha / (lora.rank_stabilised ? sqrt(rank) : rank);
  return lora;
}

static bool target_matches(const char *target, const char *module) {
  return strcmp(target, "all-linear") == 0 || hr__name_matches(module, target);
}

bool hr__targets_match(const char *const *targets, size_t count, const char *module) {
  for (size_t i = 0; i < count; i++)
    if (target_matches(targets[i], module)) return true;
  return false;
}

bool hr__linear_is_target(const hr_model_parts *parts, size_t p, const hr_node *node) {
  const hr_model_part *part = &parts->part[p];
  size_t prefix = p > 0 ? strlen(part->name) + 1 : 0;
  if (node->op != &hr_op_linear || hr__parts_of(parts, node->module) != p) return false;
  return !part->model->head || strcmp(node->module + prefix, part->model->head) != 0;
}

/* "q_proj, k_proj, ...": the last names of the modules of all linears, each once. */
static void modules_list(const hr_graph *g, const hr_model_parts *parts, size_t p, char *out, size_t capacity) {
  size_t used = (size_t)snprintf(out, capacity, "all-linear, or some of this model's linear modules: ");
  size_t begin = used;
  char module[HR_MODULE_PATH];
  for (size_t n = 0; n < g->n_nodes; n++) {
    if (!hr__linear_is_target(parts, p, &g->nodes[n])) continue;
    if (g->values[g->nodes[n].in[1]].keep_f32) continue; /* not those of adapters */
    for (int i = 0; used + 64 < capacity && hr__module_member(g->nodes[n].module, i, module); i++) {
      const char *dot = strrchr(module, '.'), *name = dot ? dot + 1 : module;
      const char *known = strstr(out + begin, name);
      if (known && (known[strlen(name)] == ',' || known[strlen(name)] == '\0')) continue;
      used += (size_t)snprintf(out + used, capacity - used, "%s%.50s", used > begin ? ", " : "", name);
    }
  }
}

/* Whether a target fits a linear of the part. */
static bool target_is_there(const hr_graph *g, const hr_model_parts *parts, size_t p, const char *target) {
  char module[HR_MODULE_PATH];
  for (size_t n = 0; n < g->n_nodes; n++) {
    if (!hr__linear_is_target(parts, p, &g->nodes[n])) continue;
    for (int i = 0; hr__module_member(g->nodes[n].module, i, module); i++)
      if (target_matches(target, module)) return true;
  }
  return false;
}

hr_status hr__targets_check(const hr_graph *g, const hr_model_parts *parts, size_t p, const char *key,
                            const char *const *targets, size_t count, hr_error *err) {
  char modules[256];
  if (hr__part_left_out(parts, p, g)) return HR_OK;
  for (size_t t = 0; t < count; t++) {
    if (target_is_there(g, parts, p, targets[t])) continue;
    modules_list(g, parts, p, modules, sizeof modules);
    return hr__scope_fail(&parts->part[p].scope, key, modules, err, "the target \"%.100s\" matches no linear module",
                          targets[t]);
  }
  return HR_OK;
}

_Static_assert((int)HR_MEMBERS <= (int)HR_LORA_GROUPS, "one node serves the adapters of all modules of a linear");

/* Modules of one linear that have adapters, in the order of its rows. */
typedef struct adapted {
  int count;
  const char *module[HR_MEMBERS];
  int64_t first[HR_MEMBERS], rows[HR_MEMBERS]; /* of the linear's weight */
} adapted;

static hr_status rank_check(const hr_scope *scope, const hr_lora *lora, const char *module, int64_t out, int64_t in,
                            hr_error *err) {
  if (lora->rank <= (out < in ? out : in)) return HR_OK;
  return hr__scope_fail(scope, "adapters.rank", "take a smaller rank, or other targets", err,
                        "rank %" PRId64 " is more than %s has (%" PRId64 " x %" PRId64 ")", lora->rank, module, out,
                        in);
}

static hr_status adapted_find(hr_graph *g, const hr_scope *scope, const hr_lora *lora, const hr_node *node,
                              adapted *out, hr_error *err) {
  *out = (adapted){0};
  const hr_value *weight = &g->values[node->in[1]];
  int64_t first = 0;
  char module[HR_MODULE_PATH];
  for (int i = 0; hr__module_member(node->module, i, module); i++) {
    int64_t rows = weight->members ? weight[1 + i].desc.dim[0] : weight->desc.dim[0];
    if (hr__targets_match(lora->targets, lora->n_targets, module)) {
      HR_TRY(rank_check(scope, lora, module, rows, weight->desc.dim[1], err));
      out->module[out->count] = hr__arena_text(&g->arena, module);
      if (!out->module[out->count]) return hr__nomem(err);
      out->first[out->count] = first;
      out->rows[out->count++] = rows;
    }
    first += rows;
  }
  return HR_OK;
}

/* Whether their matrices may be stacked. */
static bool adapted_join(const hr_scope *scope, const hr_lora *lora, const adapted *set, int64_t in) {
  int64_t a_elements[HR_MEMBERS], b_elements[HR_MEMBERS];
  for (int i = 0; i < set->count; i++) {
    a_elements[i] = lora->rank * in;
    b_elements[i] = lora->rank * set->rows[i];
  }
  return hr__stackable(scope, a_elements, set->count) && hr__stackable(scope, b_elements, set->count);
}

/* "PATH.NAME+NAME": the path of all of them. "": out of memory, which the builder tells. */
static const char *adapted_path(hr_builder *b, const adapted *set) {
  const char *path = set->module[0];
  for (int i = 1; i < set->count && path; i++) {
    const char *dot = strrchr(set->module[i], '.');
    path = hr__arena_format(&b->graph->arena, "%s+%s", path, dot ? dot + 1 : set->module[i]);
  }
  if (!path) b->status = hr__nomem(&b->error);
  return path ? path : "";
}

/* The matrices of one kind, stacked: rows[i] each. */
static hr_id matrices_declare(hr_builder *b, const adapted *set, const char *path, const char *which,
                              const int64_t *rows, int64_t columns, hr_init init) {
  hr_arena *arena = &b->graph->arena;
  hr_member members[HR_MEMBERS];
  int64_t all = 0;
  const char *whole = hr__arena_format(arena, "%s.%s.weight", path, which);
  bool full = !whole;
  for (int i = 0; i < set->count; i++) {
    members[i] = (hr_member){hr__arena_format(arena, "%s.%s.weight", set->module[i], which), rows[i], init};
    full = full || !members[i].name;
    all += rows[i];
  }
  if (b->status == HR_OK && full) b->status = hr__nomem(&b->error);
  hr_desc desc = hr__desc2(HR_F32, all, columns);
  hr_id id = hr__stacked(b, whole, HR_ROLE_PARAMETER, desc, members, set->count);
  for (hr_id i = 0; id != HR_NONE && i <= b->graph->values[id].members; i++)
    b->graph->values[id + i].trained = b->graph->values[id + i].keep_f32 = true;
  return id;
}

/* add + scale * dropout(x) At Bt in the columns of the given modules. */
static hr_id adapters_emit(hr_builder *b, const hr_lora *lora, const adapted *set, const hr_node *node, hr_id add) {
  const hr_desc *weight = &b->graph->values[node->in[1]].desc;
  int64_t columns = weight->dim[0], in = weight->dim[1], ranks[HR_MEMBERS];
  hr_lora_up_args args;
  memset(&args, 0, sizeof args); /* arguments are compared as bytes */
  args.scale = (float)lora->scale;
  args.rank = lora->rank;
  args.groups = set->count;
  args.columns = columns;
  for (int i = 0; i < set->count; i++) {
    ranks[i] = lora->rank;
    args.first[i] = set->first[i];
    args.rows[i] = set->rows[i];
  }
  const char *path = adapted_path(b, set);
  hr_init uniform = {.rule = HR_INIT_UNIFORM, .a = (float)(1.0 / sqrt((double)in))};
  hr_id a_matrix = matrices_declare(b, set, path, "lora_A", ranks, in, uniform);
  hr_id b_matrix = matrices_declare(b, set, path, "lora_B", set->rows, lora->rank, (hr_init){.rule = HR_INIT_ZERO});
  hr_id x = node->in[0];
  b->program = node->program;
  b->block = node->block;
  b->phase = node->phase;
  hr__module(b, "%s.lora_A", path);
  bool drops = lora->dropout > 0 && hr__program_kind_trains(b->graph->programs[node->program].key.kind);
  hr_id h = drops ? hr__lora_down(b, x, a_matrix, (float)lora->dropout) : hr__linear(b, x, a_matrix, HR_NONE);
  hr__module(b, "%s.lora_B", path);
  return hr__lora_up(b, h, b_matrix, add, &args);
}

/* A copy of a list of operands with one of them replaced. */
static const hr_id *operand_replaced(hr_builder *b, const hr_id *list, int count, int at, hr_id value) {
  hr_id *copy = hr__arena_array(&b->graph->arena, (size_t)count, sizeof *copy);
  if (!copy) {
    b->status = hr__nomem(&b->error);
    return list;
  }
  memcpy(copy, list, (size_t)count * sizeof *copy);
  copy[at] = value;
  return copy;
}

/* Puts adapters behind a linear. Whoever read its result reads theirs: the two values change places. */
static hr_status linear_adapt(hr_builder *b, const hr_scope *scope, const hr_lora *lora, hr_id n, hr_error *err) {
  enum { ADD = 2 };
  hr_graph *g = b->graph;
  const hr_node node = g->nodes[n];
  adapted set;
  HR_TRY(adapted_find(g, scope, lora, &node, &set, err));
  if (set.count == 0) return HR_OK;
  hr_id y = node.out[0], sum = y, first = HR_NONE;
  bool join = adapted_join(scope, lora, &set, g->values[node.in[1]].desc.dim[1]);
  for (int i = 0; i < (join ? 1 : set.count); i++) {
    adapted one = {1, {set.module[i]}, {set.first[i]}, {set.rows[i]}};
    sum = adapters_emit(b, lora, join ? &set : &one, &node, sum);
    HR_TRY(hr__builder_status(b, err));
    if (first == HR_NONE) first = g->values[sum].producer;
  }
  hr_node *linear = &g->nodes[n], *begin = &g->nodes[first], *end = &g->nodes[g->values[sum].producer];
  linear->out = operand_replaced(b, linear->out, linear->n_out, 0, sum);
  begin->in = operand_replaced(b, begin->in, begin->n_in, ADD, sum);
  end->out = operand_replaced(b, end->out, end->n_out, 0, y);
  const char *name = g->values[y].name;
  g->values[y].name = g->values[sum].name;
  g->values[sum].name = name;
  return hr__builder_status(b, err);
}

/* `lora`: per part; rank 0: it has none. */
static hr_status linears_adapt(hr_builder *b, const hr_model_parts *parts, const hr_lora *lora, hr_error *err) {
  enum { NEW_NODES = 2 * HR_MEMBERS }; /* of one linear at most */
  hr_graph *g = b->graph;
  size_t n_nodes = g->n_nodes, count = 0;
  hr_id *order = hr__arena_array(&g->arena, n_nodes * (1 + NEW_NODES), sizeof *order);
  if (!order) return hr__nomem(err);
  for (hr_id n = 0; n < n_nodes; n++) {
    hr_id added = (hr_id)g->n_nodes;
    size_t p = hr__parts_of(parts, g->nodes[n].module);
    order[count++] = n;
    if (lora[p].rank > 0 && hr__linear_is_target(parts, p, &g->nodes[n]))
      HR_TRY(linear_adapt(b, &parts->part[p].scope, &lora[p], n, err));
    for (; added < g->n_nodes; added++)
      order[count++] = added;
  }
  return hr__graph_arrange(g, order, count, err);
}

hr_status hr__pass_adapters(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)choices;
  hr_model_parts parts;
  hr_lora lora[1 + HR_MODEL_PARTS] = {{0}};
  bool any = false;
  hr__parts_read(recipe, &parts);
  for (size_t p = 0; p < parts.count; p++) {
    if (!hr__lora_given(&parts.part[p])) continue;
    lora[p] = hr__lora_read(&parts.part[p]);
    any = true;
    HR_TRY(hr__targets_check(b->graph, &parts, p, "adapters.targets", lora[p].targets, lora[p].n_targets, err));
  }
  return any ? linears_adapt(b, &parts, lora, err) : HR_OK;
}
