/* Where `headroom report` writes to. */
#ifndef HR_CLI_REPORT_OUT_H
#define HR_CLI_REPORT_OUT_H

#include "cli/cli.h"
#include "text/grow.h"

/* --out, or a name by what the report is of: RUN/report.html, or the recipe's name in this folder; `ending` is ".html"
 * or
 * ".svg". "-" is standard output. Looked at before anything is planned: a file that is no report is never written over,
 * and the folder has to be there. */
hr_status hr__report_out(hr_cli *cli, bool run, const char *ending, const char **path, hr_error *err);

/* Writes all of it, or leaves what was there. */
hr_status hr__report_write(const char *path, const hr_string *text, hr_error *err);

#endif
