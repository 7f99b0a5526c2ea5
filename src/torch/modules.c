/* Modules that families share: linear ones as torch, PEFT and bitsandbytes run them, and attention. See eager.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "torch/call.h"
#include "torch/eager.h"
#include "torch/packed_kernel.h"

/* NF4: 4 bits an element, a statistic for every 64, which are packed themselves by blocks of 256. */
enum { PER_BYTE = 2, BLOCK = 64, NESTED_BLOCK = 256, CODES = 16, NESTED_CODES = 256 };

/* --- building ----------------------------------------------------------------------------------------------------- */

void *hr__eager_room(hr_eager *e, size_t count, size_t size) {
  void *room = hr__arena_array(&e->arena, count, size);
  if (!room) e->tape.failed = e->tape.stopped = true;
  return room;
}

const char *hr__eager_name(hr_eager *e, const char *format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  char *name = hr__arena_text(&e->arena, text);
  if (!name) e->tape.failed = e->tape.stopped = true;
  return name ? name : "";
}

static void parameter_add(hr_eager *e, hr_tt *slot, const char *name, bool fixed) {
  if (hr__arena_grow(&e->arena, (void **)&e->parameters, &e->parameters_capacity, e->n_parameters,
                     sizeof *e->parameters) != 0) {
    e->tape.failed = e->tape.stopped = true;
    return;
  }
  e->parameters[e->n_parameters++] = (hr_eager_parameter){name, slot, fixed};
}

static hr_tt weight_make(hr_eager *e, const char *name, hr_tdims dims, hr_dtype dtype, bool trained) {
  uint32_t before = hr__tape_module(&e->tape, name);
  hr_tt weight = hr__tape_parameter(&e->tape, dims, dtype, trained);
  e->tape.owner = before;
  return weight;
}

void hr__eager_weight(hr_eager *e, hr_tt *slot, const char *name, hr_tdims dims) {
  bool trained = e->settings.rank == 0 && e->settings.trained(e->settings.user, name);
  *slot = weight_make(e, name, dims, e->settings.weights, trained);
  parameter_add(e, slot, name, false);
}

void hr__eager_buffer(hr_eager *e, hr_tt *slot, const char *name, hr_tdims dims, hr_dtype dtype) {
  *slot = weight_make(e, name, dims, dtype, false);
  parameter_add(e, slot, name, true);
}

/* On its way to the device a weight is there in 16 bits first, then packed, then its statistics are. */
static hr_tt packed_make(hr_eager *e, const char *name, int64_t in, int64_t out) {
  hr_tape *t = &e->tape;
  int64_t n = in * out, blocks = (n + BLOCK - 1) / BLOCK;
  uint32_t before = hr__tape_module(t, name);
  hr_tt whole = hr__tape_made(t, "bitsandbytes::quantize_4bit", hr__tdims2(out, in), e->settings.weights);
  hr__tape_parameter(t, hr__tdims1(CODES), HR_F32, false);
  hr_tt statistics = hr__tape_made(t, "bitsandbytes::quantize_4bit", hr__tdims1(blocks), HR_F32);
  hr_tt weight = hr__tape_parameter(t, hr__tdims2((n + 1) / PER_BYTE, 1), HR_U8, false);
  hr__tape_parameter(t, hr__tdims1(1), HR_F32, false); /* their mean, which is taken off */
  hr_tt offset = hr__tape_made(t, "aten::sub", hr__tdims1(blocks), HR_F32);
  hr__tape_parameter(t, hr__tdims1(NESTED_CODES), HR_F32, false);
  hr__tape_parameter(t, hr__tdims1(blocks), HR_U8, false);
  hr__tape_parameter(t, hr__tdims1((blocks + NESTED_BLOCK - 1) / NESTED_BLOCK), HR_F32, false);
  hr__tape_drop(t, whole);
  hr__tape_drop(t, statistics);
  hr__tape_drop(t, offset);
  t->owner = before;
  return weight;
}

