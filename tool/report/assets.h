/* The page's template, style sheet and script, as cmake/embed_report.cmake makes them. */
#ifndef TOOL_REPORT_ASSETS_H
#define TOOL_REPORT_ASSETS_H

#include <stddef.h>

extern const unsigned char report_page[], report_style[], report_script[];
extern const size_t report_page_size, report_style_size, report_script_size;
/* SHA-256 in base64, as a Content-Security-Policy names what may run. */
extern const char report_style_hash[], report_script_hash[];

#endif
