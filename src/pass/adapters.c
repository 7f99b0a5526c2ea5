/* The adapters pass (LoRA): every linear that a target names gets a second way of rank r around its frozen weight,
 *
 *   y = x Wt (+ bias);  y = y + scale * dropout(x) At Bt      A [r, in], B [out, r]
 *
 * summed in place. A and B are shared by all programs and stay f32 in every precision; all other parameters are frozen,
 * so that nothing of theirs is kept, summed or updated. Programs that only evaluate do not drop.
 */
#include "pass/adapters.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "op/copy.h"
#include "op/dropout.h"
#include "op/linear.h"
#include "pass/pass.h"

#define SECTION "model.adapters"

static const hr_key keys[] = {
    {.path = SECTION ".kind",
     .type = HR_KEY_CHOICE,
     .choices = "lora",
     .meaning = "lora: two small matrices beside each target; all other weights are frozen"},
    {.path = SECTION ".rank",
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1 << 16,
     .meaning = "width between the two matrices (default: 8)"},
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
     .meaning =
         "names of linear modules, * for any text; all-linear: every one but the head (default: q, k, v and o_proj)"},
    {.path = SECTION ".rank_stabilised",
     .type = HR_KEY_BOOL,
     .meaning = "alpha / sqrt(rank) instead of alpha / rank (default: false)"},
};
const hr_key_table hr_adapter_keys = {keys, sizeof keys / sizeof *keys};

bool hr__lora_given(const hr_recipe *recipe) {
  return hr__recipe_given(recipe, SECTION);
}

