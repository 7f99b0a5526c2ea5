/* Unified diff: common lines at both ends are set aside, what lies between is matched by its longest common
 * subsequence, where that is small enough to be worth it. */
#include "format/diff.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CONTEXT = 3, CELLS = 4 << 20 }; /* lines around a change; largest table of the matching */

typedef struct line {
  const char *text; /* with its LF, except for a last line without one */
  size_t bytes;
} line;

typedef struct lines {
  line *at;
  size_t count;
} lines;

typedef struct text_out {
  char *text; /* room for all that can be written is taken at the start */
  size_t bytes;
} text_out;

static hr_status lines_split(const char *text, size_t bytes, hr_arena *arena, lines *out, hr_error *err) {
  size_t count = 0;
  for (size_t i = 0; i < bytes; i++)
    count += text[i] == '\n' || i + 1 == bytes;
  out->at = hr__arena_array(arena, count + 1, sizeof *out->at);
  if (!out->at) return hr__nomem(err);
  for (size_t from = 0; from < bytes;) {
    const char *end = memchr(text + from, '\n', bytes - from);
    size_t length = end ? (size_t)(end - (text + from)) + 1 : bytes - from;
    out->at[out->count++] = (line){text + from, length};
    from += length;
  }
  return HR_OK;
}

static bool same(const line *a, const line *b) {
  return a->bytes == b->bytes && memcmp(a->text, b->text, a->bytes) == 0;
}

/* Marks lines that have no partner: gone[i] of the old, come[k] of the new ones, between `first` and the ends. */
static hr_status lines_match(const lines *a, const lines *b, size_t first, size_t tail, bool *gone, bool *come,
                             hr_error *err) {
  size_t n = a->count - tail - first, m = b->count - tail - first;
  bool table = n > 0 && m > 0 && n + 1 <= CELLS / (m + 1);
  uint32_t *best = table ? hr__alloc_zero((n + 1) * (m + 1), sizeof *best) : NULL;
  if (table && !best) return hr__nomem(err);
  for (size_t i = n; table && i-- > 0;)
    for (size_t k = m; k-- > 0;) {
      uint32_t *cell = best + i * (m + 1) + k;
      uint32_t down = cell[m + 1], right = cell[1];
      *cell = same(&a->at[first + i], &b->at[first + k]) ? cell[m + 2] + 1 : down >= right ? down : right;
    }
  size_t i = 0, k = 0;
  while (i < n || k < m) {
    const uint32_t *cell = table ? best + i * (m + 1) + k : NULL;
    if (cell && i < n && k < m && same(&a->at[first + i], &b->at[first + k])) {
      i++, k++;
    } else if (i < n && (k == m || !cell || cell[m + 1] >= cell[1])) {
      gone[first + i++] = true;
    } else {
      come[first + k++] = true;
    }
  }
  hr__free(best);
  return HR_OK;
}

static void put(text_out *out, const char *text, size_t bytes) {
  memcpy(out->text + out->bytes, text, bytes);
  out->bytes += bytes;
}

static void put_text(text_out *out, const char *text) {
  put(out, text, strlen(text));
}

static void put_line(text_out *out, char sign, const line *l) {
  put(out, &sign, 1);
  put(out, l->text, l->bytes);
  if (l->text[l->bytes - 1] != '\n') put_text(out, "\n\\ No newline at end of file\n");
}

/* Lines of one hunk: old [i, i_end), new [k, k_end). An empty side is named by the line before it. */
static void put_hunk(text_out *out, const lines *a, const lines *b, const bool *gone, const bool *come, size_t i,
                     size_t i_end, size_t k, size_t k_end) {
  char head[96];
  snprintf(head, sizeof head, "@@ -%zu,%zu +%zu,%zu @@\n", i_end > i ? i + 1 : i, i_end - i, k_end > k ? k + 1 : k,
           k_end - k);
  put_text(out, head);
  while (i < i_end || k < k_end) {
    if (i < i_end && gone[i])
      put_line(out, '-', &a->at[i++]);
    else if (k < k_end && come[k])
      put_line(out, '+', &b->at[k++]);
    else
      put_line(out, ' ', &a->at[i++]), k++;
  }
}

/* Changes with at most twice the context between them go into one hunk. */
static void put_hunks(text_out *out, const lines *a, const lines *b, const bool *gone, const bool *come) {
  size_t i = 0, k = 0, begin_i = 0, begin_k = 0, quiet = 0; /* quiet: common lines since the last change */
  bool open = false;
  for (;;) {
    bool end = i == a->count && k == b->count;
    bool change = !end && ((i < a->count && gone[i]) || (k < b->count && come[k]));
    if (open && !change && (end || quiet == (size_t)2 * CONTEXT)) {
      size_t over = quiet > CONTEXT ? quiet - CONTEXT : 0;
      put_hunk(out, a, b, gone, come, begin_i, i - over, begin_k, k - over);
      open = false;
    }
    if (end) return;
    if (change && !open) {
      size_t before = quiet < CONTEXT ? quiet : CONTEXT;
      begin_i = i - before;
      begin_k = k - before;
      open = true;
    }
    quiet = change ? 0 : quiet + 1;
    if (i < a->count && gone[i])
      i++;
    else if (k < b->count && come[k])
      k++;
    else
      i++, k++;
  }
}

hr_status hr__diff(const char *from, const char *old, size_t old_bytes, const char *to, const char *new,
                   size_t new_bytes, hr_arena *arena, const char **text, size_t *bytes, hr_error *err) {
  lines a = {0}, b = {0};
  HR_TRY(lines_split(old, old_bytes, arena, &a, err));
  HR_TRY(lines_split(new, new_bytes, arena, &b, err));
  size_t least = a.count < b.count ? a.count : b.count, first = 0, tail = 0;
  while (first < least && same(&a.at[first], &b.at[first]))
    first++;
  while (tail < least - first && same(&a.at[a.count - tail - 1], &b.at[b.count - tail - 1]))
    tail++;
  bool *gone = hr__arena_array(arena, a.count + b.count + 2, sizeof *gone);
  /* Each line is written once at most, with a sign and, without line end, a remark; each may begin a hunk. */
  size_t room = old_bytes + new_bytes + (a.count + b.count) * 100 + strlen(from) + strlen(to) + 200;
  text_out out = {.text = hr__arena_alloc(arena, room)};
  if (!gone || !out.text) return hr__nomem(err);
  bool *come = gone + a.count + 1;
  HR_TRY(lines_match(&a, &b, first, tail, gone, come, err));
  if (first < a.count || first < b.count) {
    put_text(&out, "--- ");
    put_text(&out, from);
    put_text(&out, "\n+++ ");
    put_text(&out, to);
    put_text(&out, "\n");
    put_hunks(&out, &a, &b, gone, come);
  }
  *text = out.text;
  *bytes = out.bytes;
  return HR_OK;
}
