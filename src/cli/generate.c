/* headroom generate: what a model makes of prompts, within a plan as everything else. */
#include "cli/generate.h"

#include <inttypes.h>
#include <string.h>

#include "cli/plan.h"
#include "format/file.h"
#include "format/json.h"
#include "train/signals.h"

enum { TOKENS = 256, PROMPTS_BYTES = 64 << 20 };

hr_answer_rules hr__generating_rules(const hr_generating *g) {
  return (hr_answer_rules){.ends = g->ends.items,
                           .n_ends = g->ends.count,
                           .stops = g->stops,
                           .n_stops = g->n_stops,
                           .tokens = g->max_tokens};
}

bool hr__generating_stopped(void *unused) {
  (void)unused;
  return hr__signals_caught() != 0;
}

hr_status hr__generating_interrupted(hr_error *err) {
  if (hr__signals_caught() == 0) return HR_OK;
  hr_stop_signal stop = hr__signal_meaning(hr__signals_caught());
  return hr__fail(err, stop.status, NULL, NULL, "stopped by %s", stop.name);
}

/* --- what is asked for -------------------------------------------------------------------------------------------- */

static hr_status sampling_read(hr_generating *g, hr_error *err) {
  const hr_cli *cli = g->cli;
  hr_sampling *s = &g->sampling;
  int64_t seed;
  HR_TRY(hr__cli_float(cli, "temperature", 0, 1000, 0, &s->temperature, err));
  HR_TRY(hr__cli_int(cli, "top-k", 0, 0, &s->top_k, err));
  HR_TRY(hr__cli_float(cli, "top-p", 1e-6, 1, 1, &s->top_p, err));
  HR_TRY(hr__cli_float(cli, "min-p", 0, 1, 0, &s->min_p, err));
  HR_TRY(hr__cli_float(cli, "repetition-penalty", 1e-3, 1000, 1, &s->repetition_penalty, err));
  HR_TRY(hr__cli_int(cli, "seed", 0, 1, &seed, err));
  s->seed = (uint64_t)seed;
  static const char *const drawing[] = {"top-k", "top-p", "min-p", "seed"};
  for (size_t i = 0; s->temperature == 0 && i < sizeof drawing / sizeof *drawing; i++)
    if (hr__cli_value(cli, drawing[i]))
      return hr__fail(err, HR_USAGE, NULL, "add --temperature 1, or leave it out",
                      "--%s is for tokens that are drawn, and without --temperature the most likely one is taken",
                      drawing[i]);
  return HR_OK;
}

static hr_status stops_read(hr_generating *g, hr_error *err) {
  const char *text;
  g->stops = hr__arena_array(&g->cli->arena, g->cli->n_repeated + 1, sizeof *g->stops);
  if (!g->stops) return hr__nomem(err);
  for (size_t at = 0; (text = hr__cli_given(g->cli, "stop", &at));) {
    if (!*text) return hr__fail(err, HR_USAGE, "--stop", "write the text to stop at", "an empty text is everywhere");
    g->stops[g->n_stops++] = text;
  }
  return HR_OK;
}

/* Lines of --prompts are prompts; empty ones are none. */
static hr_status prompts_file_read(hr_generating *g, const char *path, size_t *capacity, hr_error *err) {
  char *text, *end;
  size_t bytes;
  HR_TRY(hr__file_read(path, PROMPTS_BYTES, &g->cli->arena, &text, &bytes, err));
  for (char *line = text; line < text + bytes; line = end + 1) {
    end = memchr(line, '\n', (size_t)(text + bytes - line));
    if (!end) end = text + bytes;
    size_t length = (size_t)(end - line);
    if (length > 0 && line[length - 1] == '\r') length--;
    if (length == 0) continue;
    if (memchr(line, 0, length))
      return hr__fail(err, HR_BAD_INPUT, path, "give a file of text, a prompt on each line", "a line holds a NUL byte");
    if (hr__arena_grow(&g->cli->arena, (void **)&g->texts, capacity, g->n_prompts, sizeof *g->texts) != 0)
      return hr__nomem(err);
    g->texts[g->n_prompts] = hr__arena_format(&g->cli->arena, "%.*s", (int)length, line);
    if (!g->texts[g->n_prompts++]) return hr__nomem(err);
  }
  if (g->n_prompts > 0) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, path, "write a prompt on each line", "there are no prompts in this file");
}

