/* See norms.h. */
#include "train/norms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* A parameter's kind: its name with a star in place of every number. */
static void tag_make(const char *name, char *out, size_t capacity) {
  size_t used = (size_t)snprintf(out, capacity, "gradients/");
  for (const char *at = name; *at && used + 1 < capacity;) {
    size_t length = strcspn(at, "."), digits = strspn(at, "0123456789");
    bool number = length > 0 && digits == length;
    if (number) out[used++] = '*';
    for (size_t i = 0; !number && i < length && used + 1 < capacity; i++)
      out[used++] = at[i];
    at += length;
    if (*at && used + 1 < capacity) out[used++] = *at++;
  }
  out[used] = 0;
}

/* The parameter that a gradient is of. */
static const char *parameter_of(const hr_graph *graph, hr_id gradient) {
  for (size_t v = 0; v < graph->n_values; v++)
    if (graph->values[v].trained && graph->values[v].gradient == gradient) return graph->values[v].name;
  return "others";
}

static hr_status group_find(hr_norms *n, const char *name, size_t *out, hr_error *err) {
  char tag[256];
  tag_make(name, tag, sizeof tag);
  for (*out = 0; *out < n->n_groups; ++*out)
    if (strcmp(n->tags[*out], tag) == 0) return HR_OK;
  n->tags[n->n_groups] = hr__arena_text(&n->arena, tag);
  return n->tags[n->n_groups++] ? HR_OK : hr__nomem(err);
}

/* Of the update where it is a program of its own, else of the step: the gradients are the same in every bucket. */
static const hr_node *squares_node(const hr_session *s) {
  const hr_graph *graph = s->options->plan->graph;
  hr_id value = s->update.program != HR_NONE ? s->update.grad_squares : s->micro[0].first.grad_squares;
  return value == HR_NONE || graph->values[value].producer == HR_NONE ? NULL
                                                                      : &graph->nodes[graph->values[value].producer];
}

static hr_status norms_fill(const hr_session *s, hr_norms *n, const hr_node *node, hr_error *err) {
  n->count = (size_t)node->n_in;
  n->squares = hr__arena_array(&n->arena, n->count, sizeof *n->squares);
  n->values = hr__arena_array(&n->arena, n->count, sizeof *n->values);
  n->tags = hr__arena_array(&n->arena, n->count, sizeof *n->tags);
  n->group = hr__arena_array(&n->arena, n->count, sizeof *n->group);
  if (!n->squares || !n->values || !n->tags || !n->group) return hr__nomem(err);
  for (size_t i = 0; i < n->count; i++)
    HR_TRY(group_find(n, parameter_of(s->options->plan->graph, node->in[i]), &n->group[i], err));
  return HR_OK;
}

hr_status hr__norms_open(const hr_session *s, hr_norms *out, hr_error *err) {
  static const char key[] = "training.gradient_norms";
  const hr_recipe *recipe = s->options->recipe;
  *out = (hr_norms){0};
  if (!hr__recipe_has(recipe, key)) return HR_OK;
  if (!hr__recipe_bool(recipe, "training.tensorboard"))
    return hr__recipe_fail(recipe, key, "set training.tensorboard: true, or leave it out", err,
                           "histograms of gradients are written for TensorBoard alone");
  const hr_node *node = squares_node(s);
  if (!node) return hr__fail(err, HR_FAILURE, key, NULL, "the plan does not tell norms of single gradients");
  hr_status status = norms_fill(s, out, node, err);
  if (status == HR_OK)
    out->every = hr__recipe_int(recipe, key);
  else
    hr__norms_close(out);
  return status;
}

void hr__norms_close(hr_norms *n) {
  hr__arena_fini(&n->arena);
  *n = (hr_norms){0};
}

hr_status hr__norms_put(hr_norms *n, hr_session *s, int64_t step, const hr_step_result *result, hr_board *board,
                        hr_error *err) {
  if (n->every == 0 || step % n->every != 0 || result->skipped || result->grad_squares == HR_NONE || !board)
    return HR_OK;
  double scale = result->loss_scale > 0 ? result->loss_scale : 1;
  HR_TRY(hr__run_read(s->run, result->grad_squares, 0, n->squares, n->count * sizeof *n->squares, err));
  for (size_t g = 0; g < n->n_groups; g++) {
    size_t count = 0;
    for (size_t i = 0; i < n->count; i++)
      if (n->group[i] == g) n->values[count++] = sqrt(n->squares[i]) / scale;
    hr__board_histogram(board, hr__calendar_now(), step, n->tags[g], n->values, count);
  }
  return HR_OK;
}
