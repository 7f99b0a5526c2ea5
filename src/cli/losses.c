/* The end table's curve of losses, from a log of any length in one pass and fixed memory: at most COLUMNS means over
 * `width` lines each; when they are full, neighbours are joined and the width doubles. */
#include <math.h>

#include "cli/figures.h"
#include "cli/table.h"
#include "train/history.h"

enum { COLUMNS = 60 };

typedef struct curve {
  double sum[COLUMNS];
  size_t columns;     /* in use; the last may be part full */
  size_t width;       /* lines of a full column */
  size_t in_last;     /* lines of the last column */
  double first, last; /* loss */
} curve;

static void curve_add(curve *c, double loss) {
  if (c->columns == 0) {
    c->first = loss;
    c->width = c->in_last = 1; /* as if a column before the first were full */
  }
  c->last = loss;
  if (c->in_last == c->width) {
    if (c->columns == COLUMNS) {
      for (size_t i = 0; i < COLUMNS / 2; i++)
        c->sum[i] = c->sum[2 * i] + c->sum[2 * i + 1];
      c->columns = COLUMNS / 2;
      c->width *= 2;
    }
    c->sum[c->columns++] = 0;
    c->in_last = 0;
  }
  c->sum[c->columns - 1] += loss;
  c->in_last++;
}

static void log_read(curve *c, const char *path) {
  hr_history *history;
  hr_record record;
  bool there;
  if (hr__history_open(path, &history, NULL) != HR_OK) return;
  while (hr__history_next(history, &record, &there, NULL) == HR_OK && there)
    if (record.kind == HR_RECORD_STEP && isfinite(record.loss)) curve_add(c, record.loss);
  hr__history_close(history);
}

static void curve_print(curve *c, FILE *to) {
  static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static const char steps[] = "_.-~=+*#";
  bool utf8 = hr__utf8();
  double least = INFINITY, most = -INFINITY;
  for (size_t i = 0; i < c->columns; i++) {
    c->sum[i] /= (double)(i + 1 < c->columns ? c->width : c->in_last);
    least = c->sum[i] < least ? c->sum[i] : least;
    most = c->sum[i] > most ? c->sum[i] : most;
  }
  fprintf(to, "\n  loss %.4f -> %.4f\n  ", c->first, c->last);
  for (size_t i = 0; i < c->columns; i++) {
    int level = most > least ? (int)((c->sum[i] - least) / (most - least) * 7.999) : 0;
    if (utf8)
      fputs(blocks[level], to);
    else
      fputc(steps[level], to);
  }
  fputc('\n', to);
}

void hr__table_losses(const char *folder, FILE *to) {
  hr_arena arena = {0};
  curve c = {.columns = 0};
  const char *path = hr__arena_format(&arena, "%s/log.jsonl", folder);
  if (path != NULL) log_read(&c, path);
  if (c.columns > 1) curve_print(&c, to);
  hr__arena_fini(&arena);
}
