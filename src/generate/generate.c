/* See generate.h. */
#include "generate/generate.h"

#include "base/clock.h"
#include "base/mem.h"

typedef struct generating {
  hr_generator *generator;
  const hr_prompt *prompts;
  size_t count, begun; /* prompts, and how many of them have a row or had one */
  const hr_generate_options *options;
  hr_answer *answers;
  hr_generate_times *times;
  hr_fed *rows;    /* per row of the batch */
  size_t *number;  /* per row: its prompt */
  int32_t *latest; /* per row: its newest token, which is fed next */
} generating;

static hr_status prompts_check(const hr_generator *generator, const hr_prompt *prompts, size_t count, hr_error *err) {
  int64_t context = hr__generator_context(generator);
  for (size_t i = 0; i < count; i++) {
    if (prompts[i].count == 0)
      return hr__fail(err, HR_BAD_INPUT, NULL, "write something for the model to go on from", "prompt %zu is empty",
                      i + 1);
    if (prompts[i].count >= context)
      return hr__fail(err, HR_BAD_INPUT, NULL, "shorten it, or raise --max-context",
                      "prompt %zu has %lld tokens, which leaves no room in a context of %lld", i + 1,
                      (long long)prompts[i].count, (long long)context);
  }
  return HR_OK;
}

/* Rows without a sequence take the next prompts. */
static void rows_fill(generating *g) {
  for (int64_t r = 0; r < hr__generator_batch(g->generator) && g->begun < g->count; r++) {
    if (g->rows[r].count > 0) continue;
    const hr_prompt *prompt = &g->prompts[g->begun];
    hr__generator_begin(g->generator, r, g->begun, prompt->ids, prompt->kept);
    g->rows[r] =
        (hr_fed){.ids = prompt->ids + prompt->kept, .count = prompt->count - prompt->kept, .sample = prompt->sample};
    g->number[r] = g->begun++;
  }
}

/* The token that a row got: its answer goes on or ends. */
static hr_status row_take(generating *g, int64_t r, bool *reads, hr_error *err) {
  hr_fed *row = &g->rows[r];
  if (row->count == 0) return HR_OK;
  hr_answer *answer = &g->answers[g->number[r]];
  const hr_prompt *prompt = &g->prompts[g->number[r]];
  bool first = answer->ids.count == 0;
  *reads |= first;
  *(first ? &g->times->read_tokens : &g->times->written_tokens) += row->count;
  HR_TRY(hr__answer_put(answer, row->next, err));
  int64_t length = prompt->count + (int64_t)answer->ids.count;
  if (answer->end == HR_END_NONE && length >= hr__generator_context(g->generator))
    HR_TRY(hr__answer_end(answer, HR_END_CONTEXT, err));
  if (g->options->heard) g->options->heard(g->options->user, g->number[r], answer);
  g->latest[r] = row->next;
  *row = (hr_fed){.ids = &g->latest[r], .count = answer->end == HR_END_NONE};
  return HR_OK;
}

static bool any_left(const generating *g) {
  for (int64_t r = 0; r < hr__generator_batch(g->generator); r++)
    if (g->rows[r].count > 0) return true;
  return false;
}

static hr_status prompts_run(generating *g, hr_error *err) {
  for (rows_fill(g); any_left(g); rows_fill(g)) {
    double begin = hr__seconds_now();
    bool reads = false;
    if (g->options->stopped && g->options->stopped(g->options->user)) return HR_OK;
    HR_TRY(hr__generator_feed(g->generator, g->rows, err));
    double seconds = hr__seconds_now() - begin;
    for (int64_t r = 0; r < hr__generator_batch(g->generator); r++)
      HR_TRY(row_take(g, r, &reads, err));
    *(reads ? &g->times->read_seconds : &g->times->write_seconds) += seconds;
  }
  return HR_OK;
}

hr_status hr__generate(hr_generator *generator, const hr_codec *codec, const hr_prompt *prompts, size_t count,
                       const hr_generate_options *options, hr_answer *answers, hr_generate_times *times,
                       hr_error *err) {
  size_t batch = (size_t)hr__generator_batch(generator);
  for (size_t i = 0; i < count; i++)
    answers[i] = (hr_answer){0};
  HR_TRY(prompts_check(generator, prompts, count, err));
  for (size_t i = 0; i < count; i++)
    HR_TRY(hr__answer_begin(codec, &options->rules, &answers[i], err));
  generating g = {.generator = generator,
                  .prompts = prompts,
                  .count = count,
                  .options = options,
                  .answers = answers,
                  .times = times,
                  .rows = hr__alloc_zero(batch, sizeof *g.rows),
                  .number = hr__alloc_zero(batch, sizeof *g.number),
                  .latest = hr__alloc_zero(batch, sizeof *g.latest)};
  hr_status status = g.rows && g.number && g.latest ? prompts_run(&g, err) : hr__nomem(err);
  hr__free(g.rows);
  hr__free(g.number);
  hr__free(g.latest);
  return status;
}
