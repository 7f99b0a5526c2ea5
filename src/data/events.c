/* Source events: a sample is a recording, as some of its vectors, with its class. See events.h.
 *
 * Fields, of B samples with up to L vectors, n of which a sample has:
 *
 *   vectors   f32 [B, L, 128]  real parts, then imaginary ones; 0 behind the sample
 *   orders    i32 [B, 6, L]    which vector stands at each position of an order
 *   inverses  i32 [B, 6, L]    where each vector stands in it
 *   pooling   f32 [B, S, L]    weights of the S scales of model.config.pooling_scales, 0 behind the sample
 *   labels    i32 [B]          the class, from 0
 *
 * With data.packing samples share rows of C pieces (events_rows.h): orders and weights are those of each within its own
 * positions, and
 *
 *   starts      i32 [B, 6, L]  where the sample of each position begins, alike for all orders
 *   recordings  i32 [B, C]     which sample of the row a piece is of; C: none
 *   labels      i32 [B, C]     of each sample of the row; behind the last one anything
 *
 * Samples are drawn anew in every epoch. To fill one takes room for an interval and for the places of its vectors:
 * there is as much as threads fill at once.
 */
#include "data/events.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "data/events_rows.h"
#include "data/pooling.h"

#define SCALES "model.config.pooling_scales"

/* Room of one thread. */
typedef struct desk {
  float *room, *places;
  _Atomic bool taken;
} desk;

typedef struct events {
  hr_events of;
  hr_random_key keys[2]; /* of training, of what is held out */
  hr_pooling pooling;
  int64_t length, classes;
  hr_confusion *confusion;
  desk *desks;
  int n_desks;
  size_t desk_bytes;
  bool evaluates; /* these are the files of data.eval_path */
  hr_event_rows rows;
} events;

static void events_close(void *state) {
  events *s = state;
  hr__events_close(&s->of);
  for (int i = 0; s->desks && i < s->n_desks; i++) {
    hr__free(s->desks[i].room);
    hr__free(s->desks[i].places);
  }
  hr__free(s->desks);
  hr__event_rows_fini(&s->rows);
  hr__free(s->confusion);
  hr__free(s);
}

static const hr_field *field_named(const hr_fields *fields, const char *name) {
  for (int i = 0; i < fields->count; i++)
    if (strcmp(fields->list[i].name, name) == 0) return &fields->list[i];
  return NULL;
}

/* What of the request's fields the data must agree with. */
static hr_status fields_check(const hr_source_request *request, int64_t *classes, hr_error *err) {
  const hr_field *vectors = field_named(request->fields, "vectors"), *labels = field_named(request->fields, "labels");
  if (!vectors || !labels || vectors->desc.rank != 3 || vectors->desc.dtype != HR_F32)
    return hr__recipe_fail(request->recipe, "data.source", "choose another data.source", err,
                           "source events gives vectors and their class, which this model does not take");
  if (vectors->desc.dim[2] != HR_EVENT_WIDTH)
    return hr__recipe_fail(request->recipe, "data.source", "set model.config.encoding_dim to 64", err,
                           "vectors of events have 64 real and 64 imaginary parts, but the model takes %" PRId64
                           " numbers",
                           vectors->desc.dim[2]);
  *classes = labels->bound;
  return HR_OK;
}

static hr_status desks_take(events *s, int64_t workers, hr_error *err) {
  s->n_desks = (int)workers + 1;
  s->desks = hr__alloc_zero((size_t)s->n_desks, sizeof *s->desks);
  if (!s->desks) return hr__nomem(err);
  size_t room = hr__events_room(&s->of), places = 3 * (size_t)s->length;
  s->desk_bytes = (room + places) * sizeof(float);
  for (int i = 0; i < s->n_desks; i++) {
    s->desks[i].room = hr__alloc_zero(room, sizeof *s->desks[i].room);
    s->desks[i].places = hr__alloc_zero(places, sizeof *s->desks[i].places);
    if (!s->desks[i].room || !s->desks[i].places) return hr__nomem(err);
  }
  return HR_OK;
}

