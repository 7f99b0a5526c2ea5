/* Statements: what they write, and the variables they set.
 *
 * A loop's turn, a macro's call, a set block and a generation block have variables of their own; an if has not. So
 * `set` inside of them is gone behind them, and only namespaces carry something out.
 */
#include <string.h>

#include "text/template_builtin.h"

typedef enum outcome { GO_ON, BREAK, CONTINUE } outcome;

static hr_status run(hr_render *r, const hr_template_node *statements, outcome *how);

hr_py *hr__template_variable(const hr_render *r, const hr_template_name *name) {
  for (const hr_template_scope *scope = r->scope; scope; scope = scope->above)
    for (size_t i = scope->count; i > 0; i--)
      if (scope->variables[i - 1].name == name) return &scope->variables[i - 1].value;
  return NULL;
}

hr_status hr__template_define(hr_render *r, hr_template_scope *scope, const hr_template_name *name, hr_py value) {
  for (size_t i = 0; i < scope->count; i++)
    if (scope->variables[i].name == name) {
      scope->variables[i].value = value;
      return HR_OK;
    }
  if (scope->count == scope->capacity) {
    size_t capacity = scope->count ? 2 * scope->count : 4;
    hr_template_variable *grown = NULL;
    HR_TRY(hr__render_room(r, capacity, sizeof *grown, &grown));
    if (scope->count) memcpy(grown, scope->variables, scope->count * sizeof *grown);
    scope->variables = grown;
    scope->capacity = capacity;
  }
  scope->variables[scope->count++] = (hr_template_variable){.name = name, .value = value};
  return HR_OK;
}

static hr_status assign_member(hr_render *r, const hr_template_node *target, hr_py value) {
  const hr_py *space = hr__template_variable(r, target->name);
  if (!space || space->kind != HR_PY_NAMESPACE)
    return hr__render_fail(r, "'%.60s' is no namespace: only those have members that can be set", target->name->text);
  return hr__py_dict_set(r, space->dict, hr__py_string(target->attribute->text, target->attribute->bytes), value);
}

static hr_status assign(hr_render *r, const hr_template_node *target, hr_py value) {
  if (target->kind == HR_T_MEMBER) return assign_member(r, target, value);
  if (target->kind == HR_T_NAME) return hr__template_define(r, r->scope, target->name, value);
  hr_py_list *items = NULL;
  HR_TRY(hr__py_iterate(r, value, &items));
  size_t at = 0;
  for (const hr_template_node *one = target->first; one; one = one->next, at++) {
    if (at >= items->count) return hr__render_fail(r, "%zu values are too few for the names to set", items->count);
    HR_TRY(assign(r, one, items->items[at]));
  }
  if (at < items->count) return hr__render_fail(r, "%zu values are too many for the names to set", items->count);
  return HR_OK;
}

/* A scope on the heap: macros defined in it may outlive it. */
static hr_status scope_push(hr_render *r, hr_template_scope *above) {
  hr_template_scope *scope = NULL;
  HR_TRY(hr__render_room(r, 1, sizeof *scope, &scope));
  *scope = (hr_template_scope){.above = above};
  r->scope = scope;
  return HR_OK;
}

/* Items that the loop's own `if` holds for. */
static hr_status loop_filter(hr_render *r, const hr_template_node *node, hr_py_list **items) {
  hr_py_list *kept = NULL;
  hr_template_scope *outer = r->scope;
  HR_TRY(hr__py_list_new(r, 0, &kept));
  for (size_t i = 0; i < (*items)->count; i++) {
    hr_py holds;
    HR_TRY(scope_push(r, outer));
    HR_TRY(assign(r, node->target, (*items)->items[i]));
    HR_TRY(hr__template_evaluate(r, node->right, &holds));
    if (hr__py_truth(holds)) HR_TRY(hr__py_list_add(r, kept, (*items)->items[i]));
  }
  r->scope = outer;
  *items = kept;
  return HR_OK;
}

