#include "part_plain.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 4096 };
static const uint64_t M = 1 << 20;

typedef struct piece {
  long segment; /* the order of addresses: negative numbers where segments fall */
  uint64_t offset, bytes, freed_at;
  enum { USED, FREE, EMPTY } is; /* EMPTY: addresses without memory, of an expandable segment */
  int handle;
  uint8_t stream;
  bool small, expandable;
} piece;

plain *plain_create(const hr_torch_rules *rules) {
  plain *p = calloc(1, sizeof *p);
  assert(p);
  p->rules = *rules;
  places_begin(&p->places);
  p->pieces = calloc(PIECES, sizeof *p->pieces);
  assert(p->pieces);
  return p;
}

void plain_destroy(plain *p) {
  free(p->pieces);
  free(p);
}

static void insert(plain *p, size_t at, piece new) {
  assert(p->count < PIECES);
  memmove(&p->pieces[at + 1], &p->pieces[at], (p->count - at) * sizeof new);
  p->pieces[at] = new;
  p->count++;
}

static void erase(plain *p, size_t at) {
  p->count--;
  memmove(&p->pieces[at], &p->pieces[at + 1], (p->count - at) * sizeof *p->pieces);
}

/* Cuts a piece in two at so many bytes from its beginning. */
static void cut(plain *p, size_t at, uint64_t bytes) {
  piece rest = p->pieces[at];
  assert(bytes > 0 && bytes < rest.bytes);
  rest.offset += bytes;
  rest.bytes -= bytes;
  p->pieces[at].bytes = bytes;
  insert(p, at + 1, rest);
}

static bool neighbours(const plain *p, size_t a, size_t b) {
  return b < p->count && a < p->count && p->pieces[a].segment == p->pieces[b].segment;
}

/* Joins all neighbours that are alike and not in use. */
static void tidy(plain *p) {
  for (size_t i = 0; i + 1 < p->count;) {
    piece *a = &p->pieces[i], *b = a + 1;
    if (a->segment == b->segment && a->is == b->is && a->is != USED) {
      if (b->freed_at > a->freed_at) a->freed_at = b->freed_at;
      a->bytes += b->bytes;
      erase(p, i + 1);
    } else {
      i++;
    }
  }
}

static bool whole(const plain *p, size_t at) {
  return !p->pieces[at].expandable && !(at > 0 && neighbours(p, at - 1, at)) && !neighbours(p, at, at + 1);
}

static size_t add_segment(plain *p, piece new) {
  bool driver = p->rules.order == HR_TORCH_BY_DRIVER && !new.expandable;
  if (driver && p->segments == 1) places_kernel(&p->places);
  new.segment = driver                              ? places_take(&p->places, new.bytes)
                : p->rules.order == HR_TORCH_RISING ? p->segments
                                                    : -p->segments;
  p->segments++;
  size_t at = 0;
  while (at < p->count && p->pieces[at].segment < new.segment)
    at++;
  insert(p, at, new);
  return at;
}

static bool room(const plain *p, uint64_t bytes) {
  return p->rules.limit_bytes == UINT64_MAX || p->reserved + bytes <= p->rules.limit_bytes;
}

static uint64_t page(const plain *p, bool small) {
  return small ? 2 * M : p->rules.large_segment_bytes;
}

static uint64_t reach(const plain *p, size_t at) {
  uint64_t bytes = p->pieces[at].bytes;
  if (neighbours(p, at, at + 1) && p->pieces[at + 1].is == EMPTY) bytes += p->pieces[at + 1].bytes;
  return bytes;
}

/* The next free piece by size and address behind (bytes, at), of at least so many bytes; count: none. */
static size_t next_by_size(const plain *p, bool small, uint8_t stream, uint64_t bytes, size_t behind) {
  size_t best = p->count;
  for (size_t i = 0; i < p->count; i++) {
    const piece *c = &p->pieces[i];
    if (c->is != FREE || c->small != small || c->stream != stream || c->bytes < bytes) continue;
    if (c->bytes == bytes && behind != SIZE_MAX && i <= behind) continue;
    if (best == p->count || c->bytes < p->pieces[best].bytes) best = i;
  }
  return best;
}

