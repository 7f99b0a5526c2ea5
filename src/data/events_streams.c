/* Made-up streams of events: something moves in one of eight ways in front of a camera of 32 x 32 pixels, for 400 ms,
 * which is two intervals. See events.h.
 *
 * What moves are points of a bar. Each gives an event of polarity 1 where it arrives and one of 0 a little later where
 * it was. In the second half it goes on as in the first, from the beginning, or goes back the same way: of the latter
 * two the vectors are the same, and only their order in time tells them apart. One event in ten is noise, anywhere and
 * anytime.
 */
#include <math.h>

#include "data/events.h"

enum { SIDE = 32, EVENTS_LEAST = 300, EVENTS_MORE = 100, NOISE_ONE_IN = 10 };
static const double LASTS_MS = 400, BEHIND = 0.05, PI = 3.14159265358979323846;

const char *const hr_event_motions[HR_EVENT_MOTIONS] = {
    "right", "left", "down", "up", "clockwise", "counterclockwise", "right and back", "left and back"};

/* Of each half. */
typedef enum way { RIGHT, LEFT, DOWN, UP, CLOCKWISE, COUNTERCLOCKWISE } way;
static const way halves[HR_EVENT_MOTIONS][2] = {
    {RIGHT, RIGHT}, {LEFT, LEFT}, {DOWN, DOWN}, {UP, UP}, {CLOCKWISE, CLOCKWISE}, {COUNTERCLOCKWISE, COUNTERCLOCKWISE},
    {RIGHT, LEFT},  {LEFT, RIGHT}};

static double even(hr_random_key key, uint64_t number, uint64_t draw) {
  return ((double)hr__random_at(key, number, draw).word[0] + 0.5) * 0x1p-32;
}

/* What moves: half its length, pixels that it goes in half the time, its angle at first. */
typedef struct bar {
  double size, speed, phase;
} bar;

/* Where a point of it is at time t of a half, from 0 to 1: `along` from -1 to 1 is its place in the bar. */
static void point_at(const bar *b, way w, double t, double along, double *x, double *y) {
  double gone = b->speed * (t - 0.5), angle = b->phase + (w == CLOCKWISE ? gone : -gone) * PI / 24;
  if (w == RIGHT || w == LEFT) {
    *x = w == RIGHT ? gone : -gone;
    *y = b->size * along;
  } else if (w == DOWN || w == UP) {
    *x = b->size * along;
    *y = w == DOWN ? gone : -gone;
  } else { /* y goes down, so this is clockwise as seen */
    *x = b->size * along * cos(angle);
    *y = b->size * along * sin(angle);
  }
}

hr_status hr__event_stream(uint64_t seed, uint64_t number, hr_event_list *out, hr_error *err) {
  hr_random_key key = {seed, hr__random_stream("data.events.streams")};
  const way *ways = halves[number % HR_EVENT_MOTIONS];
  bar b = {8 + 4 * even(key, number, 0), 14 + 8 * even(key, number, 1), PI * even(key, number, 2)};
  double left = SIDE / 2 + 4 * (even(key, number, 3) - 0.5), top = SIDE / 2 + 4 * (even(key, number, 4) - 0.5);
  uint64_t events = EVENTS_LEAST + (uint64_t)(EVENTS_MORE * even(key, number, 5));
  out->count = 0;
  for (uint64_t i = 0; i < events; i++) {
    uint64_t draw = 16 + 4 * i;
    double t = 2 * even(key, number, draw), along = 2 * even(key, number, draw + 1) - 1, x, y;
    int32_t p = even(key, number, draw + 2) < 0.5;
    int half = t >= 1;
    point_at(&b, ways[half], t - half - (p ? 0 : BEHIND), along, &x, &y);
    if (i % NOISE_ONE_IN == 0) {
      x = SIDE * even(key, number, draw + 3) - left;
      y = SIDE * along / 2 + SIDE / 2 - top;
    }
    hr_event event = {.x = (int32_t)floor(left + x), .y = (int32_t)floor(top + y), .p = p, .t = t / 2 * LASTS_MS};
    if (event.x < 0 || event.y < 0 || event.x >= SIDE || event.y >= SIDE) continue; /* out of sight */
    HR_TRY(hr__event_add(out, event, err));
  }
  return HR_OK;
}
