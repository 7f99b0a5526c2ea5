/* A block of a kernel on the CPU: its threads as fibers of one thread of the system, each with a stack of its own.
 *
 * A thread runs until it has to wait for others, then the next one that can run does: from the first to the last, or
 * from the last to the first (`backwards`), which is as allowed as any other order. What depends on the order shows by
 * running both ways. A thread that waits for what never comes ends the process with a message.
 */
#ifndef HR_TEST_CUDA_HOST_BLOCK_H
#define HR_TEST_CUDA_HOST_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include <functional>

#include "coordinates.h"

namespace emulated {

enum { LANES = 32 };
enum : unsigned char { POISON = 0xff }; /* NaN in every float type */

bool backwards(void); /* HEADROOM_EMULATE_ORDER=backwards */

/* Ends the process: what a kernel did that a GPU would not. */
[[noreturn]] void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* All blocks of a grid, one after another, each with `shared` bytes of shared memory that begin as poison. */
void grid_run(const char *kernel, dim3 grid, dim3 block, size_t shared, const std::function<void()> &thread);

/* ---- of the running thread ---- */

unsigned lane_number(void);
unsigned char *shared_memory(size_t *bytes); /* that the launch asked for */

void barrier(void);                /* __syncthreads */
void barrier_of(unsigned threads); /* the first ones of the block */

/* Lets others run until `there` holds. */
typedef bool condition(const void *sign);
void wait_for(condition *there, const void *sign);

/* Waits for all lanes of `mask` that have not ended to come here with the same mask and `complete`, which then runs
 * once: lanes[i] is what lane i brought, NULL of a lane that is not among them. */
typedef void completion(void *const *lanes);
void meet(uint32_t mask, completion *complete, void *mine);

/* A copy that is done when the thread waits for its copies, not before. from == NULL: zeros. */
void copy_later(void *to, const void *from, size_t bytes);
void copies_finish(void);

} // namespace emulated

#endif
