/* Binding: every node of the plan becomes one launch whose addresses never change again.
 *
 * Kernels come from the device where it has its own table (CUDA), else from the op. Library objects are made here, once
 * per node, and each segment between copies that the device does not make is recorded, so that executing a program is
 * nothing but replaying: on CUDA one segment per program, cut only where something comes from the disk or goes there;
 * on the CPU it is cut at every copy.
 */
#include <string.h>

#include "base/random.h"
#include "run/internal.h"

const char *hr__node_place(const hr_graph *graph, hr_id node, char out[HR_NODE_PLACE]) {
  snprintf(out, HR_NODE_PLACE, "node %u (%s)", node, graph->nodes[node].op->name);
  return out;
}

static void tensor_bind(const hr_run *run, hr_id value, hr_tensor *tensor) {
  *tensor = (hr_tensor){0};
  if (value == HR_NONE) return;
  const hr_value *v = &run->plan->graph->values[value];
  char *base = run->base[hr__plan_value_tier(run->plan, value)];
  if (base) tensor->data = base + hr__plan_value_offset(run->plan, value);
  tensor->desc = v->desc;
  memcpy(tensor->stride, v->stride, sizeof tensor->stride);
}

static const hr_kernel *kernel_of(const hr_run *run, const hr_node *node) {
  hr_device *device = run->device;
  if (node->place == HR_ON_DEVICE && device->functions->kernel)
    return device->functions->kernel(device, node->op->name);
  return &node->op->cpu;
}

/* A copy between host and device, or the end of one, that the device makes. */
static void transfer_bind(hr_run *run, hr_id id, hr_launch *launch) {
  const hr_graph *graph = run->plan->graph;
  const hr_node *node = &graph->nodes[id];
  if (node->op->transfer == HR_TRANSFER_WAIT) {
    launch->kind = HR_LAUNCH_WAIT;
    launch->begun = &run->launches[graph->values[node->in[0]].producer];
    return;
  }
  launch->kind = HR_LAUNCH_COPY;
  launch->copy = (hr_moving){.to = hr__run_place(run, node->out[0]),
                             .from = hr__run_place(run, node->in[0]),
                             .bytes = hr_desc_bytes(&graph->values[node->in[0]].desc),
                             .to_device = hr__plan_value_tier(run->plan, node->out[0]) == HR_TIER_DEVICE};
}

static hr_status launch_bind(hr_run *run, hr_id id, hr_error *err) {
  const hr_plan *plan = run->plan;
  const hr_node *node = &plan->graph->nodes[id];
  hr_launch *launch = &run->launches[id];
  char place[HR_NODE_PLACE];

  if (node->op->transfer) {
    if (!hr__copier_takes(run, id)) transfer_bind(run, id, launch);
    return HR_OK;
  }
  const hr_kernel *kernel = kernel_of(run, node);
  if (!kernel || !kernel->run)
    return hr__fail(err, HR_UNSUPPORTED, hr__node_place(plan->graph, id, place), "choose another memory.device",
                    "there is no kernel for %s on %s", node->op->name, run->device->facts.name);

  hr_tensor *tensors = hr__arena_array(&run->arena, (size_t)(node->n_in + node->n_out), sizeof *tensors);
  if (!tensors) return hr__nomem(err);
  for (int i = 0; i < node->n_in; i++)
    tensor_bind(run, node->in[i], &tensors[i]);
  for (int j = 0; j < node->n_out; j++)
    tensor_bind(run, node->out[j], &tensors[node->n_in + j]);

  launch->call = (hr_call){.in = tensors,
                           .out = tensors + node->n_in,
                           .n_in = node->n_in,
                           .n_out = node->n_out,
                           .args = node->args,
                           .stream_key = hr__random_stream(node->module),
                           .threads = plan->threads_of_node[id],
                           .device = run->device};
  hr_id workspace = plan->workspace_of_node[id];
  if (workspace != HR_NONE) {
    const hr_slot *slot = &plan->slots[workspace];
    launch->call.workspace = (char *)run->base[slot->tier] + slot->offset;
    launch->call.workspace_bytes = slot->bytes;
  }
  if (kernel->prepare) {
    hr_status status = kernel->prepare(&launch->call, &launch->call.prepared, err);
    if (status != HR_OK) return status;
  }
  launch->kind = node->place == HR_ON_HOST ? HR_LAUNCH_HOST : HR_LAUNCH_KERNEL;
  launch->kernel = kernel; /* last: hr__unbind releases what has a kernel */
  return HR_OK;
}

