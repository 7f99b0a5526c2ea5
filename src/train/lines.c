/* See lines.h. */
#include "train/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/random.h"
#include "graph/graph.h"
#include "train/data.h"

enum {
  SCAN_BYTES = 1 << 16,
  LENGTH_BITS = 24, /* of an index entry: bytes of the line - 1; where it begins is above them */
  NEWLINE = 10
};

struct hr_lines {
  hr_lines_source source;
  int64_t buckets[HR_PROGRAMS];
  hr_random_key order, within[HR_PROGRAMS]; /* of micro-batches; of lines in a bucket */
  uint64_t count[HR_PROGRAMS];              /* lines to train on */
  uint64_t begin[HR_PROGRAMS];              /* of the bucket in `index` */
  uint64_t micros;                          /* in an epoch */
  uint64_t train, eval, cut;
  uint64_t *index; /* train lines by bucket, then held-out ones, each in the order of the file */
};

/* --- the index -------------------------------------------------------------------------------------------------- */

/* What one pass over the file does with each line. */
typedef struct pass {
  hr_lines *lines;
  uint64_t seen;                /* lines that are not empty */
  uint64_t placed[HR_PROGRAMS]; /* third pass */
  bool changed;                 /* there are other lines than in the pass before */
} pass;
typedef void (*line_fn)(pass *p, uint64_t at, uint64_t bytes);

static int64_t longest(const hr_lines *l) {
  return l->buckets[l->source.n_buckets - 1];
}

static uint64_t kept(const hr_lines *l, uint64_t bytes) {
  return bytes > (uint64_t)longest(l) ? (uint64_t)longest(l) : bytes;
}

static int bucket_of(const hr_lines *l, uint64_t bytes) {
  int bucket = 0;
  while ((uint64_t)l->buckets[bucket] < kept(l, bytes))
    bucket++;
  return bucket;
}

static void line_count(pass *p, uint64_t at, uint64_t bytes) {
  (void)at;
  p->seen++;
  p->lines->cut += bytes > (uint64_t)longest(p->lines);
}

static void line_sort(pass *p, uint64_t at, uint64_t bytes) {
  (void)at;
  if (p->seen++ < p->lines->train) p->lines->count[bucket_of(p->lines, bytes)]++;
}

static void line_place(pass *p, uint64_t at, uint64_t bytes) {
  hr_lines *l = p->lines;
  uint64_t number = p->seen++, entry = at << LENGTH_BITS | (kept(l, bytes) - 1);
  int bucket = bucket_of(l, bytes);
  if (number >= l->train + l->eval || (number < l->train && p->placed[bucket] == l->count[bucket]))
    p->changed = true;
  else if (number >= l->train)
    l->index[number] = entry;
  else
    l->index[l->begin[bucket] + p->placed[bucket]++] = entry;
}

static hr_status file_scan(pass *p, line_fn each, hr_error *err) {
  const hr_lines_source *s = &p->lines->source;
  char *window = hr__alloc(SCAN_BYTES);
  if (!window) return hr__nomem(err);
  uint64_t begin = 0; /* of the line */
  hr_status status = HR_OK;
  for (uint64_t at = 0; at < s->bytes && status == HR_OK;) {
    size_t bytes = s->bytes - at < SCAN_BYTES ? (size_t)(s->bytes - at) : SCAN_BYTES;
    status = hr__data_read(s->path, s->fd, at, window, bytes, err);
    for (size_t i = 0; i < bytes && status == HR_OK; i++) {
      const char *end = memchr(window + i, NEWLINE, bytes - i);
      if (!end) break;
      i = (size_t)(end - window);
      if (at + i > begin) each(p, begin, at + i - begin);
      begin = at + i + 1;
    }
    at += bytes;
  }
  hr__free(window);
  if (status == HR_OK && s->bytes > begin) each(p, begin, s->bytes - begin);
  return status;
}

static hr_status index_make(hr_lines *l, hr_error *err) {
  const char *path = l->source.path;
  pass counting = {.lines = l}, sorting = {.lines = l}, placing = {.lines = l};
  if (l->source.bytes >> (64 - LENGTH_BITS) != 0)
    return hr__fail(err, HR_BAD_INPUT, path, "split the file", "a file of lines has less than 1 TiB");
  HR_TRY(file_scan(&counting, line_count, err));
  if (l->source.held_out > 0) {
    l->eval = (uint64_t)llround(l->source.held_out * (double)counting.seen);
    if (l->eval < 1) l->eval = 1;
  }
  if (counting.seen < l->eval + 1)
    return hr__fail(err, HR_BAD_INPUT, path, "use a longer file", "%" PRIu64 " lines with text are too few: %s needed",
                    counting.seen, l->eval > 0 ? "two (one held out)" : "one");
  l->train = counting.seen - l->eval;
  HR_TRY(file_scan(&sorting, line_sort, err));
  uint64_t begin = 0;
  for (int b = 0; b < l->source.n_buckets; b++) {
    l->begin[b] = begin;
    begin += l->count[b];
    l->micros += (l->count[b] + (uint64_t)l->source.batch - 1) / (uint64_t)l->source.batch;
  }
  l->index = hr__alloc_zero(counting.seen, sizeof *l->index);
  if (!l->index) return hr__nomem(err);
  HR_TRY(file_scan(&placing, line_place, err));
  if (placing.changed || sorting.seen != counting.seen || placing.seen != counting.seen)
    return hr__fail(err, HR_BAD_INPUT, path, "start again when nothing writes to it",
                    "the file changed while it was read");
  return HR_OK;
}

