/* The run: takes and touches the arenas, executes programs, and moves bytes between host and values.
 *
 * A program normally replays its recorded segments. It is executed node by node when somebody wants to look in between:
 * numerics, timings, or poisoning of dead slots in a test build.
 */
#include "run/run.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "data/field.h"
#include "run/internal.h"

static hr_status tiers_create(hr_run *run, hr_error *err) {
  hr__alloc_trim(); /* what planning has given up goes back first: the plan counts on it */
  for (int t = 0; t < HR_TIER_COUNT; t++) {
    size_t bytes = run->plan->tiers[t].arena_bytes;
    if (bytes == 0) continue;
    HR_TRY(t == HR_TIER_DISK
               ? hr__disk_open(&run->disk, run->options.folder, bytes, err)
               : run->device->functions->arena_create(run->device, (hr_tier)t, bytes, &run->base[t], err));
  }
  return HR_OK;
}

/* Bytes of each slot without rounding: the largest buffer that lives in it; workspaces are used whole. */
static hr_status slots_measure(hr_run *run, hr_error *err) {
  const hr_plan *plan = run->plan;
  run->slot_bytes = hr__arena_array(&run->arena, plan->n_slots + 1, sizeof *run->slot_bytes);
  if (!run->slot_bytes) return hr__nomem(err);
  for (size_t b = 0; b < plan->graph->n_buffers; b++) {
    hr_id slot = plan->slot_of_buffer[b];
    if (slot != HR_NONE && run->slot_bytes[slot] < plan->graph->buffers[b].bytes)
      run->slot_bytes[slot] = plan->graph->buffers[b].bytes;
  }
  for (size_t s = 0; s < plan->n_slots; s++)
    if (run->slot_bytes[s] == 0 || run->slot_bytes[s] > plan->slots[s].bytes) run->slot_bytes[s] = plan->slots[s].bytes;
  return HR_OK;
}

static hr_status run_build(hr_run *run, hr_error *err) {
  if (run->options.time_nodes) {
    run->node_seconds = hr__arena_array(&run->arena, run->plan->graph->n_nodes + 1, sizeof *run->node_seconds);
    if (!run->node_seconds) return hr__nomem(err);
  }
  HR_TRY(slots_measure(run, err));
  HR_TRY(tiers_create(run, err));
  HR_TRY(hr__bind(run, err));
  HR_TRY(hr__copier_create(run, err));
  hr__poison_create(run);
  run->state_fresh = true;
  return HR_OK;
}

hr_status hr__run_create(const hr_plan *plan, hr_device *device, const hr_run_options *options, hr_run **out,
                         hr_error *err) {
  if (device->facts.kind != plan->facts.kind)
    return hr__fail(err, HR_FAILURE, NULL, NULL, "this plan is for %s, but the device is %s",
                    hr_device_kind_name(plan->facts.kind), hr_device_kind_name(device->facts.kind));
  hr_run *run = hr__alloc_zero(1, sizeof *run);
  if (!run) return hr__nomem(err);
  hr__arena_init(&run->arena);
  run->plan = plan;
  run->device = device;
  run->disk.fd = -1;
  if (options) run->options = *options;
#ifdef HR_ASAN
  run->poisoned = device->facts.kind == HR_CPU;
#endif
  run->node_by_node = run->options.check_numerics || run->options.time_nodes || run->poisoned;
  hr_status status = run_build(run, err);
  if (status != HR_OK) {
    hr__run_destroy(run);
    return status;
  }
  *out = run;
  return HR_OK;
}

void hr__run_destroy(hr_run *run) {
  if (!run) return;
  hr__copier_destroy(run);
  hr__unbind(run);
  hr__poison_destroy(run);
  hr__disk_close(&run->disk);
  for (int t = 0; t < HR_TIER_COUNT; t++)
    if (run->base[t])
      run->device->functions->arena_destroy(run->device, (hr_tier)t, run->base[t], run->plan->tiers[t].arena_bytes);
  hr__arena_fini(&run->arena);
  hr__free(run);
}

