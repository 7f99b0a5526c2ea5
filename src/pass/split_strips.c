/* A block that is split by rows: its values are made a strip of rows at a time, each strip in a slice of its own.
 *
 * What needs a value says which rows of it, and these say which rows of what they are made of they need:
 *
 *   rows [f, f + n) of y -> conv 3x3x3 -> rows [f - 1, f + n + 1) of x, zeros beyond its ends -> whatever x is made of
 *
 * back to values that are whole. Whole are those that enter, those that are read by others than such blocks, and those
 * that take much arithmetic, unless all that reads one is a single node, row by row. All else is never there whole: it
 * is made again in every slice that reads it, also in slices of other blocks, with the rows around that a window needs.
 * So of a level of a U-Net there is the result of its convolution, and no norm, no GELU, no interpolation of it.
 *
 * What must be known of all rows before any can be made (hr_op.gather) is taken from the whole where it is there, in
 * the order of sums that there is without splitting; else strip by strip, which gives it to rounding.
 *
 * Same bits: with the statistics of the whole, forward rows have the bits of the whole. Gradients of what several
 * strips read, and of weights, are sums over strips, in another order than over the whole: they agree to rounding.
 */
#include <inttypes.h>

#include "op/pointwise.h"
#include "op/slice.h"
#include "pass/split.h"

/* Operations of an element: from there on a value is kept rather than made again. In 16 bits a GPU writes and reads an
 * element in about the time of as many. */
enum { DEAR = 512 };

static hr_id whole_of(const hr_splitter *s, hr_id value) {
  return s->joined[value] == HR_NONE ? value : s->joined[value];
}

/* Those that lie in both. */
static hr_rows rows_common(hr_rows a, hr_rows b) {
  int64_t first = a.first > b.first ? a.first : b.first, end_a = a.first + a.count, end_b = b.first + b.count;
  int64_t end = end_a < end_b ? end_a : end_b;
  return (hr_rows){first, end > first ? end - first : 0};
}

static hr_rows rows_around(hr_rows a, hr_rows b) {
  if (a.count == 0 || b.count == 0) return a.count == 0 ? b : a;
  int64_t first = a.first < b.first ? a.first : b.first, end_a = a.first + a.count, end_b = b.first + b.count;
  return (hr_rows){first, (end_a > end_b ? end_a : end_b) - first};
}

/* ---- one strip ---- */

/* Rows of a value in the slice that is being made, 0 beyond its ends: out of the whole, or of the strip that is there.
 */
static hr_id rows_of(hr_splitter *s, hr_id value, hr_rows rows) {
  hr_builder *b = s->b;
  hr_strip *strip = &s->rows.strip[value];
  int axis = s->rows.axis[value];
  int64_t size = b->graph->values[value].desc.dim[axis];
  bool cut_before = strip->slice == b->block && strip->rows.first == rows.first && strip->rows.count == rows.count;
  bool by_need = s->rows.by_need[value];
  hr_rows have = by_need ? strip->rows : (hr_rows){0, size};
  hr_rows take = rows_common(rows_common(rows, have), (hr_rows){0, size});
  bool made_beyond =
      by_need && take.count < rows.count; /* rows beyond the ends may have been made: they are no zeros */
  if (cut_before && !made_beyond) return strip->id;
  hr_id id = by_need ? strip->id : whole_of(s, value);
  bool beside = take.count == 0; /* all of it is padding */
  if (beside) take = (hr_rows){have.first, 1};
  if (take.count != have.count) id = hr__slice(b, id, axis, take.first - have.first, take.count);
  if (beside || take.first != rows.first || take.count != rows.count)
    id = hr__window(b, id, axis, beside ? 1 : rows.first - take.first, rows.count);
  if (!by_need) *strip = (hr_strip){b->block, rows, id};
  return id;
}

