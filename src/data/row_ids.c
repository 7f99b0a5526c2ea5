/* See row_ids.h. */
#include "data/row_ids.h"

#include <stdio.h>
#include <string.h>

/* A row on its way. */
typedef struct row {
  hr_row_maker *maker;
  const hr_doc_node *fields;
  hr_arena *arena;
  hr_ids *ids;
} row;

/* Null is absent. */
static const hr_doc_node *field_of(const hr_doc_node *map, const char *key) {
  const hr_doc_node *node = hr__doc_get(map, key);
  return node && !hr__doc_is_null(node) ? node : NULL;
}

static hr_status text_of(const hr_doc_node *map, const char *key, const char **out, hr_error *err) {
  const hr_doc_node *node = field_of(map, key);
  if (!node || node->kind != HR_DOC_SCALAR || !node->quoted)
    return hr__fail(err, HR_BAD_INPUT, NULL, NULL, node ? "%s is not a text" : "%s is missing", key);
  *out = node->text;
  return HR_OK;
}

/* --- tokens and targets ------------------------------------------------------------------------------------------- */

static hr_status text_add(const row *r, const char *text, size_t bytes, bool target, hr_error *err) {
  size_t first = r->ids->count;
  HR_TRY(hr__encode(r->maker->encoder, text, bytes, false, r->ids, err));
  for (size_t i = first; i < r->ids->count && !target && !r->maker->all; i++)
    r->ids->items[i] |= HR_NO_TARGET;
  return HR_OK;
}

/* What the tokenizer puts before a text. */
static hr_status begin_add(const row *r, hr_error *err) {
  size_t first = r->ids->count;
  HR_TRY(hr__encode_before(r->maker->tokenizer, r->ids, err));
  for (size_t i = first; i < r->ids->count; i++)
    r->ids->items[i] |= HR_NO_TARGET;
  return HR_OK;
}

hr_status hr__end_add(const hr_tokenizer *tokenizer, hr_ids *ids, hr_error *err) {
  int32_t end = hr__tokenizer_role(tokenizer, HR_TOKEN_END);
  bool there = ids->count > 0 && ids->items[ids->count - 1] == end;
  return end < 0 || there ? HR_OK : hr__ids_add(ids, end, err);
}

/* The bytes of text that a token stands for, in maker->piece: sentencepiece writes a space as U+2581 and a byte as
 * <0x0A>. */
static hr_status piece_of(hr_row_maker *maker, int32_t id, hr_error *err) {
  static const char space[] = "\xe2\x96\x81";
  hr_string *piece = &maker->piece;
  piece->count = 0;
  HR_TRY(hr__tokenizer_text(maker->tokenizer, id, piece, err));
  unsigned byte;
  char hex[8] = {0};
  if (piece->count == 6) memcpy(hex, piece->data, 6);
  if (hex[5] == '>' && sscanf(hex, "<0x%2X>", &byte) == 1) {
    piece->data[0] = (char)byte;
    piece->count = 1;
    return HR_OK;
  }
  size_t kept = 0;
  for (size_t i = 0; i < piece->count; kept++) {
    bool is_space = piece->count - i >= 3 && memcmp(piece->data + i, space, 3) == 0;
    piece->data[kept] = is_space ? ' ' : piece->data[i];
    i += is_space ? 3 : 1;
  }
  piece->count = kept;
  return HR_OK;
}

static bool in_ranges(const hr_rendered *text, size_t at) {
  for (size_t i = 0; i < text->generated_count; i++)
    if (at >= text->generated[i].begin && at < text->generated[i].end) return true;
  return false;
}

/* Marks the ids from `first` on whose first byte is in no answer. *found: their pieces are the text, so that it is
 * known where each begins; a space that the tokenizer has put before the whole counts nothing. */
