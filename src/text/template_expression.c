/* Expressions: the inner half of the parser. From the loosest binding to the tightest: if else, or, and, not,
 * comparisons, + -, ~, * / // %, signs, then what stands behind a value: .name [item] (call) |filter is test. */
#include <string.h>

#include "text/template_builtin.h"
#include "text/template_parser.h"

static hr_status unary(hr_template_parser *p, bool with_filters, hr_template_node **out);

static hr_status node_over(hr_template_parser *p, hr_template_kind kind, hr_template_node *left,
                           hr_template_node **out) {
  hr_template_node *node = hr__template_node(p, kind);
  if (!node) return hr__nomem(p->err);
  node->left = left;
  *out = node;
  return HR_OK;
}

static hr_status constant(hr_template_parser *p, hr_py value, hr_template_node **out) {
  HR_TRY(node_over(p, HR_T_CONSTANT, NULL, out));
  (*out)->value = value;
  return HR_OK;
}

static const struct {
  const char *word;
  hr_py value;
} words[] = {
    {"true", {.kind = HR_PY_BOOL, .truth = true}},
    {"True", {.kind = HR_PY_BOOL, .truth = true}},
    {"false", {.kind = HR_PY_BOOL, .truth = false}},
    {"False", {.kind = HR_PY_BOOL, .truth = false}},
    {"none", {.kind = HR_PY_NONE}},
    {"None", {.kind = HR_PY_NONE}},
};

static hr_status name_read(hr_template_parser *p, hr_template_node **out) {
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (hr__template_skip_word(p, words[i].word)) return constant(p, words[i].value, out);
  HR_TRY(node_over(p, HR_T_NAME, NULL, out));
  return hr__template_expect_name(p, &(*out)->name);
}

/* Texts side by side are one. */
static hr_status string_read(hr_template_parser *p, hr_template_node **out) {
  const hr_token *first = p->token;
  size_t bytes = 0;
  HR_TRY(constant(p, hr__py_string(first->text, first->bytes), out));
  for (; p->token->kind == HR_TOKEN_STRING; p->token++)
    bytes += p->token->bytes;
  if (p->token == first + 1) return HR_OK;
  char *joined = hr__arena_room(&p->parsed->arena, bytes + 1, 1);
  if (!joined) return hr__nomem(p->err);
  (*out)->value = hr__py_string(joined, bytes);
  for (const hr_token *token = first; token < p->token; token++) {
    memcpy(joined, token->text, token->bytes);
    joined += token->bytes;
  }
  return HR_OK;
}

/* Items up to `end`, linked; a dict has keys and values in turn. */
static hr_status items_read(hr_template_parser *p, const char *end, bool pairs, hr_template_node **first) {
  hr_template_node **tail = first;
  while (!hr__template_at_sign(p, end)) {
    if (*first) HR_TRY(hr__template_expect_sign(p, ","));
    if (hr__template_at_sign(p, end)) break;
    HR_TRY(hr__template_expression(p, true, tail));
    tail = &(*tail)->next;
    if (!pairs) continue;
    HR_TRY(hr__template_expect_sign(p, ":"));
    HR_TRY(hr__template_expression(p, true, tail));
    tail = &(*tail)->next;
  }
  p->token++;
  return HR_OK;
}

static hr_status primary(hr_template_parser *p, hr_template_node **out) {
  switch (p->token->kind) {
  case HR_TOKEN_NAME:
    return name_read(p, out);
  case HR_TOKEN_STRING:
    return string_read(p, out);
  case HR_TOKEN_INTEGER:
    HR_TRY(constant(p, hr__py_int(p->token->integer), out));
    p->token++;
    return HR_OK;
  case HR_TOKEN_FLOAT:
    HR_TRY(constant(p, hr__py_float(p->token->real), out));
    p->token++;
    return HR_OK;
  default:
    break;
  }
  if (hr__template_skip_sign(p, "(")) {
    HR_TRY(hr__template_tuple(p, true, NULL, true, out));
    return hr__template_expect_sign(p, ")");
  }
  bool list = hr__template_at_sign(p, "[");
  if (!list && !hr__template_at_sign(p, "{")) return hr__template_unexpected(p, "an expression");
  HR_TRY(node_over(p, list ? HR_T_LIST : HR_T_DICT, NULL, out));
  p->token++;
  return items_read(p, list ? "]" : "}", !list, &(*out)->first);
}

