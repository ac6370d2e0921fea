/*
 * Findings about a model: a list of them, the verdict that follows from it, and both printed. In
 * text, findings of one cause are one line.
 */
#ifndef TOOL_FINDINGS_H
#define TOOL_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

typedef struct finding {
    uint32_t severity, shard, remedy;
    uint64_t offset, count; /* count: of findings that it stands for */
    const char *code;
    char *tensor, *message; /* tensor: NULL if none applies */
    char *global;           /* what a pickle would import, "posix.system"; else NULL */
    bool called;            /* and whether it would be called */
} finding;

typedef struct findings {
    finding *items;
    size_t count;
    size_t of[TENMAP_FINDING_ERROR + 1]; /* number of findings by severity */
    bool pickles; /* the model opened, and some of its files contain a pickle: a caller sets it */
} findings;

/* Where in a model a finding is. */
typedef struct finding_place {
    uint32_t shard; /* TENMAP_NO_SHARD if none applies */
    uint64_t offset;
    const char *tensor; /* NULL if none applies */
} finding_place;

/* The place of a tensor; NULL: the model as a whole. */
finding_place place_of(const tenmap_tensor *t);
/* Copies the texts, except for the code, which must be static. */
void findings_add(findings *list, uint32_t severity, const char *code, finding_place at,
                  const char *message);
/* For tenmap_check; ctx is the list. */
void findings_take(void *ctx, const tenmap_finding *f);
void findings_free(findings *list);

/* VERDICT_INCOMPLETE: all errors are about missing shards, so nothing that is there is wrong. */
typedef enum verdict {
    VERDICT_FINE,
    VERDICT_WARNINGS,
    VERDICT_REJECTED,
    VERDICT_INCOMPLETE,
    VERDICT_COUNT
} verdict;
verdict findings_verdict(const findings *list);
int verdict_exit_code(verdict v);
/* "with warnings": for a count of models. */
const char *verdict_counted_as(verdict v);

/* Findings below the least severity are not shown, but count in the verdict's line. */
typedef struct findings_view {
    const char *path; /* of the model */
    uint32_t least_severity;
    bool each; /* a line for each finding, instead of one for each cause */
} findings_view;
/* The findings, then the verdict. */
void findings_print(const findings *list, const findings_view *view);
/* An object with every finding. */
void findings_json(const findings *list, const findings_view *view);

#endif
