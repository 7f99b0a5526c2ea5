/* + - * / // % ~ of two values. Integers have 64 bits: beyond that is an error, not a wrong number. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "text/template_render.h"

static hr_status refused(hr_render *r, const char *sign, hr_py a, hr_py b) {
  if (a.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, a);
  if (b.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, b);
  return hr__render_fail(r, "there is no %s of values of types %s and %s", sign, hr__py_type(a), hr__py_type(b));
}

static hr_status put_escaped(hr_render *r, hr_py_text *to, hr_py string) {
  for (size_t i = 0; i < string.bytes; i++) {
    char c = string.text[i];
    const char *as = c == '&'    ? "&amp;"
                     : c == '<'  ? "&lt;"
                     : c == '>'  ? "&gt;"
                     : c == '"'  ? "&#34;"
                     : c == '\'' ? "&#39;"
                                 : NULL;
    HR_TRY(hr__py_put(r, to, as ? as : &c, as ? strlen(as) : 1));
  }
  return HR_OK;
}

static hr_status strings_join(hr_render *r, hr_py a, hr_py b, hr_py *out) {
  hr_py_text text = {0};
  size_t bytes;
  bool markup = a.markup || b.markup;
  if (!markup && hr__add_size(a.bytes, b.bytes, &bytes) && bytes <= r->limits.output_bytes) {
    HR_TRY(hr__render_room(r, bytes, 1, &text.text)); /* exactly as much: most sums are read once */
    text.capacity = bytes;
  }
  HR_TRY(markup && !a.markup ? put_escaped(r, &text, a) : hr__py_put(r, &text, a.text, a.bytes));
  HR_TRY(markup && !b.markup ? put_escaped(r, &text, b) : hr__py_put(r, &text, b.text, b.bytes));
  *out = hr__py_taken(&text);
  out->markup = markup;
  return HR_OK;
}

static hr_status lists_join(hr_render *r, hr_py a, hr_py b, hr_py *out) {
  hr_py_list *list = NULL;
  size_t count = a.list->count + b.list->count;
  HR_TRY(hr__render_work(r, count / 16));
  HR_TRY(hr__py_list_new(r, count, &list));
  memcpy(list->items, a.list->items, a.list->count * sizeof *list->items);
  memcpy(list->items + a.list->count, b.list->items, b.list->count * sizeof *list->items);
  list->count = count;
  *out = hr__py_list(list, a.kind);
  return HR_OK;
}

static hr_status repeat(hr_render *r, hr_py a, int64_t times, hr_py *out) {
  size_t count = times > 0 ? (size_t)times : 0;
  if (a.kind == HR_PY_STRING) {
    if (a.markup) return hr__render_unsupported(r, "repeating a |safe text");
    hr_py_text text = {0};
    if (!a.bytes) count = 0;
    for (size_t i = 0; i < count; i++) {
      HR_TRY(hr__render_work(r, 1));
      HR_TRY(hr__py_put(r, &text, a.text, a.bytes));
    }
    *out = hr__py_taken(&text);
    return HR_OK;
  }
  hr_py_list *list = NULL;
  HR_TRY(hr__py_list_new(r, 0, &list));
  if (!a.list->count) count = 0;
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < a.list->count; k++) {
      HR_TRY(hr__render_work(r, 1));
      HR_TRY(hr__py_list_add(r, list, a.list->items[k]));
    }
  *out = hr__py_list(list, a.kind);
  return HR_OK;
}

static bool repeatable(hr_py value) {
  return value.kind == HR_PY_STRING || value.kind == HR_PY_LIST || value.kind == HR_PY_TUPLE;
}

static const char *const signs[] = {[HR_T_ADD] = "+",    [HR_T_SUBTRACT] = "-",      [HR_T_MULTIPLY] = "*",
                                    [HR_T_DIVIDE] = "/", [HR_T_FLOOR_DIVIDE] = "//", [HR_T_MODULO] = "%"};

