/* See two_labels.h. */
#include "data/two_labels.h"

#include "base/mem.h"

enum { FOUND = 2 }; /* column of a point: hot spots that were found; all of them are in the next one */

typedef struct said {
  float value;
  bool label;
} said;

/* Of all pairs of one that has the label and one that has not. */
static double area(const said *list, uint64_t count) {
  double ahead = 0, pairs = 0;
  for (uint64_t i = 0; i < count; i++)
    for (uint64_t k = 0; k < count; k++) {
      if (!list[i].label || list[k].label) continue;
      ahead += list[i].value > list[k].value ? 1 : list[i].value == list[k].value ? 0.5 : 0;
      pairs++;
    }
  return pairs == 0 ? 0.5 : ahead / pairs;
}

static void recall_judge(const float *points, uint64_t count, int64_t width, hr_judged *out) {
  double found = 0, all = 0;
  for (uint64_t i = 0; i < count; i++) {
    found += (double)points[(int64_t)i * width + FOUND];
    all += (double)points[(int64_t)i * width + FOUND + 1];
  }
  out->metric[out->count].name = "spot_recall";
  out->metric[out->count++].value = all > 0 ? found / all : 1;
}

hr_status hr__two_labels_judge(const hr_two_labels *labels, const float *points, uint64_t count, int64_t width,
                               hr_judged *out, hr_error *err) {
  static const char *const names[] = {"auc_event", "auc_outcome"};
  said *list = hr__alloc_zero(count, sizeof *list);
  if (!list) return hr__nomem(err);
  *out = (hr_judged){.count = 2};
  for (int which = 0; which < 2; which++) {
    for (uint64_t i = 0; i < count; i++)
      list[i] = (said){points[(int64_t)i * width + which], which ? labels[i].outcome : labels[i].event};
    out->metric[which].name = names[which];
    out->metric[which].value = area(list, count);
  }
  hr__free(list);
  if (width > FOUND) recall_judge(points, count, width, out);
  return HR_OK;
}
