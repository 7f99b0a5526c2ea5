/* Videos that are made: over noise a disc or a square of some colour and size appears for a while, somewhere about
 * the middle; the caption says which colour and size. All of it is a pure function of the seed, the video's number and
 * the frame's. See video.h.
 */
#include <stdlib.h>

#include "base/random.h"
#include "data/video.h"

static const char *const sizes[] = {"small", "large"};
static const struct {
  const char *name;
  uint8_t rgb[3];
} colours[] = {{"red", {220, 40, 40}}, {"green", {40, 200, 60}}, {"blue", {60, 80, 230}}, {"yellow", {230, 210, 50}}};
enum { SHAPES = 2, SIZES = 2, COLOURS = 4, DISC = 0 };

typedef struct scene {
  int shape, colour, size;
  int64_t begin, count; /* frames that it is there */
  int64_t x, y, radius; /* pixels: where its centre is, and half its size */
  int ground;           /* brightness of what is behind it */
} scene;

static scene scene_of(const hr_videos *v, uint64_t number) {
  const hr_video_settings *s = &v->settings;
  hr_random_key key = {v->seed, hr__random_stream("video.scene")};
  int64_t side = s->height < s->width ? s->height : s->width;
  scene c;
  uint64_t use = 0;
#define DRAWN(n) ((int64_t)hr__random_below(key, number, use++, (uint64_t)(n)))
  c.shape = (int)DRAWN(SHAPES);
  c.colour = (int)DRAWN(COLOURS);
  c.size = (int)DRAWN(SIZES);
  c.count = 3 + DRAWN(s->made_frames / 2 > 2 ? s->made_frames / 2 - 1 : 1);
  if (c.count > s->made_frames - 1) c.count = s->made_frames - 1;
  c.begin = DRAWN(s->made_frames - c.count + 1);
  c.radius = (c.size == 0 ? side / 6 : side / 3) + DRAWN(side / 16 + 1);
  c.x = s->width / 2 + DRAWN(s->width / 4 + 1) - s->width / 8;
  c.y = s->height / 2 + DRAWN(s->height / 4 + 1) - s->height / 8;
  c.ground = 20 + (int)DRAWN(60);
#undef DRAWN
  return c;
}

hr_status hr__shapes_clips(hr_videos *v, hr_error *err) {
  const hr_video_settings *s = &v->settings;
  v->n_clips = (size_t)s->made;
  v->clips = hr__arena_array(&v->arena, v->n_clips, sizeof *v->clips);
  if (!v->clips) return hr__nomem(err);
  for (size_t i = 0; i < v->n_clips; i++) {
    scene c = scene_of(v, i);
    const double margin = 0.25; /* of a frame: times are rounded */
    v->clips[i] = (hr_clip){.video = hr__arena_format(&v->arena, "made %zu", i),
                            .start = ((double)c.begin - margin) / s->fps,
                            .end = ((double)(c.begin + c.count - 1) + margin) / s->fps,
                            .line = i + 1,
                            .file = (uint32_t)i,
                            .window = -1};
    v->clips[i].caption = hr__arena_format(&v->arena, "a %s %s shape appears", sizes[c.size], colours[c.colour].name);
    if (!v->clips[i].video || !v->clips[i].caption) return hr__nomem(err);
  }
  return HR_OK;
}

static bool covers(const scene *c, int64_t dx, int64_t dy) {
  if (c->shape == DISC) return dx * dx + dy * dy <= c->radius * c->radius;
  return llabs(dx) <= c->radius && llabs(dy) <= c->radius;
}

void hr__shapes_paint(const hr_videos *v, uint64_t number, int64_t frame, uint8_t *to) {
  const hr_video_settings *s = &v->settings;
  scene c = scene_of(v, number);
  hr_random_key key = {v->seed, hr__random_stream("video.noise")};
  bool there = frame >= c.begin && frame < c.begin + c.count;
  int64_t row = s->width * 3;
  for (int64_t y = 0; y < s->height; y++) {
    hr_random_block noise = {{0}};
    for (int64_t i = 0; i < row; i++) {
      enum { IN_A_BLOCK = 32, NOISE_BITS = 4 };
      if (i % IN_A_BLOCK == 0) noise = hr__random_at(key, number << 20 | (uint64_t)frame, (uint64_t)(y * row + i));
      int part = (int)(noise.word[i % IN_A_BLOCK / 8] >> (i % 8 * NOISE_BITS) & ((1u << NOISE_BITS) - 1));
      bool shape = there && covers(&c, i / 3 - c.x, y - c.y);
      int colour = shape ? colours[c.colour].rgb[i % 3] : c.ground;
      to[y * row + i] = (uint8_t)(colour + part);
    }
  }
}
