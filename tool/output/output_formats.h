/* Declares what the names of outputs that are no models may promise. */
#ifndef TOOL_OUTPUT_FORMATS_H
#define TOOL_OUTPUT_FORMATS_H

/*
 * Refuses a name that promises another format than `format`, such as x.gguf for "HTML". Endings
 * that are unknown promise nothing. Returns 0 or an exit code.
 */
int check_page_name(const char *path, const char *format);

#endif
