/* The scan backward; see op/ssd_parts.h. A task is one group of heads of one sequence, which owns dB and dC: chunks
 * from the last to the first, in each one head after another.
 *
 * With g the gradient of the state behind a tile, R = dy x^T, s = C B^T, K = s o E o d_j o R, w = exp(a_n - a) d and
 * q_j = B_j g x_j:
 *
 *   dx = (s o E o d_j)^T dy + w B g + D dy          dC = (R o E o d_j) B + exp(a) dy h^T
 *   dB = (R o E o d_j)^T C + w x g^T                dd_j = sum over i of (s o E o R)_ij + exp(a_n - a_j) q_j
 *   da_i = sum over j of K_ij - sum over k of K_ki + exp(a_i) C_i h dy_i - w_i q_i
 *   da_n += exp(a_n) <g, h> + sum of w q             g before the tile = exp(a_n) g + (exp(a) C)^T dy
 *
 * a_i is the sum of d A up to i, so d A at l has the sum of da from l on as gradient. Where documents are packed: as
 * op/ssd_parts.h has it, of E, h and exp(a_n) alike.
 */
#include <string.h>

#include "base/simd_math.h"
#include "op/ssd_parts.h"
#include "op/stream.h"

enum { TILE = HR_SSD_TILE, PARAMETERS = 3 };

/* Sums over rows and columns of a tile. */
typedef struct tile_sums {
  float rows[TILE], columns[TILE], direct[TILE];
} tile_sums;

/* In: scores s and other R, lower triangles. Out: scores = s o E o d_j, other = R o E o d_j, 0 above the diagonal; sums
 * of K over rows and columns without the diagonal, whose elements are the largest and would cancel, and of s o E o R
 * over columns. */
HR_CLONES static void weights_make(const hr_ssd_head *w, int64_t begin, const float *d, const float *a, int64_t rows,
                                   float *scores, float *other, tile_sums *sums) {
  memset(sums, 0, sizeof *sums);
  for (int64_t i = 0; i < rows; i++) {
    float *s = scores + i * TILE, *r = other + i * TILE, total = 0.0f;
    int64_t seen = hr__ssd_seen(w, begin, i);
    for (int64_t j = 0; j < seen; j++)
      s[j] = r[j] = 0.0f;
#pragma omp simd reduction(+ : total)
    for (int64_t j = seen < 0 ? 0 : seen; j < i; j++) {
      float e = hr__expf(a[i] - a[j]), direct = s[j] * e * r[j], k = direct * d[j];
      total += k;
      sums->columns[j] += k;
      sums->direct[j] += direct;
      s[j] *= e * d[j];
      r[j] *= e * d[j];
    }
    sums->rows[i] = total;
    sums->direct[i] += s[i] * r[i];
    s[i] *= d[i];
    r[i] *= d[i];
    for (int64_t j = i + 1; j < rows; j++)
      s[j] = r[j] = 0.0f;
  }
}

HR_CLONES static float dot(const float *a, const float *b, int64_t n) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

/* to [i] += factor[i] from[i], rows of ld. */
HR_CLONES static void rows_add(const float *from, const float *factor, int64_t rows, int64_t ld, float *to) {
  for (int64_t i = 0; i < rows; i++)
#pragma omp simd
    for (int64_t j = 0; j < ld; j++)
      to[i * ld + j] += factor[i] * from[i * ld + j];
}

/* exp(a) and exp(a_n - a) d. */
HR_CLONES static void factors_make(const float *d, const float *a, int64_t rows, float *begin, float *end) {
#pragma omp simd
  for (int64_t i = 0; i < rows; i++) {
    begin[i] = hr__expf(a[i]);
    end[i] = hr__expf(a[rows - 1] - a[i]) * d[i];
  }
}

/* The same with 0 for positions that do not see the state before the tile, and those that the one behind it does not
 * come of. */
static void factors_cut(const hr_ssd_head *w, int64_t first, int64_t rows, float *begin, float *end) {
  int64_t last = hr__ssd_seen(w, first, rows - 1);
  for (int64_t i = 0; i < rows; i++) {
    if (hr__ssd_seen(w, first, i) >= 0) begin[i] = 0.0f;
    if (i < last) end[i] = 0.0f;
  }
}

