/* What samples there are, and their rows. See events.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/events.h"
#include "format/file.h"

#define PREPARED_ENDINGS ".safetensors"
#define MANIFEST_ENDINGS ".csv|.tsv|.jsonl|.json"

void hr__events_begin(hr_events *e) {
  *e = (hr_events){.trace.whole = true, .spill = -1};
  hr__arena_init(&e->arena);
}

void hr__events_close(hr_events *e) {
  for (size_t i = 0; e->opened && i < e->files.count; i++) {
    hr__safetensors_close(e->opened[i].prepared);
    hr__hdf5_close(e->opened[i].hdf5);
  }
  hr__data_files_close(&e->files);
  if (e->spill >= 0) hr__file_calls.close(e->spill);
  hr__free(e->samples);
  hr__free(e->intervals);
  hr__free(e->rows);
  hr__arena_fini(&e->arena);
}

static hr_status grow(void **items, size_t *capacity, size_t count, size_t bytes, hr_error *err) {
  if (count < *capacity) return HR_OK;
  size_t more = *capacity + *capacity / 2 + 64;
  void *grown = hr__realloc(*items, more * bytes);
  if (!grown) return hr__nomem(err);
  *items = grown;
  *capacity = more;
  return HR_OK;
}

hr_status hr__event_interval_add(hr_events *e, hr_event_interval interval, hr_error *err) {
  HR_TRY(grow((void **)&e->intervals, &e->cap_intervals, e->n_intervals, sizeof interval, err));
  e->intervals[e->n_intervals++] = interval;
  if (interval.rows > e->most_rows) e->most_rows = interval.rows;
  return HR_OK;
}

/* A sample without a single vector is one that nothing can be learned from. */
hr_status hr__event_sample_add(hr_events *e, hr_event_sample sample, hr_error *err) {
  uint64_t rows = 0;
  for (uint32_t i = 0; i < sample.n_intervals; i++)
    rows += e->intervals[sample.intervals + i].rows;
  if (rows == 0) {
    char place[4200];
    snprintf(place, sizeof place, "%.4000s, sample %" PRIu32, e->files.count > 0 ? e->files.list[0].path : "events",
             sample.number);
    if (e->opened && sample.file < e->files.count && (e->opened[sample.file].hdf5 || e->opened[sample.file].prepared))
      snprintf(place, sizeof place, "%.4000s, sample %" PRIu32, e->files.list[sample.file].path, sample.number);
    return hr__fail(err, HR_BAD_INPUT, place, "take it out of the data", "the sample has no vector in any interval");
  }
  HR_TRY(grow((void **)&e->samples, &e->cap_samples, e->n_samples, sizeof sample, err));
  e->samples[e->n_samples++] = sample;
  return HR_OK;
}

static hr_status generated(hr_events *e, hr_event_code *code, hr_event_grid *grid, hr_error *err) {
  hr_event_list raw = {0};
  hr_status status = HR_OK;
  hr__event_code(&e->settings, code);
  for (int64_t i = 0; i < e->settings.generate && status == HR_OK; i++) {
    hr_event_sample sample = {.label = (int32_t)(i % HR_EVENT_MOTIONS), .number = (uint32_t)i};
    status = hr__event_stream(e->settings.seed, (uint64_t)i, &raw, err);
    if (status == HR_OK) status = hr__events_make(e, code, grid, &raw, (uint64_t)i, &sample, err);
    if (status == HR_OK) status = hr__event_sample_add(e, sample, err);
  }
  hr__free(raw.list);
  return status;
}

static hr_status generate(hr_events *e, hr_error *err) {
  e->classes = hr__arena_array(&e->arena, HR_EVENT_MOTIONS, sizeof *e->classes);
  hr_event_code *code = hr__alloc_zero(1, sizeof *code);
  hr_event_grid *grid = hr__event_grid_create();
  hr_status status = e->classes && code && grid ? HR_OK : hr__nomem(err);
  for (e->n_classes = 0; status == HR_OK && e->n_classes < HR_EVENT_MOTIONS; e->n_classes++)
    e->classes[e->n_classes] = hr_event_motions[e->n_classes];
  if (status == HR_OK) status = generated(e, code, grid, err);
  hr__event_grid_destroy(grid);
  hr__free(code);
  return status;
}

static hr_status file_read(hr_events *e, uint32_t number, int64_t classes, hr_error *err) {
  hr_data_file *file = &e->files.list[number];
  bool hdf5 = hr__data_ends_as(file->path, HR_HDF5_ENDINGS), prepared = hr__data_ends_as(file->path, PREPARED_ENDINGS);
  hr_trace trace;
  file->read_whole = !hdf5 && !prepared;
  HR_TRY(hr__trace_file(file, &trace, err));
  hr__trace_add(&e->trace, &trace);
  if (hdf5) return hr__events_hdf5(e, number, classes, err);
  if (prepared) return hr__events_prepared(e, number, classes, err);
  if (e->files.count > 1)
    return hr__fail(err, HR_BAD_INPUT, file->path, "name one manifest alone, or files of headroom prepare or HDF5",
                    "there are several files, and this one is a manifest of raw events");
  return hr__events_manifest(e, file->path, err);
}

