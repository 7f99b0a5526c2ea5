/* Tokens into the tree: what the two halves, statements and expressions, share. */
#ifndef HR_TEXT_TEMPLATE_PARSER_H
#define HR_TEXT_TEMPLATE_PARSER_H

#include "text/template_lexer.h"
#include "text/template_tree.h"

typedef struct hr_template_parser {
  hr_template *parsed;
  const hr_token *token; /* the current one */
  int depth;
  int loops;    /* for statements around the current one, inside of the innermost macro, set or generation block */
  bool certain; /* whether what is parsed is evaluated whenever what is around it is: not inside if */
  const hr_template_node *unknown; /* the first filter or test that does not exist, in such a place */
  hr_error *err;
} hr_template_parser;

/* A new node at the current line; NULL when out of memory. */
hr_template_node *hr__template_node(hr_template_parser *p, hr_template_kind kind);
/* The name of the current token; NULL when out of memory. */
const hr_template_name *hr__template_intern(hr_template_parser *p, const char *text, size_t bytes);

bool hr__template_at_sign(const hr_template_parser *p, const char *sign);
bool hr__template_at_word(const hr_template_parser *p, const char *word);
bool hr__template_skip_sign(hr_template_parser *p, const char *sign);
bool hr__template_skip_word(hr_template_parser *p, const char *word);
hr_status hr__template_expect_sign(hr_template_parser *p, const char *sign);
hr_status hr__template_expect_name(hr_template_parser *p, const hr_template_name **out);
/* "expected ..., found ..." at the current token. */
hr_status hr__template_unexpected(hr_template_parser *p, const char *expected);
hr_status hr__template_not_supported(hr_template_parser *p, const char *what);

/* Going into a node: bounded. Leave with p->depth--. */
hr_status hr__template_enter(hr_template_parser *p);

/* `conditional`: whether `a if b else c` is one expression here. */
hr_status hr__template_expression(hr_template_parser *p, bool conditional, hr_template_node **out);
/* One expression, or several with commas between them as a tuple, up to the end of the tag or `end_word`. */
hr_status hr__template_tuple(hr_template_parser *p, bool conditional, const char *end_word, bool in_brackets,
                             hr_template_node **out);
/* `| name(...) | name(...)` of what a block makes; `begun`: without the first `|`. NULL: none. */
hr_status hr__template_filters(hr_template_parser *p, bool begun, hr_template_node **out);

#endif
