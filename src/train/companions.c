/* See companions.h. */
#include "train/companions.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/file.h"
#include "format/gguf.h"
#include "text/gguf.h"
#include "train/manifest.h"
#include "train/tensors.h"

static const char TIKTOKEN[] = ".tiktoken";

typedef enum purpose { VOCABULARY, TEXT_SETTINGS, GENERATION } purpose;
static const struct {
  const char *name;
  purpose purpose;
} names[] = {
    {"tokenizer.json", VOCABULARY},
    {"tokenizer.model", VOCABULARY},
    {"tekken.json", VOCABULARY},
    {"vocab.json", VOCABULARY},
    {"merges.txt", VOCABULARY},
    {"vocab.txt", VOCABULARY},
    {"tokenizer_config.json", TEXT_SETTINGS},
    {"special_tokens_map.json", TEXT_SETTINGS},
    {"added_tokens.json", TEXT_SETTINGS},
    {"chat_template.jinja", TEXT_SETTINGS},
    {"chat_template.json", TEXT_SETTINGS},
    {"generation_config.json", GENERATION},
};
enum { NAMES = sizeof names / sizeof *names };

const char *hr__companion_name(size_t i) {
  return i < NAMES ? names[i].name : NULL;
}

static bool is_tiktoken(const char *name) {
  size_t length = strlen(name), ending = sizeof TIKTOKEN - 1;
  return length > ending && strcmp(name + length - ending, TIKTOKEN) == 0;
}

bool hr__companion_is(const char *name) {
  const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
  for (size_t i = 0; i < NAMES; i++)
    if (strcmp(base, names[i].name) == 0) return true;
  return is_tiktoken(base);
}

/* Where the files of a part come from. */
typedef struct origin {
  const char *folder;     /* of the tokenizer; NULL: there is none */
  const char *vocabulary; /* file that the recipe names, of those in its folder; NULL: all of them */
  const char *model;      /* folder of the weights; NULL: they are fresh */
} origin;

static hr_status origin_find(const hr_recipe *recipe, const hr_model_part *part, hr_arena *arena, origin *out,
                             hr_error *err) {
  struct stat facts;
  *out = (origin){0};
  if (hr__scope_has(&part->scope, "path")) out->folder = out->model = hr__scope_text(&part->scope, "path");
  if (*part->name || !hr__recipe_has(recipe, "data.tokenizer")) return HR_OK;
  const char *named = hr__recipe_text(recipe, "data.tokenizer");
  out->folder = hr__recipe_word_is(recipe, "data.tokenizer", "bytes") ? NULL : named;
  if (!out->folder || hr__gguf_is_name(named) || (stat(named, &facts) == 0 && S_ISDIR(facts.st_mode))) return HR_OK;
  const char *slash = strrchr(named, '/');
  out->vocabulary = named;
  out->folder = slash ? hr__arena_format(arena, "%.*s", (int)(slash - named), named) : ".";
  return out->folder ? HR_OK : hr__nomem(err);
}

/* Adds the file at `path` where it is there. */
static hr_status file_open(hr_companions *c, const char *name, const char *path, hr_error *err) {
  struct stat facts;
  if (!name || !path) return hr__nomem(err);
  for (size_t i = 0; i < c->count; i++)
    if (strcmp(c->list[i].name, name) == 0) return HR_OK;
  if (c->count == HR_COMPANIONS || stat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) return HR_OK;
  hr_companion *one = &c->list[c->count];
  *one = (hr_companion){.name = name, .path = path};
  HR_TRY(hr__file_open(path, &one->fd, &one->bytes, err));
  c->count++;
  return HR_OK;
}

static hr_status tiktokens_open(hr_companions *c, const char *from, hr_arena *arena, hr_error *err) {
  hr_status status = HR_OK;
  DIR *folder = opendir(from);
  for (struct dirent *entry; folder && status == HR_OK && (entry = readdir(folder)) != NULL;) {
    if (!is_tiktoken(entry->d_name) || !hr__manifest_name_is_safe(entry->d_name)) continue;
    status =
        file_open(c, hr__arena_text(arena, entry->d_name), hr__arena_format(arena, "%s/%s", from, entry->d_name), err);
  }
  if (folder) closedir(folder);
  return status;
}

/* A vocabulary file that the recipe names goes under the name that it has in models' folders. */
static hr_status vocabulary_open(hr_companions *c, const origin *from, hr_arena *arena, hr_error *err) {
  const char *name = hr__tokenizer_file_name(from->vocabulary);
  if (!name) return HR_OK;
  HR_TRY(file_open(c, hr__arena_text(arena, name), from->vocabulary, err));
  if (strcmp(name, "vocab.json") != 0) return HR_OK;
  return file_open(c, "merges.txt", hr__arena_format(arena, "%s/merges.txt", from->folder), err);
}

/* A file that there is none of: its text, in one without a name. */
static hr_status text_open(hr_companions *c, const char *name, const char *path, const char *text, size_t bytes,
                           hr_error *err) {
  char place[PATH_MAX];
  const char *folder = getenv("TMPDIR");
  for (size_t i = 0; i < c->count; i++)
    if (strcmp(c->list[i].name, name) == 0) return HR_OK;
  if (c->count == HR_COMPANIONS) return HR_OK;
  snprintf(place, sizeof place, "%s/headroom-XXXXXX", folder && *folder ? folder : "/tmp");
  int fd = mkostemp(place, O_CLOEXEC);
  if (fd < 0) return hr__fail_errno(err, place, "create", errno);
  unlink(place);
  hr_status status = hr__file_write_all(fd, place, text, bytes, err);
  if (status != HR_OK) {
    close(fd);
    return status;
  }
  c->list[c->count++] = (hr_companion){.name = name, .path = path, .fd = fd, .bytes = bytes};
  return HR_OK;
}

