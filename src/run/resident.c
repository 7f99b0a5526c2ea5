/* What of the arena the operating system really holds in memory, by category: the measured side of the plan's table. */
#include <sys/mman.h>
#include <unistd.h>

#include "run/internal.h"

enum { WINDOW = 4096 }; /* pages asked for at once */

/* Bytes of [begin, end) that lie on resident pages. */
static uint64_t range_resident(uintptr_t begin, uintptr_t end) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  unsigned char present[WINDOW];
  uint64_t bytes = 0;
  for (uintptr_t at = begin & ~(page - 1); at < end; at += WINDOW * page) {
    uintptr_t stop = end - at < WINDOW * page ? end : at + WINDOW * page;
    if (mincore((void *)at, stop - at, present) != 0) return bytes;
    for (uintptr_t p = at; p < stop; p += page) {
      if ((present[(p - at) / page] & 1) == 0) continue;
      bytes += (p + page < stop ? p + page : stop) - (p > begin ? p : begin);
    }
  }
  return bytes;
}

void hr__run_resident(const hr_run *run, uint64_t categories[HR_CAT_COUNT]) {
  for (int c = 0; c < HR_CAT_COUNT; c++)
    categories[c] = 0;
  uintptr_t base = (uintptr_t)run->base[HR_TIER_DEVICE];
  if (run->device->facts.kind != HR_CPU || base == 0) return;
  const hr_plan *plan = run->plan;
  hr_id program = hr__plan_peak_program(plan, HR_TIER_DEVICE);
  uint32_t peak = program == HR_NONE ? 0 : plan->programs[program].peak_node;
  uint64_t owned = 0;
  for (size_t s = 0; s < plan->n_slots; s++) {
    const hr_slot *slot = &plan->slots[s];
    if (slot->tier != HR_TIER_DEVICE || slot->bytes == 0 || !hr__slot_alive(slot, program, peak)) continue;
    uint64_t bytes = range_resident(base + slot->offset, base + slot->offset + slot->bytes);
    categories[slot->category] += bytes;
    owned += bytes;
  }
  uint64_t all = range_resident(base, base + hr__run_arena_bytes(run, HR_TIER_DEVICE));
  categories[HR_CAT_GAPS] = all > owned ? all - owned : 0;
}