static void rows_load(const hr_ssd_head *w, const hr_tensor *mixed, int64_t begin, int64_t rows) {
  const hr_ssd_rooms *r = w->rooms;
  const hr_ssd_sizes *s = &r->size;
  hr__ssd_rows(w, mixed, begin, rows, w->head * s->dim, s->dim, r->dim, w->base + r->x);
  hr__ssd_rows(w, mixed, begin, rows, s->b_first + w->group * s->state, s->state, r->state, w->base + r->b);
}

HR_CLONES static void row_store(const hr_tensor *to, int64_t at, int64_t n, float *from) {
  float *target = hr__target(to, at, from);
  if (target != from) memcpy(target, from, (size_t)n * sizeof *target);
  hr__store(to, at, n, target);
}

/* other [T, T] = dy x^T, its lower triangle. */
static void others_make(const hr_ssd_head *w, int64_t rows) {
  const hr_ssd_rooms *r = w->rooms;
  float *turned = w->base + r->turned, *other = w->base + r->other;
  hr__ssd_turn(w->base + r->x, rows, r->size.dim, r->dim, turned, TILE);
  memset(other, 0, sizeof(float) * TILE * (size_t)rows);
  for (int64_t i = 0; i < rows; i += HR_SSD_LANES) {
    hr_ssd_left dy = {w->base + r->dy + i * r->dim, r->dim, 1, false};
    hr__ssd_product(hr__min(HR_SSD_LANES, rows - i), i + HR_SSD_LANES, r->size.dim, dy, turned, TILE, other + i * TILE,
                    TILE);
  }
}

/* A tile whose first position is number `at` of its chunk; h is the state before it, g the gradient of that behind it,
 * afterwards of that before it. */
static void tile_run(const hr_ssd_head *w, const hr_call *call, int64_t first, int64_t at, int64_t rows, const float *h,
                     float *g) {
  const hr_ssd_rooms *r = w->rooms;
  const hr_ssd_sizes *s = &r->size;
  const hr_tensor *mixed = &call->in[HR_SSD_BWD_MIXED];
  float *b = w->base + r->b, *c = w->base + r->c, *x = w->base + r->x, *dy = w->base + r->dy, *dx = w->base + r->y;
  float *scores = w->base + r->scores, *other = w->base + r->other, *inner = w->base + r->inner;
  float *turned = w->base + r->h_turned, *db = w->base + r->db + at * r->state, *dc = w->base + r->dc + at * r->state;
  float *da = w->base + r->da + at, *dd = w->base + r->dd + at;
  const float *d = w->base + r->d + at, *a = w->base + r->a + at;
  float begin[TILE], end[TILE], q[TILE], skip[TILE];
  int64_t seen = hr__ssd_seen(w, first + at, rows - 1); /* by the last position */
  tile_sums sums;

  rows_load(w, mixed, first + at, rows);
  hr__ssd_rows(w, mixed, first + at, rows, s->c_first + w->group * s->state, s->state, r->state, c);
  hr__ssd_rows(w, &call->in[HR_SSD_DY], first + at, rows, w->head * s->dim, s->dim, r->dim, dy);
  factors_make(d, a, rows, begin, end);
  if (w->starts) factors_cut(w, first + at, rows, begin, end);
  hr__ssd_scores(w, rows);
  others_make(w, rows);
  weights_make(w, first + at, d, a, rows, scores, other, &sums);

  memset(dx, 0, (size_t)(rows * r->dim) * sizeof *dx); /* B g first, for q */
  hr__ssd_product(rows, r->dim, s->state, (hr_ssd_left){b, r->state, 1, false}, g, r->dim, dx, r->dim);
  for (int64_t i = 0; i < rows; i++) {
    q[i] = dot(dx + i * r->dim, x + i * r->dim, r->dim);
    skip[i] = w->skip;
  }
  hr__ssd_scale(dx, end, rows, r->dim, dx);
  rows_add(dy, skip, rows, r->dim, dx);
  hr__ssd_product(rows, r->dim, rows, (hr_ssd_left){scores, 1, TILE, false}, dy, r->dim, dx, r->dim);

  hr__ssd_turn(h, s->state, s->dim, r->dim, turned, r->state);
  memset(inner, 0, (size_t)(rows * r->state) * sizeof *inner); /* dy h^T */
  hr__ssd_product(rows, r->state, s->dim, (hr_ssd_left){dy, r->dim, 1, false}, turned, r->state, inner, r->state);
  for (int64_t i = 0; i < rows; i++) {
    float through = begin[i] * dot(c + i * r->state, inner + i * r->state, r->state);
    da[i] = sums.rows[i] - sums.columns[i] + through - (i + 1 < rows ? end[i] * q[i] : 0.0f);
    dd[i] = sums.direct[i] + (i < seen ? 0.0f : hr__expf(a[rows - 1] - a[i]) * q[i]);
  }
  rows_add(inner, begin, rows, r->state, dc);
  hr__ssd_product(rows, r->state, rows, (hr_ssd_left){other, TILE, 1, true}, b, r->state, dc, r->state);

  hr__ssd_turn(g, s->state, s->dim, r->dim, turned, r->state);
  memset(inner, 0, (size_t)(rows * r->state) * sizeof *inner); /* x g^T */
  hr__ssd_product(rows, r->state, s->dim, (hr_ssd_left){x, r->dim, 1, false}, turned, r->state, inner, r->state);
  rows_add(inner, end, rows, r->state, db);
  hr__ssd_product(rows, r->state, rows, (hr_ssd_left){other, 1, TILE, false}, c, r->state, db, r->state);

  float whole = seen < 0 ? hr__expf(a[rows - 1]) : 0.0f;
  da[rows - 1] += whole * dot(g, h, s->state * r->dim) + dot(end, q, rows - 1);
  for (int64_t i = 0; i < rows; i++)
    row_store(&call->out[0], (w->sequence * s->length + first + at + i) * s->mixed + w->head * s->dim, s->dim,
              dx + i * r->dim);
  for (int64_t i = 0; i < s->state; i++)
    skip[0] = whole, hr__ssd_scale(g + i * r->dim, skip, 1, r->dim, g + i * r->dim);
  hr__ssd_scale(c, begin, rows, r->state, w->base + r->scaled);
  hr__ssd_product(s->state, r->dim, rows, (hr_ssd_left){w->base + r->scaled, 1, r->state, false}, dy, r->dim, g,
                  r->dim);
}

