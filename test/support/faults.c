/* The failing allocator: see support/faults.h. Blocks carry their size in front, so that live bytes can be counted. */
#include "support/faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

enum { FRONT = 16, MOST_FAULTS = 200000 };

/* Under the sanitizers requests behind these fail in one of the two manners, odd and even ones in turns: the build
 * without them goes through all. */
#ifdef HR_ASAN
enum { BOTH_MANNERS = 64 };
#else
enum { BOTH_MANNERS = MOST_FAULTS };
#endif

static _Atomic size_t live_bytes, live_blocks;
static _Atomic size_t requests, failing; /* requests since arm; the one that fails, 0: none */
static _Atomic bool from_then_on, fired;

const hr_test_wrapped_malloc *hr_test_wrapped;

static bool request_fails(void) {
  size_t number = atomic_fetch_add(&requests, 1) + 1, at = atomic_load(&failing);
  bool fails = at && (number == at || (number > at && atomic_load(&from_then_on)));
  if (fails) atomic_store(&fired, true);
  return fails;
}

static void *counting_realloc(void *user, void *old, size_t size) {
  (void)user;
  unsigned char *front = old ? (unsigned char *)old - FRONT : NULL;
  size_t before = 0;
  if (front) memcpy(&before, front, sizeof before);
  if (!size) {
    if (front) {
      atomic_fetch_sub(&live_bytes, before);
      atomic_fetch_sub(&live_blocks, 1);
    }
    free(front);
    return NULL;
  }
  if (request_fails() || size > SIZE_MAX - FRONT) return NULL;
  unsigned char *grown = realloc(front, size + FRONT);
  if (!grown) return NULL;
  memcpy(grown, &size, sizeof size);
  atomic_fetch_add(&live_bytes, size - before);
  if (!front) atomic_fetch_add(&live_blocks, 1);
  return grown + FRONT;
}

void hr_test_faults_install(void) {
  static const hr_allocator counting = {counting_realloc, NULL};
  hr_allocator_set(&counting);
}

void hr_test_faults_arm(size_t nth, bool lasting) {
  atomic_store(&requests, 0);
  atomic_store(&fired, false);
  atomic_store(&from_then_on, lasting);
  atomic_store(&failing, nth);
}

bool hr_test_faults_disarm(void) {
  atomic_store(&failing, 0);
  return atomic_load(&fired);
}

size_t hr_test_live_bytes(void) {
  return atomic_load(&live_bytes);
}

size_t hr_test_live_blocks(void) {
  return atomic_load(&live_blocks);
}

static size_t own_live(void) {
  return hr_test_live_bytes();
}

static size_t next_fault(size_t nth, int lasting) {
  do
    nth++;
  while (nth > BOTH_MANNERS && nth % 2 != (size_t)lasting);
  return nth;
}

static size_t each_fault(const hr_test_wrapped_malloc *calls, hr_test_body body, void *arg) {
  size_t injected = 0;
  for (int lasting = 0; lasting < 2; lasting++) {
    for (size_t nth = 1;; nth = next_fault(nth, lasting)) {
      if (nth > MOST_FAULTS) fail_msg("still failing at request %zu", nth);
      hr_error err = {0};
      size_t ours = hr_test_live_bytes(), theirs = calls->live_blocks();
      calls->arm(nth, lasting);
      hr_status status = body(arg, &err);
      bool hit = calls->disarm();
      if (hr_test_live_bytes() != ours || calls->live_blocks() != theirs)
        fail_msg("request %zu fails (%s): %zu bytes, %zu blocks leaked", nth, lasting ? "lasting" : "once",
                 hr_test_live_bytes() - ours, calls->live_blocks() - theirs);
      if (!hit) {
        if (status != HR_OK) fail_msg("no fault, yet %s: %s", hr_status_name(status), err.message);
        break;
      }
      if (status != HR_NOMEM)
        fail_msg("request %zu fails (%s): %s instead of HR_NOMEM: %s", nth, lasting ? "lasting" : "once",
                 hr_status_name(status), err.message);
      injected++;
    }
  }
  return injected;
}

size_t hr_test_each_fault(hr_test_body body, void *arg) {
  static const hr_test_wrapped_malloc own = {hr_test_faults_arm, hr_test_faults_disarm, own_live};
  return each_fault(&own, body, arg);
}

size_t hr_test_each_library_fault(hr_test_body body, void *arg) {
  return hr_test_wrapped ? each_fault(hr_test_wrapped, body, arg) : 0;
}
