#include "plan/layout.h"

#include <string.h>

size_t hr__layout_offset(const hr_layout *layout, const hr_interval *interval, hr_gap_rule rule, bool hang) {
  size_t floor = 0, best_gap = SIZE_MAX, best_offset = 0;
  for (size_t i = 0; i < layout->count; i++) {
    const hr_placed *other = &layout->placed[i];
    if (other->first > interval->last || interval->first > other->last) continue;
    if (other->offset > floor) {
      size_t gap = other->offset - floor;
      if (gap >= interval->bytes && gap < best_gap) {
        best_gap = gap;
        best_offset = hang ? other->offset - interval->bytes : floor;
        if (rule == HR_GAP_LOWEST || gap == interval->bytes) return best_offset;
      }
    }
    if (other->top > floor) floor = other->top;
  }
  if (hang && floor + interval->bytes <= layout->ceiling_bytes && layout->ceiling_bytes - floor < best_gap)
    return layout->ceiling_bytes - interval->bytes;
  return best_gap == SIZE_MAX ? floor : best_offset;
}

void hr__placed_insert(hr_placed *list, size_t count, const hr_placed *placed) {
  size_t low = 0, high = count; /* goes behind the last one at or below its offset */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (list[middle].offset <= placed->offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  memmove(&list[low + 1], &list[low], (count - low) * sizeof *list);
  list[low] = *placed;
}

void hr__layout_place(hr_layout *layout, const hr_interval *items, uint32_t item, hr_gap_rule rule, bool hang) {
  const hr_interval *interval = &items[item];
  size_t offset = hr__layout_offset(layout, interval, rule, hang), top = offset + interval->bytes;
  const hr_placed placed = {offset, top, interval->first, interval->last, item};
  hr__placed_insert(layout->placed, layout->count++, &placed);
  if (top > layout->total_bytes) layout->total_bytes = top;
}

void hr__layout_keep(const hr_layout *layout, hr_pack_problem *problem) {
  if (layout->total_bytes >= problem->total_bytes) return;
  problem->total_bytes = layout->total_bytes;
  for (size_t i = 0; i < problem->count; i++)
    problem->offsets[layout->placed[i].item] = layout->placed[i].offset;
}
