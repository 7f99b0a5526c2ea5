#include "part_places.h"

#include <stdlib.h>
#include <string.h>

enum { M = 1 << 20, UNIT = 2 * M, ALIGNED = 16 };

static int units(uint64_t bytes) {
  return (int)((bytes + UNIT - 1) / UNIT);
}

static void chunk_add(places *p, int begin, int count, int taken) {
  p->chunks++;
  for (int i = 0; i < count; i++) {
    p->chunk[begin + i] = (uint16_t)p->chunks;
    p->taken[begin + i] = i < taken;
  }
}

void places_begin(places *p) {
  memset(p, 0, sizeof *p);
  chunk_add(p, PLACES - 48, 48, 36);
  chunk_add(p, PLACES - 48 - 208, 208, 207);
}

static int lowest(const places *p) {
  int at = 0;
  while (p->chunk[at] == 0)
    at++;
  return at;
}

void places_kernel(places *p) {
  int bottom = lowest(p);
  places_give(p, PLACES - 48 - 208, (uint64_t)207 * UNIT);
  chunk_add(p, bottom - 3, 3, 0);
}

static int fits(const places *p, int at, int count) {
  for (int i = 0; i < count; i++)
    if (at + i >= PLACES || p->taken[at + i] || p->chunk[at + i] == 0 || p->chunk[at + i] != p->chunk[at]) return 0;
  return 1;
}

/* The gap that ends here has so many units. */
static int gap(const places *p, int end, int count) {
  for (int i = 1; i <= count; i++)
    if (end - i < 0 || p->chunk[end - i] != 0) return 0;
  return end == PLACES || p->chunk[end] != 0;
}

/* The newest chunk that has room, there the lowest place; else a new one. */
int places_take(places *p, uint64_t bytes) {
  int count = units(bytes), whole = (count + ALIGNED - 1) / ALIGNED * ALIGNED, found = -1;
  for (int at = lowest(p); at < PLACES; at++)
    if ((found < 0 || p->chunk[at] > p->chunk[found]) && fits(p, at, count)) found = at;
  if (found < 0) {
    int end = PLACES;
    while (end > 0 && !gap(p, end, whole + ALIGNED))
      end--;
    if (end == 0) abort(); /* the map is too small */
    found = (end - whole) / ALIGNED * ALIGNED;
    chunk_add(p, found, whole, 0);
  }
  memset(p->taken + found, 1, (size_t)count);
  return found;
}

/* A chunk of the driver's that is not of whole 32 MiB stays. */
void places_give(places *p, int place, uint64_t bytes) {
  int begin = place, end = place;
  uint16_t chunk = p->chunk[place];
  memset(p->taken + place, 0, (size_t)units(bytes));
  while (begin > 0 && p->chunk[begin - 1] == chunk)
    begin--;
  while (end < PLACES && p->chunk[end] == chunk)
    end++;
  if ((end - begin) % ALIGNED != 0 || memchr(p->taken + begin, 1, (size_t)(end - begin))) return;
  memset(p->chunk + begin, 0, (size_t)(end - begin) * sizeof *p->chunk);
}
