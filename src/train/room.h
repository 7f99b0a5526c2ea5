/* Room for the checkpoints of a run: how large they are, and whether the file system of the run's folder takes them. */
#ifndef HR_TRAIN_ROOM_H
#define HR_TRAIN_ROOM_H

#include "train/store.h"

/* Fills store->checkpoint_bytes, and HR_NO_SPACE unless two checkpoints have room, or three with
 * training.save_best: what is free, with what those hold
 * that are there already, since they will be replaced. Every file has to stay below the limit of file sizes. The
 * folder need not be there yet. Where the system does not tell what is free, the run finds out. */
hr_status hr__room_check(hr_store *store, hr_tensors *tensors, hr_error *err);

/* Whether a checkpoint that found no room will have it when all others but the newest good one are gone. */
bool hr__room_after_pruning(const hr_store *store);

#endif
