/* How others write what a recipe says: the keys of the built-in maps (recipe/maps.def).
 *
 * KEY(setting, keys, words, absent): the setting's value belongs into each of `keys` that the config has (spellings,
 * separated by |; the first is the usual one). `words` turn the value into the config's word, "value=word" separated by
 * |; further words behind commas mean the same and are left. A value without a word cannot be said there. `absent` is
 * what a config without the key means, "*" that the value is then found elsewhere.
 *
 * READ has the same form and is what a value makes the trainer do where that is more, or other, than what is written.
 * TRAITs are what no setting of a recipe says. Sources: transformers 5.23, axolotl 067b021, LLaMA-Factory ff6d4d1,
 * torchtune bd2a0fc, DeepSpeed 0.19.8.
 */
#include "recipe/maps.h"

#define ROW(s, k, w, a, ...)                                                                                           \
  { .setting = (s), .keys = (k), .words = (w), .absent = (a), __VA_ARGS__ }
#define KEY(s, k, w, a)    ROW(s, k, w, a, .use = HR_MAP_BOTH)
#define BESIDE(s, k, w, a) ROW(s, k, w, a, .beside = true)
#define READ(s, k, w, a)   ROW(s, k, w, a, .use = HR_MAP_READ)
#define HAS(k, w)                                                                                                      \
  &(const hr_map_trait) {                                                                                              \
    .keys = (k), .words = (w)                                                                                          \
  }
#define PART(s, k, w, a)  ROW(s, k, w, a, .use = HR_MAP_READ, .part = true)
#define TRAIT(e, k, w, t) UNLESS(e, k, w, t, NULL)
#define UNLESS(e, k, w, t, u)                                                                                          \
  { .effect = HR_TRAIT_##e, .keys = (k), .words = (w), .text = (t), .unless = (u) }
#define PINS(setting, k, w, t)                                                                                         \
  { .effect = HR_TRAIT_NOTE, .keys = (k), .words = (w), .text = (t), .pins = (setting) }

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
#define LORA(k)    "model.lora." k "|model.lora_" k "|model.init_args.lora_" k "|lora." k "|lora_" k
#define DRAWN(k)   KEY("data.taxonomy." k, k "|data_loader.streaming." k "|data_loader." k "|data." k, NULL, "*")
#define PRECISIONS "32-true=32-true,32|bf16-mixed=bf16-mixed,bf16|16-mixed=16-mixed,16|bf16-true=bf16-true"
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
    KEY("model.precision", "training.trainer.precision|trainer.precision|training.precision|precision", PRECISIONS,
        "32-true"),
    BESIDE("memory.checkpoint",
           "model.gradient_checkpointing|model.use_gradient_checkpointing|model.init_args.gradient_checkpointing|"
           "model.llm.use_gradient_checkpointing|training.gradient_checkpointing|training.use_gradient_checkpointing|"
           "model.use_checkpoint|gradient_checkpointing",
           "none=false|every-layer=true|selective=true", "false"),
    BESIDE("data.sequence_length",
           "data_loader.tokenization.max_length|data.max_length|data.max_seq_length|data.init_args.max_length|"
           "data.init_args.max_seq_length|data.sequence_length|training.max_length|training.max_seq_length|"
           "training.max_seq_len|max_seq_length|max_length",
           NULL, NULL),
    BESIDE("model.adapters.rank", LORA("r") "|" LORA("rank"), NULL, NULL),
    BESIDE("model.adapters.alpha", LORA("alpha") "|model.lora.lora_alpha", NULL, NULL),
    BESIDE("model.adapters.dropout", LORA("dropout") "|model.lora.lora_dropout", NULL, NULL),
    DRAWN("n_positives"),
    DRAWN("n_negatives"),
};

/* GestureRecognitionNew (docs/systems/002.md): Lightning under a config of its own. Accumulation is a schedule by
 * epoch; where a step has one number for all of them, that is what epoch 0 has. */