/* Labels of files are looked at where they are read, those of a manifest and of made-up streams here. */
static hr_status labels_check(const hr_events *e, int64_t classes, const char *path, hr_error *err) {
  for (size_t i = 0; i < e->n_samples && classes > 0; i++)
    if (e->samples[i].label >= classes) {
      char place[4200];
      if (path)
        snprintf(place, sizeof place, "%.4000s:%" PRIu32, path, e->samples[i].file);
      else
        snprintf(place, sizeof place, "data.events.generate");
      return hr__fail(err, HR_BAD_INPUT, place, "raise model.config.num_classes, or mend the label",
                      "class %" PRId32 " is above the %" PRId64 " classes of the model, counted from 0",
                      e->samples[i].label, classes);
    }
  return HR_OK;
}

/* Times and places are looked at before training begins, vectors when they are read. */
static hr_status places_check(const hr_events *e, hr_error *err) {
  float *room = hr__alloc_zero(hr__events_room(e), sizeof *room);
  hr_status status = room ? HR_OK : hr__nomem(err);
  for (size_t i = 0; i < e->n_samples && status == HR_OK; i++)
    for (uint32_t k = 0; k < e->samples[i].n_intervals && status == HR_OK; k++)
      status = hr__events_rows(e, &e->samples[i], k, room, err);
  hr__free(room);
  return status;
}

hr_status hr__events_read(hr_events *e, const hr_recipe *recipe, const char *key, int64_t classes, hr_error *err) {
  if (e->settings.generate > 0) {
    if (hr__recipe_has(recipe, key))
      return hr__recipe_fail(recipe, key, "leave one of the two out", err,
                             "%s names files, but data.events.generate makes streams up", key);
    HR_TRY(generate(e, err));
    return labels_check(e, classes, NULL, err);
  }
  HR_TRY(hr__data_files_find(recipe, key, HR_HDF5_ENDINGS "|" PREPARED_ENDINGS "|manifest.csv", &e->files, err));
  HR_TRY(hr__data_files_open(&e->files, err));
  e->opened = hr__arena_array(&e->arena, e->files.count, sizeof *e->opened);
  if (!e->opened) return hr__nomem(err);
  for (uint32_t i = 0; i < e->files.count; i++)
    HR_TRY(file_read(e, i, classes, err));
  HR_TRY(labels_check(e, classes, e->files.list[0].path, err));
  return e->rows ? HR_OK : places_check(e, err);
}

static int order_compare(const void *a, const void *b) {
  const hr_event_sample *x = a, *y = b;
  if (x->held != y->held) return x->held ? 1 : -1;
  return (x->intervals > y->intervals) - (x->intervals < y->intervals); /* as they were read: each has one at least */
}

void hr__events_order(hr_events *e) {
  if (e->n_samples > 1) qsort(e->samples, e->n_samples, sizeof *e->samples, order_compare);
  for (size_t i = 0; i < e->n_samples; i++)
    e->n_held += e->samples[i].held;
}

/* Rows, and columns of HDF5 before they are spread. */
size_t hr__events_room(const hr_events *e) {
  return (size_t)e->most_rows * (HR_EVENT_ROW + HR_EVENT_DIM) + 1;
}

hr_status hr__event_rows_check(const float *rows, size_t count, const char *place, hr_error *err) {
  static const char *const columns[4] = {"x", "y", "t", "p"};
  for (size_t i = 0; i < count * HR_EVENT_ROW; i++) {
    if (isfinite(rows[i])) continue;
    size_t column = i % HR_EVENT_ROW;
    return hr__fail(err, HR_BAD_INPUT, place, "mend the recording and make its vectors anew",
                    "%s of vector %zu is not a finite number",
                    column < HR_EVENT_WIDTH ? "a component" : columns[column - HR_EVENT_WIDTH], i / HR_EVENT_ROW);
  }
  return HR_OK;
}

hr_status hr__events_rows(const hr_events *e, const hr_event_sample *sample, uint32_t interval, float *room,
                          hr_error *err) {
  const hr_event_interval *of = &e->intervals[sample->intervals + interval];
  size_t numbers = (size_t)of->rows * HR_EVENT_ROW;
  if (numbers == 0) return HR_OK;
  if (e->rows && e->spill >= 0)
    return hr__file_read_at(e->spill, "vectors on their way", of->first * HR_EVENT_ROW * sizeof *room, room,
                            numbers * sizeof *room, err);
  if (e->rows) {
    memcpy(room, e->rows + of->first * HR_EVENT_ROW, numbers * sizeof *room);
    return HR_OK;
  }
  const hr_event_file *file = &e->opened[sample->file];
  char place[4200];
  if (file->hdf5)
    HR_TRY(hr__events_hdf5_rows(file->hdf5, sample->number, interval, of->rows, room, room + numbers, err));
  else
    HR_TRY(hr__safetensors_read(file->prepared, file->rows, of->first * HR_EVENT_ROW * sizeof *room, room,
                                numbers * sizeof *room, err));
  snprintf(place, sizeof place, "%.4000s, sample %" PRIu32 ", interval %" PRIu32, e->files.list[sample->file].path,
           sample->number, interval);
  return hr__event_rows_check(room, of->rows, place, err);
}
