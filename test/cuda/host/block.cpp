/* Fibers: contexts are made by makecontext and entered again by the compiler's own longjmp, which asks the system for
 * nothing: AddressSanitizer sees the C library's as the end of all frames, and takes longer over it than kernels take.
 * A fiber runs threads one after another; only one that waits keeps its fiber, so that kernels without barriers need
 * one. */
#include "block.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <memory>
#include <vector>

#include "sanitizer.h"
#include "statics.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulated {
namespace {

typedef void *place[5]; /* of __builtin_setjmp: a function that comes back there is not the one that goes */

enum { STACK_BYTES = 256 << 10, THREADS_MOST = 1024, WARPS_MOST = THREADS_MOST / LANES };

struct fiber {
  bool begun;
  place stopped;
  ucontext_t first;
  char *stack;
};

/* Fibers that no thread is on. Between two grids these are all: the plug-in may be closed then. */
struct idle_fibers : std::vector<fiber *> {
  ~idle_fibers() {
    for (fiber *f : *this) {
      munmap(f->stack, STACK_BYTES);
      delete f;
    }
  }
};

enum progress { UNBORN, READY, AT_BARRIER, AT_PART, MEETING, AT_SIGN, ENDED };

struct copy {
  void *to;
  const void *from;
  size_t bytes;
};

struct thread {
  progress state;
  fiber *on; /* while it has begun and not ended */
  uint3 index;
  /* while MEETING */
  uint32_t mask;
  completion *complete;
  void *mine;
  /* while AT_SIGN */
  condition *there;
  const void *sign;
  std::vector<copy> copies;
};

struct {
  const char *kernel;
  const std::function<void()> *body;
  thread threads[THREADS_MOST];
  unsigned count, ended, waiting, part; /* waiting: at the barrier; part: of it */
  uint32_t alive[WARPS_MOST], meeting[WARPS_MOST];
  unsigned at; /* the thread that runs */
  unsigned char *shared;
  size_t shared_bytes;
  place launcher; /* who started the block, and the stack of it */
  const void *launcher_stack;
  size_t launcher_bytes;
  bool launching; /* the next to run comes from there */
  idle_fibers idle;
} block;

const char *progress_name(progress state) {
  static const char *const names[] = {
      "not begun",          "ready", "at __syncthreads", "at a barrier of some warps", "at an exchange of its warp",
      "waiting for a sign", "ended"};
  return names[state];
}

[[noreturn]] void stuck(void) {
  unsigned some[ENDED + 1] = {}, first[ENDED + 1] = {};
  for (unsigned i = block.count; i-- > 0;)
    some[block.threads[i].state]++, first[block.threads[i].state] = i;
  fprintf(stderr, "block (%u, %u, %u) of %s cannot go on:\n", blockIdx.x, blockIdx.y, blockIdx.z, block.kernel);
  for (int s = 0; s <= ENDED; s++)
    if (some[s]) fprintf(stderr, "  %u threads %s, thread %u for one\n", some[s], progress_name((progress)s), first[s]);
  broken("threads wait for each other");
}

/* The next thread that can run, in the direction of this process; count: there is none. */
unsigned next_thread(void) {
  unsigned n = block.count, i = block.at;
  for (unsigned tried = 0; tried < n; tried++) {
    i = backwards() ? (i == 0 ? n - 1 : i - 1) : (i + 1 == n ? 0 : i + 1);
    const thread &t = block.threads[i];
    if (t.state <= READY || (t.state == AT_SIGN && t.there(t.sign))) return i;
  }
  return n;
}

void thread_set(unsigned i) {
  block.at = i;
  threadIdx = block.threads[i].index;
}

/* All lanes of a group are there: they go on with what the group made of what they brought. */
void group_complete(unsigned warp, uint32_t mask, completion *complete) {
  void *lanes[LANES] = {};
  for (unsigned lane = 0; lane < LANES; lane++) {
    if (!(mask >> lane & 1) || !(block.alive[warp] >> lane & 1)) continue;
    thread &t = block.threads[warp * LANES + lane];
    if (t.mask != mask || t.complete != complete)
      broken("%s: lanes of a warp meet with other lanes or at other exchanges in mind (mask %08x and %08x)",
             block.kernel, mask, t.mask);
    lanes[lane] = t.mine;
    t.state = READY;
  }
  block.meeting[warp] &= ~mask;
  complete(lanes);
}

/* Who has ended is waited for no longer. */
void thread_end(void) {
  thread &t = block.threads[block.at];
  unsigned warp = block.at / LANES;
  if (!t.copies.empty()) broken("%s: a thread ends with copies that it did not wait for", block.kernel);
  t.state = ENDED;
  block.ended++;
  block.alive[warp] &= ~(1u << block.at % LANES);
  for (unsigned lane = 0; lane < LANES; lane++)
    if (block.meeting[warp] >> lane & 1) {
      thread &other = block.threads[warp * LANES + lane];
      uint32_t expected = other.mask & block.alive[warp];
      if ((block.meeting[warp] & expected) == expected) group_complete(warp, other.mask, other.complete);
    }
  if (block.waiting > 0 && block.waiting + block.ended == block.count)
    broken("%s: threads wait at __syncthreads, others of the block have ended", block.kernel);
}

/* Goes to a fiber or, without one, to the launcher. */
[[noreturn]] __attribute__((noinline)) void go(fiber *to) {
  if (!to) {
    stack_leave(block.launcher_stack, block.launcher_bytes);
    __builtin_longjmp(block.launcher, 1);
  }
  stack_leave(to->stack, STACK_BYTES);
  if (to->begun) __builtin_longjmp(to->stopped, 1);
  to->begun = true;
  setcontext(&to->first);
  broken("a fiber cannot be entered");
}

/* Behind every way to come to a fiber. */
void arrive(void) {
  const void *from = nullptr;
  size_t bytes = 0;
  stack_arrive(&from, &bytes);
  if (block.launching) block.launcher_stack = from, block.launcher_bytes = bytes;
  block.launching = false;
}

void fiber_body(void) {
  arrive();
  for (;;) {
    thread &t = block.threads[block.at];
    fiber *own = t.on;
    (*block.body)();
    thread_end();
    t.on = nullptr;
    unsigned next = next_thread();
    if (next < block.count && block.threads[next].state == UNBORN) {
      thread_set(next);
      block.threads[next].on = own;
      block.threads[next].state = READY;
      continue;
    }
    if (next == block.count && block.ended < block.count) stuck();
    block.idle.push_back(own);
    if (__builtin_setjmp(own->stopped) == 0) {
      if (next < block.count) thread_set(next);
      go(next < block.count ? block.threads[next].on : nullptr);
    }
    arrive();
  }
}

fiber *fiber_make(void) {
  fiber *f = new fiber();
  f->stack =
      (char *)mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (f->stack == MAP_FAILED) broken("no memory for the stack of a thread");
  mprotect(f->stack, 4096, PROT_NONE); /* a stack that is too small is found, not overrun */
  getcontext(&f->first);
  f->first.uc_stack.ss_sp = f->stack;
  f->first.uc_stack.ss_size = STACK_BYTES;
  f->first.uc_link = nullptr;
  makecontext(&f->first, fiber_body, 0);
  return f;
}

/* Goes to thread `next`, on an idle fiber where it has not begun. */
[[noreturn]] void enter(unsigned next) {
  thread &t = block.threads[next];
  thread_set(next);
  if (t.state == UNBORN) {
    t.state = READY;
    if (block.idle.empty()) block.idle.push_back(fiber_make());
    t.on = block.idle.back();
    block.idle.pop_back();
  }
  go(t.on);
}

/* Lets others run until the thread is ready again. */
__attribute__((noinline)) void wait(void) {
  unsigned own = block.at;
  unsigned next = next_thread();
  if (next == block.count) stuck();
  if (__builtin_setjmp(block.threads[own].on->stopped) == 0) enter(next);
  arrive();
}

__attribute__((noinline)) void block_run(void) {
  block.launching = true;
  if (__builtin_setjmp(block.launcher) == 0) enter(backwards() ? block.count - 1 : 0);
  const void *from;
  size_t bytes;
  stack_arrive(&from, &bytes);
}

void block_begin(dim3 size, unsigned count) {
  block.count = count;
  block.ended = block.waiting = block.part = 0;
  memset(block.meeting, 0, sizeof block.meeting);
  memset(block.alive, 0, sizeof block.alive);
  for (unsigned i = 0; i < count; i++) {
    thread &t = block.threads[i];
    t.state = UNBORN;
    t.on = nullptr;
    t.index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
    block.alive[i / LANES] |= 1u << i % LANES;
  }
}

} // namespace

