/* inputs: batches come from the host's planned memory.
 *
 * What the host writes before a program runs (fields of a batch, of each program its own) gets room below the device:
 * one persistent buffer, "batch", with two slots as large as the largest batch. While a program computes on what it has
 * fetched from one slot, the next batch is read into the other. The fields lie in a slot one behind the other
 * (data/field.h); a program fetches each at its beginning and waits for it before its first reader. Which slot it
 * is is told before each run of a program (run/run.h): to the graph both are the first.
 *
 * It is the last pass: where a field is used decides everything else as if the host had written it to the device.
 */
#include <string.h>

#include "data/field.h"
#include "op/transfer.h"
#include "pass/pass.h"

/* The inputs of one program. */
typedef struct fed {
  hr_id program;
  hr_id begin, end; /* its nodes, as they are before others come behind them */
  int count;
  hr_id value[HR_INPUTS];        /* on the device, as the passes before know it */
  hr_id first_reader[HR_INPUTS]; /* node; HR_NONE: nobody reads it */
  hr_id fetched[HR_INPUTS];      /* value that its readers are to read */
  hr_id least, most;             /* of value[] */
} fed;

static bool is_input(const hr_graph *g, hr_id v) {
  if (g->values[v].producer != HR_NONE || g->values[v].base != HR_NONE) return false;
  const hr_buffer *buffer = &g->buffers[g->values[v].buffer];
  return buffer->role == HR_ROLE_INPUT && !buffer->persistent;
}

static int input_find(const fed *f, hr_id value) {
  int i = value < f->least || value > f->most ? f->count : 0; /* hardly any operand is an input */
  while (i < f->count && f->value[i] != value)
    i++;
  return i;
}

static hr_status inputs_find(const hr_graph *g, fed *programs, hr_error *err) {
  for (hr_id v = 0; v < g->n_values; v++) {
    if (!is_input(g, v)) continue;
    fed *f = &programs[g->buffers[g->values[v].buffer].program];
    if (f->count == HR_INPUTS)
      return hr__fail(err, HR_FAILURE, g->programs[f->program].name, NULL, "a program has at most %d inputs",
                      HR_INPUTS);
    f->first_reader[f->count] = f->fetched[f->count] = HR_NONE;
    if (f->count == 0) f->least = v;
    f->most = v;
    f->value[f->count++] = v;
  }
  return HR_OK;
}

static void readers_find(const hr_graph *g, fed *f) {
  int missing = f->count;
  for (hr_id n = f->begin; n < f->end && missing > 0; n++)
    for (int k = 0; k < g->nodes[n].n_in; k++) {
      int i = input_find(f, g->nodes[n].in[k]);
      if (i == f->count || f->first_reader[i] != HR_NONE) continue;
      f->first_reader[i] = n;
      missing--;
    }
}

/* Fields of a program's batch, as data/field.h places them. */
static size_t inputs_place(const hr_graph *g, const fed *f, size_t begin[HR_FIELDS]) {
  hr_fields fields = {.count = f->count};
  for (int i = 0; i < f->count; i++)
    fields.list[i].desc = g->values[f->value[i]].desc;
  return hr__fields_place(&fields, begin);
}

/* Makes every reader of an input read what was fetched. */
static void readers_turn(hr_builder *b, const fed *f) {
  hr_graph *g = b->graph;
  for (hr_id n = f->begin; n < f->end; n++) {
    hr_node *node = &g->nodes[n];
    hr_id *own = NULL; /* lists may belong to the graph that this one is a copy of */
    for (int k = 0; k < node->n_in; k++) {
      int i = input_find(f, node->in[k]);
      if (i == f->count) continue;
      if (!own) own = hr__arena_array(&g->arena, (size_t)node->n_in, sizeof *own);
      if (!own) {
        b->status = hr__nomem(&b->error);
        return;
      }
      if (node->in != own) memcpy(own, node->in, (size_t)node->n_in * sizeof *own);
      own[k] = f->fetched[i];
      node->in = own;
    }
  }
}

