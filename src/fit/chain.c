/* chain: see chain.h. */
#include "fit/chain.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* An answer for the blocks from one on. Seconds are counted in whole picoseconds, so that sums do not depend on the
 * order of their terms and equal answers are seen to be equal. */
typedef struct label {
  uint64_t peak_bytes, picoseconds;
  uint32_t rest; /* label of the next block */
  uint8_t variant;
} label;

struct hr_chain_labels {
  label *items;
  size_t count;
};

static uint64_t add_capped(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* By time, then by peak, then by variant and rest: a total order, so that the result is one and the same. */
static int label_compare(const void *a, const void *b) {
  const label *x = a, *y = b;
  if (x->picoseconds != y->picoseconds) return x->picoseconds < y->picoseconds ? -1 : 1;
  if (x->peak_bytes != y->peak_bytes) return x->peak_bytes < y->peak_bytes ? -1 : 1;
  if (x->variant != y->variant) return x->variant < y->variant ? -1 : 1;
  return x->rest < y->rest ? -1 : x->rest > y->rest;
}

/* Sorts and keeps those that no faster one undercuts. */
static size_t labels_prune(label *items, size_t count) {
  qsort(items, count, sizeof *items, label_compare);
  size_t kept = 0;
  for (size_t i = 0; i < count; i++)
    if (kept == 0 || items[i].peak_bytes < items[kept - 1].peak_bytes) items[kept++] = items[i];
  return kept;
}

static void labels_round(label *items, size_t count, uint64_t slot) {
  for (size_t i = 0; i < count; i++)
    items[i].peak_bytes = add_capped(items[i].peak_bytes, slot - 1) / slot * slot;
}

/* Adds `block` before the chain of `rest`. */
static hr_status block_add(const hr_chain_block *block, const struct hr_chain_labels *rest, hr_arena *arena,
                           struct hr_chain_labels *out, hr_error *err) {
  size_t room = rest->count * (size_t)block->n_variants;
  label *items = hr__alloc_zero(room, sizeof *items);
  if (!items) return hr__nomem(err);
  size_t count = 0;
  uint64_t most = 0;
  for (size_t r = 0; r < rest->count; r++)
    for (int v = 0; v < block->n_variants; v++) {
      const hr_chain_variant *variant = &block->variants[v];
      uint64_t peak = add_capped(variant->kept_bytes, rest->items[r].peak_bytes);
      peak = larger(peak, larger(variant->work_bytes, variant->forward_bytes));
      most = larger(most, peak);
      items[count++] = (label){.peak_bytes = peak,
                               .picoseconds = rest->items[r].picoseconds + (uint64_t)llround(variant->seconds * 1e12),
                               .rest = (uint32_t)r,
                               .variant = (uint8_t)v};
    }
  count = labels_prune(items, count);
  if (count > HR_CHAIN_LABELS) {
    labels_round(items, count, most / HR_CHAIN_LABELS + 1);
    count = labels_prune(items, count);
  }
  *out = (struct hr_chain_labels){hr__arena_array(arena, count, sizeof *items), count};
  for (size_t i = 0; out->items && i < count; i++)
    out->items[i] = items[i];
  hr__free(items);
  return out->items ? HR_OK : hr__nomem(err);
}

hr_status hr__chain_solve(const hr_chain_block *blocks, size_t n_blocks, uint64_t tail_bytes, hr_arena *arena,
                          hr_chain *out, hr_error *err) {
  *out = (hr_chain){.n_blocks = n_blocks};
  out->labels = hr__arena_array(arena, n_blocks + 1, sizeof *out->labels);
  if (!out->labels) return hr__nomem(err);
  struct hr_chain_labels *end = &out->labels[n_blocks];
  *end = (struct hr_chain_labels){hr__arena_array(arena, 1, sizeof *end->items), 1};
  if (!end->items) return hr__nomem(err);
  end->items[0].peak_bytes = tail_bytes;
  for (size_t i = n_blocks; i-- > 0;)
    HR_TRY(block_add(&blocks[i], &out->labels[i + 1], arena, &out->labels[i], err));
  out->n_entries = out->labels[0].count;
  hr_chain_entry *entries = hr__arena_array(arena, out->n_entries, sizeof *entries);
  if (!entries) return hr__nomem(err);
  for (size_t e = 0; e < out->n_entries; e++)
    entries[e] =
        (hr_chain_entry){out->labels[0].items[e].peak_bytes, (double)out->labels[0].items[e].picoseconds / 1e12};
  out->entries = entries;
  return HR_OK;
}

void hr__chain_choice(const hr_chain *chain, size_t entry, uint8_t *variants) {
  size_t at = entry;
  for (size_t i = 0; i < chain->n_blocks; i++) {
    variants[i] = chain->labels[i].items[at].variant;
    at = chain->labels[i].items[at].rest;
  }
}