static hr_status tokens_mark(const row *r, size_t first, const hr_rendered *text, bool *found, hr_error *err) {
  size_t at = 0;
  *found = true;
  for (size_t i = first; i < r->ids->count && *found; i++) {
    HR_TRY(piece_of(r->maker, r->ids->items[i], err));
    const char *data = r->maker->piece.data;
    size_t count = r->maker->piece.count;
    if (at == 0 && count > 0 && data[0] == ' ' && text->text[0] != ' ') {
      data++;
      count--;
    }
    *found = text->bytes - at >= count && (count == 0 || memcmp(text->text + at, data, count) == 0);
    if (!in_ranges(text, at)) r->ids->items[i] |= HR_NO_TARGET;
    at += count;
  }
  *found = *found && at == text->bytes;
  return HR_OK;
}

/* Answers and what lies between them, each encoded apart. */
static hr_status segments_add(const row *r, const hr_rendered *text, hr_error *err) {
  size_t at = 0;
  for (size_t i = 0; i < text->generated_count; i++) {
    const hr_text_range *answer = &text->generated[i];
    HR_TRY(text_add(r, text->text + at, answer->begin - at, false, err));
    HR_TRY(text_add(r, text->text + answer->begin, answer->end - answer->begin, true, err));
    at = answer->end;
  }
  return text_add(r, text->text + at, text->bytes - at, false, err);
}

/* The text is encoded whole, as the model will see it. Tokenizers that change text (normalizers, tokens that swallow
 * blanks) do not say where a token begins: then segments are encoded apart, as many trainers do. */
static hr_status rendered_add(const row *r, const hr_rendered *text, hr_error *err) {
  size_t first = r->ids->count;
  bool found = true;
  HR_TRY(text_add(r, text->text, text->bytes, true, err));
  if (!r->maker->all) HR_TRY(tokens_mark(r, first, text, &found, err));
  if (found) return HR_OK;
  r->ids->count = first;
  return segments_add(r, text, err);
}

/* --- shapes ------------------------------------------------------------------------------------------------------- */

static hr_status plain_add(const row *r, hr_error *err) {
  const char *text = NULL;
  HR_TRY(text_of(r->fields, "text", &text, err));
  HR_TRY(hr__encode(r->maker->encoder, text, strlen(text), true, r->ids, err));
  return hr__end_add(r->maker->tokenizer, r->ids, err);
}

/* Prompt and answer are encoded apart: so are they when the model is asked. */
static hr_status answered_add(const row *r, const char *prompt, const char *answer, hr_error *err) {
  HR_TRY(begin_add(r, err));
  HR_TRY(text_add(r, prompt, strlen(prompt), false, err));
  HR_TRY(text_add(r, answer, strlen(answer), true, err));
  return hr__end_add(r->maker->tokenizer, r->ids, err);
}

static hr_status completion_add(const row *r, hr_error *err) {
  const char *prompt = NULL, *completion = NULL;
  HR_TRY(text_of(r->fields, "prompt", &prompt, err));
  HR_TRY(text_of(r->fields, "completion", &completion, err));
  return answered_add(r, prompt, completion, err);
}

static hr_status instruction_add(const row *r, hr_error *err) {
  const char *instruction = NULL, *input = "", *output = NULL;
  HR_TRY(text_of(r->fields, "instruction", &instruction, err));
  HR_TRY(text_of(r->fields, "output", &output, err));
  if (field_of(r->fields, "input")) HR_TRY(text_of(r->fields, "input", &input, err));
  const char *prompt = hr__arena_format(r->arena, input[0] ? "%s\n%s" : "%s%s", instruction, input);
  if (!prompt) return hr__nomem(err);
  return answered_add(r, prompt, output, err);
}

/* Tools, or NULL. Stores of columns keep them as a text of JSON, since those of two rows have different fields. */
static hr_status tools_of(const row *r, const hr_doc_node **out, hr_error *err) {
  const hr_doc_node *tools = field_of(r->fields, "tools");
  hr_error why = {0};
  if (tools && tools->kind == HR_DOC_SCALAR && tools->quoted) {
    hr_doc_node *parsed = NULL;
    if (!*tools->text || strcmp(tools->text, "null") == 0) return HR_OK;
    hr_status status = hr__json_parse("tools", tools->text, strlen(tools->text), r->arena, &parsed, &why);
    if (status == HR_NOMEM) return hr__nomem(err);
    if (status != HR_OK)
      return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "tools is a text, but not one of JSON: %s", why.message);
    tools = parsed;
  }
  if (tools && tools->kind != HR_DOC_LIST) return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "tools is not a list");
  *out = tools && tools->child ? tools : NULL;
  return HR_OK;
}

