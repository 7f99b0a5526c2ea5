/* A stream of a recording from its CSV file: time_s, and a column of numbers for each channel. See sensors.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/row_text.h"
#include "data/sensors.h"

/* Measurements beyond it, squared and added up, would not be finite in the types that models compute in. */
static const double MOST = 1e18;
/* How far the rate that time_s tells may be from that of the manifest. */
static const double RATE_OFF = 0.05;

typedef struct reading {
  int64_t channels;
  hr_signal *out;
  double first, last; /* time */
} reading;

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

static hr_status row_read(void *user, const hr_row_at *at, hr_error *err) {
  reading *r = user;
  HR_TRY(hr__row_parsed(at, err));
  HR_TRY(room_make(r, err));
  double *to = r->out->values + r->out->rows * (size_t)r->channels, time = NAN;
  int64_t count = 0;
  for (const hr_doc_node *node = at->row->fields->child; node; node = node->next) {
    double value;
    bool is_time = strcmp(node->key, "time_s") == 0;
    if (!hr__row_number(node, &value))
      return hr__row_fail(at, "give every row a number in every column: fill gaps before", err,
                          "%.80s is not a finite number", node->key);
    if (fabs(value) > MOST)
      return hr__row_fail(at, "look at the sensor, or scale the column", err, "%.80s is beyond 1e18", node->key);
    if (is_time)
      time = value;
    else if (count++ < r->channels)
      to[count - 1] = value;
  }
  if (isnan(time))
    return hr__row_fail(at, "name the column of times in seconds time_s", err, "%s is missing", "time_s");
  if (count != r->channels) {
    char numbers[96];
    snprintf(numbers, sizeof numbers, "%" PRId64 " columns beside time_s, but %" PRId64 " in the manifest", count,
             r->channels);
    return hr__row_fail(at, "mend the number of channels in the manifest, or the file", err, "the stream has %s",
                        numbers);
  }
  if (r->out->rows > 0 && !(time > r->last))
    return hr__row_fail(at, "sort the rows by time", err, "%s does not rise from row to row", "time_s");
  if (r->out->rows == 0) r->first = time;
  r->last = time;
  r->out->rows++;
  return HR_OK;
}

hr_status hr__signal_read(const char *path, double rate, int64_t channels, hr_signal *out, hr_error *err) {
  reading r = {.channels = channels, .out = out};
  out->rows = 0;
  HR_TRY(hr__rows_each(path, row_read, &r, err));
  if (out->rows == 0)
    return hr__fail(err, HR_BAD_INPUT, path, "record it again, or take the recording out", "the stream is empty");
  double told = (double)(out->rows - 1) / (r.last - r.first);
  if (out->rows > 1 && !(fabs(told - rate) <= RATE_OFF * rate))
    return hr__fail(err, HR_BAD_INPUT, path, "mend the rate in the manifest, or the times",
                    "its times go with %.6g rows a second, but the manifest says %.6g Hz", told, rate);
  return HR_OK;
}
