/* The plan's own table: what is read first. See table.h. */
#include "cli/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/figures.h"
#include "dev/gpus.h"
#include "job/answer.h"
#include "model/generation.h"
#include "pass/adapters.h"
#include "plan/report.h"

enum { COLUMNS = 80, KEPT = 20, LABEL = 14 }; /* KEPT: columns of " 12 x selective,", and some */

/* What is to be known of a GPU that is not here, behind `indent` blanks. */
static void absent_print(const hr_job *job, int indent, FILE *to) {
  const hr_facts *facts = &job->facts;
  char memory[HR_SIZE_TEXT], margin[HR_SIZE_TEXT];
  fprintf(to, "%*snot here: facts and rates are the catalogue's; %s usable,\n", indent, "",
          hr__size_text(facts->memory_bytes, memory));
  if (job->torch)
    fprintf(to, "%*scontext and libraries by what they take of an H200", indent, "");
  else
    fprintf(to, "%*sfixed costs with %s to spare", indent, "", hr__size_text(facts->margin_bytes, margin));
  const char *share = job->torch ? "3" : "2";
  if (job->verdict.margin_default)
    fprintf(to, ";%s%*s%s %% stay free (--margin)", job->torch ? "\n" : "", job->torch ? indent : 1, "", share);
  fputc('\n', to);
  if (job->torch) return;
  if (facts->capability >= HR_GPU_CAPABILITY) return;
  fprintf(to, "remark: its compute capability is %d.%d, and headroom runs from %d.%d on: this is a\n",
          facts->capability / 10, facts->capability % 10, HR_GPU_CAPABILITY / 10, HR_GPU_CAPABILITY % 10);
  fprintf(to, "plan only; bf16 has no matrix units there and is counted at the rate of f32\n");
}

/* Names of files are anybody's text. */
static const char *name_text(const hr_job *job, char out[256]) {
  const char *name = hr__recipe_name(job->recipe);
  hr__text_escape(name, strlen(name), out, 256);
  return out;
}

static void model_print(const hr_job *job, FILE *to) {
  uint64_t all, trained;
  hr__report_parameters(job->graph, &all, &trained);
  char count[HR_SIZE_TEXT], part[HR_SIZE_TEXT];
  fprintf(to, "%s, %s parameters", hr__recipe_text(job->recipe, "model.family"), hr__count_text(all, count));
  if (trained != all) fprintf(to, " (%s trained)", hr__count_text(trained, part));
}

static void batch_print(const hr_job *job, FILE *to) {
  if (hr__model_vocabulary(job->recipe) > 0)
    fprintf(to, "%" PRId64 " x %" PRId64 " tokens", job->shape.batch, job->shape.length);
  else
    fprintf(to, "%" PRId64 " sample%s", job->shape.batch, job->shape.batch == 1 ? "" : "s");
  if (job->shape.accumulation > 1) fprintf(to, ", accumulated %" PRId64 " times", job->shape.accumulation);
  if (job->shape.n_schedule > 1) fprintf(to, " at first");
}

void hr__table_head(const hr_cli *cli, const hr_job *job, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  char name[256];
  fprintf(to, "%s%s%s: ", style.bold, name_text(job, name), style.end);
  model_print(job, to);
  fprintf(to, ", %s\na step: ", hr__recipe_text(job->recipe, "model.precision"));
  batch_print(job, to);
  fprintf(to, "\n%s\n", job->facts.name);
  if (job->facts.absent) absent_print(job, 0, to);
}

/* --- verdict ------------------------------------------------------------------------------------------------------ */

static void fits_print(const hr_verdict *verdict, const hr_style *style, FILE *to) {
  char peak[HR_SIZE_TEXT], budget[HR_SIZE_TEXT], rest[HR_SIZE_TEXT];
  uint64_t left = (uint64_t)hr__verdict_left(verdict);
  fprintf(to, "%s%sfits%s: %s of %s, %s left (%.1f %%)", style->bold, style->green, style->end,
          hr__size_text(verdict->peak_bytes, peak), hr__size_text(verdict->budget_bytes, budget),
          hr__size_text(left, rest), 100 * (double)left / (double)verdict->budget_bytes);
  if (verdict->margin_bytes > 0) fprintf(to, ", margin %s", hr__size_text(verdict->margin_bytes, rest));
  fputc('\n', to);
}

