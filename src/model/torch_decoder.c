/* How transformers runs a decoder: its modules in the order in which they are built, and the calls of their forward.
 * Everything that distinguishes the families is in hr_decoder. See torch/eager.h. */
#include <inttypes.h>

#include "model/decoder.h"
#include "torch/eager.h"

/* Shapes in comments: B batch, T length, H hidden, D head_dim. */

/* Norms of a layer in the order in which they are built; with outer norms POST_ATTENTION is that of what attention
 * gives, else the one before the MLP. */
enum { INPUT, POST_ATTENTION, PRE_FEEDFORWARD, POST_FEEDFORWARD, NORMS };
static const char *const norm_names[NORMS] = {"input_layernorm", "post_attention_layernorm",
                                              "pre_feedforward_layernorm", "post_feedforward_layernorm"};

typedef struct layer {
  struct decoder *of;
  int64_t number;
  hr_torch_linear q, k, v, o, gate, up, down;
  hr_tt norms[NORMS];                         /* their weights */
  hr_tt q_norm, k_norm;                       /* NONE: heads are not normed */
  const char *attention, *mlp, *names[NORMS]; /* of the modules */
} layer;

typedef struct decoder {
  hr_eager *e;
  hr_decoder m;
  hr_tt embedding, norm, frequencies[4];
  hr_torch_linear head;
  layer *layers;
  /* of the forward pass that runs: keyword arguments of layers */
  hr_tt cos[2], sin[2]; /* of layers without and with a window, where these have a base of their own */
  hr_tt mask, window_mask;
} decoder;

/* --- building ----------------------------------------------------------------------------------------------------- */

static void layer_build(decoder *d, layer *l) {
  hr_eager *e = d->e;
  const hr_decoder *m = &d->m;
  int64_t q_width = m->heads * m->head_dim, kv_width = m->kv_heads * m->head_dim;
  const char *path = hr__eager_name(e, "model.layers.%" PRId64, l->number);
  struct {
    hr_torch_linear *linear;
    const char *name;
    int64_t in, out;
    bool biased;
  } linears[] = {
      {&l->q, "self_attn.q_proj", m->hidden, q_width, m->input_biases},
      {&l->k, "self_attn.k_proj", m->hidden, kv_width, m->input_biases},
      {&l->v, "self_attn.v_proj", m->hidden, kv_width, m->input_biases},
      {&l->o, "self_attn.o_proj", q_width, m->hidden, m->output_bias},
      {&l->gate, "mlp.gate_proj", m->hidden, m->inner, m->mlp_bias},
      {&l->up, "mlp.up_proj", m->hidden, m->inner, m->mlp_bias},
      {&l->down, "mlp.down_proj", m->inner, m->hidden, m->mlp_bias},
  };
  for (size_t i = 0; i < sizeof linears / sizeof *linears; i++) {
    if (i == 4 && m->family->head_norms) {
      hr__eager_weight(e, &l->q_norm, hr__eager_name(e, "%s.self_attn.q_norm.weight", path), hr__tdims1(m->head_dim));
      hr__eager_weight(e, &l->k_norm, hr__eager_name(e, "%s.self_attn.k_norm.weight", path), hr__tdims1(m->head_dim));
    }
    hr__eager_linear_make(e, linears[i].linear, hr__eager_name(e, "%s.%s", path, linears[i].name), linears[i].in,
                          linears[i].out, linears[i].biased, false);
  }
  for (int i = 0; i < (m->family->outer_norms ? NORMS : PRE_FEEDFORWARD); i++) {
    l->names[i] = hr__eager_name(e, "%s.%s", path, norm_names[i]);
    hr__eager_weight(e, &l->norms[i], hr__eager_name(e, "%s.weight", l->names[i]), hr__tdims1(m->hidden));
  }
  l->attention = hr__eager_name(e, "%s.self_attn", path);
  l->mlp = hr__eager_name(e, "%s.mlp", path);
}

static void build(decoder *d) {
  hr_eager *e = d->e;
  const hr_decoder *m = &d->m;
  hr__eager_weight(e, &d->embedding, "model.embed_tokens.weight", hr__tdims2(m->vocab, m->hidden));
  for (int64_t i = 0; i < m->layers && !e->tape.stopped; i++) {
    d->layers[i].of = d;
    d->layers[i].number = i;
    layer_build(d, &d->layers[i]);
  }
  hr__eager_weight(e, &d->norm, "model.norm.weight", hr__tdims1(m->hidden));
  for (int i = 0; i < (m->family->local_rope ? 4 : 2); i++)
    hr__eager_buffer(e, &d->frequencies[i], "model.rotary_emb.inv_freq", hr__tdims1(m->head_dim / 2), HR_F32);
  if (m->tied)
    hr__eager_tied_head(e, &d->head, "lm_head", &d->embedding);
  else
    hr__eager_linear_make(e, &d->head, "lm_head", m->hidden, m->vocab, false, true);
}

