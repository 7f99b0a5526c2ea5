/* See api.h. */
#include "library/api.h"

#include <string.h>

#include "base/mem.h"
#include "format/json.h"

const char *hr_version(void) {
  return HR_VERSION;
}

hr_result hr__api_result(hr_status status) {
  return (hr_result)hr_status_exit_code(status);
}

hr_error *hr_error_create(void) {
  return hr__alloc_zero(1, sizeof(hr_error));
}
void hr_error_destroy(hr_error *error) {
  hr__free(error);
}
const char *hr_error_message(const hr_error *error) {
  return error ? error->message : "";
}
const char *hr_error_place(const hr_error *error) {
  return error ? error->place : "";
}
const char *hr_error_remedy(const hr_error *error) {
  return error ? error->remedy : "";
}
void hr_text_destroy(char *text) {
  hr__free(text);
}

char *hr__api_copy(const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = hr__alloc(bytes);
  if (copy) memcpy(copy, text, bytes);
  return copy;
}

hr_status hr__api_text(json_t *object, char **text, hr_error *error) {
  hr_arena arena = {0};
  char *made;
  size_t bytes;
  hr_status status = hr__json_text(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9), &arena, &made, &bytes, error);
  json_decref(object);
  *text = status == HR_OK ? hr__api_copy(made) : NULL;
  hr__arena_fini(&arena);
  return *text ? HR_OK : hr__nomem(error);
}
