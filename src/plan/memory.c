#include "plan/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/text.h"
#include "dev/gpus.h"
#include "format/file.h"

static const hr_key keys[] = {
    {.path = "memory.device",
     .type = HR_KEY_CHOICE,
     .fallback = "cpu",
     .choices = "cpu|cuda",
     .meaning = "where the run computes; not written: on the GPU of this machine where one can be used"},
    {.path = "memory.gpu",
     .type = HR_KEY_TEXT,
     .meaning = "plans for this GPU of the catalogue (`headroom devices --gpus`), or for `any` of memory.budget"},
    {.path = "memory.budget",
     .type = HR_KEY_SIZE,
     .fallback = "auto",
     .choices = "auto|%",
     .meaning = "most the process may hold on the device: a size, per cent of its memory, or auto (all of it)"},
    {.path = "memory.host_budget",
     .type = HR_KEY_SIZE,
     .fallback = "auto",
     .choices = "auto|%",
     .meaning = "most that a run holds on the host, offloaded or for batches: a size, per cent of its memory, or auto "
                "(all of it)"},
    {.path = "memory.disk_budget",
     .type = HR_KEY_SIZE,
     .fallback = "auto",
     .choices = "auto",
     .meaning = "most that is offloaded to the disk: a size, or auto (what is free in memory.offload_folder)"},
    {.path = "memory.offload_folder",
     .type = HR_KEY_PATH,
     .meaning = "folder of the file that holds what is offloaded to the disk; else the system's for such files"},
    {.path = "memory.margin",
     .type = HR_KEY_SIZE,
     .fallback = "auto",
     .choices = "auto|%",
     .meaning = "part of the budget that stays free: a size, per cent of the budget, or auto (2% for a GPU that is not "
                "here, 3% where PyTorch is to train, else 0)"},
};
const hr_key_table hr_memory_keys = {keys, sizeof keys / sizeof keys[0]};

hr_device_kind hr__memory_device(const hr_recipe *recipe) {
  return strcmp(hr__recipe_text(recipe, "memory.device"), "cuda") == 0 ? HR_CUDA : HR_CPU;
}

bool hr__memory_gpu(const hr_recipe *recipe) {
  return hr__recipe_has(recipe, "memory.gpu");
}

hr_status hr__memory_gpu_facts(const hr_recipe *recipe, hr_facts *facts, hr_error *err) {
  static const char path[] = "memory.gpu";
  const char *name = hr__recipe_text(recipe, path);
  if (hr__memory_device(recipe) != HR_CUDA)
    return hr__recipe_fail(recipe, path, "set memory.device: cuda as well", err, "the device is not a GPU");
  if (strcmp(name, "any") == 0) {
    if (hr__recipe_is_word(recipe, "memory.budget"))
      return hr__recipe_fail(recipe, path, "give memory.budget (--gpu-memory) as a size", err,
                             "how much memory any GPU has is not known");
    hr__gpu_facts_generic(hr__recipe_size(recipe, "memory.budget"), facts);
    return HR_OK;
  }
  const hr_gpu *gpu = hr__gpu_find(name);
  if (gpu) {
    hr__gpu_facts(gpu, facts);
    return HR_OK;
  }
  hr_gpu_refusal why;
  hr__gpu_refuse(name, &why);
  return hr__recipe_fail(recipe, path, why.remedy, err, "%s", why.message);
}

/* Bytes that are given as a size, per cent of `all`, or auto: `otherwise`. */
static uint64_t bytes_read(const hr_recipe *recipe, const char *path, uint64_t all, uint64_t otherwise) {
  if (!hr__recipe_is_word(recipe, path)) return hr__recipe_size(recipe, path);
  const char *word = hr__recipe_text(recipe, path);
  return strcmp(word, "auto") == 0 ? otherwise : (uint64_t)((double)all * (strtod(word, NULL) / 100));
}

/* Of a GPU that is not here nobody has seen what its driver and other programs hold. */
static uint64_t margin_default(const hr_facts *facts, uint64_t budget_bytes) {
  enum { PART = 50 }; /* 2 % */
  return facts->absent ? budget_bytes / PART : 0;
}

