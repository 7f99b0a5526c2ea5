#include "torch/trace.h"

#include <string.h>
#include <unistd.h>

#include "format/file.h"
#include "format/number_rows.h"
#include "torch/driver.h"

enum { FILE_MOST = 1 << 30, EVENTS_MOST = 1 << 24, NAMES_MOST = 1 << 20, HEAD_BYTES = 4096 };
static const uint64_t BYTES_MOST = UINT64_C(1) << 50; /* of one allocation */
static const char REMEDY[] = "write it again with tools/torch_trace.py of this version";

typedef struct reading {
  hr_torch_trace *out;
  const char *name;
  hr_arena *arena;
  hr_number_rows rows;
  uint32_t *names; /* numbers of the events' own, by those of the file */
  size_t n_names;
  uint8_t *categories, *phases; /* codes, by number in the file */
  size_t n_categories, n_phases;
  hr_error *err;
} reading;

bool hr__torch_trace_is(const char *path) {
  char head[HEAD_BYTES + 1];
  int fd;
  uint64_t bytes;
  hr_error err;
  if (hr__file_open(path, &fd, &bytes, &err) != HR_OK) return false;
  size_t count = bytes < HEAD_BYTES ? (size_t)bytes : HEAD_BYTES;
  hr_status status = hr__file_read_at(fd, path, 0, head, count, &err);
  close(fd);
  if (status != HR_OK) return false;
  head[count] = '\0';
  return head[strspn(head, " \t\r\n")] == '{' && strstr(head, "\"headroom torch trace ") != NULL;
}

static hr_status refuse(const reading *r, const hr_doc_node *node, const char *what) {
  char place[HR_DOC_PLACE];
  return hr__fail(r->err, HR_BAD_INPUT, node ? hr__doc_place(r->name, node, false, place) : r->name, REMEDY, "%s",
                  what);
}

static const char *text_of(const hr_doc_node *root, const char *key) {
  const hr_doc_node *node = hr__doc_get(root, key);
  return node && node->kind == HR_DOC_SCALAR && node->quoted ? node->text : "";
}

static hr_status list_of(const reading *r, const hr_doc_node *root, const char *key, const char ***texts,
                         size_t *count) {
  const hr_doc_node *list = hr__doc_get(root, key);
  *count = 0;
  if (list == NULL || list->kind != HR_DOC_LIST) return refuse(r, list, "a list of texts is missing");
  for (const hr_doc_node *item = list->child; item; item = item->next)
    if (++*count > NAMES_MOST) return refuse(r, item, "the list is too long");
  *texts = hr__arena_array(r->arena, *count + 1, sizeof **texts);
  if (*texts == NULL) return hr__nomem(r->err);
  size_t i = 0;
  for (const hr_doc_node *item = list->child; item; item = item->next) {
    if (item->kind != HR_DOC_SCALAR || !item->quoted) return refuse(r, item, "a text was to stand here");
    (*texts)[i++] = item->text;
  }
  return HR_OK;
}

typedef const char *(*code_name)(unsigned code);

static const char *category_name(unsigned code) {
  return code < HR_TORCH_CATEGORIES ? hr__torch_category_name((hr_torch_category)code) : NULL;
}

static const char *phase_name(unsigned code) {
  return code < HR_TORCH_PHASES ? hr__torch_phase_name((hr_torch_phase)code) : NULL;
}

/* The codes of the names in a list of the file. */
static hr_status codes_read(const reading *r, const hr_doc_node *root, const char *key, code_name name, uint8_t **codes,
                            size_t *count) {
  const char **texts;
  HR_TRY(list_of(r, root, key, &texts, count));
  *codes = hr__arena_array(r->arena, *count + 1, sizeof **codes);
  if (*codes == NULL) return hr__nomem(r->err);
  for (size_t i = 0; i < *count; i++) {
    unsigned code = 0;
    while (name(code) && strcmp(name(code), texts[i]) != 0)
      code++;
    if (name(code) == NULL) {
      char place[HR_DOC_PLACE];
      return hr__fail(r->err, HR_BAD_INPUT, hr__doc_place(r->name, hr__doc_get(root, key), false, place), REMEDY,
                      "'%.40s' of %s is not known", texts[i], key);
    }
    (*codes)[i] = (uint8_t)code;
  }
  return HR_OK;
}

