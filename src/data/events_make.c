/* The vectors of one recording, interval by interval, into memory. See events.h. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "data/events.h"
#include "format/file.h"

hr_status hr__event_add(hr_event_list *events, hr_event event, hr_error *err) {
  if (events->count == events->capacity) {
    size_t more = events->capacity + events->capacity / 2 + 1024;
    hr_event *list = hr__realloc(events->list, more * sizeof *list);
    if (!list) return hr__nomem(err);
    events->list = list;
    events->capacity = more;
  }
  events->list[events->count++] = event;
  return HR_OK;
}

static hr_status rows_grow(hr_events *e, uint64_t more, hr_error *err) {
  if (e->n_rows + more <= e->cap_rows) return HR_OK;
  uint64_t capacity = e->n_rows + more + e->cap_rows / 2;
  size_t bytes;
  if (!hr__mul_size((size_t)capacity, HR_EVENT_ROW * sizeof *e->rows, &bytes)) return hr__nomem(err);
  float *rows = hr__realloc(e->rows, bytes);
  if (!rows) return hr__nomem(err);
  e->rows = rows;
  e->cap_rows = capacity;
  return HR_OK;
}

/* Events in the order of their intervals, those of one as they came; begins[i] is where interval i begins. */
static void by_interval(const hr_event_list *raw, double first_ms, double interval_ms, uint32_t n, size_t *begins,
                        hr_event *sorted) {
  memset(begins, 0, ((size_t)n + 2) * sizeof *begins);
  for (size_t i = 0; i < raw->count; i++)
    begins[(size_t)((raw->list[i].t - first_ms) / interval_ms) + 2]++;
  for (size_t i = 2; i < (size_t)n + 2; i++)
    begins[i] += begins[i - 1];
  for (size_t i = 0; i < raw->count; i++) {
    hr_event event = raw->list[i];
    size_t interval = (size_t)((event.t - first_ms) / interval_ms);
    event.t -= first_ms;
    sorted[begins[interval + 1]++] = event;
  }
}

static hr_status interval_make(hr_events *e, const hr_event_code *code, hr_event_grid *grid, uint64_t number,
                               uint32_t interval, const hr_event *events, size_t count, hr_error *err) {
  hr_random_key key = {e->settings.seed, hr__random_stream("data.events.choose")};
  size_t n = hr__events_to_choose(count, e->settings.ratio);
  double begin_ms = (double)interval * e->settings.interval_ms;
  HR_TRY(rows_grow(e, n, err));
  HR_TRY(hr__event_interval_add(e, (hr_event_interval){.first = e->spilled + e->n_rows, .rows = (uint32_t)n}, err));
  if (n == 0) return HR_OK;
  uint32_t *chosen = hr__alloc_zero(n, sizeof *chosen);
  if (!chosen) return hr__nomem(err);
  hr_status status = hr__event_grid_fill(grid, events, count, err);
  if (status == HR_OK) status = hr__events_choose(grid, events, count, n, key, number << 16 | interval, chosen, err);
  if (status == HR_OK)
    status = hr__event_vectors(grid, code, begin_ms, events, count, chosen, n, e->rows + e->n_rows * HR_EVENT_ROW, err);
  hr__free(chosen);
  e->n_rows += n;
  return status;
}

static hr_status intervals_make(hr_events *e, const hr_event_code *code, hr_event_grid *grid, const hr_event_list *raw,
                                uint64_t number, uint32_t n, double first_ms, size_t *begins, hr_event *sorted,
                                hr_error *err) {
  by_interval(raw, first_ms, e->settings.interval_ms, n, begins, sorted);
  for (uint32_t i = 0; i < n; i++)
    HR_TRY(interval_make(e, code, grid, number, i, sorted + begins[i], begins[i + 1] - begins[i], err));
  return HR_OK;
}

static hr_status rows_spill(hr_events *e, hr_error *err) {
  if (e->spill < 0) return HR_OK;
  HR_TRY(hr__file_write_all(e->spill, "vectors on their way", e->rows,
                            (size_t)e->n_rows * HR_EVENT_ROW * sizeof *e->rows, err));
  e->spilled += e->n_rows;
  e->n_rows = 0;
  return HR_OK;
}

hr_status hr__events_make(hr_events *e, const hr_event_code *code, hr_event_grid *grid, const hr_event_list *raw,
                          uint64_t number, hr_event_sample *sample, hr_error *err) {
  double first = raw->list[0].t, last = first;
  for (size_t i = 1; i < raw->count; i++) {
    first = fmin(first, raw->list[i].t);
    last = fmax(last, raw->list[i].t);
  }
  double intervals = floor((last - first) / e->settings.interval_ms) + 1;
  if (!(intervals < HR_EVENT_INTERVALS) || raw->count > UINT32_MAX / 2)
    return hr__fail(err, HR_BAD_INPUT, NULL, "check data.events.time_unit and data.events.interval_ms, or cut it",
                    "it lasts %.6g ms, which is %.6g intervals: at most %d are taken", last - first, intervals,
                    HR_EVENT_INTERVALS - 1);
  uint32_t n = (uint32_t)intervals;
  size_t *begins = hr__alloc_zero((size_t)n + 2, sizeof *begins);
  hr_event *sorted = hr__alloc_zero(raw->count, sizeof *sorted);
  hr_status status = begins && sorted ? HR_OK : hr__nomem(err);
  sample->intervals = e->n_intervals;
  sample->n_intervals = n;
  if (status == HR_OK) status = intervals_make(e, code, grid, raw, number, n, first, begins, sorted, err);
  hr__free(begins);
  hr__free(sorted);
  return status == HR_OK ? rows_spill(e, err) : status;
}
