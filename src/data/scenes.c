/* Source scenes: made-up scenes in which the courses of two blobs decide the labels.
 *
 * A green blob drifts; a red one comes by. In half of the scenes their courses meet (event): the red one is gone from
 * then on, and a flash grows and fades where they met; in half of these it grows faster and the green one is gone too
 * (outcome). In the others the red one passes by. Hot spots of the infrared camera come as cooling curves of tracks:
 * what a flash leaves cools more slowly where there is an outcome, but not always, and there are hot spots without an
 * event. Infrared video has what is warm: both blobs, the flash, and others that only drift. The object's motion is
 * drawn beside all of that, and says nothing about it.
 *
 * A sample is a function of seed and number, in any size of frames. Units: the shorter side of a frame, the whole clip.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "data/keys.h"
#include "data/motion.h"
#include "data/source.h"
#include "data/spots.h"
#include "data/two_labels.h"

enum { TRACKS = 10, INSTANTS = 3, CLASSES = 5, JUDGED_MOST = 1024 };

static const hr_key keys[] = {
    {.path = "data.scenes.samples",
     .type = HR_KEY_INT,
     .fallback = "2048",
     .min = 2,
     .max = 1e9,
     .meaning = "source scenes: how many there are"},
};
const hr_key_table hr_scenes_keys = {keys, sizeof keys / sizeof *keys};

typedef struct scenes {
  hr_random_key key;
  uint64_t samples, held;
} scenes;

typedef struct blob {
  double x, y, dx, dy; /* where it is at the beginning, and how far it goes in the whole clip */
} blob;

typedef struct scene {
  hr_two_labels labels;
  blob green, red;
  double met, at_x, at_y, fades; /* when and where courses meet, and how fast the flash fades */
} scene;

static hr_status scenes_open(const hr_source_request *request, void **state, hr_error *err) {
  scenes *s = hr__alloc_zero(1, sizeof *s);
  if (!s) return hr__nomem(err);
  s->key = (hr_random_key){request->seed, hr__random_stream("data.scenes")};
  s->samples = (uint64_t)hr__recipe_int(request->recipe, "data.scenes.samples");
  if (!hr__samples_suffice(request, s->samples)) {
    hr__free(s);
    return hr__recipe_fail(request->recipe, "data.scenes.samples", "take more", err, "there are not enough scenes");
  }
  s->held = hr__held_out(request, s->samples);
  *state = s;
  return HR_OK;
}

/* Number `which` of a sample, in [low, high). */
static double drawn(const scenes *s, uint64_t sample, uint64_t which, double low, double high) {
  hr_random_block block = hr__random_at(s->key, sample, which);
  return low + (high - low) * (double)block.word[0] * 0x1p-32;
}

static scene scene_of(const scenes *s, uint64_t sample) {
  const double turn = 6.283185307179586;
  scene c = {.green = {drawn(s, sample, 0, 0.35, 0.65), drawn(s, sample, 1, 0.35, 0.65), drawn(s, sample, 2, -0.2, 0.2),
                       drawn(s, sample, 3, -0.2, 0.2)},
             .met = drawn(s, sample, 4, 0.3, 0.5),
             .fades = drawn(s, sample, 5, 0.5, 1.0)};
  c.labels.event = drawn(s, sample, 6, 0, 1) < 0.5;
  c.labels.outcome = c.labels.event && drawn(s, sample, 7, 0, 1) < 0.5;
  double angle = drawn(s, sample, 8, 0, turn), side = drawn(s, sample, 9, 0, 1) < 0.5 ? -1 : 1;
  double miss = c.labels.event ? 0 : side * drawn(s, sample, 10, 0.25, 0.4);
  c.at_x = c.green.x + c.green.dx * c.met;
  c.at_y = c.green.y + c.green.dy * c.met;
  c.red.dx = 1.2 * cos(angle);
  c.red.dy = 1.2 * sin(angle);
  c.red.x = c.at_x - c.red.dx * c.met - miss * sin(angle);
  c.red.y = c.at_y - c.red.dy * c.met + miss * cos(angle);
  return c;
}

