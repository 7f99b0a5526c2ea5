/* From a recipe to the report: the memory section, `plan --json`, the buffer list, and a model of 1.2 billion
 * parameters that is planned without being held. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "pass/update.h"
#include "plan/part_graphs.h"
#include "plan/report.h"

static const char llama_1b[] = "model:\n"
                               "  family: llama\n"
                               "  config: {hidden_size: 2048, intermediate_size: 8192, num_hidden_layers: 16,\n"
                               "           num_attention_heads: 32, num_key_value_heads: 8, head_dim: 64,\n"
                               "           vocab_size: 128256, tie_word_embeddings: true}\n"
                               "data: {sequence_length: 1024}\n"
                               "training: {batch_size: 1, clip_norm: 1.0, eval_every: 10}\n";
static const char llama_deep[] = "model:\n"
                                 "  family: llama\n"
                                 "  config: {hidden_size: 128, intermediate_size: 512, num_hidden_layers: 8,\n"
                                 "           num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256}\n"
                                 "data: {sequence_length: 64}\n"
                                 "training: {batch_size: 4}\n";
static const char llama_small[] = "model:\n"
                                  "  family: llama\n"
                                  "  config: {hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2,\n"
                                  "           num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256}\n"
                                  "data: {sequence_length: 32}\n"
                                  "training: {batch_size: 2, gradient_accumulation: 4}\n";

static hr_status recipe_parse(const char *text, const char *override, hr_recipe **recipe, hr_error *err) {
  hr_key_table tables[HR_COMPILE_TABLES + 1];
  hr__compile_tables(tables);
  tables[HR_COMPILE_TABLES] = hr_memory_keys;
  return hr__recipe_parse("test.yaml", "", text, strlen(text), &override, override != NULL, tables,
                          HR_COMPILE_TABLES + 1, recipe, err);
}

typedef struct planned {
  hr_recipe *recipe;
  hr_graph *graph;
  hr_plan *plan;
  hr_verdict verdict;
  hr_facts facts;
} planned;

static void planned_init(planned *p, const char *text, const char *override) {
  hr_error err = {0};
  hr_budget budget;
  p->facts = test_facts();
  if (recipe_parse(text, override, &p->recipe, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  if (hr__compile(p->recipe, NULL, NULL, &p->graph, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  p->plan = test_plan(p->graph, &p->facts, 1);
  assert_int_equal(hr__memory_budget(p->recipe, &p->facts, &budget, &err), HR_OK);
  assert_int_equal(hr__verdict(p->plan, NULL, &budget, &p->verdict, &err), HR_OK);
}

static void planned_fini(planned *p) {
  hr__plan_destroy(p->plan);
  hr__graph_destroy(p->graph);
  hr__recipe_destroy(p->recipe);
}

static uint64_t budget_of(const char *override) {
  hr_recipe *recipe;
  hr_error err = {0};
  hr_facts facts = test_facts();
  hr_budget budget = {0};
  if (recipe_parse(llama_small, override, &recipe, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  hr_status status = hr__memory_budget(recipe, &facts, &budget, &err);
  hr__recipe_destroy(recipe);
  assert_int_equal(status, HR_OK);
  return budget.budget_bytes;
}

static hr_status budget_status(const char *override) {
  hr_recipe *recipe;
  hr_error err = {0};
  hr_facts facts = test_facts();
  hr_budget budget;
  HR_TRY(recipe_parse(llama_small, override, &recipe, &err));
  hr_status status = hr__memory_budget(recipe, &facts, &budget, &err);
  hr__recipe_destroy(recipe);
  return status;
}

static void budgets_are_sizes_shares_or_everything(void **state) {
  (void)state;
  uint64_t all = test_facts().memory_bytes;
  assert_int_equal(budget_of(NULL), all);
  assert_int_equal(budget_of("memory.budget=auto"), all);
  assert_int_equal(budget_of("memory.budget=512MiB"), 512 << 20);
  assert_int_equal(budget_of("memory.budget=1000000"), 1000000);
  assert_int_equal(budget_of("memory.budget=25%"), all / 4);
  assert_int_equal(budget_of("memory.budget=100TiB"), (uint64_t)100 << 40); /* larger than the machine: fine */
  assert_int_equal(budget_status("memory.budget=0%"), HR_BAD_INPUT);
  assert_int_equal(budget_status("memory.budget=101%"), HR_BAD_INPUT);
  assert_int_equal(budget_status("memory.budget=0"), HR_BAD_INPUT);
  assert_int_equal(budget_status("memory.budget=much"), HR_BAD_INPUT);
  assert_int_equal(budget_status("memory.margin=100TiB"), HR_BAD_INPUT);
  assert_int_equal(budget_status("memory.device=abacus"), HR_BAD_INPUT);
}

