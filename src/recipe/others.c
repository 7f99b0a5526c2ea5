/* See others.h. */
#include "recipe/others.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "recipe/internal.h"
#include "recipe/maps.h"

#define SETTING(names, setting, option)                                                                                \
  { names, setting, NULL, option, NULL }
#define CHOICE(names, setting, value, option)                                                                          \
  { names, setting, value, option, NULL }
#define ADVICE(names, advice)                                                                                          \
  { names, NULL, NULL, NULL, advice }

static const hr_other others[] = {
    CHOICE("bf16|bfloat16|use_bf16", "model.precision", "bf16-mixed", NULL),
    CHOICE("fp16|float16|half|amp|use_amp|use_fp16", "model.precision", "16-mixed", NULL),
    CHOICE("fp32|float32", "model.precision", "32-true", NULL),
    CHOICE("pure_bf16", "model.precision", "bf16-true", NULL),
    SETTING("precision|dtype|torch_dtype|mixed_precision|weight_dtype", "model.precision", NULL),
    SETTING("lr|learning_rate", "training.optimizer.lr", NULL),
    SETTING("optim|optimizer|optimizer_type|optimizer_name", "training.optimizer.kind", NULL),
    SETTING("weight_decay|wd", "training.optimizer.weight_decay", NULL),
    SETTING("momentum", "training.optimizer.momentum", NULL),
    SETTING("betas|adam_betas", "training.optimizer.betas", NULL),
    SETTING("adam_epsilon|adam_eps|eps", "training.optimizer.eps", NULL),
    SETTING("max_grad_norm|grad_clip|gradient_clip|gradient_clip_val|gradient_clipping|clip_grad_norm|clip_grad",
            "training.clip_norm", NULL),
    SETTING("warmup|warmup_steps|num_warmup_steps|lr_warmup_steps", "training.schedule.warmup_steps", NULL),
    SETTING("warmup_ratio|warmup_share", "training.schedule.warmup_ratio", NULL),
    SETTING("lr_scheduler|lr_scheduler_type|scheduler|lr_schedule", "training.schedule.kind", NULL),
    SETTING("min_lr_ratio|min_lr_rate", "training.schedule.min_lr_ratio", NULL),
    SETTING("batch_size|train_batch_size|micro_batch_size|per_device_train_batch_size|per_device_batch_size|bs|mbs",
            "training.batch_size", "batch"),
    SETTING("gradient_accumulation_steps|gradient_accumulation|grad_accumulation_steps|grad_accum|"
            "grad_accum_steps|accumulate_grad_batches|accumulation_steps",
            "training.gradient_accumulation", NULL),
    SETTING("effective_batch|effective_batch_size|global_batch_size|total_batch_size", "training.effective_batch",
            "target-effective-batch"),
    SETTING("max_steps|num_steps|total_steps|max_iters|max_train_steps|iterations|iters", "training.steps", "steps"),
    SETTING("save_steps|save_interval|checkpoint_every|save_freq", "training.save_every", NULL),
    SETTING("eval_steps|eval_interval|eval_freq", "training.eval_every", NULL),
    SETTING("save_total_limit|keep_last|keep_last_n|max_checkpoints|save_top_k", "training.keep", NULL),
    CHOICE("load_best_model_at_end|keep_best|save_best_only|save_best_model", "training.save_best", "true", NULL),
    SETTING("early_stopping|early_stopping_patience|early_stop|early_stop_patience", "training.patience", NULL),
    SETTING("metric_for_best_model|monitor", "training.best.metric", NULL),
    CHOICE("greater_is_better", "training.best.order", "highest", NULL),
    SETTING("early_stopping_threshold|early_stopping_min_delta", "training.best.min_delta", NULL),
    SETTING("logging_steps|log_interval|log_steps|log_freq", "training.log_every", NULL),
    SETTING("seed|random_seed|seed_everything|manual_seed", "training.seed", NULL),
    SETTING("seq_len|seq_length|sequence_length|sequence_len|max_seq_len|max_seq_length|max_length|max_len|"
            "model_max_length|block_size|context_length|context_len|cutoff_len|ctx_len|n_ctx",
            "data.sequence_length", "seq"),
    SETTING("data|dataset|data_path|data_file|train_file|train_data|dataset_path|corpus", "data.path", "data"),
    SETTING("val_split|val_set_size|validation_split|eval_split", "data.eval_fraction", NULL),
    SETTING("lora_r|lora_rank|lora_dim|adapter_rank", "model.adapters.rank", "rank"),
    SETTING("lora_alpha", "model.adapters.alpha", NULL),
    SETTING("lora_dropout", "model.adapters.dropout", NULL),
    SETTING("lora_target|lora_targets|lora_target_modules|target_modules", "model.adapters.targets", NULL),
    CHOICE("lora|use_lora|use_peft|peft", "model.adapters.kind", "lora", "method"),
    CHOICE("qlora|load_in_4bit|use_4bit|4bit|nf4", "model.quantize.kind", "nf4", "method"),
    CHOICE("gradient_checkpointing|activation_checkpointing|enable_activation_checkpointing|use_gradient_checkpointing|"
           "grad_checkpointing|checkpointing|recompute",
           "memory.checkpoint", "every-layer", NULL),
    CHOICE("cpu_offload|offload|offload_optimizer|optimizer_offload", "memory.offload.optimizer", "host", NULL),
    CHOICE("offload_params|offload_parameters|param_offload", "memory.offload.parameters", "host", NULL),
    CHOICE("activation_offloading|offload_activations|enable_activation_offloading", "memory.offload.activations",
           "host", NULL),
    CHOICE("optimizer_in_bwd|fused_backward|optimizer_in_backward", "memory.update", "in-backward", NULL),
    SETTING("device|accelerator", "memory.device", NULL),
    CHOICE("cuda", "memory.device", "cuda", NULL),
    SETTING("budget|memory_budget|max_memory|memory_limit|vram", "memory.budget", "gpu-memory"),
    SETTING("offload_folder|offload_dir|nvme_path|swap_dir", "memory.offload_folder", NULL),
    SETTING("output_dir|output|save_dir|out_dir|default_root_dir|save_path|run_dir", NULL, "out"),
    SETTING("resume_from_checkpoint|resume_from|auto_resume|ckpt_path|continue", NULL, "resume"),
    SETTING("epochs|epoch|num_epochs|num_train_epochs|max_epochs|n_epochs", "training.epochs", "epochs"),
    ADVICE("model|model_name|model_name_or_path|base_model|pretrained_model_name_or_path|checkpoint|ckpt|model_path",
           "the folder of the model stands where a recipe does: headroom plan DIR --method lora"),
    ADVICE("config|config_file|config_path|recipe|cfg", "it needs no option: headroom plan RECIPE"),
    ADVICE("dry_run|estimate|no_train|simulate", "headroom plan says what a run would take, and writes nothing"),
    ADVICE("load_in_8bit|8bit|int8", "frozen weights are packed in 4 bits: --set model.quantize.kind=nf4"),
    ADVICE("num_gpus|gpus|n_gpus|devices|nproc_per_node|num_processes|world_size|tensor_parallel|fsdp|ddp|deepspeed",
           "a run is one process on one device"),
    SETTING("num_workers|dataloader_num_workers|workers", "data.workers", NULL),
    ADVICE("verbose|debug", "everything is shown already: --json has all of it, --quiet shows less"),
};