static size_t find(plain *p, bool small, uint8_t stream, uint64_t bytes) {
  if (p->rules.collect_above > 0 && p->rules.fraction) p->searches[small]++;
  size_t at = next_by_size(p, small, stream, bytes, SIZE_MAX);
  if (at == p->count) return at;
  while (p->pieces[at].expandable) {
    size_t next = next_by_size(p, small, stream, p->pieces[at].bytes, at);
    if (next == p->count || reach(p, next) >= reach(p, at)) break;
    at = next;
  }
  uint64_t most = p->rules.max_split_bytes;
  if (bytes < most && p->pieces[at].bytes >= most) return p->count;
  if (bytes >= most && p->pieces[at].bytes >= bytes + p->rules.max_rounding_bytes) return p->count;
  return at;
}

static void release(plain *p, size_t at) {
  const piece *gone = &p->pieces[at];
  if (p->rules.order == HR_TORCH_BY_DRIVER) places_give(&p->places, (int)gone->segment, gone->bytes);
  p->reserved -= p->pieces[at].bytes;
  erase(p, at);
}

static void collect(plain *p) {
  uint64_t threshold = (uint64_t)(p->rules.collect_above * (double)p->rules.limit_bytes), gone = 0;
  if (p->reserved <= threshold) return;
  uint64_t target = p->reserved - threshold;
  for (bool any = true; any && gone < target;) {
    double ages = 0, count = 0;
    for (size_t i = 0; i < p->count; i++) {
      if (p->pieces[i].is != FREE || p->pieces[i].small || !whole(p, i)) continue;
      ages += (double)(p->searches[0] - p->pieces[i].freed_at);
      count++;
    }
    any = false;
    for (size_t i = 0; i < p->count;) {
      const piece *c = &p->pieces[i];
      bool old = c->is == FREE && !c->small && whole(p, i) && (double)(p->searches[0] - c->freed_at) >= ages / count;
      if (!old) {
        i++;
        continue;
      }
      gone += c->bytes;
      release(p, i);
      any = true;
    }
  }
}

static bool release_oversize(plain *p, bool small, uint8_t stream, uint64_t bytes) {
  uint64_t most = p->rules.max_split_bytes, wanted = bytes < most ? most : bytes, gone = 0;
  if (most == UINT64_MAX) return false;
  size_t at = next_by_size(p, small, stream, wanted, SIZE_MAX);
  if (at < p->count) {
    release(p, at);
    return true;
  }
  while (gone < wanted) {
    size_t largest = p->count; /* of equal ones the last by address */
    for (size_t i = 0; i < p->count; i++) {
      const piece *c = &p->pieces[i];
      if (c->is != FREE || c->small != small || c->stream != stream || c->bytes < most) continue;
      if (largest == p->count || c->bytes >= p->pieces[largest].bytes) largest = i;
    }
    if (largest == p->count) return false;
    gone += p->pieces[largest].bytes;
    release(p, largest);
  }
  return true;
}

void plain_empty(plain *p) {
  for (size_t i = 0; i < p->count;) {
    if (p->pieces[i].is == FREE && whole(p, i))
      release(p, i);
    else
      i++;
  }
  for (size_t i = 0; i < p->count; i++) { /* page by page */
    if (p->pieces[i].is != FREE || !p->pieces[i].expandable) continue;
    uint64_t size = page(p, p->pieces[i].small), into = p->pieces[i].offset % size;
    uint64_t skip = into ? size - into : 0;
    if (p->pieces[i].bytes < skip + size) continue;
    if (skip > 0) {
      cut(p, i, skip);
      continue; /* the rest is next */
    }
    if (p->pieces[i].bytes > size) cut(p, i, size);
    p->pieces[i].is = EMPTY;
    p->reserved -= size;
  }
  tidy(p);
  for (size_t i = 0; i < p->count;) { /* ranges of addresses that have nothing in them */
    bool alone = !(i > 0 && neighbours(p, i - 1, i)) && !neighbours(p, i, i + 1);
    if (p->pieces[i].is == EMPTY && alone)
      erase(p, i);
    else
      i++;
  }
}

