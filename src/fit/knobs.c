/* knobs: see knobs.h. */
#include "fit/knobs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fit/coupling.h"
#include "fit/sites.h"
#include "model/generation.h"

#define BATCH        "training.batch_size"
#define ACCUMULATION "training.gradient_accumulation"
#define EFFECTIVE    "training.effective_batch"
#define LENGTH       "data.sequence_length"
#define LONGEST      "model.config.max_position_embeddings"
#define KIND         "training.optimizer.kind"
#define SPLIT        "memory.split"
#define NEGATIVES    "data.taxonomy.n_negatives"
#define FRAMES       "data.max_frames"
#define BUCKETS      "data.buckets"
#define CAPTION      "data.video.caption_length"
#define RANK         "adapters.rank" /* of the model, or of a part */

enum { CHOICES = 64, LENGTH_LEAST = 128, LENGTH_MOST = 8192, BATCH_MOST = 512 };

typedef struct finding {
  const hr_recipe *recipe;
  bool all;
  hr_arena *arena;
  hr_knob *knobs;
  size_t count, capacity;
  hr_error *err;
} finding;

/* --- what changes results ----------------------------------------------------------------------------------------- */

static const char *kind_plain(const char *kind) {
  return strncmp(kind, "paged_", 6) == 0 ? kind + 6 : kind;
}

static bool choice_changes(const finding *f, const hr_knob *knob, size_t k) {
  const hr_technique_key *technique = hr__technique_find(knob->path);
  if (technique ? !(technique->flags & HR_TECHNIQUE_CHANGES_RESULTS) : strncmp(knob->path, "memory.", 7) == 0)
    return false;
  if (strcmp(knob->choices[k], knob->choices[0]) == 0) return false;
  if (strcmp(knob->path, KIND) == 0) return strcmp(kind_plain(knob->choices[k]), kind_plain(knob->choices[0])) != 0;
  bool samples = strcmp(knob->path, BATCH) == 0 || strcmp(knob->path, ACCUMULATION) == 0;
  return !samples || !hr__recipe_has(f->recipe, EFFECTIVE);
}

/* --- what quality is worth ---------------------------------------------------------------------------------------- */

static double choice_number(const char *choice) {
  return strtod(choice, NULL); /* a word or null: 0, the least */
}

static hr_status quality_rank(finding *f, hr_knob *knob) {
  const hr_key *key = hr__recipe_key(f->recipe, knob->path);
  if (!key || !key->quality) return HR_OK;
  size_t *larger = hr__arena_array(f->arena, knob->n_choices, sizeof *larger);
  if (!larger) return hr__nomem(f->err);
  for (size_t k = 0; k < knob->n_choices; k++)
    for (size_t i = 0; i < knob->n_choices; i++)
      larger[k] += choice_number(knob->choices[i]) > choice_number(knob->choices[k]);
  knob->quality = larger;
  return HR_OK;
}

static hr_status knob_add(finding *f, hr_knob knob) {
  if (hr__arena_grow(f->arena, (void **)&f->knobs, &f->capacity, f->count, sizeof *f->knobs) != 0)
    return hr__nomem(f->err);
  bool *changes = hr__arena_array(f->arena, knob.n_choices, sizeof *changes);
  if (!changes) return hr__nomem(f->err);
  for (size_t k = 0; k < knob.n_choices; k++) {
    changes[k] = choice_changes(f, &knob, k);
    knob.changes_results |= changes[k];
  }
  knob.changes = changes;
  HR_TRY(quality_rank(f, &knob));
  f->knobs[f->count++] = knob;
  return HR_OK;
}

/* --- choices of auto ---------------------------------------------------------------------------------------------- */

static hr_status words_add(finding *f, const char *path, bool by_hand, const char *const *words, size_t count) {
  return knob_add(f, (hr_knob){.path = path, .choices = words, .n_choices = count, .by_hand = by_hand});
}

static hr_status numbers_add(finding *f, const char *path, bool by_hand, const int64_t *numbers, size_t count) {
  const char **texts = hr__arena_array(f->arena, count, sizeof *texts);
  if (!texts) return hr__nomem(f->err);
  for (size_t i = 0; i < count; i++)
    if (!(texts[i] = hr__arena_format(f->arena, "%" PRId64, numbers[i]))) return hr__nomem(f->err);
  return words_add(f, path, by_hand, texts, count);
}

