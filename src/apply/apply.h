/* apply: the settings of a plan in the user's own config files, and the files as they were before.
 *
 * Both are transactions (format/transaction.h), which whoever asks for it opens and closes. hr__apply makes the new
 * texts of its files, to be looked at, as JSON or as a diff, and to be committed; hr__apply_revert_look says what
 * reverting it does.
 */
#ifndef HR_APPLY_APPLY_H
#define HR_APPLY_APPLY_H

#include "apply/applied.h"

typedef struct hr_apply_options {
  const hr_map *map; /* that the user named; NULL: found by what each file holds */
  bool insert;       /* keys that are not there are put in */
  bool dry_run;      /* the transaction will not be committed: what would keep it from that is told */
  bool keep_open;    /* a length without limit stays so */
  const bool *files; /* of the transaction, those that this plan is for; NULL: all */
  bool beside;       /* keys that these files lack are in others */
} hr_apply_options;

/* The map that a name or, where no built-in one has it, a file gives; HR_USAGE where it is neither. */
hr_status hr__apply_map(const char *name, hr_arena *arena, const hr_map **out, hr_error *err);

/* Gives the files of the transaction their new texts. HR_NO_FIT where the plan is over its budget, or where PyTorch
 * runs the files and what they then say is. The answer lies in the arena, and is there as long as that, job and
 * transaction. */
hr_status hr__apply(const hr_job *job, hr_transaction *transaction, const hr_apply_options *options, hr_arena *arena,
                    hr_applied **out, hr_error *err);

/* Files whose text changes. */
size_t hr__apply_changed(const hr_applied *a);
/* The unified diffs of all files, one after the other. */
hr_status hr__apply_diff(const hr_applied *a, const char **out, hr_error *err);
/* What was done, or would be; `diff` may be NULL. NULL: out of memory. */
json_t *hr__apply_json(const hr_applied *a, const char *diff);

/* Whether all files can be put back, and (`diff` not NULL) what that changes, in *bytes bytes: a file that somebody has
 * changed since (*edited) may hold anything, zeros too. A zero behind them ends the text. */
hr_status hr__apply_revert_look(hr_transaction *transaction, hr_arena *arena, const char **diff, size_t *bytes,
                                bool *edited, hr_error *err);
json_t *hr__apply_revert_json(const hr_transaction *transaction, bool dry_run); /* NULL: out of memory */

/* What the plan of a folder is asked for, and the configs that are to get it. */
typedef struct hr_apply_taking {
  const char *path; /* of the job; a recipe file gives all itself but what its trainer runs by: engine.zero and such */
  const char *const *files;
  size_t n_files;
  const hr_map *map;
  const char *const *overrides; /* what they give is not taken */
  size_t n_overrides;
  bool all;      /* what nobody gives is open (--auto) */
  bool insert;   /* keys that are not there can be put in */
  bool override; /* what is given goes before what configs say, and what is not known does not stop */
} hr_apply_taking;

enum { HR_TAKEN = 48 };
typedef struct hr_taken {
  const char *overrides[HR_TAKEN];
  const char *places[HR_TAKEN];  /* where each stands; NULL: nowhere */
  size_t count, n_said;          /* the first n_said are what the configs say, the others close what they cannot */
  const char *remarks[HR_TAKEN]; /* what is planned otherwise than it will run, and holds no more */
  size_t n_remarks;
  bool foreign; /* any of the configs is another trainer's */
} hr_taken;

/* With a folder in place of a recipe, what its configs say of the training is what is planned: as overrides, in the
 * arena. What cannot be read, contradicts what is given, or is for something else than training is HR_BAD_INPUT. */
hr_status hr__apply_take(const hr_apply_taking *from, hr_arena *arena, hr_taken *out, hr_error *err);
/* HR_BAD_INPUT where a config has what PyTorch's memory is not known with. */
hr_status hr__apply_torch_check(const hr_apply_taking *from, hr_arena *arena, hr_error *err);
/* All that files say, as overrides. */
hr_status hr__apply_says(const hr_applied_file *files, size_t n_files, hr_arena *arena, hr_taken *out, hr_error *err);

#endif
