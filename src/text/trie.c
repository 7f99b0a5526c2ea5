#include "text/trie.h"

#include <stdbool.h>
#include <string.h>

#include "base/sort.h"

static int key_order(const void *a, const void *b) {
  const hr_trie_key *x = a, *y = b;
  uint32_t both = x->bytes < y->bytes ? x->bytes : y->bytes;
  int order = memcmp(x->text, y->text, both);
  return order ? order : x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static hr_status keys_sort(hr_trie_key *keys, size_t count, hr_error *err) {
  const void **order = hr__alloc_zero(2 * count + 1, sizeof *order);
  hr_trie_key *sorted = hr__alloc_zero(count + 1, sizeof *sorted);
  if (order && sorted) {
    for (size_t i = 0; i < count; i++)
      order[i] = &keys[i];
    hr__sort(order, count, order + count, key_order);
    for (size_t i = 0; i < count; i++)
      sorted[i] = *(const hr_trie_key *)order[i];
    if (count > 0) memcpy(keys, sorted, count * sizeof *keys);
  }
  bool done = order && sorted;
  hr__free(order);
  hr__free(sorted);
  return done ? HR_OK : hr__nomem(err);
}

/* Keys [first, last) share the bytes that lead to a node. */
typedef struct range {
  uint32_t first, last, depth;
} range;

static size_t nodes_count(const hr_trie_key *keys, size_t count) {
  size_t nodes = 1;
  for (size_t i = 0; i < count; i++) {
    uint32_t shared = 0;
    if (i > 0)
      while (shared < keys[i].bytes && shared < keys[i - 1].bytes && keys[i].text[shared] == keys[i - 1].text[shared])
        shared++;
    nodes += keys[i].bytes - shared;
  }
  return nodes;
}

/* Gives a node its value and its children, which become nodes [*made, ...). */
static void node_open(hr_trie *trie, range *ranges, const hr_trie_key *keys, uint32_t node, uint32_t *made) {
  range here = ranges[node];
  hr_trie_node *at = &trie->nodes[node];
  at->value = -1;
  uint32_t k = here.first;
  for (; k < here.last && keys[k].bytes == here.depth; k++)
    if (at->value < 0) at->value = keys[k].value;
  at->child = *made;
  while (k < here.last) {
    uint8_t byte = (uint8_t)keys[k].text[here.depth];
    uint32_t first = k;
    while (k < here.last && (uint8_t)keys[k].text[here.depth] == byte)
      k++;
    trie->nodes[*made].byte = byte;
    ranges[*made] = (range){first, k, here.depth + 1};
    if (node == 0) trie->root[byte] = *made;
    at->children++;
    ++*made;
  }
}

hr_status hr__trie_build(hr_trie *trie, hr_trie_key *keys, size_t count, hr_arena *arena, hr_error *err) {
  memset(trie, 0, sizeof *trie);
  HR_TRY(keys_sort(keys, count, err));
  size_t nodes = nodes_count(keys, count);
  if (nodes > UINT32_MAX || count > UINT32_MAX) return hr__nomem(err);
  trie->nodes = hr__arena_array(arena, nodes, sizeof *trie->nodes);
  range *ranges = hr__alloc_zero(nodes, sizeof *ranges);
  if (!trie->nodes || !ranges) {
    hr__free(ranges);
    return hr__nomem(err);
  }
  ranges[0] = (range){0, (uint32_t)count, 0};
  for (uint32_t node = 0, made = 1; node < made; node++)
    node_open(trie, ranges, keys, node, &made);
  hr__free(ranges);
  return HR_OK;
}

int32_t hr__trie_longest(const hr_trie *trie, const char *text, size_t bytes, size_t *length) {
  int32_t value = -1;
  uint32_t node = 0;
  for (size_t i = 0; i < bytes; i++) {
    node = hr__trie_step(trie, node, (unsigned char)text[i]);
    if (!node) break;
    if (trie->nodes[node].value >= 0) {
      value = trie->nodes[node].value;
      *length = i + 1;
    }
  }
  return value;
}
