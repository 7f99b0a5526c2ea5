/* headroom monitor: the runs that are watched, and how they are shown. */
#ifndef HR_CLI_MONITOR_H
#define HR_CLI_MONITOR_H

#include <jansson.h>

#include "cli/page.h"
#include "watch/watched.h"

typedef struct hr_monitor {
  hr_watched **runs;
  size_t count, capacity;
  hr_nvml *nvml;                  /* NULL: there is none */
  hr_nvml_gpu gpus[HR_NVML_GPUS]; /* as they were looked at last */
  char machine[HR_WATCH_NAME];
  hr_watch_now now;
  bool reading; /* logs are not read to their ends yet */
} hr_monitor;

/* What a person has chosen to see. */
typedef struct hr_monitor_choice {
  size_t selected; /* run */
  bool alone;      /* it alone, not the list of all */
  bool help;
  const char *note; /* in place of the keys; NULL: none */
} hr_monitor_choice;

/* monitor_view.c: fills the page: the list where there are several, the selected run below, keys in the last row. */
void hr__monitor_view(const hr_monitor *monitor, const hr_monitor_choice *choice, hr_page *page);
/* One line of a run, for pipes. */
void hr__monitor_line(const hr_watched *run, FILE *to);
/* Everything of one run. */
void hr__monitor_run(const hr_watched *run, const hr_monitor *monitor, hr_page *page);

/* monitor_json.c: NULL: out of memory. */
json_t *hr__monitor_json(const hr_monitor *monitor);

#endif
