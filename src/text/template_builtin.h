/* What templates can call: filters, tests, methods and functions, each one row of a table in the file of its kind. */
#ifndef HR_TEXT_TEMPLATE_BUILTIN_H
#define HR_TEXT_TEMPLATE_BUILTIN_H

#include "text/template_render.h"

enum { HR_BUILTIN_PARAMETERS = 6 };

/* Arguments as the template gives them: first those by position, then those by name. */
typedef struct hr_arguments {
  const hr_py *values;
  const hr_template_name *const *names; /* of each; NULL: by position */
  size_t count, positional;
} hr_arguments;

typedef struct hr_builtin hr_builtin;
typedef struct hr_builtin_call {
  const hr_builtin *row;
  hr_py self;                       /* what is filtered, tested, or has the method */
  hr_py arg[HR_BUILTIN_PARAMETERS]; /* by the row's parameters; HR_PY_ABSENT: not given */
  const hr_arguments *all;          /* for rows that take any */
} hr_builtin_call;

typedef hr_status (*hr_builtin_function)(hr_render *r, const hr_builtin_call *call, hr_py *out);

struct hr_builtin {
  const char *name;
  hr_builtin_function call; /* NULL: Python has it, this does not */
  /* Names with blanks between them; those behind '|' may be left out; "*" takes any arguments. */
  const char *parameters;
};

/* Binds arguments to parameters and calls. */
hr_status hr__builtin_call(hr_render *r, const hr_builtin *row, hr_py self, const hr_arguments *arguments, hr_py *out);

/* NULL: there is none of this name. */
const hr_builtin *hr__builtin_filter(const char *name, size_t bytes);
const hr_builtin *hr__builtin_list_filter(const char *name, size_t bytes); /* of those of lists and dicts alone */
const hr_builtin *hr__builtin_test(const char *name, size_t bytes);
const hr_builtin *hr__builtin_function_at(size_t index); /* of the functions that every template has; NULL: no more */
const hr_builtin *hr__builtin_method(hr_py_kind kind, const char *name, size_t bytes);
const hr_builtin *hr__builtin_text_method(const char *name, size_t bytes); /* of those of strings alone */
/* Methods that change a list or dict: templates may not use them. */
bool hr__builtin_changes(hr_py_kind kind, const char *name, size_t bytes);
/* The row with this name in a table; NULL: none. */
const hr_builtin *hr__builtin_find(const hr_builtin *rows, size_t count, const char *name, size_t bytes);

/* A filter or test by the name in a value, for map, select and the like. */
hr_status hr__builtin_apply_filter(hr_render *r, hr_py name, hr_py self, const hr_arguments *arguments, hr_py *out);
hr_status hr__builtin_apply_test(hr_render *r, hr_py name, hr_py self, const hr_arguments *arguments, bool *out);

/* text.format(arguments): template_format.c. */
hr_status hr__py_format(hr_render *r, hr_py self, const hr_arguments *given, hr_py *out);

/* What HR_PY_CALLABLE points to. */
typedef struct hr_py_callable {
  const hr_builtin *row;
  hr_py self;
  const hr_template_node *macro; /* a macro instead of a row, and where it was defined */
  hr_template_scope *scope;
} hr_py_callable;

hr_status hr__template_macro(hr_render *r, const hr_py_callable *macro, const hr_arguments *given, hr_py *out);
hr_status hr__py_callable(hr_render *r, const hr_builtin *row, hr_py self, hr_py *out);
hr_status hr__py_call(hr_render *r, hr_py callee, const hr_arguments *arguments, hr_py *out);

/* A size or position: an integer argument, or `otherwise` where it is not given. */
hr_status hr__argument_integer(hr_render *r, hr_py value, int64_t otherwise, int64_t *out);
/* A string argument; anything else is an error. */
hr_status hr__argument_string(hr_render *r, const hr_builtin_call *call, hr_py value);

#endif
