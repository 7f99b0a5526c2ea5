/* config.json of public checkpoints: what is taken over, what is ignored, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "model/decoder.h"
#include "model/part_build.h"

/* The shape of Llama-3.2-1B's file, old form. */
static const char old_form[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, \"attention_dropout\": 0.0,"
    " \"bos_token_id\": 128000, \"eos_token_id\": [128001, 128008], \"head_dim\": 64, \"hidden_act\": \"silu\","
    " \"hidden_size\": 2048, \"initializer_range\": 0.02, \"intermediate_size\": 8192,"
    " \"max_position_embeddings\": 131072, \"mlp_bias\": false, \"model_type\": \"llama\", \"num_attention_heads\": 32,"
    " \"num_hidden_layers\": 16, \"num_key_value_heads\": 8, \"pretraining_tp\": 1, \"rms_norm_eps\": 1e-05,"
    " \"rope_scaling\": {\"factor\": 32.0, \"high_freq_factor\": 4.0, \"low_freq_factor\": 1.0,"
    " \"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"}, \"rope_theta\": 500000.0,"
    " \"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\", \"transformers_version\": \"4.45.0.dev0\","
    " \"use_cache\": true, \"vocab_size\": 128256, \"quantization_config\": null}";
/* Newer files. */
static const char new_form[] =
    "{\"model_type\": \"llama\", \"dtype\": \"float32\", \"hidden_size\": 64, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": null, \"head_dim\": null, \"rope_parameters\": {\"factor\": 8.0, \"high_freq_factor\": "
    "4.0,"
    " \"low_freq_factor\": 1.0, \"original_max_position_embeddings\": 32, \"rope_theta\": 1234.0,"
    " \"rope_type\": \"llama3\"}}";

/* Of one stretching, the numbers in one form and the base in the other. */
#define STRETCH                                                                                                        \
  "{\"factor\": 8.0, \"high_freq_factor\": 4.0, \"low_freq_factor\": 1.0, \"original_max_position_embeddings\": 32,"   \
  " \"type\": \"llama3\"}"
#define BASE "{\"rope_theta\": 4321.0, \"rope_type\": \"default\"}"

typedef struct fixture {
  hr_built built;
  char folder[64];
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  if (f) hr__folder_make(f->folder);
  return f && f->folder[0] ? 0 : -1;
}

static int teardown(void **state) {
  fixture *f = *state;
  hr__built_free(&f->built);
  hr__folder_remove(f->folder);
  free(f);
  return 0;
}

/* Loads the folder, directly or through a recipe that names it, with overrides ended by NULL. */
static hr_status load(fixture *f, const char *config, bool by_recipe, const char *set1, const char *set2) {
  const char *sets[] = {set1, set2};
  char text[160];
  hr__built_free(&f->built);
  if (config) hr__folder_put(f->folder, "config.json", config);
  snprintf(text, sizeof text, "model:\n  path: %s\n", f->folder);
  return hr__built_recipe(&f->built, by_recipe ? "r.yaml" : f->folder, by_recipe ? text : NULL, sets,
                          set2 ? 2 : set1 != NULL);
}

static void old_files(void **state) {
  fixture *f = *state;
  for (int by_recipe = 0; by_recipe < 2; by_recipe++) {
    assert_int_equal(load(f, old_form, by_recipe, NULL, NULL), HR_OK);
    const hr_recipe *r = f->built.recipe;
    assert_string_equal(hr__recipe_text(r, "model.family"), "llama");
    assert_int_equal(hr__recipe_int(r, "model.config.vocab_size"), 128256);
    assert_int_equal(f->built.part.model->vocabulary(&f->built.part), 128256);
    assert_true(hr__recipe_float(r, "model.config.rms_norm_eps") == 1e-5);
    assert_true(hr__recipe_float(r, "model.config.rope_scaling.factor") == 32);
    assert_true(hr__recipe_bool(r, "model.config.tie_word_embeddings"));
    assert_string_equal(hr__recipe_text(r, "model.precision"), "32-true"); /* the file's type is that of storage only */
    assert_false(hr__recipe_given(r, "model.config"));
  }
}

static double theta(const hr_built *built) {
  json_t *config = built->part.model->config_json(&built->part);
  double value = json_real_value(json_object_get(config, "rope_theta"));
  json_decref(config);
  return value;
}

static bool stretched(const hr_built *built) {
  json_t *config = built->part.model->config_json(&built->part);
  bool value = json_is_object(json_object_get(config, "rope_scaling"));
  json_decref(config);
  return value;
}

static void new_files(void **state) {
  fixture *f = *state;
  assert_int_equal(load(f, new_form, true, NULL, NULL), HR_OK);
  assert_true(theta(&f->built) == 1234 && stretched(&f->built));
  assert_false(hr__recipe_has(f->built.recipe, "model.config.head_dim"));
}

