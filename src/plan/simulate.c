#include "plan/simulate.h"

#include <math.h>

enum { WAY_IN, WAY_OUT, WAYS };
/* A copy's parts, one after the other: until it may begin, before its bytes cross (its start, the disk is read), they
 * cross between host and device, the disk is written. All in seconds but the crossing, which is in bytes. */
enum { PART_HELD, PART_BEFORE, PART_CROSSING, PART_AFTER, PARTS };

/* The copies of one direction, in the order of their starts. */
typedef struct way {
  hr_id copy; /* the node under way; HR_NONE: none */
  hr_id next; /* where to look for the one behind it */
  int part;
  double left[PARTS];
} way;

typedef struct traffic {
  const hr_graph *graph;
  const hr_copy_rates *rates;
  way ways[WAYS];
  double at;     /* seconds; the ways have come so far */
  double *done;  /* of a copy: when it may begin, and once it is done, when that was */
  double *begun; /* (optional) of a copy: when it began */
} traffic;

static hr_tier home_of(const hr_graph *graph, hr_id value) {
  return graph->buffers[graph->values[value].buffer].home;
}

static int way_of(const hr_graph *graph, const hr_node *copy) {
  return home_of(graph, copy->out[0]) == HR_TIER_DEVICE ? WAY_IN : WAY_OUT;
}

/* Takes up the next copy of this way among the nodes before `end`, if there is one. */
static void way_take(traffic *t, int w, hr_id end) {
  way *it = &t->ways[w];
  for (; it->copy == HR_NONE && it->next < end; it->next++) {
    const hr_node *node = &t->graph->nodes[it->next];
    if (node->op->transfer != HR_TRANSFER_START || way_of(t->graph, node) != w) continue;
    hr_tier from = home_of(t->graph, node->in[0]), to = home_of(t->graph, node->out[0]);
    double bytes = (double)hr_desc_bytes(&t->graph->values[node->in[0]].desc);
    it->copy = it->next;
    it->part = PART_HELD;
    it->left[PART_HELD] = fmax(t->done[it->copy] - t->at, 0);
    it->left[PART_BEFORE] = t->rates->overhead_seconds;
    if (from == HR_TIER_DISK) it->left[PART_BEFORE] += bytes / t->rates->disk_read_bytes_per_second;
    it->left[PART_CROSSING] = bytes;
    it->left[PART_AFTER] = to == HR_TIER_DISK ? bytes / t->rates->disk_write_bytes_per_second : 0;
  }
}

static bool crossing(const way *it) {
  return it->copy != HR_NONE && it->part == PART_CROSSING;
}

/* Goes on until the next part of a copy ends; false: there is no copy. Bytes that cross both ways at once cross at the
 * lower rate. */
static bool traffic_step(traffic *t) {
  bool both = crossing(&t->ways[WAY_IN]) && crossing(&t->ways[WAY_OUT]);
  double rate = both ? t->rates->host_bytes_per_second : t->rates->host_alone_bytes_per_second;
  double seconds[WAYS] = {0}, step = INFINITY;
  for (int w = 0; w < WAYS; w++) {
    way *it = &t->ways[w];
    if (it->copy == HR_NONE) continue;
    seconds[w] = it->left[it->part] / (it->part == PART_CROSSING ? rate : 1);
    step = fmin(step, seconds[w]);
  }
  if (step == INFINITY) return false;
  t->at += step;
  for (int w = 0; w < WAYS; w++) {
    way *it = &t->ways[w];
    if (it->copy == HR_NONE) continue;
    if (seconds[w] > step) {
      it->left[it->part] -= step * (it->part == PART_CROSSING ? rate : 1);
      continue;
    }
    if (it->part == PART_HELD && t->begun) t->begun[it->copy] = t->at;
    if (++it->part == PARTS) {
      t->done[it->copy] = t->at;
      it->copy = HR_NONE;
    }
  }
  return true;
}

/* Lets the copies that start before node `end` go on until `copy` of way `w` is done; HR_NONE: until all are. Those
 * that start later begin no earlier than that, so nothing of it depends on them. */
static void traffic_run(traffic *t, int w, hr_id copy, hr_id end) {
  const way *its = &t->ways[w];
  do {
    way_take(t, WAY_IN, end);
    way_take(t, WAY_OUT, end);
    if (its->next > copy && its->copy != copy) return;
  } while (traffic_step(t));
}

double hr__simulate_spans(const hr_graph *graph, hr_id program, const hr_rates *rates, double *seconds_of_node,
                          double *done, double *begun) {
  const hr_program *p = &graph->programs[program];
  const way none = {.copy = HR_NONE, .next = p->first};
  traffic t = {.graph = graph, .rates = &rates->copies, .ways = {none, none}, .done = done, .begun = begun};
  double now = 0, host = 0; /* until when the device computes, and until when the host does */
  for (hr_id n = p->first; n < p->first + p->count; n++) {
    const hr_node *node = &graph->nodes[n];
    bool aside = node->place == HR_ON_HOST && rates->kind != HR_CPU;
    if (begun && node->op->transfer != HR_TRANSFER_START)
      begun[n] = aside && node->op->transfer == HR_TRANSFER_NONE ? fmax(host, now) : now;
    if (node->op->transfer == HR_TRANSFER_START) {
      done[n] = fmax(host, now);
      seconds_of_node[n] = 0;
    } else if (node->op->transfer == HR_TRANSFER_WAIT) {
      hr_id copy = graph->values[node->in[0]].producer;
      traffic_run(&t, way_of(graph, &graph->nodes[copy]), copy, n);
      seconds_of_node[n] = fmax(done[copy] - now, 0);
      now += seconds_of_node[n];
    } else if (aside) {
      host = done[n] = fmax(host, now) + seconds_of_node[n];
    } else {
      now += seconds_of_node[n];
    }
  }
  traffic_run(&t, WAY_IN, HR_NONE, p->first + p->count);
  return fmax(host, now);
}

double hr__simulate(const hr_graph *graph, hr_id program, const hr_rates *rates, double *seconds_of_node,
                    double *done) {
  return hr__simulate_spans(graph, program, rates, seconds_of_node, done, NULL);
}