static const hr_map_key gestures[] = {
    KEY("training.batch_size", "DATA.dataloader.batch_size|DATA.dataloader.dataloader_init_args.batch_size", NULL,
        NULL),
    KEY("training.gradient_accumulation", "OPTIMIZER.gradient_accumulation.scheduling.0", NULL, NULL),
    KEY("model.precision", "TRAINING.precision", PRECISIONS, "32-true"),
    KEY("memory.checkpoint", "MODEL.model_init_args.use_checkpoint",
        "none=false,False|selective=true,True|every-layer=true,True", "false"),
    KEY("data.events.train_ratio_of_vectors", "DATA.dataset.dataset_init_args.train_ratio_of_vectors", NULL, "*"),
    KEY("model.config.hidden_dim", "MODEL.model_init_args.hidden_dim", NULL, "*"),
    KEY("model.config.d_state", "MODEL.model_init_args.d_state", NULL, "*"),
    KEY("model.config.num_layers", "MODEL.model_init_args.num_layers", NULL, "*"),
    KEY("model.config.share_weights", "MODEL.model_init_args.share_weights",
        "false=false,False|bidirectional=bidirectional|true=true,True", "*"),
};

/* Excludes 4 bits; without these it is the user's, of which a recipe knows nothing. */
#define EIGHT_BITS "nf4=false|none=false,true,True"

/* Arguments of a trainer, of adapters and of quantization stand at the top, or in sections that scripts hand on. */
#define TRAINING(k) k "|training." k "|training_args." k "|training_arguments." k "|train." k "|trainer." k
#define ADAPTER(k)  "lora." k "|lora_config." k "|peft." k "|peft_config." k "|qlora." k
#define BITS(k)     k "|model." k "|quantization." k "|quantization_config." k "|bnb." k "|bnb_config." k
#define WEIGHTS(k)  k "|model." k "|model_init_kwargs." k "|model_kwargs." k
#define ADAPTERS_ON "use_peft|use_lora|model.use_lora|training.use_lora|" ADAPTER("enabled")
#define LENGTH(k)   k "|training." k "|training_args." k "|data." k "|model." k "|dataset." k

#define OPTIMIZERS                                                                                                     \
  "adamw=adamw_torch,adamw_torch_fused,adamw_hf,adamw_apex_fused,adamw,AdamW|adamw8bit=adamw_bnb_8bit,adamw_8bit|"     \
  "paged_adamw=paged_adamw_32bit,paged_adamw|paged_adamw8bit=paged_adamw_8bit|sgd=sgd"
#define UPDATES "fused=adamw_torch_fused,adamw_apex_fused|foreach=*"
#define OPTIMIZER(k, absent, decay)                                                                                    \
  KEY("training.optimizer.kind", k, OPTIMIZERS, absent), READ("engine.optimizer", k, UPDATES, "adamw_torch_fused"),    \
      READ("training.optimizer.momentum", k, "0=*", "*"), READ("training.optimizer.weight_decay", decay, NULL, "0")
#define ATTENTION                                                                                                      \
  "sdpa=sdpa|eager=eager|flash=flash_attention_2,flash_attention_3,"                                                   \
  "kernels-community/flash-attn2,kernels-community/flash-attn3,kernels-community/vllm-flash-attn3"
#define FULL_ROWS   "true=false|false=true"
#define WHOLE_MODEL "is not planned: this GPU is taken to hold all of the model"
#define LESS        "holds no more than is planned, which is without it"
#define EVALUATES   "evaluates between steps, by as many rows at a time as it trains on, which holds no more"
#define NOT_KNOWN   "what PyTorch holds with it is not modelled"

/* What all have that hand on to Hugging Face's trainer. */
#define TRAINER_TRAITS                                                                                                 \
  TRAIT(NAMES, TRAINING("deepspeed"), "*", "deepspeed"),                                                               \
      TRAIT(UNKNOWN, BITS("load_in_8bit"), "true", "weights in 8 bits are not planned"),                               \
      TRAIT(UNKNOWN, TRAINING("torch_compile"), "true", "torch.compile runs other calls, which are not modelled"),     \
      TRAIT(NOTE, TRAINING("fsdp") "|fsdp_config", "*", WHOLE_MODEL),                                                  \
      TRAIT(NOTE, TRAINING("predict_with_generate"), "true", "generates between steps, which is not planned"),         \
      TRAIT(NOTE, TRAINING("use_liger_kernel") "|enable_liger_kernel", "true", LESS)

/* Evaluations between steps, by the rows at a time that the trainer takes unless told otherwise. */
#define EVAL_BATCH(k, absent, by, words)                                                                               \
  ROW("engine.eval_batch_size", k, NULL, absent, .use = HR_MAP_READ, .where = HAS(by, words))
