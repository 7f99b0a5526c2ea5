/* headroom generate RUN --data: questions about data, answered by the model of a run, with how good the answers are
 * where the data has them: all questions of --data, or with --held-out those of the run's own data that it was not
 * trained on. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cli/generate.h"
#include "cli/ran.h"
#include "data/answers.h"
#include "format/json.h"
#include "train/questions.h"
#include "train/signals.h"

typedef struct asking {
  hr_generating *g;
  hr_ran ran;
  hr_questions questions;
  void ***room; /* of each row of the generator */
  hr_prompt *prompts;
  hr_asked *asked;
  hr_answer *answers;
  hr_generate_times times;
  hr_answers scores;
  json_t *list; /* with --json */
  /* With --video: when each frame is shown (its field), and what says of each whether it triggers (session.points). */
  int timestamps;
  int64_t width; /* frames of a sample, at most; 0: nothing is said of frames */
} asking;

static hr_status asking_open(asking *a, hr_error *err) {
  hr_generating *g = a->g;
  hr_cli *cli = g->cli;
  int64_t batch;
  HR_TRY(hr__cli_int(cli, "batch", 1, 8, &batch, err));
  const char *video = hr__cli_value(cli, "video");
  const char *own[] = {"training.generation_every=1",
                       hr__arena_format(&cli->arena, "generation.batch=%" PRId64, batch),
                       hr__cli_flag(cli, "held-out") || video ? "training.eval_every=1"
                                                              : "data.sensors.unanswered=true",
                       hr__cli_flag(cli, "held-out") ? "data.video.uncaptioned=false" : "data.video.uncaptioned=true",
                       hr__arena_format(&cli->arena, "data.path=%s", video ? video : ""),
                       hr__arena_format(&cli->arena, "data.eval_path=%s", video ? video : "")};
  enum { OWN = sizeof own / sizeof *own, OF_VIDEO = 2 };
  if (!own[1] || !own[OWN - 1] || !own[OWN - OF_VIDEO]) return hr__nomem(err);
  HR_TRY(hr__ran_plan(&a->ran, own, video ? OWN : OWN - OF_VIDEO, err));
  HR_TRY(hr__ran_load(&a->ran, err));
  const hr_recipe *recipe = a->ran.job->recipe;
  if (!hr__data_asks(a->ran.session.data))
    return hr__fail(err, HR_USAGE, a->ran.run, "give --prompt TEXT, or a run such as that of recipes/000-small.yaml",
                    "the data of this run has no questions");
  a->questions = hr__questions_of(&a->ran.session);
  HR_TRY(hr__codec_open(recipe, &g->codec, err));
  HR_TRY(hr__ends_find(&g->codec, a->ran.folder, &g->ends, err));
  return hr__generator_create(a->ran.session.run, recipe, &g->sampling, &g->generator, err);
}

static hr_status room_make(asking *a, hr_error *err) {
  hr_arena *arena = &a->g->cli->arena;
  size_t rows = (size_t)hr__generator_batch(a->g->generator);
  a->room = hr__arena_array(arena, rows, sizeof *a->room);
  a->prompts = hr__arena_array(arena, rows, sizeof *a->prompts);
  a->asked = hr__arena_array(arena, rows, sizeof *a->asked);
  a->answers = hr__arena_array(arena, rows, sizeof *a->answers);
  if (!a->room || !a->prompts || !a->asked || !a->answers) return hr__nomem(err);
  for (size_t i = 0; i < rows; i++)
    if (!(a->room[i] = hr__question_room(&a->questions, arena))) return hr__nomem(err);
  if (a->g->cli->json && !(a->list = json_array())) return hr__nomem(err);
  return HR_OK;
}

static json_t *text_or_null(const char *text) {
  return text ? hr__json_string(text) : json_null();
}

