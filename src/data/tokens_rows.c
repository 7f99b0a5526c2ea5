/* See tokens_rows.h. */
#include "data/tokens_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TOLD = 64 }; /* rows between two reports of progress */

typedef struct reading {
  const char *path; /* of the file that is read */
  hr_row_makers *makers;
  hr_tokens_writer *writer;
  hr_progress_of_files *progress;
  hr_bad_rows bad;
} reading;

/* Says of an error where the row is; one of the template keeps its own place in the message. */
static void row_place(const reading *r, const hr_row *row, hr_error *why) {
  hr_error inner = *why;
  char place[sizeof inner.place];
  snprintf(place, sizeof place, "%.200s:%" PRIu64, r->path, row->place.line);
  hr__fail(why, inner.status, place, inner.remedy[0] ? inner.remedy : NULL, "%s%s%s", inner.place,
           inner.place[0] ? ": " : "", inner.message);
}

/* A row as a document, or as a bad one. */
static hr_status row_put(reading *r, hr_made_row *made, hr_error *err) {
  r->bad.rows++;
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
  return hr__bad_row(&r->bad, why, err);
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
                          uint64_t *taken, hr_error *err) {
  reading r = {.writer = writer, .progress = progress, .bad.allowed = allowed};
  HR_TRY(hr__row_makers_create(way, threads, &r.makers, err));
  hr_status status = HR_OK;
  for (size_t i = 0; i < files->count && status == HR_OK; i++)
    status = file_read(&r, files->list[i].path, err);
  *taken = hr__row_makers_bytes(r.makers);
  hr__row_makers_destroy(r.makers);
  snprintf(shown, shown_bytes, "%s", r.bad.shown);
  if (status == HR_OK) hr__tokens_rows(writer, r.bad.rows, r.bad.bad);
  return status == HR_OK ? hr__bad_rows_judge(&r.bad, err) : status;
}