#define TRAINER_EVALUATES                                                                                              \
  EVAL_BATCH(TRAINING("per_device_eval_batch_size"), "8",                                                              \
             TRAINING("eval_strategy") "|" TRAINING("evaluation_strategy"), "steps|epoch")

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
        "none=false|every-layer=true,unsloth|selective=true,unsloth", "false"),
    OPTIMIZER(TRAINING("optim") "|training.optimizer", "adamw_torch", TRAINING("weight_decay")),
    READ("engine.checkpoint", TRAINING("gradient_checkpointing_kwargs.use_reentrant"),
         "reentrant=true|non-reentrant=false", "*"),
    READ("engine.attention", "attn_implementation|model.attn_implementation|model_init_kwargs.attn_implementation",
         ATTENTION, "*"),
    READ("engine.padded", TRAINING("packing"), FULL_ROWS, "false"),
    READ("engine.dtype", WEIGHTS("dtype") "|" WEIGHTS("torch_dtype"), "bf16=bfloat16|f16=float16|f32=float32", "*"),
    BESIDE("data.sequence_length",
           LENGTH("max_seq_length") "|" LENGTH("max_length") "|" LENGTH("max_seq_len") "|" LENGTH("model_max_length"),
           NULL, NULL),
    KEY("model.adapters.kind", ADAPTERS_ON, "lora=true|none=false", "*"),
    BESIDE("model.adapters.rank", "lora_r|lora_rank|" ADAPTER("r") "|" ADAPTER("rank"), NULL, NULL),
    BESIDE("model.adapters.alpha", "lora_alpha|" ADAPTER("lora_alpha") "|" ADAPTER("alpha"), NULL, NULL),
    BESIDE("model.adapters.dropout", "lora_dropout|" ADAPTER("lora_dropout") "|" ADAPTER("dropout"), NULL, NULL),
    BESIDE("model.quantize.kind", BITS("load_in_4bit"), "nf4=true|none=false", "false"),
    KEY("model.quantize.kind", BITS("load_in_8bit"), EIGHT_BITS, "*"),
    TRAINER_EVALUATES,
    READ("model.adapters.targets",
         "lora_target_modules|" ADAPTER("target_modules") "|" ADAPTER("targets") "|" ADAPTER("lora_target_modules"),
         NULL, "*"),
};

static const hr_map_trait huggingface_traits[] = {
    TRAINER_TRAITS,
    TRAIT(OTHER, "num_generations|reward_funcs|reward_model_path|reward_model_name_or_path", "*",
          "reinforcement learning"),
    TRAIT(UNKNOWN, "lora_modules_to_save|" ADAPTER("modules_to_save"), "*", "weights are trained beside adapters"),
    TRAIT(UNKNOWN, "use_dora|" ADAPTER("use_dora"), "true", NOT_KNOWN),
};