/* Whether the pieces from here on that are not in use have so many bytes. */
static bool space(const plain *p, size_t at, uint64_t bytes) {
  uint64_t sum = 0;
  for (size_t i = at; i < p->count && p->pieces[i].segment == p->pieces[at].segment && p->pieces[i].is != USED; i++)
    sum += p->pieces[i].bytes;
  return sum >= bytes;
}

static size_t expand(plain *p, bool small, uint8_t stream, uint64_t bytes, uint64_t segment) {
  if (p->rules.fraction && !room(p, segment)) return SIZE_MAX;
  size_t at = SIZE_MAX;
  for (size_t i = 0; i < p->count && at == SIZE_MAX; i++) {
    const piece *c = &p->pieces[i];
    if (c->is != EMPTY || c->small != small || c->stream != stream) continue;
    size_t from = i > 0 && neighbours(p, i - 1, i) && p->pieces[i - 1].is == FREE ? i - 1 : i;
    if (space(p, from, bytes)) at = from;
  }
  if (at == SIZE_MAX) {
    uint64_t all = (UINT64_C(1) << 61) / page(p, small) * page(p, small);
    at = add_segment(p, (piece){.bytes = all, .is = EMPTY, .stream = stream, .small = small, .expandable = true});
  }
  for (;;) {
    uint64_t have = p->pieces[at].is == FREE ? p->pieces[at].bytes : 0;
    if (have >= bytes) return at;
    size_t empty = have ? at + 1 : at;
    uint64_t size = page(p, small), missing = bytes - have;
    if (missing > p->pieces[empty].bytes) missing = p->pieces[empty].bytes;
    missing = (missing + size - 1) / size * size;
    if (!room(p, missing)) return SIZE_MAX;
    if (missing < p->pieces[empty].bytes) cut(p, empty, missing);
    p->pieces[empty].is = FREE;
    p->reserved += missing;
    tidy(p);
  }
}

static size_t from_driver(plain *p, bool small, uint8_t stream, uint64_t bytes, uint64_t segment) {
  if (p->rules.expandable) return expand(p, small, stream, bytes, segment);
  if (!room(p, segment)) return SIZE_MAX;
  p->reserved += segment;
  return add_segment(p, (piece){.bytes = segment, .is = FREE, .stream = stream, .small = small});
}

int plain_take(plain *p, uint64_t asked, uint8_t stream) {
  if (asked == 0) return PLAIN_NOTHING;
  uint64_t bytes = hr__torch_round(&p->rules, asked);
  bool small = bytes <= M;
  uint64_t segment = small            ? 2 * M
                     : bytes < 10 * M ? p->rules.large_segment_bytes
                                      : (bytes + 2 * M - 1) / (2 * M) * 2 * M;
  size_t at = find(p, small, stream, bytes);
  if (at == p->count) {
    if (p->rules.collect_above > 0 && p->rules.fraction) collect(p);
    at = from_driver(p, small, stream, bytes, segment);
    if (at == SIZE_MAX && release_oversize(p, small, stream, bytes)) at = from_driver(p, small, stream, bytes, segment);
    if (at == SIZE_MAX) {
      plain_empty(p);
      at = from_driver(p, small, stream, bytes, segment);
    }
    if (at == SIZE_MAX) return PLAIN_FULL;
  }
  uint64_t left = p->pieces[at].bytes - bytes;
  bool cuts = small || p->rules.expandable ? left >= 512 : bytes < p->rules.max_split_bytes && left > M;
  if (cuts) cut(p, at, bytes);
  p->pieces[at].is = USED;
  p->pieces[at].handle = ++p->handles;
  p->allocated += p->pieces[at].bytes;
  return p->handles;
}

static size_t handle_find(const plain *p, int handle) {
  size_t at = 0;
  while (p->pieces[at].is != USED || p->pieces[at].handle != handle)
    at++;
  return at;
}

void plain_give(plain *p, int handle) {
  if (handle == PLAIN_NOTHING) return;
  piece *c = &p->pieces[handle_find(p, handle)];
  c->is = FREE;
  c->freed_at = p->searches[c->small];
  p->allocated -= c->bytes;
  tidy(p);
}

uint64_t plain_bytes(const plain *p, int handle) {
  return handle == PLAIN_NOTHING ? 0 : p->pieces[handle_find(p, handle)].bytes;
}
