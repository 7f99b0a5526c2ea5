/* See bins.h. */
#include "data/bins.h"

#include <stdbool.h>

#include "base/mem.h"

enum { WORD = 64 };
static const uint64_t NONE = UINT64_MAX;

/* Bins by the room that is left in them. */
typedef struct shelf {
  uint32_t size;
  uint64_t *newest;  /* size + 1: the bin with that much room that was put there last; NONE: there is none */
  uint64_t *before;  /* of each bin: the one with as much room that was put there before it */
  uint64_t *words;   /* bit r: some bin has room r */
  uint64_t *summary; /* bit w: words[w] is not 0 */
} shelf;

static uint64_t words_for(uint64_t bits) {
  return (bits + WORD - 1) / WORD;
}

/* The first bit that is set from `at` on, of `bits`; NONE: there is none. */
static uint64_t bit_next(const uint64_t *words, uint64_t at, uint64_t bits) {
  for (uint64_t w = at / WORD; w < words_for(bits); w++) {
    uint64_t rest = w == at / WORD ? words[w] >> at % WORD << at % WORD : words[w];
    if (rest) return w * WORD + (uint64_t)__builtin_ctzll(rest);
  }
  return NONE;
}

/* The least room of at least `length` that any bin has. */
static uint64_t room_find(const shelf *s, uint32_t length) {
  uint64_t w = length / WORD, rest = s->words[w] >> length % WORD << length % WORD;
  if (rest) return w * WORD + (uint64_t)__builtin_ctzll(rest);
  w = bit_next(s->summary, w + 1, words_for((uint64_t)s->size + 1));
  return w == NONE ? NONE : w * WORD + (uint64_t)__builtin_ctzll(s->words[w]);
}

static uint64_t bin_take(shelf *s, uint64_t room) {
  uint64_t bin = s->newest[room], w = room / WORD;
  s->newest[room] = s->before[bin];
  if (s->newest[room] == NONE) s->words[w] &= ~((uint64_t)1 << room % WORD);
  if (!s->words[w]) s->summary[w / WORD] &= ~((uint64_t)1 << w % WORD);
  return bin;
}

static void bin_put(shelf *s, uint64_t bin, uint64_t room) {
  uint64_t w = room / WORD;
  s->before[bin] = s->newest[room];
  s->newest[room] = bin;
  s->words[w] |= (uint64_t)1 << room % WORD;
  s->summary[w / WORD] |= (uint64_t)1 << w % WORD;
}

/* Documents by length, longest first; those of one length in their own order. `count` has size + 2 numbers. */
static void sort_by_length(const uint32_t *lengths, uint64_t documents, uint32_t size, uint64_t *count, uint64_t *to) {
  for (uint64_t i = 0; i < documents; i++)
    count[size - lengths[i] + 1]++;
  for (uint32_t r = 0; r < size; r++)
    count[r + 1] += count[r];
  for (uint64_t i = 0; i < documents; i++)
    to[count[size - lengths[i]]++] = i;
}

/* Which bin each document goes to; returns how many there are. */
static uint64_t bins_choose(shelf *s, const uint32_t *lengths, const uint64_t *order, uint64_t documents,
                            uint64_t *bin_of) {
  uint64_t bins = 0;
  for (uint64_t i = 0; i < documents; i++) {
    uint32_t length = lengths[order[i]];
    uint64_t room = room_find(s, length);
    uint64_t bin = room == NONE ? bins++ : bin_take(s, room);
    bin_of[order[i]] = bin;
    bin_put(s, bin, (room == NONE ? s->size : room) - length);
  }
  return bins;
}

/* Documents bin after bin, longest first. */
static void bins_list(hr_bins *out, const uint64_t *order, const uint64_t *bin_of) {
  for (uint64_t i = 0; i < out->n_items; i++)
    out->begins[bin_of[i] + 1]++;
  for (uint64_t b = 0; b < out->count; b++)
    out->begins[b + 1] += out->begins[b];
  for (uint64_t i = 0; i < out->n_items; i++)
    out->items[out->begins[bin_of[order[i]]]++] = order[i];
  for (uint64_t b = out->count; b > 0; b--) /* each has gone on to where the next begins */
    out->begins[b] = out->begins[b - 1];
  out->begins[0] = 0;
}

hr_status hr__bins_fill(const uint32_t *lengths, uint64_t documents, uint32_t size, hr_bins *out, hr_error *err) {
  uint64_t rooms = (uint64_t)size + 2, words = words_for(rooms);
  *out = (hr_bins){.n_items = documents};
  uint64_t *count = hr__alloc_zero(rooms, sizeof *count), *order = hr__alloc_zero(documents + 1, sizeof *order);
  uint64_t *bin_of = hr__alloc_zero(documents + 1, sizeof *bin_of);
  shelf s = {.size = size,
             .newest = hr__alloc_zero(rooms, sizeof *s.newest),
             .before = hr__alloc_zero(documents + 1, sizeof *s.before),
             .words = hr__alloc_zero(words, sizeof *s.words),
             .summary = hr__alloc_zero(words_for(words), sizeof *s.summary)};
  out->begins = hr__alloc_zero(documents + 1, sizeof *out->begins);
  out->items = hr__alloc_zero(documents + 1, sizeof *out->items);
  bool there = count && order && bin_of && s.newest && s.before && s.words && s.summary && out->begins && out->items;
  if (there) {
    for (uint64_t r = 0; r < rooms; r++)
      s.newest[r] = NONE;
    sort_by_length(lengths, documents, size, count, order);
    out->count = bins_choose(&s, lengths, order, documents, bin_of);
    bins_list(out, order, bin_of);
    uint64_t *less = hr__realloc(out->begins, (out->count + 1) * sizeof *less);
    if (less) out->begins = less;
    there = less != NULL;
  }
  hr__free(count);
  hr__free(order);
  hr__free(bin_of);
  hr__free(s.newest);
  hr__free(s.before);
  hr__free(s.words);
  hr__free(s.summary);
  if (there) return HR_OK;
  hr__bins_fini(out);
  return hr__nomem(err);
}

/* Filling has begins for as many bins as documents, and three lists beside: order, bin_of and before. */
hr_data_bytes hr__bins_bytes(const hr_bins *bins) {
  uint64_t number = sizeof *bins->items;
  return (hr_data_bytes){.held = (bins->n_items + bins->count + 2) * number,
                         .making = (4 * bins->n_items + 4 - bins->count) * number};
}

void hr__bins_fini(hr_bins *bins) {
  hr__free(bins->begins);
  hr__free(bins->items);
  *bins = (hr_bins){0};
}
