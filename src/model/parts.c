/* See parts.h. */
#include "model/parts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

hr_model_part hr__part_find(const hr_model_part *whole, const char *name) {
  char section[HR_SECTION_TEXT];
  size_t i = 0;
  while (i < whole->model->n_parts && strcmp(whole->model->parts[i].name, name) != 0)
    i++;
  assert(i < whole->model->n_parts);
  snprintf(section, sizeof section, "%s.parts.%s", whole->scope.section, name);
  hr_model_part part = {.name = whole->model->parts[i].name, .scope = hr__scope(whole->scope.recipe, section)};
  part.model = hr__model_named(hr__scope_text(&part.scope, "family"));
  return part;
}

void hr__parts_read(const hr_recipe *recipe, hr_model_parts *out) {
  out->part[0] = hr__model_whole(recipe);
  out->count = 1;
  const hr_model *model = out->part[0].model;
  for (size_t i = 0; i < model->n_parts; i++)
    out->part[out->count++] = hr__part_find(&out->part[0], model->parts[i].name);
}

size_t hr__parts_of(const hr_model_parts *parts, const char *name) {
  size_t length = strcspn(name, ".");
  for (size_t i = 1; i < parts->count; i++)
    if (strlen(parts->part[i].name) == length && strncmp(parts->part[i].name, name, length) == 0) return i;
  return 0;
}

/* The name of a part stands before all that is emitted until the builder gets its old prefix back. */
static const char *part_begin(hr_builder *b, const hr_model_part *part) {
  const char *before = b->prefix;
  const char *prefix = hr__arena_format(&b->graph->arena, "%s.", part->name);
  if (prefix)
    b->prefix = prefix;
  else if (b->status == HR_OK)
    b->status = hr__nomem(&b->error);
  return before;
}

hr_id hr__part_embed(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch) {
  const char *before = part_begin(b, part);
  hr_id x = part->model->embed(b, part, batch);
  b->prefix = before;
  return x;
}

hr_id hr__part_body(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch) {
  hr__component_begin(b, "%s", part->name); /* memory.split may take it as a whole, checkpointing works on its layers */
  const char *before = part_begin(b, part);
  hr_id y = part->model->body(b, part, x, batch);
  b->prefix = before;
  hr__block_end(b);
  return y;
}

hr_id hr__part_loss(hr_builder *b, const hr_model_part *part, hr_id hidden, const hr_model_batch *batch) {
  const char *before = part_begin(b, part);
  hr_id loss = part->model->loss(b, part, hidden, batch);
  b->prefix = before;
  return loss;
}
