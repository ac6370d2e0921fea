/* Shows a survey of a tensor's values, as text and as JSON. */
#ifndef TOOL_SURVEY_VIEW_H
#define TOOL_SURVEY_VIEW_H

#include "model/value_survey.h"

/* The tensor's name, then a line for each fact. */
void survey_print(const tenmap_tensor *t, const tenmap_stats *stats, const value_survey *s);
/* Writes the key "details" into the open object; nothing if the survey is not known. */
void survey_json(const tenmap_tensor *t, const value_survey *s);
/* "3 of 64 rows are dead: 2 all zero, 1 constant; the first is row 5"; what is "row". */
void text_add_dead_lines(text *t, const line_survey *lines, const char *what);

#endif
