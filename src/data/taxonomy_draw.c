/* Samples of a taxonomy: which positives and negatives go with an anchor. See taxonomy.h.
 *
 * Positives of an anchor are codes of its tree that it does not exclude. A code is a negative of a pair where it is
 * farther from the anchor than the positive, by both margins:
 *
 *                       another tree   excluded   else
 *   relation margin     15             0.1        its relation - that of the positive
 *   distance margin     10             0.1        its distance - that of the positive; 0 -> 1/3, -0.5 -> 2/3
 *
 * Negatives are drawn without repetition, with weights 1 / mean of the margins (each 1 more where it is excluded), so
 * that those come first that are hard to tell from the positive. Other trees weigh as 100 codes at most, all together.
 */
#include <math.h>

#include "base/random.h"
#include "data/taxonomy.h"

#define SECTION "data.taxonomy"

#define LIST(name, text)                                                                                               \
  { .path = SECTION "." name, .type = HR_KEY_TREE, .example = "[2, 3]", .meaning = "source taxonomy: " text }

static const hr_key keys[] = {
    {.path = SECTION ".n_positives",
     .type = HR_KEY_INT,
     .fallback = "32",
     .min = 1,
     .max = 1 << 20,
     .meaning = "source taxonomy: positives of an anchor in an epoch, at most; each is a sample"},
    {.path = SECTION ".n_negatives",
     .type = HR_KEY_INT,
     .fallback = "24",
     .min = 1,
     .max = HR_NEGATIVES_MOST,
     .choices = "auto",
     .quality = true,
     .meaning =
         "source taxonomy: negatives of a sample; auto: as many as fit, of 1, 2, 3, 4, 6, 8, 12 and so on to 256"},
    {.path = SECTION ".title_length",
     .type = HR_KEY_INT,
     .fallback = "24",
     .min = 1,
     .max = 1 << 24,
     .meaning = "source taxonomy: tokens of titles; other texts have data.sequence_length"},
    {.path = SECTION ".cluster_from",
     .type = HR_KEY_INT,
     .min = 0,
     .max = 1 << 20,
     .example = "10",
     .meaning =
         "source taxonomy: epoch, from 0, from which on codes are clustered by their points, and negatives in the "
         "cluster of their anchor do not count (default: never)"},
    {.path = SECTION ".cluster_every",
     .type = HR_KEY_INT,
     .fallback = "5",
     .min = 1,
     .max = 1 << 20,
     .meaning = "source taxonomy: epochs between one clustering and the next"},
    {.path = SECTION ".clusters",
     .type = HR_KEY_INT,
     .fallback = "500",
     .min = 2,
     .max = 1 << 16,
     .meaning = "source taxonomy: clusters at most; else one for two codes, by tens"},
    {.path = SECTION ".codes_only",
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "source taxonomy: true: codes are made points and nothing is drawn (headroom embed)"},
    {.path = SECTION ".triplets",
     .type = HR_KEY_PATH,
     .meaning = "source taxonomy: rows of anchor_code, positive_code, negative_code, relation_margin, distance_margin, "
                "excluded, which say what goes with what instead of the codes themselves"},
    LIST("anchor_level", "levels of anchors (default: all)"),
    LIST("positive_level", "levels of positives (default: all)"),
    LIST("positive_relation", "relations of positives to their anchors (default: all)"),
    LIST("positive_distance", "distances of positives from their anchors (default: all)"),
    LIST("negative_level", "levels of negatives (default: all)"),
    LIST("negative_relation", "relations of negatives to their anchors (default: all)"),
    LIST("negative_distance", "distances of negatives from their anchors (default: all)"),
    LIST("relation_margin", "relation margins of negatives, rounded down (default: all)"),
    LIST("distance_margin", "distance margins of negatives, rounded down (default: all)"),
};
const hr_key_table hr_taxonomy_keys = {keys, sizeof keys / sizeof *keys};

static hr_status allowed_read(const hr_recipe *recipe, const char *path, hr_allowed *out, hr_error *err) {
  *out = (hr_allowed){0};
  if (!hr__recipe_has(recipe, path)) return HR_OK;
  const hr_doc_node *tree = hr__recipe_tree(recipe, path);
  if (!tree || tree->kind != HR_DOC_LIST || !tree->child)
    return hr__recipe_fail(recipe, path, "write it as [2, 3]", err, "%s must be a list of numbers", path);
  for (const hr_doc_node *node = tree->child; node; node = node->next) {
    double value;
    if (node->kind != HR_DOC_SCALAR || !hr__doc_float(node, &value))
      return hr__recipe_fail_at(recipe, path, node, "write it as [2, 3]", err, "%s must be a list of numbers", path);
    if (out->count == (int)(sizeof out->value / sizeof *out->value))
      return hr__recipe_fail_at(recipe, path, node, "use fewer", err, "%s has more than %d numbers", path, out->count);
    out->value[out->count++] = value;
  }
  return HR_OK;
}

