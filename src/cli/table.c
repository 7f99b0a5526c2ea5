/* table: see table.h. */
#include "cli/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dev/gpus.h"
#include "plan/report.h"

enum { BAR = 30, COLUMNS = 80, KEPT = 20 }; /* KEPT: columns of " 12 x selective,", and some */

bool hr__table_utf8(void) {
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

/* What is to be known of a GPU that is not here. */
static void absent_print(const hr_facts *facts, FILE *to) {
  char memory[HR_SIZE_TEXT], margin[HR_SIZE_TEXT];
  fprintf(to, "not here: facts and rates are the catalogue's; %s usable,\n",
          hr__size_text(facts->memory_bytes, memory));
  fprintf(to, "fixed costs with a margin of %s\n", hr__size_text(facts->margin_bytes, margin));
  if (facts->capability >= HR_GPU_CAPABILITY) return;
  fprintf(to, "remark: its compute capability is %d.%d, and headroom runs from %d.%d on: this is a\n",
          facts->capability / 10, facts->capability % 10, HR_GPU_CAPABILITY / 10, HR_GPU_CAPABILITY % 10);
  fprintf(to, "plan only; bf16 has no matrix units there and is counted at the rate of f32\n");
}

void hr__table_head(const hr_cli *cli, const hr_job *job, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  uint64_t all, trained;
  hr__report_parameters(job->graph, &all, &trained);
  char count[HR_SIZE_TEXT], part[HR_SIZE_TEXT + 16] = "";
  if (trained != all) snprintf(part, sizeof part, " (%s trained)", count_text(trained, count));
  fprintf(to, "%s%s%s: %s, %s parameters%s, %s\n", style.bold, hr__recipe_name(job->recipe), style.end,
          hr__recipe_text(job->recipe, "model.family"), count_text(all, count), part,
          hr__recipe_text(job->recipe, "model.precision"));
  fprintf(to, "a step: %" PRId64 " x %" PRId64 " tokens", job->shape.batch, job->shape.length);
  if (job->shape.accumulation > 1) fprintf(to, ", accumulated %" PRId64 " times", job->shape.accumulation);
  if (job->shape.n_schedule > 1) fprintf(to, " at first");
  fprintf(to, "\n%s\n", job->facts.name);
  if (job->facts.absent) absent_print(&job->facts, to);
}

static void verdict_print(const hr_cli *cli, const hr_job *job, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  const hr_verdict *verdict = &job->verdict;
  char budget[HR_SIZE_TEXT], rest[HR_SIZE_TEXT], step[HR_SIZE_TEXT];
  bool device = verdict->tier == HR_TIER_DEVICE;
  hr__size_text(device ? verdict->budget_bytes : verdict->below_bytes[verdict->tier], budget);
  if (verdict->fits)
    fprintf(to, "%sfits%s: %s of the budget of %s stay free\n", style.green, style.end,
            hr__size_text(verdict->budget_bytes - verdict->peak_bytes, rest), budget);
  else
    fprintf(to, "%sdoes not fit%s the %s: %s more than the budget of %s%s\n", style.red, style.end,
            hr_tier_name(verdict->tier), hr__size_text(verdict->missing_bytes, rest), budget,
            device && verdict->margin_bytes > 0 ? " with its margin" : "");
  fprintf(to, "a step takes about %s by %s rates\n", seconds_text(job->plan->step_seconds, step),
          job->rates.measured                                           ? "this machine's measured"
          : job->facts.kind == HR_CUDA && hr__gpu_find(job->facts.name) ? "the catalogue's"
                                                                        : "default");
}

/* What `auto` settings came to; of blocks, equal neighbours together. */
static void choices_print(const hr_chosen *chosen, FILE *to) {
  const hr_choices *choices = &chosen->choices;
  char text[HR_SIZE_TEXT];
  int column = 0;
  for (size_t i = 0, end; choices->keep && i < choices->n_keep; i = end) {
    for (end = i; end < choices->n_keep && choices->keep[end] == choices->keep[i];)
      end++;
    if (i == 0) column = fprintf(to, "kept of the blocks, in order:");
    if (column + KEPT > COLUMNS) {
      fputc('\n', to);
      column = fprintf(to, " ");
    }
    column += fprintf(to, " %zu x %s%s", end - i, hr__keep_name(choices->keep[i]), end < choices->n_keep ? "," : "");
    if (end == choices->n_keep) fputc('\n', to);
  }
  if (chosen->split && choices->slices > 1) fprintf(to, "blocks in %" PRId64 " slices of the batch\n", choices->slices);
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    if (chosen->open[k] && choices->offload[k].resident_bytes != UINT64_MAX)
      fprintf(to, "%s on the device: %s, the rest on %s\n", hr__offload_name((hr_offload_kind)k),
              hr__size_text(choices->offload[k].resident_bytes, text), hr_tier_name(choices->offload[k].tier));
}

void hr__table_plan(const hr_cli *cli, const hr_job *job, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  const hr_tier_plan *tier = &job->plan->tiers[HR_TIER_DEVICE];
  bool utf8 = hr__table_utf8();
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
  for (int t = HR_TIER_HOST; t < HR_TIER_COUNT; t++) {
    if (job->plan->tiers[t].peak_bytes == 0) continue;
    fprintf(to, "  on the %-5s %12s", hr_tier_name((hr_tier)t), hr__size_text(job->plan->tiers[t].peak_bytes, text));
    fprintf(to, "  of a budget of %s\n", hr__size_text(job->verdict.below_bytes[t], text));
  }
  fputc('\n', to);
  verdict_print(cli, job, to);
  choices_print(&job->chosen, to);
}

static const char *signed_text(char sign, const char *text, char out[HR_SIZE_TEXT + 1]) {
  snprintf(out, HR_SIZE_TEXT + 1, "%s%s", sign == '-' ? "-" : "", text);
  return out;
}

void hr__table_techniques(const hr_cli *cli, const hr_technique *techniques, int count, FILE *to) {
  if (count == 0) return;
  hr_style style = hr__cli_style(cli, to);
  fprintf(to, "\n%s  %-28s %12s %14s%s\n", style.bold, "against the same without", "saves", "costs a step", style.end);
  for (int i = 0; i < count; i++) {
    const hr_technique *t = &techniques[i];
    char saves[HR_SIZE_TEXT], costs[HR_SIZE_TEXT], left[HR_SIZE_TEXT + 1], right[HR_SIZE_TEXT + 1];
    if (!t->known) {
      fprintf(to, "  %-28s %12s %14s\n", t->name, "-", "-");
      continue;
    }
    hr__size_text((uint64_t)(t->saves_bytes < 0 ? -t->saves_bytes : t->saves_bytes), saves);
    seconds_text(fabs(t->costs_seconds), costs);
    fprintf(to, "  %-28s %12s %14s\n", t->name, signed_text(t->saves_bytes < 0 ? '-' : '+', saves, left),
            signed_text(t->costs_seconds < 0 ? '-' : '+', costs, right));
  }
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
  uint64_t arena = 0; /* as the operating system counts it; 0: the device does not tell */
  for (int c = 0; c < HR_CAT_COUNT; c++)
    arena += measured->categories[c];
  measured_row("arena", tier->arena_bytes, arena, true, to);
  uint64_t host = job->facts.kind == HR_CPU ? job->plan->tiers[HR_TIER_HOST].peak_bytes : 0; /* the same memory */
  if (job->facts.kind != HR_CPU) arena = tier->arena_bytes; /* taken at once, as a whole */
  bool known = arena > 0 && measured->process_bytes > arena + host;
  measured_row("fixed", tier->fixed_bytes, known ? measured->process_bytes - arena - host : 0, true, to);
  for (int t = HR_TIER_HOST; t < HR_TIER_COUNT; t++) {
    char name[32];
    snprintf(name, sizeof name, "on the %s", hr_tier_name((hr_tier)t));
    if (job->plan->tiers[t].peak_bytes > 0) measured_row(name, job->plan->tiers[t].peak_bytes, 0, false, to);
  }
  fputs(style.bold, to);
  measured_row("process", tier->peak_bytes + host, measured->process_bytes, true, to);
  fputs(style.end, to);
  if (measured->step_seconds > 0) {
    char left[HR_SIZE_TEXT], right[HR_SIZE_TEXT];
    fprintf(to, "  %-14s %12s %12s  %+6.2f %%\n", "a step", seconds_text(job->plan->step_seconds, left),
            seconds_text(measured->step_seconds, right),
            100.0 * (measured->step_seconds - job->plan->step_seconds) / job->plan->step_seconds);
  }
}