/* Defaults are here and not in the table: a recipe without adapters has no settings of theirs. */
hr_lora hr__lora_read(const hr_recipe *r) {
  static const char *const attention[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
  hr_lora lora = {.rank = 8, .targets = attention, .n_targets = sizeof attention / sizeof *attention};
  if (hr__recipe_has(r, SECTION ".rank")) lora.rank = hr__recipe_int(r, SECTION ".rank");
  if (hr__recipe_has(r, SECTION ".dropout")) lora.dropout = hr__recipe_float(r, SECTION ".dropout");
  if (hr__recipe_has(r, SECTION ".targets")) lora.targets = hr__recipe_texts(r, SECTION ".targets", &lora.n_targets);
  if (hr__recipe_has(r, SECTION ".rank_stabilised"))
    lora.rank_stabilised = hr__recipe_bool(r, SECTION ".rank_stabilised");
  double rank = (double)lora.rank;
  lora.alpha = hr__recipe_has(r, SECTION ".alpha") ? hr__recipe_float(r, SECTION ".alpha") : rank;
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

/* "q_proj, k_proj, ...": the last names of the modules of all linears, each once. */
static void modules_list(const hr_graph *g, char *out, size_t capacity) {
  size_t used = (size_t)snprintf(out, capacity, "all-linear, or some of this model's linear modules: ");
  size_t begin = used;
  for (size_t n = 0; n < g->n_nodes && used + 64 < capacity; n++) {
    if (g->nodes[n].op != &hr_op_linear || g->values[g->nodes[n].in[1]].wide) continue; /* not those of adapters */
    const char *dot = strrchr(g->nodes[n].module, '.'), *name = dot ? dot + 1 : g->nodes[n].module;
    const char *known = strstr(out + begin, name);
    if (known && (known[strlen(name)] == ',' || known[strlen(name)] == '\0')) continue;
    used += (size_t)snprintf(out + used, capacity - used, "%s%.50s", used > begin ? ", " : "", name);
  }
}

hr_status hr__targets_check(const hr_graph *g, const hr_recipe *recipe, const char *path, const char *const *targets,
                            size_t count, hr_error *err) {
  char modules[256];
  modules_list(g, modules, sizeof modules);
  for (size_t t = 0; t < count; t++) {
    bool matched = false;
    for (size_t n = 0; n < g->n_nodes && !matched; n++)
      matched = g->nodes[n].op == &hr_op_linear && target_matches(targets[t], g->nodes[n].module);
    if (!matched)
      return hr__recipe_fail(recipe, path, modules, err, "the target \"%.100s\" matches no linear module", targets[t]);
  }
  return HR_OK;
}

static hr_id matrix_declare(hr_builder *b, const char *module, const char *which, int64_t rows, int64_t columns,
                            hr_init init) {
  const char *name = hr__arena_format(&b->graph->arena, "%s.%s.weight", module, which);
  if (!name) {
    b->status = hr__nomem(&b->error);
    return HR_NONE;
  }
  hr_id id = hr__persistent(b, name, HR_ROLE_PARAMETER, hr__desc2(HR_F32, rows, columns), init);
  if (id != HR_NONE) b->graph->values[id].trained = b->graph->values[id].wide = true;
  return id;
}

/* The adapter of one linear node, whose result is `y`; returns the sum. */
static hr_id adapter_emit(hr_builder *b, const hr_lora *lora, const hr_node *node, hr_id y) {
  const hr_desc *weight = &b->graph->values[node->in[1]].desc;
  int64_t out = weight->dim[0], in = weight->dim[1];
  hr_init uniform = {HR_INIT_UNIFORM, (float)(1.0 / sqrt((double)in))};
  hr_id a_matrix = matrix_declare(b, node->module, "lora_A", lora->rank, in, uniform);
  hr_id b_matrix = matrix_declare(b, node->module, "lora_B", out, lora->rank, (hr_init){HR_INIT_ZERO, 0});
  hr_id x = node->in[0];
  b->program = node->program;
  b->block = node->block;
  b->phase = node->phase;
  if (lora->dropout > 0 && strcmp(b->graph->programs[node->program].name, "eval") != 0) {
    hr__module(b, "%s.lora_dropout", node->module);
    x = hr__dropout(b, x, (float)lora->dropout);
  }
  hr__module(b, "%s.lora_A", node->module);
  hr_id h = hr__linear(b, x, a_matrix, HR_NONE);
  if (lora->scale != 1.0) h = hr__scale(b, h, (float)lora->scale);
  hr__module(b, "%s.lora_B", node->module);
  return hr__linear_add(b, h, b_matrix, HR_NONE, y);
}

static hr_status rank_check(const hr_graph *g, const hr_recipe *recipe, const hr_lora *lora, const hr_node *node,
                            hr_error *err) {
  const hr_desc *weight = &g->values[node->in[1]].desc;
  int64_t least = weight->dim[0] < weight->dim[1] ? weight->dim[0] : weight->dim[1];
  if (lora->rank <= least) return HR_OK;
  return hr__recipe_fail(recipe, SECTION ".rank", "take a smaller rank, or other targets", err,
                         "rank %" PRId64 " is more than %s has (%" PRId64 " x %" PRId64 ")", lora->rank, node->module,
                         weight->dim[0], weight->dim[1]);
}

/* Lets node `n` read what its operands have become. */
static hr_status node_follow(hr_graph *g, hr_id n, const hr_id *became, size_t n_values, hr_error *err) {
  hr_node *node = &g->nodes[n];
  bool moved = false;
  for (int i = 0; i < node->n_in; i++)
    moved |= node->in[i] < n_values && became[node->in[i]] != HR_NONE;
  if (!moved) return HR_OK;
  hr_id *in = hr__arena_array(&g->arena, (size_t)node->n_in, sizeof *in);
  if (!in) return hr__nomem(err);
  for (int i = 0; i < node->n_in; i++)
    in[i] = node->in[i] < n_values && became[node->in[i]] != HR_NONE ? became[node->in[i]] : node->in[i];
  node->in = in;
  return HR_OK;
}

static hr_status linears_adapt(hr_builder *b, const hr_recipe *recipe, const hr_lora *lora, hr_error *err) {
  enum { NEW_NODES = 4 }; /* of one adapter at most */
  hr_graph *g = b->graph;
  size_t n_nodes = g->n_nodes, n_values = g->n_values, count = 0;
  hr_id *order = hr__arena_array(&g->arena, n_nodes * (1 + NEW_NODES), sizeof *order);
  hr_id *became = hr__arena_array(&g->arena, n_values, sizeof *became); /* per value: what readers take; HR_NONE: it */
  if (!order || !became) return hr__nomem(err);
  for (size_t v = 0; v < n_values; v++)
    became[v] = HR_NONE;
  for (hr_id n = 0; n < n_nodes; n++) {
    HR_TRY(node_follow(g, n, became, n_values, err));
    order[count++] = n;
    const hr_node node = g->nodes[n];
    if (node.op != &hr_op_linear || !hr__targets_match(lora->targets, lora->n_targets, node.module)) continue;
    HR_TRY(rank_check(g, recipe, lora, &node, err));
    hr_id first = (hr_id)g->n_nodes;
    became[node.out[0]] = adapter_emit(b, lora, &node, node.out[0]);
    HR_TRY(hr__builder_status(b, err));
    for (hr_id added = first; added < g->n_nodes; added++)
      order[count++] = added;
  }
  for (size_t p = 0; p < g->n_programs; p++)
    for (int i = 0; i < g->programs[p].n_outputs; i++) {
      hr_id *value = &g->programs[p].output[i].value;
      if (became[*value] != HR_NONE) *value = became[*value];
    }
  return hr__graph_arrange(g, order, count, err);
}

hr_status hr__pass_adapters(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)choices;
  if (!hr__lora_given(recipe)) return HR_OK;
  hr_lora lora = hr__lora_read(recipe);
  HR_TRY(hr__targets_check(b->graph, recipe, SECTION ".targets", lora.targets, lora.n_targets, err));
  for (size_t v = 0; v < b->graph->n_values; v++)
    b->graph->values[v].trained = false;
  return linears_adapt(b, recipe, &lora, err);
}
