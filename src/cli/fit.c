/* See fit.h. */
#include "cli/fit.h"

#include <string.h>

#include "cli/figures.h"
#include "cli/waiting.h"
#include "job/answer.h"

const hr_change *hr__fit_cheapest(const hr_change *changes, int count) {
  for (int i = 0; i < count; i++)
    if (!changes[i].changes_results) return &changes[i];
  return count > 0 ? &changes[0] : NULL;
}

void hr__fit_set(int column, const char *override, FILE *to) {
  const char *quote = strpbrk(override, " {}*[]") ? "'" : "";
  fprintf(to, "%*s--set %s%s%s\n", column, "", quote, override, quote);
}

void hr__fit_owners(const hr_job *job, FILE *to) {
  const hr_verdict *verdict = &job->verdict;
  char text[HR_SIZE_TEXT];
  fprintf(to, "\nlargest tensors at the peak:\n");
  for (int i = 0; i < verdict->n_buffers; i++)
    fprintf(to, "  %12s  %s\n", hr__size_text(verdict->buffers[i].bytes, text), verdict->buffers[i].name);
}

/* Beside a GPU that is not here the host is not the one that it will run with. */
static void host_print(const hr_job *job, FILE *to) {
  char text[HR_SIZE_TEXT];
  if (!job->facts.absent || hr__recipe_given(job->recipe, "memory.host_budget")) return;
  fprintf(to, "the host is taken to be this one (%s);\n--set memory.host_budget=SIZE plans with another\n",
          hr__size_text(job->verdict.below_bytes[HR_TIER_HOST], text));
}

void hr__fit_changes(const hr_job *job, const hr_change *changes, int count, FILE *to) {
  if (job->verdict.preparing) {
    fprintf(to, "\n%s\n",
            hr__job_over(job) != job ? "give memory.budget more, or leave data.cache_features out"
                                     : "give memory.host_budget more, or name a smaller data.tokenizer");
    return;
  }
  if (count == 0 && hr__verdict_below_least(&job->verdict, job->plan)) {
    char least[HR_HOST_LEAST];
    hr__job_host_least(job, least);
    fprintf(to, "\nevery run holds %s\non the host: give memory.host_budget more, or leave it out\n", least);
    return;
  }
  if (count == 0) {
    bool device = job->verdict.tier == HR_TIER_DEVICE;
    fprintf(to, "\n%s would fit:\ntry %s\n",
            !device         ? "no other place for what is offloaded"
            : job->open_all ? "no settings of what is open, and no other change,"
                            : "no change of batch, recomputing, update, optimizer, precision, offload\nor length alone",
            !device         ? "a larger budget of this tier, or a smaller model"
            : job->open_all ? "a smaller model, shorter sequences or a larger budget"
                            : "several of them (--auto), a smaller model or a larger budget");
    host_print(job, to);
    return;
  }
  fprintf(to, "\nwhat would fit, fastest first:\n");
  for (int i = 0; i < count; i++) {
    const hr_planned *planned = &changes[i].planned;
    char text[HR_SIZE_TEXT];
    fprintf(to, "  %12s", hr__size_text(planned->peak_bytes[HR_TIER_DEVICE], text));
    fprintf(to, "  %s a step%s\n", hr__seconds_text(planned->step_seconds, text),
            changes[i].changes_results ? "; changes the result" : "");
    for (int t = HR_TIER_HOST; t < HR_TIER_COUNT; t++)
      if (planned->peak_bytes[t] > 0)
        fprintf(to, "  %12s  on the %s\n", hr__size_text(planned->peak_bytes[t], text), hr_tier_name((hr_tier)t));
    for (int o = 0; o < changes[i].n_overrides; o++)
      hr__fit_set(16, changes[i].override[o], to);
  }
  host_print(job, to);
}

static hr_status no_fit_json(const hr_cli *cli, const hr_job *job, const hr_change *changes, int count,
                             const hr_error *no_fit, hr_error *err) {
  json_t *answer = hr__cli_error_json(cli, no_fit);
  if (answer == NULL || json_object_set_new(answer, "plan", hr__answer_plan(job, changes, count)) != 0) {
    json_decref(answer);
    return hr__nomem(err);
  }
  return hr__cli_put_json(answer, err);
}

hr_status hr__fit_check(hr_cli *cli, const hr_job *job, hr_error *err) {
  hr_error no_fit = {0};
  hr_status status = hr__job_check(job, &no_fit);
  if (status != HR_NO_FIT) {
    *err = no_fit;
    return status;
  }
  hr_change changes[HR_SUGGESTIONS];
  int count = 0;
  hr_waiting waiting;
  hr__waiting_begin(&waiting, cli, "planning changes of it");
  status = hr__job_suggest(job, changes, &count, err);
  hr__waiting_end(&waiting);
  HR_TRY(status);
  if (cli->json) {
    HR_TRY(no_fit_json(cli, job, changes, count, &no_fit, err));
  } else {
    hr__cli_show_error(cli, &no_fit);
    hr__fit_owners(hr__job_over(job), stderr);
    hr__fit_changes(job, changes, count, stderr);
  }
  cli->answered = true;
  return HR_NO_FIT;
}
