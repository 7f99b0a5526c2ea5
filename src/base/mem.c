/* The allocator and the arenas: see base/mem.h. */
#include "base/mem.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_POISONED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONED 1
#endif
#endif
#ifdef ARENA_POISONED
#include <sanitizer/asan_interface.h>
#define POISON(start, bytes)   ASAN_POISON_MEMORY_REGION(start, bytes)
#define UNPOISON(start, bytes) ASAN_UNPOISON_MEMORY_REGION(start, bytes)
#else
#define POISON(start, bytes)   ((void)(start), (void)(bytes))
#define UNPOISON(start, bytes) ((void)(start), (void)(bytes))
#endif

static void *system_realloc(void *user, void *old, size_t size) {
  (void)user;
  if (size) return realloc(old, size);
  free(old);
  return NULL;
}

static hr_allocator allocator = {system_realloc, NULL};
static _Atomic uint64_t request_count;

void hr_allocator_set(const hr_allocator *replacement) {
  allocator = replacement ? *replacement : (hr_allocator){system_realloc, NULL};
}

void *hr__realloc(void *old, size_t bytes) {
  atomic_fetch_add_explicit(&request_count, 1, memory_order_relaxed);
  return allocator.realloc(allocator.user, old, bytes ? bytes : 1);
}

void *hr__alloc(size_t bytes) {
  return hr__realloc(NULL, bytes);
}

void *hr__alloc_zero(size_t count, size_t size) {
  size_t bytes;
  if (!hr__mul_size(count, size, &bytes)) return NULL;
  void *pointer = hr__alloc(bytes);
  if (pointer) memset(pointer, 0, bytes);
  return pointer;
}

void hr__free(void *pointer) {
  if (pointer) allocator.realloc(allocator.user, pointer, 0);
}

void hr__alloc_trim(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

uint64_t hr__alloc_count(void) {
  return atomic_load_explicit(&request_count, memory_order_relaxed);
}

/* Chunks double from the first size up to the last; a request larger than the next chunk gets a chunk of its own. In
 * builds with AddressSanitizer everything not handed out is poisoned, with a gap behind each object, so that running
 * over the end of one is found although all lie in one block. */
enum { ARENA_ALIGN = 16, ARENA_FIRST = 4 << 10, ARENA_LAST = 1 << 20, ARENA_GAP = 16 };

struct hr_arena_chunk {
  struct hr_arena_chunk *older;
  size_t used, capacity; /* bytes behind this header */
};
_Static_assert(sizeof(struct hr_arena_chunk) % 8 == 0, "chunk header");
enum { ARENA_HEADER = (sizeof(struct hr_arena_chunk) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN };

static unsigned char *chunk_data(struct hr_arena_chunk *chunk) {
  return (unsigned char *)chunk + ARENA_HEADER;
}

static struct hr_arena_chunk *chunk_create(size_t capacity) {
  size_t total;
  if (!hr__add_size(capacity, ARENA_HEADER, &total)) return NULL;
  struct hr_arena_chunk *chunk = hr__alloc(total);
  if (!chunk) return NULL;
  *chunk = (struct hr_arena_chunk){.capacity = capacity};
  POISON(chunk_data(chunk), capacity);
  return chunk;
}

static void *chunk_take(struct hr_arena_chunk *chunk, size_t stride, size_t bytes) {
  void *object = chunk_data(chunk) + chunk->used;
  chunk->used += stride;
  UNPOISON(object, bytes);
  return object;
}

void hr__arena_init(hr_arena *arena) {
  *arena = (hr_arena){0};
}

void hr__arena_fini(hr_arena *arena) {
  for (struct hr_arena_chunk *chunk = arena->chunk, *older; chunk; chunk = older) {
    older = chunk->older;
    UNPOISON(chunk_data(chunk), chunk->capacity);
    hr__free(chunk);
  }
  *arena = (hr_arena){0};
}

uint64_t hr__arena_bytes(const hr_arena *arena) {
  uint64_t bytes = 0;
  for (const struct hr_arena_chunk *chunk = arena->chunk; chunk; chunk = chunk->older)
    bytes += ARENA_HEADER + chunk->capacity;
  return bytes;
}

static void *arena_take(hr_arena *arena, size_t bytes) {
  size_t stride;
#ifdef ARENA_POISONED
  if (!hr__add_size(bytes, ARENA_GAP, &stride) || !hr__round_up(stride, ARENA_ALIGN, &stride)) return NULL;
#else
  if (!hr__round_up(bytes ? bytes : 1, ARENA_ALIGN, &stride)) return NULL;
#endif
  struct hr_arena_chunk *newest = arena->chunk;
  if (!newest || newest->capacity - newest->used < stride) {
    size_t next = newest ? newest->capacity * 2 : ARENA_FIRST - ARENA_HEADER;
    if (next > ARENA_LAST - ARENA_HEADER) next = ARENA_LAST - ARENA_HEADER;
    struct hr_arena_chunk *chunk = chunk_create(stride > next ? stride : next);
    if (!chunk) return NULL;
    if (stride > next && newest) { /* a chunk of its own goes behind the newest, whose rest stays in use */
      chunk->older = newest->older;
      newest->older = chunk;
    } else {
      chunk->older = newest;
      arena->chunk = chunk;
    }
    newest = chunk;
  }
  arena->used_bytes += bytes;
  return chunk_take(newest, stride, bytes);
}

void *hr__arena_alloc(hr_arena *arena, size_t bytes) {
  void *object = arena_take(arena, bytes);
  return object ? memset(object, 0, bytes) : NULL;
}

void *hr__arena_array(hr_arena *arena, size_t count, size_t size) {
  size_t bytes;
  return hr__mul_size(count, size, &bytes) ? hr__arena_alloc(arena, bytes) : NULL;
}

void *hr__arena_room(hr_arena *arena, size_t count, size_t size) {
  size_t bytes;
  return hr__mul_size(count, size, &bytes) ? arena_take(arena, bytes) : NULL;
}

char *hr__arena_text(hr_arena *arena, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = arena_take(arena, bytes);
  return copy ? memcpy(copy, text, bytes) : NULL;
}

char *hr__arena_format(hr_arena *arena, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = length < 0 ? NULL : hr__arena_alloc(arena, (size_t)length + 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

int hr__arena_grow(hr_arena *arena, void **items, size_t *capacity, size_t count, size_t item_bytes) {
  if (count < *capacity) return 0;
  size_t larger;
  if (!hr__mul_size(*capacity ? *capacity : 4, 2, &larger)) return -1;
  void *grown = hr__arena_room(arena, larger, item_bytes);
  if (!grown) return -1;
  if (count) memcpy(grown, *items, count * item_bytes);
  *items = grown;
  *capacity = larger;
  return 0;
}
