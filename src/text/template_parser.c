/* Statements: the outer half of the parser. */
#include "text/template_parser.h"

#include <stdio.h>
#include <string.h>

static size_t bucket_of(const char *text, size_t bytes) {
  size_t hash = 5381;
  for (size_t i = 0; i < bytes; i++)
    hash = hash * 33 + (unsigned char)text[i];
  return hash % HR_TEMPLATE_BUCKETS;
}

const hr_template_name *hr__template_name(const hr_template *parsed, const char *text, size_t bytes) {
  const hr_template_name *name = parsed->names[bucket_of(text, bytes)];
  while (name && (name->bytes != bytes || memcmp(name->text, text, bytes) != 0))
    name = name->next;
  return name;
}

const hr_template_name *hr__template_intern(hr_template_parser *p, const char *text, size_t bytes) {
  const hr_template_name *found = hr__template_name(p->parsed, text, bytes);
  if (found) return found;
  hr_template_name *name = hr__arena_alloc(&p->parsed->arena, sizeof *name);
  char *copy = hr__arena_alloc(&p->parsed->arena, bytes + 1);
  if (!name || !copy) return NULL;
  memcpy(copy, text, bytes);
  hr_template_name **bucket = &p->parsed->names[bucket_of(text, bytes)];
  *name = (hr_template_name){.text = copy, .bytes = bytes, .next = *bucket};
  *bucket = name;
  return name;
}

hr_template_node *hr__template_node(hr_template_parser *p, hr_template_kind kind) {
  hr_template_node *node = hr__arena_alloc(&p->parsed->arena, sizeof *node);
  if (!node) return NULL;
  node->kind = kind;
  node->line = p->token->line;
  return node;
}

static bool token_is(const hr_token *token, hr_token_kind kind, const char *text) {
  return token->kind == kind && token->bytes == strlen(text) && memcmp(token->text, text, token->bytes) == 0;
}

bool hr__template_at_sign(const hr_template_parser *p, const char *sign) {
  return token_is(p->token, HR_TOKEN_SIGN, sign);
}
bool hr__template_at_word(const hr_template_parser *p, const char *word) {
  return token_is(p->token, HR_TOKEN_NAME, word);
}
bool hr__template_skip_sign(hr_template_parser *p, const char *sign) {
  bool there = hr__template_at_sign(p, sign);
  p->token += there;
  return there;
}
bool hr__template_skip_word(hr_template_parser *p, const char *word) {
  bool there = hr__template_at_word(p, word);
  p->token += there;
  return there;
}

hr_status hr__template_unexpected(hr_template_parser *p, const char *expected) {
  const hr_token *token = p->token;
  static const char *const kinds[] = {[HR_TOKEN_END] = "the end of the template",
                                      [HR_TOKEN_DATA] = "text",
                                      [HR_TOKEN_PRINT_BEGIN] = "'{{'",
                                      [HR_TOKEN_PRINT_END] = "'}}'",
                                      [HR_TOKEN_BLOCK_BEGIN] = "'{%'",
                                      [HR_TOKEN_BLOCK_END] = "'%}'",
                                      [HR_TOKEN_STRING] = "a text",
                                      [HR_TOKEN_INTEGER] = "a number",
                                      [HR_TOKEN_FLOAT] = "a number"};
  bool shown = token->kind == HR_TOKEN_NAME || token->kind == HR_TOKEN_SIGN;
  int bytes = token->bytes > 60 ? 60 : (int)token->bytes;
  return hr__template_fail(p->err, HR_BAD_INPUT, p->parsed->place, token->line, "%s is expected, but here is %s%.*s%s",
                           expected, shown ? "'" : kinds[token->kind], shown ? bytes : 0, shown ? token->text : "",
                           shown ? "'" : "");
}

hr_status hr__template_not_supported(hr_template_parser *p, const char *what) {
  return hr__template_fail(p->err, HR_UNSUPPORTED, p->parsed->place, p->token->line,
                           "%s is not supported in chat templates", what);
}

hr_status hr__template_expect_sign(hr_template_parser *p, const char *sign) {
  if (hr__template_skip_sign(p, sign)) return HR_OK;
  char expected[8] = {'\'', sign[0], '\''};
  return hr__template_unexpected(p, expected);
}

