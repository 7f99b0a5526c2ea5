/* See dev/cpu/gemm_set.h. */
#include "dev/cpu/gemm_set.h"

enum { SLOTS_FIRST = 64 };

static uint64_t mixed(uint64_t hash, int64_t value) {
  hash = (hash ^ (uint64_t)value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

static uint64_t hash_of(const hr_gemm_shape *shape) {
  const hr_gemm_spec *s = &shape->tile.spec;
  uint64_t hash = mixed(mixed(mixed((uint64_t)shape->workers, s->m), s->n), s->k);
  hash = mixed(mixed(mixed(hash, s->lda), s->ldb), s->ldc);
  int kind =
      s->transpose_a | s->transpose_b << 1 | s->accumulate << 2 | (int)s->a << 4 | (int)s->b << 8 | (int)s->c << 12;
  return mixed(mixed(hash, kind), (int64_t)shape->tile.scratch_bytes);
}

static bool shape_equal(const hr_gemm_shape *x, const hr_gemm_shape *y) {
  return x->workers == y->workers && x->tile.scratch_bytes == y->tile.scratch_bytes &&
         hr__gemm_spec_equal(&x->tile.spec, &y->tile.spec);
}

/* Its slot, or the free one where it would go; there always is one. */
static hr_gemm_shape *slot_of(const hr_gemm_shapes *shapes, const hr_gemm_shape *shape) {
  size_t at = (size_t)hash_of(shape) & (shapes->capacity - 1);
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
  for (int way = 0; way < HR_GEMM_WAYS; way++) {
    int count = hr__gemm_tiles(spec, way > 0, tiles);
    for (int i = 0; i < count; i++) {
      hr_gemm_shape shape = {tiles[i], threads < 1 ? 1 : threads};
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
