/* The table of passes. */
#include "pass/pass.h"

const hr_key_table hr_no_keys = {NULL, 0};

const hr_pass hr_passes[HR_PASSES] = {
#define HR_PASS(name, part, keys) {#name, part, &keys, hr__pass_##name},
#include "pass/passes.def"
#undef HR_PASS
};
