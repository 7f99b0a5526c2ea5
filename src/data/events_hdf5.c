/* HDF5 files of vectors, as GestureRecognitionNew writes them. See events.h.
 *
 *   labels                          [samples], from 1 on
 *   num_intervals                   [samples]
 *   class_names                     (optional) texts
 *   sample_%06d/interval_%03d/real, imag [n, 64], event_coords [n, 4]: x, y, t, p
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/work.h"
#include "data/events.h"

enum { NAME = 96, SAMPLES_MOST = 1 << 24 };

static hr_status refuse(const hr_events *e, uint32_t file, const char *name, hr_error *err, const char *what) {
  char place[4200];
  snprintf(place, sizeof place, "%.4000s, %.100s", e->files.list[file].path, name);
  return hr__fail(err, HR_BAD_INPUT, place, "write the file again; docs/data.md has its layout", "%s", what);
}

/* A dataset of an interval: [n, columns]; n -1: not known yet. */
static hr_status shape_check(hr_events *e, uint32_t file, const char *group, const char *set, int64_t columns,
                             int64_t *n, hr_error *err) {
  char name[NAME];
  hr_hdf5_shape shape;
  snprintf(name, sizeof name, "%s/%s", group, set);
  HR_TRY(hr__hdf5_shape(e->opened[file].hdf5, name, &shape, err));
  if (shape.rank != 2 || shape.dim[1] != columns)
    return refuse(e, file, name, err,
                  columns == 4 ? "its shape is not [vectors, 4]" : "its shape is not [vectors, 64]");
  if (*n >= 0 && *n != shape.dim[0])
    return refuse(e, file, name, err, "it has another number of vectors than the interval's other datasets");
  if (shape.dim[0] > INT32_MAX / HR_EVENT_ROW) return refuse(e, file, name, err, "it has too many vectors");
  *n = shape.dim[0];
  return HR_OK;
}

static hr_status interval_take(hr_events *e, uint32_t file, int64_t sample, int64_t interval, hr_error *err) {
  char group[NAME];
  int64_t n = -1;
  snprintf(group, sizeof group, "sample_%06" PRId64 "/interval_%03" PRId64, sample, interval);
  HR_TRY(shape_check(e, file, group, "real", HR_EVENT_DIM, &n, err));
  HR_TRY(shape_check(e, file, group, "imag", HR_EVENT_DIM, &n, err));
  HR_TRY(shape_check(e, file, group, "event_coords", 4, &n, err));
  return hr__event_interval_add(e, (hr_event_interval){.first = (uint64_t)interval, .rows = (uint32_t)n}, err);
}

static hr_status sample_take(hr_events *e, uint32_t file, int64_t number, int64_t label, int64_t intervals,
                             int64_t classes, hr_error *err) {
  char name[NAME];
  snprintf(name, sizeof name, "sample %" PRId64, number);
  if (label < 1 || label > INT32_MAX || (classes > 0 && label > classes))
    return refuse(e, file, name, err,
                  classes > 0 && label >= 1 ? "its label is above model.config.num_classes: labels are counted from 1"
                                            : "its label is below 1: labels are counted from 1");
  if (intervals < 0 || intervals >= HR_EVENT_INTERVALS)
    return refuse(e, file, name, err, "its num_intervals is no number of intervals");
  hr_event_sample sample = {.label = (int32_t)(label - 1),
                            .file = file,
                            .number = (uint32_t)number,
                            .intervals = e->n_intervals,
                            .n_intervals = (uint32_t)intervals};
  for (int64_t i = 0; i < intervals; i++)
    HR_TRY(interval_take(e, file, number, i, err));
  return hr__event_sample_add(e, sample, err);
}

static hr_status samples_take(hr_events *e, uint32_t file, int64_t samples, int64_t *numbers, int64_t classes,
                              hr_error *err) {
  hr_hdf5 *of = e->opened[file].hdf5;
  HR_TRY(hr__hdf5_whole(of, "labels", samples, numbers, err));
  HR_TRY(hr__hdf5_whole(of, "num_intervals", samples, numbers + samples, err));
  uint64_t bytes = e->files.list[file].bytes;
  hr__work_expect(bytes);
  for (int64_t i = 0; i < samples; i++) {
    HR_TRY(sample_take(e, file, i, numbers[i], numbers[samples + i], classes, err));
    hr__work_advance(bytes / (uint64_t)samples);
  }
  return HR_OK;
}

/* Names of classes, where the file has any. */
static hr_status names_take(hr_events *e, uint32_t file, hr_error *err) {
  hr_hdf5 *of = e->opened[file].hdf5;
  hr_hdf5_shape shape;
  if (e->n_classes > 0 || !hr__hdf5_has(of, "class_names")) return HR_OK;
  HR_TRY(hr__hdf5_shape(of, "class_names", &shape, err));
  if (shape.rank != 1 || shape.dim[0] > SAMPLES_MOST)
    return refuse(e, file, "class_names", err, "it is not a list of names");
  e->classes = hr__arena_array(&e->arena, (size_t)shape.dim[0] + 1, sizeof *e->classes);
  if (!e->classes) return hr__nomem(err);
  HR_TRY(hr__hdf5_texts(of, "class_names", shape.dim[0], &e->arena, e->classes, err));
  e->n_classes = (size_t)shape.dim[0];
  return HR_OK;
}

hr_status hr__events_hdf5(hr_events *e, uint32_t file, int64_t classes, hr_error *err) {
  hr_hdf5_shape shape;
  HR_TRY(hr__hdf5_open(e->files.list[file].path, &e->opened[file].hdf5, err));
  HR_TRY(hr__hdf5_shape(e->opened[file].hdf5, "labels", &shape, err));
  if (shape.rank != 1 || shape.dim[0] < 1 || shape.dim[0] > SAMPLES_MOST)
    return refuse(e, file, "labels", err, "it is not a list of labels, one for each sample");
  HR_TRY(names_take(e, file, err));
  int64_t *numbers = hr__alloc_zero((size_t)shape.dim[0], 2 * sizeof *numbers);
  if (!numbers) return hr__nomem(err);
  hr_status status = samples_take(e, file, shape.dim[0], numbers, classes, err);
  hr__free(numbers);
  return status;
}

/* Columns of a dataset go into rows of vectors and places. */
static void columns_spread(const float *from, int64_t n, int64_t columns, int64_t first, float *out) {
  for (int64_t i = 0; i < n; i++)
    memcpy(out + i * HR_EVENT_ROW + first, from + i * columns, (size_t)columns * sizeof *out);
}

hr_status hr__events_hdf5_rows(hr_hdf5 *file, uint32_t sample, uint32_t interval, uint32_t rows, float *out,
                               float *columns, hr_error *err) {
  static const struct {
    const char *name;
    int64_t first, columns;
  } sets[] = {{"real", 0, HR_EVENT_DIM}, {"imag", HR_EVENT_DIM, HR_EVENT_DIM}, {"event_coords", HR_EVENT_WIDTH, 4}};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    char name[NAME];
    snprintf(name, sizeof name, "sample_%06" PRIu32 "/interval_%03" PRIu32 "/%s", sample, interval, sets[i].name);
    HR_TRY(hr__hdf5_floats(file, name, rows * sets[i].columns, columns, err));
    columns_spread(columns, rows, sets[i].columns, sets[i].first, out);
  }
  return HR_OK;
}
