/* What the pictures are drawn with. Only report/svg*.c include this. */
#ifndef HR_REPORT_SVG_DRAW_H
#define HR_REPORT_SVG_DRAW_H

#include "report/svg.h"

/* A picture on its way; after a failure nothing more is added. Numbers are pixels. */
typedef struct hr_svg {
  hr_string *out;
  hr_arena arena; /* scratch */
  hr_status status;
  hr_error *err;
} hr_svg;

/* The part that is drawn in; the rest is for titles, axes and legends. */
enum { HR_SVG_WIDTH = 860, HR_SVG_LEFT = 84, HR_SVG_TOP = 44, HR_SVG_PLOT_WIDTH = HR_SVG_WIDTH - HR_SVG_LEFT - 16 };

__attribute__((format(printf, 2, 3))) void hr__svg_put(hr_svg *svg, const char *format, ...);
/* Text of any origin as text: markup, control characters and those that turn the direction of text are escaped. */
void hr__svg_text(hr_svg *svg, const char *text);
/* <text class="..." x y>text</text> */
void hr__svg_label(hr_svg *svg, const char *class, double x, double y, const char *text);

void hr__svg_begin(hr_svg *svg, int height, const char *title, const char *name, const char *description);
void hr__svg_end(hr_svg *svg);

/* Lines across for bytes from 0 to `most`, drawn upwards from `bottom` by `height`. */
void hr__svg_axis_bytes(hr_svg *svg, double most, double bottom, double height);
/* A row of coloured names, from `left` on; returns where the next one begins. */
double hr__svg_legend(hr_svg *svg, double left, double y, const char *class, const char *name, const char *value);

/* One of each kind: see svg.h. */
void hr__svg_memory(hr_svg *svg, const hr_job *job, const char *name);
void hr__svg_layout(hr_svg *svg, const hr_job *job, const char *name);
void hr__svg_frontier(hr_svg *svg, const hr_job *job, const char *name);
void hr__svg_streams(hr_svg *svg, const hr_job *job, const char *name);

#endif
