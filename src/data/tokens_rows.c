/* See tokens_rows.h. */
#include "data/tokens_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 3, TOLD = 64 /* rows between two reports of progress */ }; /* bad rows that are told one by one */

typedef struct reading {
  const char *path; /* of the file that is read */
  hr_row_makers *makers;
  hr_tokens_writer *writer;
  hr_progress_of_files *progress;
  double allowed;
  uint64_t rows, bad;
  hr_error first; /* bad one */
  char *shown;    /* "file:3: reason; file:9: reason" */
  size_t shown_bytes;
} reading;

bool hr__rows_too_bad(uint64_t rows, uint64_t bad, double allowed) {
  return (double)bad > allowed * (double)rows;
}

static void bad_note(reading *r, const hr_error *why) {
  if (r->bad++ == 0) r->first = *why;
  size_t used = strlen(r->shown);
  if (r->bad <= SHOWN)
    snprintf(r->shown + used, r->shown_bytes - used, "%s%s: %s", used > 0 ? "; " : "", why->place, why->message);
}

/* Says of an error where the row is; one of the template keeps its own place in the message. */
static void row_place(const reading *r, const hr_row *row, hr_error *why) {
  hr_error inner = *why;
  char place[sizeof inner.place];
  snprintf(place, sizeof place, "%.200s:%" PRIu64, r->path, row->place.line);
  hr__fail(why, inner.status, place, inner.remedy[0] ? inner.remedy : NULL, "%s%s%s", inner.place,
           inner.place[0] ? ": " : "", inner.message);
}

static hr_status bad_fail(const hr_error *why, hr_error *err) {
  char remedy[sizeof why->remedy];
  snprintf(remedy, sizeof remedy, "%.250s%smend the row, or leave bad ones out with data.bad_rows", why->remedy,
           why->remedy[0] ? "; " : "");
  return hr__fail(err, HR_BAD_INPUT, why->place, remedy, "%s", why->message);
}

/* A row as a document, or as a bad one. */
static hr_status row_put(reading *r, hr_made_row *made, hr_error *err) {
  r->rows++;
  hr_error *why = &made->row.why;
  if (made->row.fields) {
    why = &made->why;
    if (made->status == HR_OK) HR_TRY(hr__tokens_put(r->writer, made->ids.items, made->ids.count, err));
    if (made->status == HR_OK) return hr__tokens_end_document(r->writer, err);
    if (made->status == HR_NOMEM) return hr__nomem(err);
    if (made->status != HR_BAD_INPUT) {
      if (err) *err = *why;
      return made->status;
    }
    row_place(r, &made->row, why);
  }
  bad_note(r, why);
  if (r->allowed > 0) return HR_OK; /* all are read before they are judged */
  return bad_fail(&r->first, err);
}

static hr_status batch_put(reading *r, hr_row_batch *batch, hr_error *err) {
  for (size_t i = 0; i < batch->count; i++) {
    const hr_row *row = &batch->rows[i].row;
    HR_TRY(row_put(r, &batch->rows[i], err));
    if (row->number % TOLD == 0) hr__files_told(r->progress, row->place.byte);
  }
  if (batch->status != HR_OK && err) *err = batch->err;
  return batch->status;
}

static hr_status file_read(reading *r, const char *path, hr_error *err) {
  hr_rows *rows = NULL;
  r->path = path;
  HR_TRY(hr__rows_open(path, &rows, err));
  hr_status status = HR_OK;
  hr__row_batches_begin(r->makers, rows);
  for (hr_row_batch *batch; status == HR_OK && (batch = hr__row_batch_next(r->makers)) != NULL;)
    status = batch_put(r, batch, err);
  r->progress->done += hr__rows_bytes(rows);
  hr__rows_close(rows);
  return status;
}

hr_status hr__rows_tokens(const hr_data_files *files, const hr_row_way *way, int threads, double allowed,
                          hr_progress_of_files *progress, hr_tokens_writer *writer, char *shown, size_t shown_bytes,
                          hr_error *err) {
  reading r = {.writer = writer, .progress = progress, .allowed = allowed, .shown = shown};
  r.shown_bytes = shown_bytes;
  shown[0] = 0;
  HR_TRY(hr__row_makers_create(way, threads, &r.makers, err));
  hr_status status = HR_OK;
  for (size_t i = 0; i < files->count && status == HR_OK; i++)
    status = file_read(&r, files->list[i].path, err);
  hr__row_makers_destroy(r.makers);
  if (status == HR_OK) hr__tokens_rows(writer, r.rows, r.bad);
  if (status != HR_OK || !hr__rows_too_bad(r.rows, r.bad, allowed)) return status;
  return hr__fail(err, HR_BAD_INPUT, r.first.place, "mend them, or allow more with data.bad_rows",
                  "%" PRIu64 " of %" PRIu64 " rows are bad, more than data.bad_rows allows: %s", r.bad, r.rows, shown);
}
