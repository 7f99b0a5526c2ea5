/* What other trainers call what a recipe says: for people who write it from habit, as an option or as a key. */
#ifndef HR_RECIPE_OTHERS_H
#define HR_RECIPE_OTHERS_H

#include "recipe/recipe.h"

typedef struct hr_other {
  const char *names;   /* theirs, separated by '|', with '_' */
  const char *setting; /* key of a recipe; NULL: none says it */
  const char *value;   /* that they mean by it; NULL: their own */
  const char *option;  /* of the command line that says it, without dashes; NULL: only --set does */
  const char *advice;  /* where there is neither setting nor option */
} hr_other;

enum { HR_OTHER_TEXT = 256 };

/* What a name stands for, by the table of others.c or by the keys of the trainers that recipe/maps.def knows; '-' and
 * '_' are the same. False: nobody calls anything that. `room` holds texts of *out. */
bool hr__other_find(const char *name, char room[HR_OTHER_TEXT], hr_other *out);

/* The name among those of others.c that is less than `distance` changes of letters from a mistyped one; false: none is.
 */
bool hr__other_nearest(const char *typed, size_t distance, char out[HR_OTHER_TEXT]);

/* A value for that setting out of what was written: for choices the one that is meant, or all of them as "a|b".
 * `word` may be NULL: an example. */
void hr__other_value(const hr_key *key, const hr_other *other, const char *word, char *out, size_t capacity);

#endif
