/* A model of three parts that is not shipped: text (NF4 with adapters), side (frozen) and head (trained), and an output
 * table of its own.
 *
 *   loss = head_loss(head(side(text(tokens))), out)
 */
#ifndef HR_TEST_TRAIN_TRIO_H
#define HR_TEST_TRAIN_TRIO_H

#include "model/parts.h"

/* An override that puts the model of parts into the place of any other, with overrides of single settings behind it. */
#define TRIO_TEXT                                                                                                      \
  "{family: bert, config: {hidden_size: 16, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2,"      \
  " vocab_size: 256, max_position_embeddings: 64}, quantize: {kind: nf4}, adapters: {rank: 4, dropout: 0.1}}"
#define TRIO                                                                                                           \
  "model={family: trio, parts: {text: " TRIO_TEXT ", side: {train: none, config: {width: 24}},"                        \
  " head: {config: {width: 32}}}}"

/* text, used twice: loss = head_loss(text(tokens) - text(tokens), out). */
#define TWINS "model={family: twins, parts: {text: " TRIO_TEXT "}}"

void trio_register(void); /* the families "trio", "twins" and "mlp" */

#endif