/* Texts are anybody's: what would move the cursor is written out. */
static void answer_show(const asking *a, const hr_asked *asked, const char *words) {
  enum { SHOWN = 1024 };
  char question[SHOWN], answer[SHOWN], expected[SHOWN];
  hr_style style = hr__cli_style(a->g->cli, stdout);
  hr__text_escape(asked->question, strlen(asked->question), question, sizeof question);
  hr__text_escape(words, strlen(words), answer, sizeof answer);
  printf("%s%s%s\n%s", style.bold, question, style.end, answer);
  if (asked->expected && strcmp(words, asked->expected) == 0) {
    printf("   (as expected)");
  } else if (asked->expected) {
    hr__text_escape(asked->expected, strlen(asked->expected), expected, sizeof expected);
    printf("   (expected: %s)", expected);
  }
  printf("\n\n");
}

/* ---- when a video triggers ---- */

static hr_status frames_judge(asking *a, hr_error *err) {
  const hr_fields *fields = &a->questions.fields;
  a->timestamps = 0;
  while (a->timestamps < fields->count && strcmp(fields->list[a->timestamps].name, "timestamps") != 0)
    a->timestamps++;
  if (a->timestamps == fields->count)
    return hr__fail(err, HR_USAGE, a->ran.run, "use a run such as that of recipes/001-small.yaml",
                    "the model of this run sees no videos");
  return hr__session_points(&a->ran.session, &a->width, err);
}

/* Frames [*first, *last] of a sample that trigger, from *first on; false: no more do. */
static bool triggered(const asking *a, uint64_t number, int64_t frames, int64_t *first, int64_t *last) {
  const float *points = a->ran.session.points + number * (uint64_t)a->width;
  while (*first < frames && !(points[*first] > 0))
    ++*first;
  for (*last = *first; *last + 1 < frames && points[*last + 1] > 0;)
    ++*last;
  return *first < frames;
}

static void triggers_show(const asking *a, uint64_t number, size_t row) {
  const float *times = a->room[row][a->timestamps];
  int64_t frames = a->asked[row].patches;
  bool any = false;
  printf("from %.2f s to %.2f s: ", (double)times[0], (double)times[frames - 1]);
  for (int64_t first = 0, last; triggered(a, number, frames, &first, &last); first = last + 1, any = true)
    printf("%s%.2f s to %.2f s", any ? ", " : "triggers at ", (double)times[first], (double)times[last]);
  printf("%s\n", any ? "" : "does not trigger");
}

/* NULL: out of memory. */
static json_t *triggers_json(const asking *a, uint64_t number, size_t row) {
  const float *times = a->room[row][a->timestamps];
  json_t *list = json_array();
  for (int64_t first = 0, last; list && triggered(a, number, a->asked[row].patches, &first, &last); first = last + 1)
    if (json_array_append_new(list, json_pack("[f, f]", (double)times[first], (double)times[last])) != 0) {
      json_decref(list);
      list = NULL;
    }
  return list;
}

/* One answer: scored, then shown or added to the list. */
static hr_status answer_take(asking *a, uint64_t number, size_t row, hr_error *err) {
  const hr_asked *asked = &a->asked[row];
  const hr_answer *answer = &a->answers[row];
  hr_string text = {0};
  hr_answer_scores scores;
  hr_status status = hr__string_add(&text, answer->text.data ? answer->text.data : "", answer->shown, err);
  if (status == HR_OK) status = hr__string_add(&text, "", 1, err);
  if (status == HR_OK && asked->expected) {
    status = hr__answer_score(asked->expected, text.data, &scores, err);
    if (status == HR_OK) hr__answers_add(&a->scores, asked->type, &scores);
  }
  if (status == HR_OK && a->list) {
    json_t *one = hr__generating_answer(asked->question, asked->positions, answer);
    bool full = json_object_set_new(one, "expected", text_or_null(asked->expected)) != 0 ||
                json_object_set_new(one, "type", text_or_null(asked->type)) != 0 ||
                json_object_set_new(one, "subject", text_or_null(asked->subject)) != 0 ||
                (a->width > 0 && json_object_set_new(one, "triggers", triggers_json(a, number, row)) != 0);
    if (json_array_append_new(a->list, one) != 0 || full) status = hr__nomem(err);
  } else if (status == HR_OK) {
    if (a->width > 0) triggers_show(a, number, row);
    answer_show(a, asked, text.data + strspn(text.data, " "));
  }
  hr__string_fini(&text);
  return status;
}

