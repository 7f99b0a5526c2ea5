/* Made-up streams of events: something moves in one of eight ways in front of a camera of 32 x 32 pixels, for 200 ms.
 * See events.h.
 *
 * What moves are points of a bar or ring; each gives an event with polarity 1 where it arrives and 0 a little later
 * where it was. One event in ten is noise, anywhere and anytime.
 */
#include <math.h>

#include "data/events.h"

enum { SIDE = 32, EVENTS = 400, NOISE_ONE_IN = 10 };
static const double LASTS_MS = 200, PI = 3.14159265358979323846;

const char *const hr_event_motions[HR_EVENT_MOTIONS] = {
    "right", "left", "down", "up", "clockwise", "counterclockwise", "spread", "shrink"};

static double even(hr_random_key key, uint64_t number, uint64_t draw) {
  return ((double)hr__random_at(key, number, draw).word[0] + 0.5) * 0x1p-32;
}

/* Where a point of the thing is at time t from 0 to 1: `along` from -1 to 1 is its place in the thing. */
static void point_at(int motion, double t, double along, double size, double speed, double phase, double *x,
                     double *y) {
  double way = speed * (t - 0.5), angle = phase + (motion == 5 ? -way : way) * PI / 24;
  double radius = size + (motion == 6 ? way : -way) / 2;
  switch (motion) {
  case 0:
    *x = way, *y = size * along;
    break;
  case 1:
    *x = -way, *y = size * along;
    break;
  case 2:
    *x = size * along, *y = way;
    break;
  case 3:
    *x = size * along, *y = -way;
    break;
  case 4:
  case 5:
    *x = size * along * cos(angle), *y = size * along * sin(angle);
    break; /* y goes down: clockwise as seen */
  default:
    *x = radius * cos(PI * along), *y = radius * sin(PI * along);
    break;
  }
}

hr_status hr__event_stream(uint64_t seed, uint64_t number, hr_event_list *out, hr_error *err) {
  hr_random_key key = {seed, hr__random_stream("data.events.streams")};
  int motion = (int)(number % HR_EVENT_MOTIONS);
  double size = 8 + 4 * even(key, number, 0), speed = 14 + 8 * even(key, number, 1), phase = PI * even(key, number, 2);
  double left = SIDE / 2 + 4 * (even(key, number, 3) - 0.5), top = SIDE / 2 + 4 * (even(key, number, 4) - 0.5);
  out->count = 0;
  for (uint64_t i = 0; i < EVENTS; i++) {
    uint64_t draw = 16 + 4 * i;
    double t = even(key, number, draw), along = 2 * even(key, number, draw + 1) - 1, x, y;
    int32_t p = even(key, number, draw + 2) < 0.5;
    point_at(motion, p ? t : t - 0.05, along, size, speed, phase, &x, &y);
    if (i % NOISE_ONE_IN == 0) {
      x = SIDE * even(key, number, draw + 3) - left;
      y = SIDE * along / 2 + SIDE / 2 - top;
    }
    hr_event event = {.x = (int32_t)floor(left + x), .y = (int32_t)floor(top + y), .p = p, .t = t * LASTS_MS};
    if (event.x < 0 || event.y < 0 || event.x >= SIDE || event.y >= SIDE) continue; /* out of sight */
    HR_TRY(hr__event_add(out, event, err));
  }
  return HR_OK;
}
