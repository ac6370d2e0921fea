/* Prints what is done with the keys of adapters, as tables or JSON. */
#ifndef TOOL_LORA_REPORT_H
#define TOOL_LORA_REPORT_H

#include "lora/lora_mapping.h"

/* One row for the same step in many layers. */
void lora_print(const lora_mapping *m);
/* Writes the keys "adapters" and "adapted" into the open object. */
void lora_json(const lora_mapping *m);

#endif
