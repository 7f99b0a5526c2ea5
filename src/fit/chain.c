/* chain: see chain.h. */
#include "fit/chain.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

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

/* By time, then by peak, then by variant: of variants with different rests a total order, so that the result is one and
 * the same. */
static bool label_before(const label *a, const label *b) {
  if (a->picoseconds != b->picoseconds) return a->picoseconds < b->picoseconds;
  if (a->peak_bytes != b->peak_bytes) return a->peak_bytes < b->peak_bytes;
  return a->variant < b->variant;
}

/* Adds an answer behind faster ones, unless one of them undercuts it. */
static void label_keep(label *items, size_t *count, const label *it) {
  if (*count == 0 || it->peak_bytes < items[*count - 1].peak_bytes) items[(*count)++] = *it;
}

/* One variant of a block before the answers for the rest, in their order. */
typedef struct row {
  const hr_chain_variant *variant;
  uint64_t picoseconds;
  label next; /* behind the last: of rest->count */
} row;

static void row_set(row *it, const struct hr_chain_labels *rest, uint32_t r) {
  it->next.rest = r;
  if (r == rest->count) return;
  uint64_t peak = add_capped(it->variant->kept_bytes, rest->items[r].peak_bytes);
  it->next.peak_bytes = larger(peak, larger(it->variant->work_bytes, it->variant->forward_bytes));
  it->next.picoseconds = rest->items[r].picoseconds + it->picoseconds;
}

/* All answers of a block before the chain of `rest`, fastest first: those of each variant are in order, so they are
 * merged. Returns how many; *most: the largest peak, of those left out too. */
static size_t rows_merge(const hr_chain_block *block, const struct hr_chain_labels *rest, label *items,
                         uint64_t *most) {
  row rows[HR_CHAIN_VARIANTS];
  size_t count = 0;
  for (int v = 0; v < block->n_variants; v++) {
    const hr_chain_variant *variant = &block->variants[v];
    rows[v] = (row){variant, (uint64_t)llround(variant->seconds * 1e12), {.variant = (uint8_t)v}};
    row_set(&rows[v], rest, 0);
    *most = larger(*most, rows[v].next.peak_bytes); /* peaks fall */
  }
  for (;;) {
    row *first = NULL;
    for (int v = 0; v < block->n_variants; v++)
      if (rows[v].next.rest < rest->count && (!first || label_before(&rows[v].next, &first->next))) first = &rows[v];
    if (!first) return count;
    label_keep(items, &count, &first->next);
    row_set(first, rest, first->next.rest + 1);
  }
}

/* Rounds peaks up to multiples of `slot`; returns how many are left. */
static size_t labels_round(label *items, size_t count, uint64_t slot) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    label it = items[i];
    it.peak_bytes = add_capped(it.peak_bytes, slot - 1) / slot * slot;
    label_keep(items, &kept, &it);
  }
  return kept;
}

/* Adds `block` before the chain of `rest`. */
static hr_status block_add(const hr_chain_block *block, const struct hr_chain_labels *rest, hr_arena *arena,
                           struct hr_chain_labels *out, hr_error *err) {
  size_t room = rest->count * (size_t)block->n_variants;
  label *items = hr__alloc(room * sizeof *items);
  if (!items) return hr__nomem(err);
  uint64_t most = 0;
  size_t count = rows_merge(block, rest, items, &most);
  if (count > HR_CHAIN_LABELS) count = labels_round(items, count, most / HR_CHAIN_LABELS + 1);
  *out = (struct hr_chain_labels){hr__arena_room(arena, count, sizeof *items), count};
  if (out->items) memcpy(out->items, items, count * sizeof *items);
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
