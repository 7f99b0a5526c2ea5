/* Motion as the host describes it, areas under curves, and made-up scenes: the same in any order, with labels that hang
 * together. */
#include <math.h>
#include <string.h>

#include "data/motion.h"
#include "data/spots.h"
#include "data/two_labels.h"
#include "part_data.h"

/* An object that flies past at a distance of 3, at a speed of 2 along x, and is above the observer then. */
static void test_motion_features(void **state) {
  double motion[HR_MOTION_INSTANTS][HR_MOTION_NUMBERS] = {{-4, 0, 3, 2}, {-2, 0, 3, 2}, {0, 0, 3, 2}};
  double out[HR_MOTION_FEATURES];
  (void)state;
  for (int i = 0; i < HR_MOTION_INSTANTS; i++)
    hr__motion_seen(motion[i]);
  hr__motion_features((const double(*)[HR_MOTION_NUMBERS])motion, out);
  const double expected[HR_MOTION_FEATURES] = {5,
                                               sqrt(13),
                                               3,
                                               sqrt(13) - 5,
                                               3 - sqrt(13),
                                               1.6,
                                               4 / sqrt(13),
                                               0,
                                               0,
                                               -acos(-1),
                                               asin(3 / sqrt(13)) - asin(0.6),
                                               asin(1) - asin(3 / sqrt(13)),
                                               3,
                                               3,
                                               3};
  for (int i = 0; i < HR_MOTION_FEATURES; i++) {
    bool turned = i == 9 && fabs(fabs(out[i]) - acos(-1)) < 1e-12; /* half a turn is as far either way */
    if (!turned && !(fabs(out[i] - expected[i]) < 1e-12)) fail_msg("feature %d is %g, not %g", i, out[i], expected[i]);
  }
}

static void test_area_under_curves(void **state) {
  const hr_two_labels labels[] = {{true, true}, {true, false}, {false, false}, {false, false}};
  const float points[] = {0.9f, 0.5f, 0.2f, 0.5f, 0.4f, 0.1f, 0.1f, 0.5f};
  hr_judged judged;
  hr_error err;
  (void)state;
  assert_int_equal(hr__two_labels_judge(labels, points, 4, 2, &judged, &err), HR_OK);
  assert_int_equal(judged.count, 2);
  assert_string_equal(judged.metric[0].name, "auc_event");
  assert_true(fabs(judged.metric[0].value - 0.75) < 1e-12);
  assert_true(fabs(judged.metric[1].value - 2.0 / 3) < 1e-12); /* one ahead, two as good */
}

enum { FRAMES = 4, HEIGHT = 12, WIDTH = 16, VIDEO = 3 * FRAMES * HEIGHT * WIDTH };

typedef struct sample {
  uint8_t rgb[VIDEO], mask[VIDEO / 3], event, outcome;
} sample;

static void sample_read(void *source, uint64_t entry, sample *out) {
  hr_fields fields = {.count = 0};
  hr_error err;
  hr__field_add(&fields, (hr_field){"rgb", HR_FOR_VALUES, {HR_U8, 5, {1, 3, FRAMES, HEIGHT, WIDTH}}, 0, 256, 0});
  hr__field_add(&fields, (hr_field){"frame_mask", HR_FOR_VALUES, {HR_U8, 5, {1, 1, FRAMES, HEIGHT, WIDTH}}, 0, 2, 0});
  hr__field_add(&fields, (hr_field){"event_label", HR_FOR_VALUES, {HR_U8, 2, {1, 1}}, 0, 2, 0});
  hr__field_add(&fields, (hr_field){"outcome_label", HR_FOR_VALUES, {HR_U8, 2, {1, 1}}, 0, 2, 0});
  hr_room room = {.fields = &fields, .at = {out->rgb, out->mask, &out->event, &out->outcome}};
  assert_int_equal(hr_source_scenes.fill(source, false, entry, &room, &err), HR_OK);
}

