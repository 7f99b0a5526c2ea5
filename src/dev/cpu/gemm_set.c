/* See dev/cpu/gemm_set.h. */
#include "dev/cpu/gemm_set.h"

enum { SLOTS_FIRST = 64 };

static bool shape_equal(const hr_gemm_shape *x, const hr_gemm_shape *y) {
  return x->workers == y->workers && x->tile.scratch_bytes == y->tile.scratch_bytes &&
         hr__gemm_spec_equal(&x->tile.spec, &y->tile.spec);
}

/* Its slot, or the free one where it would go; there always is one. */
static hr_gemm_shape *slot_of(const hr_gemm_shapes *shapes, const hr_gemm_shape *shape) {
  size_t at = (size_t)hr__gemm_spec_hash(&shape->tile.spec) & (shapes->capacity - 1);
  while (shapes->slots[at].workers > 0 && !shape_equal(&shapes->slots[at], shape))
    at = (at + 1) & (shapes->capacity - 1);
  return &shapes->slots[at];
}

/* Half of the slots stay free. */
static bool shapes_grow(hr_arena *arena, hr_gemm_shapes *shapes) {
  hr_gemm_shapes larger = *shapes;
  larger.capacity = shapes->capacity ? 2 * shapes->capacity : SLOTS_FIRST;
  larger.slots = hr__arena_array(arena, larger.capacity, sizeof *larger.slots);
  if (!larger.slots) return false;
  for (size_t i = 0; i < shapes->capacity; i++)
    if (shapes->slots[i].workers > 0) *slot_of(&larger, &shapes->slots[i]) = shapes->slots[i];
  *shapes = larger;
  return true;
}

static bool shape_put(hr_arena *arena, hr_gemm_shapes *shapes, const hr_gemm_shape *shape) {
  if (2 * shapes->count >= shapes->capacity && !shapes_grow(arena, shapes)) return false;
  hr_gemm_shape *slot = slot_of(shapes, shape);
  if (slot->workers > 0) return true;
  *slot = *shape;
  shapes->count++;
  shapes->workers += (size_t)shape->workers;
  return true;
}

void hr__gemm_set_add(hr_gemm_set *set, const hr_gemm_spec *spec, int threads) {
  hr_gemm_tile tiles[HR_GEMM_TILES];
  const int workers = threads < 1 ? 1 : threads;
  const hr_gemm_shape whole = {{*spec, 0}, workers};
  size_t known = set->added.count;
  if (!shape_put(set->arena, &set->added, &whole)) set->failed = true;
  if (set->added.count == known) return;
  for (int way = 0; way < HR_GEMM_WAYS; way++) {
    int count = hr__gemm_tiles(spec, way > 0, tiles);
    for (int i = 0; i < count; i++) {
      hr_gemm_shape shape = {tiles[i], workers};
      if (!shape_put(set->arena, &set->ways[way], &shape)) set->failed = true;
    }
  }
}

static const hr_gemm_shapes *larger_way(const hr_gemm_set *set) {
  return &set->ways[set->ways[1].count > set->ways[0].count];
}

size_t hr__gemm_set_shapes(const hr_gemm_set *set) {
  return larger_way(set)->count;
}

size_t hr__gemm_set_workers(const hr_gemm_set *set) {
  return larger_way(set)->workers;
}
