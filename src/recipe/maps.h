/* Key maps: which key of somebody else's config says what a setting of a recipe says, and in which words.
 *
 * The built-in ones are data (recipe/maps.def, maps_data.c); a file of the user's (recipe/maps_file.c) can add to one
 * of them or stand alone.
 */
#ifndef HR_RECIPE_MAPS_H
#define HR_RECIPE_MAPS_H

#include "format/edit.h"
#include "recipe/recipe.h"

/* A row that is only read says what the trainer makes of a value; where a map has such rows for a setting, its other
 * rows for it are only written. */
typedef enum hr_map_use { HR_MAP_BOTH, HR_MAP_READ } hr_map_use;

typedef struct hr_map_key {
  const char *setting; /* key of a recipe; NULL: `value` is written as it stands */
  const char *keys;    /* of the config, spellings separated by '|', the usual one first */
  const char *words;   /* "value=word,also|value=word"; NULL: the value as it stands. Only read: * is any word, and of a
                          part !word that it is not there */
  const char *absent;  /* what a config without the key means, in its words; "*": any value; NULL: not known */
  bool asked;          /* from the user's own map: written whether or not the recipe gives the setting */
  bool part;           /* words are parts of the value: only the part is changed, and only from one word to another */
  bool unlimited;      /* null, or a config without the key, is no limit */
  bool beside;         /* not a field of every parser: put in only beside another key of the same section of a recipe */
  hr_map_use use;
  const struct hr_map_trait *where; /* it is read only from a config that has this; NULL: from any */
  const char *automatic; /* what `auto` means to those who follow others, as a value; NULL: what others say */
  bool ranks;            /* counts the samples of all ranks, of which a plan knows one: their number stays */
  hr_literal value;      /* where there is no setting */
} hr_map_key;

/* What a value of a config makes of a run beyond settings of a recipe. */
typedef enum hr_trait_effect {
  HR_TRAIT_OTHER,   /* it is no config of a training that headroom plans, but for `text` */
  HR_TRAIT_UNKNOWN, /* what PyTorch holds with it is not known, because of `text` */
  HR_TRAIT_NOTE,    /* no more than is planned: `text` */
  HR_TRAIT_NAMES    /* the value names a config of the map `text`, which is read as well */
} hr_trait_effect;

typedef struct hr_map_trait {
  hr_trait_effect effect;
  const char *keys;  /* spellings, separated by '|' */
  const char *words; /* separated by '|': * any but null, false and empty; ~word a part of it; >1 a larger number, <1 a
                        smaller; !word anything else, or no key */
  const char *text;
  const char *pins;   /* a setting that then stays as the config says it; NULL: none */
  const char *unless; /* a key that, where it is there, takes the effect away; NULL: none */
} hr_map_trait;

typedef struct hr_map {
  const char *name;
  const char *others; /* further names, separated by ',' */
  const char *marks;  /* keys that tell a config of this kind, separated by '|' */
  const hr_map_key *keys;
  size_t count;
  const hr_map_trait *traits;
  size_t n_traits;
  const char *model; /* keys that name the base model, separated by '|'; NULL: none */
  const char *base;  /* a map that it builds on: --map of that one stands for this one too; NULL: none */
  bool folders;      /* Hydra: a config in folder `a/b` may hold the keys of the section a.b or b without that prefix */
  bool follows;      /* `auto` stands for what TrainingArguments say */
  bool coerces;      /* text that looks like a number, and 8.0 for 8, are numbers to its parser */
  bool lists;        /* a list in place of a value is one of choices, which may be replaced */
} hr_map;

extern const hr_map hr_maps[];    /* ends with a map without name */
extern const char hr_map_names[]; /* "headroom, lightning, ": of all of them, for messages that go on behind it */

const hr_map *hr__map_named(const char *name); /* by its name or another one; NULL: none */

/* The user's own map, whose settings must be keys of the tables; `text` need not outlive the call. */
hr_status hr__map_parse(const char *name, const char *text, size_t bytes, const hr_key_table *tables, size_t n_tables,
                        hr_arena *arena, hr_map **out, hr_error *err);

/* Whether a map is `base` or builds on it. */
bool hr__map_builds_on(const hr_map *map, const hr_map *base);

/* How well a config fits a map: marks and keys that it has; 0: not at all. */
int hr__map_score(const hr_map *map, const hr_config *config);

/* The map that a config is most likely written for, among all of them or, where `family` (may be NULL) is one that
 * others build on, among these. NULL: it has nothing of any. */
const hr_map *hr__map_guess(const hr_config *config, const hr_map *family);
/* The map that the user named for a config or, of a built-in one's family, what it is; not named (NULL): the guess. */
const hr_map *hr__map_of(const hr_config *config, const hr_map *named);

/* Where the config has a key of the map: its path there, in `out`; false: it has not. */
enum { HR_MAP_PATH = 256 };
bool hr__map_locate(const hr_map *map, const hr_config *config, const char *key, char out[HR_MAP_PATH]);

/* The first or, after `last`, the next of the spellings of a key; false: no more. `*last` begins as NULL. */
bool hr__map_spelling(const hr_map_key *key, const char **last, char out[HR_MAP_PATH]);

/* The next part of a list of parts that `mark` separates, cut to fit; false: no more. `*last` begins as NULL. */
bool hr__map_next(const char *list, char mark, const char **last, char *out, size_t capacity);

/* The next line of a map's words (may be NULL), as its value and its words, that commas separate; false: no more. */
bool hr__map_line(const char *words, const char **last, char value[HR_MAP_PATH], char out[HR_MAP_PATH]);

/* For a key whose words are parts: the config's `text` with the value's own word in it, in `arena`. NULL: it has no
 * word of the key, or there is no memory (*no_memory). */
const char *hr__map_part(const hr_map_key *key, const char *value, const char *text, hr_arena *arena, bool *no_memory);

/* The word for a setting's value as text, and the words that mean the same (NULL: none). False: there is none. */
bool hr__map_word(const hr_map_key *key, const char *value, hr_arena *arena, const char **word, const char **same);

#endif