static const hr_map_key torchtune[] = {
    KEY("training.batch_size", "batch_size", NULL, NULL),
    KEY("training.gradient_accumulation", "gradient_accumulation_steps", NULL, "1"),
    KEY("model.precision", "dtype", "32-true=fp32|bf16-true=bf16", NULL),
    KEY("memory.checkpoint", "enable_activation_checkpointing", "none=false|every-layer=true|selective=true", "false"),
    KEY("memory.offload.activations", "enable_activation_offloading", "device=false|host=true", "false"),
    KEY("memory.update", "optimizer_in_bwd", "after-backward=false|in-backward=true", "false"),
    KEY("training.optimizer.kind", "optimizer._component_",
        "adamw=torch.optim.AdamW|adamw8bit=bitsandbytes.optim.AdamW8bit,torchao.optim.AdamW8bit|paged_adamw="
        "bitsandbytes.optim.PagedAdamW|"
        "paged_adamw8bit=bitsandbytes.optim.PagedAdamW8bit|sgd=torch.optim.SGD",
        NULL),
    KEY("training.optimizer.kind", "optimizer.fused", "adamw=true,false,False|sgd=true,false,False", "*"),
    READ("engine.optimizer", "optimizer.fused", "fused=true|foreach=false", "false"),
    READ("training.optimizer.momentum", "optimizer.momentum", NULL, "0"),
    READ("training.optimizer.weight_decay", "optimizer.weight_decay", NULL, "0"),
    READ("engine.padded", "dataset.packed", "true=true|false=false", "false"), /* packed rows have a mask */
    READ("engine.adapters", "model._component_", "plain=*", "*"),
    EVAL_BATCH("batch_size_val", "*", "run_val_every_n_steps", ">0"),
    {.setting = "data.sequence_length", .keys = "tokenizer.max_seq_len", .unlimited = true},
    PART("model.adapters.kind", "model._component_", "lora=.lora_,.qlora_|none=!.lora_", "*"),
    READ("model.adapters.targets", "model.lora_attn_modules", "o_proj=output_proj", "*"),
    READ("model.adapters.targets", "model.apply_lora_to_mlp", "gate_proj+up_proj+down_proj=true", "*"),
    KEY("model.adapters.rank", "model.lora_rank", NULL, "8"),
    KEY("model.adapters.alpha", "model.lora_alpha", NULL, NULL),
    KEY("model.adapters.dropout", "model.lora_dropout", NULL, NULL),
    ROW("model.quantize.kind", "model._component_", "nf4=.qlora_,.lora_|none=.lora_", "*", .part = true),
    KEY("model.quantize.kind", "model.quantize_base", "nf4=true|none=false", "false"),
    PART("model.quantize.kind", "model._component_", "none=!.qlora_|nf4=.qlora_,.lora_", "*"),
    READ("model.quantize.kind", "model.quantize_base", "none=false|nf4=true", "*"),
};

static const hr_map_trait torchtune_traits[] = {
    TRAIT(OTHER, "tasks", "*", "evaluation"),
    UNLESS(OTHER, "quantizer", "*", "quantization", "optimizer"),
    UNLESS(OTHER, "max_new_tokens|prompt", "*", "generation", "optimizer"),
    TRAIT(OTHER, "quantizer", "*", "quantization-aware training"),
    TRAIT(OTHER, "kd_loss|teacher_model|teacher_checkpointer", "*", "knowledge distillation"),
    TRAIT(OTHER, "ppo_epochs|grpo_samples|policy_model|reward_and_value_model", "*", "reinforcement learning"),
    TRAIT(OTHER, "loss._component_|rlhf_loss._component_", "~DPO|~RSO|~SimPO|~PPO", "training by preferences"),
    TRAIT(OTHER, "model._component_", "~vision|~.flamingo|~.clip|~early_fusion", "a model with images"),
    TRAIT(OTHER, "early_exit_loss|layer_dropout", "*", "training with early exits"),
    TRAIT(UNKNOWN, "compile", "true", "torch.compile runs other calls, which are not modelled"),
    TRAIT(UNKNOWN, "model._component_", "~.dora_|~.qdora_", NOT_KNOWN),
    TRAIT(UNKNOWN, "model.use_dora|model.apply_lora_to_output", "true", NOT_KNOWN),
    PINS("memory.checkpoint", "enable_activation_offloading", "true", LESS), /* it is refused without */
    UNLESS(NOTE, "run_val_every_n_steps", ">0", EVALUATES, "batch_size_val"),
    PINS("training.gradient_accumulation", "optimizer_in_bwd", "true", LESS), /* and this with more than 1 */
    TRAIT(NOTE, "fsdp|fsdp_cpu_offload|custom_sharded_layers", "*", WHOLE_MODEL),
    TRAIT(NOTE, "tensor_parallel_dim|data_parallel_shard_dim|data_parallel_replicate_dim|context_parallel_dim", ">1",
          WHOLE_MODEL),
};

