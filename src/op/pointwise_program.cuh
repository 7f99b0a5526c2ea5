/* Programs on CUDA, made ready on the host: where every step finds its operands, and how threads are laid over the
 * space.
 *
 * Neighbouring axes that all operands run through as one are one. A thread has GROUPS groups of PACK neighbours along
 * the innermost axis; its groups lie apart by a fixed distance along one axis, the group axis, so that an operand has
 * one address and one distance for a thread, and one that is repeated along that axis is read once.
 */
#ifndef HR_OP_POINTWISE_PROGRAM_CUH
#define HR_OP_POINTWISE_PROGRAM_CUH

#include "dev/cuda/launch.cuh"
extern "C" {
#include "op/pointwise_walk.h"
}

enum {
  PROGRAM_THREADS = 128,
  PROGRAM_BLOCKS = 8192,  /* of a reduction */
  KEPT_BYTES = 44 * 1024, /* of shared memory for values that are kept: a block may have 48 KiB everywhere */
  SOURCE_BEFORE = 64,     /* the step before; below: an operand */
  SOURCE_KEPT = 65,       /* + number */
  SOURCE_NONE = 254,      /* is not read */
  NOT_KEPT = 255
};

struct program_step {
  uint8_t code; /* formula x HR_PARTS + part */
  int8_t round;
  uint8_t from[3]; /* source */
  uint8_t kept;    /* where the result is kept for later, or NOT_KEPT */
  uint8_t unused[2];
  float p, q;
};

/* How the elements of a group are read. */
enum program_read : uint8_t {
  READ_PACK, /* neighbours, at an address that allows it */
  READ_SAME, /* as READ_PACK, the same ones for all groups */
  READ_ONE,  /* one element for the whole group */
  READ_ANY   /* element by element; outside of its range an operand is 0 */
};

struct program_operand {
  const void *data;
  hr_dtype dtype;
  program_read read;
  int64_t step[HR_RANK]; /* per axis, innermost first: elements from one index (axis 0: pack) to the next */
  int64_t group;         /* elements from one group to the next */
  int64_t element;       /* elements between neighbours of a pack */
  int64_t start;         /* READ_ANY: the element that index 0 of all axes falls on; may lie outside */
  int64_t first[HR_RANK], limit[HR_RANK]; /* READ_ANY: index that 0 falls on, and the operand's size */
};

/* n / size = (high(n * magic) + n) >> shift for n < 2^31. */
struct program_axis {
  int64_t size; /* in packs on axis 0, of threads on the group axis */
  uint32_t magic, shift;
};

struct program {
  int n_in, n_steps, n_out, n_kept, axes;
  int group_axis;
  int64_t group_distance, group_size; /* along the group axis, in its units; its size */
  int64_t threads;
  program_axis axis[HR_RANK];
  int64_t result_step[HR_RANK], result_group;
  void *result_data[HR_PROGRAM_RESULTS];
  hr_dtype result_dtype[HR_PROGRAM_RESULTS];
  uint8_t result[HR_PROGRAM_RESULTS]; /* source */
  program_operand in[HR_PROGRAM_INPUTS];
  program_step step[HR_PROGRAM_STEPS];
};

/* ---- steps ---- */

static bool step_commutes(const hr_step *step) {
  return step->part == HR_PART_VALUE && (step->formula == HR_FORMULA_add || step->formula == HR_FORMULA_mul);
}

