/* Source taxonomy: samples are an anchor, a positive and negatives, each with the tokens of all its texts. Positives
 * and negatives are drawn anew in every epoch. Behind the samples are entries with the codes themselves, one after the
 * other, so that all of them can be made points and judged. See taxonomy.h.
 *
 * Of channel number i of the model the field that has its name takes tokens [codes, length], lengths_i how many of them
 * there are, mask_i the same as ones, behind the tokens. `valid` says which of positive and negatives are there.
 */
#include "data/taxonomy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "data/groups.h"

typedef struct taxonomy {
  hr_taxonomy of;
  hr_taxonomy_rules rules;
  hr_triplets triplets;
  hr_data_file triplets_file; /* fd -1: there is none */
  hr_pair *pairs;
  size_t n_train, n_eval;
  int64_t longest[HR_CHANNELS];
  int64_t most;     /* positions of the longest samples */
  hr_groups groups; /* whose negatives do not count */
  char remark[160];
} taxonomy;

static void taxonomy_close(void *state) {
  taxonomy *t = state;
  hr__groups_close(&t->groups);
  hr__triplets_close(&t->triplets);
  hr__data_file_close(&t->triplets_file);
  hr__taxonomy_close(&t->of);
  hr__free(t);
}

/* Codes without children, drawn, are held out: their parents are still trained on. */
static void codes_hold(taxonomy *t, const hr_source_request *request) {
  if (request->held != HR_HOLD_PART) return;
  hr_random_key key = {request->seed, hr__random_stream("taxonomy.held")};
  uint64_t leaves = 0, number = 0;
  for (size_t i = 0; i < t->of.count; i++)
    leaves += t->of.codes[i].children == 0 && t->of.codes[i].parent >= 0;
  uint64_t held = leaves > 0 ? hr__held_out(request, leaves) : 0;
  for (size_t i = 0; i < t->of.count; i++) {
    hr_code *code = &t->of.codes[i];
    if (code->children == 0 && code->parent >= 0) code->held = hr__random_permute(key, 0, number++, leaves) < held;
  }
}

/* Clusters of the codes that samples of training have. */
static hr_status groups_read(taxonomy *t, const hr_source_request *request, hr_error *err) {
  static const char from[] = "data.taxonomy.cluster_from";
  const hr_recipe *recipe = request->recipe;
  if (!hr__recipe_has(recipe, from)) return HR_OK;
  if (request->held != HR_HOLD_PART)
    return hr__recipe_fail(recipe, from, "give training.eval_every", err,
                           "codes are clustered by points, which evaluations make, and this recipe has none");
  int32_t *members = hr__arena_array(&t->of.arena, t->of.count + 1, sizeof *members);
  if (!members) return hr__nomem(err);
  t->groups = (hr_groups){.from = hr__recipe_int(recipe, from),
                          .every = hr__recipe_int(recipe, "data.taxonomy.cluster_every"),
                          .most = hr__recipe_int(recipe, "data.taxonomy.clusters"),
                          .seed = request->seed,
                          .items = t->of.count,
                          .members = members};
  for (size_t i = 0; i < t->of.count; i++)
    if (!t->of.codes[i].held) members[t->groups.n_members++] = (int32_t)i;
  return HR_OK;
}

