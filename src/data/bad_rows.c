/* See bad_rows.h. */
#include "data/bad_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 3 }; /* bad rows that are told one by one */

bool hr__rows_too_bad(uint64_t rows, uint64_t bad, double allowed) {
  return (double)bad > allowed * (double)rows;
}

hr_status hr__bad_row(hr_bad_rows *rows, const hr_error *why, hr_error *err) {
  if (rows->bad++ == 0) rows->first = *why;
  size_t used = strlen(rows->shown);
  if (rows->bad <= SHOWN)
    snprintf(rows->shown + used, sizeof rows->shown - used, "%s%s: %s", used > 0 ? "; " : "", why->place, why->message);
  if (rows->allowed > 0) return HR_OK;
  char remedy[sizeof why->remedy];
  snprintf(remedy, sizeof remedy, "%.250s%smend the row, or leave bad ones out with data.bad_rows", why->remedy,
           why->remedy[0] ? "; " : "");
  return hr__fail(err, HR_BAD_INPUT, why->place, remedy, "%s", why->message);
}

hr_status hr__bad_rows_judge(const hr_bad_rows *rows, hr_error *err) {
  if (!hr__rows_too_bad(rows->rows, rows->bad, rows->allowed)) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, rows->first.place, "mend them, or allow more with data.bad_rows",
                  "%" PRIu64 " of %" PRIu64 " rows are bad, more than data.bad_rows allows: %s", rows->bad, rows->rows,
                  rows->shown);
}
