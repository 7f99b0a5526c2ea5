/* part_world: see part_world.h. */
#include "fit/part_world.h"

#include "dev/gpus.h"
#include "plan/memory.h"

static const char recipe_text[] = "model: { family: llama, config: { hidden_size: 16, num_hidden_layers: 2,\n"
                                  "         num_attention_heads: 4, intermediate_size: 40, vocab_size: 64 } }\n"
                                  "data: { source: synthetic, sequence_length: 32 }\n"
                                  "training: { effective_batch: 4 }\n";
hr_status world_load(void *user, const char *const *more, size_t count, hr_recipe **recipe, hr_open *open,
                     hr_error *err) {
  const world *w = user;
  hr_key_table tables[HR_COMPILE_TABLES + 1];
  hr__compile_tables(tables);
  tables[HR_COMPILE_TABLES] = hr_memory_keys;
  const char *all[64];
  size_t n = 0;
  for (size_t i = 0; i < w->n_overrides; i++)
    all[n++] = w->overrides[i];
  for (size_t i = 0; i < count; i++)
    all[n++] = more[i];
  HR_TRY(hr__recipe_parse("t.yaml", ".", recipe_text, sizeof recipe_text - 1, all, n, tables, HR_COMPILE_TABLES + 1,
                          recipe, err));
  if (!open) return HR_OK;
  hr_training_shape shape;
  HR_TRY(hr__training_shape(*recipe, &shape, err));
  *open = (hr_open){.recipe = *recipe,
                    .facts = &w->facts,
                    .rates = &w->rates,
                    .accumulation = (int)shape.accumulation,
                    .budget_bytes = w->budget_bytes,
                    .host_bytes = w->host_bytes,
                    .disk_bytes = w->disk_bytes};
  return HR_OK;
}

void world_device(world *w, const char *gpu) {
  if (gpu)
    hr__gpu_facts(hr__gpu_find(gpu), &w->facts);
  else
    hr__cpu_facts(&w->facts);
  w->facts.threads = 1;
  w->facts.compiled = false; /* budgets are drawn around arenas, which library code would dwarf */
  hr__rates_default(&w->facts, &w->rates);
}

void world_enlarge(world *w) {
  static const char *const large[] = {"model.config.hidden_size=256", "model.config.intermediate_size=640",
                                      "model.config.vocab_size=2048"};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++)
    w->overrides[w->n_overrides++] = large[i];
}
