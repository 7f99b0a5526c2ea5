/* Models: recipe -> forward graph. One file per family, made of builder calls. */
#ifndef HR_MODEL_MODEL_H
#define HR_MODEL_MODEL_H

#include "graph/builder.h"
#include "recipe/recipe.h"

/* Elements of all parameters of a model, at most: more than any machine could hold. */
static const int64_t HR_PARAMETERS_MAX = INT64_C(10000000000000); /* 10^13 */

/* One batch of token sequences as a model takes it. */
typedef struct hr_model_batch {
  int64_t batch, length;
  hr_id tokens;  /* i32 [batch, length] */
  hr_id targets; /* i32 [batch, length]; negative: no loss there */
  hr_id lengths; /* i32 [batch]: positions of a row that hold data; HR_NONE: all of them. Of masked models only */
} hr_model_batch;

typedef struct hr_model {
  const char *family;
  const hr_key_table *keys; /* settings under model.config; families may share them */
  const char *defaults;     /* (optional) of this family, as a YAML map; they go before those of the keys */
  const char *task;         /* what the names of its architectures end with: "ForCausalLM" */
  const char *other_task;   /* (optional) a head that has this one in it: "ForPreTraining" */
  /* Fills in tokens that are hidden from it, looking to both sides; else it predicts the next token. */
  bool masked;
  /* Linear modules that adapters go to where the recipe names none; NULL: q, k, v and o_proj. */
  const char *const *targets;
  size_t n_targets;
  /* Checks the settings that depend on each other (before anything is built). */
  hr_status (*check)(const hr_recipe *recipe, hr_error *err);
  /* Emits the forward pass in f32 (the precision pass gives the types) into the builder's current program; returns the
   * loss (f32 [1]), HR_NONE after an error. Parameters are declared by name, so that several programs share them. */
  hr_id (*forward)(hr_builder *b, const hr_recipe *recipe, const hr_model_batch *batch);
  int64_t (*vocabulary)(const hr_recipe *recipe);
  /* config.json of the public checkpoints, for what a run saves. NULL: out of memory. */
  json_t *(*config_json)(const hr_recipe *recipe);
} hr_model;

extern const hr_model hr_model_llama, hr_model_mistral, hr_model_qwen2, hr_model_qwen3, hr_model_bert;
extern const hr_key_table hr_model_keys; /* model.family, model.path, model.precision... */

/* The family a recipe names; HR_BAD_INPUT with the list of families otherwise. */
hr_status hr__model_find(const hr_recipe *recipe, const hr_model **out, hr_error *err);

const hr_model *hr__model_named(const char *family); /* NULL: there is none */
void hr__model_families(char *out, size_t capacity); /* "llama, mistral, ..." */

/* Hands a checkpoint's config.json, given as text, to the recipe: what model.path does with FOLDER/config.json. `name`
 * stands for the file. Keys that do not concern training are ignored; a family or a scheme that is not supported is
 * HR_BAD_INPUT. (config.c) */
hr_status hr__model_config_merge(hr_recipe *recipe, const char *name, const char *text, size_t bytes, hr_error *err);

#endif