/* Those of other splits than "train" where a manifest names any, all of data.eval_path, or the end of the data. */
static hr_status hold_out(events *s, const hr_source_request *request, hr_error *err) {
  hr_events *e = &s->of;
  uint64_t named = 0;
  for (size_t i = 0; i < e->n_samples; i++)
    named += e->samples[i].held;
  bool as_named = named > 0 && request->held != HR_HOLD_ALL; /* whatever is evaluated, they are not trained on */
  uint64_t held = as_named ? named : hr__held_out(request, e->n_samples);
  if (e->n_samples == 0 || held > e->n_samples || (request->held != HR_HOLD_ALL && held == e->n_samples))
    return hr__fail(err, HR_BAD_INPUT, e->files.count > 0 ? e->files.list[0].path : "data.events.generate",
                    "give more samples, or data.eval_path", "%zu samples are too few: %s", e->n_samples,
                    request->held == HR_HOLD_ALL ? "one is needed" : "one to train on is needed beside those held out");
  for (size_t i = 0; i < e->n_samples && !as_named; i++)
    e->samples[i].held = i >= e->n_samples - held;
  hr__events_order(e);
  return HR_OK;
}

/* The draw of a sample in the epoch of an entry, with room for so many vectors. */
static hr_event_draw draw_of(const events *s, uint64_t entry, uint64_t number, int64_t length) {
  const hr_events *e = &s->of;
  bool held = number >= e->n_samples - e->n_held;
  return (hr_event_draw){.events = e,
                         .sample = &e->samples[number],
                         .key = s->keys[held],
                         .high = held ? number : (entry >> HR_ENTRY_BITS << HR_ENTRY_BITS) | number,
                         .training = !held,
                         .length = length};
}

static hr_status rows_make(events *s, const hr_source_request *request, hr_error *err) {
  const hr_field *recordings = field_named(request->fields, "recordings");
  if (!recordings)
    return hr__recipe_fail(request->recipe, "data.packing", "leave data.packing out", err,
                           "the model does not take several recordings in a row");
  s->rows.pieces = recordings->desc.dim[1];
  s->rows.piece = s->length / s->rows.pieces;
  uint64_t train = s->of.n_samples - s->of.n_held;
  uint32_t *lengths = hr__alloc_zero(train + 1, sizeof *lengths);
  if (!lengths) return hr__nomem(err);
  for (uint64_t i = 0; i < train; i++) {
    hr_event_draw draw = draw_of(s, 0, i, s->length);
    lengths[i] = (uint32_t)hr__event_draw_length(&draw);
  }
  hr_status status = hr__event_rows_fill(&s->rows, lengths, train, err);
  hr__free(lengths);
  return status;
}

static hr_status events_build(events *s, const hr_source_request *request, bool shared, hr_error *err) {
  HR_TRY(fields_check(request, &s->classes, err));
  HR_TRY(hr__pooling_scales(request->recipe, SCALES, &s->pooling, err));
  hr__events_settings(request->recipe, request->seed, &s->of.settings);
  HR_TRY(hr__events_read(&s->of, request->recipe, request->key, s->classes, err));
  HR_TRY(hold_out(s, request, err));
  s->keys[0] = (hr_random_key){request->seed, hr__random_stream("data.events")};
  s->keys[1] = (hr_random_key){request->seed, hr__random_stream("data.events.eval")};
  s->length = request->length;
  s->evaluates = request->held == HR_HOLD_ALL;
  s->confusion = hr__alloc_zero(1, sizeof *s->confusion);
  if (!s->confusion) return hr__nomem(err);
  if (shared) HR_TRY(rows_make(s, request, err));
  return desks_take(s, hr__recipe_int(request->recipe, "data.workers"), err);
}

