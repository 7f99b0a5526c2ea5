/* Generation when memory runs out: HR_NOMEM at every request, and nothing is left behind. */
#include <string.h>

#include "base/mem.h"
#include "generate/generate.h"
#include "job/settings.h"
#include "part_speaker.h"
#include "support/faults.h"

static const speaker_kind kind = {"qwen2", "", "", NULL};

static hr_status compile_body(void *arg, hr_error *err) {
  const speaker *s = arg;
  hr_graph *graph = NULL;
  hr_status status = hr__compile(s->recipe, NULL, NULL, &graph, err);
  hr__graph_destroy(graph);
  return status;
}

static hr_status generate_body(void *arg, hr_error *err) {
  speaker *s = arg;
  static const char *const stops[] = {"no such"};
  static const int32_t ids[] = {65, 66, 67, 68};
  hr_generator *generator = NULL;
  hr_codec codec = {0};
  hr_sampling sampling = {.repetition_penalty = 1.2, .temperature = 1, .top_k = 20, .top_p = 0.9, .seed = 3};
  hr_prompt prompts[] = {{.ids = ids, .count = 4}, {.ids = ids, .count = 2}, {.ids = ids + 1, .count = 3}};
  hr_generate_options options = {.rules = {.stops = stops, .n_stops = 1, .tokens = 6}};
  hr_generate_times times = {0};
  hr_answer answers[3] = {{0}};
  hr_status status = hr__generator_create(s->run, s->recipe, &sampling, &generator, err);
  if (status == HR_OK) status = hr__generate(generator, &codec, prompts, 3, &options, answers, &times, err);
  for (int i = 0; i < 3; i++) {
    if (status == HR_OK) assert_int_equal(answers[i].end, HR_END_LENGTH);
    hr__answer_destroy(&answers[i]);
  }
  hr__generator_destroy(generator);
  return status;
}

static void test_memory_runs_out(void **state) {
  (void)state;
  speaker s;
  speaker_open(&s, &kind, 2, 32, &HR_GREEDY);
  assert_true(hr_test_each_fault(compile_body, &s) > 20);
  assert_true(hr_test_each_fault(generate_body, &s) > 10);
  speaker_close(&s);
}

/* A prompt that leaves no room, or none at all, is refused before anything is computed. */
static void test_prompts_are_checked(void **state) {
  (void)state;
  speaker s;
  int32_t ids[32] = {0};
  hr_error err = {0};
  hr_codec codec = {0};
  hr_generate_options options = {.rules = {.tokens = 6}};
  hr_generate_times times = {0};
  hr_answer answer;
  speaker_open(&s, &kind, 1, 32, &HR_GREEDY);
  for (int empty = 0; empty < 2; empty++) {
    hr_prompt prompt = {.ids = ids, .count = empty ? 0 : 32};
    assert_int_equal(hr__generate(s.generator, &codec, &prompt, 1, &options, &answer, &times, &err), HR_BAD_INPUT);
    assert_non_null(strstr(err.message, empty ? "empty" : "no room"));
    hr__answer_destroy(&answer);
  }
  assert_true(times.read_seconds == 0);
  speaker_close(&s);
}

int main(void) {
  hr_test_faults_install();
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_runs_out),
                                     cmocka_unit_test(test_prompts_are_checked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
