/* Models: recipe -> forward graph. One file per family, made of builder calls, and one row in families.def. */
#ifndef HR_MODEL_MODEL_H
#define HR_MODEL_MODEL_H

#include "data/field.h"
#include "graph/builder.h"
#include "recipe/scope.h"

typedef struct hr_eager hr_eager; /* torch/eager.h */

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
  hr_id starts;  /* i32 [batch, length]: where the document of each token begins; HR_NONE: a row is one document */
  /* Of programs that generate (generation.h): sequences go on where they were left. */
  int64_t context; /* positions that caches hold; 0: another program, and nothing below counts */
  hr_id positions; /* i32 [batch]: where each sequence goes on */
  hr_id counts;    /* i32 [batch]: how many tokens of its row are there */
} hr_model_batch;

/* What the sum of a loss or metric is divided by, counted over the effective batch. */
typedef enum hr_over {
  HR_OVER_TARGETS, /* positions with a target: the op has divided already (op/head_loss.h) */
  HR_OVER_TOKENS,  /* positions that hold data */
  HR_OVER_SAMPLES,
  HR_OVER_MASK, /* elements of a field that are not 0 */
  HR_OVER_DATA  /* a metric of all of the data at once, which evaluations give and programs do not (hr_source.judge) */
} hr_over;

/* A loss or a metric of a model (losses.h). */
typedef struct hr_reported {
  const char *name; /* at most 32 characters, letters, digits and '_' */
  bool metric;      /* only reported, not trained on */
  bool evaluated;   /* a metric that evaluations alone report: it takes more than a step should */
  float weight;     /* of a loss in the sum that is trained on */
  hr_over over;
  const char *mask; /* HR_OVER_MASK: name of the field */
} hr_reported;
enum { HR_REPORTED = 20 };

/* What the fields of a model depend on beside its settings. */
typedef struct hr_field_shape {
  int64_t batch, length;
  bool lengths;   /* samples have lengths of their own */
  bool documents; /* several documents in a sample: starts are told */
} hr_field_shape;

/* The output of evaluations that metrics of all of the data are made from: a point, f32 [points, width], for each text
 * of the batch (or group of texts), in order. */
#define HR_OUTPUT_POINTS "points"

/* A model as one section of a recipe describes it: all of it, or a part of one that consists of parts. */
typedef struct hr_model hr_model;
typedef struct hr_model_part {
  const char *name; /* "text"; "" for the whole model */
  const hr_model *model;
  hr_scope scope; /* "model.parts.text"; "model" for the whole model */
} hr_model_part;

/* A part that a model of parts has. */
typedef struct hr_part_declared {
  const char *name;
  const char *family; /* where neither the recipe nor a checkpoint names one; NULL: one of them must */
} hr_part_declared;

/* A frozen part whose results of a sample never change, so that they may be made once, before training, and be read
 * in place of what they are made of (features.h). */
typedef struct hr_model_features {
  const char *part;
  bool (*cached)(const hr_model_part *whole); /* whether the recipe has it so */
  /* What `rows` rows are made of, as one field, and the rows: [rows, numbers]. */
  hr_field (*field)(const hr_model_part *whole, int64_t rows);
  hr_id (*make)(hr_builder *b, const hr_model_part *whole, const hr_model_batch *batch);
} hr_model_features;

enum { HR_FAMILY_TABLES = 8, HR_TENSOR_NAME = 256 };

/* Tensors of a checkpoint that no parameter is read from. */
typedef enum hr_unused {
  HR_UNUSED_WRONG, /* the checkpoint is of another model */
  HR_UNUSED_AGAIN, /* it says again what others do: a copy of a tied head, a table that is computed */
  HR_UNUSED_KEPT,  /* of another task: what a run saves has it as it was (train/kept.h) */
} hr_unused;

