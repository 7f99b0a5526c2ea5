/* Which template a model folder has. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "format/file.h"
#include "format/gguf.h"
#include "text/gguf.h"
#include "text/template.h"

enum { CONFIG_BYTES = HR_DOC_MAX_BYTES };

static hr_status file_in(const char *folder, const char *name, hr_arena *arena, const char **path, hr_error *err) {
  *path = hr__arena_format(arena, "%s/%s", folder, name);
  return *path ? HR_OK : hr__nomem(err);
}

/* The template of a list of {name, template} that serves the call. */
static const hr_doc_node *listed(const hr_doc_node *list, bool tools) {
  const hr_doc_node *found = NULL;
  for (const hr_doc_node *entry = list->child; entry; entry = entry->next) {
    const hr_doc_node *name = hr__doc_get(entry, "name"), *text = hr__doc_get(entry, "template");
    if (!name || !text || name->kind != HR_DOC_SCALAR) continue;
    if (tools && strcmp(name->text, "tool_use") == 0) return text;
    if (strcmp(name->text, "default") == 0) found = text;
  }
  return found;
}

static hr_status from_config(const char *path, bool tools, hr_arena *arena, const char **text, hr_error *err) {
  char *json = NULL;
  size_t bytes;
  hr_doc_node *root = NULL;
  HR_TRY(hr__file_read(path, CONFIG_BYTES, arena, &json, &bytes, err));
  HR_TRY(hr__json_parse(path, json, bytes, arena, &root, err));
  const hr_doc_node *found = hr__doc_get(root, "chat_template");
  if (!found || hr__doc_is_null(found)) return HR_OK;
  char place[HR_DOC_PLACE];
  hr__doc_place(path, found, false, place);
  if (found->kind == HR_DOC_LIST && !(found = listed(found, tools)))
    return hr__fail(err, HR_BAD_INPUT, place, "name one of them \"default\"",
                    "chat_template is a list without a template for this call");
  if (found->kind != HR_DOC_SCALAR || !found->quoted)
    return hr__fail(err, HR_BAD_INPUT, place, NULL, "chat_template is neither a text nor a list of {name, template}");
  *text = found->text;
  return HR_OK;
}

static hr_status from_gguf(const char *path, hr_arena *arena, const char **text, size_t *bytes, const char **name,
                           hr_error *err) {
  hr_gguf *file = NULL;
  hr_gguf_text template = {0};
  HR_TRY(hr__gguf_open_lean(path, &file, err));
  bool there = hr__gguf_chat_template(file, &template);
  *name = hr__arena_format(arena, "%s, tokenizer.chat_template", path);
  if (there) *text = hr__arena_format(arena, "%.*s", (int)template.bytes, template.text);
  *bytes = template.bytes;
  hr__gguf_close(file);
  return *name && (*text || !there) ? HR_OK : hr__nomem(err);
}

hr_status hr__template_of_folder(const char *folder, bool tools, hr_arena *arena, const char **text, size_t *bytes,
                                 const char **name, hr_error *err) {
  *text = NULL;
  if (hr__gguf_is_name(folder)) return from_gguf(folder, arena, text, bytes, name, err);
  HR_TRY(file_in(folder, "chat_template.jinja", arena, name, err));
  if (access(*name, F_OK) == 0) {
    char *whole = NULL;
    HR_TRY(hr__file_read(*name, HR_TEMPLATE_MAX_BYTES, arena, &whole, bytes, err));
    *text = whole;
    return HR_OK;
  }
  HR_TRY(file_in(folder, "tokenizer_config.json", arena, name, err));
  if (access(*name, F_OK) != 0) return HR_OK;
  HR_TRY(from_config(*name, tools, arena, text, err));
  if (!*text) return HR_OK;
  *bytes = strlen(*text);
  *name = hr__arena_format(arena, "%s, chat_template", *name);
  return *name ? HR_OK : hr__nomem(err);
}