/* A whole number; 0 where it is null or missing. */
static hr_status number_of(const reading *r, const hr_doc_node *root, const char *key, int64_t most, int64_t *out) {
  const hr_doc_node *node = hr__doc_get(root, key);
  *out = 0;
  if (node == NULL || hr__doc_is_null(node)) return HR_OK;
  if (!hr__doc_int(node, out) || *out < 0 || *out > most) return refuse(r, node, "a whole number was to stand here");
  return HR_OK;
}

static hr_status head_read(reading *r, const hr_doc_node *root) {
  hr_torch_trace *out = r->out;
  const char *format = text_of(root, "format");
  if (strcmp(format, HR_TORCH_TRACE_FORMAT) != 0)
    return hr__fail(r->err, HR_BAD_INPUT, r->name, REMEDY, "its format is '%.60s', not '%s'", format,
                    HR_TORCH_TRACE_FORMAT);
  int64_t batch, capability, recorded;
  HR_TRY(number_of(r, root, "batch", INT32_MAX, &batch));
  HR_TRY(number_of(r, root, "capability", 999, &capability));
  HR_TRY(number_of(r, root, "recorded_reserved_bytes", (int64_t)BYTES_MOST, &recorded));
  out->recorded_bytes = (uint64_t)recorded;
  out->batch = (uint64_t)batch;
  out->capability = (int)capability;
  out->source = text_of(root, "source");
  out->version = text_of(hr__doc_get(root, "versions"), "torch");
  HR_TRY(list_of(r, root, "guesses", &out->guesses, &out->n_guesses));
  HR_TRY(list_of(r, root, "unmodelled", &out->unmodelled, &out->n_unmodelled));
  HR_TRY(codes_read(r, root, "categories", category_name, &r->categories, &r->n_categories));
  HR_TRY(codes_read(r, root, "phases", phase_name, &r->phases, &r->n_phases));
  const char **names;
  HR_TRY(list_of(r, root, "names", &names, &r->n_names));
  r->names = hr__arena_array(r->arena, r->n_names + 1, sizeof *r->names);
  if (r->names == NULL) return hr__nomem(r->err);
  for (size_t i = 0; i < r->n_names; i++)
    r->names[i] = hr__torch_events_name(&out->events, names[i]);
  return hr__torch_events_check(&out->events, r->err);
}

static hr_status event_refuse(const reading *r, const char *what) {
  char place[HR_DOC_PLACE];
  return hr__fail(r->err, HR_BAD_INPUT, hr__number_rows_place(&r->rows, place), REMEDY, "event %zu: %s",
                  r->rows.number - 1, what);
}

static hr_status event_read(const reading *r, const uint64_t *n, size_t count) {
  hr_torch_events *events = &r->out->events;
  if (n[0] == HR_TORCH_ALLOCATE && (count == 5 || count == 6)) {
    if (n[1] > BYTES_MOST) return event_refuse(r, "more bytes than any device has");
    if (n[2] >= r->n_categories || n[3] >= r->n_names || n[4] >= r->n_names || (count == 6 && n[5] > UINT8_MAX))
      return event_refuse(r, "a category, a name or a stream that the file does not have");
    hr__torch_events_allocate_on(events, count == 6 ? (uint8_t)n[5] : 0, n[1], (hr_torch_category)r->categories[n[2]],
                                 r->names[n[3]], r->names[n[4]]);
  } else if (n[0] == HR_TORCH_FREE && count == 2) {
    if (n[1] > UINT32_MAX || !hr__torch_events_live(events, (uint32_t)n[1]))
      return event_refuse(r, "it frees what is not there");
    hr__torch_events_free(events, (uint32_t)n[1]);
  } else if (n[0] == HR_TORCH_MARK && count == 3) {
    if (n[1] >= r->n_phases || n[2] > 1000000) return event_refuse(r, "a phase or a step that cannot be");
    hr__torch_events_mark(events, (hr_torch_phase)r->phases[n[1]], (uint32_t)n[2]);
  } else if (n[0] == HR_TORCH_EMPTY_CACHE && count == 1) {
    hr__torch_events_empty_cache(events);
  } else {
    return event_refuse(r, "no event has this form");
  }
  if (events->count > EVENTS_MOST) return event_refuse(r, "the trace is too long: trace fewer steps");
  return hr__torch_events_check(events, r->err);
}

