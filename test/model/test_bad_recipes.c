/* Bad recipes, one per line of the table: status, place, and what message and remedy must say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"

/* Stands for the keys of later stages. */
static const hr_key run_keys[] = {
    {.path = "data.sequence_length", .type = HR_KEY_INT, .min = 1, .max = 1 << 24, .fallback = "128"},
    {.path = "training.batch_size", .type = HR_KEY_INT, .min = 1, .max = 1 << 20, .choices = "auto", .fallback = "8"},
    {.path = "training.optimizer.lr", .type = HR_KEY_FLOAT, .min = 0, .max = 10, .fallback = "1e-3"},
    {.path = "training.optimizer.betas", .type = HR_KEY_FLOATS, .length = 2, .min = 0, .max = 1},
    {.path = "memory.budget", .type = HR_KEY_SIZE, .choices = "auto|%"},
};

#define LLAMA "model:\n  family: llama\n  config: { hidden_size: 64, num_attention_heads: 4, "
#define TINY  LLAMA "num_hidden_layers: 2 }\n"

static const struct {
  const char *text, *set;
  int exit_code;
  const char *place, *message, *remedy; /* place exactly; parts of the other two */
} cases[] = {
    /* keys */
    {TINY "trainning: { steps: 5 }\n", 0, 5, "r.yaml:4:1", "unknown key \"trainning\" at the top",
     "did you mean \"training\"?"},
    {TINY "training: { optimiser: { lr: 1 } }\n", 0, 5, "r.yaml:4:13", "unknown key \"optimiser\" in section training",
     "did you mean \"optimizer\"?"},
    {TINY "training:\n  optimizer:\n    lrate: 1\n", 0, 5, "r.yaml:6:5", "unknown key \"lrate\"",
     "keys here: betas, lr"},
    {TINY "training:\n  lr: 1\n", 0, 5, "r.yaml:5:3", "unknown key \"lr\" in section training",
     "did you mean training.optimizer.lr?"},
    {LLAMA "hiden_size: 3 }\n", 0, 5, "r.yaml:3:54", "unknown key \"hiden_size\" in section model.config",
     "did you mean \"hidden_size\"?"},
    {LLAMA "n_embd: 3 }\n", 0, 5, "r.yaml:3:54", "unknown key \"n_embd\"", "keys here: attention_bias,"},
    {"training.batch_size: 4\n" TINY, 0, 5, "r.yaml:1:1", "unknown key \"training.batch_size\"", "write sections"},
    {TINY "training: { batch_size: 4, batch_size: 5 }\n", 0, 5, "r.yaml:4:28", "\"batch_size\" is repeated",
     "keep one"},
    {TINY "model: { family: llama }\n", 0, 5, "r.yaml:4:1", "\"model\" is repeated", ""},
    {TINY "\"\": 1\n", 0, 5, "r.yaml:4:1", "unknown key \"\"", "keys here:"},
    {TINY "7: 1\n", 0, 5, "r.yaml:4:1", "unknown key \"7\"", "keys here:"},
    /* types */
    {LLAMA "vocab_size: many }\n", 0, 5, "r.yaml:3:66",
     "model.config.vocab_size must be a whole number, but it is the text \"many\"", "\"vocab_size: 32000\""},
    {LLAMA "vocab_size: \"100\" }\n", 0, 5, "r.yaml:3:66", "but it is the text \"100\"", ""},
    {LLAMA "vocab_size: 2.5 }\n", 0, 5, "r.yaml:3:66", "but it is the number 2.5", ""},
    {LLAMA "vocab_size: 1e3 }\n", 0, 5, "r.yaml:3:66", "but it is the number 1e3",
     "did you mean \"vocab_size: 1000\"?"},
    {LLAMA "vocab_size: true }\n", 0, 5, "r.yaml:3:66", "but it is the boolean true", ""},
    {LLAMA "vocab_size: [] }\n", 0, 5, "r.yaml:3:66", "but it is a list of 0", ""},
    {LLAMA "vocab_size: [1, many] }\n", 0, 5, "r.yaml:3:70", "but it is the text \"many\"", ""},
    {LLAMA "vocab_size: { a: 1 } }\n", 0, 5, "r.yaml:3:66", "but it is a section with 1 key", ""},
    {LLAMA "tie_word_embeddings: 1 }\n", 0, 5, "r.yaml:3:75", "must be true or false, but it is the whole number 1",
     "\"tie_word_embeddings: false\""},
    {LLAMA "tie_word_embeddings: yes }\n", 0, 5, "r.yaml:3:75", "but it is the text \"yes\"", ""},
    {"model: llama\n", 0, 5, "r.yaml:1:8", "model must be a section with keys of its own, but it is the text \"llama\"",
     "keys here: family, path, precision"},
    {TINY "training: [1, 2]\n", 0, 5, "r.yaml:4:11", "training must be a section", ""},
    {"- model\n", 0, 5, "r.yaml:1:1", "a recipe must be a section", "keys here: data,"},
    {"just text\n", 0, 5, "r.yaml:1:1", "a recipe must be a section", ""},
    {"model: { family: llama, config: 3 }\n", 0, 5, "r.yaml:1:33", "model.config must be a section", ""},
    {TINY "training: { optimizer: { betas: [0.9] } }\n", 0, 5, "r.yaml:4:33",
     "a list of 2 numbers, but it is a list of 1", "\"betas: [0.5, 0.5]\""},
    {TINY "training: { optimizer: { betas: [0.9, x] } }\n", 0, 5, "r.yaml:4:39", "but it is the text \"x\"", ""},
    {TINY "training: { optimizer: { betas: 0.9 } }\n", 0, 5, "r.yaml:4:33", "but it is the number 0.9", ""},
    {TINY "training: { batch_size: automatic }\n", 0, 5, "r.yaml:4:25", "must be a whole number or auto", ""},
    {"model: { family: [llama], config: {} }\n", 0, 5, "r.yaml:1:18", "model.family must be text", ""},
    {"model: { family: llama, path: '', config: {} }\n", 0, 5, "r.yaml:1:31", "model.path must be a path", ""},
    /* numbers */
    {TINY "training: { optimizer: { lr: .nan } }\n", 0, 5, "r.yaml:4:30",
     "must be a number, but it is the text \".nan\"", "\"lr: 1e-3\""},
    {TINY "training: { optimizer: { lr: .inf } }\n", 0, 5, "r.yaml:4:30", "must be a number", ""},
    {TINY "training: { optimizer: { lr: nan } }\n", 0, 5, "r.yaml:4:30", "must be a number", ""},
    {TINY "training: { optimizer: { lr: 1e999 } }\n", 0, 5, "r.yaml:4:30", "training.optimizer.lr", ""},
    {TINY "training: { optimizer: { lr: -1e-4 } }\n", 0, 5, "r.yaml:4:30",
     "lr is -1e-4, but it must be between 0 and 10", "choose a value between 0 and 10"},
    {TINY "training: { optimizer: { betas: [0.9, 1.5] } }\n", 0, 5, "r.yaml:4:39", "is 1.5, but it must be", ""},
    {TINY "training: { batch_size: 0 }\n", 0, 5, "r.yaml:4:25", "is 0, but it must be between 1 and 1048576", ""},
    {TINY "training: { batch_size: -3 }\n", 0, 5, "r.yaml:4:25", "is -3,", ""},
    {TINY "training: { batch_size: 99999999999999999999 }\n", 0, 5, "r.yaml:4:25", "99999999999999999999", ""},
    {LLAMA "num_hidden_layers: 0 }\n", 0, 5, "r.yaml:3:73", "num_hidden_layers is 0", ""},
    {LLAMA "vocab_size: 9223372036854775807 }\n", 0, 5, "r.yaml:3:66", "must be between 1 and 16777216", ""},
    {TINY "memory: { budget: 12 parsecs }\n", 0, 5, "r.yaml:4:19",
     "a size in bytes or auto, a share up to 100%, but it is the text", ""},
    {TINY "memory: { budget: 101% }\n", 0, 5, "r.yaml:4:19", "a share up to 100%, but it is the text", ""},
    {TINY "memory: { budget: -5 }\n", 0, 5, "r.yaml:4:19", "a size in bytes", "\"budget: 512MiB\""},
    {TINY "memory: { budget: 1e30GiB }\n", 0, 5, "r.yaml:4:19", "a size in bytes", ""},
    /* choices and families */
    {"model: { family: lama, config: {} }\n", 0, 5, "r.yaml:1:18", "there is no model family \"lama\"",
     "families: llama"},
    {"model: { family: llama, precision: bf16, config: {} }\n", 0, 5, "r.yaml:1:36",
     "one of: 32-true, bf16-mixed, 16-mixed, bf16-true", ""},
    {"model: { family: llama, precision: bf16-tru, config: {} }\n", 0, 5, "r.yaml:1:36",
     "one of: 32-true, bf16-mixed, 16-mixed, bf16-true", "did you mean \"precision: bf16-true\"?"},
    {LLAMA "hidden_act: gelu }\n", 0, 5, "r.yaml:3:66", "hidden_act gelu is not supported", "only silu"},
    {LLAMA "hidden_act: swish }\n", 0, 5, "r.yaml:3:66", "one of: silu", ""},
    {LLAMA "rope_scaling: { rope_type: yarn, factor: 2 } }\n", 0, 5, "r.yaml:3:81",
     "rope_type \"yarn\" is not supported", "default, linear, llama3"},
    /* what is missing */
    {"", 0, 5, "r.yaml", "model.family is missing", "--set model.family=NAME (kind of model: llama,"},
    {"training: {}\n", 0, 5, "r.yaml", "model.family is missing", ""},
    {"training: {}\nmodel:\n  config: { hidden_size: 8 }\n", 0, 5, "r.yaml:2:1", "model.family is missing", ""},
    {"model: { family: llama }\n", 0, 5, "r.yaml:1:1", "neither model.config nor model.path is given", "config: {"},
    {"model: { path: no/such/folder }\n", 0, 5, "r.yaml:1:16", "there is no folder \"no/such/folder\"", "config.json"},
    /* settings that contradict each other */
    {"model: { family: llama, config: { hidden_size: 10, num_attention_heads: 4 } }\n", 0, 5, "r.yaml:1:48",
     "hidden_size (10) is not a multiple of num_attention_heads (4)", "hidden_size: 12"},
    {"model: { family: llama, config: { hidden_size: 12, num_attention_heads: 4 } }\n", 0, 5, "r.yaml:1:48",
     "must be even", "even width"},
    {LLAMA "head_dim: 7 }\n", 0, 5, "r.yaml:3:64", "must be even, but model.config.head_dim is 7", ""},
    {LLAMA "num_key_value_heads: 3 }\n", 0, 5, "r.yaml:3:75", "(4) is not a multiple of num_key_value_heads (3)",
     "divisor"},
    {LLAMA "num_key_value_heads: 8 }\n", 0, 5, "r.yaml:3:75", "(4) is not a multiple of num_key_value_heads (8)", ""},
    {LLAMA "max_position_embeddings: 64 }\n", 0, 5, "r.yaml", "data.sequence_length (128) is longer", "shorter"},
    {TINY "data: { sequence_length: 4096 }\n", 0, 5, "r.yaml:4:26", "data.sequence_length (4096) is longer",
     "max_position_embeddings"},
    {LLAMA "attention_dropout: 1 }\n", 0, 5, "r.yaml:3:73", "attention_dropout", ""},
    {"model: { family: llama, config: { hidden_size: 16777216, intermediate_size: 16777216 } }\n", 0, 5, "r.yaml:1:48",
     "more than 10000000000000 parameters", "smaller"},
    {LLAMA "rope_scaling: { rope_type: llama3, factor: 8 } }\n", 0, 5, "r.yaml:3:54",
     "rope_scaling.low_freq_factor is missing", "low_freq_factor"},
    {LLAMA "rope_scaling: { factor: 8 } }\n", 0, 5, "r.yaml:3:54", "rope_scaling.rope_type is missing",
     "rope_type: llama3"},
    {LLAMA "rope_scaling: { rope_type: llama3, factor: 8, low_freq_factor: 4, high_freq_factor: 4, "
           "original_max_position_embeddings: 8 } }\n",
     0, 5, "r.yaml:3:138", "must be larger than low_freq_factor (4)", "high_freq_factor 4"},
    {LLAMA "rope_scaling: {rope_type: default}, rope_parameters: {rope_type: default} }\n", 0, 5, "r.yaml:3:90",
     "twice", "keep"},
    {LLAMA "rope_theta: 10, rope_parameters: {rope_theta: 10} }\n", 0, 5, "r.yaml:3:100", "given twice", "keep"},
    /* YAML that a recipe may not hold */
    {TINY "training: &a { batch_size: 1 }\n", 0, 5, "r.yaml:4:11", "anchors", ""},
    {TINY "---\n" TINY, 0, 5, "r.yaml:4:1", "several documents", ""},
    {TINY "\ttraining: 1\n", 0, 5, "r.yaml:4:1", "", ""},
    {"model: { family: \"\xff\" }\n", 0, 5, "r.yaml:1:19", "not valid UTF-8", ""},
    /* overrides */
    {TINY, "training.batchsize=4", 5, "--set training.batchsize=4", "unknown key \"batchsize\" in section training",
     "did you mean \"batch_size\"?"},
    {TINY, "trainer.batch_size=4", 5, "--set trainer.batch_size=4", "unknown key \"trainer\" at the top", ""},
    {TINY, "model.precision=fp16", 5, "--set model.precision=fp16", "must be one of",
     "did you mean \"precision: 16-mixed\"?"},
    {TINY, "model.family.x=4", 5, "--set model.family.x=4",
     "model.family is a setting, not a section with keys of its own", "write --set 'model.family=NAME'"},
    {TINY, "training.batch_size", 2, "--set training.batch_size", "joined by \"=\"", "--set key.path=value"},
    {TINY, "=4", 2, "--set =4", "joined by \"=\"", ""},
    {TINY, "training..batch_size=4", 5, "--set training..batch_size=4", "unknown key \"\"", ""},
    {TINY, "training.batch_size=x", 5, "--set training.batch_size=x", "but it is the text \"x\"", ""},
    {TINY, "training.batch_size=[", 5, "--set training.batch_size=[:1:2", "", ""},
    {TINY, "training=5", 5, "--set training=5", "training must be a section", ""},
    {TINY, "training={ batchsize: 5 }", 5, "--set training={ batchsize: 5 }", "unknown key \"batchsize\"", ""},
    {TINY, "model=null", 5, "r.yaml", "model.family is missing", ""},
    {TINY "training: 3\n", "training.batch_size=4", 5, "r.yaml:4:11", "training must be a section", ""},
    {TINY, "model.config.head_dim=5", 5, "--set model.config.head_dim=5", "must be even", ""},
};

