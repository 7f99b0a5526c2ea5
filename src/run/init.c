/* First values of parameters and state: a pure function of (seed, name, element).
 *
 * Values are drawn in f32 and then converted, so a bf16 model starts from the f32 model's values rounded. Work
 * is cut into pieces of fixed size that are drawn independently of each other, so the number of threads changes
 * nothing.
 */
#include <string.h>

#include "base/random.h"
#include "run/internal.h"

enum { PIECE = 16384 }; /* elements; even, since two normals come from one block */

typedef struct fill {
  hr_random_key key;
  hr_init init;
  hr_dtype dtype;
  unsigned char *data; /* where element `base` goes */
  int64_t base, count; /* elements [base, base + count) of the value */
} fill;

static void element_put(const fill *f, int64_t index, float value) {
  uint16_t half;
  double wide;
  switch (f->dtype) {
  case HR_BF16:
    half = hr__f32_to_bf16(value);
    memcpy(f->data + 2 * index, &half, 2);
    break;
  case HR_F16:
    half = hr__f32_to_f16(value);
    memcpy(f->data + 2 * index, &half, 2);
    break;
  case HR_F64:
    wide = (double)value;
    memcpy(f->data + 8 * index, &wide, 8);
    break;
  default:
    memcpy(f->data + 4 * index, &value, 4);
    break;
  }
}

static float element_draw(const fill *f, uint64_t index) {
  if (f->init.kind == HR_INIT_NORMAL) return f->init.std * hr__random_normal(f->key, 0, index);
  if (f->init.kind == HR_INIT_ONE) return 1.0f;
  if (f->init.kind == HR_INIT_ZERO) return 0.0f;
  hr_random_block block = hr__random_at(f->key, 0, index / 4); /* uniform: 24 bits, one word an element */
  return f->init.std * ((float)(block.word[index % 4] >> 8) * 0x1p-23f - 1.0f);
}

static void fill_piece(void *arg, int64_t task, int worker) {
  (void)worker;
  const fill *f = arg;
  int64_t begin = task * PIECE, end = begin + PIECE < f->count ? begin + PIECE : f->count;
  for (int64_t i = begin; i < end; i++)
    element_put(f, i, element_draw(f, (uint64_t)(f->base + i)));
}

static void fill_run(hr_device *device, fill *f) {
  int64_t pieces = (f->count + PIECE - 1) / PIECE;
  hr__pool_run(device->pool, device->pool ? hr__pool_threads(device->pool) : 1, pieces, fill_piece, f);
}

static hr_status value_init(hr_run *run, hr_id id, uint64_t seed, unsigned char *window, size_t window_bytes,
                            hr_error *err) {
  const hr_value *value = &run->plan->graph->values[id];
  size_t all = hr_desc_bytes(&value->desc), element = hr_dtype_bytes(value->desc.dtype);
  unsigned char *address = hr__run_address(run, id);
  fill f = {
      .key = {.seed = seed, .stream = hr__random_stream(value->name)}, .init = value->init, .dtype = value->desc.dtype};
  if (address && value->init.kind == HR_INIT_ZERO) {
    memset(address, 0, all);
  } else if (address) {
    f.data = address;
    f.count = (int64_t)(all / element);
    fill_run(run->device, &f);
  }
  for (size_t at = 0; !address && at < all; at += window_bytes) {
    size_t bytes = all - at < window_bytes ? all - at : window_bytes;
    f.data = window;
    f.base = (int64_t)(at / element);
    f.count = (int64_t)(bytes / element);
    if (value->init.kind == HR_INIT_ZERO)
      memset(window, 0, bytes);
    else
      fill_run(run->device, &f);
    HR_TRY(hr__run_write(run, id, at, window, bytes, err));
  }
  return HR_OK;
}

typedef struct draw {
  hr_run *run;
  fill fill;
} draw;

/* Elements of a parameter that is packed, as they would be unpacked in f32. */
static hr_status packed_draw(void *user, int64_t first, int64_t count, float *to, hr_error *err) {
  draw *d = user;
  (void)err;
  d->fill.data = (unsigned char *)to;
  d->fill.base = first;
  d->fill.count = count;
  fill_run(d->run->device, &d->fill);
  return HR_OK;
}

static hr_status packed_init(hr_run *run, const hr_packed *packed, uint64_t seed, hr_error *err) {
  draw d = {.run = run,
            .fill = {.key = {.seed = seed, .stream = hr__random_stream(packed->name)},
                     .init = packed->init,
                     .dtype = HR_F32}};
  return hr__run_pack(run, packed, packed_draw, &d, err);
}

/* Whether a value is filled here by its own init rule, with the given half. */
static bool value_in_half(const hr_graph *graph, hr_id id, hr_init_half half) {
  const hr_value *value = &graph->values[id];
  const hr_buffer *buffer = &graph->buffers[value->buffer];
  if (!hr__graph_is_tensor(graph, id)) return false;
  bool frozen = buffer->role == HR_ROLE_PARAMETER && !value->trained;
  return (half & (frozen ? HR_INIT_FROZEN : HR_INIT_OTHERS)) && !(frozen && hr__graph_is_packed(graph, id));
}

hr_status hr__run_init_half(hr_run *run, hr_init_half half, uint64_t seed, hr_error *err) {
  const hr_graph *graph = run->plan->graph;
  size_t window_bytes = (size_t)1 << 20; /* only where the host cannot reach the values */
  unsigned char *window = NULL;
  if ((run->device->facts.kind != HR_CPU || run->plan->tiers[HR_TIER_DISK].arena_bytes > 0) &&
      !(window = hr__alloc(window_bytes)))
    return hr__nomem(err);
  hr_status status = HR_OK;
  for (hr_id v = 0; v < graph->n_values && status == HR_OK; v++)
    if (value_in_half(graph, v, half)) status = value_init(run, v, seed, window, window_bytes, err);
  for (size_t i = 0; i < graph->n_packed && (half & HR_INIT_FROZEN) && status == HR_OK; i++)
    status = packed_init(run, &graph->packed[i], seed, err);
  hr__free(window);
  return status;
}

hr_status hr__run_init_values(hr_run *run, uint64_t seed, hr_error *err) {
  return hr__run_init_half(run, (hr_init_half)(HR_INIT_OTHERS | HR_INIT_FROZEN), seed, err);
}
