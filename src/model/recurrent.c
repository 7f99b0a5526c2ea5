/* See recurrent.h. */
#include "model/recurrent.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "op/concat.h"
#include "op/linear.h"
#include "op/lstm.h"
#include "op/pointwise.h"

enum { NAME = 160 };

/* A parameter of one layer and direction; columns 0: a vector. */
static hr_id declared(hr_builder *b, const hr_lstm_layers *l, const char *kind, int64_t layer, bool reverse,
                      int64_t columns) {
  char name[NAME];
  int64_t rows = HR_LSTM_GATES * l->width;
  hr_init init = {.rule = HR_INIT_UNIFORM, .a = (float)(1 / sqrt((double)l->width))};
  snprintf(name, sizeof name, "%s.%s_l%" PRId64 "%s", l->path, kind, layer, reverse ? "_reverse" : "");
  hr_desc desc = columns > 0 ? hr__desc2(b->dtype, rows, columns) : hr__desc1(b->dtype, rows);
  return hr__parameter(b, name, desc, init);
}

/* Both biases are added to the same gates: one product has their sum. */
static hr_id direction(hr_builder *b, const hr_lstm_layers *l, int64_t layer, bool reverse, int64_t in, hr_id x,
                       hr_id lengths) {
  hr__module(b, "%s", l->path);
  hr_id weight = declared(b, l, "weight_ih", layer, reverse, in);
  hr_id recurrent = declared(b, l, "weight_hh", layer, reverse, l->width);
  hr_id bias = hr__binary(b, HR_FORMULA_add, declared(b, l, "bias_ih", layer, reverse, 0),
                          declared(b, l, "bias_hh", layer, reverse, 0));
  return hr__lstm(b, hr__linear(b, x, weight, bias), recurrent, lengths, reverse);
}

hr_id hr__lstm_layers(hr_builder *b, const hr_lstm_layers *l, hr_id x, hr_id lengths) {
  int64_t in = l->in;
  for (int64_t layer = 0; layer < l->layers && b->status == HR_OK; layer++) {
    hr_id way[2] = {direction(b, l, layer, false, in, x, lengths), HR_NONE};
    if (l->both) way[1] = direction(b, l, layer, true, in, x, lengths);
    x = l->both && b->status == HR_OK ? hr__concat(b, way, 2, 2) : way[0];
    in = l->both ? 2 * l->width : l->width;
  }
  return x;
}