static hr_status integers(hr_render *r, hr_template_operation operation, int64_t a, int64_t b, hr_py *out) {
  int64_t result = 0;
  bool good = true;
  if (operation == HR_T_ADD) good = hr__add_i64(a, b, &result);
  if (operation == HR_T_SUBTRACT) good = !__builtin_sub_overflow(a, b, &result);
  if (operation == HR_T_MULTIPLY) good = hr__mul_i64(a, b, &result);
  if (operation == HR_T_FLOOR_DIVIDE || operation == HR_T_MODULO) {
    if (b == 0) return hr__render_fail(r, "division by zero");
    good = !(b == -1 && a == INT64_MIN);
    int64_t quotient = good ? a / b : 0, rest = good ? a % b : 0;
    bool down = rest != 0 && (rest < 0) != (b < 0); /* Python rounds down, C towards zero */
    result = operation == HR_T_MODULO ? rest + (down ? b : 0) : quotient - down;
  }
  if (!good) return hr__render_fail(r, "a result of %s has more than 64 bits", signs[operation]);
  *out = hr__py_int(result);
  return HR_OK;
}

static hr_status reals(hr_render *r, hr_template_operation operation, double a, double b, hr_py *out) {
  if (operation >= HR_T_DIVIDE && b == 0) return hr__render_fail(r, "division by zero");
  double rest = operation >= HR_T_FLOOR_DIVIDE ? fmod(a, b) : 0;
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (rest == 0) rest = copysign(0.0, b);
  double floored = operation == HR_T_FLOOR_DIVIDE ? floor((a - rest) / b + 0.5) : 0;
  *out = hr__py_float(operation == HR_T_ADD            ? a + b
                      : operation == HR_T_SUBTRACT     ? a - b
                      : operation == HR_T_MULTIPLY     ? a * b
                      : operation == HR_T_DIVIDE       ? a / b
                      : operation == HR_T_FLOOR_DIVIDE ? floored
                                                       : rest);
  return HR_OK;
}

static hr_status concat(hr_render *r, hr_py a, hr_py b, hr_py *out) {
  hr_py_text text = {0};
  HR_TRY(hr__py_put_str(r, &text, a));
  HR_TRY(hr__py_put_str(r, &text, b));
  *out = hr__py_taken(&text);
  return HR_OK;
}

hr_status hr__py_binary(hr_render *r, hr_template_operation operation, hr_py a, hr_py b, hr_py *out) {
  if (operation == HR_T_CONCAT) return concat(r, a, b, out);
  if (operation == HR_T_MODULO && a.kind == HR_PY_STRING) return hr__py_percent(r, a, b, out);
  if (hr__py_number(a) && hr__py_number(b)) {
    bool whole = hr__py_integral(a) && hr__py_integral(b) && operation != HR_T_DIVIDE;
    return whole ? integers(r, operation, hr__py_integer(a), hr__py_integer(b), out)
                 : reals(r, operation, hr__py_real(a), hr__py_real(b), out);
  }
  if (operation == HR_T_ADD && a.kind == b.kind) {
    if (a.kind == HR_PY_STRING) return strings_join(r, a, b, out);
    if (a.kind == HR_PY_LIST || a.kind == HR_PY_TUPLE) return lists_join(r, a, b, out);
  }
  if (operation == HR_T_MULTIPLY && repeatable(a) && hr__py_integral(b)) return repeat(r, a, hr__py_integer(b), out);
  if (operation == HR_T_MULTIPLY && repeatable(b) && hr__py_integral(a)) return repeat(r, b, hr__py_integer(a), out);
  return refused(r, signs[operation], a, b);
}

hr_status hr__py_negate(hr_render *r, hr_py value, hr_py *out) {
  if (value.kind == HR_PY_FLOAT) {
    *out = hr__py_float(-value.real);
    return HR_OK;
  }
  if (hr__py_integral(value)) return integers(r, HR_T_SUBTRACT, 0, hr__py_integer(value), out);
  if (value.kind == HR_PY_UNDEFINED) return hr__render_undefined(r, value);
  return hr__render_fail(r, "a value of type %s has no sign", hr__py_type(value));
}
