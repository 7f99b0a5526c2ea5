/* A trie over byte strings: all prefixes of a text that are keys, shortest first, or the longest one.
 *
 * Nodes lie level by level, the children of a node side by side in the order of their bytes.
 */
#ifndef HR_TEXT_TRIE_H
#define HR_TEXT_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

typedef struct hr_trie_node {
  uint32_t child; /* the first one */
  int32_t value;  /* -1: no key ends here */
  uint16_t children;
  uint8_t byte; /* that leads here */
} hr_trie_node;

typedef struct hr_trie {
  hr_trie_node *nodes; /* 0 is the root */
  uint32_t root[256];  /* its children by byte; 0: none */
} hr_trie;

typedef struct hr_trie_key {
  const char *text;
  uint32_t bytes; /* at least 1 */
  int32_t value;  /* at least 0; of keys that are the same the first counts */
} hr_trie_key;

/* Keys are sorted in place. */
hr_status hr__trie_build(hr_trie *trie, hr_trie_key *keys, size_t count, hr_arena *arena, hr_error *err);

/* The node behind `node` by `byte`; 0: none. */
static inline uint32_t hr__trie_step(const hr_trie *trie, uint32_t node, unsigned char byte) {
  if (node == 0) return trie->root[byte];
  const hr_trie_node *at = &trie->nodes[node];
  uint32_t low = at->child, high = at->child + at->children;
  while (high - low > 4) {
    uint32_t middle = low + (high - low) / 2;
    if (trie->nodes[middle].byte <= byte)
      low = middle;
    else
      high = middle;
  }
  for (; low < high; low++)
    if (trie->nodes[low].byte == byte) return low;
  return 0;
}

/* Value of the longest key that the text begins with, and its length; -1: none. */
int32_t hr__trie_longest(const hr_trie *trie, const char *text, size_t bytes, size_t *length);

#endif
