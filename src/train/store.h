/* The folder of a run: its lock, its checkpoints (generations) and where its log lies.
 *
 * OUT/lock, OUT/log.jsonl, OUT/generation-%08d/{config.json, model.safetensors, training/optimizer.safetensors,
 * manifest.json}; the number is the step; with adapters adapter_model.safetensors and adapter_config.json instead, and
 * parts of a model have theirs in folders of their own (files.h). A generation with a manifest is committed.
 * training.keep of them stay: the one just written, the one that was written or loaded before it, since only of these
 * is it known that they are good, and then the newest. With training.save_best the one of the best evaluation stays
 * beside them, and OUT/best is a link to it.
 */
#ifndef HR_TRAIN_STORE_H
#define HR_TRAIN_STORE_H

#include <limits.h>

#include "train/files.h"
#include "train/manifest.h"
#include "train/train.h"

typedef struct hr_store {
  char out[PATH_MAX / 2];
  int lock;                     /* file descriptor; -1: not taken */
  int64_t good;                 /* step of the generation that this process wrote or loaded last; 0: none */
  bool accept_changed_data;     /* as in the options */
  int64_t keep;                 /* training.keep */
  bool save_best;               /* training.save_best */
  int64_t best;                 /* step of the generation that OUT/best is; 0: none */
  uint64_t checkpoint_bytes;    /* of one generation (room.h); 0: not known */
  hr_run_state state;           /* of the generation that was loaded */
  char fingerprint[HR_XXH_HEX]; /* of its plan */
  hr_message_fn message;
  void *message_user;
  hr_run_names names; /* of all files that a generation may have */
  hr_run_files files; /* that those of this run have */
} hr_store;

enum { HR_STORE_PATH = PATH_MAX };

/* Looks at the folder, and takes its lock if it is there. A run in it is refused unless `resume`. Writes nothing but
 * the lock of an existing folder. `store` begins with no lock, with the names of its files, and with where messages
 * go. */
hr_status hr__store_open(hr_store *store, const hr_train_options *options, hr_error *err);
/* Makes the folder where it was missing, and takes the lock. */
hr_status hr__store_create(hr_store *store, hr_error *err);
void hr__store_close(hr_store *store);

/* Whether a run has left anything in a folder. */
hr_status hr__store_holds_run(const char *out, bool *holds, hr_error *err);

__attribute__((format(printf, 3, 4))) void hr__store_tell(const hr_store *store, hr_message_kind kind,
                                                          const char *format, ...);

/* Steps of the generations on disk, newest first; `committed[i]` tells whether a manifest is there. Arrays in `arena`.
 * HR_IO where the folder does not tell: that is not the same as "none". */
hr_status hr__store_list(const hr_store *store, hr_arena *arena, int64_t **steps, bool **committed, size_t *count,
                         hr_error *err);
/* "OUT/generation-00000020" or a file in it; returns `out`. */
const char *hr__store_path(const hr_store *store, int64_t step, const char *file, char out[HR_STORE_PATH]);

/* store_best.c. Before a run: HR_USAGE where something that is no link stands at OUT/best, which else says which
 * generation is the best. After one is committed: lets OUT/best be it. */
hr_status hr__store_best_find(hr_store *store, hr_error *err);
hr_status hr__store_best_set(hr_store *store, int64_t step, hr_error *err);

/* checkpoint.c: writes one generation and, once it is committed, removes what is no longer needed. `manifest` has step,
 * seed, fingerprint, state and settings filled in. Where it finds no room, but has it without those that the next save
 * would remove anyway, these go first. On failure the partial generation is removed, and the newest good one is
 * untouched. */
hr_status hr__checkpoint_save(hr_store *store, hr_tensors *tensors, hr_manifest *manifest, hr_error *err);

/* restore.c: looks at every byte of a generation, through a window of HR_WINDOW_BYTES; its manifest, in `arena`. */
hr_status hr__generation_verify(const hr_store *store, unsigned char *window, int64_t step, hr_arena *arena,
                                hr_manifest *manifest, hr_error *err);
/* restore.c: the newest checkpoint of a run's folder, with every byte as its manifest says; *folder NULL: there is
 * none. Names in `arena`. */
hr_status hr__generation_newest(const char *run, hr_arena *arena, const char **folder, hr_manifest *manifest,
                                hr_error *err);
/* restore.c: loads the newest good generation, looking at every byte before anything is loaded. A damaged one is told
 * loudly and passed over; one that cannot be read is not damaged (HR_IO). *step is 0 when there is no committed
 * generation at all; HR_BAD_INPUT when all are damaged; HR_USAGE when the run was begun with other settings. */
hr_status hr__checkpoint_load(hr_store *store, hr_tensors *tensors, const hr_run_setting *settings, size_t n_settings,
                              int64_t *step, hr_error *err);

#endif
