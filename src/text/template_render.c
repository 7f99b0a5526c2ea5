/* A rendering's limits and errors, and the entry. */
#include "text/template_render.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "text/template_builtin.h"
#include "text/template_lexer.h"

enum { DEFAULT_STEPS = 20 * 1000 * 1000, DEFAULT_OUTPUT = 64 << 20, DEFAULT_MEMORY = 512 << 20 };

hr_status hr__render_work(hr_render *r, size_t amount) {
  if (amount < r->limits.steps - r->steps) {
    r->steps += amount;
    return HR_OK;
  }
  return hr__render_fail(r, "the template takes more than %llu steps", (unsigned long long)r->limits.steps);
}

hr_status hr__render_room(hr_render *r, size_t count, size_t size, void *out_pointer) {
  size_t bytes, used = r->arena->used_bytes - r->arena_begin;
  if (!hr__mul_size(count, size, &bytes) || used > r->limits.memory_bytes || bytes > r->limits.memory_bytes - used)
    return hr__render_fail(r, "the template takes more than %zu bytes of memory", r->limits.memory_bytes);
  void *room = hr__arena_room(r->arena, bytes ? bytes : 1, 1);
  if (!room) return hr__nomem(r->err);
  memcpy(out_pointer, &room, sizeof room);
  return HR_OK;
}

static hr_status fail(hr_render *r, hr_status status, const char *format, va_list args) {
  char message[512];
  vsnprintf(message, sizeof message, format, args);
  return hr__template_fail(r->err, status, r->parsed->place, r->line, "%s", message);
}

hr_status hr__render_fail(hr_render *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  hr_status status = fail(r, HR_BAD_INPUT, format, args);
  va_end(args);
  return status;
}

hr_status hr__render_unsupported(hr_render *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  hr_status status = fail(r, HR_UNSUPPORTED, format, args);
  va_end(args);
  return status;
}

hr_status hr__render_undefined(hr_render *r, hr_py value) {
  int bytes = value.bytes > 100 ? 100 : (int)value.bytes;
  return hr__render_fail(r, "'%.*s' is undefined", bytes, bytes ? value.text : "");
}

/* Functions that every template has, below its variables. */
static hr_status scope_fill(hr_render *r, hr_template_scope *scope) {
  const hr_builtin *row;
  for (size_t i = 0; (row = hr__builtin_function_at(i)); i++) {
    const hr_template_name *name = hr__template_name(r->parsed, row->name, strlen(row->name));
    if (!name) continue; /* the template never says it */
    hr_py function;
    HR_TRY(hr__py_callable(r, row, hr__py_none(), &function));
    HR_TRY(hr__template_define(r, scope, name, function));
  }
  for (const hr_doc_node *node = r->call->variables ? r->call->variables->child : NULL; node; node = node->next) {
    const hr_template_name *name = hr__template_name(r->parsed, node->key, strlen(node->key));
    if (!name) continue;
    hr_py value;
    HR_TRY(hr__py_document(r, node, &value));
    HR_TRY(hr__template_define(r, scope, name, value));
  }
  return HR_OK;
}

hr_status hr__template_render(const hr_template *parsed, const hr_template_call *call, hr_arena *arena,
                              hr_rendered *out, hr_error *err) {
  hr_render r = {.parsed = parsed,
                 .call = call,
                 .arena = arena,
                 .arena_begin = arena->used_bytes,
                 .line = 1,
                 .limits = call->limits,
                 .err = err};
  if (!r.limits.steps) r.limits.steps = DEFAULT_STEPS;
  if (!r.limits.output_bytes) r.limits.output_bytes = DEFAULT_OUTPUT;
  if (!r.limits.memory_bytes) r.limits.memory_bytes = DEFAULT_MEMORY;
  if (call->variables && call->variables->kind != HR_DOC_MAP)
    return hr__render_fail(&r, "the variables of a template are a map of names to values");
  hr_template_scope given = {0}, own = {.above = &given};
  r.scope = &own;
  r.output = &r.document;
  HR_TRY(scope_fill(&r, &given));
  HR_TRY(hr__template_run(&r, parsed->body));
  HR_TRY(hr__py_put(&r, &r.document, "", 1)); /* the NUL */
  *out = (hr_rendered){.text = r.document.text,
                       .bytes = r.document.bytes - 1,
                       .generated = r.generated,
                       .generated_count = r.generated_count};
  return HR_OK;
}