static hr_status open_any(const hr_source_request *request, bool shared, void **state, hr_error *err) {
  events *s = hr__alloc_zero(1, sizeof *s);
  if (!s) return hr__nomem(err);
  hr__events_begin(&s->of);
  hr_status status = events_build(s, request, shared, err);
  if (status != HR_OK) {
    events_close(s);
    return status;
  }
  *state = s;
  return HR_OK;
}

static hr_status events_open(const hr_source_request *request, void **state, hr_error *err) {
  return open_any(request, false, state, err);
}
static hr_status events_open_rows(const hr_source_request *request, void **state, hr_error *err) {
  return open_any(request, true, state, err);
}

static uint64_t events_samples(const void *state) {
  const events *s = state;
  return s->rows.piece > 0 ? s->rows.bins.count + s->of.n_held : s->of.n_samples;
}

static uint64_t events_held(const void *state) {
  return ((const events *)state)->of.n_held;
}

/* What is in an entry, which has the epoch above its number. */
static hr_event_content content_of(const events *s, uint64_t entry) {
  return hr__event_content(&s->rows, entry & ((UINT64_C(1) << HR_ENTRY_BITS) - 1));
}

static int64_t events_length(const void *state, uint64_t entry) {
  const events *s = state;
  hr_event_content c = content_of(s, entry);
  int64_t length = 0;
  for (uint64_t i = 0; i < c.count; i++) {
    hr_event_draw draw = draw_of(s, entry, hr__event_content_at(&c, i), s->length);
    length += hr__event_draw_length(&draw);
  }
  return length;
}

static int64_t events_within(const void *state, uint64_t entry) {
  return (int64_t)content_of(state, entry).count;
}

static const char *events_remark(const void *state) {
  const events *s = state;
  return *s->rows.remark ? s->rows.remark : NULL;
}

/* Lengths as they would be without a longest, so that what is cut is counted. */
static hr_status events_scan(const void *state, hr_each_sample each, void *user, hr_error *err) {
  (void)err;
  for (uint64_t i = 0; i < events_samples(state); i++) {
    hr_event_draw draw = draw_of(state, i, i, INT32_MAX);
    each(user, i, hr__event_draw_length(&draw));
  }
  return HR_OK;
}

/* There are more of them than threads that fill. */
static desk *desk_take(const events *s) {
  for (int i = 0;; i = (i + 1) % s->n_desks)
    if (!atomic_exchange(&s->desks[i].taken, true)) return &s->desks[i];
}

static void *field_at(const hr_room *room, const char *name) {
  const hr_field *field = field_named(room->fields, name);
  return field ? room->at[field - room->fields->list] : NULL;
}

/* Sample `number` of a row, from position `first` on; *n: how many it has. What is behind it the next one writes. */
static hr_status sample_fill(const events *s, const hr_event_draw *draw, const hr_room *room, desk *d, int64_t number,
                             int64_t first, int64_t *n, hr_error *err) {
  int32_t *orders = field_at(room, "orders"), *inverses = field_at(room, "inverses"),
          *labels = field_at(room, "labels");
  int32_t *starts = field_at(room, "starts"), *recordings = field_at(room, "recordings");
  float *pooling = field_at(room, "pooling"), *vectors = field_at(room, "vectors");
  *n = hr__event_draw_length(draw);
  HR_TRY(hr__event_draw(draw, d->room, vectors + first * HR_EVENT_WIDTH, d->places, err));
  if (orders && inverses) hr__event_orders(d->places, *n, first, room->length, orders, inverses);
  if (pooling) hr__pooling_weights(&s->pooling, *n, first, room->length, pooling);
  labels[number] = draw->sample->label;
  for (int64_t i = number + 1; i < s->rows.pieces; i++)
    labels[i] = labels[number];
  if (starts && recordings) hr__event_rows_tell(&s->rows, number, *n, first, starts, recordings);
  return HR_OK;
}

