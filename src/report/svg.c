/* Pictures for documents: see svg.h. What all of them are drawn with is here. */
#include "report/svg_draw.h"

#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "report/page.h"

const char *hr_svg_kind_name(hr_svg_kind kind) {
  static const char *const names[HR_SVG_KINDS] = {"memory", "layout", "frontier", "streams"};
  return names[kind];
}

void hr__svg_put(hr_svg *svg, const char *format, ...) {
  if (svg->status != HR_OK) return;
  char text[512];
  va_list list;
  va_start(list, format);
  int length = vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (length < 0) return;
  svg->status =
      hr__string_add(svg->out, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1, svg->err);
}

/* U+061C, U+200B to U+200F, U+2028 to U+202E, U+2060 to U+2069 and U+FEFF in UTF-8; the bytes that they take, else 0.
 */
static size_t unseen_bytes(const unsigned char *c) {
  if (c[0] == 0xd8 && c[1] == 0x9c) return 2;
  if (c[0] == 0xef && c[1] == 0xbb && c[2] == 0xbf) return 3;
  if (c[0] != 0xe2 || (c[1] != 0x80 && c[1] != 0x81)) return 0;
  bool odd =
      c[1] == 0x80 ? (c[2] >= 0x8b && c[2] <= 0x8f) || (c[2] >= 0xa8 && c[2] <= 0xae) : c[2] >= 0xa0 && c[2] <= 0xa9;
  return odd ? 3 : 0;
}

void hr__svg_text(hr_svg *svg, const char *text) {
  size_t room = 4 * strlen(text) + 1;
  char *plain = hr__arena_array(&svg->arena, room, 1);
  if (!plain) {
    if (svg->status == HR_OK) svg->status = hr__nomem(svg->err);
    return;
  }
  hr__text_escape(text, strlen(text), plain, room); /* control characters, and what is no UTF-8 */
  for (const char *c = plain; *c;) {
    size_t bytes = unseen_bytes((const unsigned char *)c);
    if (bytes > 0) {
      hr__svg_put(svg, "?");
      c += bytes;
      continue;
    }
    if (*c == '<' || *c == '>' || *c == '&' || *c == '"')
      hr__svg_put(svg, "&#%d;", *c);
    else
      hr__svg_put(svg, "%c", *c);
    c++;
  }
}

void hr__svg_label(hr_svg *svg, const char *class, double x, double y, const char *text) {
  hr__svg_put(svg, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
  hr__svg_text(svg, text);
  hr__svg_put(svg, "</text>\n");
}

/* Colours of categories, streams and phases, as report/page/style.css has them. */
static const char style[] = "<style>\n"
                            "svg{font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;font-size:12px}\n"
                            ".card{fill:#fff;stroke:#e1e5ea}text{fill:#5a6575}.title{fill:#1b2330;font-size:15px;font-"
                            "weight:600}.end{text-anchor:end}"
                            ".mid{text-anchor:middle}.ink{fill:#1b2330}.axis{stroke:#e1e5ea}.mark{stroke:#1b2330;"
                            "stroke-dasharray:4 3;fill:none}"
                            ".dot{fill:#1b2330}.limit{stroke:#b3392f;stroke-dasharray:5 "
                            "4}.line{stroke:#8b95a3;fill:none}.edge{stroke:#fff;stroke-width:.5}\n"
                            ".c0{fill:#4477aa}.c1{fill:#ee6677}.c2{fill:#228833}.c3{fill:#44bb99}.c4{fill:#99ddff}.c5{"
                            "fill:#66ccee}.c6{fill:#ccbb44}"
                            ".c7{fill:#aa3377}.c8{fill:#ee8866}.c9{fill:#eceff3}.c10{fill:#a3abb5}.p1{fill:#66aa88}\n"
                            "@media "
                            "(prefers-color-scheme:dark){.card{fill:#1a2028;stroke:#2b333e}text{fill:#a3aebb}.title,."
                            "ink{fill:#e6eaf0}.axis{stroke:#2b333e}"
                            ".mark{stroke:#fff}.dot{fill:#fff}.edge{stroke:#1a2028}.limit{stroke:#f08a80}.c0{fill:#"
                            "5b8fc4}.c1{fill:#ee7785}.c2{fill:#3fa352}.c6{fill:#d3c455}"
                            ".c7{fill:#c25590}.c9{fill:#222932}.c10{fill:#7a8491}.p1{fill:#66b592}}\n"
                            "</style>\n";

void hr__svg_begin(hr_svg *svg, int height, const char *title, const char *name, const char *description) {
  hr__svg_put(svg,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" "
              "aria-labelledby=\"t d\">\n" HR_REPORT_MARK "\n<title id=\"t\">",
              HR_SVG_WIDTH, height, HR_SVG_WIDTH, height);
  hr__svg_text(svg, title);
  hr__svg_put(svg, ": ");
  hr__svg_text(svg, name);
  hr__svg_put(svg, "</title>\n<desc id=\"d\">");
  hr__svg_text(svg, description);
  hr__svg_put(svg, "</desc>\n");
  if (svg->status == HR_OK) svg->status = hr__string_add(svg->out, style, sizeof style - 1, svg->err);
  hr__svg_put(svg, "<rect class=\"card\" x=\".5\" y=\".5\" width=\"%d\" height=\"%d\" rx=\"10\"/>\n", HR_SVG_WIDTH - 1,
              height - 1);
  hr__svg_label(svg, "title", 16, 25, title);
  hr__svg_label(svg, "end", HR_SVG_WIDTH - 16, 25, name);
}

void hr__svg_end(hr_svg *svg) {
  hr__svg_put(svg, "</svg>\n");
}

void hr__svg_axis_bytes(hr_svg *svg, double most, double bottom, double height) {
  double step = 1;
  while (most / step > 6)
    step *= 2;
  for (double at = 0; at <= most; at += step) {
    char size[HR_SIZE_TEXT];
    double y = bottom - height * at / most;
    hr__svg_put(svg, "<path class=\"axis\" d=\"M%d %.1fH%d\"/>\n", HR_SVG_LEFT, y, HR_SVG_LEFT + HR_SVG_PLOT_WIDTH);
    hr__svg_label(svg, "end", HR_SVG_LEFT - 8, y + 4, hr__size_text((uint64_t)at, size));
  }
}

double hr__svg_legend(hr_svg *svg, double left, double y, const char *class, const char *name, const char *value) {
  char text[160];
  snprintf(text, sizeof text, "%s%s%s", name, *value ? " " : "", value);
  hr__svg_put(svg, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"11\" height=\"11\" rx=\"2\"/>\n", class, left,
              y - 10);
  hr__svg_label(svg, "", left + 16, y, text);
  return left + 16 + 6.4 * (double)hr__text_columns(text) + 16;
}

hr_status hr__svg_make(hr_svg_kind kind, const hr_job *job, const char *name, hr_string *out, hr_error *err) {
  static void (*const draw[HR_SVG_KINDS])(hr_svg *, const hr_job *, const char *) = {hr__svg_memory, hr__svg_layout,
                                                                                     hr__svg_frontier, hr__svg_streams};
  hr_svg svg = {.out = out, .err = err};
  hr__arena_init(&svg.arena);
  draw[kind](&svg, job, name);
  hr__arena_fini(&svg.arena);
  return svg.status;
}
