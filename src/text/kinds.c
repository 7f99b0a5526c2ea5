#include "text/kinds.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "format/file.h"
#include "format/gguf.h"
#include "text/gguf.h"

static const hr_vocabulary_kind kinds[] = {
    {"tokenizer.json", ".json", NULL, hr__load_tokenizer_json},
    {"tekken.json", NULL, NULL, hr__load_tekken},
    {"tokenizer.model", ".model", hr__looks_tiktoken, hr__load_tiktoken},
    {"tokenizer.model", ".model", hr__looks_sentencepiece, hr__load_sentencepiece},
    {"qwen.tiktoken", ".tiktoken", hr__looks_tiktoken, hr__load_tiktoken},
    {"vocab.json", NULL, NULL, hr__load_vocab_json},
    {"vocab.txt", NULL, NULL, hr__load_vocab_txt},
    {NULL, ".gguf", hr__looks_gguf, hr__load_gguf},
};
enum { KINDS = sizeof kinds / sizeof *kinds, HEAD = 256 };

/* The beginning of a file; an unreadable one has none, and is told of when it is loaded. */
static size_t head_read(const char *path, char head[HEAD]) {
  int fd;
  uint64_t bytes;
  if (hr__file_open(path, &fd, &bytes, NULL) != HR_OK) return 0;
  size_t count = bytes < HEAD ? (size_t)bytes : HEAD;
  if (hr__file_read_at(fd, path, 0, head, count, NULL) != HR_OK) count = 0;
  close(fd);
  return count;
}

static const hr_vocabulary_kind *kind_of(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  char head[HEAD];
  size_t bytes = head_read(path, head);
  for (int exact = 1; exact >= 0; exact--) /* a name of its own goes before an ending */
    for (size_t i = 0; i < KINDS; i++) {
      bool named = exact ? kinds[i].file && strcmp(name, kinds[i].file) == 0
                         : kinds[i].ending && hr__text_ends(name, kinds[i].ending);
      if (named && (!kinds[i].looks_like || kinds[i].looks_like(head, bytes))) return &kinds[i];
    }
  for (size_t i = 0; i < KINDS; i++) /* any name, by what it holds */
    if (kinds[i].looks_like && kinds[i].looks_like(head, bytes)) return &kinds[i];
  return NULL;
}

static hr_status file_load(const char *path, const hr_vocabulary_kind *kind, hr_tokenizer **out, hr_error *err) {
  hr_tokenizer *t = NULL;
  HR_TRY(hr__build_create(path, &t, err));
  hr_status status = kind->load(t, path, err);
  if (status == HR_OK && kind->file) status = hr__load_roles(t, path, err);
  if (status == HR_OK) status = hr__build_finish(t, err);
  if (status == HR_OK)
    *out = t;
  else
    hr__tokenizer_close(t);
  return status;
}

static hr_status names_fail(const char *path, const char *what, hr_error *err) {
  char remedy[384] = "give a model's folder or one of:";
  for (size_t i = 0; i < KINDS; i++) {
    size_t used = strlen(remedy);
    if (!kinds[i].file) continue;
    bool again = i > 0 && strcmp(kinds[i].file, kinds[i - 1].file) == 0;
    if (!again) snprintf(remedy + used, sizeof remedy - used, "%s %s", i > 0 ? "," : "", kinds[i].file);
  }
  return hr__fail(err, HR_BAD_INPUT, path, remedy, "%s", what);
}

enum { PATH_TEXT = 4096 };

/* The first kind of file that the folder has, and its path; NULL: it has none. */
static const hr_vocabulary_kind *folder_find(const char *folder, char path[PATH_TEXT]) {
  for (size_t i = 0; i < KINDS; i++) {
    struct stat facts;
    if (!kinds[i].file) continue;
    if (snprintf(path, PATH_TEXT, "%s/%s", folder, kinds[i].file) < PATH_TEXT && stat(path, &facts) == 0)
      return &kinds[i];
  }
  return NULL;
}

bool hr__tokenizer_is_there(const char *folder) {
  char path[PATH_TEXT];
  return hr__gguf_is_name(folder) || folder_find(folder, path) != NULL;
}

/* Of a GGUF file as many as its vocabulary has in a tokenizer.json, by what is before its tensors: 1.66 times as many,
 * of 128,000 tokens. 0: it cannot be read, which is told when it is loaded. */
static uint64_t gguf_vocabulary_bytes(const char *path, uint64_t file_bytes) {
  hr_gguf *file;
  uint64_t tensors = 0;
  if (hr__gguf_open_lean(path, &file, NULL) != HR_OK) return 0;
  for (size_t i = 0; i < hr__gguf_count(file); i++)
    if (hr__gguf_at(file, i)->end > tensors) tensors = hr__gguf_at(file, i)->end;
  hr__gguf_close(file);
  return (file_bytes - tensors) / 4 * 7;
}

uint64_t hr__tokenizer_file_bytes(const char *path) {
  struct stat facts;
  char file[PATH_TEXT];
  if (stat(path, &facts) != 0) return 0;
  if (hr__gguf_is_name(path)) return gguf_vocabulary_bytes(path, (uint64_t)facts.st_size);
  if (!S_ISDIR(facts.st_mode)) return (uint64_t)facts.st_size;
  return folder_find(path, file) && stat(file, &facts) == 0 ? (uint64_t)facts.st_size : 0;
}

static hr_status folder_load(const char *folder, hr_tokenizer **out, hr_error *err) {
  char path[PATH_TEXT];
  const hr_vocabulary_kind *named = folder_find(folder, path);
  if (!named) return names_fail(folder, "this folder has no tokenizer", err);
  const hr_vocabulary_kind *kind = kind_of(path);
  return file_load(path, kind ? kind : named, out, err);
}

hr_status hr__tokenizer_open(const char *path, hr_tokenizer **out, hr_error *err) {
  struct stat facts;
  if (stat(path, &facts) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return hr__fail_errno(err, path, "read", errno);
    return names_fail(path, "there is no such file or folder", err);
  }
  if (S_ISDIR(facts.st_mode)) return folder_load(path, out, err);
  const hr_vocabulary_kind *kind = kind_of(path);
  return kind ? file_load(path, kind, out, err) : names_fail(path, "this is no file of a tokenizer", err);
}

const char *hr__tokenizer_file_name(const char *path) {
  const hr_vocabulary_kind *kind = kind_of(path);
  return kind ? kind->file : NULL;
}
