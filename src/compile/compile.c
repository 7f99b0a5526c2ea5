/* compile: drives a recipe through model, passes, grad and passes. */
#include "compile/compile.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "data/keys.h"
#include "grad/grad.h"
#include "model/features.h"
#include "model/generation.h"
#include "model/losses.h"

static const hr_key keys[] = {
    {.path = "training.batch_size",
     .type = HR_KEY_INT,
     .fallback = "1",
     .min = 1,
     .max = 1 << 24,
     .choices = "auto",
     .meaning = "samples per micro-batch; auto: the fastest that fits and divides effective_batch"},
    {.path = "training.gradient_accumulation",
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1 << 20,
     .choices = "auto",
     .tree = true,
     .example = "{0: 4, 8: 2}",
     .meaning = "micro-batches per optimizer step; or a schedule by epoch: {0: 4, 8: 2}; auto: by effective_batch"},
    {.path = "training.effective_batch",
     .type = HR_KEY_INT,
     .min = 1,
     .max = (double)(1LL << 40),
     .meaning = "samples per optimizer step: batch_size x gradient_accumulation"},
    {.path = "training.clip_norm",
     .type = HR_KEY_FLOAT,
     .min = 1e-12,
     .max = 1e12,
     .meaning = "largest L2 norm over all gradients; none unless given"},
    {.path = "training.eval_every",
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1e12,
     .meaning = "steps between evaluations on held-out data; none unless given"},
};
const hr_key_table hr_compile_keys = {keys, sizeof keys / sizeof keys[0]};

void hr__compile_tables(hr_key_table out[HR_COMPILE_TABLES]) {
  const hr_key_table others[] = {hr_data_keys,  hr_masking_keys, hr_taxonomy_keys, hr_sensors_keys, hr_events_keys,
                                 hr_video_keys, hr_scenes_keys,  hr_clips_keys,    hr_compile_keys, hr_generation_keys};
  int count = 0;
  out[count++] = hr_model_keys;
  for (int i = 0; i < HR_PASSES; i++)
    out[count++] = *hr_passes[i].keys;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    out[count++] = others[i];
  assert(count == HR_COMPILE_TABLES);
}

/* Name of a program: that of its kind; of shorter samples with their length. NULL: out of memory. */
static const char *program_name(hr_builder *b, hr_program_key key, int64_t length) {
  const char *kind = hr_program_kind_name(key.kind);
  return key.bucket == 0 ? kind : hr__arena_format(&b->graph->arena, "%s@%" PRId64, kind, length);
}

/* Begins a program for samples of a length; false: out of memory. */
static bool program_begin(hr_builder *b, hr_program_key key, int64_t length) {
  const char *name = program_name(b, key, length);
  if (name)
    hr__program_begin_keyed(b, key, name);
  else
    b->status = hr__nomem(&b->error);
  return name != NULL;
}

static bool reports_all(const hr_program *program, const hr_model *model) {
  int count, missing = 0;
  bool eval = program->key.kind == HR_PROGRAM_EVAL;
  const hr_reported *list = hr__model_reported(model, &count);
  for (int i = 0; i < count; i++)
    missing += eval ? hr__reported_by_evaluation(&list[i]) : hr__reported_by_training(&list[i]);
  for (int i = 0; i < program->n_outputs; i++)
    missing -= program->output[i].kind != HR_OUTPUT_VALUE;
  return missing == 0;
}

/* One program with the model's forward pass. Its losses and metrics are outputs by their names; a model that names none
 * has one, "loss". */
