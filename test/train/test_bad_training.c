/* Bad settings of batching and loss scaling, one per line of the table: place, message, remedy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "job/settings.h"

#define MODEL    "model: { family: llama, config: { hidden_size: 16, num_attention_heads: 2, vocab_size: 256 } }\n"
#define TEXT     MODEL "data: { sequence_length: 16 }\ntraining: "
#define LINES    MODEL "data: { source: lines, sequence_length: 16, buckets: "
#define SCHEDULE TEXT "{ gradient_accumulation: "

static const struct {
  const char *text, *place, *message, *remedy; /* place exactly; parts of the other two */
} cases[] = {
    {SCHEDULE "many }\n", "r.yaml:3:36", "must be a whole number", ""},
    {SCHEDULE "0 }\n", "r.yaml:3:36", "between 1 and 1048576", ""},
    {SCHEDULE "[] }\n", "r.yaml:3:36", "a list is not a schedule", "{0: 4, 8: 2}"},
    {SCHEDULE "{} }\n", "r.yaml:3:36", "an empty section is not a schedule", "{0: 4, 8: 2}"},
    {SCHEDULE "{first: 4} }\n", "r.yaml:3:37", "'first' is not the number of an epoch", "{0: 4, 8: 2}"},
    {SCHEDULE "{-1: 4} }\n", "r.yaml:3:37", "'-1' is not the number of an epoch", "from epoch 0"},
    {SCHEDULE "{0.5: 4} }\n", "r.yaml:3:37", "'0.5' is not the number of an epoch", ""},
    {SCHEDULE "{0: 4, 9999999999999999: 4} }\n", "r.yaml:3:43", "is not the number of an epoch", ""},
    {SCHEDULE "{0: none} }\n", "r.yaml:3:37", "epoch 0 must have a whole number of micro-batches between 1", ""},
    {SCHEDULE "{0: 4, 3: 0} }\n", "r.yaml:3:43", "epoch 3 must have a whole number", ""},
    {SCHEDULE "{0: 4, 3: 1048577} }\n", "r.yaml:3:43", "between 1 and 1048576", ""},
    {SCHEDULE "{0: [4]} }\n", "r.yaml:3:37", "epoch 0 must have a whole number", ""},
    {SCHEDULE "{1: 4} }\n", "r.yaml:3:37", "begins at epoch 1", "begin with the entry for epoch 0"},
    {SCHEDULE "{0: 4, 8: 2, 4: 1} }\n", "r.yaml:3:49", "epoch 4 comes after epoch 8", "ascending"},
    {SCHEDULE "{0: 4, 00: 1} }\n", "r.yaml:3:43", "epoch 0 comes after epoch 0", "ascending"},
    {SCHEDULE "{0: 4, 4: 2}, effective_batch: 8 }\n", "r.yaml:3:67", "gradient_accumulation is a schedule",
     "give only one of the two"},
    {SCHEDULE "{0: 4}, effective_batch: 4 }\n", "r.yaml:3:61", "gradient_accumulation is a schedule", "only one"},
    {MODEL "data: { source: synthetic, sequence_length: 16 }\ntraining: { gradient_accumulation: {0: 4, 1: 2} }\n",
     "r.yaml:3:36", "synthetic data has no end", "source: text or lines"},
    {MODEL "data: { sequence_length: 16, buckets: [8, 16] }\n", "r.yaml:2:39", "source text has samples of one length",
     "source: lines"},
    {LINES "8 }\n", "r.yaml:2:54", "data.buckets", ""},
    {LINES "{8: 1} }\n", "r.yaml:2:54", "must be a list of lengths", "[64, 128, 256]"},
    {LINES "[] }\n", "r.yaml:2:54", "must be a list of lengths", "[64, 128, 256]"},
    {LINES "[a, 16] }\n", "r.yaml:2:55", "must be a whole number of 1 or more", "[64, 128, 256]"},
    {LINES "[0, 16] }\n", "r.yaml:2:55", "must be a whole number of 1 or more", ""},
    {LINES "[[8], 16] }\n", "r.yaml:2:60", "data.buckets must be a list", "[64, 128, 256]"},
    {LINES "[8, 8, 16] }\n", "r.yaml:2:58", "bucket 8 comes after bucket 8", "ascending"},
    {LINES "[8, 32] }\n", "r.yaml:2:58", "32 tokens is longer than data.sequence_length (16)", "sequence_length"},
    {LINES "[4, 8] }\n", "r.yaml:2:54", "the last bucket (8) is not data.sequence_length (16)", "add it at the end"},
    {LINES "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16] }\ntraining: { gradient_accumulation: 2 }\n",
     "r.yaml:2:54", "16 buckets need 33 programs, more than the 32", "fewer"},
    {MODEL "data: { source: words, sequence_length: 16 }\n", "r.yaml:2:17",
     "one of: text, lines, rows, ids, taxonomy, sensors, events, video, clips, scenes, synthetic", ""},
    {TEXT "{ loss_scale: { init: 0.5 } }\n", "r.yaml:3:33", "training.loss_scale.init is 0.5", ""},
    {TEXT "{ loss_scale: { growth: 0.9 } }\n", "r.yaml:3:35", "growth is 0.9", ""},
    {TEXT "{ loss_scale: { backoff: 1 } }\n", "r.yaml:3:36", "backoff is 1", ""},
    {TEXT "{ loss_scale: { backoff: 0 } }\n", "r.yaml:3:36", "backoff is 0", ""},
    {TEXT "{ loss_scale: { growth_interval: 0 } }\n", "r.yaml:3:44", "growth_interval is 0", ""},
    {TEXT "{ loss_scale: dynamic }\n", "r.yaml:3:25", "training.loss_scale must be a section", "init"},
};