struct hr_model {
  const char *family;
  /* Settings under config, as keys of a scope ("*.config.hidden_size"); families may share tables. Ends with NULL. */
  const hr_key_table *keys[HR_FAMILY_TABLES];
  const char *defaults;   /* (optional) of this family, as a YAML map; they go before those of the keys */
  const char *model_type; /* (optional) what config.json calls it, where that is not the family's name */
  const char *task;       /* what the names of its architectures end with: "ForCausalLM" */
  const char *other_task; /* (optional) a head that has this one in it: "ForPreTraining" */
  /* Fills in tokens that are hidden from it, looking to both sides; else it predicts the next token. */
  bool masked;
  /* Linear modules that adapters go to where the recipe names none. */
  const char *const *targets;
  size_t n_targets;
  /* (optional) Brings a config.json of the public checkpoints into the forms that recipes have, before it is merged;
   * what headroom has not is HR_BAD_INPUT. `name` is that of the file. */
  hr_status (*config_read)(hr_doc_node *config, const char *name, hr_error *err);
  /* Checks the settings that depend on each other (before anything is built). */
  hr_status (*check)(const hr_model_part *part, hr_error *err);
  /* (optional) A model of parts: they are model.parts.NAME in recipes, and `forward` puts them together (parts.h). */
  const hr_part_declared *parts;
  size_t n_parts;
  /* (optional) Of a model of parts: "config.texts", a list of names that its parts have in place of those above,
   * which are its default; each is of the first one's family unless its section says otherwise. */
  const char *part_names;
  size_t most_parts; /* that it may name */
  /* (optional) For use as a part, in the same manner as `forward`: x of the batch's tokens, what follows from x (a
   * model without tokens has only this, and takes no batch), and the loss on what `body` gives. */
  hr_id (*embed)(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch);
  hr_id (*body)(hr_builder *b, const hr_model_part *part, hr_id x, const hr_model_batch *batch);
  hr_id (*loss)(hr_builder *b, const hr_model_part *part, hr_id hidden, const hr_model_batch *batch);
  /* (optional) [..., vocabulary] of rows of what `body` gives. Models that have it, and whose body goes on from caches
   * where a batch has positions (modules.h, mixer.h), generate. */
  hr_id (*logits)(hr_builder *b, const hr_model_part *part, hr_id hidden);
  bool onward; /* a sequence only goes on or begins anew: its caches hold where it is, not what was before */
  /* (optional) A model of parts that writes: the part that does, which has all of the above, and x of a prompt, [B, T,
   * width], from the fields of a sample. What follows the prompt are tokens of that part alone. */
  const char *speaker;
  hr_id (*prompt)(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch);
  const hr_model_features *features; /* (optional) of a model of parts */
  const char *head; /* its linear module: neither adapted nor quantized, as where it stands in the loss */
  /* (optional) Emits the forward pass in f32 (the precision pass gives the types) into the builder's current program;
   * returns the loss (f32 [1]), HR_NONE after an error. Parameters are declared by name, so that several programs share
   * them. NULL: only parts are of this family. */
  hr_id (*forward)(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch);
  /* (optional) Tokens that there are. NULL: the model takes none; its samples have no length unless one is given, and
   * are what its speed is counted by. */
  int64_t (*vocabulary)(const hr_model_part *part);
  /* (optional) Losses and metrics, each to be handed to hr__report by `forward`, whose result then only says that
   * nothing failed. */
  const hr_reported *reported;
  int n_reported;
  /* (optional) Patterns of module names that compute in f32 in every precision; ends with NULL. */
  const char *const *wide;
  /* (optional) Declares the fields of a micro-batch; NULL: those of hr__token_fields. */
  void (*fields)(const hr_model_part *part, const hr_field_shape *shape, hr_fields *out);
  /* config.json of the public checkpoints, for what a run saves. NULL: out of memory. */
  json_t *(*config_json)(const hr_model_part *part);
  /* Names in public checkpoints. Parameters carry them; what differs is here.
   * (optional) What a tensor of a checkpoint is that no parameter is read from; NULL: there may be none. */
  hr_unused (*unused)(const hr_model_part *part, const char *tensor);
  /* (optional) What names of the body's parameters begin with ("model."). Checkpoints of the body alone ("LlamaModel")
   * leave it out, and have no head: what does not begin so is drawn then. */
  const char *body_name;
  /* (optional) Another name, number `i` from 0 on, that checkpoints have for a parameter; NULL: no more. */
  const char *(*other_name)(const char *parameter, int i, char out[HR_TENSOR_NAME]);
  /* (optional) How the public implementation in PyTorch is built and runs: makes the modules, and sets state and
   * forward of `e`. NULL: nobody can say what PyTorch holds for this family. */
  void (*torch)(const hr_model_part *part, hr_eager *e);
};