/* Every value that is not only read by the next step is kept from when it is made to when it is last read. */
static void program_lower(const hr_pointwise_args *args, program *to) {
  int last[HR_PROGRAM_INPUTS + HR_PROGRAM_STEPS], place[HR_PROGRAM_INPUTS + HR_PROGRAM_STEPS];
  int holder[HR_PROGRAM_STEPS], n_in = args->n_in, n_steps = args->n_steps;
  for (int v = 0; v < n_in + n_steps; v++) {
    last[v] = -1;
    place[v] = NOT_KEPT;
  }
  for (int s = 0; s < n_steps; s++)
    for (int i = 0; i < 3; i++)
      if (hr__step_reads(&args->step[s], i)) last[args->step[s].from[i]] = s;
  for (int j = 0; j < args->n_out; j++)
    if (args->n_out > 1 || args->result[j].from != n_in + n_steps - 1) last[args->result[j].from] = n_steps + 1;
  for (int s = 0; s < n_steps; s++) {
    const hr_step *step = &args->step[s];
    program_step *out = &to->step[s];
    int value = n_in + s;
    out->code = (uint8_t)(step->formula * HR_PARTS + step->part);
    out->round = step->round;
    out->p = step->p;
    out->q = step->q;
    out->kept = NOT_KEPT;
    for (int i = 0; i < 3; i++) {
      int from = step->from[i];
      out->from[i] = (uint8_t)(!hr__step_reads(step, i) ? (int)SOURCE_NONE
                               : from < n_in            ? from
                               : from == value - 1      ? (int)SOURCE_BEFORE
                                                        : SOURCE_KEPT + place[from]);
    }
    if (step_commutes(step) && out->from[1] == SOURCE_BEFORE) { /* which is where a result begins */
      out->from[1] = out->from[0];
      out->from[0] = SOURCE_BEFORE;
    }
    if (last[value] <= s + 1) continue;
    int k = 0;
    while (k < to->n_kept && last[holder[k]] > s)
      k++;
    if (k == to->n_kept) to->n_kept++;
    holder[k] = value;
    place[value] = k;
    out->kept = (uint8_t)k;
  }
  for (int j = 0; j < args->n_out; j++) {
    int from = args->result[j].from;
    to->result[j] = (uint8_t)(from < n_in               ? from
                              : place[from] != NOT_KEPT ? SOURCE_KEPT + place[from]
                                                        : (int)SOURCE_BEFORE);
  }
}

/* Whether all values of a program have one type: operands, results, and steps that later ones read. */
static bool program_is_all(const hr_call *call, const hr_pointwise_args *args, hr_dtype dtype) {
  for (int i = 0; i < args->n_in; i++)
    if (call->in[i].desc.dtype != dtype) return false;
  for (int j = 0; j < args->n_out; j++)
    if (call->out[j].desc.dtype != dtype) return false;
  for (int s = 0; s < args->n_steps; s++) {
    if (args->step[s].round == (int)dtype || (dtype == HR_F32 && args->step[s].round == HR_SAME_TYPE)) continue;
    if (args->step[s].round != HR_SAME_TYPE) return false;
    for (int t = s + 1; t < args->n_steps; t++)
      for (int i = 0; i < 3; i++)
        if (hr__step_reads(&args->step[t], i) && args->step[t].from[i] == args->n_in + s) return false;
  }
  return true;
}

/* ---- space ---- */

/* An axis of the space as one operand sees it. */
struct seen_axis {
  int64_t stride, first, limit;
  bool cut;
};

/* The space with as few axes as all operands allow, innermost first. */
struct program_space {
  int axes;
  int64_t size[HR_RANK];
  seen_axis seen[HR_RANK][HR_PROGRAM_INPUTS];
};

/* `order`: axes of the space in the order in which they are walked; NULL: as they are. */
static void space_make(const hr_call *call, const hr_pointwise_args *args, const hr_desc &space, const int *order,
                       program_space *to) {
  memset(to, 0, sizeof *to);
  for (int k = args->rank - 1; k >= 0; k--) {
    int d = order ? order[k] : k;
    int64_t size = space.dim[d];
    seen_axis seen[HR_PROGRAM_INPUTS];
    bool cut = false, joins = to->axes > 0;
    for (int i = 0; i < args->n_in; i++) {
      const hr_tensor &x = call->in[i];
      int own = args->map[i].axis[d];
      seen[i].stride = own < 0 ? 0 : x.stride[own];
      seen[i].first = own < 0 ? 0 : args->map[i].first[own];
      seen[i].limit = own < 0 ? size : x.desc.dim[own];
      seen[i].cut = seen[i].first != 0 || seen[i].limit != size;
      cut = cut || seen[i].cut;
      if (!joins) continue;
      const seen_axis &inner = to->seen[to->axes - 1][i];
      joins = !seen[i].cut && !inner.cut && seen[i].stride == inner.stride * to->size[to->axes - 1];
    }
    if (size == 1 && !cut) continue;
    if (joins) {
      to->size[to->axes - 1] *= size;
      for (int i = 0; i < args->n_in; i++)
        to->seen[to->axes - 1][i].limit = to->size[to->axes - 1];
      continue;
    }
    to->size[to->axes] = size;
    memcpy(to->seen[to->axes++], seen, sizeof seen);
  }
  if (to->axes > 0) return;
  to->axes = 1;
  to->size[0] = 1;
  for (int i = 0; i < args->n_in; i++)
    to->seen[0][i].limit = 1;
}

