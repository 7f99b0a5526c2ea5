/* See engine.h: keys, and from a recipe to a run of PyTorch. */
#include "job/engine.h"

#include <string.h>

#include "base/text.h"
#include "compile/shape.h"
#include "data/source.h"
#include "model/parts.h"
#include "pass/adapters.h"
#include "plan/memory.h"
#include "recipe/techniques.h"
#include "torch/compiled.h"
#include "torch/conf.h"
#include "torch/driver.h"
#include "torch/eager.h"

#define KIND      "engine.kind"
#define OPTIMIZER "engine.optimizer"
#define ATTENTION "engine.attention"
#define SDPA      "engine.sdpa"
#define AGAIN     "engine.checkpoint"
#define SEGMENTS  "engine.expandable_segments"
#define TRAINER   "engine.trainer"
#define ADAPTERS  "engine.adapters"
#define WEIGHTS   "engine.dtype"
#define CONF      "engine.alloc_conf"
#define COMPILE   "engine.compile"
#define PADDED    "engine.padded"
#define PACKED    "engine.packed"
#define EVALUATES "engine.eval_batch_size"
#define ZERO      "engine.zero."
#define STAGE     ZERO "stage"
#define OVERLAP   ZERO "overlap"
#define OFFLOAD   ZERO "offload"
#define BUCKET    ZERO "bucket"
#define SUB_GROUP ZERO "sub_group"

static const hr_key keys[] = {
    {.path = KIND,
     .type = HR_KEY_CHOICE,
     .fallback = "headroom",
     .choices = "headroom|pytorch",
     .meaning = "who is to train: headroom, or PyTorch with transformers, for which plan says what it will hold"},
    {.path = OPTIMIZER,
     .type = HR_KEY_CHOICE,
     .fallback = "fused",
     .choices = "fused|foreach|for-loop",
     .meaning =
         "pytorch: how torch.optim goes through parameters (foreach: torch's own default, fused: the Trainer's)"},
    {.path = ATTENTION,
     .type = HR_KEY_CHOICE,
     .fallback = "sdpa",
     .choices = "sdpa|eager|flash",
     .meaning = "pytorch: attn_implementation of transformers; flash is the package flash-attention"},
    {.path = SDPA,
     .type = HR_KEY_CHOICE,
     .fallback = "auto",
     .choices = "auto|cudnn|flash|efficient|math",
     .meaning =
         "pytorch: which kernels scaled_dot_product_attention takes; auto: as PyTorch picks them for GPU and type"},
    {.path = AGAIN,
     .type = HR_KEY_CHOICE,
     .fallback = "non-reentrant",
     .choices = "non-reentrant|reentrant",
     .meaning = "pytorch: form of torch.utils.checkpoint, where memory.checkpoint asks for it (per layer)"},
    {.path = SEGMENTS,
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "pytorch: PYTORCH_ALLOC_CONF=expandable_segments:True"},
    {.path = CONF,
     .type = HR_KEY_TEXT,
     .meaning = "pytorch: PYTORCH_ALLOC_CONF as a whole, such as max_split_size_mb:128"},
    {.path = TRAINER,
     .type = HR_KEY_CHOICE,
     .fallback = "loop",
     .choices = "loop|transformers|lightning|deepspeed",
     .meaning = "pytorch: whose training loop it is; deepspeed: its engine with ZeRO, on one GPU"},
    {.path = ADAPTERS,
     .type = HR_KEY_CHOICE,
     .fallback = "peft",
     .choices = "peft|plain",
     .meaning = "pytorch: adapters as PEFT runs them, or two plain products in the type of their input"},
    {.path = WEIGHTS,
     .type = HR_KEY_CHOICE,
     .fallback = "auto",
     .choices = "auto|f32|bf16|f16",
     .meaning =
         "pytorch: type in which the model is loaded; auto: that of model.precision, of frozen weights its 16-bit "
         "type"},
    {.path = COMPILE,
     .type = HR_KEY_BOOL,
     .fallback = "false",
     .meaning = "pytorch: torch.compile of the whole model, which is estimated (docs/torch.md)"},
    {.path = PADDED,
     .type = HR_KEY_BOOL,
     .meaning =
         "pytorch: rows of a batch have different lengths, so that attention gets a mask; else as data.source has "
         "them"},
    {.path = PACKED,
     .type = HR_KEY_BOOL,
     .meaning =
         "pytorch: rows hold several documents, each with positions from 0 on (position_ids), which attention keeps "
         "apart; else as data.packing has them"},
    {.path = EVALUATES,
     .type = HR_KEY_INT,
     .min = 1,
     .max = 1 << 20,
     .meaning =
         "pytorch: rows at a time of an evaluation between steps, 8 in transformers (per_device_eval_batch_size); "
         "none unless given"},
    {.path = STAGE,
     .type = HR_KEY_INT,
     .fallback = "2",
     .min = 1,
     .max = 3,
     .meaning = "deepspeed: zero_optimization.stage"},
    {.path = OFFLOAD,
     .type = HR_KEY_CHOICE,
     .fallback = "none",
     .choices = "none|optimizer|all",
     .meaning = "deepspeed: offload_optimizer to the host; all: offload_param as well, which is not modelled"},
    {.path = BUCKET,
     .type = HR_KEY_INT,
     .fallback = "500000000",
     .min = 0,
     .max = (int64_t)1 << 40,
     .meaning = "deepspeed: reduce_bucket_size, in elements; 0: the square of the hidden size, which transformers puts "
                "in place of auto"},
    {.path = OVERLAP,
     .type = HR_KEY_BOOL,
     .meaning =
         "deepspeed: overlap_comm, with two buckets; as DeepSpeed has it in that stage unless given: in 3 alone"},
    {.path = SUB_GROUP,
     .type = HR_KEY_INT,
     .fallback = "1000000000",
     .min = 1,
     .max = (int64_t)1 << 40,
     .meaning = "deepspeed: sub_group_size of stage 3, in elements"},
};
const hr_key_table hr_engine_keys = {keys, sizeof keys / sizeof *keys};