/* From the node that makes a value back to what is whole: which rows are needed of what lies between. */
static hr_status needs_find(hr_splitter *s, hr_id value, hr_rows rows, size_t *count) {
  const hr_graph *g = s->b->graph;
  *count = 0;
  if (!s->rows.by_need[value]) return HR_OK;
  s->rows.need[value] = rows;
  for (hr_id n = g->values[value].producer + 1; n-- > 0;) {
    const hr_node *node = &g->nodes[n];
    hr_rows made;
    if (node->n_out == 0 || s->rows.need[node->out[0]].count == 0) continue;
    s->rows.chain[(*count)++] = n;
    if (!hr__split_rows_cut(s, n, s->rows.need[node->out[0]], &made))
      return hr__split_coupled(s, hr__split_node_region(s, n), node);
    for (int i = 0; i < node->n_in; i++) {
      hr_id v = node->in[i];
      if (v == HR_NONE || s->rows.in[i].count == 0) continue;
      hr_rows all = {0, g->values[v].desc.dim[s->rows.axis[v]]}, want = rows_common(s->rows.in[i], all);
      if (want.count == 0) want = (hr_rows){s->rows.in[i].first < 0 ? 0 : all.count - 1, 1}; /* to pad beside it */
      if (s->rows.by_need[v]) s->rows.need[v] = rows_around(s->rows.need[v], want);
    }
  }
  return HR_OK;
}

static hr_status node_strip(hr_splitter *s, hr_id n) {
  hr_builder *b = s->b;
  hr_graph *g = b->graph;
  const hr_node node = g->nodes[n];
  hr_rows made, *need = &s->rows.need[node.out[0]];
  hr_id *in = hr__arena_array(&g->arena, (size_t)node.n_in + 1, sizeof *in);
  if (!in) return hr__nomem(s->err);
  hr__split_rows_cut(s, n, *need, &made);
  need->count = 0;
  for (int i = 0; i < node.n_in; i++) {
    in[i] = node.in[i];
    if (in[i] == HR_NONE) continue;
    in[i] = s->rows.in[i].count == 0 ? whole_of(s, in[i]) : rows_of(s, in[i], s->rows.in[i]);
  }
  if (s->rows.gathered[n] != HR_NONE) in[node.op->gathered] = s->rows.gathered[n];
  b->module = node.module;
  hr_id id = hr__emit(b, node.op, in, node.n_in, node.args ? s->rows.args : NULL);
  HR_TRY(hr__builder_status(b, s->err));
  g->nodes[g->values[id].producer].place = node.place;
  g->values[id].detached = g->values[node.out[0]].detached;
  s->rows.strip[node.out[0]] = (hr_strip){b->block, made, id};
  return HR_OK;
}

/* Rows of a value, made in the slice that is open. */
static hr_status strip_make(hr_splitter *s, hr_id value, hr_rows rows, hr_id *out) {
  size_t count;
  HR_TRY(needs_find(s, value, rows, &count));
  while (count > 0)
    HR_TRY(node_strip(s, s->rows.chain[--count]));
  *out = rows_of(s, value, rows);
  return hr__builder_status(s->b, s->err);
}

/* ---- all strips of a value ---- */

typedef struct strips {
  int64_t count, rows; /* strips; rows of all of them */
} strips;

static strips strips_of(const hr_splitter *s, const hr_region *r, hr_id value) {
  int64_t rows = s->b->graph->values[value].desc.dim[s->rows.axis[value]], slices = s->rules[r->rule].slices;
  return (strips){slices < rows ? slices : rows, rows};
}

/* Rows that strips do not share out evenly go to the first ones. */
static hr_rows strip_rows(const strips *all, int64_t number) {
  int64_t each = all->rows / all->count, more = all->rows % all->count;
  return (hr_rows){number * each + (number < more ? number : more), each + (number < more)};
}

static hr_status slice_open(hr_splitter *s, hr_region *r) {
  hr_builder *b = s->b;
  b->block = r->block;
  hr__block_begin(b, "%s/slice.%d", b->graph->blocks[r->block].name, r->n_slices++);
  HR_TRY(hr__builder_status(b, s->err));
  b->graph->blocks[b->block].recompute = true;
  b->module = b->graph->blocks[r->block].name;
  return HR_OK;
}

/* What is whole is kept whatever is made again of layers: it lies in no block but those around. */
static void block_around(hr_builder *b, const hr_region *r) {
  b->block = b->graph->blocks[r->block].parent;
  b->module = b->graph->blocks[r->block].name;
}

