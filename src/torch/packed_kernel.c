/* See packed_kernel.h. bitsandbytes measured up to how many rows its own kernels are the faster ones; they work on
 * tiles of 64 columns, and how often tiles of a product fill the GPU (a wave) decides together with the weight's form.
 */
#include "torch/packed_kernel.h"

enum { TILE = 64, BLOCK = 64, ROWS_ALWAYS = 4, ROWS_FEW = 8, ROWS_MOST = 1536, ROWS_LARGE = 512 };
static const int64_t SMALL_WEIGHT = 4 << 20; /* elements */

typedef struct product {
  int64_t in, out, tiles, gpu; /* gpu: its multiprocessors */
} product;

/* At least so many waves: numerator / denominator. */
static bool waves(const product *p, int64_t numerator, int64_t denominator) {
  return p->tiles * denominator >= p->gpu * numerator;
}

static bool is_hbm(int capability) {
  return capability == 80 || capability / 10 == 9;
}

/* --- up to how many rows --------------------------------------------------------------------------------------------
 */

static int64_t small_most(int capability, const product *p) {
  bool ampere = capability == 80, quarter = p->tiles * 4 <= p->gpu;
  if (p->in * 2 < p->out) {
    if (is_hbm(capability)) return waves(p, 1, 3) ? (ampere ? 512 : 320) : (ampere ? 1536 : 512);
    return waves(p, 1, 1) || p->tiles * p->in <= p->gpu * 320 ? 320 : 192;
  }
  if (ampere && quarter) return p->in < p->out ? 384 : p->tiles * 8 <= p->gpu ? 32 : 128;
  if (quarter) return p->in < p->out || is_hbm(capability) ? 32 : 23;
  return p->tiles * 2 <= p->gpu ? 16 : 0;
}

static int64_t a100_most(const product *p) {
  if (waves(p, 3, 1)) return 128;
  if (waves(p, 1, 1)) return p->in < p->out ? 64 : 32;
  if (p->in >= p->out * 3 && p->tiles * 4 > p->gpu) return 0;
  if (p->in == p->out && p->tiles >= 48 && !waves(p, 3, 5)) return 0;
  if (!waves(p, 1, 2)) {
    if (p->in <= p->out) return 128;
    if (waves(p, 1, 3)) return 0;
  }
  return p->tiles >= p->gpu / 2 && p->in < p->out ? 128 : 16;
}

static int64_t hopper_most(const product *p) {
  if (waves(p, 3, 1)) return 64;
  if (waves(p, 2, 1)) return 48;
  if (waves(p, 1, 1)) return 32;
  if (p->tiles < p->gpu / 2 || (p->in >= p->out && !waves(p, 3, 4))) return 0;
  return 16;
}

static int64_t a10_most(const product *p) {
  return waves(p, 1, 1) ? 128 : p->tiles >= p->gpu / 2 ? 64 : 16;
}

static int64_t rtx50_most(const product *p) {
  if (waves(p, 3, 1)) return 256;
  if (waves(p, 2, 1)) return 128;
  if (waves(p, 4, 5)) return p->in >= p->out ? 96 : 64;
  if (p->tiles >= p->gpu / 2) return p->in * 2 >= p->out && p->tiles >= 128 ? 64 : 8;
  return p->in > p->out * 2 && p->tiles > 64 ? 16 : 8;
}

/* Ada, and what has no row of its own. */
static int64_t ada_most(const product *p) {
  bool tall = p->in > p->out * 2;
  if (waves(p, 3, 1)) return 256;
  if (waves(p, 2, 1)) return 128;
  if (waves(p, 4, 5))
    return tall || p->tiles >= 200 || (p->in >= p->out && p->gpu >= 60) ? 128 : p->in >= p->out ? 32 : 64;
  if (p->tiles >= p->gpu / 2) return tall ? 64 : p->tiles >= 64 ? 8 : 32;
  if (p->in > p->out && p->tiles <= 48) return p->in >= p->out * 3 ? 12 : 10;
  return tall || p->tiles < 48 ? 16 : 8;
}

static int64_t large_most(int capability, const product *p) {
  if (capability == 80) return a100_most(p);
  if (capability == 86) return a10_most(p);
  if (capability / 10 == 9) return hopper_most(p);
  if (capability == 121 && waves(p, 1, 1)) return 256;
  return capability == 120 ? rtx50_most(p) : ada_most(p);
}

static int64_t b200_most(const product *p) {
  if (waves(p, 3, 1)) return 32;
  return waves(p, 1, 1) && p->in < p->out ? 8 : 0;
}

/* --- the choice
 * ------------------------------------------------------------------------------------------------------- */

/* Five to seven rows of a large weight: unpacking it costs most of the time, but where memory is fast and tiles are
 * few. */
static bool few_are_read(int capability, const product *p, int64_t rows) {
  bool hopper = capability / 10 == 9;
  if (!is_hbm(capability) || rows < 6 || p->tiles < (hopper ? 36 : 48)) return true;
  if (p->in > p->out) return waves(p, 3, 4);
  if (p->in < p->out) return true;
  return hopper ? waves(p, 3, 4) || !waves(p, 3, 5) : waves(p, 3, 5);
}

bool hr__packed_is_unpacked(const hr_packed_gpu *gpu, int64_t rows, int64_t in, int64_t out) {
  int capability = gpu->capability;
  product p = {.in = in, .out = out, .tiles = (out + TILE - 1) / TILE, .gpu = gpu->multiprocessors};
  if (rows > ROWS_MOST || in % BLOCK != 0) return true;
  if (rows <= ROWS_ALWAYS) return false;
  if (capability < 80) return rows >= ROWS_FEW; /* no bf16 */
  if (capability == 87 || capability / 10 == 11) return true;
  if (capability / 10 == 10) return rows > b200_most(&p);
  if (in * out < SMALL_WEIGHT) return rows > small_most(capability, &p);
  if (rows > ROWS_LARGE) return true;
  return rows < ROWS_FEW ? !few_are_read(capability, &p, rows) : rows > large_most(capability, &p);
}
