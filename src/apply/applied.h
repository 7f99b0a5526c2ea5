/* What apply does to each file: the settings of a closed recipe as values, and the edits that follow from its map. */
#ifndef HR_APPLY_APPLIED_H
#define HR_APPLY_APPLIED_H

#include <jansson.h>

#include "format/transaction.h"
#include "job/job.h"
#include "recipe/maps.h"

/* A key that is put into a section which is not there either. */
typedef struct hr_applied_new {
  const char *section; /* the part of its path that is missing first: a new key */
  const char *rest;    /* of the path, in that section */
  const char *setting;
  hr_literal value;
  const char *text; /* as it stands in the file */
} hr_applied_new;

typedef struct hr_applied_file {
  hr_config config;
  const hr_map *map; /* that its keys are read by */
  size_t number;     /* in the transaction */
  hr_edit *edits;
  size_t count, capacity;
  hr_applied_new *new;
  size_t n_new, cap_new;
  const char *text; /* with the edits in it */
  size_t bytes;
  bool changed;
} hr_applied_file;

enum { HR_APPLIED_PATH = 2 * HR_MAP_PATH };

/* A setting that no file has a place for. */
typedef struct hr_applied_note {
  const char *setting, *value;
  const char *key; /* empty: no map has one */
  const char *reason;
} hr_applied_note;

typedef struct hr_applied {
  const hr_job *job;
  hr_arena *arena;
  bool insert;                 /* missing keys are put in where their section is */
  bool dry_run;                /* looked at only */
  const json_t *settings;      /* of the closed recipe, while edits are made */
  hr_transaction *transaction; /* that the files are read from and written by */
  hr_applied_file files[HR_TRANSACTION_FILES];
  size_t n_files;
  hr_applied_note *notes;
  size_t n_notes, cap_notes;
  bool keep_open;  /* a length without limit stays so */
  bool beside;     /* keys that these files lack are in others */
  bool held_known; /* what PyTorch will hold with the new texts */
  uint64_t held_bytes, budget_bytes, margin_bytes;
  const char *refusal; /* of a dry run: why the same without would write nothing; NULL: it would */
} hr_applied;

/* The value of a setting in the closed recipe, as a config has it that is a recipe itself (`own_recipe`) or not, and
 * that has the key (`there`) or not. False: it has none, or none that is to be written: a default, or a word that was
 * not closed. */
bool hr__applied_value(const hr_applied *a, const hr_map_key *key, bool own_recipe, bool there, hr_literal *out);

/* The value that a file has for the first of the spellings that it knows, and its path; NULL: none, and the usual one.
 */
const hr_doc_node *hr__applied_find(const hr_applied_file *file, const char *keys, char path[HR_MAP_PATH]);

/* The whole number that a file has for a setting; false: it has none. */
bool hr__applied_number(const hr_applied_file *file, const char *setting, int64_t *out);

/* A word of a map as a value: true, false and numbers are what they look like. */
hr_literal hr__applied_word(const char *word);

/* What says how many samples a step has: batch size, accumulation, effective batch. */
bool hr__applied_is_step(const char *setting);

/* Where one of these could not be brought to its value, so that the configs train other steps than was planned: a
 * sentence that says so. NULL: they all have theirs. */
const char *hr__applied_warning(const hr_applied *a);

/* Adds an edit to a file, once for each setting and path. */
hr_status hr__applied_edit(hr_applied *a, hr_applied_file *file, hr_edit edit, const char *path, hr_error *err);

/* Puts a key that no file of the map has into one of them; *done stays false where something else stands in its place.
 */
hr_status hr__applied_insert(hr_applied *a, const hr_map *map, const hr_map_key *key, hr_edit edit, bool *done,
                             hr_error *err);
/* The edits for sections that are not there, with all the keys that were put into them. */
hr_status hr__applied_sections(hr_applied *a, hr_applied_file *file, hr_error *err);
/* The first or, after `*last`, the next edit as it is told: a section that was put in key by key, the path in `path`.
 * False: no more; `*last` begins as NULL. */
bool hr__applied_told(const hr_applied_file *file, const hr_edit *edit, const void **last, char path[HR_APPLIED_PATH],
                      hr_edit *out);

/* Notes the parts of the plan that save memory and that no map has a key for. */
hr_status hr__applied_unsaid(hr_applied *a, hr_error *err);

/* HR_BAD_INPUT where a config that the texts name, and that is not among them, contradicts them. */
hr_status hr__applied_agree(const hr_applied *a, hr_error *err);
/* Plans what the new texts say, as PyTorch will run them: HR_NO_FIT, with the cheapest change, where that is too much.
 */
hr_status hr__applied_read_back(hr_applied *a, hr_error *err);

/* Parses the files of the transaction (`files`: of these), finds their maps (`map`, where the user named one) and makes
 * their new texts. */
hr_status hr__applied_edits(hr_applied *a, const hr_map *map, const bool *files, hr_error *err);

#endif
