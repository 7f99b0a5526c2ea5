/* How transformers runs BERT with its head for masked tokens: modules in the order in which they are built, and the
 * calls of their forward. See torch/eager.h. */
#include <inttypes.h>

#include "model/bert.h"
#include "torch/eager.h"

typedef struct normed {
  const char *name;
  hr_tt weight, bias;
} normed;

typedef struct layer {
  struct encoder *of;
  hr_torch_linear query, key, value, mixed, inner, outer;
  normed attention_norm, output_norm;
  const char *name;
} layer;

typedef struct encoder {
  hr_eager *e;
  hr_bert m;
  hr_tt words, positions, types, position_ids, type_ids;
  normed norm, head_norm;
  hr_torch_linear transform, head;
  layer *layers;
  hr_tt mask; /* of the forward pass that runs */
} encoder;

/* --- building ----------------------------------------------------------------------------------------------------- */

static void norm_build(encoder *n, normed *out, const char *path) {
  out->name = hr__eager_name(n->e, "%s.LayerNorm", path);
  hr__eager_weight(n->e, &out->weight, hr__eager_name(n->e, "%s.weight", out->name), hr__tdims1(n->m.hidden));
  hr__eager_weight(n->e, &out->bias, hr__eager_name(n->e, "%s.bias", out->name), hr__tdims1(n->m.hidden));
}

static void dense_build(encoder *n, hr_torch_linear *out, const char *path, const char *name, int64_t in,
                        int64_t rows) {
  hr__eager_linear_make(n->e, out, hr__eager_name(n->e, "%s.%s", path, name), in, rows, true, false);
}

static void layer_build(encoder *n, layer *l, int64_t number) {
  int64_t hidden = n->m.hidden, inner = n->m.inner;
  l->of = n;
  l->name = hr__eager_name(n->e, "bert.encoder.layer.%" PRId64, number);
  dense_build(n, &l->query, l->name, "attention.self.query", hidden, hidden);
  dense_build(n, &l->key, l->name, "attention.self.key", hidden, hidden);
  dense_build(n, &l->value, l->name, "attention.self.value", hidden, hidden);
  dense_build(n, &l->mixed, l->name, "attention.output.dense", hidden, hidden);
  norm_build(n, &l->attention_norm, hr__eager_name(n->e, "%s.attention.output", l->name));
  dense_build(n, &l->inner, l->name, "intermediate.dense", hidden, inner);
  dense_build(n, &l->outer, l->name, "output.dense", inner, hidden);
  norm_build(n, &l->output_norm, hr__eager_name(n->e, "%s.output", l->name));
}

