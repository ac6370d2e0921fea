/*
 * What statistics do not say about the values of a tensor: percentiles, where the extreme values
 * and the first NaN are, dead rows and columns, and where outliers gather. Values are read in
 * pieces, so memory is bounded for any tensor: of a file, an address, or a quantized weight.
 *
 * Rows are runs along the last axis, and columns the rest: numpy's x.reshape(-1, x.shape[-1]). A
 * tensor of four or more axes, such as a convolution, is x.reshape(x.shape[0], -1).
 */
#ifndef TOOL_VALUE_SURVEY_H
#define TOOL_VALUE_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "tensor_patterns.h"
#include "view/print.h"

enum { SURVEY_PERCENTILES = 9, SURVEY_WORST = 3, SURVEY_OUTLIER_STDS = 6 };
#define SURVEY_NONE UINT64_MAX

/* 0.1, 1, 5, 25, 50, 75, 95, 99, 99.9 */
extern const double survey_percentiles[SURVEY_PERCENTILES];

/* Rows, or columns. A dead one has only one finite value, again and again. */
typedef struct line_survey {
    uint64_t count;          /* 0: fewer than two rows or columns, or more than 2^20 columns */
    uint64_t length;         /* values in each */
    uint64_t zero, constant; /* dead ones: all zeros; all of one other value */
    uint64_t first_dead;     /* SURVEY_NONE: none */
    /* Those with the most outliers, the most first. */
    struct survey_line {
        uint64_t line, outliers;
    } worst[SURVEY_WORST];
    size_t worst_count;
} line_survey;

typedef struct value_survey {
    bool known;                             /* false: values of this dtype are not surveyed (C64) */
    double percentiles[SURVEY_PERCENTILES]; /* of the finite values; NaN if there are none */
    /* Numbers of elements in row-major order, the first if there are several, or SURVEY_NONE. */
    uint64_t min_at, max_at, first_nan, first_infinity;
    uint64_t outliers; /* values more than SURVEY_OUTLIER_STDS deviations away from the mean */
    line_survey rows, columns;
} value_survey;

/* Start from zeros. */
typedef struct survey_options {
    unsigned threads; /* 0: as many as there are processors; at most 8 */
    bool only_dead;   /* only dead rows and columns; the rest is not computed */
    bool in_bar;      /* the caller shows a progress bar, to which the bytes read are added */
} survey_options;

/*
 * Surveys the tensors, whose statistics are known, with a progress bar; out has room for all.
 * With only_dead, stats is NULL. Returns 0, or an exit code after printing an error. Reads the
 * values once, and again for the percentiles of dtypes that are wider than BF16.
 */
int survey_selection(const selection *s, const tenmap_stats *stats, const survey_options *options,
                     value_survey *out);

/* "[3, 17]": the indices of an element. */
void text_add_element(text *t, const tenmap_tensor *tensor, uint64_t element);

#endif
