/* Functions that every template can call. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "text/template_builtin.h"

static hr_status raise_exception(hr_render *r, const hr_builtin_call *call, hr_py *out) {
  HR_TRY(hr__py_str(r, call->arg[0], out));
  return hr__render_fail(r, "the template refuses this conversation: %.*s", (int)(out->bytes > 400 ? 400 : out->bytes),
                         out->text);
}

static hr_status strftime_now(hr_render *r, const hr_builtin_call *call, hr_py *out) {
  HR_TRY(hr__argument_string(r, call, call->arg[0]));
  char format[128], shown[512];
  if (call->arg[0].bytes >= sizeof format || memchr(call->arg[0].text, 0, call->arg[0].bytes))
    return hr__render_fail(r, "strftime_now takes a format of less than %zu bytes", sizeof format);
  memcpy(format, call->arg[0].text, call->arg[0].bytes);
  format[call->arg[0].bytes] = 0;
  time_t now = r->call->now ? (time_t)r->call->now : time(NULL);
  struct tm parts;
  if (!localtime_r(&now, &parts)) return hr__render_fail(r, "the time cannot be shown");
  size_t bytes = strftime(shown, sizeof shown, format, &parts);
  return hr__py_copy(r, shown, bytes, out);
}

static hr_status range(hr_render *r, const hr_builtin_call *call, hr_py *out) {
  enum { LONGEST = 100000 }; /* as Jinja's sandbox has it */
  int64_t begin = 0, end, step = 1;
  bool two = hr__py_given(call->arg[1]);
  HR_TRY(hr__argument_integer(r, call->arg[two ? 1 : 0], 0, &end));
  if (two) HR_TRY(hr__argument_integer(r, call->arg[0], 0, &begin));
  HR_TRY(hr__argument_integer(r, call->arg[2], 1, &step));
  if (step == 0) return hr__render_fail(r, "the step of a range cannot be 0");
  hr_py_list *list = NULL;
  HR_TRY(hr__py_list_new(r, 0, &list));
  for (int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (list->count == LONGEST) return hr__render_fail(r, "a range of more than %d numbers", LONGEST);
    HR_TRY(hr__py_list_add(r, list, hr__py_int(at)));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  char shown[96];
  int length = snprintf(shown, sizeof shown,
                        hr__py_given(call->arg[2]) && step != 1 ? "range(%lld, %lld, %lld)" : "range(%lld, %lld)",
                        (long long)begin, (long long)end, (long long)step);
  hr_py text;
  HR_TRY(hr__py_copy(r, shown, (size_t)length + 1, &text));
  list->shown = text.text;
  *out = hr__py_list(list, HR_PY_RANGE);
  return HR_OK;
}

/* dict(map), dict(pairs), dict(name=value, ...). */
static hr_status dict_fill(hr_render *r, const hr_arguments *given, hr_py_dict *dict) {
  if (given->positional > 1) return hr__render_fail(r, "a dict is made of at most one other value");
  hr_py from = given->positional ? given->values[0] : hr__py_undefined("", 0);
  if (from.kind == HR_PY_DICT) {
    for (size_t i = 0; i < from.dict->count; i++)
      HR_TRY(hr__py_dict_add(r, dict, from.dict->entries[i].key, from.dict->entries[i].value));
  } else {
    hr_py_list *pairs = NULL;
    HR_TRY(hr__py_iterate(r, from, &pairs));
    for (size_t i = 0; i < pairs->count; i++) {
      hr_py_list *pair = NULL;
      HR_TRY(hr__py_iterate(r, pairs->items[i], &pair));
      if (pair->count != 2) return hr__render_fail(r, "a dict is made of pairs");
      HR_TRY(hr__py_dict_set(r, dict, pair->items[0], pair->items[1]));
    }
  }
  for (size_t i = given->positional; i < given->count; i++)
    HR_TRY(hr__py_dict_set(r, dict, hr__py_string(given->names[i]->text, given->names[i]->bytes), given->values[i]));
  return HR_OK;
}

static hr_status dict(hr_render *r, const hr_builtin_call *call, hr_py *out) {
  *out = (hr_py){.kind = HR_PY_DICT};
  HR_TRY(hr__py_dict_new(r, &out->dict));
  return dict_fill(r, call->all, out->dict);
}

static hr_status namespace(hr_render *r, const hr_builtin_call *call, hr_py *out) {
  HR_TRY(dict(r, call, out));
  out->kind = HR_PY_NAMESPACE;
  return HR_OK;
}

static const hr_builtin rows[] = {
    {"raise_exception", raise_exception, "message"},
    {"strftime_now", strftime_now, "format"},
    {"range", range, "first | last step"},
    {"dict", dict, "*"},
    {"namespace", namespace, "*"},
    {"cycler", NULL, "*"},
    {"joiner", NULL, "*"},
    {"lipsum", NULL, "*"},
};

const hr_builtin *hr__builtin_function_at(size_t index) {
  return index < sizeof rows / sizeof rows[0] ? &rows[index] : NULL;
}