static void build(encoder *n) {
  static const char embeddings[] = "bert.embeddings", head[] = "cls.predictions";
  hr_eager *e = n->e;
  const hr_bert *m = &n->m;
  hr__eager_weight(e, &n->words, "bert.embeddings.word_embeddings.weight", hr__tdims2(m->vocab, m->hidden));
  hr__eager_weight(e, &n->positions, "bert.embeddings.position_embeddings.weight", hr__tdims2(m->positions, m->hidden));
  hr__eager_weight(e, &n->types, "bert.embeddings.token_type_embeddings.weight", hr__tdims2(m->types, m->hidden));
  norm_build(n, &n->norm, embeddings);
  hr__eager_buffer(e, &n->position_ids, embeddings, hr__tdims2(1, m->positions), HR_I64);
  hr__eager_buffer(e, &n->type_ids, embeddings, hr__tdims2(1, m->positions), HR_I64);
  for (int64_t i = 0; i < m->layers && !e->tape.stopped; i++)
    layer_build(n, &n->layers[i], i);
  dense_build(n, &n->transform, head, "transform.dense", m->hidden, m->hidden);
  norm_build(n, &n->head_norm, "cls.predictions.transform");
  hr__eager_tied_head(e, &n->head, "cls.predictions.decoder", &n->words);
  hr__eager_weight(e, &n->head.bias, "cls.predictions.bias", hr__tdims1(m->vocab));
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static hr_tt layer_norm(hr_tape *t, const normed *n, hr_tt x) {
  uint32_t owner = hr__tape_module(t, n->name);
  hr_tt y = hr__at_layer_norm(t, x, n->weight, n->bias);
  t->owner = owner;
  return y;
}

/* LayerNorm(dropout(dense(y)) + x) */
static hr_tt half_end(encoder *n, const hr_torch_linear *dense, const normed *norm, hr_tt y, hr_tt x) {
  hr_tape *t = &n->e->tape;
  hr_tt hidden = hr__tape_name(hr__eager_linear(n->e, dense, y));
  hr__tape_assign(t, &hidden, hr__at_dropout(t, hidden, n->m.dropout));
  hr__tape_assign(t, &hidden, layer_norm(t, norm, hr__at_add(t, hidden, x)));
  return hidden;
}

static hr_tt heads(encoder *n, const hr_torch_linear *linear, hr_tt x) {
  return hr__tape_name(hr__at_heads(&n->e->tape, hr__eager_linear(n->e, linear, x), n->m.heads));
}

static hr_tt attention(layer *l, hr_tt x, hr_tt *weights) {
  encoder *n = l->of;
  hr_tape *t = &n->e->tape;
  hr_tt q = heads(n, &l->query, x), k = heads(n, &l->key, x), v = heads(n, &l->value, x);
  hr_eager_attention_args args = {.mask = n->mask, .dropout = n->m.attention_dropout};
  hr_tt mixed = hr__tape_name(hr__eager_attention(n->e, q, k, v, &args, weights));
  hr__tape_drop(t, q);
  hr__tape_drop(t, k);
  hr__tape_drop(t, v);
  hr__tape_assign(t, &mixed, half_end(n, &l->mixed, &l->attention_norm, mixed, x));
  return mixed;
}

static hr_tt layer_forward(hr_tape *t, void *user, hr_tt x) {
  layer *l = user;
  encoder *n = l->of;
  uint32_t owner = hr__tape_module(t, l->name);
  hr_tt weights, mixed = attention(l, hr__tape_name(x), &weights);
  hr_tt inner = hr__tape_name(hr__eager_linear(n->e, &l->inner, mixed));
  hr__tape_assign(t, &inner, hr__at_gelu(t, inner));
  hr_tt y = half_end(n, &l->outer, &l->output_norm, inner, mixed);
  hr__tape_drop(t, inner);
  hr__tape_drop(t, mixed);
  hr__tape_drop(t, weights);
  t->owner = owner;
  return y == HR_TT_NONE ? y : y | HR_TT_UNNAMED;
}

/* Of token, position and type, each looked up; positions once for all rows. */
static hr_tt embed(encoder *n) {
  hr_eager *e = n->e;
  hr_tape *t = &e->tape;
  uint32_t owner = hr__tape_module(t, "bert.embeddings");
  int64_t batch = e->settings.batch, length = e->settings.length;
  hr_tt types = hr__tape_name(hr__tape_made(t, "aten::gather", hr__tdims2(1, length), HR_I64));
  hr_tt type_ids = hr__tape_name(hr__at_reshaped(t, types, hr__tdims2(batch, length)));
  hr_tt position_ids = hr__tape_name(hr__at_reshaped(t, n->position_ids, hr__tdims2(1, length)));
  hr_tt words = hr__eager_tokens(e, n->words, false);
  hr_tt of_types = hr__tape_name(hr__at_embedding(t, n->types, type_ids));
  hr_tt x = hr__tape_name(hr__at_add(t, words, of_types));
  hr_tt of_positions = hr__tape_name(hr__at_embedding(t, n->positions, position_ids));
  hr__tape_assign(t, &x, hr__at_add(t, x, of_positions));
  hr__tape_assign(t, &x, layer_norm(t, &n->norm, x));
  hr__tape_assign(t, &x, hr__at_dropout(t, x, n->m.dropout));
  hr_tt gone[] = {types, type_ids, position_ids, words, of_types, of_positions};
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
    hr__tape_drop(t, gone[i]);
  t->owner = owner;
  return x;
}

static hr_tt forward(hr_eager *e, void *state) {
  encoder *n = state;
  hr_tape *t = &e->tape;
  hr_tt embedded = embed(n), hidden = hr__tape_again(t, embedded);
  n->mask = hr__eager_padding_mask(e, hr__tape_dtype(t, embedded));
  for (int64_t i = 0; i < n->m.layers && !t->stopped; i++)
    hr__tape_assign(t, &hidden, hr__tape_part(t, layer_forward, &n->layers[i], hidden, &n->mask, 1));
  hr__tape_drop(t, n->mask);
  hr__tape_drop(t, embedded);
  hr_tt x = hr__tape_name(hr__eager_linear(e, &n->transform, hidden));
  hr__tape_assign(t, &x, hr__at_gelu(t, x));
  hr__tape_assign(t, &x, layer_norm(t, &n->head_norm, x));
  hr__tape_assign(t, &x, hr__eager_linear(e, &n->head, x));
  uint32_t owner = hr__tape_module(t, "loss");
  hr_tt loss = hr__eager_masked_token_loss(e, x);
  t->owner = owner;
  hr__tape_drop(t, hidden);
  hr__tape_drop(t, x);
  return loss;
}

void hr__bert_torch(const hr_model_part *part, hr_eager *e) {
  encoder *n = hr__eager_room(e, 1, sizeof *n);
  if (!n) return;
  n->e = e;
  n->m = hr__bert_read(&part->scope);
  n->layers = hr__eager_room(e, (size_t)n->m.layers, sizeof *n->layers);
  if (!n->layers) return;
  e->state = n;
  e->forward = forward;
  e->masked = true;
  build(n);
}