/* Where segments lie, of a run that was recorded. */
static hr_status places_read(reading *r, const hr_doc_node *root) {
  const hr_doc_node *list = hr__doc_get(root, "segments");
  size_t count = 0;
  if (!list) return HR_OK;
  if (list->kind != HR_DOC_LIST) return refuse(r, list, "segments are a list of places");
  for (const hr_doc_node *it = list->child; it; it = it->next)
    count++;
  uint32_t *places = hr__arena_array(r->arena, count, sizeof *places);
  if (!places) return hr__nomem(r->err);
  for (const hr_doc_node *it = list->child; it; it = it->next) {
    int64_t place;
    if (!hr__doc_int(it, &place) || place < 0 || place >= EVENTS_MOST)
      return refuse(r, it, "a segment is one number, its place among all");
    places[r->out->n_places++] = (uint32_t)place;
  }
  r->out->places = places;
  return HR_OK;
}

hr_status hr__torch_trace_parse(const char *name, const char *text, size_t bytes, hr_arena *arena, hr_torch_trace *out,
                                hr_error *err) {
  reading r = {.out = out, .name = name, .arena = arena, .err = err};
  *out = (hr_torch_trace){.path = name};
  hr__torch_events_init(&out->events);
  hr_doc_node *root;
  bool there;
  /* what a recording says was reserved is for tests alone */
  HR_TRY(hr__number_rows_open(name, text, bytes, "events", "reserved", arena, &root, &r.rows, &there, err));
  HR_TRY(head_read(&r, root));
  if (!there) return refuse(&r, NULL, "it has no list of events");
  HR_TRY(places_read(&r, root));
  for (;;) {
    uint64_t numbers[HR_NUMBER_ROW];
    size_t count;
    HR_TRY(hr__number_rows_next(&r.rows, numbers, &count, &there, err));
    if (!there) return HR_OK;
    HR_TRY(event_read(&r, numbers, count));
  }
}

hr_status hr__torch_trace_read(const char *path, hr_arena *arena, hr_torch_trace *out, hr_error *err) {
  char *text;
  size_t bytes;
  *out = (hr_torch_trace){.path = path};
  hr__torch_events_init(&out->events);
  hr_arena file = {0};
  hr_status status = hr__file_read(path, FILE_MOST, &file, &text, &bytes, err);
  if (status == HR_OK) status = hr__torch_trace_parse(path, text, bytes, arena, out, err);
  hr__arena_fini(&file);
  return status;
}

void hr__torch_trace_fini(hr_torch_trace *trace) {
  hr__torch_events_fini(&trace->events);
}

void hr__torch_trace_workspaces(hr_torch_trace *trace, int capability) {
  const hr_torch_events *events = &trace->events;
  if (trace->capability == 0) return; /* recorded: it has what the GPU had */
  uint32_t call = 0;
  while (call < events->n_names && strcmp(events->names[call], "cublas workspace") != 0)
    call++;
  for (size_t i = 0; i < events->n_ids; i++) {
    hr_torch_event *event = &events->items[events->lives[i].first];
    if (event->call == call) event->bytes = hr__torch_workspace_bytes(capability);
  }
}
