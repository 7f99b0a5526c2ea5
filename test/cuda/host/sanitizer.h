/* AddressSanitizer has to be told when a thread goes on on another stack; without it these do nothing. */
#ifndef HR_TEST_CUDA_HOST_SANITIZER_H
#define HR_TEST_CUDA_HOST_SANITIZER_H

#include <stddef.h>

#if HR_ASAN
#include <sanitizer/common_interface_defs.h>
/* Right before going to a stack. */
static inline void stack_leave(const void *to, size_t bytes) {
  __sanitizer_start_switch_fiber(nullptr, to, bytes);
}
/* Right after coming; *from: the stack that was left. */
static inline void stack_arrive(const void **from, size_t *bytes) {
  __sanitizer_finish_switch_fiber(nullptr, from, bytes);
}
#else
static inline void stack_leave(const void *, size_t) {}
static inline void stack_arrive(const void **, size_t *) {}
#endif

#endif
