/* What of the arenas the operating system really holds in memory, by category: the measured side of the plan's table.
 */
#include <sys/mman.h>
#include <sys/stat.h>
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

/* Of a tier in memory the pages are asked for; the disk's file has taken all its space at the start, or tells nothing.
 */
static uint64_t slot_resident(uintptr_t base, size_t offset, size_t bytes) {
  return base != 0 ? range_resident(base + offset, base + offset + bytes) : bytes;
}

static bool disk_is_taken(const hr_run *run, uint64_t bytes) {
  struct stat facts;
  return run->disk.fd >= 0 && fstat(run->disk.fd, &facts) == 0 && (uint64_t)facts.st_blocks * 512 >= bytes;
}

/* Whether anybody tells what is held of a tier. */
static bool tier_tells(const hr_run *run, hr_tier tier) {
  uint64_t arena = hr__run_arena_bytes(run, tier);
  if (arena == 0 || (tier == HR_TIER_DEVICE && run->device->facts.kind != HR_CPU)) return false;
  return tier == HR_TIER_DISK ? disk_is_taken(run, arena) : run->base[tier] != NULL;
}

uint64_t hr__run_held(const hr_run *run, hr_tier tier) {
  return tier_tells(run, tier) ? slot_resident((uintptr_t)run->base[tier], 0, hr__run_arena_bytes(run, tier)) : 0;
}

static void tier_resident(const hr_run *run, hr_tier tier, uint64_t categories[HR_CAT_COUNT]) {
  const hr_plan *plan = run->plan;
  uint64_t arena = hr__run_arena_bytes(run, tier), owned = 0;
  uintptr_t base = (uintptr_t)run->base[tier]; /* 0: on the disk */
  if (!tier_tells(run, tier)) return;
  hr_id program = hr__plan_peak_program(plan, tier);
  for (size_t s = 0; s < plan->n_slots; s++) {
    const hr_slot *slot = &plan->slots[s];
    bool alive = hr__slot_alive(slot, program, plan->tiers[tier].peak_node);
    if (slot->tier != tier || slot->bytes == 0 || !alive) continue;
    uint64_t bytes = slot_resident(base, slot->offset, slot->bytes);
    categories[slot->category] += bytes;
    owned += bytes;
  }
  uint64_t all = slot_resident(base, 0, arena);
  categories[HR_CAT_GAPS] = all > owned ? all - owned : 0;
}

void hr__run_resident(const hr_run *run, uint64_t categories[HR_TIER_COUNT][HR_CAT_COUNT]) {
  for (int t = 0; t < HR_TIER_COUNT; t++)
    for (int c = 0; c < HR_CAT_COUNT; c++)
      categories[t][c] = 0;
  for (int t = 0; t < HR_TIER_COUNT; t++)
    tier_resident(run, (hr_tier)t, categories[t]);
}
