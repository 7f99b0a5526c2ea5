/* What apply writes: the settings of a closed recipe as values, and the edits of each file that follow from its map. */
#ifndef HR_CLI_APPLIED_H
#define HR_CLI_APPLIED_H

#include "cli/cli.h"
#include "format/transaction.h"
#include "job/job.h"
#include "recipe/maps.h"

/* A key that is put into a section which is not there either. */
typedef struct hr_applied_new {
  const char *section; /* the part of its path that is missing first: a new key */
  const char *rest;    /* of the path, in that section */
  const char *setting;
  hr_literal value;
} hr_applied_new;

typedef struct hr_applied_file {
  hr_config config;
  const hr_map *map; /* that its keys are read by */
  hr_edit *edits;
  size_t count, capacity;
  hr_applied_new *new;
  size_t n_new, cap_new;
  const char *text; /* with the edits in it */
  size_t bytes;
  bool changed;
} hr_applied_file;

/* A setting that no file has a place for. */
typedef struct hr_applied_note {
  const char *setting, *value;
  const char *key; /* empty: no map has one */
  const char *reason;
} hr_applied_note;

typedef struct hr_applied {
  const hr_job *job;
  hr_arena *arena;
  bool insert;            /* missing keys are put in where their section is */
  const json_t *settings; /* of the closed recipe */
  hr_applied_file files[HR_TRANSACTION_FILES];
  size_t n_files;
  hr_applied_note *notes;
  size_t n_notes, cap_notes;
  const char *refusal; /* of a dry run: why the same without would write nothing; NULL: it would */
} hr_applied;

/* The value of a setting in the closed recipe, as a config has it that is a recipe itself (`own_recipe`) or not, and
 * that has the key (`there`) or not. False: it has none, or none that is to be written: a default, or a word that was
 * not closed. */
bool hr__applied_value(const hr_applied *a, const hr_map_key *key, bool own_recipe, bool there, hr_literal *out);

/* The whole number that a file has for a setting; false: it has none. */
bool hr__applied_number(const hr_applied_file *file, const char *setting, int64_t *out);

/* A word of a map as a value: true, false and numbers are what they look like. */
hr_literal hr__applied_word(const char *word);

/* With a folder in place of a recipe, what its configs say of sequence length, samples of a step, precision and rank,
 * and no flag gives, is what is planned: as overrides, with a remark. `map`: the one that the user named, or NULL. */
hr_status hr__applied_take(hr_cli *cli, const hr_map *map, hr_error *err);

/* What says how many samples a step has: batch size, accumulation, effective batch. */
bool hr__applied_is_step(const char *setting);

/* Whether one of these could not be brought to its value: the configs then train other steps than was planned. */
bool hr__applied_step_differs(const hr_applied *a);

/* Adds an edit to a file, once for each setting and path. */
hr_status hr__applied_edit(hr_applied *a, hr_applied_file *file, hr_edit edit, const char *path, hr_error *err);

/* Puts a key that no file of the map has into one of them; *done stays false where something else stands in its place.
 */
hr_status hr__applied_insert(hr_applied *a, const hr_map *map, const hr_map_key *key, hr_edit edit, bool *done,
                             hr_error *err);
/* The edits for sections that are not there, with all the keys that were put into them. */
hr_status hr__applied_sections(hr_applied *a, hr_applied_file *file, hr_error *err);

/* Notes the parts of the plan that save memory and that no map has a key for. */
hr_status hr__applied_unsaid(hr_applied *a, hr_error *err);

/* Parses the files, finds their maps (`map`, where the user named one) and makes their new texts. `a` comes with job,
 * arena, insert and settings. */
hr_status hr__applied_plan(hr_applied *a, const hr_transaction *transaction, const hr_map *map, hr_error *err);

/* What was done, or would be; `diff` may be NULL. NULL: out of memory. */
json_t *hr__applied_json(const hr_applied *a, bool dry_run, const char *diff);
void hr__applied_print(const hr_cli *cli, const hr_applied *a, FILE *to);

#endif