#define HR_FAMILY(name) extern const hr_model hr_model_##name;
#include "model/families.def"
#undef HR_FAMILY
extern const hr_key_table hr_model_keys; /* family, path, precision... of a scope */

/* Graphs that were built by hand (nets of include/headroom.h) are of no family: passes find this one, which recipes
 * cannot name. Their settings have these tables in place of hr_model_keys. */
enum { HR_BY_HAND_TABLES = 2 };
extern const hr_model hr_model_by_hand;
extern const hr_key_table hr_by_hand_keys[HR_BY_HAND_TABLES];

/* The families there are: those of families.def, then those that were registered. NULL: no more. */
const hr_model *hr__model_at(size_t i);
const hr_model *hr__model_named(const char *family); /* NULL: there is none */
void hr__model_families(char *out, size_t capacity); /* "llama, mistral, ..." */
/* The key tables of all families, each once; at most `capacity`. */
enum { HR_MODEL_TABLES = 64 };
size_t hr__model_tables(const hr_key_table **out, size_t capacity);
/* Makes a family known that is not shipped, before recipes are loaded. */
enum { HR_REGISTERED = 16 };
void hr__model_register(const hr_model *model);

/* forward of a model that is embed, body and loss, one behind the other. */
hr_id hr__model_forward(hr_builder *b, const hr_model_part *part, const hr_model_batch *batch);

/* The precision of a section, or of the model around it. */
const char *hr__scope_precision(const hr_scope *scope);

/* The whole model of a recipe. */
hr_model_part hr__model_whole(const hr_recipe *recipe);
/* Its vocabulary; 0: it takes no tokens. */
int64_t hr__model_vocabulary(const hr_recipe *recipe);
/* hr_model.check of it and of its parts. */
hr_status hr__model_check(const hr_recipe *recipe, hr_error *err);

/* Hands a checkpoint's config.json, given as text, to the recipe: what PATH does with FOLDER/config.json in a section.
 * `name` stands for the file; *family (unless the file does not say) is the one that it names. Keys that do not concern
 * training are ignored; a family or a scheme that is not supported is HR_BAD_INPUT. (config.c) */
hr_status hr__model_config_merge(hr_recipe *recipe, const char *section, const char *name, const char *text,
                                 size_t bytes, const hr_model **family, hr_error *err);

/* config_text.c: the config.json of a checkpoint, a folder or a GGUF file; *text NULL: the folder has none. *name
 * stands for it in places. All in `arena`. */
hr_status hr__config_text(const char *path, hr_arena *arena, const char **name, char **text, size_t *bytes,
                          hr_error *err);

/* open_adapters.c: adapters.path of a section, where it is given. */
hr_status hr__adapters_open(hr_recipe *recipe, const hr_scope *scope, hr_error *err);

/* fields.c. Tokens and their targets, and the lengths of samples where they have any. */
void hr__token_fields(const hr_field_shape *shape, int64_t vocabulary, hr_fields *out);
/* The fields that a model declares for a micro-batch. */
hr_fields hr__model_fields(const hr_model_part *part, const hr_field_shape *shape);
/* The same as inputs of the builder's program. */
hr_model_batch hr__batch_declare(hr_builder *b, const hr_fields *fields, int64_t batch, int64_t length);
hr_id hr__batch_field(const hr_model_batch *batch, const char *name); /* the input of a field; HR_NONE */

#endif
