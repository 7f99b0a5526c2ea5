/* One self-contained page out of its data: report/page/page.html with style, script and the data as JSON put into it.
 * Its policy (CSP) lets that very script and style run and nothing else: no request leaves the page, and no text of the
 * data can become markup. */
#ifndef HR_REPORT_PAGE_H
#define HR_REPORT_PAGE_H

#include <jansson.h>

#include "text/grow.h"

/* In the first bytes of everything that this layer writes: a file that has it may be written over. */
#define HR_REPORT_MARK "<!-- headroom report -->"

hr_status hr__page_make(const json_t *data, hr_string *out, hr_error *err);

#endif
