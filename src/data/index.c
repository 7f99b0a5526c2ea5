/* See index.h. */
#include "data/index.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "graph/graph.h"

struct hr_index {
  const hr_source *source;
  const void *state;
  int64_t batch, buckets[HR_PROGRAMS];
  int n_buckets;
  hr_random_key order, within[HR_PROGRAMS]; /* of micro-batches; of samples in a bucket */
  uint64_t count[HR_PROGRAMS];              /* samples to train on */
  uint64_t begin[HR_PROGRAMS];              /* of the bucket in `entries` */
  uint64_t micros;                          /* in an epoch */
  uint64_t train, eval, cut;
  uint64_t *entries; /* those to train on by bucket, then those held out, each in the order of the source */
};

/* What one scan does with each sample. */
typedef struct scan {
  hr_index *index;
  uint64_t seen;
  uint64_t placed[HR_PROGRAMS]; /* third scan */
  bool changed;                 /* there are other samples than in the scan before */
} scan;

static int bucket_of(const hr_index *x, int64_t length) {
  int bucket = 0;
  while (bucket < x->n_buckets - 1 && x->buckets[bucket] < length)
    bucket++;
  return bucket;
}

static void sample_count(void *user, uint64_t entry, int64_t length) {
  (void)entry;
  scan *s = user;
  s->seen++;
  s->index->cut += length > s->index->buckets[s->index->n_buckets - 1];
}

static void sample_sort(void *user, uint64_t entry, int64_t length) {
  (void)entry;
  scan *s = user;
  if (s->seen++ < s->index->train) s->index->count[bucket_of(s->index, length)]++;
}

static void sample_place(void *user, uint64_t entry, int64_t length) {
  scan *s = user;
  hr_index *x = s->index;
  uint64_t number = s->seen++;
  int bucket = bucket_of(x, length);
  if (number >= x->train + x->eval || (number < x->train && s->placed[bucket] == x->count[bucket]))
    s->changed = true;
  else if (number >= x->train)
    x->entries[number] = entry;
  else
    x->entries[x->begin[bucket] + s->placed[bucket]++] = entry;
}

static hr_status index_fill(hr_index *x, const hr_source_request *request, hr_error *err) {
  const hr_source *source = x->source;
  scan counting = {.index = x}, sorting = {.index = x}, placing = {.index = x};
  const hr_data_file *file = source->file ? source->file(x->state, 0) : NULL;
  const char *path = file ? file->path : NULL;
  HR_TRY(source->scan(x->state, sample_count, &counting, err));
  x->eval = source->held ? source->held(x->state) : hr__held_out(request, counting.seen);
  if (!source->held && !hr__samples_suffice(request, counting.seen))
    return hr__fail(err, HR_BAD_INPUT, path, "use a longer file", "%" PRIu64 " %s with text are too few: %s needed",
                    counting.seen, source->name, request->held == HR_HOLD_PART ? "two (one held out)" : "one");
  x->train = counting.seen - x->eval;
  HR_TRY(source->scan(x->state, sample_sort, &sorting, err));
  uint64_t begin = 0;
  for (int b = 0; b < x->n_buckets; b++) {
    x->begin[b] = begin;
    begin += x->count[b];
    x->micros += (x->count[b] + (uint64_t)x->batch - 1) / (uint64_t)x->batch;
  }
  x->entries = hr__alloc_zero(counting.seen, sizeof *x->entries);
  if (!x->entries) return hr__nomem(err);
  HR_TRY(source->scan(x->state, sample_place, &placing, err));
  if (placing.changed || sorting.seen != counting.seen || placing.seen != counting.seen)
    return hr__fail(err, HR_BAD_INPUT, path, "start again when nothing writes to it",
                    "the file changed while it was read");
  return HR_OK;
}

hr_status hr__index_make(const hr_source *source, const void *state, const hr_source_request *request,
                         const hr_index_shape *shape, hr_index **out, hr_error *err) {
  hr_index *x = hr__alloc_zero(1, sizeof *x);
  if (!x) return hr__nomem(err);
  char name[80];
  snprintf(name, sizeof name, "data.%s", source->name);
  *x = (hr_index){.source = source,
                  .state = state,
                  .batch = shape->batch,
                  .n_buckets = shape->n_buckets,
                  .order = {request->seed, hr__random_stream(name)}};
  for (int b = 0; b < shape->n_buckets; b++) {
    snprintf(name, sizeof name, "data.%s.%" PRId64, source->name, shape->buckets[b]);
    x->buckets[b] = shape->buckets[b];
    x->within[b] = (hr_random_key){request->seed, hr__random_stream(name)};
  }
  hr_status status = index_fill(x, request, err);
  if (status != HR_OK) {
    hr__index_destroy(x);
    return status;
  }
  *out = x;
  return HR_OK;
}

void hr__index_destroy(hr_index *x) {
  if (!x) return;
  hr__free(x->entries);
  hr__free(x);
}

uint64_t hr__index_bytes(const hr_index *x) {
  return (x->train + x->eval) * sizeof *x->entries;
}

int64_t hr__index_train(const hr_index *x) {
  return (int64_t)x->train;
}
int64_t hr__index_eval(const hr_index *x) {
  return (int64_t)x->eval;
}
int64_t hr__index_cut(const hr_index *x) {
  return (int64_t)x->cut;
}
uint64_t hr__index_epoch_rows(const hr_index *x) {
  return x->micros * (uint64_t)x->batch;
}

uint64_t hr__index_entry(const hr_index *x, const hr_micro *m, int64_t row) {
  uint64_t number = m->first + (uint64_t)row;
  if (m->eval) return x->entries[x->train + number % x->eval];
  int b = m->bucket;
  uint64_t entry = x->entries[x->begin[b] + hr__random_permute(x->within[b], m->epoch, number, x->count[b])];
  return x->source->anew ? entry | m->epoch << HR_ENTRY_BITS : entry;
}

hr_micro hr__index_micro(const hr_index *x, uint64_t sample, bool eval) {
  uint64_t batch = (uint64_t)x->batch;
  hr_micro m = {.bucket = x->n_buckets - 1, .rows = x->batch, .eval = eval, .sample = sample, .first = sample};
  if (!eval) {
    uint64_t rows = hr__index_epoch_rows(x);
    m.epoch = sample / rows;
    uint64_t number = hr__random_permute(x->order, m.epoch, sample % rows / batch, x->micros), here;
    for (m.bucket = 0; number >= (here = (x->count[m.bucket] + batch - 1) / batch); m.bucket++)
      number -= here;
    m.first = number * batch;
    if (x->count[m.bucket] - m.first < batch) m.rows = (int64_t)(x->count[m.bucket] - m.first);
  }
  m.length = x->buckets[m.bucket];
  return m;
}