static void test_scenes(void **state) {
  enum { SAMPLES = 200 };
  hr_recipe *recipe = recipe_parse(
      "data: { source: scenes, sequence_length: 1, eval_fraction: 0.1, scenes: { samples: 200 } }\n", NULL, 0);
  hr_source_request request = {.recipe = recipe, .key = "data.path", .seed = 5, .held = HR_HOLD_PART};
  hr_error err;
  void *source;
  int events = 0, outcomes = 0;
  int64_t of_an_entry;
  (void)state;
  assert_int_equal(hr_source_scenes.open(&request, &source, &err), HR_OK);
  assert_int_equal(hr_source_scenes.samples(source), SAMPLES);
  for (uint64_t i = 0; i < SAMPLES; i++) {
    sample one;
    bool any = false;
    sample_read(source, i, &one);
    for (int k = 0; k < VIDEO / 3; k++)
      any |= one.mask[k] != 0;
    assert_true(!one.outcome || one.event);
    assert_true(any == one.event); /* a flash there is where courses meet */
    events += one.event;
    outcomes += one.outcome;
  }
  assert_in_range(events, 70, 130);
  assert_in_range(outcomes, 25, 75);
  /* Entries behind all samples are what is held out, once more. */
  uint64_t held = hr_source_scenes.items(source, &of_an_entry);
  assert_int_equal(held, 20);
  sample again, first;
  sample_read(source, SAMPLES + 3, &again);
  sample_read(source, SAMPLES - held + 3, &first);
  assert_memory_equal(&again, &first, sizeof first);
  hr_source_scenes.close(source);
  hr__recipe_destroy(recipe);
}

/* Hot spots are told where infrared video is hot: the pixel at a bright spot's middle is far above what is around. */
static void test_hot_spots(void **state) {
  enum { SAMPLES = 40, SIDE = 48, LONG = 64 };
  static uint8_t infrared[FRAMES * SIDE * LONG], mask[FRAMES * HR_SPOTS];
  static float spots[FRAMES * HR_SPOTS * HR_SPOT_NUMBERS];
  static int32_t cells[FRAMES * HR_SPOTS];
  hr_recipe *recipe = recipe_parse("data: { source: scenes, sequence_length: 1, scenes: { samples: 40 } }\n", NULL, 0);
  hr_source_request request = {.recipe = recipe, .key = "data.path", .seed = 5, .held = HR_HOLD_NONE};
  hr_fields fields = {.count = 0};
  hr_error err;
  void *source;
  int seen = 0, moved = 0;
  (void)state;
  hr__field_add(&fields, (hr_field){"infrared", HR_FOR_VALUES, {HR_U8, 5, {1, 1, FRAMES, SIDE, LONG}}, 0, 256, 0});
  hr__field_add(&fields, (hr_field){"spots", HR_FOR_VALUES, {HR_F32, 4, {1, FRAMES, HR_SPOTS, 5}}, 0, 0, 0});
  hr__field_add(&fields, (hr_field){"spot_cells", HR_FOR_VALUES, {HR_I32, 3, {1, FRAMES, HR_SPOTS}}, 0, 49, 0});
  hr__field_add(&fields, (hr_field){"spot_mask", HR_FOR_VALUES, {HR_U8, 3, {1, FRAMES, HR_SPOTS}}, 0, 2, 0});
  hr_room room = {.fields = &fields, .at = {infrared, spots, cells, mask}};
  assert_int_equal(hr_source_scenes.open(&request, &source, &err), HR_OK);
  for (uint64_t n = 0; n < SAMPLES; n++) {
    assert_int_equal(hr_source_scenes.fill(source, false, n, &room, &err), HR_OK);
    for (int i = 0; i < FRAMES * HR_SPOTS; i++) {
      const float *one = spots + i * HR_SPOT_NUMBERS;
      if (!mask[i]) {
        assert_int_equal(cells[i], SIDE / 8 * LONG / 8); /* no cell at all */
        continue;
      }
      assert_true(hr__spot_seen(one));
      int x = (int)(one[HR_SPOT_X] * LONG), y = (int)(one[HR_SPOT_Y] * SIDE);
      assert_int_equal(cells[i], y / 8 * (LONG / 8) + x / 8);
      assert_true(infrared[(i / HR_SPOTS * SIDE + y) * LONG + x] > 20 + 0.5 * 200 * (double)one[HR_SPOT_BRIGHTNESS]);
      seen++;
      moved += i >= HR_SPOTS && one[HR_SPOT_X] != spots[(i - HR_SPOTS) * HR_SPOT_NUMBERS + HR_SPOT_X];
    }
  }
  assert_true(seen > 2 * SAMPLES * FRAMES / 2 && moved > seen / 2);
  hr_source_scenes.close(source);
  hr__recipe_destroy(recipe);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_motion_features), cmocka_unit_test(test_area_under_curves),
                                     cmocka_unit_test(test_scenes), cmocka_unit_test(test_hot_spots)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
