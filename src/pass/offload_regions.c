/* Regions of use: every stretch of the program that touches an offloaded value gets a copy of it for that long.
 * See offload.c. */
#include <string.h>

#include "pass/offload.h"

enum { GAP_MOST = 2 }; /* stretches between two uses of one region */

/* One operand of a node that lies in a buffer. */
typedef struct access {
  uint32_t position;
  int in, out; /* which operand, or which result; the other is -1 */
} access;

/* All accesses of a program by buffer: those of buffer b are list[first[b] .. first[b + 1]), by position, what a node
 * reads before what it writes. */
typedef struct accesses {
  access *list;
  size_t *first;
} accesses;

static hr_id buffer_of(const hr_moves *m, hr_id value) {
  return m->b->graph->values[value].buffer;
}

static hr_id access_value(const hr_moves *m, const access *a) {
  const hr_node *node = hr__moves_node(m, a->position);
  return a->in >= 0 ? node->in[a->in] : node->out[a->out];
}

static hr_status accesses_list(const hr_moves *m, accesses *out, hr_error *err) {
  size_t n_buffers = m->b->graph->n_buffers;
  out->first = hr__arena_array(m->scratch, n_buffers + 2, sizeof *out->first);
  if (!out->first) return hr__nomem(err);
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t at = 0; at < m->count; at++) {
      const hr_node *node = hr__moves_node(m, at);
      for (int i = 0; i < node->n_in + node->n_out; i++) {
        hr_id value = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        if (value == HR_NONE) continue;
        /* counted one further up, so that filling moves each beginning to where it belongs */
        size_t *end = &out->first[buffer_of(m, value) + (pass == 0 ? 2 : 1)];
        if (pass == 1) out->list[*end] = (access){at, i < node->n_in ? i : -1, i < node->n_in ? -1 : i - node->n_in};
        ++*end;
      }
    }
    if (pass == 1) break;
    for (size_t b = 2; b < n_buffers + 2; b++)
      out->first[b] += out->first[b - 1];
    out->list = hr__arena_array(m->scratch, out->first[n_buffers + 1] + 1, sizeof *out->list);
    if (!out->list) return hr__nomem(err);
  }
  return HR_OK;
}

/* Replaces one operand of a node. */
static hr_status operand_set(hr_moves *m, const access *a, hr_id value, hr_error *err) {
  hr_graph *g = m->b->graph;
  hr_node *node = &g->nodes[m->first + a->position];
  hr_id *in = hr__arena_array(&g->arena, (size_t)node->n_in, sizeof *in);
  if (!in) return hr__nomem(err);
  memcpy(in, node->in, (size_t)node->n_in * sizeof *in);
  in[a->in] = value;
  node->in = in;
  return HR_OK;
}

/* What `value` is of its buffer, in the storage of `whole`. */
static hr_id value_within(hr_moves *m, hr_id whole, hr_id value) {
  hr_graph *g = m->b->graph;
  const hr_value *v = &g->values[value];
  if (hr_desc_same_shape(&v->desc, &g->values[whole].desc)) return whole;
  hr_id view = hr__view(m->b, whole, 0, 1);
  if (view == HR_NONE) return HR_NONE;
  v = &g->values[value];
  g->values[view].desc = v->desc;
  g->values[view].offset = v->offset;
  memcpy(g->values[view].stride, v->stride, sizeof v->stride);
  return view;
}

/* Whether a value is made by a node in [first, last] of the program. */
static bool made_within(const hr_moves *m, hr_id value, uint32_t first, uint32_t last) {
  hr_id producer = m->b->graph->values[value].producer;
  return producer != HR_NONE && producer >= m->first + first && producer <= m->first + last;
}

static void module_set(hr_moves *m, const char *name, uint32_t position) {
  m->b->module = name;
  m->b->phase = hr__moves_node(m, position)->phase;
  m->b->block = HR_NONE;
}

/* Fetches `below` one stretch ahead of `position`. */
static hr_status copy_in(hr_moves *m, hr_id below, uint32_t position, hr_id *staged, hr_error *err) {
  hr_id from = (hr_id)m->b->graph->n_nodes;
  uint32_t s = m->stretch[position];
  module_set(m, m->b->graph->values[below].name, position);
  hr_id started = hr__moves_fetch(m, below, HR_NONE);
  HR_TRY(hr__builder_status(m->b, err));
  HR_TRY(hr__moves_insert(m, from, m->begin[s > 0 ? s - 1 : 0], HR_SPOT_FETCH, err));
  from = (hr_id)m->b->graph->n_nodes;
  *staged = hr__moves_wait(m, started);
  HR_TRY(hr__builder_status(m->b, err));
  return hr__moves_insert(m, from, position, HR_SPOT_WAIT, err);
}

/* Stores a value behind `position`; done at the end of the stretch after. */
static hr_status copy_out(hr_moves *m, hr_id value, hr_id to, hr_tier tier, uint32_t position, hr_id *below,
                          hr_error *err) {
  hr_id from = (hr_id)m->b->graph->n_nodes;
  uint32_t after = m->stretch[position] + 1;
  module_set(m, m->b->graph->values[value].name, position);
  hr_id started = hr__moves_store(m, value, to, tier);
  HR_TRY(hr__builder_status(m->b, err));
  HR_TRY(hr__moves_insert(m, from, position, HR_SPOT_STORE, err));
  from = (hr_id)m->b->graph->n_nodes;
  *below = hr__moves_wait(m, started);
  HR_TRY(hr__builder_status(m->b, err));
  uint32_t last = m->begin[after < m->n_stretches ? after + 1 : m->n_stretches] - 1;
  return hr__moves_insert(m, from, last, HR_SPOT_END, err);
}

