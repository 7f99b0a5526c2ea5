/* headroom devices: what there is to train on, with facts and rates and where the rates come from. */
#include <stdio.h>

#include "cli/cli.h"
#include "compile/compile.h"
#include "dev/gpus.h"
#include "job/devices.h"
#include "job/settings.h"
#include "measure/measure.h"
#include "plan/memory.h"
#include "plan/rates.h"

static void device_print(const hr_facts *facts, const hr_rates *rates, const char *cache, const hr_style *style) {
  char memory[HR_SIZE_TEXT], fixed[HR_SIZE_TEXT];
  printf("%s%s%s  %s\n", style->bold, hr_device_kind_name(facts->kind), style->end, facts->name);
  printf("  memory %s, of which the program itself takes %s; %d thread%s\n", hr__size_text(facts->memory_bytes, memory),
         hr__size_text(facts->fixed_bytes, fixed), facts->threads, facts->threads == 1 ? "" : "s");
  if (rates->measured)
    printf("  rates measured, with %zu products and %zu nodes of a recipe, in %s\n", rates->n_products, rates->n_ops,
           cache != NULL ? cache : "memory");
  else
    printf("  rates are %s: headroom devices --measure finds this machine's own\n",
           facts->kind == HR_CUDA && hr__gpu_like(facts) ? "the catalogue's" : "defaults");
  printf("  %-10s %8s %12s %12s %12s\n", "class", "threads", "GFLOP/s", "GB/s", "overhead");
  for (int c = 0; c < HR_CLASS_COUNT; c++)
    for (int all = 0; all < (rates->threads > 1 ? 2 : 1); all++) {
      const hr_class_rate *rate = &rates->classes[c][all];
      printf("  %-10s %8d %12.1f %12.1f %9.1f us\n", all == 0 ? hr_op_class_name((hr_op_class)c) : "",
             all ? rates->threads : 1, rate->flops_per_second / 1e9, rate->bytes_per_second / 1e9,
             rate->overhead_seconds * 1e6);
    }
}

/* What is to be measured: with a recipe the device that it names, and every node of its programs. */
typedef struct measuring {
  bool wanted, quick; /* quick: only a GPU, for a few seconds, and only what was not measured yet */
  hr_recipe *recipe;  /* NULL: every device */
  hr_graph *graph;    /* of the recipe */
} measuring;

static hr_status measuring_begin(const hr_cli *cli, measuring *m, hr_error *err) {
  m->quick = hr__cli_flag(cli, "quick");
  m->wanted = hr__cli_flag(cli, "measure") || m->quick;
  if (cli->n_arguments == 0) return HR_OK;
  if (!m->wanted)
    return hr__fail(err, HR_USAGE, NULL, "add --measure to measure the nodes of a recipe",
                    "a recipe is only of use when measuring");
  HR_TRY(hr__settings_load(cli->arguments[0], cli->overrides, cli->n_overrides, &m->recipe, err));
  return hr__compile(m->recipe, NULL, NULL, &m->graph, err);
}

static void measuring_end(measuring *m) {
  hr__graph_destroy(m->graph);
  hr__recipe_destroy(m->recipe);
}

static bool device_is_meant(const measuring *m, hr_device_kind kind) {
  if (m->recipe) return hr__memory_device(m->recipe) == kind;
  return m->wanted && (kind == HR_CUDA || !m->quick);
}

/* What is missing: the device's rates, and a recipe's nodes. */
static hr_status rates_complete(hr_device *device, const measuring *m, hr_rates *rates, hr_error *err) {
  HR_TRY(hr__rates_load(&device->facts, rates, err));
  if (!rates->measured) {
    hr__rates_fini(rates);
    HR_TRY(hr__measure_quick(device, rates, err));
  }
  return m->graph ? hr__measure_missing(device, m->graph, rates, err) : HR_OK;
}

/* Measures, and keeps the result in the cache file. */
static hr_status device_measure(const hr_cli *cli, hr_device *device, const measuring *m, hr_rates *rates,
                                hr_error *err) {
  if (!cli->quiet) fprintf(stderr, "measuring %s ...\n", device->facts.name);
  HR_TRY(m->quick ? rates_complete(device, m, rates, err) : hr__measure_rates(device, m->graph, rates, err));
  return hr__rates_save(&device->facts, rates, err);
}

