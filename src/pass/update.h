/* The update: gradient norm and one optimizer step per trained parameter. */
#ifndef HR_PASS_UPDATE_H
#define HR_PASS_UPDATE_H

#include "graph/builder.h"
#include "recipe/recipe.h"

typedef enum hr_optimizer { HR_OPTIMIZER_ADAMW, HR_OPTIMIZER_ADAMW8BIT, HR_OPTIMIZER_SGD } hr_optimizer;

/* Parameters whose name fits one of the patterns (hr__name_matches). */
typedef struct hr_update_group {
  const char **patterns;
  size_t n_patterns;
  float lr_scale;     /* learning rate of the group by the common one */
  float weight_decay; /* < 0: as outside of groups */
} hr_update_group;

/* All zero but for what is named: AdamW with moments in f32. */
typedef struct hr_update_settings {
  hr_optimizer optimizer;
  double beta1, beta2;
  float eps;
  float momentum; /* sgd; 0: it has no state */
  bool nesterov;
  float weight_decay; /* on matrices (rank >= 2) only, unless a group says otherwise */
  float clip_norm;    /* <= 0: no clipping */
  float ema;          /* decay of averages of the parameters; 0: there are none */
  hr_dtype state;     /* adamw: type of the moments, f32 or bf16 */
  bool paged;         /* large states have their home on the host tier */
  bool in_backward;   /* each parameter is updated within the backward pass, as soon as nothing else reads it */
  bool told;          /* squares of every gradient are an output, "grad_squares" */
  bool guarded;       /* a norm that is not finite skips the step */
  const hr_update_group *groups; /* the first that fits counts */
  size_t n_groups;
} hr_update_settings;

/* Whether any node of the model computes in f16, so that the loss must be scaled and steps that overflow be skipped. */
bool hr__update_scaled(const hr_graph *graph);

/* Settings of a recipe, checked against each other and, for the patterns of groups, against the graph's parameters.
 * What they point to belongs to the graph. */
hr_status hr__update_read(const hr_recipe *recipe, hr_graph *graph, hr_update_settings *out, hr_error *err);

/* Appends to the builder's current program; its output "grad_norm" is the L2 norm over all gradients. Parameters
 * without a gradient are left alone. States are persistent: adam.m.<parameter> and adam.v.<parameter>; with 8 bits, for
 * parameters of HR_ADAMW8BIT_LEAST elements or more, adam8.{m, v, m_absmax, v_absmax}.<parameter>;
 * sgd.momentum.<parameter>. Averages are ema.<parameter>, f32, updated behind all else. With `in_backward` too they are
 * all at the end: the pass then puts them where they belong.
 */
hr_status hr__update_emit(hr_builder *b, const hr_update_settings *settings, hr_error *err);

/* Elements from which on states live on the host tier where they are paged. */
enum { HR_UPDATE_PAGED = 100000 };

#endif
