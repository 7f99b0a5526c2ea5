/* The settings of the update: keys, groups, and what contradicts each other. */
#include <string.h>

#include "base/text.h"
#include "pass/pass.h"
#include "pass/update.h"

#define KEY_GROUPS "training.optimizer.groups"
#define KEY_NORMS  "training.gradient_norms"
static const double LARGEST_RATE = 1e3; /* of lr and weight_decay, also in groups */

static const hr_key keys[] = {
    {.path = "training.optimizer.kind",
     .type = HR_KEY_CHOICE,
     .fallback = "adamw",
     .choices = "adamw|adamw8bit|paged_adamw|paged_adamw8bit|sgd|auto",
     .meaning =
         "optimizer; 8bit: moments in 8 bits; paged: large moments live on the host; auto: any of the adamw that fits"},
    {.path = "training.optimizer.lr",
     .type = HR_KEY_FLOAT,
     .fallback = "3e-4",
     .min = 0,
     .max = 1e3,
     .meaning = "learning rate after warm-up"},
    {.path = "training.optimizer.betas",
     .type = HR_KEY_FLOATS,
     .fallback = "[0.9, 0.999]",
     .length = 2,
     .min = 0,
     .max = 0.9999999,
     .meaning = "adamw: decay of the first and second moment"},
    {.path = "training.optimizer.eps",
     .type = HR_KEY_FLOAT,
     .fallback = "1e-8",
     .min = 1e-30,
     .max = 1,
     .meaning = "adamw: added to the root of the second moment"},
    {.path = "training.optimizer.weight_decay",
     .type = HR_KEY_FLOAT,
     .fallback = "0.01",
     .min = 0,
     .max = 1e3,
     .meaning = "on matrices only; adamw: decoupled, sgd: added to the gradient"},
    {.path = "training.optimizer.momentum",
     .type = HR_KEY_FLOAT,
     .fallback = "0.9",
     .min = 0,
     .max = 0.9999999,
     .meaning = "sgd: decay of the sum of gradients; 0: no state"},
    {.path = "training.optimizer.nesterov",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "sgd: momentum looks one step ahead"},
    {.path = "training.optimizer.state",
     .type = HR_KEY_CHOICE,
     .fallback = "f32",
     .choices = "f32|bf16|auto",
     .meaning = "adamw: type of the moments"},
    {.path = KEY_NORMS,
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1e12,
     .meaning = "steps between histograms of the norms of single gradients, by what they are of, for TensorBoard; "
                "never unless given"},
    {.path = KEY_GROUPS,
     .type = HR_KEY_TREE,
     .example = "[{match: embed_tokens, lr: 1e-4}]",
     .meaning = "list of {match: pattern or list of patterns, lr, weight_decay}: parameters with a rate or decay of "
                "their own; the first that matches counts"},
    {.path = "training.ema",
     .type = HR_KEY_FLOAT,
     .min = 0.01,
     .max = 0.9999999,
     .meaning =
         "decay per step of an average of the trained weights, kept in f32 and saved as training/ema.safetensors; none "
         "unless given"},
    {.path = "memory.update",
     .type = HR_KEY_CHOICE,
     .fallback = "after-backward",
     .choices = "after-backward|in-backward|auto",
     .meaning = "in-backward: each parameter is updated as soon as its gradient is there, which then is dropped"},
};
const hr_key_table hr_update_keys = {keys, sizeof keys / sizeof keys[0]};

/* ---- groups ---- */

typedef struct group_reader {
  const hr_recipe *recipe;
  hr_graph *graph;
  hr_error *err;
} group_reader;

static hr_status pattern_read(const group_reader *r, const hr_doc_node *node, const char **out) {
  if (node->kind != HR_DOC_SCALAR || hr__doc_is_null(node) || !*node->text)
    return hr__recipe_fail_at(r->recipe, KEY_GROUPS, node, "give a part of a name such as q_proj or layers.0.*", r->err,
                              "match of a group must be a pattern of parameter names, or a list of them");
  *out = node->text;
  for (size_t v = 0; v < r->graph->n_values; v++)
    if (r->graph->values[v].trained && hr__name_matches(r->graph->values[v].name, node->text)) return HR_OK;
  return hr__recipe_fail_at(r->recipe, KEY_GROUPS, node, "`headroom dump RECIPE --after model` lists the parameters",
                            r->err, "'%s' matches no trained parameter", node->text);
}