static hr_status prompts_read(hr_generating *g, hr_error *err) {
  const char *text, *file = hr__cli_value(g->cli, "prompts");
  size_t capacity = 0;
  if (file && hr__cli_flag(g->cli, "prompt"))
    return hr__fail(err, HR_USAGE, NULL, "give one of them", "--prompt and --prompts both name what to go on from");
  if (file) return prompts_file_read(g, file, &capacity, err);
  for (size_t at = 0; (text = hr__cli_given(g->cli, "prompt", &at));) {
    if (hr__arena_grow(&g->cli->arena, (void **)&g->texts, &capacity, g->n_prompts, sizeof *g->texts) != 0)
      return hr__nomem(err);
    g->texts[g->n_prompts++] = text;
  }
  if (g->n_prompts > 0 || hr__cli_flag(g->cli, "chat") || hr__cli_flag(g->cli, "plan")) return HR_OK;
  return hr__fail(err, HR_USAGE, NULL, "add --prompt TEXT, --prompts FILE, or --chat for a conversation",
                  "there is nothing to go on from");
}

/* --- prompts as tokens -------------------------------------------------------------------------------------------- */

static hr_status prompt_encode(hr_generating *g, const char *text, hr_error *err) {
  if (!hr__cli_flag(g->cli, "chat")) return hr__codec_encode(&g->codec, text, strlen(text), true, &g->ids, err);
  hr_doc_node messages = {.kind = HR_DOC_LIST};
  hr_arena arena;
  hr__arena_init(&arena);
  hr_status status = hr__generating_say(&messages, "user", text, &arena, err);
  if (status == HR_OK) status = hr__generating_turns(g, &messages, &arena, &g->ids, err);
  hr__arena_fini(&arena);
  return status;
}

/* Tokens that the model has no place for come of another model's tokenizer. */
static hr_status vocabulary_check(const hr_generating *g, hr_error *err) {
  int64_t vocabulary = hr__model_vocabulary(g->recipe);
  for (size_t i = 0; i < g->ids.count; i++)
    if (g->ids.items[i] >= vocabulary)
      return hr__fail(err, HR_BAD_INPUT, hr__tokenizer_file(g->codec.tokenizer),
                      "give the tokenizer that the model was made with: --set data.tokenizer=DIR",
                      "token %d is not one of the model's %" PRId64, (int)g->ids.items[i], vocabulary);
  return HR_OK;
}

static hr_status prompts_encode(hr_generating *g, hr_error *err) {
  g->prompts = hr__arena_array(&g->cli->arena, g->n_prompts + 1, sizeof *g->prompts);
  if (!g->prompts) return hr__nomem(err);
  for (size_t i = 0; i < g->n_prompts; i++) {
    size_t begin = g->ids.count;
    HR_TRY(prompt_encode(g, g->texts[i], err));
    g->prompts[i].count = (int64_t)(g->ids.count - begin);
  }
  const int32_t *at = g->ids.items;
  for (size_t i = 0; i < g->n_prompts; at += g->prompts[i++].count)
    g->prompts[i].ids = at;
  return vocabulary_check(g, err);
}

/* --- how large ---------------------------------------------------------------------------------------------------- */

/* A conversation gets what fits, prompts what they need. */
static hr_status size_choose(hr_generating *g, hr_generating_size *out, hr_error *err) {
  int64_t context, positions = hr__generation_positions(g->recipe), longest = 1;
  bool talks = g->n_prompts == 0;
  HR_TRY(hr__cli_int(g->cli, "max-context", 2, 0, &context, err));
  int64_t most = g->n_prompts > 1 ? (int64_t)g->n_prompts : 1, usual = most < 8 ? most : 8;
  HR_TRY(hr__cli_int(g->cli, "batch", 1, usual, &out->batch, err));
  if (out->batch > most) out->batch = most;
  for (size_t i = 0; i < g->n_prompts; i++)
    if (g->prompts[i].count > longest) longest = g->prompts[i].count;
  if (context == 0 && longest >= positions)
    return hr__fail(err, HR_BAD_INPUT, NULL, "shorten it",
                    "the longest prompt has %" PRId64 " tokens, but the model was made for %" PRId64
                    " positions, and an answer needs one at least",
                    longest, positions);
  out->exact = context > 0;
  out->least = longest + 1 < positions ? longest + 1 : positions;
  out->wanted = context > 0                                     ? context
                : talks || g->max_tokens >= positions - longest ? positions
                                                                : longest + g->max_tokens;
  if (out->wanted == INT64_MAX) out->wanted = 1 << 17;
  if (out->wanted < 2) out->wanted = 2;
  if (out->least < 2) out->least = 2;
  return HR_OK;
}