/* Sums of D's gradient over the rows of a tile: called while x and dy of it are there. */
static float skip_gradient(const hr_ssd_head *w, int64_t rows) {
  return dot(w->base + w->rooms->x, w->base + w->rooms->dy, rows * w->rooms->dim);
}

/* From da of each tile to gradients of steps; `sums` [3]: of A, bias and D. */
static void steps_store(const hr_ssd_head *w, const hr_call *call, int64_t first, int64_t count, float *sums) {
  const hr_ssd_rooms *r = w->rooms;
  const hr_ssd_sizes *s = &r->size;
  const hr_ssd_args *args = call->args;
  const hr_tensor *to = &call->out[1], *partial = &call->in[HR_SSD_BWD_PARTIAL];
  const float *d = w->base + r->d, *slope = w->base + r->slope, *da = w->base + r->da, *dd = w->base + r->dd;
  float later = 0.0f, scratch;
  for (int64_t i = count - 1; i >= 0; i--) {
    later = (i == count - 1 || hr__ssd_anew(w, first, i + 1) ? 0.0f : later) + da[i];
    sums[0] += later * d[i];
    float step = (dd[i] + later * w->decay) * slope[i];
    sums[1] += step;
    int64_t at = (w->sequence * s->length + first + i) * s->steps + args->step_first + w->head;
    if (partial->data) step += *hr__load(partial, at, 1, &scratch);
    row_store(to, at, 1, &step);
  }
}

