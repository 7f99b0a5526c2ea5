/* How others write what a recipe says: the keys of the built-in maps (recipe/maps.def).
 *
 * KEY(setting, keys, words, absent): the setting's value belongs into each of `keys` that the config has (spellings,
 * separated by |; the first is the usual one). `words` turn the value into the config's word, "value=word" separated by
 * |; further words behind commas mean the same and are left. A value without a word cannot be said there. `absent` is
 * what a config without the key means, "*" that the value is then found elsewhere.
 */
#include "recipe/maps.h"

#define KEY(s, k, w, a)                                                                                                \
  { .setting = (s), .keys = (k), .words = (w), .absent = (a) }

/* headroom's own recipe. A word that is still `auto` stays. */
static const hr_map_key headroom[] = {
    KEY("training.batch_size", "training.batch_size", NULL, "1"),
    KEY("training.gradient_accumulation", "training.gradient_accumulation", NULL, NULL),
    KEY("training.effective_batch", "training.effective_batch", NULL, NULL),
    KEY("data.sequence_length", "data.sequence_length", NULL, NULL),
    KEY("data.taxonomy.n_positives", "data.taxonomy.n_positives", NULL, "32"),
    KEY("data.taxonomy.n_negatives", "data.taxonomy.n_negatives", NULL, "24"),
    KEY("model.adapters.rank", "model.adapters.rank", NULL, NULL),
    KEY("model.adapters.alpha", "model.adapters.alpha", NULL, NULL),
    KEY("model.adapters.dropout", "model.adapters.dropout", NULL, NULL),
    KEY("model.quantize.kind", "model.quantize.kind", NULL, NULL),
#define HR_TECHNIQUE(path, plain, ...) KEY(path, path, NULL, plain),
#define HR_TECHNIQUE_SECTION(...)
#include "recipe/techniques.def"
#undef HR_TECHNIQUE
#undef HR_TECHNIQUE_SECTION
    KEY("memory.offload.update", "memory.offload.update", NULL, "auto"),
};

/* Lightning, with LightningCLI or Hydra. */
static const hr_map_key lightning[] = {
    KEY("training.batch_size",
        "data_loader.batch_size|data.batch_size|data.init_args.batch_size|datamodule.batch_size|"
        "datamodule.init_args.batch_size|dataloader.batch_size|data.dataloader.batch_size|training.batch_size|"
        "training.micro_batch_size|batch_size",
        NULL, NULL),
    KEY("training.gradient_accumulation",
        "training.trainer.accumulate_grad_batches|trainer.accumulate_grad_batches|training.accumulate_grad_batches|"
        "training.gradient_accumulation_steps|training.grad_accumulation_steps|accumulate_grad_batches",
        NULL, "1"),
    KEY("model.precision", "training.trainer.precision|trainer.precision|training.precision|precision",
        "32-true=32-true,32|bf16-mixed=bf16-mixed,bf16|16-mixed=16-mixed,16|bf16-true=bf16-true", "32-true"),
    KEY("memory.checkpoint",
        "model.gradient_checkpointing|model.use_gradient_checkpointing|model.init_args.gradient_checkpointing|"
        "model.llm.use_gradient_checkpointing|training.gradient_checkpointing|training.use_gradient_checkpointing|"
        "model.use_checkpoint|gradient_checkpointing",
        "none=false|selective=true|every-layer=true", "false"),
    KEY("data.sequence_length",
        "data_loader.tokenization.max_length|data.max_length|data.max_seq_length|data.init_args.max_length|"
        "data.init_args.max_seq_length|data.sequence_length|training.max_length|training.max_seq_length|"
        "training.max_seq_len|max_seq_length|max_length",
        NULL, NULL),
    KEY("model.adapters.rank",
        "model.lora.r|model.lora.rank|model.lora_r|model.lora_rank|model.init_args.lora_r|lora.r|lora.rank|lora_r|lora_"
        "rank",
        NULL, NULL),
    KEY("model.adapters.alpha",
        "model.lora.alpha|model.lora.lora_alpha|model.lora_alpha|model.init_args.lora_alpha|lora.alpha|lora_alpha",
        NULL, NULL),
    KEY("model.adapters.dropout",
        "model.lora.dropout|model.lora.lora_dropout|model.lora_dropout|model.init_args.lora_dropout|lora.dropout|"
        "lora_dropout",
        NULL, NULL),
    KEY("data.taxonomy.n_positives",
        "n_positives|data_loader.streaming.n_positives|data_loader.n_positives|data.n_positives", NULL, "*"),
    KEY("data.taxonomy.n_negatives",
        "n_negatives|data_loader.streaming.n_negatives|data_loader.n_negatives|data.n_negatives", NULL, "*"),
};

