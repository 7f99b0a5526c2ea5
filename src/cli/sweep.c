/* plan --sweep: one line per value. See plan.h. */
#include <string.h>

#include "cli/plan.h"
#include "cli/varied.h"
#include "dev/gpus.h"
#include "format/json.h"

typedef struct sweep {
  hr_varied varied;
  json_t *entries;  /* NULL without --json */
  int fit, planned; /* values of that kind so far */
  hr_error first;   /* error */
} sweep;

static hr_status entry_add(sweep *s, json_t *entry, hr_error *err) {
  return json_array_append_new(s->entries, entry) == 0 ? HR_OK : hr__nomem(err);
}

static hr_status planned_show(sweep *s, const hr_job *job, const char *value, hr_error *err) {
  hr_cli *cli = s->varied.cli;
  if (s->planned++ == 0) hr__plan_remark(cli, job);
  s->fit += job->verdict.fits;
  if (s->entries) return entry_add(s, hr__varied_json(job, value), err);
  if (!cli->quiet) hr__varied_print(&s->varied, job, value);
  return HR_OK;
}

/* A value that cannot be planned is a line as any other. */
static hr_status refused_show(sweep *s, const hr_error *why, const char *value, hr_error *err) {
  if (s->first.status == HR_OK) s->first = *why;
  if (s->entries) return entry_add(s, hr__varied_json_refused(s->varied.cli, why, value), err);
  if (!s->varied.cli->quiet) hr__varied_print_refused(&s->varied, why, value);
  return HR_OK;
}

static hr_status value_show(sweep *s, const char *value, hr_error *err) {
  hr_job *job = NULL;
  hr_error why = {0};
  hr_status status = hr__varied_open(&s->varied, value, HR_CLI_RATES_NODES, &job, &why);
  if (status == HR_NOMEM) return hr__nomem(err);
  why.status = status;
  status = status == HR_OK ? planned_show(s, job, value, err) : refused_show(s, &why, value, err);
  hr__job_close(job);
  return status;
}

/* Every GPU of the catalogue. */
static hr_status gpus_show(sweep *s, hr_error *err) {
  size_t count;
  const hr_gpu **gpus = hr__gpus_by_memory(&s->varied.cli->arena, &count);
  if (gpus == NULL) return hr__nomem(err);
  for (size_t i = 0; i < count; i++)
    HR_TRY(value_show(s, gpus[i]->label, err));
  return HR_OK;
}

static hr_status list_show(sweep *s, const char *values, hr_error *err) {
  bool failed;
  for (const char *value; (value = hr__part_next(&s->varied.cli->arena, &values, &failed)) != NULL;) {
    if (value[0] == '\0')
      return hr__fail(err, HR_USAGE, "--sweep", "write --sweep gpu-memory=8GiB,16GiB,24GiB", "a value is empty");
    HR_TRY(value_show(s, value, err));
  }
  return failed ? hr__nomem(err) : HR_OK;
}

static hr_status values_show(sweep *s, const char *values, hr_error *err) {
  hr_cli *cli = s->varied.cli;
  if (!cli->json && !cli->quiet) hr__varied_head(&s->varied);
  bool gpus = strcmp(s->varied.key, "gpu") == 0 && strcmp(values, "all") == 0;
  HR_TRY(gpus ? gpus_show(s, err) : list_show(s, values, err));
  if (!cli->json) return hr__cli_flush(err);
  json_t *answer =
      json_pack("{s:i, s:o, s:O}", "schema", 1, "sweep", hr__json_string(s->varied.key), "entries", s->entries);
  return hr__cli_put_json(answer, err);
}

hr_status hr__sweep(hr_cli *cli, hr_error *err) {
  const char *text = hr__cli_value(cli, "sweep"), *equals = strchr(text, '=');
  if (equals == NULL || equals == text || equals[1] == '\0')
    return hr__fail(err, HR_USAGE, "--sweep", "write --sweep gpu-memory=8GiB,16GiB,24GiB",
                    "'%s' is not of the form KEY=V1,V2,...", text);
  sweep s = {0};
  const char *key = hr__arena_format(&cli->arena, "%.*s", (int)(equals - text), text);
  if (key == NULL) return hr__nomem(err);
  HR_TRY(hr__varied_init(&s.varied, cli, key, "--sweep", err));
  if (cli->json && (s.entries = json_array()) == NULL) return hr__nomem(err);
  hr_status status = values_show(&s, equals + 1, err);
  json_decref(s.entries);
  if (status != HR_OK || s.fit > 0) return status;
  if (s.planned == 0 && !cli->json) { /* none can be planned: the first says why, with its place and remedy */
    *err = s.first;
    return s.first.status;
  }
  cli->answered = true;
  return s.planned > 0 ? HR_NO_FIT : s.first.status;
}
