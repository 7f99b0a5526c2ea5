/* See tokens.h. */
#include "data/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/mem.h"
#include "data/codec.h"
#include "data/row_ids.h"
#include "data/tokens_file.h"
#include "data/tokens_rows.h"
#include "format/doc.h"
#include "format/gguf.h"
#include "format/rows.h"
#include "text/tokenizer.h"

/* "model.parts.*.path": of the first of model.config.texts; NULL: there is none. */
static const char *part_setting(const hr_recipe *recipe, const char *pattern) {
  static const char texts[] = "model.config.texts";
  const char *star = pattern ? strchr(pattern, '*') : NULL;
  if (!star) return pattern;
  char path[256];
  size_t count = 0;
  const char *const *names = hr__recipe_key(recipe, texts) ? hr__recipe_texts(recipe, texts, &count) : NULL;
  if (count == 0) return NULL;
  snprintf(path, sizeof path, "%.*s%.64s%s", (int)(star - pattern), pattern, names[0], star + 1);
  const hr_key *key = hr__recipe_key(recipe, path);
  return key ? key->path : NULL;
}

const char *hr__tokens_setting(const hr_recipe *recipe) {
  const char *of_part = part_setting(recipe, hr__source_named(recipe)->tokenizer);
  if (hr__recipe_has(recipe, "data.tokenizer")) return "data.tokenizer";
  if (hr__recipe_has(recipe, "model.path")) return "model.path";
  return of_part && hr__recipe_has(recipe, of_part) ? of_part : NULL;
}

bool hr__tokens_are_bytes(const hr_recipe *recipe) {
  const char *setting = hr__tokens_setting(recipe);
  return !setting || (hr__recipe_has(recipe, "data.tokenizer") && hr__recipe_word_is(recipe, setting, "bytes"));
}

hr_status hr__tokens_tokenizer(const hr_recipe *recipe, hr_tokenizer **out, hr_error *err) {
  const char *setting = hr__tokens_setting(recipe), *path = hr__recipe_text(recipe, setting);
  if (hr__recipe_has(recipe, "data.tokenizer") || hr__tokenizer_is_there(path))
    return hr__tokenizer_open(path, out, err);
  return hr__recipe_fail(
      recipe, setting,
      "put its tokenizer.json there, or give data.tokenizer: a file, a folder, or `bytes` to train on bytes", err,
      "the checkpoint has a vocabulary of its own, but its folder has no tokenizer");
}

hr_status hr__tokens_end(const hr_recipe *recipe, int32_t *out, hr_error *err) {
  hr_tokenizer *tokenizer = NULL;
  *out = -1;
  if (hr__recipe_has(recipe, "data.end_id")) {
    *out = (int32_t)hr__recipe_int(recipe, "data.end_id");
    return HR_OK;
  }
  bool named = hr__recipe_has(recipe, "data.tokenizer");
  if (hr__tokens_are_bytes(recipe) ||
      (!named && !hr__tokenizer_is_there(hr__recipe_text(recipe, hr__tokens_setting(recipe)))))
    return HR_OK;
  HR_TRY(hr__tokens_tokenizer(recipe, &tokenizer, err));
  *out = hr__tokenizer_role(tokenizer, HR_TOKEN_END);
  hr__tokenizer_close(tokenizer);
  return HR_OK;
}

/* The first bytes of a file, but no more than `most`, and how many they are. */
static hr_status file_hash(hr_hash *hash, const char *path, uint64_t most, hr_error *err) {
  enum { WINDOW = 1 << 18 };
  hr_data_file file;
  char length[32], *window = hr__alloc(WINDOW);
  hr_status status = window ? hr__data_file_at(path, &file, err) : hr__nomem(err);
  if (status == HR_OK && file.bytes > most) file.bytes = most;
  if (status == HR_OK)
    status = hr__hash_update(hash, length, (size_t)snprintf(length, sizeof length, "%" PRIu64 "\n", file.bytes), err);
  for (uint64_t at = 0; status == HR_OK && at < file.bytes; at += WINDOW) {
    size_t count = file.bytes - at < WINDOW ? (size_t)(file.bytes - at) : WINDOW;
    status = hr__data_file_read(&file, at, window, count, err);
    if (status == HR_OK) status = hr__hash_update(hash, window, count, err);
  }
  if (window) hr__data_file_close(&file);
  hr__free(window);
  return status;
}