static hr_status taxonomy_read(taxonomy *t, const hr_source_request *request, hr_error *err) {
  const hr_recipe *recipe = request->recipe;
  if (strcmp(request->key, "data.path") != 0)
    return hr__recipe_fail(recipe, request->key, "leave it out: codes of data.path are held out", err,
                           "source taxonomy evaluates on codes of the taxonomy itself");
  HR_TRY(hr__taxonomy_rules(recipe, request->seed, &t->rules, err));
  HR_TRY(hr__taxonomy_open(request, &t->of, err));
  bool drawn = !hr__recipe_bool(recipe, "data.taxonomy.codes_only");
  if (drawn) codes_hold(t, request);
  if (drawn && hr__recipe_has(recipe, "data.taxonomy.triplets")) {
    HR_TRY(hr__data_file_at(hr__recipe_text(recipe, "data.taxonomy.triplets"), &t->triplets_file, err));
    t->triplets_file.read_whole = true;
    HR_TRY(hr__triplets_open(&t->of, &t->rules, t->triplets_file.path, &t->triplets, err));
    t->rules.triplets = &t->triplets;
  }
  if (drawn) HR_TRY(hr__taxonomy_pairs(&t->of, &t->rules, &t->of.arena, &t->pairs, &t->n_train, &t->n_eval, err));
  if (drawn && t->n_train == 0)
    return hr__recipe_fail(recipe, request->key, "allow more in data.taxonomy, or give more codes", err,
                           "no code is an anchor: none has a positive that data.taxonomy allows");
  if (drawn && request->held == HR_HOLD_PART && t->n_eval == 0)
    return hr__recipe_fail(recipe, request->key, "raise data.eval_fraction, or give more codes", err,
                           "there is nothing to evaluate on: no code that is held out has a positive");
  if (drawn) HR_TRY(groups_read(t, request, err));
  int channel = 0;
  t->most = request->length;
  for (int i = 0; i < request->fields->count && channel < HR_CHANNELS; i++) {
    const hr_field *field = &request->fields->list[i];
    if (field->purpose == HR_FOR_TOKENS) t->longest[channel++] = field->desc.dim[field->desc.rank - 1];
  }
  if (t->of.n_unknown > 0)
    snprintf(t->remark, sizeof t->remark, "%zu excluded codes are not in the taxonomy and were left out",
             t->of.n_unknown);
  return HR_OK;
}

static hr_status taxonomy_open(const hr_source_request *request, void **state, hr_error *err) {
  taxonomy *t = hr__alloc_zero(1, sizeof *t);
  if (!t) return hr__nomem(err);
  t->triplets_file.fd = -1;
  hr_status status = taxonomy_read(t, request, err);
  if (status != HR_OK) {
    taxonomy_close(t);
    return status;
  }
  *state = t;
  return HR_OK;
}

static uint64_t taxonomy_samples(const void *state) {
  const taxonomy *t = state;
  return t->n_train + t->n_eval;
}

static uint64_t taxonomy_held(const void *state) {
  return ((const taxonomy *)state)->n_eval;
}

static uint64_t taxonomy_items(const void *state, int64_t *of_an_entry) {
  const taxonomy *t = state;
  *of_an_entry = 2 + t->rules.negatives;
  return t->of.count;
}

static const char *taxonomy_item(const void *state, uint64_t number) {
  return ((const taxonomy *)state)->of.codes[number].text;
}

static hr_groups *taxonomy_groups(void *state) {
  taxonomy *t = state;
  return t->groups.every > 0 ? &t->groups : NULL;
}

/* Codes of an entry, -1 where there is none; returns how many of the negatives are there. */
static int64_t codes_of(const taxonomy *t, uint64_t entry, int32_t *codes) {
  uint64_t epoch = entry >> HR_ENTRY_BITS, number = entry & (((uint64_t)1 << HR_ENTRY_BITS) - 1);
  int64_t room = 2 + t->rules.negatives, there = t->rules.negatives;
  if (number >= t->n_train + t->n_eval) {
    uint64_t first = (number - t->n_train - t->n_eval) * (uint64_t)room;
    for (int64_t i = 0; i < room; i++)
      codes[i] = first + (uint64_t)i < t->of.count ? (int32_t)(first + (uint64_t)i) : -1;
    return there;
  }
  there = hr__taxonomy_draw(&t->of, &t->rules, &t->pairs[number], number, epoch, codes);
  for (int64_t i = 2 + there; i < room; i++)
    codes[i] = -1;
  return there;
}

/* Tokens of a text, at most `room`, of which the last is the text's own last where it is cut: what tokenizers put
 * behind a text. A text without any has one of padding, 0. */
