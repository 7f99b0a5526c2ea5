/* See part_net.h. */
#include "part_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/builder.h"
#include "op/linear.h"
#include "op/mse.h"

static void must(hr_status status, const hr_error *err) {
  if (status != HR_OK) fail_msg("%s: %s: %s", hr_status_name(status), err->place, err->message);
}

void net_open(net *n, hr_dtype dtype) {
  *n = (net){0};
  hr_error err = {0};
  hr_builder b;
  must(hr__graph_create(&n->graph, &err), &err);
  hr__builder_init(&b, n->graph, dtype);
  n->program = hr__program_begin(&b, HR_PROGRAM_STEP);
  n->x = hr__input(&b, "x", hr__desc2(dtype, 4, 8));
  n->t = hr__input(&b, "t", hr__desc2(dtype, 4, 8));
  n->first = hr__parameter(&b, "first.weight", hr__desc2(dtype, 16, 8), (hr_init){.rule = HR_INIT_NORMAL, .a = 0.5f});
  n->second = hr__parameter(&b, "second.weight", hr__desc2(dtype, 8, 16), (hr_init){.rule = HR_INIT_NORMAL, .a = 0.5f});
  (void)hr__persistent(&b, "ones", HR_ROLE_OPTIMIZER, hr__desc1(HR_F32, 3), (hr_init){.rule = HR_INIT_ONE});
  (void)hr__persistent(&b, "zeros", HR_ROLE_OPTIMIZER, hr__desc1(HR_F32, 3), (hr_init){.rule = HR_INIT_ZERO});
  hr__module(&b, "first");
  hr_id y = hr__linear(&b, n->x, n->first, HR_NONE);
  hr__module(&b, "second");
  hr_id z = hr__linear(&b, y, n->second, HR_NONE);
  hr__module(&b, "loss");
  n->loss = hr__mse(&b, z, n->t);
  hr__program_set_output(&b, "loss", n->loss);
  must(hr__builder_status(&b, &err), &err);
  must(hr__cpu_open(&n->device, &err), &err);
  hr__rates_default(&n->device->facts, &n->rates);
  hr_plan_options options = {.accumulation = 1};
  must(hr__plan_build(n->graph, &n->device->facts, &n->rates, &options, &n->plan, &err), &err);
}

void net_close(net *n) {
  hr__plan_destroy(n->plan);
  hr__device_close(n->device);
  hr__rates_fini(&n->rates);
  hr__graph_destroy(n->graph);
}

hr_run *net_run(net *n, hr_run_options options) {
  hr_error err = {0};
  hr_run *run = NULL;
  must(hr__run_create(n->plan, n->device, &options, &run, &err), &err);
  must(hr__run_init_values(run, 11, &err), &err);
  return run;
}

void net_fill(net *n, hr_run *run) {
  hr_error err = {0};
  float x[32], t[32];
  uint16_t half[32];
  hr_dtype dtype = n->graph->values[n->x].desc.dtype;
  for (int i = 0; i < 32; i++) {
    x[i] = 0.125f * (float)(i % 9 - 4);
    t[i] = 0.25f * (float)(i % 5 - 2);
  }
  for (int which = 0; which < 2; which++) {
    const float *from = which ? t : x;
    for (int i = 0; i < 32; i++)
      half[i] = hr__f32_to_bf16(from[i]);
    const void *data = dtype == HR_BF16 ? (const void *)half : (const void *)from;
    must(hr__run_write(run, which ? n->t : n->x, 0, data, 32 * hr_dtype_bytes(dtype), &err), &err);
  }
}
