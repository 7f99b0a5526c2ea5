/* Source clips: recordings of one's own. data.path is a file of rows (JSON lines), each a sample:
 *
 *   {"rgb": "a.npy", "mask": "a_mask.npy", "motion": [[9 numbers], [..], [..]], "class": 3, "event": 1, "outcome": 0,
 *    "curves": [[3 numbers], ...], "areas": [[3 numbers], ...],
 *    "infrared": "a_infrared.npy", "spots": [[[x, y, width, height, brightness], ...] of each frame]}
 *
 * Videos are .npy files of bytes, frames as they come: [T, H, W, 3], masks and infrared [T, H, W]; their paths go by
 * the folder of the rows. Spots are told in parts of a frame. A row needs what the model's branches read; without a
 * mask all of it is 0. Every header is looked at when the source is opened, frames are read when they are asked for.
 * What other formats of video need is one more reader beside video_read.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/motion.h"
#include "data/source.h"
#include "data/spots.h"
#include "data/two_labels.h"
#include "format/npy.h"
#include "format/rows.h"

enum {
  TRACKS = 10,
  INSTANTS = 3,
  MOTION = HR_MOTION_INSTANTS * HR_MOTION_NUMBERS,
  JUDGED_MOST = 1024,
  ROW_MOST = 1 << 16
};

typedef struct clip {
  const char *rgb, *mask, *infrared; /* paths; NULL: none */
  hr_spot_list *spots;               /* of each frame; NULL: none */
  float motion[MOTION], features[HR_MOTION_FEATURES], curves[TRACKS * INSTANTS], areas[TRACKS * INSTANTS];
  uint8_t tracks[TRACKS];
  int32_t class_id;
  hr_two_labels labels;
} clip;

typedef struct clips {
  hr_data_file file;
  clip *list;
  size_t count, capacity;
  uint64_t held;
  hr_arena arena;
} clips;

/* A row while it is read. */
typedef struct reading {
  clips *c;
  const hr_source_request *request;
  const hr_row *row;
} reading;

static hr_status row_fail(const reading *r, const char *remedy, hr_error *err, const char *message, const char *what) {
  char place[4200];
  snprintf(place, sizeof place, "%.4000s:%" PRIu64, r->c->file.path, r->row->place.line);
  return hr__fail(err, HR_BAD_INPUT, place, remedy, message, what);
}

/* ---- videos ---- */

/* Opens a video of `channels` (0: no axis of them) and checks it against a field [1, C, T, H, W]. */
static hr_status video_open(const char *path, const hr_field *field, hr_data_file *file, hr_npy_head *head,
                            hr_error *err) {
  char begin[4096];
  const int64_t *want = field->desc.dim + 2, channels = field->desc.dim[1];
  HR_TRY(hr__data_file_at(path, file, err));
  size_t bytes = file->bytes < sizeof begin ? (size_t)file->bytes : sizeof begin;
  hr_status status = hr__data_file_read(file, 0, begin, bytes, err);
  if (status == HR_OK) status = hr__npy_head(path, begin, bytes, file->bytes, head, err);
  bool fits = status == HR_OK && head->width == 1 && !head->is_signed && head->rank == (channels > 1 ? 4 : 3) &&
              memcmp(head->dim, want, 3 * sizeof *want) == 0 && (channels == 1 || head->dim[3] == channels) &&
              want[2] * channels <= ROW_MOST;
  if (status == HR_OK && !fits)
    status =
        hr__fail(err, HR_BAD_INPUT, path, "save it as np.uint8, or set model.config.frames, frame_height, frame_width",
                 "not a video of bytes, %" PRId64 " frames of %" PRId64 " x %" PRId64 " with %" PRId64 " channels",
                 want[0], want[1], want[2], channels);
  if (status != HR_OK) hr__data_file_close(file);
  return status;
}

