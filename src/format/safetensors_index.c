/* Several safetensors files joined by *.safetensors.index.json: {"metadata": ..., "weight_map": {tensor: file}}.
 *
 * The index and the shards must agree exactly: every listed tensor is in the shard named for it, and no shard holds a
 * tensor that is not listed for it. Shard names are plain file names, so that an index cannot reach outside its folder.
 */
#include <stdio.h>
#include <string.h>

#include "base/sort.h"
#include "format/doc.h"
#include "format/file.h"
#include "format/safetensors_file.h"

static const char rewrite[] = "fetch the model again or write its index anew";

static int shard_order(const void *a, const void *b) {
  const hr_doc_node *first = a, *second = b;
  return strcmp(first->text, second->text);
}

static bool shard_name_valid(const char *name) {
  static const char ending[] = ".safetensors";
  size_t length = strlen(name);
  return length > sizeof ending - 1 && !strpbrk(name, "/\\") && name[0] != '.' &&
         strcmp(name + length - (sizeof ending - 1), ending) == 0;
}

static hr_status map_check(const char *path, const hr_doc_node *map, size_t *count, hr_error *err) {
  if (!map || map->kind != HR_DOC_MAP)
    return hr__fail(err, HR_BAD_INPUT, path, rewrite, "\"weight_map\" is missing or not an object");
  *count = 0;
  for (const hr_doc_node *entry = map->child; entry; entry = entry->next) {
    if (entry->kind != HR_DOC_SCALAR || !entry->quoted)
      return hr__fail(err, HR_BAD_INPUT, path, rewrite, "tensor \"%.200s\": its shard is not a string", entry->key);
    if (!shard_name_valid(entry->text))
      return hr__fail(err, HR_BAD_INPUT, path, rewrite,
                      "tensor \"%.150s\": \"%.150s\" is not a plain .safetensors file name", entry->key, entry->text);
    ++*count;
  }
  if (*count > HR_SAFETENSORS_COUNT)
    return hr__fail(err, HR_BAD_INPUT, path, NULL, "%zu tensors, at most %d are read", *count, HR_SAFETENSORS_COUNT);
  if (!*count) return hr__fail(err, HR_BAD_INPUT, path, rewrite, "\"weight_map\" lists no tensor");
  return HR_OK;
}

/* Moves the tensors of `shard`, its open file and metadata not yet seen into `whole`. listed[0..count) are the entries
 * of the index that name this shard. */
static hr_status shard_join(const char *path, hr_safetensors *whole, hr_safetensors *shard, const void **listed,
                            size_t count, hr_error *err) {
  const char *shard_path = shard->parts[0].path;
  for (size_t i = 0; i < count; i++) {
    const hr_doc_node *entry = listed[i];
    const hr_safetensor *found = hr__safetensors_find(shard, entry->key);
    if (!found)
      return hr__fail(err, HR_BAD_INPUT, path, rewrite,
                      "tensor \"%.150s\" is not in \"%.150s\", where the index puts it", entry->key, entry->text);
    hr_safetensors_entry *to = &whole->entries[whole->count++];
    *to = (hr_safetensors_entry){.tensor = *found, .part = whole->part_count};
    to->tensor.name = hr__arena_text(&whole->arena, found->name);
    if (!to->tensor.name) return hr__nomem(err);
  }
  if (shard->count != count) /* names are unique on both sides: the shard holds others as well */
    return hr__fail(err, HR_BAD_INPUT, shard_path, rewrite,
                    "the shard holds %zu tensors, the index lists %zu of them: duplicate or stray tensors",
                    shard->count, count);
  for (size_t i = 0; i < shard->metadata_count; i++) {
    if (hr__safetensors_metadata(whole, shard->metadata[2 * i])) continue;
    size_t capacity = whole->metadata_count; /* grown by exactly one: shards repeat a handful of keys */
    const char **grown = hr__arena_array(&whole->arena, capacity + 1, 2 * sizeof *grown);
    char *key = hr__arena_text(&whole->arena, shard->metadata[2 * i]);
    char *text = hr__arena_text(&whole->arena, shard->metadata[2 * i + 1]);
    if (!grown || !key || !text) return hr__nomem(err);
    if (capacity) memcpy(grown, whole->metadata, capacity * 2 * sizeof *grown);
    grown[2 * capacity] = key;
    grown[2 * capacity + 1] = text;
    whole->metadata = grown;
    whole->metadata_count++;
  }
  char *name = hr__arena_text(&whole->arena, shard_path);
  if (!name) return hr__nomem(err);
  whole->parts[whole->part_count] = shard->parts[0];
  whole->parts[whole->part_count++].path = name;
  shard->parts[0].fd = -1; /* owned by `whole` now */
  return HR_OK;
}

static hr_status shards_open(const char *path, hr_safetensors *whole, const void **order, size_t count, hr_arena *work,
                             hr_error *err) {
  const char *slash = strrchr(path, '/');
  int folder = slash ? (int)(slash - path + 1) : 0;
  size_t shards = 0;
  for (size_t i = 0; i < count; i++)
    shards += i == 0 || shard_order(order[i - 1], order[i]) != 0;
  if (shards > HR_SAFETENSORS_SHARDS)
    return hr__fail(err, HR_BAD_INPUT, path, NULL, "%zu shards, at most %d are read", shards, HR_SAFETENSORS_SHARDS);
  whole->entries = hr__arena_array(&whole->arena, count, sizeof *whole->entries);
  whole->parts = hr__arena_array(&whole->arena, shards, sizeof *whole->parts);
  if (!whole->entries || !whole->parts) return hr__nomem(err);
  for (size_t begin = 0, end; begin < count; begin = end) {
    const hr_doc_node *first = order[begin];
    for (end = begin + 1; end < count && shard_order(order[begin], order[end]) == 0;)
      end++;
    char *shard_path = hr__arena_format(work, "%.*s%s", folder, path, first->text);
    if (!shard_path) return hr__nomem(err);
    hr_safetensors *shard;
    HR_TRY(hr__safetensors_open_file(shard_path, &shard, err));
    hr_status status = shard_join(path, whole, shard, order + begin, end - begin, err);
    hr__safetensors_close(shard);
    if (status != HR_OK) return status;
  }
  return hr__safetensors_sort(whole, path, err);
}

static hr_status index_open(const char *path, hr_safetensors *whole, hr_arena *work, hr_error *err) {
  char *text;
  size_t bytes, count = 0;
  hr_doc_node *root = NULL;
  HR_TRY(hr__file_read(path, HR_DOC_MAX_BYTES, work, &text, &bytes, err));
  HR_TRY(hr__json_parse(path, text, bytes, work, &root, err));
  const hr_doc_node *map = hr__doc_get(root, "weight_map");
  HR_TRY(map_check(path, map, &count, err));
  const void **order = hr__arena_array(work, count, 2 * sizeof *order);
  if (!order) return hr__nomem(err);
  size_t filled = 0;
  for (const hr_doc_node *entry = map->child; entry; entry = entry->next)
    order[filled++] = entry;
  hr__sort(order, count, order + count, shard_order);
  return shards_open(path, whole, order, count, work, err);
}

hr_status hr__safetensors_open_index(const char *path, hr_safetensors **out, hr_error *err) {
  hr_safetensors *whole = hr__alloc_zero(1, sizeof *whole);
  if (!whole) return hr__nomem(err);
  hr_arena work = {0};
  hr_status status = index_open(path, whole, &work, err);
  hr__arena_fini(&work);
  if (status != HR_OK) {
    hr__safetensors_close(whole);
    return status;
  }
  *out = whole;
  return HR_OK;
}
