/* Values of templates: what Python would have in their place.
 *
 * A value is passed by copy; what it points to lies in the rendering's arena, the parsed template or the variables, and
 * is not changed once it is made, but for namespaces and for iterators, which are used up.
 */
#ifndef HR_TEXT_TEMPLATE_VALUE_H
#define HR_TEXT_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum hr_py_kind {
  HR_PY_ABSENT, /* an argument that was not given; no expression has this value */
  HR_PY_UNDEFINED,
  HR_PY_NONE,
  HR_PY_BOOL,
  HR_PY_INT,
  HR_PY_FLOAT,
  HR_PY_STRING,
  HR_PY_LIST,
  HR_PY_TUPLE,
  HR_PY_VIEW,     /* dict_keys, dict_values, dict_items: sized, but without index */
  HR_PY_RANGE,    /* sized, with index */
  HR_PY_ITERATOR, /* generators: each item once, no length */
  HR_PY_DICT,
  HR_PY_NAMESPACE,
  HR_PY_LOOP,
  HR_PY_CALLABLE /* function, method of a value, macro */
} hr_py_kind;

typedef struct hr_py hr_py;

typedef struct hr_py_list {
  hr_py *items;
  size_t count, capacity;
  size_t next;       /* iterators: the first item that nobody has seen */
  const char *shown; /* views: "dict_items"; ranges: "range(0, 3)"; iterators: "generator" */
} hr_py_list;

typedef struct hr_py_dict {
  struct hr_py_entry *entries; /* in order of insertion */
  size_t count, capacity;
} hr_py_dict;

struct hr_py {
  hr_py_kind kind;
  bool markup; /* strings made by |safe: `+` escapes what it joins to them */
  union {
    bool truth;
    int64_t integer;
    double real;
    struct { /* strings: UTF-8; undefined: the name, for messages */
      const char *text;
      size_t bytes;
    };
    hr_py_list *list;
    hr_py_dict *dict; /* dicts and namespaces */
    const struct hr_py_loop *loop;
    const struct hr_py_callable *callable;
  };
};

typedef struct hr_py_entry {
  hr_py key, value;
} hr_py_entry;

typedef struct hr_py_loop {
  const hr_py_list *items;
  size_t index0;
  int depth0;
} hr_py_loop;

static inline hr_py hr__py_none(void) {
  return (hr_py){.kind = HR_PY_NONE};
}
static inline hr_py hr__py_bool(bool truth) {
  return (hr_py){.kind = HR_PY_BOOL, .truth = truth};
}
static inline hr_py hr__py_int(int64_t integer) {
  return (hr_py){.kind = HR_PY_INT, .integer = integer};
}
static inline hr_py hr__py_float(double real) {
  return (hr_py){.kind = HR_PY_FLOAT, .real = real};
}
static inline hr_py hr__py_string(const char *text, size_t bytes) {
  return (hr_py){.kind = HR_PY_STRING, .text = text, .bytes = bytes};
}
static inline hr_py hr__py_undefined(const char *name, size_t bytes) {
  return (hr_py){.kind = HR_PY_UNDEFINED, .text = name, .bytes = bytes};
}

static inline bool hr__py_given(hr_py value) {
  return value.kind != HR_PY_ABSENT;
}
/* An argument left out, or None. */
static inline bool hr__py_nothing(hr_py value) {
  return value.kind == HR_PY_ABSENT || value.kind == HR_PY_NONE;
}
/* bool counts as int, as in Python. */
static inline bool hr__py_integral(hr_py value) {
  return value.kind == HR_PY_INT || value.kind == HR_PY_BOOL;
}
static inline int64_t hr__py_integer(hr_py value) {
  return value.kind == HR_PY_BOOL ? value.truth : value.integer;
}
static inline bool hr__py_number(hr_py value) {
  return hr__py_integral(value) || value.kind == HR_PY_FLOAT;
}
static inline double hr__py_real(hr_py value) {
  return value.kind == HR_PY_FLOAT ? value.real : (double)hr__py_integer(value);
}
/* Whether items can be had by number. */
static inline bool hr__py_indexed(hr_py value) {
  return value.kind == HR_PY_LIST || value.kind == HR_PY_TUPLE || value.kind == HR_PY_RANGE;
}

bool hr__py_is(hr_py value, const char *text); /* a string that equals `text` */
bool hr__py_truth(hr_py value);
const char *hr__py_type(hr_py value); /* Python's name of its type, for messages */

#endif