/* ---- frames ---- */

typedef struct spot {
  double x, y, radius, bright; /* bright 0: it is not there */
  double colour[3];
} spot;
enum { SPOTS = 3, FLASH = 2 };

static void spots_at(const scene *c, double time, spot out[SPOTS]) {
  bool met = c->labels.event && time >= c->met;
  double since = met ? time - c->met : 0;
  out[0] = (spot){c->green.x + c->green.dx * time,
                  c->green.y + c->green.dy * time,
                  0.07,
                  met && c->labels.outcome ? 0 : 1,
                  {40, 190, 60}};
  out[1] = (spot){c->red.x + c->red.dx * time, c->red.y + c->red.dy * time, 0.05, met ? 0 : 1, {200, 50, 40}};
  out[FLASH] = (spot){c->at_x,
                      c->at_y,
                      0.06 + (c->labels.outcome ? 0.3 : 0.1) * since,
                      met ? exp(-since / c->fades) : 0,
                      {215, 205, 150}};
}

/* Grains of a picture: four bytes a word of a fast generator, begun from the sample's own numbers. */
static uint32_t grain(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

static void frame_draw(const spot *spots, int64_t height, int64_t width, int64_t plane, uint32_t *noise, uint8_t *rgb) {
  double unit = (double)(height < width ? height : width);
  for (int64_t y = 0; y < height; y++)
    for (int64_t x = 0; x < width; x++) {
      double colour[3] = {30, 30, 35}, u = ((double)x + 0.5 - 0.5 * (double)width) / unit + 0.5;
      double v = ((double)y + 0.5 - 0.5 * (double)height) / unit + 0.5;
      for (int i = 0; i < SPOTS; i++) {
        double far = ((u - spots[i].x) * (u - spots[i].x) + (v - spots[i].y) * (v - spots[i].y)) /
                     (spots[i].radius * spots[i].radius);
        if (spots[i].bright == 0 || far > 9) continue;
        double part = spots[i].bright * exp(-0.5 * far);
        for (int k = 0; k < 3; k++)
          colour[k] += part * spots[i].colour[k];
      }
      uint32_t grains = grain(noise);
      for (int k = 0; k < 3; k++) {
        double value = colour[k] + (double)(grains >> 8 * k & 15);
        rgb[k * plane + y * width + x] = (uint8_t)(value > 255 ? 255 : value);
      }
    }
}

static void frames_put(const scenes *s, uint64_t sample, const hr_field *field, uint8_t *to) {
  scene c = scene_of(s, sample);
  int64_t frames = field->desc.dim[2], height = field->desc.dim[3], width = field->desc.dim[4];
  uint32_t noise = hr__random_at(s->key, sample, 100).word[0] | 1;
  for (int64_t t = 0; t < frames; t++) {
    spot spots[SPOTS];
    spots_at(&c, (double)t / (double)frames, spots);
    frame_draw(spots, height, width, frames * height * width, &noise, to + t * height * width);
  }
}

/* 1 where a flash is. */
static void mask_put(const scenes *s, uint64_t sample, const hr_field *field, uint8_t *to) {
  scene c = scene_of(s, sample);
  int64_t frames = field->desc.dim[2], height = field->desc.dim[3], width = field->desc.dim[4];
  double unit = (double)(height < width ? height : width);
  for (int64_t i = 0; i < frames * height * width; i++) {
    spot spots[SPOTS];
    if (i % (height * width) == 0) spots_at(&c, (double)(i / (height * width)) / (double)frames, spots);
    double u = ((double)(i % width) + 0.5 - 0.5 * (double)width) / unit + 0.5 - spots[FLASH].x;
    double v = ((double)(i / width % height) + 0.5 - 0.5 * (double)height) / unit + 0.5 - spots[FLASH].y;
    double radius = 1.5 * spots[FLASH].radius;
    to[i] = spots[FLASH].bright > 0 && u * u + v * v < radius * radius;
  }
}

/* ---- infrared ---- */

/* What is warm: the two objects, the flash, and a few things that only drift, all seen as soft disks. A spot's size is
 * that of its disk, 3 x its radius; those that are fainter than the least are not told of. */
enum { DRIFTING = 3, WARM = SPOTS + DRIFTING };
static const double LEAST_BRIGHT = 0.25;

static int warm_at(const scenes *s, uint64_t sample, const scene *c, double time, spot out[WARM]) {
  static const double bright[SPOTS] = {0.45, 0.6, 1};
  int count = SPOTS, drifting = (int)drawn(s, sample, 120, 0, DRIFTING + 1);
  spots_at(c, time, out);
  for (int i = 0; i < SPOTS; i++)
    out[i].bright *= bright[i];
  for (int i = 0; i < drifting; i++, count++) {
    uint64_t which = 130 + (uint64_t)i * 6;
    out[count] = (spot){.x = drawn(s, sample, which, 0, 1) + time * drawn(s, sample, which + 1, -0.3, 0.3),
                        .y = drawn(s, sample, which + 2, 0, 1) + time * drawn(s, sample, which + 3, -0.3, 0.3),
                        .radius = drawn(s, sample, which + 4, 0.03, 0.06),
                        .bright = drawn(s, sample, which + 5, 0.3, 0.8)};
  }
  return count;
}

static void infrared_put(const scenes *s, uint64_t sample, const hr_field *field, uint8_t *to) {
  scene c = scene_of(s, sample);
  int64_t frames = field->desc.dim[2], height = field->desc.dim[3], width = field->desc.dim[4];
  double unit = (double)(height < width ? height : width);
  uint32_t noise = hr__random_at(s->key, sample, 101).word[0] | 1;
  for (int64_t t = 0; t < frames; t++) {
    spot warm[WARM];
    int count = warm_at(s, sample, &c, (double)t / (double)frames, warm);
    for (int64_t i = 0; i < height * width; i++) {
      double u = ((double)(i % width) + 0.5 - 0.5 * (double)width) / unit + 0.5;
      double v = ((double)(i / width) + 0.5 - 0.5 * (double)height) / unit + 0.5, heat = 20;
      for (int k = 0; k < count; k++) {
        double far =
            ((u - warm[k].x) * (u - warm[k].x) + (v - warm[k].y) * (v - warm[k].y)) / (warm[k].radius * warm[k].radius);
        if (warm[k].bright > 0 && far <= 9) heat += 200 * warm[k].bright * exp(-0.5 * far);
      }
      heat += (double)(grain(&noise) & 15);
      *to++ = (uint8_t)(heat > 255 ? 255 : heat);
    }
  }
}

/* Of frames like those of `infrared`; what is NULL is not written. */
static void spots_put(const scenes *s, uint64_t sample, const hr_field *infrared, float *numbers, int32_t *cells,
                      uint8_t *mask) {
  scene c = scene_of(s, sample);
  int64_t frames = infrared->desc.dim[2], height = infrared->desc.dim[3], width = infrared->desc.dim[4];
  double unit = (double)(height < width ? height : width);
  for (int64_t t = 0; t < frames; t++) {
    spot warm[WARM];
    hr_spot_list list = {.count = 0};
    int count = warm_at(s, sample, &c, (double)t / (double)frames, warm);
    for (int k = 0; k < count; k++) {
      float *n = list.number[list.count];
      double across = 3 * warm[k].radius * unit;
      n[HR_SPOT_X] = (float)(((warm[k].x - 0.5) * unit + 0.5 * (double)width) / (double)width);
      n[HR_SPOT_Y] = (float)(((warm[k].y - 0.5) * unit + 0.5 * (double)height) / (double)height);
      n[HR_SPOT_WIDTH] = (float)(across / (double)width);
      n[HR_SPOT_HEIGHT] = (float)(across / (double)height);
      n[HR_SPOT_BRIGHTNESS] = (float)warm[k].bright;
      if (warm[k].bright >= LEAST_BRIGHT && hr__spot_seen(n)) list.count++;
    }
    hr__spots_put(&list, height, width, numbers ? numbers + t * HR_SPOTS * HR_SPOT_NUMBERS : NULL,
                  cells ? cells + t * HR_SPOTS : NULL, mask ? mask + t * HR_SPOTS : NULL);
  }
}

/* ---- the rest ---- */

/* A track that cools by e in `tau`, seen with some error. */
static void track_put(const scenes *s, uint64_t sample, int track, double peak, double tau, float *curve, float *area) {
  for (int i = 0; i < INSTANTS; i++) {
    uint64_t which = 200 + (uint64_t)(track * INSTANTS + i) * 2;
    curve[i] = (float)(peak * exp(-0.2 * i / tau) + drawn(s, sample, which, -0.05, 0.05));
    area[i] = (float)(0.1 + 0.05 * i + drawn(s, sample, which + 1, -0.02, 0.02));
  }
}

static void tracks_put(const scenes *s, uint64_t sample, float *curves, float *areas, uint8_t *mask) {
  scene c = scene_of(s, sample);
  float unused[2][TRACKS * INSTANTS];
  uint8_t none[TRACKS];
  curves = curves ? curves : unused[0];
  areas = areas ? areas : unused[1];
  mask = mask ? mask : none;
  memset(curves, 0, TRACKS * INSTANTS * sizeof *curves);
  memset(areas, 0, TRACKS * INSTANTS * sizeof *areas);
  memset(mask, 0, TRACKS);
  int count = 0, warm = (int)drawn(s, sample, 20, 0, 4);
  if (c.labels.event || drawn(s, sample, 21, 0, 1) < 0.5) {
    double slow = c.labels.event ? (c.labels.outcome ? 0.3 : 0) : drawn(s, sample, 22, 0, 0.3);
    track_put(s, sample, count, 1, 0.15 + slow + drawn(s, sample, 23, 0, 0.3), curves, areas);
    mask[count++] = 1;
  }
  for (int i = 0; i < warm; i++, count++) {
    track_put(s, sample, count, drawn(s, sample, 30 + (uint64_t)i, 0.2, 0.5), 5, curves + count * INSTANTS,
              areas + count * INSTANTS);
    mask[count] = 1;
  }
}

static void motion_put(const scenes *s, uint64_t sample, float *numbers, float *features) {
  double motion[HR_MOTION_INSTANTS][HR_MOTION_NUMBERS], out[HR_MOTION_FEATURES];
  for (int axis = 0; axis < 3; axis++) {
    double place = drawn(s, sample, 40 + (uint64_t)axis, axis == 2 ? 0.2 : -2, 2);
    double velocity = drawn(s, sample, 50 + (uint64_t)axis, -0.5, 0.5);
    for (int i = 0; i < HR_MOTION_INSTANTS; i++) {
      motion[i][HR_MOTION_PLACE + axis] = place;
      motion[i][HR_MOTION_VELOCITY + axis] = velocity;
      place += velocity;
      velocity += drawn(s, sample, 60 + (uint64_t)(axis * HR_MOTION_INSTANTS + i), -0.1, 0.1);
    }
  }
  for (int i = 0; i < HR_MOTION_INSTANTS; i++)
    hr__motion_seen(motion[i]);
  hr__motion_features((const double(*)[HR_MOTION_NUMBERS])motion, out);
  for (int i = 0; numbers && i < HR_MOTION_INSTANTS * HR_MOTION_NUMBERS; i++)
    numbers[i] = (float)motion[i / HR_MOTION_NUMBERS][i % HR_MOTION_NUMBERS];
  for (int i = 0; features && i < HR_MOTION_FEATURES; i++)
    features[i] = (float)out[i];
}

static uint64_t first_held(const scenes *s) {
  return s->samples - s->held;
}

/* Entries behind all samples are those that are held out, once more. */
static uint64_t sample_of(const scenes *s, uint64_t entry) {
  return entry < s->samples || s->held == 0 ? entry % s->samples : first_held(s) + (entry - s->samples) % s->held;
}

static hr_status scenes_fill(const void *state, bool eval, uint64_t entry, const hr_room *room, hr_error *err) {
  const scenes *s = state;
  uint64_t sample = sample_of(s, entry);
  hr_two_labels labels = scene_of(s, sample).labels;
  const hr_field *infrared = hr__field_named(room->fields, "infrared");
  (void)eval, (void)err;
  for (int i = 0; i < room->fields->count; i++) {
    const hr_field *field = &room->fields->list[i];
    if (field->purpose != HR_FOR_VALUES) continue;
    if (strcmp(field->name, "rgb") == 0)
      frames_put(s, sample, field, room->at[i]);
    else if (strcmp(field->name, "frame_mask") == 0)
      mask_put(s, sample, field, room->at[i]);
    else if (strcmp(field->name, "infrared") == 0)
      infrared_put(s, sample, field, room->at[i]);
    else if (strcmp(field->name, "spots") == 0)
      spots_put(s, sample, infrared, room->at[i], NULL, NULL);
    else if (strcmp(field->name, "spot_cells") == 0)
      spots_put(s, sample, infrared, NULL, room->at[i], NULL);
    else if (strcmp(field->name, "spot_mask") == 0)
      spots_put(s, sample, infrared, NULL, NULL, room->at[i]);
    else if (strcmp(field->name, "motion") == 0)
      motion_put(s, sample, room->at[i], NULL);
    else if (strcmp(field->name, "motion_features") == 0)
      motion_put(s, sample, NULL, room->at[i]);
    else if (strcmp(field->name, "curves") == 0)
      tracks_put(s, sample, room->at[i], NULL, NULL);
    else if (strcmp(field->name, "curve_areas") == 0)
      tracks_put(s, sample, NULL, room->at[i], NULL);
    else if (strcmp(field->name, "curve_mask") == 0)
      tracks_put(s, sample, NULL, NULL, room->at[i]);
    else if (strcmp(field->name, "class_id") == 0)
      *(int32_t *)room->at[i] = (int32_t)drawn(s, sample, 70, 0, CLASSES);
    else if (strcmp(field->name, "event_label") == 0)
      *(uint8_t *)room->at[i] = labels.event;
    else if (strcmp(field->name, "outcome_label") == 0)
      *(uint8_t *)room->at[i] = labels.outcome;
  }
  return HR_OK;
}

static uint64_t scenes_samples(const void *state) {
  return ((const scenes *)state)->samples;
}

static uint64_t scenes_items(const void *state, int64_t *of_an_entry) {
  const scenes *s = state;
  *of_an_entry = 1;
  return s->held < JUDGED_MOST ? s->held : JUDGED_MOST;
}

static hr_status scenes_judge(const void *state, const float *points, int64_t width, hr_judged *out, hr_error *err) {
  const scenes *s = state;
  int64_t of_an_entry;
  uint64_t count = scenes_items(s, &of_an_entry);
  hr_two_labels *labels = hr__alloc_zero(count, sizeof *labels);
  if (!labels) return hr__nomem(err);
  for (uint64_t i = 0; i < count; i++)
    labels[i] = scene_of(s, first_held(s) + i).labels;
  hr_status status = hr__two_labels_judge(labels, points, count, width, out, err);
  hr__free(labels);
  return status;
}

const hr_source hr_source_scenes = {
    .name = "scenes",
    .purposes = 1u << HR_FOR_VALUES,
    .open = scenes_open,
    .close = hr__free,
    .samples = scenes_samples,
    .fill = scenes_fill,
    .items = scenes_items,
    .judge = scenes_judge,
};