/* Nodes that go between others, in the order of their places. */
typedef struct inserting {
  hr_id *before; /* of each appended node */
  size_t count;
} inserting;

/* Fetches stand at the beginning of the program. */
static void fetches_emit(hr_builder *b, fed *f, const hr_id below[HR_INPUTS], hr_id started[HR_INPUTS],
                         inserting *places) {
  for (int i = 0; i < f->count && b->status == HR_OK; i++) {
    if (f->first_reader[i] == HR_NONE) continue;
    hr__module(b, "batch.%s", b->graph->values[f->value[i]].name);
    started[i] = hr__fetch(b, below[i], f->value[i], false);
    places->before[places->count++] = f->begin;
  }
}

/* Each wait stands right before the first reader. */
static void waits_emit(hr_builder *b, fed *f, const hr_id below[HR_INPUTS], const hr_id started[HR_INPUTS],
                       inserting *places) {
  int order[HR_INPUTS], count = 0;
  for (int i = 0; i < f->count; i++) {
    int at = count;
    if (f->first_reader[i] == HR_NONE) continue;
    for (; at > 0 && f->first_reader[order[at - 1]] > f->first_reader[i]; at--)
      order[at] = order[at - 1];
    order[at] = i;
    count++;
  }
  for (int k = 0; k < count && b->status == HR_OK; k++) {
    int i = order[k];
    hr__module(b, "batch.%s", b->graph->values[f->value[i]].name);
    f->fetched[i] = hr__wait(b, started[i], below[i], HR_NONE);
    places->before[places->count++] = f->first_reader[i];
  }
}

static void program_feed(hr_builder *b, fed *f, hr_id batch, inserting *places) {
  hr_graph *g = b->graph;
  size_t begin[HR_FIELDS];
  hr_id below[HR_INPUTS], started[HR_INPUTS];
  inputs_place(g, f, begin);
  readers_find(g, f);
  b->program = f->program;
  b->phase = HR_FORWARD;
  b->block = HR_NONE;
  for (int i = 0; i < f->count && b->status == HR_OK; i++) {
    hr_value value = g->values[f->value[i]];
    below[i] = hr__view_as(b, batch, begin[i], value.name, value.desc);
    hr__program_set_input(b, value.name, below[i]);
  }
  fetches_emit(b, f, below, started, places);
  waits_emit(b, f, below, started, places);
  if (b->status == HR_OK) readers_turn(b, f);
}

static hr_status programs_feed(hr_builder *b, fed *programs, size_t slot_bytes, hr_error *err) {
  hr_graph *g = b->graph;
  hr_id before[2 * HR_PROGRAMS * HR_INPUTS];
  inserting places = {.before = before};
  b->program = 0;
  hr_id batch =
      hr__persistent(b, HR_BATCH, HR_ROLE_INPUT, hr__desc1(HR_U8, HR_BATCH_SLOTS * (int64_t)slot_bytes), (hr_init){0});
  HR_TRY(hr__builder_status(b, err));
  g->buffers[g->values[batch].buffer].home = HR_TIER_HOST;
  for (hr_id p = 0; p < g->n_programs; p++)
    program_feed(b, &programs[p], batch, &places);
  HR_TRY(hr__builder_status(b, err));
  return hr__graph_insert(g, before, places.count, err);
}

hr_status hr__pass_inputs(hr_builder *b, const hr_recipe *recipe, const hr_choices *choices, hr_error *err) {
  (void)recipe;
  (void)choices;
  fed programs[HR_PROGRAMS];
  size_t most = 0;
  for (hr_id p = 0; p < b->graph->n_programs; p++)
    programs[p] = (fed){.program = p,
                        .begin = b->graph->programs[p].first,
                        .end = b->graph->programs[p].first + b->graph->programs[p].count};
  HR_TRY(inputs_find(b->graph, programs, err));
  for (hr_id p = 0; p < b->graph->n_programs; p++) {
    size_t begin[HR_FIELDS], bytes = inputs_place(b->graph, &programs[p], begin);
    if (bytes > most) most = bytes;
  }
  return most == 0 ? HR_OK : programs_feed(b, programs, most, err);
}