static void size_tell(const hr_generating *g, const hr_generating_size *size) {
  int64_t context = hr__recipe_int(g->job->recipe, "generation.context");
  char cache[HR_SIZE_TEXT];
  if (g->cli->quiet || g->cli->json) return;
  uint64_t bytes = g->job->plan->tiers[HR_TIER_DEVICE].categories[HR_CAT_CACHE];
  fprintf(stderr, "context: %" PRId64 " tokens", context);
  if (size->batch > 1) fprintf(stderr, " x %" PRId64 " sequences", size->batch);
  fprintf(stderr, ", %s of caches%s\n", hr__size_text(bytes, cache),
          context < size->wanted ? "; the largest that fits (--max-context)" : "");
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* One prompt's answer is shown as it comes, those of several one after the other, each when it and all before it have
 * ended. */
typedef struct showing {
  const hr_generating *g;
  const hr_answer *answers;
  size_t next;    /* that is shown now */
  size_t printed; /* bytes of it */
} showing;

static void answers_show(showing *s) {
  const hr_generating *g = s->g;
  while (s->next < g->n_prompts) {
    const hr_answer *a = &s->answers[s->next];
    if (g->n_prompts > 1 && a->end == HR_END_NONE) return;
    if (g->n_prompts > 1) {
      hr_style style = hr__cli_style(g->cli, stdout);
      printf("%s%s%s%s\n", s->next > 0 ? "\n" : "", style.bold, g->texts[s->next], style.end);
    }
    fwrite(a->text.data ? a->text.data + s->printed : "", 1, a->shown - s->printed, stdout);
    s->printed = a->shown;
    if (a->end != HR_END_NONE) {
      putchar('\n');
      s->next++;
      s->printed = 0;
    }
    fflush(stdout);
    if (a->end == HR_END_NONE) return;
  }
}

static void answer_heard(void *user, size_t number, const hr_answer *answer) {
  (void)number;
  (void)answer;
  answers_show(user);
}

static json_t *ids_json(const int32_t *ids, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < count; i++)
    if (json_array_append_new(list, json_integer(ids[i])) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

json_t *hr__generating_answer(const char *prompt, int64_t tokens, const hr_answer *a) {
  return json_pack("{s:o, s:I, s:o, s:o, s:s}", "prompt", hr__json_string(prompt), "prompt_tokens", (json_int_t)tokens,
                   "text", json_stringn(a->text.data ? a->text.data : "", a->shown), "ids",
                   ids_json(a->ids.items, a->ids.count), "end", hr_end_name(a->end));
}

static double rate(int64_t count, double seconds) {
  return seconds > 0 ? (double)count / seconds : 0;
}

json_t *hr__generating_answers(json_t *list, const hr_generator *generator, const hr_generate_times *t,
                               uint64_t planned, uint64_t measured) {
  return json_pack("{s:i, s:o, s:I, s:I, s:f, s:f, s:I, s:I}", "schema", 1, "answers", list, "context",
                   (json_int_t)hr__generator_context(generator), "batch", (json_int_t)hr__generator_batch(generator),
                   "prompt_tokens_per_second", rate(t->read_tokens, t->read_seconds), "tokens_per_second",
                   rate(t->written_tokens, t->write_seconds), "planned_bytes", (json_int_t)planned, "measured_bytes",
                   (json_int_t)measured);
}

static hr_status answers_json(const hr_generating *g, const hr_answer *answers, const hr_generate_times *t,
                              uint64_t measured, hr_error *err) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < g->n_prompts; i++)
    if (json_array_append_new(list, hr__generating_answer(g->texts[i], g->prompts[i].count, &answers[i])) != 0) {
      json_decref(list);
      list = NULL;
    }
  return hr__cli_put_json(
      hr__generating_answers(list, g->generator, t, hr__session_planned_bytes(&g->session), measured), err);
}

static hr_status answers_finish(const hr_generating *g, const hr_answer *answers, const hr_generate_times *t,
                                hr_error *err) {
  uint64_t measured = 0;
  HR_TRY(g->device->functions->process_bytes(g->device, &measured, err));
  if (g->cli->json) HR_TRY(answers_json(g, answers, t, measured, err));
  if (!g->cli->json && !g->cli->quiet && t->written_tokens > 0)
    fprintf(stderr, "\n%.1f tokens/s of prompts, %.1f tokens/s of answers\n", rate(t->read_tokens, t->read_seconds),
            rate(t->written_tokens, t->write_seconds));
  HR_TRY(hr__cli_flush(err));
  HR_TRY(hr__generating_interrupted(err));
  return hr__session_check_peak(&g->session, measured, err);
}

static hr_status prompts_answer(hr_generating *g, hr_error *err) {
  hr_answer *answers = hr__arena_array(&g->cli->arena, g->n_prompts, sizeof *answers);
  if (!answers) return hr__nomem(err);
  showing shown = {.g = g, .answers = answers};
  hr_generate_options options = {.rules = hr__generating_rules(g),
                                 .heard = g->cli->json ? NULL : answer_heard,
                                 .stopped = hr__generating_stopped,
                                 .user = &shown};
  hr_generate_times times = {0};
  hr_status status = hr__generate(g->generator, &g->codec, g->prompts, g->n_prompts, &options, answers, &times, err);
  if (status == HR_OK) status = answers_finish(g, answers, &times, err);
  for (size_t i = 0; i < g->n_prompts; i++)
    hr__answer_destroy(&answers[i]);
  return status;
}

