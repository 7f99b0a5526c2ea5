/* See generator.h. */
#include "generate/generator.h"

#include <string.h>

#include "base/half.h"
#include "base/mem.h"

/* A program with its batch in the slot that is fed, and its results. */
typedef struct driven {
  hr_id program;
  int64_t length;
  hr_id tokens, positions, counts, last; /* last: HR_NONE where the length is 1 */
  hr_id logits, best;
  struct {
    hr_id input;
    int number; /* of the field among the model's */
    size_t bytes;
  } more[HR_FIELDS]; /* of prompts that are samples: their fields beside tokens */
  int n_more;
} driven;

typedef struct row {
  uint64_t sequence;
  int64_t position; /* tokens in the caches */
  uint64_t *seen;   /* a bit for each token of the vocabulary; NULL: nobody asks */
} row;

struct hr_generator {
  hr_run *run;
  hr_generation shape;
  driven programs[HR_GENERATION_LENGTHS];
  hr_sampler sampler;
  size_t vocabulary;
  hr_dtype dtype; /* of logits */
  void *stored;   /* logits of a row as the program leaves them */
  float *logits;  /* the same as floats */
  row *rows;      /* per row of the batch */
  int64_t *fed;   /* per row: new tokens that are in the caches already */
  hr_arena arena;
};

/* What a program that reads samples takes of them. */
static void sample_find(hr_generator *g, const hr_recipe *recipe, int i) {
  driven *d = &g->programs[i];
  hr_model_part model = hr__model_whole(recipe);
  hr_field_shape shape = {.batch = g->shape.batch, .length = d->length};
  hr_fields own = hr__model_fields(&model, &shape), taken = hr__generation_fields(&model, &g->shape, i);
  for (int f = 0; f < taken.count; f++)
    for (int k = 0; k < own.count; k++) {
      if (strcmp(taken.list[f].name, own.list[k].name) != 0 || taken.list[f].purpose == HR_FOR_TOKENS) continue;
      d->more[d->n_more].input = hr__program_input(hr__run_graph(g->run), d->program, own.list[k].name);
      d->more[d->n_more].number = k;
      d->more[d->n_more++].bytes = hr__field_sample_bytes(&own.list[k]);
    }
}

static hr_status program_find(hr_generator *g, int i, hr_error *err) {
  const hr_graph *graph = hr__run_graph(g->run);
  driven *d = &g->programs[i];
  *d = (driven){.program = hr__graph_find_program(graph, hr__generation_program(&g->shape, i)),
                .length = g->shape.lengths[i]};
  bool there = d->program != HR_NONE;
  if (there) {
    d->tokens = hr__program_input(graph, d->program, "tokens");
    d->positions = hr__program_input(graph, d->program, HR_FIELD_POSITIONS);
    d->counts = hr__program_input(graph, d->program, HR_FIELD_COUNTS);
    d->last = hr__program_input(graph, d->program, HR_FIELD_LAST);
    d->logits = hr__program_output(graph, d->program, HR_OUTPUT_LOGITS);
    d->best = hr__program_output(graph, d->program, HR_OUTPUT_BEST);
    there = d->tokens != HR_NONE && d->positions != HR_NONE && d->counts != HR_NONE && d->logits != HR_NONE &&
            d->best != HR_NONE && (d->last != HR_NONE) == (d->length > 1);
  }
  return there ? HR_OK : hr__fail(err, HR_FAILURE, NULL, NULL, "the plan does not hold the programs that generate");
}

