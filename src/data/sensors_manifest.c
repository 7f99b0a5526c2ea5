/* The manifest: which recordings there are, and where the streams of each lie. See sensors.h.
 *
 * Streams are the columns NAME_csv, or those of them that data.sensors.streams names, in the order of their names. A
 * stream has as many channels in every recording as in the first.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/row_text.h"
#include "data/sensors.h"

enum { CHANNELS_MOST = 1 << 20, SAMPLES_MOST = 1 << 24 };

typedef struct reading {
  hr_sensors *s;
  size_t capacity;
} reading;

static const char *column_name(const char *stream, const char *what, char out[200]) {
  snprintf(out, 200, "%.150s%s", stream, what);
  return out;
}

static int name_compare(const void *a, const void *b) {
  return strcmp(((const hr_asked_stream *)a)->name, ((const hr_asked_stream *)b)->name);
}

static hr_status stream_add(hr_sensors *s, const char *name, size_t bytes, hr_error *err) {
  if (s->n_streams == HR_STREAMS || bytes > 100)
    return hr__fail(err, HR_BAD_INPUT, s->settings.manifest, "name those to take in data.sensors.streams",
                    "there are more than %d streams, or one has a name of more than 100 bytes", HR_STREAMS);
  char *copy = hr__arena_format(&s->arena, "%.*s", (int)bytes, name);
  s->streams[s->n_streams++] = (hr_asked_stream){.name = copy};
  return copy ? HR_OK : hr__nomem(err);
}

/* Which streams there are, by the names of columns, which every row has. */
static hr_status streams_find(hr_sensors *s, const hr_doc_node *row, hr_error *err) {
  static const char *const needed[] = {"subject", "split", "activity_index", "activity_name"};
  static const char *const of_stream[] = {"_csv", "_rate_hz", "_channels"};
  const char *manifest = s->settings.manifest;
  char column[200];
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (!hr__doc_get(row, needed[i]))
      return hr__fail(err, HR_BAD_INPUT, manifest, "its first line names the columns", "column %s is missing",
                      needed[i]);
  s->streams = hr__arena_array(&s->arena, HR_STREAMS, sizeof *s->streams);
  if (!s->streams) return hr__nomem(err);
  for (size_t i = 0; i < s->settings.n_names; i++)
    HR_TRY(stream_add(s, s->settings.names[i], strlen(s->settings.names[i]), err));
  for (const hr_doc_node *node = row->child; node && s->settings.n_names == 0; node = node->next) {
    size_t bytes = strlen(node->key);
    if (bytes > 4 && strcmp(node->key + bytes - 4, "_csv") == 0) HR_TRY(stream_add(s, node->key, bytes - 4, err));
  }
  if (s->n_streams == 0)
    return hr__fail(err, HR_BAD_INPUT, manifest, "give each stream columns NAME_csv, NAME_rate_hz and NAME_channels",
                    "there is no stream: no column ends with _csv");
  qsort(s->streams, (size_t)s->n_streams, sizeof *s->streams, name_compare);
  for (int i = 0; i < s->n_streams; i++)
    for (int k = 0; k < 3; k++)
      if (!hr__doc_get(row, column_name(s->streams[i].name, of_stream[k], column)))
        return hr__fail(err, HR_BAD_INPUT, manifest,
                        "give each stream columns NAME_csv, NAME_rate_hz and NAME_channels, or choose others in "
                        "data.sensors.streams",
                        "column %s is missing", column);
  return HR_OK;
}

/* A whole number of a row. */
static bool whole_of(const hr_doc_node *node, double least, double most, int64_t *out) {
  double value;
  if (!hr__row_number(node, &value) || value != floor(value) || value < least || value > most) return false;
  *out = (int64_t)value;
  return true;
}

static hr_status stream_read(const reading *r, const hr_row_at *at, int number, hr_recorded *out, int64_t *channels,
                             hr_error *err) {
  const hr_sensors *s = r->s;
  char column[200];
  const char *name = s->streams[number].name;
  const hr_doc_node *path = hr__doc_get(at->row->fields, column_name(name, "_csv", column));
  if (path->kind != HR_DOC_SCALAR || !path->text[0])
    return hr__row_fail(at, "name its file, or choose streams that all recordings have in data.sensors.streams", err,
                        "%s is empty", column);
  out->path = path->text[0] == '/' ? hr__arena_text(&r->s->arena, path->text)
                                   : hr__arena_format(&r->s->arena, "%s/%s", s->settings.folder, path->text);
  if (!out->path) return hr__nomem(err);
  const hr_doc_node *rate = hr__doc_get(at->row->fields, column_name(name, "_rate_hz", column));
  if (!hr__row_number(rate, &out->rate) || !(out->rate > 0))
    return hr__row_fail(at, "give the samples a second of the stream", err, "%s is not a number above 0", column);
  double samples = s->settings.patch_seconds * out->rate;
  if (!(samples >= 1 && samples <= SAMPLES_MOST))
    return hr__row_fail(at, "choose another data.sensors.patch_duration_s", err,
                        "a patch has less than one sample or more than 16777216 by %s", column);
  const hr_doc_node *count = hr__doc_get(at->row->fields, column_name(name, "_channels", column));
  if (!whole_of(count, 1, CHANNELS_MOST, channels))
    return hr__row_fail(at, "give the number of columns beside time_s", err, "%s is not a whole number above 0",
                        column);
  if (s->streams[number].channels > 0 && s->streams[number].channels != *channels) {
    char differs[240];
    snprintf(differs, sizeof differs, "%s is %" PRId64 ", but %" PRId64 " in recordings before", column, *channels,
             s->streams[number].channels);
    return hr__row_fail(at, "recordings have the same channels", err, "%s", differs);
  }
  return HR_OK;
}

