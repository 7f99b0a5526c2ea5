/* See modules.h. */
#include "model/modules.h"

#include <stdio.h>

#include "model/stack.h"
#include "op/cache.h"
#include "op/dropout.h"
#include "op/layernorm.h"
#include "op/linear.h"
#include "op/rmsnorm.h"

enum { NAME = 192 };

bool hr__linears_join(const hr_scope *scope, const hr_linears *l) {
  int64_t weights[HR_MEMBERS];
  for (int i = 0; i < l->count; i++)
    weights[i] = l->rows[i] * l->in;
  return hr__stackable(scope, weights, l->count) && (!l->biased || hr__stackable(scope, l->rows, l->count));
}

/* The parameters of one kind, stacked: "PATH.NAME+NAME.weight", with a column of `in` or without. */
static hr_id linears_declare(hr_builder *b, const hr_linears *l, const char *kind, int64_t in, hr_init init) {
  char whole[2 * NAME], name[HR_MEMBERS][NAME];
  hr_member members[HR_MEMBERS];
  int64_t rows = 0;
  for (int i = 0; i < l->count; i++) {
    snprintf(name[i], sizeof name[i], "%s.%s.%s", l->path, l->name[i], kind);
    members[i] = (hr_member){name[i], l->rows[i], init};
    rows += l->rows[i];
  }
  snprintf(whole, sizeof whole, "%s.%s", hr__module_here(b), kind);
  hr_desc desc = in > 0 ? hr__desc2(b->dtype, rows, in) : hr__desc1(b->dtype, rows);
  return hr__parameter_stacked(b, whole, desc, members, l->count);
}

hr_id hr__linears(hr_builder *b, const hr_linears *l, hr_id x, hr_id add) {
  char joined[NAME] = "";
  size_t used = 0;
  for (int i = 0; i < l->count; i++)
    used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%s", i ? "+" : "", l->name[i]);
  hr__module(b, "%s.%s", l->path, joined);
  hr_id weight = linears_declare(b, l, "weight", l->in, (hr_init){.rule = HR_INIT_NORMAL, .a = l->std});
  hr_id bias = HR_NONE;
  if (l->biased) bias = linears_declare(b, l, "bias", 0, (hr_init){.rule = HR_INIT_ZERO});
  return hr__linear_add(b, x, weight, bias, add);
}

hr_id hr__linears_one(hr_builder *b, const hr_linears *l, int i, hr_id x) {
  hr_linears one = {.path = l->path,
                    .count = 1,
                    .name = {l->name[i]},
                    .rows = {l->rows[i]},
                    .in = l->in,
                    .biased = l->biased,
                    .std = l->std};
  return hr__linears(b, &one, x, HR_NONE);
}

/* PATH.KIND [width], all of one value. */
static hr_id vector_declare(hr_builder *b, const char *path, const char *kind, int64_t width, hr_init_rule rule) {
  char name[NAME];
  snprintf(name, sizeof name, "%s.%s", path, kind);
  return hr__parameter(b, name, hr__desc1(b->dtype, width), (hr_init){.rule = rule});
}

hr_id hr__rmsnorm_module(hr_builder *b, const char *path, int64_t width, float eps, hr_id x) {
  hr__module(b, "%s", path);
  return hr__rmsnorm(b, x, vector_declare(b, path, "weight", width, HR_INIT_ONE), eps);
}

hr_id hr__rmsnorm_raised_module(hr_builder *b, const char *path, int64_t width, float eps, hr_id x) {
  hr__module(b, "%s", path);
  return hr__rmsnorm_raised(b, x, vector_declare(b, path, "weight", width, HR_INIT_ZERO), eps);
}

hr_id hr__layernorm_module(hr_builder *b, const char *path, int64_t width, float eps, hr_id x) {
  hr__module(b, "%s", path);
  hr_id weight = vector_declare(b, path, "weight", width, HR_INIT_ONE);
  hr_id bias = vector_declare(b, path, "bias", width, HR_INIT_ZERO);
  return hr__layernorm(b, x, weight, bias, eps);
}

static hr_id cache_declare(hr_builder *b, const char *path, const char *kind, const hr_model_batch *batch,
                           const hr_attention_args *args) {
  char name[NAME];
  snprintf(name, sizeof name, "%s.%s", path, kind);
  return hr__cache(b, name, hr__desc3(b->dtype, batch->batch, batch->context, args->kv_heads * args->head_dim));
}

hr_id hr__attention_module(hr_builder *b, const char *path, hr_id q, hr_id k, hr_id v, const hr_model_batch *batch,
                           const hr_attention_args *args) {
  hr__module(b, "%s", path);
  if (batch->context == 0) return hr__attention(b, q, k, v, batch->starts, args);
  hr_cache_args cached = {.heads = args->heads,
                          .kv_heads = args->kv_heads,
                          .head_dim = args->head_dim,
                          .window = args->window,
                          .scale = args->scale};
  hr_id keys = cache_declare(b, path, "keys", batch, args), values = cache_declare(b, path, "values", batch, args);
  hr_id put = hr__cache_put(b, keys, values, k == HR_NONE ? q : k, v, batch->positions, batch->counts, &cached);
  if (put == HR_NONE) return HR_NONE;
  return hr__cache_attention(b, q, put, hr__node_out(b, put, 1), batch->positions, batch->counts, &cached);
}

hr_id hr__table(hr_builder *b, const char *path, int64_t rows, int64_t width, float std) {
  char name[NAME];
  snprintf(name, sizeof name, "%s.weight", path);
  return hr__parameter(b, name, hr__desc2(b->dtype, rows, width), (hr_init){.rule = HR_INIT_NORMAL, .a = std});
}

bool hr__drops(const hr_builder *b, float part) {
  return part > 0 && b->status == HR_OK && hr__program_kind_trains(b->graph->programs[b->program].key.kind);
}

hr_id hr__dropped(hr_builder *b, const char *path, float part, hr_id x) {
  if (!hr__drops(b, part)) return x;
  hr__module(b, "%s.dropout", path);
  return hr__dropout(b, x, part);
}
