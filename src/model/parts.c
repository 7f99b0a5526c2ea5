/* See parts.h. */
#include "model/parts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

size_t hr__parts_names(const hr_model_part *whole, const char *names[HR_MODEL_PARTS]) {
  const hr_model *model = whole->model;
  size_t count = model->n_parts;
  const char *const *list = model->part_names ? hr__scope_texts(&whole->scope, model->part_names, &count) : NULL;
  for (size_t i = 0; i < count; i++)
    names[i] = list ? list[i] : model->parts[i].name;
  return count;
}

hr_model_part hr__part_find(const hr_model_part *whole, const char *name) {
  const char *names[HR_MODEL_PARTS];
  char section[HR_SECTION_TEXT];
  size_t i = 0, count = hr__parts_names(whole, names);
  while (i < count && strcmp(names[i], name) != 0)
    i++;
  assert(i < count);
  snprintf(section, sizeof section, "%s.parts.%s", whole->scope.section, name);
  hr_model_part part = {.name = names[i], .scope = hr__scope(whole->scope.recipe, section)};
  part.model = hr__model_named(hr__scope_text(&part.scope, "family"));
  return part;
}

void hr__parts_read(const hr_recipe *recipe, hr_model_parts *out) {
  const char *names[HR_MODEL_PARTS];
  out->part[0] = hr__model_whole(recipe);
  out->count = 1;
  size_t count = hr__parts_names(&out->part[0], names);
  for (size_t i = 0; i < count; i++)
    out->part[out->count++] = hr__part_find(&out->part[0], names[i]);
}

size_t hr__parts_of(const hr_model_parts *parts, const char *name) {
  size_t length = strcspn(name, ".");
  for (size_t i = 1; i < parts->count; i++)
    if (strlen(parts->part[i].name) == length && strncmp(parts->part[i].name, name, length) == 0) return i;
  return 0;
}

/* Whether adapters are all that is trained of a part, whose weights come from a checkpoint and stay as they are. */
static bool frozen_as_loaded(const hr_scope *s) {
  return hr__scope_has(s, "path") && hr__scope_given(s, "adapters") && !hr__scope_given(s, "train") &&
         !hr__scope_given(s, "quantize") && !hr__scope_given(s, "precision_overrides");
}

static bool same_text(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

/* Whether two nodes say the same, in the same order. */
static bool same_nodes(const hr_doc_node *a, const hr_doc_node *b) {
  if (!a || !b) return a == b;
  if (a->kind != b->kind || (a->kind == HR_DOC_SCALAR && !same_text(a->text, b->text))) return false;
  const hr_doc_node *x = a->child, *y = b->child;
  for (; x && y; x = x->next, y = y->next)
    if (!same_text(x->key, y->key) || !same_nodes(x, y)) return false;
  return !x && !y;
}

/* Whether recipes write the same config for two parts beside that of their folders. */
static bool same_config(const hr_scope *a, const hr_scope *b) {
  char of_a[HR_SCOPE_PATH], of_b[HR_SCOPE_PATH];
  return same_nodes(hr__recipe_written(a->recipe, hr__scope_path(a, "config", of_a)),
                    hr__recipe_written(b->recipe, hr__scope_path(b, "config", of_b)));
}

size_t hr__parts_weights(const hr_model_parts *parts, size_t p) {
  const hr_scope *own = &parts->part[p].scope;
  if (p == 0 || !frozen_as_loaded(own)) return p;
  for (size_t i = 1; i < p; i++) {
    const hr_scope *s = &parts->part[i].scope;
    if (frozen_as_loaded(s) && strcmp(hr__scope_text(s, "path"), hr__scope_text(own, "path")) == 0 &&
        strcmp(hr__scope_precision(s), hr__scope_precision(own)) == 0 && same_config(s, own))
      return i;
  }
  return p;
}

/* The part whose weights a part reads. */
static const char *weights_of(const hr_model_part *part) {
  hr_model_parts parts;
  size_t p = 1;
  hr__parts_read(part->scope.recipe, &parts);
  while (p < parts.count && strcmp(parts.part[p].name, part->name) != 0)
    p++;
  return parts.part[hr__parts_weights(&parts, p)].name;
}

/* The name of a part stands before all that is emitted until the builder gets its old prefix back. */
static hr_part_names part_begin(hr_builder *b, const hr_model_part *part) {
  hr_part_names before = {b->prefix, b->weights};
  const char *prefix = hr__arena_format(&b->graph->arena, "%s.", part->name);
  const char *weights = hr__arena_format(&b->graph->arena, "%s.", weights_of(part));
  if (prefix && weights) {
    b->prefix = prefix;
    b->weights = weights;
  } else if (b->status == HR_OK) {
    b->status = hr__nomem(&b->error);
  }
  return before;
}

static void part_end(hr_builder *b, hr_part_names before) {
  b->prefix = before.prefix;
  b->weights = before.weights;
}

hr_part_names hr__part_open(hr_builder *b, const hr_model_part *part) {
  hr__component_begin(b, "%s", part->name); /* memory.split may take it as a whole, checkpointing works on its layers */
  return part_begin(b, part);
}

void hr__part_close(hr_builder *b, hr_part_names before) {
  part_end(b, before);
  hr__block_end(b);
}

hr_id hr__part_embed(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  hr_part_names before = part_begin(b, part);
  hr_id x = part->model->embed(b, part, batch);
  part_end(b, before);
  return x;
}

hr_id hr__part_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  hr_part_names before = hr__part_open(b, part);
  hr_id y = part->model->body(b, part, x, batch);
  hr__part_close(b, before);
  return y;
}

hr_id hr__part_loss(hr_builder *b, const hr_model_part *part, hr_id hidden, const hr_model_batch *batch) {
  hr_part_names before = part_begin(b, part);
  hr_id loss = part->model->loss(b, part, hidden, batch);
  part_end(b, before);
  return loss;
}

hr_id hr__part_logits(hr_builder *b, const hr_model_part *part, hr_id hidden) {
  hr_part_names before = part_begin(b, part);
  hr_id logits = part->model->logits(b, part, hidden);
  part_end(b, before);
  return logits;
}

hr_status hr__part_writes(const hr_model_part *whole, const char *name, hr_error *err) {
  hr_model_part part = hr__part_find(whole, name);
  if (!part.model->masked && part.model->embed && part.model->body && part.model->loss && part.model->logits)
    return HR_OK;
  return hr__scope_fail(&part.scope, "family", "take a decoder: llama, mistral, qwen2, qwen3 or gemma3", err,
                        "%s.family: %s does not write answers", part.scope.section, part.model->family);
}
