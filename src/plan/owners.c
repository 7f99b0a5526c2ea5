/* owners: see owners.h. */
#include "plan/owners.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_number(const char *part, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (!isdigit((unsigned char)part[i])) return false;
  return length > 0;
}

void hr__owner_name(const char *module, char out[HR_MODULE_NAME]) {
  const char *part = module;
  size_t length = 0;
  int below = -1; /* parts behind a layer's number; -1: there was none yet */
  while (*part && below < 1) {
    size_t size = strcspn(part, ".");
    bool number = is_number(part, size);
    size_t room = HR_MODULE_NAME - 1 - length;
    int wrote =
        snprintf(out + length, room + 1, "%s%.*s", length > 0 ? "." : "", number ? 1 : (int)size, number ? "*" : part);
    length += (size_t)wrote < room ? (size_t)wrote : room;
    if (number)
      below = 0;
    else if (below >= 0)
      below++;
    part += size;
    if (*part == '.') part++;
  }
  out[length] = '\0';
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const hr_module_owner *)a)->name, ((const hr_module_owner *)b)->name);
}

static int by_bytes(const void *a, const void *b) {
  const hr_module_owner *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return strcmp(x->name, y->name);
}

static void plain_add(hr_module_owner *owners, size_t *count, const char *name, hr_category category, uint64_t bytes) {
  if (bytes == 0) return;
  hr_module_owner *owner = &owners[(*count)++];
  *owner = (hr_module_owner){.bytes = bytes};
  snprintf(owner->name, sizeof owner->name, "%s", name);
  owner->categories[category] = bytes;
}

/* Neighbours of one name become one entry. */
static size_t owners_join(hr_module_owner *owners, size_t count) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (kept == 0 || strcmp(owners[kept - 1].name, owners[i].name) != 0) {
      owners[kept++] = owners[i];
      continue;
    }
    hr_module_owner *into = &owners[kept - 1];
    into->bytes += owners[i].bytes;
    into->tensors += owners[i].tensors;
    for (int c = 0; c < HR_CAT_COUNT; c++)
      into->categories[c] += owners[i].categories[c];
  }
  return kept;
}

hr_status hr__owners(const hr_plan *plan, hr_tier tier, hr_arena *arena, hr_module_owner **out, size_t *count,
                     hr_error *err) {
  const hr_tier_plan *held = &plan->tiers[tier];
  hr_id program = hr__plan_peak_program(plan, tier);
  hr_module_owner *owners = hr__arena_array(arena, plan->n_slots + 2, sizeof *owners);
  if (!owners) return hr__nomem(err);
  size_t n = 0;
  for (size_t s = 0; s < plan->n_slots; s++) {
    const hr_slot *slot = &plan->slots[s];
    if (slot->tier != tier || slot->bytes == 0 || !hr__slot_alive(slot, program, held->peak_node)) continue;
    hr_module_owner *owner = &owners[n++];
    *owner = (hr_module_owner){.bytes = slot->bytes, .tensors = 1};
    hr__owner_name(slot->module, owner->name);
    owner->categories[slot->category] = slot->bytes;
  }
  if (n > 1) qsort(owners, n, sizeof *owners, by_name);
  n = owners_join(owners, n);
  plain_add(owners, &n, "gaps", HR_CAT_GAPS, held->categories[HR_CAT_GAPS]);
  plain_add(owners, &n, "fixed costs", HR_CAT_FIXED, held->categories[HR_CAT_FIXED]);
  if (n > 1) qsort(owners, n, sizeof *owners, by_bytes);
  *out = owners;
  *count = n;
  return HR_OK;
}
