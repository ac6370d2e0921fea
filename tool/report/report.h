/*
 * tenmap report: what is known about a model (gather.c), how it becomes the data of a page (data.c), the
 * page (page.c, whose parts are in page/), and pictures (svg.c, treemap.c, heatmap.c). report.c
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
#include "output/atomic_file.h"
#include "view/print.h"

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
    uint64_t unlike; /* values that are NaN or infinite in one of the models, or of another sign */
    uint64_t gained; /* of these, NaN or infinite in this one */
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
bool report_measurable(const tenmap_tensor *t); /* whether tenmap_measure knows the dtype */

/* compare_values.c: fills changes of the tensors that both models have. */
int report_compare(report *r, unsigned threads);

/*
 * The counts one after the other, each in base 32 with the least digit first: A to Z, a to f are the last
 * digit of a count, g to z, 0 to 9, - and _ the same digits with more to come. The result belongs to the
 * caller.
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
/*
 * Text from a file, shortened to the width that there is: at its beginning where it ends at x, else at
 * its end, but for a number there. Nothing where there is too little room.
 */
void svg_text(FILE *out, double x, double y, double room, double size, uint32_t color, anchor where,
              const char *bytes, size_t len);
/* Words of a legend with their baseline at y, and a swatch before some; return where the next part begins. */
double svg_legend(FILE *out, double x, double y, const char *words);
double svg_swatch(FILE *out, double x, double y, uint32_t color, const char *words);
/* A gradient between colours, left to right, for legends. */
void svg_scale(FILE *out, box at, const uint32_t *stops, size_t count);

/* Colours are 0xRRGGBB. */
uint32_t color_between(uint32_t from, uint32_t to, double share);
uint32_t color_along(const uint32_t *stops, size_t count, double at);
uint32_t color_ink(uint32_t background);    /* black or white, with a contrast of at least 4.5 */
uint32_t color_of_dtype(const char *dtype); /* as in the page */
/* On a log scale from a ten-thousandth to all of it; as in the page. */
enum { CHANGE_STOPS = 5 };
extern const uint32_t change_stops[CHANGE_STOPS];
uint32_t color_of_change(const report_change *change);

/*
 * layers.c: a number in a name is the layer, what stands before it the stack, what comes after it the
 * kind, in which other numbers are written * unless a part ends in them: "blocks_0_fc_1" is the kind
 * "fc_1". Of several numbers the first counts whose stack has more than one layer, so that the 2 of
 * "gpt_2.h.0" and "gpt_2.h.1" is none; without such a number, the first.
 */
typedef struct layer_place {
    bool found;
    size_t stack_len; /* of the name's first bytes */
    uint64_t layer;
    size_t end; /* of its digits */
} layer_place;
layer_place *layers_find(const report *r); /* one per tensor; the caller's */
void layer_kind(text *kind, const tenmap_tensor *t, const layer_place *place); /* replaces it */

/* What a cell or a rectangle shows. */
typedef enum report_metric {
    METRIC_NORM,
    METRIC_MAX,
    METRIC_ZEROS,
    METRIC_BROKEN,
    METRIC_CHANGE,
    METRIC_SIZE
} report_metric;
/* COLOR_AUTO is what the page begins with: changes, or layers where there is but one dtype, or dtypes. */
typedef enum report_color { COLOR_AUTO, COLOR_DTYPE, COLOR_LAYER, COLOR_CHANGE } report_color;

/* treemap.c, heatmap.c: a picture of the whole model. */
void report_write_treemap(const report *r, report_color color, FILE *out);
void report_write_heatmap(const report *r, report_metric metric, FILE *out);

#endif
