/* Planned beside measured. See table.h. */
#include "cli/figures.h"
#include "cli/table.h"

enum { NAME = 18 };

static void row(const char *name, uint64_t planned, uint64_t measured, bool compare, FILE *to) {
  char left[HR_SIZE_TEXT], right[HR_SIZE_TEXT], change[HR_SIZE_TEXT];
  fprintf(to, "  %-*s %12s", NAME, name, hr__size_text(planned, left));
  if (measured > 0) fprintf(to, " %12s", hr__size_text(measured, right));
  if (compare && measured > 0 && planned > 0)
    fprintf(to, " %10s", hr__change_text((double)planned, (double)measured, change));
  fputc('\n', to);
}

/* The categories of a tier, then its arena; what the operating system counts of it. */
static uint64_t tier_rows(const hr_plan *plan, hr_tier tier, const uint64_t resident[HR_CAT_COUNT], FILE *to) {
  const hr_tier_plan *planned = &plan->tiers[tier];
  char name[64];
  const char *prefix = tier == HR_TIER_DEVICE ? "" : hr_tier_name(tier), *blank = tier == HR_TIER_DEVICE ? "" : " ";
  uint64_t arena = 0;
  for (int c = 0; c < HR_CAT_COUNT; c++) {
    arena += resident[c];
    if (c == HR_CAT_FIXED || planned->categories[c] == 0) continue;
    snprintf(name, sizeof name, "%s%s%s", prefix, blank, hr_category_name((hr_category)c));
    row(name, planned->categories[c], resident[c], false, to);
  }
  snprintf(name, sizeof name, "%s%sarena", prefix, blank);
  if (planned->arena_bytes > 0) row(name, planned->arena_bytes, arena, true, to);
  return arena;
}

void hr__table_measured(const hr_cli *cli, const hr_job *job, const hr_measured *measured, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  const hr_tier_plan *tier = &job->plan->tiers[HR_TIER_DEVICE];
  fprintf(to, "%s  %-*s %12s %12s%s\n", style.bold, NAME, "", "planned", "measured", style.end);
  uint64_t arena = tier_rows(job->plan, HR_TIER_DEVICE, measured->resident[HR_TIER_DEVICE], to);
  uint64_t host = job->facts.kind == HR_CPU ? job->plan->tiers[HR_TIER_HOST].peak_bytes : 0; /* the same memory */
  if (job->facts.kind != HR_CPU) arena = tier->arena_bytes; /* taken at once, as a whole */
  bool known = arena > 0 && measured->process_bytes > arena + host;
  row("fixed", tier->fixed_bytes, known ? measured->process_bytes - arena - host : 0, true, to);
  for (int t = HR_TIER_HOST; t < HR_TIER_COUNT; t++)
    if (job->plan->tiers[t].peak_bytes > 0) tier_rows(job->plan, (hr_tier)t, measured->resident[t], to);
  fputs(style.bold, to);
  row("process", tier->peak_bytes + host, measured->process_bytes, true, to);
  fputs(style.end, to);
  if (measured->step_seconds > 0) {
    char left[HR_SIZE_TEXT], right[HR_SIZE_TEXT], change[HR_SIZE_TEXT];
    fprintf(to, "  %-*s %12s %12s %10s\n", NAME, "a step", hr__seconds_text(job->plan->step_seconds, left),
            hr__seconds_text(measured->step_seconds, right),
            hr__change_text(job->plan->step_seconds, measured->step_seconds, change));
    if (!job->rates.measured) fprintf(to, "  by default rates; headroom devices --measure finds this machine's own\n");
  }
}
