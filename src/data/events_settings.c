/* The settings of data.events. See events.h. */
#include <string.h>

#include "data/events.h"
#include "data/keys.h"

#define SECTION "data.events"

#define PART(name, preset, text)                                                                                       \
  { .path = SECTION "." name, .type = HR_KEY_FLOAT, .fallback = preset, .min = 1e-6, .max = 1, .meaning = text }

static const hr_key keys[] = {
    {.path = SECTION ".generate",
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1 << 24,
     .meaning = "source events: so many streams of 8 motions are made up, in place of files"},
    {.path = SECTION ".time_unit",
     .type = HR_KEY_CHOICE,
     .fallback = "us",
     .choices = "us|ms|s",
     .meaning = "source events: what times of raw events are counted in"},
    {.path = SECTION ".interval_ms",
     .type = HR_KEY_FLOAT,
     .fallback = "200",
     .min = 1e-3,
     .max = 1e9,
     .meaning = "source events: milliseconds of raw events that a vector sees"},
    PART("ratio_of_vectors", "0.3", "source events: part of raw events that get a vector"),
    {.path = SECTION ".train_ratio_of_vectors",
     .type = HR_KEY_FLOAT,
     .fallback = "1",
     .min = 1e-6,
     .max = 1,
     .meaning = "source events: part of the vectors of an interval that a sample has, drawn anew in every epoch; at "
                "least one"},
    {.path = SECTION ".eval_ratio_of_vectors",
     .type = HR_KEY_FLOAT,
     .min = 1e-6,
     .max = 1,
     .meaning = "source events: the same of samples that are held out (default: train_ratio_of_vectors)"},
    {.path = SECTION ".augment",
     .type = HR_KEY_BOOL,
     .fallback = "true",
     .meaning = "source events: time_scale, jitter and drop are applied in training"},
    {.path = SECTION ".time_scale",
     .type = HR_KEY_FLOAT,
     .fallback = "0.2",
     .min = 0,
     .max = 0.99,
     .meaning = "source events: times of a sample are multiplied by 1 - it to 1 + it"},
    {.path = SECTION ".jitter",
     .type = HR_KEY_FLOAT,
     .fallback = "0.5",
     .min = 0,
     .max = 1e6,
     .meaning =
         "source events: deviation of what is added to x, y (pixels) and t (ms) before vectors are put in order"},
    {.path = SECTION ".drop",
     .type = HR_KEY_FLOAT,
     .fallback = "0.1",
     .min = 0,
     .max = 0.99,
     .meaning = "source events: part of a sample's vectors that is dropped"},
    {.path = SECTION ".encoding_scale",
     .type = HR_KEY_FLOAT,
     .fallback = "25",
     .min = 1e-6,
     .max = 1e6,
     .meaning = "source events: deviation of the random frequencies that vectors are made of"},
};
const hr_key_table hr_events_keys = {keys, sizeof keys / sizeof *keys};

void hr__events_settings(const hr_recipe *recipe, uint64_t seed, hr_events_settings *out) {
  const char *unit = hr__recipe_text(recipe, SECTION ".time_unit");
  *out = (hr_events_settings){
      .generate = hr__recipe_has(recipe, SECTION ".generate") ? hr__recipe_int(recipe, SECTION ".generate") : 0,
      .unit_ms = strcmp(unit, "us") == 0   ? 1e-3
                 : strcmp(unit, "ms") == 0 ? 1
                                           : 1e3,
      .interval_ms = hr__recipe_float(recipe, SECTION ".interval_ms"),
      .ratio = hr__recipe_float(recipe, SECTION ".ratio_of_vectors"),
      .train_ratio = hr__recipe_float(recipe, SECTION ".train_ratio_of_vectors"),
      .augment = hr__recipe_bool(recipe, SECTION ".augment"),
      .time_scale = hr__recipe_float(recipe, SECTION ".time_scale"),
      .jitter = hr__recipe_float(recipe, SECTION ".jitter"),
      .drop = hr__recipe_float(recipe, SECTION ".drop"),
      .encoding_scale = hr__recipe_float(recipe, SECTION ".encoding_scale"),
      .seed = seed,
  };
  out->eval_ratio = hr__recipe_has(recipe, SECTION ".eval_ratio_of_vectors")
                        ? hr__recipe_float(recipe, SECTION ".eval_ratio_of_vectors")
                        : out->train_ratio;
}
