/* Features that training reads from the cache (model/features.h): made, where they are missing, before anything else
 * takes memory, by the job that makes nothing else.
 */
#ifndef HR_TRAIN_FEATURES_H
#define HR_TRAIN_FEATURES_H

#include "train/session.h"

/* Opens what the data's samples have of them, by the weights as they are now. Until then no sample can be filled. */
hr_status hr__features_make(hr_session *session, hr_error *err);

#endif
