/* Tiles: an optimizer's update of offloaded state, piece by piece.
 *
 *   fetch tile k + 1, wait for tile k, update it on the staged copies, wait until tile k - 1 is stored, store tile k
 *
 * so three tiles are on the device at a time, one on its way in, one in work, one on its way out. Tiles of neighbouring
 * updates form one row. What lives on the device is updated in place through views.
 *
 * On the host it is the other way round: what lives there is updated in place by the processor, and what lives on the
 * device (gradient, parameter) goes down before and the parameter up again behind. The arithmetic is the same, so are
 * the bits where the device is the CPU.
 */
#include <string.h>

#include "pass/offload.h"
#include "pass/offload_homes.h"

enum {
  PART_MOST = 4, /* elements of a parameter for one of its state, above which the state is small */
  OPERANDS = HR_OP_OPERANDS,
  ARGS_MOST = 256 /* bytes */
};

static bool written_in_place(const hr_op *op, int in) {
  for (int a = 0; a < op->n_alias; a++)
    if (op->alias[a].in == in && op->alias[a].kind == HR_ALIAS_MUST) return true;
  return false;
}

/* Elements of operand 0 for one of operand i: 1 for gradient and moments, 256 for the scales of 8-bit blocks, 0 where
 * the operand is not a matter of elements (control block, norm). */
static int64_t operand_part(const hr_graph *g, const hr_node *node, int i) {
  int64_t all = hr_desc_count(&g->values[node->in[0]].desc), own = hr_desc_count(&g->values[node->in[i]].desc);
  if (own == all) return 1;
  if (!written_in_place(node->op, i) || own > all) return 0;
  int64_t part = 1;
  while (part * own < all)
    part *= 2;
  return part;
}

static bool is_small(const hr_graph *g, const hr_node *node, int i) {
  return operand_part(g, node, i) > PART_MOST;
}

void hr__offload_small_state(hr_graph *g) {
  for (size_t n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    for (int i = 1; node->op->first_at && i < node->n_in; i++) {
      if (node->in[i] == HR_NONE || !is_small(g, node, i)) continue;
      hr_buffer *buffer = &g->buffers[g->values[node->in[i]].buffer];
      if (buffer->home == HR_TIER_DISK) buffer->home = HR_TIER_HOST;
    }
  }
}

/* Where an offloaded operand lies: itself, or what was stored of it; HR_NONE: it is on the device. */
static hr_id operand_below(const hr_moves *m, hr_id value) {
  const hr_graph *g = m->b->graph;
  if (value == HR_NONE) return HR_NONE;
  if (value < m->n_values && m->below[value] != HR_NONE) return m->below[value];
  return g->buffers[g->values[value].buffer].home != HR_TIER_DEVICE ? value : HR_NONE;
}

void hr__offload_mark_tiled(hr_moves *m, const bool *read) {
  const hr_graph *g = m->b->graph;
  for (uint32_t at = 0; at < m->count; at++) {
    const hr_node *node = hr__moves_node(m, at);
    bool cut = node->op->first_at != 0 && node->n_in <= OPERANDS && node->op->args_bytes <= ARGS_MOST, moves = false;
    for (int j = 0; j < node->n_out; j++)
      cut = cut && !read[node->out[j]];
    for (int i = 0; cut && i < node->n_in; i++) {
      hr_id in = node->in[i];
      if (in == HR_NONE || operand_part(g, node, i) == 0) continue;
      moves |= m->chosen[in] != HR_TIER_DEVICE || g->buffers[g->values[in].buffer].home != HR_TIER_DEVICE;
    }
    m->tiled[at] = cut && moves;
  }
}

