#include "torch/scale.h"

#include <string.h>

static const char REMEDY[] =
    "trace with batch sizes between which nothing but sizes changes, with the same number of steps";

static const char *name_of(const hr_torch_trace *trace, uint32_t name) {
  return trace->events.n_names ? trace->events.names[name] : "";
}

static bool corresponds(const hr_torch_trace *a, const hr_torch_trace *b, size_t at) {
  const hr_torch_event *x = &a->events.items[at], *y = &b->events.items[at];
  return x->kind == y->kind && x->id == y->id && x->stream == y->stream && x->phase == y->phase &&
         strcmp(name_of(a, x->call), name_of(b, y->call)) == 0;
}

static hr_status differ(const hr_torch_trace *a, const hr_torch_trace *b, size_t at, hr_error *err) {
  const char *call = at < a->events.count ? name_of(a, a->events.items[at].call) : "the end";
  const char *other = at < b->events.count ? name_of(b, b->events.items[at].call) : "the end";
  return hr__fail(err, HR_BAD_INPUT, b->path, REMEDY,
                  "its events are not those of %.80s: event %zu is %.60s there, %.60s here", a->path, at,
                  call[0] ? call : "a free", other[0] ? other : "a free");
}

static hr_status pair_check(const hr_torch_trace *a, const hr_torch_trace *b, hr_error *err) {
  if (a->batch == 0 || b->batch == 0)
    return hr__fail(err, HR_BAD_INPUT, a->batch ? b->path : a->path, "trace with --batch",
                    "it does not say its batch size");
  if (a->batch == b->batch)
    return hr__fail(err, HR_BAD_INPUT, b->path, "give traces of several batch sizes", "its batch size is that of %.80s",
                    a->path);
  for (size_t i = 0; i < a->events.count && i < b->events.count; i++)
    if (!corresponds(a, b, i)) return differ(a, b, i, err);
  if (a->events.count == b->events.count) return HR_OK;
  return differ(a, b, a->events.count < b->events.count ? a->events.count : b->events.count, err);
}

static void traces_order(hr_torch_scaling *s, hr_torch_trace *traces) {
  for (size_t i = 0; i < s->count; i++) {
    size_t at = i;
    for (; at > 0 && s->traces[at - 1]->batch > traces[i].batch; at--)
      s->traces[at] = s->traces[at - 1];
    s->traces[at] = &traces[i];
  }
}

/* On the line through two points, nearest to it; not below 0. */
static uint64_t line_at(uint64_t x0, uint64_t y0, uint64_t x1, uint64_t y1, uint64_t x) {
  __int128 rise = ((__int128)y1 - y0) * ((__int128)x - x0), run = (__int128)x1 - x0;
  __int128 half = rise < 0 ? -run / 2 : run / 2, y = y0 + (rise + half) / run;
  return y < 0 ? 0 : y > UINT64_MAX / 4 ? UINT64_MAX / 4 : (uint64_t)y;
}

static uint64_t between(const hr_torch_scaling *s, size_t from, size_t to, size_t id, uint64_t batch) {
  return line_at(s->traces[from]->batch, s->bytes[from][id], s->traces[to]->batch, s->bytes[to][id], batch);
}

hr_status hr__torch_scaling_init(hr_torch_scaling *s, hr_torch_trace *traces, size_t count, hr_arena *arena,
                                 hr_error *err) {
  *s = (hr_torch_scaling){.count = count};
  traces_order(s, traces);
  for (size_t i = 1; i < count; i++)
    HR_TRY(pair_check(s->traces[i - 1], s->traces[i], err));
  size_t ids = traces[0].events.n_ids;
  for (size_t t = 0; t < count; t++) {
    const hr_torch_events *events = &s->traces[t]->events;
    s->bytes[t] = hr__arena_array(arena, ids + 1, sizeof *s->bytes[t]);
    if (s->bytes[t] == NULL) return hr__nomem(err);
    for (size_t id = 0; id < ids; id++)
      s->bytes[t][id] = events->items[events->lives[id].first].bytes;
  }
  for (size_t id = 0; id < ids; id++) {
    bool bent = false;
    for (size_t t = 1; t + 1 < count; t++)
      bent |= between(s, 0, count - 1, id, s->traces[t]->batch) != s->bytes[t][id];
    s->bent += bent;
  }
  return HR_OK;
}

const hr_torch_events *hr__torch_scale(hr_torch_scaling *s, uint64_t batch) {
  hr_torch_events *events = &s->traces[0]->events;
  if (s->count < 2) return events;
  size_t from = 0;
  while (from + 2 < s->count && s->traces[from + 1]->batch <= batch)
    from++;
  for (size_t id = 0; id < events->n_ids; id++)
    events->items[events->lives[id].first].bytes = between(s, from, from + 1, id, batch);
  return events;
}
