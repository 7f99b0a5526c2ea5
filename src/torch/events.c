#include "torch/events.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"

static const uint32_t NO_NAME = UINT32_MAX;

const char *hr__torch_category_name(hr_torch_category category) {
  static const char *const names[] = {
#define NAME(code, name) name,
      HR_TORCH_CATEGORY_MAP(NAME)
#undef NAME
  };
  assert(category < HR_TORCH_CATEGORIES);
  return names[category];
}

const char *hr__torch_phase_name(hr_torch_phase phase) {
  static const char *const names[] = {
#define NAME(code, name) name,
      HR_TORCH_PHASE_MAP(NAME)
#undef NAME
  };
  assert(phase < HR_TORCH_PHASES);
  return names[phase];
}

void hr__torch_events_init(hr_torch_events *events) {
  *events = (hr_torch_events){0};
  hr__arena_init(&events->texts);
}

void hr__torch_events_fini(hr_torch_events *events) {
  hr__free(events->items);
  hr__free(events->lives);
  hr__free(events->names);
  hr__free(events->slots);
  hr__arena_fini(&events->texts);
  *events = (hr_torch_events){0};
}

void hr__torch_events_clear(hr_torch_events *events) {
  events->count = events->n_ids = 0;
  events->failed = false;
}

/* Room for one more item, by doubling. Numbers of events and ids are 32 bits wide. */
static bool grow(hr_torch_events *events, void **items, size_t *capacity, size_t count, size_t item_bytes) {
  if (count < *capacity) return true;
  size_t wanted = *capacity ? *capacity * 2 : 256;
  void *more = wanted < UINT32_MAX ? hr__realloc(*items, wanted * item_bytes) : NULL;
  if (more == NULL) {
    events->failed = true;
    return false;
  }
  *items = more;
  *capacity = wanted;
  return true;
}

static void event_add(hr_torch_events *events, hr_torch_event event) {
  if (events->failed) return;
  if (!grow(events, (void **)&events->items, &events->capacity, events->count, sizeof *events->items)) return;
  events->items[events->count++] = event;
}

/* The slot that has the text, or the one where it belongs. */
static size_t slot_find(const hr_torch_events *events, const char *text) {
  size_t slot = hr__xxh128(text, strlen(text)).low & (events->n_slots - 1);
  while (events->slots[slot] != NO_NAME && strcmp(events->names[events->slots[slot]], text) != 0)
    slot = (slot + 1) & (events->n_slots - 1);
  return slot;
}

/* At least twice as many slots as names. */
static bool slots_grow(hr_torch_events *events) {
  if (events->n_names * 2 < events->n_slots) return true;
  size_t wanted = events->n_slots ? events->n_slots * 2 : 64;
  uint32_t *slots = hr__alloc(wanted * sizeof *slots);
  if (slots == NULL) return false;
  hr__free(events->slots);
  events->slots = slots;
  events->n_slots = wanted;
  memset(slots, 0xff, wanted * sizeof *slots);
  for (size_t i = 0; i < events->n_names; i++)
    slots[slot_find(events, events->names[i])] = (uint32_t)i;
  return true;
}

static uint32_t name_add(hr_torch_events *events, const char *text) {
  if (!slots_grow(events)) {
    events->failed = true;
    return 0;
  }
  size_t slot = slot_find(events, text);
  if (events->slots[slot] != NO_NAME) return events->slots[slot];
  if (!grow(events, (void **)&events->names, &events->names_capacity, events->n_names, sizeof *events->names)) return 0;
  char *copy = hr__arena_text(&events->texts, text);
  if (copy == NULL) {
    events->failed = true;
    return 0;
  }
  events->names[events->n_names] = copy;
  events->slots[slot] = (uint32_t)events->n_names;
  return (uint32_t)events->n_names++;
}

uint32_t hr__torch_events_name(hr_torch_events *events, const char *text) {
  if (events->failed) return 0;
  if (events->n_names == 0) name_add(events, "");
  return text == NULL || events->failed ? 0 : name_add(events, text);
}

uint32_t hr__torch_events_allocate_on(hr_torch_events *events, uint8_t stream, uint64_t bytes,
                                      hr_torch_category category, uint32_t owner, uint32_t call) {
  if (!grow(events, (void **)&events->lives, &events->ids_capacity, events->n_ids, sizeof *events->lives)) return 0;
  uint32_t id = (uint32_t)events->n_ids++;
  events->lives[id] = (hr_torch_life){(uint32_t)events->count, HR_TORCH_ALWAYS};
  event_add(events, (hr_torch_event){.bytes = bytes,
                                     .id = id,
                                     .owner = owner,
                                     .call = call,
                                     .kind = HR_TORCH_ALLOCATE,
                                     .category = (uint8_t)category,
                                     .stream = stream});
  return id;
}

uint32_t hr__torch_events_allocate(hr_torch_events *events, uint64_t bytes, hr_torch_category category, uint32_t owner,
                                   uint32_t call) {
  return hr__torch_events_allocate_on(events, 0, bytes, category, owner, call);
}

bool hr__torch_events_live(const hr_torch_events *events, uint32_t id) {
  return id < events->n_ids && events->lives[id].end == HR_TORCH_ALWAYS;
}

void hr__torch_events_free(hr_torch_events *events, uint32_t id) {
  if (events->failed) return;
  assert(hr__torch_events_live(events, id));
  events->lives[id].end = (uint32_t)events->count;
  event_add(events, (hr_torch_event){.id = id, .kind = HR_TORCH_FREE});
}

void hr__torch_events_mark(hr_torch_events *events, hr_torch_phase phase, uint32_t step) {
  event_add(events, (hr_torch_event){.id = step, .kind = HR_TORCH_MARK, .phase = (uint8_t)phase});
}

void hr__torch_events_empty_cache(hr_torch_events *events) {
  event_add(events, (hr_torch_event){.kind = HR_TORCH_EMPTY_CACHE});
}

void hr__torch_events_become(hr_torch_events *events, uint32_t id, hr_torch_category category, uint32_t owner) {
  if (events->failed) return;
  assert(id < events->n_ids);
  hr_torch_event *event = &events->items[events->lives[id].first];
  event->category = (uint8_t)category;
  if (owner != UINT32_MAX) event->owner = owner;
}

hr_status hr__torch_events_check(const hr_torch_events *events, hr_error *err) {
  return events->failed ? hr__nomem(err) : HR_OK;
}
