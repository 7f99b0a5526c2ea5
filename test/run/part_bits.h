/* Formulas in bf16 have the bits of f32 arithmetic rounded to bf16, however a kernel computes them: every value of bf16
 * against many others, by the arithmetic of this machine. */
#ifndef HR_TEST_RUN_BITS_H
#define HR_TEST_RUN_BITS_H

#include "dev/device.h"

/* `odd`: length of rows for which the kernel goes another way; the bits must be the same, also of NaNs. */
void bits_check(hr_device *device, int64_t odd);

#endif
