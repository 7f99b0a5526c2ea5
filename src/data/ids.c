/* Source ids: tokens that were made elsewhere, as .npy (u8 to u64 and signed) or as a plain row of u16 or u32 (.bin).
 * Files, one behind the other, are cut into windows as those of a text are. With packing documents end with the end
 * token, where that is known, and with their file.
 *
 * Every id is looked at once when the files are opened, against the vocabulary; what a sample needs is read then. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/documents.h"
#include "data/source.h"
#include "data/tokens.h"
#include "format/npy.h"

enum { WINDOW_BYTES = 1 << 14 };

typedef struct ids {
  hr_data_files files;
  hr_npy_head *heads; /* of each file: how its ids lie */
  uint64_t *begins;   /* of each file, in ids; one more than there are files */
  hr_document_list documents;
  uint64_t *borders; /* of the documents; NULL: they are the files */
  bool packed;
  int64_t length, bound; /* of a window; ids are below it */
  int32_t end;           /* token that ends a document; -1: not known */
  uint64_t windows;
} ids;

static void ids_close(void *state) {
  ids *s = state;
  hr__data_files_close(&s->files);
  hr__free(s->heads);
  hr__free(s->begins);
  hr__free(s->borders);
  hr__free(s);
}

/* A plain row of numbers is an array without a header. */
static hr_status plain_head(const hr_recipe *recipe, const hr_data_file *file, hr_npy_head *out, hr_error *err) {
  static const char type[] = "data.id_type";
  if (!hr__recipe_has(recipe, type))
    return hr__fail(err, HR_BAD_INPUT, file->path, "set data.id_type: u16 or u32",
                    "the file does not say how wide its ids are");
  int width = hr__recipe_word_is(recipe, type, "u16") ? 2 : 4;
  if (file->bytes % (uint64_t)width != 0)
    return hr__fail(err, HR_BAD_INPUT, file->path, "check data.id_type, and that the file is whole",
                    "%" PRIu64 " bytes are no whole number of ids of %d bytes", file->bytes, width);
  *out = (hr_npy_head){.rank = 1, .width = width, .elements = (int64_t)(file->bytes / (uint64_t)width)};
  return HR_OK;
}

static hr_status head_read(const hr_recipe *recipe, const hr_data_file *file, hr_npy_head *out, hr_error *err) {
  if (!hr__data_ends_as(file->path, ".npy")) return plain_head(recipe, file, out, err);
  size_t bytes = file->bytes < HR_NPY_HEAD ? (size_t)file->bytes : HR_NPY_HEAD;
  char *head = hr__alloc(bytes + 1);
  hr_status status = head ? hr__data_file_read(file, 0, head, bytes, err) : hr__nomem(err);
  if (status == HR_OK) status = hr__npy_head(file->path, head, bytes, file->bytes, out, err);
  hr__free(head);
  return status;
}

/* Ids [first, first + count) of one file. */
static hr_status file_ids(const ids *s, size_t number, uint64_t first, size_t count, int32_t *to, hr_error *err) {
  const hr_npy_head *head = &s->heads[number];
  const hr_data_file *file = &s->files.list[number];
  unsigned char window[WINDOW_BYTES];
  for (size_t done = 0; done < count;) {
    size_t width = (size_t)head->width,
           here = count - done < sizeof window / width ? count - done : sizeof window / width;
    uint64_t at = first + done;
    HR_TRY(hr__data_file_read(file, head->data_begin + at * width, window, here * width, err));
    for (size_t i = 0; i < here; i++) {
      int64_t id = -1;
      bool fits = hr__npy_element(head, window, i, &id);
      if (!fits || id < 0 || id >= s->bound)
        return hr__fail(err, HR_BAD_INPUT, file->path, "give ids of the model's own tokenizer",
                        "id number %" PRIu64 " is %" PRId64 ", but the model's vocabulary has %" PRId64, at + i, id,
                        s->bound);
      to[done + i] = (int32_t)id;
    }
    done += here;
  }
  return HR_OK;
}

/* The same of all files. */
static hr_status ids_read(const ids *s, uint64_t at, int64_t count, int32_t *to, hr_error *err) {
  size_t number = 0;
  while (s->begins[number + 1] <= at)
    number++;
  for (int64_t got = 0; got < count; number++) {
    uint64_t first = at + (uint64_t)got - s->begins[number], left = s->begins[number + 1] - s->begins[number] - first;
    size_t here = (uint64_t)(count - got) < left ? (size_t)(count - got) : (size_t)left;
    HR_TRY(file_ids(s, number, first, here, to + got, err));
    got += (int64_t)here;
  }
  return HR_OK;
}

/* Documents on their way into the list. */
typedef struct border_list {
  uint64_t *items;
  size_t count, capacity;
} border_list;

static hr_status border_add(border_list *list, uint64_t at, hr_error *err) {
  if (list->count > 0 && list->items[list->count - 1] == at) return HR_OK; /* both a file and a document end here */
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 64;
    uint64_t *items = hr__realloc(list->items, capacity * sizeof *items);
    if (!items) return hr__nomem(err);
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = at;
  return HR_OK;
}

