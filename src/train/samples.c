/* See samples.h. */
#include "train/samples.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "data/answers.h"
#include "data/picture.h"
#include "format/file.h"
#include "generate/ends.h"
#include "train/log_lines.h"
#include "train/questions.h"

static hr_status prompts_encode(hr_samples *s, hr_error *err) {
  s->prompts = hr__arena_array(&s->arena, s->count, sizeof *s->prompts);
  s->answers = hr__arena_array(&s->arena, s->count, sizeof *s->answers);
  if (!s->prompts || !s->answers) return hr__nomem(err);
  for (size_t i = 0; i < s->count; i++) {
    size_t begin = s->ids.count;
    HR_TRY(hr__codec_encode(&s->codec, s->texts[i], strlen(s->texts[i]), true, &s->ids, err));
    s->prompts[i].count = (int64_t)(s->ids.count - begin);
  }
  const int32_t *at = s->ids.items;
  for (size_t i = 0; i < s->count; at += s->prompts[i++].count)
    s->prompts[i].ids = at;
  return HR_OK;
}

/* Prompts that cannot be continued are told before the first step. */
static hr_status prompts_check(const hr_samples *s, const hr_recipe *recipe, hr_error *err) {
  static const char key[] = "training.generation_prompts";
  int64_t context = hr__generator_context(s->generator), vocabulary = hr__model_vocabulary(recipe);
  for (size_t i = 0; i < s->count; i++) {
    if (s->prompts[i].count == 0)
      return hr__recipe_fail(recipe, key, "write something to go on from", err, "prompt %zu is empty", i + 1);
    if (s->prompts[i].count >= context)
      return hr__recipe_fail(recipe, key, "shorten it, or raise generation.context", err,
                             "prompt %zu has %" PRId64 " tokens, which leaves no room in a context of %" PRId64, i + 1,
                             s->prompts[i].count, context);
  }
  for (size_t i = 0; i < s->ids.count; i++)
    if (s->ids.items[i] >= vocabulary)
      return hr__recipe_fail(recipe, key, "give the tokenizer that the model was made with: data.tokenizer", err,
                             "token %d is not one of the model's %" PRId64, (int)s->ids.items[i], vocabulary);
  return HR_OK;
}

/* The first questions, with the fields of each. */
static hr_status questions_take(const hr_session *session, hr_samples *s, hr_error *err) {
  hr_questions questions = hr__questions_of(session);
  s->count = (size_t)hr__generator_batch(s->generator);
  if (s->count > questions.count) s->count = (size_t)questions.count;
  const char **texts = hr__arena_array(&s->arena, s->count + 1, sizeof *texts);
  s->asked = hr__arena_array(&s->arena, s->count + 1, sizeof *s->asked);
  s->prompts = hr__arena_array(&s->arena, s->count + 1, sizeof *s->prompts);
  s->answers = hr__arena_array(&s->arena, s->count + 1, sizeof *s->answers);
  if (!texts || !s->asked || !s->prompts || !s->answers) return hr__nomem(err);
  s->patches_field = questions.patches;
  s->points = questions.points;
  for (size_t i = 0; i < s->count; i++) {
    void **at = hr__question_room(&questions, &s->arena);
    if (!at) return hr__nomem(err);
    HR_TRY(hr__question_take(&questions, i, at, &s->asked[i], &s->prompts[i], err));
    texts[i] = s->asked[i].question;
  }
  s->texts = texts;
  return HR_OK;
}

static hr_status samples_fill(const hr_session *session, hr_samples *s, hr_error *err) {
  const hr_recipe *recipe = session->options->recipe;
  s->every = hr__recipe_int(recipe, "training.generation_every");
  s->tokens = hr__recipe_int(recipe, "training.generation_tokens");
  HR_TRY(hr__codec_open(recipe, &s->codec, err));
  HR_TRY(hr__ends_find(&s->codec, hr__recipe_has(recipe, "model.path") ? hr__recipe_text(recipe, "model.path") : NULL,
                       &s->ends, err));
  HR_TRY(hr__generator_create(session->run, recipe, &HR_GREEDY, &s->generator, err));
  if (hr__data_asks(session->data)) return questions_take(session, s, err);
  if (!hr__recipe_has(recipe, "training.generation_prompts"))
    return hr__recipe_fail(recipe, "training.generation_every", "leave it out, or choose a source of questions", err,
                           "there are no questions in this data to ask the model");
  s->texts = hr__recipe_texts(recipe, "training.generation_prompts", &s->count);
  HR_TRY(prompts_encode(s, err));
  return prompts_check(s, recipe, err);
}

hr_status hr__samples_open(const hr_session *session, hr_samples *out, hr_error *err) {
  *out = (hr_samples){0};
  hr__arena_init(&out->arena);
  if (!hr__recipe_has(session->options->recipe, "training.generation_every")) return HR_OK;
  hr_status status = samples_fill(session, out, err);
  if (status != HR_OK) hr__samples_close(out);
  return status;
}

