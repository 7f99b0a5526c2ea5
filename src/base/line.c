/* See line.h. */
#include "base/line.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

static const double interval = 0.1; /* seconds between drawings */
enum {
  INDENT = 2,  /* blanks in front: see line.h */
  GAP = 2,     /* blanks between parts */
  COLUMNS = 80 /* where a terminal does not say */
};
/* Columns of the bar, its brackets included. It grows by units, not with every digit beside it. */
enum { BAR_LEAST = 8, BAR_MOST = 40, BAR_UNIT = 4 };
enum { PARTS_MOST = 16, LINE_BYTES = 1024 };

int hr__terminal_columns(FILE *to) {
  struct winsize size;
  if (!to || ioctl(fileno(to), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return COLUMNS;
  return size.ws_col;
}

const char *hr__clock_text(double seconds, char out[HR_CLOCK_TEXT]) {
  int64_t s = !(seconds > 0) ? 0 : seconds > 3.6e8 ? 360000000 : (int64_t)(seconds + 0.5);
  if (s >= 3600)
    snprintf(out, HR_CLOCK_TEXT, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
  else
    snprintf(out, HR_CLOCK_TEXT, "%d:%02d", (int)(s / 60), (int)(s % 60));
  return out;
}

void hr__line_begin(hr_line *line, FILE *to) {
  const char *term = getenv("TERM");
  *line = (hr_line){0};
  if (to && isatty(fileno(to)) && term && strcmp(term, "dumb") != 0) line->to = to;
}

bool hr__line_due(const hr_line *line) {
  return line->to && hr__seconds_now() - line->last >= interval;
}

/* Which parts stand in `room` columns: in falling order of worth, as long as there is room. Returns what is left. */
static int parts_choose(const hr_line_part *parts, size_t count, int room, bool chosen[PARTS_MOST]) {
  bool seen[PARTS_MOST] = {0};
  int used = 0;
  for (size_t round = 0; round < count; round++) {
    size_t best = count;
    for (size_t i = 0; i < count; i++)
      if (!seen[i] && (best == count || parts[i].worth > parts[best].worth)) best = i;
    seen[best] = true;
    if (!parts[best].text || !*parts[best].text) continue;
    int width = (int)hr__text_columns(parts[best].text) + (used > 0 ? GAP : 0);
    chosen[best] = used + width <= room;
    if (chosen[best]) used += width;
  }
  return room - used;
}

typedef struct buffer {
  char text[LINE_BYTES];
  size_t used;
} buffer;

static void put(buffer *b, const char *text, size_t bytes) {
  if (bytes > sizeof b->text - b->used) return;
  memcpy(b->text + b->used, text, bytes);
  b->used += bytes;
}

static int bar_columns(double share, int room) {
  if (!(share >= 0) || room < BAR_LEAST) return 0;
  return room < BAR_MOST ? room - room % BAR_UNIT : BAR_MOST;
}

static void bar_put(buffer *b, double share, int columns) {
  int inner = columns - 2, full = (int)(share * inner);
  put(b, "[", 1);
  for (int i = 0; i < inner; i++)
    put(b, i < full ? "#" : ".", 1);
  put(b, "]", 1);
}

void hr__line_draw(hr_line *line, double share, const hr_line_part *parts, size_t count) {
  if (!line->to) return;
  bool chosen[PARTS_MOST] = {0};
  if (count > PARTS_MOST) count = PARTS_MOST;
  int left = parts_choose(parts, count, hr__terminal_columns(line->to) - INDENT - 1, chosen);
  int bar = bar_columns(share, left - GAP);
  buffer b = {.used = 0};
  put(&b, "\r\x1b[?7l", 6); /* no wrapping: the window may have become narrower before this arrives there */
  const char *gap = "  ";   /* the indent, then what stands between parts */
  if (bar > 0) {
    put(&b, gap, GAP);
    bar_put(&b, share > 1 ? 1 : share, bar);
  }
  for (size_t i = 0; i < count; i++) {
    if (!chosen[i]) continue;
    put(&b, gap, GAP);
    put(&b, parts[i].text, strlen(parts[i].text));
  }
  put(&b, "\x1b[J\x1b[?7h\r", 9);
  fwrite(b.text, 1, b.used, line->to);
  fflush(line->to);
  line->last = hr__seconds_now();
  line->drawn = true;
}

void hr__line_clear(hr_line *line) {
  if (!line->drawn) return;
  fputs("\r\x1b[J", line->to);
  fflush(line->to);
  line->drawn = false;
}
