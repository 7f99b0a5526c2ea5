#include "text/pairs.h"

hr_status hr__pairs_init(hr_pairs *pairs, size_t most, hr_arena *arena, hr_error *err) {
  size_t slots = 16;
  while (slots / 2 <= most)
    slots *= 2;
  *pairs = (hr_pairs){.slots = hr__arena_room(arena, slots, sizeof *pairs->slots), .mask = slots - 1};
  if (!pairs->slots) return hr__nomem(err);
  for (size_t i = 0; i < slots; i++)
    pairs->slots[i] = (hr_pair){-1, -1, HR_NO_RANK, -1};
  return HR_OK;
}

void hr__pairs_add(hr_pairs *pairs, int32_t left, int32_t right, int32_t rank, int32_t joined) {
  size_t i = hr__pair_hash(left, right) & pairs->mask;
  while (pairs->slots[i].left >= 0 && !(pairs->slots[i].left == left && pairs->slots[i].right == right))
    i = (i + 1) & pairs->mask;
  if (pairs->slots[i].left < 0) pairs->count++;
  pairs->slots[i] = (hr_pair){left, right, rank, joined};
}
