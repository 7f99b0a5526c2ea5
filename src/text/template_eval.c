/* The value of an expression. */
#include <string.h>

#include "text/template_builtin.h"
#include "text/template_lexer.h"

static hr_status items(hr_render *r, const hr_template_node *first, hr_py_list **out) {
  size_t count = 0;
  for (const hr_template_node *item = first; item; item = item->next)
    count++;
  HR_TRY(hr__py_list_new(r, count, out));
  for (const hr_template_node *item = first; item; item = item->next) {
    hr_py value;
    HR_TRY(hr__template_evaluate(r, item, &value));
    HR_TRY(hr__py_list_add(r, *out, value));
  }
  return HR_OK;
}

static hr_status dict(hr_render *r, const hr_template_node *node, hr_py *out) {
  hr_py_dict *made = NULL;
  HR_TRY(hr__py_dict_new(r, &made));
  for (const hr_template_node *key = node->first; key; key = key->next->next) {
    hr_py name, value;
    HR_TRY(hr__template_evaluate(r, key, &name));
    HR_TRY(hr__template_evaluate(r, key->next, &value));
    HR_TRY(hr__py_dict_set(r, made, name, value));
  }
  *out = (hr_py){.kind = HR_PY_DICT, .dict = made};
  return HR_OK;
}

static hr_status optional(hr_render *r, const hr_template_node *node, hr_py *out) {
  *out = (hr_py){.kind = HR_PY_ABSENT};
  return node ? hr__template_evaluate(r, node, out) : HR_OK;
}

static hr_status slice(hr_render *r, const hr_template_node *node, hr_py *out) {
  hr_py value, begin, end, step;
  HR_TRY(hr__template_evaluate(r, node->left, &value));
  HR_TRY(optional(r, node->first, &begin));
  HR_TRY(optional(r, node->right, &end));
  HR_TRY(optional(r, node->other, &step));
  return hr__py_slice(r, value, begin, end, step, out);
}

static hr_status arguments(hr_render *r, const hr_template_node *first, hr_arguments *out) {
  hr_py *values = NULL;
  const hr_template_name **names = NULL;
  *out = (hr_arguments){0};
  for (const hr_template_node *argument = first; argument; argument = argument->next)
    out->count++;
  HR_TRY(hr__render_room(r, out->count, sizeof *values, &values));
  HR_TRY(hr__render_room(r, out->count, sizeof *names, &names));
  size_t i = 0;
  for (const hr_template_node *argument = first; argument; argument = argument->next, i++) {
    names[i] = argument->name;
    out->positional += !argument->name;
    HR_TRY(hr__template_evaluate(r, argument->left, &values[i]));
  }
  out->values = values;
  out->names = names;
  return HR_OK;
}

static hr_status call(hr_render *r, const hr_template_node *node, hr_py *out) {
  hr_py callee;
  hr_arguments given;
  HR_TRY(hr__template_evaluate(r, node->left, &callee));
  HR_TRY(arguments(r, node->first, &given));
  r->line = node->line;
  return hr__py_call(r, callee, &given, out);
}

static hr_status filter(hr_render *r, const hr_template_node *node, hr_py *out) {
  hr_py self = *out; /* what a set block has made, where nothing stands to the left */
  if (node->left)
    HR_TRY(node->left->kind == HR_T_FILTER ? filter(r, node->left, &self)
                                           : hr__template_evaluate(r, node->left, &self));
  const hr_builtin *row = hr__builtin_filter(node->name->text, node->name->bytes);
  r->line = node->line;
  if (!row) return hr__render_unsupported(r, "the filter '%.60s' does not exist or is not supported", node->name->text);
  hr_arguments given;
  HR_TRY(arguments(r, node->first, &given));
  r->line = node->line;
  return hr__builtin_call(r, row, self, &given, out);
}