/* Excludes 4 bits; without these it is the user's, of which a recipe knows nothing. */
#define EIGHT_BITS "nf4=false|none=false,true,True"

/* Arguments of a trainer, of adapters and of quantization stand at the top, or in sections that scripts hand on. */
#define TRAINING(k) k "|training." k "|training_args." k "|training_arguments." k "|train." k "|trainer." k
#define ADAPTER(k)  "lora." k "|lora_config." k "|peft." k "|peft_config." k "|qlora." k
#define BITS(k)     k "|model." k "|quantization." k "|quantization_config." k "|bnb." k "|bnb_config." k
#define LENGTH(k)   k "|training." k "|training_args." k "|data." k "|model." k "|dataset." k

/* Hugging Face TrainingArguments, as YAML or JSON, and those who read them beside keys of their own. */
static const hr_map_key huggingface[] = {
    KEY("training.batch_size",
        TRAINING("per_device_train_batch_size") "|training.per_device_batch_size|training.batch_size|"
                                                "training.micro_batch_size|train.batch_size",
        NULL, "8"),
    KEY("training.gradient_accumulation", TRAINING("gradient_accumulation_steps") "|training.grad_accumulation_steps",
        NULL, "1"),
    KEY("training.effective_batch", TRAINING("effective_batch_size"), NULL, "*"),
    KEY("model.precision", TRAINING("bf16"), "32-true=false|bf16-mixed=true|16-mixed=false", "false"),
    KEY("model.precision", TRAINING("fp16"), "32-true=false|bf16-mixed=false|16-mixed=true", "false"),
    KEY("memory.checkpoint", TRAINING("gradient_checkpointing"),
        "none=false|selective=true,unsloth|every-layer=true,unsloth", "false"),
    KEY("training.optimizer.kind", TRAINING("optim") "|training.optimizer",
        "adamw=adamw_torch,adamw_torch_fused,adamw_hf,adamw_apex_fused,adamw,AdamW|"
        "adamw8bit=adamw_bnb_8bit,adamw_8bit|"
        "paged_adamw=paged_adamw_32bit,paged_adamw|paged_adamw8bit=paged_adamw_8bit|sgd=sgd",
        "adamw_torch"),
    KEY("data.sequence_length",
        LENGTH("max_seq_length") "|" LENGTH("max_length") "|" LENGTH("max_seq_len") "|" LENGTH("model_max_length"),
        NULL, NULL),
    KEY("model.adapters.kind", "use_peft|use_lora|model.use_lora|training.use_lora|" ADAPTER("enabled"), "lora=true",
        "*"),
    KEY("model.adapters.rank", "lora_r|lora_rank|" ADAPTER("r") "|" ADAPTER("rank"), NULL, NULL),
    KEY("model.adapters.alpha", "lora_alpha|" ADAPTER("lora_alpha") "|" ADAPTER("alpha"), NULL, NULL),
    KEY("model.adapters.dropout", "lora_dropout|" ADAPTER("lora_dropout") "|" ADAPTER("dropout"), NULL, NULL),
    KEY("model.quantize.kind", BITS("load_in_4bit"), "nf4=true|none=false", "false"),
    KEY("model.quantize.kind", BITS("load_in_8bit"), EIGHT_BITS, "*"),
};