static hr_status chat_add(const row *r, const hr_doc_node *messages, hr_error *err) {
  hr_rendered text;
  const hr_doc_node *tools = NULL;
  HR_TRY(tools_of(r, &tools, err));
  HR_TRY(hr__chat_render(r->maker->chat, messages, tools, r->arena, &text, err));
  return rendered_add(r, &text, err);
}

static hr_status list_check(const hr_doc_node *list, const char *key, hr_error *err) {
  bool good = list->kind == HR_DOC_LIST && list->child;
  for (const hr_doc_node *m = list->child; m && good; m = m->next)
    good = m->kind == HR_DOC_MAP;
  if (good) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "%s is not a list of messages", key);
}

static hr_status messages_add(const row *r, hr_error *err) {
  const hr_doc_node *messages = field_of(r->fields, "messages");
  HR_TRY(list_check(messages, "messages", err));
  for (const hr_doc_node *m = messages->child; m; m = m->next) {
    const char *role = NULL;
    HR_TRY(text_of(m, "role", &role, err));
  }
  return chat_add(r, messages, err);
}

static hr_status role_of(const char *from, const char **role, hr_error *err) {
  static const char *const roles[][2] = {{"human", "user"}, {"gpt", "assistant"}, {"system", "system"}};
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
    for (int name = 0; name < 2; name++)
      if (strcmp(roles[i][name], from) == 0) {
        *role = roles[i][1];
        return HR_OK;
      }
  return hr__fail(err, HR_BAD_INPUT, NULL, NULL, "from is \"%s\", not human, gpt or system", from);
}

/* The same messages with other names. */
static hr_status conversations_add(const row *r, hr_error *err) {
  const hr_doc_node *turns = field_of(r->fields, "conversations");
  HR_TRY(list_check(turns, "conversations", err));
  hr_doc_node messages = {.kind = HR_DOC_LIST}, **last = &messages.child;
  for (const hr_doc_node *turn = turns->child; turn; turn = turn->next) {
    const char *from = "", *role = "", *value = "";
    HR_TRY(text_of(turn, "from", &from, err));
    HR_TRY(text_of(turn, "value", &value, err));
    HR_TRY(role_of(from, &role, err));
    hr_doc_node *nodes = hr__arena_array(r->arena, 3, sizeof *nodes);
    if (!nodes) return hr__nomem(err);
    nodes[0] = (hr_doc_node){.kind = HR_DOC_MAP, .child = &nodes[1]};
    nodes[1] = (hr_doc_node){.kind = HR_DOC_SCALAR, .key = "role", .text = role, .quoted = true, .next = &nodes[2]};
    nodes[2] = (hr_doc_node){.kind = HR_DOC_SCALAR, .key = "content", .text = value, .quoted = true};
    *last = nodes;
    last = &nodes->next;
  }
  return chat_add(r, &messages, err);
}

/* The first of these whose keys a row has is its shape. */
static const struct {
  const char *keys[2];
  hr_status (*add)(const row *r, hr_error *err);
} shapes[] = {
    {{"messages", NULL}, messages_add},
    {{"conversations", NULL}, conversations_add},
    {{"prompt", "completion"}, completion_add},
    {{"instruction", "output"}, instruction_add},
    {{"text", NULL}, plain_add},
};

hr_status hr__row_ids(hr_row_maker *maker, const hr_doc_node *fields, hr_arena *arena, hr_ids *ids, hr_error *err) {
  row r = {.maker = maker, .fields = fields, .arena = arena, .ids = ids};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const char *const *keys = shapes[i].keys;
    if (field_of(fields, keys[0]) && (!keys[1] || field_of(fields, keys[1]))) return shapes[i].add(&r, err);
  }
  return hr__fail(err, HR_BAD_INPUT, NULL, "see docs/data.md for what a row may be",
                  "the row has none of: text; prompt and completion; instruction and output; messages; conversations");
}