static const hr_map_key axolotl[] = {
    KEY("training.batch_size", "micro_batch_size", NULL, NULL),
    KEY("training.gradient_accumulation", "gradient_accumulation_steps", NULL, "1"),
    KEY("training.effective_batch", "batch_size", NULL, "*"),
    KEY("model.precision", "bf16", "bf16-mixed=true,auto|16-mixed=false,auto|32-true=false|bf16-true=full", "auto"),
    KEY("model.precision", "fp16", "bf16-mixed=false|16-mixed=true|32-true=false|bf16-true=false", "false"),
    /* it loads weights in the type that it computes in, those too that are trained */
    READ("engine.dtype", "bf16|bfloat16", "bf16=true,auto,full|f16=false,auto|f32=false", "auto"),
    READ("engine.dtype", "fp16|float16", "bf16=false|f16=true|f32=false", "false"),
    KEY("memory.checkpoint", "gradient_checkpointing",
        "none=false|every-layer=true,offload,offload_disk,unsloth|selective=true,offload,offload_disk,unsloth",
        "false"),
    READ("engine.checkpoint", "gradient_checkpointing_kwargs.use_reentrant", "reentrant=true|non-reentrant=false",
         "true"),
    READ("engine.attention", "attn_implementation", ATTENTION, "*"),
    READ("engine.attention", "flash_attention", "sdpa=false|eager=false|flash=true", "*"),
    READ("engine.attention", "sdp_attention", "sdpa=true|eager=false|flash=false", "*"),
    READ("engine.attention", "eager_attention", "sdpa=false|eager=true|flash=false", "*"),
    /* only without both rows differ in length */
    READ("engine.padded", "sample_packing", "true=false|false=true,false", "false"),
    READ("engine.padded", "pad_to_sequence_len", "true=false|false=true,false", "false"),
    OPTIMIZER("optimizer", "adamw_torch_fused", "weight_decay"),
    EVAL_BATCH("eval_batch_size", "*", "val_set_size", ">0"),
    KEY("data.sequence_length", "sequence_len", NULL, "512"),
    READ("model.adapters.kind", "adapter", "lora=lora,qlora|none=none", "none"),
    READ("model.adapters.targets", "lora_target_modules", NULL, "*"),
    READ("model.adapters.targets", "lora_target_linear", "all-linear=true", "*"),
    READ("model.quantize.kind", "adapter", "nf4=qlora,lora|none=lora,none", "none"),
    READ("model.quantize.kind", "load_in_4bit", "nf4=true|none=false", "false"),
    KEY("model.adapters.rank", "lora_r", NULL, NULL),
    KEY("model.adapters.alpha", "lora_alpha", NULL, NULL),
    KEY("model.adapters.dropout", "lora_dropout", NULL, NULL),
    KEY("model.quantize.kind", "adapter", "nf4=qlora|none=lora", "*"),
    KEY("model.quantize.kind", "load_in_4bit", "nf4=true|none=false", "false"),
    KEY("model.quantize.kind", "load_in_8bit", EIGHT_BITS, "*"),
};

static const hr_map_trait axolotl_traits[] = {
    TRAINER_TRAITS,
    TRAIT(OTHER, "rl|ebft", "*", "reinforcement learning or training by preferences"),
    TRAIT(OTHER, "reward_model|process_reward_model", "true", "a reward model"),
    TRAIT(OTHER, "qat", "*", "quantization-aware training"),
    UNLESS(OTHER, "quantization", "*", "quantization", "datasets"),
    TRAIT(OTHER, "kd_trainer|kd_temperature", "*", "knowledge distillation"),
    TRAIT(OTHER, "plugins", "~KDPlugin", "knowledge distillation"),
    TRAIT(OTHER, "plugins", "~Diffusion|~NemoGym|~EBFT", "training of another kind, by a plug-in"),
    TRAIT(OTHER, "num_labels", "*", "classification"),
    TRAIT(UNKNOWN, "peft_use_dora|fp8|gptq|relora", "true", NOT_KNOWN),
    TRAIT(UNKNOWN, "flex_attention|xformers_attention|sage_attention", "true", NOT_KNOWN),
    TRAIT(UNKNOWN, "lora_modules_to_save|lora_target_parameters|unfrozen_parameters", "*",
          "it trains other weights than are planned"),
    TRAIT(UNKNOWN, "model_quantization_config|quantize_moe_experts", "*", NOT_KNOWN),
    PINS("memory.checkpoint", "gradient_checkpointing", "offload|offload_disk|unsloth", LESS),
    PINS("memory.checkpoint", "activation_offloading", "*", LESS),
    UNLESS(NOTE, "val_set_size", ">0", EVALUATES, "eval_batch_size"),
    TRAIT(NOTE, "cut_cross_entropy|chunked_cross_entropy|lora_mlp_kernel|lora_qkv_kernel|lora_o_kernel", "true", LESS),
    TRAIT(NOTE, "liger_fused_linear_cross_entropy|liger_rms_norm|liger_rope|liger_glu_activation", "true", LESS),
    TRAIT(NOTE, "tensor_parallel_size|context_parallel_size|sequence_parallel_degree|dp_shard_size", ">1", WHOLE_MODEL),
};

