/* The offload pass: what is offloaded comes up for its uses and goes back down.
 *
 * First persistent buffers get their homes (memory.offload.*; other passes may have set some already), then every
 * program is rewritten by itself. It is seen as a row of stretches: the nodes of one outermost block in one direction,
 * what lies between blocks, and single nodes of the update. Uses of a value that are at most two stretches apart form a
 * region. A region's copy is fetched one stretch ahead of it, so that it travels while the stretch before computes, and
 * what was written is stored behind it, with a stretch of time to arrive. Activations and gradients of one program are
 * served in the same way, from the end of the region in which they are made. Updates are cut into tiles
 * (offload_tiles.c). No value changes: only where it waits.
 */
#include "pass/offload.h"

#include <string.h>

#include "op/transfer.h"
#include "pass/offload_homes.h"

/* --- which transients go ------------------------------------------------------------------------------------------ */

/* A transient that may leave the device: all of its own buffer, made by one node. */
static bool value_movable(const hr_graph *g, hr_id value) {
  const hr_value *v = &g->values[value];
  const hr_buffer *buffer = &g->buffers[v->buffer];
  return v->base == HR_NONE && v->offset == 0 && v->producer != HR_NONE && v->producer != HR_DROPPED &&
         !buffer->persistent && buffer->home == HR_TIER_DEVICE && hr_desc_bytes(&v->desc) == buffer->bytes;
}

/* Marks what backward reads of forward's results. `of`: per block, whether only what enters such a block counts; NULL:
 * everything does. */
static void activations_choose(hr_moves *m, hr_division d, const bool *of) {
  const hr_graph *g = m->b->graph;
  for (uint32_t at = 0; at < m->count; at++) {
    const hr_node *node = hr__moves_node(m, at);
    if (node->phase != HR_BACKWARD) continue;
    hr_id into = hr__block_layer(g, node->block);
    if (of && (into == HR_NONE || !of[into])) continue;
    for (int i = 0; i < node->n_in; i++) {
      hr_id in = node->in[i];
      if (in != HR_NONE && g->values[in].base != HR_NONE) in = g->values[in].base;
      if (in == HR_NONE || m->chosen[in] != HR_TIER_DEVICE || !value_movable(g, in)) continue;
      const hr_node *producer = &g->nodes[g->values[in].producer];
      const hr_buffer *buffer = &g->buffers[g->values[in].buffer];
      if (producer->phase != HR_FORWARD || producer->op->never_saved || buffer->role != HR_ROLE_ACTIVATION) continue;
      if (buffer->bytes < HR_COPY_LEAST || (of && hr__block_layer(g, producer->block) == into)) continue;
      m->chosen[in] = hr__division_take(&d, producer->module, buffer->bytes);
    }
  }
}

/* Blocks of this program whose inputs alone are to be kept, offloaded. */
static hr_status kept_choose(hr_moves *m, const hr_choices *choices, hr_error *err) {
  const hr_graph *g = m->b->graph;
  bool *of = hr__arena_array(m->scratch, g->n_blocks + 1, sizeof *of);
  hr_id *blocks = hr__arena_array(m->scratch, g->n_blocks + 1, sizeof *blocks);
  if (!of || !blocks) return hr__nomem(err);
  size_t count = hr__program_layers(g, m->program, blocks);
  for (size_t i = 0; i < count && i < choices->n_keep; i++)
    of[blocks[i]] = choices->keep[i] == HR_KEEP_OFFLOADED;
  hr_tier tier = choices->offload[HR_OFFLOAD_ACTIVATIONS].tier;
  activations_choose(m, (hr_division){.tier = tier == HR_TIER_DEVICE ? HR_TIER_HOST : tier}, of);
  return HR_OK;
}