static hr_status room_take(hr_generator *g, const hr_sampling *sampling, hr_error *err) {
  const hr_desc *logits = &hr__run_graph(g->run)->values[g->programs[0].logits].desc;
  size_t batch = (size_t)g->shape.batch;
  g->vocabulary = (size_t)hr_desc_columns(logits);
  g->dtype = logits->dtype;
  g->rows = hr__arena_array(&g->arena, batch, sizeof *g->rows);
  g->fed = hr__arena_array(&g->arena, batch, sizeof *g->fed);
  if (!g->rows || !g->fed) return hr__nomem(err);
  for (size_t r = 0; r < batch && sampling->repetition_penalty != 1; r++) {
    g->rows[r].seen = hr__arena_array(&g->arena, (g->vocabulary + 63) / 64, sizeof *g->rows[r].seen);
    if (!g->rows[r].seen) return hr__nomem(err);
  }
  if (hr__sampling_is_plain(sampling)) return HR_OK;
  g->logits = hr__arena_array(&g->arena, g->vocabulary, sizeof *g->logits);
  g->stored = g->dtype == HR_F32 ? g->logits : hr__arena_array(&g->arena, g->vocabulary, sizeof(uint16_t));
  if (!g->logits || !g->stored) return hr__nomem(err);
  return hr__sampler_create(sampling, g->vocabulary, &g->sampler, err);
}

static hr_status generator_fill(hr_generator *g, const hr_recipe *recipe, const hr_sampling *sampling, hr_error *err) {
  HR_TRY(hr__generation_read(recipe, &g->shape, err));
  for (int i = 0; i < g->shape.n_lengths; i++) {
    HR_TRY(program_find(g, i, err));
    if (g->shape.asked && g->programs[i].length > 1) sample_find(g, recipe, i);
  }
  return room_take(g, sampling, err);
}

hr_status hr__generator_create(hr_run *run, const hr_recipe *recipe, const hr_sampling *sampling, hr_generator **out,
                               hr_error *err) {
  hr_generator *g = hr__alloc_zero(1, sizeof *g);
  if (!g) return hr__nomem(err);
  hr__arena_init(&g->arena);
  g->run = run;
  hr_status status = generator_fill(g, recipe, sampling, err);
  if (status != HR_OK) {
    hr__generator_destroy(g);
    return status;
  }
  *out = g;
  return HR_OK;
}

void hr__generator_destroy(hr_generator *g) {
  if (!g) return;
  hr__sampler_destroy(&g->sampler);
  hr__arena_fini(&g->arena);
  hr__free(g);
}

int64_t hr__generator_batch(const hr_generator *g) {
  return g->shape.batch;
}

int64_t hr__generator_context(const hr_generator *g) {
  return g->shape.context;
}

static void seen_note(row *r, const int32_t *ids, int64_t count) {
  for (int64_t i = 0; r->seen && i < count; i++)
    r->seen[ids[i] / 64] |= (uint64_t)1 << (ids[i] % 64);
}

int64_t hr__generator_keeps(const hr_generator *g, int64_t number, int64_t common) {
  int64_t here = g->rows[number].position; /* an answer may have been stopped before all of its prompt was fed */
  if (common > here) common = here;
  return g->shape.onward && common != here ? 0 : common;
}

void hr__generator_begin(hr_generator *g, int64_t number, uint64_t sequence, const int32_t *ids, int64_t kept) {
  row *r = &g->rows[number];
  r->sequence = sequence;
  r->position = kept;
  if (r->seen) memset(r->seen, 0, (g->vocabulary + 63) / 64 * sizeof *r->seen);
  seen_note(r, ids, kept);
}

/* The shortest program for what is left of the longest row, or the longest there is. */
static const driven *program_choose(const hr_generator *g, const hr_fed *rows) {
  int64_t longest = 0;
  for (int64_t r = 0; r < g->shape.batch; r++)
    if (rows[r].count - g->fed[r] > longest) longest = rows[r].count - g->fed[r];
  int i = 0;
  while (i + 1 < g->shape.n_lengths && g->programs[i].length < longest)
    i++;
  return longest > 0 ? &g->programs[i] : NULL;
}

static int64_t rows_of(const hr_fed *fed, int64_t done, int64_t length) {
  return fed->count - done < length ? fed->count - done : length;
}

