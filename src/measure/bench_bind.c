/* A node of the bench as a launch: operands placed one after another, results over operands as in a step, and harmless
 * numbers in all of them. */
#include "base/checked.h"
#include "base/mem.h"
#include "measure/benching.h"

const hr_kernel *hr__bench_kernel(hr_device *device, const hr_op *op) {
  const hr_kernel *kernel = device->functions->kernel ? device->functions->kernel(device, op->name) : &op->cpu;
  return kernel && kernel->run ? kernel : NULL;
}

bool hr__bench_bytes(const hr_device *device, const hr_op *op, const hr_op_view *view, int threads, size_t *bytes) {
  *bytes = HR_BENCH_LINE * ((size_t)(view->n_in + view->n_out) + 2);
  for (int i = 0; i < view->n_in; i++)
    if (view->in[i].rank > 0 && !hr__add_size(*bytes, hr_desc_bytes(&view->in[i]), bytes)) return false;
  for (int j = 0; j < view->n_out; j++)
    if (!hr__add_size(*bytes, hr_desc_bytes(&view->out[j]), bytes)) return false;
  return !op->workspace || hr__add_size(*bytes, op->workspace(view, device->facts.kind, threads), bytes);
}

/* Which input a result is written over, or -1. */
static int result_over(hr_device_kind kind, const hr_op *op, const hr_op_view *view, uint32_t dead, int out) {
  for (int a = 0; a < op->n_alias; a++) {
    const hr_alias *alias = &op->alias[a];
    if (alias->out != out || alias->in >= view->n_in || view->in[alias->in].rank == 0) continue;
    if (!hr__op_takes(op, view->args, alias, kind, view->out[0].dtype)) continue;
    bool same = hr_desc_bytes(&view->in[alias->in]) == hr_desc_bytes(&view->out[out]);
    if (alias->kind != HR_ALIAS_MAY || (same && (dead >> alias->in & 1))) return alias->in;
  }
  return -1;
}

/* Integer operands are rows of a table, below the rows of the smallest matrix there is. Without one they are lengths of
 * samples [batch, length, ...], all of them full: minus that length. */
static int64_t index_below(const hr_op_view *view) {
  int64_t below = INT32_MAX;
  for (int i = 0; i < view->n_in + view->n_out; i++) {
    const hr_desc *desc = i < view->n_in ? &view->in[i] : &view->out[i - view->n_in];
    if (desc->rank == 2 && desc->dtype != HR_I32 && desc->dim[0] > 0 && desc->dim[0] < below) below = desc->dim[0];
  }
  if (below < INT32_MAX) return below;
  return view->n_in > 0 && view->in[0].rank == 3 ? -view->in[0].dim[1] : 1;
}

static hr_status indices_fill(hr_device *device, void *data, int64_t count, int64_t below, hr_error *err) {
  int32_t *indices = hr__alloc_zero((size_t)count, sizeof *indices);
  if (!indices) return hr__nomem(err);
  for (int64_t i = 0; i < count; i++)
    indices[i] = (int32_t)(below < 0 ? -below : (i * 7919) % below);
  hr_status status = device->functions->copy(device, HR_COPY_TO_DEVICE, data, indices, (size_t)count * 4, err);
  hr__free(indices);
  return status;
}

/* Numbers where the ring's words are none. */
static hr_status operand_fill(hr_device *device, void *data, const hr_desc *desc, int64_t below, hr_error *err) {
  static const hr_control control = {.step = 1,
                                     .learning_rate = 1e-6f,
                                     .bias_correction1 = 0.1f,
                                     .bias_correction2 = 0.001f,
                                     .loss_weight = 1e-3f,
                                     .loss_scale = 1};
  int64_t count = hr_desc_count(desc);
  if (desc->dtype == HR_I32 && count > 0) return indices_fill(device, data, count, below, err);
  if (desc->dtype == HR_U8 && count == (int64_t)sizeof control)
    return device->functions->copy(device, HR_COPY_TO_DEVICE, data, &control, sizeof control, err);
  return HR_OK;
}

static void tensor_set(hr_tensor *tensor, void *data, const hr_desc *desc) {
  *tensor = (hr_tensor){.data = data, .desc = *desc};
  int64_t step = 1;
  for (int d = desc->rank - 1; d >= 0; d--) {
    tensor->stride[d] = step;
    step *= desc->dim[d];
  }
}

/* One launch with its operands one after another in `memory`. What all nodes of a step share (the control block, a
 * norm) is that of `first`, the launch at position 0, where that is given: groups are of nodes that do. */
hr_status hr__bench_bind(hr_device *device, const hr_op *op, const hr_op_view *view, uint32_t dead, int threads,
                         hr_bench_block *memory, const hr_launch *first, hr_tensor *tensors, hr_launch *launch,
                         hr_error *err) {
  hr_tensor *in = tensors, *out = tensors + view->n_in;
  for (int i = 0; i < view->n_in; i++) {
    if (view->in[i].rank == 0) continue;
    size_t bytes = hr_desc_bytes(&view->in[i]);
    bool control = view->in[i].dtype == HR_U8 && bytes == sizeof(hr_control);
    bool shared = first && op->grouped && (control || hr_desc_count(&view->in[i]) == 1);
    tensor_set(&in[i], shared ? first->call.in[i].data : hr__bench_take(memory, bytes), &view->in[i]);
  }
  for (int j = 0; j < view->n_out; j++) {
    int over = result_over(device->facts.kind, op, view, dead, j);
    tensor_set(&out[j], over >= 0 ? in[over].data : hr__bench_take(memory, hr_desc_bytes(&view->out[j])),
               &view->out[j]);
  }
  size_t workspace = op->workspace ? op->workspace(view, device->facts.kind, threads) : 0;
  launch->call = (hr_call){.in = in,
                           .out = out,
                           .n_in = view->n_in,
                           .n_out = view->n_out,
                           .args = view->args,
                           .workspace = workspace ? hr__bench_take(memory, workspace) : NULL,
                           .workspace_bytes = workspace,
                           .threads = threads,
                           .device = device};
  launch->kernel = hr__bench_kernel(device, op);
  return launch->kernel->prepare ? launch->kernel->prepare(&launch->call, &launch->call.prepared, err) : HR_OK;
}

hr_status hr__bench_fill(const hr_bench_ring *ring, const hr_launch *launch, const hr_op_view *view, hr_error *err) {
  int64_t below = index_below(view);
  if (ring->pattern) HR_TRY(ring->device->functions->synchronize(ring->device, err)); /* what binding has begun */
  for (int i = 0; i < view->n_in; i++) {
    if (view->in[i].rank == 0) continue;
    char *data = launch->call.in[i].data;
    if (ring->pattern) HR_TRY(hr__bench_pattern(ring, data, hr_desc_bytes(&view->in[i]), err));
    HR_TRY(operand_fill(ring->device, data, &view->in[i], below, err));
  }
  return HR_OK;
}
