/* The source of recordings of one's own. See clips.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/clips.h"
#include "data/keys.h"

enum { JUDGED_MOST = 1024 };

static const hr_key keys[] = {
    {.path = "data.clips.fps",
     .type = HR_KEY_FLOAT,
     .fallback = "24",
     .min = 1e-3,
     .max = 1e3,
     .meaning = "source clips: frames that are taken of a second of a video file"},
};
const hr_key_table hr_clips_keys = {keys, sizeof keys / sizeof *keys};

static void clips_close(void *state) {
  hr_clips *c = state;
  for (size_t i = 0; i < c->count; i++)
    for (int k = 0; k < HR_CLIP_VIDEOS; k++)
      hr__frames_free(&c->list[i].video[k].frames);
  hr__data_file_close(&c->file);
  hr__arena_fini(&c->arena);
  hr__free(c);
}

static hr_status clips_begin(hr_clips *c, const hr_source_request *request, hr_error *err) {
  size_t count = 0;
  const char *const *paths =
      hr__recipe_has(request->recipe, request->key) ? hr__recipe_texts(request->recipe, request->key, &count) : NULL;
  if (count != 1)
    return hr__recipe_fail(request->recipe, "data.source", "give data.path: a file of JSON lines", err,
                           "source clips reads one file of rows");
  HR_TRY(hr__data_file_at(paths[0], &c->file, err));
  c->file.read_whole = true;
  HR_TRY(hr__trace_file(&c->file, &c->trace, err));
  HR_TRY(hr__clips_rows(c, request, err));
  HR_TRY(hr__clips_films(c, request, err));
  HR_TRY(hr__clips_arrays(c, err));
  HR_TRY(hr__bad_rows_judge(&c->bad, err));
  if (!hr__samples_suffice(request, c->count))
    return hr__fail(err, HR_BAD_INPUT, c->file.path, "give it more rows", "%zu samples are too few", c->count);
  c->held = hr__held_out(request, c->count);
  if (c->bad.bad > 0)
    snprintf(c->remark, sizeof c->remark, "%" PRIu64 " of %" PRIu64 " rows are bad and left out: %s", c->bad.bad,
             c->bad.rows, c->bad.shown);
  return HR_OK;
}

static hr_status clips_open(const hr_source_request *request, void **state, hr_error *err) {
  hr_clips *c = hr__alloc_zero(1, sizeof *c);
  if (!c) return hr__nomem(err);
  c->file.fd = -1;
  c->bad.allowed = hr__recipe_float(request->recipe, "data.bad_rows");
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
static const hr_recording *clip_of(const hr_clips *c, uint64_t entry) {
  return &c->list[entry < c->count || c->held == 0 ? entry % c->count
                                                   : c->count - c->held + (entry - c->count) % c->held];
}

/* Of all frames; what is NULL is not written. */
static void spots_put(const hr_recording *one, const hr_field *infrared, float *numbers, int32_t *cells,
                      uint8_t *mask) {
  const int64_t *size = infrared->desc.dim + 2;
  for (int64_t t = 0; t < size[0]; t++)
    hr__spots_put(&one->spots[t], size[1], size[2], numbers ? numbers + t * HR_SPOTS * HR_SPOT_NUMBERS : NULL,
                  cells ? cells + t * HR_SPOTS : NULL, mask ? mask + t * HR_SPOTS : NULL);
}

static hr_status clips_fill(const void *state, bool eval, uint64_t entry, const hr_room *room, hr_error *err) {
  const hr_recording *one = clip_of(state, entry);
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
    for (int k = 0; k < HR_CLIP_VIDEOS; k++)
      if (strcmp(field->name, hr_clip_fields[k]) == 0)
        HR_TRY(hr__clip_read(&one->video[k], k, field, room->at[i], err));
    if (infrared && strcmp(field->name, "spots") == 0) spots_put(one, infrared, room->at[i], NULL, NULL);
    if (infrared && strcmp(field->name, "spot_cells") == 0) spots_put(one, infrared, NULL, room->at[i], NULL);
    if (infrared && strcmp(field->name, "spot_mask") == 0) spots_put(one, infrared, NULL, NULL, room->at[i]);
    for (size_t k = 0; k < sizeof plain / sizeof *plain; k++)
      if (strcmp(field->name, plain[k].name) == 0) memcpy(room->at[i], plain[k].from, hr__field_sample_bytes(field));
  }
  return HR_OK;
}

static uint64_t clips_samples(const void *state) {
  return ((const hr_clips *)state)->count;
}

static uint64_t clips_items(const void *state, int64_t *of_an_entry) {
  const hr_clips *c = state;
  *of_an_entry = 1;
  return c->held < JUDGED_MOST ? c->held : JUDGED_MOST;
}

static hr_status clips_judge(const void *state, const float *points, int64_t width, hr_judged *out, hr_error *err) {
  const hr_clips *c = state;
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
  return number == 0 ? &((const hr_clips *)state)->file : NULL;
}

/* Rows, and times of frames; while films are decoded, what FFmpeg's libraries hold. */
static hr_data_bytes clips_bytes(const void *state) {
  const hr_clips *c = state;
  uint64_t held = c->arena.used_bytes;
  for (size_t i = 0; i < c->count; i++)
    for (int k = 0; k < HR_CLIP_VIDEOS; k++)
      held += (uint64_t)c->list[i].video[k].frames.frames * sizeof(float);
  return (hr_data_bytes){.held = held, .making = c->decoding};
}

static const char *clips_remark(const void *state) {
  const hr_clips *c = state;
  return c->remark[0] ? c->remark : NULL;
}

static const hr_trace *clips_trace(const void *state) {
  return &((const hr_clips *)state)->trace;
}

const hr_source hr_source_clips = {
    .name = "clips",
    .threaded = true,
    .purposes = 1u << HR_FOR_VALUES,
    .open = clips_open,
    .close = clips_close,
    .samples = clips_samples,
    .remark = clips_remark,
    .fill = clips_fill,
    .items = clips_items,
    .judge = clips_judge,
    .file = clips_file,
    .bytes = clips_bytes,
    .trace = clips_trace,
};
