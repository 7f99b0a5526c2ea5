/* sentencepiece models (tokenizer.model): pieces with scores and types, how they were trained, how text is normalized.
 *
 * Control pieces are special tokens that are found in text, as they are once the file has been converted to
 * tokenizer.json; sentencepiece itself only writes them. User-defined pieces are kept whole.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sort.h"
#include "format/doc.h"
#include "format/file.h"
#include "format/protobuf.h"
#include "text/bpe.h"
#include "text/json_items.h"
#include "text/kinds.h"
#include "text/ranked.h"
#include "text/sentencepiece.h"
#include "text/unigram.h"

enum { FILE_MOST = 256 << 20 };

typedef enum piece_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE } piece_type;

/* What the file says, with the defaults of what it does not. */
typedef struct model {
  float *scores;
  uint8_t *types;
  size_t count;
  uint64_t kind; /* 1 unigram, 2 BPE */
  bool byte_fallback, space_behind;
  int64_t roles[4]; /* unk, bos, eos, pad */
  hr_spm_rules rules;
} model;

static hr_status damaged(const char *path, const char *what, hr_error *err) {
  return hr__fail(err, HR_BAD_INPUT, path, "copy the file again", "the sentencepiece model is damaged: %s", what);
}

bool hr__looks_sentencepiece(const char *head, size_t bytes) {
  return bytes > 3 && head[0] == 0x0a && head[2] == 0x0a; /* a first field, pieces, whose first field is the text */
}

static hr_status piece_read(hr_tokenizer *t, model *m, const hr_protobuf_field *field, hr_error *err) {
  hr_protobuf piece = hr__protobuf(field->bytes, field->count);
  hr_protobuf_field f;
  const char *text = "";
  size_t bytes = 0;
  m->types[m->count] = NORMAL;
  while (hr__protobuf_next(&piece, &f)) {
    if (f.number == 1 && f.type == 2) {
      text = f.bytes;
      bytes = f.count;
    } else if (f.number == 2) {
      m->scores[m->count] = hr__protobuf_float(&f);
    } else if (f.number == 3 && f.type == 0) {
      m->types[m->count] = f.value <= BYTE ? (uint8_t)f.value : 0;
    }
  }
  if (piece.damaged) return damaged(t->file, "a piece ends too early", err);
  if (!isfinite(m->scores[m->count]) || m->types[m->count] == 0 || bytes == 0)
    return damaged(t->file, "a piece without text, or with an impossible score or type", err);
  if (hr__utf8_check(text, bytes) != bytes) return damaged(t->file, "a piece is not UTF-8", err);
  hr_status status = hr__build_piece(t, (int64_t)m->count++, text, bytes, err);
  if (status == HR_BAD_INPUT && !err->place[0]) snprintf(err->place, sizeof err->place, "%.250s", t->file);
  return status;
}

static void trainer_read(model *m, const hr_protobuf_field *field) {
  hr_protobuf trainer = hr__protobuf(field->bytes, field->count);
  hr_protobuf_field f;
  while (hr__protobuf_next(&trainer, &f)) {
    if (f.type != 0) continue;
    if (f.number == 3) m->kind = f.value;
    if (f.number == 24) m->space_behind = f.value != 0;
    if (f.number == 35) m->byte_fallback = f.value != 0;
    if (f.number >= 40 && f.number <= 43) m->roles[f.number - 40] = (int64_t)(int32_t)f.value;
  }
}

static hr_status normalizer_read(hr_tokenizer *t, model *m, const hr_protobuf_field *field, hr_error *err) {
  hr_protobuf normalizer = hr__protobuf(field->bytes, field->count);
  hr_protobuf_field f;
  while (hr__protobuf_next(&normalizer, &f)) {
    if (f.number == 2 && f.type == 2 && f.count > 0) {
      hr_status status = hr__charsmap_read(f.bytes, f.count, &t->arena, &m->rules.charsmap, err);
      if (status == HR_BAD_INPUT) return damaged(t->file, "its table of character rewrites", err);
      HR_TRY(status);
      m->rules.rewrites = true;
    }
    if (f.type != 0) continue;
    if (f.number == 3) m->rules.prefix = f.value != 0;
    if (f.number == 4) m->rules.squeeze = f.value != 0;
    if (f.number == 5) m->rules.escape = f.value != 0;
  }
  return HR_OK;
}