static void recipe_overrules(void **state) {
  fixture *f = *state;
  assert_int_equal(load(f, old_form, true, "model.config.num_hidden_layers=2", "model.config.rope_scaling=null"),
                   HR_OK);
  assert_int_equal(hr__recipe_int(f->built.recipe, "model.config.num_hidden_layers"), 2);
  assert_int_equal(hr__recipe_int(f->built.recipe, "model.config.hidden_size"), 2048);
  assert_false(stretched(&f->built));
  assert_int_equal(load(f, old_form, true, "model.config.rope_scaling.factor=8", NULL), HR_OK);
  assert_true(hr__recipe_float(f->built.recipe, "model.config.rope_scaling.factor") == 8);
  assert_true(stretched(&f->built)); /* the rest of the section still comes from the file */
  assert_int_equal(load(f, new_form, true, "model.config.rope_theta=99", NULL), HR_OK);
  assert_true(theta(&f->built) == 99);
  assert_int_equal(load(f, old_form, true, "model.config.rope_parameters={rope_type: default, rope_theta: 5}", NULL),
                   HR_OK);
  assert_true(theta(&f->built) == 5 && !stretched(&f->built));
}

static void refused(void **state) {
  static const struct {
    const char *config, *message, *remedy;
  } cases[] = {
      {"{\"model_type\": \"mixtral\"}", "model_type \"mixtral\" is not supported",
       "families: llama, mistral, qwen2, qwen3"},
      {"{\"model_type\": \"llama\", \"architectures\": [\"LlamaForSequenceClassification\"]}",
       "architectures: LlamaForSequenceClassification", "ends with ForCausalLM"},
      {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"layer_types\": [\"full_attention\", "
       "\"linear_attention\"]}",
       "layer 1 is of the type \"linear_attention\"", "full_attention, sliding_attention"},
      {"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 2, \"layer_types\": [\"full_attention\", "
       "\"sliding_attention\"]}",
       "layer 1 has sliding_attention", "use_sliding_window: true"},
      {"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 3, \"layer_types\": [\"full_attention\"]}",
       "layer_types names 1 layers, but there are 3", "max_window_layers"},
      {"{\"model_type\": \"qwen2\", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}}",
       "rope_scaling.rope_type \"yarn\" is not supported", "--set model.config.rope_scaling=null"},
      {"{\"model_type\": \"qwen3\", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}}",
       "differ between layers (full_attention)", ""},
      {"{\"model_type\": \"gemma3_text\", \"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"linear\","
       " \"factor\": 2.0}}}",
       "sliding_attention: rope_type \"linear\" is not supported", ""},
      {"{\"model_type\": \"gemma3\", \"text_config\": {\"final_logit_softcapping\": 30.0}}", "final_logit_softcapping",
       ""},
      {"{\"model_type\": \"gemma3_text\", \"attn_logit_softcapping\": 50.0}", "attn_logit_softcapping", ""},
      {"{\"model_type\": \"gemma3_text\", \"use_bidirectional_attention\": true}", "look to both sides", ""},
      {"{\"model_type\": \"gemma3\", \"quantization_config\": {\"bits\": 4}, \"text_config\": {}}", "quantized", ""},
      {"{\"model_type\": \"gemma3_text\", \"hidden_activation\": \"gelu\"}", "hidden_act gelu is not supported",
       "only gelu_pytorch_tanh"},
      {"{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 2, \"sliding_window\": null, \"layer_types\":"
       " [\"sliding_attention\", \"full_attention\"]}",
       "layer 0 has sliding_attention", "give sliding_window"},
      {"{\"model_type\": \"gemma3_text\", \"architectures\": [\"Gemma3TextModel\"]}",
       "Gemma3TextModel is not supported", "family gemma3"},
      {"{\"model_type\": \"gemma2\"}", "model_type \"gemma2\" is not supported", "gemma3"},
      {"{\"hidden_size\": 64}", "model_type is missing", "--set model.family=bert (families: llama"},
      {"{\"model_type\": [\"llama\"]}", "model_type is missing", ""},
      {"[1, 2]", "model_type is missing", ""},
      {"{\"model_type\": \"llama\", \"hidden_act\": \"gelu\"}", "hidden_act gelu is not supported", ""},
      {"{\"model_type\": \"llama\", \"attention_dropout\": 1.5}", "attention_dropout", ""},
      {"{\"model_type\": \"llama\", \"quantization_config\": {\"bits\": 4}}", "quantized", "unquantized"},
      {"{\"model_type\": \"llama\", \"partial_rotary_factor\": 0.5}", "partial_rotary_factor", ""},
      {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5}}",
       "partial_rotary_factor 0.5", ""},
      {"{\"model_type\": \"llama\", \"rope_interleaved\": true}", "rope_interleaved", ""},
      {"{\"model_type\": \"llama\", \"per_layer_config\": {\"1\": {\"intermediate_size\": 64}}}", "per_layer_config",
       ""},
      {"{\"model_type\": \"bert\", \"pruned_heads\": {\"0\": [1]}}", "pruned_heads", ""},
      {"{\"model_type\": \"bert\", \"alibi_starting_size\": 512}", "alibi_starting_size", "absolute positions"},
      {"{\"model_type\": \"bert\", \"architectures\": [\"JinaBertForMaskedLM\"]}",
       "JinaBertForMaskedLM is another model than model_type says", "family bert"},
      {"{\"model_type\": \"llama\", \"architectures\": [\"LlamaMoEForCausalLM\"]}",
       "LlamaMoEForCausalLM is not supported", ""},
      {"{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLMEagle3\"]}", "LlamaForCausalLMEagle3", ""},
      {"{\"model_type\": \"mistral\", \"architectures\": [\"LlamaForCausalLM\"]}", "another model than model_type says",
       ""},
      {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\"}}", "rope_scaling.factor is missing",
       "linear needs factor"},
      {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}",
       "rope_type \"dynamic\" is not supported", "default, linear, llama3"},
      {"{\"model_type\": \"llama\", \"rope_scaling\": {\"factor\": 2}}", "rope_type is missing", ""},
      {"{\"model_type\": \"llama\", \"rope_scaling\": 2}", "rope_scaling must be a section", ""},
      {"{\"model_type\": \"llama\", \"rope_parameters\": [{\"rope_type\": \"llama3\"}]}",
       "rope_parameters must be a section", ""},
      {"{\"model_type\": \"llama\", \"hidden_size\": \"64\"}", "hidden_size must be a whole number", ""},
      {"{\"model_type\": \"llama\", \"hidden_size\": 0}", "hidden_size is 0", ""},
      {"{\"model_type\": \"llama\", \"hidden_size\": 1e2}", "hidden_size must be a whole number", ""},
      {"{\"model_type\": \"llama\", \"hidden_size\": 64, \"hidden_size\": 64}", "duplicate", ""},
      {"{\"model_type\": \"llama\", ", "not valid JSON", ""},
      {"", "not valid JSON", ""},
  };
  fixture *f = *state;
  char place[96];
  snprintf(place, sizeof place, "%s/config.json", f->folder);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_status status = load(f, cases[i].config, true, NULL, NULL);
    const hr_error *err = &f->built.err;
    /* what is missing in the file can be given in the recipe, so its place may be either */
    bool placed = strncmp(err->place, place, strlen(place)) == 0 || strncmp(err->place, "r.yaml", 6) == 0;
    if (status != HR_BAD_INPUT || !placed || !strstr(err->message, cases[i].message) ||
        !strstr(err->remedy, cases[i].remedy)) {
      fail_msg("%s: %d, %s: %s (%s)", cases[i].config, (int)status, err->place, err->message, err->remedy);
    }
  }
}