bool backwards(void) {
  static const bool chosen = [] {
    const char *order = getenv("HEADROOM_EMULATE_ORDER");
    if (order && *order && strcmp(order, "forwards") != 0 && strcmp(order, "backwards") != 0)
      broken("HEADROOM_EMULATE_ORDER is forwards or backwards, not %s", order);
    return order && strcmp(order, "backwards") == 0;
  }();
  return chosen;
}

void broken(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("emulated GPU: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  abort();
}

void grid_run(const char *kernel, dim3 grid, dim3 size, size_t shared, const std::function<void()> &thread) {
  std::unique_ptr<unsigned char[]> memory(new unsigned char[shared]); /* not a byte more, for sanitizers */
  block.kernel = kernel;
  block.body = &thread;
  block.shared = memory.get();
  block.shared_bytes = shared;
  gridDim = grid;
  blockDim = size;
  uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
  statics_poison(POISON);
  for (uint64_t i = 0; i < blocks; i++) {
    uint64_t b = backwards() ? blocks - 1 - i : i;
    blockIdx = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y), (unsigned)(b / grid.x / grid.y)};
    memset(memory.get(), POISON, shared);
    block_begin(size, size.x * size.y * size.z);
    block_run();
  }
}

unsigned lane_number(void) {
  return block.at % LANES;
}

