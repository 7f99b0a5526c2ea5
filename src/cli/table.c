/* table: see table.h. */
#include "cli/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/doc.h"
#include "format/file.h"
#include "plan/report.h"

enum { BAR = 30, CURVE = 60, LOG_CAP = 64 << 20 };

/* Whether bars may use block characters: the terminal's locale says so. */
static bool text_is_utf8(void) {
  static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *value = getenv(names[i]);
    if (value != NULL && value[0] != '\0')
      return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL || strstr(value, "UTF8") != NULL;
  }
  return false;
}

static void bar_print(double share, bool utf8, FILE *to) {
  if (share * BAR * 8 < 0.5) return;
  fputs("  ", to);
  int eighths = (int)(share * BAR * 8 + 0.5);
  static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  for (int i = 0; i < eighths / 8; i++)
    fputs(utf8 ? "█" : "#", to);
  if (utf8) fputs(parts[eighths % 8], to);
}

/* 4978944 -> "4.98 M" */
static const char *count_text(uint64_t count, char out[HR_SIZE_TEXT]) {
  double value = (double)count;
  if (count >= 1000000000)
    snprintf(out, HR_SIZE_TEXT, "%.2f B", value / 1e9);
  else if (count >= 1000000)
    snprintf(out, HR_SIZE_TEXT, "%.2f M", value / 1e6);
  else if (count >= 1000)
    snprintf(out, HR_SIZE_TEXT, "%.1f k", value / 1e3);
  else
    snprintf(out, HR_SIZE_TEXT, "%" PRIu64, count);
  return out;
}

static const char *seconds_text(double seconds, char out[HR_SIZE_TEXT]) {
  if (seconds >= 100)
    snprintf(out, HR_SIZE_TEXT, "%.0f s", seconds);
  else if (seconds >= 1)
    snprintf(out, HR_SIZE_TEXT, "%.2f s", seconds);
  else if (seconds >= 1e-3)
    snprintf(out, HR_SIZE_TEXT, "%.1f ms", seconds * 1e3);
  else
    snprintf(out, HR_SIZE_TEXT, "%.1f us", seconds * 1e6);
  return out;
}

void hr__table_head(const hr_cli *cli, const hr_job *job, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  uint64_t all, trained;
  hr__report_parameters(job->graph, &all, &trained);
  char count[HR_SIZE_TEXT];
  fprintf(to, "%s%s%s: %s, %s parameters%s, %s\n", style.bold, hr__recipe_name(job->recipe), style.end,
          hr__recipe_text(job->recipe, "model.family"), count_text(all, count),
          trained == all ? "" : " (not all trained)", hr__recipe_text(job->recipe, "model.precision"));
  fprintf(to, "a step: %" PRId64 " x %" PRId64 " tokens", job->shape.batch, job->shape.length);
  if (job->shape.accumulation > 1) fprintf(to, ", accumulated %" PRId64 " times", job->shape.accumulation);
  fprintf(to, "\n%s\n", job->facts.name);
}

/* The peak covers every phase; phases are shown where they differ. */
static void phases_print(const hr_job *job, FILE *to) {
  const hr_phases *phases = &job->plan->phases;
  uint64_t peak = job->plan->tiers[HR_TIER_DEVICE].peak_bytes;
  const struct {
    const char *name;
    uint64_t bytes;
  } rows[] = {{"load", phases->load},     {"first step", phases->first_step},
              {"steady", phases->steady}, {"eval", phases->eval},
              {"save", phases->save},     {"resume", phases->resume}};
  char text[HR_SIZE_TEXT];
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].bytes > 0 && rows[i].bytes != peak)
      fprintf(to, "    %-10s %12s\n", rows[i].name, hr__size_text(rows[i].bytes, text));
}

static void verdict_print(const hr_cli *cli, const hr_job *job, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  const hr_verdict *verdict = &job->verdict;
  char budget[HR_SIZE_TEXT], rest[HR_SIZE_TEXT], step[HR_SIZE_TEXT];
  hr__size_text(verdict->budget_bytes, budget);
  if (verdict->fits)
    fprintf(to, "%sfits%s: %s of the budget of %s stay free\n", style.green, style.end,
            hr__size_text(verdict->budget_bytes - verdict->peak_bytes, rest), budget);
  else
    fprintf(to, "%sdoes not fit%s: %s more than the budget of %s%s\n", style.red, style.end,
            hr__size_text(verdict->missing_bytes, rest), budget, verdict->margin_bytes > 0 ? " with its margin" : "");
  fprintf(to, "a step takes about %s by %s rates\n", seconds_text(job->plan->step_seconds, step),
          job->rates.measured ? "this machine's measured" : "default");
}