/* --- a layer ------------------------------------------------------------------------------------------------------ */

/* RMSNorm: x to f32, x / rms(x), back to the type of x, times the weight. */
static hr_tt plain_norm(hr_tape *t, hr_tt weight, hr_tt x) {
  hr_dtype dtype = hr__tape_dtype(t, x);
  hr_tt wide = hr__tape_name(hr__at_to(t, hr__tape_name(x), HR_F32));
  hr_tt spread = hr__tape_name(hr__at_mean(t, hr__at_square(t, wide)));
  hr__tape_assign(t, &wide, hr__at_mul(t, wide, hr__at_rsqrt(t, hr__at_shift(t, spread))));
  hr_tt y = hr__at_mul(t, weight, hr__at_to(t, wide, dtype));
  hr__tape_drop(t, wide);
  hr__tape_drop(t, spread);
  return y;
}

/* The same times 1 + the weight, in f32, and only then back. */
static hr_tt raised_norm(hr_tape *t, hr_tt weight, hr_tt x) {
  hr_dtype dtype = hr__tape_dtype(t, x);
  hr_tt wide = hr__tape_name(hr__at_to(t, hr__tape_name(x), HR_F32));
  hr_tt y =
      hr__tape_name(hr__at_mul(t, wide, hr__at_rsqrt(t, hr__at_shift(t, hr__at_mean(t, hr__at_square(t, wide))))));
  hr__tape_drop(t, wide);
  hr__tape_assign(t, &y, hr__at_mul(t, y, hr__at_shift(t, hr__at_to(t, weight, HR_F32))));
  hr_tt back = hr__at_to(t, y, dtype);
  hr__tape_drop(t, y);
  return back;
}

static hr_tt norm(const decoder *d, const char *module, hr_tt weight, hr_tt x) {
  hr_tape *t = &d->e->tape;
  if (t->stopped || x == HR_TT_NONE) return HR_TT_NONE;
  uint32_t owner = hr__tape_module(t, module);
  hr_tt y = d->m.family->raised_norms ? raised_norm(t, weight, x) : plain_norm(t, weight, x);
  if (x & HR_TT_UNNAMED) hr__tape_drop(t, x);
  t->owner = owner;
  return y;
}

/* (x cos) + (rotate_half(x) sin) */
static hr_tt rotated(hr_tape *t, hr_tt x, hr_tt cos, hr_tt sin) {
  hr_tt plain = hr__at_mul(t, x, cos);
  hr_tt left = hr__tape_name(hr__at_half_of(t, x, 0)), right = hr__tape_name(hr__at_half_of(t, x, 1));
  hr_tt turned = hr__at_joined(t, hr__at_neg(t, right), left);
  hr__tape_drop(t, left);
  hr__tape_drop(t, right);
  return hr__at_add(t, plain, hr__at_mul(t, turned, sin));
}

/* Normed heads are turned behind their norm; with raised norms all three are made and turned first. */
static hr_tt heads(layer *l, const hr_torch_linear *linear, hr_tt x, int64_t count, hr_tt norm_weight) {
  hr_tape *t = &l->of->e->tape;
  hr_tt y = hr__eager_linear(l->of->e, linear, x);
  if (norm_weight == HR_TT_NONE || l->of->m.family->raised_norms) return hr__tape_name(hr__at_heads(t, y, count));
  y = hr__at_split_heads(t, y, count); /* [B, T, heads, D], normed before it is turned */
  return hr__tape_name(hr__at_turned_heads(t, norm(l->of, l->attention, norm_weight, y)));
}

