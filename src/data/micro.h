/* A micro-batch of data, named but not yet read. */
#ifndef HR_DATA_MICRO_H
#define HR_DATA_MICRO_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hr_micro {
  int bucket;      /* which of the lengths */
  int64_t length;  /* of a row */
  int64_t rows;    /* that hold data */
  int64_t samples; /* in them: more than rows where several share one */
  int64_t tokens;  /* that are data */
  int64_t targets; /* positions that have one */
  bool eval;
  bool items;      /* of entries that hold the items of the data, from number `sample` on */
  uint64_t sample; /* number of its first row */
  uint64_t epoch;  /* with buckets */
  uint64_t first;  /* with buckets: number of its first row within its own */
} hr_micro;

#endif
