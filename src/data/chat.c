/* See chat.h. */
#include "data/chat.h"

#include <string.h>

#include "format/file.h"
#include "format/gguf.h"
#include "text/gguf.h"

static hr_status folder_look(hr_chat *chat, const char *folder, hr_error *err) {
  HR_TRY(hr__template_of_folder(folder, false, &chat->arena, &chat->text, &chat->bytes, &chat->name, err));
  if (!chat->text) chat->name = folder;
  return HR_OK;
}

static hr_status template_find(hr_chat *chat, const hr_recipe *recipe, hr_error *err) {
  if (hr__recipe_has(recipe, "data.template")) {
    char *text = NULL;
    chat->name = hr__recipe_text(recipe, "data.template");
    HR_TRY(hr__file_read(chat->name, HR_TEMPLATE_MAX_BYTES, &chat->arena, &text, &chat->bytes, err));
    chat->text = text;
    return HR_OK;
  }
  char *folder = hr__arena_text(&chat->arena, hr__tokenizer_file(chat->tokenizer));
  if (!folder) return hr__nomem(err);
  bool whole = hr__gguf_is_name(folder); /* which has the template in it */
  char *slash = whole ? NULL : strrchr(folder, '/');
  if (slash) *slash = 0;
  HR_TRY(folder_look(chat, slash || whole ? folder : ".", err));
  if (chat->text || !hr__recipe_has(recipe, "model.path")) return HR_OK;
  return folder_look(chat, hr__recipe_text(recipe, "model.path"), err);
}

hr_status hr__chat_open(const hr_recipe *recipe, const hr_tokenizer *tokenizer, hr_chat *out, hr_error *err) {
  *out = (hr_chat){.tokenizer = tokenizer};
  hr__arena_init(&out->arena);
  hr_status status = template_find(out, recipe, err);
  if (status != HR_OK) hr__chat_close(out);
  return status;
}

hr_chat hr__chat_share(const hr_chat *chat) {
  return (hr_chat){.text = chat->text, .bytes = chat->bytes, .name = chat->name, .tokenizer = chat->tokenizer};
}

void hr__chat_close(hr_chat *chat) {
  hr__template_destroy(chat->parsed);
  hr__arena_fini(&chat->arena);
  *chat = (hr_chat){0};
}

static hr_status template_need(hr_chat *chat, hr_error *err) {
  if (chat->parsed) return HR_OK;
  if (!chat->text)
    return hr__fail(err, HR_UNSUPPORTED, chat->name, "put chat_template.jinja there, or give data.template: FILE",
                    "messages need the model's chat template, and this folder has none");
  hr_status status = hr__template_parse(chat->name, chat->text, chat->bytes, &chat->parsed, err);
  if (status != HR_BAD_INPUT) return status;
  if (err) err->status = HR_UNSUPPORTED; /* no row is to blame */
  return HR_UNSUPPORTED;
}

/* --- variables of a call ------------------------------------------------------------------------------------------ */

/* Puts a copy of a node in front of a map's children. */
static hr_status variable_add(hr_doc_node *map, const char *key, hr_doc_node value, hr_arena *arena, hr_error *err) {
  hr_doc_node *node = hr__arena_alloc(arena, sizeof *node);
  if (!node) return hr__nomem(err);
  *node = value;
  node->key = key;
  node->next = map->child;
  map->child = node;
  return HR_OK;
}

static hr_status roles_add(const hr_tokenizer *tokenizer, hr_doc_node *map, hr_arena *arena, hr_error *err) {
  for (int role = 0; role < HR_TOKEN_ROLES; role++) {
    size_t bytes;
    const char *piece = hr__tokenizer_piece(tokenizer, hr__tokenizer_role(tokenizer, (hr_token_role)role), &bytes);
    if (!piece) continue;
    const char *text = hr__arena_format(arena, "%.*s", (int)bytes, piece);
    if (!text) return hr__nomem(err);
    hr_doc_node value = {.kind = HR_DOC_SCALAR, .text = text, .quoted = true};
    HR_TRY(variable_add(map, hr__token_role_name((hr_token_role)role), value, arena, err));
  }
  return HR_OK;
}