/* The knob of a key that was opened before; NULL: it is not. */
static const hr_knob *listed(const finding *f, const char *path) {
  for (size_t i = 0; i < f->count; i++)
    if (strcmp(f->knobs[i].path, path) == 0) return &f->knobs[i];
  return NULL;
}

/* All divisors of the effective batch, largest first: of equal seconds the one with fewer micro-batches. They come in
 * pairs, the smaller one of each at most the root. */
static hr_status divisors_add(finding *f, int64_t effective, bool by_hand) {
  size_t small = 0, count = 0;
  for (int64_t d = 1; d * d <= effective; d++)
    small += effective % d == 0;
  int64_t *numbers = hr__arena_array(f->arena, 2 * small, sizeof *numbers);
  if (!numbers) return hr__nomem(f->err);
  for (int64_t d = 1; d * d <= effective; d++)
    if (effective % d == 0) numbers[count++] = effective / d;
  for (size_t i = small; i-- > 0;) {
    int64_t d = effective / numbers[i];
    if (d != numbers[i]) numbers[count++] = d;
  }
  return numbers_add(f, BATCH, by_hand, numbers, count);
}

static hr_status batch_add(finding *f, const char *path, bool by_hand) {
  (void)path;
  if (hr__recipe_has(f->recipe, EFFECTIVE)) return divisors_add(f, hr__recipe_int(f->recipe, EFFECTIVE), by_hand);
  int64_t numbers[CHOICES];
  size_t count = 0;
  for (int64_t batch = 1; batch <= BATCH_MOST; batch *= 2)
    numbers[count++] = batch;
  return numbers_add(f, BATCH, by_hand, numbers, count);
}

/* Follows from the others: without a value of its own it is what effective_batch leaves. */
static hr_status accumulation_add(finding *f, const char *path, bool by_hand) {
  (void)path;
  static const char *const none[] = {"null"};
  if (hr__recipe_has(f->recipe, EFFECTIVE)) return words_add(f, ACCUMULATION, by_hand, none, 1);
  return hr__recipe_fail(f->recipe, ACCUMULATION, "add training.effective_batch, or write a number", f->err,
                         "gradient_accumulation: auto has a meaning only beside training.effective_batch");
}

static hr_status length_add(finding *f, const char *path, bool by_hand) {
  int64_t numbers[CHOICES], longest = LENGTH_MOST;
  size_t count = 0;
  if (hr__recipe_has(f->recipe, LONGEST) && hr__recipe_int(f->recipe, LONGEST) < longest)
    longest = hr__recipe_int(f->recipe, LONGEST);
  int64_t length = LENGTH_LEAST;
  while (2 * length <= longest)
    length *= 2;
  for (; length >= LENGTH_LEAST && length <= longest; length /= 2)
    numbers[count++] = length;
  if (count == 0) numbers[count++] = longest;
  return numbers_add(f, path, by_hand, numbers, count);
}

/* As many frames as there is room for beside a caption, where the length is open: up to the one that is written, or the
 * longest of the model, in steps of the same ratio. */
static hr_status frames_lengths(finding *f, bool by_hand) {
  bool open = hr__recipe_word_is(f->recipe, LENGTH, "auto");
  int64_t least = hr__recipe_int(f->recipe, CAPTION) + 1, longest = hr__generation_positions(f->recipe);
  int64_t most = !open ? hr__recipe_int(f->recipe, LENGTH) : longest < LENGTH_MOST ? longest : LENGTH_MOST;
  int64_t numbers[CHOICES];
  size_t count = 0;
  double ratio = pow((double)least / (double)most, 1.0 / (CHOICES - 1));
  for (int k = 0; k < CHOICES && most > least; k++) {
    int64_t number = (int64_t)((double)most * pow(ratio, k));
    if (number >= least && (count == 0 || number < numbers[count - 1])) numbers[count++] = number;
  }
  if (count == 0) numbers[count++] = most; /* it says itself why it is too short */
  return numbers_add(f, LENGTH, by_hand, numbers, count);
}

