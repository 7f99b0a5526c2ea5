/* Settings of the gesture model under model.config, and their checks. */
#include <inttypes.h>
#include <string.h>

#include "model/gesture.h"

#define LENGTH "data.sequence_length"

enum { SIZE_MOST = 1 << 20, LAYERS_MOST = 1 << 12 };

#define SIZE(name, preset, text)                                                                                       \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_INT, .fallback = preset, .min = 1, .max = SIZE_MOST,                      \
    .meaning = "gesture: " text                                                                                        \
  }
#define PART(name, preset, text)                                                                                       \
  {                                                                                                                    \
    .path = "*.config." name, .type = HR_KEY_FLOAT, .fallback = preset, .min = 0, .max = 0.99,                         \
    .meaning = "gesture: " text                                                                                        \
  }

static const hr_key keys[] = {
    SIZE("encoding_dim", "64", "complex numbers of a vector"),
    SIZE("hidden_dim", "256", "width of the model"),
    SIZE("d_state", "128", "numbers of a state, for each of a head's channels"),
    {.path = "*.config.num_layers",
     .type = HR_KEY_INT,
     .fallback = "6",
     .min = 1,
     .max = LAYERS_MOST,
     .meaning = "gesture: layers of a stack"},
    SIZE("num_classes", "16", "classes"),
    {.path = "*.config.share_weights",
     .type = HR_KEY_CHOICE,
     .fallback = "bidirectional",
     .choices = "false|bidirectional|true",
     .meaning = "gesture: which of the six orders share a stack: none, those that are each other's reverse, all"},
    SIZE("expand", "2", "inner width of a layer, as a multiple of hidden_dim"),
    SIZE("headdim", "64", "channels of a head"),
    SIZE("d_conv", "4", "positions of the causal convolution"),
    {.path = "*.config.chunk_size",
     .type = HR_KEY_INT,
     .fallback = "256",
     .min = 1,
     .max = 256,
     .meaning = "gesture: positions between two states that are kept"},
    PART("dropout", "0.2", "part that is dropped in training"),
    PART("drop_path", "0.1",
         "part of the last layers' results that is dropped whole in training; less in earlier ones"),
    PART("label_smoothing", "0.05", "part of a label that is spread over all classes in training"),
    {.path = "*.config.pooling_scales",
     .type = HR_KEY_TREE,
     .example = "[1, 2, 4]",
     .meaning = "gesture: scales that positions are pooled at, by means of 1, 2, ... windows (default: [1, 2, 4])"},
};
const hr_key_table hr_gesture_keys = {keys, sizeof keys / sizeof *keys};

hr_gesture hr__gesture_read(const hr_model_part *whole) {
  const hr_scope *r = &whole->scope;
  const char *shared = hr__scope_text(r, "config.share_weights");
  char path[HR_SCOPE_PATH];
  hr_error ignored; /* it has been checked */
  hr_gesture m = {
      .encoding = hr__scope_int(r, "config.encoding_dim"),
      .hidden = hr__scope_int(r, "config.hidden_dim"),
      .layers = hr__scope_int(r, "config.num_layers"),
      .classes = hr__scope_int(r, "config.num_classes"),
      .stacks = strcmp(shared, "false") == 0  ? HR_GESTURE_ORDERS
                : strcmp(shared, "true") == 0 ? 1
                                              : 3,
      .dropout = (float)hr__scope_float(r, "config.dropout"),
      .drop_path = (float)hr__scope_float(r, "config.drop_path"),
      .smoothing = (float)hr__scope_float(r, "config.label_smoothing"),
  };
  int64_t inner = m.hidden * hr__scope_int(r, "config.expand");
  m.mixer = (hr_mixer){.width = m.hidden,
                       .head_dim = hr__scope_int(r, "config.headdim"),
                       .groups = 1,
                       .state = hr__scope_int(r, "config.d_state"),
                       .kernel = hr__scope_int(r, "config.d_conv"),
                       .chunk = hr__scope_int(r, "config.chunk_size"),
                       .eps = 1e-5f,
                       .conv_biased = true};
  m.mixer.heads = inner / m.mixer.head_dim;
  m.mixer.in_init = hr__init_xavier(m.hidden, hr__mixer_columns(&m.mixer));
  m.mixer.out_init = hr__init_xavier(inner, m.hidden);
  (void)hr__pooling_scales(r->recipe, hr__scope_path(r, "config.pooling_scales", path), &m.pooling, &ignored);
  return m;
}

/* Recordings that share rows begin at multiples of the chunk. */
static hr_status rows_check(const hr_scope *r, hr_error *err) {
  if (!hr__recipe_bool(r->recipe, "data.packing") || hr__recipe_is_word(r->recipe, LENGTH)) return HR_OK;
  int64_t length = hr__recipe_int(r->recipe, LENGTH), chunk = hr__scope_int(r, "config.chunk_size");
  if (length % chunk == 0) return HR_OK;
  return hr__recipe_fail(r->recipe, LENGTH, "take a multiple of model.config.chunk_size", err,
                         "recordings are packed in pieces of %" PRId64 " positions, which do not divide %" PRId64,
                         chunk, length);
}

hr_status hr__gesture_check(const hr_model_part *whole, hr_error *err) {
  const hr_scope *r = &whole->scope;
  hr_pooling pooling;
  char path[HR_SCOPE_PATH];
  HR_TRY(hr__pooling_scales(r->recipe, hr__scope_path(r, "config.pooling_scales", path), &pooling, err));
  int64_t inner = hr__scope_int(r, "config.hidden_dim") * hr__scope_int(r, "config.expand");
  if (inner % hr__scope_int(r, "config.headdim") != 0)
    return hr__scope_fail(r, "config.headdim", "take a divisor", err,
                          "heads of %" PRId64 " channels do not divide hidden_dim x expand, %" PRId64,
                          hr__scope_int(r, "config.headdim"), inner);
  return rows_check(r, err);
}
