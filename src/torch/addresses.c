#include "torch/addresses.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

enum {
  UNIT_BYTES = 2 << 20,
  CHUNK = 16, /* units */
  OWN = 3,    /* chunks of the driver, with as many holes */
  SIDE = 3    /* units of one that comes with the first kernel, whole and empty */
};
static const uint32_t TOP = UINT32_C(1) << 31;
/* The driver's first chunks, falling: how large they are, and how much of their beginning it has itself. */
static const uint32_t own[2][2] = {{48, 36}, {208, 207}};

void hr__torch_addresses_init(hr_torch_addresses *a) {
  *a = (hr_torch_addresses){0};
}

void hr__torch_addresses_fini(hr_torch_addresses *a) {
  hr__free(a->holes);
  hr__free(a->chunks);
}

/* Room for one more chunk, and for a hole that each segment may leave behind, so that giving back cannot fail. */
static hr_status room(hr_torch_addresses *a) {
  size_t holes = a->n_holes + a->taken + 2 * OWN, chunks = a->n_chunks + OWN + 1;
  if (holes > a->holes_capacity) {
    hr_torch_hole *more = hr__realloc(a->holes, 2 * holes * sizeof *more);
    if (!more) return HR_NOMEM;
    a->holes = more;
    a->holes_capacity = 2 * holes;
  }
  if (chunks > a->chunks_capacity) {
    hr_torch_chunk *more = hr__realloc(a->chunks, 2 * chunks * sizeof *more);
    if (!more) return HR_NOMEM;
    a->chunks = more;
    a->chunks_capacity = 2 * chunks;
  }
  return HR_OK;
}

/* --- chunks ------------------------------------------------------------------------------------------------------- */

static size_t chunk_of(const hr_torch_addresses *a, uint32_t place) {
  size_t low = 0, high = a->n_chunks - 1; /* the first that begins no later */
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (a->chunks[middle].begin <= place)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void chunk_insert(hr_torch_addresses *a, size_t at, hr_torch_chunk chunk) {
  chunk.number = a->chunks_made++;
  memmove(a->chunks + at + 1, a->chunks + at, (a->n_chunks - at) * sizeof *a->chunks);
  a->chunks[at] = chunk;
  a->n_chunks++;
}

static uint32_t chunk_make(hr_torch_addresses *a, uint32_t units) {
  uint32_t whole = (units + CHUNK - 1) / CHUNK * CHUNK, above = TOP;
  for (size_t at = 0; at <= a->n_chunks; at++) {
    uint32_t below = at < a->n_chunks ? a->chunks[at].begin + a->chunks[at].units : 0;
    if (above - below >= whole + CHUNK) {
      uint32_t begin = (above - whole) / CHUNK * CHUNK;
      chunk_insert(a, at, (hr_torch_chunk){.begin = begin, .units = whole});
      return begin;
    }
    above = a->chunks[at].begin;
  }
  assert(false); /* there is room for petabytes */
  return 0;
}

/* --- holes -------------------------------------------------------------------------------------------------------- */

static void hole_drop(hr_torch_addresses *a, size_t at) {
  a->n_holes--;
  memmove(a->holes + at, a->holes + at + 1, (a->n_holes - at) * sizeof *a->holes);
}

static bool joins(const hr_torch_addresses *a, size_t low) {
  const hr_torch_hole *first = &a->holes[low], *second = first + 1;
  return first->chunk == second->chunk && first->begin + first->units == second->begin;
}

/* Whether the first is looked at later. */
static bool is_behind(const hr_torch_hole *x, const hr_torch_hole *y) {
  return x->chunk != y->chunk ? x->chunk < y->chunk : x->begin > y->begin;
}

static void hole_join(hr_torch_addresses *a, size_t low) {
  a->holes[low].units += a->holes[low + 1].units;
  hole_drop(a, low + 1);
}

static size_t hole_add(hr_torch_addresses *a, uint32_t begin, uint32_t units) {
  hr_torch_hole hole = {begin, units, a->chunks[chunk_of(a, begin)].number};
  size_t at = a->n_holes;
  while (at > 0 && is_behind(&a->holes[at - 1], &hole))
    at--;
  assert(a->n_holes < a->holes_capacity);
  memmove(a->holes + at + 1, a->holes + at, (a->n_holes - at) * sizeof *a->holes);
  a->holes[at] = hole;
  a->n_holes++;
  if (at + 1 < a->n_holes && joins(a, at)) hole_join(a, at);
  if (at > 0 && joins(a, at - 1)) hole_join(a, --at);
  return at;
}

static uint32_t take(hr_torch_addresses *a, uint32_t units) {
  size_t at = 0;
  while (at < a->n_holes && a->holes[at].units < units)
    at++;
  if (at == a->n_holes) {
    uint32_t begin = chunk_make(a, units);
    at = hole_add(a, begin, a->chunks[chunk_of(a, begin)].units);
  }
  uint32_t place = a->holes[at].begin;
  a->chunks[chunk_of(a, place)].taken += units;
  a->holes[at].begin += units;
  a->holes[at].units -= units;
  if (a->holes[at].units == 0) hole_drop(a, at);
  return place;
}

static void give(hr_torch_addresses *a, uint32_t place, uint32_t units) {
  size_t hole = hole_add(a, place, units), chunk = chunk_of(a, place);
  a->chunks[chunk].taken -= units;
  if (a->chunks[chunk].taken > 0) return;
  hole_drop(a, hole);
  a->n_chunks--;
  memmove(a->chunks + chunk, a->chunks + chunk + 1, (a->n_chunks - chunk) * sizeof *a->chunks);
}

/* --- segments ----------------------------------------------------------------------------------------------------- */

static void driver_begins(hr_torch_addresses *a) {
  uint32_t begin = TOP;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    begin -= own[i][0];
    chunk_insert(a, i, (hr_torch_chunk){.begin = begin, .units = own[i][0], .taken = own[i][1]});
    hole_add(a, begin + own[i][1], own[i][0] - own[i][1]);
  }
}

static hr_status begin(hr_torch_addresses *a) {
  HR_TRY(room(a));
  if (a->n_chunks == 0) driver_begins(a);
  return HR_OK;
}

hr_status hr__torch_addresses_kernel(hr_torch_addresses *a) {
  HR_TRY(begin(a));
  uint32_t side = a->chunks[a->n_chunks - 1].begin - SIDE;
  give(a, TOP - own[0][0] - own[1][0], own[1][1]);
  chunk_insert(a, a->n_chunks, (hr_torch_chunk){.begin = side, .units = SIDE, .taken = 1}); /* it never goes */
  hole_add(a, side, SIDE);
  return HR_OK;
}

static uint32_t units_of(uint64_t bytes) {
  return (uint32_t)((bytes + UNIT_BYTES - 1) / UNIT_BYTES);
}

hr_status hr__torch_address_take(hr_torch_addresses *a, uint64_t bytes, uint32_t *place) {
  HR_TRY(begin(a));
  *place = take(a, units_of(bytes));
  a->taken++;
  return HR_OK;
}

void hr__torch_address_give(hr_torch_addresses *a, uint32_t place, uint64_t bytes) {
  a->taken--;
  give(a, place, units_of(bytes));
}
