/* Which blocks are split, and in which units of the batch.
 *
 * Where the batch lies follows from the data flow (graph/batch.h). A block can be split when all of its nodes that work
 * on the batch keep units apart. Units are as small as they can be: an encoder that reads B samples of k texts as B k
 * rows is cut between texts, not only between samples.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "pass/split.h"

hr_region *hr__split_region(const hr_splitter *s, hr_id block) {
  if (block == HR_NONE || block >= s->n_blocks || s->region_of[block] == 0) return NULL;
  return &s->regions[s->region_of[block] - 1];
}

hr_region *hr__split_node_region(const hr_splitter *s, hr_id n) {
  return hr__split_region(s, s->b->graph->nodes[n].block);
}

hr_batch hr__split_units(const hr_splitter *s, const hr_region *r, hr_id value) {
  hr_id producer = s->b->graph->values[value].producer;
  if (producer < s->n_nodes && s->repeated[producer] && hr__split_node_region(s, producer) == r) return s->unit[value];
  hr_batch whole = s->batch[value];
  return whole.axis < 0 ? HR_NO_BATCH : (hr_batch){whole.axis, whole.rows / r->parts};
}

hr_status hr__split_coupled(const hr_splitter *s, const hr_region *r, const hr_node *node) {
  return hr__recipe_fail_at(s->recipe, HR_SPLIT_KEY, s->rules[r->rule].node,
                            "split a smaller block, or take fewer samples", s->err,
                            "%s cannot be split: %s in %s couples the batch", s->b->graph->blocks[r->block].name,
                            node->op->name, node->module);
}

/* ---- whether, and in which units ---- */

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static bool node_inside(const hr_splitter *s, const hr_region *r, hr_id n) {
  return hr__block_within(s->b->graph, s->b->graph->nodes[n].block, r->block);
}

static bool made_inside(const hr_splitter *s, const hr_region *r, hr_id value) {
  hr_id producer = s->b->graph->values[value].producer;
  return producer < s->n_nodes && producer >= r->first && producer <= r->last && node_inside(s, r, producer);
}

/* Parts that a sample has in all that enters. */
static int64_t parts_common(const hr_splitter *s, const hr_region *r) {
  const hr_graph *g = s->b->graph;
  int64_t parts = 0;
  for (hr_id n = r->first; n <= r->last; n++) {
    if (!node_inside(s, r, n)) continue;
    for (int i = 0; i < g->nodes[n].n_in; i++) {
      hr_id v = g->nodes[n].in[i];
      if (v != HR_NONE && s->batch[v].axis >= 0 && !made_inside(s, r, v))
        parts = common_divisor(s->batch[v].rows, parts);
    }
  }
  return parts == 0 ? 1 : parts;
}

/* Takes the region's units through its nodes; HR_NONE, or the first node that couples them. */
static hr_id units_follow(hr_splitter *s, hr_region *r) {
  const hr_graph *g = s->b->graph;
  r->units = 0;
  for (hr_id n = r->first; n <= r->last; n++) {
    if (!node_inside(s, r, n)) continue;
    const hr_node *node = &g->nodes[n];
    hr_batch *in = s->operands, *out = s->operands + node->n_in;
    bool works = false;
    for (int i = 0; i < node->n_in; i++) {
      hr_id v = node->in[i];
      in[i] = HR_NO_BATCH;
      if (v == HR_NONE) continue;
      if (made_inside(s, r, v))
        in[i] = s->unit[v];
      else if (s->batch[v].axis >= 0)
        in[i] = (hr_batch){s->batch[v].axis, s->batch[v].rows / r->parts};
      if (in[i].axis < 0) continue;
      int64_t units = g->values[v].desc.dim[in[i].axis] / in[i].rows;
      if (r->units == 0) r->units = units;
      if (units != r->units) return n;
      works = true;
    }
    s->repeated[n] = works;
    for (int j = 0; j < node->n_out; j++)
      out[j] = HR_NO_BATCH;
    hr_op_view view = hr__node_view(g, node, s->descs);
    if (works && !hr__batch_through(node->op, &view, in, out)) return n;
    for (int j = 0; j < node->n_out; j++)
      s->unit[node->out[j]] = out[j];
  }
  return HR_NONE;
}

