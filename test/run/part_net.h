/* A two-layer net with a mean squared error, planned for the CPU: what the tests of this folder run. */
#ifndef HR_TEST_RUN_NET_H
#define HR_TEST_RUN_NET_H

#include "run/run.h"

typedef struct net {
  hr_graph *graph;
  hr_plan *plan;
  hr_device *device;
  hr_rates rates;
  hr_id program;
  hr_id x, t, first, second; /* inputs [4, 8], weights [16, 8] and [8, 16] */
  hr_id loss;
} net;

void net_open(net *n, hr_dtype dtype); /* fails the test on any error */
void net_close(net *n);
hr_run *net_run(net *n, hr_run_options options);
void net_fill(net *n, hr_run *run); /* inputs */

#endif