hr_status hr__template_expect_name(hr_template_parser *p, const hr_template_name **out) {
  if (p->token->kind != HR_TOKEN_NAME) return hr__template_unexpected(p, "a name");
  *out = hr__template_intern(p, p->token->text, p->token->bytes);
  if (!*out) return hr__nomem(p->err);
  p->token++;
  return HR_OK;
}

hr_status hr__template_enter(hr_template_parser *p) {
  enum { DEEPEST = 100 };
  if (++p->depth <= DEEPEST) return HR_OK;
  return hr__template_fail(p->err, HR_BAD_INPUT, p->parsed->place, p->token->line, "nested more than %d deep", DEEPEST);
}

static hr_status block_end(hr_template_parser *p) {
  if (p->token->kind != HR_TOKEN_BLOCK_END) return hr__template_unexpected(p, "'%}'");
  p->token++;
  return HR_OK;
}

static hr_status statements(hr_template_parser *p, const char *const *ends, hr_template_node **out);

/* The body of a statement up to one of `ends`, at which the parser stays. */
static hr_status body_read(hr_template_parser *p, const char *const *ends, hr_template_node **out) {
  hr__template_skip_sign(p, ":");
  HR_TRY(block_end(p));
  return statements(p, ends, out);
}

/* The body of a macro, set or generation block, whose end word is dropped: loops around it cannot be left from it. */
static hr_status closed_body(hr_template_parser *p, const char *end, hr_template_node **out) {
  int loops = p->loops;
  bool certain = p->certain;
  p->loops = 0;
  p->certain = true;
  HR_TRY(body_read(p, (const char *const[]){end, NULL}, out));
  p->token++;
  p->loops = loops;
  p->certain = certain;
  return HR_OK;
}

static hr_status target_name(hr_template_parser *p, hr_template_node **out) {
  static const char *const constants[] = {"true", "True", "false", "False", "none", "None"};
  for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
    if (hr__template_at_word(p, constants[i])) return hr__template_unexpected(p, "a name to assign to");
  hr_template_node *node = hr__template_node(p, HR_T_NAME);
  if (!node) return hr__nomem(p->err);
  HR_TRY(hr__template_expect_name(p, &node->name));
  *out = node;
  return HR_OK;
}

/* name, or name.attribute where `members`. */
static hr_status target_one(hr_template_parser *p, bool members, hr_template_node **out) {
  if (hr__template_skip_sign(p, "(")) {
    HR_TRY(hr__template_enter(p));
    HR_TRY(target_one(p, members, out));
    hr_template_node *first = *out;
    hr_template_node **tail = &first->next;
    hr_template_node *tuple = hr__template_node(p, HR_T_TUPLE);
    if (!tuple) return hr__nomem(p->err);
    tuple->first = first;
    while (hr__template_skip_sign(p, ",") && !hr__template_at_sign(p, ")")) {
      HR_TRY(target_one(p, members, tail));
      tail = &(*tail)->next;
    }
    p->depth--;
    HR_TRY(hr__template_expect_sign(p, ")"));
    if (first->next) *out = tuple;
    return HR_OK;
  }
  HR_TRY(target_name(p, out));
  if (!members || !hr__template_skip_sign(p, ".")) return HR_OK;
  hr_template_node *member = hr__template_node(p, HR_T_MEMBER);
  if (!member) return hr__nomem(p->err);
  member->name = (*out)->name;
  HR_TRY(hr__template_expect_name(p, &member->attribute));
  *out = member;
  return HR_OK;
}

/* What is assigned to: one name, or several with commas between them. */
static hr_status target_read(hr_template_parser *p, bool members, hr_template_node **out) {
  HR_TRY(target_one(p, members, out));
  if (!hr__template_at_sign(p, ",")) return HR_OK;
  hr_template_node *tuple = hr__template_node(p, HR_T_TUPLE);
  if (!tuple) return hr__nomem(p->err);
  tuple->first = *out;
  hr_template_node **tail = &(*out)->next;
  while (hr__template_skip_sign(p, ",")) {
    if (p->token->kind != HR_TOKEN_NAME || hr__template_at_word(p, "in")) break;
    HR_TRY(target_one(p, members, tail));
    tail = &(*tail)->next;
  }
  *out = tuple;
  return HR_OK;
}

