/* Files of `headroom prepare`: safetensors. See events.h.
 *
 *   rows       F32 [vectors, 132]  64 real parts, 64 imaginary parts, x, y, t, p
 *   intervals  I64 [intervals + 1] where the rows of each interval begin
 *   samples    I64 [samples + 1]   where the intervals of each sample begin
 *   labels     I64 [samples]       from 0 on
 *   encoding   F32 [3, 64]         T, X, Y of vectors that headroom has made; not of those that HDF5 files had
 *
 * The metadata has `format` and, where classes have names, those, one a line.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/work.h"
#include "data/events.h"
#include "format/file.h"

#define FORMAT "headroom events 1"

enum { SAMPLES_MOST = 1 << 24, NUMBERS = 4096 /* at a time */ };

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct reading {
  hr_events *e;
  uint32_t file;
  const char *path;
  hr_safetensors *from;
} reading;

static hr_status refuse(const reading *r, const char *tensor, hr_error *err, const char *what) {
  char place[4200];
  snprintf(place, sizeof place, "%.4000s, %s", r->path, tensor);
  return hr__fail(err, HR_BAD_INPUT, place, "make it anew with headroom prepare", "%s", what);
}

static hr_status tensor_find(const reading *r, const char *name, const char *dtype, int rank, const hr_safetensor **out,
                             hr_error *err) {
  const hr_safetensor *tensor = hr__safetensors_find(r->from, name);
  if (!tensor) return refuse(r, name, err, "the file has no such tensor: it is not one of headroom prepare");
  if (strcmp(tensor->dtype, dtype) != 0 || tensor->rank != rank)
    return refuse(r, name, err, "it has another type or number of axes than such files have");
  *out = tensor;
  return HR_OK;
}

/* A list of whole numbers, in `arena`. */
static hr_status list_read(const reading *r, const char *name, hr_arena *arena, int64_t most, int64_t **out,
                           int64_t *count, hr_error *err) {
  const hr_safetensor *tensor = NULL;
  HR_TRY(tensor_find(r, name, "I64", 1, &tensor, err));
  *count = tensor->dim[0];
  if (*count < 1 || *count > most) return refuse(r, name, err, "it is empty or too long");
  *out = hr__arena_room(arena, (size_t)*count, sizeof **out);
  if (!*out) return hr__nomem(err);
  return hr__safetensors_read(r->from, tensor, 0, *out, (size_t)*count * sizeof **out, err);
}

/* Where parts of `all` begin: from 0 to `all`, never falling. */
static hr_status begins_check(const reading *r, const char *name, const int64_t *begins, int64_t parts, int64_t all,
                              hr_error *err) {
  for (int64_t i = 0; i < parts; i++)
    if (begins[0] != 0 || begins[i + 1] < begins[i] || begins[parts] != all)
      return refuse(r, name, err, "its numbers do not rise from 0 to the number of what they divide");
  return HR_OK;
}

static hr_status samples_take(reading *r, const hr_safetensor *rows, const int64_t *samples, const int64_t *labels,
                              int64_t n_samples, const int64_t *intervals, int64_t n_intervals, int64_t classes,
                              hr_error *err) {
  hr_events *e = r->e;
  HR_TRY(begins_check(r, "samples", samples, n_samples, n_intervals, err));
  HR_TRY(begins_check(r, "intervals", intervals, n_intervals, rows->dim[0], err));
  for (int64_t i = 0; i < n_samples; i++) {
    char name[64];
    snprintf(name, sizeof name, "labels, sample %" PRId64, i);
    if (labels[i] < 0 || labels[i] > INT32_MAX || (classes > 0 && labels[i] >= classes))
      return refuse(r, name, err, "its label is none of model.config.num_classes classes, counted from 0");
    hr_event_sample sample = {.label = (int32_t)labels[i],
                              .file = r->file,
                              .number = (uint32_t)i,
                              .intervals = e->n_intervals,
                              .n_intervals = (uint32_t)(samples[i + 1] - samples[i])};
    for (int64_t k = samples[i]; k < samples[i + 1]; k++) {
      int64_t count = intervals[k + 1] - intervals[k];
      if (count > INT32_MAX / HR_EVENT_ROW) return refuse(r, "intervals", err, "an interval has too many vectors");
      HR_TRY(hr__event_interval_add(e, (hr_event_interval){(uint64_t)intervals[k], (uint32_t)count}, err));
    }
    HR_TRY(hr__event_sample_add(e, sample, err));
  }
  return HR_OK;
}

