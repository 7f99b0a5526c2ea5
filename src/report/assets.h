/* What a page is made of beside its data: files of report/page, which the build puts into the program. */
#ifndef HR_REPORT_ASSETS_H
#define HR_REPORT_ASSETS_H

#include <stddef.h>

extern const unsigned char hr__page_html[], hr__page_style[], hr__page_script[];
extern const size_t hr__page_html_bytes, hr__page_style_bytes, hr__page_script_bytes;

#endif
