/* Products cut into tiles: the grid, the copies, and the run on the pool.
 *
 * oneDNN is fast, and its scratch bounded by a constant, only when A, B and C are dense (no gap between rows) and A is
 * not transposed. A tile's operand that is otherwise, or that is not of the type the product is computed in, goes
 * through a dense copy in the worker's workspace. Products are computed in f32, or in bf16 where the processor has it.
 * The grid is chosen so that most f32 products need no copies at all: only m is cut, which leaves rows of A and C
 * whole. k is cut where A or B is copied, to bound the copies; the pieces along k of one tile run one after the other
 * and add up in C (a 16-bit C is an f32 copy until it is complete).
 *
 * Every dimension is cut into equal pieces (the last may be shorter), so that a product needs only a few library
 * objects: one per combination of {whole, last} piece and of writing or adding.
 *
 * A row of C has the same bits however many rows there are: how k is cut does not depend on m, the library's kernels
 * for AVX-512 hold the rest, and on processors without it tiles are multiplied by dev/cpu/rowwise.c, with k always cut
 * in the same pieces. That takes any distance between rows, so its copies are some of those that the library needs.
 */
#include "dev/cpu/gemm.h"

#include "base/mem.h"
#include "dev/cpu/matrix.h"
#include "dev/cpu/onednn.h"
#include "dev/cpu/rowwise.h"

/* Largest pieces, by measurement on cores with 1.25 MiB of second-level cache: the copies of one tile stay in it. */
enum {
  TILE_M = 256,
  TILE_M_LEAST = 32,   /* where m is cut further, into a multiple of TILES_LEAST: as much for each of 2 or 4 cores */
  TILE_N = 512,        /* where n is cut */
  TILE_K = 256,        /* where k is cut; pieces of A are transposed or converted */
  TILE_K_DENSE = 1024, /* the same where only B is copied */
  TILES_LEAST = 4      /* fewer along m: n is cut too */
};

/* One dimension: `count` pieces of `step`, the last of `last`. */
typedef struct cut {
  int64_t step, last, count;
} cut;

/* Where a worker's part of the workspace keeps things, in bytes from its start. */
typedef struct slice {
  size_t a, b, c; /* copies of tiles; only where used */
  size_t scratch, scratch_bytes;
  size_t bytes;
} slice;

typedef struct layout {
  cut m, n, k;
  hr_dtype type; /* of A and B as they are multiplied; copies of C are f32 */
  bool rowwise;  /* not by the library */
  bool copy_a, copy_b, copy_c;
  slice slice;
} layout;

enum { KIND_ADD = 1, KIND_LAST_K = 2, KIND_LAST_N = 4, KIND_LAST_M = 8, KINDS = HR_GEMM_TILES };

struct hr_gemm {
  hr_gemm_spec spec;
  layout layout;
  int threads;
  int vector_bytes; /* of the processor */
  const void *user;
  hr_dnn_product *products[KINDS]; /* NULL: this kind of tile does not occur, or not in the library */
};

