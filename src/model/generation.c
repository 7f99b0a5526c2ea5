/* See generation.h. */
#include "model/generation.h"

#include <inttypes.h>

#include "model/parts.h"
#include "op/gather.h"
#include "op/topk.h"

#define EVERY   "training.generation_every"
#define PROMPTS "training.generation_prompts"
#define CONTEXT "generation.context"
#define BATCH   "generation.batch"
#define ALONE   "generation.alone"

static const hr_key keys[] = {
    {.path = EVERY,
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1e12,
     .meaning = "steps between samples of what the model writes, shown and logged; none unless given"},
    {.path = PROMPTS,
     .type = HR_KEY_TEXTS,
     .example = "[\"In the beginning\", \"And\"]",
     .meaning = "what these samples go on from, one each"},
    {.path = "training.generation_tokens",
     .type = HR_KEY_INT,
     .fallback = "64",
     .min = 1,
     .max = 1e6,
     .meaning = "tokens of a sample at most"},
    {.path = CONTEXT,
     .type = HR_KEY_INT,
     .min = 2,
     .max = 1 << 24,
     .meaning = "positions of a sequence that is generated, prompt included (default: data.sequence_length)"},
    {.path = BATCH,
     .type = HR_KEY_INT,
     .fallback = "1",
     .min = 1,
     .max = HR_GENERATION_BATCH,
     .meaning =
         "sequences that headroom generate works on at a time; of a model that is asked about its data: questions "
         "that training.generation_every asks"},
    {.path = ALONE,
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "nothing is trained: what headroom generate plans"},
};
const hr_key_table hr_generation_keys = {keys, sizeof keys / sizeof *keys};

/* Graphs that were built by hand have no such keys. */
bool hr__generation_alone(const hr_recipe *recipe) {
  return hr__recipe_key(recipe, ALONE) && hr__recipe_bool(recipe, ALONE);
}

/* The model, or the part of it, that writes. */
static hr_model_part speaker_of(const hr_model_part *model) {
  return model->model->speaker ? hr__part_find(model, model->model->speaker) : *model;
}

int64_t hr__generation_positions(const hr_recipe *recipe) {
  char positions[HR_SCOPE_PATH];
  hr_model_part whole = hr__model_whole(recipe), speaker = speaker_of(&whole);
  hr__scope_path(&speaker.scope, "config.max_position_embeddings", positions);
  return hr__recipe_key(recipe, positions) && hr__recipe_has(recipe, positions) ? hr__recipe_int(recipe, positions)
                                                                                : INT64_MAX;
}

/* Prompts of a training are one batch: those of the recipe, or questions of the data. */
static hr_status prompts_read(const hr_recipe *recipe, hr_generation *out, hr_error *err) {
  size_t count = 0;
  if (!hr__recipe_has(recipe, EVERY)) return HR_OK;
  if (hr__recipe_has(recipe, PROMPTS)) hr__recipe_texts(recipe, PROMPTS, &count);
  if (out->asked) {
    if (count > 0)
      return hr__recipe_fail(recipe, PROMPTS, "leave it out; generation.batch says how many are asked", err,
                             "this model is asked questions of its data, not these");
    count = (size_t)hr__recipe_int(recipe, BATCH);
  }
  if (count == 0)
    return hr__recipe_fail(recipe, EVERY, "add training.generation_prompts: [\"Once upon a time\"]", err,
                           "there are no prompts to generate samples from");
  if (count > HR_GENERATION_BATCH)
    return hr__recipe_fail(recipe, PROMPTS, "leave some out", err, "%zu prompts are more than %d", count,
                           HR_GENERATION_BATCH);
  out->any = true;
  out->batch = (int64_t)count;
  return HR_OK;
}

static void lengths_set(hr_generation *g, int64_t asked) {
  /* Prompts are rarely of a length that programs have: a short one for what is left, so that little is padding. */
  static const int64_t lengths[HR_GENERATION_LENGTHS] = {1, 32, 256};
  if (asked > 0) {
    g->lengths[g->n_lengths++] = 1;
    g->lengths[g->n_lengths++] = asked;
    return;
  }
  for (int i = 0; i < HR_GENERATION_LENGTHS; i++) {
    int64_t length = lengths[i] < g->context ? lengths[i] : g->context;
    if (i == 0 || length > g->lengths[g->n_lengths - 1]) g->lengths[g->n_lengths++] = length;
  }
}