/* A kernel reports only a status: the place is ours to name. */
static hr_status launch_failed(const hr_run *run, hr_id node, hr_status status, hr_error *err) {
  const hr_graph *graph = run->plan->graph;
  char place[HR_NODE_PLACE];
  if (node == HR_NONE)
    return hr__fail(err, status, NULL, NULL, "a recorded segment failed on %s", run->device->facts.name);
  return hr__fail(err, status, hr__node_place(graph, node, place), NULL, "the %s failed in module %s",
                  graph->nodes[node].op->transfer ? "copy" : "kernel", graph->nodes[node].module);
}

static hr_status node_execute(hr_run *run, hr_id program, hr_id node, hr_error *err) {
  uint32_t position = node - run->plan->graph->programs[program].first;
  hr__poison_before(run, program, position);
  if (run->poisoned) HR_TRY(hr__poison_operands(run, node, err));

  const hr_launch *launch = &run->launches[node];
  hr_transfer transfer = run->plan->graph->nodes[node].op->transfer;
  double begin = run->options.time_nodes ? hr__seconds_now() : 0;
  if (hr__copier_takes(run, node)) {
    HR_TRY(transfer == HR_TRANSFER_START ? hr__copier_start(run, node, err) : hr__copier_wait(run, node, err));
  } else {
    hr_launch fed;
    if (hr__feeds_in_line(run, node)) {
      fed = *launch;
      fed.copy.from = (const char *)fed.copy.from + run->fed_bytes;
      launch = &fed;
    }
    hr_status status = run->device->functions->launch(run->device, launch);
    if (status != HR_OK) return launch_failed(run, node, status, err);
  }
  if (run->options.time_nodes) {
    HR_TRY(run->device->functions->synchronize(run->device, err));
    run->node_seconds[node] += hr__seconds_now() - begin;
  }
  if (run->options.check_numerics && !transfer) HR_TRY(hr__check_node(run, node, err));
  hr__poison_after(run, program, position);
  return HR_OK;
}

static hr_status segment_execute(hr_run *run, hr_id program, const run_segment *segment, hr_error *err) {
  if (segment->recording) {
    size_t failed = segment->count;
    hr_status status = run->device->functions->replay(run->device, segment->recording, &failed);
    if (status != HR_OK)
      return launch_failed(run, failed < segment->count ? segment->first + (hr_id)failed : HR_NONE, status, err);
    return HR_OK;
  }
  for (hr_id n = segment->first; n < segment->first + segment->count; n++)
    HR_TRY(node_execute(run, program, n, err));
  return HR_OK;
}

void hr__run_feed(hr_run *run, int slot) {
  const hr_graph *graph = run->plan->graph;
  hr_id batch = hr__graph_find_value(graph, HR_BATCH);
  run->fed_bytes = batch == HR_NONE ? 0 : (size_t)slot * (hr_desc_bytes(&graph->values[batch].desc) / HR_BATCH_SLOTS);
}

void *hr__run_fed(hr_run *run, hr_id input) {
  return (char *)hr__run_address(run, input) + run->fed_bytes;
}

hr_status hr__run_begin(hr_run *run, hr_id program, hr_error *err) {
  uint64_t requests = hr__alloc_count();
  const run_program *bound = &run->programs[program];
  run->state_fresh = false;
  hr__poison_begin(run, program);
  for (size_t s = 0; s < bound->n_segments; s++) {
    hr_status status = segment_execute(run, program, &bound->segments[s], err);
    if (status != HR_OK) hr__copier_drain(run);
    HR_TRY(status);
  }
  assert(hr__alloc_count() == requests && "nothing allocates while a program runs");
  (void)requests;
  return HR_OK;
}

hr_status hr__run_end(hr_run *run, hr_error *err) {
  hr_status status = run->device->functions->synchronize(run->device, err);
  if (!run->device->failed) return status;
  hr_id node = (hr_id)(run->device->failed - run->launches);
  run->device->failed = NULL;
  return launch_failed(run, node, status, err);
}

