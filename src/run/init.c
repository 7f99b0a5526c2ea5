/* First values of parameters and state: a pure function of (seed, name, element).
 *
 * Values are drawn in f32 and then converted, so a bf16 model starts from the f32 model's values rounded. Work
 * is cut into pieces of fixed size that are drawn independently of each other, so the number of threads changes
 * nothing.
 */
#include <string.h>

#include "base/random.h"
#include "base/work.h"
#include "run/internal.h"

enum { PIECE = 16384 }; /* elements; even, since two normals come from one block */

typedef struct fill {
  hr_random_key key;
  hr_init init;
  hr_dtype dtype;
  unsigned char *data; /* where element `base` goes */
  int64_t base, count; /* elements [base, base + count) of the value */
} fill;

enum { DRAWN = 512 }; /* elements that are drawn before they are converted */

static void elements_put(const fill *f, int64_t first, int64_t count, const float *from) {
  void *to = f->data + (size_t)first * hr_dtype_bytes(f->dtype);
  if (f->dtype == HR_BF16)
    for (int64_t i = 0; i < count; i++)
      ((uint16_t *)to)[i] = hr__f32_to_bf16(from[i]);
  else if (f->dtype == HR_F16)
    for (int64_t i = 0; i < count; i++)
      ((uint16_t *)to)[i] = hr__f32_to_f16(from[i]);
  else if (f->dtype == HR_F64)
    for (int64_t i = 0; i < count; i++)
      ((double *)to)[i] = (double)from[i];
  else
    memcpy(to, from, (size_t)count * sizeof *from);
}

static void fill_piece(void *arg, int64_t task, int worker) {
  (void)worker;
  const fill *f = arg;
  int64_t begin = task * PIECE, end = begin + PIECE < f->count ? begin + PIECE : f->count;
  float drawn[DRAWN];
  for (int64_t i = begin; i < end; i += DRAWN) {
    int64_t count = end - i < DRAWN ? end - i : DRAWN;
    f->init.rule(&f->init, f->key, (uint64_t)(f->base + i), count, drawn);
    elements_put(f, i, count, drawn);
  }
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
  if (address && value->init.rule == HR_INIT_ZERO) {
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
    if (value->init.rule == HR_INIT_ZERO)
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

/* Whether a value is filled here by its own init rule, with the given parts. */
static bool value_in_part(const hr_graph *graph, hr_id id, hr_init_part parts) {
  const hr_value *value = &graph->values[id];
  if (!hr__graph_is_tensor(graph, id)) return false;
  bool parameter = graph->buffers[value->buffer].role == HR_ROLE_PARAMETER;
  if (parameter && !value->trained) return (parts & HR_INIT_FROZEN) && !hr__graph_is_packed(graph, id);
  return parts & (parameter && !value->keep_f32 ? HR_INIT_TRAINED : HR_INIT_OTHERS);
}

/* State of the optimizer that begins as zeros, as its arena did. Other values may have been tried on while the run was
 * made; the file of the disk tier has to be written anyway. */
static bool value_is_zero(const hr_run *run, hr_id id) {
  return hr__run_is_state(run, id) && run->plan->graph->values[id].init.rule == HR_INIT_ZERO &&
         hr__plan_value_tier(run->plan, id) != HR_TIER_DISK;
}

/* Whether `drawn` leaves a value out: a parameter of the model itself. */
static bool value_comes_otherwise(const hr_graph *graph, hr_id id, bool (*drawn)(void *user, const char *name),
                                  void *user) {
  const hr_value *value = &graph->values[id];
  if (!drawn || value->keep_f32 || graph->buffers[value->buffer].role != HR_ROLE_PARAMETER) return false;
  return !drawn(user, value->name);
}

hr_status hr__run_init_parts(hr_run *run, hr_init_part parts, bool (*drawn)(void *user, const char *name), void *user,
                             uint64_t seed, hr_error *err) {
  const hr_graph *graph = run->plan->graph;
  bool fresh = run->state_fresh;
  size_t window_bytes = (size_t)1 << 20; /* only where the host cannot reach the values */
  unsigned char *window = NULL;
  if ((run->device->facts.kind != HR_CPU || run->plan->tiers[HR_TIER_DISK].arena_bytes > 0) &&
      !(window = hr__alloc(window_bytes)))
    return hr__nomem(err);
  hr_status status = HR_OK;
  for (int begins = 0; begins < 2; begins++) /* first how much it is, for whoever waits */
    for (hr_id v = 0; v < graph->n_values && status == HR_OK; v++) {
      if (!value_in_part(graph, v, parts) || (fresh && value_is_zero(run, v)) ||
          value_comes_otherwise(graph, v, drawn, user))
        continue;
      uint64_t bytes = hr_desc_bytes(&graph->values[v].desc);
      if (begins) status = value_init(run, v, seed, window, window_bytes, err);
      (begins ? hr__work_advance : hr__work_expect)(bytes);
    }
  for (size_t i = 0; i < graph->n_packed && (parts & HR_INIT_FROZEN) && status == HR_OK; i++)
    if (!drawn || drawn(user, graph->packed[i].name)) status = packed_init(run, &graph->packed[i], seed, err);
  hr__free(window);
  return status;
}

hr_status hr__run_init_values(hr_run *run, uint64_t seed, hr_error *err) {
  return hr__run_init_parts(run, HR_INIT_ALL, NULL, NULL, seed, err);
}