void hr__eager_linear_make(hr_eager *e, hr_torch_linear *linear, const char *name, int64_t in, int64_t out, bool biased,
                           bool head) {
  *linear = (hr_torch_linear){.name = name, .in = in, .out = out, .packed = e->settings.packed && !head};
  if (linear->packed)
    linear->weight = packed_make(e, name, in, out);
  else
    hr__eager_weight(e, &linear->weight, hr__eager_name(e, "%s.weight", name), hr__tdims2(out, in));
  if (biased) hr__eager_weight(e, &linear->bias, hr__eager_name(e, "%s.bias", name), hr__tdims1(out));
  if (head || e->settings.rank == 0 || !e->settings.adapted(e->settings.user, name)) return;
  if (hr__arena_grow(&e->arena, (void **)&e->linears, &e->linears_capacity, e->n_linears, sizeof *e->linears) != 0)
    e->tape.failed = e->tape.stopped = true;
  else
    e->linears[e->n_linears++] = linear;
}

void hr__eager_tied_head(hr_eager *e, hr_torch_linear *linear, const char *name, hr_tt *weight) {
  hr_tdims dims = hr__tape_tensor(&e->tape, *weight)->dims;
  *linear = (hr_torch_linear){.name = name, .in = dims.at[1], .out = dims.at[0], .tied = weight};
  if (e->settings.packed || e->zero) return; /* built on the host, where nothing of it is left */
  hr_tt dropped = weight_make(e, name, dims, e->settings.weights, false);
  hr__tape_drop(&e->tape, dropped);
}

/* --- linear modules ----------------------------------------------------------------------------------------------- */

/* lin(x) + B(A x) s, with A and B cast to the type of x. */
static hr_tt plain_adapter(hr_tape *t, const hr_torch_linear *l, hr_tt x) {
  hr_dtype dtype = x == HR_TT_NONE ? HR_F32 : hr__tape_tensor(t, x)->dtype;
  hr_tt base = hr__at_linear(t, x, l->weight, l->bias);
  hr_tt down = hr__at_linear(t, x, hr__at_to(t, l->a, dtype), HR_TT_NONE);
  hr_tt up = hr__at_linear(t, down, hr__at_to(t, l->b, dtype), HR_TT_NONE);
  return hr__at_add(t, base, hr__at_scale(t, up));
}

/* lora_A(lora_dropout(x)): the module A has its input to the end of its call, autocast's copy of it or not. */
static hr_tt adapter_down(hr_eager *e, const hr_torch_linear *l, hr_tt x) {
  hr_tt dropped = hr__tape_name(hr__at_dropout(&e->tape, x, e->settings.adapter_dropout));
  hr_tt down = hr__at_linear(&e->tape, dropped, l->a, HR_TT_NONE);
  hr__tape_drop(&e->tape, dropped);
  return down;
}

/* PEFT's Linear: x goes to the adapter in the adapter's type, which autocast takes back. */
static hr_tt adapter(hr_eager *e, const hr_torch_linear *l, hr_tt x) {
  hr_tape *t = &e->tape;
  hr_tt result = hr__tape_name(hr__at_linear(t, x, l->weight, l->bias));
  if (t->stopped) {
    hr__tape_drop(t, result);
    return HR_TT_NONE;
  }
  hr_dtype dtype = hr__tape_tensor(t, result)->dtype;
  hr_tt wide = hr__tape_name(hr__at_to(t, x, hr__tape_tensor(t, l->a)->dtype));
  hr_tt up = hr__at_linear(t, adapter_down(e, l, wide), l->b, HR_TT_NONE);
  hr__tape_assign(t, &result, hr__at_add(t, result, hr__at_scale(t, up)));
  if (!t->stopped) hr__tape_assign(t, &result, hr__at_to(t, result, dtype));
  hr__tape_drop(t, wide);
  return result == HR_TT_NONE ? result : result | HR_TT_UNNAMED;
}