/* What is made of offloaded parameters alone (their copies in another type) goes where they are. */
static void copies_choose(hr_moves *m) {
  const hr_graph *g = m->b->graph;
  for (uint32_t at = 0; at < m->count; at++) {
    const hr_node *node = hr__moves_node(m, at);
    hr_tier home = HR_TIER_COUNT;
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] == HR_NONE) continue;
      const hr_buffer *buffer = &g->buffers[g->values[node->in[i]].buffer];
      hr_tier own = buffer->persistent && buffer->role == HR_ROLE_PARAMETER ? buffer->home : HR_TIER_DEVICE;
      if (own < home) home = own;
    }
    if (home == HR_TIER_COUNT || home == HR_TIER_DEVICE || node->op->never_saved || node->op->effect) continue;
    for (int j = 0; j < node->n_out; j++)
      if (value_movable(g, node->out[j]) && g->buffers[g->values[node->out[j]].buffer].bytes >= HR_COPY_LEAST)
        m->chosen[node->out[j]] = home;
  }
}

/* Gradients of parameters that live in this program alone, and the sums on their way. */
static void gradients_choose(hr_moves *m, hr_division d) {
  const hr_graph *g = m->b->graph;
  for (hr_id v = 0; v < m->n_values; v++) {
    const hr_buffer *buffer = &g->buffers[g->values[v].buffer];
    if (buffer->program == m->program && buffer->role == HR_ROLE_GRADIENT && buffer->bytes >= HR_COPY_LEAST &&
        value_movable(g, v))
      m->chosen[v] = hr__division_take(&d, g->nodes[g->values[v].producer].module, buffer->bytes);
  }
}

/* --- stretches ---------------------------------------------------------------------------------------------------- */

enum { LABEL_BETWEEN, LABEL_UPDATE, LABEL_BLOCKS, BETWEEN_MOST = 8 };

/* What a node belongs to: a block in one direction, what lies between blocks, the update at the end. */
static uint32_t label_of(const hr_moves *m, uint32_t at, uint32_t previous, uint32_t last_backward) {
  const hr_node *node = hr__moves_node(m, at);
  if (node->phase == HR_UPDATE) return at < last_backward ? previous : (uint32_t)LABEL_UPDATE;
  hr_id block = hr__block_layer(m->b->graph, node->block);
  return block == HR_NONE ? (uint32_t)LABEL_BETWEEN : LABEL_BLOCKS + 2 * block + (node->phase == HR_BACKWARD);
}

/* Nodes between two parts of the same block belong to it. */
static void labels_join(uint32_t *label, uint32_t count) {
  for (uint32_t at = 1; at < count; at++) {
    if (label[at] != LABEL_BETWEEN || label[at - 1] < LABEL_BLOCKS) continue;
    uint32_t end = at;
    while (end < count && label[end] == LABEL_BETWEEN)
      end++;
    if (end < count && label[end] == label[at - 1])
      for (uint32_t i = at; i < end; i++)
        label[i] = label[at - 1];
    at = end;
  }
}

static hr_status stretches_find(hr_moves *m, hr_error *err) {
  uint32_t *label = hr__arena_array(m->scratch, (size_t)m->count + 1, sizeof *label), last_backward = 0;
  m->stretch = hr__arena_array(m->scratch, (size_t)m->count + 1, sizeof *m->stretch);
  m->begin = hr__arena_array(m->scratch, (size_t)m->count + 2, sizeof *m->begin);
  if (!label || !m->stretch || !m->begin) return hr__nomem(err);
  for (uint32_t at = 0; at < m->count; at++)
    if (hr__moves_node(m, at)->phase == HR_BACKWARD) last_backward = at;
  for (uint32_t at = 0; at < m->count; at++)
    label[at] = label_of(m, at, at ? label[at - 1] : (uint32_t)LABEL_BETWEEN, last_backward);
  labels_join(label, m->count);
  m->n_stretches = 0;
  for (uint32_t at = 0; at < m->count; at++) {
    bool row = at > 0 && m->tiled[at] && m->tiled[at - 1]; /* of tiles, which is one thing */
    bool begins = at == 0 || label[at] != label[at - 1] || (label[at] == LABEL_UPDATE && !row);
    if (!begins && label[at] == LABEL_BETWEEN) begins = at - m->begin[m->n_stretches - 1] == BETWEEN_MOST;
    if (begins) m->begin[m->n_stretches++] = at;
    m->stretch[at] = m->n_stretches - 1;
  }
  m->begin[m->n_stretches] = m->count;
  return HR_OK;
}

/* --- nodes of the copies ------------------------------------------------------------------------------------------ */

static hr_tier value_tier(const hr_graph *g, hr_id value) {
  return g->buffers[g->values[value].buffer].home;
}