/* As people's files have it: what asks for nothing, forms of many years, heads that have this one in them. */
static void taken(void **state) {
  static const char *const cases[] = {
      "{\"model_type\": \"llama\", \"quantization_config\": null, \"pruned_heads\": {}, \"per_layer_config\": {},"
      " \"rope_interleaved\": false, \"alibi_starting_size\": 0, \"partial_rotary_factor\": 1.0}",
      "{\"model_type\": \"llama\", \"architectures\": [\"LLaMAForCausalLM\"], \"max_sequence_length\": 2048}",
      "{\"model_type\": \"llama\", \"architectures\": null, \"rope_scaling\": {}}",
      "{\"model_type\": \"mistral\", \"architectures\": [\"MistralModel\"], \"sliding_window\": null}",
      "{\"model_type\": \"qwen2\", \"architectures\": [], \"use_mrope\": false, \"max_window_layers\": 70,"
      " \"dual_chunk_attention_config\": {\"chunk_size\": 262144}}",
      "{\"model_type\": \"qwen3\", \"num_hidden_layers\": 1, \"layer_types\": [\"full_attention\"],"
      " \"sliding_window\": null, \"rope_parameters\": {\"rope_theta\": 1000000, \"rope_type\": \"default\"}}",
      "{\"model_type\": \"gemma3_text\", \"hidden_act\": \"gelu\", \"hidden_activation\": \"gelu_pytorch_tanh\","
      " \"attn_logit_softcapping\": null, \"final_logit_softcapping\": null, \"use_bidirectional_attention\": false,"
      " \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8.0, \"rope_theta\": 1e6},"
      " \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}}}",
      "{\"model_type\": \"gemma3\", \"architectures\": [\"Gemma3ForConditionalGeneration\"], \"text_config\": {}}",
      "{\"model_type\": \"bert\", \"architectures\": [\"BertForPreTraining\"], \"directionality\": \"bidi\"}",
      "{\"model_type\": \"bert\", \"architectures\": [\"BertModel\"], \"classifier_dropout\": null}",
  };
  fixture *f = *state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (load(f, cases[i], false, NULL, NULL) != HR_OK)
      fail_msg("%s: %s (%s)", cases[i], f->built.err.message, f->built.err.remedy);
  /* What the file does not say, or says of a scheme that is not there, the recipe may. */
  assert_int_equal(load(f, "{\"num_hidden_layers\": 2}", false, "model.family=bert", NULL), HR_OK);
  assert_string_equal(f->built.model->family, "bert");
  assert_int_equal(hr__recipe_int(f->built.recipe, "model.config.num_hidden_layers"), 2);
  assert_int_equal(load(f, "[1, 2]", false, "model.family=bert", NULL), HR_BAD_INPUT);
  assert_int_equal(load(f, "{\"model_type\": \"qwen2\", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}}",
                        false, "model.config.rope_scaling=null", NULL),
                   HR_OK);
  assert_false(stretched(&f->built));
  /* The newer form under the older one's name. */
  assert_int_equal(load(f,
                        "{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_theta\": 1234.0, \"rope_type\": "
                        "\"default\"}}",
                        false, NULL, NULL),
                   HR_OK);
  assert_true(theta(&f->built) == 1234);
  /* Both, neither of them whole: in either order. */
  static const char *const both[] = {
      "{\"model_type\": \"llama\", \"rope_scaling\": " STRETCH ", \"hidden_size\": 64, \"rope_parameters\": " BASE "}",
      "{\"model_type\": \"llama\", \"rope_parameters\": " BASE ", \"hidden_size\": 64, \"rope_scaling\": " STRETCH "}"};
  for (size_t i = 0; i < 2; i++) {
    if (load(f, both[i], false, NULL, NULL) != HR_OK) fail_msg("%s: %s", both[i], f->built.err.message);
    assert_true(theta(&f->built) == 4321 && stretched(&f->built));
    assert_int_equal(hr__recipe_int(f->built.recipe, "model.config.hidden_size"), 64);
  }
}

