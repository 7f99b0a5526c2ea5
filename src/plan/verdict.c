#include "plan/verdict.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

hr_category hr__role_category(hr_role role) {
  static const hr_category categories[HR_ROLE_COUNT] = {
      [HR_ROLE_PARAMETER] = HR_CAT_PARAMETERS, [HR_ROLE_GRADIENT] = HR_CAT_GRADIENTS,
      [HR_ROLE_OPTIMIZER] = HR_CAT_OPTIMIZER,  [HR_ROLE_ACTIVATION] = HR_CAT_ACTIVATIONS,
      [HR_ROLE_INPUT] = HR_CAT_INPUTS,         [HR_ROLE_OUTPUT] = HR_CAT_ACTIVATIONS,
      [HR_ROLE_STAGING] = HR_CAT_STAGING,      [HR_ROLE_STATE] = HR_CAT_STATE,
      [HR_ROLE_AVERAGE] = HR_CAT_STATE,        [HR_ROLE_CACHE] = HR_CAT_CACHE,
  };
  return categories[role];
}

/* Keeps the HR_OWNERS largest, largest first; equal ones in the order they came. */
static void owner_offer(hr_owner *owners, int *count, const hr_owner *offered) {
  int at = *count;
  while (at > 0 && owners[at - 1].bytes < offered->bytes)
    at--;
  if (offered->bytes == 0 || at == HR_OWNERS) return;
  if (*count < HR_OWNERS) ++*count;
  for (int i = *count - 1; i > at; i--)
    owners[i] = owners[i - 1];
  owners[at] = *offered;
}

/* Parts of a dotted path that are numbers become '*'. */
static void name_generalise(const char *name, char out[HR_OWNER_NAME]) {
  size_t length = 0;
  bool begins = true; /* a part of the path begins here */
  for (const char *c = name; *c && length + 1 < HR_OWNER_NAME;) {
    size_t digits = 0;
    while (isdigit((unsigned char)c[digits]))
      digits++;
    if (begins && digits > 0 && (c[digits] == '.' || c[digits] == ':' || c[digits] == '\0')) {
      out[length++] = '*';
      c += digits;
      begins = false;
      continue;
    }
    begins = *c == '.';
    out[length++] = *c++;
  }
  out[length] = '\0';
}

static int owner_compare(const void *a, const void *b) {
  return strcmp(((const hr_owner *)a)->name, ((const hr_owner *)b)->name);
}

static bool slot_at_peak(const hr_slot *slot, hr_tier tier, hr_id program, uint32_t position) {
  return slot->tier == tier && slot->bytes > 0 && hr__slot_alive(slot, program, position);
}

static hr_status buffers_rank(const hr_plan *plan, hr_verdict *out, hr_error *err) {
  hr_id program = hr__plan_peak_program(plan, out->tier);
  uint32_t position = plan->tiers[out->tier].peak_node;
  hr_owner *owners = hr__alloc_zero(plan->n_slots + 1, sizeof *owners);
  if (!owners) return hr__nomem(err);
  size_t count = 0;
  for (size_t s = 0; s < plan->n_slots; s++) {
    const hr_slot *slot = &plan->slots[s];
    if (!slot_at_peak(slot, out->tier, program, position)) continue;
    name_generalise(slot->name, owners[count].name);
    owners[count].slots = 1;
    owners[count++].bytes = slot->bytes;
  }
  qsort(owners, count, sizeof *owners, owner_compare);
  for (size_t i = 0; i < count;) {
    hr_owner sum = owners[i];
    for (i++; i < count && strcmp(owners[i].name, sum.name) == 0; i++) {
      sum.bytes += owners[i].bytes;
      sum.slots++;
    }
    owner_offer(out->buffers, &out->n_buffers, &sum);
  }
  hr__free(owners);
  return HR_OK;
}

static void categories_rank(const hr_plan *plan, hr_verdict *out) {
  hr_id program = hr__plan_peak_program(plan, out->tier);
  uint32_t position = plan->tiers[out->tier].peak_node;
  for (int c = 0; c < HR_CAT_COUNT; c++) {
    hr_owner owner = {.bytes = plan->tiers[out->tier].categories[c]};
    strcpy(owner.name, hr_category_name((hr_category)c));
    for (size_t s = 0; s < plan->n_slots; s++)
      owner.slots += (int)plan->slots[s].category == c && slot_at_peak(&plan->slots[s], out->tier, program, position);
    owner_offer(out->categories, &out->n_categories, &owner);
  }
}

hr_status hr__verdict(const hr_plan *plan, const hr_recipe *recipe, const hr_budget *budget, hr_verdict *out,
                      hr_error *err) {
  *out = (hr_verdict){.budget_bytes = budget->budget_bytes,
                      .margin_bytes = budget->margin_bytes,
                      .margin_default = budget->margin_default,
                      .phases = hr__host_phases(plan, recipe),
                      .peak_bytes = plan->tiers[HR_TIER_DEVICE].peak_bytes};
  uint64_t needed;
  if (__builtin_add_overflow(out->peak_bytes, out->margin_bytes, &needed)) needed = UINT64_MAX;
  out->fits = needed <= out->budget_bytes;
  out->missing_bytes = out->fits ? 0 : needed - out->budget_bytes;
  out->below_bytes[HR_TIER_HOST] = budget->host_bytes;
  out->below_bytes[HR_TIER_DISK] = budget->disk_bytes;
  for (int t = HR_TIER_HOST; t < HR_TIER_COUNT && out->fits; t++) {
    uint64_t peak = plan->tiers[t].peak_bytes;
    if (peak <= out->below_bytes[t]) continue;
    out->fits = false;
    out->tier = (hr_tier)t;
    out->missing_bytes = peak - out->below_bytes[t];
  }
  uint64_t most = hr__host_most(plan, &out->phases);
  if (out->fits && most > budget->host_bytes) {
    out->fits = false;
    out->preparing = true;
    out->tier = HR_TIER_HOST;
    out->missing_bytes = most - budget->host_bytes;
  }
  categories_rank(plan, out);
  return buffers_rank(plan, out, err);
}