/* In parts of a sample where that goes, else by samples. HR_NONE in *couples: it can be cut. */
static void batch_try(hr_splitter *s, hr_region *r, hr_id *couples) {
  r->parts = parts_common(s, r);
  *couples = units_follow(s, r);
  if (*couples == HR_NONE || r->parts == 1) return;
  r->parts = 1;
  *couples = units_follow(s, r);
}

static void region_forget(hr_splitter *s, const hr_region *r) {
  for (hr_id n = r->first; n <= r->last && r->first != HR_NONE; n++)
    if (node_inside(s, r, n)) s->repeated[n] = false;
}

/* Along the batch; by rows where it has too few samples, or cannot be cut. False: neither goes, *couples as above. */
static bool region_try(hr_splitter *s, hr_region *r, hr_id *couples) {
  *couples = HR_NONE;
  if (r->first != HR_NONE) batch_try(s, r, couples);
  if (*couples == HR_NONE && r->units >= s->rules[r->rule].slices) return true;
  region_forget(s, r);
  return hr__split_rows_try(s, r);
}

/* Whether the block has anything that the model has named an axis of: it works on frames. */
static bool has_rows(const hr_splitter *s, const hr_region *r) {
  const hr_graph *g = s->b->graph;
  for (hr_id n = r->first; r->first != HR_NONE && n <= r->last; n++)
    if (node_inside(s, r, n) && s->rows.axis[g->nodes[n].out[0]]) return true;
  return false;
}

/* The outermost blocks inside of one that can be split as its rule says, as what is to be written; empty: there are
 * none. */
static void inner_name(hr_splitter *s, const hr_region *r, char *out, size_t capacity) {
  const hr_graph *g = s->b->graph;
  hr_id taken = HR_NONE;
  char slices[24];
  snprintf(slices, sizeof slices, ": %" PRId64, s->rules[r->rule].slices);
  *out = '\0';
  for (hr_id block = 0; block < s->n_blocks; block++) {
    if (block == r->block || !hr__block_within(g, block, r->block)) continue;
    if (taken != HR_NONE && hr__block_within(g, block, taken)) continue;
    hr_region inner = {.block = block, .rule = r->rule, .first = s->spans[block].first, .last = s->spans[block].last};
    hr_id couples;
    bool can = region_try(s, &inner, &couples);
    region_forget(s, &inner);
    if (!can) continue;
    taken = block;
    hr__split_name_list(g->blocks[block].name, slices, out, capacity);
  }
}

static hr_status whole_refuse(hr_splitter *s, const hr_region *r) {
  const hr_split_rule *rule = &s->rules[r->rule];
  char inner[256], remedy[320] = "split the blocks in it, use fewer slices, or raise training.batch_size";
  inner_name(s, r, inner, sizeof inner);
  if (*inner) snprintf(remedy, sizeof remedy, "split the blocks in it: " HR_SPLIT_KEY "={%s}", inner);
  return hr__recipe_fail_at(s->recipe, HR_SPLIT_KEY, rule->node, remedy, s->err,
                            "%s as a whole cannot be split into %" PRId64
                            " slices: it has not as many samples at a time, and does not go frame by frame from its "
                            "beginning to its end",
                            s->b->graph->blocks[r->block].name, rule->slices);
}

static hr_status region_check(hr_splitter *s, hr_region *r) {
  const hr_graph *g = s->b->graph;
  const hr_split_rule *rule = &s->rules[r->rule];
  hr_id couples = HR_NONE;
  if (region_try(s, r, &couples)) return HR_OK;
  if (has_rows(s, r)) return whole_refuse(s, r);
  if (couples != HR_NONE) return hr__split_coupled(s, r, &g->nodes[couples]);
  return hr__recipe_fail_at(s->recipe, HR_SPLIT_KEY, rule->node, "use fewer slices, or raise training.batch_size",
                            s->err, "%s cannot be split into %" PRId64 " slices: its batch has %" PRId64 " row%s",
                            g->blocks[r->block].name, rule->slices, r->units, r->units == 1 ? "" : "s");
}

