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
#include "recipe/rules.h"

#define TIERS  "device|host|disk"
#define WHERE  TIERS "|auto"
#define UPDATE "memory.offload.update"
static const hr_key keys[] = {
    {.path = "memory.offload.optimizer",
     .type = HR_KEY_CHOICE,
     .fallback = "device",
     .choices = WHERE,
     .tree = true,
     .example = "{ text: host }",
     .meaning = "where the optimizer's state lives; auto: on the device what fits"},
    {.path = "memory.offload.parameters",
     .type = HR_KEY_CHOICE,
     .fallback = "device",
     .choices = WHERE,
     .tree = true,
     .example = "{ text: host }",
     .meaning = "where parameters live; they come to the device for their uses"},
    {.path = "memory.offload.gradients",
     .type = HR_KEY_CHOICE,
     .fallback = "device",
     .choices = WHERE,
     .tree = true,
     .example = "{ text: host }",
     .meaning = "where gradients of parameters wait for the update"},
    {.path = "memory.offload.activations",
     .type = HR_KEY_CHOICE,
     .fallback = "device",
     .choices = WHERE,
     .tree = true,
     .example = "{ text: host }",
     .meaning = "where results of the forward pass wait for the backward pass"},
    {.path = UPDATE,
     .type = HR_KEY_CHOICE,
     .fallback = "auto",
     .choices = "auto|device|host",
     .meaning = "where parameters are updated whose optimizer state lives on the host; auto: where it is faster"},
};
const hr_key_table hr_offload_keys = {keys, sizeof keys / sizeof keys[0]};

/* Bytes of a buffer below which it stays on the device: its copies, and their nodes, would cost more than it frees.
 * Where some of a kind stays anyway, on a GPU, that is what takes as long to begin to be copied as to cross. */
enum { COPY_LEAST = 64 << 10, COPY_LEAST_PART = 1 << 20 };

/* --- homes -------------------------------------------------------------------------------------------------------- */

/* How much of a kind stays, and where the rest goes. */
typedef struct division {
  hr_tier tier;
  uint64_t resident_bytes, host_bytes;
  bool part;                /* memory.offload.* = auto, and some of it stays */
  bool largest;             /* of which the largest buffers come first */
  const hr_recipe *by_name; /* the tier depends on the name: memory.offload.* is by pattern */
  const char *path;
} division;

static hr_tier tier_of(const char *word) {
  return strcmp(word, "host") == 0 ? HR_TIER_HOST : strcmp(word, "disk") == 0 ? HR_TIER_DISK : HR_TIER_DEVICE;
}

static division division_of(const hr_recipe *recipe, const hr_choices *choices, hr_offload_kind kind) {
  const char *path = keys[kind].path;
  if (hr__recipe_has(recipe, path) && hr__recipe_tree(recipe, path))
    return (division){.tier = HR_TIER_DISK, .by_name = recipe, .path = path};
  const char *where = hr__rules_word(recipe, path, "", "device");
  if (strcmp(where, "auto") != 0) return (division){.tier = tier_of(where)};
  if (choices && choices->offload[kind].resident_bytes < UINT64_MAX) {
    uint64_t resident = choices->offload[kind].resident_bytes;
    return (division){.tier = choices->offload[kind].tier,
                      .resident_bytes = resident,
                      .host_bytes = choices->offload[kind].host_bytes,
                      .part = resident > 0,
                      .largest = choices->largest_stay && kind == HR_OFFLOAD_PARAMETERS};
  }
  return (division){.tier = HR_TIER_DEVICE};
}

/* The home of the next `bytes` of a kind, by name, or in order of declaration: the device while there is room for them,
 * then the host before the disk. */
static hr_tier division_take(division *d, const char *name, uint64_t bytes) {
  if (d->by_name) return tier_of(hr__rules_word(d->by_name, d->path, name, "device"));
  if (d->tier == HR_TIER_DEVICE) return HR_TIER_DEVICE;
  if (bytes <= d->resident_bytes) {
    d->resident_bytes -= bytes;
    return HR_TIER_DEVICE;
  }
  if (d->tier == HR_TIER_DISK && bytes <= d->host_bytes) {
    d->host_bytes -= bytes;
    return HR_TIER_HOST;
  }
  return d->tier;
}

/* A buffer of more than that many times the mean of its kind is a large one: an embedding among layers. */
enum { LARGE_TIMES = 4 };

/* Gives the room of a tier to buffers of a role that would go to `from`: to large ones where those come first, then
 * evenly over all, so that copies of the rest come evenly as well and computing hides most of them. What is left then
 * goes to the first that fit. */