static hr_tt attention(layer *l, hr_tt x, hr_tt *weights) {
  decoder *d = l->of;
  hr_tape *t = &d->e->tape;
  uint32_t owner = hr__tape_module(t, l->attention);
  bool windowed = hr__decoder_window(&d->m, l->number) > 0;
  int table = windowed && d->m.family->local_rope;
  hr_tt q = heads(l, &l->q, x, d->m.heads, l->q_norm);
  hr_tt k = heads(l, &l->k, x, d->m.kv_heads, l->k_norm);
  hr_tt v = heads(l, &l->v, x, d->m.kv_heads, HR_TT_NONE);
  if (d->m.family->raised_norms) {
    hr__tape_assign(t, &q, norm(d, l->attention, l->q_norm, q));
    hr__tape_assign(t, &k, norm(d, l->attention, l->k_norm, k));
  }
  hr_tt q_turned = hr__tape_name(rotated(t, q, d->cos[table], d->sin[table]));
  hr_tt k_turned = hr__tape_name(rotated(t, k, d->cos[table], d->sin[table]));
  hr__tape_drop(t, q);
  hr__tape_drop(t, k);
  hr_tt mask = windowed ? d->window_mask : d->mask;
  hr_eager_attention_args args = {.mask = mask, .causal = true, .dropout = d->m.attention_dropout, .wide = true};
  hr_tt y = hr__tape_name(hr__eager_attention(d->e, q_turned, k_turned, v, &args, weights));
  hr__tape_assign(t, &y, hr__eager_linear(d->e, &l->o, y));
  hr__tape_drop(t, q_turned);
  hr__tape_drop(t, k_turned);
  hr__tape_drop(t, v);
  t->owner = owner;
  return y;
}

static hr_tt mlp(layer *l, hr_tt x) {
  hr_eager *e = l->of->e;
  hr_tape *t = &e->tape;
  uint32_t owner = hr__tape_module(t, l->mlp);
  hr_tt gate = hr__eager_linear(e, &l->gate, x);
  hr_tt gated = l->of->m.family->gelu ? hr__at_gelu(t, gate) : hr__at_silu(t, gate);
  hr_tt y = hr__eager_linear(e, &l->down, hr__at_mul(t, gated, hr__eager_linear(e, &l->up, x)));
  t->owner = owner;
  return y;
}

