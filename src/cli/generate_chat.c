/* headroom generate --chat: a conversation. Each turn is written by the model's template from the first message on; the
 * caches keep what its tokens have in common with those they hold. */
#include <string.h>
#include <unistd.h>

#include "cli/generate.h"
#include "train/signals.h"

hr_status hr__generating_say(hr_doc_node *messages, const char *role, const char *text, hr_arena *arena,
                             hr_error *err) {
  hr_doc_node *message = hr__arena_alloc(arena, 3 * sizeof *message);
  const char *copy = hr__arena_text(arena, text);
  if (!message || !copy) return hr__nomem(err);
  message[0] = (hr_doc_node){.kind = HR_DOC_MAP, .child = &message[1]};
  message[1] = (hr_doc_node){.kind = HR_DOC_SCALAR, .key = "role", .text = role, .quoted = true, .next = &message[2]};
  message[2] = (hr_doc_node){.kind = HR_DOC_SCALAR, .key = "content", .text = copy, .quoted = true};
  hr_doc_node **last = &messages->child;
  while (*last)
    last = &(*last)->next;
  *last = message;
  return HR_OK;
}

hr_status hr__generating_turns(hr_generating *g, const hr_doc_node *messages, hr_arena *arena, hr_ids *ids,
                               hr_error *err) {
  hr_rendered rendered;
  HR_TRY(hr__chat_prompt(&g->chat, messages, arena, &rendered, err));
  return hr__codec_encode(&g->codec, rendered.text, rendered.bytes, false, ids, err);
}

typedef struct talk {
  hr_generating *g;
  hr_arena arena;       /* of the conversation */
  hr_doc_node messages; /* so far */
  hr_ids held;          /* tokens that the caches hold */
  size_t printed;       /* bytes of the answer */
} talk;

static void answer_heard(void *user, size_t number, const hr_answer *answer) {
  talk *t = user;
  (void)number;
  fwrite(answer->text.data ? answer->text.data + t->printed : "", 1, answer->shown - t->printed, stdout);
  t->printed = answer->shown;
  fflush(stdout);
}

static int64_t common_tokens(const hr_ids *held, const hr_ids *ids) {
  size_t n = 0;
  while (n < held->count && n + 1 < ids->count && held->items[n] == ids->items[n])
    n++; /* the last token is always fed: its logits are asked for */
  return (int64_t)n;
}

/* What the caches hold now: the prompt, and all of the answer but its last token, which was never fed. */
static hr_status held_note(talk *t, const hr_ids *ids, const hr_answer *answer, hr_error *err) {
  t->held.count = 0;
  HR_TRY(hr__ids_room(&t->held, ids->count + answer->ids.count + 1, err));
  memcpy(t->held.items, ids->items, ids->count * sizeof *ids->items);
  t->held.count = ids->count;
  for (size_t i = 0; i + 1 < answer->ids.count; i++)
    t->held.items[t->held.count++] = answer->ids.items[i];
  return HR_OK;
}

static hr_status prompt_answer(talk *t, const hr_ids *ids, hr_error *err) {
  hr_generating *g = t->g;
  int64_t kept = hr__generator_keeps(t->g->generator, 0, common_tokens(&t->held, ids));
  hr_prompt prompt = {.ids = ids->items, .count = (int64_t)ids->count, .kept = kept};
  hr_generate_options options = {
      .rules = hr__generating_rules(g), .heard = answer_heard, .stopped = hr__generating_stopped, .user = t};
  hr_generate_times times = {0};
  hr_answer answer;
  t->printed = 0;
  hr_status status = hr__generate(g->generator, &g->codec, &prompt, 1, &options, &answer, &times, err);
  if (status == HR_OK) status = held_note(t, ids, &answer, err);
  if (status == HR_OK) {
    const char *text = hr__arena_format(&t->arena, "%.*s", (int)answer.shown, answer.text.data ? answer.text.data : "");
    status = text ? hr__generating_say(&t->messages, "assistant", text, &t->arena, err) : hr__nomem(err);
    putchar('\n');
  }
  if (status == HR_OK && answer.end == HR_END_CONTEXT)
    hr__cli_tell(g->cli, stderr, "", "remark:", "the context is full: /new begins another conversation");
  hr__answer_destroy(&answer);
  return status;
}

/* A conversation that has grown too long is told, and the line is as if it had not been said. */
static hr_status line_answer(talk *t, const char *line, hr_error *err) {
  hr_ids ids = {0};
  hr_doc_node **last = &t->messages.child;
  while (*last)
    last = &(*last)->next;
  HR_TRY(hr__generating_say(&t->messages, "user", line, &t->arena, err));
  hr_status status = hr__generating_turns(t->g, &t->messages, &t->arena, &ids, err);
  if (status == HR_OK && (int64_t)ids.count >= hr__generator_context(t->g->generator)) {
    *last = NULL;
    hr__cli_tell(t->g->cli, stderr, "",
                 "remark:", "the conversation is longer than the context now: /new begins another one");
  } else if (status == HR_OK) {
    status = prompt_answer(t, &ids, err);
  }
  hr__ids_fini(&ids);
  return status;
}

/* A line of stdin without its end; *there is false at the end of the input, or where a signal came. */
static hr_status line_read(hr_string *line, bool *there, hr_error *err) {
  int c = getc(stdin);
  line->count = 0;
  *there = c != EOF;
  for (; c != EOF && c != '\n'; c = getc(stdin)) {
    char byte = (char)c;
    if (byte != '\r' && byte != 0) HR_TRY(hr__string_add(line, &byte, 1, err));
  }
  return hr__string_add(line, "", 1, err);
}

/* Signals are caught only while an answer is made. A person who interrupts one goes on with the next line. */
static hr_status line_hear(talk *t, const char *line, bool person, hr_error *err) {
  hr__signals_begin();
  hr_status status = line_answer(t, line, err);
  if (status == HR_OK && !person) status = hr__generating_interrupted(err);
  hr__signals_end();
  return status;
}

static hr_status lines_answer(talk *t, hr_string *line, hr_error *err) {
  bool person = isatty(STDIN_FILENO) && !t->g->cli->quiet, there = true;
  for (;;) {
    if (person) fputs("> ", stderr);
    HR_TRY(line_read(line, &there, err));
    if (!there) return HR_OK;
    if (strcmp(line->data, "/new") == 0)
      t->messages.child = NULL;
    else if (*line->data)
      HR_TRY(line_hear(t, line->data, person, err));
    HR_TRY(hr__cli_flush(err));
  }
}

hr_status hr__generating_chat(hr_generating *g, hr_error *err) {
  if (g->cli->json)
    return hr__fail(err, HR_USAGE, "--json", "give --prompt TEXT with --chat, for one answer as JSON",
                    "a conversation is no JSON object");
  talk t = {.g = g, .messages = {.kind = HR_DOC_LIST}};
  hr__arena_init(&t.arena);
  hr__signals_end();
  if (isatty(STDIN_FILENO) && !g->cli->quiet)
    fputs("a line is a message; /new begins another conversation, Ctrl-D ends\n", stderr);
  hr_string line = {0};
  hr_status status = lines_answer(&t, &line, err);
  hr__string_fini(&line);
  hr__ids_fini(&t.held);
  hr__arena_fini(&t.arena);
  return status;
}