hr_status hr__lines_open(const hr_lines_source *source, hr_lines **out, hr_error *err) {
  hr_lines *l = hr__alloc_zero(1, sizeof *l);
  if (!l) return hr__nomem(err);
  l->source = *source;
  l->order = (hr_random_key){source->seed, hr__random_stream("data.lines")};
  for (int b = 0; b < source->n_buckets; b++) {
    char name[48];
    snprintf(name, sizeof name, "data.lines.%" PRId64, source->buckets[b]);
    l->buckets[b] = source->buckets[b];
    l->within[b] = (hr_random_key){source->seed, hr__random_stream(name)};
  }
  hr_status status = index_make(l, err);
  if (status != HR_OK) {
    hr__lines_close(l);
    return status;
  }
  *out = l;
  return HR_OK;
}

void hr__lines_close(hr_lines *l) {
  if (!l) return;
  hr__free(l->index);
  hr__free(l);
}

int64_t hr__lines_train(const hr_lines *l) {
  return (int64_t)l->train;
}
int64_t hr__lines_eval(const hr_lines *l) {
  return (int64_t)l->eval;
}
int64_t hr__lines_cut(const hr_lines *l) {
  return (int64_t)l->cut;
}
uint64_t hr__lines_epoch_rows(const hr_lines *l) {
  return l->micros * (uint64_t)l->source.batch;
}

/* --- micro-batches ---------------------------------------------------------------------------------------------- */

static uint64_t entry_of(const hr_lines *l, const hr_micro *m, int64_t row) {
  uint64_t number = m->first + (uint64_t)row;
  if (m->eval) return l->index[l->train + number % l->eval];
  int b = m->bucket;
  return l->index[l->begin[b] + hr__random_permute(l->within[b], m->epoch, number, l->count[b])];
}

static uint64_t entry_bytes(uint64_t entry) {
  return (entry & (((uint64_t)1 << LENGTH_BITS) - 1)) + 1;
}

hr_micro hr__lines_micro(const hr_lines *l, uint64_t sample, bool eval) {
  uint64_t batch = (uint64_t)l->source.batch;
  hr_micro m = {.bucket = l->source.n_buckets - 1, .rows = l->source.batch, .eval = eval, .sample = sample};
  m.first = sample;
  if (!eval) {
    uint64_t rows = hr__lines_epoch_rows(l);
    m.epoch = sample / rows;
    uint64_t number = hr__random_permute(l->order, m.epoch, sample % rows / batch, l->micros), here;
    for (m.bucket = 0; number >= (here = (l->count[m.bucket] + batch - 1) / batch); m.bucket++)
      number -= here;
    m.first = number * batch;
    if (l->count[m.bucket] - m.first < batch) m.rows = (int64_t)(l->count[m.bucket] - m.first);
  }
  m.length = l->buckets[m.bucket];
  for (int64_t row = 0; row < m.rows; row++)
    m.tokens += hr__lines_length(l, &m, row);
  m.targets = m.tokens;
  return m;
}

int64_t hr__lines_length(const hr_lines *l, const hr_micro *m, int64_t row) {
  return row < m->rows ? (int64_t)entry_bytes(entry_of(l, m, row)) : 0;
}

/* As with text (data.c) the bytes go to the end of the targets row and are spread upwards from its beginning. */
hr_status hr__lines_row(const hr_lines *l, const hr_micro *m, int64_t row, int32_t *tokens, int32_t *targets,
                        hr_error *err) {
  size_t width = (size_t)m->length, bytes = 0;
  if (row < m->rows) {
    uint64_t entry = entry_of(l, m, row), at = entry >> LENGTH_BITS;
    bytes = (size_t)entry_bytes(entry);
    bool last = at + bytes == l->source.bytes; /* no newline at the end of the file */
    unsigned char *raw = (unsigned char *)targets + 3 * width - 1;
    HR_TRY(hr__data_read(l->source.path, l->source.fd, at, raw, bytes + !last, err));
    if (last) raw[bytes] = NEWLINE;
    for (size_t t = 0; t < bytes; t++) {
      int32_t here = raw[t], next = raw[t + 1];
      tokens[t] = here;
      targets[t] = next;
    }
  }
  for (size_t t = bytes; t < width; t++) {
    tokens[t] = 0;
    targets[t] = -1;
  }
  return HR_OK;
}
