/* Nets of include/headroom.h: a graph built by hand, compiled, planned and run as those of recipes are. */
#include <math.h>

#include "compile/compile.h"
#include "format/json.h"
#include "headroom.h"
#include "library/api.h"
#include "op/add.h"
#include "op/linear.h"
#include "op/mse.h"
#include "op/swiglu.h"
#include "plan/report.h"
#include "run/run.h"

_Static_assert(HR_NO_VALUE == HR_NONE, "value ids are the graph's");

struct hr_net {
  hr_builder builder;
  hr_graph *graph;
  hr_rates rates;
  hr_plan *plan;
  hr_device *device;
  hr_run *run;  /* NULL until compiled */
  bool started; /* hr_net_compile has begun to change the graph: nothing can be added, and it cannot be done again */
  hr_id program, loss, control;
  hr_control state;
};

static const float beta1 = 0.9f, beta2 = 0.999f; /* as in `settings` */
static const char settings[] = "data: { source: synthetic, sequence_length: 1 }\n"
                               "training: { optimizer: { betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0 } }\n";

hr_result hr_net_create(hr_net **net, hr_error *error) {
  *net = NULL;
  hr__json_init();
  hr_net *made = hr__alloc_zero(1, sizeof *made);
  if (!made) return hr__api_result(hr__nomem(error));
  hr_status status = hr__graph_create(&made->graph, error);
  if (status != HR_OK) {
    hr__free(made);
    return hr__api_result(status);
  }
  hr__builder_init(&made->builder, made->graph, HR_F32);
  made->program = hr__program_begin(&made->builder, HR_PROGRAM_STEP);
  made->state = (hr_control){.loss_weight = 1, .loss_scale = 1};
  *net = made;
  return HR_RESULT_OK;
}

void hr_net_destroy(hr_net *net) {
  if (!net) return;
  hr__run_destroy(net->run);
  hr__device_close(net->device);
  hr__plan_destroy(net->plan);
  hr__rates_fini(&net->rates);
  hr__graph_destroy(net->graph);
  hr__free(net);
}

hr_value_id hr_net_input(hr_net *net, const char *name, int64_t rows, int64_t columns) {
  /* persistent: what is written stays until it is written again */
  return hr__persistent(&net->builder, name, HR_ROLE_INPUT, hr__desc2(HR_F32, rows, columns),
                        (hr_init){.rule = HR_INIT_ZERO});
}

hr_value_id hr_net_parameter(hr_net *net, const char *name, int64_t rows, int64_t columns, float std) {
  hr_init init = {.rule = HR_INIT_NORMAL, .a = std};
  return hr__parameter(&net->builder, name, hr__desc2(HR_F32, rows, columns), init);
}

hr_value_id hr_net_linear(hr_net *net, hr_value_id x, hr_value_id weight) {
  return hr__linear(&net->builder, x, weight, HR_NONE);
}

hr_value_id hr_net_add(hr_net *net, hr_value_id a, hr_value_id b) {
  return hr__add(&net->builder, a, b, 1.0f);
}

hr_value_id hr_net_swiglu(hr_net *net, hr_value_id gate, hr_value_id up) {
  return hr__swiglu(&net->builder, gate, up);
}

hr_value_id hr_net_mse(hr_net *net, hr_value_id y, hr_value_id target) {
  return hr__mse(&net->builder, y, target);
}

static hr_status graph_compile(hr_net *net, hr_id loss, hr_error *error) {
  hr_recipe *recipe;
  HR_TRY(hr__by_hand_settings(settings, &recipe, error));
  hr__program_set_reported(&net->builder, "loss", loss, HR_OUTPUT_LOSS, 1.0f, HR_NONE);
  hr_status status = hr__compile_by_hand(&net->builder, recipe, error);
  hr__recipe_destroy(recipe);
  return status == HR_OK ? hr__graph_verify(net->graph, error) : status;
}

static hr_status net_build(hr_net *net, hr_id loss, uint64_t seed, hr_error *error) {
  HR_TRY(graph_compile(net, loss, error));
  net->control = hr__graph_find_value(net->graph, "control");
  HR_TRY(hr__cpu_open(&net->device, error));
  HR_TRY(hr__rates_load(&net->device->facts, &net->rates, error));
  hr_plan_options options = {.accumulation = 1};
  HR_TRY(hr__plan_build(net->graph, &net->device->facts, &net->rates, &options, &net->plan, error));
  hr_run_options plain = {0};
  HR_TRY(hr__run_create(net->plan, net->device, &plain, &net->run, error));
  net->loss = hr__program_output(net->graph, net->program, "loss");
  net->state.seed = seed;
  return hr__run_init_values(net->run, seed, error);
}

