/* The recipe: YAML text -> checked settings, each with its source position.
 *
 * The recipe folder knows no setting by name: the stages that own settings hand in key tables (model/, train/,
 * plan/...). A key whose path begins with "*." is one of a scope: it is there once for each section that is opened
 * (hr__recipe_section), such as "model" or "model.parts.text". Unknown and repeated keys, wrong types and values out of
 * range are HR_BAD_INPUT with line, column and a suggestion. Overrides (--set key.path=value, YAML values; null removes
 * a part) are applied before validation.
 */
#ifndef HR_RECIPE_RECIPE_H
#define HR_RECIPE_RECIPE_H

#include <jansson.h>

#include "format/doc.h"

typedef enum hr_key_type {
  HR_KEY_INT,
  HR_KEY_FLOAT,
  HR_KEY_BOOL,
  HR_KEY_TEXT,
  HR_KEY_CHOICE, /* one of `choices`; a key of another type takes the words of `choices` beside its own values */
  HR_KEY_SIZE,   /* bytes: plain number or with unit; with the choice "%" also per cent */
  HR_KEY_FLOATS, /* list of exactly `length` floats */
  HR_KEY_PATH,   /* text; relative paths are taken from the recipe's folder */
  HR_KEY_PATHS,  /* list of paths; a single one stands for a list of one */
  HR_KEY_TEXTS,  /* list of texts; a single text stands for a list of one */
  HR_KEY_TREE    /* a map or list that only its owner understands (hr__recipe_tree) */
} hr_key_type;

typedef struct hr_recipe hr_recipe;

typedef struct hr_key {
  const char *path; /* "training.optimizer.lr"; "*.adapters.rank": of every section that is opened */
  hr_key_type type;
  const char *fallback; /* default as YAML text; NULL: no value unless given */
  bool required;
  bool inherited;      /* of a scope: a section inside another has no default of its own, the outer one's counts */
  bool never_null;     /* numbers without `fallback`: a further file that names it gives it a value */
  double min, max;     /* numbers; min == max == 0: no limits */
  const char *choices; /* "a|b|c" */
  int length;          /* HR_KEY_FLOATS */
  /* Numbers: more of it is a better model. Open, the largest that fits is taken, and speed decides the rest. */
  bool quality;
  bool tree;           /* takes a map or list beside the type's own values, as HR_KEY_TREE does */
  const char *example; /* of a map or list, for messages: one that begins with '[' is a list */
  const char *meaning; /* one line for help and docs */
  /* (optional) called once, when overrides are applied and before keys are placed: opens the sections that this recipe
   * has (hr__recipe_section), by what the tree says (hr__recipe_early), and hands over settings from further files
   * (hr__recipe_later). */
  hr_status (*open)(hr_recipe *recipe, hr_error *err);
  /* (optional, HR_KEY_PATH) a folder in place of a recipe file stands for a recipe that gives only this, by its whole
   * path (one key at most). */
  const char *folder;
  /* (optional, HR_KEY_TEXT) its value names a member of the map at this path, a stage: a version of the whole recipe,
   * whose settings are laid over the others before overrides are (one key at most). */
  const char *chooses;
} hr_key;

typedef struct hr_key_table {
  const hr_key *keys;
  size_t count;
} hr_key_table;

/* All keys of some tables with whole paths, those of a scope as they are in `section`: for help and docs. */
hr_status hr__keys_list(const hr_key_table *const *tables, size_t n_tables, const char *section, hr_arena *arena,
                        hr_key_table *out, hr_error *err);

/* From a file, or from a folder (see hr_key.folder). */
hr_status hr__recipe_load(const char *path, const char *const *overrides, size_t n_overrides,
                          const hr_key_table *tables, size_t n_tables, hr_recipe **out, hr_error *err);
/* The same from memory; `name` stands for the file, `folder` for where relative paths begin. */
hr_status hr__recipe_parse(const char *name, const char *folder, const char *text, size_t bytes,
                           const char *const *overrides, size_t n_overrides, const hr_key_table *tables,
                           size_t n_tables, hr_recipe **out, hr_error *err);
void hr__recipe_destroy(hr_recipe *recipe);

/* Open settings. A setting may be given as a list of choices, each of them a value that the key takes: `precision:
 * [bf16-true, bf16-mixed]`; where values are lists themselves, as a list of lists. It then reads as its first choice;
 * fit/search closes it by an override. Words such as `auto` that leave a value to fit are the keys' own. */