/* Frames [T, H, W, C] as planes [C, T, H, W]. */
static hr_status video_read(const char *path, const hr_field *field, uint8_t *to, hr_error *err) {
  int64_t channels = field->desc.dim[1], width = field->desc.dim[4], rows = field->desc.dim[2] * field->desc.dim[3];
  hr_data_file file;
  hr_npy_head head;
  uint8_t row[ROW_MOST];
  if (!path) {
    memset(to, 0, (size_t)(channels * rows * width));
    return HR_OK;
  }
  HR_TRY(video_open(path, field, &file, &head, err));
  hr_status status = HR_OK;
  for (int64_t y = 0; y < rows && status == HR_OK; y++) {
    size_t bytes = (size_t)(width * channels);
    status = hr__data_file_read(&file, head.data_begin + (uint64_t)y * bytes, row, bytes, err);
    for (int64_t i = 0; i < width * channels && status == HR_OK; i++)
      to[i % channels * rows * width + y * width + i / channels] = row[i];
  }
  hr__data_file_close(&file);
  return status;
}

/* ---- rows ---- */

/* The path of a video beside the rows, where the model reads it; checked. */
static hr_status video_of(const reading *r, const char *key, const char *field_name, bool needed, const char **out,
                          hr_error *err) {
  const hr_field *field = hr__field_named(r->request->fields, field_name);
  const hr_doc_node *node = hr__doc_get(r->row->fields, key);
  if (!field) return HR_OK;
  if (!node || hr__doc_is_null(node))
    return needed ? row_fail(r, "give the path of a .npy file", err, "%s is missing", key) : HR_OK;
  if (node->kind != HR_DOC_SCALAR) return row_fail(r, "give the path of a .npy file", err, "%s is not a path", key);
  const char *slash = strrchr(r->c->file.path, '/');
  int folder = slash && node->text[0] != '/' ? (int)(slash - r->c->file.path + 1) : 0;
  *out = hr__arena_format(&r->c->arena, "%.*s%s", folder, r->c->file.path, node->text);
  if (!*out) return hr__nomem(err);
  hr_data_file file;
  hr_npy_head head;
  hr_fields one = hr__fields_of_one(r->request->fields);
  HR_TRY(video_open(*out, hr__field_named(&one, field_name), &file, &head, err));
  hr__data_file_close(&file);
  return HR_OK;
}

/* A list of up to `rows` lists of `columns` numbers each, all or a part of what is under `key`; gives how many there
 * are. */
static hr_status list_of(const reading *r, const char *key, const hr_doc_node *list, int rows, int columns, double *out,
                         int *count, hr_error *err) {
  char most[32];
  snprintf(most, sizeof most, "give %d at most", rows);
  *count = 0;
  if (!list || list->kind != HR_DOC_LIST) return row_fail(r, "write it as lists of numbers", err, "%s is missing", key);
  for (const hr_doc_node *one = list->child; one; one = one->next, ++*count) {
    int column = 0;
    if (*count == rows) return row_fail(r, most, err, "%s has too many rows", key);
    const hr_doc_node *number = one->kind == HR_DOC_LIST ? one->child : NULL;
    for (; number && column < columns; number = number->next, column++)
      if (!hr__row_number(number, &out[*count * columns + column])) break;
    if (number || column != columns)
      return row_fail(r, "write rows of as many numbers as docs/data.md says", err,
                      "%s has a row of another length, or one that is not of numbers", key);
  }
  return HR_OK;
}

static hr_status table_of(const reading *r, const char *key, int rows, int columns, double *out, int *count,
                          hr_error *err) {
  return list_of(r, key, hr__doc_get(r->row->fields, key), rows, columns, out, count, err);
}

