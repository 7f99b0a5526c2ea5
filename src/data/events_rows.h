/* Recordings that share rows (data.packing): each begins at a multiple of a piece, so that a piece has vectors of one
 * recording only, and a row consists of whole pieces. What is held out has rows of its own, one recording in each.
 */
#ifndef HR_DATA_EVENTS_ROWS_H
#define HR_DATA_EVENTS_ROWS_H

#include "data/bins.h"
#include "data/events.h"

typedef struct hr_event_rows {
  int64_t piece;  /* positions; 0: every recording has a row of its own */
  int64_t pieces; /* of a row */
  hr_bins bins;   /* of the recordings that are trained on, the first `train` ones */
  uint64_t train;
  char remark[128];
} hr_event_rows;

/* lengths[i]: vectors of recording i, from 1 to piece x pieces. */
hr_status hr__event_rows_fill(hr_event_rows *rows, const uint32_t *lengths, uint64_t train, hr_error *err);
void hr__event_rows_fini(hr_event_rows *rows);

/* Recordings of a row, as numbers among all. */
typedef struct hr_event_content {
  const uint64_t *items; /* NULL: one, number `first` */
  uint64_t count, first;
} hr_event_content;
hr_event_content hr__event_content(const hr_event_rows *rows, uint64_t row);
static inline uint64_t hr__event_content_at(const hr_event_content *content, uint64_t i) {
  return content->items ? content->items[i] : content->first;
}

/* Where the recording behind one of n vectors from `first` on begins. */
static inline int64_t hr__event_rows_next(const hr_event_rows *rows, int64_t first, int64_t n) {
  return rows->piece > 0 ? first + (n + rows->piece - 1) / rows->piece * rows->piece : first;
}

/* Writes whose the positions and pieces from `first` on are: of recording `number` of the row, which has n vectors;
 * pieces behind it are nobody's. starts: [6, L], first positions; whose: [pieces]. */
void hr__event_rows_tell(const hr_event_rows *rows, int64_t number, int64_t n, int64_t first, int32_t *starts,
                         int32_t *whose);

#endif
