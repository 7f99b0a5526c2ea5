/* Which questions are trained on and which are held out. See sensors.h.
 *
 * Recordings that a question joins are held out together, so that nothing that is evaluated on was seen in training.
 * Groups of joined recordings are drawn in an order of their own until data.eval_fraction of the questions is held out:
 * a group that would be too much is passed over; where all are, the smallest is taken.
 */
#include <string.h>

#include "base/random.h"
#include "data/sensors.h"

typedef struct groups {
  int32_t *parent;  /* per recording: another of its group; itself: it stands for the group */
  uint32_t *number; /* per recording that stands for a group */
  uint32_t *sizes;  /* questions of each group */
  bool *held;
  uint32_t count;
} groups;

static int32_t group_of(const groups *g, int32_t recording) {
  while (g->parent[recording] != recording)
    recording = g->parent[recording] = g->parent[g->parent[recording]];
  return recording;
}

/* Groups are numbered as questions come. */
static uint32_t number_of(const hr_sensors *s, const groups *g, size_t question) {
  return s->settings.by_question ? (uint32_t)question : g->number[group_of(g, s->questions[question].recordings[0])];
}

static hr_status groups_make(hr_sensors *s, groups *g, hr_arena *arena, hr_error *err) {
  size_t most = s->n_recordings > s->n_questions ? s->n_recordings : s->n_questions;
  g->parent = hr__arena_array(arena, s->n_recordings + 1, sizeof *g->parent);
  g->number = hr__arena_array(arena, s->n_recordings + 1, sizeof *g->number);
  g->sizes = hr__arena_array(arena, most + 1, sizeof *g->sizes);
  g->held = hr__arena_array(arena, most + 1, sizeof *g->held);
  if (!g->parent || !g->number || !g->sizes || !g->held) return hr__nomem(err);
  for (size_t i = 0; i < s->n_recordings; i++) {
    g->parent[i] = (int32_t)i;
    g->number[i] = UINT32_MAX;
  }
  for (size_t i = 0; i < s->n_questions; i++)
    for (size_t k = 1; k < s->questions[i].n_recordings && !s->questions[i].bad; k++)
      g->parent[group_of(g, s->questions[i].recordings[k])] = group_of(g, s->questions[i].recordings[0]);
  for (size_t i = 0; i < s->n_questions; i++) {
    if (s->settings.by_question) {
      g->sizes[i] = !s->questions[i].bad;
      g->count = (uint32_t)s->n_questions;
      continue;
    }
    if (s->questions[i].bad) continue;
    uint32_t *number = &g->number[group_of(g, s->questions[i].recordings[0])];
    if (*number == UINT32_MAX) *number = g->count++;
    g->sizes[*number]++;
  }
  return HR_OK;
}

/* Returns how many questions are held out. */
static uint64_t groups_hold(const hr_sensors *s, const groups *g, const hr_source_request *request) {
  hr_random_key key = {request->seed, hr__random_stream("sensors.held")};
  uint64_t most = hr__held_out(request, s->n_samples), held = 0;
  uint32_t smallest = UINT32_MAX;
  for (uint32_t i = 0; i < g->count; i++) {
    uint32_t group = (uint32_t)hr__random_permute(key, 0, i, g->count);
    if (g->sizes[group] == 0) continue;
    if (smallest == UINT32_MAX || g->sizes[group] < g->sizes[smallest]) smallest = group;
    if (held + g->sizes[group] > most) continue;
    g->held[group] = true;
    held += g->sizes[group];
  }
  if (held > 0 || smallest == UINT32_MAX) return held;
  g->held[smallest] = true;
  return g->sizes[smallest];
}

static hr_status split(hr_sensors *s, const hr_source_request *request, hr_arena *arena, hr_error *err) {
  groups g = {0};
  size_t train = 0, held = 0;
  for (size_t i = 0; i < s->n_questions; i++)
    s->n_samples += !s->questions[i].bad;
  if (s->n_samples == 0)
    return hr__fail(err, HR_BAD_INPUT, s->settings.questions, "ask about recordings that can be read",
                    "no question is left");
  s->order = hr__arena_array(&s->arena, s->n_samples, sizeof *s->order);
  if (!s->order) return hr__nomem(err);
  HR_TRY(groups_make(s, &g, arena, err));
  if (request->held == HR_HOLD_ALL) s->n_held = s->n_samples;
  if (request->held == HR_HOLD_PART) s->n_held = (size_t)groups_hold(s, &g, request);
  if (request->held == HR_HOLD_PART && s->n_held == s->n_samples)
    return hr__recipe_fail(request->recipe, request->key,
                           "give data.eval_path: another folder; or data.sensors.hold_out: questions", err,
                           "nothing can be held out: questions join all recordings");
  for (size_t i = 0; i < s->n_questions; i++) {
    if (s->questions[i].bad) continue;
    bool last = request->held == HR_HOLD_PART && g.held[number_of(s, &g, i)];
    s->order[last ? s->n_samples - s->n_held + held++ : train++] = (uint32_t)i;
  }
  return HR_OK;
}

hr_status hr__sensors_split(hr_sensors *s, const hr_source_request *request, hr_error *err) {
  hr_arena arena;
  hr__arena_init(&arena);
  hr_status status = split(s, request, &arena, err);
  hr__arena_fini(&arena);
  return status;
}
