/* Pictures for documents, as SVG: the same numbers as the page (plan/usage.h, tenants.h, timeline.h), drawn here.
 * Colours follow the reader's light or dark scheme. */
#ifndef HR_REPORT_SVG_H
#define HR_REPORT_SVG_H

#include "job/job.h"
#include "text/grow.h"

typedef enum hr_svg_kind { HR_SVG_MEMORY, HR_SVG_LAYOUT, HR_SVG_FRONTIER, HR_SVG_STREAMS, HR_SVG_KINDS } hr_svg_kind;
const char *hr_svg_kind_name(hr_svg_kind kind); /* "memory", ... */

/* `name` is what the plan is of. Memory and layout are those of the device, at the program of its peak; streams are of
 * the program that takes longest in a step. */
hr_status hr__svg_make(hr_svg_kind kind, const hr_job *job, const char *name, hr_string *out, hr_error *err);

#endif