/* The first `count` messages. Fields that are null are left out: stores of columns write them where a row has none. */
static hr_status messages_copy(const hr_doc_node *messages, size_t count, hr_arena *arena, hr_doc_node *out,
                               hr_error *err) {
  *out = (hr_doc_node){.kind = HR_DOC_LIST};
  hr_doc_node **last = &out->child;
  for (const hr_doc_node *from = messages->child; from && count > 0; from = from->next, count--) {
    hr_doc_node *message = hr__arena_alloc(arena, sizeof *message);
    if (!message) return hr__nomem(err);
    *message = (hr_doc_node){.kind = HR_DOC_MAP};
    hr_doc_node **field = &message->child;
    for (const hr_doc_node *child = from->child; child; child = child->next) {
      if (hr__doc_is_null(child)) continue;
      hr_doc_node *copy = hr__arena_alloc(arena, sizeof *copy);
      if (!copy) return hr__nomem(err);
      *copy = *child;
      copy->next = NULL;
      *field = copy;
      field = &copy->next;
    }
    *last = message;
    last = &message->next;
  }
  return HR_OK;
}

/* --- rendering ---------------------------------------------------------------------------------------------------- */

typedef struct conversation {
  const hr_chat *chat;
  const hr_doc_node *messages, *tools;
  hr_arena *arena;
} conversation;

static hr_status part_render(const conversation *c, size_t count, bool prompt, hr_rendered *out, hr_error *err) {
  hr_doc_node variables = {.kind = HR_DOC_MAP}, messages;
  HR_TRY(messages_copy(c->messages, count, c->arena, &messages, err));
  HR_TRY(roles_add(c->chat->tokenizer, &variables, c->arena, err));
  hr_doc_node flag = {.kind = HR_DOC_SCALAR, .text = prompt ? "true" : "false"};
  HR_TRY(variable_add(&variables, "add_generation_prompt", flag, c->arena, err));
  if (c->tools) HR_TRY(variable_add(&variables, "tools", *c->tools, c->arena, err));
  HR_TRY(variable_add(&variables, "messages", messages, c->arena, err));
  return hr__template_render(c->chat->parsed, &(hr_template_call){.variables = &variables}, c->arena, out, err);
}

static bool begins_with(const hr_rendered *whole, const hr_rendered *part) {
  return part->bytes <= whole->bytes && memcmp(whole->text, part->text, part->bytes) == 0;
}

/* The answer that message `turn` is. */
static hr_status answer_find(const conversation *c, size_t turn, const hr_rendered *whole, hr_text_range *out,
                             hr_error *err) {
  hr_rendered before, until;
  HR_TRY(part_render(c, turn, true, &before, err));
  HR_TRY(part_render(c, turn + 1, false, &until, err));
  if (!begins_with(whole, &before) || !begins_with(whole, &until) || until.bytes < before.bytes)
    return hr__fail(err, HR_BAD_INPUT, NULL,
                    "mark answers in the template with {% generation %}, or train on everything: data.loss: all",
                    "the template writes message %zu otherwise than its beginning: where the answer begins and ends "
                    "cannot be told",
                    turn + 1);
  *out = (hr_text_range){before.bytes, until.bytes};
  return HR_OK;
}

static bool is_answer(const hr_doc_node *message) {
  const hr_doc_node *role = hr__doc_get(message, "role");
  return role && role->kind == HR_DOC_SCALAR && strcmp(role->text, "assistant") == 0;
}

hr_status hr__chat_render(hr_chat *chat, const hr_doc_node *messages, const hr_doc_node *tools, hr_arena *arena,
                          hr_rendered *out, hr_error *err) {
  HR_TRY(template_need(chat, err));
  conversation c = {.chat = chat, .messages = messages, .tools = tools, .arena = arena};
  size_t count = 0, answers = 0, turn = 0, found = 0;
  for (const hr_doc_node *m = messages->child; m; m = m->next) {
    count++;
    answers += is_answer(m);
  }
  HR_TRY(part_render(&c, count, false, out, err));
  if (out->generated_count > 0 || answers == 0) return HR_OK;
  hr_text_range *ranges = hr__arena_array(arena, answers, sizeof *ranges);
  if (!ranges) return hr__nomem(err);
  for (const hr_doc_node *m = messages->child; m; m = m->next, turn++)
    if (is_answer(m)) HR_TRY(answer_find(&c, turn, out, &ranges[found++], err));
  out->generated = ranges;
  out->generated_count = answers;
  return HR_OK;
}

hr_status hr__chat_prompt(hr_chat *chat, const hr_doc_node *messages, hr_arena *arena, hr_rendered *out,
                          hr_error *err) {
  HR_TRY(template_need(chat, err));
  conversation c = {.chat = chat, .messages = messages, .arena = arena};
  return part_render(&c, SIZE_MAX, true, out, err);
}
