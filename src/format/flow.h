/* Values as text that readers of JSON, YAML 1.1 and YAML 1.2 take for the same. */
#ifndef HR_FORMAT_FLOW_H
#define HR_FORMAT_FLOW_H

#include <jansson.h>

#include "base/mem.h"

/* The fewest digits that give the number back: 8, 0.9, and 1.0e-05, which without its point is a word in YAML 1.1.
 * NULL: out of memory. */
const char *hr__real_text(double number, hr_arena *arena);

/* Any value; `gap` stands behind commas and colons. NULL: out of memory. */
const char *hr__flow_text(const json_t *value, const char *gap, hr_arena *arena);

#endif