/* Of each frame a list of spots: x, y, width, height (parts of the frame's) and brightness. */
static hr_status spots_of(const reading *r, int64_t frames, hr_spot_list **out, hr_error *err) {
  const hr_doc_node *list = hr__doc_get(r->row->fields, "spots");
  int64_t t = 0;
  if (!list || list->kind != HR_DOC_LIST)
    return row_fail(r, "give a list of spots for each frame", err, "%s is missing", "spots");
  *out = hr__arena_alloc(&r->c->arena, (size_t)frames * sizeof **out);
  if (!*out) return hr__nomem(err);
  for (const hr_doc_node *one = list->child; one; one = one->next, t++) {
    double number[HR_SPOTS][HR_SPOT_NUMBERS];
    if (t == frames) return row_fail(r, "give one for each frame", err, "%s has too many lists", "spots");
    HR_TRY(list_of(r, "spots", one, HR_SPOTS, HR_SPOT_NUMBERS, number[0], &(*out)[t].count, err));
    for (int i = 0; i < (*out)[t].count; i++) {
      float *to = (*out)[t].number[i];
      for (int k = 0; k < HR_SPOT_NUMBERS; k++)
        to[k] = (float)number[i][k];
      for (int k = HR_SPOT_WIDTH; k < HR_SPOT_NUMBERS; k++)
        if (!(to[k] >= 0 && to[k] <= 1))
          return row_fail(r, "write width and height as parts of the frame's, brightness from 0 to 1", err,
                          "%s has one whose width, height or brightness is not from 0 to 1", "spots");
      if (!hr__spot_seen(to))
        return row_fail(r, "write x and y as parts of the frame's width and height", err,
                        "%s has one whose middle is outside of its frame", "spots");
    }
  }
  if (t == frames) return HR_OK;
  return row_fail(r, "give a list for each frame, empty ones too", err, "%s are not of all frames", "spots");
}

static hr_status whole_of(const reading *r, const char *key, int64_t most, int64_t *out, hr_error *err) {
  const hr_doc_node *node = hr__doc_get(r->row->fields, key);
  double number;
  bool truth;
  if (node && hr__doc_bool(node, &truth) && most == 1) {
    *out = truth;
    return HR_OK;
  }
  if (!node || !hr__row_number(node, &number) || number != floor(number) || number < 0 || number > (double)most)
    return row_fail(r, "write a whole number; labels are 0 or 1", err, "%s is missing, or out of range", key);
  *out = (int64_t)number;
  return HR_OK;
}

static hr_status motion_of(const reading *r, clip *out, hr_error *err) {
  double motion[HR_MOTION_INSTANTS][HR_MOTION_NUMBERS], features[HR_MOTION_FEATURES];
  int count;
  HR_TRY(table_of(r, "motion", HR_MOTION_INSTANTS, HR_MOTION_NUMBERS, motion[0], &count, err));
  if (count != HR_MOTION_INSTANTS) return row_fail(r, "give three instants", err, "%s is too short", "motion");
  hr__motion_features((const double(*)[HR_MOTION_NUMBERS])motion, features);
  for (int i = 0; i < MOTION; i++)
    out->motion[i] = (float)motion[i / HR_MOTION_NUMBERS][i % HR_MOTION_NUMBERS];
  for (int i = 0; i < HR_MOTION_FEATURES; i++)
    out->features[i] = (float)features[i];
  return HR_OK;
}

static hr_status tracks_of(const reading *r, clip *out, hr_error *err) {
  double curves[TRACKS * INSTANTS] = {0}, areas[TRACKS * INSTANTS] = {0};
  int count, others;
  HR_TRY(table_of(r, "curves", TRACKS, INSTANTS, curves, &count, err));
  HR_TRY(table_of(r, "areas", TRACKS, INSTANTS, areas, &others, err));
  if (count != others) return row_fail(r, "give as many", err, "curves and %s are not of the same tracks", "areas");
  for (int i = 0; i < TRACKS * INSTANTS; i++) {
    out->curves[i] = (float)curves[i];
    out->areas[i] = (float)areas[i];
    out->tracks[i / INSTANTS] = i / INSTANTS < count;
  }
  return HR_OK;
}