/* The file of a tokenizer: of a GGUF file all that stands before the weights, which are many times as long. */
static hr_status tokenizer_hash(hr_hash *hash, const char *path, hr_error *err) {
  hr_gguf *gguf = NULL;
  uint64_t most = UINT64_MAX;
  if (hr__gguf_is_name(path)) {
    HR_TRY(hr__gguf_open(path, &gguf, err));
    most = hr__gguf_head_bytes(gguf);
    hr__gguf_close(gguf);
  }
  return file_hash(hash, path, most, err);
}

/* What a text becomes tokens by. */
typedef struct how {
  const hr_tokenizer *tokenizer;
  hr_documents documents;
  hr_chat chat;    /* of rows */
  bool all;        /* of rows: data.loss is all */
  double bad_rows; /* of rows: the part that may be bad */
  int threads;     /* of rows: that make them into tokens */
  hr_data_watch watch;
} how;

/* Everything that the tokens depend on. */
static hr_status key_make(const hr_data_files *texts, const how *h, char key[HR_XXH_HEX], hr_error *err) {
  char facts[160], hex[HR_SHA256_HEX];
  int length =
      snprintf(facts, sizeof facts, "tokens 3, documents %d, end %" PRId32 ", all %d, texts %zu, template %zu\n",
               (int)h->documents, hr__tokenizer_role(h->tokenizer, HR_TOKEN_END), h->all, texts->count, h->chat.bytes);
  hr_hash *hash = NULL;
  hr_status status = hr__hash_create(HR_HASH_XXH128, &hash, err);
  if (status == HR_OK) status = hr__hash_update(hash, facts, (size_t)length, err);
  if (status == HR_OK && h->chat.text) status = hr__hash_update(hash, h->chat.text, h->chat.bytes, err);
  for (size_t i = 0; i < texts->count && status == HR_OK; i++)
    status = file_hash(hash, texts->list[i].path, UINT64_MAX, err);
  if (status == HR_OK) status = tokenizer_hash(hash, hr__tokenizer_file(h->tokenizer), err);
  if (status == HR_OK) status = hr__hash_hex(hash, hex, err);
  if (status == HR_OK) snprintf(key, HR_XXH_HEX, "%.32s", hex);
  hr__hash_destroy(hash);
  return status;
}

/* --- making ------------------------------------------------------------------------------------------------------- */

/* A text on its way into documents. */
typedef struct making {
  const hr_tokenizer *tokenizer;
  hr_encoder *encoder;
  hr_ids ids; /* of one piece or line */
  hr_tokens_writer *writer;
  hr_documents documents;
  hr_progress_of_files *progress;
  uint64_t piece_bytes; /* of the longest piece */
} making;

static hr_status lines_make(making *m, const char *piece, size_t bytes, hr_error *err) {
  for (const char *at = piece, *end = piece + bytes; at < end;) {
    const char *newline = memchr(at, '\n', (size_t)(end - at)), *line_end = newline ? newline : end;
    const char *next = newline ? newline + 1 : end;
    if (line_end > at && line_end[-1] == '\r') line_end--;
    if (line_end > at) {
      m->ids.count = 0;
      HR_TRY(hr__encode(m->encoder, at, (size_t)(line_end - at), true, &m->ids, err));
      HR_TRY(hr__end_add(m->tokenizer, &m->ids, err));
      HR_TRY(hr__tokens_put(m->writer, m->ids.items, m->ids.count, err));
      HR_TRY(hr__tokens_end_document(m->writer, err));
    }
    at = next;
  }
  return HR_OK;
}

/* What goes round a text goes round the whole, not round a piece of it. */
static hr_status piece_make(making *m, const char *piece, size_t bytes, bool first, bool last, hr_error *err) {
  m->ids.count = 0;
  if (first) HR_TRY(hr__encode_before(m->tokenizer, &m->ids, err));
  HR_TRY(hr__encode(m->encoder, piece, bytes, false, &m->ids, err));
  if (last) HR_TRY(hr__encode_behind(m->tokenizer, &m->ids, err));
  if (last) HR_TRY(hr__end_add(m->tokenizer, &m->ids, err));
  HR_TRY(hr__tokens_put(m->writer, m->ids.items, m->ids.count, err));
  return last ? hr__tokens_end_document(m->writer, err) : HR_OK;
}

