#include "torch/compiled.h"

/* Of what eager layers save, a compiled graph keeps this share. */
static const double KEPT = 0.763;
/* Bytes for each score of the vocabulary: what eager calls have saved when backward begins, what compiled graphs have
 * where the loss begins, and of that what stays to the end of backward. */
enum { EAGER_SCORE = 4, SCORE = 6, LAST_SCORE = 2, STEPS = 3 };
/* Of what graphs hold, the allocator has so much more in blocks that do not fit. */
static const double CACHED = 0.137;

/* Where the last step begins, and its backward. */
static bool marks_find(const hr_torch_events *events, size_t *forward, size_t *backward) {
  bool found = false;
  for (size_t i = 0; i < events->count; i++) {
    const hr_torch_event *event = &events->items[i];
    if (event->kind != HR_TORCH_MARK) continue;
    if (event->phase == HR_TORCH_FORWARD) *forward = i;
    if (event->phase == HR_TORCH_BACKWARD) {
      *backward = i;
      found = true;
    }
  }
  return found;
}

static bool lives(const hr_torch_life *life, size_t at) {
  return life->first < at && life->end > at;
}

static uint64_t bytes_at(const hr_torch_events *events, size_t at) {
  uint64_t bytes = 0;
  for (size_t id = 0; id < events->n_ids; id++)
    if (lives(&events->lives[id], at)) bytes += events->items[events->lives[id].first].bytes;
  return bytes;
}

static uint64_t positive(double bytes) {
  return bytes > 0 ? (uint64_t)bytes : 0;
}

/* The more of two moments: where the loss begins its backward, and where the last gradient comes. */
static uint64_t graphs_bytes(const hr_compiled_run *run, uint64_t saved) {
  uint64_t scores = run->scores, around = EAGER_SCORE * scores + run->casts_bytes;
  double layers = saved > around ? (double)(saved - around) : 0;
  uint64_t loss = SCORE * scores + run->casts_bytes + positive(KEPT * layers);
  uint64_t end = LAST_SCORE * scores + run->gradient_bytes + 4 * run->embedding;
  return loss > end ? loss : end;
}

static uint32_t made(hr_torch_events *events, uint64_t bytes, const char *call) {
  return hr__torch_events_allocate(events, bytes, HR_TORCH_ACTIVATIONS, hr__torch_events_name(events, "torch.compile"),
                                   hr__torch_events_name(events, call));
}

static void step_add(hr_torch_events *events, uint32_t step, uint64_t bytes) {
  hr__torch_events_mark(events, HR_TORCH_FORWARD, step);
  hr__torch_events_free(events, made(events, positive(CACHED * (double)bytes), "cached"));
  hr__torch_events_mark(events, HR_TORCH_BACKWARD, step);
  hr__torch_events_free(events, made(events, bytes, "compiled graphs"));
}

hr_status hr__torch_compiled(hr_torch_events *events, const hr_compiled_run *run, hr_error *err) {
  size_t forward = 0, backward = 0;
  hr_torch_events eager = *events;
  if (!marks_find(&eager, &forward, &backward)) return HR_OK;
  uint64_t lasting = bytes_at(&eager, forward), there = bytes_at(&eager, backward);
  uint64_t graphs = graphs_bytes(run, there > lasting ? there - lasting : 0);
  hr__torch_events_init(events);
  for (size_t id = 0; id < eager.n_ids; id++) {
    if (!lives(&eager.lives[id], forward)) continue;
    const hr_torch_event *event = &eager.items[eager.lives[id].first];
    hr__torch_events_allocate(events, event->bytes, (hr_torch_category)event->category,
                              hr__torch_events_name(events, eager.names[event->owner]),
                              hr__torch_events_name(events, eager.names[event->call]));
  }
  hr__torch_events_fini(&eager);
  for (uint32_t step = 1; step <= STEPS; step++)
    step_add(events, step, graphs);
  return hr__torch_events_check(events, err);
}
