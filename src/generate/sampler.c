/* See sampler.h. Candidates are a heap with the most likely on top, so that only as many are put in order as the
 * settings leave. */
#include "generate/sampler.h"

#include <math.h>

#include "base/mem.h"
#include "base/random.h"

hr_status hr__sampler_create(const hr_sampling *settings, size_t vocabulary, hr_sampler *out, hr_error *err) {
  *out = (hr_sampler){.settings = *settings, .vocabulary = vocabulary};
  out->candidates = hr__alloc(vocabulary * sizeof *out->candidates);
  return out->candidates ? HR_OK : hr__nomem(err);
}

void hr__sampler_destroy(hr_sampler *sampler) {
  hr__free(sampler->candidates);
  *sampler = (hr_sampler){0};
}

static bool is_before(hr_candidate a, hr_candidate b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void heap_sink(hr_candidate *heap, size_t count, size_t at) {
  hr_candidate sinking = heap[at];
  for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && is_before(heap[child + 1], heap[child])) child++;
    if (!is_before(heap[child], sinking)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = sinking;
}

/* Takes the most likely out of heap[0..count); it comes to stand behind the others, at count - 1. */
static hr_candidate heap_take(hr_candidate *heap, size_t count) {
  hr_candidate top = heap[0];
  heap[0] = heap[count - 1];
  heap_sink(heap, count - 1, 0);
  heap[count - 1] = top;
  return top;
}

static float penalized(const hr_sampling *s, const uint64_t *seen, size_t id, float logit) {
  bool repeated = seen && s->repetition_penalty != 1 && (seen[id / 64] >> (id % 64) & 1);
  if (!repeated) return logit;
  return logit > 0 ? logit / (float)s->repetition_penalty : logit * (float)s->repetition_penalty;
}

/* Candidates that are numbers, in order of ids; the most likely of them. */
static size_t candidates_fill(hr_sampler *sampler, const float *logits, const uint64_t *seen, hr_candidate *most) {
  const hr_sampling *s = &sampler->settings;
  float heat = s->temperature > 0 ? (float)s->temperature : 1.0f;
  size_t count = 0;
  *most = (hr_candidate){-INFINITY, 0};
  for (size_t i = 0; i < sampler->vocabulary; i++) {
    hr_candidate c = {penalized(s, seen, i, logits[i]) / heat, (int32_t)i};
    if (isnan(c.logit)) continue;
    sampler->candidates[count++] = c;
    if (is_before(c, *most)) *most = c;
  }
  return count;
}

static double weight_of(hr_candidate c, hr_candidate most) {
  return c.logit == most.logit ? 1 : exp((double)c.logit - (double)most.logit);
}

/* The first of candidates that stand in this order whose sum goes over a part of all. */
static int32_t draw(const hr_candidate *from, size_t count, int step, hr_candidate most, double total, double part) {
  double sum = 0;
  int32_t id = most.id;
  for (size_t i = 0; i < count; i++, from += step) {
    double weight = weight_of(*from, most);
    if (weight > 0) id = from->id; /* rounding may leave the last one */
    sum += weight;
    if (sum > part * total) break;
  }
  return id;
}

int32_t hr__sampler_pick(hr_sampler *sampler, const float *logits, const uint64_t *seen, uint64_t sequence,
                         uint64_t position) {
  const hr_sampling *s = &sampler->settings;
  hr_candidate most, *heap = sampler->candidates;
  size_t count = candidates_fill(sampler, logits, seen, &most), left = count;
  if (s->temperature == 0 || count == 0) return most.id;
  hr_random_key key = {s->seed, hr__random_stream("generate")};
  hr_random_block block = hr__random_at(key, sequence, position);
  double part = (double)((uint64_t)block.word[0] << 21 ^ block.word[1] >> 11) / 9007199254740992.0; /* 53 bits */
  size_t most_kept = s->top_k > 0 && (size_t)s->top_k < count ? (size_t)s->top_k : count;
  double total = 0, before = 0;
  if (most_kept == count) {
    for (size_t i = 0; i < count; i++)
      total += weight_of(heap[i], most);
    if (s->top_p >= 1 && s->min_p <= 0) return draw(heap, count, 1, most, total, part);
  }
  for (size_t i = count / 2; i-- > 0;)
    heap_sink(heap, count, i);
  if (most_kept < count)
    for (; left > count - most_kept; left--)
      total += weight_of(heap_take(heap, left), most);
  size_t kept = 0;
  for (; kept < most_kept; kept++) { /* in order of likelihood, from the end of the array on */
    if (most_kept == count) heap_take(heap, count - kept);
    double weight = weight_of(heap[count - 1 - kept], most);
    if (kept > 0 && (before >= s->top_p * total || weight < s->min_p)) break;
    before += weight;
  }
  return draw(&heap[count - 1], kept, -1, most, before, part);
}