/* Whether an update is done on the host: all of its offloaded state is there. */
static bool is_host_update(const hr_moves *m, const hr_node *node) {
  const hr_graph *g = m->b->graph;
  bool state = false;
  for (int i = 0; i < node->n_in; i++) {
    hr_id below = operand_below(m, node->in[i]);
    if (below == HR_NONE) continue;
    if (g->buffers[g->values[below].buffer].home != HR_TIER_HOST) return false;
    state |= g->buffers[g->values[below].buffer].role == HR_ROLE_OPTIMIZER;
  }
  return m->update_on_host && state;
}

/* Elements of one tile of an update: as many as move tile_bytes; all where nothing moves, on the host with all that the
 * update takes. */
static int64_t tile_elements(const hr_moves *m, const hr_node *node) {
  const hr_graph *g = m->b->graph;
  double bytes = 0; /* of one element; scales of a block have little of it */
  bool host = is_host_update(m, node);
  for (int i = 0; i < node->n_in; i++) {
    int64_t part = node->in[i] == HR_NONE ? 0 : operand_part(g, node, i);
    if (part != 0 && (operand_below(m, node->in[i]) == HR_NONE) == host)
      bytes += (double)hr_dtype_bytes(g->values[node->in[i]].desc.dtype) / (double)part;
  }
  if (bytes == 0) return hr_desc_count(&g->values[node->in[0]].desc);
  return hr__tile_elements(m->tile_bytes, bytes);
}

/* One tile on its way. */
typedef struct tile {
  uint32_t position; /* of the update */
  int64_t first, count;
  hr_id below[OPERANDS];   /* part of an operand that lies below; HR_NONE: it does not */
  hr_id started[OPERANDS]; /* copy to where the update is, under way */
  hr_id stored[OPERANDS];  /* its copy back, under way */
  int stands_for;          /* tiles: so much smaller is what its copies take */
} tile;

/* Part of operand i that belongs to the tile, of `whole`. */
static hr_id tile_view(hr_moves *m, const tile *t, int i, hr_id whole) {
  const hr_graph *g = m->b->graph;
  const hr_node *node = hr__moves_node(m, t->position);
  int64_t part = operand_part(g, node, i), all = hr_desc_count(&g->values[node->in[i]].desc);
  if (part == 0 || t->count == hr_desc_count(&g->values[node->in[0]].desc)) return whole;
  int64_t first = t->first / part, end = (t->first + t->count + part - 1) / part;
  return hr__view(m->b, whole, first, (end < all ? end : all) - first);
}

/* A copy of a tile that stands for several takes the room of one. */
static void copy_shrink(hr_moves *m, const tile *t, hr_id copy) {
  if (copy == HR_NONE || t->stands_for == 1) return;
  hr_buffer *buffer = &m->b->graph->buffers[m->b->graph->values[copy].buffer];
  buffer->bytes = (buffer->bytes + (size_t)t->stands_for - 1) / (size_t)t->stands_for;
  buffer->sketched = true;
}

static void module_set(hr_moves *m, hr_id value) {
  m->b->module = m->b->graph->values[value].name;
}

static void tile_fetch(hr_moves *m, tile *t) {
  const hr_node *node = hr__moves_node(m, t->position);
  for (int i = 0; i < node->n_in; i++) {
    hr_id below = operand_below(m, hr__moves_node(m, t->position)->in[i]);
    t->below[i] = t->started[i] = t->stored[i] = HR_NONE;
    if (below == HR_NONE) continue;
    module_set(m, below);
    t->below[i] = tile_view(m, t, i, below);
    t->started[i] = t->below[i] == HR_NONE ? HR_NONE : hr__moves_fetch(m, t->below[i], HR_NONE);
    copy_shrink(m, t, t->started[i]);
  }
}

/* The update on in[]. Returns its node, HR_NONE after an error. */
static hr_id update_emit(hr_moves *m, const tile *t, const hr_id *in) {
  const hr_node *node = hr__moves_node(m, t->position);
  const hr_op *op = node->op;
  unsigned char args[ARGS_MOST];
  memcpy(args, node->args, op->args_bytes);
  memcpy(args + op->first_at, &t->first, sizeof t->first);
  m->b->module = node->module;
  hr_id out = hr__emit(m->b, op, in, node->n_in, args);
  return out == HR_NONE ? HR_NONE : m->b->graph->values[out].producer;
}