void hr__samples_close(hr_samples *s) {
  hr__generator_destroy(s->generator);
  hr__codec_close(&s->codec);
  hr__ids_fini(&s->ids);
  hr__ids_fini(&s->ends);
  hr__arena_fini(&s->arena);
  *s = (hr_samples){0};
}

/* On one line: texts are anybody's. */
static void sample_tell(const hr_samples *s, size_t i, int64_t step, const hr_store *store) {
  enum { SHOWN = 512 };
  char prompt[SHOWN], text[SHOWN];
  const hr_answer *a = &s->answers[i];
  hr__text_escape(s->texts[i], strlen(s->texts[i]), prompt, sizeof prompt);
  hr__text_escape(a->text.data ? a->text.data : "", a->shown, text, sizeof text);
  if (s->asked && s->asked[i].expected)
    hr__store_tell(store, HR_MESSAGE_INFO, "step %" PRId64 ": %s | %s (expected: %s)", step, prompt, text,
                   s->asked[i].expected);
  else
    hr__store_tell(store, HR_MESSAGE_INFO, "step %" PRId64 ": %s|%s", step, prompt, text);
}

/* OUT/answers/step-00000200-1.svg, of the first few. */
static hr_status pictures_draw(const hr_samples *s, int64_t step, const hr_store *store, hr_error *err) {
  enum { PICTURES = 8 };
  char path[HR_STORE_PATH + 64];
  snprintf(path, sizeof path, "%s/answers", store->out);
  HR_TRY(hr__file_make_folders(path, err));
  hr_status status = HR_OK;
  for (size_t i = 0; i < s->count && i < PICTURES && status == HR_OK; i++) {
    hr_string answer = {0}, drawn = {0};
    status = hr__string_add(&answer, s->answers[i].text.data, s->answers[i].shown, err);
    if (status == HR_OK) status = hr__string_add(&answer, "", 1, err);
    hr_picture picture = {.asked = &s->asked[i],
                          .answer = answer.data,
                          .patches = s->prompts[i].sample[s->patches_field],
                          .points = s->points};
    if (status == HR_OK) status = hr__picture(&picture, &drawn, err);
    snprintf(path, sizeof path, "%s/answers/step-%08" PRId64 "-%zu.svg", store->out, step, i + 1);
    if (status == HR_OK) status = hr__file_replace(path, drawn.data, drawn.count, err);
    hr__string_fini(&answer);
    hr__string_fini(&drawn);
  }
  return status;
}

/* What was expected, and how good the answer is beside it; false: out of memory. */
static bool expectation_add(json_t *one, const char *expected, const hr_answer *answer) {
  hr_string got = {0};
  hr_answer_scores scores;
  hr_error err;
  hr_status status = hr__string_add(&got, answer->text.data ? answer->text.data : "", answer->shown, &err);
  if (status == HR_OK) status = hr__string_add(&got, "", 1, &err);
  if (status == HR_OK) status = hr__answer_score(expected, got.data, &scores, &err);
  hr__string_fini(&got);
  if (status != HR_OK || json_object_set_new(one, "expected", json_string(expected)) != 0) return false;
  return json_object_set_new(one, "scores",
                             json_pack("{s:f, s:f, s:f, s:f}", "exact", scores.exact, "f1", scores.f1, "bleu",
                                       scores.bleu, "rouge_l", scores.rouge_l)) == 0;
}

static hr_status samples_log(const hr_samples *s, int64_t step, double seconds, hr_log *log, hr_error *err) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < s->count; i++) {
    const hr_answer *a = &s->answers[i];
    json_t *one = json_pack("{s:s, s:o, s:s}", "prompt", s->texts[i], "text",
                            json_stringn(a->text.data ? a->text.data : "", a->shown), "end", hr_end_name(a->end));
    if (one && s->asked && s->asked[i].expected && !expectation_add(one, s->asked[i].expected, a)) {
      json_decref(one);
      one = NULL;
    }
    if (json_array_append_new(list, one) != 0) {
      json_decref(list);
      list = NULL;
    }
  }
  hr_status status = list ? hr__log_samples(log, step, list, seconds, err) : hr__nomem(err);
  json_decref(list);
  return status;
}

hr_status hr__samples_make(hr_samples *s, int64_t step, const hr_store *store, hr_log *log, bool (*stopped)(void *user),
                           hr_error *err) {
  double begin = hr__seconds_now();
  hr_generate_times times = {0};
  hr_generate_options options = {.rules = {.ends = s->ends.items, .n_ends = s->ends.count, .tokens = s->tokens},
                                 .stopped = stopped};
  hr_status status = hr__generate(s->generator, &s->codec, s->prompts, s->count, &options, s->answers, &times, err);
  for (size_t i = 0; status == HR_OK && i < s->count; i++)
    sample_tell(s, i, step, store);
  if (status == HR_OK && s->asked && s->points > 0) status = pictures_draw(s, step, store, err);
  if (status == HR_OK) status = samples_log(s, step, hr__seconds_now() - begin, log, err);
  for (size_t i = 0; i < s->count; i++)
    hr__answer_destroy(&s->answers[i]);
  return status;
}
