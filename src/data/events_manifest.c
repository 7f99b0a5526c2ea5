/* A manifest of recordings of raw events: a CSV file with columns file, label, split. See events.h.
 *
 * Files are named from the manifest's folder. Labels are all whole numbers from 0 on, or names, which are numbered in
 * the order of bytes. Rows of the split "train" are trained on, all others are held out.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/work.h"
#include "data/events.h"
#include "data/row_text.h"

enum { LABELS_MOST = 1 << 20 };

typedef struct listed {
  const char *path, *label;
  uint64_t line;
  bool held;
} listed;

typedef struct reading {
  hr_events *e;
  const char *path;   /* of the manifest */
  const char *folder; /* that it lies in */
  listed *list;
  size_t count, capacity;
} reading;

static hr_status row_take(void *user, const hr_row_at *at, hr_error *err) {
  reading *r = user;
  static const char *const columns[3] = {"file", "label", "split"};
  const char *text[3];
  if (!at->row->fields) return hr__row_refuse(at->row, err);
  for (int i = 0; i < 3; i++) {
    const hr_doc_node *node = hr__doc_get(at->row->fields, columns[i]);
    if (!node || node->kind != HR_DOC_SCALAR || !node->text[0])
      return hr__row_fail(at, "its first line is file,label,split, and every row has all three", err,
                          node ? "%s is empty" : "column %s is missing", columns[i]);
    text[i] = node->text;
  }
  if (hr__arena_grow(&r->e->arena, (void **)&r->list, &r->capacity, r->count, sizeof *r->list) != 0)
    return hr__nomem(err);
  listed *to = &r->list[r->count++];
  *to = (listed){.line = at->row->place.line, .held = strcmp(text[2], "train") != 0};
  to->label = hr__arena_text(&r->e->arena, text[1]);
  to->path = text[0][0] == '/' ? hr__arena_text(&r->e->arena, text[0])
                               : hr__arena_format(&r->e->arena, "%s/%s", r->folder, text[0]);
  return to->label && to->path ? HR_OK : hr__nomem(err);
}

static hr_status rows_read(reading *r, hr_error *err) {
  HR_TRY(hr__rows_each(r->path, row_take, r, err));
  if (r->count > 0) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, r->path, "give it a row file,label,split for each recording",
                  "there is no recording in it");
}

static bool label_number(const char *text, int64_t *out) {
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 9 || text[digits] != 0) return false;
  *out = strtoll(text, NULL, 10);
  return *out < LABELS_MOST;
}

static int name_compare(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of classes, each once, in order; none where all labels are numbers. */
static hr_status classes_find(reading *r, hr_error *err) {
  bool numbers = true;
  int64_t ignored;
  for (size_t i = 0; i < r->count; i++)
    numbers = numbers && label_number(r->list[i].label, &ignored);
  if (numbers) return HR_OK;
  r->e->classes = hr__arena_array(&r->e->arena, r->count, sizeof *r->e->classes);
  if (!r->e->classes) return hr__nomem(err);
  for (size_t i = 0; i < r->count; i++)
    r->e->classes[i] = r->list[i].label;
  qsort(r->e->classes, r->count, sizeof *r->e->classes, name_compare);
  for (size_t i = 0; i < r->count; i++)
    if (i == 0 || strcmp(r->e->classes[i], r->e->classes[r->e->n_classes - 1]) != 0)
      r->e->classes[r->e->n_classes++] = r->e->classes[i];
  return HR_OK;
}

static int32_t label_of(const reading *r, const listed *one) {
  int64_t number = 0;
  if (r->e->n_classes == 0) {
    label_number(one->label, &number);
    return (int32_t)number;
  }
  const char **found = bsearch(&one->label, r->e->classes, r->e->n_classes, sizeof *r->e->classes, name_compare);
  return (int32_t)(found - r->e->classes);
}

static hr_status recording_read(reading *r, size_t number, const hr_event_code *code, hr_event_grid *grid,
                                hr_event_list *raw, hr_error *err) {
  const listed *one = &r->list[number];
  hr_event_sample sample = {
      .label = label_of(r, one), .file = (uint32_t)one->line, .number = (uint32_t)number, .held = one->held};
  hr_data_file file;
  hr_error why = {0};
  hr_trace trace;
  char place[HR_ROW_PLACE];
  if (hr__data_file_at(one->path, &file, &why) != HR_OK)
    return hr__fail(err, HR_BAD_INPUT, hr__row_place(r->path, one->line, place),
                    "paths of the manifest begin at its folder", "%s", why.message);
  file.read_whole = true;
  hr_status status = hr__trace_file(&file, &trace, err);
  hr__data_file_close(&file);
  HR_TRY(status);
  hr__trace_add(&r->e->trace, &trace);
  HR_TRY(hr__events_raw(one->path, r->e->settings.unit_ms, raw, err));
  status = hr__events_make(r->e, code, grid, raw, number, &sample, err);
  if (status == HR_BAD_INPUT && err && !err->place[0]) snprintf(err->place, sizeof err->place, "%.250s", one->path);
  HR_TRY(status);
  hr__work_advance(file.bytes);
  return hr__event_sample_add(r->e, sample, err);
}

static hr_status recordings_read(reading *r, hr_event_code *code, hr_event_grid *grid, hr_error *err) {
  hr_event_list raw = {0};
  hr_status status = HR_OK;
  struct stat facts;
  hr__event_code(&r->e->settings, code);
  for (size_t i = 0; i < r->count; i++)
    if (stat(r->list[i].path, &facts) == 0) hr__work_expect((uint64_t)facts.st_size);
  for (size_t i = 0; i < r->count && status == HR_OK; i++)
    status = recording_read(r, i, code, grid, &raw, err);
  hr__free(raw.list);
  return status;
}

hr_status hr__events_manifest(hr_events *e, const char *path, hr_error *err) {
  const char *slash = strrchr(path, '/');
  reading r = {.e = e, .path = path, .folder = "."};
  if (slash) r.folder = hr__arena_format(&e->arena, "%.*s", (int)(slash - path), path);
  if (!r.folder) return hr__nomem(err);
  HR_TRY(rows_read(&r, err));
  HR_TRY(classes_find(&r, err));
  hr_event_code *code = hr__alloc_zero(1, sizeof *code);
  hr_event_grid *grid = hr__event_grid_create();
  hr_status status = code && grid ? recordings_read(&r, code, grid, err) : hr__nomem(err);
  hr__event_grid_destroy(grid);
  hr__free(code);
  return status;
}
