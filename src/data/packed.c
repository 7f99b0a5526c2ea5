/* Documents of another source packed into samples of one length (data.packing). A sample is a bin (bins.h): its
 * documents lie one behind the other, each with targets of its own, so that none predicts the first token of the next;
 * what is left is padding. `starts` says where the document of each position begins, for attention to stop there;
 * padding counts as one.
 *
 * Documents are held out before they are packed: those to train on and those held out share no bin. */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "data/bins.h"
#include "data/packing.h"

typedef struct packed {
  const hr_source *source; /* of the documents */
  void *state;             /* its own */
  int64_t length;          /* of a sample */
  uint64_t *entries;       /* of documents: what they are to the source */
  uint32_t *lengths;       /* of documents, cut */
  uint64_t documents, train, cut;
  hr_bins bins[2]; /* to train on, held out */
  char remark[1024];
} packed;

static void packed_close(void *state) {
  packed *p = state;
  if (p->state) p->source->close(p->state);
  for (int i = 0; i < 2; i++)
    hr__bins_fini(&p->bins[i]);
  hr__free(p->entries);
  hr__free(p->lengths);
  hr__free(p);
}

static void document_count(void *user, uint64_t entry, int64_t length) {
  (void)entry;
  (void)length;
  ((packed *)user)->documents++;
}

/* The second scan; a file that has grown meanwhile is as it was before. */
typedef struct noting {
  packed *packed;
  uint64_t seen;
} noting;

static void document_note(void *user, uint64_t entry, int64_t length) {
  noting *n = user;
  packed *p = n->packed;
  uint64_t i = n->seen++;
  if (i >= p->documents) return;
  p->entries[i] = entry;
  p->lengths[i] = (uint32_t)(length < p->length ? length : p->length);
  p->cut += length > p->length;
}

static hr_status documents_read(packed *p, hr_error *err) {
  noting n = {.packed = p};
  HR_TRY(p->source->scan(p->state, document_count, p, err));
  p->entries = hr__alloc_zero(p->documents + 1, sizeof *p->entries);
  p->lengths = hr__alloc_zero(p->documents + 1, sizeof *p->lengths);
  if (!p->entries || !p->lengths) return hr__nomem(err);
  HR_TRY(p->source->scan(p->state, document_note, &n, err));
  if (n.seen == p->documents) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, p->source->file(p->state, 0)->path, "start again when nothing writes to it",
                  "the file changed while it was read");
}

static void remark_make(packed *p) {
  uint64_t filled = 0, bins = p->bins[0].count + p->bins[1].count;
  const char *inner = p->source->remark ? p->source->remark(p->state) : NULL;
  for (uint64_t i = 0; i < p->documents; i++)
    filled += p->lengths[i];
  int used = snprintf(p->remark, sizeof p->remark,
                      "%" PRIu64 " %s are packed into %" PRIu64 " samples, which are %.1f %% full", p->documents,
                      p->source->name, bins, 100.0 * (double)filled / (double)bins / (double)p->length);
  if (p->cut > 0)
    used += snprintf(p->remark + used, sizeof p->remark - (size_t)used,
                     "; %" PRIu64 " are longer than data.sequence_length and were cut", p->cut);
  if (inner) snprintf(p->remark + used, sizeof p->remark - (size_t)used, "; %s", inner);
}

static hr_status packed_read(packed *p, const hr_source_request *request, hr_error *err) {
  HR_TRY(p->source->open(request, &p->state, err));
  HR_TRY(documents_read(p, err));
  if (!hr__samples_suffice(request, p->documents))
    return hr__fail(err, HR_BAD_INPUT, p->source->file(p->state, 0)->path, "use a longer file",
                    "%" PRIu64 " %s with text are too few: %s needed", p->documents, p->source->name,
                    request->held == HR_HOLD_PART ? "two (one held out)" : "one");
  p->train = p->documents - hr__held_out(request, p->documents);
  HR_TRY(hr__bins_fill(p->lengths, p->train, (uint32_t)p->length, &p->bins[0], err));
  HR_TRY(hr__bins_fill(p->lengths + p->train, p->documents - p->train, (uint32_t)p->length, &p->bins[1], err));
  remark_make(p);
  return HR_OK;
}

