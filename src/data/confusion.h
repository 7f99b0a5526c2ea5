/* How often samples of each class were taken for each: of a classification that was evaluated. */
#ifndef HR_DATA_CONFUSION_H
#define HR_DATA_CONFUSION_H

#include <stdint.h>

enum { HR_CONFUSION_CLASSES = 64, HR_CONFUSION_NAME = 32 };

typedef struct hr_confusion {
  int classes; /* 0: nothing was classified, or there are more classes than can be shown */
  uint32_t counts[HR_CONFUSION_CLASSES][HR_CONFUSION_CLASSES]; /* of a class (row), taken for (column) */
  char names[HR_CONFUSION_CLASSES][HR_CONFUSION_NAME];         /* cut; their number where they have none */
} hr_confusion;

#endif