/* The update on the tile's part of every operand. */
static hr_id tile_update(hr_moves *m, const tile *t) {
  int n_in = hr__moves_node(m, t->position)->n_in;
  hr_id in[OPERANDS];
  for (int i = 0; i < n_in; i++) {
    hr_id operand = hr__moves_node(m, t->position)->in[i];
    if (operand != HR_NONE) module_set(m, operand);
    if (operand == HR_NONE)
      in[i] = HR_NONE;
    else
      in[i] = t->started[i] != HR_NONE ? hr__moves_wait(m, t->started[i]) : tile_view(m, t, i, operand);
  }
  return update_emit(m, t, in);
}

static void tile_store(hr_moves *m, tile *t, hr_id updated) {
  const hr_op *op = hr__moves_node(m, t->position)->op;
  for (int a = 0; a < op->n_alias && m->b->status == HR_OK; a++) {
    int in = op->alias[a].in;
    if (t->below[in] == HR_NONE) continue;
    module_set(m, t->below[in]);
    t->stored[in] = hr__moves_store(m, m->b->graph->nodes[updated].out[op->alias[a].out], t->below[in], HR_TIER_DEVICE);
  }
}

static void tile_finish(hr_moves *m, const tile *t) {
  for (int i = 0; i < hr__moves_node(m, t->position)->n_in; i++) {
    if (t->stored[i] == HR_NONE) continue;
    module_set(m, hr__moves_node(m, t->position)->in[i]);
    hr__moves_wait(m, t->stored[i]);
  }
}

/* --- on the host -------------------------------------------------------------------------------------------------- */

/* Copies of what is not a matter of elements (control block, norm), made once for a row. */
typedef struct small_copies {
  hr_id of[OPERANDS], copy[OPERANDS];
  int count;
} small_copies;

/* A copy on the host of a value on the device, under way. */
static hr_id copy_down(hr_moves *m, hr_id value) {
  hr_graph *g = m->b->graph;
  hr_id started = value == HR_NONE ? HR_NONE : hr__moves_store(m, value, HR_NONE, HR_TIER_HOST);
  if (started != HR_NONE) g->buffers[g->values[started].buffer].role = HR_ROLE_STAGING;
  return started;
}

static hr_id small_copy(hr_moves *m, small_copies *small, hr_id value) {
  for (int i = 0; i < small->count; i++)
    if (small->of[i] == value) return small->copy[i];
  hr_id copy = hr__moves_wait(m, copy_down(m, value));
  if (small->count < OPERANDS) {
    small->of[small->count] = value;
    small->copy[small->count++] = copy;
  }
  return copy;
}

static void tile_down(hr_moves *m, tile *t) {
  int n_in = hr__moves_node(m, t->position)->n_in;
  for (int i = 0; i < n_in; i++) {
    hr_id operand = hr__moves_node(m, t->position)->in[i], below = operand_below(m, operand);
    t->below[i] = t->started[i] = t->stored[i] = HR_NONE;
    if (operand == HR_NONE || operand_part(m->b->graph, hr__moves_node(m, t->position), i) == 0) continue;
    module_set(m, operand);
    if (below != HR_NONE)
      t->below[i] = tile_view(m, t, i, below);
    else
      t->started[i] = copy_down(m, tile_view(m, t, i, operand));
    copy_shrink(m, t, t->started[i]);
  }
}