static void forward_emit(hr_builder *b, const hr_model_part *model, hr_program_kind kind,
                         const hr_training_shape *shape, int bucket) {
  int64_t length = shape->buckets[bucket];
  if (!program_begin(b, hr__bucket_program(shape, bucket, kind), length)) return;
  hr_field_shape of = {
      .batch = shape->batch, .length = length, .lengths = shape->ragged, .documents = shape->documents};
  hr_fields fields = hr__model_fields(model, &of);
  hr_model_batch batch = hr__batch_declare(b, &fields, shape->batch, length);
  hr_id loss = model->model->forward(b, model, &batch);
  if (model->model->n_reported == 0 && loss != HR_NONE) hr__report(b, model->model, &batch, "loss", loss);
  if (b->status == HR_OK && !reports_all(&b->graph->programs[b->program], model->model))
    b->status = hr__fail(&b->error, HR_FAILURE, NULL, NULL, "family %s does not report all its losses and metrics",
                         model->model->family);
}

static void generation_stage(hr_builder *b, const hr_model_part *model, const hr_generation *generation) {
  for (int i = 0; i < generation->n_lengths; i++)
    if (program_begin(b, hr__generation_program(generation, i), generation->lengths[i]))
      hr__generation_emit(b, model, generation, i);
}

static void features_stage(hr_builder *b, const hr_model_part *model, int64_t rows) {
  if (program_begin(b, (hr_program_key){.kind = HR_PROGRAM_FEATURES}, 1)) hr__features_emit(b, model, rows);
}

static void model_stage(hr_builder *b, const hr_model_part *model, const hr_training_shape *shape) {
  int longest = shape->n_buckets - 1;
  if (hr__training_whole(shape)) forward_emit(b, model, HR_PROGRAM_STEP, shape, longest);
  for (int i = 0; i < shape->n_buckets && !hr__training_whole(shape); i++) {
    forward_emit(b, model, HR_PROGRAM_MICRO_FIRST, shape, i);
    if (shape->accumulation_max > 1) forward_emit(b, model, HR_PROGRAM_MICRO_NEXT, shape, i);
  }
  if (shape->eval) forward_emit(b, model, HR_PROGRAM_EVAL, shape, longest);
}

static hr_status grad_stage(hr_builder *b, hr_error *err) {
  static const hr_grad_mode modes[HR_PROGRAM_KINDS] = {[HR_PROGRAM_STEP] = HR_GRAD_TRANSIENT,
                                                       [HR_PROGRAM_MICRO_FIRST] = HR_GRAD_WRITE,
                                                       [HR_PROGRAM_MICRO_NEXT] = HR_GRAD_ACCUMULATE};
  for (size_t p = 0; p < b->graph->n_programs; p++) {
    hr_program_kind kind = b->graph->programs[p].key.kind;
    if (!hr__program_kind_trains(kind)) continue;
    b->program = (hr_id)p;
    HR_TRY(hr__grad_program(b, modes[kind], err));
    HR_TRY(hr__graph_regroup(b->graph, err));
  }
  return HR_OK;
}

static hr_status stage_verify(const hr_graph *graph, hr_error *err) {
#ifdef NDEBUG
  (void)graph;
  (void)err;
  return HR_OK;
#else
  return hr__graph_verify(graph, err);
#endif
}

static hr_status passes_run(hr_builder *b, const hr_recipe *recipe, hr_pass_part part, const hr_choices *choices,
                            const char *until, bool *done, hr_error *err) {
  for (int i = 0; i < HR_PASSES && !*done; i++) {
    if (hr_passes[i].part != part) continue;
    HR_TRY(hr_passes[i].run(b, recipe, choices, err));
    HR_TRY(stage_verify(b->graph, err));
    *done = until && strcmp(until, hr_passes[i].name) == 0;
  }
  return HR_OK;
}

/* What follows a forward pass, before the passes that go by choices. */
static hr_status built_run(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, const char *until,
                           bool *done, hr_error *err) {
  HR_TRY(hr__builder_status(b, err));
  HR_TRY(stage_verify(b->graph, err));
  *done = until && strcmp(until, "model") == 0;
  HR_TRY(passes_run(b, recipe, HR_BEFORE_GRAD, choices, until, done, err));
  if (*done) return HR_OK;
  HR_TRY(grad_stage(b, err));
  HR_TRY(stage_verify(b->graph, err));
  *done = until && strcmp(until, "grad") == 0;
  return passes_run(b, recipe, HR_AFTER_GRAD, choices, until, done, err);
}

