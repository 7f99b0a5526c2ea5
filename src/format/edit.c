/* Which bytes an edit replaces, or why it does not: see format/edit.h. */
#include "format/edit.h"

#include <stdio.h>
#include <string.h>

#include "format/json.h"
#include "format/literal.h"
#include "format/splice.h"

static const char mark[] = "\xef\xbb\xbf"; /* byte order mark */
enum { MARK_BYTES = 3 };

static void shift(hr_doc_node *node, size_t bytes) {
  node->begin += bytes;
  node->end += bytes;
  node->key_begin += bytes;
  for (hr_doc_node *child = node->child; child; child = child->next)
    shift(child, bytes);
}

hr_status hr__config_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_config *out,
                           hr_error *err) {
  size_t length = strlen(name);
  *out = (hr_config){.name = name, .text = text, .bytes = bytes};
  out->json = length >= 5 && strcmp(name + length - 5, ".json") == 0;
  if (!out->json) return hr__yaml_parse_any(name, text, bytes, arena, &out->root, err);
  size_t skip = bytes >= MARK_BYTES && memcmp(text, mark, MARK_BYTES) == 0 ? MARK_BYTES : 0;
  const char *strict = bytes <= HR_DOC_MAX_BYTES ? hr__json_strict(text + skip, bytes - skip, arena) : text + skip;
  if (!strict) return hr__nomem(err);
  HR_TRY(hr__json_parse(name, strict, bytes - skip, arena, &out->root, err));
  if (skip) shift(out->root, skip);
  return HR_OK;
}

/* --- finding a key ------------------------------------------------------------------------------------------------ */

typedef struct found {
  const hr_doc_node *node;  /* NULL: there is no such key */
  const hr_doc_node *map;   /* where the last part of the path is or would be; NULL: there is no such map */
  const char *rest;         /* of the path, in `map` */
  const char *shared;       /* anchor that other places share what was found with; NULL: none */
  const hr_doc_node *merge; /* the key is missing, but comes through `<<` */
} found;

static void step_into(found *f, const hr_doc_node *node) {
  if (f->shared) return;
  if (node->target)
    f->shared = node->target->anchor;
  else if (node->aliases > 0)
    f->shared = node->anchor;
}

/* Goes down from `map`; a key of several parts ("a.b: 1") is tried as such. */
static bool find_in(const hr_doc_node *map, const char *path, found *f) {
  if (map->kind != HR_DOC_MAP) return false;
  if (!strchr(path, '.')) {
    f->map = map;
    f->rest = path;
  }
  for (const hr_doc_node *child = map->child; child; child = child->next) {
    size_t length = strlen(child->key);
    if (strncmp(path, child->key, length) != 0) continue;
    if (!path[length]) {
      f->node = child;
      if (!child->target && child->aliases > 0 && !f->shared) f->shared = child->anchor;
      return true;
    }
    if (path[length] != '.') continue;
    found below = *f;
    step_into(&below, child);
    bool there = find_in(child, path + length + 1, &below);
    if (there || below.map != f->map) *f = below;
    if (there) return true;
  }
  return false;
}

static const hr_doc_node *merged(const hr_doc_node *map, const char *key) {
  const hr_doc_node *from = hr__doc_get(map, "<<");
  if (!from) return NULL;
  if (from->kind == HR_DOC_MAP) return hr__doc_get(from, key);
  for (const hr_doc_node *one = from->child; one; one = one->next)
    if (hr__doc_get(one, key)) return hr__doc_get(one, key);
  return NULL;
}

static found find(const hr_config *config, const char *path) {
  found f = {0};
  if (!find_in(config->root, path, &f) && f.map) f.merge = merged(f.map, f.rest);
  return f;
}

const hr_doc_node *hr__config_find(const hr_config *config, const char *path) {
  return find(config, path).node;
}

/* --- replacing ---------------------------------------------------------------------------------------------------- */

static hr_status leave(hr_edit *edit, hr_arena *arena, hr_error *err, const char *why, const char *name) {
  edit->outcome = HR_EDIT_LEFT;
  edit->reason = hr__arena_format(arena, "%s%s", why, name ? name : "");
  return edit->reason ? HR_OK : hr__nomem(err);
}

/* Behind the colon of a key in a block map. */
static size_t colon_end(const hr_config *config, const hr_doc_node *node) {
  size_t at = node->key_begin;
  char quote = config->text[at];
  if (quote == '"' || quote == '\'')
    for (at++; at < node->begin && config->text[at] != quote; at++)
      at += config->text[at] == '\\' && quote == '"';
  while (at < node->begin && config->text[at] != ':')
    at++;
  return at < node->begin ? at + 1 : node->begin;
}

