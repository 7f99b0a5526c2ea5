/* A taxonomy: codes in trees, each described by texts. Read from rows (taxonomy_read.c); how near codes are to each
 * other (taxonomy_tree.c); which of them make a sample (taxonomy_draw.c); how well points follow the trees
 * (taxonomy_judge.c). The source is taxonomy.c.
 *
 * The parent of a code is the longest code that it begins with; codes without one are roots, and as short as any. The
 * level of a code is its number of characters. What follows goes by how far two codes are from their common ancestor:
 *
 *   relation   1 child, 2 sibling, 3 grandchild, 4 great-grandchild, 5 nephew, 6 great-great-grandchild, 7 cousin,
 *              8 grand-nephew, 9 great-grand-nephew, 10 cousin once removed, 11 second cousin, 12 cousin twice removed,
 *              13 second cousin once removed, 14 third cousin; further ones above that; 0 excluded; 99 of another tree
 *   distance   steps along the tree, less 0.5 where one is an ancestor of the other; 0 excluded; 99 of another tree
 *
 * A code is excluded from another that names it in its column excluded_codes.
 */
#ifndef HR_DATA_TAXONOMY_H
#define HR_DATA_TAXONOMY_H

#include "data/source.h"
#include "text/tokenizer.h"

enum { HR_CHANNELS = 8, HR_CODE_TEXT = 64, HR_RELATION_OTHER = 99, HR_NEGATIVES_MOST = 1024 /* of a sample */ };

typedef struct hr_code {
  const char *text;
  uint64_t line;  /* in its file */
  int32_t parent; /* -1: a root */
  int32_t root;
  int32_t depth, level, children;
  bool held; /* out of training: evaluated on */
} hr_code;

typedef struct hr_taxonomy {
  hr_arena arena;
  hr_data_files files;
  const size_t *first_code; /* of each file */
  hr_code *codes;           /* in the order of the files */
  size_t count, capacity;
  const int32_t *order; /* the same by text */
  int channels;
  const char *channel[HR_CHANNELS]; /* columns: the names of the fields that take tokens */
  hr_ids ids;                       /* of all texts */
  size_t *begins;                   /* [code][channel], and one more */
  hr_ids excluded;                  /* codes that each excludes, ascending */
  size_t *excluded_begins;          /* [code], and one more */
  size_t n_unknown;                 /* excluded codes that there are not */
} hr_taxonomy;

/* Reads the files of request->key and makes tokens of their texts. */
hr_status hr__taxonomy_open(const hr_source_request *request, hr_taxonomy *out, hr_error *err);
void hr__taxonomy_close(hr_taxonomy *taxonomy); /* also of one that failed half-way */

/* The tokens of a text of a code. */
static inline const int32_t *hr__taxonomy_text(const hr_taxonomy *t, size_t code, int channel, size_t *count) {
  const size_t *begin = &t->begins[code * (size_t)t->channels + (size_t)channel];
  *count = begin[1] - begin[0];
  return t->ids.items + begin[0];
}

/* taxonomy_tree.c. Parents and all that follows from them; codes and lines are there. HR_BAD_INPUT for codes that are
 * there twice or, unless `orphans` may be, have no parent. */
hr_status hr__taxonomy_link(hr_taxonomy *taxonomy, bool orphans, hr_error *err);
int32_t hr__taxonomy_find(const hr_taxonomy *taxonomy, const char *code, size_t bytes); /* -1: there is none */
typedef struct hr_relation {
  int relation;
  double distance;
} hr_relation;
hr_relation hr__taxonomy_relation(const hr_taxonomy *taxonomy, size_t from, size_t to);
/* Steps between two codes along the trees, whose roots hang together by one step each. */
int hr__taxonomy_steps(const hr_taxonomy *taxonomy, size_t from, size_t to);

/* taxonomy_draw.c. Values that a setting allows; none given: all. */
typedef struct hr_allowed {
  int count; /* 0: all */
  double value[32];
} hr_allowed;

/* Triplets that were made elsewhere (taxonomy_triplets.c), by anchor, positive and negative. */
typedef struct hr_triplet {
  int32_t anchor, positive, negative;
  double weight;
} hr_triplet;
typedef struct hr_triplets {
  hr_triplet *list;
  size_t count;
  size_t *groups; /* where those of one anchor and one positive begin; one more than there are */
  size_t n_groups;
  size_t *begins; /* per code: the first group of it as anchor; one more */
} hr_triplets;

typedef struct hr_taxonomy_rules {
  uint64_t seed;
  const hr_triplets *triplets; /* they say what goes with what; NULL: the trees do */
  int64_t positives, negatives;
  hr_allowed anchor_level, positive_level, positive_relation, positive_distance, negative_level, negative_relation,
      negative_distance, relation_margin, distance_margin;
} hr_taxonomy_rules;
hr_status hr__taxonomy_rules(const hr_recipe *recipe, uint64_t seed, hr_taxonomy_rules *out, hr_error *err);

/* Weight of a negative by its margins. */
double hr__taxonomy_weight(double relation_margin, double distance_margin, bool excluded);
/* Whether a triplet may be in samples: by the rules, and since nothing of it is held out but an anchor to evaluate on.
 */
bool hr__taxonomy_allows(const hr_taxonomy *taxonomy, const hr_taxonomy_rules *rules, const hr_triplet *triplet,
                         double relation_margin, double distance_margin);
hr_status hr__triplets_open(const hr_taxonomy *taxonomy, const hr_taxonomy_rules *rules, const char *path,
                            hr_triplets *out, hr_error *err);
void hr__triplets_close(hr_triplets *triplets); /* also of one that failed half-way */

/* An anchor with one of its positives: number `number` of an epoch's draw among `candidates`. */
typedef struct hr_pair {
  int32_t anchor, number, candidates;
} hr_pair;
/* Pairs of an epoch, in `arena`: those to train on, then, of codes that are held out, those to evaluate on, whatever
 * the levels of both are. */
hr_status hr__taxonomy_pairs(const hr_taxonomy *taxonomy, const hr_taxonomy_rules *rules, hr_arena *arena,
                             hr_pair **out, size_t *n_train, size_t *n_eval, hr_error *err);
/* The codes of a sample: anchor, positive, and negatives drawn by weight, nearer ones before others. Returns how many
 * negatives there are, at most rules->negatives; `codes` has room for 2 + as many. */
int64_t hr__taxonomy_draw(const hr_taxonomy *taxonomy, const hr_taxonomy_rules *rules, const hr_pair *pair,
                          uint64_t sample, uint64_t epoch, int32_t *codes);

/* taxonomy_judge.c: of points [codes, width] on a hyperboloid (model/hyperbolic.h). */
hr_status hr__taxonomy_judge(const hr_taxonomy *taxonomy, const float *points, int64_t width, hr_judged *out,
                             hr_error *err);

#endif