/* bitsandbytes' MatMul4Bit: the weight is unpacked for each product, there and back. x is not kept. */
static void packed_backward(hr_tape *t, const hr_tape_node *node, hr_tt g, hr_tt out[HR_TAPE_INPUTS]) {
  uint64_t n = (uint64_t)(node->number[0] * node->number[1]);
  uint32_t statistics = hr__tape_scratch(t, "bitsandbytes::dequantize_blockwise", n / BLOCK * 4);
  uint32_t weight = hr__tape_scratch(t, "bitsandbytes::dequantize_4bit", n * 2);
  hr__tape_scratch_end(t, statistics);
  t->work.flops[HR_BF16] += 2.0 * (double)hr__tdims_elements(node->input[0].dims) * (double)node->number[1];
  t->work.bytes += (double)(2 * n);
  out[0] = hr__tape_fresh(t, "aten::mm", node->input[0].dims, hr__tape_tensor(t, g)->dtype, false);
  hr__tape_workspace(t);
  hr__tape_scratch_end(t, weight);
}

static const hr_aten packed_call = {.name = "bitsandbytes::gemm_4bit", .backward = packed_backward};

static hr_tt packed_product(hr_tape *t, const hr_torch_linear *l, hr_tt x) {
  hr_tape_call c;
  if (!hr__call_begin(t, &c, &packed_call, 1, &x)) return HR_TT_NONE;
  hr__call_number(&c, 0, l->in);
  hr__call_number(&c, 1, l->out);
  hr_tape_tensor form = *hr__tape_tensor(t, x);
  form.dims.at[form.dims.n - 1] = l->out;
  hr_packed_gpu gpu = {t->capability, t->multiprocessors};
  bool unpacked = hr__packed_is_unpacked(&gpu, hr__tape_elements(t, x) / l->in, l->in, l->out);
  uint64_t n = unpacked ? (uint64_t)(l->in * l->out) : 0, bytes[] = {n / BLOCK * 4, n / BLOCK * 4, n * 2};
  uint32_t scratch[3];
  for (int i = 0; i < 3; i++)
    scratch[i] = hr__tape_scratch(t, packed_call.name, bytes[i]);
  t->work.flops[HR_BF16] += 2.0 * (double)hr__tape_elements(t, x) * (double)l->out;
  t->work.bytes += (double)(2 * n);
  hr_tt y = hr__call_made(&c, form.dims, form.dtype, false);
  if (unpacked) hr__tape_workspace(t);
  if (unpacked && l->bias != HR_TT_NONE) hr__tape_bias_workspace(t);
  for (int i = 3; i-- > 0;)
    hr__tape_scratch_end(t, scratch[i]);
  return hr__call_end(&c, y);
}

/* Linear4bit computes in bf16, into which it turns its bias for good, and gives its result the type of x. */
static hr_tt packed_linear(hr_tape *t, const hr_torch_linear *l, hr_tt x) {
  hr_dtype dtype = hr__tape_tensor(t, x)->dtype;
  hr_tt narrow = hr__tape_name(hr__at_to(t, x, HR_BF16));
  hr__tape_retype(t, l->bias, HR_BF16);
  hr_tt y = hr__at_to(t, packed_product(t, l, narrow), dtype);
  hr__tape_drop(t, narrow);
  return y;
}

/* PEFT's Linear4bit: what the packed module gives is copied before anything is added. */
static hr_tt packed_adapter(hr_eager *e, const hr_torch_linear *l, hr_tt x) {
  hr_tape *t = &e->tape;
  hr_tt result = hr__tape_name(hr__at_clone(t, packed_linear(t, l, x)));
  if (t->stopped) {
    hr__tape_drop(t, result);
    return HR_TT_NONE;
  }
  hr_dtype dtype = hr__tape_tensor(t, result)->dtype;
  hr_tt input = t->autocast ? hr__tape_again(t, x) : hr__tape_name(hr__at_to(t, x, hr__tape_tensor(t, l->a)->dtype));
  hr_tt output = hr__tape_name(hr__at_scale(t, hr__at_linear(t, adapter_down(e, l, input), l->b, HR_TT_NONE)));
  if (!t->autocast && !t->stopped) hr__tape_assign(t, &output, hr__at_to(t, output, dtype));
  hr__tape_assign(t, &result, hr__at_add(t, result, output));
  hr__tape_drop(t, output);
  hr__tape_drop(t, input);
  return result == HR_TT_NONE ? result : result | HR_TT_UNNAMED;
}

