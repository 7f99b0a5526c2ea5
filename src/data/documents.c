/* See documents.h. */
#include "data/documents.h"

int64_t hr__document_length(const hr_document_list *d, uint64_t document) {
  uint64_t count = d->begins[document + 1] - d->begins[document];
  return count > 0 ? (int64_t)count - 1 : 0;
}

/* The last document that begins at or before a token. */
static uint64_t document_at(const hr_document_list *d, uint64_t at) {
  uint64_t low = 0, high = d->count - 1;
  while (low < high) {
    uint64_t middle = (low + high + 1) / 2;
    if (d->begins[middle] <= at)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

void hr__window_borders(const hr_document_list *d, uint64_t at, int64_t length, int32_t *starts, int32_t *targets) {
  uint64_t here = document_at(d, at);
  int32_t start = 0;
  for (int64_t i = 0; i < length; i++) {
    uint64_t position = at + (uint64_t)i;
    while (here + 1 < d->count && d->begins[here + 1] <= position)
      here++;
    if (d->begins[here] == position) start = (int32_t)i;
    starts[i] = start;
    if (d->begins[here + 1] == position + 1) targets[i] = -1;
  }
}

int64_t hr__window_targets(const hr_document_list *d, uint64_t at, int64_t length) {
  uint64_t end = at + (uint64_t)length;
  int64_t targets = length;
  for (uint64_t next = document_at(d, at) + 1; next < d->count && d->begins[next] <= end; next++)
    targets -= d->begins[next] > d->begins[next - 1]; /* empty ones make no border */
  return targets;
}