/* Serves the accesses list[0..n) of one region. *below is where the buffer's contents lie; moved on when they change.
 */
static hr_status region_serve(hr_moves *m, const access *list, size_t n, hr_id *below, hr_error *err) {
  hr_graph *g = m->b->graph;
  uint32_t first = list[0].position, last = list[n - 1].position;
  hr_id staged = HR_NONE, storage = HR_NONE, written = HR_NONE;
  for (size_t i = 0; i < n; i++) {
    hr_id value = access_value(m, &list[i]);
    if (list[i].in >= 0 && !made_within(m, value, first, last)) {
      if (staged == HR_NONE) HR_TRY(copy_in(m, *below, list[i].position, &staged, err));
      hr_id within = value_within(m, staged, value);
      HR_TRY(hr__builder_status(m->b, err));
      HR_TRY(operand_set(m, &list[i], within, err));
      storage = buffer_of(m, staged);
    } else if (list[i].out >= 0) {
      if (storage == HR_NONE) storage = hr__storage(m->b, value);
      HR_TRY(hr__builder_status(m->b, err));
      g->values[value].buffer = storage;
      written = value;
    }
  }
  if (written == HR_NONE) return HR_OK;
  return copy_out(m, written, *below, HR_TIER_DEVICE, last, below, err);
}

/* Number of accesses from list[0] on that form one region. */
static size_t region_length(const hr_moves *m, const access *list, size_t n) {
  size_t length = 1;
  while (length < n && m->stretch[list[length].position] - m->stretch[list[length - 1].position] <= GAP_MOST)
    length++;
  return length;
}

/* Accesses of a buffer without those of tiled updates, which serve themselves. Returns how many; *tile is the first
 * position of a tiled one, or UINT32_MAX. */
static size_t accesses_untiled(const hr_moves *m, access *list, size_t n, uint32_t *tile) {
  size_t kept = 0;
  *tile = UINT32_MAX;
  for (size_t i = 0; i < n; i++) {
    if (m->tiled[list[i].position]) {
      if (*tile == UINT32_MAX) *tile = list[i].position;
    } else {
      list[kept++] = list[i];
    }
  }
  return kept;
}

/* Per buffer: the value that is all of it from the beginning; HR_NONE: there is none. */
static hr_id *buffer_roots(const hr_moves *m) {
  const hr_graph *g = m->b->graph;
  hr_id *roots = hr__arena_array(m->scratch, g->n_buffers + 1, sizeof *roots);
  for (size_t b = 0; roots && b < g->n_buffers; b++)
    roots[b] = HR_NONE;
  for (hr_id v = (hr_id)m->n_values; roots && v-- > 0;)
    if (g->values[v].producer == HR_NONE && g->values[v].base == HR_NONE) roots[g->values[v].buffer] = v;
  return roots;
}

static hr_status persistent_serve(hr_moves *m, hr_id root, access *list, size_t n, hr_error *err) {
  hr_id below = root;
  uint32_t tile;
  n = accesses_untiled(m, list, n, &tile);
  for (size_t at = 0, length; at < n; at += length) {
    length = region_length(m, list + at, n - at);
    HR_TRY(region_serve(m, list + at, length, &below, err));
  }
  return HR_OK;
}

/* A chosen transient: it stays for the region in which it is made, and goes down if there is a later use. */
static hr_status transient_serve(hr_moves *m, hr_id value, access *list, size_t n, hr_error *err) {
  uint32_t tile;
  n = accesses_untiled(m, list, n, &tile);
  for (size_t i = 1; i < n; i++)
    if (list[i].out >= 0) return HR_OK; /* changed in place: it stays */
  size_t length = region_length(m, list, n);
  uint32_t last = list[length - 1].position;
  bool far_tile = tile != UINT32_MAX && m->stretch[tile] > m->stretch[last] + GAP_MOST;
  if (length == n && !far_tile) return HR_OK;
  HR_TRY(copy_out(m, value, HR_NONE, m->chosen[value], last, &m->below[value], err));
  for (size_t at = length; at < n; at += length) {
    length = region_length(m, list + at, n - at);
    HR_TRY(region_serve(m, list + at, length, &m->below[value], err));
  }
  return HR_OK;
}

hr_status hr__offload_regions(hr_moves *m, hr_error *err) {
  const hr_graph *g = m->b->graph;
  accesses all;
  size_t n_buffers = g->n_buffers;
  HR_TRY(accesses_list(m, &all, err));
  const hr_id *roots = buffer_roots(m);
  if (!roots) return hr__nomem(err);
  for (hr_id b = 0; b < n_buffers; b++) {
    size_t n = all.first[b + 1] - all.first[b];
    if (n > 0 && g->buffers[b].persistent && g->buffers[b].home != HR_TIER_DEVICE)
      HR_TRY(persistent_serve(m, roots[b], all.list + all.first[b], n, err));
  }
  for (hr_id v = 0; v < m->n_values; v++) {
    hr_id b = g->values[v].buffer;
    if (m->chosen[v] != HR_TIER_DEVICE)
      HR_TRY(transient_serve(m, v, all.list + all.first[b], all.first[b + 1] - all.first[b], err));
  }
  return HR_OK;
}