static hr_status place_value(const hr_config *config, hr_edit *edit, hr_arena *arena, hr_error *err) {
  const hr_doc_node *node = edit->node;
  edit->begin = node->begin;
  edit->end = node->end;
  const char *before = "";
  if (node->kind != HR_DOC_SCALAR && node->style == HR_DOC_BLOCK && !node->target) {
    /* A list by indentation: its value moves up behind the colon, where a scalar may stand in every case. */
    edit->begin = colon_end(config, node);
    before = " ";
  } else if (node->begin == node->end) {
    /* An empty value goes behind its colon; in a flow map that may be missing too. */
    size_t colon = node->begin;
    while (colon > 0 && strchr(" \t\r\n", config->text[colon - 1]))
      colon--;
    bool has = colon > 0 && config->text[colon - 1] == ':';
    edit->begin = edit->end = has ? colon : node->begin;
    before = has ? " " : ": ";
  }
  edit->splice = hr__arena_format(arena, "%s%s", before, edit->now);
  return edit->splice ? HR_OK : hr__nomem(err);
}

/* Why a value is not replaced, *name (may be NULL) added; NULL: it may be. */
static const char *obstacle(const hr_edit *edit, const found *f, const char **name) {
  const hr_doc_node *node = f->node;
  *name = f->shared;
  if (f->shared) return "it would change in other keys too, through the anchor &";
  *name = NULL;
  if (node->kind == HR_DOC_SCALAR && (strstr(node->text, "${") || strstr(node->text, "{{")))
    return "it is an interpolation: change what it refers to";
  if (node->target) return NULL; /* an alias as value: only its own bytes are replaced */
  *name = node->tag;
  if (node->tag) return "it carries the tag ";
  *name = NULL;
  if (node->kind == HR_DOC_MAP) return "it is a section";
  if (node->kind == HR_DOC_LIST && !edit->lists) return "it is a list";
  if (node->kind == HR_DOC_SCALAR && node->style == HR_DOC_BLOCK) return "it is a block of text";
  if (node->begin == node->end && node->anchor) return "it is an anchor without a value";
  return NULL;
}

static hr_status replace(const hr_config *config, hr_edit *edit, const found *f, hr_arena *arena, hr_error *err) {
  const hr_doc_node *node = f->node;
  edit->node = node;
  edit->line = node->line;
  edit->old = hr__arena_format(arena, "%.*s", (int)(node->end - node->begin), config->text + node->begin);
  edit->now = hr__literal_text(&edit->value, node, config->json, arena);
  if (!edit->old || !edit->now) return hr__nomem(err);
  if (hr__literal_means(&edit->value, edit->same, node) || (edit->empty && hr__doc_is_null(node))) {
    edit->outcome = HR_EDIT_SAME;
    return HR_OK;
  }
  const char *name = NULL, *why = obstacle(edit, f, &name);
  if (why) return leave(edit, arena, err, why, name);
  edit->outcome = HR_EDIT_WRITTEN;
  return place_value(config, edit, arena, err);
}

/* --- inserting ---------------------------------------------------------------------------------------------------- */

static const hr_doc_node *last_child(const hr_doc_node *map) {
  const hr_doc_node *last = map->child;
  while (last && last->next)
    last = last->next;
  return last;
}

static size_t line_end(const hr_config *config, size_t at) {
  while (at < config->bytes && config->text[at] != '\n' && config->text[at] != '\r')
    at++;
  return at;
}

static const char *line_break(const hr_config *config) {
  size_t at = line_end(config, 0);
  if (at == config->bytes || config->text[at] == '\n') return "\n";
  return at + 1 < config->bytes && config->text[at + 1] == '\n' ? "\r\n" : "\r";
}

/* Into a map in brackets: behind the last key, with the space that stands before that one. */
static const char *flow_splice(const hr_config *config, hr_edit *edit, const hr_doc_node *map, const char *key,
                               bool again, hr_arena *arena) {
  const hr_doc_node *last = last_child(map);
  bool quoted = config->json || (last && config->text[last->key_begin] == '"');
  const char *name = hr__literal_key(key, quoted, arena);
  edit->begin = last ? last->end : map->end - 1;
  if (!name) return NULL;
  if (!last) return hr__arena_format(arena, "%s%s: %s", again ? ", " : "", name, edit->now);
  size_t from = last->key_begin;
  while (from > 0 && strchr(" \t\r\n", config->text[from - 1]))
    from--;
  int space = (int)(last->key_begin - from);
  bool only = last == map->child && space == 0;
  return hr__arena_format(arena, ",%.*s%s: %s", only ? 1 : space, only ? " " : config->text + from, name, edit->now);
}

