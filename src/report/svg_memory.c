/* Memory of the device over the nodes of the program that has its peak, stacked by category. See svg.h. */
#include "base/text.h"
#include "plan/usage.h"
#include "report/svg_draw.h"

enum { HEIGHT = 400, PLOT_HEIGHT = 270, BOTTOM = HR_SVG_TOP + PLOT_HEIGHT };

/* What lasts lies below, what is free above. */
static const hr_category order[HR_CAT_COUNT] = {
    HR_CAT_FIXED,  HR_CAT_PARAMETERS,  HR_CAT_OPTIMIZER, HR_CAT_GRADIENTS, HR_CAT_STATE, HR_CAT_CACHE,
    HR_CAT_INPUTS, HR_CAT_ACTIVATIONS, HR_CAT_WORKSPACE, HR_CAT_STAGING,   HR_CAT_GAPS};

/* For each column of pixels the node of it that holds the most. */
static void columns_find(const uint64_t *gaps, size_t nodes, size_t columns, size_t *out) {
  for (size_t c = 0; c < columns; c++) {
    size_t from = nodes * c / columns, to = nodes * (c + 1) / columns;
    out[c] = from;
    for (size_t n = from; n < to; n++)
      if (gaps[n] < gaps[out[c]]) out[c] = n;
  }
}

/* A step outline: along the tops to the right, and along the bottoms back. */
static void outline_draw(hr_svg *svg, hr_category category, const double *low, const double *high, size_t columns,
                         double most) {
  double wide = (double)HR_SVG_PLOT_WIDTH / (double)columns;
  bool any = false;
  for (size_t c = 0; c < columns; c++)
    any |= high[c] > low[c];
  if (!any) return;
  hr__svg_put(svg, "<path class=\"c%d\" d=\"M%d %.2f", (int)category, HR_SVG_LEFT,
              BOTTOM - PLOT_HEIGHT * high[0] / most);
  for (size_t c = 1; c < columns; c++)
    if (high[c] != high[c - 1])
      hr__svg_put(svg, "H%.1fV%.2f", HR_SVG_LEFT + wide * (double)c, BOTTOM - PLOT_HEIGHT * high[c] / most);
  hr__svg_put(svg, "H%dV%.2f", HR_SVG_LEFT + HR_SVG_PLOT_WIDTH, BOTTOM - PLOT_HEIGHT * low[columns - 1] / most);
  for (size_t c = columns - 1; c > 0; c--)
    if (low[c] != low[c - 1])
      hr__svg_put(svg, "H%.1fV%.2f", HR_SVG_LEFT + wide * (double)c, BOTTOM - PLOT_HEIGHT * low[c - 1] / most);
  hr__svg_put(svg, "H%dZ\"/>\n", HR_SVG_LEFT);
}

static void legend_draw(hr_svg *svg, const hr_tier_plan *tier) {
  double x = 16, y = BOTTOM + 44;
  for (size_t i = 0; i < HR_CAT_COUNT; i++) {
    char size[HR_SIZE_TEXT], class[8];
    hr_category category = order[i];
    if (tier->categories[category] == 0) continue;
    snprintf(class, sizeof class, "c%d", (int)category);
    if (x > HR_SVG_WIDTH - 170) {
      x = 16;
      y += 20;
    }
    x = hr__svg_legend(svg, x, y, class, hr_category_name(category), hr__size_text(tier->categories[category], size));
  }
}

static void areas_draw(hr_svg *svg, const uint64_t *bytes, size_t nodes, double most) {
  size_t columns = nodes < HR_SVG_PLOT_WIDTH ? nodes : HR_SVG_PLOT_WIDTH;
  size_t *at = hr__arena_array(&svg->arena, columns, sizeof *at);
  double *low = hr__arena_array(&svg->arena, columns, sizeof *low),
         *high = hr__arena_array(&svg->arena, columns, sizeof *high);
  if (!at || !low || !high) {
    svg->status = hr__nomem(svg->err);
    return;
  }
  columns_find(bytes + HR_CAT_GAPS * nodes, nodes, columns, at);
  for (size_t i = 0; i < HR_CAT_COUNT; i++) {
    for (size_t c = 0; c < columns; c++)
      high[c] = low[c] + (double)bytes[order[i] * nodes + at[c]];
    outline_draw(svg, order[i], low, high, columns, most);
    for (size_t c = 0; c < columns; c++)
      low[c] = high[c];
  }
}

void hr__svg_memory(hr_svg *svg, const hr_job *job, const char *name) {
  const hr_plan *plan = job->plan;
  const hr_tier_plan *tier = &plan->tiers[HR_TIER_DEVICE];
  hr_id program = hr__plan_peak_program(plan, HR_TIER_DEVICE);
  hr_tenants tenants;
  uint64_t *bytes;
  char size[HR_SIZE_TEXT], text[192];
  if (program == HR_NONE) {
    svg->status = hr__fail(svg->err, HR_BAD_INPUT, name, NULL, "this plan has no program");
    return;
  }
  size_t nodes = plan->graph->programs[program].count;
  svg->status = hr__tenants(plan, &svg->arena, &tenants, svg->err);
  if (svg->status == HR_OK)
    svg->status = hr__usage(plan, &tenants, HR_TIER_DEVICE, program, HR_CAT_COUNT, hr__usage_category, NULL,
                            &svg->arena, &bytes, svg->err);
  if (svg->status != HR_OK) return;
  if (nodes == 0) nodes = 1;
  double most = (double)tier->peak_bytes * 1.04;
  snprintf(text, sizeof text, "Bytes on the device at each of %zu nodes by category; the peak of %s is at node %u.",
           nodes, hr__size_text(tier->peak_bytes, size), tier->peak_node);
  hr__svg_begin(svg, HEIGHT, "Memory over a step", name, text);
  hr__svg_axis_bytes(svg, most, BOTTOM, PLOT_HEIGHT);
  areas_draw(svg, bytes, nodes, most);
  double x = HR_SVG_LEFT + HR_SVG_PLOT_WIDTH * ((double)tier->peak_node + 0.5) / (double)nodes;
  double y = BOTTOM - PLOT_HEIGHT * (double)tier->peak_bytes / most;
  hr__svg_put(svg,
              "<path class=\"mark\" d=\"M%d %.1fH%dM%.1f %.1fV%d\"/><circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" "
              "r=\"3.5\"/>\n",
              HR_SVG_LEFT, y, HR_SVG_LEFT + HR_SVG_PLOT_WIDTH, x, y, BOTTOM, x, y);
  snprintf(text, sizeof text, "peak %s, node %u", hr__size_text(tier->peak_bytes, size), tier->peak_node);
  hr__svg_label(svg, x > HR_SVG_WIDTH / 2.0 ? "ink end" : "ink", x + (x > HR_SVG_WIDTH / 2.0 ? -6 : 6), y - 5, text);
  hr__svg_label(svg, "", HR_SVG_LEFT, BOTTOM + 17, "node 0");
  snprintf(text, sizeof text, "%zu", nodes - 1);
  hr__svg_label(svg, "end", HR_SVG_LEFT + HR_SVG_PLOT_WIDTH, BOTTOM + 17, text);
  legend_draw(svg, tier);
  hr__svg_end(svg);
}
