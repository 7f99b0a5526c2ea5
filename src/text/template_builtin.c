#include "text/template_builtin.h"

#include <string.h>

const hr_builtin *hr__builtin_find(const hr_builtin *rows, size_t count, const char *name, size_t bytes) {
  for (size_t i = 0; i < count; i++)
    if (strlen(rows[i].name) == bytes && memcmp(rows[i].name, name, bytes) == 0) return &rows[i];
  return NULL;
}

/* The next word of a row's parameters; NULL: no more. */
static const char *word_next(const char **at, size_t *bytes, bool *optional) {
  *at += strspn(*at, " ");
  if (**at == '|') {
    *optional = true;
    *at += 1 + strspn(*at + 1, " ");
  }
  const char *word = *at;
  *bytes = strcspn(word, " ");
  *at += *bytes;
  return *bytes ? word : NULL;
}

static hr_status bind(hr_render *r, const hr_builtin *row, const hr_arguments *given, hr_builtin_call *call) {
  const char *at = row->parameters, *word;
  size_t bytes, position = 0, named = 0;
  bool optional = false;
  for (; (word = word_next(&at, &bytes, &optional)); position++) {
    bool found = position < given->positional;
    if (found) call->arg[position] = given->values[position];
    for (size_t i = given->positional; i < given->count; i++) {
      const hr_template_name *name = given->names[i];
      if (name->bytes != bytes || memcmp(name->text, word, bytes) != 0) continue;
      if (found) return hr__render_fail(r, "'%s' gets '%.60s' twice", row->name, name->text);
      call->arg[position] = given->values[i];
      found = true;
      named++;
    }
    if (!found && !optional) return hr__render_fail(r, "'%s' lacks an argument: %.*s", row->name, (int)bytes, word);
  }
  if (given->positional > position || named < given->count - given->positional)
    return hr__render_fail(r, "'%s' gets arguments that it does not take", row->name);
  return HR_OK;
}

hr_status hr__builtin_call(hr_render *r, const hr_builtin *row, hr_py self, const hr_arguments *arguments, hr_py *out) {
  hr_builtin_call call = {.row = row, .self = self, .all = arguments};
  HR_TRY(hr__render_work(r, 1));
  if (!row->call) return hr__render_unsupported(r, "'%s' is not supported in chat templates", row->name);
  if (strcmp(row->parameters, "*") != 0) HR_TRY(bind(r, row, arguments, &call));
  *out = hr__py_none();
  return row->call(r, &call, out);
}

hr_status hr__py_callable(hr_render *r, const hr_builtin *row, hr_py self, hr_py *out) {
  hr_py_callable *callable = NULL;
  HR_TRY(hr__render_room(r, 1, sizeof *callable, &callable));
  *callable = (hr_py_callable){.row = row, .self = self};
  *out = (hr_py){.kind = HR_PY_CALLABLE, .callable = callable};
  return HR_OK;
}

hr_status hr__py_call(hr_render *r, hr_py callee, const hr_arguments *arguments, hr_py *out) {
  if (callee.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, callee);
  if (callee.kind != HR_PY_CALLABLE)
    return hr__render_fail(r, "a value of type %s cannot be called", hr__py_type(callee));
  const hr_py_callable *callable = callee.callable;
  return callable->macro ? hr__template_macro(r, callable, arguments, out)
                         : hr__builtin_call(r, callable->row, callable->self, arguments, out);
}

hr_status hr__builtin_apply_filter(hr_render *r, hr_py name, hr_py self, const hr_arguments *arguments, hr_py *out) {
  const hr_builtin *row = name.kind == HR_PY_STRING ? hr__builtin_filter(name.text, name.bytes) : NULL;
  if (!row) return hr__render_unsupported(r, "a filter by a name that does not exist or is not supported");
  return hr__builtin_call(r, row, self, arguments, out);
}

hr_status hr__builtin_apply_test(hr_render *r, hr_py name, hr_py self, const hr_arguments *arguments, bool *out) {
  const hr_builtin *row = name.kind == HR_PY_STRING ? hr__builtin_test(name.text, name.bytes) : NULL;
  if (!row) return hr__render_unsupported(r, "a test by a name that does not exist or is not supported");
  hr_py result;
  HR_TRY(hr__builtin_call(r, row, self, arguments, &result));
  *out = hr__py_truth(result);
  return HR_OK;
}

hr_status hr__argument_integer(hr_render *r, hr_py value, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  if (!hr__py_given(value)) return HR_OK;
  if (!hr__py_integral(value))
    return hr__render_fail(r, "an integer is expected, not a value of type %s", hr__py_type(value));
  *out = hr__py_integer(value);
  return HR_OK;
}

hr_status hr__argument_string(hr_render *r, const hr_builtin_call *call, hr_py value) {
  if (value.kind == HR_PY_STRING) return HR_OK;
  return hr__render_fail(r, "'%s' takes a str, not a value of type %s", call->row->name, hr__py_type(value));
}