/* Into a map by indentation: a line of its own behind the last key where that is one line, else before the first. */
static const char *block_splice(const hr_config *config, hr_edit *edit, const hr_doc_node *map, const char *key,
                                hr_arena *arena) {
  const hr_doc_node *last = last_child(map);
  const char *name = hr__literal_key(key, false, arena), *eol = line_break(config);
  if (!name) return NULL;
  if (!last) { /* an empty document */
    bool open = config->bytes > 0 && line_end(config, config->bytes - 1) == config->bytes;
    edit->begin = config->bytes;
    return hr__arena_format(arena, "%s%s: %s%s", open ? eol : "", name, edit->now, eol);
  }
  int indent = map->child->key_column - 1;
  bool short_value =
      last->kind == HR_DOC_SCALAR && last->style != HR_DOC_BLOCK && line_end(config, last->key_begin) >= last->end;
  if (short_value) {
    edit->begin = line_end(config, last->end);
    edit->line = last->line;
    return hr__arena_format(arena, "%s%*s%s: %s", eol, indent, "", name, edit->now);
  }
  edit->begin = map->child->key_begin;
  edit->line = map->child->key_line;
  return hr__arena_format(arena, "%s: %s%s%*s", name, edit->now, eol, indent, "");
}

/* `again`: another key was put into the map before. */
static hr_status insert(const hr_config *config, hr_edit *edit, const found *f, bool again, hr_arena *arena,
                        hr_error *err) {
  const hr_doc_node *map = f->map;
  edit->node = map;
  edit->old = "";
  edit->now = hr__literal_text(&edit->value, NULL, config->json, arena);
  if (!edit->now) return hr__nomem(err);
  edit->splice = map->style == HR_DOC_FLOW ? flow_splice(config, edit, map, f->rest, again, arena)
                                           : block_splice(config, edit, map, f->rest, arena);
  edit->end = edit->begin;
  edit->outcome = HR_EDIT_INSERTED;
  return edit->splice ? HR_OK : hr__nomem(err);
}

static hr_status missing(const hr_config *config, hr_edit *edits, size_t i, const found *f, hr_arena *arena,
                         hr_error *err) {
  hr_edit *edit = &edits[i];
  bool again = false;
  for (size_t k = 0; k < i; k++)
    again |= edits[k].outcome == HR_EDIT_INSERTED && edits[k].node == f->map;
  bool possible = f->map && !f->shared && !f->map->target && !(f->map->aliases > 0);
  if (edit->insert && possible) return insert(config, edit, f, again, arena, err);
  if (f->merge) return leave(edit, arena, err, "its value comes through << from another section", NULL);
  edit->outcome = HR_EDIT_MISSING;
  edit->reason = !f->map     ? "there is no such section"
                 : !possible ? "its section is shared through an anchor"
                             : "there is no such key";
  return HR_OK;
}

/* One key can have one new value; a second wish for the same is the same, another one is left. */
static hr_status settle(hr_edit *edits, size_t i, hr_arena *arena, hr_error *err) {
  hr_edit *edit = &edits[i];
  if (edit->outcome != HR_EDIT_WRITTEN && edit->outcome != HR_EDIT_INSERTED) return HR_OK;
  for (size_t k = 0; k < i; k++) {
    if (edits[k].outcome != edit->outcome || edits[k].node != edit->node) continue;
    if (edit->outcome == HR_EDIT_INSERTED && strcmp(edits[k].path, edit->path) != 0) continue;
    if (strcmp(edits[k].now, edit->now) != 0) return leave(edit, arena, err, "another setting writes this key", NULL);
    edit->outcome = HR_EDIT_SAME;
  }
  return HR_OK;
}

hr_status hr__config_edit(const hr_config *config, hr_edit *edits, size_t count, hr_arena *arena, const char **text,
                          size_t *bytes, hr_error *err) {
  size_t written = 0;
  for (size_t i = 0; i < count; i++) {
    found f = find(config, edits[i].path);
    HR_TRY(f.node ? replace(config, &edits[i], &f, arena, err) : missing(config, edits, i, &f, arena, err));
    HR_TRY(settle(edits, i, arena, err));
    written += edits[i].outcome == HR_EDIT_WRITTEN || edits[i].outcome == HR_EDIT_INSERTED;
  }
  *text = config->text;
  *bytes = config->bytes;
  if (!written) return HR_OK;
  HR_TRY(hr__splice(config, edits, count, arena, text, bytes, err));
  return hr__splice_check(config, edits, count, *text, *bytes, err);
}
