/* See waiting.h. */
#include "cli/waiting.h"

#include "base/clock.h"
#include "cli/figures.h"

static const double first_seconds = 1, next_seconds = 0.2; /* until the line comes, and between drawings */

static void draw(void *user) {
  hr_waiting *w = user;
  const hr_search_state *s = &w->search;
  char count[96] = "", best[48] = "", rate[HR_SIZE_TEXT], clock[HR_CLOCK_TEXT];
  double share = -1;
  if (s->settings > 1 && s->bounded < s->settings) {
    snprintf(count, sizeof count, "%zu of %zu settings bounded", s->bounded, s->settings);
    share = (double)s->bounded / (double)s->settings;
  } else if (s->settings > 1) {
    snprintf(count, sizeof count, "%zu of %zu settings done, %zu planned", s->done, s->settings, s->planned);
    share = (double)s->done / (double)s->settings;
  }
  if (s->token_seconds > 0)
    snprintf(best, sizeof best, "best %s %s/s", hr__rate_text(1 / s->token_seconds, rate),
             s->by_sample ? "samples" : "tokens");
  hr_line_part parts[] = {
      {w->what, 4}, {count, 3}, {best, 1}, {hr__clock_text(hr__seconds_now() - w->begun, clock), 2}};
  hr__line_draw(&w->line, share, parts, sizeof parts / sizeof parts[0]);
}

void hr__waiting_begin(hr_waiting *w, const hr_cli *cli, const char *what) {
  *w = (hr_waiting){.what = what, .begun = hr__seconds_now()};
  hr__line_begin(&w->line, cli->quiet || cli->json ? NULL : stderr);
  if (w->line.to) w->ticker = hr__ticker_start(first_seconds, next_seconds, draw, w); /* without one it is not told */
}

void hr__waiting_search(void *user, const hr_search_state *state) {
  hr_waiting *w = user;
  if (!w->ticker) return;
  hr__ticker_hold(w->ticker);
  w->search = *state;
  hr__ticker_release(w->ticker);
}

void hr__waiting_end(hr_waiting *w) {
  hr__ticker_stop(w->ticker);
  hr__line_clear(&w->line);
}
