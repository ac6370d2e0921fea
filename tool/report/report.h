/*
 * tenmap report: gather.c collects the facts about a model, data.c turns them into the data of the
 * HTML report, page.c writes the report (its parts are in page/), and svg.c, treemap.c and
 * heatmap.c draw pictures. commands/report.c decides what is written. docs/report.md describes the
 * formats.
 */
#ifndef TOOL_REPORT_H
#define TOOL_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tenmap.h>

#include "command.h"
#include "output/atomic_file.h"
#include "view/print.h"

/* What was measured of a tensor. min to norm cover its finite values and are NaN if it has none. */
typedef struct report_stats {
    bool known;
    double min, max, mean, std, norm;
    uint64_t zeros, nan, inf;
} report_stats;

/* Rows or columns of a tensor that hold one finite value each (see model/value_survey.h). */
typedef struct report_dead {
    uint64_t zero, constant; /* all zeros; all one other value */
    uint64_t count;          /* all rows or columns, dead or not */
    uint64_t first;          /* the first dead one, if there is any */
} report_dead;

/*
 * How a tensor compares with the other model's tensor of the same name. The report's script relies
 * on these numbers.
 */
typedef enum report_state {
    REPORT_SAME = 0,
    REPORT_CHANGED = 1,
    REPORT_RESHAPED = 2, /* the dtype or shape differs */
    REPORT_ADDED = 3,    /* only in this model */
    REPORT_REMOVED = 4,  /* only in the other model */
    REPORT_UNREAD = 5    /* the values cannot be compared: complex or unknown dtypes */
} report_state;

typedef struct report_change {
    report_state state;
    const tenmap_tensor *other; /* if the dtype or shape differs; else NULL */
    double relative;            /* norm of the difference over the other's norm; NaN: unknown */
    double largest, share;      /* largest difference; fraction of values that differ */
    uint64_t unlike;            /* values that differ and are not both finite */
    uint64_t gained;            /* those that are NaN or infinite in this model */
} report_change;

typedef struct report_finding {
    uint32_t severity; /* TENMAP_FINDING_* */
    const char *code;  /* a static string */
    uint32_t shard;
    uint64_t offset;
    char *message;
} report_finding;

typedef struct report {
    const char *title; /* NULL: the report uses the last component of the path */
    const tenmap_model *model;
    const tenmap_model *base; /* the model to compare with, or NULL */
    size_t count;             /* the model's tensors, then those only in base */
    const tenmap_tensor **tensors;
    report_stats *stats;    /* per tensor; NULL: nothing was measured */
    char **bins;            /* per tensor: an encoded histogram, or NULL; NULL: no histograms */
    report_change *changes; /* per tensor; NULL without base */
    report_dead *dead_rows, *dead_columns; /* per tensor; NULL: not looked for */
    /* The same of the other model, for tensors that changed; NULL without base or histograms. */
    report_stats *base_stats;
    char **base_bins;
    report_finding *findings;
    size_t finding_count, findings_left; /* findings kept, and how many more there were */
    bool checked;
} report;

typedef struct report_request {
    bool stats;
    texts hist;          /* patterns; none: all tensors up to hist_limit */
    uint64_t hist_limit; /* bytes of tensor data */
    uint64_t threads;    /* 0: one per processor */
} report_request;

/* gather.c: returns 0, or an exit code after printing an error. */
int report_gather(report *r, const tenmap_model *model, const tenmap_model *base,
                  const report_request *request);
void report_free(report *r);
bool report_measurable(const tenmap_tensor *t); /* whether tenmap_measure supports the dtype */

/*
 * Limits of the tensors whose values are read in one call. They keep histograms and surveys to a
 * few MB, and let the pages that were read be released in time.
 */
enum { REPORT_BATCH = 2048, REPORT_BATCH_BYTES = 256 << 20 };

/*
 * dead_lines.c: looks for dead rows and columns in tensors of floats that have histograms. Values
 * are read again, so that it leaves out models at addresses. Returns 0, or an exit code after
 * printing an error.
 */
int report_find_dead(report *r, unsigned threads);

/* compare.c: fills the changes of the tensors that both models have. */
int report_compare(report *r, unsigned threads);

/*
 * Encodes the counts one after another in base 32, least significant digit first. A to Z and a to f
 * are the last digit of a count; g to z, 0 to 9, - and _ are the same digits with more to follow.
 * The caller frees the result.
 */
char *report_code_bins(const uint64_t *counts, size_t bins);

