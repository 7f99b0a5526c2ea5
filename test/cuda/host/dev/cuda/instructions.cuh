/* src/dev/cuda/instructions.cuh without a GPU: what each instruction does, by the layouts that PTX's manual has. */
#ifndef HR_DEV_CUDA_INSTRUCTIONS_CUH
#define HR_DEV_CUDA_INSTRUCTIONS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <stdint.h>

namespace emulated {

/* Whether a piece lies in the shared memory that the launch asked for, as all that is read and written here does. */
static inline unsigned char *shared_piece(const void *pointer, size_t bytes) {
  size_t room;
  unsigned char *begin = shared_memory(&room), *piece = (unsigned char *)pointer;
  if (piece < begin || piece + bytes > begin + room || (size_t)(piece - begin) % bytes != 0)
    broken("an instruction is given %zu bytes of shared memory at %td of %zu", bytes, piece - begin, room);
  return piece;
}

static inline float number_of(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
static inline float number_of(__half x) {
  return __half2float(x);
}
/* The low or the high number of a register. */
template <typename T> static float number(uint32_t word, int high) {
  T x;
  x.bits = (uint16_t)(word >> 16 * high);
  return number_of(x);
}

struct multiplied {
  float *d;
  const uint32_t *a;
  uint32_t b[2];
};

/* Products are exact in f32 and are added in the order of k, as f32; the GPU's own order is not documented. */
template <typename T> static void multiply_all(void *const *lanes) {
  float a[16][16], b[16][8], d[16][8];
  for (int lane = 0; lane < LANES; lane++) {
    const multiplied *m = (const multiplied *)lanes[lane];
    if (!m) broken("a lane is missing in a product of matrices");
    int q = lane / 4, t = lane % 4;
    for (int i = 0; i < 2; i++) {
      for (int word = 0; word < 4; word++)
        a[q + word % 2 * 8][2 * t + word / 2 * 8 + i] = number<T>(m->a[word], i);
      for (int word = 0; word < 2; word++)
        b[2 * t + word * 8 + i][q] = number<T>(m->b[word], i);
      for (int half = 0; half < 2; half++)
        d[q + half * 8][2 * t + i] = m->d[2 * half + i];
    }
  }
  for (int row = 0; row < 16; row++)
    for (int k = 0; k < 16; k++)
      for (int column = 0; column < 8; column++)
        d[row][column] += a[row][k] * b[k][column];
  for (int lane = 0; lane < LANES; lane++)
    for (int e = 0; e < 4; e++)
      ((const multiplied *)lanes[lane])->d[e] = d[lane / 4 + e / 2 * 8][lane % 4 * 2 + e % 2];
}

struct turned {
  uint32_t x, y;
};

static inline void turn_all(void *const *lanes) {
  for (int lane = 0; lane < LANES; lane++) {
    turned *to = (turned *)lanes[lane];
    if (!to) broken("a lane is missing where a matrix is transposed");
    to->y = 0;
    for (int i = 0; i < 2; i++) { /* (q, 2t + i) of the result is (2t + i, q) of what came */
      int row = lane % 4 * 2 + i, column = lane / 4;
      const turned *from = (const turned *)lanes[row * 4 + column / 2];
      if (from) to->y |= (from->x >> column % 2 * 16 & 0xffff) << 16 * i;
    }
  }
}

struct loaded {
  const unsigned char *row;
  uint32_t *to;
};

template <bool TRANSPOSED> static void load_all(void *const *lanes) {
  uint16_t matrices[4][8][8];
  for (int lane = 0; lane < LANES; lane++) {
    if (!lanes[lane]) broken("a lane is missing where matrices are loaded");
    memcpy(matrices[lane / 8][lane % 8], ((const loaded *)lanes[lane])->row, 16);
  }
  for (int lane = 0; lane < LANES; lane++)
    for (int m = 0; m < 4; m++) {
      uint32_t word = 0;
      for (int i = 0; i < 2; i++) {
        int row = lane / 4, column = lane % 4 * 2 + i;
        word |= (uint32_t)(TRANSPOSED ? matrices[m][column][row] : matrices[m][row][column]) << 16 * i;
      }
      ((const loaded *)lanes[lane])->to[m] = word;
    }
}

} // namespace emulated

template <typename T> static inline T *launch_shared(void) {
  size_t bytes;
  return (T *)emulated::shared_memory(&bytes);
}

/* Kernels run one after another. */
static inline void next_may_begin(void) {}
static inline void front_wait(void) {}

template <typename T> static void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated::multiplied mine = {d, a, {b0, b1}};
  emulated::meet(~0u, emulated::multiply_all<T>, &mine);
}
static inline uint32_t transposed(uint32_t x) {
  emulated::turned mine = {x, 0};
  emulated::meet(~0u, emulated::turn_all, &mine);
  return mine.y;
}
static inline void matrices_load(uint32_t (&to)[4], const void *row) {
  emulated::loaded mine = {emulated::shared_piece(row, 16), to};
  emulated::meet(~0u, emulated::load_all<false>, &mine);
}
static inline void matrices_load_transposed(uint32_t (&to)[4], const void *row) {
  emulated::loaded mine = {emulated::shared_piece(row, 16), to};
  emulated::meet(~0u, emulated::load_all<true>, &mine);
}

