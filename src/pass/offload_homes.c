/* offload_homes: see offload_homes.h. */
#include "pass/offload_homes.h"

#include <string.h>

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

/* Where some of a kind stays anyway, on a GPU, a buffer stays below what takes as long to begin to be copied as to
 * cross. */
enum { COPY_LEAST_PART = 1 << 20 };

/* --- divisions ---------------------------------------------------------------------------------------------------- */

static hr_tier tier_of(const char *word) {
  return strcmp(word, "host") == 0 ? HR_TIER_HOST : strcmp(word, "disk") == 0 ? HR_TIER_DISK : HR_TIER_DEVICE;
}

static hr_division division_of(const hr_recipe *recipe, const hr_choices *choices, hr_offload_kind kind) {
  const char *path = keys[kind].path;
  if (hr__recipe_has(recipe, path) && hr__recipe_tree(recipe, path))
    return (hr_division){.tier = HR_TIER_DISK, .by_name = recipe, .path = path};
  const char *where = hr__rules_word(recipe, path, "", "device");
  if (strcmp(where, "auto") != 0) return (hr_division){.tier = tier_of(where)};
  if (choices && choices->offload[kind].resident_bytes < UINT64_MAX) {
    uint64_t resident = choices->offload[kind].resident_bytes;
    return (hr_division){.tier = choices->offload[kind].tier,
                         .resident_bytes = resident,
                         .host_bytes = choices->offload[kind].host_bytes,
                         .part = resident > 0,
                         .largest = choices->largest_stay && kind == HR_OFFLOAD_PARAMETERS};
  }
  return (hr_division){.tier = HR_TIER_DEVICE};
}

hr_tier hr__division_take(hr_division *d, const char *name, uint64_t bytes) {
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

/* --- persistent buffers ------------------------------------------------------------------------------------------- */

/* A buffer of more than that many times the mean of its kind is a large one: an embedding among layers. */
enum { LARGE_TIMES = 4 };

/* Buffers of one role that may leave the device, in the order of their declaration. */
typedef struct movers {
  hr_id *list;
  size_t count;
} movers;

/* Gives the room of a tier to buffers that would go to `from`: to large ones where those come first, then evenly over
 * all, so that copies of the rest come evenly as well and computing hides most of them. What is left then goes to the
 * first that fit. */
static void homes_raise(const hr_graph *g, const movers *m, hr_tier *homes, hr_tier from, hr_tier to, bool largest,
                        uint64_t *room) {
  enum { LARGE, EVEN, REST, ROUNDS };
  for (int round = largest ? LARGE : EVEN; round<ROUNDS && * room> 0; round++) {
    uint64_t all = 0, count = 0, seen = 0, taken = 0;
    for (size_t i = 0; i < m->count; i++)
      if (homes[m->list[i]] == from) all += g->buffers[m->list[i]].bytes, count++;
    for (size_t i = 0; i < m->count; i++) {
      hr_id buffer = m->list[i];
      uint64_t bytes = g->buffers[buffer].bytes;
      if (homes[buffer] != from) continue;
      double due = (double)*room * ((double)seen + (double)bytes / 2) / (double)all; /* up to its middle */
      seen += bytes;
      if (bytes > *room - taken || (round == LARGE && bytes * count <= LARGE_TIMES * all)) continue;
      if (round == EVEN && (double)taken + (double)bytes / 2 > due) continue;
      homes[buffer] = to;
      taken += bytes;
    }
    *room -= taken;
  }
}

/* What a pass has put below the device stays there at least. */
static void homes_set(const hr_graph *g, hr_role role, hr_division *d, bool cuda, movers *m, hr_tier *homes) {
  size_t least = d->part && cuda ? COPY_LEAST_PART : HR_COPY_LEAST;
  if (!d->by_name && d->tier == HR_TIER_DEVICE) return;
  m->count = 0;
  for (hr_id i = 0; i < g->n_buffers; i++) {
    const hr_buffer *buffer = &g->buffers[i];
    if (!buffer->persistent || buffer->role != role || buffer->bytes < least) continue;
    homes[i] = d->by_name ? tier_of(hr__rules_word(d->by_name, d->path, buffer->name, "device")) : d->tier;
    m->list[m->count++] = i;
  }
  if (!d->by_name) homes_raise(g, m, homes, d->tier, HR_TIER_DEVICE, d->largest, &d->resident_bytes);
  if (!d->by_name && d->tier == HR_TIER_DISK)
    homes_raise(g, m, homes, d->tier, HR_TIER_HOST, d->largest, &d->host_bytes);
  for (size_t i = 0; i < m->count; i++)
    if (homes[m->list[i]] < g->buffers[m->list[i]].home) homes[m->list[i]] = g->buffers[m->list[i]].home;
}

/* --- tiles -------------------------------------------------------------------------------------------------------- */

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

int64_t hr__tile_elements(size_t tile_bytes, double element_bytes) {
  int64_t elements = (int64_t)((double)tile_bytes / element_bytes) / HR_TILE_STEP * HR_TILE_STEP;
  return elements < HR_TILE_STEP ? HR_TILE_STEP : elements;
}

/* Whether every update is one tile, whatever of it moves. */
static bool tiles_whole(const hr_graph *g, size_t tile_bytes) {
  for (size_t n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    if (node->op->first_at == 0) continue;
    int64_t elements = hr_desc_count(&g->values[node->in[0]].desc);
    double bytes = 0;
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] != HR_NONE) bytes += (double)hr_desc_bytes(&g->values[node->in[i]].desc);
    if (elements > hr__tile_elements(tile_bytes, bytes / (double)elements)) return false;
  }
  return true;
}