/*
 * data.c: writes the report's data as JSON that is safe inside a script element. Histograms are
 * separate: the report parses them only when one is shown.
 */
void report_write_data(const report *r, FILE *out);
void report_write_bins(const report *r, FILE *out);

/* page.c: writes the whole report. */
void report_write_page(const report *r, FILE *out);

/*
 * output_file.c: one output file, in `format` ("HTML"). report_file_begin reports problems with the
 * path (a folder, the model itself, the ending of another format) before any work is done.
 */
typedef struct report_file {
    atomic_file file;
    FILE *out; /* NULL: not open, or finished */
} report_file;
int report_file_begin(report_file *f, const char *path, const char *format, bool force,
                      const report *r);
int report_file_commit(report_file *f, uint64_t *bytes); /* its size */
void report_file_abort(report_file *f);                  /* does nothing after a commit */

/* svg.c: drawing primitives. Lengths are in pixels. */
typedef struct box {
    double x, y, w, h;
} box;
typedef enum anchor { ANCHOR_START, ANCHOR_MIDDLE, ANCHOR_END } anchor;
void svg_begin(FILE *out, double width, double height, const char *title);
void svg_end(FILE *out);
/* A rectangle with a tooltip. The tooltip is text from a file; it may be NULL. */
void svg_rect(FILE *out, box at, uint32_t color, const text *tip);
/* How a text is drawn. */
typedef struct label_look {
    double x, y; /* of its anchor, on the baseline */
    double room; /* the available width */
    double size; /* of the font */
    uint32_t color;
    anchor where;
} label_look;
/*
 * Draws text from a file, shortened to the available width: at its beginning if it is end-anchored,
 * else at its end, except that a number there is kept. Draws nothing if there is too little room.
 */
void svg_text(FILE *out, label_look look, const char *bytes, size_t len);
/*
 * svg_legend draws words with the baseline at y. svg_swatch draws a swatch with its top at y, and
 * words after it. Both return the x where the next part begins.
 */
double svg_legend(FILE *out, double x, double y, const char *words);
double svg_swatch(FILE *out, double x, double y, uint32_t color, const char *words);
/* Draws a left-to-right gradient between colors, for legends. */
void svg_scale(FILE *out, box at, const uint32_t *stops, size_t count);

/* Colors are 0xRRGGBB. */
uint32_t color_between(uint32_t from, uint32_t to, double share);
uint32_t color_along(const uint32_t *stops, size_t count, double at);
uint32_t color_ink(uint32_t background); /* black or white, with a contrast of at least 4.5 */
/* The color of a dtype in every picture and in the report. */
uint32_t color_of_dtype(const char *dtype);
/* On a log scale from 0.0001 to 1, as in the report. */
enum { CHANGE_STOPS = 5 };
extern const uint32_t change_stops[CHANGE_STOPS];
uint32_t color_of_change(const report_change *change);

/*
 * layer_names.c: splits a name at a layer number. The number is the layer, the text before it is
 * the stack, and the text after it is the kind. Other numbers in the kind are written as * unless a
 * part ends in them: "blocks_0_fc_1" is the kind "fc_1". Of several numbers, the first whose stack
 * has more than one layer is used, so the 2 of "gpt_2.h.0" and "gpt_2.h.1" is not. If there is no
 * such number, the first is used.
 */
typedef struct layer_place {
    bool found;
    size_t stack_len; /* length of the name's first bytes */
    uint64_t layer;
    size_t end; /* just after its digits */
} layer_place;
layer_place *layers_find(const report *r); /* one per tensor; the caller frees it */
/* Replaces the text of `kind`. */
void layer_kind(text *kind, const tenmap_tensor *t, const layer_place *place);

/* What a heatmap cell or a treemap rectangle shows. */
typedef enum report_metric {
    METRIC_NORM,
    METRIC_MAX,
    METRIC_ZEROS,
    METRIC_BROKEN,
    METRIC_CHANGE,
    METRIC_SIZE
} report_metric;
/*
 * COLOR_AUTO is the report's initial choice: changes; or layers if one dtype has nearly all bytes;
 * or dtypes.
 */
typedef enum report_color { COLOR_AUTO, COLOR_DTYPE, COLOR_LAYER, COLOR_CHANGE } report_color;

/* treemap.c, heatmap.c: a picture of the whole model. */
void report_write_treemap(const report *r, report_color color, FILE *out);
void report_write_heatmap(const report *r, report_metric metric, FILE *out);

#endif