/* A card that is planned for by name has what it has; only a plan for this machine may be one for a larger machine. */
static hr_status budget_check(const hr_recipe *recipe, const hr_facts *facts, uint64_t budget_bytes, hr_error *err) {
  static const char path[] = "memory.budget";
  if (budget_bytes == 0)
    return hr__recipe_fail(recipe, path, "give a size such as 512MiB, or above 0%", err, "the budget is nothing");
  if (!facts->absent || budget_bytes <= facts->memory_bytes) return HR_OK;
  char budget[HR_SIZE_TEXT], usable[HR_SIZE_TEXT];
  return hr__recipe_fail(recipe, path, "give less, or leave it out for all that the card has", err,
                         "memory.budget (%s) is more than the %s that programs can have of one %s",
                         hr__size_text(budget_bytes, budget), hr__size_text(facts->memory_bytes, usable), facts->name);
}

const char *hr__memory_folder(const hr_recipe *recipe) {
  return hr__recipe_has(recipe, "memory.offload_folder") ? hr__recipe_text(recipe, "memory.offload_folder") : NULL;
}

/* As run/ takes it. */
static const char *folder_used(const hr_recipe *recipe) {
  const char *folder = hr__memory_folder(recipe), *temporary = getenv("TMPDIR");
  if (!folder) folder = temporary && *temporary ? temporary : "/tmp";
  return folder;
}

hr_status hr__memory_folder_check(const hr_recipe *recipe, hr_error *err) {
  const char *folder = folder_used(recipe);
  struct stat facts;
  int failure = 0;
  if (stat(folder, &facts) != 0)
    failure = errno;
  else if (!S_ISDIR(facts.st_mode))
    failure = ENOTDIR;
  else if (access(folder, W_OK | X_OK) != 0)
    failure = errno;
  if (failure == 0) return HR_OK;
  return hr__recipe_fail(recipe, "memory.offload_folder", "name a folder that exists and can be written", err,
                         "nothing can be offloaded to the disk in %.200s: %s", folder, strerror(failure));
}

/* What is free where the file of the disk tier would be; all there is where nobody knows: the run finds out. */
static uint64_t disk_free(const hr_recipe *recipe) {
  uint64_t bytes;
  return hr__file_calls.free_bytes(folder_used(recipe), &bytes) == 0 ? bytes : UINT64_MAX;
}

/* What this process may hold, as it was when first asked for: a search asks for every setting, and each answer is in
 * dozens of files of control groups. */
static uint64_t host_limit(void) {
  static _Atomic uint64_t known; /* 0: not read yet */
  if (known == 0) known = hr__memory_limit_bytes();
  return known;
}

hr_status hr__memory_budget(const hr_recipe *recipe, const hr_facts *facts, hr_budget *out, hr_error *err) {
  uint64_t host = facts->kind == HR_CPU ? facts->memory_bytes : host_limit(), disk = disk_free(recipe);
  uint64_t budget = bytes_read(recipe, "memory.budget", facts->memory_bytes, facts->memory_bytes);
  uint64_t margin = bytes_read(recipe, "memory.margin", budget, margin_default(facts, budget));
  *out = (hr_budget){.budget_bytes = budget,
                     .margin_bytes = margin,
                     .margin_default = hr__recipe_word_is(recipe, "memory.margin", "auto"),
                     .host_bytes = bytes_read(recipe, "memory.host_budget", host, host),
                     .disk_bytes = bytes_read(recipe, "memory.disk_budget", disk, disk)};
  HR_TRY(budget_check(recipe, facts, budget, err));
  if (margin < budget) return HR_OK;
  char text[HR_SIZE_TEXT], all[HR_SIZE_TEXT];
  return hr__recipe_fail(recipe, "memory.margin", "give a smaller margin or a larger budget", err,
                         "the margin (%s) leaves nothing of the budget (%s)", hr__size_text(margin, text),
                         hr__size_text(budget, all));
}