/* Every row has the columns of the first, and an empty cell of a table is a text, not one that is missing. */
static hr_status text_of(const reading *r, const hr_row_at *at, const char *column, const char **out, hr_error *err) {
  const hr_doc_node *node = hr__doc_get(at->row->fields, column);
  if (node->kind != HR_DOC_SCALAR) return hr__row_fail(at, "write it as a text", err, "%s is not a text", column);
  *out = hr__arena_text(&r->s->arena, node->text);
  return *out ? HR_OK : hr__nomem(err);
}

static hr_status recording_read(reading *r, const hr_row_at *at, hr_recording *out, hr_error *err) {
  hr_sensors *s = r->s;
  HR_TRY(hr__row_parsed(at, err));
  *out = (hr_recording){.line = at->row->place.line};
  HR_TRY(text_of(r, at, "subject", &out->subject, err));
  HR_TRY(text_of(r, at, "split", &out->split, err));
  HR_TRY(text_of(r, at, "activity_name", &out->name, err));
  if (!out->subject[0]) return hr__row_fail(at, "say whose recording it is", err, "%s is empty", "subject");
  if (!whole_of(hr__doc_get(at->row->fields, "activity_index"), -1e15, 1e15, &out->activity))
    return hr__row_fail(at, "number the activities of a subject", err, "%s is not a whole number", "activity_index");
  hr_recorded *streams = hr__arena_array(&s->arena, (size_t)s->n_streams, sizeof *streams);
  int64_t channels[HR_STREAMS];
  if (!streams) return hr__nomem(err);
  out->streams = streams;
  for (int i = 0; i < s->n_streams; i++)
    HR_TRY(stream_read(r, at, i, &streams[i], &channels[i], err));
  int64_t size = hr__patch_samples(s->settings.patch_seconds, streams[0].rate);
  out->patch_size = (int32_t)(size < HR_PATCH_SIZE_MOST ? size : HR_PATCH_SIZE_MOST);
  for (int i = 0; i < s->n_streams; i++)
    s->streams[i].channels = channels[i];
  return HR_OK;
}

static hr_status row_read(void *user, const hr_row_at *at, hr_error *err) {
  reading *r = user;
  hr_sensors *s = r->s;
  hr_error why = {0};
  s->bad_recordings.rows++;
  if (at->row->fields && !s->streams) HR_TRY(streams_find(s, at->row->fields, err));
  if (s->n_recordings == INT32_MAX - 1 ||
      hr__arena_grow(&s->arena, (void **)&s->recordings, &r->capacity, s->n_recordings, sizeof *s->recordings) != 0)
    return hr__nomem(err);
  hr_status status = recording_read(r, at, &s->recordings[s->n_recordings], &why);
  if (status == HR_BAD_INPUT) return hr__bad_row(&s->bad_recordings, &why, err);
  if (status != HR_OK) return hr__nomem(err);
  s->n_recordings++;
  return HR_OK;
}

static int key_compare(const hr_recording *a, const char *subject, const char *split, int64_t activity) {
  int order = strcmp(a->subject, subject);
  if (order == 0) order = strcmp(a->split, split);
  return order != 0 ? order : (a->activity > activity) - (a->activity < activity);
}

static int recording_compare(const void *a, const void *b) {
  const hr_recording *x = a, *y = b;
  int order = key_compare(x, y->subject, y->split, y->activity);
  return order != 0 ? order : (x->line > y->line) - (x->line < y->line);
}

int64_t hr__recording_find(const hr_sensors *s, const char *subject, const char *split, int64_t activity) {
  size_t low = 0, high = s->n_recordings;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (key_compare(&s->recordings[middle], subject, split, activity) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  bool there = low < s->n_recordings && key_compare(&s->recordings[low], subject, split, activity) == 0;
  return there ? (int64_t)low : -1;
}

/* In order, each once: of two that are named the same nobody could say which is meant. */
static hr_status recordings_sort(hr_sensors *s, hr_error *err) {
  size_t kept = 0;
  if (s->n_recordings > 0) qsort(s->recordings, s->n_recordings, sizeof *s->recordings, recording_compare);
  for (size_t i = 0; i < s->n_recordings; i++) {
    const hr_recording *one = &s->recordings[i], *before = kept > 0 ? &s->recordings[kept - 1] : NULL;
    if (!before || key_compare(before, one->subject, one->split, one->activity) != 0) {
      s->recordings[kept++] = *one;
      continue;
    }
    hr_error why = {0};
    char place[HR_ROW_PLACE];
    hr__fail(&why, HR_BAD_INPUT, hr__row_place(s->settings.manifest, one->line, place),
             "number the activities of a subject and split from 0 on",
             "activity %" PRId64 " of subject %.60s, split %.60s is in line %" PRIu64 " already", one->activity,
             one->subject, one->split, before->line);
    HR_TRY(hr__bad_row(&s->bad_recordings, &why, err));
  }
  s->n_recordings = kept;
  return HR_OK;
}

hr_status hr__sensors_manifest(hr_sensors *s, hr_error *err) {
  reading r = {.s = s};
  HR_TRY(hr__rows_each(s->settings.manifest, row_read, &r, err));
  HR_TRY(recordings_sort(s, err));
  if (s->bad_recordings.rows == 0)
    return hr__fail(err, HR_BAD_INPUT, s->settings.manifest, "give it a row for each recording",
                    "there is no recording in it");
  HR_TRY(hr__bad_rows_judge(&s->bad_recordings, err));
  for (int i = 0; i < s->n_streams; i++)
    s->channels += s->streams[i].channels;
  return HR_OK;
}
