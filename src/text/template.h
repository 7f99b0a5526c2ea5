/* Chat templates: the part of Jinja that they use, with Python's meaning of every value.
 *
 * What is supported is what transformers gives templates: its environment trims blocks, knows break, continue and
 * {% generation %}, and lets templates change nothing but what they have made themselves. Anything beyond is an error
 * that names the construct and its line. Templates come from strangers: steps, memory, output and depth are bounded.
 *
 *     template_lexer ─► template_parser, template_expression ─► tree ─► template_run, template_eval ─► text
 *
 * Values are `hr_py` (template_value.h). Filters, tests, methods and functions are rows of tables, in the file of their
 * name.
 */
#ifndef HR_TEXT_TEMPLATE_H
#define HR_TEXT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"
#include "format/doc.h"

typedef struct hr_template hr_template;

enum { HR_TEMPLATE_MAX_BYTES = 1 << 20 };

/* Parses a template; `name` is put into error places ("name:line"). It is never written to again: several threads may
 * render it at once. */
hr_status hr__template_parse(const char *name, const char *text, size_t bytes, hr_template **out, hr_error *err);
void hr__template_destroy(hr_template *parsed); /* NULL is fine */

/* Bounds of one rendering; 0 takes the default. */
typedef struct hr_template_limits {
  uint64_t steps;      /* nodes evaluated, and 64 bytes or 16 items looked at; 20 million */
  size_t output_bytes; /* 64 MiB */
  size_t memory_bytes; /* values made on the way, output included; 512 MiB */
} hr_template_limits;

/* Bytes [begin, end) of the rendered text. */
typedef struct hr_text_range {
  size_t begin, end;
} hr_text_range;

typedef struct hr_rendered {
  const char *text; /* NUL-terminated */
  size_t bytes;
  const hr_text_range *generated; /* what stands between {% generation %} and {% endgeneration %}, in order */
  size_t generated_count;
} hr_rendered;

typedef struct hr_template_call {
  const hr_doc_node *variables; /* a map: messages, tools, add_generation_prompt, bos_token, ... */
  hr_template_limits limits;
  int64_t now; /* seconds since 1970 that strftime_now shows in local time; 0: the clock's */
} hr_template_call;

/* Renders into `arena`, where everything made on the way stays too. raise_exception, operations that Python refuses and
 * broken limits are HR_BAD_INPUT; what is not supported is HR_UNSUPPORTED. */
hr_status hr__template_render(const hr_template *parsed, const hr_template_call *call, hr_arena *arena,
                              hr_rendered *out, hr_error *err);

/* The text of the template of a model folder, in `arena`, and where it comes from (for hr__template_parse). In this
 * order: chat_template.jinja; chat_template in tokenizer_config.json, a text or a list of {name, template}, of which
 * `tool_use` serves calls with tools and `default` all others. *text is NULL where the folder has none. */
hr_status hr__template_of_folder(const char *folder, bool tools, hr_arena *arena, const char **text, size_t *bytes,
                                 const char **name, hr_error *err);

#endif
