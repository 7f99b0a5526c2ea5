/* Poisoning: in a test build every byte of the arenas that the plan calls dead is poisoned for AddressSanitizer, at
 * every node. A kernel that touches a slot before its first or after its last node, or beyond its bytes, is then
 * reported on the spot. Libraries are not instrumented, so operand ranges are looked at before each launch as well.
 *
 * The host's side: what it writes before a program (inputs) comes alive by the write; what lives at a program's last
 * node (outputs) stays alive until the next program begins.
 */
#include "run/internal.h"

#ifdef HR_ASAN
#include <sanitizer/asan_interface.h>

static char *slot_address(const hr_run *run, hr_id slot) {
  return (char *)run->base[run->plan->slots[slot].tier] + run->plan->slots[slot].offset;
}

static void slot_revive(const hr_run *run, hr_id slot) {
  if (run->base[run->plan->slots[slot].tier])
    ASAN_UNPOISON_MEMORY_REGION(slot_address(run, slot), run->slot_bytes[slot]);
}

/* What lies on the disk has no memory to poison. */
static bool slot_is_of(const hr_slot *slot, hr_id program) {
  return slot->program == program && slot->tier != HR_TIER_DISK;
}

void hr__poison_create(hr_run *run) {
  if (!run->poisoned) return;
  for (int t = 0; t < HR_TIER_COUNT; t++)
    if (run->base[t]) ASAN_POISON_MEMORY_REGION(run->base[t], run->plan->tiers[t].arena_bytes);
  for (hr_id s = 0; s < run->plan->n_slots; s++)
    if (run->plan->slots[s].program == HR_NONE) slot_revive(run, s);
}

void hr__poison_destroy(hr_run *run) {
  if (!run->poisoned) return;
  for (int t = 0; t < HR_TIER_COUNT; t++)
    if (run->base[t]) ASAN_UNPOISON_MEMORY_REGION(run->base[t], run->plan->tiers[t].arena_bytes);
}

void hr__poison_begin(hr_run *run, hr_id program) {
  (void)program;
  if (!run->poisoned) return;
  for (int t = 0; t < HR_TIER_COUNT; t++) {
    const hr_tier_plan *tier = &run->plan->tiers[t];
    if (run->base[t])
      ASAN_POISON_MEMORY_REGION((char *)run->base[t] + tier->persistent_bytes,
                                tier->arena_bytes - tier->persistent_bytes);
  }
}

void hr__poison_before(hr_run *run, hr_id program, uint32_t position) {
  if (!run->poisoned) return;
  for (hr_id s = 0; s < run->plan->n_slots; s++) {
    const hr_slot *slot = &run->plan->slots[s];
    if (slot_is_of(slot, program) && slot->first == position) slot_revive(run, s);
  }
}

void hr__poison_after(hr_run *run, hr_id program, uint32_t position) {
  if (!run->poisoned || position + 1 >= run->plan->graph->programs[program].count) return;
  for (hr_id s = 0; s < run->plan->n_slots; s++) {
    const hr_slot *slot = &run->plan->slots[s];
    if (slot_is_of(slot, program) && slot->last == position)
      ASAN_POISON_MEMORY_REGION(slot_address(run, s), slot->bytes);
  }
}

void hr__poison_host(hr_run *run, hr_id value) {
  if (!run->poisoned) return;
  hr_id slot = run->plan->slot_of_buffer[run->plan->graph->values[value].buffer];
  if (slot != HR_NONE) slot_revive(run, slot);
}

static hr_status operand_check(hr_run *run, hr_id node, const hr_tensor *tensor, const char *what, int index,
                               hr_error *err) {
  size_t bytes = tensor->data ? hr_desc_bytes(&tensor->desc) : 0;
  if (bytes == 0 || !__asan_region_is_poisoned(tensor->data, bytes)) return HR_OK;
  char place[HR_NODE_PLACE];
  return hr__fail(err, HR_FAILURE, hr__node_place(run->plan->graph, node, place), NULL,
                  "%s %d lies in a dead slot: the plan ends its life too early", what, index);
}

hr_status hr__poison_operands(hr_run *run, hr_id node, hr_error *err) {
  if (!run->launches[node].kernel) return HR_OK; /* a copy: it is instrumented itself */
  const hr_call *call = &run->launches[node].call;
  for (int i = 0; i < call->n_in; i++)
    HR_TRY(operand_check(run, node, &call->in[i], "input", i, err));
  for (int j = 0; j < call->n_out; j++)
    HR_TRY(operand_check(run, node, &call->out[j], "output", j, err));
  return HR_OK;
}

#else

void hr__poison_create(hr_run *run) {
  (void)run;
}
void hr__poison_destroy(hr_run *run) {
  (void)run;
}
void hr__poison_begin(hr_run *run, hr_id program) {
  (void)run, (void)program;
}
void hr__poison_before(hr_run *run, hr_id program, uint32_t position) {
  (void)run, (void)program, (void)position;
}
void hr__poison_after(hr_run *run, hr_id program, uint32_t position) {
  (void)run, (void)program, (void)position;
}
void hr__poison_host(hr_run *run, hr_id value) {
  (void)run, (void)value;
}
hr_status hr__poison_operands(hr_run *run, hr_id node, hr_error *err) {
  (void)run, (void)node, (void)err;
  return HR_OK;
}

#endif
