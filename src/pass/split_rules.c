/* memory.split: which blocks are cut into how many slices, and chunks of the loss head. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "op/head_loss.h"
#include "pass/split.h"

#define KEY HR_SPLIT_KEY

static const hr_key keys[] = {
    {.path = KEY,
     .type = HR_KEY_CHOICE,
     .fallback = "none",
     .choices = "none|auto",
     .tree = true,
     .example = "{ mlp: 4, lm_head: 8 }",
     .meaning = "{block pattern: slices}: runs blocks slice by slice of the batch, or of the frames of videos where it "
                "has fewer "
                "samples, and the loss head in as many chunks; auto: all blocks, where nothing else fits the budget"},
};
const hr_key_table hr_split_keys = {keys, sizeof keys / sizeof *keys};

hr_status hr__split_rules_read(hr_splitter *s, const hr_doc_node *tree) {
  static const char remedy[] = "write for example \"split: { mlp: 4, lm_head: 8 }\"";
  if (tree->kind != HR_DOC_MAP)
    return hr__recipe_fail_at(s->recipe, KEY, tree, remedy, s->err, KEY " is a list, but it must name blocks");
  size_t count = 0;
  for (const hr_doc_node *node = tree->child; node; node = node->next)
    count++;
  s->rules = hr__arena_array(&s->b->graph->arena, count + 1, sizeof *s->rules);
  if (!s->rules) return hr__nomem(s->err);
  for (const hr_doc_node *node = tree->child; node; node = node->next) {
    hr_split_rule *r = &s->rules[s->n_rules++];
    r->node = node;
    if (node->kind != HR_DOC_SCALAR || !hr__doc_int(node, &r->slices))
      return hr__recipe_fail_at(s->recipe, KEY, node, remedy, s->err, KEY ".%s must be a number of slices", node->key);
    if (r->slices < 1)
      return hr__recipe_fail_at(s->recipe, KEY, node, "1 leaves a block whole", s->err,
                                KEY ".%s is %" PRId64 ", but it must be at least 1", node->key, r->slices);
  }
  return HR_OK;
}

hr_status hr__split_rules_make(hr_splitter *s, int64_t slices) {
  static const hr_doc_node any = {.kind = HR_DOC_SCALAR, .key = "*"};
  s->rules = hr__arena_array(&s->b->graph->arena, 1, sizeof *s->rules);
  if (!s->rules) return hr__nomem(s->err);
  s->rules[s->n_rules++] = (hr_split_rule){.node = &any, .slices = slices};
  return HR_OK;
}

size_t hr__split_rule_find(const hr_splitter *s, const char *name) {
  size_t r = 0;
  while (r < s->n_rules && !hr__name_matches(name, s->rules[r].node->key))
    r++;
  return r;
}

/* "model.layers.*.mlp" of "model.layers.3.mlp" */
static void name_generalise(const char *name, char *out, size_t capacity) {
  size_t used = 0;
  for (const char *at = name; *at && used + 1 < capacity;) {
    size_t digits = strspn(at, "0123456789");
    bool number = digits > 0 && (at == name || at[-1] == '.') && (at[digits] == '.' || at[digits] == '\0');
    out[used++] = number ? '*' : *at;
    at += number ? digits : 1;
  }
  out[used] = '\0';
}

void hr__split_name_list(const char *name, const char *behind, char *list, size_t capacity) {
  char general[128], entry[160];
  name_generalise(name, general, sizeof general);
  size_t used = strlen(list), length = (size_t)snprintf(entry, sizeof entry, "%s%.24s", general, behind);
  for (const char *at = list; (at = strstr(at, entry)); at++)
    if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0')) return;
  if (used + length + 3 < capacity) snprintf(list + used, capacity - used, "%s%s", used ? ", " : "", entry);
}

hr_status hr__split_rules_check_used(const hr_splitter *s) {
  const hr_graph *g = s->b->graph;
  for (size_t r = 0; r < s->n_rules; r++) {
    const hr_split_rule *rule = &s->rules[r];
    if (rule->used) continue;
    if (rule->beaten)
      return hr__recipe_fail_at(s->recipe, KEY, rule->node,
                                "keep one of them: the first pattern that fits counts, and the outermost block", s->err,
                                KEY ".%s names only blocks that another pattern takes", rule->node->key);
    char names[256] = "", remedy[320];
    for (size_t k = 0; k < s->n_blocks; k++)
      hr__split_name_list(g->blocks[k].name, "", names, sizeof names);
    for (size_t n = 0; n < s->n_nodes; n++)
      if (g->nodes[n].op == &hr_op_head_loss) hr__split_name_list(g->nodes[n].module, "", names, sizeof names);
    snprintf(remedy, sizeof remedy, "this model has %s", *names ? names : "no blocks");
    return hr__recipe_fail_at(s->recipe, KEY, rule->node, remedy, s->err, KEY ".%s names no block of the model",
                              rule->node->key);
  }
  return HR_OK;
}

hr_status hr__split_heads(hr_splitter *s) {
  hr_graph *g = s->b->graph;
  for (hr_id n = 0; n < s->n_nodes; n++) {
    hr_node *node = &g->nodes[n];
    size_t r = node->op == &hr_op_head_loss ? hr__split_rule_find(s, node->module) : s->n_rules;
    if (r == s->n_rules) continue;
    hr_split_rule *rule = &s->rules[r];
    int64_t rows = hr_desc_rows(&g->values[node->in[0]].desc);
    rule->used = true;
    if (rule->slices > rows)
      return hr__recipe_fail_at(s->recipe, KEY, rule->node, "use fewer", s->err,
                                "%s cannot be taken in %" PRId64 " chunks: it has %" PRId64 " rows", node->module,
                                rule->slices, rows);
    hr_head_loss_args *args = hr__arena_alloc(&g->arena, sizeof *args);
    if (!args) return hr__nomem(s->err);
    *args = *(const hr_head_loss_args *)node->args;
    args->chunk_rows = (rows + rule->slices - 1) / rule->slices;
    node->args = args;
  }
  return HR_OK;
}
