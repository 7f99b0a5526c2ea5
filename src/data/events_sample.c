/* A sample: which of its vectors count, and where they stand. See events.h.
 *
 * Vectors go through three sieves, each of which keeps their order and an exact number of them, so that the length of a
 * sample is known without drawing: a part of each interval (at least one of each), in training all but the part `drop`
 * of those, and where there are more than L, L of them evenly. In training times are scaled, and x, y and t are moved a
 * little: this decides the orders, and nothing of the vectors.
 */
#include <math.h>
#include <string.h>

#include "data/events.h"

/* Takes exactly `wanted` of `of`, each as likely as any other: asked for one after the other. */
typedef struct sieve {
  uint64_t of, wanted;
} sieve;

static bool sieve_keeps(sieve *s, uint32_t word) {
  double u = ((double)word + 0.5) * 0x1p-32;
  bool keeps = u * (double)s->of < (double)s->wanted;
  s->of--;
  s->wanted -= keeps;
  return keeps;
}

static uint64_t part_of(double ratio, uint64_t count) {
  if (count == 0) return 0;
  uint64_t part = (uint64_t)floor(ratio * (double)count + 1e-9);
  return part < 1 ? 1 : part > count ? count : part;
}

static double ratio_of(const hr_event_draw *d) {
  return d->training ? d->events->settings.train_ratio : d->events->settings.eval_ratio;
}

/* Behind the first sieve, and behind the second. */
static void counts_of(const hr_event_draw *d, uint64_t *chosen, uint64_t *kept) {
  const hr_events_settings *s = &d->events->settings;
  *chosen = 0;
  for (uint32_t i = 0; i < d->sample->n_intervals; i++)
    *chosen += part_of(ratio_of(d), d->events->intervals[d->sample->intervals + i].rows);
  *kept = *chosen;
  if (d->training && s->augment) *kept -= (uint64_t)floor(s->drop * (double)*chosen + 1e-9);
}

int64_t hr__event_draw_length(const hr_event_draw *d) {
  uint64_t chosen, kept;
  counts_of(d, &chosen, &kept);
  return kept < (uint64_t)d->length ? (int64_t)kept : d->length;
}

typedef struct drawing {
  const hr_event_draw *d;
  sieve second;
  uint64_t kept, seen; /* all that pass the second sieve, and so far */
  uint64_t row;        /* of the sample, as it lies: what draws go by */
  int64_t put;
  double scale;
  float *vectors, *places;
} drawing;

static void row_put(drawing *g, const float *row) {
  const hr_event_draw *d = g->d;
  const float *place = row + HR_EVENT_WIDTH;
  hr_random_key key = d->key;
  double at[3] = {(double)place[0], (double)place[1], (double)place[2] * g->scale};
  key.stream ^= hr__random_stream("jitter");
  memcpy(g->vectors + g->put * HR_EVENT_WIDTH, row, HR_EVENT_WIDTH * sizeof *row);
  for (uint64_t axis = 0; axis < 3; axis++) {
    if (d->training && d->events->settings.augment)
      at[axis] += d->events->settings.jitter * (double)hr__random_normal(key, d->high, 4 * g->row + axis);
    g->places[(int64_t)axis * d->length + g->put] = (float)at[axis];
  }
  g->put++;
}

static void interval_draw(drawing *g, const float *rows, uint32_t count) {
  const hr_event_draw *d = g->d;
  uint64_t length = (uint64_t)d->length;
  sieve first = {count, part_of(ratio_of(d), count)};
  for (uint32_t i = 0; i < count; i++, g->row++) {
    hr_random_block block = hr__random_at(d->key, d->high, g->row);
    if (!sieve_keeps(&first, block.word[0]) || !sieve_keeps(&g->second, block.word[1])) continue;
    uint64_t number = g->seen++;
    if (g->kept > length && (number + 1) * length / g->kept == number * length / g->kept) continue;
    row_put(g, rows + (size_t)i * HR_EVENT_ROW);
  }
}

hr_status hr__event_draw(const hr_event_draw *d, float *room, float *vectors, float *places, hr_error *err) {
  drawing g = {.d = d, .scale = 1, .vectors = vectors, .places = places};
  const hr_events_settings *s = &d->events->settings;
  counts_of(d, &g.second.of, &g.kept);
  g.second.wanted = g.kept;
  hr_random_key key = d->key;
  key.stream ^= hr__random_stream("time_scale");
  double u = ((double)hr__random_at(key, d->high, 0).word[0] + 0.5) * 0x1p-32;
  if (d->training && s->augment) g.scale = 1 + s->time_scale * (2 * u - 1);
  for (uint32_t i = 0; i < d->sample->n_intervals; i++) {
    HR_TRY(hr__events_rows(d->events, d->sample, i, room, err));
    interval_draw(&g, room, d->events->intervals[d->sample->intervals + i].rows);
  }
  memset(vectors + g.put * HR_EVENT_WIDTH, 0, (size_t)((d->length - g.put) * HR_EVENT_WIDTH) * sizeof *vectors);
  return HR_OK;
}
