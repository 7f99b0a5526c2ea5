/* See guide_flags.h. */
#include "cli/guide_flags.h"

#include <inttypes.h>
#include <string.h>

#include "job/settings.h"
#include "model/parts.h"

/* What a flag stands for, as overrides; without a value: the flag's own goes behind the key. */
typedef struct meaning {
  const char *flag, *key, *value;
} meaning;

static const meaning meanings[] = {
    {"checkpoint-every-layer", "memory.checkpoint", "every-layer"},
    {"no-checkpointing", "memory.checkpoint", "none"},
    {"synthetic", "data.path", "null"},
    {"synthetic", "data.source", "synthetic"},
    {"offload-folder", "memory.offload_folder", NULL},
    {"optimizer", "training.optimizer.kind", NULL},
};

/* Two flags that say the same key differently. */
static hr_status once(const hr_cli *cli, const char *a, const char *b, hr_error *err) {
  if (!hr__cli_flag(cli, a) || !hr__cli_flag(cli, b)) return HR_OK;
  return hr__fail(err, HR_USAGE, NULL, "give one of them", "--%s and --%s say the same setting", a, b);
}

/* As DeepSpeed counts them: what is not kept on the device, on one GPU. */
static hr_status zero_add(hr_cli *cli, hr_error *err) {
  int64_t stage;
  if (!hr__cli_value(cli, "zero-stage")) return HR_OK;
  HR_TRY(hr__cli_int(cli, "zero-stage", 0, 0, &stage, err));
  if (stage > 3)
    return hr__fail(err, HR_USAGE, "--zero-stage", "give 0 to 3; 2 and 3 offload", "there is no stage %" PRId64, stage);
  HR_TRY(hr__cli_override(cli, err, "memory.offload.optimizer=%s", stage >= 2 ? "host" : "device"));
  return hr__cli_override(cli, err, "memory.offload.parameters=%s", stage == 3 ? "host" : "device");
}

static hr_status qlora_part(hr_cli *cli, const hr_model_part *part, hr_error *err) {
  const char *section = part->scope.section;
  HR_TRY(hr__cli_override(cli, err, "%s.quantize.kind=nf4", section));
  HR_TRY(hr__cli_override(cli, err, "%s.adapters.kind=lora", section));
  if (hr__scope_given(&part->scope, "quantize.targets")) return HR_OK;
  const char *targets = "";
  for (size_t i = 0; i < part->model->n_targets; i++) {
    targets = hr__arena_format(&cli->arena, "%s%s%s", targets, i > 0 ? ", " : "", part->model->targets[i]);
    if (!targets) return hr__nomem(err);
  }
  return hr__cli_override(cli, err, "%s.quantize.targets=[%s]", section, targets);
}

/* Of a model of parts, the parts that name layers which adapters go to; else the model, as --method qlora. */
static hr_status qlora_add(hr_cli *cli, hr_error *err) {
  if (!hr__cli_flag(cli, "qlora")) return HR_OK;
  HR_TRY(once(cli, "qlora", "method", err));
  if (cli->n_arguments == 0 || hr__settings_is_checkpoint(cli->arguments[0]))
    return hr__fail(err, HR_USAGE, "--qlora", "write --method qlora", "of a model's folder it says too little");
  hr_recipe *recipe = NULL;
  HR_TRY(hr__settings_load(cli->arguments[0], cli->overrides, cli->n_overrides, &recipe, err));
  hr_model_parts parts;
  hr__parts_read(recipe, &parts);
  hr_status status = HR_OK;
  size_t adapted = 0;
  for (size_t p = parts.count > 1; p < parts.count && status == HR_OK; p++) {
    if (parts.part[p].model->n_targets == 0) continue;
    status = qlora_part(cli, &parts.part[p], err);
    adapted++;
  }
  hr__recipe_destroy(recipe);
  if (status != HR_OK || adapted > 0) return status;
  return hr__fail(err, HR_USAGE, "--qlora", "leave it out: this model is trained whole",
                  "nothing in %s has layers that adapters go to", cli->arguments[0]);
}

hr_status hr__guide_flags(hr_cli *cli, hr_error *err) {
  HR_TRY(once(cli, "gpu-memory", "max-gpu-mem", err));
  HR_TRY(once(cli, "checkpoint-every-layer", "no-checkpointing", err));
  HR_TRY(once(cli, "synthetic", "data", err));
  HR_TRY(hr__cli_size_override(cli, "max-gpu-mem", "memory.budget", err));
  HR_TRY(hr__cli_size_override(cli, "cpu-mem", "memory.host_budget", err));
  for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
    const meaning *m = &meanings[i];
    const char *value = hr__cli_value(cli, m->flag);
    if (value) HR_TRY(hr__cli_override(cli, err, "%s=%s", m->key, m->value ? m->value : value));
  }
  if (hr__cli_value(cli, "grad-accum-steps")) {
    int64_t steps;
    HR_TRY(hr__cli_int(cli, "grad-accum-steps", 1, 0, &steps, err));
    HR_TRY(hr__cli_override(cli, err, "training.effective_batch=null"));
    HR_TRY(hr__cli_override(cli, err, "training.gradient_accumulation=%" PRId64, steps));
  }
  HR_TRY(zero_add(cli, err));
  return qlora_add(cli, err);
}