/* ---- which ---- */

static void spans_find(hr_splitter *s) {
  const hr_graph *g = s->b->graph;
  for (size_t k = 0; k < s->n_blocks; k++)
    s->spans[k].first = HR_NONE;
  for (hr_id n = 0; n < s->n_nodes; n++) {
    for (hr_id block = g->nodes[n].block; block != HR_NONE; block = g->blocks[block].parent) {
      if (s->spans[block].first == HR_NONE) s->spans[block].first = n;
      s->spans[block].last = n;
    }
  }
}

/* The outermost block that a rule names is split as a whole. Parents come before their children. Of blocks that are to
 * be split by choice those stay whole that cannot be, and what lies in them is tried instead. Programs that generate
 * stay whole: their caches are of all samples. */
static hr_status regions_find(hr_splitter *s) {
  const hr_graph *g = s->b->graph;
  for (hr_id block = 0; block < s->n_blocks; block++) {
    if (g->programs[g->blocks[block].program].key.kind == HR_PROGRAM_GENERATE) continue;
    size_t r = hr__split_rule_find(s, g->blocks[block].name);
    const hr_region *around = hr__split_region(s, g->blocks[block].parent);
    if (around) s->region_of[block] = s->region_of[g->blocks[block].parent];
    if (r == s->n_rules) continue;
    for (size_t k = r; k < s->n_rules; k++)
      s->rules[k].beaten |= hr__name_matches(g->blocks[block].name, s->rules[k].node->key);
    s->rules[r].used |= around == NULL;
    if (around || s->rules[r].slices == 1) continue;
    hr_region *region = &s->regions[s->n_regions];
    *region = (hr_region){.block = block, .rule = r, .first = s->spans[block].first, .last = s->spans[block].last};
    hr_id couples;
    if (s->chosen && !region_try(s, region, &couples)) {
      region_forget(s, region);
      continue;
    }
    s->n_regions++;
    s->region_of[block] = s->n_regions;
  }
  return HR_OK;
}

/* ---- what leaves ---- */

/* Notes that node `reader` (HR_NONE: the host) reads a value. */
static hr_status read_note(hr_splitter *s, hr_id v, hr_id reader) {
  const hr_graph *g = s->b->graph;
  hr_id producer = g->values[v].producer;
  if (producer >= s->n_nodes || !s->repeated[producer]) return HR_OK;
  const hr_region *r = hr__split_node_region(s, producer),
                  *of = reader == HR_NONE ? NULL : hr__split_node_region(s, reader);
  if (!r->by_rows && s->unit[v].axis < 0) return hr__split_coupled(s, r, &g->nodes[producer]);
  if (of == r) return HR_OK;
  if (reader != HR_NONE && reader < r->last)
    return hr__fail(s->err, HR_FAILURE, g->blocks[r->block].name, NULL, "another block's nodes lie between its own");
  bool by_need = r->by_rows && of && of->by_rows && s->repeated[reader];
  s->leaves[v] |= !by_need;
  return HR_OK;
}

static hr_status reads_find(hr_splitter *s) {
  const hr_graph *g = s->b->graph;
  for (hr_id n = 0; n < s->n_nodes; n++)
    for (int i = 0; i < g->nodes[n].n_in; i++)
      if (g->nodes[n].in[i] != HR_NONE) HR_TRY(read_note(s, g->nodes[n].in[i], n));
  for (size_t p = 0; p < g->n_programs; p++)
    for (int i = 0; i < g->programs[p].n_outputs; i++)
      HR_TRY(read_note(s, g->programs[p].output[i].value, HR_NONE));
  return HR_OK;
}

hr_status hr__split_regions(hr_splitter *s) {
  spans_find(s);
  HR_TRY(hr__batch_follow(s->b->graph, s->batch, NULL, s->err));
  HR_TRY(regions_find(s));
  if (!s->chosen) HR_TRY(hr__split_heads(s));
  if (!s->chosen) HR_TRY(hr__split_rules_check_used(s));
  for (size_t r = 0; r < s->n_regions; r++)
    HR_TRY(region_check(s, &s->regions[r]));
  return reads_find(s);
}
