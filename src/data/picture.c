/* See picture.h. Texts stand above, each in its own lines; below them a panel for every stream, with its channels as
 * lines over time and the borders of patches behind them. */
#include "data/picture.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "text/decode.h"

enum {
  WIDTH = 960,
  LEFT = 150, /* of texts and panels; what they are called stands before that */
  RIGHT = 20, /* free at the right */
  LINE = 20,  /* from one line of text to the next */
  LINE_LETTERS = 96,
  TEXT_LINES = 8, /* of a text; what is more is cut */
  PANEL = 120,    /* height of a stream */
  GAP = 16,       /* between panels */
  SHOWN_CHANNELS = 8,
  LINE_POINTS = 600 /* of a channel, at most */
};

static const char *const colours[SHOWN_CHANNELS] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                                    "#8c564b", "#e377c2", "#7f7f7f", "#17a2b8"};

/* What is being drawn, and where the next thing goes. */
typedef struct drawing {
  const hr_picture *of;
  hr_string *out;
  hr_string mended; /* room for a text as UTF-8 */
  int y;
} drawing;

__attribute__((format(printf, 3, 4))) static hr_status put(drawing *d, hr_error *err, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  int bytes = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return hr__string_add(d->out, text, (size_t)bytes < sizeof text ? (size_t)bytes : sizeof text - 1, err);
}

/* A character of a text, as XML may hold it. */
static hr_status character_put(drawing *d, const char *at, size_t bytes, hr_error *err) {
  const unsigned char *c = (const unsigned char *)at;
  if (*at == '&') return put(d, err, "&amp;");
  if (*at == '<') return put(d, err, "&lt;");
  if (*at == '>') return put(d, err, "&gt;");
  if (*at == '"') return put(d, err, "&quot;");
  if (*c == '\n' || *c == '\t' || *c == '\r') return put(d, err, " ");
  bool none = *c < 0x20 || *c == 0x7f || (bytes == 3 && c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe);
  return none ? put(d, err, "\xef\xbf\xbd") : hr__string_add(d->out, at, bytes, err);
}

static size_t character_bytes(const char *at) {
  unsigned char first = (unsigned char)*at;
  return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
}

/* Bytes of a text that go into one line: up to a newline, or a blank where it would be too long. */
static size_t line_bytes(const char *text, size_t bytes) {
  size_t blank = 0, at = 0;
  for (int letters = 0; at < bytes && letters < LINE_LETTERS; letters++) {
    if (text[at] == '\n') return at;
    if (text[at] == ' ') blank = at;
    at += character_bytes(text + at);
  }
  return at < bytes && blank > 0 ? blank : at;
}

static hr_status name_put(drawing *d, const char *name, int y, hr_error *err) {
  return put(d, err, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"#666\">%s</text>\n", LEFT - 12, y, name);
}

/* `name` is ours; the text is anybody's. */
static hr_status text_put(drawing *d, const char *name, const char *text, const char *colour, hr_error *err) {
  d->mended.count = 0;
  HR_TRY(hr__utf8_mend(text, strlen(text), &d->mended, err));
  HR_TRY(name_put(d, name, d->y, err));
  const char *at = d->mended.data;
  size_t left = d->mended.count;
  for (int line = 0; line < TEXT_LINES && (left > 0 || line == 0); line++) {
    size_t bytes = left > 0 ? line_bytes(at, left) : 0;
    HR_TRY(put(d, err, "<text x=\"%d\" y=\"%d\" fill=\"%s\">", LEFT, d->y, colour));
    for (size_t i = 0; i < bytes; i += character_bytes(at + i))
      HR_TRY(character_put(d, at + i, character_bytes(at + i), err));
    size_t behind = bytes < left && (at[bytes] == ' ' || at[bytes] == '\n');
    at += bytes + behind;
    left -= bytes + behind;
    HR_TRY(put(d, err, "%s</text>\n", left > 0 && line == TEXT_LINES - 1 ? " \xe2\x80\xa6" : ""));
    d->y += LINE;
  }
  return HR_OK;
}

/* A panel: channels of one stream, and the values at its lower and upper end. */
typedef struct panel {
  int64_t first, shown, all; /* channels: the first among those of all streams */
  double low, high;
} panel;

static int64_t all_channels(const hr_asked *asked) {
  int64_t channels = 0;
  for (int i = 0; i < asked->n_streams; i++)
    channels += asked->streams[i].channels;
  return channels;
}

static double value_at(const drawing *d, int64_t channel, int64_t channels, int64_t i) {
  int64_t points = d->of->points;
  double value = (double)d->of->patches[(i / points * channels + channel) * points + i % points];
  return isfinite(value) ? value : 0;
}

static panel panel_of(const drawing *d, int stream, int64_t first, int64_t channels) {
  const hr_asked *asked = d->of->asked;
  int64_t count = asked->streams[stream].channels;
  panel p = {.first = first, .shown = count < SHOWN_CHANNELS ? count : SHOWN_CHANNELS, .all = count};
  for (int64_t c = first; c < first + p.shown; c++)
    for (int64_t i = 0; i < asked->patches * d->of->points; i++) {
      double value = value_at(d, c, channels, i);
      bool begin = c == first && i == 0;
      p.low = begin || value < p.low ? value : p.low;
      p.high = begin || value > p.high ? value : p.high;
    }
  if (!(p.high > p.low)) {
    p.low -= 1;
    p.high += 1;
  }
  return p;
}