/* *ended: a turn came to its end, neither broken off nor left for the next. */
static hr_status loop_turns(hr_render *r, const hr_template_node *node, const hr_py_list *items, bool *ended) {
  static const char word[] = "loop";
  const hr_template_name *name = hr__template_name(r->parsed, word, sizeof word - 1);
  hr_template_scope *outer = r->scope;
  hr_py_loop *loop = NULL;
  HR_TRY(hr__render_room(r, 1, sizeof *loop, &loop));
  *loop = (hr_py_loop){.items = items, .depth0 = r->loop_depth++};
  outcome how = GO_ON;
  for (; loop->index0 < items->count && how != BREAK; loop->index0++) {
    HR_TRY(hr__render_work(r, 1));
    HR_TRY(scope_push(r, outer));
    if (name) HR_TRY(hr__template_define(r, r->scope, name, (hr_py){.kind = HR_PY_LOOP, .loop = loop}));
    HR_TRY(assign(r, node->target, items->items[loop->index0]));
    how = GO_ON;
    HR_TRY(run(r, node->body, &how));
    *ended |= how == GO_ON;
  }
  r->loop_depth--;
  r->scope = outer;
  return HR_OK;
}

static hr_status run_for(hr_render *r, const hr_template_node *node, outcome *how) {
  hr_py over;
  hr_py_list *items = NULL;
  HR_TRY(hr__template_evaluate(r, node->left, &over));
  r->line = node->line;
  HR_TRY(hr__py_iterate(r, over, &items));
  if (node->right) HR_TRY(loop_filter(r, node, &items));
  bool ended = false;
  HR_TRY(loop_turns(r, node, items, &ended));
  if (ended || !node->other) return HR_OK;
  hr_template_scope *outer = r->scope; /* else: as Jinja does, also where every turn was left early */
  HR_TRY(scope_push(r, outer));
  HR_TRY(run(r, node->other, how));
  r->scope = outer;
  return HR_OK;
}

static hr_status run_if(hr_render *r, const hr_template_node *node, outcome *how) {
  for (;;) {
    hr_py condition;
    HR_TRY(hr__template_evaluate(r, node->left, &condition));
    if (hr__py_truth(condition)) return run(r, node->body, how);
    if (!node->other || node->other->kind != HR_T_IF || node->other->next) return run(r, node->other, how);
    node = node->other;
  }
}

/* What statements write, as a text, with variables of their own. */
static hr_status capture(hr_render *r, const hr_template_node *body, hr_template_scope *scope, hr_py *out) {
  hr_py_text text = {0}, *output = r->output;
  hr_template_scope *caller = r->scope;
  outcome how = GO_ON;
  HR_TRY(scope_push(r, scope));
  r->output = &text;
  HR_TRY(run(r, body, &how));
  r->output = output;
  r->scope = caller;
  *out = hr__py_taken(&text);
  return HR_OK;
}

static hr_status run_set_block(hr_render *r, const hr_template_node *node) {
  hr_py text;
  HR_TRY(capture(r, node->body, r->scope, &text));
  if (node->left) HR_TRY(hr__template_evaluate(r, node->left, &text));
  return assign(r, node->target, text);
}

static hr_status run_filtered(hr_render *r, const hr_template_node *node) {
  hr_py text;
  HR_TRY(capture(r, node->body, r->scope, &text));
  HR_TRY(hr__template_evaluate(r, node->left, &text));
  return hr__py_put_str(r, r->output, text);
}

static hr_status run_macro(hr_render *r, const hr_template_node *node) {
  hr_py_callable *macro = NULL;
  HR_TRY(hr__render_room(r, 1, sizeof *macro, &macro));
  *macro = (hr_py_callable){.macro = node, .scope = r->scope};
  return hr__template_define(r, r->scope, node->name, (hr_py){.kind = HR_PY_CALLABLE, .callable = macro});
}

/* A generation block inside a macro or set block has no place in the text yet: what it makes is written there, and no
 * range is noted. */
