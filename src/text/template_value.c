#include "text/template_value.h"

#include <string.h>

bool hr__py_is(hr_py value, const char *text) {
  return value.kind == HR_PY_STRING && value.bytes == strlen(text) && memcmp(value.text, text, value.bytes) == 0;
}

bool hr__py_truth(hr_py value) {
  switch (value.kind) {
  case HR_PY_BOOL:
    return value.truth;
  case HR_PY_INT:
    return value.integer != 0;
  case HR_PY_FLOAT:
    return value.real != 0;
  case HR_PY_STRING:
    return value.bytes > 0;
  case HR_PY_LIST:
  case HR_PY_TUPLE:
  case HR_PY_VIEW:
  case HR_PY_RANGE:
    return value.list->count > 0;
  case HR_PY_DICT:
    return value.dict->count > 0;
  case HR_PY_ITERATOR:
  case HR_PY_NAMESPACE:
  case HR_PY_LOOP:
  case HR_PY_CALLABLE:
    return true;
  default:
    return false;
  }
}

const char *hr__py_type(hr_py value) {
  static const char *const names[] = {[HR_PY_ABSENT] = "nothing", [HR_PY_UNDEFINED] = "Undefined",
                                      [HR_PY_NONE] = "None",      [HR_PY_BOOL] = "bool",
                                      [HR_PY_INT] = "int",        [HR_PY_FLOAT] = "float",
                                      [HR_PY_STRING] = "str",     [HR_PY_LIST] = "list",
                                      [HR_PY_TUPLE] = "tuple",    [HR_PY_VIEW] = "view of a dict",
                                      [HR_PY_RANGE] = "range",    [HR_PY_ITERATOR] = "generator",
                                      [HR_PY_DICT] = "dict",      [HR_PY_NAMESPACE] = "namespace",
                                      [HR_PY_LOOP] = "loop",      [HR_PY_CALLABLE] = "function"};
  return names[value.kind];
}
