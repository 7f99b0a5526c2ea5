/* Files that stand beside the weights in a model's folder, and that other programs need to use them: the tokenizer with
 * its settings, the chat template, settings of generation. Checkpoints of a run get them as they are, byte for byte.
 */
#ifndef HR_TRAIN_COMPANIONS_H
#define HR_TRAIN_COMPANIONS_H

#include "base/hash.h"
#include "model/parts.h"

enum { HR_COMPANIONS = 20 };

typedef struct hr_companion {
  const char *name; /* in a model's folder */
  const char *path; /* where it comes from */
  int fd;           /* open from the beginning of a run, so that it is there when the run saves */
  uint64_t bytes;
} hr_companion;

typedef struct hr_companions {
  hr_companion list[HR_COMPANIONS];
  size_t count;
} hr_companions;

/* Those that checkpoints of a part have: its tokenizer's files, from data.tokenizer or else from the part's own folder,
 * and unless it has adapters, which are no model by themselves, settings of generation. Names and paths in `arena`. */
hr_status hr__companions_open(const hr_recipe *recipe, const hr_model_part *part, bool adapters, hr_arena *arena,
                              hr_companions *out, hr_error *err);
/* All that a folder has, but for those that are there already, of another folder. */
hr_status hr__companions_add(const char *folder, hr_arena *arena, hr_companions *companions, hr_error *err);
void hr__companions_close(hr_companions *companions);

/* Whether a file of a checkpoint is one of these, by its name there ("text/tokenizer.json"). */
bool hr__companion_is(const char *name);
/* Names that they may have, number `i` from 0 on; NULL: no more. Others end with .tiktoken. */
const char *hr__companion_name(size_t i);

/* Writes a copy to `path` through a window of HR_WINDOW_BYTES, synced and closed. *unread tells that the original could
 * not be read: it has changed since it was opened. */
hr_status hr__companion_copy(const hr_companion *companion, const char *path, unsigned char *window,
                             char hex[HR_SHA256_HEX], bool *unread, hr_error *err);

#endif
