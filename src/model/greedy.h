/* What a decoder would write, judged without writing it: where each token of an expected text is the likeliest behind
 * those before it, greedy decoding gives that text.
 */
#ifndef HR_MODEL_GREEDY_H
#define HR_MODEL_GREEDY_H

#include "model/model.h"

#define HR_GREEDY_MODULE "answers" /* in which it computes: families declare it `wide` */

/* Tokens of each sample's expected text that are not the likeliest by themselves, f32 [B, 1, 1]. Greedy decoding gives
 * the expected text where there are none: the tokens before each are then those that it would have chosen. `hidden`: of
 * the decoder's body; `expected` [B, L, 1]: not 0 where the batch has a target. */
hr_id hr__greedy_mistakes(hr_builder *b, const hr_model_part *decoder, const hr_model_batch *batch, hr_id hidden,
                          hr_id expected);

#endif