static hr_status patterns_read(const group_reader *r, const hr_doc_node *node, hr_update_group *group) {
  const hr_doc_node *first = node->kind == HR_DOC_LIST ? node->child : node;
  size_t count = 1;
  if (node->kind == HR_DOC_LIST) {
    count = 0;
    for (const hr_doc_node *at = first; at; at = at->next)
      count++;
  }
  if (count == 0)
    return hr__recipe_fail_at(r->recipe, KEY_GROUPS, node, "give at least one pattern", r->err, "match is empty");
  group->patterns = hr__arena_array(&r->graph->arena, count, sizeof *group->patterns);
  if (!group->patterns) return hr__nomem(r->err);
  for (; first && group->n_patterns < count; first = first->next)
    HR_TRY(pattern_read(r, first, &group->patterns[group->n_patterns++]));
  return HR_OK;
}

static hr_status rate_read(const group_reader *r, const hr_doc_node *node, double *out) {
  if (hr__doc_float(node, out) && *out >= 0 && *out <= LARGEST_RATE) return HR_OK;
  return hr__recipe_fail_at(r->recipe, KEY_GROUPS, node, "write for example {match: embed_tokens, lr: 1e-4}", r->err,
                            "%s of a group must be a number from 0 to 1000", node->key);
}

static hr_status group_read(const group_reader *r, const hr_doc_node *map, hr_update_group *group) {
  double rate, base = hr__recipe_float(r->recipe, "training.optimizer.lr");
  *group = (hr_update_group){.lr_scale = 1, .weight_decay = -1};
  if (map->kind != HR_DOC_MAP)
    return hr__recipe_fail_at(r->recipe, KEY_GROUPS, map, "write for example {match: embed_tokens, lr: 1e-4}", r->err,
                              "a group must be a section with match and lr or weight_decay");
  for (const hr_doc_node *field = map->child; field; field = field->next) {
    if (strcmp(field->key, "match") == 0) {
      HR_TRY(patterns_read(r, field, group));
    } else if (strcmp(field->key, "lr") == 0) {
      HR_TRY(rate_read(r, field, &rate));
      if (base == 0 && rate > 0)
        return hr__recipe_fail_at(r->recipe, KEY_GROUPS, field, "give training.optimizer.lr a value above 0", r->err,
                                  "the schedule scales all rates by the common one, which is 0");
      group->lr_scale = rate > 0 ? (float)(rate / base) : 0;
    } else if (strcmp(field->key, "weight_decay") == 0) {
      HR_TRY(rate_read(r, field, &rate));
      group->weight_decay = (float)rate;
    } else {
      return hr__recipe_fail_at(r->recipe, KEY_GROUPS, field, "a group takes match, lr and weight_decay", r->err,
                                "unknown setting '%s' of a group", field->key);
    }
  }
  if (group->n_patterns > 0) return HR_OK;
  return hr__recipe_fail_at(r->recipe, KEY_GROUPS, map, "give match: a pattern of parameter names", r->err,
                            "this group does not say which parameters it is for");
}

static hr_status groups_read(const group_reader *r, hr_update_settings *out) {
  const hr_doc_node *list = hr__recipe_tree(r->recipe, KEY_GROUPS);
  if (!list) return HR_OK;
  if (list->kind != HR_DOC_LIST)
    return hr__recipe_fail(r->recipe, KEY_GROUPS, "write for example \"groups: [{match: embed_tokens, lr: 1e-4}]\"",
                           r->err, KEY_GROUPS " must be a list of groups");
  size_t count = 0;
  for (const hr_doc_node *at = list->child; at; at = at->next)
    count++;
  hr_update_group *groups = hr__arena_array(&r->graph->arena, count + 1, sizeof *groups);
  if (!groups) return hr__nomem(r->err);
  for (const hr_doc_node *at = list->child; at; at = at->next)
    HR_TRY(group_read(r, at, &groups[out->n_groups++]));
  out->groups = groups;
  return HR_OK;
}

/* ---- contradictions ---- */

/* Settings that the chosen optimizer does not have, where a user wrote them. */
static hr_status foreign_check(const hr_recipe *recipe, const hr_update_settings *s, hr_error *err) {
  static const struct {
    const char *path;
    bool sgd; /* whose it is */
  } own[] = {{"training.optimizer.betas", false},
             {"training.optimizer.eps", false},
             {"training.optimizer.momentum", true},
             {"training.optimizer.nesterov", true}};
  const char *kind = hr__recipe_text(recipe, "training.optimizer.kind");
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
    if (own[i].sgd != (s->optimizer == HR_OPTIMIZER_SGD) && hr__recipe_given(recipe, own[i].path))
      return hr__recipe_fail(recipe, own[i].path, "remove it or choose another training.optimizer.kind", err,
                             "optimizer %s has no setting %s", kind, strrchr(own[i].path, '.') + 1);
  if (s->state != HR_F32 && s->optimizer != HR_OPTIMIZER_ADAMW)
    return hr__recipe_fail(recipe, "training.optimizer.state", "remove it, or choose adamw or paged_adamw", err,
                           "the type of the state cannot be chosen for %s", kind);
  if (s->nesterov && s->momentum == 0)
    return hr__recipe_fail(recipe, "training.optimizer.nesterov", "give training.optimizer.momentum above 0", err,
                           "nesterov without momentum");
  return HR_OK;
}

