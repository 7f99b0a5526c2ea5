/* Raw events of a recording: an .npy array [events, 4], or a CSV file with columns x, y, t, p. See events.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/events.h"
#include "data/row_text.h"
#include "format/npy.h"

static hr_status event_fail(const char *path, const char *what, uint64_t number, const char *message, double value,
                            const char *remedy, hr_error *err) {
  char place[4200];
  snprintf(place, sizeof place, "%.4000s%s%" PRIu64, path, what, number);
  return hr__fail(err, HR_BAD_INPUT, place, remedy, message, value);
}

/* x, y, t, p of one event; `what` and `number` say where it stands. */
static hr_status event_take(const char *path, const char *what, uint64_t number, const double v[4], double unit_ms,
                            hr_event_list *out, hr_error *err) {
  for (int i = 0; i < 2; i++)
    if (!(v[i] >= 0 && v[i] < HR_EVENT_PIXELS) || v[i] != floor(v[i]))
      return event_fail(path, what, number,
                        i == 0 ? "x is %.6g, not a whole number from 0 to 4095"
                               : "y is %.6g, not a whole number from 0 to 4095",
                        v[i], "columns are x, y, t, p in this order: mend the file", err);
  if (!(fabs(v[2]) <= 1e15))
    return event_fail(path, what, number, "t is %.6g, not a finite time", v[2], "take the event out, or mend its time",
                      err);
  if (v[3] != 0 && v[3] != 1 && v[3] != -1)
    return event_fail(path, what, number, "p is %.6g, but a polarity is 0 or 1 (or -1 or 1)", v[3],
                      "columns are x, y, t, p in this order: mend the file", err);
  return hr__event_add(out, (hr_event){(int32_t)v[0], (int32_t)v[1], v[3] > 0, v[2] * unit_ms}, err);
}

static hr_status array_read(const hr_npy *npy, const char *path, double unit_ms, hr_event_list *out, hr_error *err) {
  const hr_npy_head *head = hr__npy_shape(npy);
  if (head->rank != 2 || head->dim[1] != 4)
    return hr__fail(err, HR_BAD_INPUT, path, "save events as an array [events, 4] with columns x, y, t, p",
                    "its shape is not [events, 4]");
  enum { AT_ONCE = 256 };
  double numbers[AT_ONCE * 4];
  for (int64_t first = 0; first < head->dim[0]; first += AT_ONCE) {
    int64_t count = head->dim[0] - first < AT_ONCE ? head->dim[0] - first : AT_ONCE;
    HR_TRY(hr__npy_read_numbers(npy, first * 4, count * 4, numbers, err));
    for (int64_t i = 0; i < count; i++)
      HR_TRY(event_take(path, ", event ", (uint64_t)(first + i), numbers + 4 * i, unit_ms, out, err));
  }
  return HR_OK;
}

/* Where events of rows go. */
typedef struct reading {
  double unit_ms;
  hr_event_list *out;
} reading;

static hr_status row_take(void *user, const hr_row_at *at, hr_error *err) {
  static const char *const columns[4] = {"x", "y", "t", "p"};
  const reading *r = user;
  double v[4];
  if (!at->row->fields) return hr__row_refuse(at->row, err);
  for (int i = 0; i < 4; i++) {
    const hr_doc_node *node = hr__doc_get(at->row->fields, columns[i]);
    if (node && hr__row_number(node, &v[i])) continue;
    return hr__row_fail(at, "the first line names the columns: x,y,t,p; every row has a number in each", err,
                        node ? "%s is not a finite number" : "column %s is missing", columns[i]);
  }
  return event_take(at->path, ":", at->row->place.line, v, r->unit_ms, r->out, err);
}

hr_status hr__events_raw(const char *path, double unit_ms, hr_event_list *out, hr_error *err) {
  hr_status status;
  out->count = 0;
  if (hr__data_ends_as(path, ".npy")) {
    hr_npy *npy = NULL;
    HR_TRY(hr__npy_open_numbers(path, &npy, err));
    status = array_read(npy, path, unit_ms, out, err);
    hr__npy_close(npy);
  } else {
    status = hr__rows_each(path, row_take, &(reading){unit_ms, out}, err);
  }
  HR_TRY(status);
  if (out->count > 0) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, path, "take the recording out of the manifest", "there is no event in it");
}