static int64_t text_put(const taxonomy *t, int32_t code, int channel, int64_t room, int32_t *to) {
  size_t count = 0;
  const int32_t *ids = code >= 0 ? hr__taxonomy_text(&t->of, (size_t)code, channel, &count) : NULL;
  int64_t kept = (int64_t)count < room ? (int64_t)count : room;
  for (int64_t i = 0; to && i < room; i++)
    to[i] = i < kept ? ids[i] : 0;
  if (to && kept < (int64_t)count) to[kept - 1] = ids[count - 1];
  return kept > 0 ? kept : 1;
}

static int64_t taxonomy_length(const void *state, uint64_t entry) {
  const taxonomy *t = state;
  int32_t codes[2 + HR_NEGATIVES_MOST];
  int64_t sum = 0;
  codes_of(t, entry, codes);
  for (int64_t i = 0; i < 2 + t->rules.negatives; i++)
    for (int c = 0; c < t->of.channels && codes[i] >= 0; c++)
      sum += text_put(t, codes[i], c, t->longest[c], NULL);
  return sum;
}

/* The longest text of a sample, titles aside, which have a length of their own. */
static int64_t longest_text(const void *state, uint64_t entry) {
  const taxonomy *t = state;
  int32_t codes[2 + HR_NEGATIVES_MOST];
  int64_t longest = 1;
  codes_of(t, entry, codes);
  for (int64_t i = 0; i < 2 + t->rules.negatives; i++)
    for (int c = 1; c < t->of.channels && codes[i] >= 0; c++) {
      size_t count;
      hr__taxonomy_text(&t->of, (size_t)codes[i], c, &count);
      if ((int64_t)count > longest) longest = (int64_t)count;
    }
  return longest;
}

static int64_t longest_cut(const void *state, uint64_t entry) {
  int64_t longest = longest_text(state, entry), most = ((const taxonomy *)state)->most;
  return longest < most ? longest : most;
}

static hr_status taxonomy_scan(const void *state, hr_each_sample each, void *user, hr_error *err) {
  (void)err;
  const taxonomy *t = state;
  for (uint64_t i = 0; i < t->n_train + t->n_eval; i++)
    each(user, i, longest_text(t, i));
  return HR_OK;
}

/* What a field is of which channel. */
typedef enum kind { TOKENS, LENGTHS, MASK, VALID } kind;
static kind kind_of(const hr_field *field, int *channel) {
  *channel = -1;
  if (field->purpose == HR_FOR_TOKENS) return TOKENS;
  if (sscanf(field->name, "lengths_%d", channel) == 1) return LENGTHS;
  return sscanf(field->name, "mask_%d", channel) == 1 ? MASK : VALID;
}

static void lengths_put(const taxonomy *t, const int32_t *codes, int channel, int64_t room, int32_t *to) {
  for (int64_t i = 0; i < 2 + t->rules.negatives; i++)
    to[i] = (int32_t)text_put(t, codes[i], channel, room, NULL);
}

static void mask_put(const taxonomy *t, const int32_t *codes, int channel, int64_t room, uint8_t *to) {
  for (int64_t i = 0; i < 2 + t->rules.negatives; i++) {
    int64_t count = text_put(t, codes[i], channel, room, NULL);
    memset(to + i * room, 1, (size_t)count);
    memset(to + i * room + count, 0, (size_t)(room - count));
  }
}

/* Which of positive and negatives count: those that are there and, of samples of training, are not in the group of
 * their anchor. */
static void valid_put(const taxonomy *t, uint64_t entry, const int32_t *codes, int64_t there, uint8_t *to) {
  uint64_t number = entry & (((uint64_t)1 << HR_ENTRY_BITS) - 1);
  for (int64_t k = 0; k < 1 + t->rules.negatives; k++) {
    bool grouped = k > 0 && k <= there && number < t->n_train && hr__groups_same(&t->groups, codes[0], codes[1 + k]);
    to[k] = k <= there && !grouped;
  }
}