/* Linear stretching: position 4p turns as p did before, to the last bit. */
static void linear(void **state) {
  fixture *f = *state;
  assert_int_equal(load(f, "{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}}",
                        false, NULL, NULL),
                   HR_OK);
  hr_decoder m = hr__decoder_read(&f->built.part.scope);
  hr_rope_table_args args = hr__rope_args(&f->built.part.scope, &m, 16);
  hr_rope_table_args plain = {.length = 16, .head_dim = args.head_dim, .theta = args.theta};
  for (int64_t i = 0; i < args.head_dim / 2; i++)
    assert_true(4.0f * hr__rope_frequency(&args, i) == hr__rope_frequency(&plain, i));
  assert_int_equal(hr__built_graph(&f->built, 1, 4), HR_OK); /* the op takes it */
  json_t *config = f->built.part.model->config_json(&f->built.part);
  const json_t *saved = json_object_get(config, "rope_scaling");
  assert_string_equal(json_string_value(json_object_get(saved, "rope_type")), "linear");
  assert_true(json_real_value(json_object_get(saved, "factor")) == 4.0);
  assert_int_equal(json_object_size(saved), 2);
  json_decref(config);
}

static void folders(void **state) {
  fixture *f = *state;
  char path[96], text[256];
  assert_int_equal(load(f, NULL, true, NULL, NULL), HR_BAD_INPUT); /* no config.json */
  assert_string_equal(f->built.err.place, "r.yaml:2:9");
  assert_non_null(strstr(f->built.err.message, "there is no config.json in"));
  assert_int_equal(load(f, NULL, false, NULL, NULL), HR_BAD_INPUT);
  assert_string_equal(f->built.err.place, f->folder);
  /* weights without config.json are fine when the recipe says the rest */
  assert_int_equal(load(f, NULL, true, "model.family=llama", "model.config={hidden_size: 64, num_attention_heads: 4}"),
                   HR_OK);
  snprintf(path, sizeof path, "%s/config.json", f->folder);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_int_equal(load(f, NULL, true, NULL, NULL), HR_BAD_INPUT); /* a folder of that name */
  snprintf(text, sizeof text, "model: { path: %s/config.json/x }\n", f->folder);
  hr__built_free(&f->built);
  assert_int_equal(hr__built_recipe(&f->built, "r.yaml", text, NULL, 0), HR_BAD_INPUT);
  assert_non_null(strstr(f->built.err.message, "there is no folder"));
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {CASE(old_files), CASE(new_files), CASE(recipe_overrules), CASE(refused),
                                     CASE(taken),     CASE(linear),    CASE(folders)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