/* Whether `name` is one of a list, '-' as '_'. */
static bool names_have(const char *names, const char *name) {
  for (const char *at = names; at; at = strchr(at, '|')) {
    at += *at == '|';
    size_t i = 0;
    while (name[i] && (name[i] == '-' ? '_' : name[i]) == at[i])
      i++;
    if (!name[i] && i > 0 && (at[i] == '|' || !at[i])) return true;
  }
  return false;
}

/* The value that a map's word "true" stands for, as of a flag; the first of several. False: none. */
static bool flag_value(const char *words, char out[HR_OTHER_TEXT]) {
  for (const char *at = words; at; at = strchr(at, '|')) {
    at += *at == '|';
    const char *equals = strchr(at, '=');
    if (!equals || strncmp(equals + 1, "true", 4) != 0) continue;
    snprintf(out, HR_OTHER_TEXT, "%.*s", (int)(equals - at), at);
    return true;
  }
  return false;
}

bool hr__other_find(const char *name, char room[HR_OTHER_TEXT], hr_other *out) {
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (names_have(others[i].names, name)) {
      *out = others[i];
      return true;
    }
  const hr_map *own = hr__map_named("headroom");
  for (const hr_map *map = hr_maps; map->name; map++)
    for (size_t k = 0; map != own && k < map->count; k++) {
      const hr_map_key *key = &map->keys[k];
      if (!key->setting || !names_have(key->keys, name)) continue;
      *out = (hr_other){.names = key->keys, .setting = key->setting};
      if (flag_value(key->words, room)) out->value = room;
      return true;
    }
  return false;
}

bool hr__other_nearest(const char *typed, size_t distance, char out[HR_OTHER_TEXT]) {
  char wanted[64], name[64];
  bool found = false;
  snprintf(wanted, sizeof wanted, "%s", typed);
  for (char *at = wanted; *at; at++)
    *at = *at == '-' ? '_' : *at;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    for (const char *at = others[i].names; *at; at += *at == '|') {
      size_t length = strcspn(at, "|");
      snprintf(name, sizeof name, "%.*s", (int)length, at);
      at += length;
      size_t changes = hr__text_distance(wanted, name);
      if (changes >= distance) continue;
      distance = changes;
      found = true;
      snprintf(out, HR_OTHER_TEXT, "%s", name);
    }
  return found;
}

void hr__other_value(const hr_key *key, const hr_other *other, const char *word, char *out, size_t capacity) {
  if (other->value)
    snprintf(out, capacity, "%s", other->value);
  else if (key->type == HR_KEY_CHOICE && !(word && hr__choice_meant(key, word, out, capacity)))
    snprintf(out, capacity, "%s", key->choices);
  else if (key->type != HR_KEY_CHOICE && word && *word)
    snprintf(out, capacity, "%s", word);
  else if (key->type != HR_KEY_CHOICE)
    hr__example_text(key, out, capacity);
}