/* States are made at the end of the first step in holes of its activations, so that the second one needs more, and a
 * late one may still add a segment. */
enum { STEPS = 6, MICRO_BATCHES = 4 };

bool hr__engine_is_torch(const hr_recipe *recipe) {
  return strcmp(hr__recipe_text(recipe, KIND), "pytorch") == 0;
}

/* --- what is not modelled ----------------------------------------------------------------------------------------- */

static bool is_plain(const hr_recipe *recipe, const hr_technique_key *key) {
  if (!hr__recipe_has(recipe, key->path)) return true;
  if (hr__recipe_tree(recipe, key->path)) return false;
  const char *text = hr__recipe_text(recipe, key->path);
  return strcmp(text, key->plain) == 0 || strcmp(text, "auto") == 0;
}

/* Techniques of headroom's own that PyTorch has not, or has in a form whose calls are not known. */
bool hr__engine_lacks(const char *technique) {
  static const char *const absent[] = {"memory.update", "memory.split", "memory.offload.", "training.optimizer.state"};
  for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
    if (strncmp(technique, absent[i], strlen(absent[i])) == 0) return true;
  return false;
}

static hr_status techniques_check(const hr_recipe *recipe, hr_error *err) {
  for (size_t i = 0; i < HR_TECHNIQUE_KEYS; i++) {
    const hr_technique_key *row = &hr_technique_keys[i];
    if (hr__engine_lacks(row->path) && !is_plain(recipe, row))
      return hr__recipe_fail(recipe, row->path, "leave it out, or plan with engine.kind headroom", err,
                             "%s is a technique of headroom's own: what PyTorch holds with it cannot be said",
                             row->path);
  }
  return HR_OK;
}

static bool is_deepspeed(const hr_recipe *recipe) {
  return strcmp(hr__recipe_text(recipe, TRAINER), "deepspeed") == 0;
}

