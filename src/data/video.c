/* Source video: a sample is a caption with frames of its video. See video.h.
 *
 * Fields, of B samples with up to T frames of H x W pixels, n of which a sample has (what lies behind those is 0), and
 * L positions of text (T is at most L):
 *
 *   frames           u8  [B, T, H, W, 3]  RGB; or
 *   features         f32 [B, T, F]        what a frozen part makes of them (video_features.h)
 *   timestamps       f32 [B, T]           seconds from the beginning of the video
 *   frame_lengths    i32 [B]              n
 *   triggers         i32 [B, T]           1 within the segment of the caption
 *   frame_mask       u8  [B, T]           1 for the first n
 *   pair_mask        u8  [B, T]           1 for those that follow another
 *   tokens, targets  i32 [B, L]           [frames | caption | padding]: 0 where frames are
 *   caption_mask     u8  [B, L]           1 where there is a target
 *   placement        i32 [B, L]           of position t: L + t where frame t stands, else t
 */
#include "data/video_features.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FRAMES_AXIS = 1, HEIGHT_AXIS = 2, WIDTH_AXIS = 3 };

typedef struct videos {
  hr_videos of; /* the first: hr_video_featured takes it for the state */
  char remark[1024];
} videos;

static void video_close(void *state) {
  hr_videos *v = &((videos *)state)->of;
  for (size_t i = 0; i < v->n_files; i++) {
    hr__free((void *)v->files[i].times);
    hr__free((void *)v->files[i].cache);
  }
  hr__video_features_close(v);
  hr__data_file_close(&v->file);
  hr__ids_fini(&v->ids);
  hr__arena_fini(&v->arena);
  hr__free(state);
}

/* Whether a field is of frames as the data has them. */
static bool frames_agree(const hr_video_settings *s, const hr_field *field) {
  const hr_desc *desc = &field->desc;
  if (strcmp(field->name, "features") == 0) return desc->rank == 3 && desc->dim[FRAMES_AXIS] == s->frames;
  return strcmp(field->name, "frames") == 0 && desc->rank == 5 && desc->dtype == HR_U8 &&
         desc->dim[FRAMES_AXIS] == s->frames && desc->dim[HEIGHT_AXIS] == s->height &&
         desc->dim[WIDTH_AXIS] == s->width;
}

/* What of the request's fields the data must agree with. */
static hr_status fields_check(const hr_videos *v, const hr_source_request *request, hr_error *err) {
  const hr_fields *fields = request->fields;
  for (int i = 0; i < fields->count; i++)
    if (frames_agree(&v->settings, &fields->list[i]) && hr__field_for(fields, HR_FOR_TOKENS) >= 0) return HR_OK;
  return hr__recipe_fail(request->recipe, "data.source", "choose another data.source", err,
                         "source video gives frames of videos and tokens, which this model does not take");
}

static void remark_make(videos *t) {
  const hr_videos *v = &t->of;
  int used = 0;
  if (v->bad_videos.bad > 0)
    used = snprintf(t->remark, sizeof t->remark,
                    "%" PRIu64 " of %" PRIu64 " videos are bad and left out, and their captions (%" PRIu64 "): %s%s",
                    v->bad_videos.bad, v->bad_videos.rows, v->dropped, v->bad_videos.shown,
                    v->bad_captions.bad > 0 ? "; " : "");
  if (v->bad_captions.bad > 0)
    snprintf(t->remark + used, sizeof t->remark - (size_t)used,
             "%" PRIu64 " of %" PRIu64 " captions are bad and left out: %s", v->bad_captions.bad, v->bad_captions.rows,
             v->bad_captions.shown);
}

static hr_status clips_read(hr_videos *v, int threads, hr_error *err) {
  if (v->settings.made > 0) return hr__shapes_clips(v, err);
  if (v->settings.alone) {
    HR_TRY(hr__video_alone(v, err));
    HR_TRY(hr__video_frames(v, threads, err));
    return v->files[0].bad ? HR_OK : hr__video_windows(v, err);
  }
  HR_TRY(hr__video_captions(v, err));
  return hr__video_frames(v, threads, err);
}

static hr_status video_read(videos *t, const hr_source_request *request, hr_error *err) {
  hr_videos *v = &t->of;
  HR_TRY(hr__video_settings(request->recipe, request->key, &v->arena, &v->settings, err));
  HR_TRY(fields_check(v, request, err));
  HR_TRY(clips_read(v, (int)hr__recipe_int(request->recipe, "data.workers"), err));
  HR_TRY(hr__video_tokens(v, request, err));
  HR_TRY(hr__video_split(v, request, err));
  remark_make(t);
  return HR_OK;
}