/* It follows from the length, which is opened in its place unless a list has opened it. */
static hr_status frames_add(finding *f, const char *path, bool by_hand) {
  static const char *const none[] = {"null"};
  if (listed(f, path))
    return hr__recipe_fail(f->recipe, path, "write auto, or a list without it", f->err,
                           "%s: auto, as many as fit, cannot be one of several choices", path);
  if (hr__recipe_has(f->recipe, BUCKETS))
    return hr__recipe_fail(f->recipe, path, "write a number, or leave " BUCKETS " out", f->err,
                           "%s: auto lowers " LENGTH ", which the last of " BUCKETS " has to be", path);
  HR_TRY(words_add(f, path, by_hand, none, 1));
  return listed(f, LENGTH) ? HR_OK : frames_lengths(f, by_hand);
}

/* Powers of two and their halves more, the largest first. */
static hr_status negatives_add(finding *f, const char *path, bool by_hand) {
  static const int64_t numbers[] = {256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1};
  return numbers_add(f, path, by_hand, numbers, sizeof numbers / sizeof *numbers);
}

/* How many rows of an axis that it has named (frames) a model has: blocks may be cut there whatever the batch is. What
 * cannot be built has its own error later. */
static int64_t rows_named(const finding *f) {
  hr_graph *graph;
  int64_t rows = 0;
  if (hr__compile(f->recipe, NULL, "model", &graph, NULL) != HR_OK) return 0;
  for (size_t v = 0; v < graph->n_values; v++) {
    const hr_value *value = &graph->values[v];
    if (value->row_axis > 0 && value->desc.dim[value->row_axis] > rows) rows = value->desc.dim[value->row_axis];
  }
  hr__graph_destroy(graph);
  return rows;
}

/* As many slices as the largest batch has samples, up to 128: every one has nodes of its own, and each doubling saves
 * half as much as the one before. By rows up to 16: each reads rows around its own as well. A setting with fewer
 * samples refuses those it cannot have. */
static hr_status split_add(finding *f, bool by_hand) {
  enum { DOUBLINGS = 7, BY_ROW_MOST = 16 };
  int64_t samples = 1, rows = rows_named(f);
  if (rows > BY_ROW_MOST) rows = BY_ROW_MOST;
  for (size_t i = 0; i < f->count; i++)
    for (size_t k = 0; strcmp(f->knobs[i].path, BATCH) == 0 && k < f->knobs[i].n_choices; k++) {
      int64_t batch = 0;
      if (sscanf(f->knobs[i].choices[k], "%" SCNd64, &batch) == 1 && batch > samples) samples = batch;
    }
  if (!hr__recipe_word_is(f->recipe, BATCH, "auto") && hr__recipe_int(f->recipe, BATCH) > samples)
    samples = hr__recipe_int(f->recipe, BATCH);
  int64_t most = samples > rows ? samples : rows;
  size_t count = 1;
  while (((int64_t)1 << (count - 1)) < most && count <= DOUBLINGS)
    count++;
  const char **words = hr__arena_array(f->arena, count, sizeof *words);
  if (!words) return hr__nomem(f->err);
  for (size_t i = 0; i < count; i++)
    words[i] = "auto";
  return knob_add(f, (hr_knob){.path = SPLIT,
                               .choices = words,
                               .n_choices = count,
                               .by_hand = by_hand,
                               .slices = true,
                               .slices_by_row = rows});
}

static hr_status rank_add(finding *f, const char *path, bool by_hand) {
  static const int64_t ranks[] = {8, 16, 32, 64};
  return numbers_add(f, path, by_hand, ranks, sizeof ranks / sizeof *ranks);
}

/* --- choices of techniques ---------------------------------------------------------------------------------------- */

/* Of moments that are paged the place is open anyway where memory.offload.optimizer is. */
static bool word_is_offered(const finding *f, const char *word) {
  static const char place[] = "memory.offload.optimizer";
  bool open = hr__recipe_word_is(f->recipe, place, "auto") || (f->all && !hr__recipe_given(f->recipe, place));
  return kind_plain(word) == word || !open;
}

/* Its words, the recipe's own first. */
static hr_status technique_words(finding *f, const hr_technique_key *technique, const char *path, bool by_hand) {
  const char *choices[CHOICES];
  size_t count = 0;
  for (int own = 1; own >= 0; own--) {
    char word[HR_TECHNIQUE_WORD];
    for (const char *at = technique->words; hr__technique_next(&at, word);) {
      if (hr__recipe_word_is(f->recipe, path, word) != own || !word_is_offered(f, word)) continue;
      if (!(choices[count++] = hr__arena_text(f->arena, word))) return hr__nomem(f->err);
    }
  }
  const char **words = hr__arena_array(f->arena, count, sizeof *words);
  if (!words) return hr__nomem(f->err);
  memcpy(words, choices, count * sizeof *words);
  return words_add(f, path, by_hand, words, count);
}

