/*
 * tenmap report: what is known about a model (gather.c), how it becomes the data of a page (data.c), the
 * page (page.c, whose parts are in page/), and pictures (svg.c, treemap.c, heatmap.c). cmd_report.c
 * decides what is made. docs/report.md describes the formats.
 */
#ifndef TOOL_REPORT_H
#define TOOL_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tenmap.h>

#include "command.h"
#include "outfile.h"
#include "print.h"

/* What was measured of a tensor; min to norm are of its finite values, NaN where it has none. */
typedef struct report_stats {
    bool known;
    double min, max, mean, std, norm;
    uint64_t zeros, nan, inf;
} report_stats;

/* How a tensor compares with the other model's of the same name. The page knows these numbers. */
typedef enum report_state {
    REPORT_SAME = 0,
    REPORT_CHANGED = 1,
    REPORT_RESHAPED = 2, /* its dtype or shape */
    REPORT_ADDED = 3,    /* only in this model */
    REPORT_REMOVED = 4,  /* only in the other */
    REPORT_UNREAD = 5    /* values that cannot be compared: complex, unknown dtypes */
} report_state;

typedef struct report_change {
    report_state state;
    const tenmap_tensor *other; /* where the dtype or shape differs; else NULL */
    double relative;            /* norm of the difference over the other's norm; NaN: not known */
    double largest, share;      /* largest difference; share of the values that differ */
} report_change;

typedef struct report_finding {
    uint32_t severity; /* TENMAP_FINDING_* */
    const char *code;  /* static */
    uint32_t shard;
    uint64_t offset;
    char *message;
} report_finding;

typedef struct report {
    const char *title; /* NULL: the page takes the last part of the path */
    const tenmap_model *model;
    const tenmap_model *base; /* what it is compared with, or NULL */
    size_t count;             /* the model's tensors, then those that only base has */
    const tenmap_tensor **tensors;
    report_stats *stats;    /* per tensor; NULL: nothing was measured */
    char **bins;            /* per tensor: a coded histogram, or NULL; NULL: there are none */
    report_change *changes; /* per tensor; NULL without base */
    report_finding *findings;
    size_t finding_count, findings_left; /* those kept, and how many more there were */
    bool checked;
} report;

typedef struct report_wishes {
    bool stats;
    texts hist;          /* patterns; none: all tensors up to hist_limit */
    uint64_t hist_limit; /* bytes of tensor data */
    uint64_t threads;    /* 0: as many as there are processors */
} report_wishes;

/* gather.c: 0, or the exit code of a failure that has been told. */
int report_gather(report *r, const tenmap_model *model, const tenmap_model *base,
                  const report_wishes *wishes);
void report_free(report *r);

/* compare.c: fills changes of the tensors that both models have. */
int report_compare(report *r, unsigned threads);

/*
 * Two characters per bin: A to Z, a to z, 0 to 9, - and _ are the digits 0 to 63; 0 is an empty bin,
 * 4095 the fullest one, 100 steps down are half as many. The result belongs to the caller.
 */
char *report_code_bins(const uint64_t *counts, size_t bins);

/*
 * data.c: the page's data as JSON that is safe inside a script element. Histograms are apart:
 * the page reads them when one is looked at.
 */
void report_write_data(const report *r, FILE *out);
void report_write_bins(const report *r, FILE *out);

/* page.c: the whole page. */
void report_write_page(const report *r, FILE *out);

/*
 * file.c: one output. Begin says what is wrong with the path (a folder, the model itself) before
 * any work is done.
 */
typedef struct report_file {
    outfile file;
    FILE *out; /* NULL: none, or done */
} report_file;
int report_file_begin(report_file *f, const char *path, bool force, const report *r);
int report_file_commit(report_file *f, uint64_t *bytes); /* its size */
void report_file_abort(report_file *f);                  /* nothing to do after a commit */

/* svg.c: what the pictures are drawn with. Lengths are in pixels. */
typedef struct box {
    double x, y, w, h;
} box;
typedef enum anchor { ANCHOR_START, ANCHOR_MIDDLE, ANCHOR_END } anchor;
void svg_begin(FILE *out, double width, double height, const char *title);
void svg_end(FILE *out);
/* A rectangle with a tooltip; the tooltip is text from a file and may be NULL. */
void svg_rect(FILE *out, box at, uint32_t color, const text *tip);
/* Text from a file, shortened to the width that there is; nothing where that is too little. */
void svg_text(FILE *out, double x, double y, double room, double size, uint32_t color, anchor where,
              const char *bytes, size_t len);
/* A gradient between colours, left to right, for legends. */
void svg_scale(FILE *out, box at, const uint32_t *stops, size_t count);

/* Colours are 0xRRGGBB. */
uint32_t color_between(uint32_t from, uint32_t to, double share);
uint32_t color_along(const uint32_t *stops, size_t count, double at);
uint32_t color_ink(uint32_t background);    /* black or white, what reads better */
uint32_t color_of_dtype(const char *dtype); /* as in the page */
uint32_t color_of_change(const report_change *change);

/*
 * layers.c: the first number in a path is the layer, what stands before it the stack, what comes
 * after it the kind, in which other numbers are written *.
 */
typedef struct layer_place {
    size_t stack_len; /* of the name's first bytes */
    uint64_t layer;
    text kind;
} layer_place;
bool layer_find(const char *name, size_t len, layer_place *out); /* kind is cleared and filled */

/* What a cell or a rectangle shows. */
typedef enum report_metric {
    METRIC_NORM,
    METRIC_MAX,
    METRIC_ZEROS,
    METRIC_BROKEN,
    METRIC_CHANGE,
    METRIC_SIZE
} report_metric;
typedef enum report_color { COLOR_DTYPE, COLOR_LAYER, COLOR_CHANGE } report_color;

/* treemap.c, heatmap.c: a picture of the whole model. */
void report_write_treemap(const report *r, report_color color, FILE *out);
int report_write_heatmap(const report *r, report_metric metric, FILE *out);

#endif
