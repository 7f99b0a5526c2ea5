/* Tests: `value is NAME`. */
#include <string.h>

#include "text/template_builtin.h"

#define TEST(name, condition)                                                                                          \
  static hr_status name(hr_render *r, const hr_builtin_call *call, hr_py *out) {                                       \
    (void)r;                                                                                                           \
    hr_py value = call->self;                                                                                          \
    *out = hr__py_bool(condition);                                                                                     \
    return HR_OK;                                                                                                      \
  }

TEST(is_defined, value.kind != HR_PY_UNDEFINED)
TEST(is_undefined, value.kind == HR_PY_UNDEFINED)
TEST(is_none, value.kind == HR_PY_NONE)
TEST(is_true, value.kind == HR_PY_BOOL && value.truth)
TEST(is_false, value.kind == HR_PY_BOOL && !value.truth)
TEST(is_boolean, value.kind == HR_PY_BOOL)
TEST(is_integer, value.kind == HR_PY_INT)
TEST(is_float, value.kind == HR_PY_FLOAT)
TEST(is_number, hr__py_number(value))
TEST(is_string, value.kind == HR_PY_STRING)
TEST(is_mapping, value.kind == HR_PY_DICT)
TEST(is_callable, value.kind == HR_PY_CALLABLE || value.kind == HR_PY_UNDEFINED)
/* Whatever has a length and items by key: dicts and strings too, and what is undefined. */
TEST(is_sequence,
     hr__py_indexed(value) || value.kind == HR_PY_STRING || value.kind == HR_PY_DICT || value.kind == HR_PY_UNDEFINED)
TEST(is_iterable, hr__py_indexed(value) || value.kind == HR_PY_STRING || value.kind == HR_PY_DICT ||
                      value.kind == HR_PY_UNDEFINED || value.kind == HR_PY_VIEW || value.kind == HR_PY_ITERATOR ||
                      value.kind == HR_PY_LOOP)
TEST(is_filter, value.kind == HR_PY_STRING && hr__builtin_filter(value.text, value.bytes))
TEST(is_test, value.kind == HR_PY_STRING && hr__builtin_test(value.text, value.bytes))

/* Whether what is left over value % by is `rest`. */
static hr_status leaves(hr_render *r, const hr_builtin_call *call, hr_py by, int64_t rest, hr_py *out) {
  hr_py left;
  bool same;
  HR_TRY(hr__py_binary(r, HR_T_MODULO, call->self, by, &left));
  HR_TRY(hr__py_equal(r, left, hr__py_int(rest), &same));
  *out = hr__py_bool(same);
  return HR_OK;
}
static hr_status is_odd(hr_render *r, const hr_builtin_call *call, hr_py *out) {
  return leaves(r, call, hr__py_int(2), 1, out);
}
static hr_status is_even(hr_render *r, const hr_builtin_call *call, hr_py *out) {
  return leaves(r, call, hr__py_int(2), 0, out);
}
static hr_status is_divisible(hr_render *r, const hr_builtin_call *call, hr_py *out) {
  return leaves(r, call, call->arg[0], 0, out);
}

static hr_status letters(hr_render *r, hr_py value, hr_py_letters style, hr_py *out) {
  hr_py text, changed, other;
  HR_TRY(hr__py_str(r, value, &text));
  HR_TRY(hr__py_to_case(r, text, style, &changed));
  HR_TRY(hr__py_to_case(r, text, style == HR_PY_LOWER ? HR_PY_UPPER : HR_PY_LOWER, &other));
  bool same, letterless; /* without a letter it is neither */
  HR_TRY(hr__py_equal(r, text, changed, &same));
  HR_TRY(hr__py_equal(r, changed, other, &letterless));
  *out = hr__py_bool(same && !letterless);
  return HR_OK;
}
static hr_status is_lower(hr_render *r, const hr_builtin_call *call, hr_py *out) {
  return letters(r, call->self, HR_PY_LOWER, out);
}
static hr_status is_upper(hr_render *r, const hr_builtin_call *call, hr_py *out) {
  return letters(r, call->self, HR_PY_UPPER, out);
}

static hr_status compared(hr_render *r, const hr_builtin_call *call, hr_template_operation operation, hr_py *out) {
  bool holds;
  HR_TRY(hr__py_compare(r, operation, call->self, call->arg[0], &holds));
  *out = hr__py_bool(holds);
  return HR_OK;
}

#define COMPARED(name, operation)                                                                                      \
  static hr_status name(hr_render *r, const hr_builtin_call *call, hr_py *out) {                                       \
    return compared(r, call, operation, out);                                                                          \
  }
COMPARED(is_equal, HR_T_EQUAL)
COMPARED(is_unequal, HR_T_UNEQUAL)
COMPARED(is_less, HR_T_LESS)
COMPARED(is_less_equal, HR_T_LESS_EQUAL)
COMPARED(is_greater, HR_T_GREATER)
COMPARED(is_greater_equal, HR_T_GREATER_EQUAL)
COMPARED(is_in, HR_T_IN)

static const hr_builtin rows[] = {
    {"defined", is_defined, ""},
    {"undefined", is_undefined, ""},
    {"none", is_none, ""},
    {"true", is_true, ""},
    {"false", is_false, ""},
    {"boolean", is_boolean, ""},
    {"integer", is_integer, ""},
    {"float", is_float, ""},
    {"number", is_number, ""},
    {"string", is_string, ""},
    {"mapping", is_mapping, ""},
    {"sequence", is_sequence, ""},
    {"iterable", is_iterable, ""},
    {"callable", is_callable, ""},
    {"filter", is_filter, ""},
    {"test", is_test, ""},
    {"odd", is_odd, ""},
    {"even", is_even, ""},
    {"divisibleby", is_divisible, "num"},
    {"lower", is_lower, ""},
    {"upper", is_upper, ""},
    {"eq", is_equal, "other"},
    {"equalto", is_equal, "other"},
    {"==", is_equal, "other"},
    {"ne", is_unequal, "other"},
    {"!=", is_unequal, "other"},
    {"lt", is_less, "other"},
    {"lessthan", is_less, "other"},
    {"<", is_less, "other"},
    {"le", is_less_equal, "other"},
    {"<=", is_less_equal, "other"},
    {"gt", is_greater, "other"},
    {"greaterthan", is_greater, "other"},
    {">", is_greater, "other"},
    {"ge", is_greater_equal, "other"},
    {">=", is_greater_equal, "other"},
    {"in", is_in, "seq"},
    {"sameas", NULL, "*"},
    {"escaped", NULL, "*"},
};

const hr_builtin *hr__builtin_test(const char *name, size_t bytes) {
  return hr__builtin_find(rows, sizeof rows / sizeof rows[0], name, bytes);
}
