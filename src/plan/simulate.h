/* The time of a program that computes and copies side by side. */
#ifndef HR_PLAN_SIMULATE_H
#define HR_PLAN_SIMULATE_H

#include "graph/graph.h"
#include "plan/rates.h"

/* Runs the nodes of a program on four streams: computing in order, copies in and copies out each in the order of their
 * start, and, beside a GPU, nodes on the host, which begin behind the computing before them; a copy begins behind
 * both, and moves at the lower rate while the other direction is busy too. A start takes no time of its own; a wait
 * takes what is left of its copy, which is written to its place in seconds_of_node (per graph node; those of all other
 * nodes are given). done[]: room for one number per graph node. Returns the seconds until all is done. */
double hr__simulate(const hr_graph *graph, hr_id program, const hr_rates *rates, double *seconds_of_node, double *done);
/* The same, and when each began: begun[] has room for one number per graph node (may be NULL). Of a copy that is when
 * its stream is free for it; it is over at done[]. */
double hr__simulate_spans(const hr_graph *graph, hr_id program, const hr_rates *rates, double *seconds_of_node,
                          double *done, double *begun);

#endif