static hr_status whole_make(hr_splitter *s, hr_region *r, hr_id value) {
  hr_builder *b = s->b;
  strips all = strips_of(s, r, value);
  hr_id joined = HR_NONE;
  for (int64_t k = 0; k < all.count; k++) {
    hr_rows rows = strip_rows(&all, k);
    hr_id strip;
    HR_TRY(slice_open(s, r));
    HR_TRY(strip_make(s, value, rows, &strip));
    block_around(b, r);
    joined = hr__join(b, strip, joined, s->rows.axis[value], rows.first, all.rows);
    HR_TRY(hr__builder_status(b, s->err));
  }
  s->joined[value] = joined;
  s->rows.by_need[value] = false;
  s->rows.strip[value].slice = HR_NONE;
  s->rows.work[value] = 0;
  return HR_OK;
}

/* What a node must know of all rows of its operand 0. */
static hr_status gathered_make(hr_splitter *s, hr_region *r, hr_id n) {
  hr_builder *b = s->b;
  const hr_node node = b->graph->nodes[n];
  hr_id x = node.in[0], gathered = HR_NONE;
  int axis = s->rows.axis[x];
  if (!node.op->gather || node.in[node.op->gathered] != HR_NONE) return HR_OK;
  strips all = strips_of(s, r, x);
  if (!s->rows.by_need[x]) {
    block_around(b, r);
    b->module = node.module;
    gathered = node.op->gather(b, &node, whole_of(s, x), HR_NONE, axis, 0);
  }
  for (int64_t k = 0; s->rows.by_need[x] && k < all.count; k++) {
    hr_rows rows = strip_rows(&all, k);
    hr_id strip;
    HR_TRY(slice_open(s, r));
    HR_TRY(strip_make(s, x, rows, &strip));
    b->module = node.module;
    gathered = node.op->gather(b, &node, strip, gathered, axis, rows.first);
    HR_TRY(hr__builder_status(b, s->err));
  }
  s->rows.gathered[n] = gathered;
  return hr__builder_status(b, s->err);
}

/* ---- a block ---- */

static double elements(const hr_graph *g, hr_id value) {
  return (double)hr_desc_count(&g->values[value].desc);
}

static double work_of(hr_splitter *s, hr_id n) {
  const hr_graph *g = s->b->graph;
  const hr_node *node = &g->nodes[n];
  hr_op_view view = hr__node_view(g, node, s->descs);
  hr_cost cost = {0};
  node->op->cost(&view, &cost);
  double work = cost.flops;
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] != HR_NONE && s->rows.by_need[node->in[i]])
      work += s->rows.work[node->in[i]] * elements(g, node->in[i]);
  return work / elements(g, node->out[0]);
}

/* Whether a value is read once, by a node whose rows are each made of the same row of it: nothing of it would be made
 * twice. */
static bool passes_on(hr_splitter *s, hr_id value) {
  const hr_graph *g = s->b->graph;
  if (s->rows.reads[value] != 1) return false;
  hr_id reader = g->values[value].producer + 1;
  int at = -1;
  for (; at < 0; reader++)
    for (int i = 0; i < g->nodes[reader].n_in && at < 0; i++)
      if (g->nodes[reader].in[i] == value) at = i;
  const hr_node *node = &g->nodes[--reader];
  int64_t size = g->values[value].desc.dim[s->rows.axis[value]];
  hr_rows made, all = {0, g->values[node->out[0]].desc.dim[s->rows.axis[node->out[0]]]};
  if (!hr__split_rows_cut(s, reader, all, &made)) return false;
  return s->rows.in[at].first == 0 && s->rows.in[at].count == size && all.count == size;
}

hr_status hr__split_strips(hr_splitter *s, hr_region *r) {
  for (hr_id n = r->first; n <= r->last; n++) {
    if (!s->repeated[n] || hr__split_node_region(s, n) != r) continue;
    HR_TRY(gathered_make(s, r, n));
    hr_id value = s->b->graph->nodes[n].out[0];
    s->rows.by_need[value] = true;
    s->rows.work[value] = work_of(s, n);
    bool dear = s->rows.work[value] > DEAR && !passes_on(s, value);
    if (dear || s->leaves[value]) HR_TRY(whole_make(s, r, value));
  }
  return HR_OK;
}
