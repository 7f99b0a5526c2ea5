/* Conversations as text: the model's chat template, and which of the text are answers. */
#ifndef HR_DATA_CHAT_H
#define HR_DATA_CHAT_H

#include "recipe/recipe.h"
#include "text/template.h"
#include "text/tokenizer.h"

typedef struct hr_chat {
  hr_arena arena;
  const char *text; /* of the template; NULL: there is none, and `name` is the folder it was looked for in */
  size_t bytes;
  const char *name;
  hr_template *parsed; /* NULL until a conversation needs it */
  const hr_tokenizer *tokenizer;
} hr_chat;

/* The template of data.template, else of the tokenizer's folder, else of model.path. `tokenizer` stays the caller's. */
hr_status hr__chat_open(const hr_recipe *recipe, const hr_tokenizer *tokenizer, hr_chat *out, hr_error *err);
/* The same template for another thread, which parses it for itself; to be closed before the first. */
hr_chat hr__chat_share(const hr_chat *chat);
void hr__chat_close(hr_chat *chat);

/* Renders a list of messages; `generated` are the answers. They are what the template has marked, else for each turn
 * of the assistant what the text up to its end has more than the text before it with the generation prompt. What is
 * wrong with the conversation is HR_BAD_INPUT; no template, or one that is not supported, is HR_UNSUPPORTED. */
hr_status hr__chat_render(hr_chat *chat, const hr_doc_node *messages, const hr_doc_node *tools, hr_arena *arena,
                          hr_rendered *out, hr_error *err);

/* The text that an answer to these messages begins behind: with the generation prompt. */
hr_status hr__chat_prompt(hr_chat *chat, const hr_doc_node *messages, hr_arena *arena, hr_rendered *out, hr_error *err);

#endif