unsigned char *shared_memory(size_t *bytes) {
  *bytes = block.shared_bytes;
  return block.shared;
}

void barrier(void) {
  thread &t = block.threads[block.at];
  if (block.ended > 0) broken("%s: a thread comes to __syncthreads, others of the block have ended", block.kernel);
  if (++block.waiting < block.count) {
    t.state = AT_BARRIER;
    wait();
    return;
  }
  block.waiting = 0;
  for (unsigned i = 0; i < block.count; i++)
    block.threads[i].state = READY;
}

void barrier_of(unsigned threads) {
  thread &t = block.threads[block.at];
  if (block.at >= threads || threads > block.count)
    broken("%s: thread %u comes to a barrier of the first %u", block.kernel, block.at, threads);
  if (++block.part < threads) {
    t.state = AT_PART;
    wait();
    return;
  }
  block.part = 0;
  for (unsigned i = 0; i < threads; i++)
    block.threads[i].state = READY;
}

void wait_for(condition *there, const void *sign) {
  thread &t = block.threads[block.at];
  if (there(sign)) return;
  t.there = there;
  t.sign = sign;
  t.state = AT_SIGN;
  wait();
  t.state = READY;
}

void meet(uint32_t mask, completion *complete, void *mine) {
  unsigned warp = block.at / LANES, lane = block.at % LANES;
  thread &t = block.threads[block.at];
  if (!(mask >> lane & 1)) broken("%s: a lane is not of the mask it names (%08x)", block.kernel, mask);
  t.mask = mask;
  t.complete = complete;
  t.mine = mine;
  t.state = MEETING;
  block.meeting[warp] |= 1u << lane;
  uint32_t expected = mask & block.alive[warp];
  if ((block.meeting[warp] & expected) == expected)
    group_complete(warp, mask, complete);
  else
    wait();
}

void copy_later(void *to, const void *from, size_t bytes) {
  block.threads[block.at].copies.push_back({to, from, bytes});
}

void copies_finish(void) {
  std::vector<copy> &copies = block.threads[block.at].copies;
  for (const copy &c : copies) {
    if (c.from)
      memcpy(c.to, c.from, c.bytes);
    else
      memset(c.to, 0, c.bytes);
  }
  copies.clear();
}

} // namespace emulated
