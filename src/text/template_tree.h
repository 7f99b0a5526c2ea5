/* The tree of a parsed template. Statements and expressions are nodes of one struct; which fields a kind uses is said
 * beside it. Lists of nodes are linked by `next`.
 */
#ifndef HR_TEXT_TEMPLATE_TREE_H
#define HR_TEXT_TEMPLATE_TREE_H

#include "base/mem.h"
#include "text/template.h"
#include "text/template_value.h"

typedef enum hr_template_kind {
  /* expressions */
  HR_T_CONSTANT,  /* value */
  HR_T_NAME,      /* name */
  HR_T_LIST,      /* first: items */
  HR_T_TUPLE,     /* first: items */
  HR_T_DICT,      /* first: key, value, key, value, ... */
  HR_T_ATTRIBUTE, /* left . name */
  HR_T_ITEM,      /* left [ right ] */
  HR_T_SLICE,     /* left [ first : right : other ]; each may be NULL */
  HR_T_CALL,      /* left ( first: arguments ) */
  HR_T_FILTER,    /* left | name ( first ); left NULL: what a set block has made */
  HR_T_TEST,      /* left is name ( first ) */
  HR_T_ARGUMENT,  /* name = left; without name: by position */
  HR_T_NOT,       /* not left */
  HR_T_NEGATE,    /* - left */
  HR_T_PLUS,      /* + left */
  HR_T_AND,
  HR_T_OR,
  HR_T_BINARY,  /* left operation right: + - * / // % ~ */
  HR_T_COMPARE, /* left, and first: HR_T_OPERAND; each compares with the one before */
  HR_T_OPERAND, /* operation left */
  HR_T_EITHER,  /* left if right else other; without other: undefined */
  /* statements */
  HR_T_DATA,       /* value: text as it stands */
  HR_T_OUTPUT,     /* left */
  HR_T_IF,         /* left, body, other: statements (elif is an if in there) */
  HR_T_FOR,        /* target in left if right, body, other: else */
  HR_T_SET,        /* target = left */
  HR_T_SET_BLOCK,  /* target, left: filters or NULL, body */
  HR_T_FILTERED,   /* left: filters, body */
  HR_T_MACRO,      /* name, first: HR_T_ARGUMENT with defaults in left, body */
  HR_T_GENERATION, /* body */
  HR_T_BREAK,
  HR_T_CONTINUE,
  /* targets of assignments: HR_T_NAME, HR_T_TUPLE of them, and */
  HR_T_MEMBER /* name . attribute, of a namespace */
} hr_template_kind;

typedef enum hr_template_operation {
  HR_T_ADD,
  HR_T_SUBTRACT,
  HR_T_MULTIPLY,
  HR_T_DIVIDE,
  HR_T_FLOOR_DIVIDE,
  HR_T_MODULO,
  HR_T_CONCAT,
  HR_T_EQUAL,
  HR_T_UNEQUAL,
  HR_T_LESS,
  HR_T_LESS_EQUAL,
  HR_T_GREATER,
  HR_T_GREATER_EQUAL,
  HR_T_IN,
  HR_T_NOT_IN
} hr_template_operation;

/* A name of the template: equal names are one pointer. */
typedef struct hr_template_name {
  const char *text;
  size_t bytes;
  struct hr_template_name *next;
} hr_template_name;

typedef struct hr_template_node hr_template_node;
struct hr_template_node {
  hr_template_kind kind;
  int line;
  hr_template_operation operation;
  const hr_template_name *name, *attribute;
  hr_py value;
  hr_template_node *left, *right, *other, *first, *body, *target;
  hr_template_node *next;
};

enum { HR_TEMPLATE_BUCKETS = 64 };

struct hr_template {
  hr_arena arena;
  const char *place; /* the template's name */
  hr_template_node *body;
  hr_template_name *names[HR_TEMPLATE_BUCKETS]; /* by hash of their text */
};

/* The name in the template; NULL: it does not have it. */
const hr_template_name *hr__template_name(const hr_template *parsed, const char *text, size_t bytes);

#endif
