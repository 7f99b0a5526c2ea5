/* Which steps of a program are chains (pointwise_chain.h), found when it is made ready. */
#include "op/pointwise_parts.h"

/* Whether a link can round as this step does. */
static bool link_rounds(const hr_ready *ready, int s) {
  return ready->round[s] != HR_F16 && (ready->round[s] != HR_BF16 || ready->narrow);
}

/* Which operand of a step may be the value so far of a chain, `from`; -1: none. */
static int link_operand(const hr_ready *ready, int s, int from) {
  const hr_step *step = &ready->args->step[s];
  for (int i = 0; i < 2 && link_rounds(ready, s); i++) {
    if (!hr__step_reads(step, i) || step->from[i] != from || hr__link_kind(step, i) == HR_LINK_NONE) continue;
    int other = hr__link_other(step, i);
    if (other < 0 || step->from[other] != from) return i;
  }
  return -1;
}

/* Whether anything but step `next` reads the result of step s. */
static bool read_elsewhere(const hr_pointwise_args *args, int s, int next) {
  bool read = false;
  for (int t = s + 1; t < args->n_steps; t++)
    for (int i = 0; i < 3; i++)
      read |= t != next && hr__step_reads(&args->step[t], i) && args->step[t].from[i] == args->n_in + s;
  for (int j = 0; j < args->n_out; j++)
    read |= args->result[j].from == args->n_in + s;
  return read;
}

/* Operands of a chain are all there before it begins. One that only step s reads may have been given the place of a
 * value that was read for the last time by a step before it, from `begin` on: then s cannot be of the same chain. */
static bool places_differ(const hr_ready *ready, int begin, int s, int value) {
  const hr_pointwise_args *args = ready->args;
  if (value >= args->n_in || ready->in_order[value]) return true;
  for (int t = 0; t < s; t++)
    for (int i = 0; i < 3; i++)
      if (hr__step_reads(&args->step[t], i) && args->step[t].from[i] == value) return true; /* its place is its own */
  for (int t = begin; t < s; t++) {
    if (ready->kept[t] && ready->place[args->n_in + t] == ready->place[value]) return false;
    for (int i = 0; i < 3; i++)
      if (hr__step_reads(&args->step[t], i) && ready->place[args->step[t].from[i]] == ready->place[value]) return false;
  }
  return true;
}

static bool link_follows(const hr_ready *ready, int begin, int s) {
  const hr_pointwise_args *args = ready->args;
  int own = s < args->n_steps ? link_operand(ready, s, args->n_in + s - 1) : -1;
  int other = own >= 0 ? hr__link_other(&args->step[s], own) : -1;
  return own >= 0 && (other < 0 || places_differ(ready, begin, s, args->step[s].from[other]));
}

/* All of a link but for what differs from tile to tile. */
static void link_make(hr_ready *ready, int s, bool first) {
  const hr_step *step = &ready->args->step[s];
  int own = first ? 0 : link_operand(ready, s, ready->args->n_in + s - 1), other = hr__link_other(step, own);
  ready->other[s] = (int8_t)(other < 0 ? -1 : step->from[other]);
  ready->link[s] =
      (hr_link){.kind = hr__link_kind(step, own), .rounds = ready->round[s] == HR_BF16, .p = step->p, .q = step->q};
}

void hr__chains_find(hr_ready *ready) {
  const hr_pointwise_args *args = ready->args;
  for (int s = 0; s < args->n_steps;) {
    int count = hr__link_kind(&args->step[s], 0) != HR_LINK_NONE && link_rounds(ready, s);
    while (count > 0 && count < HR_LINKS && link_follows(ready, s, s + count)) {
      ready->kept[s + count - 1] = read_elsewhere(args, s + count - 1, s + count);
      count++;
    }
    for (int l = 0; l < count; l++)
      link_make(ready, s + l, l == 0);
    ready->chain[s] = (uint8_t)count;
    s += count > 0 ? count : 1;
  }
}