static const hr_map_key llamafactory[] = {
    KEY("training.batch_size", "per_device_train_batch_size", NULL, "8"),
    KEY("training.gradient_accumulation", "gradient_accumulation_steps", NULL, "1"),
    KEY("model.precision", "bf16", "32-true=false|bf16-mixed=true|16-mixed=false|bf16-true=true,false", "false"),
    KEY("model.precision", "fp16", "32-true=false|bf16-mixed=false|16-mixed=true|bf16-true=false", "false"),
    KEY("model.precision", "pure_bf16", "32-true=false|bf16-mixed=false|16-mixed=false|bf16-true=true", "false"),
    KEY("memory.checkpoint", "disable_gradient_checkpointing", "none=true|every-layer=false|selective=false", "false"),
    KEY("memory.checkpoint", "gradient_checkpointing", "none=false|every-layer=true|selective=true", "*"),
    OPTIMIZER("optim", "adamw_torch", "weight_decay"),
    READ("engine.checkpoint", "use_reentrant_gc", "reentrant=true|non-reentrant=false", "true"),
    READ("engine.attention", "flash_attn", "sdpa=auto,sdpa|eager=disabled|flash=fa2,fa3", "auto"),
    READ("engine.padded", "packing", FULL_ROWS, "false"),
    TRAINER_EVALUATES,
    KEY("data.sequence_length", "cutoff_len", NULL, "2048"),
    KEY("model.adapters.kind", "finetuning_type", "lora=lora|none=full", "lora"),
    READ("model.adapters.targets", "lora_target", "all-linear=all", "all"),
    READ("model.quantize.kind", "quantization_bit", "nf4=4|none=none", "none"),
    KEY("model.adapters.rank", "lora_rank", NULL, "8"),
    KEY("model.adapters.alpha", "lora_alpha", NULL, NULL),
    KEY("model.adapters.dropout", "lora_dropout", NULL, "0"),
    KEY("model.quantize.kind", "quantization_bit", "nf4=4", "*"),
};

static const hr_map_trait llamafactory_traits[] = {
    TRAINER_TRAITS,
    TRAIT(OTHER, "stage", "rm|ppo|dpo|kto|orpo|simpo", "training by preferences or rewards (stage)"),
    UNLESS(OTHER, "export_dir", "*", "merging or quantizing a model", "do_train"),
    UNLESS(OTHER, "task|do_predict|do_eval", "*", "evaluation", "do_train"),
    UNLESS(OTHER, "infer_backend", "*", "generation", "do_train"),
    TRAIT(UNKNOWN, "use_dora|use_galore|use_apollo|use_badam|use_adam_mini|use_muon|use_llama_pro|use_unsloth", "true",
          NOT_KNOWN),
    TRAIT(UNKNOWN, "use_kt|use_mca|fp8|shift_attn|neat_packing|upcast_layernorm", "true", NOT_KNOWN),
    TRAIT(UNKNOWN, "mixture_of_depths|additional_target|freeze_trainable_modules", "*",
          "it trains other weights than are planned"),
    TRAIT(UNKNOWN, "quantization_method", "hqq|eetq|gptq|awq|aqlm|quanto|fp8|mxfp4", NOT_KNOWN),
    TRAIT(UNKNOWN, "tensor_model_parallel_size|pipeline_model_parallel_size|expert_model_parallel_size", "*",
          "what Megatron holds is not modelled"),
    TRAIT(NOTE, "use_unsloth_gc", "true", LESS),
};

