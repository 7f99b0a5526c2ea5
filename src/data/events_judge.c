/* How good a classification is. See events.h. */
#include <math.h>
#include <stdio.h>

#include "data/events.h"

/* The likeliest class; of equals the first. What is no number is never likely. */
static int64_t likeliest(const float *logits, int64_t classes) {
  int64_t best = 0;
  for (int64_t i = 1; i < classes; i++)
    if (logits[i] > logits[best] || isnan(logits[best])) best = i;
  return best;
}

static void names_put(const hr_events *e, int64_t classes, hr_confusion *out) {
  out->classes = (int)classes;
  for (int i = 0; i < out->classes; i++)
    if ((size_t)i < e->n_classes)
      snprintf(out->names[i], HR_CONFUSION_NAME, "%s", e->classes[i]);
    else
      snprintf(out->names[i], HR_CONFUSION_NAME, "%d", i);
}

void hr__events_judge(const hr_events *e, const float *logits, int64_t classes, hr_confusion *confusion,
                      hr_judged *out) {
  uint64_t right = 0;
  const hr_event_sample *held = e->samples + e->n_samples - e->n_held;
  *confusion = (hr_confusion){0};
  if (classes <= HR_CONFUSION_CLASSES) names_put(e, classes, confusion);
  for (size_t i = 0; i < e->n_held; i++) {
    int64_t guess = likeliest(logits + (int64_t)i * classes, classes);
    if (confusion->classes > 0) confusion->counts[held[i].label][guess]++;
    right += guess == held[i].label;
  }
  *out = (hr_judged){.count = 1,
                     .metric = {{"accuracy", e->n_held > 0 ? (double)right / (double)e->n_held : 0}},
                     .confusion = confusion};
}
