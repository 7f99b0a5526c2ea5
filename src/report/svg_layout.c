/* Every buffer of the device by lifetime and offset. Where there are more than a document should carry, the picture is
 * made of cells, each with the category that lies in its middle. See svg.h. */
#include <string.h>

#include "base/text.h"
#include "plan/tenants.h"
#include "report/svg_draw.h"

enum {
  HEIGHT = 470,
  PLOT_HEIGHT = 360,
  BOTTOM = HR_SVG_TOP + PLOT_HEIGHT,
  SINGLE_MOST = 2500,
  CELL = 2,
  NOTHING = 255,
  ROWS = PLOT_HEIGHT / CELL,
  COLUMNS = HR_SVG_PLOT_WIDTH / CELL
};

typedef struct laid {
  const hr_plan *plan;
  hr_tenants tenants;
  hr_id program;
  double nodes, bytes; /* of the program, of the arena */
} laid;

typedef struct box {
  double left, top, width, height; /* pixels within the plot */
} box;

/* Whether a tenant is in the picture, and where. */
static bool box_of(const laid *l, const hr_tenant *tenant, box *out) {
  const hr_slot *slot = &l->plan->slots[tenant->slot];
  bool persistent = slot->program == HR_NONE;
  if (slot->tier != HR_TIER_DEVICE || (!persistent && slot->program != l->program)) return false;
  double first = persistent ? 0 : tenant->first, end = persistent ? l->nodes : (double)tenant->last + 1;
  double low = (double)slot->offset / l->bytes, high = ((double)slot->offset + (double)slot->bytes) / l->bytes;
  *out = (box){HR_SVG_PLOT_WIDTH * first / l->nodes, PLOT_HEIGHT * (1 - high),
               HR_SVG_PLOT_WIDTH * (end - first) / l->nodes, PLOT_HEIGHT * (high - low)};
  return true;
}

static void boxes_draw(hr_svg *svg, const laid *l) {
  for (size_t i = 0; i < l->tenants.count; i++) {
    box b;
    if (!box_of(l, &l->tenants.list[i], &b)) continue;
    hr__svg_put(svg, "<rect class=\"c%d%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n",
                (int)l->tenants.list[i].category, b.width > 3 && b.height > 3 ? " edge" : "", HR_SVG_LEFT + b.left,
                HR_SVG_TOP + b.top, b.width, b.height);
  }
}

static size_t cell_of(double at, size_t most) {
  double cell = at / CELL;
  return cell <= 0 ? 0 : cell >= (double)most ? most - 1 : (size_t)cell;
}

/* Runs of one category in each row of cells. */
static void cells_draw(hr_svg *svg, const laid *l) {
  unsigned char *cells = hr__arena_array(&svg->arena, (size_t)ROWS * COLUMNS, 1);
  if (!cells) {
    svg->status = hr__nomem(svg->err);
    return;
  }
  memset(cells, NOTHING, (size_t)ROWS * COLUMNS);
  for (size_t i = 0; i < l->tenants.count; i++) {
    box b;
    if (!box_of(l, &l->tenants.list[i], &b)) continue;
    size_t x0 = cell_of(b.left, COLUMNS), x1 = cell_of(b.left + b.width - CELL / 2.0, COLUMNS);
    size_t y0 = cell_of(b.top, ROWS), y1 = cell_of(b.top + b.height - CELL / 2.0, ROWS);
    for (size_t y = y0; y <= (y1 < y0 ? y0 : y1); y++)
      for (size_t x = x0; x <= (x1 < x0 ? x0 : x1); x++)
        cells[y * COLUMNS + x] = (unsigned char)l->tenants.list[i].category;
  }
  for (size_t y = 0; y < ROWS; y++)
    for (size_t x = 0, end; x < COLUMNS; x = end) {
      const unsigned char *row = cells + y * COLUMNS;
      for (end = x + 1; end < COLUMNS && row[end] == row[x];)
        end++;
      if (row[x] == NOTHING) continue;
      hr__svg_put(svg, "<path class=\"c%d\" d=\"M%zu %zuh%zuv%dH%zuz\"/>\n", row[x], HR_SVG_LEFT + CELL * x,
                  HR_SVG_TOP + CELL * y, CELL * (end - x), CELL, HR_SVG_LEFT + CELL * x);
    }
}

void hr__svg_layout(hr_svg *svg, const hr_job *job, const char *name) {
  const hr_tier_plan *tier = &job->plan->tiers[HR_TIER_DEVICE];
  laid l = {.plan = job->plan,
            .program = hr__plan_peak_program(job->plan, HR_TIER_DEVICE),
            .bytes = (double)tier->arena_bytes};
  if (l.program == HR_NONE || tier->arena_bytes == 0) {
    svg->status = hr__fail(svg->err, HR_BAD_INPUT, name, NULL, "this plan has no buffers on the device");
    return;
  }
  l.nodes = job->plan->graph->programs[l.program].count > 0 ? job->plan->graph->programs[l.program].count : 1;
  svg->status = hr__tenants(job->plan, &svg->arena, &l.tenants, svg->err);
  size_t count = 0;
  bool used[HR_CAT_COUNT] = {false};
  for (size_t i = 0; svg->status == HR_OK && i < l.tenants.count; i++) {
    box b;
    if (!box_of(&l, &l.tenants.list[i], &b)) continue;
    count++;
    used[l.tenants.list[i].category] = true;
  }
  char text[192], size[HR_SIZE_TEXT];
  snprintf(text, sizeof text, "%zu buffers as rectangles: from first to last node, at their offsets in an arena of %s.",
           count, hr__size_text(tier->arena_bytes, size));
  hr__svg_begin(svg, HEIGHT, "Every buffer, when and where", name, text);
  hr__svg_put(svg, "<rect class=\"c9\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", HR_SVG_LEFT, HR_SVG_TOP,
              HR_SVG_PLOT_WIDTH, PLOT_HEIGHT);
  hr__svg_axis_bytes(svg, l.bytes, BOTTOM, PLOT_HEIGHT);
  if (count > SINGLE_MOST)
    cells_draw(svg, &l);
  else
    boxes_draw(svg, &l);
  double x = HR_SVG_LEFT + HR_SVG_PLOT_WIDTH * ((double)tier->peak_node + 0.5) / l.nodes;
  hr__svg_put(svg, "<path class=\"mark\" d=\"M%.1f %dV%d\"/>\n", x, HR_SVG_TOP, BOTTOM);
  hr__svg_label(svg, "", HR_SVG_LEFT, BOTTOM + 17, "node 0");
  snprintf(text, sizeof text, "%.0f", l.nodes - 1);
  hr__svg_label(svg, "end", HR_SVG_LEFT + HR_SVG_PLOT_WIDTH, BOTTOM + 17, text);
  double at = 16;
  for (int c = 0; c < HR_CAT_COUNT; c++) {
    snprintf(text, sizeof text, "c%d", c);
    if (used[c]) at = hr__svg_legend(svg, at, BOTTOM + 46, text, hr_category_name((hr_category)c), "");
  }
  hr__svg_end(svg);
}