/* Line and byte, in the file, of the first byte that is not UTF-8. */
static hr_status bad_text(const hr_data_file *text, const char *piece, size_t good, uint64_t lines, hr_error *err) {
  const char *line = piece;
  for (const char *at; (at = memchr(line, '\n', (size_t)(piece + good - line))); line = at + 1)
    lines++;
  char place[4200];
  snprintf(place, sizeof place, "%s:%" PRIu64 ":%zu", text->path, lines + 1, (size_t)(piece + good - line) + 1);
  return hr__fail(err, HR_BAD_INPUT, place, "convert it: iconv -f LATIN1 -t UTF-8, or what it is written in",
                  "the text is not UTF-8: byte 0x%02x", (unsigned)(unsigned char)piece[good]);
}

/* Pieces of a large text end behind a line: tokenizers cut there as well. */
static hr_status text_make(making *m, const hr_data_file *text, hr_error *err) {
  enum { PIECE = 64 << 20 };
  size_t room = text->bytes < PIECE ? (size_t)text->bytes : PIECE;
  char *piece = hr__alloc(room + 1);
  if (room > m->piece_bytes) m->piece_bytes = room;
  hr_status status = piece ? HR_OK : hr__nomem(err);
  uint64_t lines = 0;
  for (uint64_t at = 0; at < text->bytes && status == HR_OK;) {
    size_t bytes = text->bytes - at < PIECE ? (size_t)(text->bytes - at) : PIECE;
    bool last = at + bytes == text->bytes;
    status = hr__data_file_read(text, at, piece, bytes, err);
    if (status != HR_OK) break;
    size_t cut = bytes;
    while (!last && cut > 0 && piece[cut - 1] != '\n')
      cut--;
    if (cut > 0) bytes = cut;
    size_t good = hr__utf8_check(piece, bytes);
    if (cut == 0 && bytes - good < 4) bytes = good; /* a line of more than a piece is cut behind a character */
    if (good < bytes) {
      status = bad_text(text, piece, good, lines, err);
      break;
    }
    status = m->documents == HR_DOCUMENT_LINES ? lines_make(m, piece, bytes, err)
                                               : piece_make(m, piece, bytes, at == 0, last, err);
    for (size_t i = 0; i < bytes; i++)
      lines += piece[i] == '\n';
    at += bytes;
    hr__files_told(m->progress, at);
  }
  hr__free(piece);
  return status;
}

/* Every file by itself: a text ends with its file. */
static hr_status texts_make(making *m, const hr_data_files *texts, hr_error *err) {
  hr_status status = HR_OK;
  for (size_t i = 0; i < texts->count && status == HR_OK; i++) {
    hr_data_file text;
    status = hr__data_file_at(texts->list[i].path, &text, err);
    if (status == HR_OK) status = text_make(m, &text, err);
    m->progress->done += text.bytes;
    hr__data_file_close(&text);
  }
  return status;
}