hr_status hr__taxonomy_rules(const hr_recipe *recipe, uint64_t seed, hr_taxonomy_rules *out, hr_error *err) {
  *out = (hr_taxonomy_rules){.seed = seed,
                             .positives = hr__recipe_int(recipe, SECTION ".n_positives"),
                             .negatives = hr__recipe_int(recipe, SECTION ".n_negatives")};
  HR_TRY(allowed_read(recipe, SECTION ".anchor_level", &out->anchor_level, err));
  HR_TRY(allowed_read(recipe, SECTION ".positive_level", &out->positive_level, err));
  HR_TRY(allowed_read(recipe, SECTION ".positive_relation", &out->positive_relation, err));
  HR_TRY(allowed_read(recipe, SECTION ".positive_distance", &out->positive_distance, err));
  HR_TRY(allowed_read(recipe, SECTION ".negative_level", &out->negative_level, err));
  HR_TRY(allowed_read(recipe, SECTION ".negative_relation", &out->negative_relation, err));
  HR_TRY(allowed_read(recipe, SECTION ".negative_distance", &out->negative_distance, err));
  HR_TRY(allowed_read(recipe, SECTION ".relation_margin", &out->relation_margin, err));
  return allowed_read(recipe, SECTION ".distance_margin", &out->distance_margin, err);
}

static bool allows(const hr_allowed *set, double value) {
  for (int i = 0; i < set->count; i++)
    if (set->value[i] == value) return true;
  return set->count == 0;
}

/* --- pairs -------------------------------------------------------------------------------------------------------- */

static bool is_positive(const hr_taxonomy *t, const hr_taxonomy_rules *r, size_t anchor, size_t code) {
  if (code == anchor || t->codes[code].held) return false;
  hr_relation is = hr__taxonomy_relation(t, anchor, code);
  if (is.relation == HR_RELATION_OTHER || is.relation == 0) return false;
  bool level = t->codes[anchor].held || allows(&r->positive_level, t->codes[code].level);
  return level && allows(&r->positive_relation, is.relation) && allows(&r->positive_distance, is.distance);
}

static int32_t positives_count(const hr_taxonomy *t, const hr_taxonomy_rules *r, size_t anchor) {
  int32_t count = 0;
  if (r->triplets) return (int32_t)(r->triplets->begins[anchor + 1] - r->triplets->begins[anchor]);
  for (size_t i = 0; i < t->count; i++)
    count += is_positive(t, r, anchor, i);
  return count;
}

hr_status hr__taxonomy_pairs(const hr_taxonomy *t, const hr_taxonomy_rules *r, hr_arena *arena, hr_pair **out,
                             size_t *n_train, size_t *n_eval, hr_error *err) {
  int32_t *candidates = hr__arena_array(arena, t->count, sizeof *candidates);
  size_t count = 0, sizes[2] = {0, 0};
  if (!candidates) return hr__nomem(err);
  for (size_t a = 0; a < t->count; a++) {
    if (!t->codes[a].held && !allows(&r->anchor_level, t->codes[a].level)) continue;
    candidates[a] = positives_count(t, r, a);
    sizes[t->codes[a].held] += (size_t)(candidates[a] < r->positives ? candidates[a] : r->positives);
  }
  *n_train = sizes[false];
  *n_eval = sizes[true];
  *out = hr__arena_array(arena, *n_train + *n_eval + 1, sizeof **out);
  if (!*out) return hr__nomem(err);
  for (int held = 0; held < 2; held++)
    for (size_t a = 0; a < t->count; a++)
      for (int32_t i = 0; t->codes[a].held == held && i < candidates[a] && i < r->positives; i++)
        (*out)[count++] = (hr_pair){(int32_t)a, i, candidates[a]};
  return HR_OK;
}

/* --- samples ------------------------------------------------------------------------------------------------------ */

static hr_random_key key_for(const hr_taxonomy_rules *r, const char *use, int32_t anchor) {
  return (hr_random_key){r->seed, hr__random_stream(use) + (uint64_t)anchor};
}

/* Candidates come in an order that is drawn for each anchor and epoch, so that none comes twice in one. */
static uint64_t candidate_draw(const hr_taxonomy_rules *r, const hr_pair *pair, uint64_t epoch) {
  return hr__random_permute(key_for(r, "taxonomy.positive", pair->anchor), epoch, (uint64_t)pair->number,
                            (uint64_t)pair->candidates);
}

static int32_t positive_draw(const hr_taxonomy *t, const hr_taxonomy_rules *r, const hr_pair *pair, uint64_t epoch) {
  uint64_t number = candidate_draw(r, pair, epoch);
  for (size_t i = 0; i < t->count; i++)
    if (is_positive(t, r, (size_t)pair->anchor, i) && number-- == 0) return (int32_t)i;
  return pair->anchor; /* not reached: there are as many candidates */
}

double hr__taxonomy_weight(double relation_margin, double distance_margin, bool excluded) {
  return 1 / ((relation_margin + distance_margin) / 2 + (excluded ? 1 : 0));
}

static bool negative_allowed(const hr_taxonomy *t, const hr_taxonomy_rules *r, size_t code, hr_relation is,
                             double relation_margin, double distance_margin) {
  return allows(&r->negative_level, t->codes[code].level) && allows(&r->negative_relation, is.relation) &&
         allows(&r->negative_distance, is.distance) && allows(&r->relation_margin, floor(relation_margin)) &&
         allows(&r->distance_margin, floor(distance_margin));
}