/* What is too large, of what it is made, and what is cheapest to change. */
static void no_fit_print(const hr_job *job, const hr_change *change, const hr_style *style, FILE *to) {
  const hr_job *over = hr__job_over(job);
  const hr_verdict *verdict = &over->verdict;
  char peak[HR_SIZE_TEXT], budget[HR_SIZE_TEXT], missing[HR_SIZE_TEXT], text[HR_SIZE_TEXT];
  bool device = verdict->tier == HR_TIER_DEVICE;
  fprintf(to, "%s%sdoes not fit%s the %s: needs %s, %s more than its %s%s\n", style->bold, style->red, style->end,
          hr_tier_name(verdict->tier), hr__size_text(hr__verdict_needs(verdict, over->plan), peak),
          hr__size_text(verdict->missing_bytes, missing),
          hr__size_text(device ? verdict->budget_bytes : verdict->below_bytes[verdict->tier], budget),
          device && verdict->margin_bytes > 0 ? " with margin" : "");
  if (verdict->preparing) {
    fprintf(to, "  why: the tokenizer, while it is read\n");
    return;
  }
  fputs("  why: ", to);
  for (int i = 0; i < verdict->n_categories; i++)
    fprintf(to, "%s%s %s", i > 0 ? ", " : "", verdict->categories[i].name,
            hr__size_text(verdict->categories[i].bytes, text));
  fputs(over != job ? ", to make features before training\n" : "\n", to);
  if (!change) return;
  fprintf(to, "  cheapest to change (%s, %s a step%s):\n",
          hr__size_text(change->planned.peak_bytes[HR_TIER_DEVICE], peak),
          hr__seconds_text(change->planned.step_seconds, text),
          change->changes_results ? "; changes the result" : "; same result");
  for (int o = 0; o < change->n_overrides; o++)
    fprintf(to, "    --set %s\n", change->override[o]);
}

void hr__table_speed(double tokens, double samples, FILE *to) {
  char text[HR_SIZE_TEXT];
  if (tokens > 0) fprintf(to, "%s tokens/s, ", hr__rate_text(tokens, text));
  fprintf(to, "%s samples/s", hr__rate_text(samples, text));
}