static hr_status file_read(hr_tokenizer *t, model *m, const void *data, size_t bytes, hr_error *err) {
  hr_protobuf whole = hr__protobuf(data, bytes);
  hr_protobuf_field f;
  size_t pieces = 0;
  while (hr__protobuf_next(&whole, &f))
    pieces += f.number == 1 && f.type == 2;
  if (whole.damaged || pieces == 0) return damaged(t->file, whole.damaged ? "it ends too early" : "no pieces", err);
  HR_TRY(hr__build_room(t, pieces, pieces, err));
  m->scores = hr__arena_array(&t->arena, pieces, sizeof *m->scores);
  m->types = hr__arena_array(&t->arena, pieces, 1);
  if (!m->scores || !m->types) return hr__nomem(err);
  whole = hr__protobuf(data, bytes);
  while (hr__protobuf_next(&whole, &f)) {
    if (f.type != 2) continue;
    if (f.number == 1) HR_TRY(piece_read(t, m, &f, err));
    if (f.number == 2) trainer_read(m, &f);
    if (f.number == 3) HR_TRY(normalizer_read(t, m, &f, err));
  }
  return HR_OK;
}

/* --- models --------------------------------------------------------------------------------------------------------
 */

static int score_order(const void *a, const void *b) {
  float x = **(const float *const *)a, y = **(const float *const *)b;
  return x > y ? -1 : x < y;
}

/* The rank of each piece: how many scores are higher. Equal scores have equal ranks. */
static hr_status ranks_find(const model *m, int32_t *ranks, hr_error *err) {
  const float **by_score = hr__alloc_zero(m->count, sizeof *by_score);
  const void **order = hr__alloc_zero(2 * m->count, sizeof *order);
  if (by_score && order) {
    for (size_t i = 0; i < m->count; i++) {
      by_score[i] = &m->scores[i];
      order[i] = &by_score[i];
    }
    hr__sort(order, m->count, order + m->count, score_order);
    int32_t rank = 0;
    for (size_t i = 0; i < m->count; i++) {
      size_t piece = (size_t)(*(const float *const *)order[i] - m->scores);
      if (i > 0 && **(const float *const *)order[i] != **(const float *const *)order[i - 1]) rank++;
      ranks[piece] = rank;
    }
  }
  bool done = by_score && order;
  hr__free(by_score);
  hr__free(order);
  return done ? HR_OK : hr__nomem(err);
}

static hr_status bpe_build(hr_tokenizer *t, const model *m, hr_error *err) {
  hr_bpe *bpe = hr__build_relay(t, sizeof *bpe, hr__bpe_run);
  if (!bpe) return hr__nomem(err);
  bpe->prefix = bpe->suffix = "";
  bpe->byte_fallback = m->byte_fallback;
  bpe->fuse_unknown = true;
  bpe->unknown = (int32_t)m->roles[0];
  t->cached = true;
  t->model = m->byte_fallback ? "sentencepiece BPE with byte fallback" : "sentencepiece BPE";
  HR_TRY(hr__words_init(&bpe->words, m->count, &t->arena, err));
  for (size_t id = 0; id < m->count; id++) {
    if (m->types[id] == UNUSED)
      return hr__fail(err, HR_BAD_INPUT, t->file, "use the model's tokenizer.json",
                      "a BPE model with unused pieces, such as '%.40s', is not supported", t->pieces[id].text);
    if (m->types[id] == NORMAL) hr__words_add(&bpe->words, t->pieces[id].text, t->pieces[id].bytes, (int32_t)id);
  }
  hr__bpe_symbols(bpe);
  hr__build_fallback(t, bpe->fallback);
  int32_t *ranks = hr__alloc_zero(m->count, sizeof *ranks);
  hr_status status = ranks ? ranks_find(m, ranks, err) : hr__nomem(err);
  if (status == HR_OK) status = hr__build_pairs(t, bpe, ranks, err);
  hr__free(ranks);
  if (status == HR_OK) hr__bpe_word_sign(bpe, "\xe2\x96\x81", 3);
  return status;
}

