/* Splicing and its check: see format/splice.h. */
#include "format/splice.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "format/literal.h"

static bool spliced(const hr_edit *edit) {
  return edit->outcome == HR_EDIT_WRITTEN || edit->outcome == HR_EDIT_INSERTED;
}

/* The first edit behind `last` (NULL: of all); of several at one place in their order. */
static const hr_edit *next_edit(const hr_edit *edits, size_t count, const hr_edit *last) {
  const hr_edit *best = NULL;
  for (size_t i = 0; i < count; i++) {
    const hr_edit *edit = &edits[i];
    if (!spliced(edit)) continue;
    bool behind = !last || edit->begin > last->begin || (edit->begin == last->begin && edit > last);
    if (behind && (!best || edit->begin < best->begin)) best = edit;
  }
  return best;
}

hr_status hr__splice(const hr_config *config, const hr_edit *edits, size_t count, hr_arena *arena, const char **text,
                     size_t *bytes, hr_error *err) {
  size_t total = config->bytes + 1;
  for (size_t i = 0; i < count; i++)
    if (spliced(&edits[i]) && !hr__add_size(total, strlen(edits[i].splice), &total)) return hr__nomem(err);
  char *out = hr__arena_alloc(arena, total);
  if (!out) return hr__nomem(err);
  size_t from = 0, at = 0;
  for (const hr_edit *edit = NULL; (edit = next_edit(edits, count, edit));) {
    if (edit->begin < from)
      return hr__fail(err, HR_FAILURE, config->name, NULL, "two keys stand in the same bytes (%s)", edit->path);
    memcpy(out + at, config->text + from, edit->begin - from);
    at += edit->begin - from;
    size_t length = strlen(edit->splice);
    memcpy(out + at, edit->splice, length);
    at += length;
    from = edit->end;
  }
  memcpy(out + at, config->text + from, config->bytes - from);
  *text = out;
  *bytes = at + config->bytes - from;
  return HR_OK;
}

typedef struct comparison {
  const hr_config *config;
  const hr_edit *edits;
  size_t count;
  hr_arena arena;
  size_t nodes;                 /* compared so far: aliases could make a small file endless */
  const hr_doc_node *different; /* in the old tree */
  bool no_memory;
} comparison;

static const hr_edit *edit_at(const comparison *c, const hr_doc_node *node) {
  for (size_t i = 0; i < c->count; i++)
    if (c->edits[i].outcome == HR_EDIT_WRITTEN && c->edits[i].node == node) return &c->edits[i];
  return NULL;
}

/* The edit that puts the key of `child` into `map`. */
static const hr_edit *insert_at(const comparison *c, const hr_doc_node *map, const hr_doc_node *child) {
  for (size_t i = 0; i < c->count; i++) {
    const hr_edit *edit = &c->edits[i];
    if (edit->outcome != HR_EDIT_INSERTED || edit->node != map) continue;
    const char *dot = strrchr(edit->path, '.');
    if (strcmp(dot ? dot + 1 : edit->path, child->key) == 0) return edit;
  }
  return NULL;
}

static bool texts_same(const char *a, const char *b) {
  return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool compare(comparison *c, const hr_doc_node *old, const hr_doc_node *new, bool through);

/* The value that was meant; a map or list is compared with its own text alone. */
static bool value_meant(comparison *c, const hr_edit *edit, const hr_doc_node *node) {
  if (!hr__literal_is(&edit->value, node)) return false;
  if (edit->value.kind != HR_LITERAL_FLOW) return true;
  hr_doc_node *alone = NULL;
  hr_error ignored;
  const char *text = edit->value.text;
  hr_status status = c->config->json ? hr__json_parse("value", text, strlen(text), &c->arena, &alone, &ignored)
                                     : hr__yaml_parse("value", text, strlen(text), &c->arena, &alone, &ignored);
  c->no_memory |= status == HR_NOMEM;
  if (status != HR_OK) return false;
  alone->key = node->key;
  return compare(c, alone, node, true);
}

static bool children_same(comparison *c, const hr_doc_node *old, const hr_doc_node *new, bool through) {
  const hr_doc_node *a = old->child, *b = new->child;
  size_t inserted = 0;
  for (; b; b = b->next) {
    const hr_edit *edit = old->kind == HR_DOC_MAP && !through ? insert_at(c, old, b) : NULL;
    if (edit) {
      inserted++;
      if (!value_meant(c, edit, b)) return false;
      continue;
    }
    if (!a || !compare(c, a, b, through)) return false;
    a = a->next;
  }
  size_t wanted = 0;
  for (size_t i = 0; i < c->count && !through; i++)
    wanted += c->edits[i].outcome == HR_EDIT_INSERTED && c->edits[i].node == old;
  return !a && inserted == wanted;
}

/* Whether `new` is what became of `old`. `through`: reached through an alias, where nothing may differ. */
static bool compare(comparison *c, const hr_doc_node *old, const hr_doc_node *new, bool through) {
  if (!c->different) c->different = old; /* the first one on the way that is not taken back below */
  if (++c->nodes > HR_DOC_MAX_NODES) return false;
  if (!texts_same(old->key, new->key) || !texts_same(old->anchor, new->anchor)) return false;
  const hr_edit *edit = edit_at(c, old);
  if (edit) {
    if (through || !value_meant(c, edit, new)) return false;
  } else {
    if (old->kind != new->kind || old->quoted != new->quoted || !texts_same(old->text, new->text) ||
        !texts_same(old->tag, new->tag) || !old->target != !new->target)
      return false;
    if (!children_same(c, old, new, through || old->target)) return false;
  }
  if (c->different == old) c->different = NULL;
  return true;
}

hr_status hr__splice_check(const hr_config *config, const hr_edit *edits, size_t count, const char *text, size_t bytes,
                           hr_error *err) {
  comparison c = {.config = config, .edits = edits, .count = count};
  hr_config again;
  hr_error why = {0};
  hr_status status = hr__config_parse(config->name, text, bytes, &c.arena, &again, &why);
  if (status == HR_BAD_INPUT) {
    status = hr__fail(err, HR_FAILURE, why.place, "change these keys by hand",
                      "the file would not be valid with its new values (%s); nothing is written", why.message);
  } else if (status != HR_OK) {
    status = hr__fail(err, status, why.place, why.remedy, "%s", why.message);
  } else if (!compare(&c, config->root, again.root, false)) {
    if (c.no_memory) {
      hr__arena_fini(&c.arena);
      return hr__nomem(err);
    }
    char place[HR_DOC_PLACE];
    status =
        hr__fail(err, HR_FAILURE, hr__doc_place(config->name, c.different ? c.different : config->root, true, place),
                 "change these keys by hand",
                 "the file with its new values would differ in more than the intended keys; nothing is written");
  }
  hr__arena_fini(&c.arena);
  return status;
}