static hr_status if_read(hr_template_parser *p, hr_template_node *node) {
  bool certain = p->certain;
  p->certain = false;
  node->kind = HR_T_IF;
  HR_TRY(hr__template_tuple(p, false, NULL, false, &node->left));
  HR_TRY(body_read(p, (const char *const[]){"elif", "else", "endif", NULL}, &node->body));
  while (hr__template_skip_word(p, "elif")) {
    if (!(node->other = hr__template_node(p, HR_T_IF))) return hr__nomem(p->err);
    node = node->other;
    HR_TRY(hr__template_tuple(p, false, NULL, false, &node->left));
    HR_TRY(body_read(p, (const char *const[]){"elif", "else", "endif", NULL}, &node->body));
  }
  if (hr__template_skip_word(p, "else")) HR_TRY(body_read(p, (const char *const[]){"endif", NULL}, &node->other));
  p->token++;
  p->certain = certain;
  return HR_OK;
}

static hr_status for_read(hr_template_parser *p, hr_template_node *node) {
  bool certain = p->certain;
  node->kind = HR_T_FOR;
  HR_TRY(target_read(p, false, &node->target));
  if (!hr__template_skip_word(p, "in")) return hr__template_unexpected(p, "'in'");
  HR_TRY(hr__template_tuple(p, false, "recursive", false, &node->left));
  p->certain = true;
  if (hr__template_skip_word(p, "if")) HR_TRY(hr__template_expression(p, true, &node->right));
  if (hr__template_at_word(p, "recursive")) return hr__template_not_supported(p, "for ... recursive");
  p->loops++;
  HR_TRY(body_read(p, (const char *const[]){"endfor", "else", NULL}, &node->body));
  p->loops--;
  if (hr__template_skip_word(p, "else")) HR_TRY(body_read(p, (const char *const[]){"endfor", NULL}, &node->other));
  p->token++;
  p->certain = certain;
  return HR_OK;
}

static hr_status set_read(hr_template_parser *p, hr_template_node *node) {
  HR_TRY(target_read(p, true, &node->target));
  if (hr__template_skip_sign(p, "=")) {
    node->kind = HR_T_SET;
    return hr__template_tuple(p, true, NULL, false, &node->left);
  }
  node->kind = HR_T_SET_BLOCK;
  HR_TRY(hr__template_filters(p, false, &node->left));
  return closed_body(p, "endset", &node->body);
}

static hr_status filter_block_read(hr_template_parser *p, hr_template_node *node) {
  node->kind = HR_T_FILTERED;
  HR_TRY(hr__template_filters(p, true, &node->left));
  return closed_body(p, "endfilter", &node->body);
}

static hr_status macro_read(hr_template_parser *p, hr_template_node *node) {
  node->kind = HR_T_MACRO;
  HR_TRY(hr__template_expect_name(p, &node->name));
  HR_TRY(hr__template_expect_sign(p, "("));
  hr_template_node **tail = &node->first;
  bool defaults = false;
  while (!hr__template_at_sign(p, ")")) {
    if (node->first) HR_TRY(hr__template_expect_sign(p, ","));
    hr_template_node *argument = hr__template_node(p, HR_T_ARGUMENT);
    if (!argument) return hr__nomem(p->err);
    HR_TRY(hr__template_expect_name(p, &argument->name));
    if (hr__template_skip_sign(p, "=")) {
      defaults = true;
      HR_TRY(hr__template_expression(p, true, &argument->left));
    } else if (defaults) {
      return hr__template_unexpected(p, "a default, as the argument before has one,");
    }
    *tail = argument;
    tail = &argument->next;
  }
  p->token++;
  return closed_body(p, "endmacro", &node->body);
}

static hr_status generation_read(hr_template_parser *p, hr_template_node *node) {
  node->kind = HR_T_GENERATION;
  return closed_body(p, "endgeneration", &node->body);
}

static hr_status leave_read(hr_template_parser *p, hr_template_node *node, hr_template_kind kind) {
  node->kind = kind;
  if (p->loops) return HR_OK;
  return hr__template_fail(p->err, HR_BAD_INPUT, p->parsed->place, node->line, "'%s' outside of a loop",
                           kind == HR_T_BREAK ? "break" : "continue");
}
static hr_status break_read(hr_template_parser *p, hr_template_node *node) {
  return leave_read(p, node, HR_T_BREAK);
}
static hr_status continue_read(hr_template_parser *p, hr_template_node *node) {
  return leave_read(p, node, HR_T_CONTINUE);
}

static const struct {
  const char *word;
  hr_status (*read)(hr_template_parser *p, hr_template_node *node); /* from behind the word to before %} */
} tags[] = {
    {"if", if_read},       {"for", for_read},     {"set", set_read},           {"filter", filter_block_read},
    {"macro", macro_read}, {"break", break_read}, {"continue", continue_read}, {"generation", generation_read},
};

