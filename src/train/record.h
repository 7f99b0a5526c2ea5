/* A line of log.jsonl as a record. */
#ifndef HR_TRAIN_RECORD_H
#define HR_TRAIN_RECORD_H

#include "base/mem.h"
#include "train/history.h"

/* *good is false where the line is no record; `record` is then without meaning. What it points to lies in `arena`. */
hr_status hr__record_read(const char *line, size_t bytes, hr_arena *arena, hr_record *record, bool *good,
                          hr_error *err);

#endif