/* Questions [first, first + count), as many as the generator has rows at most. */
static hr_status some_ask(asking *a, uint64_t first, size_t count, hr_error *err) {
  hr_generating *g = a->g;
  hr_generate_options options = {.rules = hr__generating_rules(g), .stopped = hr__generating_stopped};
  for (size_t i = 0; i < count; i++)
    HR_TRY(hr__question_take(&a->questions, first + i, a->room[i], &a->asked[i], &a->prompts[i], err));
  hr_status status = hr__generate(g->generator, &g->codec, a->prompts, count, &options, a->answers, &a->times, err);
  for (size_t i = 0; i < count && status == HR_OK && hr__signals_caught() == 0; i++)
    status = answer_take(a, first + i, i, err);
  for (size_t i = 0; i < count; i++)
    hr__answer_destroy(&a->answers[i]);
  return status == HR_OK ? hr__generating_interrupted(err) : status;
}

static void scores_show(const asking *a) {
  hr_answer_scores mean = hr__answers_mean(&a->scores);
  if (a->scores.count == 0) return;
  printf("%" PRIu64 " answers   exact %.3f   f1 %.3f   bleu %.3f   rouge_l %.3f\n", a->scores.count, mean.exact,
         mean.f1, mean.bleu, mean.rouge_l);
  for (int i = 0; i < a->scores.n_types; i++)
    printf("  %-40s exact %.3f of %" PRIu64 "\n", a->scores.of_type[i].type,
           (double)a->scores.of_type[i].exact / (double)a->scores.of_type[i].count, a->scores.of_type[i].count);
}

/* NULL: out of memory. */
static json_t *scores_json(const asking *a) {
  hr_answer_scores mean = hr__answers_mean(&a->scores);
  json_t *types = json_object();
  for (int i = 0; types && i < a->scores.n_types; i++)
    if (json_object_set_new(types, a->scores.of_type[i].type,
                            json_pack("{s:I, s:f}", "count", (json_int_t)a->scores.of_type[i].count, "exact",
                                      (double)a->scores.of_type[i].exact / (double)a->scores.of_type[i].count)) != 0) {
      json_decref(types);
      types = NULL;
    }
  return json_pack("{s:I, s:f, s:f, s:f, s:f, s:o}", "count", (json_int_t)a->scores.count, "exact", mean.exact, "f1",
                   mean.f1, "bleu", mean.bleu, "rouge_l", mean.rouge_l, "types", types);
}

static hr_status asking_finish(asking *a, hr_error *err) {
  uint64_t measured = 0;
  HR_TRY(a->ran.device->functions->process_bytes(a->ran.device, &measured, err));
  if (a->list) {
    json_t *all = hr__generating_answers(a->list, a->g->generator, &a->times,
                                         hr__session_planned_bytes(&a->ran.session), measured);
    a->list = NULL;
    if (json_object_set_new(all, "scores", scores_json(a)) != 0) {
      json_decref(all);
      return hr__nomem(err);
    }
    HR_TRY(hr__cli_put_json(all, err));
  } else {
    scores_show(a);
  }
  HR_TRY(hr__cli_flush(err));
  return hr__session_check_peak(&a->ran.session, measured, err);
}

static hr_status asking_run(asking *a, hr_error *err) {
  int64_t most;
  HR_TRY(hr__cli_int(a->g->cli, "count", 1, INT64_MAX, &most, err));
  HR_TRY(asking_open(a, err));
  HR_TRY(room_make(a, err));
  if (hr__cli_value(a->g->cli, "video")) HR_TRY(frames_judge(a, err));
  uint64_t rows = (uint64_t)hr__generator_batch(a->g->generator), count = a->questions.count;
  if (count > (uint64_t)most) count = (uint64_t)most;
  for (uint64_t first = 0; first < count; first += rows)
    HR_TRY(some_ask(a, first, (size_t)(count - first < rows ? count - first : rows), err));
  return asking_finish(a, err);
}

hr_status hr__generating_ask(hr_generating *g, hr_error *err) {
  asking a = {.g = g, .ran = {.cli = g->cli}};
  hr_status status = asking_run(&a, err);
  json_decref(a.list);
  hr__generator_destroy(g->generator); /* before the run that it reads */
  g->generator = NULL;
  hr__ran_close(&a.ran);
  return status;
}
