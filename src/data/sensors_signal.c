/* A stream of a recording from its CSV file: time_s, and a column of numbers for each channel. See sensors.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/sensors.h"
#include "format/rows.h"

/* Measurements beyond it, squared and added up, would not be finite in the types that models compute in. */
static const double MOST = 1e18;
/* How far the rate that time_s tells may be from that of the manifest. */
static const double RATE_OFF = 0.05;

typedef struct reading {
  const char *path;
  int64_t channels;
  hr_signal *out;
  double first, last; /* time */
} reading;

static hr_status row_fail(const reading *r, const hr_row *row, const char *remedy, hr_error *err, const char *message,
                          const char *what) {
  char place[4200];
  snprintf(place, sizeof place, "%.4000s:%" PRIu64, r->path, row->place.line);
  return hr__fail(err, HR_BAD_INPUT, place, remedy, message, what);
}

static hr_status room_make(const reading *r, hr_error *err) {
  hr_signal *out = r->out;
  size_t channels = (size_t)r->channels;
  if ((out->rows + 1) * channels <= out->capacity) return HR_OK;
  size_t more = out->capacity + out->capacity / 2 + 1024 * channels;
  double *values = hr__realloc(out->values, more * sizeof *values);
  if (!values) return hr__nomem(err);
  out->values = values;
  out->capacity = more;
  return HR_OK;
}

static hr_status row_read(reading *r, const hr_row *row, hr_error *err) {
  if (!row->fields) return hr__fail(err, HR_BAD_INPUT, row->why.place, row->why.remedy, "%s", row->why.message);
  HR_TRY(room_make(r, err));
  double *to = r->out->values + r->out->rows * (size_t)r->channels, time = NAN;
  int64_t count = 0;
  for (const hr_doc_node *node = row->fields->child; node; node = node->next) {
    double value;
    bool is_time = strcmp(node->key, "time_s") == 0;
    if (!hr__row_number(node, &value))
      return row_fail(r, row, "give every row a number in every column: fill gaps before", err,
                      "%.80s is not a finite number", node->key);
    if (fabs(value) > MOST)
      return row_fail(r, row, "look at the sensor, or scale the column", err, "%.80s is beyond 1e18", node->key);
    if (is_time)
      time = value;
    else if (count++ < r->channels)
      to[count - 1] = value;
  }
  if (isnan(time))
    return row_fail(r, row, "name the column of times in seconds time_s", err, "%s is missing", "time_s");
  if (count != r->channels) {
    char numbers[96];
    snprintf(numbers, sizeof numbers, "%" PRId64 " columns beside time_s, but %" PRId64 " in the manifest", count,
             r->channels);
    return row_fail(r, row, "mend the number of channels in the manifest, or the file", err, "the stream has %s",
                    numbers);
  }
  if (r->out->rows > 0 && !(time > r->last))
    return row_fail(r, row, "sort the rows by time", err, "%s does not rise from row to row", "time_s");
  if (r->out->rows == 0) r->first = time;
  r->last = time;
  r->out->rows++;
  return HR_OK;
}

static hr_status rows_read(reading *r, hr_rows *rows, hr_error *err) {
  bool there = true;
  while (there) {
    hr_arena arena;
    hr_row row = {0};
    hr__arena_init(&arena);
    hr_status status = hr__rows_next(rows, &arena, &row, &there, err);
    if (status == HR_OK && there) status = row_read(r, &row, err);
    hr__arena_fini(&arena);
    HR_TRY(status);
  }
  return HR_OK;
}

hr_status hr__signal_read(const char *path, double rate, int64_t channels, hr_signal *out, hr_error *err) {
  hr_rows *rows = NULL;
  reading r = {.path = path, .channels = channels, .out = out};
  out->rows = 0;
  HR_TRY(hr__rows_open(path, &rows, err));
  hr_status status = rows_read(&r, rows, err);
  hr__rows_close(rows);
  HR_TRY(status);
  if (out->rows == 0)
    return hr__fail(err, HR_BAD_INPUT, path, "record it again, or take the recording out", "the stream is empty");
  double told = (double)(out->rows - 1) / (r.last - r.first);
  if (out->rows > 1 && !(fabs(told - rate) <= RATE_OFF * rate))
    return hr__fail(err, HR_BAD_INPUT, path, "mend the rate in the manifest, or the times",
                    "its times go with %.6g rows a second, but the manifest says %.6g Hz", told, rate);
  return HR_OK;
}
