/* The sums pass: a product whose result goes straight into adapters comes behind them and adds to what they make,
 *
 *   y = x Wt (+ residual);  y = y + scale * h Bt     becomes     t = scale * h Bt (+ residual);  y = x Wt + t
 *
 * A product reads what it adds to while it computes; adapters behind it would read all of y once more. In backward,
 * whose nodes were made for the first order, adapters stay before the product. Both orders read the same values there.
 */
#include <string.h>

#include "op/linear.h"
#include "op/lora_up.h"
#include "pass/pass.h"

#define MANY (HR_NONE - 1)
enum { UP_ADD = 2, LINEAR_ADD = 3 };

typedef struct sums {
  hr_graph *g;
  hr_id *reader; /* per value: the only forward node that reads it; HR_NONE, MANY */
  bool *kept;    /* per value: something else needs it: a node behind forward, the host, a view */
  hr_id *behind; /* per node: the product that goes behind it, or HR_NONE */
  bool *leaves;  /* per node: it goes elsewhere */
} sums;

static void readers_find(sums *s) {
  const hr_graph *g = s->g;
  for (hr_id v = 0; v < g->n_values; v++) {
    s->reader[v] = HR_NONE;
    if (g->values[v].base != HR_NONE) s->kept[g->values[v].base] = true;
  }
  for (hr_id n = 0; n < g->n_nodes; n++) {
    const hr_node *node = &g->nodes[n];
    for (int i = 0; i < node->n_in; i++) {
      hr_id v = node->in[i];
      if (v == HR_NONE) continue;
      if (node->phase == HR_FORWARD)
        s->reader[v] = s->reader[v] == HR_NONE ? n : MANY;
      else
        s->kept[v] = true;
    }
  }
  for (size_t p = 0; p < g->n_programs; p++)
    for (int i = 0; i < g->programs[p].n_outputs; i++)
      s->kept[g->programs[p].output[i].value] = true;
}

/* The adapters that add to the result of a node and are all that reads it; HR_NONE: there are none. */
static hr_id adapters_behind(const sums *s, hr_id n) {
  const hr_node *node = &s->g->nodes[n];
  hr_id up = s->reader[node->out[0]];
  if (up == HR_NONE || up == MANY || s->kept[node->out[0]]) return HR_NONE;
  const hr_node *to = &s->g->nodes[up];
  bool adds = to->op == &hr_op_lora_up && to->in[UP_ADD] == node->out[0];
  return adds && to->program == node->program && to->block == node->block ? up : HR_NONE;
}

static hr_status operand_set(hr_graph *g, hr_id node, int at, hr_id value, hr_error *err) {
  size_t count = (size_t)g->nodes[node].n_in;
  hr_id *in = hr__arena_array(&g->arena, count, sizeof *in);
  if (!in) return hr__nomem(err);
  memcpy(in, g->nodes[node].in, count * sizeof *in);
  in[at] = value;
  g->nodes[node].in = in;
  return HR_OK;
}

/* Two nodes with one result each, of one shape, change these. Names stay with the nodes. */
static void results_swap(hr_graph *g, hr_node *a, hr_node *b) {
  hr_value *of_a = &g->values[a->out[0]], *of_b = &g->values[b->out[0]];
  const char *name = of_a->name;
  of_a->name = of_b->name;
  of_b->name = name;
  const hr_id *out = a->out;
  a->out = b->out;
  b->out = out;
}

/* A weight that is unpacked for this product alone goes with it. */
static bool goes_along(const sums *s, hr_id linear, int operand, hr_id *producer) {
  hr_id value = s->g->nodes[linear].in[operand];
  if (value == HR_NONE) return false;
  *producer = s->g->values[value].producer;
  return *producer != HR_NONE && s->g->nodes[*producer].op->fleeting && s->reader[value] == linear;
}

static hr_status linear_turn(sums *s, hr_id linear, hr_error *err) {
  hr_graph *g = s->g;
  hr_id first = adapters_behind(s, linear), last = first, producer;
  if (first == HR_NONE) return HR_OK;
  for (hr_id next = first; next != HR_NONE; next = adapters_behind(s, last))
    last = next;
  HR_TRY(operand_set(g, first, UP_ADD, g->nodes[linear].in[LINEAR_ADD], err));
  results_swap(g, &g->nodes[linear], &g->nodes[last]);
  HR_TRY(operand_set(g, linear, LINEAR_ADD, g->nodes[last].out[0], err));
  s->behind[last] = linear;
  s->leaves[linear] = true;
  for (int i = 0; i < g->nodes[linear].n_in; i++)
    if (goes_along(s, linear, i, &producer)) s->leaves[producer] = true;
  return HR_OK;
}

static hr_status nodes_arrange(const sums *s, hr_error *err) {
  hr_graph *g = s->g;
  size_t count = 0;
  hr_id *order = hr__arena_array(&g->arena, g->n_nodes, sizeof *order), producer;
  if (!order) return hr__nomem(err);
  for (hr_id n = 0; n < g->n_nodes; n++) {
    if (s->leaves[n]) continue;
    order[count++] = n;
    hr_id linear = s->behind[n];
    for (int i = 0; linear != HR_NONE && i < g->nodes[linear].n_in; i++)
      if (goes_along(s, linear, i, &producer)) order[count++] = producer;
    if (linear != HR_NONE) order[count++] = linear;
  }
  return hr__graph_arrange(g, order, count, err);
}

hr_status hr__pass_sums(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)recipe;
  (void)choices;
  hr_graph *g = b->graph;
  sums s = {.g = g,
            .reader = hr__arena_array(&g->arena, g->n_values, sizeof *s.reader),
            .kept = hr__arena_array(&g->arena, g->n_values, sizeof *s.kept),
            .behind = hr__arena_array(&g->arena, g->n_nodes, sizeof *s.behind),
            .leaves = hr__arena_array(&g->arena, g->n_nodes, sizeof *s.leaves)};
  if (!s.reader || !s.kept || !s.behind || !s.leaves) return hr__nomem(err);
  memset(s.behind, 0xff, g->n_nodes * sizeof *s.behind);
  readers_find(&s);
  for (hr_id n = 0; n < g->n_nodes; n++)
    if (g->nodes[n].op == &hr_op_linear && g->nodes[n].phase == HR_FORWARD) HR_TRY(linear_turn(&s, n, err));
  return nodes_arrange(&s, err);
}
