/* Models: recipe -> forward graph. One file per family, made of builder calls. */
#ifndef HR_MODEL_MODEL_H
#define HR_MODEL_MODEL_H

#include "data/field.h"
#include "graph/builder.h"
#include "recipe/recipe.h"

/* Elements of all parameters of a model, at most: more than any machine could hold. */
static const int64_t HR_PARAMETERS_MAX = INT64_C(10000000000000); /* 10^13 */

/* One micro-batch as a model takes it: the fields that it has declared, as inputs of the program. */
typedef struct hr_model_batch {
  int64_t batch, length;
  hr_fields fields;
  hr_id inputs[HR_FIELDS]; /* of each field */
  /* Those of sequences of tokens by themselves; HR_NONE where the model has not declared them. */
  hr_id tokens;  /* i32 [batch, length] */
  hr_id targets; /* i32 [batch, length]; negative: no loss there */
  hr_id lengths; /* i32 [batch]: positions of a row that hold data; HR_NONE: all of them. Of masked models only */
} hr_model_batch;

/* What the fields of a model depend on beside its settings. */
typedef struct hr_field_shape {
  int64_t batch, length;
  bool lengths; /* samples have lengths of their own */
} hr_field_shape;

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
  /* (optional) Declares the fields of a micro-batch; NULL: those of hr__token_fields. */
  void (*fields)(const hr_recipe *recipe, const hr_field_shape *shape, hr_fields *out);
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

/* fields.c. Tokens and their targets, and the lengths of samples where they have any. */
void hr__token_fields(const hr_field_shape *shape, int64_t vocabulary, hr_fields *out);
/* The fields that a model declares for a micro-batch. */
hr_fields hr__model_fields(const hr_model *model, const hr_recipe *recipe, const hr_field_shape *shape);
/* The same as inputs of the builder's program. */
hr_model_batch hr__batch_declare(hr_builder *b, const hr_fields *fields, int64_t batch, int64_t length);
hr_id hr__batch_field(const hr_model_batch *batch, const char *name); /* the input of a field; HR_NONE */

#endif