static void bad_recipes(void **state) {
  (void)state;
  hr_key_table tables[] = {hr_model_keys, {run_keys, sizeof run_keys / sizeof *run_keys}};
  int failures = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_error err = {0};
    hr_recipe *recipe = NULL;
    hr_status status = hr__recipe_parse("r.yaml", "", cases[i].text, strlen(cases[i].text), &cases[i].set,
                                        cases[i].set ? 1 : 0, tables, 2, &recipe, &err);
    if (status == HR_OK) status = hr__model_check(recipe, &err);
    hr__recipe_destroy(recipe);
    bool good = hr_status_exit_code(status) == cases[i].exit_code && err.status == status &&
                strcmp(err.place, cases[i].place) == 0 && strstr(err.message, cases[i].message) &&
                strstr(err.remedy, cases[i].remedy);
    if (good) continue;
    failures++;
    print_error("case %zu: %s%s%s\n  got exit %d, %s: %s\n  remedy: %s\n  expected %s: %s\n  remedy: %s\n", i,
                cases[i].text, cases[i].set ? " --set " : "", cases[i].set ? cases[i].set : "",
                hr_status_exit_code(status), err.place, err.message, err.remedy, cases[i].place, cases[i].message,
                cases[i].remedy);
  }
  assert_int_equal(failures, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bad_recipes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