static hr_status device_show(hr_cli *cli, hr_device *device, const measuring *m, json_t *list, hr_error *err) {
  hr_rates rates = {0};
  hr_status status;
  if (device_is_meant(m, device->facts.kind))
    status = device_measure(cli, device, m, &rates, err);
  else
    status = hr__rates_load(&device->facts, &rates, err);
  if (status == HR_OK) {
    const char *cache = hr__rates_path(&device->facts, &cli->arena);
    hr_style style = hr__cli_style(cli, stdout);
    if (cli->json)
      status =
          json_array_append_new(list, hr__answer_device(&device->facts, &rates, cache)) == 0 ? HR_OK : hr__nomem(err);
    else if (!cli->quiet)
      device_print(&device->facts, &rates, cache, &style);
  }
  hr__rates_fini(&rates);
  return status;
}

static hr_status devices_list(hr_cli *cli, const measuring *m, json_t *list, hr_error *err) {
  hr_device *device = NULL;
  HR_TRY(hr__cpu_open(&device, err));
  hr_status status = device_show(cli, device, m, list, err);
  hr__device_close(device);
  if (status != HR_OK) return status;

  hr_error why = {0};
  status = hr__cuda_open(&device, &why);
  if (status != HR_OK) {
    if (m->recipe && device_is_meant(m, HR_CUDA)) {
      *err = why;
      return status;
    }
    if (!cli->json && !cli->quiet) hr__cli_tell(cli, stdout, "", "cuda  none:", why.message);
    return HR_OK;
  }
  status = device_show(cli, device, m, list, err);
  hr__device_close(device);
  return status;
}

static void gpu_print(const hr_gpu *gpu) {
  char bf16[16] = "-", f16[16] = "-";
  if (gpu->bf16_flops_per_second > 0) snprintf(bf16, sizeof bf16, "%.0f", gpu->bf16_flops_per_second / 1e12);
  if (gpu->f16_flops_per_second > 0) snprintf(f16, sizeof f16, "%.0f", gpu->f16_flops_per_second / 1e12);
  printf("%-20s %7.0f %6d.%d %9.0f %7.1f %7s %7s %7.0f\n", gpu->label, (double)gpu->memory_bytes / (1 << 20),
         gpu->capability / 10, gpu->capability % 10, gpu->memory_bytes_per_second / 1e9,
         gpu->f32_flops_per_second / 1e12, bf16, f16, gpu->host_bytes_per_second / 1e9);
}

/* The catalogue: what plan --gpu takes. */
static hr_status gpus_list(const hr_cli *cli, hr_error *err) {
  if (cli->json) return hr__cli_put_json(hr__answer_gpus(), err);
  size_t count;
  const hr_gpu *gpus = hr__gpus(&count);
  if (cli->quiet) return hr__cli_flush(err);
  printf("%-20s %7s %8s %9s %7s %7s %7s %7s\n", "GPU", "MiB", "compute", "GB/s", "f32", "bf16", "f16", "PCIe");
  for (size_t i = 0; i < count; i++)
    gpu_print(&gpus[i]);
  printf("products: dense TFLOP/s as the vendor gives them; PCIe: GB/s of pinned copies\n");
  return hr__cli_flush(err);
}

static hr_status devices_run(hr_cli *cli, hr_error *err) {
  if (hr__cli_flag(cli, "gpus")) return gpus_list(cli, err);
  json_t *list = json_array();
  if (list == NULL) return hr__nomem(err);
  measuring m = {0};
  hr_status status = measuring_begin(cli, &m, err);
  if (status == HR_OK) status = devices_list(cli, &m, list, err);
  measuring_end(&m);
  if (status == HR_OK && cli->json) return hr__cli_put_json(json_pack("{s:o}", "devices", list), err);
  json_decref(list);
  HR_TRY(status);
  return hr__cli_flush(err);
}

static const hr_cli_option options[] = {
    {"measure", NULL, "finds the rates (half a minute each) and keeps them"},
    {"gpus", NULL, "the catalogue: GPUs that plan --gpu knows"},
    {"quick", NULL, NULL}, /* what plan, train and profile start where something was not measured: cli/jobs.h */
};

const hr_cli_command hr_cli_devices = {
    .name = "devices",
    .usage = "[RECIPE]",
    .summary = "devices of this machine, their memory and their rates",
    .details = "With --measure and a recipe: the device it names, and every kind of its nodes.",
    .examples = "devices --gpus\ndevices",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .max_arguments = 1,
    .run = devices_run,
};
