/* The train pass: which parameters are trained. Those of a model or part are by default, unless it has adapters, which
 * are trained in their place; `train` says it otherwise, by patterns of names. What a part does not say, the whole
 * model does. What is not trained is frozen: it has neither gradient nor state.
 */
#include "base/text.h"
#include "model/features.h"
#include "pass/adapters.h"
#include "pass/pass.h"

static const hr_key keys[] = {
    {.path = "*.train",
     .type = HR_KEY_TEXTS,
     .choices = "all|none",
     .example = "[lm_head, layers.0]",
     .meaning = "which weights are trained: all, none, or patterns of their names, * for any text (default: all; none "
                "beside adapters)"},
};
const hr_key_table hr_train_set_keys = {keys, sizeof keys / sizeof *keys};

typedef struct choosing {
  hr_graph *g;
  hr_model_parts parts;
  const hr_scope *by[1 + HR_MODEL_PARTS]; /* per part: the section whose `train` counts; NULL: the default does */
} choosing;

static bool patterns_match(const hr_scope *scope, const char *name) {
  char path[HR_SCOPE_PATH];
  size_t count;
  if (hr__recipe_is_word(scope->recipe, hr__scope_path(scope, "train", path)))
    return hr__recipe_word_is(scope->recipe, path, "all");
  const char *const *patterns = hr__recipe_texts(scope->recipe, path, &count);
  for (size_t i = 0; i < count; i++)
    if (hr__name_matches(name, patterns[i])) return true;
  return false;
}

static bool is_parameter(const hr_graph *g, hr_id value) {
  return g->values[value].trained; /* as the model declares them all */
}

/* Whether every pattern of a section matches a parameter that it decides on. */
static hr_status patterns_check(const choosing *c, size_t p, hr_error *err) {
  char path[HR_SCOPE_PATH];
  const hr_scope *scope = &c->parts.part[p].scope;
  size_t count;
  if (!hr__scope_has(scope, "train") || hr__part_left_out(&c->parts, p, c->g)) return HR_OK;
  if (hr__recipe_is_word(scope->recipe, hr__scope_path(scope, "train", path))) return HR_OK;
  const char *const *patterns = hr__recipe_texts(scope->recipe, path, &count);
  for (size_t i = 0; i < count; i++) {
    bool used = false;
    for (hr_id v = 0; v < c->g->n_values && !used; v++)
      used = is_parameter(c->g, v) && c->by[hr__parts_of(&c->parts, c->g->values[v].name)] == scope &&
             hr__name_matches(c->g->values[v].name, patterns[i]);
    if (!used)
      return hr__scope_fail(scope, "train", "`headroom dump RECIPE --after model` lists the parameters", err,
                            "the pattern \"%.100s\" of %s matches no parameter", patterns[i], path);
  }
  return HR_OK;
}

hr_status hr__pass_train(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)choices;
  choosing c = {.g = b->graph};
  bool adapted = false, trained = false, alone = hr__untrained(recipe);
  hr__parts_read(recipe, &c.parts);
  for (size_t p = 0; p < c.parts.count; p++) {
    const hr_model_part *part = &c.parts.part[p];
    adapted |= hr__lora_given(part);
    if (hr__scope_has(&part->scope, "train"))
      c.by[p] = &part->scope;
    else if (!hr__lora_given(part))
      c.by[p] = c.by[0];
  }
  for (size_t p = 0; p < c.parts.count; p++)
    HR_TRY(patterns_check(&c, p, err));
  for (hr_id v = 0; v < c.g->n_values; v++) {
    hr_value *value = &c.g->values[v];
    if (!is_parameter(c.g, v)) continue;
    size_t p = hr__parts_of(&c.parts, value->name);
    value->trained = !alone && (c.by[p] ? patterns_match(c.by[p], value->name) : !hr__lora_given(&c.parts.part[p]));
    trained |= value->trained;
  }
  if (trained || adapted || alone) return HR_OK;
  return hr__recipe_fail(recipe, "model.train", "let some weights be trained, or add adapters", err,
                         "nothing is trained: all weights are frozen");
}
