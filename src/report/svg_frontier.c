/* Settings as points: bytes on the device against seconds of a step, with the chosen one and the budget. See svg.h. */
#include <math.h>

#include "base/text.h"
#include "report/svg_draw.h"

enum { HEIGHT = 400, PLOT_HEIGHT = 280, BOTTOM = HR_SVG_TOP + PLOT_HEIGHT, LADDER = 3 };

typedef struct point {
  double bytes, seconds;
  bool fits, here;
} point;

typedef struct cloud {
  point *list;
  size_t count;
  double limit;                /* of the budget */
  double bytes[2], seconds[2]; /* ends of the axes */
} cloud;

/* Unless it is there already. */
static void point_add(cloud *c, double bytes, double seconds, bool fits, bool here) {
  for (size_t i = 0; i < c->count; i++)
    if (c->list[i].bytes == bytes && c->list[i].seconds == seconds) {
      c->list[i].here |= here;
      return;
    }
  c->list[c->count++] = (point){bytes, seconds, fits, here};
}

static void rung_add(cloud *c, const hr_rung *rung) {
  if (rung->n_overrides > 0)
    point_add(c, (double)rung->planned.peak_bytes[HR_TIER_DEVICE], rung->planned.step_seconds, rung->planned.fits,
              false);
}

/* The plan's own, the rungs of the ladder, the changes that would fit, and the frontier of the search. */
static hr_status cloud_make(hr_svg *svg, const hr_job *job, cloud *c) {
  hr_change changes[HR_SUGGESTIONS];
  hr_ladder ladder = {0};
  int n_changes = 0;
  if (job->verdict.fits)
    HR_TRY(hr__job_ladder(job, &svg->arena, &ladder, svg->err));
  else
    HR_TRY(hr__job_suggest(job, changes, &n_changes, svg->err));
  c->list = hr__arena_array(&svg->arena, job->search.n_frontier + HR_SUGGESTIONS + LADDER + 1, sizeof *c->list);
  if (!c->list) return hr__nomem(svg->err);
  rung_add(c, &ladder.cheaper);
  rung_add(c, &ladder.faster);
  rung_add(c, &ladder.other);
  for (int i = 0; i < n_changes; i++)
    point_add(c, (double)changes[i].planned.peak_bytes[HR_TIER_DEVICE], changes[i].planned.step_seconds,
              changes[i].planned.fits, false);
  for (size_t i = 0; i < job->search.n_frontier; i++) {
    const hr_found *found = &job->search.frontier[i];
    point_add(c, (double)found->peak_bytes[HR_TIER_DEVICE], found->step_seconds, found->fits, false);
  }
  point_add(c, (double)job->verdict.peak_bytes, job->plan->step_seconds, job->verdict.fits, true);
  c->limit = (double)(job->verdict.budget_bytes - job->verdict.margin_bytes);
  return HR_OK;
}

static void ends_find(cloud *c) {
  double least[2] = {INFINITY, INFINITY}, most[2] = {0, 0};
  for (size_t i = 0; i < c->count; i++) {
    const double at[2] = {c->list[i].bytes, c->list[i].seconds};
    for (int k = 0; k < 2; k++) {
      least[k] = fmin(least[k], at[k]);
      most[k] = fmax(most[k], at[k]);
    }
  }
  if (c->limit < 2 * most[0] && c->limit > least[0] / 2) {
    least[0] = fmin(least[0], c->limit);
    most[0] = fmax(most[0], c->limit);
  }
  double *ends[2] = {c->bytes, c->seconds};
  for (int k = 0; k < 2; k++) {
    double room = most[k] > least[k] ? 0.1 * (most[k] - least[k]) : 0.1 * most[k];
    ends[k][0] = fmax(0, least[k] - room);
    ends[k][1] = most[k] + room;
  }
}

static double x_of(const cloud *c, double bytes) {
  return HR_SVG_LEFT + HR_SVG_PLOT_WIDTH * (bytes - c->bytes[0]) / (c->bytes[1] - c->bytes[0]);
}

static double y_of(const cloud *c, double seconds) {
  return BOTTOM - PLOT_HEIGHT * (seconds - c->seconds[0]) / (c->seconds[1] - c->seconds[0]);
}

static void axes_draw(hr_svg *svg, const cloud *c) {
  char text[HR_SIZE_TEXT];
  for (int i = 0; i <= 4; i++) {
    double seconds = c->seconds[0] + (c->seconds[1] - c->seconds[0]) * i / 4, y = y_of(c, seconds);
    hr__svg_put(svg, "<path class=\"axis\" d=\"M%d %.1fH%d\"/>\n", HR_SVG_LEFT, y, HR_SVG_LEFT + HR_SVG_PLOT_WIDTH);
    hr__svg_label(svg, "end", HR_SVG_LEFT - 8, y + 4, hr__seconds_text(seconds, text));
    double bytes = c->bytes[0] + (c->bytes[1] - c->bytes[0]) * i / 4;
    hr__svg_label(svg,
                  i == 4   ? "end"
                  : i == 0 ? ""
                           : "mid",
                  x_of(c, bytes), BOTTOM + 20, hr__size_text((uint64_t)bytes, text));
  }
  hr__svg_label(svg, "end", HR_SVG_LEFT + HR_SVG_PLOT_WIDTH, BOTTOM + 40, "peak of the device; seconds are of a step");
  if (c->limit < c->bytes[0] || c->limit > c->bytes[1]) return;
  double x = x_of(c, c->limit);
  hr__svg_put(svg, "<path class=\"limit\" d=\"M%.1f %dV%d\"/>\n", x, HR_SVG_TOP, BOTTOM);
  char budget[HR_SIZE_TEXT + 8];
  snprintf(budget, sizeof budget, "budget %s", hr__size_text((uint64_t)c->limit, text));
  hr__svg_label(svg, x > HR_SVG_WIDTH - 150 ? "end" : "", x + (x > HR_SVG_WIDTH - 150 ? -6 : 6), HR_SVG_TOP + 12,
                budget);
}

void hr__svg_frontier(hr_svg *svg, const hr_job *job, const char *name) {
  cloud c = {0};
  svg->status = cloud_make(svg, job, &c);
  if (svg->status != HR_OK) return;
  ends_find(&c);
  char text[160], size[HR_SIZE_TEXT];
  snprintf(text, sizeof text, "%zu settings by bytes on the device and seconds of a step; this plan takes %s.", c.count,
           hr__size_text(job->verdict.peak_bytes, size));
  hr__svg_begin(svg, HEIGHT, "Memory against time", name, text);
  axes_draw(svg, &c);
  for (size_t i = 0; i < c.count; i++) {
    const point *p = &c.list[i];
    double x = x_of(&c, p->bytes), y = y_of(&c, p->seconds);
    hr__svg_put(svg, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"%s/>\n", p->here ? "c1" : "c0", x, y,
                p->here ? 7 : 5, p->fits ? "" : " fill-opacity=\".35\"");
    if (p->here)
      hr__svg_label(svg, x > HR_SVG_WIDTH - 100 ? "ink end" : "ink", x + (x > HR_SVG_WIDTH - 100 ? -11 : 11), y + 4,
                    "this plan");
  }
  hr__svg_legend(svg, hr__svg_legend(svg, HR_SVG_LEFT, BOTTOM + 62, "c1", "this plan", ""), BOTTOM + 62, "c0",
                 "other settings (pale: does not fit)", "");
  hr__svg_end(svg);
}