bool hr__taxonomy_allows(const hr_taxonomy *t, const hr_taxonomy_rules *r, const hr_triplet *one,
                         double relation_margin, double distance_margin) {
  size_t anchor = (size_t)one->anchor, negative = (size_t)one->negative;
  const hr_code *code = &t->codes[anchor];
  if (one->negative == one->anchor || one->negative == one->positive || t->codes[negative].held) return false;
  if (!code->held && !allows(&r->anchor_level, code->level)) return false;
  return is_positive(t, r, anchor, (size_t)one->positive) &&
         negative_allowed(t, r, negative, hr__taxonomy_relation(t, anchor, negative), relation_margin, distance_margin);
}

/* Weight of a code as a negative; 0: it is none. `others`: codes of other trees. */
static double negative_weight(const hr_taxonomy *t, const hr_taxonomy_rules *r, size_t anchor, size_t code,
                              hr_relation positive, size_t others) {
  static const double few = 100; /* of other trees */
  hr_relation is = hr__taxonomy_relation(t, anchor, code);
  bool excluded = is.relation == 0, other = is.relation == HR_RELATION_OTHER;
  double relation = is.relation - positive.relation, distance = is.distance - positive.distance;
  if (relation > 0 && distance == 0) distance = 1.0 / 3;
  if (relation > 0 && distance == -0.5) distance = 2.0 / 3;
  if (excluded) relation = distance = 0.1;
  if (other) relation = 15, distance = 10;
  if (relation <= 0 || distance <= 0 || !negative_allowed(t, r, code, is, relation, distance)) return 0;
  double weight = hr__taxonomy_weight(relation, distance, excluded);
  return other && (double)others > few ? weight * few / (double)others : weight;
}

/* Codes that are not of a tree. */
static size_t others_count(const hr_taxonomy *t, int32_t root) {
  size_t count = 0;
  for (size_t i = 0; i < t->count; i++)
    count += t->codes[i].root != root;
  return count;
}

/* Drawing by weight without repetition: those with the smallest -log(u) / weight are drawn, u uniform in (0, 1). */
typedef struct drawing {
  hr_random_key key;
  uint64_t draw; /* number of the draw */
  double times[HR_NEGATIVES_MOST];
  int64_t count, most;
  int32_t *codes; /* in the order of times */
  uint64_t block_of;
  hr_random_block block; /* for four codes */
} drawing;

static void drawing_add(drawing *d, int32_t code, double weight) {
  uint64_t block = (uint64_t)code / 4;
  if (block != d->block_of) d->block = hr__random_at(d->key, d->draw, d->block_of = block);
  double time = -log(((double)d->block.word[code % 4] + 0.5) * 0x1p-32) / weight;
  if (d->count == d->most && time >= d->times[d->most - 1]) return;
  int64_t at = d->count < d->most ? d->count++ : d->most - 1;
  for (; at > 0 && d->times[at - 1] > time; at--) {
    d->times[at] = d->times[at - 1];
    d->codes[at] = d->codes[at - 1];
  }
  d->times[at] = time;
  d->codes[at] = code;
}

/* Of an anchor's groups, which are its positives, the one of this draw. */
static void triplets_draw(const hr_triplets *triplets, const hr_taxonomy_rules *r, const hr_pair *pair, uint64_t epoch,
                          drawing *d, int32_t *positive) {
  size_t group = triplets->begins[pair->anchor] + candidate_draw(r, pair, epoch);
  *positive = triplets->list[triplets->groups[group]].positive;
  for (size_t i = triplets->groups[group]; i < triplets->groups[group + 1]; i++)
    drawing_add(d, triplets->list[i].negative, triplets->list[i].weight);
}

int64_t hr__taxonomy_draw(const hr_taxonomy *t, const hr_taxonomy_rules *r, const hr_pair *pair, uint64_t sample,
                          uint64_t epoch, int32_t *codes) {
  size_t anchor = (size_t)pair->anchor;
  drawing d = {.key = key_for(r, "taxonomy.negative", pair->anchor),
               .draw = sample ^ epoch << HR_ENTRY_BITS,
               .most = r->negatives < HR_NEGATIVES_MOST ? r->negatives : HR_NEGATIVES_MOST,
               .codes = codes + 2,
               .block_of = UINT64_MAX};
  codes[0] = pair->anchor;
  if (r->triplets) {
    triplets_draw(r->triplets, r, pair, epoch, &d, &codes[1]);
    return d.count;
  }
  codes[1] = positive_draw(t, r, pair, epoch);
  hr_relation positive = hr__taxonomy_relation(t, anchor, (size_t)codes[1]);
  size_t others = others_count(t, t->codes[anchor].root);
  for (size_t i = 0; i < t->count; i++) {
    if (t->codes[i].held || i == anchor || (int32_t)i == codes[1]) continue;
    double weight = negative_weight(t, r, anchor, i, positive, others);
    if (weight > 0) drawing_add(&d, (int32_t)i, weight);
  }
  return d.count;
}