hr_status hr__run_program(hr_run *run, hr_id program, hr_error *err) {
  HR_TRY(hr__run_begin(run, program, err));
  return hr__run_end(run, err);
}

static hr_status range_check(const hr_run *run, hr_id value, size_t offset, size_t bytes, hr_error *err) {
  size_t all = hr_desc_bytes(&run->plan->graph->values[value].desc);
  if (offset > all || bytes > all - offset)
    return hr__fail(err, HR_FAILURE, run->plan->graph->values[value].name, NULL,
                    "bytes [%zu, %zu) lie outside a value of %zu bytes", offset, offset + bytes, all);
  return HR_OK;
}

char *hr__run_place(const hr_run *run, hr_id value) {
  return (char *)run->base[hr__plan_value_tier(run->plan, value)] + hr__plan_value_offset(run->plan, value);
}

hr_disk_range hr__run_disk_range(const hr_run *run, hr_id value) {
  const hr_graph *graph = run->plan->graph;
  const hr_buffer *buffer = &graph->buffers[graph->values[value].buffer];
  uint64_t begin = hr__plan_value_offset(run->plan, value);
  return (hr_disk_range){buffer->name, begin, begin - graph->values[value].offset + buffer->bytes};
}

bool hr__run_is_state(const hr_run *run, hr_id value) {
  const hr_graph *graph = run->plan->graph;
  return graph->buffers[graph->values[value].buffer].role == HR_ROLE_OPTIMIZER;
}

/* The host may write a value from now on. */
static void host_writes(hr_run *run, hr_id value) {
  if (hr__run_is_state(run, value)) run->state_fresh = false;
  hr__poison_host(run, value);
}

static bool on_disk(const hr_run *run, hr_id value) {
  return hr__plan_value_tier(run->plan, value) == HR_TIER_DISK;
}

static bool host_reaches(const hr_run *run, hr_id value) {
  hr_tier tier = hr__plan_value_tier(run->plan, value);
  return tier == HR_TIER_HOST || (tier == HR_TIER_DEVICE && run->device->facts.kind == HR_CPU);
}

hr_status hr__run_write(hr_run *run, hr_id value, size_t offset, const void *data, size_t bytes, hr_error *err) {
  HR_TRY(range_check(run, value, offset, bytes, err));
  if (on_disk(run, value)) {
    hr_disk_range range = hr__run_disk_range(run, value);
    return hr__disk_write(&run->disk, &range, offset, data, bytes, err);
  }
  host_writes(run, value);
  char *to = hr__run_place(run, value) + offset;
  if (!host_reaches(run, value))
    return run->device->functions->copy(run->device, HR_COPY_TO_DEVICE, to, data, bytes, err);
  memcpy(to, data, bytes);
  return HR_OK;
}

hr_status hr__run_read(hr_run *run, hr_id value, size_t offset, void *data, size_t bytes, hr_error *err) {
  HR_TRY(range_check(run, value, offset, bytes, err));
  if (on_disk(run, value)) {
    hr_disk_range range = hr__run_disk_range(run, value);
    return hr__disk_read(&run->disk, &range, offset, data, bytes, err);
  }
  const char *from = hr__run_place(run, value) + offset;
  if (!host_reaches(run, value))
    return run->device->functions->copy(run->device, HR_COPY_FROM_DEVICE, data, from, bytes, err);
  memcpy(data, from, bytes);
  return HR_OK;
}

void *hr__run_address(hr_run *run, hr_id value) {
  if (!host_reaches(run, value)) return NULL;
  host_writes(run, value);
  return hr__run_place(run, value);
}

double hr__run_node_seconds(const hr_run *run, hr_id node) {
  return run->node_seconds ? run->node_seconds[node] : 0;
}

size_t hr__run_arena_bytes(const hr_run *run, hr_tier tier) {
  return run->plan->tiers[tier].arena_bytes;
}

const hr_graph *hr__run_graph(const hr_run *run) {
  return run->plan->graph;
}