static void homes_raise(const hr_graph *g, hr_role role, hr_tier *homes, hr_tier from, hr_tier to, bool largest,
                        uint64_t *room) {
  enum { LARGE, EVEN, REST, ROUNDS };
  for (int round = largest ? LARGE : EVEN; round < ROUNDS; round++) {
    uint64_t all = 0, count = 0, seen = 0, taken = 0;
    for (size_t i = 0; i < g->n_buffers; i++)
      if (g->buffers[i].role == role && homes[i] == from) all += g->buffers[i].bytes, count++;
    for (size_t i = 0; i < g->n_buffers; i++) {
      uint64_t bytes = g->buffers[i].bytes;
      if (g->buffers[i].role != role || homes[i] != from) continue;
      double due = (double)*room * ((double)seen + (double)bytes / 2) / (double)all; /* up to its middle */
      seen += bytes;
      if (bytes > *room - taken || (round == LARGE && bytes * count <= LARGE_TIMES * all)) continue;
      if (round == EVEN && (double)taken + (double)bytes / 2 > due) continue;
      homes[i] = to;
      taken += bytes;
    }
    *room -= taken;
  }
}

static hr_status homes_set(hr_graph *g, hr_role role, division *d, bool cuda, hr_arena *scratch, hr_error *err) {
  size_t least = d->part && cuda ? COPY_LEAST_PART : COPY_LEAST;
  hr_tier *homes = hr__arena_array(scratch, g->n_buffers + 1, sizeof *homes);
  if (!homes) return hr__nomem(err);
  for (size_t i = 0; i < g->n_buffers; i++) {
    const hr_buffer *buffer = &g->buffers[i];
    homes[i] = HR_TIER_DEVICE;
    if (!buffer->persistent || buffer->role != role || buffer->bytes < least) continue;
    homes[i] = d->by_name ? tier_of(hr__rules_word(d->by_name, d->path, buffer->name, "device")) : d->tier;
  }
  if (!d->by_name && d->tier != HR_TIER_DEVICE)
    homes_raise(g, role, homes, d->tier, HR_TIER_DEVICE, d->largest, &d->resident_bytes);
  if (!d->by_name && d->tier == HR_TIER_DISK)
    homes_raise(g, role, homes, d->tier, HR_TIER_HOST, d->largest, &d->host_bytes);
  for (size_t i = 0; i < g->n_buffers; i++)
    if (homes[i] > g->buffers[i].home) g->buffers[i].home = homes[i]; /* what a pass has put below stays there */
  return HR_OK;
}

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
static void activations_choose(hr_moves *m, division d, const bool *of) {
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
      if (buffer->bytes < COPY_LEAST || (of && hr__block_layer(g, producer->block) == into)) continue;
      m->chosen[in] = division_take(&d, producer->module, buffer->bytes);
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
  activations_choose(m, (division){.tier = tier == HR_TIER_DEVICE ? HR_TIER_HOST : tier}, of);
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
      if (value_movable(g, node->out[j]) && g->buffers[g->values[node->out[j]].buffer].bytes >= COPY_LEAST)
        m->chosen[node->out[j]] = home;
  }
}

