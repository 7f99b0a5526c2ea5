/* Settings of the embedder under model.config, and their checks. */
#include <inttypes.h>
#include <string.h>

#include "model/embedder.h"
#include "model/parts.h"

enum { SIZE_MAX_SETTING = 1 << 20, EXPERTS_MAX = 64 };

static const hr_key keys[] = {
    {.path = "*.config.texts",
     .type = HR_KEY_TEXTS,
     .fallback = "[title, description, excluded, examples]",
     .meaning =
         "embedder: texts of a code, each a column of the data and a part with an encoder of its own; the first is "
         "what no code is without; 6 at most"},
    {.path = "*.config.num_experts",
     .type = HR_KEY_INT,
     .fallback = "4",
     .min = 1,
     .max = EXPERTS_MAX,
     .meaning = "embedder: experts behind the encoders"},
    {.path = "*.config.experts_per_code",
     .type = HR_KEY_INT,
     .fallback = "2",
     .min = 1,
     .max = EXPERTS_MAX,
     .meaning = "embedder: experts that each code is given to"},
    {.path = "*.config.expert_size",
     .type = HR_KEY_INT,
     .fallback = "1024",
     .min = 1,
     .max = SIZE_MAX_SETTING,
     .meaning = "embedder: width inside of an expert"},
    {.path = "*.config.expert_dropout",
     .type = HR_KEY_FLOAT,
     .fallback = "0.1",
     .min = 0,
     .max = 0.99,
     .meaning = "embedder: part inside of experts that is dropped in training"},
    {.path = "*.config.projection_size",
     .type = HR_KEY_INT,
     .fallback = "384",
     .min = 1,
     .max = SIZE_MAX_SETTING,
     .meaning = "embedder: width behind the experts"},
    {.path = "*.config.tangent_size",
     .type = HR_KEY_INT,
     .fallback = "385",
     .min = 1,
     .max = SIZE_MAX_SETTING,
     .meaning = "embedder: width of tangent vectors; points have one number more"},
    {.path = "*.config.curvature",
     .type = HR_KEY_FLOAT,
     .fallback = "1",
     .min = 1e-6,
     .max = 1e6,
     .meaning = "embedder: curvature of the hyperbolic space, without its sign"},
    {.path = "*.config.temperature",
     .type = HR_KEY_FLOAT,
     .fallback = "0.07",
     .min = 1e-6,
     .max = 1e6,
     .meaning = "embedder: distances are divided by it in the loss"},
    {.path = "*.config.balance_weight",
     .type = HR_KEY_FLOAT,
     .fallback = "0.01",
     .min = 0,
     .max = 1e6,
     .meaning = "embedder: weight of the loss that keeps experts in use alike"},
};
const hr_key_table hr_embedder_keys = {keys, sizeof keys / sizeof *keys};

const hr_part_declared hr_embedder_parts[HR_EMBEDDER_DEFAULT] = {
    {"title", "bert"}, {"description", "bert"}, {"excluded", "bert"}, {"examples", "bert"}};

hr_embedder hr__embedder_read(const hr_model_part *whole) {
  const hr_scope *r = &whole->scope;
  hr_embedder m = {
      .negatives = hr__recipe_int(r->recipe, "data.taxonomy.n_negatives"),
      .title_length = hr__recipe_int(r->recipe, "data.taxonomy.title_length"),
      .experts = hr__scope_int(r, "config.num_experts"),
      .chosen = hr__scope_int(r, "config.experts_per_code"),
      .inner = hr__scope_int(r, "config.expert_size"),
      .projection = hr__scope_int(r, "config.projection_size"),
      .tangent = hr__scope_int(r, "config.tangent_size"),
      .dropout = (float)hr__scope_float(r, "config.expert_dropout"),
      .curvature = (float)hr__scope_float(r, "config.curvature"),
      .temperature = (float)hr__scope_float(r, "config.temperature"),
      .balance = (float)hr__scope_float(r, "config.balance_weight"),
  };
  const char *names[HR_MODEL_PARTS];
  m.channels = (int)hr__parts_names(whole, names);
  for (int i = 0; i < m.channels; i++) {
    hr_model_part part = hr__part_find(whole, m.channel[i] = names[i]);
    m.width += hr__scope_int(&part.scope, "config.hidden_size");
  }
  return m;
}

int64_t hr__embedder_length(const hr_embedder *m, int channel, int64_t length) {
  return channel == 0 && m->title_length < length ? m->title_length : length;
}

/* Parts read tokens and look to both sides, and one tokenizer serves all of them. */
static hr_status part_check(const hr_model_part *whole, const hr_embedder *m, int i, hr_error *err) {
  static const char *const taken[] = {"batch", "pooling", "moe", "projection", "hyperbolic", "losses", "valid"};
  hr_model_part part = hr__part_find(whole, m->channel[i]), first = hr__part_find(whole, m->channel[0]);
  for (size_t k = 0; k < sizeof taken / sizeof *taken; k++)
    if (strcmp(taken[k], part.name) == 0)
      return hr__scope_fail(&whole->scope, "config.texts", "choose another name", err,
                            "%s is what a part of the embedder itself is called", part.name);
  if (strncmp(part.name, "lengths_", 8) == 0 || strncmp(part.name, "mask_", 5) == 0)
    return hr__scope_fail(&whole->scope, "config.texts", "choose another name", err,
                          "%s is the name of another field of batches", part.name);
  if (!part.model->masked || !part.model->embed)
    return hr__scope_fail(&part.scope, "family", "take bert", err, "%s.family: %s does not encode texts",
                          part.scope.section, part.model->family);
  int64_t own = part.model->vocabulary(&part), other = first.model->vocabulary(&first);
  if (own == other) return HR_OK;
  return hr__scope_fail(&part.scope, "config.vocab_size", "take checkpoints with one vocabulary", err,
                        "%s has a vocabulary of %" PRId64 " tokens, %s one of %" PRId64, part.scope.section, own,
                        first.scope.section, other);
}

hr_status hr__embedder_check(const hr_model_part *whole, hr_error *err) {
  hr_embedder m = hr__embedder_read(whole);
  for (int i = 0; i < m.channels; i++)
    HR_TRY(part_check(whole, &m, i, err));
  if (m.chosen > m.experts)
    return hr__scope_fail(&whole->scope, "config.experts_per_code", "take fewer", err,
                          "%" PRId64 " experts are chosen of %" PRId64, m.chosen, m.experts);
  return HR_OK;
}
