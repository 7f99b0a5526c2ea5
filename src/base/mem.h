/* Memory: one replaceable allocator and the arenas built on it.
 *
 * All heap memory of headroom and of jansson comes through hr__alloc/hr__realloc/hr__free, so that a test can fail the
 * n-th request and a run can count its own requests. Build stages do not free single objects: they take from an
 * hr_arena that is released whole.
 */
#ifndef HR_BASE_MEM_H
#define HR_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* realloc-style entry: size 0 frees, old NULL allocates. Must be thread-safe. */
typedef struct hr_allocator {
  void *(*realloc)(void *user, void *old, size_t size);
  void *user;
} hr_allocator;

/* Replaces the allocator for the process; NULL restores malloc. Call before anything is allocated. */
void hr_allocator_set(const hr_allocator *allocator);

void *hr__alloc(size_t bytes);                   /* NULL when out of memory; bytes == 0 gives a valid pointer */
void *hr__alloc_zero(size_t count, size_t size); /* checked product, zeroed */
void *hr__realloc(void *old, size_t bytes);
void hr__free(void *pointer);

/* Number of requests (alloc and realloc) so far in this process: the step loop asserts that it stands still. */
uint64_t hr__alloc_count(void);
/* Gives memory that was freed back to the system, as far as the C library can. */
void hr__alloc_trim(void);

/* An arena: bump allocation in chunks, released whole. Zero-initialised storage is a valid empty arena. */
typedef struct hr_arena {
  struct hr_arena_chunk *chunk; /* newest first */
  size_t used_bytes;            /* handed out since init */
} hr_arena;

void hr__arena_init(hr_arena *arena);
void hr__arena_fini(hr_arena *arena);
void *hr__arena_alloc(hr_arena *arena, size_t bytes); /* 16-byte aligned, zeroed; NULL when out of memory */
uint64_t hr__arena_bytes(const hr_arena *arena);      /* that it has taken from the heap */
void *hr__arena_array(hr_arena *arena, size_t count, size_t size); /* checked product, zeroed */
void *hr__arena_room(hr_arena *arena, size_t count,
                     size_t size);                       /* the same, holding anything: for what is filled whole */
char *hr__arena_text(hr_arena *arena, const char *text); /* a copy */
__attribute__((format(printf, 2, 3))) char *hr__arena_format(hr_arena *arena, const char *format, ...);

/* Makes room for one more element in an arena-backed growing array (doubling; the old storage stays in the arena). The
 * room holds anything. Returns 0, or -1 when out of memory. */
int hr__arena_grow(hr_arena *arena, void **items, size_t *capacity, size_t count, size_t item_bytes);

#endif