/* Storage of a copy's room on the host. */
static void room_place(hr_graph *g, hr_id node) {
  hr_buffer *room = &g->buffers[g->values[g->nodes[node].out[1]].buffer];
  room->role = HR_ROLE_STAGING;
  room->home = HR_TIER_HOST;
}

hr_id hr__moves_fetch(hr_moves *m, hr_id source, hr_id to) {
  hr_graph *g = m->b->graph;
  hr_id out = hr__fetch(m->b, source, to, value_tier(g, source) == HR_TIER_DISK);
  if (out == HR_NONE) return HR_NONE;
  room_place(g, g->values[out].producer);
  if (to != HR_NONE) return out;
  g->buffers[g->values[out].buffer].role = HR_ROLE_STAGING;
  return out;
}

hr_id hr__moves_store(hr_moves *m, hr_id value, hr_id to, hr_tier tier) {
  hr_graph *g = m->b->graph;
  if (to != HR_NONE) tier = value_tier(g, to);
  hr_id out = hr__store(m->b, value, to, tier == HR_TIER_DISK);
  if (out == HR_NONE) return HR_NONE;
  room_place(g, g->values[out].producer);
  if (to != HR_NONE) return out;
  g->buffers[g->values[out].buffer].home = tier;
  g->buffers[g->values[out].buffer].role = g->buffers[g->values[value].buffer].role;
  return out;
}

hr_id hr__moves_wait(hr_moves *m, hr_id started) {
  if (started == HR_NONE) return HR_NONE;
  const hr_graph *g = m->b->graph;
  const hr_node *node = &g->nodes[g->values[started].producer];
  bool staged = ((const hr_transfer_args *)node->args)->staged;
  return hr__wait(m->b, started, node->in[0], staged ? node->out[1] : HR_NONE);
}