void hr__table_plan(const hr_cli *cli, const hr_job *job, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  const hr_tier_plan *tier = &job->plan->tiers[HR_TIER_DEVICE];
  bool utf8 = text_is_utf8();
  char text[HR_SIZE_TEXT];
  hr__table_head(cli, job, to);
  fputc('\n', to);
  for (int c = 0; c < HR_CAT_COUNT; c++) {
    if (tier->categories[c] == 0) continue;
    double share = (double)tier->categories[c] / (double)tier->peak_bytes;
    fprintf(to, "  %-12s %12s %6.1f %%", hr_category_name((hr_category)c), hr__size_text(tier->categories[c], text),
            share * 100);
    bar_print(share, utf8, to);
    fputc('\n', to);
  }
  fprintf(to, "  %s%-12s %12s%s\n", style.bold, "peak", hr__size_text(tier->peak_bytes, text), style.end);
  for (int t = HR_TIER_HOST; t < HR_TIER_COUNT; t++)
    if (job->plan->tiers[t].peak_bytes > 0)
      fprintf(to, "  %-12s %12s\n", hr_tier_name((hr_tier)t), hr__size_text(job->plan->tiers[t].peak_bytes, text));
  phases_print(job, to);
  fputc('\n', to);
  verdict_print(cli, job, to);
}

static void measured_row(const char *name, uint64_t planned, uint64_t measured, bool compare, FILE *to) {
  char left[HR_SIZE_TEXT], right[HR_SIZE_TEXT];
  fprintf(to, "  %-14s %12s", name, hr__size_text(planned, left));
  if (measured > 0) fprintf(to, " %12s", hr__size_text(measured, right));
  if (compare && measured > 0 && planned > 0)
    fprintf(to, "  %+6.2f %%", 100.0 * ((double)measured - (double)planned) / (double)planned);
  fputc('\n', to);
}

void hr__table_measured(const hr_cli *cli, const hr_job *job, const hr_measured *measured, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  const hr_tier_plan *tier = &job->plan->tiers[HR_TIER_DEVICE];
  fprintf(to, "%s  %-14s %12s %12s%s\n", style.bold, "", "planned", "measured", style.end);
  for (int c = 0; c < HR_CAT_COUNT; c++) {
    if (c == HR_CAT_FIXED || tier->categories[c] == 0) continue;
    measured_row(hr_category_name((hr_category)c), tier->categories[c], measured->categories[c], false, to);
  }
  measured_row("arena", tier->arena_bytes, measured->arena_bytes, true, to);
  uint64_t fixed =
      measured->process_bytes > measured->arena_bytes ? measured->process_bytes - measured->arena_bytes : 0;
  measured_row("fixed", tier->fixed_bytes, fixed, true, to);
  fputs(style.bold, to);
  measured_row("process", tier->peak_bytes, measured->process_bytes, true, to);
  fputs(style.end, to);
  if (measured->step_seconds > 0) {
    char left[HR_SIZE_TEXT], right[HR_SIZE_TEXT];
    fprintf(to, "  %-14s %12s %12s  %+6.2f %%\n", "a step", seconds_text(job->plan->step_seconds, left),
            seconds_text(measured->step_seconds, right),
            100.0 * (measured->step_seconds - job->plan->step_seconds) / job->plan->step_seconds);
  }
}

/* Reads the losses of a log. A line that cannot be read ends it: the log is ours, but the disk is not. */
static size_t losses_read(char *text, hr_arena *arena, double *losses, size_t capacity) {
  size_t count = 0;
  for (char *line = strtok(text, "\n"); line != NULL && count < capacity; line = strtok(NULL, "\n")) {
    hr_doc_node *node = NULL;
    double loss;
    if (hr__json_parse("log.jsonl", line, strlen(line), arena, &node, NULL) != HR_OK) break;
    const hr_doc_node *value = hr__doc_get(node, "loss");
    if (value != NULL && hr__doc_float(value, &loss) && isfinite(loss)) losses[count++] = loss;
  }
  return count;
}

static void curve_print(const double *losses, size_t count, FILE *to) {
  static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static const char steps[] = "_.-~=+*#";
  bool utf8 = text_is_utf8();
  double least = losses[0], most = losses[0];
  for (size_t i = 1; i < count; i++) {
    least = losses[i] < least ? losses[i] : least;
    most = losses[i] > most ? losses[i] : most;
  }
  size_t columns = count < CURVE ? count : CURVE;
  fputs("  ", to);
  for (size_t c = 0; c < columns; c++) {
    size_t first = c * count / columns, end = (c + 1) * count / columns;
    double sum = 0;
    for (size_t i = first; i < end; i++)
      sum += losses[i];
    double share = most > least ? (sum / (double)(end - first) - least) / (most - least) : 0;
    int level = (int)(share * 7.999);
    if (utf8)
      fputs(blocks[level], to);
    else
      fputc(steps[level], to);
  }
  fputc('\n', to);
}

void hr__table_losses(const hr_cli *cli, const char *folder, FILE *to) {
  (void)cli;
  hr_arena arena;
  hr__arena_init(&arena);
  char *text = NULL;
  size_t bytes = 0;
  const char *path = hr__arena_format(&arena, "%s/log.jsonl", folder);
  if (path != NULL && hr__file_read(path, LOG_CAP, &arena, &text, &bytes, NULL) == HR_OK) {
    size_t capacity = bytes / 8 + 1; /* no line with a loss is shorter */
    double *losses = hr__arena_array(&arena, capacity, sizeof *losses);
    size_t count = losses != NULL ? losses_read(text, &arena, losses, capacity) : 0;
    if (count > 1) {
      fprintf(to, "\n  loss %.4f -> %.4f\n", losses[0], losses[count - 1]);
      curve_print(losses, count, to);
    }
  }
  hr__arena_fini(&arena);
}