/* What DeepSpeed has not, or what of it is not known. */
static hr_status deepspeed_check(const hr_recipe *recipe, const hr_model_part *whole, hr_error *err) {
  static const char *const zero[] = {STAGE, OVERLAP, OFFLOAD, BUCKET, SUB_GROUP};
  static const char optimizer[] = "training.optimizer.kind";
  if (!is_deepspeed(recipe)) {
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
      if (hr__recipe_given(recipe, zero[i]))
        return hr__recipe_fail(recipe, zero[i], "leave it out, or give engine.trainer deepspeed", err,
                               "%s is a setting of DeepSpeed's", zero[i]);
    return HR_OK;
  }
  const char *offload = hr__recipe_text(recipe, OFFLOAD);
  if (strcmp(offload, "all") == 0)
    return hr__recipe_fail(recipe, OFFLOAD, "give optimizer, with which about as much or more is allocated", err,
                           "when DeepSpeed fetches weights from the host and drops them again is not modelled");
  if (strcmp(offload, "none") != 0 && strcmp(hr__recipe_text(recipe, optimizer), "adamw") != 0)
    return hr__recipe_fail(recipe, optimizer, "give adamw, or engine.zero.offload none", err,
                           "what is offloaded DeepSpeed updates by AdamW of its own on the host");
  if (hr__scope_given(&whole->scope, "quantize"))
    return hr__scope_fail(&whole->scope, "quantize", "leave it out, or give another engine.trainer", err,
                          "weights in 4 bits under DeepSpeed are not modelled");
  return HR_OK;
}

static bool is_packed(const hr_recipe *recipe) {
  return hr__recipe_bool(recipe, hr__recipe_has(recipe, PACKED) ? PACKED : "data.packing");
}

/* Compiled runs are estimated from measured ones; of others nothing is known. */
static hr_status compiled_check(const hr_recipe *recipe, const hr_model_part *whole, hr_error *err) {
  static const char remedy[] = "leave engine.compile out: what eager PyTorch holds is more";
  if (!hr__recipe_bool(recipe, COMPILE)) return HR_OK;
  const char *precision = hr__scope_precision(&whole->scope);
  bool sixteen = strcmp(precision, "bf16-true") == 0 || strcmp(precision, "bf16-mixed") == 0;
  const char *why = NULL;
  if (!hr__scope_has(&whole->scope, "config.num_key_value_heads"))
    why = "models that look both ways";
  else if (is_deepspeed(recipe))
    why = "DeepSpeed";
  else if (hr__scope_given(&whole->scope, "quantize"))
    why = "weights in 4 bits";
  else if (!sixteen)
    why = "other types than bf16-true and bf16-mixed";
  else if (!hr__recipe_word_is(recipe, "memory.checkpoint", "none"))
    why = "checkpointing";
  else if (strcmp(hr__recipe_text(recipe, ATTENTION), "sdpa") != 0)
    why = "attention other than sdpa";
  else if (hr__recipe_has(recipe, EVALUATES))
    why = "evaluations between steps";
  else if (is_packed(recipe))
    why = "packed rows";
  if (!why) return HR_OK;
  return hr__recipe_fail(recipe, COMPILE, remedy, err, "torch.compile with %s was not measured", why);
}

hr_status hr__engine_check(const hr_recipe *recipe, hr_error *err) {
  hr_model_part whole = hr__model_whole(recipe);
  if (!whole.model->torch)
    return hr__recipe_fail(recipe, KIND, "trace the model itself with tools/torch_trace.py and plan the trace", err,
                           "how PyTorch runs models of the family %s is not known", whole.model->family);
  if (hr__memory_device(recipe) != HR_CUDA)
    return hr__recipe_fail(recipe, "memory.device", "name the card: --gpu 4090, or memory.device cuda with memory.gpu",
                           err, "what PyTorch holds is simulated for GPUs, not for the processor");
  HR_TRY(deepspeed_check(recipe, &whole, err));
  HR_TRY(compiled_check(recipe, &whole, err));
  if (hr__scope_has(&whole.scope, "precision_overrides"))
    return hr__scope_fail(&whole.scope, "precision_overrides", "leave it out, or plan with engine.kind headroom", err,
                          "PyTorch has no precision_overrides");
  if (hr__recipe_has(recipe, "training.ema"))
    return hr__recipe_fail(recipe, "training.ema", "leave it out, or plan with engine.kind headroom", err,
                           "averages of weights are not modelled for PyTorch");
  if (is_packed(recipe) && !hr__scope_has(&whole.scope, "config.num_key_value_heads"))
    return hr__recipe_fail(recipe, hr__recipe_has(recipe, PACKED) ? PACKED : "data.packing",
                           "leave it out, or plan with engine.kind headroom", err,
                           "trainers pack rows of models that look back alone, by positions that begin anew");
  static const char checkpoint[] = "memory.checkpoint";
  if (hr__recipe_tree(recipe, checkpoint) || hr__recipe_word_is(recipe, checkpoint, "selective"))
    return hr__recipe_fail(recipe, checkpoint, "give none or every-layer", err,
                           "PyTorch's checkpointing recomputes whole layers, and all of them");
  return techniques_check(recipe, err);
}

