/* Binding: every node of the plan becomes one launch whose addresses never change again.
 *
 * Kernels come from the device where it has its own table (CUDA), else from the op. Library objects are made here, once
 * per node, and each device segment is recorded, so that executing a program is nothing but replaying.
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

static hr_status launch_bind(hr_run *run, hr_id id, hr_error *err) {
  const hr_plan *plan = run->plan;
  const hr_node *node = &plan->graph->nodes[id];
  hr_launch *launch = &run->launches[id];
  char place[HR_NODE_PLACE];

  if (node->op->transfer) return HR_OK; /* the copier's */
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
  launch->kernel = kernel; /* last: hr__unbind releases what has a kernel */
  return HR_OK;
}

static hr_status segment_add(hr_run *run, run_program *program, const run_segment *segment, hr_error *err) {
  run_segment *added = &program->segments[program->n_segments++];
  *added = *segment;
  if (added->place == HR_ON_HOST || added->copies || run->node_by_node) return HR_OK;
  return run->device->functions->record(run->device, &run->launches[added->first], added->count, &added->recording,
                                        err);
}

/* The plan's segments, cut at every copy and wait. */
static hr_status program_bind(hr_run *run, hr_id id, hr_error *err) {
  const hr_program_plan *plan = &run->plan->programs[id];
  const hr_node *nodes = run->plan->graph->nodes;
  run_program *program = &run->programs[id];
  size_t most = plan->n_segments + 1;
  for (hr_id n = 0; n < run->plan->graph->programs[id].count; n++)
    most += nodes[run->plan->graph->programs[id].first + n].op->transfer ? 2 : 0;
  program->segments = hr__arena_array(&run->arena, most, sizeof *program->segments);
  if (!program->segments) return hr__nomem(err);
  for (size_t s = 0; s < plan->n_segments; s++) {
    hr_id end = plan->segments[s].first + plan->segments[s].count;
    for (hr_id first = plan->segments[s].first, n = first; n < end; first = n) {
      bool copies = nodes[n++].op->transfer != HR_TRANSFER_NONE;
      while (!copies && n < end && !nodes[n].op->transfer)
        n++;
      run_segment segment = {.place = plan->segments[s].place, .first = first, .count = n - first, .copies = copies};
      HR_TRY(segment_add(run, program, &segment, err));
    }
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