/* Looks at every id, and notes where documents begin where they matter. */
static hr_status files_scan(ids *s, border_list *list, hr_error *err) {
  enum { PIECE = 1 << 12 };
  int32_t piece[PIECE];
  for (size_t f = 0; f < s->files.count; f++) {
    HR_TRY(border_add(list, s->begins[f], err));
    uint64_t count = s->begins[f + 1] - s->begins[f];
    for (uint64_t at = 0; at < count; at += PIECE) {
      size_t here = count - at < PIECE ? (size_t)(count - at) : PIECE;
      HR_TRY(file_ids(s, f, at, here, piece, err));
      for (size_t i = 0; i < here && s->packed && s->end >= 0; i++)
        if (piece[i] == s->end) HR_TRY(border_add(list, s->begins[f] + at + i + 1, err));
    }
  }
  return border_add(list, s->begins[s->files.count], err);
}

static hr_status files_open(ids *s, const hr_source_request *request, hr_error *err) {
  HR_TRY(hr__data_files_find(request->recipe, request->key, HR_IDS_ENDINGS, &s->files, err));
  HR_TRY(hr__data_files_open(&s->files, err));
  s->heads = hr__alloc_zero(s->files.count, sizeof *s->heads);
  s->begins = hr__alloc_zero(s->files.count + 1, sizeof *s->begins);
  if (!s->heads || !s->begins) return hr__nomem(err);
  for (size_t f = 0; f < s->files.count; f++) {
    HR_TRY(head_read(request->recipe, &s->files.list[f], &s->heads[f], err));
    s->begins[f + 1] = s->begins[f] + (uint64_t)s->heads[f].elements;
  }
  return HR_OK;
}

static hr_status ids_prepare(ids *s, const hr_source_request *request, hr_error *err) {
  s->length = request->length;
  s->packed = hr__field_for(request->fields, HR_FOR_STARTS) >= 0;
  int field = hr__field_for(request->fields, HR_FOR_TOKENS);
  if (field < 0 || hr__field_for(request->fields, HR_FOR_TARGETS) < 0)
    return hr__recipe_fail(request->recipe, "data.source", "choose another data.source", err,
                           "source ids gives tokens and their targets, which this model does not take");
  s->bound = request->fields->list[field].bound;
  if (s->packed) HR_TRY(hr__tokens_end(request->recipe, &s->end, err));
  HR_TRY(files_open(s, request, err));
  border_list list = {0};
  hr_status status = files_scan(s, &list, err);
  s->borders = list.items;
  HR_TRY(status);
  s->documents = (hr_document_list){s->borders, list.count - 1};
  uint64_t count = s->begins[s->files.count];
  s->windows = count > 0 ? (count - 1) / (uint64_t)s->length : 0;
  if (hr__samples_suffice(request, s->windows)) return HR_OK;
  return hr__fail(err, HR_BAD_INPUT, s->files.list[0].path, "use more ids or a smaller data.sequence_length",
                  "%" PRIu64 " ids are too few: %s of %" PRId64 " + 1 ids needed", count,
                  request->held == HR_HOLD_PART ? "two windows (one held out)" : "one window", s->length);
}

static hr_status ids_open(const hr_source_request *request, void **state, hr_error *err) {
  ids *s = hr__alloc_zero(1, sizeof *s);
  if (!s) return hr__nomem(err);
  s->end = -1;
  hr_status status = ids_prepare(s, request, err);
  if (status != HR_OK) {
    ids_close(s);
    return status;
  }
  *state = s;
  return HR_OK;
}

static uint64_t ids_samples(const void *state) {
  return ((const ids *)state)->windows;
}

static int64_t ids_targets(const void *state, uint64_t window) {
  const ids *s = state;
  return s->packed ? hr__window_targets(&s->documents, window * (uint64_t)s->length, s->length) : s->length;
}

static hr_status ids_fill(const void *state, bool eval, uint64_t window, const hr_room *room, hr_error *err) {
  (void)eval;
  const ids *s = state;
  int32_t *tokens = hr__room_for(room, HR_FOR_TOKENS), *targets = hr__room_for(room, HR_FOR_TARGETS);
  uint64_t at = window * (uint64_t)s->length;
  HR_TRY(ids_read(s, at, s->length, tokens, err));
  HR_TRY(ids_read(s, at + (uint64_t)s->length, 1, &targets[s->length - 1], err));
  memcpy(targets, tokens + 1, (size_t)(s->length - 1) * sizeof *targets);
  if (s->packed) hr__window_borders(&s->documents, at, s->length, hr__room_for(room, HR_FOR_STARTS), targets);
  return HR_OK;
}

static const hr_data_file *ids_file(const void *state, size_t number) {
  const ids *s = state;
  return number < s->files.count ? &s->files.list[number] : NULL;
}

static hr_data_bytes ids_bytes(const void *state) {
  const ids *s = state;
  uint64_t bytes = s->borders ? 2 * (s->documents.count + 1) * sizeof *s->borders : 0; /* the list grows by doubling */
  return (hr_data_bytes){.held = bytes, .making = bytes};
}

const hr_source hr_source_ids = {
    .name = "ids",
    .purposes = 1u << HR_FOR_TOKENS | 1u << HR_FOR_TARGETS | 1u << HR_FOR_STARTS,
    .open = ids_open,
    .close = ids_close,
    .samples = ids_samples,
    .targets = ids_targets,
    .fill = ids_fill,
    .file = ids_file,
    .bytes = ids_bytes,
};