static hr_budget budget_with(const char *override, const hr_facts *facts) {
  hr_recipe *recipe;
  hr_error err = {0};
  hr_budget budget = {0};
  if (recipe_parse(llama_small, override, &recipe, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
  hr_status status = hr__memory_budget(recipe, facts, &budget, &err);
  hr__recipe_destroy(recipe);
  assert_int_equal(status, HR_OK);
  return budget;
}

/* A GPU that is not here keeps 2 % free; what is given, also nothing, goes before that. */
static void margins_are_sizes_shares_or_the_default(void **state) {
  (void)state;
  hr_facts here = test_facts(), absent = here;
  absent.absent = true;
  uint64_t all = here.memory_bytes;
  assert_int_equal(budget_with(NULL, &here).margin_bytes, 0);
  assert_int_equal(budget_with(NULL, &absent).margin_bytes, all / 50);
  assert_int_equal(budget_with("memory.budget=50MiB", &absent).margin_bytes, 1 << 20); /* of the budget */
  assert_true(budget_with(NULL, &absent).margin_default);
  static const struct {
    const char *text;
    uint64_t bytes;
  } given[] = {{"memory.margin=0", 0}, {"memory.margin=0%", 0}, {"memory.margin=3MiB", 3 << 20}};
  for (size_t i = 0; i < sizeof given / sizeof *given; i++)
    for (int far = 0; far < 2; far++) {
      hr_budget budget = budget_with(given[i].text, far ? &absent : &here);
      assert_int_equal(budget.margin_bytes, given[i].bytes);
      assert_false(budget.margin_default);
    }
  assert_int_equal(budget_with("memory.margin=25%", &here).margin_bytes, all / 4);
  assert_int_equal(budget_with("memory={budget: 64MiB, margin: 25%}", &here).margin_bytes, 16 << 20);
  assert_int_equal(budget_status("memory.margin=100%"), HR_BAD_INPUT);
  assert_int_equal(budget_status("memory.margin=101%"), HR_BAD_INPUT);
  assert_int_equal(budget_status("memory.margin=some"), HR_BAD_INPUT);
}

/* The owners named are those of the tier that does not fit, at the place where that tier is fullest. */
static void owners_are_of_the_tier_at_its_peak(void **state) {
  (void)state;
  planned p;
  planned_init(&p, llama_deep, "memory={host_budget: 4096, offload: {activations: host}}");
  assert_false(p.verdict.fits);
  assert_int_equal(p.verdict.tier, HR_TIER_HOST);
  const hr_plan *plan = p.plan;
  hr_id program = hr__plan_peak_program(plan, HR_TIER_HOST);
  size_t most = 0, slots = 0;
  for (uint32_t at = 0; at < p.graph->programs[program].count; at++) {
    size_t bytes = 0, count = 0;
    for (size_t s = 0; s < plan->n_slots; s++) {
      if (plan->slots[s].tier != HR_TIER_HOST || plan->slots[s].category != HR_CAT_ACTIVATIONS) continue;
      if (plan->slots[s].bytes == 0) continue;
      if (!hr__slot_alive(&plan->slots[s], program, at)) continue;
      bytes += plan->slots[s].bytes;
      count++;
    }
    if (bytes <= most) continue;
    most = bytes;
    slots = count;
  }
  assert_string_equal(p.verdict.categories[0].name, "activations");
  assert_int_equal(p.verdict.categories[0].bytes, most);
  assert_int_equal(p.verdict.categories[0].slots, slots);
  assert_true(p.verdict.buffers[0].slots > 1);
  planned_fini(&p);
}

static json_int_t number(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_integer(value)) fail_msg("%s is not an integer", key);
  return json_integer_value(value);
}

static void plan_json_has_all_fields(void **state) {
  (void)state;
  planned p;
  planned_init(&p, llama_small, "memory.budget=64MiB");
  json_t *root = hr__report_json(p.plan, &p.verdict, p.recipe);
  assert_non_null(root);
  assert_int_equal(number(root, "schema"), 1);
  assert_true(json_is_true(json_object_get(root, "fits")));
  assert_string_equal(json_string_value(json_object_get(root, "fingerprint")), p.plan->fingerprint);
  assert_true(json_is_object(json_object_get(root, "settings")));
  assert_true(json_is_array(json_object_get(root, "techniques")));
  assert_true(json_real_value(json_object_get(root, "step_seconds")) > 0);
  const json_t *model = json_object_get(root, "model");
  assert_string_equal(json_string_value(json_object_get(model, "family")), "llama");
  assert_int_equal(number(model, "parameters"), number(model, "trainable_parameters"));
  assert_true(json_is_null(json_object_get(model, "adapters")));

  const json_t *device = json_object_get(root, "device"), *categories = json_object_get(device, "categories");
  assert_string_equal(json_string_value(json_object_get(device, "name")), p.facts.name);
  assert_int_equal(number(device, "budget_bytes"), 64 << 20);
  assert_int_equal(number(device, "fixed_bytes"), 1000 + test_nodes_bytes(p.plan));
  json_int_t sum = 0;
  for (int c = 0; c < HR_CAT_COUNT; c++)
    sum += number(categories, hr_category_name((hr_category)c));
  assert_int_equal(sum, number(device, "peak_bytes"));
  assert_true(number(device, "lower_bound_bytes") <= number(device, "peak_bytes"));
  assert_true(number(categories, "gradients") > 0);     /* persistent: accumulation */
  hr_id batch = hr__graph_find_value(p.graph, "batch"); /* two slots are all that is on the host */
  size_t slots = hr_desc_bytes(&p.graph->values[batch].desc);
  assert_int_equal(number(json_object_get(root, "host"), "peak_bytes"), slots);
  assert_int_equal(number(json_object_get(root, "disk"), "peak_bytes"), 0);
  static const char *const phases[] = {"load", "first_step", "steady", "eval", "save", "resume"};
  for (size_t i = 0; i < 6; i++)
    assert_int_equal(number(json_object_get(root, "phases"), phases[i]), number(device, "peak_bytes"));
  static const char *const on_host[] = {"load", "train", "save"};
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(number(json_object_get(root, "host_phases"), on_host[i]), slots);
  assert_int_equal(number(json_object_get(root, "host_phases"), "prepare"), 0);
  json_decref(root);
  planned_fini(&p);
}

/* Two entries of the list are at odds when they are alive together and overlap, unless they are of one home: there one
 * takes over from the other at a single node. */
static bool entries_at_odds(const json_t *a, const json_t *b) {
  const char *program = json_string_value(json_object_get(a, "program"));
  const char *other = json_string_value(json_object_get(b, "program"));
  if (program && other && strcmp(program, other) != 0) return false;
  if (number(a, "offset") + number(a, "bytes") <= number(b, "offset")) return false;
  if (number(b, "offset") + number(b, "bytes") <= number(a, "offset")) return false;
  if (number(a, "bytes") == 0 || number(b, "bytes") == 0) return false;
  if (!program || !other) return true;
  bool one_home = number(a, "home") == number(b, "home");
  json_int_t a_last = number(a, "last"), b_last = number(b, "last");
  if (one_home && (a_last == number(b, "first") || b_last == number(a, "first"))) return false;
  return number(a, "first") <= b_last && number(b, "first") <= a_last;
}

static void buffer_list_shows_a_valid_layout(void **state) {
  (void)state;
  planned p;
  planned_init(&p, llama_small, NULL);
  json_t *root = hr__report_buffers_json(p.plan);
  assert_non_null(root);
  const json_t *list = json_object_get(root, "buffers");
  assert_true(json_array_size(list) >= p.plan->n_slots);
  json_int_t top = 0;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *a = json_array_get(list, i);
    assert_true(json_is_string(json_object_get(a, "name")) && json_is_string(json_object_get(a, "category")));
    bool batch = strcmp(json_string_value(json_object_get(a, "name")), "batch") == 0;
    assert_string_equal(json_string_value(json_object_get(a, "tier")), batch ? "host" : "device");
    if (batch) continue;
    if (number(a, "offset") + number(a, "bytes") > top) top = number(a, "offset") + number(a, "bytes");
    for (size_t j = 0; j < i; j++)
      if (strcmp(json_string_value(json_object_get(json_array_get(list, j), "tier")), "device") == 0 &&
          entries_at_odds(a, json_array_get(list, j)))
        fail_msg("%s and %s overlap", json_string_value(json_object_get(a, "name")),
                 json_string_value(json_object_get(json_array_get(list, j), "name")));
  }
  assert_int_equal(top, number(json_object_get(root, "arena_bytes"), "device"));
  json_decref(root);
  test_replay(p.plan);
  planned_fini(&p);
}