static hr_status video_open(const hr_source_request *request, void **state, hr_error *err) {
  videos *t = hr__alloc_zero(1, sizeof *t);
  if (!t) return hr__nomem(err);
  double bad_rows = hr__recipe_float(request->recipe, "data.bad_rows");
  t->of = (hr_videos){.file.fd = -1,
                      .bad_videos.allowed = bad_rows,
                      .bad_captions.allowed = bad_rows,
                      .trace.whole = true,
                      .seed = request->seed};
  hr__arena_init(&t->of.arena);
  hr_status status = video_read(t, request, err);
  if (status != HR_OK) {
    video_close(t);
    return status;
  }
  *state = t;
  return HR_OK;
}

static const hr_clip *clip_of(const hr_videos *v, uint64_t entry) {
  return &v->clips[v->order[entry]];
}

static uint64_t video_samples(const void *state) {
  return ((const videos *)state)->of.n_samples;
}

static uint64_t video_held(const void *state) {
  return ((const videos *)state)->of.n_held;
}

static int64_t video_targets(const void *state, uint64_t entry) {
  const hr_videos *v = &((const videos *)state)->of;
  return hr__clip_targets(v, clip_of(v, entry));
}

static int64_t video_length(const void *state, uint64_t entry) {
  const hr_videos *v = &((const videos *)state)->of;
  const hr_clip *clip = clip_of(v, entry);
  int64_t targets = hr__clip_targets(v, clip);
  return hr__clip_window(v, clip).count + (targets > 0 ? targets - 1 : 0);
}

/* A sample on its way into its fields. */
typedef struct filling {
  const hr_videos *v;
  const hr_clip *clip;
  hr_window window;
  int64_t room;    /* for frames */
  int64_t length;  /* positions */
  int64_t targets; /* of the caption; 0: it is asked for */
} filling;

static void triggers_put(const filling *f, int32_t *to) {
  memset(to, 0, (size_t)f->room * sizeof *to);
  hr__clip_triggers(f->v, f->clip, f->window, to);
}

static void times_put(const filling *f, float *to) {
  for (int64_t t = 0; t < f->room; t++)
    to[t] = t < f->window.count ? hr__clip_time(f->v, f->clip, f->window.first + t) : 0;
}

/* 1 from `first` on, as far as there are frames. */
static void mask_put(const filling *f, int64_t first, uint8_t *to) {
  for (int64_t t = 0; t < f->room; t++)
    to[t] = t >= first && t < f->window.count;
}

static hr_status pixels_put(const filling *f, uint8_t *to, hr_error *err) {
  size_t frame = (size_t)(f->v->settings.height * f->v->settings.width * 3);
  memset(to + (size_t)f->window.count * frame, 0, (size_t)(f->room - f->window.count) * frame);
  return hr__clip_pixels(f->v, f->clip, f->window, to, err);
}

static hr_status features_put(const filling *f, size_t bytes, float *to, hr_error *err) {
  size_t used = bytes / (size_t)f->room * (size_t)f->window.count;
  memset((char *)to + used, 0, bytes - used);
  return hr__clip_features(f->v, f->clip, f->window, to, err);
}

/* Number of the caption's token that position t has as its target; outside of 0..targets - 1: none. */
static int64_t target_at(const filling *f, int64_t t) {
  return t - f->window.count + 1;
}

static void text_put(const filling *f, const hr_field *field, void *to) {
  const int32_t *ids = f->v->ids.items + f->clip->ids;
  bool places = strcmp(field->name, "placement") == 0, mask = strcmp(field->name, "caption_mask") == 0;
  for (int64_t t = 0; t < f->length; t++) {
    int64_t number = target_at(f, t);
    bool target = number >= 0 && number < f->targets;
    if (field->purpose == HR_FOR_TOKENS)
      ((int32_t *)to)[t] = number > 0 && number < f->targets ? ids[number - 1] : 0;
    else if (field->purpose == HR_FOR_TARGETS)
      ((int32_t *)to)[t] = target ? ids[number] : -1;
    else if (places)
      ((int32_t *)to)[t] = (int32_t)(t < f->window.count ? f->length + t : t);
    else if (mask)
      ((uint8_t *)to)[t] = target;
  }
}

static hr_status field_put(const filling *f, const hr_field *field, void *to, hr_error *err) {
  if (strcmp(field->name, "frames") == 0) return pixels_put(f, to, err);
  if (strcmp(field->name, "features") == 0) return features_put(f, hr__field_sample_bytes(field), to, err);
  if (strcmp(field->name, "timestamps") == 0)
    times_put(f, to);
  else if (strcmp(field->name, "triggers") == 0)
    triggers_put(f, to);
  else if (strcmp(field->name, "frame_lengths") == 0)
    *(int32_t *)to = (int32_t)f->window.count;
  else if (strcmp(field->name, "frame_mask") == 0)
    mask_put(f, 0, to);
  else if (strcmp(field->name, "pair_mask") == 0)
    mask_put(f, 1, to);
  else if (field->purpose != HR_FOR_FACTOR && field->purpose != HR_FOR_LENGTHS)
    text_put(f, field, to);
  return HR_OK;
}