static hr_status arguments_read(hr_template_parser *p, hr_template_node **first) {
  HR_TRY(hr__template_expect_sign(p, "("));
  hr_template_node **tail = first;
  bool named = false;
  while (!hr__template_at_sign(p, ")")) {
    if (*first) HR_TRY(hr__template_expect_sign(p, ","));
    if (hr__template_at_sign(p, ")")) break;
    if (hr__template_at_sign(p, "*") || hr__template_at_sign(p, "**"))
      return hr__template_not_supported(p, "a call with *arguments or **arguments");
    HR_TRY(node_over(p, HR_T_ARGUMENT, NULL, tail));
    const hr_token *behind = p->token + 1;
    if (p->token->kind == HR_TOKEN_NAME && behind->kind == HR_TOKEN_SIGN && behind->bytes == 1 &&
        behind->text[0] == '=') {
      HR_TRY(hr__template_expect_name(p, &(*tail)->name));
      p->token++;
      named = true;
    } else if (named) {
      return hr__template_unexpected(p, "name=value, as the argument before,");
    }
    HR_TRY(hr__template_expression(p, true, &(*tail)->left));
    tail = &(*tail)->next;
  }
  p->token++;
  return HR_OK;
}

/* [item] or [begin:end:step], behind the bracket. */
static hr_status item_read(hr_template_parser *p, hr_template_node *left, hr_template_node **out) {
  hr_template_node *item = NULL;
  if (!hr__template_at_sign(p, ":")) HR_TRY(hr__template_expression(p, true, &item));
  if (hr__template_at_sign(p, ",")) return hr__template_not_supported(p, "an index of several values");
  bool slice = hr__template_skip_sign(p, ":");
  HR_TRY(node_over(p, slice ? HR_T_SLICE : HR_T_ITEM, left, out));
  if (slice) {
    (*out)->first = item;
    if (!hr__template_at_sign(p, ":") && !hr__template_at_sign(p, "]"))
      HR_TRY(hr__template_expression(p, true, &(*out)->right));
    if (hr__template_skip_sign(p, ":") && !hr__template_at_sign(p, "]"))
      HR_TRY(hr__template_expression(p, true, &(*out)->other));
  } else {
    (*out)->right = item;
  }
  return hr__template_expect_sign(p, "]");
}

static hr_status attribute_read(hr_template_parser *p, hr_template_node *left, hr_template_node **out) {
  if (p->token->kind == HR_TOKEN_INTEGER) { /* a.0 is a[0] */
    HR_TRY(node_over(p, HR_T_ITEM, left, out));
    HR_TRY(constant(p, hr__py_int(p->token->integer), &(*out)->right));
    p->token++;
    return HR_OK;
  }
  HR_TRY(node_over(p, HR_T_ATTRIBUTE, left, out));
  return hr__template_expect_name(p, &(*out)->name);
}

/* Each of these goes around what is already there: how many is bounded as depth is, since evaluating goes as deep. */
static hr_status around(hr_template_parser *p, int *layers) {
  (*layers)++;
  return hr__template_enter(p);
}

static hr_status postfix(hr_template_parser *p, hr_template_node **out) {
  int layers = 0;
  for (;;) {
    HR_TRY(around(p, &layers));
    hr_template_node *left = *out;
    if (hr__template_skip_sign(p, ".")) {
      HR_TRY(attribute_read(p, left, out));
    } else if (hr__template_skip_sign(p, "[")) {
      HR_TRY(item_read(p, left, out));
    } else if (hr__template_at_sign(p, "(")) {
      HR_TRY(node_over(p, HR_T_CALL, left, out));
      HR_TRY(arguments_read(p, &(*out)->first));
    } else {
      p->depth -= layers;
      return HR_OK;
    }
  }
}

/* As Jinja does: a filter or test that does not exist is an error before anything is rendered, unless an if stands
 * before it, so that it may never be reached. */
static void unknown_note(hr_template_parser *p, const hr_template_node *node, const hr_builtin *row) {
  if (p->certain && !p->unknown && !row) p->unknown = node;
}

static hr_status filter_read(hr_template_parser *p, hr_template_node *left, hr_template_node **out) {
  HR_TRY(node_over(p, HR_T_FILTER, left, out));
  const hr_template_name *name = NULL;
  HR_TRY(hr__template_expect_name(p, &name));
  (*out)->name = name;
  unknown_note(p, *out, hr__builtin_filter(name->text, name->bytes));
  return hr__template_at_sign(p, "(") ? arguments_read(p, &(*out)->first) : HR_OK;
}

hr_status hr__template_filters(hr_template_parser *p, bool begun, hr_template_node **out) {
  int layers = 0;
  *out = NULL;
  for (; begun || hr__template_skip_sign(p, "|"); begun = false) {
    HR_TRY(around(p, &layers));
    HR_TRY(filter_read(p, *out, out));
  }
  p->depth -= layers;
  return HR_OK;
}

