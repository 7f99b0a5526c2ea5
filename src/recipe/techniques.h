/* The keys of memory techniques as one table (techniques.def): what plan, search, suggestions and apply know of each.
 * How a technique works is known only to its pass. */
#ifndef HR_RECIPE_TECHNIQUES_H
#define HR_RECIPE_TECHNIQUES_H

#include "recipe/recipe.h"

typedef enum hr_technique_flags {
  HR_TECHNIQUE_CHANGES_RESULTS = 1, /* other weights come out with it, beyond the order of sums */
  HR_TECHNIQUE_SEARCHED = 2,        /* open, each of its words is a setting of the search (fit/knobs.h) */
  HR_TECHNIQUE_CHOSEN = 4,          /* open (`auto`), it is closed by fit/choose inside of a setting */
  HR_TECHNIQUE_SLICED = 8,          /* the same, but numbers of slices are settings of the search */
  HR_TECHNIQUE_SUGGESTED = 16, /* its words are suggested for a plan that does not fit, from the first to the last */
  HR_TECHNIQUE_OFFLOAD = 32,   /* its words are tiers */
  HR_TECHNIQUE_IS_SECTION = 64 /* there or not; `kind` in it says which */
} hr_technique_flags;

typedef struct hr_technique_key {
  const char *path;
  const char *plain; /* what it is set to where it is taken away */
  const char *label; /* of the list of techniques */
  unsigned flags;
  const char *words;      /* to try, separated by |, from mild to strong; NULL: none */
  const char *dependents; /* settings that make no sense without it, separated by | */
  const char *excludes;   /* a setting that makes no sense with it, whose absence changes results */
  const char *shown;      /* what it is called among the memory settings of a plan; NULL: it is none of these */
} hr_technique_key;

enum {
#define HR_TECHNIQUE(...)         +1
#define HR_TECHNIQUE_SECTION(...) +1
  HR_TECHNIQUE_KEYS = 0
#include "recipe/techniques.def"
#undef HR_TECHNIQUE
#undef HR_TECHNIQUE_SECTION
};
extern const hr_technique_key hr_technique_keys[HR_TECHNIQUE_KEYS];

const hr_technique_key *hr__technique_find(const char *path); /* NULL: the key is no technique's */

/* Goes through items separated by |: copies the next one to `out` and moves *list behind it; false: there was none
 * (NULL: an empty list). */
enum { HR_TECHNIQUE_WORD = 48 };
bool hr__technique_next(const char **list, char out[HR_TECHNIQUE_WORD]);

#endif