static hr_status sample_fill(const hr_videos *v, const hr_clip *clip, bool captioned, const hr_room *room,
                             hr_error *err) {
  filling f = {.v = v,
               .clip = clip,
               .window = hr__clip_window(v, clip),
               .room = hr__video_room(v->settings.frames, room->length),
               .length = room->length,
               .targets = captioned ? hr__clip_targets(v, clip) : 0};
  for (int i = 0; i < room->fields->count; i++)
    if (!room->only || room->only == &room->fields->list[i])
      HR_TRY(field_put(&f, &room->fields->list[i], room->at[i], err));
  return HR_OK;
}

static hr_status video_fill(const void *state, bool eval, uint64_t entry, const hr_room *room, hr_error *err) {
  (void)eval;
  const hr_videos *v = &((const videos *)state)->of;
  return sample_fill(v, clip_of(v, entry), true, room, err);
}

static hr_status video_ask(const void *state, uint64_t entry, const hr_room *room, hr_asked *out, hr_error *err) {
  const hr_videos *v = &((const videos *)state)->of;
  const hr_clip *clip = clip_of(v, entry);
  hr_window window = hr__clip_window(v, clip);
  *out = (hr_asked){.type = "caption",
                    .question = clip->video,
                    .expected = clip->caption,
                    .subject = clip->video,
                    .positions = window.count,
                    .patches = window.count,
                    .first_seconds = (double)hr__clip_time(v, clip, window.first),
                    .patch_seconds = 1 / v->settings.fps};
  return sample_fill(v, clip, false, room, err);
}

static uint64_t video_items(const void *state, int64_t *of_an_entry) {
  *of_an_entry = 1;
  return ((const videos *)state)->of.n_held;
}

static const char *video_item(const void *state, uint64_t number) {
  const hr_videos *v = &((const videos *)state)->of;
  return clip_of(v, v->n_samples - v->n_held + number)->video;
}

static hr_status video_judge(const void *state, const float *points, int64_t width, hr_judged *out, hr_error *err) {
  return hr__video_judge(&((const videos *)state)->of, points, width, out, err);
}

static const char *video_remark(const void *state) {
  const videos *t = state;
  return t->remark[0] ? t->remark : NULL;
}

static const hr_data_file *video_file(const void *state, size_t number) {
  const hr_videos *v = &((const videos *)state)->of;
  return number == 0 && v->file.fd >= 0 ? &v->file : NULL;
}

static const hr_trace *video_trace(const void *state) {
  return &((const videos *)state)->of.trace;
}

/* Captions and their tokens, times of frames; while videos are decoded, what FFmpeg's libraries hold. */
static hr_data_bytes video_bytes(const void *state) {
  const hr_videos *v = &((const videos *)state)->of;
  uint64_t held = v->arena.used_bytes + v->ids.capacity * sizeof(int32_t);
  for (size_t i = 0; i < v->n_files; i++)
    held += (uint64_t)v->files[i].frames * sizeof(float);
  return (hr_data_bytes){.held = held, .making = v->decoding + v->ids.capacity * sizeof(int32_t)};
}

/* Positions that hold data: frames, and the caption behind them. */
static hr_status video_scan(const void *state, hr_each_sample each, void *user, hr_error *err) {
  (void)err;
  for (uint64_t i = 0; i < video_samples(state); i++)
    each(user, i, video_length(state, i));
  return HR_OK;
}

#define COMMON                                                                                                         \
  .name = "video", .tokenizes = true, .threaded = true, .items_held = true, .tokenizer = "model.parts.llm.path",       \
  .purposes = 1u << HR_FOR_TOKENS | 1u << HR_FOR_TARGETS | 1u << HR_FOR_VALUES, .open = video_open,                    \
  .close = video_close, .held = video_held, .length = video_length, .targets = video_targets, .remark = video_remark,  \
  .fill = video_fill, .ask = video_ask, .items = video_items, .item = video_item, .judge = video_judge,                \
  .file = video_file, .bytes = video_bytes, .trace = video_trace, .features = &hr_video_featured

/* Each sample goes into the bucket of its positions, where there is room for as many frames, but no more than of any.
 */
static const hr_source in_buckets = {COMMON, .scan = video_scan};

const hr_source hr_source_video = {COMMON, .in_buckets = &in_buckets, .samples = video_samples};
