/* How good triggers are, over all held-out samples. See video.h.
 *
 *   trigger_f1          of frames: 2 x right ones / (frames that trigger + frames that should)
 *   trigger_time_error  seconds between the first frame that triggers and the first that should, the mean over samples;
 *                       where none triggers, all that the sample lasts
 */
#include <math.h>

#include "data/video.h"

typedef struct counts {
  double right, said, meant, seconds;
} counts;

static void clip_count(const hr_videos *v, const hr_clip *clip, const float *points, int32_t *meant, counts *all) {
  hr_window w = hr__clip_window(v, clip);
  int64_t said = -1, first = -1;
  hr__clip_triggers(v, clip, w, meant);
  for (int64_t t = 0; t < w.count; t++) {
    bool here = points[t] > 0;
    all->right += here && meant[t];
    all->said += here;
    all->meant += meant[t];
    if (here && said < 0) said = t;
    if (meant[t] && first < 0) first = t;
  }
  double begin = (double)hr__clip_time(v, clip, w.first), end = (double)hr__clip_time(v, clip, w.first + w.count - 1);
  double expected = first < 0 ? begin : (double)hr__clip_time(v, clip, w.first + first);
  all->seconds += said < 0 ? end - begin : fabs((double)hr__clip_time(v, clip, w.first + said) - expected);
}

hr_status hr__video_judge(const hr_videos *v, const float *points, int64_t width, hr_judged *out, hr_error *err) {
  counts all = {0};
  int32_t *meant = hr__alloc((size_t)width * sizeof *meant);
  if (!meant) return hr__nomem(err);
  for (size_t i = 0; i < v->n_held; i++)
    clip_count(v, &v->clips[v->order[v->n_samples - v->n_held + i]], points + (int64_t)i * width, meant, &all);
  hr__free(meant);
  out->count = 2;
  out->metric[0].name = "trigger_f1";
  out->metric[0].value = all.said + all.meant > 0 ? 2 * all.right / (all.said + all.meant) : 1;
  out->metric[1].name = "trigger_time_error";
  out->metric[1].value = v->n_held > 0 ? all.seconds / (double)v->n_held : 0;
  return HR_OK;
}
