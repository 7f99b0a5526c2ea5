/* Samples with two labels, of which the second implies the first: how well numbers tell them, over all that is held
 * out. */
#ifndef HR_DATA_TWO_LABELS_H
#define HR_DATA_TWO_LABELS_H

#include "data/source.h"

typedef struct hr_two_labels {
  bool event, outcome;
} hr_two_labels;

/* points f32 [count, width]: of each sample what is said of the event, then of the outcome; labels of the same.
 * Four columns more are of hot spots: how many of the sample's were found, and how many there are (spot_recall); how
 * many detections are of one, and how many there are (spot_precision); 1 where there are none.
 * auc_event and auc_outcome: how often a sample that has the label is ahead of one that has not, ties as halves; 0.5
 * where all are alike. */
hr_status hr__two_labels_judge(const hr_two_labels *labels, const float *points, uint64_t count, int64_t width,
                               hr_judged *out, hr_error *err);

#endif