static hr_status clip_read(const reading *r, clip *out, hr_error *err) {
  const hr_fields *fields = r->request->fields;
  const hr_field *classes = hr__field_named(fields, "class_id");
  int64_t event, outcome, class_id = 0;
  if (!r->row->fields) return hr__row_refuse(r->row, err);
  *out = (clip){0};
  HR_TRY(video_of(r, "rgb", "rgb", true, &out->rgb, err));
  HR_TRY(video_of(r, "mask", "frame_mask", false, &out->mask, err));
  HR_TRY(video_of(r, "infrared", "infrared", true, &out->infrared, err));
  const hr_field *infrared = hr__field_named(fields, "infrared");
  if (infrared) HR_TRY(spots_of(r, infrared->desc.dim[2], &out->spots, err));
  if (hr__field_named(fields, "motion")) HR_TRY(motion_of(r, out, err));
  if (hr__field_named(fields, "curves")) HR_TRY(tracks_of(r, out, err));
  if (classes) HR_TRY(whole_of(r, "class", classes->bound - 1, &class_id, err));
  HR_TRY(whole_of(r, "event", 1, &event, err));
  HR_TRY(whole_of(r, "outcome", 1, &outcome, err));
  if (outcome > event) return row_fail(r, "mend one of them", err, "there is an %s without an event", "outcome");
  out->class_id = (int32_t)class_id;
  out->labels = (hr_two_labels){event == 1, outcome == 1};
  return HR_OK;
}

static void clips_close(void *state) {
  clips *c = state;
  hr__data_file_close(&c->file);
  hr__arena_fini(&c->arena);
  hr__free(c);
}

static hr_status rows_read(clips *c, const hr_source_request *request, hr_error *err) {
  hr_rows *rows = NULL;
  bool there = true;
  HR_TRY(hr__rows_open(c->file.path, &rows, err));
  hr_status status = HR_OK;
  while (status == HR_OK && there) {
    hr_arena arena;
    hr_row row = {0};
    hr__arena_init(&arena);
    status = hr__rows_next(rows, &arena, &row, &there, err);
    if (status == HR_OK && there) {
      reading r = {c, request, &row};
      if (hr__arena_grow(&c->arena, (void **)&c->list, &c->capacity, c->count, sizeof *c->list) != 0)
        status = hr__nomem(err);
      else
        status = clip_read(&r, &c->list[c->count++], err);
    }
    hr__arena_fini(&arena);
  }
  hr__rows_close(rows);
  return status;
}

static hr_status clips_begin(clips *c, const hr_source_request *request, hr_error *err) {
  size_t count = 0;
  const char *const *paths =
      hr__recipe_has(request->recipe, request->key) ? hr__recipe_texts(request->recipe, request->key, &count) : NULL;
  if (count != 1)
    return hr__recipe_fail(request->recipe, "data.source", "give data.path: a file of JSON lines", err,
                           "source clips reads one file of rows");
  HR_TRY(hr__data_file_at(paths[0], &c->file, err));
  c->file.read_whole = true;
  HR_TRY(rows_read(c, request, err));
  if (!hr__samples_suffice(request, c->count))
    return hr__fail(err, HR_BAD_INPUT, c->file.path, "give it more rows", "%zu samples are too few", c->count);
  c->held = hr__held_out(request, c->count);
  return HR_OK;
}

static hr_status clips_open(const hr_source_request *request, void **state, hr_error *err) {
  clips *c = hr__alloc_zero(1, sizeof *c);
  if (!c) return hr__nomem(err);
  c->file.fd = -1;
  hr__arena_init(&c->arena);
  hr_status status = clips_begin(c, request, err);
  if (status != HR_OK) {
    clips_close(c);
    return status;
  }
  *state = c;
  return HR_OK;
}

/* Entries behind all samples are those that are held out, once more. */
static const clip *clip_of(const clips *c, uint64_t entry) {
  return &c->list[entry < c->count || c->held == 0 ? entry % c->count
                                                   : c->count - c->held + (entry - c->count) % c->held];
}

