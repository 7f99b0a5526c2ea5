/* See signals.h. The handler puts the default action back, so that the second signal needs nothing of ours.
 *
 * It runs on a stack of its own: products that a library compiles at run time keep scratch on the heap and let the
 * stack pointer point to it meanwhile, and what the system puts there for a handler would be written over the heap
 * below. The thread that trains is the only one that takes signals (base/threads.h). */
#include "train/signals.h"

#include <signal.h>
#include <stddef.h>

enum { SIGNALS = 3 };
static const int numbers[SIGNALS] = {SIGHUP, SIGINT, SIGTERM};
static const hr_stop_signal meanings[SIGNALS] = {
    {"SIGHUP", HR_HUNG_UP}, {"SIGINT", HR_INTERRUPTED}, {"SIGTERM", HR_TERMINATED}};
static volatile sig_atomic_t caught;
static struct sigaction before[SIGNALS];
static stack_t stack_before;
static _Alignas(64) unsigned char handler_stack[64 << 10]; /* registers of the widest processors take 11 KiB of it */

static void signal_note(int number) {
  if (caught == 0) caught = number;
  struct sigaction standard = {.sa_handler = SIG_DFL};
  for (int i = 0; i < SIGNALS; i++)
    if (before[i].sa_handler != SIG_IGN) sigaction(numbers[i], &standard, NULL);
}

void hr__signals_begin(void) {
  caught = 0;
  struct sigaction ours = {.sa_handler = signal_note, .sa_flags = SA_RESTART | SA_ONSTACK};
  stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
  sigaltstack(&stack, &stack_before);
  sigfillset(&ours.sa_mask); /* a second one waits until the first is noted */
  for (int i = 0; i < SIGNALS; i++)
    sigaction(numbers[i], NULL, &before[i]);
  for (int i = 0; i < SIGNALS; i++)
    if (before[i].sa_handler != SIG_IGN) sigaction(numbers[i], &ours, NULL);
}

int hr__signals_caught(void) {
  return caught;
}

void hr__signals_end(void) {
  for (int i = 0; i < SIGNALS; i++)
    sigaction(numbers[i], &before[i], NULL);
  sigaltstack(&stack_before, NULL);
}

hr_stop_signal hr__signal_meaning(int number) {
  int i = 0;
  while (numbers[i] != number)
    i++;
  return meanings[i];
}
