/* Rows of recordings. See clips.h. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "data/clips.h"
#include "data/row_text.h"

/* A row while it is read. */
typedef struct reading {
  hr_clips *c;
  const hr_source_request *request;
  const hr_row_at *at;
} reading;

hr_status hr__clip_refuse(const hr_clips *c, uint64_t line, const hr_error *why, hr_error *err) {
  char place[HR_ROW_PLACE];
  return hr__fail(err, HR_BAD_INPUT, hr__row_place(c->file.path, line, place), why->remedy, "%s: %s", why->place,
                  why->message);
}

static hr_status array_look(const reading *r, const hr_field *field, hr_clip_video *video, hr_error *err) {
  hr_error why = {0};
  hr_status status = hr__clip_array(video->path, field, &video->begin, &why);
  if (status == HR_BAD_INPUT) return hr__clip_refuse(r->c, r->at->row->place.line, &why, err);
  if (status != HR_OK && err) *err = why;
  return status;
}

/* The path of a video beside the rows, where the model reads it; arrays are checked. */
static hr_status video_of(const reading *r, int kind, const char *key, bool needed, hr_clip_video *out, hr_error *err) {
  static const char remedy[] = "give the path of a video, or of a .npy file";
  const hr_doc_node *node = hr__doc_get(r->at->row->fields, key);
  struct stat facts;
  hr_fields one = hr__fields_of_one(r->request->fields);
  const hr_field *field = hr__field_named(&one, hr_clip_fields[kind]);
  if (!field) return HR_OK;
  if (!node || hr__doc_is_null(node)) return needed ? hr__row_fail(r->at, remedy, err, "%s is missing", key) : HR_OK;
  if (node->kind != HR_DOC_SCALAR || node->text[0] == '\0')
    return hr__row_fail(r->at, remedy, err, "%s is not a path", key);
  const char *slash = strrchr(r->c->file.path, '/');
  int folder = slash && node->text[0] != '/' ? (int)(slash - r->c->file.path + 1) : 0;
  out->path = hr__arena_format(&r->c->arena, "%.*s%s", folder, r->c->file.path, node->text);
  if (!out->path) return hr__nomem(err);
  out->name = out->path + folder;
  out->film = !hr__video_is_array(out->path);
  if (stat(out->path, &facts) != 0) {
    char what[600];
    snprintf(what, sizeof what, "%.400s: %.120s", node->text, strerror(errno));
    return hr__row_fail(r->at, "put it where it is looked for, or leave the row out", err, "there is no video %s",
                        what);
  }
  return out->film ? HR_OK : array_look(r, field, out, err);
}

/* A list of up to `rows` lists of `columns` numbers each, all or a part of what is under `key`; gives how many there
 * are. */
static hr_status list_of(const reading *r, const char *key, const hr_doc_node *list, int rows, int columns, double *out,
                         int *count, hr_error *err) {
  char most[32];
  snprintf(most, sizeof most, "give %d at most", rows);
  *count = 0;
  if (!list || list->kind != HR_DOC_LIST)
    return hr__row_fail(r->at, "write it as lists of numbers", err, "%s is missing", key);
  for (const hr_doc_node *one = list->child; one; one = one->next, ++*count) {
    int column = 0;
    if (*count == rows) return hr__row_fail(r->at, most, err, "%s has too many rows", key);
    const hr_doc_node *number = one->kind == HR_DOC_LIST ? one->child : NULL;
    for (; number && column < columns; number = number->next, column++)
      if (!hr__row_number(number, &out[*count * columns + column])) break;
    if (number || column != columns)
      return hr__row_fail(r->at, "write rows of as many numbers as docs/data.md says", err,
                          "%s has a row of another length, or one that is not of numbers", key);
  }
  return HR_OK;
}

static hr_status table_of(const reading *r, const char *key, int rows, int columns, double *out, int *count,
                          hr_error *err) {
  return list_of(r, key, hr__doc_get(r->at->row->fields, key), rows, columns, out, count, err);
}

/* Of each frame a list of spots: x, y, width, height (parts of the frame's) and brightness. */
static hr_status spots_of(const reading *r, int64_t frames, hr_spot_list **out, hr_error *err) {
  const hr_doc_node *list = hr__doc_get(r->at->row->fields, "spots");
  int64_t t = 0;
  if (!list || list->kind != HR_DOC_LIST)
    return hr__row_fail(r->at, "give a list of spots for each frame", err, "%s is missing", "spots");
  *out = hr__arena_alloc(&r->c->arena, (size_t)frames * sizeof **out);
  if (!*out) return hr__nomem(err);
  for (const hr_doc_node *one = list->child; one; one = one->next, t++) {
    double number[HR_SPOTS][HR_SPOT_NUMBERS];
    if (t == frames) return hr__row_fail(r->at, "give one for each frame", err, "%s has too many lists", "spots");
    HR_TRY(list_of(r, "spots", one, HR_SPOTS, HR_SPOT_NUMBERS, number[0], &(*out)[t].count, err));
    for (int i = 0; i < (*out)[t].count; i++) {
      float *to = (*out)[t].number[i];
      for (int k = 0; k < HR_SPOT_NUMBERS; k++)
        to[k] = (float)number[i][k];
      for (int k = HR_SPOT_WIDTH; k < HR_SPOT_NUMBERS; k++)
        if (!(to[k] >= 0 && to[k] <= 1))
          return hr__row_fail(r->at, "write width and height as parts of the frame's, brightness from 0 to 1", err,
                              "%s has one whose width, height or brightness is not from 0 to 1", "spots");
      if (!hr__spot_seen(to))
        return hr__row_fail(r->at, "write x and y as parts of the frame's width and height", err,
                            "%s has one whose middle is outside of its frame", "spots");
    }
  }
  if (t == frames) return HR_OK;
  return hr__row_fail(r->at, "give a list for each frame, empty ones too", err, "%s are not of all frames", "spots");
}

