/* Minimum vertex cut: see cut.h. Every vertex becomes two ends joined by an arc of its cost; flow is sent along
 * shortest augmenting paths, which is quick for the tens of values a block has. */
#include "pass/checkpoint_cut.h"

/* One direction of an arc; its reverse is the arc next to it (number ^ 1). */
typedef struct arc {
  uint32_t to;
  uint32_t next; /* of the same tail */
  uint64_t room;
} arc;

#define NO_ARC UINT32_MAX

/* Ends: 2v where vertex v is entered, 2v + 1 where it is left, then the source and the sink. */
typedef struct flow {
  arc *arcs;
  uint32_t *first; /* per end */
  uint32_t *from;  /* per end: arc by which a search reached it */
  uint32_t *queue;
  uint32_t n_arcs, n_ends;
} flow;

hr_status hr__cut_init(hr_cut *cut, hr_arena *arena, size_t n_vertices, hr_error *err) {
  *cut = (hr_cut){.arena = arena, .n_vertices = n_vertices};
  cut->cost = hr__arena_array(arena, n_vertices, sizeof *cut->cost);
  cut->source = hr__arena_array(arena, n_vertices, sizeof *cut->source);
  cut->sink = hr__arena_array(arena, n_vertices, sizeof *cut->sink);
  return cut->cost && cut->source && cut->sink ? HR_OK : hr__nomem(err);
}

hr_status hr__cut_edge(hr_cut *cut, uint32_t from, uint32_t to, hr_error *err) {
  if (hr__arena_grow(cut->arena, (void **)&cut->edges, &cut->cap_edges, cut->n_edges, sizeof *cut->edges) != 0)
    return hr__nomem(err);
  cut->edges[cut->n_edges++] = (struct hr_cut_edge){from, to};
  return HR_OK;
}

static void arc_add(flow *f, uint32_t from, uint32_t to, uint64_t room) {
  f->arcs[f->n_arcs] = (arc){to, f->first[from], room};
  f->first[from] = f->n_arcs++;
  f->arcs[f->n_arcs] = (arc){from, f->first[to], 0};
  f->first[to] = f->n_arcs++;
}

static hr_status flow_create(const hr_cut *cut, flow *f, hr_error *err) {
  size_t n = cut->n_vertices;
  *f = (flow){.n_ends = (uint32_t)(2 * n + 2)};
  f->arcs = hr__arena_array(cut->arena, 2 * (3 * n + cut->n_edges), sizeof *f->arcs);
  f->first = hr__arena_array(cut->arena, f->n_ends, sizeof *f->first);
  f->from = hr__arena_array(cut->arena, f->n_ends, sizeof *f->from);
  f->queue = hr__arena_array(cut->arena, f->n_ends, sizeof *f->queue);
  if (!f->arcs || !f->first || !f->from || !f->queue) return hr__nomem(err);
  for (uint32_t e = 0; e < f->n_ends; e++)
    f->first[e] = NO_ARC;
  uint32_t source = f->n_ends - 2, sink = f->n_ends - 1;
  for (uint32_t v = 0; v < n; v++) {
    arc_add(f, 2 * v, 2 * v + 1, cut->cost[v]);
    if (cut->source[v]) arc_add(f, source, 2 * v, HR_CUT_NEVER);
    if (cut->sink[v]) arc_add(f, 2 * v + 1, sink, HR_CUT_NEVER);
  }
  for (size_t e = 0; e < cut->n_edges; e++)
    arc_add(f, 2 * cut->edges[e].from + 1, 2 * cut->edges[e].to, HR_CUT_NEVER);
  return HR_OK;
}

/* Searches breadth first from `start`: along arcs with room, or against them. from[] tells what was reached. */
static void flow_search(flow *f, uint32_t start, bool against) {
  for (uint32_t e = 0; e < f->n_ends; e++)
    f->from[e] = NO_ARC;
  uint32_t head = 0, tail = 0;
  f->queue[tail++] = start;
  while (head < tail) {
    uint32_t at = f->queue[head++];
    for (uint32_t a = f->first[at]; a != NO_ARC; a = f->arcs[a].next) {
      uint32_t to = f->arcs[a].to;
      if (to == start || f->from[to] != NO_ARC || f->arcs[against ? a ^ 1u : a].room == 0) continue;
      f->from[to] = a;
      f->queue[tail++] = to;
    }
  }
}

/* Arcs without limit keep their room, so that it never overflows. */
static void arc_push(flow *f, uint32_t a, uint64_t amount) {
  if (f->arcs[a].room != HR_CUT_NEVER) f->arcs[a].room -= amount;
  if (f->arcs[a ^ 1u].room != HR_CUT_NEVER) f->arcs[a ^ 1u].room += amount;
}

hr_status hr__cut_solve(hr_cut *cut, bool *taken, hr_error *err) {
  flow f;
  HR_TRY(flow_create(cut, &f, err));
  uint32_t source = f.n_ends - 2, sink = f.n_ends - 1;
  for (flow_search(&f, source, false); f.from[sink] != NO_ARC; flow_search(&f, source, false)) {
    uint64_t amount = HR_CUT_NEVER;
    for (uint32_t at = sink; at != source; at = f.arcs[f.from[at] ^ 1u].to)
      if (f.arcs[f.from[at]].room < amount) amount = f.arcs[f.from[at]].room;
    if (amount == HR_CUT_NEVER) return hr__fail(err, HR_FAILURE, "cut", NULL, "a path has nothing that may be cut");
    for (uint32_t at = sink; at != source; at = f.arcs[f.from[at] ^ 1u].to)
      arc_push(&f, f.from[at], amount);
  }
  flow_search(&f, sink, true); /* what can still reach the sink lies behind the cut nearest to it */
  for (uint32_t v = 0; v < cut->n_vertices; v++)
    taken[v] = f.from[2 * v] == NO_ARC && f.from[2 * v + 1] != NO_ARC;
  return HR_OK;
}