/* --- from recipe to run ------------------------------------------------------------------------------------------- */

static bool word_is(const hr_recipe *recipe, const char *key, const char *word) {
  return strcmp(hr__recipe_text(recipe, key), word) == 0;
}

static void precision_read(const hr_recipe *recipe, const hr_model_part *whole, hr_eager_settings *s) {
  const char *precision = hr__scope_precision(&whole->scope), *weights = hr__recipe_text(recipe, WEIGHTS);
  bool mixed = strstr(precision, "mixed") != NULL, adapted = s->rank > 0;
  s->narrow = strncmp(precision, "16", 2) == 0 ? HR_F16 : HR_BF16;
  bool wide = strcmp(precision, "32-true") == 0;
  s->weights = wide || (mixed && !adapted) ? HR_F32 : s->narrow;
  static const hr_dtype types[] = {HR_F32, HR_BF16, HR_F16};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(weights, hr_dtype_name(types[i])) == 0) s->weights = types[i];
  s->autocast = mixed || (adapted && !s->plain_adapters && !wide) || s->packed;
  s->scaled = mixed && s->narrow == HR_F16;
  if (s->zero.stage == 0) return;
  s->weights = wide ? HR_F32 : s->narrow; /* all of the model is cast; f32 copies are the optimizer's */
  s->autocast = false;
}

static void zero_read(const hr_recipe *recipe, const hr_model_part *whole, hr_eager_settings *s) {
  if (!is_deepspeed(recipe)) return;
  s->zero.stage = (int)hr__recipe_int(recipe, STAGE);
  s->zero.overlap = hr__recipe_has(recipe, OVERLAP) ? hr__recipe_bool(recipe, OVERLAP) : s->zero.stage == 3;
  s->zero.offloaded = !word_is(recipe, OFFLOAD, "none");
  s->zero.bucket = hr__recipe_int(recipe, BUCKET);
  int64_t hidden = hr__scope_int(&whole->scope, "config.hidden_size");
  if (s->zero.bucket == 0) s->zero.bucket = hidden * hidden;
  s->zero.sub_group = hr__recipe_int(recipe, SUB_GROUP);
}

static bool linear_adapted(void *user, const char *module) {
  const hr_lora *lora = user;
  return hr__targets_match(lora->targets, lora->n_targets, module);
}

typedef struct choosing {
  hr_lora lora; /* first: what linear_adapted is given */
  hr_model_part whole;
} choosing;

static bool weight_trained(void *user, const char *parameter) {
  const hr_scope *scope = &((const choosing *)user)->whole.scope;
  char path[HR_SCOPE_PATH];
  if (!hr__scope_has(scope, "train")) return true;
  if (hr__recipe_is_word(scope->recipe, hr__scope_path(scope, "train", path)))
    return hr__recipe_word_is(scope->recipe, path, "all");
  size_t count;
  const char *const *patterns = hr__recipe_texts(scope->recipe, path, &count);
  for (size_t i = 0; i < count; i++)
    if (hr__name_matches(parameter, patterns[i])) return true;
  return false;
}

static hr_tape_checkpoint checkpoint_read(const hr_recipe *recipe) {
  if (!word_is(recipe, "memory.checkpoint", "every-layer")) return HR_TAPE_KEEP;
  return word_is(recipe, AGAIN, "reentrant") ? HR_TAPE_REENTRANT : HR_TAPE_NON_REENTRANT;
}

static size_t word_index(const hr_recipe *recipe, const char *key, const char *const *words, size_t count) {
  size_t i = 0;
  while (i + 1 < count && !word_is(recipe, key, words[i]))
    i++;
  return i;
}

static void kernels_read(const hr_recipe *recipe, const hr_facts *facts, hr_eager_settings *s) {
  static const char *const attention[] = {"sdpa", "eager", "flash"};
  static const char *const sdpa[] = {"auto", "cudnn", "flash", "efficient", "math"};
  static const char *const update[] = {"fused", "foreach", "for-loop"};
  int generation = facts->capability / 10;
  s->attention = (hr_torch_attention)word_index(recipe, ATTENTION, attention, 3);
  s->sdpa.first = (hr_sdpa)word_index(recipe, SDPA, sdpa, 5);
  s->sdpa.cudnn_first = generation == 9 || generation == 10;
  s->update = (hr_torch_update_by)word_index(recipe, OPTIMIZER, update, 3);
  s->workspace_bytes = hr__torch_workspace_bytes(facts->capability);
  const hr_gpu *gpu = hr__gpu_like(facts);
  s->capability = facts->capability;
  s->multiprocessors = gpu ? gpu->multiprocessors : 0;
  s->threads_each = hr__torch_threads(facts->capability);
}