/* The passes that go by choices. */
static hr_status choices_run(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, const char *until,
                             bool *done, hr_error *err) {
  HR_TRY(passes_run(b, recipe, HR_BY_KEEP, choices, until, done, err));
  return passes_run(b, recipe, HR_BY_CHOICE, choices, until, done, err);
}

/* All stages before these passes. */
static hr_status trunk_run(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, const char *until,
                           bool *done, hr_error *err) {
  hr_training_shape shape;
  hr_generation generation;
  hr_model_part model = hr__model_whole(recipe);
  HR_TRY(hr__features_check(&model, err));
  HR_TRY(hr__training_shape(recipe, &shape, err));
  if (hr__features_alone(recipe)) {
    features_stage(b, &model, shape.batch);
    return built_run(b, recipe, choices, until, done, err);
  }
  HR_TRY(hr__generation_read(recipe, &generation, err));
  if (!generation.alone) model_stage(b, &model, &shape);
  generation_stage(b, &model, &generation);
  return built_run(b, recipe, choices, until, done, err);
}

static hr_status stages_run(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, const char *until,
                            hr_error *err) {
  bool done = false;
  HR_TRY(trunk_run(b, recipe, choices, until, &done, err));
  HR_TRY(choices_run(b, recipe, choices, until, &done, err));
  if (until && !done)
    return hr__fail(err, HR_USAGE, NULL, "use model, grad, a pass of pass/passes.def, or plan", "no stage '%s'", until);
  return HR_OK;
}

hr_status hr__compile(const hr_recipe *recipe, const hr_choices *choices, const char *until, hr_graph **out,
                      hr_error *err) {
  HR_TRY(hr__model_check(recipe, err));
  hr_graph *graph;
  HR_TRY(hr__graph_create(&graph, err));
  hr_builder b;
  hr__builder_init(&b, graph, HR_F32);
  hr_status status = stages_run(&b, recipe, choices, until, err);
  if (status == HR_OK) status = hr__graph_compact(graph, err);
  if (status != HR_OK) {
    hr__graph_destroy(graph);
    return status;
  }
  *out = graph;
  return HR_OK;
}

/* --- graphs built by hand ---------------------------------------------------------------------------------------- */

hr_status hr__by_hand_settings(const char *text, hr_recipe **out, hr_error *err) {
  enum { OTHERS = HR_COMPILE_TABLES - 1 };
  hr_key_table tables[HR_COMPILE_TABLES + HR_BY_HAND_TABLES];
  hr__compile_tables(tables);
  for (int i = 0; i < HR_BY_HAND_TABLES; i++)
    tables[HR_COMPILE_TABLES + i] = hr_by_hand_keys[i];
  return hr__recipe_parse("settings", ".", text, strlen(text), NULL, 0, tables + 1, OTHERS + HR_BY_HAND_TABLES, out,
                          err); /* the first are those of families */
}

hr_status hr__compile_by_hand(hr_builder *b, const hr_recipe *settings, hr_error *err) {
  bool done = false;
  HR_TRY(built_run(b, settings, NULL, NULL, &done, err));
  HR_TRY(choices_run(b, settings, NULL, NULL, &done, err));
  return hr__graph_compact(b->graph, err);
}

/* --- many graphs of one recipe ----------------------------------------------------------------------------------- */

enum { KEEPS = HR_KEEP_INPUT + 1 };

struct hr_trunk {
  const hr_recipe *recipe;
  hr_builder builder;      /* behind the last pass that it has gone through, with its graph */
  hr_builder limbs[KEEPS]; /* the same with all layers kept alike, per way; without a graph: not asked for yet */
  hr_graph_room room;      /* of the largest branch so far, and a little more */
};

