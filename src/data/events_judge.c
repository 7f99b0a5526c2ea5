/* How good a classification is. See events.h. */
#include <math.h>
#include <string.h>

#include "data/events.h"

/* The likeliest class; of equals the first. What is no number is never likely. */
static int64_t likeliest(const float *logits, int64_t classes) {
  int64_t best = 0;
  for (int64_t i = 1; i < classes; i++)
    if (logits[i] > logits[best] || isnan(logits[best])) best = i;
  return best;
}

void hr__events_judge(const hr_events *e, const float *logits, int64_t classes, uint32_t *confusion, hr_judged *out) {
  uint64_t right = 0;
  const hr_event_sample *held = e->samples + e->n_samples - e->n_held;
  memset(confusion, 0, (size_t)(classes * classes) * sizeof *confusion);
  for (size_t i = 0; i < e->n_held; i++) {
    int64_t guess = likeliest(logits + (int64_t)i * classes, classes);
    confusion[held[i].label * classes + guess]++;
    right += guess == held[i].label;
  }
  *out = (hr_judged){.count = 1,
                     .metric = {{"accuracy", e->n_held > 0 ? (double)right / (double)e->n_held : 0}},
                     .confusion = confusion,
                     .classes = classes,
                     .class_names = e->n_classes >= (size_t)classes ? e->classes : NULL};
}