/* The argument of a test without brackets: `x is divisibleby 3`. */
static bool begins_value(const hr_template_parser *p) {
  if (p->token->kind == HR_TOKEN_NAME)
    return !hr__template_at_word(p, "else") && !hr__template_at_word(p, "or") && !hr__template_at_word(p, "and") &&
           !hr__template_at_word(p, "if") && !hr__template_at_word(p, "in") && !hr__template_at_word(p, "not");
  return p->token->kind == HR_TOKEN_STRING || p->token->kind == HR_TOKEN_INTEGER || p->token->kind == HR_TOKEN_FLOAT ||
         hr__template_at_sign(p, "[") || hr__template_at_sign(p, "{");
}

static hr_status test_read(hr_template_parser *p, hr_template_node *left, hr_template_node **out) {
  bool negated = hr__template_skip_word(p, "not");
  hr_template_node *test = NULL;
  HR_TRY(node_over(p, HR_T_TEST, left, &test));
  const hr_template_name *name = NULL;
  HR_TRY(hr__template_expect_name(p, &name));
  test->name = name;
  unknown_note(p, test, hr__builtin_test(name->text, name->bytes));
  if (hr__template_at_sign(p, "(")) {
    HR_TRY(arguments_read(p, &test->first));
  } else if (begins_value(p)) {
    if (hr__template_at_word(p, "is")) return hr__template_unexpected(p, "one test, not several in a row,");
    HR_TRY(node_over(p, HR_T_ARGUMENT, NULL, &test->first));
    HR_TRY(primary(p, &test->first->left));
    HR_TRY(postfix(p, &test->first->left));
  }
  *out = test;
  return negated ? node_over(p, HR_T_NOT, test, out) : HR_OK;
}

static hr_status filters_and_tests(hr_template_parser *p, hr_template_node **out) {
  int layers = 0;
  for (;;) {
    HR_TRY(around(p, &layers));
    hr_template_node *left = *out;
    if (hr__template_skip_sign(p, "|")) {
      HR_TRY(filter_read(p, left, out));
    } else if (hr__template_skip_word(p, "is")) {
      HR_TRY(test_read(p, left, out));
    } else if (hr__template_at_sign(p, "(")) {
      HR_TRY(node_over(p, HR_T_CALL, left, out));
      HR_TRY(arguments_read(p, &(*out)->first));
    } else {
      p->depth -= layers;
      return HR_OK;
    }
  }
}

static hr_status unary(hr_template_parser *p, bool with_filters, hr_template_node **out) {
  HR_TRY(hr__template_enter(p));
  bool minus = hr__template_skip_sign(p, "-"), plus = !minus && hr__template_skip_sign(p, "+");
  if (minus || plus) {
    hr_template_node *inner = NULL;
    HR_TRY(unary(p, false, &inner));
    HR_TRY(node_over(p, minus ? HR_T_NEGATE : HR_T_PLUS, inner, out));
  } else {
    HR_TRY(primary(p, out));
  }
  HR_TRY(postfix(p, out));
  if (with_filters) HR_TRY(filters_and_tests(p, out));
  p->depth--;
  if (with_filters && hr__template_at_sign(p, "**")) return hr__template_not_supported(p, "the operator **");
  return HR_OK;
}

typedef struct binary_sign {
  const char *sign;
  hr_template_operation operation;
} binary_sign;
static const binary_sign products[] = {
    {"*", HR_T_MULTIPLY}, {"/", HR_T_DIVIDE}, {"//", HR_T_FLOOR_DIVIDE}, {"%", HR_T_MODULO}, {NULL, HR_T_ADD}};
static const binary_sign joins[] = {{"~", HR_T_CONCAT}, {NULL, HR_T_ADD}};
static const binary_sign sums[] = {{"+", HR_T_ADD}, {"-", HR_T_SUBTRACT}, {NULL, HR_T_ADD}};
static const binary_sign *const binaries[] = {sums, joins, products};

/* Operators of one level, from the left. Long sums are common, so their depth counts only where they are evaluated. */
static hr_status binary(hr_template_parser *p, size_t level, hr_template_node **out) {
  if (level == sizeof binaries / sizeof binaries[0]) return unary(p, true, out);
  HR_TRY(binary(p, level + 1, out));
  for (const binary_sign *row = binaries[level]; row->sign;) {
    if (!hr__template_skip_sign(p, row->sign)) {
      row++;
      continue;
    }
    HR_TRY(node_over(p, HR_T_BINARY, *out, out));
    (*out)->operation = row->operation;
    HR_TRY(binary(p, level + 1, &(*out)->right));
    row = binaries[level];
  }
  return HR_OK;
}