hr_status hr__moves_insert(hr_moves *m, hr_id from, uint32_t position, hr_spot spot, hr_error *err) {
  for (hr_id node = from; node < m->b->graph->n_nodes; node++) {
    if (hr__arena_grow(m->scratch, (void **)&m->inserted, &m->cap_inserted, m->n_inserted, sizeof *m->inserted) != 0)
      return hr__nomem(err);
    m->inserted[m->n_inserted++] = (hr_insertion){(size_t)position * HR_SPOTS + spot, node};
  }
  return HR_OK;
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

/* The program's nodes with the inserted ones in their places, behind order[*n). */
static hr_status program_order(const hr_moves *m, hr_id *order, size_t *n, hr_error *err) {
  size_t places = (size_t)m->count * HR_SPOTS;
  uint32_t *first = hr__arena_room(m->scratch, places, sizeof *first);      /* insertion at a place; UINT32_MAX: none */
  uint32_t *next = hr__arena_room(m->scratch, m->n_inserted, sizeof *next); /* the one behind it at the same place */
  if (!first || !next) return hr__nomem(err);
  memset(first, 0xff, places * sizeof *first);
  for (size_t i = m->n_inserted; i-- > 0;) {
    next[i] = first[m->inserted[i].place];
    first[m->inserted[i].place] = (uint32_t)i;
  }
  for (size_t place = 0; place < places; place++) {
    for (uint32_t i = first[place]; i != UINT32_MAX; i = next[i])
      order[(*n)++] = m->inserted[i].node;
    if (place % HR_SPOTS == HR_SPOT_NODE && !m->dropped[place / HR_SPOTS])
      order[(*n)++] = m->first + (hr_id)(place / HR_SPOTS);
  }
  return HR_OK;
}

static bool program_concerned(const hr_moves *m) {
  const hr_graph *g = m->b->graph;
  for (hr_id v = 0; v < m->n_values; v++)
    if (m->chosen[v] != HR_TIER_DEVICE) return true;
  for (size_t i = 0; i < g->n_buffers; i++)
    if (g->buffers[i].persistent && g->buffers[i].home != HR_TIER_DEVICE && g->buffers[i].programs >> m->program & 1)
      return true;
  return false;
}

static hr_status tables_create(hr_moves *m, bool **read, hr_error *err) {
  const hr_graph *g = m->b->graph;
  m->n_values = g->n_values;
  m->dropped = hr__arena_array(m->scratch, (size_t)m->count + 1, sizeof *m->dropped);
  m->tiled = hr__arena_array(m->scratch, (size_t)m->count + 1, sizeof *m->tiled);
  m->chosen = hr__arena_array(m->scratch, g->n_values + 1, sizeof *m->chosen);
  m->below = hr__arena_array(m->scratch, g->n_values + 1, sizeof *m->below);
  *read = hr__arena_array(m->scratch, g->n_values + 1, sizeof **read);
  if (!m->dropped || !m->tiled || !m->chosen || !m->below || !*read) return hr__nomem(err);
  for (hr_id v = 0; v < g->n_values; v++)
    m->below[v] = HR_NONE;
  for (uint32_t at = 0; at < m->count; at++)
    for (int i = 0; i < hr__moves_node(m, at)->n_in; i++)
      if (hr__moves_node(m, at)->in[i] != HR_NONE) (*read)[hr__moves_node(m, at)->in[i]] = true;
  const hr_program *program = &g->programs[m->program];
  for (int i = 0; i < program->n_outputs; i++)
    (*read)[program->output[i].value] = true;
  return HR_OK;
}

static hr_status program_rewrite(hr_moves *m, const hr_offload_homes *homes, const hr_choices *choices, hr_error *err) {
  bool *read;
  HR_TRY(tables_create(m, &read, err));
  activations_choose(m, homes->activations, NULL);
  if (choices && choices->keep) HR_TRY(kept_choose(m, choices, err));
  copies_choose(m);
  gradients_choose(m, homes->gradients);
  if (!program_concerned(m)) return HR_OK;
  hr__offload_mark_tiled(m, read);
  HR_TRY(stretches_find(m, err));
  HR_TRY(hr__offload_regions(m, err));
  return hr__offload_tiles(m, err);
}

static hr_status programs_rewrite(hr_builder *b, const hr_offload_homes *homes, const hr_choices *choices,
                                  hr_arena *scratch, hr_error *err) {
  hr_graph *g = b->graph;
  hr_program programs[HR_PROGRAMS]; /* as they are before nodes come behind them */
  hr_moves moves[HR_PROGRAMS];
  size_t n_nodes = g->n_nodes, n = 0;
  memcpy(programs, g->programs, g->n_programs * sizeof *programs);
  for (hr_id p = 0; p < g->n_programs; p++) {
    b->program = p;
    moves[p] = (hr_moves){.b = b,
                          .scratch = scratch,
                          .program = p,
                          .first = programs[p].first,
                          .count = programs[p].count,
                          .update_on_host = homes->update_on_host,
                          .tile_bytes = homes->tile_bytes,
                          .tiles_in_one = homes->tiles_in_one};
    HR_TRY(program_rewrite(&moves[p], homes, choices, err));
  }
  if (g->n_nodes == n_nodes) return HR_OK;
  hr_id *order = hr__arena_array(scratch, g->n_nodes + 1, sizeof *order);
  if (!order) return hr__nomem(err);
  for (hr_id p = 0; p < g->n_programs; p++)
    HR_TRY(program_order(&moves[p], order, &n, err));
  return hr__graph_arrange(g, order, n, err);
}

/* Persistent buffers go home. */
static void homes_take(hr_graph *g, const hr_offload_homes *homes) {
  for (size_t i = 0; i < g->n_buffers; i++)
    g->buffers[i].home = homes->of_buffer[i];
}

hr_status hr__pass_offload(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  HR_TRY(hr__offload_homes_check(b->graph, recipe, err));
  hr_arena scratch;
  hr_offload_homes homes;
  hr__arena_init(&scratch);
  hr_status status = hr__offload_homes_find(b->graph, recipe, choices, &scratch, &homes, err);
  if (status == HR_OK) homes_take(b->graph, &homes);
  if (status == HR_OK && homes.gradients.tier != HR_TIER_DEVICE) status = hr__offload_norm(b, err);
  hr__offload_small_state(b->graph);
  if (status == HR_OK) status = programs_rewrite(b, &homes, choices, &scratch, err);
  hr__arena_fini(&scratch);
  return status == HR_OK ? hr__builder_status(b, err) : status;
}