static hr_tt linear_run(hr_eager *e, const hr_torch_linear *l, hr_tt x) {
  hr_tape *t = &e->tape;
  if (t->stopped || x == HR_TT_NONE) return HR_TT_NONE;
  if (l->packed) return l->a == HR_TT_NONE ? packed_linear(t, l, x) : packed_adapter(e, l, x);
  if (l->a == HR_TT_NONE) return hr__at_linear(t, x, l->tied ? *l->tied : l->weight, l->bias);
  return e->settings.plain_adapters ? plain_adapter(t, l, x) : adapter(e, l, x);
}

hr_tt hr__eager_linear(hr_eager *e, const hr_torch_linear *l, hr_tt x) {
  uint32_t before = hr__tape_module(&e->tape, l->name);
  hr_tt y = linear_run(e, l, hr__tape_name(x));
  e->tape.owner = before;
  if (x & HR_TT_UNNAMED) hr__tape_drop(&e->tape, x);
  return y;
}

/* --- attention ---------------------------------------------------------------------------------------------------- */

/* eager_attention_forward: products and softmax as they stand, probabilities in f32. */
static hr_tt attention_by_hand(hr_tape *t, hr_tt q, hr_tt k, hr_tt v, const hr_eager_attention_args *args, hr_tt *out) {
  hr_tape_tensor form = *hr__tape_tensor(t, q);
  int64_t times = form.dims.at[1] / hr__tape_tensor(t, k)->dims.at[1];
  hr_tt keys = hr__tape_name(hr__at_expanded(t, k, times));
  hr_tt values = hr__tape_name(hr__at_expanded(t, v, times));
  hr_tt weights = hr__tape_name(hr__at_scale(t, hr__at_matmul(t, q, keys, true)));
  if (args->mask != HR_TT_NONE) hr__tape_assign(t, &weights, hr__at_add(t, weights, args->mask));
  /* autocast gives the softmax f32 as well, and leaves it so */
  hr_tt parts = args->wide || t->autocast ? hr__at_wide_softmax(t, weights) : hr__at_softmax(t, weights);
  hr__tape_assign(t, &weights, args->wide ? hr__at_to(t, parts, form.dtype) : parts);
  hr__tape_assign(t, &weights, hr__at_dropout(t, weights, args->dropout));
  hr_tt y = hr__at_merged(t, hr__at_matmul(t, weights, values, false));
  hr__tape_drop(t, keys);
  hr__tape_drop(t, values);
  *out = weights;
  return y;
}

hr_tt hr__eager_attention(hr_eager *e, hr_tt q, hr_tt k, hr_tt v, const hr_eager_attention_args *args, hr_tt *weights) {
  hr_tape *t = &e->tape;
  *weights = HR_TT_NONE;
  if (t->stopped) return HR_TT_NONE;
  if (e->settings.attention == HR_TORCH_EAGER_ATTENTION) return attention_by_hand(t, q, k, v, args, weights);
  bool masked = args->mask != HR_TT_NONE;
  hr_sdpa_args sdpa = {
      .rules = e->settings.sdpa, .causal = args->causal && !masked, .dropout = args->dropout, .mask = args->mask};
  if (e->settings.attention == HR_TORCH_FLASH_ATTENTION) sdpa.rules.first = HR_SDPA_FLASH;
  /* without a mask the kernels share keys themselves (enable_gqa) */
  int64_t times = masked ? hr__tape_tensor(t, q)->dims.at[1] / hr__tape_tensor(t, k)->dims.at[1] : 1;
  hr_tt keys = hr__tape_name(hr__at_expanded(t, k, times));
  hr_tt values = hr__tape_name(hr__at_expanded(t, v, times));
  hr_tt y = hr__at_merged(t, hr__at_sdpa(t, q, keys, values, &sdpa));
  hr__tape_drop(t, keys);
  hr__tape_drop(t, values);
  return y;
}
