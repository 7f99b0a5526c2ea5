/* Renders templates for test/text/compare_templates.py: one request a line on stdin, one answer a line on stdout.
 *
 * A request is {"template": path, "variables": {...}, "now": seconds}; an answer {"text": ..., "ranges": [[b, e],
 * ...]}, or {"error": message, "place": ..., "unsupported": true where that is why}. The last template stays parsed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/file.h"
#include "format/json.h"
#include "text/template.h"

typedef struct renderer {
  hr_template *parsed;
  char *path;
} renderer;

static hr_status template_take(renderer *r, const char *path, hr_arena *arena, hr_error *err) {
  if (r->path && strcmp(r->path, path) == 0) return HR_OK;
  hr__template_destroy(r->parsed);
  free(r->path);
  *r = (renderer){0};
  char *text;
  size_t bytes;
  HR_TRY(hr__file_read(path, HR_TEMPLATE_MAX_BYTES, arena, &text, &bytes, err));
  HR_TRY(hr__template_parse(path, text, bytes, &r->parsed, err));
  r->path = strdup(path);
  return HR_OK;
}

static hr_status answer(renderer *r, const char *line, size_t bytes, hr_arena *arena, hr_rendered *out, hr_error *err) {
  hr_doc_node *request = NULL;
  HR_TRY(hr__json_parse("stdin", line, bytes, arena, &request, err));
  const hr_doc_node *path = hr__doc_get(request, "template"), *now = hr__doc_get(request, "now");
  if (!path) return hr__fail(err, HR_USAGE, "stdin", NULL, "a request names its template");
  hr_template_call call = {.variables = hr__doc_get(request, "variables")};
  if (now) hr__doc_int(now, &call.now);
  HR_TRY(template_take(r, path->text, arena, err));
  return hr__template_render(r->parsed, &call, arena, out, err);
}

int main(void) {
  renderer r = {0};
  char *line = NULL;
  size_t capacity = 0;
  for (ssize_t bytes; (bytes = getline(&line, &capacity, stdin)) > 0;) {
    hr_arena arena = {0};
    hr_rendered made = {0};
    hr_error err = {0};
    hr_status status = answer(&r, line, (size_t)bytes, &arena, &made, &err);
    json_t *reply = json_object();
    if (status == HR_OK) {
      json_t *ranges = json_array();
      for (size_t i = 0; i < made.generated_count; i++)
        json_array_append_new(
            ranges, json_pack("[I,I]", (json_int_t)made.generated[i].begin, (json_int_t)made.generated[i].end));
      json_object_set_new(reply, "text", json_stringn(made.text, made.bytes));
      json_object_set_new(reply, "ranges", ranges);
    } else {
      json_object_set_new(reply, "error", json_string(err.message));
      json_object_set_new(reply, "place", json_string(err.place));
      json_object_set_new(reply, "unsupported", json_boolean(status == HR_UNSUPPORTED));
    }
    json_dumpf(reply, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(reply);
    hr__arena_fini(&arena);
  }
  hr__template_destroy(r.parsed);
  free(r.path);
  free(line);
  return 0;
}