static hr_status names_take(const reading *r, hr_error *err) {
  const char *text = hr__safetensors_metadata(r->from, "classes");
  hr_events *e = r->e;
  if (!text || !text[0] || e->n_classes > 0) return HR_OK;
  size_t count = 1;
  for (const char *at = text; *at; at++)
    count += *at == '\n';
  e->classes = hr__arena_array(&e->arena, count, sizeof *e->classes);
  if (!e->classes) return hr__nomem(err);
  for (const char *at = text, *end; e->n_classes < count; at = end + 1) {
    end = at + strcspn(at, "\n");
    e->classes[e->n_classes] = hr__arena_format(&e->arena, "%.*s", (int)(end - at), at);
    if (!e->classes[e->n_classes++]) return hr__nomem(err);
  }
  return HR_OK;
}

static hr_status file_take(reading *r, hr_arena *work, int64_t classes, hr_error *err) {
  int64_t *samples, *intervals, *labels, n_samples, n_intervals, n_labels;
  const hr_safetensor *rows = NULL;
  const char *format = hr__safetensors_metadata(r->from, "format");
  if (!format || strcmp(format, FORMAT) != 0)
    return refuse(r, "metadata", err, "it is not a file of headroom prepare: its format is not \"" FORMAT "\"");
  HR_TRY(tensor_find(r, "rows", "F32", 2, &rows, err));
  if (rows->dim[1] != HR_EVENT_ROW) return refuse(r, "rows", err, "its shape is not [vectors, 132]");
  HR_TRY(list_read(r, "samples", work, SAMPLES_MOST, &samples, &n_samples, err));
  HR_TRY(list_read(r, "intervals", work, INT32_MAX, &intervals, &n_intervals, err));
  HR_TRY(list_read(r, "labels", work, SAMPLES_MOST, &labels, &n_labels, err));
  if (n_labels != n_samples - 1) return refuse(r, "labels", err, "there is not one label for each sample");
  HR_TRY(names_take(r, err));
  r->e->opened[r->file].rows = rows;
  return samples_take(r, rows, samples, labels, n_labels, intervals, n_intervals - 1, classes, err);
}

