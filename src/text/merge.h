/* The inner loop of byte-pair encoding: symbols in, symbols out. */
#ifndef HR_TEXT_MERGE_H
#define HR_TEXT_MERGE_H

#include "text/grow.h"
#include "text/pairs.h"

/* Joins ids[0..count) in place: always the pair of the lowest rank, of equal ones the leftmost. Returns how many are
 * left. `work` is memory that may be reused. */
hr_status hr__merge(const hr_pairs *pairs, int32_t *ids, size_t *count, hr_string *work, hr_error *err);

#endif