static hr_status unigram_build(hr_tokenizer *t, const model *m, hr_error *err) {
  hr_unigram *u = hr__build_relay(t, sizeof *u, hr__unigram_run);
  double *scores = hr__arena_array(&t->arena, m->count, sizeof *scores);
  hr_trie_key *keys = hr__arena_array(&t->arena, m->count, sizeof *keys);
  if (!u || !scores || !keys) return hr__nomem(err);
  float least = 0, most = 0;
  bool any = false;
  for (size_t id = 0; id < m->count; id++) {
    if (m->types[id] != NORMAL) continue;
    least = !any || m->scores[id] < least ? m->scores[id] : least;
    most = !any || m->scores[id] > most ? m->scores[id] : most;
    any = true;
  }
  size_t kept = 0;
  for (size_t id = 0; id < m->count; id++) {
    const hr_piece *piece = &t->pieces[id];
    if (m->types[id] != NORMAL && m->types[id] != USER_DEFINED) continue;
    /* What the user defined is nearly always chosen. */
    scores[id] = m->types[id] == USER_DEFINED ? (double)((float)piece->bytes * most) - 0.1 : (double)m->scores[id];
    keys[kept++] = (hr_trie_key){piece->text, piece->bytes, (int32_t)id};
  }
  u->scores = scores;
  u->single = true;
  u->unknown_score = (double)(least - 10.0f);
  u->unknown = (int32_t)m->roles[0];
  u->byte_fallback = hr__build_fallback(t, u->fallback) && m->byte_fallback;
  t->model = "sentencepiece Unigram";
  return hr__trie_build(&u->trie, keys, kept, &t->arena, err);
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */

/* User-defined pieces, which neither normalization nor BPE takes apart. */
static hr_status kept_build(hr_tokenizer *t, model *m, hr_error *err) {
  hr_trie_key *keys = hr__arena_array(&t->arena, m->count + 1, sizeof *keys);
  if (!keys) return hr__nomem(err);
  size_t kept = 0;
  for (size_t id = 0; id < m->count; id++)
    if (m->types[id] == USER_DEFINED)
      keys[kept++] = (hr_trie_key){t->pieces[id].text, t->pieces[id].bytes, (int32_t)id};
  m->rules.any_kept = kept > 0;
  return hr__trie_build(&m->rules.kept, keys, kept, &t->arena, err);
}

static hr_status decoders_build(hr_tokenizer *t, const model *m, hr_error *err) {
  hr_decoder *sign = hr__build_decoder(t, err), *bytes = hr__build_decoder(t, err), *fuse = hr__build_decoder(t, err),
             *strip = hr__build_decoder(t, err);
  if (!sign || !bytes || !fuse || !strip) return hr__nomem(err);
  *sign = (hr_decoder){
      .run = hr__decode_replace_run, .pattern = "\xe2\x96\x81", .pattern_bytes = 3, .content = " ", .content_bytes = 1};
  bytes->run = hr__decode_fallback_run;
  fuse->run = hr__decode_fuse_run;
  *strip = (hr_decoder){.run = hr__decode_strip_run, .content = " ", .content_bytes = 1, .start = m->rules.prefix};
  return HR_OK;
}

/* tokenizer_config.json may say which of the two is put round a text. */
typedef struct round_text {
  bool begin, end;
} round_text;

static hr_status round_read(const char *path, round_text *r, hr_error *err) {
  const char *slash = strrchr(path, '/');
  char config[4096];
  if (snprintf(config, sizeof config, "%.*stokenizer_config.json", slash ? (int)(slash - path) + 1 : 0, path) >=
      (int)sizeof config)
    return HR_OK;
  hr_arena work = {0};
  hr_item_file file;
  hr_error none;
  hr_status status = hr__item_open(config, &work, &file, &none); /* absent mostly; hr__load_roles tells of a bad one */
  if (status == HR_OK) {
    hr_item root = hr__item_root(&file), begin = hr__item_get(&root, "add_bos_token"),
            end = hr__item_get(&root, "add_eos_token");
    status = hr__item_bool(&begin, true, &r->begin, err);
    if (status == HR_OK) status = hr__item_bool(&end, true, &r->end, err);
  } else {
    status = HR_OK;
  }
  hr__arena_fini(&work);
  return status;
}

static hr_status model_build(hr_tokenizer *t, const char *path, model *m, hr_error *err) {
  if (m->kind != 1 && m->kind != 2)
    return hr__fail(err, HR_BAD_INPUT, path, NULL, "a sentencepiece model that is neither unigram nor BPE (type %llu)",
                    (unsigned long long)m->kind);
  if (m->space_behind)
    return hr__fail(err, HR_BAD_INPUT, path, NULL, "a sentencepiece model with spaces behind words is not supported");
  HR_TRY(kept_build(t, m, err));
  hr_normalizer *n = hr__build_normalizer(t, err);
  if (!n) return HR_BAD_INPUT;
  n->run = hr__normal_spm_run;
  n->spm = hr__arena_alloc(&t->arena, sizeof *n->spm);
  if (!n->spm) return hr__nomem(err);
  *n->spm = m->rules;
  if (m->kind == 2 && m->rules.any_kept) {
    hr_spm_kept *kept = hr__build_relay(t, sizeof *kept, hr__spm_kept_run);
    if (!kept) return hr__nomem(err);
    kept->rules = n->spm;
  }
  for (int r = 0; r < 4; r++)
    if (m->roles[r] >= (int64_t)m->count) m->roles[r] = -1;
  HR_TRY(m->kind == 2 ? bpe_build(t, m, err) : unigram_build(t, m, err));
  for (size_t id = 0; id < m->count; id++)
    if (m->types[id] == CONTROL || m->types[id] == UNKNOWN) {
      t->pieces[id].special = true;
      if (m->types[id] == CONTROL) HR_TRY(hr__build_special(t, (int32_t)id, err));
    }
  static const hr_token_role roles[4] = {HR_TOKEN_UNKNOWN, HR_TOKEN_BEGIN, HR_TOKEN_END, HR_TOKEN_PAD};
  for (int r = 0; r < 4; r++)
    t->roles[roles[r]] = m->roles[r] >= 0 ? (int32_t)m->roles[r] : -1;
  round_text r = {.begin = m->roles[1] >= 0, .end = m->roles[1] < 0}; /* without a begin token, the end is marked */
  HR_TRY(round_read(path, &r, err));
  if (r.begin && m->roles[1] >= 0) HR_TRY(hr__ids_add(&t->before, (int32_t)m->roles[1], err));
  if (r.end && m->roles[2] >= 0) HR_TRY(hr__ids_add(&t->behind, (int32_t)m->roles[2], err));
  return decoders_build(t, m, err);
}

hr_status hr__sentencepiece_parse(hr_tokenizer *t, const char *path, const void *data, size_t bytes, hr_error *err) {
  model m = {.kind = 1, .roles = {0, 1, 2, -1}, .rules = {.prefix = true, .squeeze = true, .escape = true}};
  HR_TRY(file_read(t, &m, data, bytes, err));
  return model_build(t, path, &m, err);
}

hr_status hr__load_sentencepiece(hr_tokenizer *t, const char *path, hr_error *err) {
  hr_arena work = {0};
  char *data;
  size_t bytes;
  hr_status status = hr__file_read(path, FILE_MOST, &work, &data, &bytes, err);
  if (status == HR_OK) status = hr__sentencepiece_parse(t, path, data, bytes, err);
  hr__arena_fini(&work);
  return status;
}