template <int BYTES> static inline void copy_start(void *to, const void *from, bool there) {
  static_assert(BYTES == 8 || BYTES == 16, "as wide as the instruction copies");
  if ((uintptr_t)from % BYTES != 0) emulated::broken("a copy to shared memory begins at no multiple of %d", BYTES);
  emulated::copy_later(emulated::shared_piece(to, BYTES), there ? from : nullptr, BYTES);
}
static inline void copy_word_start(void *to, const void *from, int bytes) {
  if ((uintptr_t)from % 4 != 0) emulated::broken("a word is copied to shared memory from no multiple of 4");
  emulated::copy_later(emulated::shared_piece(to, 4), nullptr, 4);
  if (bytes > 0) emulated::copy_later(to, from, bytes);
}
static inline void copies_wait(void) {
  emulated::copies_finish();
}

/* A sign: turns that have ended, and bytes that this one expects. Copies are done when they are asked for. */
struct bulk_turns {
  uint32_t ended, expected;
};
static inline bulk_turns *bulk_turns_of(uint64_t *sign) {
  return (bulk_turns *)emulated::shared_piece(sign, sizeof *sign);
}
static inline bool bulk_turn_ended(const void *sign, uint32_t turn) {
  return ((const bulk_turns *)sign)->ended % 2 != turn;
}
static inline void bulk_sign_make(uint64_t *sign) {
  *bulk_turns_of(sign) = {};
}
static inline void bulk_signs_made(void) {}
static inline void bulk_expect(uint64_t *sign, uint32_t bytes) {
  bulk_turns *turns = bulk_turns_of(sign);
  if (turns->expected > 0) emulated::broken("a copy to shared memory is expected while another one is under way");
  turns->expected = bytes;
}
static inline void bulk_start(void *to, const void *from, uint32_t bytes, uint64_t *sign) {
  bulk_turns *turns = bulk_turns_of(sign);
  if ((uintptr_t)from % 16 != 0 || bytes == 0 || bytes % 16 != 0 || bytes > turns->expected)
    emulated::broken("%u bytes from %p, of %u expected: multiples of 16 are copied to shared memory", bytes, from,
                     turns->expected);
  for (uint32_t at = 0; at < bytes; at += 16)
    memcpy(emulated::shared_piece((char *)to + at, 16), (const char *)from + at, 16);
  turns->expected -= bytes;
  if (turns->expected == 0) turns->ended++;
}
static inline void bulk_turn_end(uint64_t *sign) {
  bulk_turns_of(sign)->ended++;
}
static inline void bulk_wait(uint64_t *sign, uint32_t turn) {
  emulated::wait_for(
      turn == 0 ? [](const void *at) { return bulk_turn_ended(at, 0); }
                : [](const void *at) { return bulk_turn_ended(at, 1); },
      bulk_turns_of(sign));
}

template <int THREADS> static inline void threads_meet(void) {
  emulated::barrier_of(THREADS);
}

static inline void ask_ahead(const void *) {}

/* Blocks run one after another: only one that is alone may wait for all. */
static inline void count_up(unsigned *counted) {
  ++*counted;
}
static inline unsigned count_of(const unsigned *counted) {
  return *counted;
}

static inline uint32_t opaque(uint32_t x) {
  return x;
}
static inline float near_power_of_two(float x) {
  float y = exp2f(x);
  return y < 0x1p-126f ? 0.0f : y;
}
static inline float near_reciprocal(float x) {
  float y = 1.0f / x;
  return y < 0x1p-126f ? 0.0f : y;
}
static inline float near_root(float x) {
  return sqrtf(x);
}

#endif