/* A row that only goes on has no sample: with zeros its one new token is read as itself. */
static void samples_write(hr_generator *g, const driven *d, const hr_fed *rows) {
  for (int f = 0; f < d->n_more; f++) {
    if (d->more[f].input == HR_NONE) continue;
    char *to = hr__run_fed(g->run, d->more[f].input);
    size_t bytes = d->more[f].bytes;
    for (int64_t r = 0; r < g->shape.batch; r++, to += bytes)
      if (rows[r].sample)
        memcpy(to, rows[r].sample[d->more[f].number], bytes);
      else
        memset(to, 0, bytes);
  }
}

static void batch_write(hr_generator *g, const driven *d, const hr_fed *rows) {
  int32_t *tokens = hr__run_fed(g->run, d->tokens), *positions = hr__run_fed(g->run, d->positions);
  int32_t *counts = hr__run_fed(g->run, d->counts), *last = d->last == HR_NONE ? NULL : hr__run_fed(g->run, d->last);
  for (int64_t r = 0; r < g->shape.batch; r++) {
    int64_t count = rows_of(&rows[r], g->fed[r], d->length);
    positions[r] = (int32_t)g->rows[r].position;
    counts[r] = (int32_t)count;
    if (last) last[r] = count > 0 ? (int32_t)count - 1 : 0;
    for (int64_t t = 0; t < d->length; t++)
      tokens[r * d->length + t] = t < count ? rows[r].ids[g->fed[r] + t] : 0;
  }
}

static hr_status token_pick(hr_generator *g, const driven *d, int64_t number, int32_t *next, hr_error *err) {
  const row *r = &g->rows[number];
  if (!g->logits) return hr__run_read(g->run, d->best, (size_t)number * sizeof *next, next, sizeof *next, err);
  size_t bytes = g->vocabulary * hr_dtype_bytes(g->dtype);
  HR_TRY(hr__run_read(g->run, d->logits, (size_t)number * bytes, g->stored, bytes, err));
  const uint16_t *narrow = g->stored;
  for (size_t i = 0; g->dtype != HR_F32 && i < g->vocabulary; i++)
    g->logits[i] = g->dtype == HR_BF16 ? hr__bf16_to_f32(narrow[i]) : hr__f16_to_f32(narrow[i]);
  *next = hr__sampler_pick(&g->sampler, g->logits, r->seen, r->sequence, (uint64_t)r->position);
  return HR_OK;
}

/* One run of a program: what it takes of each row, and the next token of those it has come to the end of. */
static hr_status program_feed(hr_generator *g, const driven *d, hr_fed *rows, hr_error *err) {
  batch_write(g, d, rows);
  samples_write(g, d, rows);
  HR_TRY(hr__run_begin(g->run, d->program, err));
  for (int64_t r = 0; r < g->shape.batch; r++) {
    int64_t count = rows_of(&rows[r], g->fed[r], d->length);
    if (count == 0) continue;
    seen_note(&g->rows[r], rows[r].ids + g->fed[r], count);
    g->fed[r] += count;
    g->rows[r].position += count;
    if (g->fed[r] == rows[r].count) HR_TRY(token_pick(g, d, r, &rows[r].next, err));
  }
  return hr__run_end(g->run, err);
}

hr_status hr__generator_feed(hr_generator *g, hr_fed *rows, hr_error *err) {
  const driven *d;
  for (int64_t r = 0; r < g->shape.batch; r++) {
    g->fed[r] = 0;
    if (rows[r].count > g->shape.context - g->rows[r].position)
      return hr__fail(err, HR_FAILURE, NULL, "raise --max-context",
                      "a sequence of %lld tokens is longer than the context of %lld",
                      (long long)(g->rows[r].position + rows[r].count), (long long)g->shape.context);
  }
  while ((d = program_choose(g, rows)))
    HR_TRY(program_feed(g, d, rows, err));
  return HR_OK;
}
