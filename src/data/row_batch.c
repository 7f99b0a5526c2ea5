/* See row_batch.h. */
#include "data/row_batch.h"

#include <string.h>

struct hr_row_makers {
  hr_pool *pool;
  int threads;
  hr_row_maker *makers; /* one for each thread */
  hr_chat *chats;
  uint64_t *rendered; /* by each thread: bytes of the largest row */
  hr_rows *rows;
  hr_row_batch batches[2]; /* one is made into ids while the other is read */
  int now;                 /* which is to be given next */
  bool over;
};

static hr_status makers_fill(hr_row_makers *m, const hr_row_way *way, hr_error *err) {
  m->makers = hr__alloc_zero((size_t)m->threads, sizeof *m->makers);
  m->chats = hr__alloc_zero((size_t)m->threads, sizeof *m->chats);
  m->rendered = hr__alloc_zero((size_t)m->threads, sizeof *m->rendered);
  if (!m->makers || !m->chats || !m->rendered) return hr__nomem(err);
  for (int i = 0; i < m->threads; i++) {
    m->chats[i] = hr__chat_share(way->chat);
    m->makers[i] = (hr_row_maker){.tokenizer = way->tokenizer, .chat = &m->chats[i], .all = way->all};
    HR_TRY(hr__encoder_create(way->tokenizer, &m->makers[i].encoder, err));
  }
  return m->threads > 1 ? hr__pool_create(m->threads, &m->pool, err) : HR_OK;
}

hr_status hr__row_makers_create(const hr_row_way *way, int threads, hr_row_makers **out, hr_error *err) {
  hr_row_makers *m = hr__alloc_zero(1, sizeof *m);
  *out = m;
  if (!m) return hr__nomem(err);
  m->threads = threads > 1 ? threads : 1;
  hr_status status = makers_fill(m, way, err);
  if (status == HR_OK) return HR_OK;
  hr__row_makers_destroy(m);
  *out = NULL;
  return status;
}

void hr__row_makers_destroy(hr_row_makers *m) {
  if (!m) return;
  if (m->pool) hr__pool_destroy(m->pool);
  for (int i = 0; i < m->threads && m->makers; i++) {
    if (m->makers[i].encoder) hr__encoder_destroy(m->makers[i].encoder);
    hr__string_fini(&m->makers[i].piece);
    if (m->chats) hr__chat_close(&m->chats[i]);
  }
  for (int b = 0; b < 2; b++) {
    for (size_t i = 0; i < HR_BATCH_ROWS; i++)
      hr__ids_fini(&m->batches[b].rows[i].ids);
    hr__arena_fini(&m->batches[b].arena);
  }
  hr__free(m->makers);
  hr__free(m->chats);
  hr__free(m->rendered);
  hr__free(m);
}

static uint64_t most(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

uint64_t hr__row_makers_bytes(const hr_row_makers *m) {
  uint64_t bytes = 0;
  for (int i = 0; i < m->threads; i++)
    bytes += hr__encoder_bytes(m->makers[i].encoder) + m->makers[i].piece.capacity + m->rendered[i];
  for (int b = 0; b < 2; b++) {
    bytes += m->batches[b].text_bytes;
    for (size_t i = 0; i < HR_BATCH_ROWS; i++)
      bytes += m->batches[b].rows[i].ids.capacity * sizeof *m->batches[b].rows[i].ids.items;
  }
  return bytes;
}

static void batch_read(hr_row_batch *b, hr_rows *rows) {
  uint64_t first = 0;
  bool there = true;
  hr__arena_fini(&b->arena);
  hr__arena_init(&b->arena);
  b->count = 0;
  b->status = HR_OK;
  while (b->count < HR_BATCH_ROWS) {
    hr_row *row = &b->rows[b->count].row;
    *row = (hr_row){0};
    b->status = hr__rows_next(rows, &b->arena, row, &there, &b->err);
    if (b->status != HR_OK || !there) break;
    if (b->count++ == 0) first = row->place.byte;
    if (row->place.byte - first >= HR_BATCH_BYTES) break;
  }
  b->last = b->status != HR_OK || !there;
  b->text_bytes = most(b->text_bytes, hr__arena_bytes(&b->arena) + hr__rows_window(rows));
}

static void row_make(hr_row_maker *maker, hr_made_row *made, uint64_t *rendered) {
  hr_arena arena; /* of what is rendered */
  made->status = HR_OK;
  if (!made->row.fields) return;
  made->ids.count = 0;
  made->why = (hr_error){0};
  hr__arena_init(&arena);
  made->status = hr__row_ids(maker, made->row.fields, &arena, &made->ids, &made->why);
  *rendered = most(*rendered, hr__arena_bytes(&arena));
  hr__arena_fini(&arena);
}

/* Task 0 reads the rows that come next, the others make ids. */
static void task_run(void *arg, int64_t task, int worker) {
  hr_row_makers *m = arg;
  hr_row_batch *now = &m->batches[m->now];
  if (task > 0)
    row_make(&m->makers[worker], &now->rows[task - 1], &m->rendered[worker]);
  else if (!now->last)
    batch_read(&m->batches[!m->now], m->rows);
}

void hr__row_batches_begin(hr_row_makers *m, hr_rows *rows) {
  m->rows = rows;
  m->now = 0;
  m->over = false;
  batch_read(&m->batches[0], rows);
}

hr_row_batch *hr__row_batch_next(hr_row_makers *m) {
  if (m->over) return NULL;
  hr_row_batch *now = &m->batches[m->now];
  hr__pool_run(m->pool, m->threads, 1 + (int64_t)now->count, task_run, m);
  m->over = now->last;
  m->now = !m->now;
  return now;
}