static bool any_trained(const hr_graph *graph) {
  bool any = false;
  for (size_t v = 0; v < graph->n_values; v++)
    any |= graph->values[v].trained;
  return any;
}

static hr_status net_compile(hr_net *net, hr_id loss, uint64_t seed, hr_error *error) {
  if (net->started)
    return hr__fail(error, HR_USAGE, "hr_net_compile", "make a new net", "this net has been compiled already");
  HR_TRY(hr__builder_status(&net->builder, error));
  if (loss >= net->graph->n_values || hr_desc_count(&net->graph->values[loss].desc) != 1)
    return hr__fail(error, HR_USAGE, "hr_net_compile", "give what hr_net_mse returned", "the loss is not a scalar");
  if (!any_trained(net->graph))
    return hr__fail(error, HR_USAGE, "hr_net_compile", "give it a parameter (hr_net_parameter)",
                    "nothing of this net is trained");
  net->started = true;
  hr_status status = net_build(net, loss, seed, error);
  if (status != HR_OK) {
    hr__run_destroy(net->run);
    net->run = NULL;
  }
  /* errors of the builder stick: whatever is added from now on is refused */
  net->builder.status =
      hr__fail(&net->builder.error, HR_USAGE, "net", "make a new net", "nothing can be added after hr_net_compile");
  return status;
}

hr_result hr_net_compile(hr_net *net, hr_value_id loss, uint64_t seed, hr_error *error) {
  return hr__api_result(net_compile(net, loss, seed, error));
}

uint64_t hr_net_peak_bytes(const hr_net *net) {
  return net->plan ? net->plan->tiers[HR_TIER_DEVICE].peak_bytes : 0;
}

static hr_status net_check(const hr_net *net, hr_error *error) {
  if (net->run) return HR_OK;
  return hr__fail(error, HR_USAGE, NULL, "call hr_net_compile first", "this net is not compiled");
}

hr_result hr_net_plan_json(const hr_net *net, char **json, hr_error *error) {
  *json = NULL;
  hr_status status = net_check(net, error);
  if (status != HR_OK) return hr__api_result(status);
  return hr__api_result(hr__api_text(hr__report_buffers_json(net->plan), json, error));
}

/* Only values that outlive a step can be reached from outside: parameters and inputs. */
static hr_status net_reach(const hr_net *net, hr_id value, size_t count, hr_error *error) {
  HR_TRY(net_check(net, error));
  if (value >= net->graph->n_values || net->graph->values[value].producer != HR_NONE)
    return hr__fail(error, HR_USAGE, NULL, "give an input or a parameter", "value %u cannot be reached", value);
  size_t elements = (size_t)hr_desc_count(&net->graph->values[value].desc);
  if (elements != count)
    return hr__fail(error, HR_USAGE, net->graph->values[value].name, NULL, "has %zu elements, not %zu", elements,
                    count);
  return HR_OK;
}

hr_result hr_net_write(hr_net *net, hr_value_id value, const float *data, size_t count, hr_error *error) {
  hr_status status = net_reach(net, value, count, error);
  if (status == HR_OK) status = hr__run_write(net->run, value, 0, data, count * sizeof *data, error);
  return hr__api_result(status);
}

hr_result hr_net_read(hr_net *net, hr_value_id value, float *data, size_t count, hr_error *error) {
  hr_status status = net_reach(net, value, count, error);
  if (status == HR_OK) status = hr__run_read(net->run, value, 0, data, count * sizeof *data, error);
  return hr__api_result(status);
}

static hr_status net_step(hr_net *net, float learning_rate, float *loss, hr_error *error) {
  HR_TRY(net_check(net, error));
  net->state.step++;
  double step = (double)net->state.step;
  net->state.learning_rate = learning_rate;
  net->state.bias_correction1 = (float)(1 - pow(beta1, step));
  net->state.bias_correction2 = (float)(1 - pow(beta2, step));
  HR_TRY(hr__run_write(net->run, net->control, 0, &net->state, sizeof net->state, error));
  HR_TRY(hr__run_program(net->run, net->program, error));
  return hr__run_read(net->run, net->loss, 0, loss, sizeof *loss, error);
}

hr_result hr_net_step(hr_net *net, float learning_rate, float *loss, hr_error *error) {
  return hr__api_result(net_step(net, learning_rate, loss, error));
}