static void the_list_is_also_text(void **state) {
  (void)state;
  planned p;
  planned_init(&p, llama_small, NULL);
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  hr__report_buffers_text(p.plan, to);
  fclose(to);
  assert_non_null(strstr(text, p.plan->fingerprint));
  assert_non_null(strstr(text, "model.embed_tokens.weight"));
  free(text);
  planned_fini(&p);
}

static void a_billion_parameters_plan_quickly(void **state) {
  (void)state;
  planned p;
  clock_t begin = clock();
  planned_init(&p, llama_1b, NULL);
  double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
  uint64_t parameters, trainable;
  hr__report_parameters(p.graph, &parameters, &trainable);
  assert_int_equal(parameters, 1235814400);
  const hr_tier_plan *tier = &p.plan->tiers[HR_TIER_DEVICE];
  assert_true((double)tier->arena_bytes <= 1.01 * (double)tier->lower_bound_bytes);
  assert_true(tier->peak_bytes > 16 * parameters); /* weights, gradients, two moments */
  assert_false(p.verdict.fits);
  print_message("1B: %.3f s, %.4f of the bound\n", seconds,
                (double)tier->arena_bytes / (double)tier->lower_bound_bytes);
#ifndef HR_ASAN
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  assert_true(usage.ru_maxrss < 100 << 10); /* KiB */
  assert_true(seconds < 0.5);
#endif
  test_replay(p.plan);
  planned_fini(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(budgets_are_sizes_shares_or_everything),
      cmocka_unit_test(margins_are_sizes_shares_or_the_default),
      cmocka_unit_test(owners_are_of_the_tier_at_its_peak),
      cmocka_unit_test(plan_json_has_all_fields),
      cmocka_unit_test(buffer_list_shows_a_valid_layout),
      cmocka_unit_test(the_list_is_also_text),
      cmocka_unit_test(a_billion_parameters_plan_quickly),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