/* Gradients of parameters that live in this program alone, and the sums on their way. */
static void gradients_choose(hr_moves *m, division d) {
  const hr_graph *g = m->b->graph;
  for (hr_id v = 0; v < m->n_values; v++) {
    const hr_buffer *buffer = &g->buffers[g->values[v].buffer];
    if (buffer->program == m->program && buffer->role == HR_ROLE_GRADIENT && buffer->bytes >= COPY_LEAST &&
        value_movable(g, v))
      m->chosen[v] = division_take(&d, g->nodes[g->values[v].producer].module, buffer->bytes);
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

static hr_status program_rewrite(hr_moves *m, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  bool *read;
  HR_TRY(tables_create(m, &read, err));
  activations_choose(m, division_of(recipe, choices, HR_OFFLOAD_ACTIVATIONS), NULL);
  if (choices && choices->keep) HR_TRY(kept_choose(m, choices, err));
  copies_choose(m);
  gradients_choose(m, division_of(recipe, choices, HR_OFFLOAD_GRADIENTS));
  if (!program_concerned(m)) return HR_OK;
  hr__offload_mark_tiled(m, read);
  HR_TRY(stretches_find(m, err));
  HR_TRY(hr__offload_regions(m, err));
  return hr__offload_tiles(m, err);
}

static bool device_is_cuda(const hr_recipe *recipe) {
  return hr__recipe_has(recipe, "memory.device") && strcmp(hr__recipe_text(recipe, "memory.device"), "cuda") == 0;
}

/* A copy of a GPU's has some microseconds of its own, which a larger tile hides. Of much state tiles are larger, so
 * that their number, and that of the nodes, stays bounded: about TILES_FEW of them, with TILES_MOST where those would
 * be larger than TILE_BYTES_LARGE, of all that a tile may have below the device. */
enum { TILE_BYTES_CPU = 2 << 20, TILE_BYTES_CUDA = 8 << 20, TILE_BYTES_LARGE = 16 << 20 };
enum { TILES_FEW = 256, TILES_MOST = 4096 };
/* Where a plan is only to be judged, one tile stands for so many that there are about that many. */
enum { TILES_JUDGED = 256 };

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

static size_t bytes_below(const hr_graph *g, hr_role role) {
  size_t bytes = 0;
  for (size_t b = 0; b < g->n_buffers; b++)
    if (g->buffers[b].role == role && g->buffers[b].home != HR_TIER_DEVICE) bytes += g->buffers[b].bytes;
  return bytes;
}

static void tiles_set(hr_moves *m, bool cuda, bool few_tiles) {
  const hr_graph *g = m->b->graph;
  size_t state = bytes_below(g, HR_ROLE_OPTIMIZER);
  size_t all = state + bytes_below(g, HR_ROLE_PARAMETER) + bytes_below(g, HR_ROLE_GRADIENT); /* a tile has of each */
  size_t few = state / TILES_FEW < TILE_BYTES_LARGE ? state / TILES_FEW : TILE_BYTES_LARGE;
  size_t least = cuda ? larger(few, TILE_BYTES_CUDA) : TILE_BYTES_CPU;
  m->tile_bytes = larger(least, all / TILES_MOST);
  m->tiles_in_one = few_tiles ? 1 + (int)(all / m->tile_bytes / TILES_JUDGED) : 1;
}

static bool update_on_host(const hr_recipe *recipe, const hr_choices *choices) {
  const char *where = hr__recipe_has(recipe, UPDATE) ? hr__recipe_text(recipe, UPDATE) : "auto";
  return strcmp(where, "auto") == 0 ? choices && choices->update_on_host : strcmp(where, "host") == 0;
}

static hr_status programs_rewrite(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_arena *scratch,
                                  hr_error *err) {
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
                          .update_on_host = update_on_host(recipe, choices)};
    tiles_set(&moves[p], device_is_cuda(recipe), choices && choices->few_tiles);
    HR_TRY(program_rewrite(&moves[p], recipe, choices, err));
  }
  if (g->n_nodes == n_nodes) return HR_OK;
  hr_id *order = hr__arena_array(scratch, g->n_nodes + 1, sizeof *order);
  if (!order) return hr__nomem(err);
  for (hr_id p = 0; p < g->n_programs; p++)
    HR_TRY(program_order(&moves[p], order, &n, err));
  return hr__graph_arrange(g, order, n, err);
}

static const char *module_name(const void *user, size_t i) {
  const hr_graph *g = user;
  return i < g->n_nodes ? g->nodes[i].module : NULL;
}

hr_status hr__pass_offload(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  bool cuda = device_is_cuda(recipe);
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    HR_TRY(hr__rules_check(recipe, keys[k].path, TIERS, "module", module_name, b->graph, err));
  division optimizer = division_of(recipe, choices, HR_OFFLOAD_OPTIMIZER);
  division parameters = division_of(recipe, choices, HR_OFFLOAD_PARAMETERS);
  division gradients = division_of(recipe, choices, HR_OFFLOAD_GRADIENTS);
  hr_arena scratch;
  hr__arena_init(&scratch);
  hr_status status = homes_set(b->graph, HR_ROLE_OPTIMIZER, &optimizer, cuda, &scratch, err);
  if (status == HR_OK) /* of what stays, behind the state of updates */
    status = homes_set(b->graph, HR_ROLE_AVERAGE, &optimizer, cuda, &scratch, err);
  if (status == HR_OK) status = homes_set(b->graph, HR_ROLE_PARAMETER, &parameters, cuda, &scratch, err);
  if (status == HR_OK) status = homes_set(b->graph, HR_ROLE_GRADIENT, &gradients, cuda, &scratch, err);
  if (status == HR_OK && gradients.tier != HR_TIER_DEVICE) status = hr__offload_norm(b, err);
  hr__offload_small_state(b->graph);
  if (status == HR_OK) status = programs_rewrite(b, recipe, choices, &scratch, err);
  hr__arena_fini(&scratch);
  return status == HR_OK ? hr__builder_status(b, err) : status;
}