/* Its second configuration, of which only the kind is known. */
static const hr_map_key llamafactory_v1[] = {
    KEY("training.batch_size", "micro_batch_size", NULL, NULL),
};
static const hr_map_trait llamafactory_v1_traits[] = {
    TRAIT(OTHER, "model", "*", "LLaMA-Factory v1, whose keys are not those of its trainer"),
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
#define OFFLOADS            "device=none|host=cpu|disk=nvme"
#define ZERO                "zero_optimization."
#define AT_A_STAGE          .use = HR_MAP_READ, .where = HAS(ZERO "stage", ">0")
#define OF_ZERO(s, k, w, a) ROW("engine." s, ZERO k, w, a, AT_A_STAGE)
static const hr_map_key deepspeed[] = {
    KEY("training.batch_size", "train_micro_batch_size_per_gpu", NULL, NULL),
    KEY("training.gradient_accumulation", "gradient_accumulation_steps", NULL, "1"),
    ROW("training.effective_batch", "train_batch_size", NULL, "*", .ranks = true),
    KEY("model.precision", "bf16.enabled", "32-true=false|bf16-mixed=true|16-mixed=false", "false"),
    KEY("model.precision", "fp16.enabled", "32-true=false|bf16-mixed=false|16-mixed=true", "false"),
    KEY("memory.offload.optimizer", ZERO "offload_optimizer.device", OFFLOADS, "none"),
    KEY("memory.offload.parameters", ZERO "offload_param.device", OFFLOADS, "none"),
    KEY("memory.offload.optimizer", ZERO "cpu_offload", "device=false|host=true", "*"),
    KEY("memory.offload.parameters", ZERO "cpu_offload_params", "device=false|host=true", "*"),
    KEY("training.optimizer.kind", "optimizer.type", "adamw=AdamW,Adam|sgd=SGD", "*"), /* Adam decouples decay too */
    READ("engine.optimizer", "optimizer.type", "fused=*", "*"),
    OF_ZERO("trainer", "stage", "deepspeed=*", "*"), /* which stages there are is the next row's */
    OF_ZERO("zero.stage", "stage", NULL, "*"),
    OF_ZERO("zero.sub_group", "sub_group_size", NULL, "*"),
    ROW("engine.zero.bucket", ZERO "reduce_bucket_size", NULL, "*", AT_A_STAGE, .automatic = "0"),
    OF_ZERO("zero.overlap", "overlap_comm", "true=true|false=false", "*"),
    OF_ZERO("zero.offload", "offload_optimizer.device", "none=none|optimizer=cpu|all=cpu", "none"),
    READ("engine.zero.offload", ZERO "offload_param.device", "none=none|optimizer=none|all=cpu", "none"),
};

/* Files of accelerate, which say nothing of the batch. */
static const hr_map_key accelerate[] = {
    KEY("training.gradient_accumulation", "deepspeed_config.gradient_accumulation_steps", NULL, "*"),
    KEY("model.precision", "mixed_precision", "32-true=no|bf16-mixed=bf16|16-mixed=fp16", "*"),
    KEY("memory.offload.optimizer", "deepspeed_config.offload_optimizer_device", OFFLOADS, "none"),
    KEY("memory.offload.parameters", "deepspeed_config.offload_param_device", OFFLOADS, "none"),
};

static const hr_map_trait deepspeed_traits[] = {
    TRAIT(UNKNOWN, ZERO "contiguous_gradients|" ZERO "reduce_scatter|" ZERO "memory_efficient_linear", "false",
          NOT_KNOWN),
    TRAIT(UNKNOWN, ZERO "cpu_offload|" ZERO "cpu_offload_params", "true",
          "is an old spelling: offload_optimizer, offload_param"),
    TRAIT(UNKNOWN,
          ZERO "zenflow|data_types.grad_accum_dtype|torch_autocast.enabled|amp.enabled|communication_data_type", "*",
          NOT_KNOWN),
    TRAIT(UNKNOWN,
          ZERO "zero_quantized_weights|" ZERO "zero_quantized_gradients|fp16.fp16_master_weights_and_grads|"
               "bf16.bf16_master_weights_and_grads",
          "true", NOT_KNOWN),
    TRAIT(UNKNOWN, ZERO "offload_optimizer.ratio", "<1", "the rest stays on the GPU, which is not modelled"),
    TRAIT(UNKNOWN, ZERO "stage", "!>0", "what DeepSpeed holds without ZeRO is not modelled"),
};
static const hr_map_trait accelerate_traits[] = {
    TRAIT(UNKNOWN, "distributed_type", "DEEPSPEED|MEGATRON_LM|TP", "what it holds beside PyTorch is not modelled"),
    TRAIT(NOTE, "distributed_type", "FSDP", WHOLE_MODEL),
    TRAIT(NOTE, "num_processes", ">1", "is several GPUs, and their buckets of gradients are not planned"),
};

#define TRAITS(of) .traits = of##_traits, .n_traits = sizeof of##_traits / sizeof *of##_traits
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
