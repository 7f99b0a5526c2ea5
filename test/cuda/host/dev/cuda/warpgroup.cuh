/* src/dev/cuda/warpgroup.cuh without a GPU. Products and copies are done where they are started: what is not waited for
 * is not found. */
#ifndef HR_DEV_CUDA_WARPGROUP_CUH
#define HR_DEV_CUDA_WARPGROUP_CUH

#include "dev/cuda/instructions.cuh"

static inline uint64_t matrices_at(const void *first, uint32_t along, uint32_t across) {
  size_t room, at = (size_t)(emulated::shared_piece(first, 16) - emulated::shared_memory(&room));
  if (along % 16 != 0 || across % 16 != 0) emulated::broken("matrices are no multiple of 16 bytes apart");
  return (uint64_t)(at >> 4) | (uint64_t)(along >> 4) << 16 | (uint64_t)(across >> 4) << 32;
}

static inline void products_begin(void) {}
static inline void products_end(void) {}
template <int GROUPS> static inline void products_wait(void) {}

namespace emulated {

/* Number `k` of what is summed over, `n` of the other axis. */
template <typename T> static float matrices_number(uint64_t matrices, int k, int n) {
  size_t room;
  const unsigned char *begin = shared_memory(&room);
  size_t at = (matrices & 0x3fff) * 16 + (matrices >> 16 & 0x3fff) * 16 * (size_t)(k / 8) +
              (matrices >> 32 & 0x3fff) * 16 * (size_t)(n / 8) + (size_t)(n % 8) * 16 + (size_t)(k % 8) * 2;
  if (at + 2 > room) broken("a product reads %zu bytes behind the shared memory of its launch", at + 2 - room);
  T x;
  memcpy(&x.bits, begin + at, 2);
  return number_of(x);
}

struct warpgroup_multiplied {
  float *d;
  uint64_t a, b;
  bool more;
};

/* A warp's rows; products are added in the order of k, as f32. */
template <typename T> static void warpgroup_multiply_all(void *const *lanes) {
  for (int lane = 0; lane < LANES; lane++)
    if (!lanes[lane]) broken("a lane is missing in a product of a warpgroup");
  const warpgroup_multiplied *first = (const warpgroup_multiplied *)lanes[0];
  int rows = (int)(thread_number() / LANES % 4) * 16;
  static float a[16][16], b[128][16];
  for (int k = 0; k < 16; k++) {
    for (int row = 0; row < 16; row++)
      a[row][k] = matrices_number<T>(first->a, k, rows + row);
    for (int column = 0; column < 128; column++)
      b[column][k] = matrices_number<T>(first->b, k, column);
  }
  for (int lane = 0; lane < LANES; lane++) {
    const warpgroup_multiplied *m = (const warpgroup_multiplied *)lanes[lane];
    if (m->a != first->a || m->b != first->b || m->more != first->more)
      broken("lanes of a warpgroup multiply other matrices");
    for (int i = 0; i < 64; i++) {
      int row = lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      float sum = m->more ? m->d[i] : 0.0f;
      for (int k = 0; k < 16; k++)
        sum += a[row][k] * b[column][k];
      m->d[i] = sum;
    }
  }
}

/* A barrier: arrivals that a round still waits for, those that each waits for, its parity, bytes to come. */
struct rounds {
  uint16_t left, arrivals;
  uint8_t parity, there;
  uint16_t bytes; /* in units of 16 */
};
static_assert(sizeof(rounds) == sizeof(uint64_t), "as large as the GPU's");

static inline rounds *rounds_of(uint64_t *barrier) {
  rounds *r = (rounds *)shared_piece(barrier, 8);
  if (r->there != 1) broken("a barrier in shared memory is used before rounds_init");
  return r;
}
static inline void rounds_step(rounds *r) {
  progress_made();
  if (r->left > 0 || r->bytes > 0) return;
  r->left = r->arrivals;
  r->parity ^= 1;
}
static inline void rounds_arrive(rounds *r) {
  if (r->left == 0) broken("more threads arrive at a barrier in shared memory than it was made for");
  r->left--;
}

} // namespace emulated

template <typename T> static inline void warpgroup_multiply(float (&d)[64], uint64_t a, uint64_t b, bool more) {
  emulated::warpgroup_multiplied mine = {d, a, b, more};
  emulated::meet(~0u, emulated::warpgroup_multiply_all<T>, &mine);
}

static inline void stores_publish(void) {}
template <int N> static inline void registers_give(void) {}
template <int N> static inline void registers_take(void) {}

static inline void rounds_init(uint64_t *barrier, int arrivals) {
  emulated::rounds *r = (emulated::rounds *)emulated::shared_piece(barrier, 8);
  *r = {(uint16_t)arrivals, (uint16_t)arrivals, 0, 1, 0};
}
static inline void rounds_publish(void) {}
static inline void round_arrive(uint64_t *barrier) {
  emulated::rounds *r = emulated::rounds_of(barrier);
  emulated::rounds_arrive(r);
  emulated::rounds_step(r);
}
static inline void round_expect(uint64_t *barrier, int bytes) {
  emulated::rounds *r = emulated::rounds_of(barrier);
  emulated::rounds_arrive(r);
  r->bytes = (uint16_t)(r->bytes + bytes / 16);
}
static inline void round_wait(uint64_t *barrier, int parity) {
  while (emulated::rounds_of(barrier)->parity == parity)
    emulated::others_run();
}
static inline void copy_bytes_start(void *to, const void *from, int bytes, uint64_t *barrier) {
  if ((uintptr_t)from % 16 != 0 || bytes % 16 != 0)
    emulated::broken("a copy of bytes to shared memory begins at or has no multiple of 16");
  memcpy(emulated::shared_piece(to, 16), from, (size_t)bytes);
  emulated::rounds *r = emulated::rounds_of(barrier);
  r->bytes = (uint16_t)(r->bytes - bytes / 16);
  emulated::rounds_step(r);
}

#endif
