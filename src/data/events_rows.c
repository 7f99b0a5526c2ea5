/* See events_rows.h. */
#include "data/events_rows.h"

#include <inttypes.h>
#include <stdio.h>

hr_status hr__event_rows_fill(hr_event_rows *rows, const uint32_t *lengths, uint64_t train, hr_error *err) {
  uint64_t filled = 0;
  uint32_t *pieces = hr__alloc_zero(train + 1, sizeof *pieces);
  if (!pieces) return hr__nomem(err);
  for (uint64_t i = 0; i < train; i++) {
    pieces[i] = (uint32_t)(hr__event_rows_next(rows, 0, lengths[i]) / rows->piece);
    filled += lengths[i];
  }
  rows->train = train;
  hr_status status = hr__bins_fill(pieces, train, (uint32_t)rows->pieces, &rows->bins, err);
  hr__free(pieces);
  if (status == HR_OK && train > 0)
    snprintf(rows->remark, sizeof rows->remark,
             "%" PRIu64 " recordings are packed into %" PRIu64 " rows, which are %.1f %% full", train, rows->bins.count,
             100.0 * (double)filled / (double)rows->bins.count / (double)(rows->pieces * rows->piece));
  return status;
}

void hr__event_rows_fini(hr_event_rows *rows) {
  hr__bins_fini(&rows->bins);
}

hr_event_content hr__event_content(const hr_event_rows *rows, uint64_t row) {
  if (rows->piece == 0) return (hr_event_content){.count = 1, .first = row};
  if (row >= rows->bins.count) return (hr_event_content){.count = 1, .first = rows->train + row - rows->bins.count};
  const uint64_t *begins = rows->bins.begins + row;
  return (hr_event_content){.items = rows->bins.items + begins[0], .count = begins[1] - begins[0]};
}

void hr__event_rows_tell(const hr_event_rows *rows, int64_t number, int64_t n, int64_t first, int32_t *starts,
                         int32_t *whose) {
  int64_t length = rows->pieces * rows->piece, end = hr__event_rows_next(rows, first, n) / rows->piece;
  for (int k = 0; k < HR_EVENT_ORDERS; k++)
    for (int64_t t = first; t < length; t++)
      starts[k * length + t] = (int32_t)first;
  for (int64_t i = first / rows->piece; i < rows->pieces; i++)
    whose[i] = (int32_t)(i < end ? number : rows->pieces);
}
