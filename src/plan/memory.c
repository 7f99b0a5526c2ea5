#include "plan/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const hr_key keys[] = {
    {.path = "memory.device",
     .type = HR_KEY_CHOICE,
     .fallback = "cpu",
     .choices = "cpu|cuda",
     .meaning = "where the run computes"},
    {.path = "memory.budget",
     .type = HR_KEY_SIZE,
     .fallback = "auto",
     .choices = "auto|%",
     .meaning = "most the process may hold on the device: a size, per cent of its memory, or auto (all of it)"},
    {.path = "memory.margin", .type = HR_KEY_SIZE, .fallback = "0", .meaning = "part of the budget that stays free"},
};
const hr_key_table hr_memory_keys = {keys, sizeof keys / sizeof keys[0]};

hr_device_kind hr__memory_device(const hr_recipe *recipe) {
  return strcmp(hr__recipe_text(recipe, "memory.device"), "cuda") == 0 ? HR_CUDA : HR_CPU;
}

hr_status hr__memory_budget(const hr_recipe *recipe, const hr_facts *facts, hr_budget *out, hr_error *err) {
  *out = (hr_budget){.margin_bytes = hr__recipe_size(recipe, "memory.margin")};
  if (!hr__recipe_is_word(recipe, "memory.budget")) {
    out->budget_bytes = hr__recipe_size(recipe, "memory.budget");
  } else {
    const char *word = hr__recipe_text(recipe, "memory.budget");
    out->budget_bytes = facts->memory_bytes;
    if (strcmp(word, "auto") != 0) {
      char *end;
      double share = strtod(word, &end);
      if (end == word || !(share > 0) || share > 100)
        return hr__recipe_fail(recipe, "memory.budget", "give a size, auto, or above 0% up to 100%", err,
                               "%s is not a share of the device's memory", word);
      out->budget_bytes = (uint64_t)((double)facts->memory_bytes * (share / 100));
    }
  }
  if (out->budget_bytes == 0)
    return hr__recipe_fail(recipe, "memory.budget", "give a size such as 512MiB", err, "the budget is nothing");
  if (out->margin_bytes >= out->budget_bytes) {
    char margin[HR_SIZE_TEXT], budget[HR_SIZE_TEXT];
    return hr__recipe_fail(recipe, "memory.margin", "give a smaller margin or a larger budget", err,
                           "the margin (%s) leaves nothing of the budget (%s)",
                           hr__size_text(out->margin_bytes, margin), hr__size_text(out->budget_bytes, budget));
  }
  return HR_OK;
}
