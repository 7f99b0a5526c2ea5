/* The end table's curve of losses, from a log of any length in one pass and fixed memory. */
#include <math.h>

#include "cli/figures.h"
#include "cli/table.h"
#include "train/history.h"
#include "watch/curve.h"

enum { COLUMNS = 60 };

static void log_read(hr_curve *c, const char *path) {
  hr_history *history;
  hr_record record;
  bool there;
  if (hr__history_open(path, &history, NULL) != HR_OK) return;
  while (hr__history_next(history, &record, &there, NULL) == HR_OK && there)
    if (record.kind == HR_RECORD_STEP && isfinite(record.loss)) hr__curve_add(c, record.loss);
  hr__history_close(history);
}

void hr__table_losses(const char *folder, FILE *to) {
  hr_arena arena = {0};
  hr_curve c = {.columns = 0};
  char bars[3 * COLUMNS + 1];
  const char *path = hr__arena_format(&arena, "%s/log.jsonl", folder);
  if (path != NULL) log_read(&c, path);
  if (c.columns > 1)
    fprintf(to, "\n  loss %.4f -> %.4f\n  %s\n", c.first, c.last, hr__curve_text(&c, COLUMNS, hr__utf8(), bars));
  hr__arena_fini(&arena);
}
