/* What stands below the plan's table: who owns the peak, what techniques save and cost, and the ladder. See table.h. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/figures.h"
#include "cli/fit.h"
#include "cli/table.h"

enum {
  MODULES = 8,
  NAME = 24,
  CELL = 8,
  SETTINGS = 38
}; /* rows shown; columns of names and sizes, before a rung's settings */

/* Three digits are enough here, and leave room for all columns. */
static void cell_print(uint64_t bytes, FILE *to) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = (double)bytes;
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
    value /= 1024;
  char text[HR_SIZE_TEXT] = "-";
  int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  if (bytes > 0) snprintf(text, sizeof text, "%.*f %s", unit == 0 ? 0 : decimals, value, units[unit]);
  fprintf(to, " %*s", CELL, text);
}

/* The end of a name says more than its beginning. */
static void name_print(const char *name, FILE *to) {
  const char *end = name;
  while (strlen(end) > NAME && strchr(end, '.') != NULL)
    end = strchr(end, '.') + 1;
  fprintf(to, "  %-*.*s", NAME, NAME, end);
}

static void owner_print(const hr_module_owner *owner, FILE *to) {
  static const hr_category columns[] = {HR_CAT_PARAMETERS, HR_CAT_GRADIENTS, HR_CAT_OPTIMIZER, HR_CAT_ACTIVATIONS};
  uint64_t other = owner->bytes;
  name_print(owner->name, to);
  cell_print(owner->bytes, to);
  for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
    cell_print(owner->categories[columns[i]], to);
    other -= owner->categories[columns[i]];
  }
  cell_print(other, to); /* workspace, staging, inputs; gaps and fixed costs */
  fputc('\n', to);
}

void hr__table_owners(const hr_cli *cli, const hr_tier_plan *tier, const hr_module_owner *owners, size_t count,
                      FILE *to) {
  static const char *const heads[] = {"all", "weights", "gradient", "optimiz.", "activat.", "other"};
  hr_style style = hr__cli_style(cli, to);
  fprintf(to, "\n%s  %-*s", style.bold, NAME, "who owns the peak");
  for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
    fprintf(to, " %*s", CELL, heads[i]);
  fprintf(to, "%s\n", style.end);
  uint64_t rest = tier->peak_bytes;
  for (size_t i = 0; i < count && i < MODULES && owners[i].bytes > tier->peak_bytes / 1000; i++) {
    owner_print(&owners[i], to);
    rest -= owners[i].bytes;
  }
  if (rest == 0) return;
  name_print("others", to);
  cell_print(rest, to);
  fputc('\n', to);
}

static const char *signed_seconds(double seconds, char out[HR_SIZE_TEXT]) {
  char text[HR_SIZE_TEXT];
  hr__seconds_text(fabs(seconds), text);
  snprintf(out, HR_SIZE_TEXT, "%s%.*s", seconds < 0 ? "-" : "", HR_SIZE_TEXT - 2, text);
  return out;
}

/* Not so where a setting is `auto` and was not needed. */
static bool technique_tells(const hr_technique *technique) {
  bool known = technique->bytes_known && technique->seconds_known;
  return !known || technique->saves_bytes != 0 || technique->costs_seconds != 0;
}

void hr__table_techniques(const hr_cli *cli, const hr_technique *techniques, int count, FILE *to) {
  int shown = 0;
  for (int i = 0; i < count; i++)
    shown += technique_tells(&techniques[i]);
  if (shown == 0) return;
  hr_style style = hr__cli_style(cli, to);
  fprintf(to, "\n%s  %-28s %12s %14s%s\n", style.bold, "against the same without", "saves", "costs a step", style.end);
  for (int i = 0; i < count; i++) {
    const hr_technique *t = &techniques[i];
    if (!technique_tells(t)) continue;
    char saves[HR_SIZE_TEXT], costs[HR_SIZE_TEXT];
    fprintf(to, "  %-28s %12s %14s\n", t->name, t->bytes_known ? hr__difference_text(t->saves_bytes, saves) : "-",
            t->seconds_known ? signed_seconds(t->costs_seconds, costs) : "-");
  }
}

static void rung_print(const char *name, const hr_rung *rung, FILE *to) {
  char peak[HR_SIZE_TEXT], step[HR_SIZE_TEXT];
  if (rung->n_overrides == 0) return;
  fprintf(to, "  %-8s %12s %12s  ", name, hr__size_text(rung->planned.peak_bytes[HR_TIER_DEVICE], peak),
          hr__seconds_text(rung->planned.step_seconds, step));
  for (size_t o = 0; o < rung->n_overrides; o++)
    hr__fit_set(o == 0 ? 0 : SETTINGS, rung->overrides[o], to);
  if (!rung->planned.fits) fprintf(to, "%*sis over the budget\n", SETTINGS, "");
  if (rung->changes_results) fprintf(to, "%*schanges the result\n", SETTINGS, "");
}

void hr__table_ladder(const hr_cli *cli, const hr_job *job, const hr_ladder *ladder, FILE *to) {
  if (ladder->cheaper.n_overrides == 0 && ladder->faster.n_overrides == 0 && ladder->other.n_overrides == 0) return;
  hr_style style = hr__cli_style(cli, to);
  char peak[HR_SIZE_TEXT], step[HR_SIZE_TEXT];
  fprintf(to, "\n%s  %-8s %12s %12s  with%s\n", style.bold, "ladder", "peak", "a step", style.end);
  rung_print("cheaper", &ladder->cheaper, to);
  fprintf(to, "  %-8s %12s %12s\n", "this", hr__size_text(job->verdict.peak_bytes, peak),
          hr__seconds_text(job->plan->step_seconds, step));
  rung_print("faster", &ladder->faster, to);
  rung_print("other", &ladder->other, to);
}
