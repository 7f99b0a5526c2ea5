/* Elements from one type to another, to nearest even: F32, BF16 and F16. */
#ifndef HR_MODEL_CONVERT_H
#define HR_MODEL_CONVERT_H

#include "dev/dtype.h"

void hr__convert(hr_dtype to_type, void *to, hr_dtype from_type, const void *from, size_t count);

#endif
