/* A rendering under way: limits, memory, the place that is evaluated, and the operations of values that need them. */
#ifndef HR_TEXT_TEMPLATE_RENDER_H
#define HR_TEXT_TEMPLATE_RENDER_H

#include "base/mem.h"
#include "base/status.h"
#include "text/template.h"
#include "text/template_tree.h"
#include "text/template_value.h"

/* Text that grows. */
typedef struct hr_py_text {
  char *text;
  size_t bytes, capacity;
} hr_py_text;

/* Variables of one level; what is not here is looked for above. */
typedef struct hr_template_scope {
  struct hr_template_scope *above;
  struct hr_template_variable *variables;
  size_t count, capacity;
} hr_template_scope;

typedef struct hr_template_variable {
  const hr_template_name *name;
  hr_py value;
} hr_template_variable;

enum { HR_TEMPLATE_DEPTH = 400 }; /* of nodes inside nodes and of macros that call macros */

typedef struct hr_render {
  const hr_template *parsed;
  const hr_template_call *call;
  hr_arena *arena;
  size_t arena_begin; /* its used bytes at the start */
  hr_template_limits limits;
  uint64_t steps;
  int depth, loop_depth;
  int line; /* of the node that is evaluated */
  hr_template_scope *scope;
  hr_py_text *output;  /* the text, or what a macro or set block makes */
  hr_py_text document; /* the text */
  hr_text_range *generated;
  size_t generated_count, generated_capacity;
  hr_error *err;
} hr_render;

/* Counts work and checks limits; every loop over input goes through here. */
hr_status hr__render_work(hr_render *r, size_t amount);
/* Memory that holds anything. */
hr_status hr__render_room(hr_render *r, size_t count, size_t size, void *out_pointer);
__attribute__((format(printf, 2, 3))) hr_status hr__render_fail(hr_render *r, const char *format, ...);
__attribute__((format(printf, 2, 3))) hr_status hr__render_unsupported(hr_render *r, const char *format, ...);
/* An operation on an undefined value. */
hr_status hr__render_undefined(hr_render *r, hr_py value);

/* template_text.c: text that grows, strings, Python's str() and repr(). */
hr_status hr__py_put(hr_render *r, hr_py_text *to, const char *text, size_t bytes);
hr_status hr__py_put_character(hr_render *r, hr_py_text *to, uint32_t character);
hr_py hr__py_taken(const hr_py_text *text); /* as a string */
hr_status hr__py_copy(hr_render *r, const char *text, size_t bytes, hr_py *out);
hr_status hr__py_put_str(hr_render *r, hr_py_text *to, hr_py value);
hr_status hr__py_put_repr(hr_render *r, hr_py_text *to, hr_py value);
hr_status hr__py_str(hr_render *r, hr_py value, hr_py *out); /* strings as they are */
enum { HR_PY_FLOAT_TEXT = 32 };
void hr__py_float_text(double value, char out[HR_PY_FLOAT_TEXT]); /* repr of a float */

/* template_json.c */
typedef struct hr_json_style {
  bool ascii, sorted;
  hr_py indent; /* a string for each level; ABSENT: one line */
  hr_py item_separator, key_separator;
} hr_json_style;
hr_status hr__py_put_json(hr_render *r, hr_py_text *to, hr_py value, const hr_json_style *style);

/* template_collect.c: lists, dicts, iteration. */
hr_status hr__py_list_new(hr_render *r, size_t capacity, hr_py_list **out);
hr_status hr__py_list_add(hr_render *r, hr_py_list *list, hr_py value);
hr_py hr__py_list(hr_py_list *list, hr_py_kind kind);
hr_status hr__py_dict_new(hr_render *r, hr_py_dict **out);
hr_status hr__py_dict_add(hr_render *r, hr_py_dict *dict, hr_py key, hr_py value); /* a key that is not there yet */
hr_status hr__py_dict_set(hr_render *r, hr_py_dict *dict, hr_py key, hr_py value);
/* The value under a key; *found is NULL where there is none. Keys that Python cannot hash are errors. */
hr_status hr__py_dict_find(hr_render *r, const hr_py_dict *dict, hr_py key, hr_py **found);
/* What a loop over the value would see; uses iterators up. Not to be changed. */
hr_status hr__py_iterate(hr_render *r, hr_py value, hr_py_list **out);
hr_status hr__py_length(hr_render *r, hr_py value, int64_t *out);
hr_status hr__py_pair(hr_render *r, hr_py first, hr_py second, hr_py *out); /* a tuple */
hr_status hr__py_document(hr_render *r, const hr_doc_node *node, hr_py *out);

/* template_compare.c */
hr_status hr__py_equal(hr_render *r, hr_py a, hr_py b, bool *out);
hr_status hr__py_contains(hr_render *r, hr_py holder, hr_py item, bool *out);
hr_status hr__py_compare(hr_render *r, hr_template_operation operation, hr_py a, hr_py b, bool *out);
/* Stable, ascending; what Python cannot order is an error. keys[i] belongs to items[i]. */
hr_status hr__py_sort(hr_render *r, hr_py *keys, hr_py *items, size_t count, bool descending);

/* template_operators.c */
hr_status hr__py_binary(hr_render *r, hr_template_operation operation, hr_py a, hr_py b, hr_py *out);
hr_status hr__py_negate(hr_render *r, hr_py value, hr_py *out);

/* template_access.c */
hr_status hr__py_attribute(hr_render *r, hr_py value, const char *name, size_t bytes, hr_py *out); /* value.name */
hr_status hr__py_item(hr_render *r, hr_py value, hr_py key, hr_py *out);                           /* value[key] */
hr_status hr__py_slice(hr_render *r, hr_py value, hr_py begin, hr_py end, hr_py step, hr_py *out);

/* template_format.c: `format % values`. */
hr_status hr__py_percent(hr_render *r, hr_py format, hr_py values, hr_py *out);

typedef enum hr_py_letters { HR_PY_LOWER, HR_PY_UPPER, HR_PY_CAPITALIZE, HR_PY_TITLE } hr_py_letters;
/* template_strings.c: what filters and methods share. */
hr_status hr__py_strip(hr_render *r, hr_py string, hr_py characters, bool left, bool right, hr_py *out);
hr_status hr__py_to_case(hr_render *r, hr_py string, hr_py_letters style, hr_py *out);
hr_status hr__py_replace(hr_render *r, hr_py string, hr_py old, hr_py with, int64_t most, hr_py *out);
hr_status hr__py_join(hr_render *r, hr_py separator, const hr_py_list *strings, hr_py *out);

/* template_eval.c, template_run.c */
hr_status hr__template_evaluate(hr_render *r, const hr_template_node *node, hr_py *out);
hr_status hr__template_run(hr_render *r, const hr_template_node *statements);
hr_py *hr__template_variable(const hr_render *r, const hr_template_name *name); /* NULL: nowhere */
hr_status hr__template_define(hr_render *r, hr_template_scope *scope, const hr_template_name *name, hr_py value);

#endif