static const hr_map_key torchtune[] = {
    KEY("training.batch_size", "batch_size", NULL, NULL),
    KEY("training.gradient_accumulation", "gradient_accumulation_steps", NULL, "1"),
    KEY("model.precision", "dtype", "32-true=fp32|bf16-true=bf16", NULL),
    KEY("memory.checkpoint", "enable_activation_checkpointing", "none=false|selective=true|every-layer=true", "false"),
    KEY("memory.offload.activations", "enable_activation_offloading", "device=false|host=true", "false"),
    KEY("memory.update", "optimizer_in_bwd", "after-backward=false|in-backward=true", "false"),
    KEY("training.optimizer.kind", "optimizer._component_",
        "adamw=torch.optim.AdamW|adamw8bit=bitsandbytes.optim.AdamW8bit,torchao.optim.AdamW8bit|paged_adamw="
        "bitsandbytes.optim.PagedAdamW|"
        "paged_adamw8bit=bitsandbytes.optim.PagedAdamW8bit|sgd=torch.optim.SGD",
        NULL),
    KEY("training.optimizer.kind", "optimizer.fused", "adamw=true,false,False|sgd=true,false,False", "*"),
    KEY("data.sequence_length", "tokenizer.max_seq_len", NULL, NULL),
    KEY("model.adapters.rank", "model.lora_rank", NULL, NULL),
    KEY("model.adapters.alpha", "model.lora_alpha", NULL, NULL),
    KEY("model.adapters.dropout", "model.lora_dropout", NULL, NULL),
    {.setting = "model.quantize.kind",
     .keys = "model._component_",
     .words = "nf4=.qlora_,.lora_|none=.lora_",
     .absent = "*",
     .part = true},
    KEY("model.quantize.kind", "model.quantize_base", "nf4=true|none=false", "false"),
};

static const hr_map_key axolotl[] = {
    KEY("training.batch_size", "micro_batch_size", NULL, NULL),
    KEY("training.gradient_accumulation", "gradient_accumulation_steps", NULL, "1"),
    KEY("training.effective_batch", "batch_size", NULL, "*"),
    KEY("model.precision", "bf16", "32-true=false|bf16-mixed=true,auto|16-mixed=false|bf16-true=full", NULL),
    KEY("model.precision", "fp16", "32-true=false|bf16-mixed=false|16-mixed=true|bf16-true=false", "false"),
    KEY("memory.checkpoint", "gradient_checkpointing",
        "none=false|selective=true,offload,unsloth|every-layer=true,offload,unsloth", "false"),
    KEY("training.optimizer.kind", "optimizer",
        "adamw=adamw_torch,adamw_torch_fused,adamw_hf|adamw8bit=adamw_bnb_8bit,adamw_8bit|"
        "paged_adamw=paged_adamw_32bit,paged_adamw|paged_adamw8bit=paged_adamw_8bit|sgd=sgd",
        NULL),
    KEY("data.sequence_length", "sequence_len", NULL, NULL),
    KEY("model.adapters.rank", "lora_r", NULL, NULL),
    KEY("model.adapters.alpha", "lora_alpha", NULL, NULL),
    KEY("model.adapters.dropout", "lora_dropout", NULL, NULL),
    KEY("model.quantize.kind", "adapter", "nf4=qlora|none=lora", "*"),
    KEY("model.quantize.kind", "load_in_4bit", "nf4=true|none=false", "false"),
    KEY("model.quantize.kind", "load_in_8bit", EIGHT_BITS, "*"),
};

