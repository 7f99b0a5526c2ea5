/* The whole terminal, for a command that draws pages and takes keys. What was on it comes back when it is closed, and
 * when a signal ends or pauses the program: INT, TERM, HUP and TSTP are taken while it is open, and given by
 * hr__screen_wait.
 *
 * Only lines that have changed are written: a page a second over a slow line is little. */
#ifndef HR_CLI_SCREEN_H
#define HR_CLI_SCREEN_H

#include <signal.h>
#include <termios.h>

#include "base/status.h"
#include "cli/page.h"

typedef struct hr_screen {
  bool colors;
  int signals; /* signalfd; -1: closed */
  struct termios before;
  sigset_t mask_before;
  hr_page shown; /* what stands there; no rows: nothing is known */
} hr_screen;

/* Keys are characters, or these. */
enum { HR_KEY_UP = 256, HR_KEY_DOWN, HR_KEY_LEFT, HR_KEY_RIGHT, HR_KEY_HOME, HR_KEY_END, HR_KEY_ESCAPE };

typedef struct hr_screen_event {
  int key;    /* 0: none */
  int signal; /* that asks to end: SIGINT, SIGTERM, SIGHUP; 0: none */
  bool gone;  /* nobody is at the terminal any more */
} hr_screen_event;

/* Standard input and output are a terminal (hr__screen_possible). */
bool hr__screen_possible(void);
hr_status hr__screen_open(hr_screen *screen, bool colors, hr_error *err);
void hr__screen_close(hr_screen *screen);

void hr__screen_size(size_t *rows, size_t *columns);
void hr__screen_draw(hr_screen *screen, const hr_page *page);
/* Waits for a key, a signal or another size of the window, for so many seconds at most. */
hr_screen_event hr__screen_wait(hr_screen *screen, double seconds);

#endif
