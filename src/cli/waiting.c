/* See waiting.h. */
#include "cli/waiting.h"

#include <string.h>

#include "cli/figures.h"

void hr__waiting_begin(hr_waiting *w, const hr_cli *cli, const char *what) {
  hr__work_begin(&w->work, hr__cli_progress(cli), what, 0);
}

void hr__waiting_search(void *user, const hr_search_state *s) {
  hr_waiting *w = user;
  char text[HR_WORK_DETAIL] = "", rate[HR_SIZE_TEXT];
  double share = -1;
  if (s->settings > 1 && s->bounded < s->settings) {
    snprintf(text, sizeof text, "%zu of %zu settings bounded", s->bounded, s->settings);
    share = (double)s->bounded / (double)s->settings;
  } else if (s->settings > 1) {
    snprintf(text, sizeof text, "%zu of %zu settings done, %zu planned", s->done, s->settings, s->planned);
    share = (double)s->done / (double)s->settings;
  }
  if (s->token_seconds > 0) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%sbest %s %s/s", used > 0 ? ", " : "",
             hr__rate_text(1 / s->token_seconds, rate), s->by_sample ? "samples" : "tokens");
  }
  hr__work_detail(&w->work, share, text);
}

void hr__waiting_end(hr_waiting *w) {
  hr__work_end(&w->work);
}
