/* What the parts of a multistream model share: linears and transformer layers. See multistream.h. */
#include <math.h>
#include <stdio.h>

#include "model/modules.h"
#include "model/multistream.h"
#include "op/add.h"
#include "op/gelu.h"

enum { PATH = 96 };
static const float NORM_EPS = 1e-5f;

int64_t hr__desc_dim(const hr_builder *b, hr_id x, int axis) {
  return b->status == HR_OK ? b->graph->values[x].desc.dim[axis] : 1;
}

hr_id hr__stream_linear(hr_builder *b, const char *path, const char *name, int64_t in, int64_t out, hr_id x) {
  hr_linears l = {.path = path,
                  .count = 1,
                  .name = {name},
                  .rows = {out},
                  .in = in,
                  .biased = true,
                  .std = (float)(1 / sqrt(3 * (double)in))};
  return hr__linears(b, &l, x, HR_NONE);
}

static hr_id norm(hr_builder *b, const hr_stream_layer *l, const char *name, hr_id x) {
  char path[PATH + 16];
  snprintf(path, sizeof path, "%s.%s", l->path, name);
  return hr__layernorm_module(b, path, l->width, NORM_EPS, x);
}

static hr_id attend(hr_builder *b, const hr_scope *scope, const hr_stream_layer *l, hr_id x) {
  char path[PATH + 16];
  snprintf(path, sizeof path, "%s.self_attn", l->path);
  int64_t head_dim = l->width / l->heads;
  hr_linears in = {.path = path,
                   .count = 3,
                   .name = {"q_proj", "k_proj", "v_proj"},
                   .rows = {l->width, l->width, l->width},
                   .in = l->width,
                   .biased = true,
                   .std = (float)(1 / sqrt(3 * (double)l->width))};
  bool packed = hr__linears_join(scope, &in);
  hr_id part[3] = {HR_NONE, HR_NONE, HR_NONE};
  for (int i = 0; i < (packed ? 1 : 3); i++)
    part[i] = packed ? hr__linears(b, &in, x, HR_NONE) : hr__linears_one(b, &in, i, x);
  hr__module(b, "%s", path);
  hr_attention_args args = {.heads = l->heads,
                            .kv_heads = l->heads,
                            .head_dim = head_dim,
                            .scale = (float)(1 / sqrt((double)head_dim)),
                            .bidirectional = true,
                            .dropout = hr__drops(b, l->dropout) ? l->dropout : 0.0f};
  x = hr__attention(b, part[0], part[1], part[2], HR_NONE, &args);
  return hr__dropped(b, path, l->dropout, hr__stream_linear(b, path, "out_proj", l->width, l->width, x));
}

static hr_id mlp(hr_builder *b, const hr_stream_layer *l, hr_id x) {
  x = hr__stream_linear(b, l->path, "linear1", l->width, l->inner, x);
  hr__module(b, "%s.activation", l->path);
  x = hr__dropped(b, l->path, l->dropout, hr__gelu(b, x, false));
  x = hr__stream_linear(b, l->path, "linear2", l->inner, l->width, x);
  return hr__dropped(b, l->path, l->dropout, x);
}

hr_id hr__stream_layer(hr_builder *b, const hr_scope *scope, const hr_stream_layer *l, hr_id x) {
  hr__block_begin(b, "%s", l->path);
  hr_id y = attend(b, scope, l, l->before ? norm(b, l, "norm1", x) : x);
  hr__module(b, "%s", l->path);
  x = hr__add(b, x, y, 1.0f);
  if (!l->before) x = norm(b, l, "norm1", x);
  y = mlp(b, l, l->before ? norm(b, l, "norm2", x) : x);
  hr__module(b, "%s", l->path);
  x = hr__add(b, x, y, 1.0f);
  if (!l->before) x = norm(b, l, "norm2", x);
  hr__block_end(b);
  return x;
}
