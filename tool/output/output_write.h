/*
 * Writes and reports the output that a plan describes. Outputs appear complete or not at all.
 * Memory use stays at a few MiB.
 */
#ifndef TOOL_OUTPUT_WRITE_H
#define TOOL_OUTPUT_WRITE_H

#include "output/companion_files.h"
#include "output/output_plan.h"

/* Checks everything, then writes and reports; with --dry-run only reports. Returns an exit code. */
int plan_write(plan *p, const output_settings *out);

/* output_report.c: what was written, or would be. */
typedef struct output_totals {
    uint64_t before, after;
    uint64_t read;  /* of the sources: the total for progress */
    size_t rounded; /* whose values may be lost */
    size_t converted, dequantized, quantized, renamed, shards;
} output_totals;

output_totals plan_totals(const plan *p, const target *to);
void plan_report_json(const plan *p, const output_settings *out, const target *to,
                      const output_totals *sum, const companion_files *copied);
void plan_report_text(const plan *p, const output_settings *out, const target *to,
                      const output_totals *sum, const companion_files *copied);
/* Prints a table of the tensors whose names change. */
void plan_print_renames(const plan *p);

#endif
