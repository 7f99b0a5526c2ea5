/* See gpus.h; the lines are in gpus.def. */
#include "dev/gpus.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const uint64_t mib = (uint64_t)1 << 20;

static const hr_gpu gpus[] = {
#define HR_GPU(name, label, also, memory, usable, multiprocessors, capability, gbs, f32, bf16, f16, pcie, source)      \
  {name,                                                                                                               \
   label,                                                                                                              \
   also,                                                                                                               \
   (uint64_t)(memory) << 20,                                                                                           \
   (uint64_t)(usable) << 20,                                                                                           \
   multiprocessors,                                                                                                    \
   capability,                                                                                                         \
   (gbs)*1e9,                                                                                                          \
   (f32)*1e12,                                                                                                         \
   (bf16)*1e12,                                                                                                        \
   (f16)*1e12,                                                                                                         \
   (pcie)*1e9,                                                                                                         \
   source},
#include "dev/gpus.def"
#undef HR_GPU
};
enum { GPUS = sizeof gpus / sizeof gpus[0] };

const hr_gpu *hr__gpus(size_t *count) {
  *count = GPUS;
  return gpus;
}

/* --- names: runs of letters or of digits, in any order ------------------------------------------------------------ */

typedef struct word {
  const char *text;
  size_t length;
} word;

/* The next run of letters or digits at or behind *at; false: there is none. */
static bool word_next(const char **at, word *out) {
  const char *c = *at;
  while (*c && !isalnum((unsigned char)*c))
    c++;
  out->text = c;
  bool digits = isdigit((unsigned char)*c) != 0;
  while (isalnum((unsigned char)*c) && (isdigit((unsigned char)*c) != 0) == digits)
    c++;
  out->length = (size_t)(c - out->text);
  *at = c;
  return out->length > 0;
}

static bool word_same(const word *a, const word *b) {
  if (a->length != b->length) return false;
  for (size_t i = 0; i < a->length; i++)
    if (tolower((unsigned char)a->text[i]) != tolower((unsigned char)b->text[i])) return false;
  return true;
}

static bool words_have(const char *words, const word *wanted) {
  word has;
  while (word_next(&words, &has))
    if (word_same(&has, wanted)) return true;
  return false;
}

static const char idle[] = "nvidia geforce quadro tesla gpu rtx"; /* words that say nothing */

/* Every word of `name` is one of the GPU's or says nothing; every word of the label is there, but for those that say
 * nothing and for a second number, the memory, which need not be told where there is only one. */
static bool gpu_named(const hr_gpu *gpu, const char *name) {
  word part;
  int numbers = 0;
  for (const char *at = name; word_next(&at, &part);)
    if (!words_have(gpu->label, &part) && !words_have(gpu->also, &part) && !words_have(idle, &part)) return false;
  for (const char *at = gpu->label; word_next(&at, &part);) {
    bool number = isdigit((unsigned char)*part.text) && numbers++ > 0;
    if (!number && !words_have(idle, &part) && !words_have(name, &part)) return false;
  }
  return true;
}

const hr_gpu *hr__gpu_find(const char *name) {
  const hr_gpu *found = NULL;
  for (size_t i = 0; i < GPUS; i++) {
    if (!gpu_named(&gpus[i], name)) continue;
    if (found) return NULL;
    found = &gpus[i];
  }
  return found;
}

/* Whether the name has what the GPU is called by, up to its number. */
static bool gpu_near(const hr_gpu *gpu, const char *name) {
  word part;
  for (const char *at = gpu->label; word_next(&at, &part);) {
    bool named = words_have(name, &part);
    if (isdigit((unsigned char)*part.text) || !(named || words_have(idle, &part))) return named;
  }
  return false;
}

const char *hr__gpu_remedy(const char *name, char out[HR_GPU_REMEDY]) {
  size_t length = 0;
  for (size_t i = 0; i < GPUS && length < HR_GPU_REMEDY; i++)
    if (gpu_near(&gpus[i], name))
      length +=
          (size_t)snprintf(out + length, HR_GPU_REMEDY - length, "%s%s", length ? ", " : "name one of ", gpus[i].label);
  if (length == 0) snprintf(out, HR_GPU_REMEDY, "name one that headroom devices --gpus lists");
  return out;
}

/* --- facts -------------------------------------------------------------------------------------------------------- */

/* Local memory and stacks of all threads that can be resident: 527 MiB on the H200, which has 132 multiprocessors. */
enum { CONTEXT_MIB_PER_MULTIPROCESSOR = 4 };

static void facts_make(const char *name, uint64_t memory_bytes, int multiprocessors, int capability, hr_facts *facts) {
  uint64_t context = (uint64_t)multiprocessors * CONTEXT_MIB_PER_MULTIPROCESSOR * mib;
  uint64_t margin = context / 8 + 32 * mib; /* other drivers, other generations */
  *facts = (hr_facts){.kind = HR_CUDA,
                      .memory_bytes = memory_bytes,
                      .fixed_bytes = context + margin,
                      .margin_bytes = margin,
                      .absent = true,
                      .capability = capability,
                      .alignment = 256,
                      .threads = 1};
  snprintf(facts->name, sizeof facts->name, "%s", name);
}

void hr__gpu_facts(const hr_gpu *gpu, hr_facts *facts) {
  facts_make(gpu->name, gpu->usable_bytes, gpu->multiprocessors, gpu->capability, facts);
}

void hr__gpu_facts_generic(uint64_t memory_bytes, hr_facts *facts) {
  enum { MULTIPROCESSORS = 108 };
  facts_make("an NVIDIA GPU", memory_bytes, MULTIPROCESSORS, HR_GPU_CAPABILITY, facts);
}