static hr_status segment_add(hr_run *run, run_program *program, const run_segment *segment, hr_error *err) {
  run_segment *added = &program->segments[program->n_segments++];
  *added = *segment;
  if (added->copies || run->node_by_node) return HR_OK;
  size_t failed = added->count;
  hr_error inner = {0};
  hr_status status = run->device->functions->record(run->device, &run->launches[added->first], added->count,
                                                    &added->recording, &failed, &inner);
  if (status == HR_OK) return HR_OK;
  char place[HR_NODE_PLACE];
  hr_id node = added->first + (hr_id)failed;
  return hr__fail(err, status, failed < added->count ? hr__node_place(run->plan->graph, node, place) : inner.place,
                  inner.remedy, "%s", inner.message);
}

/* Whether a node is part of no recording, but a segment of its own. */
static bool stands_alone(const hr_run *run, hr_id node) {
  return hr__copier_takes(run, node) || hr__feeds_in_line(run, node);
}

/* Whether two neighbours lie in different segments. */
static bool segment_ends(const hr_run *run, hr_id before, hr_id behind) {
  return stands_alone(run, before) || stands_alone(run, behind);
}

static hr_status program_bind(hr_run *run, hr_id id, hr_error *err) {
  const hr_program *of = &run->plan->graph->programs[id];
  run_program *program = &run->programs[id];
  size_t most = 1;
  for (hr_id n = of->first; n + 1 < of->first + of->count; n++)
    most += segment_ends(run, n, n + 1);
  program->segments = hr__arena_array(&run->arena, most, sizeof *program->segments);
  if (!program->segments) return hr__nomem(err);
  for (hr_id first = of->first, n = first; n < of->first + of->count; first = n) {
    for (n++; n < of->first + of->count && !segment_ends(run, n - 1, n);)
      n++;
    run_segment segment = {.first = first, .count = n - first, .copies = stands_alone(run, first)};
    HR_TRY(segment_add(run, program, &segment, err));
  }
  return HR_OK;
}

hr_status hr__bind(hr_run *run, hr_error *err) {
  const hr_graph *graph = run->plan->graph;
  run->launches = hr__arena_array(&run->arena, graph->n_nodes + 1, sizeof *run->launches);
  run->programs = hr__arena_array(&run->arena, graph->n_programs + 1, sizeof *run->programs);
  if (!run->launches || !run->programs) return hr__nomem(err);
  for (hr_id n = 0; n < graph->n_nodes; n++)
    HR_TRY(launch_bind(run, n, err));
  for (hr_id p = 0; p < graph->n_programs; p++)
    HR_TRY(program_bind(run, p, err));
  return HR_OK;
}

void hr__unbind(hr_run *run) {
  const hr_graph *graph = run->plan->graph;
  for (size_t p = 0; run->programs && p < graph->n_programs; p++)
    for (size_t s = 0; s < run->programs[p].n_segments; s++)
      if (run->programs[p].segments[s].recording)
        run->device->functions->recording_destroy(run->device, run->programs[p].segments[s].recording);
  for (size_t n = 0; run->launches && n < graph->n_nodes; n++) {
    hr_launch *launch = &run->launches[n];
    if (launch->kernel && launch->kernel->release && launch->call.prepared)
      launch->kernel->release(launch->call.prepared);
  }
}
