/* Which videos are trained on and which are held out: all captions of a video go one way, so that nothing that is
 * evaluated on was seen in training. Videos are drawn in an order of their own until data.eval_fraction of the samples
 * is held out; a video that would be too much is passed over, and where all are the first is taken. See video.h.
 */
#include "base/random.h"
#include "data/video.h"

typedef struct drawing {
  uint32_t *sizes; /* samples of each video */
  bool *held;
  size_t count;
} drawing;

static void videos_draw(hr_videos *v, const drawing *d, const hr_source_request *request) {
  hr_random_key key = {request->seed, hr__random_stream("video.held")};
  uint64_t most = hr__held_out(request, v->n_samples);
  size_t first = d->count;
  for (size_t i = 0; i < d->count; i++) {
    size_t video = (size_t)hr__random_permute(key, 0, i, d->count);
    if (d->sizes[video] == 0) continue;
    if (first == d->count) first = video;
    if (v->n_held + d->sizes[video] > most) continue;
    d->held[video] = true;
    v->n_held += d->sizes[video];
  }
  if (v->n_held > 0 || first == d->count) return;
  d->held[first] = true;
  v->n_held = d->sizes[first];
}

static hr_status split(hr_videos *v, const hr_source_request *request, hr_arena *arena, hr_error *err) {
  drawing d = {.count = v->settings.made > 0 ? v->n_clips : v->n_files};
  d.sizes = hr__arena_array(arena, d.count, sizeof *d.sizes);
  d.held = hr__arena_array(arena, d.count, sizeof *d.held);
  if (!d.sizes || !d.held) return hr__nomem(err);
  for (size_t i = 0; i < v->n_clips; i++) {
    v->n_samples += !v->clips[i].bad;
    d.sizes[v->clips[i].file] += !v->clips[i].bad;
  }
  if (v->n_samples == 0)
    return hr__fail(err, HR_BAD_INPUT, v->settings.captions, "mend captions and videos", "no caption is left");
  v->order = hr__arena_array(&v->arena, v->n_samples, sizeof *v->order);
  if (!v->order) return hr__nomem(err);
  if (request->held == HR_HOLD_ALL) v->n_held = v->n_samples;
  if (request->held == HR_HOLD_PART) videos_draw(v, &d, request);
  if (request->held == HR_HOLD_PART && v->n_held == v->n_samples)
    return hr__recipe_fail(request->recipe, request->key, "give more videos, or data.eval_path: another folder", err,
                           "nothing can be held out: there is one video");
  size_t train = 0, held = 0;
  for (size_t i = 0; i < v->n_clips; i++) {
    if (v->clips[i].bad) continue;
    bool last = request->held == HR_HOLD_PART && d.held[v->clips[i].file];
    v->order[last ? v->n_samples - v->n_held + held++ : train++] = (uint32_t)i;
  }
  return HR_OK;
}

hr_status hr__video_split(hr_videos *v, const hr_source_request *request, hr_error *err) {
  hr_arena arena;
  hr__arena_init(&arena);
  hr_status status = split(v, request, &arena, err);
  hr__arena_fini(&arena);
  return status;
}