static hr_status statement(hr_template_parser *p, hr_template_node **out) {
  hr_template_node *node = hr__template_node(p, HR_T_OUTPUT);
  if (!node) return hr__nomem(p->err);
  *out = node;
  if (p->token->kind != HR_TOKEN_NAME) return hr__template_unexpected(p, "the name of a statement");
  for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
    if (!hr__template_skip_word(p, tags[i].word)) continue;
    HR_TRY(hr__template_enter(p));
    HR_TRY(tags[i].read(p, node));
    p->depth--;
    return block_end(p);
  }
  char what[64];
  int bytes = p->token->bytes > 40 ? 40 : (int)p->token->bytes;
  snprintf(what, sizeof what, "{%% %.*s %%}", bytes, p->token->text);
  return hr__template_not_supported(p, what);
}

static bool at_end(const hr_template_parser *p, const char *const *ends) {
  for (; ends && *ends; ends++)
    if (hr__template_at_word(p, *ends)) return true;
  return false;
}

/* Statements up to a block that begins with one of `ends` (NULL: up to the end of the template). */
static hr_status statements(hr_template_parser *p, const char *const *ends, hr_template_node **out) {
  *out = NULL;
  for (;;) {
    hr_template_node *node = NULL;
    switch (p->token->kind) {
    case HR_TOKEN_DATA:
      if (!(node = hr__template_node(p, HR_T_DATA))) return hr__nomem(p->err);
      node->value = hr__py_string(p->token->text, p->token->bytes);
      p->token++;
      *out = node;
      break;
    case HR_TOKEN_PRINT_BEGIN:
      p->token++;
      if (!(node = hr__template_node(p, HR_T_OUTPUT))) return hr__nomem(p->err);
      HR_TRY(hr__template_tuple(p, true, NULL, false, &node->left));
      if (p->token->kind != HR_TOKEN_PRINT_END) return hr__template_unexpected(p, "'}}'");
      p->token++;
      *out = node;
      break;
    case HR_TOKEN_BLOCK_BEGIN:
      p->token++;
      if (at_end(p, ends)) return HR_OK;
      HR_TRY(statement(p, out));
      break;
    default:
      if (!ends) return HR_OK;
      char expected[64];
      snprintf(expected, sizeof expected, "{%% %s %%}", ends[0]);
      return hr__template_unexpected(p, expected);
    }
    out = &(*out)->next;
  }
}

static hr_status parse(hr_template *parsed, const char *name, const char *text, size_t bytes, hr_error *err) {
  if (bytes > HR_TEMPLATE_MAX_BYTES)
    return hr__fail(err, HR_BAD_INPUT, name, NULL, "a chat template of more than %d bytes", HR_TEMPLATE_MAX_BYTES);
  size_t wrong = hr__utf8_check(text, bytes);
  if (wrong != bytes) return hr__fail(err, HR_BAD_INPUT, name, NULL, "not UTF-8 at byte %zu", wrong);
  if (!(parsed->place = hr__arena_text(&parsed->arena, name))) return hr__nomem(err);
  hr_tokens tokens = {0};
  HR_TRY(hr__template_tokens(parsed->place, text, bytes, &parsed->arena, &tokens, err));
  hr_template_parser p = {.parsed = parsed, .token = tokens.items, .certain = true, .err = err};
  HR_TRY(statements(&p, NULL, &parsed->body));
  if (!p.unknown) return HR_OK;
  return hr__template_fail(err, HR_UNSUPPORTED, parsed->place, p.unknown->line,
                           "the %s '%.60s' does not exist or is not supported",
                           p.unknown->kind == HR_T_FILTER ? "filter" : "test", p.unknown->name->text);
}

hr_status hr__template_parse(const char *name, const char *text, size_t bytes, hr_template **out, hr_error *err) {
  hr_template *parsed = hr__alloc_zero(1, sizeof *parsed);
  if (!parsed) return hr__nomem(err);
  hr_status status = parse(parsed, name, text, bytes, err);
  if (status == HR_OK)
    *out = parsed;
  else
    hr__template_destroy(parsed);
  return status;
}

void hr__template_destroy(hr_template *parsed) {
  if (!parsed) return;
  hr__arena_fini(&parsed->arena);
  hr__free(parsed);
}
