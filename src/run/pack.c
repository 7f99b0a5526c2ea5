/* Packing a parameter into its NF4 parts, from a source of floats that is read in windows: the parameter itself is
 * never there as a whole. Windows are cut into pieces that are packed independently of each other, so neither their
 * number nor the number of threads changes a bit.
 *
 * Double quantization needs the mean of all scales before the first one can be stored. The scales of a tensor are
 * staged for that; where there are too many of them, the source is read a second time instead.
 */
#include "op/nf4.h"
#include "run/internal.h"

enum {
  PIECES = 16,      /* of a window: 1 MiB of floats */
  STAGED = 1 << 18, /* scales: 1 MiB, those of 16 million elements */
  WINDOW = PIECES * HR_NF4_PIECE,
  WINDOW_SCALES = PIECES * HR_NF4_NESTED
};

_Static_assert(WINDOW * sizeof(float) + WINDOW / 2 + STAGED * sizeof(float) <= HR_PACK_BYTES && WINDOW_SCALES <= STAGED,
               "what the plan has for it");

typedef struct packing {
  hr_run *run;
  const hr_packed *packed;
  hr_float_source source;
  void *user;
  int64_t elements, blocks;
  float *window;  /* elements of the window */
  float *scales;  /* all of the tensor (staged), or those of the window */
  uint8_t *codes; /* of the window: of elements, later of scales */
  float nested[PIECES];
  float offset;
  bool staged;
  /* the window: */
  int64_t first, count;
  float *window_scales;
} packing;

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void pieces_run(packing *p, hr_task task) {
  hr_pool *pool = p->run->device->pool;
  hr__pool_run(pool, pool ? hr__pool_threads(pool) : 1, (p->count + HR_NF4_PIECE - 1) / HR_NF4_PIECE, task, p);
}

static void piece_scales(void *arg, int64_t task, int worker) {
  const packing *p = arg;
  int64_t first = task * HR_NF4_PIECE;
  (void)worker;
  hr__nf4_scales(p->window + first, least(HR_NF4_PIECE, p->count - first), p->window_scales + task * HR_NF4_NESTED);
}

static void piece_codes(void *arg, int64_t task, int worker) {
  const packing *p = arg;
  int64_t first = task * HR_NF4_PIECE;
  piece_scales(arg, task, worker);
  hr__nf4_codes(p->window + first, least(HR_NF4_PIECE, p->count - first), p->window_scales + task * HR_NF4_NESTED,
                p->codes + first / 2);
}

static void piece_nest(void *arg, int64_t task, int worker) {
  packing *p = arg;
  int64_t first = task * HR_NF4_NESTED, all = hr__nf4_blocks(p->count);
  (void)worker;
  hr__nf4_nest(p->window_scales + first, least(HR_NF4_NESTED, all - first), p->offset, p->codes + first,
               &p->nested[task]);
}

/* Sets the window that begins at an element; its scales come from, or go to, their place. */
static void window_set(packing *p, int64_t first) {
  p->first = first;
  p->count = least(WINDOW, p->elements - first);
  p->window_scales = p->scales + (p->staged ? first / HR_NF4_BLOCK : 0);
}

/* Codes of all elements; *total is the sum of all scales, in order. */
static hr_status elements_pack(packing *p, double *total, hr_error *err) {
  for (int64_t first = 0; first < p->elements; first += WINDOW) {
    window_set(p, first);
    HR_TRY(p->source(p->user, first, p->count, p->window, err));
    pieces_run(p, piece_codes);
    int64_t blocks = hr__nf4_blocks(p->count);
    for (int64_t i = 0; i < blocks; i++)
      *total += (double)p->window_scales[i];
    HR_TRY(hr__run_write(p->run, p->packed->codes, (size_t)first / 2, p->codes, ((size_t)p->count + 1) / 2, err));
    if (p->packed->nested_absmax == HR_NONE)
      HR_TRY(hr__run_write(p->run, p->packed->absmax, (size_t)(first / HR_NF4_BLOCK) * sizeof(float), p->window_scales,
                           (size_t)blocks * sizeof(float), err));
  }
  return HR_OK;
}

static hr_status scales_pack(packing *p, hr_error *err) {
  for (int64_t first = 0; first < p->elements; first += WINDOW) {
    window_set(p, first);
    if (!p->staged) {
      HR_TRY(p->source(p->user, first, p->count, p->window, err));
      pieces_run(p, piece_scales);
    }
    pieces_run(p, piece_nest);
    size_t blocks = (size_t)hr__nf4_blocks(p->count), pieces = (blocks + HR_NF4_NESTED - 1) / HR_NF4_NESTED;
    HR_TRY(hr__run_write(p->run, p->packed->absmax, (size_t)(first / HR_NF4_BLOCK), p->codes, blocks, err));
    HR_TRY(hr__run_write(p->run, p->packed->nested_absmax, (size_t)(first / HR_NF4_PIECE) * sizeof(float), p->nested,
                         pieces * sizeof(float), err));
  }
  return hr__run_write(p->run, p->packed->nested_offset, 0, &p->offset, sizeof p->offset, err);
}

hr_status hr__run_pack(hr_run *run, const hr_packed *packed, hr_float_source source, void *user, hr_error *err) {
  packing p = {.run = run, .packed = packed, .source = source, .user = user};
  p.elements = hr_desc_count(&packed->desc);
  p.blocks = hr__nf4_blocks(p.elements);
  p.staged = p.blocks <= STAGED;
  p.window = hr__alloc(WINDOW * sizeof *p.window);
  p.codes = hr__alloc(WINDOW / 2);
  p.scales = hr__alloc((size_t)(p.staged ? p.blocks : WINDOW_SCALES) * sizeof *p.scales);
  double total = 0;
  hr_status status = p.window && p.codes && p.scales ? HR_OK : hr__nomem(err);
  if (status == HR_OK) status = elements_pack(&p, &total, err);
  p.offset = (float)(total / (double)p.blocks);
  if (status == HR_OK && packed->nested_absmax != HR_NONE) status = scales_pack(&p, err);
  hr__free(p.window);
  hr__free(p.codes);
  hr__free(p.scales);
  return status;
}