static void verdict_print(const hr_cli *cli, const hr_job *job, const hr_change *change, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  if (job->verdict.fits)
    fits_print(&job->verdict, &style, to);
  else
    no_fit_print(job, change, &style, to);
  char step[HR_SIZE_TEXT];
  if (hr__generation_alone(job->recipe)) {
    fprintf(to, "a token: %s, ", hr__seconds_text(job->plan->step_seconds, step));
    fprintf(to, "%s tokens/s", hr__rate_text(hr__answer_tokens_per_second(job), step));
  } else {
    fprintf(to, "a step: %s, ", hr__seconds_text(job->plan->step_seconds, step));
    hr__table_speed(hr__answer_tokens_per_second(job), hr__answer_samples_per_second(job), to);
  }
  fprintf(to, ", %s %s rates\n", job->torch ? "about, by" : "by", hr__answer_rates(job));
  if (job->torch) hr__table_torch(job, to);
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

static const char *word_of(const hr_recipe *recipe, const char *path) {
  if (!hr__recipe_has(recipe, path)) return NULL;
  return hr__recipe_tree(recipe, path) ? "by block" : hr__recipe_text(recipe, path);
}

/* Memory settings that are not at their plain value, and checkpointing in any case. Of `auto` the choices tell. */
static void memory_print(const hr_recipe *recipe, FILE *to) {
  int column = fprintf(to, "  %-*s", LABEL, "memory"), items = 0;
  for (int i = 0; i < HR_TECHNIQUE_KEYS; i++) {
    const hr_technique_key *technique = &hr_technique_keys[i];
    const char *word = word_of(recipe, technique->path);
    bool always = strcmp(technique->path, "memory.checkpoint") == 0;
    if (!technique->shown || !word) continue;
    if (!always && (strcmp(word, technique->plain) == 0 || strcmp(word, "auto") == 0)) continue;
    int width = (int)(strlen(technique->shown) + strlen(word)) + 3;
    if (items++ > 0) column += fprintf(to, ",");
    if (column + width > COLUMNS) {
      fputc('\n', to);
      column = fprintf(to, "  %-*s", LABEL - 1, "");
    }
    column += fprintf(to, "%s%s %s", items > 1 ? " " : "", technique->shown, word);
  }
  fputc('\n', to);
}

static void adapters_print(const hr_recipe *recipe, FILE *to) {
  hr_model_parts parts;
  bool any = false;
  hr__parts_read(recipe, &parts);
  for (size_t p = 0; p < parts.count; p++) {
    const hr_model_part *part = &parts.part[p];
    if (!hr__lora_given(part)) continue;
    fprintf(to, "  %-*s%s%slora, rank %" PRId64, LABEL, any ? "" : "adapters", part->name, *part->name ? ": " : "",
            hr__lora_read(part).rank);
    if (hr__scope_given(&part->scope, "quantize")) fprintf(to, " on weights in nf4");
    fputc('\n', to);
    any = true;
  }
}

static void optimizer_print(const hr_recipe *recipe, FILE *to) {
  const char *state = word_of(recipe, "training.optimizer.state");
  fprintf(to, "  %-*s%s", LABEL, "optimizer", hr__recipe_text(recipe, "training.optimizer.kind"));
  if (state && strcmp(state, "f32") != 0) fprintf(to, ", moments in %s", state);
  fputc('\n', to);
}

/* What `auto` settings came to; of blocks, equal neighbours together. */
static void choices_print(const hr_chosen *chosen, FILE *to) {
  const hr_choices *choices = &chosen->choices;
  char text[HR_SIZE_TEXT];
  int column = 0;
  for (size_t i = 0, end; choices->keep && i < choices->n_keep; i = end) {
    for (end = i; end < choices->n_keep && choices->keep[end] == choices->keep[i];)
      end++;
    if (i == 0) column = fprintf(to, "  %-*skept of the blocks, in order:", LABEL, "");
    if (column + KEPT > COLUMNS) {
      fputc('\n', to);
      column = fprintf(to, "  %-*s", LABEL - 1, "");
    }
    column += fprintf(to, " %zu x %s%s", end - i, hr__keep_name(choices->keep[i]), end < choices->n_keep ? "," : "");
    if (end == choices->n_keep) fputc('\n', to);
  }
  if (chosen->split && choices->slices > 1)
    fprintf(to, "  %-*sblocks in %" PRId64 " slices\n", LABEL, "", choices->slices);
  if (choices->update_on_host) fprintf(to, "  %-*sparameters are updated on the host\n", LABEL, "");
  for (int k = 0; k < HR_OFFLOAD_KINDS; k++)
    if (hr__chosen_divides(chosen, (hr_offload_kind)k)) {
      uint64_t stays = choices->offload[k].resident_bytes, host = choices->offload[k].host_bytes;
      fprintf(to, "  %-*s%s on ", LABEL, "", hr__offload_name((hr_offload_kind)k));
      if (stays > 0) fprintf(to, "the device: %s, ", hr__size_text(stays, text));
      if (host > 0) fprintf(to, "%sthe host: %s, ", stays > 0 ? "on " : "", hr__size_text(host, text));
      fprintf(to, "%sthe %s\n", stays > 0 || host > 0 ? "the rest on " : "", hr_tier_name(choices->offload[k].tier));
    }
}

/* Items of a list, within the columns; *column 0: nothing printed yet. */
static void item_print(const char *label, const char *item, int *column, FILE *to) {
  bool first = *column == 0;
  if (!first) *column += fprintf(to, ",");
  if (first || *column + 1 + (int)strlen(item) > COLUMNS) {
    if (!first) fputc('\n', to);
    *column = fprintf(to, "  %-*s%s", LABEL, first ? label : "", item);
  } else {
    *column += fprintf(to, " %s", item);
  }
}

/* What was open and is now closed: all that was opened by hand, and of the rest what is not as it was. */
static void search_print(const hr_search *search, FILE *to) {
  if (search->n_knobs == 0) return;
  int column = 0;
  for (int changes = 0; changes < 2; changes++) {
    column = 0;
    for (size_t k = 0; k < search->n_knobs; k++) {
      const char *text = search->chosen.overrides[k], *value = strchr(text, '=') + 1;
      bool moved = strcmp(value, search->knobs[k].choices[0]) != 0;
      if (search->knobs[k].slices) continue; /* stands among the choices */
      if ((search->knobs[k].by_hand || moved) && search->chosen.changes[k] == changes)
        item_print(changes ? "new result" : "chosen", text, &column, to);
    }
    if (column > 0) fputc('\n', to);
  }
  fprintf(to, "  %-*sof %zu settings: %zu planned, %zu ruled out, %zu contradict themselves\n", LABEL, "search",
          search->n_settings, search->n_planned, search->n_pruned, search->n_refused);
}

static void generation_print(const hr_recipe *recipe, FILE *to) {
  int64_t batch = hr__recipe_int(recipe, "generation.batch");
  fprintf(to, "%" PRId64 " sequence%s of up to %" PRId64 " tokens", batch, batch == 1 ? "" : "s",
          hr__recipe_int(recipe, "generation.context"));
}

static void features_print(const hr_job *making, FILE *to) {
  char peak[HR_SIZE_TEXT];
  if (!making) return;
  fprintf(to, "  %-*smade before, where they are missing: %" PRId64 " at a time, %s%s\n", LABEL, "features",
          making->shape.batch, hr__size_text(making->plan->tiers[HR_TIER_DEVICE].peak_bytes, peak),
          making->verdict.fits ? "" : ", which does not fit");
}

/* How it is computed: what plans and runs show alike. */
static void ways_print(const hr_job *job, FILE *to) {
  bool trains = !hr__generation_alone(job->recipe);
  fprintf(to, "  %-*s", LABEL, trains ? "batch" : "generates");
  if (trains)
    batch_print(job, to);
  else
    generation_print(job->recipe, to);
  fputc('\n', to);
  adapters_print(job->recipe, to);
  if (trains) optimizer_print(job->recipe, to);
  if (trains) memory_print(job->recipe, to);
  features_print(job->features, to);
  choices_print(&job->chosen, to);
  search_print(&job->search, to);
}

static void settings_print(const hr_job *job, FILE *to) {
  char name[256];
  fprintf(to, "  %-*s%s\n  %-*s", LABEL, "recipe", name_text(job, name), LABEL, "model");
  model_print(job, to);
  fprintf(to, "\n  %-*s%s\n", LABEL, "precision", hr__recipe_text(job->recipe, "model.precision"));
  ways_print(job, to);
  fprintf(to, "  %-*s%s\n", LABEL, "device", job->facts.name);
  if (job->facts.absent) absent_print(job, LABEL + 2, to);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static uint64_t tier_budget(const hr_verdict *verdict, int tier) {
  return tier == HR_TIER_DEVICE ? verdict->budget_bytes : verdict->below_bytes[tier];
}

static void cells_print(const hr_plan *plan, const char *name, const int64_t values[HR_TIER_COUNT], FILE *to) {
  char text[HR_SIZE_TEXT];
  fprintf(to, "  %-*s", LABEL - 2, name);
  for (int t = 0; t < HR_TIER_COUNT; t++) {
    if (t != HR_TIER_DEVICE && plan->tiers[t].peak_bytes == 0) continue;
    fprintf(to, " %12s", values[t] == 0 ? "-" : hr__difference_text(values[t], text));
  }
}

/* What the host holds before and around the training, beside what it holds then. */
static void phases_print(const hr_job *job, FILE *to) {
  const hr_host_phases *phases = &job->verdict.phases;
  char text[HR_SIZE_TEXT];
  if (phases->prepare > 0)
    fprintf(to, "  %-*s%s of the host while the tokenizer is read, before training\n", LABEL, "prepare",
            hr__size_text(phases->prepare, text));
  fprintf(to, "  %-*sthrough %s of windows, which are part of fixed\n", LABEL, "load, save",
          hr__size_text(HR_WINDOW_BYTES + HR_PACK_BYTES, text));
}

/* What is reserved and not allocated is cached in PyTorch, not a gap of a layout; what is fixed is the context. */
static const char *category_label(const hr_job *job, hr_category category) {
  if (job->torch && category == HR_CAT_GAPS) return "cached";
  return job->torch && category == HR_CAT_FIXED ? "context" : hr_category_name(category);
}

static void tiers_print(const hr_cli *cli, const hr_job *job, FILE *to) {
  hr_style style = hr__cli_style(cli, to);
  const hr_plan *plan = job->plan;
  const hr_tier_plan *device = &plan->tiers[HR_TIER_DEVICE];
  int bar = COLUMNS - (LABEL + 13 + 9 + 3);
  fprintf(to, "%s  %-*s", style.bold, LABEL - 2, "");
  for (int t = 0; t < HR_TIER_COUNT; t++) {
    if (t != HR_TIER_DEVICE && plan->tiers[t].peak_bytes == 0) continue;
    fprintf(to, " %12s", hr_tier_name((hr_tier)t));
    if (t != HR_TIER_DEVICE) bar -= 13;
  }
  fprintf(to, "%s\n", style.end);
  int64_t peaks[HR_TIER_COUNT], budgets[HR_TIER_COUNT], left[HR_TIER_COUNT], margins[HR_TIER_COUNT] = {0};
  margins[HR_TIER_DEVICE] = (int64_t)job->verdict.margin_bytes;
  for (int t = 0; t < HR_TIER_COUNT; t++) {
    peaks[t] = (int64_t)plan->tiers[t].peak_bytes;
    budgets[t] = (int64_t)tier_budget(&job->verdict, t);
    left[t] = budgets[t] - margins[t] - peaks[t];
  }
  for (int c = 0; c < HR_CAT_COUNT; c++) {
    int64_t values[HR_TIER_COUNT], any = 0;
    for (int t = 0; t < HR_TIER_COUNT; t++)
      any |= values[t] = (int64_t)plan->tiers[t].categories[c];
    if (any == 0) continue;
    double share = (double)values[HR_TIER_DEVICE] / (double)device->peak_bytes;
    cells_print(plan, category_label(job, (hr_category)c), values, to);
    if (share > 0) fprintf(to, " %6.1f %%", share * 100);
    hr__bar_print(share, bar < 30 ? bar : 30, to);
    fputc('\n', to);
  }
  fputs(style.bold, to);
  cells_print(plan, "peak", peaks, to);
  fprintf(to, "%s\n", style.end);
  cells_print(plan, "budget", budgets, to);
  fputc('\n', to);
  if (margins[HR_TIER_DEVICE] > 0) {
    cells_print(plan, "margin", margins, to);
    fputc('\n', to);
  }
  cells_print(plan, "left", left, to);
  fputc('\n', to);
  if (!job->torch) phases_print(job, to);
}

void hr__table_plan(const hr_cli *cli, const hr_job *job, const hr_change *change, FILE *to) {
  verdict_print(cli, job, change, to);
  fputc('\n', to);
  settings_print(job, to);
  fputc('\n', to);
  tiers_print(cli, job, to);
}

void hr__table_promise(const hr_cli *cli, const hr_job *job, FILE *to) {
  const hr_plan *plan = job->plan;
  bool told = cli->gpu && strcmp(cli->gpu, job->facts.name) == 0; /* by whoever chose it, before planning */
  if (!told) fprintf(to, "device: %s\n", job->facts.name);
  verdict_print(cli, job, NULL, to);
  ways_print(job, to);
  for (int t = HR_TIER_HOST; t < HR_TIER_COUNT; t++) {
    char peak[HR_SIZE_TEXT], budget[HR_SIZE_TEXT];
    if (plan->tiers[t].peak_bytes == 0) continue;
    fprintf(to, "  %-*s%s of %s\n", LABEL, hr_tier_name((hr_tier)t), hr__size_text(plan->tiers[t].peak_bytes, peak),
            hr__size_text(tier_budget(&job->verdict, t), budget));
  }
}
