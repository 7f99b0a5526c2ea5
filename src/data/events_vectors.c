/* Events -> vectors. See events.h.
 *
 * With T, X and Y drawn once from N(0, 1) x encoding_scale, 64 numbers each, the vector of an event q is
 *
 *   exp(-i t_q T / interval) x sum over pixels p within 8 of q of exp(i (dx X + dy Y)) S_p / number of events there
 *
 * where S_p is the sum of exp(i t T / interval) over the events of p, and dx, dy are distances in neighbourhoods: from
 * -1 to 1. Times count from the beginning of the interval, which the product cancels.
 */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "data/events.h"

void hr__event_code(const hr_events_settings *settings, hr_event_code *out) {
  hr_random_key key = {settings->seed, hr__random_stream("data.events.encoding")};
  float *of[] = {out->t, out->x, out->y};
  out->interval_ms = settings->interval_ms;
  for (uint64_t axis = 0; axis < 3; axis++)
    for (uint64_t k = 0; k < HR_EVENT_DIM; k++)
      of[axis][k] = (float)((double)hr__random_normal(key, axis, k) * settings->encoding_scale);
  hr__event_places(out);
}

void hr__event_places(hr_event_code *out) {
  for (int row = 0; row < HR_EVENT_SIDE; row++)
    for (int column = 0; column < HR_EVENT_SIDE; column++)
      for (int k = 0; k < HR_EVENT_DIM; k++) {
        double dx = (double)(column - HR_EVENT_RADIUS) / HR_EVENT_RADIUS;
        double dy = (double)(row - HR_EVENT_RADIUS) / HR_EVENT_RADIUS;
        double angle = dx * (double)out->x[k] + dy * (double)out->y[k];
        out->place[row * HR_EVENT_SIDE + column][k] = (float)cos(angle);
        out->place[row * HR_EVENT_SIDE + column][HR_EVENT_DIM + k] = (float)sin(angle);
      }
}

/* The pixels of the smallest rectangle that holds all events, and sums of those that have any. */
struct hr_event_grid {
  int64_t left, top, width, height;
  uint32_t *counts; /* [height, width] */
  uint32_t *active; /* [height, width]: 1 + number of the pixel's sum; 0: it has no events */
  size_t capacity;  /* of the two: pixels */
  float *sums;      /* [active pixels, 128] */
  size_t n_active, cap_sums;
};

hr_event_grid *hr__event_grid_create(void) {
  return hr__alloc_zero(1, sizeof(hr_event_grid));
}

void hr__event_grid_destroy(hr_event_grid *grid) {
  if (!grid) return;
  hr__free(grid->counts);
  hr__free(grid->active);
  hr__free(grid->sums);
  hr__free(grid);
}

static hr_status pixels_take(hr_event_grid *grid, hr_error *err) {
  size_t pixels = (size_t)(grid->width * grid->height); /* at most HR_EVENT_PIXELS squared */
  if (pixels > grid->capacity) {
    hr__free(grid->counts);
    hr__free(grid->active);
    grid->counts = hr__alloc_zero(pixels, sizeof *grid->counts);
    grid->active = hr__alloc_zero(pixels, sizeof *grid->active);
    grid->capacity = grid->counts && grid->active ? pixels : 0;
    if (grid->capacity == 0) return hr__nomem(err);
  }
  if (pixels > 0) memset(grid->counts, 0, pixels * sizeof *grid->counts);
  if (pixels > 0) memset(grid->active, 0, pixels * sizeof *grid->active);
  return HR_OK;
}

static size_t pixel_of(const hr_event_grid *grid, const hr_event *event) {
  return (size_t)((event->y - grid->top) * grid->width + event->x - grid->left);
}

hr_status hr__event_grid_fill(hr_event_grid *grid, const hr_event *events, size_t count, hr_error *err) {
  int64_t right = -1, bottom = -1;
  grid->left = grid->top = HR_EVENT_PIXELS;
  for (size_t i = 0; i < count; i++) {
    if (events[i].x < grid->left) grid->left = events[i].x;
    if (events[i].x > right) right = events[i].x;
    if (events[i].y < grid->top) grid->top = events[i].y;
    if (events[i].y > bottom) bottom = events[i].y;
  }
  grid->width = count > 0 ? right - grid->left + 1 : 0;
  grid->height = count > 0 ? bottom - grid->top + 1 : 0;
  grid->n_active = 0;
  HR_TRY(pixels_take(grid, err));
  for (size_t i = 0; i < count; i++) {
    size_t pixel = pixel_of(grid, &events[i]);
    if (grid->counts[pixel]++ == 0) grid->active[pixel] = (uint32_t)++grid->n_active;
  }
  return HR_OK;
}

