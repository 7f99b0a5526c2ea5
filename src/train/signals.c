/* See signals.h. The handler puts the default action back, so that the second signal needs nothing of ours. */
#include "train/signals.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t caught;
static struct sigaction before_int, before_term;

static void signal_note(int number) {
  caught = number;
  struct sigaction standard = {.sa_handler = SIG_DFL};
  sigaction(SIGINT, &standard, NULL);
  sigaction(SIGTERM, &standard, NULL);
}

void hr__signals_begin(void) {
  caught = 0;
  struct sigaction ours = {.sa_handler = signal_note, .sa_flags = SA_RESTART};
  sigemptyset(&ours.sa_mask);
  sigaction(SIGINT, &ours, &before_int);
  sigaction(SIGTERM, &ours, &before_term);
}

int hr__signals_caught(void) {
  return caught;
}

void hr__signals_end(void) {
  sigaction(SIGINT, &before_int, NULL);
  sigaction(SIGTERM, &before_term, NULL);
}
