/* A line on a terminal that is drawn again and again in one place: progress of a search, of a run.
 *
 * The width is asked for at every drawing, so that the line follows a window whose size changes. What does not fit is
 * left out, the least useful first; the line never reaches the last column, where some terminals would wrap it.
 *
 * Between drawings the cursor stands in the line's first column. A terminal that makes its window narrower and breaks
 * the line into rows keeps the cursor on the first of them, one that cuts the line off has no others: in both the next
 * drawing starts at the right place, and clears all that is below. Two blanks at the front leave room for the cursor
 * and for the ^C of somebody who interrupts.
 */
#ifndef HR_BASE_LINE_H
#define HR_BASE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct hr_line {
  FILE *to;    /* a terminal; NULL: nothing is ever drawn */
  bool drawn;  /* it stands there now */
  double last; /* time of the last drawing */
} hr_line;

/* A piece of the line. */
typedef struct hr_line_part {
  const char *text; /* NULL or empty: left out */
  int worth;        /* of two that do not both fit, the one with more stays */
} hr_line_part;

/* `to` may be NULL, and need not be a terminal: then nothing is drawn. */
void hr__line_begin(hr_line *line, FILE *to);

/* Whether a drawing now would be seen: there is a terminal, and the last one was a tenth of a second ago. */
bool hr__line_due(const hr_line *line);

/* The parts in their order. `share` (0 to 1) is shown as a bar in front of them, where there is room; below 0: none. */
void hr__line_draw(hr_line *line, double share, const hr_line_part *parts, size_t count);

/* Takes the line away: before anything else is written to the terminal, and at the end. */
void hr__line_clear(hr_line *line);

/* Columns of a terminal; 80 where it does not say, or where `to` is none. */
int hr__terminal_columns(FILE *to);

/* A time to wait or waited for: "1:02:03", "4:05". */
enum { HR_CLOCK_TEXT = 32 };
const char *hr__clock_text(double seconds, char out[HR_CLOCK_TEXT]);

#endif
