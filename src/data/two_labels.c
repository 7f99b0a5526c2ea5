/* See two_labels.h. */
#include "data/two_labels.h"

#include "base/mem.h"

/* Columns of a point: how many hot spots were found, and all; how many of what was found is one, and all of that. */
enum { RECALL = 2, PRECISION = 4, WITH_SPOTS = 6 };

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

/* A part of what is counted in the column behind it. */
static void part_judge(const char *name, const float *points, uint64_t count, int64_t width, int64_t column,
                       hr_judged *out) {
  double part = 0, all = 0;
  for (uint64_t i = 0; i < count; i++) {
    part += (double)points[(int64_t)i * width + column];
    all += (double)points[(int64_t)i * width + column + 1];
  }
  out->metric[out->count].name = name;
  out->metric[out->count++].value = all > 0 ? part / all : 1;
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
  if (width < WITH_SPOTS) return HR_OK;
  part_judge("spot_recall", points, count, width, RECALL, out);
  part_judge("spot_precision", points, count, width, PRECISION, out);
  return HR_OK;
}