void hr__trunk_destroy(hr_trunk *trunk) {
  if (!trunk) return;
  for (int keep = 0; keep < KEEPS; keep++)
    hr__graph_destroy(trunk->limbs[keep].graph);
  hr__graph_destroy(trunk->builder.graph);
  hr__free(trunk);
}

hr_status hr__trunk_grow(const hr_recipe *recipe, int64_t slices, hr_trunk **out, hr_error *err) {
  HR_TRY(hr__model_check(recipe, err));
  hr_trunk *trunk = hr__alloc_zero(1, sizeof *trunk);
  if (!trunk) return hr__nomem(err);
  trunk->recipe = recipe;
  hr_graph *graph = NULL;
  const hr_choices choices = {.slices = slices};
  bool done = false;
  hr_status status = hr__graph_create(&graph, err);
  hr__builder_init(&trunk->builder, graph, HR_F32);
  if (status == HR_OK) status = trunk_run(&trunk->builder, recipe, &choices, NULL, &done, err);
  if (status != HR_OK) {
    hr__trunk_destroy(trunk);
    return status;
  }
  *out = trunk;
  return HR_OK;
}

/* No pass by what is kept makes or moves what persists. */
hr_status hr__trunk_homes(const hr_trunk *trunk, const hr_choices *choices, hr_arena *arena, hr_offload_homes *out,
                          hr_error *err) {
  return hr__offload_homes_find(trunk->builder.graph, trunk->recipe, choices, arena, out, err);
}

static void room_raise(size_t *room, size_t count) {
  if (count + count / 16 > *room) *room = count + count / 16;
}

/* A copy of a builder with its graph, taken through the passes of a part. */
static hr_status branch_run(const hr_builder *from, hr_trunk *trunk, hr_pass_part part, const hr_choices *choices,
                            hr_builder *to, hr_error *err) {
  hr_builder b = *from;
  HR_TRY(hr__graph_copy(from->graph, &trunk->room, &b.graph, err));
  bool done = false;
  hr_status status = passes_run(&b, trunk->recipe, part, choices, NULL, &done, err);
  if (status != HR_OK) {
    hr__graph_destroy(b.graph);
    return status;
  }
  room_raise(&trunk->room.buffers, b.graph->n_buffers);
  room_raise(&trunk->room.values, b.graph->n_values);
  room_raise(&trunk->room.nodes, b.graph->n_nodes);
  *to = b;
  return HR_OK;
}

/* Whether an input is offloaded is no matter of what is kept. */
static int keep_limb(hr_keep keep) {
  return keep == HR_KEEP_OFFLOADED ? HR_KEEP_INPUT : (int)keep;
}

/* How all layers are kept; KEEPS: not alike, or by the recipe. */
static int keep_alike(const hr_choices *choices) {
  if (!choices || !choices->keep || choices->n_keep == 0) return KEEPS;
  for (size_t i = 1; i < choices->n_keep; i++)
    if (keep_limb(choices->keep[i]) != keep_limb(choices->keep[0])) return KEEPS;
  return keep_limb(choices->keep[0]);
}

hr_status hr__trunk_branch(hr_trunk *trunk, const hr_choices *choices, hr_graph **out, hr_error *err) {
  int keep = keep_alike(choices);
  hr_builder own, b, *limb = keep < KEEPS ? &trunk->limbs[keep] : &own;
  if (limb == &own || !limb->graph) HR_TRY(branch_run(&trunk->builder, trunk, HR_BY_KEEP, choices, limb, err));
  hr_status status = HR_OK;
  if (limb == &own) {
    bool done = false;
    b = own;
    status = passes_run(&b, trunk->recipe, HR_BY_CHOICE, choices, NULL, &done, err);
    if (status != HR_OK) hr__graph_destroy(b.graph);
  } else {
    status = branch_run(limb, trunk, HR_BY_CHOICE, choices, &b, err);
  }
  if (status == HR_OK) *out = b.graph;
  return status;
}