static hr_status run_generation(hr_render *r, const hr_template_node *node) {
  hr_py text;
  HR_TRY(capture(r, node->body, r->scope, &text));
  size_t begin = r->output->bytes;
  HR_TRY(hr__py_put(r, r->output, text.text, text.bytes));
  if (r->output != &r->document) return HR_OK;
  if (r->generated_count == r->generated_capacity) {
    size_t capacity = r->generated_count ? 2 * r->generated_count : 8;
    hr_text_range *grown = NULL;
    HR_TRY(hr__render_room(r, capacity, sizeof *grown, &grown));
    if (r->generated_count) memcpy(grown, r->generated, r->generated_count * sizeof *grown);
    r->generated = grown;
    r->generated_capacity = capacity;
  }
  r->generated[r->generated_count++] = (hr_text_range){begin, begin + text.bytes};
  return HR_OK;
}

static hr_status run_one(hr_render *r, const hr_template_node *node, outcome *how) {
  hr_py value;
  switch (node->kind) {
  case HR_T_DATA:
    return hr__py_put(r, r->output, node->value.text, node->value.bytes);
  case HR_T_OUTPUT:
    HR_TRY(hr__template_evaluate(r, node->left, &value));
    r->line = node->line;
    return hr__py_put_str(r, r->output, value);
  case HR_T_IF:
    return run_if(r, node, how);
  case HR_T_FOR:
    return run_for(r, node, how);
  case HR_T_SET:
    HR_TRY(hr__template_evaluate(r, node->left, &value));
    r->line = node->line;
    return assign(r, node->target, value);
  case HR_T_SET_BLOCK:
    return run_set_block(r, node);
  case HR_T_FILTERED:
    return run_filtered(r, node);
  case HR_T_MACRO:
    return run_macro(r, node);
  case HR_T_GENERATION:
    return run_generation(r, node);
  default:
    *how = node->kind == HR_T_BREAK ? BREAK : CONTINUE;
    return HR_OK;
  }
}

static hr_status run(hr_render *r, const hr_template_node *statements, outcome *how) {
  if (++r->depth > HR_TEMPLATE_DEPTH) return hr__render_fail(r, "nested more than %d deep", HR_TEMPLATE_DEPTH);
  for (const hr_template_node *node = statements; node && *how == GO_ON; node = node->next) {
    HR_TRY(hr__render_work(r, 1));
    r->line = node->line;
    HR_TRY(run_one(r, node, how));
  }
  r->depth--;
  return HR_OK;
}

hr_status hr__template_run(hr_render *r, const hr_template_node *statements) {
  outcome how = GO_ON;
  return run(r, statements, &how);
}

/* Gives a macro's parameters their values: by position, by name, by default; what is left is undefined. */
static hr_status macro_bind(hr_render *r, const hr_py_callable *macro, const hr_arguments *given) {
  size_t position = 0, named = 0;
  for (const hr_template_node *parameter = macro->macro->first; parameter; parameter = parameter->next, position++) {
    hr_py value = hr__py_undefined(parameter->name->text, parameter->name->bytes);
    bool found = position < given->positional;
    if (found) value = given->values[position];
    for (size_t i = given->positional; i < given->count; i++) {
      if (given->names[i] != parameter->name) continue;
      if (found)
        return hr__render_fail(r, "the macro '%.60s' gets '%.60s' twice", macro->macro->name->text,
                               parameter->name->text);
      value = given->values[i];
      found = true;
      named++;
    }
    if (!found && parameter->left) HR_TRY(hr__template_evaluate(r, parameter->left, &value));
    HR_TRY(hr__template_define(r, r->scope, parameter->name, value));
  }
  if (given->positional > position || named < given->count - given->positional)
    return hr__render_fail(r, "the macro '%.60s' gets arguments that it has no names for", macro->macro->name->text);
  return HR_OK;
}

hr_status hr__template_macro(hr_render *r, const hr_py_callable *macro, const hr_arguments *given, hr_py *out) {
  hr_template_scope *caller = r->scope;
  int loop_depth = r->loop_depth;
  r->loop_depth = 0;
  HR_TRY(scope_push(r, macro->scope));
  HR_TRY(macro_bind(r, macro, given));
  HR_TRY(capture(r, macro->macro->body, r->scope, out));
  r->scope = caller;
  r->loop_depth = loop_depth;
  return HR_OK;
}
