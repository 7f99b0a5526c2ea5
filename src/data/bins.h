/* Documents of different lengths into bins of one size: longest first, each into the fullest bin that still has room
 * for it (best-fit decreasing), else into a new one. The same documents always fill the same bins. */
#ifndef HR_DATA_BINS_H
#define HR_DATA_BINS_H

#include <stdint.h>

#include "base/status.h"
#include "data/bytes.h"

typedef struct hr_bins {
  uint64_t count;
  uint64_t *begins; /* count + 1: bin b holds documents items[begins[b]] .. items[begins[b + 1] - 1] */
  uint64_t *items;  /* numbers of documents */
  uint64_t n_items;
} hr_bins;

/* lengths[i]: of document i, from 1 to `size`. */
hr_status hr__bins_fill(const uint32_t *lengths, uint64_t documents, uint32_t size, hr_bins *out, hr_error *err);
void hr__bins_fini(hr_bins *bins);
hr_data_bytes hr__bins_bytes(const hr_bins *bins);

#endif
