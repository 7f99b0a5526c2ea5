/* See gpus.h; the lines are in gpus.def. */
#include "dev/gpus.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

static int memory_order(const void *a, const void *b) {
  const hr_gpu *one = *(const hr_gpu *const *)a, *other = *(const hr_gpu *const *)b;
  if (one->usable_bytes != other->usable_bytes) return one->usable_bytes < other->usable_bytes ? -1 : 1;
  if (one->f16_flops_per_second != other->f16_flops_per_second)
    return one->f16_flops_per_second < other->f16_flops_per_second ? -1 : 1;
  return strcmp(one->label, other->label);
}

const hr_gpu **hr__gpus_by_memory(hr_arena *arena, size_t *count) {
  const hr_gpu **order = hr__arena_array(arena, GPUS, sizeof(hr_gpu *));
  *count = order ? GPUS : 0;
  for (size_t i = 0; i < *count; i++)
    order[i] = &gpus[i];
  if (order) qsort(order, GPUS, sizeof *order, memory_order);
  return order;
}

/* --- names: runs of letters or of digits, in any order ------------------------------------------------------------ */

typedef struct word {
  const char *text;
  size_t length;
  bool size; /* a number in front of "GB": the card's memory */
} word;

static bool word_is(const word *w, const char *text) {
  return w->length == strlen(text) && strncasecmp(w->text, text, w->length) == 0;
}

static const char *run_end(const char *c) {
  bool digits = isdigit((unsigned char)*c) != 0;
  while (isalnum((unsigned char)*c) && (isdigit((unsigned char)*c) != 0) == digits)
    c++;
  return c;
}

static const char *run_begin(const char *c) {
  while (*c && !isalnum((unsigned char)*c))
    c++;
  return c;
}

/* The next run of letters or digits at or behind *at, with the unit that follows a size; false: there is none. */
static bool word_next(const char **at, word *out) {
  const char *begin = run_begin(*at), *end = run_end(begin);
  *out = (word){begin, (size_t)(end - begin), false};
  if (isdigit((unsigned char)*begin)) {
    const char *unit = run_begin(end), *behind = run_end(unit);
    word letters = {unit, (size_t)(behind - unit), false};
    out->size = !isdigit((unsigned char)*behind) && (word_is(&letters, "gb") || word_is(&letters, "gib"));
    if (out->size) end = behind;
  }
  *at = end;
  return out->length > 0;
}

/* Whether a word that somebody wrote means one of a GPU's: a bare number may be a size, a size no other number. */
static bool word_means(const word *written, const word *own) {
  return written->length == own->length && strncasecmp(written->text, own->text, own->length) == 0 &&
         (own->size || !written->size);
}

static bool any_means(const char *own, const word *written) {
  word has;
  while (word_next(&own, &has))
    if (word_means(written, &has)) return true;
  return false;
}

static bool is_written(const char *name, const word *own) {
  word has;
  while (word_next(&name, &has))
    if (word_means(&has, own)) return true;
  return false;
}

static const char idle[] = "nvidia geforce tesla jetson gpu gtx rtx"; /* words that say nothing */

/* Every word of `name` is one of the GPU's or says nothing; every word of the label is there, but for those that say
 * nothing and for the memory. */
static bool gpu_named(const hr_gpu *gpu, const char *name) {
  word part;
  for (const char *at = name; word_next(&at, &part);)
    if (!any_means(gpu->label, &part) && !any_means(gpu->also, &part) && !any_means(idle, &part)) return false;
  for (const char *at = gpu->label; word_next(&at, &part);)
    if (!part.size && !any_means(idle, &part) && !is_written(name, &part)) return false;
  return true;
}

/* "4090,4090", "2x A100". */
static bool names_several(const char *name) {
  word part;
  for (const char *at = name; word_next(&at, &part);)
    if (word_is(&part, "x")) return true;
  return strpbrk(name, ",;+&*") != NULL;
}

const hr_gpu *hr__gpu_find(const char *name) {
  const hr_gpu *found = NULL;
  if (names_several(name)) return NULL;
  for (size_t i = 0; i < GPUS; i++) {
    if (!gpu_named(&gpus[i], name)) continue;
    if (found) return NULL;
    found = &gpus[i];
  }
  return found;
}

static uint64_t memory_apart(const hr_gpu *gpu, uint64_t bytes) {
  return gpu->usable_bytes > bytes ? gpu->usable_bytes - bytes : bytes - gpu->usable_bytes;
}