static const binary_sign comparisons[] = {{"==", HR_T_EQUAL},      {"!=", HR_T_UNEQUAL}, {"<", HR_T_LESS},
                                          {"<=", HR_T_LESS_EQUAL}, {">", HR_T_GREATER},  {">=", HR_T_GREATER_EQUAL},
                                          {NULL, HR_T_ADD}};

static bool comparison_read(hr_template_parser *p, hr_template_operation *operation) {
  for (const binary_sign *row = comparisons; row->sign; row++) {
    *operation = row->operation;
    if (hr__template_skip_sign(p, row->sign)) return true;
  }
  *operation = HR_T_IN;
  if (hr__template_skip_word(p, "in")) return true;
  const hr_token *behind = p->token + 1;
  if (!hr__template_at_word(p, "not") || behind->kind != HR_TOKEN_NAME || behind->bytes != 2 ||
      memcmp(behind->text, "in", 2) != 0)
    return false;
  p->token += 2;
  *operation = HR_T_NOT_IN;
  return true;
}

static hr_status comparison(hr_template_parser *p, hr_template_node **out) {
  HR_TRY(binary(p, 0, out));
  hr_template_node **tail = NULL;
  for (hr_template_operation operation; comparison_read(p, &operation);) {
    if (!tail) {
      HR_TRY(node_over(p, HR_T_COMPARE, *out, out));
      tail = &(*out)->first;
    }
    HR_TRY(node_over(p, HR_T_OPERAND, NULL, tail));
    (*tail)->operation = operation;
    HR_TRY(binary(p, 0, &(*tail)->left));
    tail = &(*tail)->next;
  }
  return HR_OK;
}

static hr_status negation(hr_template_parser *p, hr_template_node **out) {
  if (!hr__template_skip_word(p, "not")) return comparison(p, out);
  HR_TRY(hr__template_enter(p));
  hr_template_node *inner = NULL;
  HR_TRY(negation(p, &inner));
  p->depth--;
  return node_over(p, HR_T_NOT, inner, out);
}

static hr_status conjunction(hr_template_parser *p, hr_template_node **out) {
  HR_TRY(negation(p, out));
  while (hr__template_skip_word(p, "and")) {
    HR_TRY(node_over(p, HR_T_AND, *out, out));
    HR_TRY(negation(p, &(*out)->right));
  }
  return HR_OK;
}

static hr_status disjunction(hr_template_parser *p, hr_template_node **out) {
  HR_TRY(conjunction(p, out));
  while (hr__template_skip_word(p, "or")) {
    HR_TRY(node_over(p, HR_T_OR, *out, out));
    HR_TRY(conjunction(p, &(*out)->right));
  }
  return HR_OK;
}

hr_status hr__template_expression(hr_template_parser *p, bool conditional, hr_template_node **out) {
  HR_TRY(hr__template_enter(p));
  const hr_template_node *unknown = p->unknown;
  HR_TRY(disjunction(p, out));
  bool certain = p->certain;
  while (conditional && hr__template_skip_word(p, "if")) {
    p->certain = false;
    p->unknown = unknown;
    HR_TRY(node_over(p, HR_T_EITHER, *out, out));
    HR_TRY(disjunction(p, &(*out)->right));
    if (hr__template_skip_word(p, "else")) HR_TRY(hr__template_expression(p, true, &(*out)->other));
  }
  p->certain = certain;
  p->depth--;
  return HR_OK;
}

static bool tuple_ends(const hr_template_parser *p, const char *end_word) {
  return p->token->kind == HR_TOKEN_PRINT_END || p->token->kind == HR_TOKEN_BLOCK_END || hr__template_at_sign(p, ")") ||
         (end_word && hr__template_at_word(p, end_word));
}

hr_status hr__template_tuple(hr_template_parser *p, bool conditional, const char *end_word, bool in_brackets,
                             hr_template_node **out) {
  hr_template_node *tuple = NULL;
  HR_TRY(node_over(p, HR_T_TUPLE, NULL, &tuple));
  hr_template_node **tail = &tuple->first;
  bool commas = in_brackets && tuple_ends(p, end_word);
  while (!commas || !tuple_ends(p, end_word)) {
    HR_TRY(hr__template_expression(p, conditional, tail));
    tail = &(*tail)->next;
    if (!hr__template_skip_sign(p, ",")) break;
    commas = true;
  }
  *out = commas ? tuple : tuple->first;
  return HR_OK;
}
