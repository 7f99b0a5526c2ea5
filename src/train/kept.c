/* See kept.h. */
#include "train/kept.h"

#include <string.h>

#include "pass/adapters.h"

static bool is_kept(const hr_model_part *part, const char *name) {
  return part->model->unused(part, name) == HR_UNUSED_KEPT;
}

/* A checkpoint of the body alone leaves out what names of the body begin with. */
static bool is_bare(const hr_stored *from, const char *body) {
  for (size_t i = 0; body && i < hr__stored_count(from); i++)
    if (strncmp(hr__stored_at(from, i)->name, body, strlen(body)) == 0) return false;
  return body != NULL;
}

/* The name that a whole model has for it; NULL: out of memory. */
static const char *whole_name(const hr_model_part *part, const char *name, bool bare, hr_arena *arena) {
  if (!bare) return name;
  const char *whole = hr__arena_format(arena, "%s%s", part->model->body_name, name);
  return whole && !is_kept(part, whole) ? name : whole;
}

static hr_status kept_list(const hr_model_part *part, hr_arena *arena, hr_kept *k, hr_error *err) {
  size_t all = hr__stored_count(k->from);
  bool bare = is_bare(k->from, part->model->body_name);
  k->list = hr__arena_array(arena, all + 1, sizeof *k->list);
  k->numbers = hr__arena_array(arena, all + 1, sizeof *k->numbers);
  if (!k->list || !k->numbers) return hr__nomem(err);
  for (size_t i = 0; i < all; i++) {
    const hr_stored_tensor *t = hr__stored_at(k->from, i);
    hr_stored_bytes content = hr__stored_bytes(k->from, i);
    if (!is_kept(part, t->name) || !content.type) continue;
    hr_safetensor *to = &k->list[k->count];
    *to = (hr_safetensor){.dtype = content.type, .rank = t->rank, .end = content.bytes};
    to->name = whole_name(part, t->name, bare, arena);
    if (!to->name) return hr__nomem(err);
    memcpy(to->dim, t->dim, sizeof t->dim);
    k->numbers[k->count++] = i;
  }
  return HR_OK;
}

hr_status hr__kept_open(const hr_model_part *part, hr_arena *arena, hr_kept *out, hr_error *err) {
  *out = (hr_kept){0};
  if (!part->model->unused || hr__lora_given(part) || !hr__scope_has(&part->scope, "path")) return HR_OK;
  const char *path = hr__scope_text(&part->scope, "path");
  if (!hr__stored_is_there(path)) return HR_OK; /* a run that is resumed does not need them */
  HR_TRY(hr__stored_open(path, &out->from, err));
  hr_status status = kept_list(part, arena, out, err);
  if (status != HR_OK || out->count == 0) hr__kept_close(out);
  return status;
}

void hr__kept_close(hr_kept *kept) {
  hr__stored_close(kept->from);
  *kept = (hr_kept){0};
}

hr_status hr__kept_put(const hr_kept *kept, hr_safetensors_writer *writer, unsigned char *window, size_t bytes,
                       bool *unread, hr_error *err) {
  for (size_t i = 0; i < kept->count; i++)
    for (uint64_t at = 0, all = kept->list[i].end; at < all; at += bytes) {
      size_t piece = all - at < bytes ? (size_t)(all - at) : bytes;
      hr_status status = hr__stored_copy(kept->from, kept->numbers[i], at, piece, window, err);
      *unread = status != HR_OK;
      HR_TRY(status);
      HR_TRY(hr__safetensors_writer_put(writer, window, piece, err));
    }
  return HR_OK;
}