static hr_status channel_draw(drawing *d, const panel *p, int64_t channel, int64_t channels, hr_error *err) {
  int64_t all = d->of->asked->patches * d->of->points, step = (all + LINE_POINTS - 1) / LINE_POINTS;
  HR_TRY(
      put(d, err, "<polyline fill=\"none\" stroke-width=\"1\" stroke=\"%s\" points=\"", colours[channel - p->first]));
  for (int64_t i = 0; i < all; i += step) {
    double x = LEFT + ((double)i + 0.5) / (double)all * (WIDTH - LEFT - RIGHT);
    double y = d->y + PANEL - 4 - (value_at(d, channel, channels, i) - p->low) / (p->high - p->low) * (PANEL - 8);
    HR_TRY(put(d, err, "%s%.1f,%.1f", i > 0 ? " " : "", x, y));
  }
  return put(d, err, "\"/>\n");
}

static hr_status borders_draw(drawing *d, hr_error *err) {
  const hr_asked *asked = d->of->asked;
  HR_TRY(put(d, err, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#fafafa\" stroke=\"#ccc\"/>\n", LEFT,
             d->y, WIDTH - LEFT - RIGHT, PANEL));
  for (int64_t i = 1; i < asked->patches; i++) {
    double x = LEFT + (double)i / (double)asked->patches * (WIDTH - LEFT - RIGHT);
    HR_TRY(
        put(d, err, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#ddd\"/>\n", x, d->y, x, d->y + PANEL));
  }
  return HR_OK;
}

static hr_status stream_draw(drawing *d, int stream, int64_t first, int64_t channels, hr_error *err) {
  const hr_asked_stream *of = &d->of->asked->streams[stream];
  panel p = panel_of(d, stream, first, channels);
  HR_TRY(put(d, err, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LEFT - 12, d->y + PANEL / 2));
  d->mended.count = 0;
  HR_TRY(hr__utf8_mend(of->name, strlen(of->name), &d->mended, err));
  for (size_t i = 0; i < d->mended.count; i += character_bytes(d->mended.data + i))
    HR_TRY(character_put(d, d->mended.data + i, character_bytes(d->mended.data + i), err));
  HR_TRY(put(d, err, "</text>\n"));
  if (p.shown < p.all) {
    char shown[64];
    snprintf(shown, sizeof shown, "%d of %lld channels", (int)p.shown, (long long)p.all);
    HR_TRY(name_put(d, shown, d->y + PANEL / 2 + LINE, err));
  }
  HR_TRY(put(d, err, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"#666\" font-size=\"11\">%.3g</text>\n",
             LEFT - 4, d->y + 10, p.high));
  HR_TRY(put(d, err, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"#666\" font-size=\"11\">%.3g</text>\n",
             LEFT - 4, d->y + PANEL, p.low));
  HR_TRY(borders_draw(d, err));
  for (int64_t c = first; c < first + p.shown; c++)
    HR_TRY(channel_draw(d, &p, c, channels, err));
  d->y += PANEL + GAP;
  return HR_OK;
}

static hr_status time_draw(drawing *d, hr_error *err) {
  const hr_asked *asked = d->of->asked;
  double seconds = asked->patch_seconds * (double)asked->patches;
  HR_TRY(put(d, err, "<text x=\"%d\" y=\"%d\" fill=\"#666\">0 s</text>\n", LEFT, d->y));
  return put(d, err, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"#666\">%.4g s, %lld patches</text>\n",
             WIDTH - RIGHT, d->y, seconds, (long long)asked->patches);
}

/* Everything but the first line, which says how high the picture is. */
static hr_status body_draw(drawing *d, hr_error *err) {
  const hr_asked *asked = d->of->asked;
  int64_t channels = all_channels(asked), first = 0;
  d->y = 2 * LINE;
  HR_TRY(text_put(d, "type", asked->type, "#666", err));
  HR_TRY(text_put(d, "subject", asked->subject, "#666", err));
  HR_TRY(text_put(d, "question", asked->question, "#000", err));
  if (asked->expected) HR_TRY(text_put(d, "expected", asked->expected, "#2a7", err));
  HR_TRY(text_put(d, "answer", d->of->answer, "#000", err));
  for (int i = 0; i < asked->n_streams; first += asked->streams[i++].channels)
    HR_TRY(stream_draw(d, i, first, channels, err));
  d->y += LINE / 2;
  return time_draw(d, err);
}

static hr_status draw(drawing *d, hr_string *body, hr_string *out, hr_error *err) {
  d->out = body;
  HR_TRY(body_draw(d, err));
  d->out = out;
  HR_TRY(put(d, err,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
             "font-size=\"14\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
             WIDTH, d->y + LINE));
  HR_TRY(hr__string_add(out, body->data, body->count, err));
  return put(d, err, "</svg>\n");
}

hr_status hr__picture(const hr_picture *picture, hr_string *out, hr_error *err) {
  drawing d = {.of = picture};
  hr_string body = {0};
  hr_status status = draw(&d, &body, out, err);
  hr__string_fini(&body);
  hr__string_fini(&d.mended);
  return status;
}