static hr_status in_backward_check(const hr_recipe *recipe, const hr_graph *graph, const hr_update_settings *s,
                                   hr_error *err) {
  const char *path = "memory.update", *remedy = NULL, *why = NULL;
  bool buckets = hr__recipe_has(recipe, "data.buckets") && hr__graph_find_kind(graph, HR_PROGRAM_MICRO_NEXT) == HR_NONE;
  if (s->clip_norm > 0) {
    remedy = "remove training.clip_norm or choose after-backward";
    why = "clipping needs the norm over all gradients before the first update";
  } else if (s->guarded) {
    remedy = "choose after-backward, or bf16-mixed, which needs no loss scaling";
    why = "16-mixed must know before the first update whether any gradient has overflowed";
  } else if (hr__graph_find_kind(graph, HR_PROGRAM_STEP) == HR_NONE) {
    remedy = buckets ? "remove data.buckets or choose after-backward"
                     : "use one micro-batch per step (training.gradient_accumulation: 1, or batch_size as large as "
                       "effective_batch), or choose after-backward";
    why = buckets ? "with data.buckets the update is a program of its own behind that of each length"
                  : "with gradient accumulation the gradients must outlive the backward pass";
  }
  return why ? hr__recipe_fail(recipe, path, remedy, err, "in-backward is not possible: %s", why) : HR_OK;
}

bool hr__update_scaled(const hr_graph *graph) {
  for (size_t n = 0; n < graph->n_nodes; n++)
    for (int j = 0; j < graph->nodes[n].n_out; j++)
      if (graph->values[graph->nodes[n].out[j]].desc.dtype == HR_F16) return true;
  return false;
}

/* Norms of single gradients are there where all gradients are looked at together. */
static hr_status norms_check(const hr_recipe *recipe, const hr_update_settings *s, hr_error *err) {
  if (!s->told) return HR_OK;
  if (s->in_backward)
    return hr__recipe_fail(recipe, KEY_NORMS, "leave it out, or choose memory.update: after-backward", err,
                           "norms of single gradients are not told by updates in-backward");
  if (strcmp(hr__recipe_text(recipe, "memory.offload.gradients"), "device") != 0)
    return hr__recipe_fail(recipe, KEY_NORMS, "leave it out, or keep gradients on the device", err,
                           "norms of single gradients are not told where gradients are offloaded");
  return HR_OK;
}

hr_status hr__update_read(const hr_recipe *recipe, hr_graph *graph, hr_update_settings *out, hr_error *err) {
  const double *betas = hr__recipe_floats(recipe, "training.optimizer.betas");
  const char *kind = hr__recipe_text(recipe, "training.optimizer.kind");
  const char *state = hr__recipe_text(recipe, "training.optimizer.state");
  bool clips = hr__recipe_has(recipe, "training.clip_norm");
  *out = (hr_update_settings){
      .optimizer = strcmp(kind, "sgd") == 0 ? HR_OPTIMIZER_SGD
                   : strstr(kind, "8bit")   ? HR_OPTIMIZER_ADAMW8BIT
                                            : HR_OPTIMIZER_ADAMW,
      .beta1 = betas[0],
      .beta2 = betas[1],
      .eps = (float)hr__recipe_float(recipe, "training.optimizer.eps"),
      .momentum = (float)hr__recipe_float(recipe, "training.optimizer.momentum"),
      .nesterov = hr__recipe_bool(recipe, "training.optimizer.nesterov"),
      .weight_decay = (float)hr__recipe_float(recipe, "training.optimizer.weight_decay"),
      .clip_norm = clips ? (float)hr__recipe_float(recipe, "training.clip_norm") : 0,
      .ema = hr__recipe_has(recipe, "training.ema") ? (float)hr__recipe_float(recipe, "training.ema") : 0,
      .state = strcmp(state, "bf16") == 0 ? HR_BF16 : HR_F32,
      .paged = strncmp(kind, "paged_", strlen("paged_")) == 0,
      .in_backward = strcmp(hr__recipe_text(recipe, "memory.update"), "in-backward") == 0,
      .told = hr__recipe_has(recipe, KEY_NORMS),
      .guarded = hr__update_scaled(graph),
  };
  HR_TRY(norms_check(recipe, out, err));
  HR_TRY(foreign_check(recipe, out, err));
  if (out->in_backward) HR_TRY(in_backward_check(recipe, graph, out, err));
  return groups_read(&(group_reader){recipe, graph, err}, out);
}