static void bad_training(void **state) {
  (void)state;
  int failures = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_error err = {0};
    hr_recipe *recipe = NULL;
    hr_training_shape shape;
    hr_status status = hr__settings_parse("r.yaml", "", cases[i].text, strlen(cases[i].text), NULL, 0, &recipe, &err);
    if (status == HR_OK) status = hr__training_shape(recipe, &shape, &err);
    hr__recipe_destroy(recipe);
    if (status == HR_BAD_INPUT && err.status == status && strcmp(err.place, cases[i].place) == 0 &&
        strstr(err.message, cases[i].message) && strstr(err.remedy, cases[i].remedy))
      continue;
    failures++;
    print_error("case %zu: %s  got %s, %s: %s\n  remedy: %s\n  expected %s: %s\n  remedy: %s\n", i,
                strstr(cases[i].text, "data:"), hr_status_name(status), err.place, err.message, err.remedy,
                cases[i].place, cases[i].message, cases[i].remedy);
  }
  assert_int_equal(failures, 0);
}

static void good_training(void **state) {
  (void)state;
  static const char text[] = MODEL "data: { source: lines, sequence_length: 16, buckets: [4, 16] }\n"
                                   "training: { batch_size: 3, gradient_accumulation: {0: 2, 3: 5, 7: 1} }\n";
  hr_error err = {0};
  hr_recipe *recipe;
  hr_training_shape shape;
  assert_int_equal(hr__settings_parse("r.yaml", "", text, strlen(text), NULL, 0, &recipe, &err), HR_OK);
  assert_int_equal(hr__training_shape(recipe, &shape, &err), HR_OK);
  assert_int_equal(shape.accumulation, 2);
  assert_int_equal(shape.accumulation_max, 5);
  assert_int_equal(shape.n_schedule, 3);
  assert_int_equal(shape.schedule[2].epoch, 7);
  assert_int_equal(shape.n_buckets, 2);
  assert_true(shape.ragged && !hr__training_whole(&shape));
  hr__recipe_destroy(recipe);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bad_training), cmocka_unit_test(good_training)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
