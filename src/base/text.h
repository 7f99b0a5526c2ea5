/* Text for people: sizes, seconds, escapes, terminal facts. */
#ifndef HR_BASE_TEXT_H
#define HR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { HR_SIZE_TEXT = 24 };

/* "512 B", "1.50 KiB", "3.21 GiB"; returns `out`. */
const char *hr__size_text(uint64_t bytes, char out[HR_SIZE_TEXT]);

/* "338.6 ms", "12.40 s"; returns `out`. */
const char *hr__seconds_text(double seconds, char out[HR_SIZE_TEXT]);

/* Parses "1073741824", "512MiB", "1.5 GB", "8G" (G = GiB, GB = 10^9, GiB = 2^30, no unit = bytes). False when
 * malformed, negative or above 2^62. */
bool hr__size_parse(const char *text, uint64_t *bytes);

/* Copies text with control bytes and invalid UTF-8 shown as \xNN; always NUL-terminated; cut at `capacity`. */
void hr__text_escape(const char *text, size_t bytes, char *out, size_t capacity);

/* Columns that UTF-8 text takes on a terminal: East Asian characters and pictures two, combining ones none. */
size_t hr__text_columns(const char *text);

/* Bytes of UTF-8 text that fit into so many columns, from its beginning. */
size_t hr__text_fit(const char *text, size_t columns);

/* Writes text, breaking it between words where a line would be longer than `columns`. `column`: where the cursor is
 * now; further lines begin behind `indent` blanks, as do those after a line break of the text's own. An option and the
 * word behind it ("--set a=b") stay together, and so does a command ("headroom plan ..."), which is to be copied. */
void hr__text_wrap(const char *text, size_t column, size_t indent, size_t columns, FILE *to);

/* Whether a text ends in `ending`. */
bool hr__text_ends(const char *text, const char *ending);

/* A path in place without what says nothing: "a//b/./" becomes "a/b". ".." stays, and so does "./" at the beginning,
 * which says that it is no name. */
void hr__path_clean(char *path);

/* Edit distance, for "did you mean". */
size_t hr__text_distance(const char *a, const char *b);

/* Whether a pattern fits a dotted name ("model.layers.0.self_attn.q_proj.weight"): it must cover whole components, one
 * or several in a row; `*` stands for any text, dots included. "q_proj", "layers.0", "layers.*.mlp" and "*norm" fit
 * where a person would expect it. */
bool hr__name_matches(const char *name, const char *pattern);

typedef enum hr_color_mode { HR_COLOR_AUTO, HR_COLOR_ALWAYS, HR_COLOR_NEVER } hr_color_mode;
/* Whether to colour what goes to `stream` (NO_COLOR, TERM=dumb, isatty respected under AUTO). */
bool hr__text_colors(hr_color_mode mode, FILE *stream);

#endif
