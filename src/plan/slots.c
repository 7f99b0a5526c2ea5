/* Slots: one for each persistent buffer, each home of transients and each workspace. See building.h. */
#include <stdlib.h>

#include "base/checked.h"
#include "plan/building.h"

hr_status hr__slots_refuse(const hr_building *b, const char *name) {
  return hr__fail(b->err, HR_BAD_INPUT, name, "make the model or the batch smaller",
                  "the plan is larger than the address space");
}

hr_status hr__slot_add(hr_building *b, hr_slot slot, hr_id *id) {
  size_t alignment = slot.tier == HR_TIER_DISK ? HR_DISK_ALIGNMENT : b->plan->facts.alignment;
  if (!hr__round_up(slot.bytes, alignment, &slot.bytes)) return hr__slots_refuse(b, slot.name);
  *id = (hr_id)b->plan->n_slots;
  b->plan->slots[b->plan->n_slots++] = slot;
  return HR_OK;
}

typedef struct persistent_key {
  hr_role role;
  hr_id buffer;
} persistent_key;

static int persistent_compare(const void *a, const void *b) {
  const persistent_key *x = a, *y = b;
  if (x->role != y->role) return x->role < y->role ? -1 : 1;
  return x->buffer < y->buffer ? -1 : 1;
}

hr_status hr__slots_persistent(hr_building *b) {
  const hr_graph *graph = b->graph;
  hr_plan *plan = b->plan;
  persistent_key *keys = hr__arena_room(&b->scratch, graph->n_buffers, sizeof *keys);
  if (!keys) return hr__nomem(b->err);
  size_t count = 0;
  for (hr_id i = 0; i < graph->n_buffers; i++)
    if (graph->buffers[i].persistent) keys[count++] = (persistent_key){graph->buffers[i].role, i};
  qsort(keys, count, sizeof *keys, persistent_compare);
  for (size_t k = 0; k < count; k++) {
    const hr_buffer *buffer = &graph->buffers[keys[k].buffer];
    size_t *bottom = &plan->tiers[buffer->home].persistent_bytes;
    hr_slot slot = {.name = buffer->name,
                    .module = buffer->module,
                    .tier = buffer->home,
                    .category = hr__role_category(buffer->role),
                    .program = HR_NONE,
                    .bytes = buffer->bytes,
                    .last = UINT32_MAX,
                    .offset = *bottom};
    hr_id *id = &plan->slot_of_buffer[keys[k].buffer];
    HR_TRY(hr__slot_add(b, slot, id));
    if (!hr__add_size(*bottom, plan->slots[*id].bytes, bottom)) return hr__slots_refuse(b, buffer->name);
  }
  return HR_OK;
}

/* A home comes before what took it over, so its slot exists by then. */
hr_status hr__slots_transient(hr_building *b, hr_id program) {
  const hr_graph *graph = b->graph;
  hr_plan *plan = b->plan;
  for (hr_id i = 0; i < graph->n_buffers; i++) {
    const hr_buffer *buffer = &graph->buffers[i];
    const hr_lifetime *life = &b->lifetimes[i];
    if (buffer->persistent || buffer->program != program || !life->used || life->home != i) continue;
    hr_slot slot = {.name = buffer->name,
                    .module = buffer->module,
                    .tier = buffer->home,
                    .category = hr__role_category(buffer->role),
                    .program = program,
                    .bytes = buffer->bytes,
                    .first = life->first,
                    .last = life->last};
    HR_TRY(hr__slot_add(b, slot, &plan->slot_of_buffer[i]));
  }
  for (hr_id i = 0; i < graph->n_buffers; i++) {
    if (!graph->buffers[i].persistent && graph->buffers[i].program == program && b->lifetimes[i].used)
      plan->slot_of_buffer[i] = plan->slot_of_buffer[b->lifetimes[i].home];
  }
  return HR_OK;
}

hr_status hr__slots_create(hr_building *b) {
  size_t most = 1;
  for (size_t i = 0; i < b->graph->n_buffers; i++)
    most += b->graph->buffers[i].persistent || b->lifetimes[i].used;
  for (size_t n = 0; n < b->graph->n_nodes; n++)
    most += b->graph->nodes[n].op->workspace != NULL;
  b->plan->slots = hr__arena_room(&b->plan->arena, most, sizeof *b->plan->slots);
  return b->plan->slots ? HR_OK : hr__nomem(b->err);
}
