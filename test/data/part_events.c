/* See part_events.h. */
#include "part_events.h"

#include <string.h>

#include "data/keys.h"

hr_fields events_fields(int64_t length) {
  enum { B = EVENTS_BATCH };
  hr_fields out = {.count = 0};
  const hr_field all[] = {
      {.name = "vectors", .purpose = HR_FOR_VALUES, .desc = {HR_F32, 3, {B, length, HR_EVENT_WIDTH}}},
      {.name = "orders", .purpose = HR_FOR_VALUES, .desc = {HR_I32, 3, {B, HR_EVENT_ORDERS, length}}},
      {.name = "inverses", .purpose = HR_FOR_VALUES, .desc = {HR_I32, 3, {B, HR_EVENT_ORDERS, length}}},
      {.name = "pooling", .purpose = HR_FOR_VALUES, .desc = {HR_F32, 3, {B, 3, length}}},
      {.name = "labels", .purpose = HR_FOR_VALUES, .desc = {HR_I32, 1, {B}}, .bound = EVENTS_CLASSES},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    hr__field_add(&out, all[i]);
  return out;
}

void events_places(events_batch *b, void *at[HR_FIELDS]) {
  void *const all[] = {b->vectors, b->orders, b->inverses, b->pooling, b->labels};
  memcpy(at, all, sizeof all);
}

hr_status events_recipe(hr_recipe **out, const char *const *settings, hr_error *err) {
  static const hr_key scales[] = {{.path = "model.config.pooling_scales", .type = HR_KEY_TREE, .meaning = "-"}};
  static const char text[] = "data: { source: events, sequence_length: 24 }\n";
  const hr_key_table tables[] = {hr_data_keys, hr_masking_keys, hr_events_keys, {scales, 1}};
  size_t count = 0;
  while (settings && settings[count])
    count++;
  return hr__recipe_parse("r.yaml", ".", text, sizeof text - 1, settings, count, tables, 4, out, err);
}

hr_status events_open(events_data *o, const char *const *settings, const int64_t *buckets, int n_buckets, bool eval,
                      hr_error *err) {
  static const int64_t one[] = {EVENTS_LENGTH};
  hr_fields fields[4];
  *o = (events_data){0};
  HR_TRY(events_recipe(&o->recipe, settings, err));
  if (!buckets) n_buckets = 1;
  for (int i = 0; i < n_buckets; i++)
    fields[i] = events_fields(buckets ? buckets[i] : one[0]);
  hr_data_shape shape = {.seed = 3,
                         .eval = eval,
                         .batch = EVENTS_BATCH,
                         .buckets = buckets ? buckets : one,
                         .fields = fields,
                         .n_buckets = n_buckets,
                         .fillers = 1};
  return hr__data_open(o->recipe, &shape, &o->data, err);
}

void events_close(events_data *o) {
  hr__data_close(o->data);
  hr__recipe_destroy(o->recipe);
}
