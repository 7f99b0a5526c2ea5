/* Faults for tests: memory that runs out at the n-th request.
 *
 * hr_test_faults_install() goes first in main(), before anything of headroom allocates: it sets an allocator that
 * counts requests and live bytes. hr_test_each_fault() then runs a body again and again, failing request 1, 2, 3, ...
 * once, and after that every request from n on, until the body succeeds untouched. At every n it demands HR_NOMEM and
 * no byte left.
 *
 * Test executables whose name holds "faults" are linked with libyaml's static library and wrapped malloc, calloc,
 * realloc and strdup (cmake/faults.cmake, test/support/wrap/malloc.c): hr_test_each_library_fault() does the same with
 * those. file_faults.h has the same for calls that write files.
 */
#ifndef HR_TEST_SUPPORT_FAULTS_H
#define HR_TEST_SUPPORT_FAULTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* What is put to the test. It must give back everything it took, whether it succeeds or fails, and return its status.
 */
typedef hr_status (*hr_test_body)(void *arg, hr_error *err);

void hr_test_faults_install(void);

/* Fails request `nth` (from 1) from now on, and all later ones when `lasting`. nth 0 disarms. */
void hr_test_faults_arm(size_t nth, bool lasting);
/* Disarms; whether a request was failed since hr_test_faults_arm. */
bool hr_test_faults_disarm(void);

size_t hr_test_live_bytes(void);
size_t hr_test_live_blocks(void);

/* Runs the loops described above; returns the number of faults injected. Fails the running test on any deviation. */
size_t hr_test_each_fault(hr_test_body body, void *arg);

/* The same for the malloc family as called by statically linked libraries and by the test itself. In executables that
 * are not wrapped it does nothing and returns 0. Bodies must balance these calls as well. */
size_t hr_test_each_library_fault(hr_test_body body, void *arg);

/* What test/support/wrap/malloc.c provides (NULL where it is not linked in). */
typedef struct hr_test_wrapped_malloc {
  void (*arm)(size_t nth, bool lasting);
  bool (*disarm)(void);
  size_t (*live_blocks)(void); /* taken and not given back since arm */
} hr_test_wrapped_malloc;
extern const hr_test_wrapped_malloc *hr_test_wrapped;

#endif