/* Whether questions of data are asked instead of prompts. */
static hr_status asks_read(const hr_generating *g, bool *asks, hr_error *err) {
  static const char *const prompts[] = {"prompt", "prompts", "chat", "plan", "max-context"};
  const char *data = hr__cli_value(g->cli, "data");
  bool held = hr__cli_flag(g->cli, "held-out");
  const char *video = hr__cli_value(g->cli, "video");
  *asks = data || held || video;
  if ((data && held) || (video && (data || held)))
    return hr__fail(err, HR_USAGE, NULL, "give one of them", "%s and %s both name what to ask about",
                    data ? "--data" : "--video", held ? "--held-out" : "--video");
  for (size_t i = 0; *asks && i < sizeof prompts / sizeof *prompts; i++)
    if (hr__cli_flag(g->cli, prompts[i]))
      return hr__fail(err, HR_USAGE, NULL, "leave one of them out", "--%s does not go with questions of data",
                      prompts[i]);
  if (!*asks && hr__cli_flag(g->cli, "count"))
    return hr__fail(err, HR_USAGE, "--count", "add --data FOLDER or --held-out", "there are no questions to count");
  return HR_OK;
}

static hr_status generating_run(hr_generating *g, hr_error *err) {
  hr_generating_size size;
  bool asks;
  HR_TRY(sampling_read(g, err));
  HR_TRY(stops_read(g, err));
  HR_TRY(hr__cli_int(g->cli, "max-tokens", 1, TOKENS, &g->max_tokens, err));
  HR_TRY(asks_read(g, &asks, err));
  if (asks) return hr__generating_ask(g, err);
  HR_TRY(prompts_read(g, err));
  HR_TRY(hr__generating_settings(g, err));
  if (g->n_prompts > 0) HR_TRY(prompts_encode(g, err));
  HR_TRY(size_choose(g, &size, err));
  HR_TRY(hr__generating_plan(g, &size, err));
  if (hr__cli_flag(g->cli, "plan")) return hr__plan_show(g->cli, g->job, NULL, err);
  size_tell(g, &size);
  HR_TRY(hr__generating_load(g, err));
  return g->n_prompts > 0 ? prompts_answer(g, err) : hr__generating_chat(g, err);
}

static hr_status generate_run(hr_cli *cli, hr_error *err) {
  hr_generating *g = hr__alloc_zero(1, sizeof *g);
  if (!g) return hr__nomem(err);
  g->cli = cli;
  hr__signals_begin();
  hr_status status = generating_run(g, err);
  hr__signals_end();
  hr__generating_close(g);
  hr__free(g);
  return status;
}

static const hr_cli_option options[] = {
    {"prompt", "TEXT ..", "what to go on from; several times for several answers"},
    {"prompts", "FILE", "the same, one on each line"},
    {"chat", NULL, "by the model's chat template; without a prompt, a conversation"},
    {"data", "FOLDER", "asks a run's model all questions about this data"},
    {"held-out", NULL, "asks it those that it was not trained on"},
    {"video", "FILE", "asks it what it sees in a video, and when it triggers"},
    {"count", "N", "of these questions, the first N"},
    {"max-tokens", "N", "of an answer (default: 256)"},
    {"max-context", "N", "positions for prompt and answer; less takes less memory"},
    {"batch", "N", "prompts at a time (default: up to 8)"},
    {"temperature", "T", "draws tokens, the more freely the higher; 0: the likeliest"},
    {"top-k", "K", "draws among the K likeliest"},
    {"top-p", "P", "draws among the likeliest that make up P"},
    {"min-p", "P", "draws among those at least P times as likely as the first"},
    {"repetition-penalty", "X", "above 1: tokens that were there are less likely"},
    {"seed", "N", "of drawing: the same text again (default: 1)"},
    {"stop", "TEXT ..", "ends an answer, and is not shown"},
    {"plan", NULL, "shows what it would take, and stops"},
};

const hr_cli_command hr_cli_generate = {
    .name = "generate",
    .usage = "DIR",
    .summary = "continues prompts, or holds a conversation",
    .details = "DIR: a model, an adapter (its base is found), or a run; or a GGUF file.",
    .subject = "the folder of a model, of an adapter, or of a run, or a GGUF file",
    .examples = "generate test/model/configs/Llama-3.2-1B --plan --max-context 8192",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .min_arguments = 1,
    .max_arguments = 1,
    .run = generate_run,
};