const hr_gpu *hr__gpu_like(const hr_facts *facts) {
  const hr_gpu *found = NULL;
  for (size_t i = 0; i < GPUS; i++)
    if (gpu_named(&gpus[i], facts->name) &&
        (!found || memory_apart(&gpus[i], facts->memory_bytes) < memory_apart(found, facts->memory_bytes)))
      found = &gpus[i];
  return found;
}

/* --- names that find none ----------------------------------------------------------------------------------------- */

/* A list in words, as far as there is room: "a, b and c". */
typedef struct list {
  char *out;
  size_t capacity, used;
  size_t count, expected; /* items so far, and in all */
  const char *last;       /* in front of the last one */
} list;

static void list_add(list *l, const char *item) {
  const char *between = l->count == 0 ? "" : l->count + 1 == l->expected ? l->last : ", ";
  l->count++;
  if (l->used + strlen(between) + strlen(item) + 1 > l->capacity) return;
  l->used += (size_t)snprintf(l->out + l->used, l->capacity - l->used, "%s%s", between, item);
}

/* "a100-40gb" of "A100 40GB". */
static void label_write(const hr_gpu *gpu, char out[64]) {
  size_t i = 0;
  for (; gpu->label[i] && i < 63; i++)
    out[i] = gpu->label[i] == ' ' ? '-' : (char)tolower((unsigned char)gpu->label[i]);
  out[i] = '\0';
}

static size_t count_named(const char *name) {
  size_t count = 0;
  for (size_t i = 0; i < GPUS; i++)
    count += gpu_named(&gpus[i], name);
  return count;
}

/* Lines that a name fits alike differ in their memory. */
static void sizes_refuse(const char *name, size_t count, hr_gpu_refusal *out) {
  list sizes = {out->message, sizeof out->message, 0, 0, count, " and "};
  list labels = {out->remedy, sizeof out->remedy, 0, 0, count, " or "};
  sizes.used = (size_t)snprintf(out->message, sizeof out->message, "%.64s is sold with ", name);
  labels.used = (size_t)snprintf(out->remedy, sizeof out->remedy, "write ");
  for (size_t i = 0; i < GPUS; i++) {
    if (!gpu_named(&gpus[i], name)) continue;
    char text[64];
    word part;
    for (const char *at = gpus[i].label; word_next(&at, &part);)
      if (part.size) snprintf(text, sizeof text, "%.*s GB", (int)part.length, part.text);
    list_add(&sizes, text);
    label_write(&gpus[i], text);
    list_add(&labels, text);
  }
}

/* Whether the name has the number that the GPU is called by, with the letter that belongs to it; or, where it has none,
 * one of its longer words. */
static bool gpu_near(const hr_gpu *gpu, const char *name) {
  word part, before = {"", 0, false};
  for (const char *at = gpu->label; word_next(&at, &part); before = part) {
    if (part.size || any_means(idle, &part)) continue;
    if (!isdigit((unsigned char)*part.text)) {
      if (part.length > 3 && is_written(name, &part)) return true;
      continue;
    }
    bool joined = before.length > 0 && before.text + before.length == part.text;
    return is_written(name, &part) && (!joined || is_written(name, &before));
  }
  return false;
}

void hr__gpu_refuse(const char *name, hr_gpu_refusal *out) {
  *out = (hr_gpu_refusal){0};
  if (names_several(name)) {
    snprintf(out->message, sizeof out->message, "'%.64s': a plan is for one GPU, several are not planned", name);
    snprintf(out->remedy, sizeof out->remedy, "name one of them");
    return;
  }
  size_t named = count_named(name);
  if (named > 1) {
    sizes_refuse(name, named, out);
    return;
  }
  out->unknown = true;
  snprintf(out->message, sizeof out->message, "'%.64s' names no GPU of the catalogue", name);
  size_t near = 0;
  for (size_t i = 0; i < GPUS; i++)
    near += gpu_near(&gpus[i], name);
  list labels = {out->remedy, sizeof out->remedy, 0, 0, near, " or "};
  labels.used = (size_t)snprintf(out->remedy, sizeof out->remedy,
                                 near > 0 ? "name " : "name one that headroom devices --gpus lists");
  for (size_t i = 0; i < GPUS; i++)
    if (gpu_near(&gpus[i], name)) list_add(&labels, gpus[i].label);
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
