/* See devices.h. */
#include "job/devices.h"

#include "dev/gpus.h"
#include "format/json.h"

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

json_t *hr__answer_device(const hr_facts *facts, const hr_rates *rates, const char *cache) {
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:i, s:o, s:o}", "kind", hr_device_kind_name(facts->kind), "name",
                   facts->name, "memory_bytes", (json_int_t)facts->memory_bytes, "fixed_bytes",
                   (json_int_t)facts->fixed_bytes, "alignment", (json_int_t)facts->alignment, "threads", facts->threads,
                   "rates", rates_json(rates), "cache_file", cache != NULL ? hr__json_string(cache) : json_null());
}

static hr_status device_add(hr_device *device, json_t *list, hr_error *err) {
  hr_rates rates = {0};
  HR_TRY(hr__rates_load(&device->facts, &rates, err));
  hr_arena arena;
  hr__arena_init(&arena);
  json_t *object = hr__answer_device(&device->facts, &rates, hr__rates_path(&device->facts, &arena));
  hr__arena_fini(&arena);
  hr__rates_fini(&rates);
  return json_array_append_new(list, object) == 0 ? HR_OK : hr__nomem(err);
}

static hr_status devices_add(json_t *list, hr_error *err) {
  hr_device *device = NULL;
  HR_TRY(hr__cpu_open(&device, err));
  hr_status status = device_add(device, list, err);
  hr__device_close(device);
  hr_error none; /* why there is no GPU */
  if (status != HR_OK || hr__cuda_open(&device, &none) != HR_OK) return status;
  status = device_add(device, list, err);
  hr__device_close(device);
  return status;
}

hr_status hr__answer_devices(json_t **out, hr_error *err) {
  json_t *list = json_array();
  hr_status status = list ? devices_add(list, err) : hr__nomem(err);
  *out = status == HR_OK ? json_pack("{s:O}", "devices", list) : NULL;
  json_decref(list);
  return status == HR_OK && !*out ? hr__nomem(err) : status;
}

static json_t *gpu_json(const hr_gpu *gpu) {
  hr_facts facts;
  hr__gpu_facts(gpu, &facts);
  return json_pack(
      "{s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:s}", "name", gpu->name, "label", gpu->label,
      "memory_bytes", (json_int_t)gpu->memory_bytes, "usable_bytes", (json_int_t)gpu->usable_bytes, "fixed_bytes",
      (json_int_t)facts.fixed_bytes, "fixed_margin_bytes", (json_int_t)facts.margin_bytes, "compute_capability",
      gpu->capability / 10.0, "memory_bytes_per_second", gpu->memory_bytes_per_second, "f32_flops_per_second",
      gpu->f32_flops_per_second, "bf16_flops_per_second", gpu->bf16_flops_per_second, "f16_flops_per_second",
      gpu->f16_flops_per_second, "host_bytes_per_second", gpu->host_bytes_per_second, "source", gpu->source);
}

json_t *hr__answer_gpus(void) {
  size_t count;
  const hr_gpu *gpus = hr__gpus(&count);
  json_t *list = json_array();
  int failed = list == NULL;
  for (size_t i = 0; i < count && !failed; i++)
    failed = json_array_append_new(list, gpu_json(&gpus[i]));
  if (!failed) return json_pack("{s:o}", "gpus", list);
  json_decref(list);
  return NULL;
}