static void tiles_set(const hr_graph *g, bool cuda, bool few_tiles, hr_offload_homes *out) {
  size_t below[HR_ROLE_COUNT] = {0};
  for (size_t b = 0; b < g->n_buffers; b++)
    if (out->of_buffer[b] != HR_TIER_DEVICE) below[g->buffers[b].role] += g->buffers[b].bytes;
  size_t state = below[HR_ROLE_OPTIMIZER];
  size_t all = state + below[HR_ROLE_PARAMETER] + below[HR_ROLE_GRADIENT]; /* a tile has of each */
  size_t few = state / TILES_FEW < TILE_BYTES_LARGE ? state / TILES_FEW : TILE_BYTES_LARGE;
  size_t least = cuda ? larger(few, TILE_BYTES_CUDA) : TILE_BYTES_CPU;
  out->tile_bytes = larger(least, all / TILES_MOST);
  out->tiles_in_one = few_tiles ? 1 + (int)(all / out->tile_bytes / TILES_JUDGED) : 1;
  if (out->tiles_in_one > 1 && tiles_whole(g, out->tile_bytes)) out->tiles_in_one = 1;
  out->update_on_host &= state > 0;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static bool update_on_host(const hr_recipe *recipe, const hr_choices *choices) {
  const char *where = hr__recipe_has(recipe, UPDATE) ? hr__recipe_text(recipe, UPDATE) : "auto";
  return strcmp(where, "auto") == 0 ? choices && choices->update_on_host : strcmp(where, "host") == 0;
}

static bool device_is_cuda(const hr_recipe *recipe) {
  return hr__recipe_has(recipe, "memory.device") && strcmp(hr__recipe_text(recipe, "memory.device"), "cuda") == 0;
}

static const char *module_name(const void *user, size_t i) {
  const hr_graph *g = user;
  return i < g->n_nodes ? g->nodes[i].module : NULL;
}

hr_status hr__offload_homes_check(const hr_graph *g, const hr_recipe *recipe, hr_error *err) {
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    HR_TRY(hr__rules_check(recipe, keys[k].path, TIERS, "module", module_name, g, err));
  return HR_OK;
}

hr_status hr__offload_homes_find(const hr_graph *g, const hr_recipe *recipe, const hr_choices *choices, hr_arena *arena,
                                 hr_offload_homes *out, hr_error *err) {
  bool cuda = device_is_cuda(recipe);
  hr_division optimizer = division_of(recipe, choices, HR_OFFLOAD_OPTIMIZER);
  hr_division parameters = division_of(recipe, choices, HR_OFFLOAD_PARAMETERS);
  hr_division gradients = division_of(recipe, choices, HR_OFFLOAD_GRADIENTS);
  *out = (hr_offload_homes){.n_buffers = g->n_buffers,
                            .of_buffer = hr__arena_room(arena, g->n_buffers + 1, sizeof *out->of_buffer),
                            .gradients = gradients,
                            .activations = division_of(recipe, choices, HR_OFFLOAD_ACTIVATIONS),
                            .update_on_host = update_on_host(recipe, choices)};
  movers m = {.list = hr__alloc((g->n_buffers + 1) * sizeof *m.list)};
  if (!out->of_buffer || !m.list) {
    hr__free(m.list);
    return hr__nomem(err);
  }
  for (size_t i = 0; i < g->n_buffers; i++)
    out->of_buffer[i] = g->buffers[i].home;
  homes_set(g, HR_ROLE_OPTIMIZER, &optimizer, cuda, &m, out->of_buffer);
  homes_set(g, HR_ROLE_AVERAGE, &optimizer, cuda, &m, out->of_buffer); /* of what stays, behind the state of updates */
  homes_set(g, HR_ROLE_PARAMETER, &parameters, cuda, &m, out->of_buffer);
  homes_set(g, HR_ROLE_GRADIENT, &gradients, cuda, &m, out->of_buffer);
  hr__free(m.list);
  tiles_set(g, cuda, choices && choices->few_tiles, out);
  return HR_OK;
}

static bool division_same(const hr_division *a, const hr_division *b) {
  if (a->tier == HR_TIER_DEVICE && b->tier == HR_TIER_DEVICE) return true;
  return a->tier == b->tier && a->resident_bytes == b->resident_bytes && a->host_bytes == b->host_bytes;
}

bool hr__offload_homes_same(const hr_offload_homes *a, const hr_offload_homes *b) {
  return a->n_buffers == b->n_buffers && a->update_on_host == b->update_on_host && a->tiles_in_one == b->tiles_in_one &&
         division_same(&a->gradients, &b->gradients) && division_same(&a->activations, &b->activations) &&
         memcmp(a->of_buffer, b->of_buffer, a->n_buffers * sizeof *a->of_buffer) == 0;
}