hr_status hr__generation_read(const hr_recipe *recipe, hr_generation *out, hr_error *err) {
  hr_model_part model = hr__model_whole(recipe);
  *out = (hr_generation){.alone = hr__generation_alone(recipe), .asked = model.model->speaker != NULL};
  if (out->alone && out->asked)
    return hr__recipe_fail(recipe, "model.family", "give training.generation_every in its recipe", err,
                           "a model of the family %s is asked about its data while it is trained", model.model->family);
  if (out->alone) {
    out->any = true;
    out->batch = hr__recipe_int(recipe, BATCH);
  } else {
    HR_TRY(prompts_read(recipe, out, err));
  }
  if (!out->any) return HR_OK;
  const hr_model *speaker = speaker_of(&model).model;
  if (!speaker->logits)
    return hr__recipe_fail(recipe, out->alone ? "model.family" : EVERY,
                           "take a decoder: llama, mistral, qwen2, qwen3, gemma3, mamba2", err,
                           "models of the family %s do not generate text", model.model->family);
  out->onward = speaker->onward;
  bool given = hr__recipe_has(recipe, CONTEXT);
  int64_t positions = hr__generation_positions(recipe);
  out->context = hr__recipe_int(recipe, given ? CONTEXT : "data.sequence_length");
  if (out->context > positions)
    return hr__recipe_fail(recipe, given ? CONTEXT : "data.sequence_length", "lower it", err,
                           "a context of %" PRId64 " is longer than the %" PRId64
                           " positions the model was made for (max_position_embeddings)",
                           out->context, positions);
  int64_t asked = out->asked ? hr__recipe_int(recipe, "data.sequence_length") : 0;
  if (out->context < asked)
    return hr__recipe_fail(recipe, CONTEXT, "leave it out", err,
                           "a context of %" PRId64 " does not hold questions of up to data.sequence_length %" PRId64,
                           out->context, asked);
  lengths_set(out, asked);
  return HR_OK;
}

hr_program_key hr__generation_program(const hr_generation *g, int i) {
  return (hr_program_key){.kind = HR_PROGRAM_GENERATE, .bucket = g->n_lengths - 1 - i};
}

/* Of a prompt that is a sample of the data: all that the model declares but targets. */
static void sample_fields(const hr_model_part *model, const hr_generation *g, int i, hr_fields *out) {
  hr_fields all = {.count = 0};
  model->model->fields(model, &(hr_field_shape){.batch = g->batch, .length = g->lengths[i]}, &all);
  for (int f = 0; f < all.count; f++)
    if (all.list[f].purpose != HR_FOR_TARGETS) hr__field_add(out, all.list[f]);
}

hr_fields hr__generation_fields(const hr_model_part *model, const hr_generation *g, int i) {
  hr_fields fields = {.count = 0};
  if (g->asked && g->lengths[i] > 1)
    sample_fields(model, g, i, &fields);
  else
    hr__field_add(&fields, (hr_field){.name = "tokens",
                                      .purpose = HR_FOR_TOKENS,
                                      .desc = hr__desc2(HR_I32, g->batch, g->lengths[i]),
                                      .bound = model->model->vocabulary(model)});
  hr_field number = {.purpose = HR_FOR_VALUES, .desc = hr__desc1(HR_I32, g->batch)};
  number.name = HR_FIELD_POSITIONS;
  hr__field_add(&fields, number);
  number.name = HR_FIELD_COUNTS;
  hr__field_add(&fields, number);
  number.name = HR_FIELD_LAST;
  number.desc = hr__desc2(HR_I32, g->batch, 1);
  if (g->lengths[i] > 1) hr__field_add(&fields, number);
  return fields;
}

void hr__generation_emit(hr_builder *b, const hr_model_part *model, const hr_generation *g, int i) {
  hr_fields fields = hr__generation_fields(model, g, i);
  hr_model_batch batch = hr__batch_declare(b, &fields, g->batch, g->lengths[i]);
  batch.context = g->context;
  hr_model_part speaker = speaker_of(model);
  hr_id x = g->asked && g->lengths[i] > 1 ? model->model->prompt(b, model, &batch) : HR_NONE;
  hr_part_names before = {0};
  if (g->asked) before = hr__part_open(b, &speaker);
  if (x == HR_NONE) x = speaker.model->embed(b, &speaker, &batch);
  hr_id hidden = speaker.model->body(b, &speaker, x, &batch);
  hr_id last = hr__batch_field(&batch, HR_FIELD_LAST);
  if (last != HR_NONE) hidden = hr__gather(b, last, hidden);
  hr_id logits = speaker.model->logits(b, &speaker, hidden);
  if (g->asked) hr__part_close(b, before);
  hr_id largest = hr__topk(b, logits, 1);
  if (largest == HR_NONE) return;
  hr__program_set_output(b, HR_OUTPUT_LOGITS, logits);
  hr__program_set_output(b, HR_OUTPUT_BEST, hr__node_out(b, largest, 1));
}