/* Of all frames; what is NULL is not written. */
static void spots_put(const clip *one, const hr_field *infrared, float *numbers, int32_t *cells, uint8_t *mask) {
  const int64_t *size = infrared->desc.dim + 2;
  for (int64_t t = 0; t < size[0]; t++)
    hr__spots_put(&one->spots[t], size[1], size[2], numbers ? numbers + t * HR_SPOTS * HR_SPOT_NUMBERS : NULL,
                  cells ? cells + t * HR_SPOTS : NULL, mask ? mask + t * HR_SPOTS : NULL);
}

static hr_status clips_fill(const void *state, bool eval, uint64_t entry, const hr_room *room, hr_error *err) {
  const clip *one = clip_of(state, entry);
  const uint8_t event = one->labels.event, outcome = one->labels.outcome;
  const hr_field *infrared = hr__field_named(room->fields, "infrared");
  (void)eval;
  const struct {
    const char *name;
    const void *from;
  } plain[] = {{"motion", one->motion},     {"motion_features", one->features}, {"curves", one->curves},
               {"curve_areas", one->areas}, {"curve_mask", one->tracks},        {"class_id", &one->class_id},
               {"event_label", &event},     {"outcome_label", &outcome}};
  for (int i = 0; i < room->fields->count; i++) {
    const hr_field *field = &room->fields->list[i];
    if (strcmp(field->name, "rgb") == 0) HR_TRY(video_read(one->rgb, field, room->at[i], err));
    if (strcmp(field->name, "frame_mask") == 0) HR_TRY(video_read(one->mask, field, room->at[i], err));
    if (strcmp(field->name, "infrared") == 0) HR_TRY(video_read(one->infrared, field, room->at[i], err));
    if (infrared && strcmp(field->name, "spots") == 0) spots_put(one, infrared, room->at[i], NULL, NULL);
    if (infrared && strcmp(field->name, "spot_cells") == 0) spots_put(one, infrared, NULL, room->at[i], NULL);
    if (infrared && strcmp(field->name, "spot_mask") == 0) spots_put(one, infrared, NULL, NULL, room->at[i]);
    for (size_t k = 0; k < sizeof plain / sizeof *plain; k++)
      if (strcmp(field->name, plain[k].name) == 0) memcpy(room->at[i], plain[k].from, hr__field_sample_bytes(field));
  }
  return HR_OK;
}

static uint64_t clips_samples(const void *state) {
  return ((const clips *)state)->count;
}

static uint64_t clips_items(const void *state, int64_t *of_an_entry) {
  const clips *c = state;
  *of_an_entry = 1;
  return c->held < JUDGED_MOST ? c->held : JUDGED_MOST;
}

static hr_status clips_judge(const void *state, const float *points, int64_t width, hr_judged *out, hr_error *err) {
  const clips *c = state;
  int64_t of_an_entry;
  uint64_t count = clips_items(c, &of_an_entry);
  hr_two_labels *labels = hr__alloc_zero(count, sizeof *labels);
  if (!labels) return hr__nomem(err);
  for (uint64_t i = 0; i < count; i++)
    labels[i] = c->list[c->count - c->held + i].labels;
  hr_status status = hr__two_labels_judge(labels, points, count, width, out, err);
  hr__free(labels);
  return status;
}

static const hr_data_file *clips_file(const void *state, size_t number) {
  return number == 0 ? &((const clips *)state)->file : NULL;
}

static hr_data_bytes clips_bytes(const void *state) {
  return (hr_data_bytes){.held = ((const clips *)state)->arena.used_bytes};
}

const hr_source hr_source_clips = {
    .name = "clips",
    .purposes = 1u << HR_FOR_VALUES,
    .open = clips_open,
    .close = clips_close,
    .samples = clips_samples,
    .fill = clips_fill,
    .items = clips_items,
    .judge = clips_judge,
    .file = clips_file,
    .bytes = clips_bytes,
};
