/* malloc, calloc, realloc, strdup and free as statically linked code sees them when linked with -Wl,--wrap (see
 * cmake/faults.cmake): libyaml's, when its static library is linked in. The real functions stay those of libc or of a
 * sanitizer. While armed, blocks are counted and requests fail; headroom's own allocator (system_realloc) is
 * counted along, since it stands on the same functions.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/faults.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
void __real_free(void *pointer);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *pointer);

static _Atomic size_t requests, failing, live;
static _Atomic bool armed, from_then_on, fired;

static bool request_fails(void) {
  if (!atomic_load(&armed)) return false;
  size_t number = atomic_fetch_add(&requests, 1) + 1, at = atomic_load(&failing);
  bool fails = number == at || (number > at && atomic_load(&from_then_on));
  if (fails) atomic_store(&fired, true);
  return fails;
}

static void *counted(void *pointer) {
  if (pointer && atomic_load(&armed)) atomic_fetch_add(&live, 1);
  return pointer;
}

void *__wrap_malloc(size_t bytes) {
  return request_fails() ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes) {
  return request_fails() ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *old, size_t bytes) {
  if (request_fails()) return NULL;
  return old ? __real_realloc(old, bytes) : counted(__real_realloc(old, bytes));
}

char *__wrap_strdup(const char *text) {
  return request_fails() ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *pointer) {
  if (pointer && atomic_load(&armed)) atomic_fetch_sub(&live, 1);
  __real_free(pointer);
}

static void wrapped_arm(size_t nth, bool lasting) {
  atomic_store(&requests, 0);
  atomic_store(&fired, false);
  atomic_store(&from_then_on, lasting);
  atomic_store(&failing, nth);
  atomic_store(&armed, true);
}

static bool wrapped_disarm(void) {
  atomic_store(&armed, false);
  return atomic_load(&fired);
}

static size_t wrapped_live(void) {
  return atomic_load(&live);
}

static const hr_test_wrapped_malloc wrapped = {wrapped_arm, wrapped_disarm, wrapped_live};

__attribute__((constructor)) static void wrapped_offer(void) {
  hr_test_wrapped = &wrapped;
}