static hr_status row_fill(const events *s, uint64_t entry, const hr_room *room, desk *d, hr_error *err) {
  hr_event_content c = content_of(s, entry);
  int64_t first = 0, n = 0;
  for (uint64_t i = 0; i < c.count; i++) {
    hr_event_draw draw = draw_of(s, entry, hr__event_content_at(&c, i), room->length - first);
    HR_TRY(sample_fill(s, &draw, room, d, (int64_t)i, first, &n, err));
    first = hr__event_rows_next(&s->rows, first, n);
  }
  return HR_OK;
}

static hr_status events_fill(const void *state, bool eval, uint64_t entry, const hr_room *room, hr_error *err) {
  (void)eval;
  const events *s = state;
  desk *d = desk_take(s);
  hr_status status = row_fill(s, entry, room, d, err);
  d->taken = false;
  return status;
}

static uint64_t events_items(const void *state, int64_t *of_an_entry) {
  *of_an_entry = 1;
  return ((const events *)state)->of.n_held;
}

static const char *events_item(const void *state, uint64_t number) {
  const hr_events *e = &((const events *)state)->of;
  int32_t label = e->samples[e->n_samples - e->n_held + number].label;
  return (size_t)label < e->n_classes ? e->classes[label] : "";
}

static hr_status events_judge(const void *state, const float *points, int64_t width, hr_judged *out, hr_error *err) {
  const events *s = state;
  if (width != s->classes)
    return hr__fail(err, HR_FAILURE, NULL, NULL, "the model gives %" PRId64 " numbers for %" PRId64 " classes", width,
                    s->classes);
  hr__events_judge(&s->of, points, width, s->confusion, out);
  return HR_OK;
}

static const hr_data_file *events_file(const void *state, size_t number) {
  const hr_events *e = &((const events *)state)->of;
  return number < e->files.count ? &e->files.list[number] : NULL;
}

static const hr_trace *events_trace(const void *state) {
  const events *s = state;
  return s->of.files.count > 0 ? &s->of.trace : NULL;
}

/* Of rows those that are there: room behind them was never written to. */
static hr_data_bytes events_bytes(const void *state) {
  const events *s = state;
  const hr_events *e = &s->of;
  uint64_t held = e->n_rows * HR_EVENT_ROW * sizeof *e->rows + e->cap_samples * sizeof *e->samples +
                  e->cap_intervals * sizeof *e->intervals + e->arena.used_bytes + (uint64_t)s->n_desks * s->desk_bytes;
  hr_data_bytes rows = hr__bins_bytes(&s->rows.bins);
  bool hdf5 = false;
  for (size_t i = 0; e->opened && i < e->files.count; i++)
    hdf5 |= e->opened[i].hdf5 != NULL;
  /* Those of data.eval_path are open beside it: the library is counted once, with what is trained on. */
  return (hr_data_bytes){.held = held + rows.held + (hdf5 && !s->evaluates ? HR_HDF5_HELD_BYTES : 0),
                         .making = rows.making + 2 * sizeof(uint32_t) * s->rows.bins.n_items};
}

#define COMMON                                                                                                         \
  .name = "events", .anew = true, .items_held = true, .close = events_close, .held = events_held,                      \
  .length = events_length, .fill = events_fill, .items = events_items, .item = events_item, .judge = events_judge,     \
  .file = events_file, .bytes = events_bytes, .trace = events_trace

enum { FILLS = 1u << HR_FOR_VALUES | 1u << HR_FOR_TARGETS };

/* Each sample goes into the bucket of its vectors. */
static const hr_source in_buckets = {COMMON, .purposes = FILLS, .open = events_open, .scan = events_scan};
static const hr_source in_rows = {COMMON,
                                  .purposes = FILLS | 1u << HR_FOR_STARTS,
                                  .open = events_open_rows,
                                  .samples = events_samples,
                                  .within = events_within,
                                  .remark = events_remark};

const hr_source hr_source_events = {COMMON,
                                    .purposes = FILLS,
                                    .in_buckets = &in_buckets,
                                    .in_rows = &in_rows,
                                    .open = events_open,
                                    .samples = events_samples};
