/* What the tests of source events share: a recipe of the source alone, and batches with all fields. */
#ifndef TEST_DATA_PART_EVENTS_H
#define TEST_DATA_PART_EVENTS_H

#include "data/events.h"
#include "part_data.h"

enum { EVENTS_BATCH = 2, EVENTS_LENGTH = 24, EVENTS_CLASSES = 8 };

/* A batch as a model of gestures takes it. */
typedef struct events_batch {
  float vectors[EVENTS_BATCH][EVENTS_LENGTH][HR_EVENT_WIDTH];
  int32_t orders[EVENTS_BATCH][HR_EVENT_ORDERS][EVENTS_LENGTH], inverses[EVENTS_BATCH][HR_EVENT_ORDERS][EVENTS_LENGTH];
  float pooling[EVENTS_BATCH][3][EVENTS_LENGTH];
  int32_t labels[EVENTS_BATCH];
} events_batch;

typedef struct events_data {
  hr_recipe *recipe;
  hr_data *data;
} events_data;

hr_fields events_fields(int64_t length);
void events_places(events_batch *b, void *at[HR_FIELDS]);
/* Settings ("data.path=...", ended by NULL). Buckets NULL: one of EVENTS_LENGTH. */
hr_status events_recipe(hr_recipe **out, const char *const *settings, hr_error *err);
hr_status events_open(events_data *o, const char *const *settings, const int64_t *buckets, int n_buckets, bool eval,
                      hr_error *err);
void events_close(events_data *o);

#endif