static void head_chunk(const hr_ssd_head *w, const hr_call *call, int64_t c, float *sums) {
  const hr_ssd_rooms *r = w->rooms;
  const hr_ssd_sizes *s = &r->size;
  int64_t first = c * s->chunk, count = hr__min(s->chunk, s->length - first), member = w->head % (s->heads / s->groups);
  float *states = w->base + r->tile_states, *g = w->base + r->group_g + member * r->state * r->dim;
  const float *kept = (const float *)call->in[HR_SSD_BWD_STATES].data +
                      (w->sequence * s->chunks + c) * s->chunk_floats + w->head * s->state_floats;
  size_t state_bytes = (size_t)(r->state * r->dim) * sizeof(float);
  hr__ssd_steps(w, &call->in[HR_SSD_BWD_STEPS], call->args, first, count);
  hr__ssd_decays(w, first, count);
  memset(states, 0, state_bytes);
  for (int64_t n = 0; n < s->state; n++)
    memcpy(states + n * r->dim, kept + n * s->dim, (size_t)s->dim * sizeof *states);
  int64_t tiles = hr__chunks(count, TILE);
  for (int64_t t = 0; t + 1 < tiles; t++) {
    float *next = states + (t + 1) * r->state * r->dim;
    rows_load(w, &call->in[HR_SSD_BWD_MIXED], first + t * TILE, TILE);
    memcpy(next, states + t * r->state * r->dim, state_bytes);
    hr__ssd_advance(w, first + t * TILE, w->base + r->d + t * TILE, w->base + r->a + t * TILE, TILE, next);
  }
  for (int64_t t = tiles - 1; t >= 0; t--) {
    int64_t rows = hr__min(TILE, count - t * TILE);
    tile_run(w, call, first, t * TILE, rows, states + t * r->state * r->dim, g);
    sums[2] += skip_gradient(w, rows);
  }
  steps_store(w, call, first, count, sums);
}

typedef struct job {
  const hr_call *call;
  hr_ssd_rooms rooms;
  float *sums; /* [sequences, heads, 3] */
} job;

static void group_task(void *arg, int64_t task, int worker) {
  const job *j = arg;
  const hr_call *call = j->call;
  const hr_ssd_rooms *r = &j->rooms;
  const hr_ssd_sizes *s = &r->size;
  float *base = (float *)call->workspace + (size_t)worker * r->floats;
  int64_t sequence = task / s->groups, group = task % s->groups, members = s->heads / s->groups;
  memset(base + r->group_g, 0, (size_t)(members * r->state * r->dim) * sizeof *base);
  memset(j->sums + (sequence * s->heads + group * members) * PARAMETERS, 0,
         (size_t)(members * PARAMETERS) * sizeof *base);
  for (int64_t c = s->chunks - 1; c >= 0; c--) {
    int64_t first = c * s->chunk, count = hr__min(s->chunk, s->length - first);
    memset(base + r->db, 0, (size_t)(count * r->state) * sizeof *base);
    memset(base + r->dc, 0, (size_t)(count * r->state) * sizeof *base);
    for (int64_t head = group * members; head < (group + 1) * members; head++) {
      hr_ssd_head w = hr__ssd_head(call, HR_SSD_BWD_MIXED, r, base, sequence, head);
      head_chunk(&w, call, c, j->sums + (sequence * s->heads + head) * PARAMETERS);
    }
    for (int64_t i = 0; i < count; i++) {
      int64_t at = (sequence * s->length + first + i) * s->mixed + group * s->state;
      row_store(&call->out[0], at + s->b_first, s->state, base + r->db + i * r->state);
      row_store(&call->out[0], at + s->c_first, s->state, base + r->dc + i * r->state);
    }
  }
}

/* The columns that hold no steps: those of the sum so far, or zeros. */
static void others_fill(const hr_call *call) {
  const hr_tensor *partial = &call->in[HR_SSD_BWD_PARTIAL], *to = &call->out[1];
  if (partial->data == to->data) return;
  if (partial->data)
    memcpy(to->data, partial->data, hr_desc_bytes(&to->desc));
  else
    memset(to->data, 0, hr_desc_bytes(&to->desc));
}

hr_status hr__ssd_bwd_run(const hr_call *call) {
  job j = {.call = call};
  hr_ssd_sizes s = hr__ssd_sizes(&call->in[HR_SSD_BWD_MIXED].desc, &call->in[HR_SSD_BWD_STEPS].desc, call->args);
  j.rooms = hr__ssd_rooms(&s, true);
  j.sums = (float *)call->workspace + (size_t)call->threads * j.rooms.floats;
  others_fill(call);
  hr__pool_run(call->device->pool, call->threads, s.sequences * s.groups, group_task, &j);
  float *out = call->out[2].data, scratch;
  for (int64_t head = 0; head < s.heads; head++)
    for (int p = 0; p < PARAMETERS; p++) {
      float sum = 0.0f;
      for (int64_t q = 0; q < s.sequences; q++)
        sum += j.sums[(q * s.heads + head) * PARAMETERS + p];
      float by = p == 0 ? -hr__expf(*hr__load(&call->in[HR_SSD_BWD_A_LOG], head, 1, &scratch)) : 1.0f;
      out[p * s.heads + head] = sum * by;
    }
  return HR_OK;
}