static int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static int64_t round_to(int64_t a, int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Equal pieces of at most `most`, multiples of `grain` where there are several. */
static cut cut_of(int64_t size, int64_t most, int64_t grain) {
  int64_t step = size <= most ? size : smaller(round_to(ceil_div(size, ceil_div(size, most)), grain), most);
  int64_t count = ceil_div(size, step);
  return (cut){step, size - (count - 1) * step, count};
}

/* m: tiles of at most TILE_M; where there are few, a multiple of TILES_LEAST of them. */
static cut cut_rows(int64_t m) {
  int64_t count = ceil_div(m, TILE_M);
  if (count < 2 * TILES_LEAST) count = smaller(round_to(count, TILES_LEAST), ceil_div(m, TILE_M_LEAST));
  return cut_of(m, round_to(ceil_div(m, count), 16), 16);
}

static size_t tile_bytes(int64_t rows, int64_t columns, hr_dtype dtype) {
  return ((size_t)rows * (size_t)columns * hr_dtype_bytes(dtype) + 63) & ~(size_t)63;
}

/* What the library's scratch may be for dense operands: 64 columns of B repacked for at most 1024 of k, and a block of
 * C of at most 256 rows; measured on version 2.6, doubled for others. With AMX it also repacks A, keeps more columns of
 * C and the tiles: there 0.24 to 0.41 MB have been seen for 256 rows and a short k. Where the library's first choice
 * wants more, it takes another one, at worst in f32. */
static size_t scratch_cap(const layout *l) {
  int64_t k = smaller(round_to(l->k.step, 64), 1024), m = smaller(l->m.step, 256);
  size_t cap = 2 * (tile_bytes(64, k, HR_F32) + tile_bytes(64, m, HR_F32) + 2048);
  if (l->type != HR_BF16 || !hr__dnn_tiles()) return cap;
  return cap + 2 * tile_bytes(m, k, HR_BF16) + tile_bytes(m, smaller(round_to(l->n.step, 64), 256), HR_F32) + 65536;
}

/* Whether bf16 is the type to multiply in, where the processor has it. */
static bool spec_narrow(const hr_gemm_spec *spec) {
  bool f16 = spec->a == HR_F16 || spec->b == HR_F16; /* has more bits: multiplied in f32 */
  return !f16 && (spec->a == HR_BF16 || spec->b == HR_BF16);
}

/* Whether pieces of n would let the library's products be cut along k, which many rows leave whole: columns of a B that
 * is not transposed are copied, and the copies of a deep one are bounded. */
static bool pieces_cut_k(const hr_gemm_spec *spec, const layout *l) {
  bool cut_anyway = spec->transpose_a || spec->lda != spec->k; /* A is copied */
  return !l->rowwise && !cut_anyway && !spec->transpose_b && spec->k > TILE_K_DENSE;
}

/* Cuts m; and n where whole rows of B or C would have to be copied, or where m alone gives too few tiles for several
 * cores (logits) and sums stay what they are. */
static void grid_choose(const hr_gemm_spec *spec, layout *l) {
  bool gaps = spec->ldc != spec->n || (!spec->transpose_b && spec->ldb != spec->n);
  bool copies = gaps || spec->a != l->type || spec->b != l->type || (spec->c != HR_F32 && spec->c != l->type);
  l->m = cut_rows(spec->m);
  bool wide = l->m.count < TILES_LEAST && !spec->transpose_a && !pieces_cut_k(spec, l);
  l->n = cut_of(spec->n, copies || wide ? TILE_N : spec->n, 64);
}

/* Rowwise, every tile along m packs its columns of B. Where A and C stay in place: as many tiles, but along n. */
static void grid_turn(const hr_gemm_spec *spec, layout *l) {
  int64_t tiles = l->m.count * l->n.count;
  cut m = cut_of(spec->m, TILE_M, 16), n = cut_of(spec->n, round_to(ceil_div(spec->n, tiles / m.count), 64), 64);
  if (m.count * n.count != tiles) return;
  l->m = m;
  l->n = n;
}

/* Cuts k, and says what is copied: what the library would be slow with. */
static void copies_choose(const hr_gemm_spec *spec, layout *l) {
  bool whole_n = l->n.count == 1;
  l->copy_a = spec->transpose_a || spec->lda != spec->k || spec->a != l->type;
  l->copy_b =
      spec->ldb != (spec->transpose_b ? spec->k : spec->n) || !(spec->transpose_b || whole_n) || spec->b != l->type;
  l->k = cut_of(spec->k, l->copy_a ? TILE_K : l->copy_b ? TILE_K_DENSE : spec->k, 64);
  if (l->k.count > 1 && !spec->transpose_a) l->copy_a = true;
  if (l->k.count > 1 && spec->transpose_b) l->copy_b = true;
  l->copy_c = spec->ldc != spec->n || !whole_n || (spec->c != HR_F32 && (spec->c != l->type || l->k.count > 1));
}

static void copies_choose_rowwise(const hr_gemm_spec *spec, layout *l) {
  l->copy_a = spec->transpose_a || spec->a != HR_F32;
  l->copy_b = spec->b != HR_F32;
  l->copy_c = spec->c != HR_F32;
  l->k = cut_of(spec->k, HR_ROWWISE_K, 64);
  if (!l->copy_a && !l->copy_c) grid_turn(spec, l);
}

static layout layout_of(const hr_gemm_spec *spec, hr_dtype type, bool rowwise) {
  layout l = {.type = type, .rowwise = rowwise};
  grid_choose(spec, &l);
  if (rowwise)
    copies_choose_rowwise(spec, &l);
  else
    copies_choose(spec, &l);

  size_t at = 0;
  l.slice.a = at;
  if (l.copy_a) at += tile_bytes(l.m.step, l.k.step, type);
  l.slice.b = at;
  if (l.copy_b) at += tile_bytes(l.n.step, l.k.step, type);
  l.slice.c = at;
  if (l.copy_c) at += tile_bytes(l.m.step, l.n.step, HR_F32);
  l.slice.scratch = at;
  l.slice.scratch_bytes = rowwise ? hr__rowwise_bytes(l.k.step) : scratch_cap(&l);
  l.slice.bytes = at + l.slice.scratch_bytes;
  return l;
}

static size_t layout_bytes(const layout *l, int threads) {
  int64_t workers = smaller(threads, l->m.count * l->n.count);
  return (size_t)(workers < 1 ? 1 : workers) * l->slice.bytes;
}

static size_t workspace_find(const hr_gemm_spec *spec, int threads) {
  /* Which type the processor multiplies, and by what, is not known here: the largest. */
  layout ways[3] = {layout_of(spec, HR_F32, false), layout_of(spec, HR_F32, true)};
  ways[2] = spec_narrow(spec) ? layout_of(spec, HR_BF16, false) : ways[0];
  size_t most = 0;
  for (int way = 0; way < 3; way++) {
    size_t bytes = layout_bytes(&ways[way], threads);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* A search asks for the same few shapes thousands of times: each thread keeps its latest answers. */
size_t hr__gemm_workspace(const hr_gemm_spec *spec, int threads) {
  enum { KEPT = 64 };
  static _Thread_local struct {
    hr_gemm_spec spec;
    int threads;
    size_t bytes;
  } kept[KEPT];
  if (spec->m < 1 || spec->n < 1 || spec->k < 1) return 0;
  size_t at = (size_t)hr__gemm_spec_hash(spec) % KEPT;
  if (kept[at].threads == threads && hr__gemm_spec_equal(&kept[at].spec, spec)) return kept[at].bytes;
  kept[at].spec = *spec;
  kept[at].threads = threads;
  return kept[at].bytes = workspace_find(spec, threads);
}

/* The library product for one kind of tile. */
static hr_gemm_spec tile_spec(const hr_gemm_spec *spec, const layout *l, int kind) {
  hr_gemm_spec tile = *spec;
  tile.m = kind & KIND_LAST_M ? l->m.last : l->m.step;
  tile.n = kind & KIND_LAST_N ? l->n.last : l->n.step;
  tile.k = kind & KIND_LAST_K ? l->k.last : l->k.step;
  tile.accumulate = kind & KIND_ADD;
  tile.a = tile.b = l->type;
  tile.transpose_a = false;
  if (l->copy_a) tile.lda = tile.k;
  if (l->copy_b) tile.ldb = tile.transpose_b ? tile.k : tile.n;
  if (l->copy_c) tile.c = HR_F32, tile.ldc = tile.n;
  return tile;
}

/* Whole pieces and the last one share a kind when they are equal. */
static int tile_kind(const hr_gemm_spec *spec, const layout *l, int64_t i, int64_t j, int64_t p) {
  int kind = spec->accumulate || p > 0 ? KIND_ADD : 0;
  if (i == l->m.count - 1 && l->m.last != l->m.step) kind |= KIND_LAST_M;
  if (j == l->n.count - 1 && l->n.last != l->n.step) kind |= KIND_LAST_N;
  if (p == l->k.count - 1 && l->k.last != l->k.step) kind |= KIND_LAST_K;
  return kind;
}

/* The kinds that occur, as bits. Only first, second and last pieces can differ in kind. */
static unsigned kinds_of(const hr_gemm_spec *spec, const layout *l) {
  const int64_t rows[] = {0, l->m.count - 1}, columns[] = {0, l->n.count - 1};
  const int64_t pieces[] = {0, l->k.count > 1 ? 1 : 0, l->k.count - 1};
  unsigned kinds = 0;
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++)
      for (int p = 0; p < 3; p++)
        kinds |= 1u << tile_kind(spec, l, rows[i], columns[j], pieces[p]);
  return kinds;
}

bool hr__gemm_is_compiled(void) {
  return hr__dnn_vector_bytes() == 64;
}

int hr__gemm_tiles(const hr_gemm_spec *spec, bool narrow, hr_gemm_tile tiles[HR_GEMM_TILES]) {
  if (spec->m < 1 || spec->n < 1 || spec->k < 1) return 0;
  layout l = layout_of(spec, narrow && spec_narrow(spec) ? HR_BF16 : HR_F32, false);
  unsigned kinds = kinds_of(spec, &l);
  int count = 0;
  for (int kind = 0; kind < KINDS; kind++)
    if (kinds >> kind & 1) tiles[count++] = (hr_gemm_tile){tile_spec(spec, &l, kind), l.slice.scratch_bytes};
  return count;
}

bool hr__gemm_spec_equal(const hr_gemm_spec *x, const hr_gemm_spec *y) {
  return x->m == y->m && x->n == y->n && x->k == y->k && x->lda == y->lda && x->ldb == y->ldb && x->ldc == y->ldc &&
         x->transpose_a == y->transpose_a && x->transpose_b == y->transpose_b && x->accumulate == y->accumulate &&
         x->a == y->a && x->b == y->b && x->c == y->c;
}

static uint64_t mixed(uint64_t hash, int64_t value) {
  hash = (hash ^ (uint64_t)value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

uint64_t hr__gemm_spec_hash(const hr_gemm_spec *s) {
  int kind =
      s->transpose_a | s->transpose_b << 1 | s->accumulate << 2 | (int)s->a << 4 | (int)s->b << 8 | (int)s->c << 12;
  uint64_t hash = mixed(mixed(mixed((uint64_t)kind, s->m), s->n), s->k);
  return mixed(mixed(mixed(hash, s->lda), s->ldb), s->ldc);
}

static hr_status kinds_create(hr_gemm *gemm, hr_error *err) {
  unsigned kinds = kinds_of(&gemm->spec, &gemm->layout);
  for (int kind = 0; kind < KINDS; kind++) {
    if (!(kinds >> kind & 1)) continue;
    hr_gemm_spec tile = tile_spec(&gemm->spec, &gemm->layout, kind);
    HR_TRY(
        hr__dnn_create(&tile, gemm->layout.slice.scratch_bytes, gemm->threads, gemm->user, &gemm->products[kind], err));
  }
  return HR_OK;
}

static void kinds_destroy(hr_gemm *gemm) {
  for (int kind = 0; kind < KINDS; kind++) {
    hr__dnn_destroy(gemm->products[kind]);
    gemm->products[kind] = NULL;
  }
}

/* In bf16 where the processor has it and the library can do it with its scratch, else in f32. */
static hr_status products_create(hr_gemm *gemm, hr_error *err) {
  if (!hr__gemm_is_compiled()) {
    gemm->layout = layout_of(&gemm->spec, HR_F32, true);
    return HR_OK;
  }
  if (spec_narrow(&gemm->spec) && hr__dnn_native(HR_BF16)) {
    gemm->layout = layout_of(&gemm->spec, HR_BF16, false);
    hr_status status = kinds_create(gemm, err);
    if (status != HR_UNSUPPORTED) return status;
    kinds_destroy(gemm);
  }
  gemm->layout = layout_of(&gemm->spec, HR_F32, false);
  return kinds_create(gemm, err);
}

hr_status hr__gemm_create(const hr_gemm_spec *spec, int threads, const void *user, hr_gemm **out, hr_error *err) {
  if (spec->m < 1 || spec->n < 1 || spec->k < 1)
    return hr__fail(err, HR_FAILURE, NULL, NULL, "a product of %lld x %lld x %lld has no elements", (long long)spec->m,
                    (long long)spec->n, (long long)spec->k);
  hr_gemm *gemm = hr__alloc_zero(1, sizeof *gemm);
  if (!gemm) return hr__nomem(err);
  gemm->spec = *spec;
  gemm->user = user;
  gemm->vector_bytes = hr__dnn_vector_bytes();
  gemm->threads = threads < 1 ? 1 : threads;
  hr_status status = products_create(gemm, err);
  if (status != HR_OK) {
    hr__gemm_destroy(gemm);
    return status;
  }
  *out = gemm;
  return HR_OK;
}

void hr__gemm_destroy(hr_gemm *gemm) {
  if (!gemm) return;
  kinds_destroy(gemm);
  hr__free(gemm);
}

/* The addresses of one tile. */
typedef struct place {
  const char *a, *b;
  char *c;
  char *workspace; /* the worker's part */
} place;

/* Piece p along k of a tile of m x n: brings the operands into f32 where needed and multiplies. */
static hr_status piece_run(const hr_gemm *gemm, int kind, int worker, const place *at, int64_t p) {
  const hr_gemm_spec *s = &gemm->spec;
  const layout *l = &gemm->layout;
  hr_gemm_spec tile = tile_spec(s, l, kind);
  int64_t m = tile.m, n = tile.n, k = tile.k, k0 = p * l->k.step;
  const char *a = at->a + (size_t)(s->transpose_a ? k0 * s->lda : k0) * hr_dtype_bytes(s->a);
  const char *b = at->b + (size_t)(s->transpose_b ? k0 : k0 * s->ldb) * hr_dtype_bytes(s->b);
  char *tile_a = at->workspace + l->slice.a, *tile_b = at->workspace + l->slice.b;
  if (l->copy_a && s->transpose_a)
    hr__matrix_transpose(&(hr_matrix_block){a, s->lda, k, m, tile_a, k}, s->a, l->type);
  else if (l->copy_a)
    hr__matrix_copy(&(hr_matrix_block){a, s->lda, m, k, tile_a, k}, s->a, l->type);
  if (l->copy_b) {
    int64_t rows = s->transpose_b ? n : k, columns = s->transpose_b ? k : n;
    hr__matrix_copy(&(hr_matrix_block){b, s->ldb, rows, columns, tile_b, columns}, s->b, l->type);
  }
  const void *from_a = l->copy_a ? tile_a : a, *from_b = l->copy_b ? tile_b : b;
  void *to = l->copy_c ? at->workspace + l->slice.c : at->c, *scratch = at->workspace + l->slice.scratch;
  if (!l->rowwise) return hr__dnn_run(gemm->products[kind], worker, from_a, from_b, to, scratch);
  hr__rowwise_run(&tile, gemm->vector_bytes >= 32, from_a, from_b, to, scratch);
  return HR_OK;
}

static hr_status tile_run(const hr_gemm *gemm, int worker, int64_t tile, const void *a, const void *b, void *c,
                          void *workspace) {
  const hr_gemm_spec *s = &gemm->spec;
  const layout *l = &gemm->layout;
  /* Neighbouring tasks share a panel of B. */
  int64_t i = tile % l->m.count, j = tile / l->m.count;
  int64_t m0 = i * l->m.step, m = i == l->m.count - 1 ? l->m.last : l->m.step;
  int64_t n0 = j * l->n.step, n = j == l->n.count - 1 ? l->n.last : l->n.step;
  place at = {(const char *)a + (size_t)(s->transpose_a ? m0 : m0 * s->lda) * hr_dtype_bytes(s->a),
              (const char *)b + (size_t)(s->transpose_b ? n0 * s->ldb : n0) * hr_dtype_bytes(s->b),
              (char *)c + (size_t)(m0 * s->ldc + n0) * hr_dtype_bytes(s->c), workspace};
  char *tile_c = at.workspace + l->slice.c;
  if (l->copy_c && s->accumulate) hr__matrix_copy(&(hr_matrix_block){at.c, s->ldc, m, n, tile_c, n}, s->c, HR_F32);
  for (int64_t p = 0; p < l->k.count; p++)
    HR_TRY(piece_run(gemm, tile_kind(s, l, i, j, p), worker, &at, p));
  if (l->copy_c) hr__matrix_copy(&(hr_matrix_block){tile_c, n, m, n, at.c, s->ldc}, HR_F32, s->c);
  return HR_OK;
}

typedef struct job {
  const hr_gemm *gemm;
  const void *a, *b;
  void *c;
  char *workspace;
  int failed; /* set by any worker, never cleared */
} job;

static void job_task(void *arg, int64_t task, int worker) {
  job *j = arg;
  char *workspace = j->workspace + (size_t)worker * j->gemm->layout.slice.bytes;
  if (tile_run(j->gemm, worker, task, j->a, j->b, j->c, workspace) != HR_OK)
    __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
}

hr_status hr__gemm_run(const hr_gemm *gemm, hr_pool *pool, int threads, const void *a, const void *b, void *c,
                       void *workspace) {
  job j = {gemm, a, b, c, workspace, 0};
  int64_t tiles = gemm->layout.m.count * gemm->layout.n.count;
  hr__pool_run(pool, (int)smaller(smaller(threads, gemm->threads), tiles), tiles, job_task, &j);
  return j.failed ? HR_FAILURE : HR_OK;
}

hr_status hr__gemm_run_here(const hr_gemm *gemm, int worker, const void *a, const void *b, void *c, void *workspace) {
  int64_t tiles = gemm->layout.m.count * gemm->layout.n.count;
  for (int64_t tile = 0; tile < tiles; tile++)
    HR_TRY(tile_run(gemm, worker, tile, a, b, c, workspace));
  return HR_OK;
}