/* Keys whose auto is closed here: numbers, then techniques (batch before split, which asks for it). */
typedef struct outer_key {
  char path[HR_SITE_TEXT];
  bool of_part;
  hr_status (*add)(finding *f, const char *path, bool by_hand); /* NULL: by the technique */
  const hr_technique_key *technique;
} outer_key;

enum { NUMBERS = 5, OUTER_MOST = NUMBERS + 1 + HR_MODEL_PARTS + HR_SITES };

static size_t outer_keys(const hr_recipe *recipe, outer_key out[OUTER_MOST]) {
  static const outer_key numbers[NUMBERS] = {{BATCH, .add = batch_add},
                                             {ACCUMULATION, .add = accumulation_add},
                                             {FRAMES, .add = frames_add},
                                             {LENGTH, .add = length_add},
                                             {NEGATIVES, .add = negatives_add}};
  hr_model_parts parts;
  hr_site sites[HR_SITES];
  size_t count = NUMBERS;
  hr__parts_read(recipe, &parts);
  memcpy(out, numbers, sizeof numbers);
  for (size_t p = 0; p < parts.count; p++, count++) {
    out[count] = (outer_key){.add = rank_add, .of_part = p > 0};
    snprintf(out[count].path, sizeof out[count].path, "%s.%s", parts.part[p].scope.section, RANK);
  }
  for (size_t i = 0, all = hr__sites(recipe, sites); i < all; i++)
    if (sites[i].technique->flags & (HR_TECHNIQUE_SEARCHED | HR_TECHNIQUE_SLICED)) {
      out[count] = (outer_key){.technique = sites[i].technique, .of_part = *sites[i].part};
      snprintf(out[count].path, sizeof out[count].path, "%s", sites[i].path);
      count++;
    }
  return count;
}

static hr_status outer_add(finding *f, const outer_key *key, bool by_hand) {
  const char *path = hr__arena_text(f->arena, key->path); /* the list of keys is the caller's, the knob stays */
  if (!path) return hr__nomem(f->err);
  if (key->add) return key->add(f, path, by_hand);
  return key->technique->flags & HR_TECHNIQUE_SLICED ? split_add(f, by_hand)
                                                     : technique_words(f, key->technique, path, by_hand);
}

/* --- what `all` opens --------------------------------------------------------------------------------------------- */

/* Whether micro-batches of another size may be taken unasked. What cannot be built has its own error later. */
static bool samples_apart(const finding *f) {
  hr_graph *graph;
  bool coupled = true;
  if (hr__compile(f->recipe, NULL, "model", &graph, NULL) != HR_OK) return false;
  hr_status status = hr__samples_coupled(graph, &coupled, NULL);
  hr__graph_destroy(graph);
  return status == HR_OK && !coupled;
}

/* Lengths and negatives are the data's, a rank is part of the model asked for, and samples are opened only where their
 * number per step is fixed and none meets another. Parts go with the whole model. */
static bool opened_by_all(const finding *f, const outer_key *key) {
  const char *path = key->path;
  if (!f->all || key->of_part || hr__recipe_given(f->recipe, path)) return false;
  if (strcmp(path, LENGTH) == 0 || strcmp(path, FRAMES) == 0 || strcmp(path, NEGATIVES) == 0 || strstr(path, RANK) ||
      strcmp(path, ACCUMULATION) == 0)
    return false;
  if (strcmp(path, BATCH) == 0)
    return hr__recipe_has(f->recipe, EFFECTIVE) && !hr__recipe_given(f->recipe, ACCUMULATION) && samples_apart(f);
  return true;
}

/* What fit/choose closes: the word itself is the only choice, and needed only where the recipe does not have it. On the
 * CPU the host is the same memory: what goes there unasked would only look as if it fitted. */
