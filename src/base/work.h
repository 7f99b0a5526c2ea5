/* Work that somebody waits for: planning, reading data, making tokens, loading, saving. On a terminal a line comes when
 * it takes longer than a second, with what is done, how much, and the time left; elsewhere a plain line now and then,
 * when it takes longer than ten. It is drawn by a thread of its own, so that it goes on while one part takes long.
 *
 * One thread begins a piece of work, does it, and ends it; whatever it calls meanwhile may say how far it is without
 * knowing of it. Work inside of other work is shown in its place.
 */
#ifndef HR_BASE_WORK_H
#define HR_BASE_WORK_H

#include <stdint.h>
#include <stdio.h>

#include "base/line.h"
#include "base/ticker.h"

enum { HR_WORK_DETAIL = 128 };

typedef struct hr_work {
  FILE *to; /* NULL: nobody waits */
  hr_line line;
  hr_ticker *ticker; /* NULL: nothing is shown */
  const char *what;
  double begun;
  uint64_t done, all;          /* bytes; all 0: not known */
  double share;                /* 0 to 1, where it is not counted in bytes; below 0: not known */
  char detail[HR_WORK_DETAIL]; /* in place of the bytes; "": none */
  struct hr_work *outer;       /* that this thread had begun before */
} hr_work;

/* `to`: where it is shown, NULL: nowhere. `what`: "loading weights"; it stays where it is until the end. `all`: bytes
 * that it will take, 0: not known. The work stays where it is, too. */
void hr__work_begin(hr_work *work, FILE *to, const char *what, uint64_t all);
void hr__work_end(hr_work *work);

/* So many bytes more are done, of the newest work of this thread; without one it does nothing. */
void hr__work_advance(uint64_t bytes);
/* So many bytes more belong to it, as it turns out. */
void hr__work_expect(uint64_t bytes);
/* How far it is: bytes, or a share with words of its own; `what` may become another. */
void hr__work_bytes(hr_work *work, const char *what, uint64_t done, uint64_t all);
void hr__work_detail(hr_work *work, double share, const char *detail);
/* Takes the line of this thread's work away before anything else is written to the terminal. */
void hr__work_clear(void);

#endif