typedef hr_status (*text_fn)(const hr_gguf *file, const char *name, hr_string *out, hr_error *err);

static hr_status generation_make(const hr_gguf *file, const char *name, hr_string *out, hr_error *err) {
  (void)name;
  return hr__gguf_generation_config(file, out, err);
}

static hr_status template_make(const hr_gguf *file, const char *name, hr_string *out, hr_error *err) {
  hr_gguf_text text = {0};
  (void)name;
  return hr__gguf_chat_template(file, &text) ? hr__string_add(out, text.text, text.bytes, err) : HR_OK;
}

/* What a GGUF file says, as the files that folders have for it. */
static hr_status gguf_take(hr_companions *c, const hr_gguf *file, const char *path, bool adapters, hr_error *err) {
  static const struct {
    const char *name;
    text_fn make;
    bool generation;
  } texts[] = {{"tokenizer.json", hr__gguf_tokenizer_json, false},
               {"tokenizer_config.json", hr__gguf_tokenizer_config, false},
               {"chat_template.jinja", template_make, false},
               {"generation_config.json", generation_make, true}};
  hr_status status = HR_OK;
  hr_string text = {0};
  for (size_t i = 0; i < sizeof texts / sizeof *texts && status == HR_OK; i++) {
    if (texts[i].generation && adapters) continue;
    text.count = 0;
    hr_error unknown = {0};
    status = texts[i].make(file, path, &text, &unknown);
    if (status == HR_UNSUPPORTED) { /* whoever needs it is told when text is to be read; weights go without */
      status = HR_OK;
      break;
    }
    if (status != HR_OK && err) *err = unknown;
    if (status == HR_OK && text.count > 0) status = text_open(c, texts[i].name, path, text.data, text.count, err);
  }
  hr__string_fini(&text);
  return status;
}

static hr_status gguf_open(hr_companions *c, const char *path, bool adapters, hr_error *err) {
  hr_gguf *file = NULL;
  HR_TRY(hr__gguf_open(path, &file, err));
  hr_status status = hr__gguf_value(file, "tokenizer.ggml.tokens") ? gguf_take(c, file, path, adapters, err) : HR_OK;
  hr__gguf_close(file);
  return status;
}

static hr_status all_open(hr_companions *c, const origin *from, bool adapters, hr_arena *arena, hr_error *err) {
  bool gguf = from->folder && hr__gguf_is_name(from->folder), one = from->folder == from->model;
  if (gguf) HR_TRY(gguf_open(c, from->folder, adapters || !one, err));
  for (size_t i = 0; i < NAMES; i++) {
    const char *folder = names[i].purpose == GENERATION ? from->model : from->folder;
    bool taken = names[i].purpose == VOCABULARY ? !from->vocabulary : names[i].purpose == TEXT_SETTINGS || !adapters;
    if (!folder || !taken || hr__gguf_is_name(folder)) continue;
    HR_TRY(file_open(c, names[i].name, hr__arena_format(arena, "%s/%s", folder, names[i].name), err));
  }
  if (from->vocabulary) return vocabulary_open(c, from, arena, err);
  return from->folder && !gguf ? tiktokens_open(c, from->folder, arena, err) : HR_OK;
}

hr_status hr__companions_open(const hr_recipe *recipe, const hr_model_part *part, bool adapters, hr_arena *arena,
                              hr_companions *out, hr_error *err) {
  origin from;
  out->count = 0;
  HR_TRY(origin_find(recipe, part, arena, &from, err));
  hr_status status = all_open(out, &from, adapters, arena, err);
  if (status != HR_OK) hr__companions_close(out);
  return status;
}

hr_status hr__companions_add(const char *folder, hr_arena *arena, hr_companions *companions, hr_error *err) {
  origin from = {.folder = folder, .model = folder};
  return all_open(companions, &from, false, arena, err);
}

void hr__companions_close(hr_companions *companions) {
  for (size_t i = 0; i < companions->count; i++)
    close(companions->list[i].fd);
  companions->count = 0;
}

static hr_status pieces_copy(const hr_companion *from, int to, const char *path, unsigned char *window, hr_hash *hash,
                             bool *unread, hr_error *err) {
  for (uint64_t at = 0; at < from->bytes; at += HR_WINDOW_BYTES) {
    size_t bytes = from->bytes - at < HR_WINDOW_BYTES ? (size_t)(from->bytes - at) : HR_WINDOW_BYTES;
    hr_status status = hr__file_read_at(from->fd, from->path, at, window, bytes, err);
    *unread = status != HR_OK;
    HR_TRY(status);
    HR_TRY(hr__hash_update(hash, window, bytes, err));
    HR_TRY(hr__file_write_all(to, path, window, bytes, err));
  }
  return HR_OK;
}

hr_status hr__companion_copy(const hr_companion *from, const char *path, unsigned char *window, char hex[HR_SHA256_HEX],
                             bool *unread, hr_error *err) {
  hr_hash *hash = NULL;
  *unread = false;
  HR_TRY(hr__hash_create(HR_HASH_XXH128, &hash, err));
  int to = hr__file_calls.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  hr_status status = to < 0 ? hr__fail_errno(err, path, "create", errno) : HR_OK;
  if (status == HR_OK) status = pieces_copy(from, to, path, window, hash, unread, err);
  if (status == HR_OK && hr__file_calls.fdatasync(to) != 0) status = hr__fail_errno(err, path, "make durable", errno);
  if (to >= 0 && hr__file_calls.close(to) != 0 && status == HR_OK && errno != EINTR)
    status = hr__fail_errno(err, path, "close", errno);
  if (status == HR_OK) status = hr__hash_hex(hash, hex, err);
  hr__hash_destroy(hash);
  return status;
}
