#include "plan/layout.h"

#include <string.h>

/* Where an interval goes among those placed: walks the ones alive together with it from below, looking at the gaps. */
static size_t layout_offset(const hr_layout *layout, const hr_interval *interval, hr_gap_rule rule, bool hang) {
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

void hr__layout_place(hr_layout *layout, const hr_interval *items, uint32_t item, hr_gap_rule rule, bool hang) {
  const hr_interval *interval = &items[item];
  size_t offset = layout_offset(layout, interval, rule, hang), top = offset + interval->bytes;
  size_t low = 0, high = layout->count; /* goes behind the last one at or below `offset` */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (layout->placed[middle].offset <= offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  memmove(&layout->placed[low + 1], &layout->placed[low], (layout->count - low) * sizeof(hr_placed));
  layout->placed[low] = (hr_placed){offset, top, interval->first, interval->last, item};
  layout->count++;
  if (top > layout->total_bytes) layout->total_bytes = top;
}

void hr__layout_keep(const hr_layout *layout, hr_pack_problem *problem) {
  if (layout->total_bytes >= problem->total_bytes) return;
  problem->total_bytes = layout->total_bytes;
  for (size_t i = 0; i < problem->count; i++)
    problem->offsets[layout->placed[i].item] = layout->placed[i].offset;
}