static hr_status test(hr_render *r, const hr_template_node *node, hr_py *out) {
  hr_py self;
  HR_TRY(hr__template_evaluate(r, node->left, &self));
  const hr_builtin *row = hr__builtin_test(node->name->text, node->name->bytes);
  r->line = node->line;
  if (!row) return hr__render_unsupported(r, "the test '%.60s' does not exist or is not supported", node->name->text);
  hr_arguments given;
  HR_TRY(arguments(r, node->first, &given));
  return hr__builtin_call(r, row, self, &given, out);
}

static hr_status compare(hr_render *r, const hr_template_node *node, hr_py *out) {
  hr_py left, right;
  bool holds = true;
  HR_TRY(hr__template_evaluate(r, node->left, &left));
  for (const hr_template_node *operand = node->first; operand && holds; operand = operand->next) {
    HR_TRY(hr__template_evaluate(r, operand->left, &right));
    r->line = node->line;
    HR_TRY(hr__py_compare(r, operand->operation, left, right, &holds));
    left = right;
  }
  *out = hr__py_bool(holds);
  return HR_OK;
}

static hr_status either(hr_render *r, const hr_template_node *node, hr_py *out) {
  hr_py condition;
  HR_TRY(hr__template_evaluate(r, node->right, &condition));
  if (hr__py_truth(condition)) return hr__template_evaluate(r, node->left, out);
  if (node->other) return hr__template_evaluate(r, node->other, out);
  static const char what[] = "an if without else";
  *out = hr__py_undefined(what, sizeof what - 1);
  return HR_OK;
}

static hr_status evaluate(hr_render *r, const hr_template_node *node, hr_py *out) {
  hr_py left, right;
  hr_py_list *list = NULL;
  switch (node->kind) {
  case HR_T_CONSTANT:
    *out = node->value;
    return HR_OK;
  case HR_T_NAME: {
    const hr_py *variable = hr__template_variable(r, node->name);
    *out = variable ? *variable : hr__py_undefined(node->name->text, node->name->bytes);
    return HR_OK;
  }
  case HR_T_LIST:
  case HR_T_TUPLE:
    HR_TRY(items(r, node->first, &list));
    *out = hr__py_list(list, node->kind == HR_T_LIST ? HR_PY_LIST : HR_PY_TUPLE);
    return HR_OK;
  case HR_T_DICT:
    return dict(r, node, out);
  case HR_T_SLICE:
    return slice(r, node, out);
  case HR_T_CALL:
    return call(r, node, out);
  case HR_T_FILTER:
    return filter(r, node, out);
  case HR_T_TEST:
    return test(r, node, out);
  case HR_T_COMPARE:
    return compare(r, node, out);
  case HR_T_EITHER:
    return either(r, node, out);
  default:
    break;
  }
  HR_TRY(hr__template_evaluate(r, node->left, &left));
  r->line = node->line;
  switch (node->kind) {
  case HR_T_ATTRIBUTE:
    return hr__py_attribute(r, left, node->name->text, node->name->bytes, out);
  case HR_T_NOT:
    *out = hr__py_bool(!hr__py_truth(left));
    return HR_OK;
  case HR_T_NEGATE:
    return hr__py_negate(r, left, out);
  case HR_T_PLUS: /* the same checks; twice negated it is itself */
    HR_TRY(hr__py_negate(r, left, out));
    return hr__py_negate(r, *out, out);
  case HR_T_AND:
  case HR_T_OR:
    *out = left;
    return hr__py_truth(left) == (node->kind == HR_T_AND) ? hr__template_evaluate(r, node->right, out) : HR_OK;
  default:
    HR_TRY(hr__template_evaluate(r, node->right, &right));
    r->line = node->line;
    return node->kind == HR_T_ITEM ? hr__py_item(r, left, right, out)
                                   : hr__py_binary(r, node->operation, left, right, out);
  }
}

hr_status hr__template_evaluate(hr_render *r, const hr_template_node *node, hr_py *out) {
  HR_TRY(hr__render_work(r, 1));
  r->line = node->line;
  if (++r->depth > HR_TEMPLATE_DEPTH) return hr__render_fail(r, "nested more than %d deep", HR_TEMPLATE_DEPTH);
  HR_TRY(evaluate(r, node, out));
  r->depth--;
  return HR_OK;
}