static hr_status taxonomy_fill(const void *state, bool eval, uint64_t entry, const hr_room *room, hr_error *err) {
  (void)eval;
  (void)err;
  const taxonomy *t = state;
  int32_t codes[2 + HR_NEGATIVES_MOST];
  int64_t there = codes_of(t, entry, codes), length[HR_CHANNELS] = {0};
  int channel, n_tokens = 0;
  for (int i = 0; i < room->fields->count; i++) {
    const hr_field *field = &room->fields->list[i];
    if (field->purpose == HR_FOR_FACTOR) continue;
    switch (kind_of(field, &channel)) {
    case TOKENS:
      channel = n_tokens++;
      length[channel] = field->desc.dim[field->desc.rank - 1];
      for (int64_t k = 0; k < 2 + t->rules.negatives; k++)
        text_put(t, codes[k], channel, length[channel], (int32_t *)room->at[i] + k * length[channel]);
      break;
    case LENGTHS:
      lengths_put(t, codes, channel, length[channel], room->at[i]);
      break;
    case MASK:
      mask_put(t, codes, channel, length[channel], room->at[i]);
      break;
    case VALID:
      valid_put(t, entry, codes, there, room->at[i]);
      break;
    }
  }
  return HR_OK;
}

static hr_status taxonomy_judge(const void *state, const float *points, int64_t width, hr_judged *out, hr_error *err) {
  return hr__taxonomy_judge(&((const taxonomy *)state)->of, points, width, out, err);
}

static const char *taxonomy_remark(const void *state) {
  const taxonomy *t = state;
  return t->remark[0] ? t->remark : NULL;
}

static const hr_data_file *taxonomy_file(const void *state, size_t number) {
  const taxonomy *t = state;
  if (number < t->of.files.count) return &t->of.files.list[number];
  return number == t->of.files.count && t->triplets_file.fd >= 0 ? &t->triplets_file : NULL;
}

/* Codes with their texts' tokens, and what goes with what; lists that grow lie there twice while they are read. */
static hr_data_bytes taxonomy_bytes(const void *state) {
  const taxonomy *t = state;
  const hr_taxonomy *of = &t->of;
  size_t places = (size_t)of->channels + 1; /* where its texts and its excluded codes begin */
  uint64_t codes = of->count * (sizeof(hr_code) + HR_CODE_TEXT + sizeof *of->order + places * sizeof(size_t));
  uint64_t ids = (of->ids.capacity + of->excluded.capacity) * sizeof(int32_t);
  uint64_t pairs = (t->n_train + t->n_eval) * sizeof(hr_pair) + t->triplets.count * sizeof(hr_triplet);
  return (hr_data_bytes){.held = codes + ids + pairs, .making = codes + ids + pairs};
}

/* Each sample goes into the bucket of its longest text. Which that is must be known beforehand, so samples are the same
 * in every epoch. */
static const hr_source in_buckets = {
    .name = "taxonomy",
    .tokenizes = true,
    .tokenizer = "model.parts.*.path",
    .purposes = 1u << HR_FOR_TOKENS | 1u << HR_FOR_VALUES,
    .open = taxonomy_open,
    .close = taxonomy_close,
    .scan = taxonomy_scan,
    .held = taxonomy_held,
    .length = longest_cut,
    .remark = taxonomy_remark,
    .fill = taxonomy_fill,
    .items = taxonomy_items,
    .item = taxonomy_item,
    .judge = taxonomy_judge,
    .groups = taxonomy_groups,
    .file = taxonomy_file,
    .bytes = taxonomy_bytes,
};

const hr_source hr_source_taxonomy = {
    .name = "taxonomy",
    .tokenizes = true,
    .tokenizer = "model.parts.*.path",
    .in_buckets = &in_buckets,
    .anew = true,
    .purposes = 1u << HR_FOR_TOKENS | 1u << HR_FOR_VALUES,
    .open = taxonomy_open,
    .close = taxonomy_close,
    .samples = taxonomy_samples,
    .held = taxonomy_held,
    .length = taxonomy_length,
    .remark = taxonomy_remark,
    .fill = taxonomy_fill,
    .items = taxonomy_items,
    .item = taxonomy_item,
    .judge = taxonomy_judge,
    .groups = taxonomy_groups,
    .file = taxonomy_file,
    .bytes = taxonomy_bytes,
};