static hr_id tile_update_host(hr_moves *m, const tile *t, small_copies *small) {
  int n_in = hr__moves_node(m, t->position)->n_in;
  hr_id in[OPERANDS];
  for (int i = 0; i < n_in; i++) {
    hr_id operand = hr__moves_node(m, t->position)->in[i];
    in[i] = t->below[i];
    if (operand == HR_NONE || in[i] != HR_NONE) continue;
    module_set(m, operand);
    in[i] = t->started[i] != HR_NONE ? hr__moves_wait(m, t->started[i]) : small_copy(m, small, operand);
  }
  hr_id updated = update_emit(m, t, in);
  if (updated != HR_NONE) m->b->graph->nodes[updated].place = HR_ON_HOST;
  return updated;
}

/* What came down and was changed goes back to its place on the device. */
static void tile_up(hr_moves *m, tile *t, hr_id updated) {
  const hr_op *op = hr__moves_node(m, t->position)->op;
  for (int a = 0; a < op->n_alias && m->b->status == HR_OK; a++) {
    int in = op->alias[a].in;
    if (t->started[in] == HR_NONE) continue;
    hr_id operand = hr__moves_node(m, t->position)->in[in];
    module_set(m, operand);
    hr_id to = tile_view(m, t, in, operand);
    t->stored[in] = hr__moves_fetch(m, m->b->graph->nodes[updated].out[op->alias[a].out], to);
  }
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* All tiles of the updates at [first, end). */
static hr_status tiles_list(const hr_moves *m, uint32_t first, uint32_t end, tile **out, size_t *count, hr_error *err) {
  for (int pass = 0; pass < 2; pass++) {
    *count = 0;
    for (uint32_t at = first; at < end; at++) {
      int64_t all = hr_desc_count(&m->b->graph->values[hr__moves_node(m, at)->in[0]].desc);
      int64_t one = tile_elements(m, hr__moves_node(m, at)), step = one * m->tiles_in_one;
      for (int64_t begin = 0; begin < all; begin += step, ++*count) {
        int64_t own = all - begin < step ? all - begin : step;
        if (pass == 1)
          (*out)[*count] =
              (tile){.position = at, .first = begin, .count = own, .stands_for = (int)((own + one - 1) / one)};
      }
    }
    if (pass == 0 && !(*out = hr__arena_array(m->scratch, *count + 1, sizeof **out))) return hr__nomem(err);
  }
  return HR_OK;
}

static hr_status row_emit(hr_moves *m, uint32_t first, uint32_t end, hr_error *err) {
  tile *tiles;
  size_t count;
  small_copies small = {.count = 0};
  bool host = is_host_update(m, hr__moves_node(m, first));
  hr_id from = (hr_id)m->b->graph->n_nodes;
  HR_TRY(tiles_list(m, first, end, &tiles, &count, err));
  m->b->phase = HR_UPDATE;
  m->b->block = HR_NONE;
  void (*fetch)(hr_moves *, tile *) = host ? tile_down : tile_fetch;
  void (*store)(hr_moves *, tile *, hr_id) = host ? tile_up : tile_store;
  fetch(m, &tiles[0]);
  for (size_t k = 0; k < count && m->b->status == HR_OK; k++) {
    if (k + 1 < count) fetch(m, &tiles[k + 1]);
    hr_id updated = host ? tile_update_host(m, &tiles[k], &small) : tile_update(m, &tiles[k]);
    if (k > 0) tile_finish(m, &tiles[k - 1]);
    store(m, &tiles[k], updated);
  }
  if (count > 0) tile_finish(m, &tiles[count - 1]);
  HR_TRY(hr__builder_status(m->b, err));
  return hr__moves_insert(m, from, first, HR_SPOT_NODE, err);
}

hr_status hr__offload_tiles(hr_moves *m, hr_error *err) {
  for (uint32_t first = 0, end; first < m->count; first = end) {
    bool host = m->tiled[first] && is_host_update(m, hr__moves_node(m, first));
    for (end = first; end < m->count && m->tiled[end] && is_host_update(m, hr__moves_node(m, end)) == host; end++)
      m->dropped[end] = true;
    if (end == first) {
      end++;
      continue;
    }
    HR_TRY(row_emit(m, first, end, err));
  }
  return HR_OK;
}