hr_status hr__events_prepared(hr_events *e, uint32_t file, int64_t classes, hr_error *err) {
  reading r = {.e = e, .file = file, .path = e->files.list[file].path};
  hr_arena work = {0};
  HR_TRY(hr__safetensors_open(r.path, &e->opened[file].prepared, err));
  r.from = e->opened[file].prepared;
  hr_status status = file_take(&r, &work, classes, err);
  hr__arena_fini(&work);
  return status;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

typedef struct writing {
  const hr_events *e;
  bool held;
  hr_safetensors_writer *to;
  int64_t part[NUMBERS]; /* numbers on their way into the file */
  size_t n_part;
  float *room;
} writing;

static hr_status numbers_flush(writing *w, hr_error *err) {
  size_t count = w->n_part;
  w->n_part = 0;
  return hr__safetensors_writer_put(w->to, w->part, count * sizeof *w->part, err);
}

static hr_status number_put(writing *w, int64_t number, hr_error *err) {
  if (w->n_part == NUMBERS) HR_TRY(numbers_flush(w, err));
  w->part[w->n_part++] = number;
  return HR_OK;
}

/* What is written, sample by sample: in the order of the file's tensors. */
static hr_status sample_rows(writing *w, const hr_event_sample *sample, hr_error *err) {
  for (uint32_t k = 0; k < sample->n_intervals; k++) {
    size_t bytes = (size_t)w->e->intervals[sample->intervals + k].rows * HR_EVENT_ROW * sizeof(float);
    if (bytes == 0) continue;
    HR_TRY(hr__events_rows(w->e, sample, k, w->room, err));
    HR_TRY(hr__safetensors_writer_put(w->to, w->room, bytes, err));
    hr__work_advance(bytes);
  }
  return HR_OK;
}

static hr_status lists_write(writing *w, hr_error *err) {
  const hr_events *e = w->e;
  int64_t rows = 0, intervals = 0;
  HR_TRY(number_put(w, 0, err));
  for (size_t i = 0; i < e->n_samples; i++)
    for (uint32_t k = 0; k < e->samples[i].n_intervals && e->samples[i].held == w->held; k++)
      HR_TRY(number_put(w, rows += e->intervals[e->samples[i].intervals + k].rows, err));
  HR_TRY(number_put(w, 0, err));
  for (size_t i = 0; i < e->n_samples; i++)
    if (e->samples[i].held == w->held) HR_TRY(number_put(w, intervals += e->samples[i].n_intervals, err));
  for (size_t i = 0; i < e->n_samples; i++)
    if (e->samples[i].held == w->held) HR_TRY(number_put(w, e->samples[i].label, err));
  return numbers_flush(w, err);
}

static hr_status all_write(writing *w, bool encoded, hr_error *err) {
  for (size_t i = 0; i < w->e->n_samples; i++)
    if (w->e->samples[i].held == w->held) HR_TRY(sample_rows(w, &w->e->samples[i], err));
  HR_TRY(lists_write(w, err));
  if (!encoded) return HR_OK;
  hr_event_code *code = hr__alloc_zero(1, sizeof *code);
  if (!code) return hr__nomem(err);
  hr__event_code(&w->e->settings, code);
  const float *of[] = {code->t, code->x, code->y};
  hr_status status = HR_OK;
  for (int i = 0; i < 3 && status == HR_OK; i++)
    status = hr__safetensors_writer_put(w->to, of[i], sizeof code->t, err);
  hr__free(code);
  return status;
}

static hr_status file_write(writing *w, const char *path, const char *classes, hr_error *err) {
  int64_t rows = 0, intervals = 0, samples = 0;
  const hr_events *e = w->e;
  for (size_t i = 0; i < e->n_samples; i++) {
    if (e->samples[i].held != w->held) continue;
    samples++;
    intervals += e->samples[i].n_intervals;
    for (uint32_t k = 0; k < e->samples[i].n_intervals; k++)
      rows += e->intervals[e->samples[i].intervals + k].rows;
  }
  bool encoded = e->rows != NULL;
  const hr_safetensor tensors[] = {{.name = "rows", .dtype = "F32", .rank = 2, .dim = {rows, HR_EVENT_ROW}},
                                   {.name = "intervals", .dtype = "I64", .rank = 1, .dim = {intervals + 1}},
                                   {.name = "samples", .dtype = "I64", .rank = 1, .dim = {samples + 1}},
                                   {.name = "labels", .dtype = "I64", .rank = 1, .dim = {samples}},
                                   {.name = "encoding", .dtype = "F32", .rank = 2, .dim = {3, HR_EVENT_DIM}}};
  const char *metadata[] = {"format", FORMAT, "classes", classes, NULL};
  char hex[HR_SHA256_HEX];
  uint64_t bytes;
  hr__work_expect((uint64_t)rows * HR_EVENT_ROW * sizeof(float));
  HR_TRY(hr__safetensors_writer_open(path, tensors, encoded ? 5 : 4, metadata, &w->to, err));
  HR_TRY(all_write(w, encoded, err));
  return hr__safetensors_writer_finish(w->to, hex, &bytes, err);
}

static hr_status names_join(const hr_events *e, hr_arena *arena, const char **out, hr_error *err) {
  const char *all = "";
  for (size_t i = 0; i < e->n_classes && all; i++)
    all = hr__arena_format(arena, "%s%s%s", all, i > 0 ? "\n" : "", e->classes[i]);
  *out = all;
  return all ? HR_OK : hr__nomem(err);
}

hr_status hr__events_write(const hr_events *e, bool held, const char *path, hr_error *err) {
  hr_arena work = {0};
  const char *classes = NULL;
  char *part = hr__arena_format(&work, "%s.tmp", path);
  writing *w = hr__alloc_zero(1, sizeof *w);
  hr_status status = part && w ? names_join(e, &work, &classes, err) : hr__nomem(err);
  if (status == HR_OK) {
    *w = (writing){.e = e, .held = held, .room = hr__alloc_zero(hr__events_room(e), sizeof *w->room)};
    status = w->room ? file_write(w, part, classes, err) : hr__nomem(err);
    hr__safetensors_writer_destroy(w->to);
    if (status == HR_OK && hr__file_calls.rename(part, path) != 0)
      status = hr__fail_errno(err, path, "rename to", errno);
    if (status != HR_OK) hr__file_calls.unlink(part);
    hr__free(w->room);
  }
  hr__free(w);
  hr__arena_fini(&work);
  return status;
}