static const hr_map_key llamafactory[] = {
    KEY("training.batch_size", "per_device_train_batch_size", NULL, "8"),
    KEY("training.gradient_accumulation", "gradient_accumulation_steps", NULL, "1"),
    KEY("model.precision", "bf16", "32-true=false|bf16-mixed=true|16-mixed=false", "false"),
    KEY("model.precision", "fp16", "32-true=false|bf16-mixed=false|16-mixed=true|bf16-true=false", "false"),
    KEY("model.precision", "pure_bf16", "32-true=false|bf16-mixed=false|16-mixed=false|bf16-true=true", "false"),
    KEY("memory.checkpoint", "disable_gradient_checkpointing", "none=true|selective=false|every-layer=false", "false"),
    KEY("memory.checkpoint", "gradient_checkpointing", "none=false|selective=true|every-layer=true", "*"),
    KEY("training.optimizer.kind", "optim",
        "adamw=adamw_torch,adamw_torch_fused,adamw_hf|adamw8bit=adamw_bnb_8bit,adamw_8bit|"
        "paged_adamw=paged_adamw_32bit,paged_adamw|paged_adamw8bit=paged_adamw_8bit|sgd=sgd",
        "adamw_torch"),
    KEY("data.sequence_length", "cutoff_len", NULL, "2048"),
    KEY("model.adapters.kind", "finetuning_type", "lora=lora", "lora"),
    KEY("model.adapters.rank", "lora_rank", NULL, "8"),
    KEY("model.adapters.alpha", "lora_alpha", NULL, NULL),
    KEY("model.adapters.dropout", "lora_dropout", NULL, "0"),
    KEY("model.quantize.kind", "quantization_bit", "nf4=4", "*"),
};

/* The config.yaml of the video model of docs/systems/001.md. */
static const hr_map_key videotrigger[] = {
    KEY("training.batch_size", "training.batch_size", NULL, NULL),
    KEY("training.gradient_accumulation", "training.gradient_accumulation_steps", NULL, "1"),
    KEY("data.max_frames", "data.max_frames", NULL, NULL),
    KEY("model.precision", "training.use_mixed_precision", "32-true=false|bf16-mixed=true|16-mixed=true", "true"),
    KEY("model.parts.llm.precision", "model.llm.dtype",
        "32-true=float32|bf16-mixed=bfloat16|bf16-true=bfloat16|16-mixed=float16", "*"),
    KEY("memory.checkpoint", "model.llm.use_gradient_checkpointing", "none=false|selective=true|every-layer=true",
        "false"),
};

/* ds_config.json. */
static const hr_map_key deepspeed[] = {
    KEY("training.batch_size", "train_micro_batch_size_per_gpu", NULL, NULL),
    KEY("training.gradient_accumulation", "gradient_accumulation_steps", NULL, "1"),
    {.setting = "training.effective_batch", .keys = "train_batch_size", .absent = "*", .ranks = true},
    KEY("model.precision", "bf16.enabled", "32-true=false|bf16-mixed=true|16-mixed=false", "false"),
    KEY("model.precision", "fp16.enabled", "32-true=false|bf16-mixed=false|16-mixed=true", "false"),
    KEY("memory.offload.optimizer", "zero_optimization.offload_optimizer.device", "device=none|host=cpu|disk=nvme",
        "none"),
    KEY("memory.offload.parameters", "zero_optimization.offload_param.device", "device=none|host=cpu|disk=nvme",
        "none"),
    KEY("memory.offload.optimizer", "zero_optimization.cpu_offload", "device=false|host=true", "*"),
    KEY("memory.offload.parameters", "zero_optimization.cpu_offload_params", "device=false|host=true", "*"),
    KEY("training.optimizer.kind", "optimizer.type", "adamw=AdamW,Adam|sgd=SGD",
        "*"), /* its Adam decouples decay too */
};

/* Files of accelerate, which say nothing of the batch. */
static const hr_map_key accelerate[] = {
    KEY("training.gradient_accumulation", "deepspeed_config.gradient_accumulation_steps", NULL, "*"),
    KEY("model.precision", "mixed_precision", "32-true=no|bf16-mixed=bf16|16-mixed=fp16", "*"),
    KEY("memory.offload.optimizer", "deepspeed_config.offload_optimizer_device", "device=none|host=cpu|disk=nvme",
        "none"),
    KEY("memory.offload.parameters", "deepspeed_config.offload_param_device", "device=none|host=cpu|disk=nvme", "none"),
};

#define HR_MAP(n, o, k, m, ...)                                                                                        \
  {.name = n, .others = o, .keys = k, .count = sizeof k / sizeof k[0], .marks = m, __VA_ARGS__},
const hr_map hr_maps[] = {
#include "recipe/maps.def"
    {.name = NULL},
};
#undef HR_MAP

#define HR_MAP(n, ...) n ", "
const char hr_map_names[] =
#include "recipe/maps.def"
    ;
#undef HR_MAP