static hr_status packed_open(const hr_source_request *request, void **state, hr_error *err) {
  packed *p = hr__alloc_zero(1, sizeof *p);
  if (!p) return hr__nomem(err);
  p->source = hr__source_named(request->recipe);
  p->length = request->length;
  hr_status status = packed_read(p, request, err);
  if (status != HR_OK) {
    packed_close(p);
    return status;
  }
  *state = p;
  return HR_OK;
}

static uint64_t packed_samples(const void *state) {
  const packed *p = state;
  return p->bins[0].count + p->bins[1].count;
}

static uint64_t packed_held(const void *state) {
  return ((const packed *)state)->bins[1].count;
}

/* The documents of a sample, as numbers among all. */
typedef struct content {
  const uint64_t *items;
  uint64_t count, first; /* number of the first document that the bins are of */
} content;

static content content_of(const packed *p, uint64_t sample) {
  bool held = sample >= p->bins[0].count;
  const hr_bins *bins = &p->bins[held];
  uint64_t b = held ? sample - p->bins[0].count : sample;
  return (content){bins->items + bins->begins[b], bins->begins[b + 1] - bins->begins[b], held ? p->train : 0};
}

static int64_t packed_length(const void *state, uint64_t sample) {
  const packed *p = state;
  content c = content_of(p, sample);
  int64_t length = 0;
  for (uint64_t i = 0; i < c.count; i++)
    length += p->lengths[c.first + c.items[i]];
  return length;
}

static int64_t packed_targets(const void *state, uint64_t sample) {
  const packed *p = state;
  if (!p->source->targets) return packed_length(state, sample);
  content c = content_of(p, sample);
  int64_t targets = 0;
  for (uint64_t i = 0; i < c.count; i++)
    targets += p->source->targets(p->state, p->entries[c.first + c.items[i]]);
  return targets;
}

static hr_status packed_fill(const void *state, bool eval, uint64_t sample, const hr_room *room, hr_error *err) {
  const packed *p = state;
  content c = content_of(p, sample);
  int tokens = hr__field_for(room->fields, HR_FOR_TOKENS), targets = hr__field_for(room->fields, HR_FOR_TARGETS);
  int32_t *starts = hr__room_for(room, HR_FOR_STARTS);
  hr_room part = *room;
  int64_t at = 0;
  for (uint64_t i = 0; i < c.count; i++) {
    uint64_t document = c.first + c.items[i];
    part.length = p->lengths[document];
    part.at[tokens] = (int32_t *)room->at[tokens] + at;
    part.at[targets] = (int32_t *)room->at[targets] + at;
    HR_TRY(p->source->fill(p->state, eval, p->entries[document], &part, err));
    for (int64_t t = 0; t < part.length; t++)
      starts[at + t] = (int32_t)at;
    at += part.length;
  }
  for (int64_t t = at; t < room->length; t++) {
    ((int32_t *)room->at[tokens])[t] = 0;
    ((int32_t *)room->at[targets])[t] = -1;
    starts[t] = (int32_t)at;
  }
  return HR_OK;
}

static const char *packed_remark(const void *state) {
  return ((const packed *)state)->remark;
}

static const hr_data_file *packed_file(const void *state, size_t number) {
  const packed *p = state;
  return p->source->file(p->state, number);
}

static const hr_trace *packed_trace(const void *state) {
  const packed *p = state;
  return p->source->trace ? p->source->trace(p->state) : NULL;
}

static hr_data_bytes packed_bytes(const void *state) {
  const packed *p = state;
  hr_data_bytes bytes = p->source->bytes ? p->source->bytes(p->state) : (hr_data_bytes){0};
  bytes.held += (p->documents + 1) * (sizeof *p->entries + sizeof *p->lengths);
  for (int i = 0; i < 2; i++) {
    hr_data_bytes bins = hr__bins_bytes(&p->bins[i]);
    bytes.held += bins.held;
    bytes.making += bins.making;
  }
  return bytes;
}

const hr_source hr_source_packed = {
    .name = "packed",
    .purposes = 1u << HR_FOR_TOKENS | 1u << HR_FOR_TARGETS | 1u << HR_FOR_STARTS,
    .open = packed_open,
    .close = packed_close,
    .samples = packed_samples,
    .held = packed_held,
    .length = packed_length,
    .targets = packed_targets,
    .remark = packed_remark,
    .fill = packed_fill,
    .file = packed_file,
    .bytes = packed_bytes,
    .trace = packed_trace,
};