/* The axis along which a thread's groups lie: one that they divide well, where operands are repeated, and on the
 * innermost one far enough apart that neighbouring threads still read neighbours. */
static int group_axis_find(const program_space &space, int n_in, int groups, int pack) {
  int best = 0;
  double best_score = -1.0;
  for (int d = 0; d < space.axes; d++) {
    int64_t size = d == 0 ? space.size[0] / pack : space.size[d], distance = divide_up(size, groups);
    double score = (double)size / (double)(distance * groups);
    for (int i = 0; i < n_in; i++)
      if (d > 0 && space.seen[d][i].stride == 0) score += 0.05;
    if (d == 0 && distance * pack < 64) score *= 0.7;
    if (score > best_score) best = d, best_score = score;
  }
  return best;
}

static program_read read_of(const program_space &space, const program_operand &x, int i, int pack) {
  if (x.dtype == HR_U8 || x.dtype == HR_I32) return READ_ANY; /* each element is converted by itself */
  for (int d = 0; d < space.axes; d++)
    if (space.seen[d][i].cut) return READ_ANY;
  if (pack == 1 || x.element == 0) return READ_ONE;
  size_t bytes = pack * (x.dtype == HR_F32 ? 4 : 2);
  bool packs = x.element == 1 && aligned(x.data, bytes < 16 ? bytes : 16);
  for (int d = 1; d < space.axes; d++)
    packs = packs && space.seen[d][i].stride % pack == 0;
  return !packs ? READ_ANY : x.group == 0 ? READ_SAME : READ_PACK;
}

static void axis_make(int64_t size, program_axis *axis) {
  axis->size = size;
  axis->shift = 0;
  while (((int64_t)1 << axis->shift) < size && axis->shift < 32)
    axis->shift++;
  uint64_t power = (uint64_t)1 << axis->shift;
  axis->magic = size > UINT32_MAX ? 0 : (uint32_t)(((power - (uint64_t)size) << 32) / (uint64_t)size + 1);
}

/* Lays threads with that many groups of `pack` neighbours over the space. */
static void program_lay(const hr_call *call, const program_space &space, int pack, int groups, program *to) {
  to->axes = space.axes;
  to->group_axis = group_axis_find(space, to->n_in, groups, pack);
  to->threads = 1;
  int64_t result_stride = 1;
  for (int d = 0; d < space.axes; d++) {
    int64_t size = d == 0 ? space.size[0] / pack : space.size[d];
    if (d == to->group_axis) {
      to->group_size = size;
      size = to->group_distance = divide_up(size, groups);
    }
    axis_make(size, &to->axis[d]);
    to->threads *= size;
    to->result_step[d] = result_stride * (d == 0 ? pack : 1);
    result_stride *= space.size[d];
  }
  to->result_group = to->result_step[to->group_axis] * to->group_distance;
  for (int i = 0; i < to->n_in; i++) {
    program_operand *x = &to->in[i];
    x->data = call->in[i].data;
    x->dtype = call->in[i].desc.dtype;
    x->element = space.seen[0][i].stride;
    for (int d = 0; d < space.axes; d++) {
      x->step[d] = space.seen[d][i].stride * (d == 0 ? pack : 1);
      x->first[d] = space.seen[d][i].first;
      x->limit[d] = space.seen[d][i].limit;
      x->start += x->first[d] * space.seen[d][i].stride;
    }
    x->group = x->step[to->group_axis] * to->group_distance;
    x->read = read_of(space, *x, i, pack);
  }
}

/* Whether threads can have packs of that many neighbours. */
static bool packs_fit(const hr_call *call, const program_space &space, int pack) {
  bool fits = space.size[0] % pack == 0;
  for (int j = 0; j < call->n_out; j++) {
    size_t bytes = pack * (call->out[j].desc.dtype == HR_F32 ? 4 : 2);
    fits = fits && aligned(call->out[j].data, bytes < 16 ? bytes : 16);
  }
  return fits;
}

/* Steps, operands and results; program_lay follows. */
static void program_make(const hr_call *call, const hr_pointwise_args *args, program *to) {
  memset(to, 0, sizeof *to);
  to->n_in = args->n_in;
  to->n_steps = args->n_steps;
  to->n_out = args->n_out;
  for (int j = 0; j < args->n_out; j++) {
    to->result_data[j] = call->out[j].data;
    to->result_dtype[j] = call->out[j].desc.dtype;
  }
  program_lower(args, to);
}

#endif
