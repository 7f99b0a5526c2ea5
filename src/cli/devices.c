/* headroom devices: what there is to train on, with facts and rates and where the rates come from. */
#include <inttypes.h>

#include "cli/cli.h"
#include "format/json.h"
#include "pass/compile.h"
#include "plan/rates.h"
#include "run/measure.h"
#include "train/settings.h"

static json_t *class_json(const hr_class_rate *rate, int threads) {
  return json_pack("{s:i, s:f, s:f, s:f}", "threads", threads, "flops_per_second", rate->flops_per_second,
                   "bytes_per_second", rate->bytes_per_second, "overhead_seconds", rate->overhead_seconds);
}

static json_t *rates_json(const hr_rates *rates) {
  json_t *classes = json_object();
  for (int c = 0; classes != NULL && c < HR_CLASS_COUNT; c++) {
    json_t *pair =
        json_pack("[o, o]", class_json(&rates->classes[c][0], 1), class_json(&rates->classes[c][1], rates->threads));
    if (json_object_set_new(classes, hr_op_class_name((hr_op_class)c), pair) != 0) { /* also when pair is NULL */
      json_decref(classes);
      return NULL;
    }
  }
  return json_pack("{s:b, s:I, s:I, s:o}", "measured", rates->measured, "products", (json_int_t)rates->n_products,
                   "nodes", (json_int_t)rates->n_ops, "classes", classes);
}

static json_t *device_json(const hr_facts *facts, const hr_rates *rates, const char *cache) {
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:i, s:o, s:o}", "kind", hr_device_kind_name(facts->kind), "name",
                   facts->name, "memory_bytes", (json_int_t)facts->memory_bytes, "fixed_bytes",
                   (json_int_t)facts->fixed_bytes, "alignment", (json_int_t)facts->alignment, "threads", facts->threads,
                   "rates", rates_json(rates), "cache_file", cache != NULL ? hr__json_string(cache) : json_null());
}

static void device_print(const hr_facts *facts, const hr_rates *rates, const char *cache, const hr_style *style) {
  char memory[HR_SIZE_TEXT], fixed[HR_SIZE_TEXT];
  printf("%s%s%s  %s\n", style->bold, hr_device_kind_name(facts->kind), style->end, facts->name);
  printf("  memory %s, of which the program itself takes %s; %d thread%s\n", hr__size_text(facts->memory_bytes, memory),
         hr__size_text(facts->fixed_bytes, fixed), facts->threads, facts->threads == 1 ? "" : "s");
  if (rates->measured)
    printf("  rates measured, with %zu products and %zu nodes of a recipe, in %s\n", rates->n_products, rates->n_ops,
           cache != NULL ? cache : "memory");
  else if (facts->kind == HR_CPU)
    printf("  rates are defaults: headroom devices --measure finds this machine's own\n");
  else
    printf("  rates are defaults: only those of the CPU can be measured\n");
  printf("  %-10s %8s %12s %12s %12s\n", "class", "threads", "GFLOP/s", "GB/s", "overhead");
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    for (int all = 0; all < (rates->threads > 1 ? 2 : 1); all++) {
      const hr_class_rate *rate = &rates->classes[c][all];
      printf("  %-10s %8d %12.1f %12.1f %9.1f us\n", all == 0 ? hr_op_class_name((hr_op_class)c) : "",
             all ? rates->threads : 1, rate->flops_per_second / 1e9, rate->bytes_per_second / 1e9,
             rate->overhead_seconds * 1e6);
    }
}

/* Measures, and keeps the result in the cache file. With a recipe every node of its programs is measured too. */
static hr_status device_measure(const hr_cli *cli, hr_device *device, hr_rates *rates, hr_error *err) {
  hr_recipe *recipe = NULL;
  hr_graph *graph = NULL;
  hr_status status = HR_OK;
  if (cli->n_arguments > 0) {
    HR_TRY(hr__settings_load(cli->arguments[0], cli->overrides, cli->n_overrides, &recipe, err));
    status = hr__compile(recipe, NULL, NULL, &graph, err);
  }
  if (!cli->quiet) fprintf(stderr, "measuring %s ...\n", device->facts.name);
  if (status == HR_OK) status = hr__measure_rates(device, graph, rates, err);
  if (status == HR_OK) status = hr__rates_save(&device->facts, rates, err);
  hr__graph_destroy(graph);
  hr__recipe_destroy(recipe);
  return status;
}

static hr_status device_show(hr_cli *cli, hr_device *device, json_t *list, hr_error *err) {
  hr_rates rates = {0};
  hr_status status;
  if (hr__cli_flag(cli, "measure") && device->facts.kind == HR_CPU)
    status = device_measure(cli, device, &rates, err);
  else
    status = hr__rates_load(&device->facts, &rates, err);
  if (status == HR_OK) {
    const char *cache = hr__rates_path(&device->facts, &cli->arena);
    hr_style style = hr__cli_style(cli, stdout);
    if (cli->json)
      status = json_array_append_new(list, device_json(&device->facts, &rates, cache)) == 0 ? HR_OK : hr__nomem(err);
    else if (!cli->quiet)
      device_print(&device->facts, &rates, cache, &style);
  }
  hr__rates_fini(&rates);
  return status;
}

static hr_status devices_list(hr_cli *cli, json_t *list, hr_error *err) {
  hr_device *device = NULL;
  HR_TRY(hr__cpu_open(&device, err));
  hr_status status = device_show(cli, device, list, err);
  hr__device_close(device);
  if (status != HR_OK) return status;

  hr_error why = {0};
  if (hr__cuda_open(&device, &why) != HR_OK) {
    if (!cli->json && !cli->quiet) printf("cuda  none: %s\n", why.message);
    return HR_OK;
  }
  status = device_show(cli, device, list, err);
  hr__device_close(device);
  return status;
}

static hr_status devices_run(hr_cli *cli, hr_error *err) {
  if (cli->n_arguments > 0 && !hr__cli_flag(cli, "measure"))
    return hr__fail(err, HR_USAGE, NULL, "add --measure to measure the nodes of a recipe",
                    "a recipe is only of use when measuring");
  json_t *list = json_array();
  if (list == NULL) return hr__nomem(err);
  hr_status status = devices_list(cli, list, err);
  if (status == HR_OK && cli->json) return hr__cli_put_json(json_pack("{s:o}", "devices", list), err);
  json_decref(list);
  HR_TRY(status);
  return hr__cli_flush(err);
}

static const hr_cli_option options[] = {
    {"measure", NULL, "runs kernels to find the CPU's rates (about half a minute) and keeps them"},
};

const hr_cli_command hr_cli_devices = {
    .name = "devices",
    .usage = "[RECIPE]",
    .summary = "devices of this machine, their memory and their rates",
    .details = "With --measure and a recipe, every kind of node of that recipe is measured as well.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .max_arguments = 1,
    .run = devices_run,
};