static hr_tt layer_forward(hr_tape *t, void *user, hr_tt x) {
  layer *l = user;
  bool outer = l->of->m.family->outer_norms;
  int inner = outer ? PRE_FEEDFORWARD : POST_ATTENTION;
  hr_tt residual = hr__tape_again(t, x);
  hr_tt hidden = hr__tape_name(norm(l->of, l->names[INPUT], l->norms[INPUT], hr__tape_name(x)));
  hr_tt weights;
  hr__tape_assign(t, &hidden, attention(l, hidden, &weights));
  if (outer) hr__tape_assign(t, &hidden, norm(l->of, l->names[POST_ATTENTION], l->norms[POST_ATTENTION], hidden));
  hr__tape_assign(t, &hidden, hr__at_add(t, residual, hidden));
  hr__tape_assign(t, &residual, hr__tape_again(t, hidden));
  hr__tape_assign(t, &hidden, norm(l->of, l->names[inner], l->norms[inner], hidden));
  hr__tape_assign(t, &hidden, mlp(l, hidden));
  if (outer) hr__tape_assign(t, &hidden, norm(l->of, l->names[POST_FEEDFORWARD], l->norms[POST_FEEDFORWARD], hidden));
  hr__tape_assign(t, &hidden, hr__at_add(t, residual, hidden));
  hr__tape_drop(t, residual);
  hr__tape_drop(t, weights);
  return hidden == HR_TT_NONE ? hidden : hidden | HR_TT_UNNAMED;
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

/* Whether rows hold several documents is asked of the positions, where no mask says what belongs to a row. */
static void documents_look_for(hr_tape *t, int64_t batch, int64_t length) {
  hr_tdims rows = hr__tdims2(batch, length);
  hr_tt first = hr__tape_made(t, "aten::sub", hr__tdims2(batch, 1), HR_I64);
  hr_tt all = hr__tape_made(t, "aten::cat", hr__tdims2(batch, length + 1), HR_I64);
  hr_tt steps = hr__tape_made(t, "aten::sub", rows, HR_I64);
  hr__tape_drop(t, all);
  hr_tt breaks = hr__tape_made(t, "aten::ne", rows, HR_U8);
  hr_tt numbers = hr__tape_made(t, "aten::cumsum", rows, HR_I64);
  hr__tape_drop(t, breaks);
  hr__tape_drop(t, first);
  hr__tape_drop(t, steps);
  hr__tape_drop(t, numbers);
}

/* cos and sin of all positions, in the type of x. */
static void rotary(decoder *d, hr_tt x, hr_tt *cos, hr_tt *sin) {
  hr_tape *t = &d->e->tape;
  int64_t length = d->e->settings.length, dim = d->m.head_dim;
  int64_t rows = d->e->settings.documents ? d->e->settings.batch : 1;
  hr_dtype dtype = hr__tape_dtype(t, x);
  hr_tdims whole = hr__tdims4(rows, 1, length, dim);
  uint32_t owner = hr__tape_module(t, "model.rotary_emb");
  hr_tt wide = hr__tape_name(hr__tape_made(t, "aten::_to_copy", hr__tdims3(rows, length, 1), HR_F32));
  hr_tt angles = hr__at_product_made(t, hr__tdims3(rows, length, dim / 2), HR_F32); /* the first product of all */
  hr_tt both = hr__tape_made(t, "aten::cat", whole, HR_F32), tables[2];
  for (int i = 0; i < 2; i++) {
    hr_tt plain = hr__tape_made(t, i == 0 ? "aten::cos" : "aten::sin", whole, HR_F32);
    tables[i] = hr__tape_name(hr__tape_made(t, "aten::mul", whole, HR_F32));
    hr__tape_drop(t, plain);
  }
  bool grad = t->grad;
  t->grad = false;
  *cos = hr__tape_name(hr__at_to(t, tables[0], dtype));
  *sin = hr__tape_name(hr__at_to(t, tables[1], dtype));
  t->grad = grad;
  hr__tape_drop(t, angles);
  hr__tape_drop(t, wide);
  hr__tape_drop(t, both);
  hr__tape_drop(t, tables[0]);
  hr__tape_drop(t, tables[1]);
  t->owner = owner;
}

static bool all_windowed(const hr_decoder *m) {
  for (int64_t i = 0; i < m->layers; i++)
    if (hr__decoder_window(m, i) == 0) return false;
  return true;
}

static hr_tt forward(hr_eager *e, void *state) {
  decoder *d = state;
  hr_tape *t = &e->tape;
  uint32_t owner = hr__tape_module(t, "model.embed_tokens");
  int64_t batch = e->settings.batch, length = e->settings.length;
  int tables = d->m.family->local_rope ? 2 : 1;
  hr_tt embedded = hr__eager_tokens(e, d->embedding, d->m.family->scaled_embedding);
  hr__tape_module(t, "model");
  hr_tt positions = e->settings.documents ? hr__tape_again(t, e->positions) : HR_TT_NONE;
  if (!e->settings.documents) {
    hr_tt numbers = hr__tape_made(t, "aten::arange", hr__tdims1(length), HR_I64);
    positions = hr__tape_name(hr__tape_made(t, "aten::add", hr__tdims1(length), HR_I64));
    hr__tape_drop(t, numbers);
  }
  if (!e->settings.padded || e->settings.documents) documents_look_for(t, batch, length);
  hr__eager_causal_masks(e, hr__tape_dtype(t, embedded), d->m.window, !all_windowed(&d->m), &d->mask, &d->window_mask);
  for (int i = 0; i < tables; i++)
    rotary(d, embedded, &d->cos[i], &d->sin[i]);
  hr_tt hidden = hr__tape_again(t, embedded);
  for (int64_t i = 0; i < d->m.layers && !t->stopped; i++) {
    hr__tape_module(t, d->layers[i].attention);
    bool windowed = hr__decoder_window(&d->m, i) > 0;
    int table = windowed && d->m.family->local_rope;
    hr_tt with[HR_TAPE_WITH] = {d->cos[table], d->sin[table], positions, windowed ? d->window_mask : d->mask};
    hr__tape_assign(t, &hidden, hr__tape_part(t, layer_forward, &d->layers[i], hidden, with, HR_TAPE_WITH));
  }
  hr__tape_assign(t, &hidden, norm(d, "model.norm", d->norm, hidden));
  hr__tape_drop(t, positions);
  hr__tape_drop(t, d->mask);
  hr__tape_drop(t, d->window_mask);
  hr__tape_drop(t, embedded);
  for (int i = 0; i < tables; i++) {
    hr__tape_drop(t, d->cos[i]);
    hr__tape_drop(t, d->sin[i]);
  }
  hr_tt logits = hr__tape_name(hr__eager_linear(e, &d->head, hidden));
  hr__tape_module(t, "loss");
  hr_tt loss = hr__eager_next_token_loss(e, logits);
  hr__tape_drop(t, hidden);
  hr__tape_drop(t, logits);
  t->owner = owner;
  return loss;
}

void hr__decoder_torch(const hr_model_part *part, hr_eager *e) {
  decoder *d = hr__eager_room(e, 1, sizeof *d);
  if (!d) return;
  d->e = e;
  d->m = hr__decoder_read(&part->scope);
  d->layers = hr__eager_room(e, (size_t)d->m.layers, sizeof *d->layers);
  if (!d->layers) return;
  e->state = d;
  e->forward = forward;
  build(d);
}