static hr_status whole_of(const reading *r, const char *key, int64_t most, int64_t *out, hr_error *err) {
  const hr_doc_node *node = hr__doc_get(r->at->row->fields, key);
  double number;
  bool truth;
  if (node && hr__doc_bool(node, &truth) && most == 1) {
    *out = truth;
    return HR_OK;
  }
  if (!node || !hr__row_number(node, &number) || number != floor(number) || number < 0 || number > (double)most)
    return hr__row_fail(r->at, "write a whole number; labels are 0 or 1", err, "%s is missing, or out of range", key);
  *out = (int64_t)number;
  return HR_OK;
}

static hr_status motion_of(const reading *r, hr_recording *out, hr_error *err) {
  double motion[HR_MOTION_INSTANTS][HR_MOTION_NUMBERS], features[HR_MOTION_FEATURES];
  int count;
  HR_TRY(table_of(r, "motion", HR_MOTION_INSTANTS, HR_MOTION_NUMBERS, motion[0], &count, err));
  if (count != HR_MOTION_INSTANTS) return hr__row_fail(r->at, "give three instants", err, "%s is too short", "motion");
  hr__motion_features((const double(*)[HR_MOTION_NUMBERS])motion, features);
  for (int i = 0; i < HR_CLIP_MOTION; i++)
    out->motion[i] = (float)motion[i / HR_MOTION_NUMBERS][i % HR_MOTION_NUMBERS];
  for (int i = 0; i < HR_MOTION_FEATURES; i++)
    out->features[i] = (float)features[i];
  return HR_OK;
}

static hr_status tracks_of(const reading *r, hr_recording *out, hr_error *err) {
  double curves[HR_CLIP_TRACKS * HR_CLIP_INSTANTS] = {0}, areas[HR_CLIP_TRACKS * HR_CLIP_INSTANTS] = {0};
  int count, others;
  HR_TRY(table_of(r, "curves", HR_CLIP_TRACKS, HR_CLIP_INSTANTS, curves, &count, err));
  HR_TRY(table_of(r, "areas", HR_CLIP_TRACKS, HR_CLIP_INSTANTS, areas, &others, err));
  if (count != others)
    return hr__row_fail(r->at, "give as many", err, "curves and %s are not of the same tracks", "areas");
  for (int i = 0; i < HR_CLIP_TRACKS * HR_CLIP_INSTANTS; i++) {
    out->curves[i] = (float)curves[i];
    out->areas[i] = (float)areas[i];
    out->tracks[i / HR_CLIP_INSTANTS] = i / HR_CLIP_INSTANTS < count;
  }
  return HR_OK;
}

static hr_status recording_read(const reading *r, hr_recording *out, hr_error *err) {
  const hr_fields *fields = r->request->fields;
  const hr_field *classes = hr__field_named(fields, "class_id");
  int64_t event, outcome, class_id = 0;
  HR_TRY(hr__row_parsed(r->at, err));
  *out = (hr_recording){.line = r->at->row->place.line};
  HR_TRY(video_of(r, HR_CLIP_RGB, "rgb", true, &out->video[HR_CLIP_RGB], err));
  HR_TRY(video_of(r, HR_CLIP_MASK, "mask", false, &out->video[HR_CLIP_MASK], err));
  HR_TRY(video_of(r, HR_CLIP_INFRARED, "infrared", true, &out->video[HR_CLIP_INFRARED], err));
  const hr_field *infrared = hr__field_named(fields, "infrared");
  if (infrared) HR_TRY(spots_of(r, infrared->desc.dim[2], &out->spots, err));
  if (hr__field_named(fields, "motion")) HR_TRY(motion_of(r, out, err));
  if (hr__field_named(fields, "curves")) HR_TRY(tracks_of(r, out, err));
  if (classes) HR_TRY(whole_of(r, "class", classes->bound - 1, &class_id, err));
  HR_TRY(whole_of(r, "event", 1, &event, err));
  HR_TRY(whole_of(r, "outcome", 1, &outcome, err));
  if (outcome > event)
    return hr__row_fail(r->at, "mend one of them", err, "there is an %s without an event", "outcome");
  out->class_id = (int32_t)class_id;
  out->labels = (hr_two_labels){event == 1, outcome == 1};
  return HR_OK;
}

/* A bad row is left out, as far as some may be. */
static hr_status row_take(void *user, const hr_row_at *at, hr_error *err) {
  reading *r = user;
  hr_clips *c = r->c;
  hr_error why = {0};
  r->at = at;
  if (hr__arena_grow(&c->arena, (void **)&c->list, &c->capacity, c->count, sizeof *c->list) != 0) return hr__nomem(err);
  hr_status status = recording_read(r, &c->list[c->count], &why);
  c->bad.rows++;
  if (status == HR_BAD_INPUT) return hr__bad_row(&c->bad, &why, err);
  if (status != HR_OK && err) *err = why;
  c->count += status == HR_OK;
  return status;
}

hr_status hr__clips_rows(hr_clips *c, const hr_source_request *request, hr_error *err) {
  reading r = {.c = c, .request = request};
  return hr__rows_each(c->file.path, row_take, &r, err);
}