typedef struct hr_recipe_open {
  const char *path;
  const char *const *choices; /* as an override takes them: "bf16-true" */
  size_t n_choices;
} hr_recipe_open;
bool hr__recipe_is_open(const hr_recipe *recipe); /* whether any is */
/* All of them, by path, in `arena`. */
hr_status hr__recipe_open(const hr_recipe *recipe, hr_arena *arena, const hr_recipe_open **out, size_t *count,
                          hr_error *err);

/* Stages: named versions of a recipe that follow one another (hr_key.chooses). */
enum { HR_STAGE_NAME = 40 };
typedef struct hr_recipe_stage {
  const char *name;
  int from;        /* number of the stage whose weights it begins with; -1: it begins as the recipe itself does */
  const int *also; /* further ones, of which it begins with what those before have not; in the order of that */
  int n_also;
} hr_recipe_stage;
/* Those of the map at `path`, in order, in `arena`. */
hr_status hr__recipe_stages(const hr_recipe *recipe, const char *path, hr_arena *arena, hr_recipe_stage **out,
                            size_t *count, hr_error *err);

/* For hr_key.open. Opens a section: it gets all keys of a scope, "*.rank" as "SECTION.rank". A section inside of one
 * that is open is `inner`. */
hr_status hr__recipe_section(hr_recipe *recipe, const char *section, bool inner, hr_error *err);
/* Gives it the keys of further tables, a list that ends with NULL. */
hr_status hr__recipe_section_more(hr_recipe *recipe, const char *section, const hr_key_table *const *tables,
                                  hr_error *err);
/* A text or path (the key must be there already) as the recipe itself gives it; *text is NULL where it does not. */
hr_status hr__recipe_early(hr_recipe *recipe, const char *path, const char **text, hr_error *err);
/* What the recipe itself writes at a path, key or section; NULL: nothing, or null. */
const hr_doc_node *hr__recipe_written(const hr_recipe *recipe, const char *path);
/* Settings from another document, as if written in the section `section` ("model.config"; "" is the top), merged when
 * the recipe's own keys are placed; what those give or set to null stays, and what an earlier document gives. Keys that
 * no table has are ignored. `name` stands for the document in error places. All of them must live as long as the
 * recipe (hr__recipe_arena). */
hr_status hr__recipe_later(hr_recipe *recipe, const char *section, const hr_doc_node *map, const char *name,
                           hr_error *err);
hr_arena *hr__recipe_arena(hr_recipe *recipe);

const hr_key *hr__recipe_key(const hr_recipe *recipe, const char *path); /* NULL: no table has it */
bool hr__recipe_has(const hr_recipe *recipe, const char *path);          /* given or defaulted */
bool hr__recipe_given(const hr_recipe *recipe, const char *path); /* written by the user; also true for sections */
/* Whether the value is one of the words beside the type's own values ("auto", "50%"); hr__recipe_text gives it. */
bool hr__recipe_is_word(const hr_recipe *recipe, const char *path);
bool hr__recipe_word_is(const hr_recipe *recipe, const char *path, const char *word); /* a word or text: that one */
/* Typed access; asking for a key that no table has, or without value, or of another type, is a bug (assert). */
int64_t hr__recipe_int(const hr_recipe *recipe, const char *path);
double hr__recipe_float(const hr_recipe *recipe, const char *path);
bool hr__recipe_bool(const hr_recipe *recipe, const char *path);
const char *hr__recipe_text(const hr_recipe *recipe, const char *path); /* text, choice, path; words */
uint64_t hr__recipe_size(const hr_recipe *recipe, const char *path);
const double *hr__recipe_floats(const hr_recipe *recipe, const char *path);
const char *const *hr__recipe_texts(const hr_recipe *recipe, const char *path, size_t *count); /* texts, paths */
/* The map or list itself; NULL: the value is absent or none of the two. */
const hr_doc_node *hr__recipe_tree(const hr_recipe *recipe, const char *path);

/* An error at a setting's place, for checks that only its owner can make. */
__attribute__((format(printf, 5, 6))) hr_status
hr__recipe_fail(const hr_recipe *recipe, const char *path, const char *remedy, hr_error *err, const char *format, ...);
/* The same at a node inside a setting's tree. */
__attribute__((format(printf, 6, 7))) hr_status hr__recipe_fail_at(const hr_recipe *recipe, const char *path,
                                                                   const hr_doc_node *node, const char *remedy,
                                                                   hr_error *err, const char *format, ...);
/* All settings with their values, defaults filled in, as nested JSON ("settings" of plan --json). NULL: out of memory.
 */
json_t *hr__recipe_json(const hr_recipe *recipe);
const char *hr__recipe_name(const hr_recipe *recipe);

#endif
