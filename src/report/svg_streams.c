/* The streams of the program that takes longest in a step, over time. Spans that are less than a pixel are drawn
 * together, as much of the pixel as they take. See svg.h. */
#include <math.h>

#include "base/text.h"
#include "plan/timeline.h"
#include "report/svg_draw.h"

enum {
  LANE = 40,
  GAP = 12,
  LEGEND = 66,
  WAITS = 3,
  COLORS = 4
}; /* colours of one stream: its phases, or its own; waits */

static hr_id longest_find(const hr_job *job) {
  hr_id best = HR_NONE;
  double most = -1;
  for (hr_id p = 0; p < job->plan->graph->n_programs; p++) {
    double seconds =
        hr__program_runs(&job->plan->graph->programs[p], job->shape.accumulation) * job->plan->programs[p].seconds;
    if (seconds > most) {
      most = seconds;
      best = p;
    }
  }
  return best;
}

static const char *color_class(hr_stream_kind stream, int color) {
  static const char *const phases[COLORS] = {"c0", "p1", "c6", "c1"};
  static const char *const own[HR_STREAMS] = {"", "c7", "c8", "c3"};
  return stream == HR_STREAM_COMPUTE ? phases[color] : own[stream];
}

/* Part of each pixel that each colour takes. */
static void lane_draw(hr_svg *svg, const hr_job *job, const hr_timeline *t, hr_stream_kind stream, double top) {
  double(*share)[COLORS] = hr__arena_array(&svg->arena, HR_SVG_PLOT_WIDTH, sizeof *share);
  if (!share) {
    svg->status = hr__nomem(svg->err);
    return;
  }
  for (size_t i = 0; i < t->count; i++) {
    const hr_span *span = &t->spans[i];
    if (span->stream != stream) continue;
    int color = span->waits ? WAITS : stream == HR_STREAM_COMPUTE ? (int)job->graph->nodes[span->node].phase : 0;
    double from = HR_SVG_PLOT_WIDTH * span->begin / t->seconds, to = HR_SVG_PLOT_WIDTH * span->end / t->seconds;
    for (double x = floor(from); x < to && x < HR_SVG_PLOT_WIDTH; x++)
      share[(size_t)x][color] += fmin(to, x + 1) - fmax(from, x);
  }
  hr__svg_put(svg, "<rect class=\"c9\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\"/>\n", HR_SVG_LEFT, top,
              HR_SVG_PLOT_WIDTH, LANE);
  for (int color = 0; color < COLORS; color++)
    for (int x = 0, end; x < HR_SVG_PLOT_WIDTH; x = end) {
      int twentieths = (int)lround(20 * fmin(share[x][color], 1));
      for (end = x + 1; end < HR_SVG_PLOT_WIDTH && (int)lround(20 * fmin(share[end][color], 1)) == twentieths;)
        end++;
      if (twentieths > 0)
        hr__svg_put(svg, "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\" opacity=\"%.2g\"/>\n",
                    color_class(stream, color), HR_SVG_LEFT + x, top, end - x, LANE, twentieths / 20.0);
    }
}

static void legend_draw(hr_svg *svg, const hr_timeline *t, double y) {
  static const char *const names[] = {"forward", "backward", "update"};
  double x = 16;
  for (int i = 0; i < 3; i++)
    x = hr__svg_legend(svg, x, y, color_class(HR_STREAM_COMPUTE, i), names[i], "");
  for (int s = HR_STREAM_IN; s < HR_STREAMS; s++)
    if (t->busy[s] > 0)
      x = hr__svg_legend(svg, x, y, color_class((hr_stream_kind)s, 0), hr_stream_name((hr_stream_kind)s), "");
  if (t->wait_seconds > 0) hr__svg_legend(svg, x, y, color_class(HR_STREAM_COMPUTE, WAITS), "waits for a copy", "");
}

void hr__svg_streams(hr_svg *svg, const hr_job *job, const char *name) {
  hr_id program = longest_find(job);
  hr_timeline t = {0};
  svg->status = program == HR_NONE ? hr__fail(svg->err, HR_BAD_INPUT, name, NULL, "this plan has no program")
                                   : hr__timeline(job->plan, &job->rates, program, &svg->arena, &t, svg->err);
  if (svg->status != HR_OK) return;
  int lanes = 0;
  for (int s = 0; s < HR_STREAMS; s++)
    lanes += t.busy[s] > 0;
  char text[224], a[HR_SIZE_TEXT], b[HR_SIZE_TEXT];
  double copying = t.busy[HR_STREAM_IN] + t.busy[HR_STREAM_OUT];
  snprintf(text, sizeof text, "Copies take %s; computing waits %s for them: %.1f %% of the copying is hidden.",
           hr__seconds_text(copying, a), hr__seconds_text(t.wait_seconds, b),
           copying > 0 ? 100 * fmax(0, copying - t.wait_seconds) / copying : 100);
  int height = HR_SVG_TOP + lanes * (LANE + GAP) + LEGEND + (copying > 0 ? 20 : 0);
  hr__svg_begin(svg, height, "Streams of a step", name,
                copying > 0 ? text : "Kernels of a step, one behind the other.");
  double top = HR_SVG_TOP;
  for (int s = 0; s < HR_STREAMS; s++) {
    if (t.busy[s] <= 0) continue;
    lane_draw(svg, job, &t, (hr_stream_kind)s, top);
    hr__svg_label(svg, "end", HR_SVG_LEFT - 8, top + LANE / 2.0 + 4, hr_stream_name((hr_stream_kind)s));
    top += LANE + GAP;
  }
  hr__svg_label(svg, "", HR_SVG_LEFT, top + 6, "0 s");
  hr__svg_label(svg, "mid", HR_SVG_LEFT + HR_SVG_PLOT_WIDTH / 2.0, top + 6, hr__seconds_text(t.seconds / 2, a));
  hr__svg_label(svg, "end", HR_SVG_LEFT + HR_SVG_PLOT_WIDTH, top + 6, hr__seconds_text(t.seconds, a));
  legend_draw(svg, &t, top + 36);
  if (copying > 0) hr__svg_label(svg, "ink", 16, top + 58, text);
  hr__svg_end(svg);
}