static hr_status tokens_make(const hr_data_files *texts, how *h, const char *path, hr_tokens *out, hr_error *err) {
  hr_progress_of_files progress = {.watch = h->watch, .all = hr__data_files_bytes(texts)};
  making m = {.tokenizer = h->tokenizer, .documents = h->documents, .progress = &progress};
  hr_status status = hr__tokens_begin(path, &m.writer, err);
  if (status == HR_OK && h->documents == HR_DOCUMENT_ROWS) {
    hr_row_way way = {h->tokenizer, &h->chat, h->all};
    status = hr__rows_tokens(texts, &way, h->threads, h->bad_rows, &progress, m.writer, out->shown, sizeof out->shown,
                             &out->taken, err);
  } else if (status == HR_OK) {
    status = hr__encoder_create(h->tokenizer, &m.encoder, err);
    if (status == HR_OK) status = texts_make(&m, texts, err);
    if (m.encoder) out->taken = m.piece_bytes + hr__encoder_bytes(m.encoder) + m.ids.capacity * sizeof *m.ids.items;
  }
  if (m.writer) status = hr__tokens_finish(m.writer, status, err);
  if (m.encoder) hr__encoder_destroy(m.encoder);
  hr__ids_fini(&m.ids);
  return status;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static hr_status vocabulary_check(const hr_source_request *request, const hr_tokens *tokens, uint32_t most,
                                  hr_error *err) {
  int field = hr__field_for(request->fields, HR_FOR_TOKENS);
  if (field < 0 || hr__field_for(request->fields, HR_FOR_TARGETS) < 0)
    return hr__recipe_fail(request->recipe, "data.source", "choose another data.source", err,
                           "source %s gives tokens and their targets, which this model does not take",
                           hr__recipe_text(request->recipe, "data.source"));
  int64_t bound = request->fields->list[field].bound;
  if (tokens->count == 0 || (int64_t)most < bound) return HR_OK;
  return hr__recipe_fail(request->recipe, hr__tokens_setting(request->recipe),
                         "give the tokenizer that the model was made with", err,
                         "the text has token %" PRIu32 ", but the model's vocabulary has only %" PRId64, most, bound);
}

static void tokens_drop(hr_tokens *tokens) {
  hr__data_file_close(&tokens->file);
  hr__free((void *)tokens->begins);
  tokens->begins = NULL;
}

static hr_status tokens_find(const hr_source_request *request, how *h, const hr_data_files *texts, hr_tokens *out,
                             hr_error *err) {
  const char *path;
  uint32_t most;
  char name[64];
  HR_TRY(key_make(texts, h, out->trace.hash, err));
  out->trace.whole = true;
  snprintf(name, sizeof name, "tokens-%s.bin", out->trace.hash);
  HR_TRY(hr__cache_path(&out->arena, name, &path, err));
  bool there;
  HR_TRY(hr__tokens_load(path, out, &most, &there, err));
  if (there && hr__rows_too_bad(out->rows, out->bad, h->bad_rows)) { /* made when more might be: reading says which */
    tokens_drop(out);
    there = false;
  }
  if (!there) {
    HR_TRY(tokens_make(texts, h, path, out, err));
    out->taken += hr__codec_bytes(request->recipe).open;
    HR_TRY(hr__tokens_load(path, out, &most, &there, err));
    if (!there)
      return hr__fail(err, HR_IO, path, "look at the file system", "the tokens that were just written cannot be read");
  }
  return vocabulary_check(request, out, most, err);
}

static int rows_threads(const hr_recipe *recipe) {
  return (int)hr__recipe_int(recipe, "data.workers");
}

uint64_t hr__tokens_threads_bytes(const hr_recipe *recipe) {
  int threads = hr__source_named(recipe)->threaded ? rows_threads(recipe) : 0;
  return threads > 1 ? (uint64_t)(threads - 1) * HR_TOKENS_THREAD_BYTES : 0;
}

static hr_status rows_settings(const hr_recipe *recipe, how *h, hr_error *err) {
  h->all = hr__recipe_word_is(recipe, "data.loss", "all");
  h->bad_rows = hr__recipe_float(recipe, "data.bad_rows");
  h->threads = rows_threads(recipe);
  return hr__chat_open(recipe, h->tokenizer, &h->chat, err);
}

hr_status hr__tokens_open(const hr_source_request *request, hr_documents documents, hr_tokens *out, hr_error *err) {
  hr_tokenizer *tokenizer = NULL;
  hr_data_files texts;
  how h = {.documents = documents, .watch = request->watch};
  const char *endings = documents == HR_DOCUMENT_ROWS ? HR_ROWS_ENDINGS : HR_TEXT_ENDINGS;
  *out = (hr_tokens){.file.fd = -1};
  hr__arena_init(&out->arena);
  hr_status status = hr__data_files_find(request->recipe, request->key, endings, &texts, err);
  if (status == HR_OK) status = hr__tokens_tokenizer(request->recipe, &tokenizer, err);
  h.tokenizer = tokenizer;
  if (status == HR_OK && documents == HR_DOCUMENT_ROWS) status = rows_settings(request->recipe, &h, err);
  if (status == HR_OK) status = tokens_find(request, &h, &texts, out, err);
  hr__chat_close(&h.chat);
  hr__tokenizer_close(tokenizer);
  hr__data_files_close(&texts);
  return status;
}

void hr__tokens_close(hr_tokens *tokens) {
  tokens_drop(tokens);
  hr__arena_fini(&tokens->arena);
}

hr_status hr__tokens_read(const hr_tokens *tokens, uint64_t at, int64_t count, int32_t *ids, int32_t *targets,
                          hr_error *err) {
  uint64_t begin = HR_TOKENS_HEADER + at * sizeof *ids;
  HR_TRY(hr__data_file_read(&tokens->file, begin, ids, (size_t)count * sizeof *ids, err));
  HR_TRY(hr__data_file_read(&tokens->file, begin + sizeof *ids, targets, (size_t)count * sizeof *ids, err));
  for (int64_t t = 0; t < count; t++) {
    ids[t] &= ~HR_NO_TARGET;
    if (targets[t] < 0) targets[t] = -1;
  }
  return HR_OK;
}