uint32_t hr__event_grid_count(const hr_event_grid *grid, int64_t x, int64_t y) {
  int64_t column = x - grid->left, row = y - grid->top;
  if (column < 0 || row < 0 || column >= grid->width || row >= grid->height) return 0;
  return grid->counts[row * grid->width + column];
}

static hr_status sums_make(hr_event_grid *grid, const hr_event_code *code, double begin_ms, const hr_event *events,
                           size_t count, hr_error *err) {
  size_t numbers = grid->n_active * HR_EVENT_WIDTH;
  if (numbers > grid->cap_sums) {
    hr__free(grid->sums);
    grid->sums = hr__alloc_zero(numbers, sizeof *grid->sums);
    grid->cap_sums = grid->sums ? numbers : 0;
    if (!grid->sums) return hr__nomem(err);
  }
  if (numbers > 0) memset(grid->sums, 0, numbers * sizeof *grid->sums);
  for (size_t i = 0; i < count; i++) {
    float *sum = grid->sums + (size_t)(grid->active[pixel_of(grid, &events[i])] - 1) * HR_EVENT_WIDTH;
    double time = (events[i].t - begin_ms) / code->interval_ms;
    for (int k = 0; k < HR_EVENT_DIM; k++) {
      sum[k] += (float)cos(time * (double)code->t[k]);
      sum[HR_EVENT_DIM + k] += (float)sin(time * (double)code->t[k]);
    }
  }
  return HR_OK;
}

/* sum += place x part, complex. */
HR_CLONES static void product_add(const float *place, const float *part, float *sum) {
  for (int k = 0; k < HR_EVENT_DIM; k++) {
    float a = place[k], b = place[HR_EVENT_DIM + k], c = part[k], d = part[HR_EVENT_DIM + k];
    sum[k] += a * c - b * d;
    sum[HR_EVENT_DIM + k] += a * d + b * c;
  }
}

static void vector_make(const hr_event_grid *grid, const hr_event_code *code, double begin_ms, const hr_event *event,
                        float *out) {
  float sum[HR_EVENT_WIDTH] = {0};
  uint64_t around = 0;
  for (int row = 0; row < HR_EVENT_SIDE; row++)
    for (int column = 0; column < HR_EVENT_SIDE; column++) {
      int64_t x = event->x + column - HR_EVENT_RADIUS, y = event->y + row - HR_EVENT_RADIUS;
      uint32_t count = hr__event_grid_count(grid, x, y);
      if (count == 0) continue;
      uint32_t number = grid->active[(y - grid->top) * grid->width + x - grid->left] - 1;
      product_add(code->place[row * HR_EVENT_SIDE + column], grid->sums + (size_t)number * HR_EVENT_WIDTH, sum);
      around += count;
    }
  double time = (event->t - begin_ms) / code->interval_ms;
  for (int k = 0; k < HR_EVENT_DIM; k++) {
    double c = cos(time * (double)code->t[k]), s = -sin(time * (double)code->t[k]);
    double re = (double)sum[k], im = (double)sum[HR_EVENT_DIM + k];
    out[k] = (float)((re * c - im * s) / (double)around);
    out[HR_EVENT_DIM + k] = (float)((re * s + im * c) / (double)around);
  }
}

hr_status hr__event_vectors(hr_event_grid *grid, const hr_event_code *code, double begin_ms, const hr_event *events,
                            size_t count, const uint32_t *chosen, size_t n_chosen, float *out, hr_error *err) {
  HR_TRY(sums_make(grid, code, begin_ms, events, count, err));
  for (size_t i = 0; i < n_chosen; i++) {
    const hr_event *event = &events[chosen[i]];
    float *row = out + i * HR_EVENT_ROW;
    vector_make(grid, code, begin_ms, event, row);
    row[HR_EVENT_WIDTH] = (float)event->x;
    row[HR_EVENT_WIDTH + 1] = (float)event->y;
    row[HR_EVENT_WIDTH + 2] = (float)event->t;
    row[HR_EVENT_WIDTH + 3] = (float)event->p;
  }
  return HR_OK;
}