static void optimizer_read(const hr_recipe *recipe, hr_eager_settings *s) {
  static const char kind[] = "training.optimizer.kind";
  bool eight = strstr(hr__recipe_text(recipe, kind), "8bit") != NULL;
  s->paged = strncmp(hr__recipe_text(recipe, kind), "paged", strlen("paged")) == 0;
  s->optimizer = word_is(recipe, kind, "sgd") ? HR_TORCH_SGD
                 : eight                      ? HR_TORCH_ADAMW8BIT
                 : s->paged                   ? HR_TORCH_ADAMW_BNB
                                              : HR_TORCH_ADAMW;
  s->momentum = hr__recipe_float(recipe, "training.optimizer.momentum");
  s->weight_decay = hr__recipe_float(recipe, "training.optimizer.weight_decay");
  s->clipped = hr__recipe_has(recipe, "training.clip_norm");
}

static hr_status settings_read(const hr_recipe *recipe, const hr_facts *facts, choosing *c, hr_eager_settings *s,
                               hr_error *err) {
  hr_training_shape shape;
  HR_TRY(hr__training_shape(recipe, &shape, err));
  bool padded = hr__recipe_has(recipe, PADDED) ? hr__recipe_bool(recipe, PADDED) : shape.ragged;
  int64_t evaluated = hr__recipe_has(recipe, EVALUATES) ? hr__recipe_int(recipe, EVALUATES) : 0;
  *s = (hr_eager_settings){.batch = shape.batch,
                           .length = shape.length,
                           .accumulation = shape.accumulation_max,
                           .padded = padded && shape.batch > 1, /* a row alone has no padding */
                           .documents = is_packed(recipe),
                           .eval_batch = evaluated,
                           .eval_padded = padded && evaluated > 1,
                           .steps = STEPS,
                           .user = c,
                           .adapted = linear_adapted,
                           .trained = weight_trained,
                           .checkpointing = checkpoint_read(recipe)};
  /* Micro-batches behind the second one hold what it holds; segments may still come in one or two more. */
  if (s->accumulation > MICRO_BATCHES) s->accumulation = MICRO_BATCHES;
  c->whole = hr__model_whole(recipe);
  if (hr__lora_given(&c->whole)) {
    c->lora = hr__lora_read(&c->whole);
    s->rank = c->lora.rank;
    s->adapter_dropout = c->lora.dropout;
    s->plain_adapters = word_is(recipe, ADAPTERS, "plain");
  }
  s->packed = hr__scope_given(&c->whole.scope, "quantize");
  zero_read(recipe, &c->whole, s);
  precision_read(recipe, &c->whole, s);
  kernels_read(recipe, facts, s);
  /* documents of a row are parted by a mask, but for the package that takes their lengths */
  if (s->documents) s->padded = s->eval_padded = s->attention != HR_TORCH_FLASH_ATTENTION;
  optimizer_read(recipe, s);
  return HR_OK;
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

/* In place of the eager steps those of compiled graphs. */
static hr_status compiled_make(const choosing *c, const hr_eager *e, hr_engine_run *out, hr_error *err) {
  int64_t vocabulary = hr__scope_int(&c->whole.scope, "config.vocab_size");
  int64_t embedding = vocabulary * hr__scope_int(&c->whole.scope, "config.hidden_size");
  hr_compiled_run run = {.scores = (uint64_t)(e->settings.batch * e->settings.length * vocabulary)};
  int64_t trained = 0;
  for (size_t i = 0; i < e->n_trained; i++) {
    trained += hr__tape_elements(&e->tape, e->trained[i]);
    run.gradient_bytes += hr__tape_bytes(&e->tape, e->trained[i]);
  }
  bool wide = e->settings.autocast && e->settings.weights == HR_F32, whole = e->settings.rank == 0;
  if (wide && trained > embedding) run.casts_bytes = 2 * (uint64_t)(trained - embedding);
  if (whole && !wide) run.embedding = (uint64_t)embedding;
  out->compiled = true;
  return hr__torch_compiled(&out->events, &run, err);
}

static hr_status events_make(const hr_recipe *recipe, const hr_facts *facts, hr_engine_run *out, hr_error *err) {
  choosing c;
  hr_eager_settings settings;
  hr_eager e;
  HR_TRY(settings_read(recipe, facts, &c, &settings, err));
  hr_status status = hr__eager_init(&e, &settings, &out->events, err);
  if (status == HR_OK) {
    c.whole.model->torch(&c.whole, &e);
    status = hr__eager_run(&e, err);
  }
  if (status == HR_OK && hr__recipe_bool(recipe, COMPILE)) status = compiled_make(&c, &e, out, err);
  out->micro = e.micro;
  out->update = e.update;
  out->attended = e.tape.attended;
  out->host = hr__zero_host(&e);
  out->deepspeed = settings.zero.stage > 0;
  hr__eager_fini(&e);
  return status;
}

hr_status hr__engine_simulate(const hr_recipe *recipe, const hr_facts *facts, hr_engine_run *out, hr_error *err) {
  hr_torch_rules rules;
  hr__torch_rules_init(&rules);
  hr__arena_init(&out->arena);
  hr__torch_events_init(&out->events);
  HR_TRY(hr__engine_check(recipe, err));
  if (hr__recipe_has(recipe, CONF)) HR_TRY(hr__torch_conf(hr__recipe_text(recipe, CONF), CONF, &rules, err));
  rules.expandable |= hr__recipe_bool(recipe, SEGMENTS);
  HR_TRY(events_make(recipe, facts, out, err));
  HR_TRY(hr__torch_replay(&out->events, &rules, &out->arena, &out->result, err));
  out->context_bytes = hr__torch_context(hr__gpu_like(facts), out->attended).bytes;
  out->driver_bytes = out->result.reserved.use.reserved_bytes + out->context_bytes;
  return HR_OK;
}

/* Of what is written, how much is moved in all: operands are read, and products and copies go by several kernels.
 * Python needs so long for a call and its backward. Both fitted to seven measured runs (docs/torch.md). */
static const double TRAFFIC = 3.2, CALL_SECONDS = 34e-6;

static double work_seconds(const hr_tape_work *work, const hr_rates *rates) {
  double seconds = work->attention_flops / rates->gpu.attention_16.flops_per_second;
  for (int d = 0; d < HR_DTYPE_COUNT; d++)
    if (work->flops[d] > 0) seconds += work->flops[d] / rates->gpu.product_flops[d];
  seconds += TRAFFIC * work->bytes / rates->gpu.attention_16.bytes_per_second;
  double launches = CALL_SECONDS * work->calls;
  return seconds > launches ? seconds : launches;
}

/* An update on the host: gradients come down in f32, all states are read and written, and weights go back in 16 bits.
 */
static double host_seconds(const hr_zero_host *host, const hr_rates *rates) {
  static const double states = 2, moved = 7 + 0.5, copied = 1 + 0.5; /* each of them in numbers of f32 */
  double bytes = (double)host->optimizer / states;
  if (bytes == 0) return 0;
  double rate = rates->host ? rates->host->classes[HR_CLASS_STREAM][1].bytes_per_second : 0;
  if (rate == 0) rate = rates->copies.host_alone_bytes_per_second;
  return moved * bytes / rate + copied * bytes / rates->copies.host_alone_bytes_per_second;
}

double hr__engine_seconds(const hr_engine_run *run, const hr_rates *rates, int64_t accumulation) {
  return (double)accumulation * work_seconds(&run->micro, rates) + work_seconds(&run->update, rates) +
         host_seconds(&run->host, rates);
}

const char *hr__engine_estimate(const hr_engine_run *run) {
  if (run->compiled)
    return "torch.compile from measured peaks: of 8 runs that were held out, allocated bytes were within 3.4 % and "
           "reserved ones within 9.7 %; the time is that of eager calls";
  return run->deepspeed ? "the GPU memory of NCCL, which DeepSpeed starts even on one GPU, is not counted" : NULL;
}

void hr__engine_fini(hr_engine_run *run) {
  hr__torch_events_fini(&run->events);
  hr__arena_fini(&run->arena);
}