static hr_status inner_add(finding *f) {
  static const char *const words[] = {"auto"};
  bool below = hr__recipe_word_is(f->recipe, "memory.device", "cuda");
  for (int i = 0; i < HR_TECHNIQUE_KEYS && f->all; i++) {
    const hr_technique_key *technique = &hr_technique_keys[i];
    if (!(technique->flags & HR_TECHNIQUE_CHOSEN) || hr__recipe_given(f->recipe, technique->path)) continue;
    if (technique->flags & HR_TECHNIQUE_OFFLOAD && !below) continue;
    HR_TRY(words_add(f, technique->path, false, words, 1));
  }
  return HR_OK;
}

static hr_status lists_add(finding *f) {
  const hr_recipe_open *lists;
  size_t count;
  HR_TRY(hr__recipe_open(f->recipe, f->arena, &lists, &count, f->err));
  for (size_t i = 0; i < count; i++) {
    if (strcmp(lists[i].path, "memory.device") == 0 || strcmp(lists[i].path, "memory.gpu") == 0)
      return hr__recipe_fail(f->recipe, lists[i].path, "plan once for each: plan --sweep, or --compare", f->err,
                             "%s cannot be left open: times on different devices are not compared", lists[i].path);
    HR_TRY(knob_add(
        f, (hr_knob){
               .path = lists[i].path, .choices = lists[i].choices, .n_choices = lists[i].n_choices, .by_hand = true}));
  }
  return HR_OK;
}

static bool knob_has(const hr_knob *knob, const char *choice) {
  for (size_t k = 0; k < knob->n_choices; k++)
    if (strcmp(knob->choices[k], choice) == 0) return true;
  return false;
}

/* Slices of blocks are no values that could stand beside others: none is the first of them, all else excludes auto. */
static hr_status slices_alone(const finding *f, const hr_knob *list) {
  for (size_t k = 0; k < list->n_choices; k++)
    if (strcmp(list->choices[k], "none") != 0 && strcmp(list->choices[k], "auto") != 0)
      return hr__recipe_fail(f->recipe, list->path, "write auto, or a list without it", f->err,
                             "%s: auto cannot be one of several choices beside slices of your own", list->path);
  return HR_OK;
}

/* A list in which a choice is `auto`: what that would try alone stands in its place. */
static hr_status list_extend(finding *f, size_t place, const outer_key *key) {
  HR_TRY(outer_add(f, key, true));
  hr_knob list = f->knobs[place], alone = f->knobs[--f->count];
  if (alone.slices) {
    f->knobs[place] = alone;
    return slices_alone(f, &list);
  }
  const char **words = hr__arena_array(f->arena, list.n_choices + alone.n_choices, sizeof *words);
  if (!words) return hr__nomem(f->err);
  hr_knob both = {.path = list.path, .choices = words, .by_hand = true};
  for (size_t k = 0; k < list.n_choices; k++) {
    bool word = strcmp(list.choices[k], "auto") == 0;
    for (size_t i = 0; i < (word ? alone.n_choices : 1); i++) {
      const char *choice = word ? alone.choices[i] : list.choices[k];
      if (!knob_has(&both, choice)) words[both.n_choices++] = choice;
    }
  }
  HR_TRY(knob_add(f, both));
  f->knobs[place] = f->knobs[--f->count];
  return HR_OK;
}

bool hr__knobs_any(const hr_recipe *recipe) {
  outer_key outer[OUTER_MOST];
  for (size_t i = 0, count = outer_keys(recipe, outer); i < count; i++)
    if (hr__recipe_word_is(recipe, outer[i].path, "auto")) return true;
  return hr__recipe_is_open(recipe);
}

hr_status hr__knobs_find(const hr_recipe *recipe, bool all, hr_arena *arena, const hr_knob **out, size_t *count,
                         hr_error *err) {
  finding f = {.recipe = recipe, .all = all, .arena = arena, .err = err};
  outer_key outer[OUTER_MOST];
  HR_TRY(lists_add(&f));
  for (size_t i = 0, keys = outer_keys(recipe, outer); i < keys; i++) {
    const hr_knob *list = listed(&f, outer[i].path);
    if (list && knob_has(list, "auto")) HR_TRY(list_extend(&f, (size_t)(list - f.knobs), &outer[i]));
    if (list) continue;
    bool by_hand = hr__recipe_word_is(recipe, outer[i].path, "auto");
    if (by_hand || opened_by_all(&f, &outer[i])) HR_TRY(outer_add(&f, &outer[i], by_hand));
  }
  HR_TRY(inner_add(&f));
  *out = f.knobs;
  *count = f.count;
  return HR_OK;
}
