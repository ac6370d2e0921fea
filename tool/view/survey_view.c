/* Shows a survey of a tensor's values, as text and as JSON. */
#include "view/survey_view.h"

#include <inttypes.h>
#include <stdio.h>

#include "view/json_out.h"

enum { LABEL = 13 };

static void print_fact(const char *label, const text *value) {
    printf("  %s%-*s%s%s\n", paint(STYLE_DIM), LABEL, label, paint_end(), value->bytes);
}

void text_add_dead_lines(text *t, const line_survey *lines, const char *what) {
    uint64_t dead = lines->zero + lines->constant;
    text_add_grouped(t, dead);
    text_addf(t, " of ");
    text_add_grouped(t, lines->count);
    text_addf(t, " %ss %s dead: ", what, dead == 1 ? "is" : "are");
    if (lines->zero)
        text_addf(t, "%" PRIu64 " all zero%s", lines->zero, lines->constant ? ", " : "");
    if (lines->constant)
        text_addf(t, "%" PRIu64 " constant", lines->constant);
    text_addf(t, "; the first is %s %" PRIu64, what, lines->first_dead);
}

static void print_percentiles(const value_survey *s) {
    text line = {0};
    for (size_t i = 0; i < SURVEY_PERCENTILES; i++)
        text_addf(&line, "%s%g%% %.4g", i ? "  " : "", survey_percentiles[i], s->percentiles[i]);
    print_fact("percentiles", &line);
    text_free(&line);
}

/* "min          -1.375 at [3, 17]" */
static void print_place(const char *label, const tenmap_tensor *t, uint64_t element,
                        const double *value) {
    text line = {0};
    if (element == SURVEY_NONE)
        return;
    if (value)
        text_addf(&line, "%.6g ", *value);
    text_addf(&line, "at ");
    text_add_element(&line, t, element);
    print_fact(label, &line);
    text_free(&line);
}

static void print_dead(const line_survey *lines, const char *what) {
    text line = {0};
    if (!lines->zero && !lines->constant)
        return;
    text_add_dead_lines(&line, lines, what);
    print_fact("dead", &line);
    text_free(&line);
}

/* "; row 17 has 12%, row 3 5%" */
static void add_worst(text *t, const line_survey *lines, const char *what) {
    for (size_t i = 0; i < lines->worst_count; i++) {
        text_addf(t, "%s%s %" PRIu64 " %s", i ? ", " : "; ", what, lines->worst[i].line,
                  i ? "" : "has ");
        text_add_percent(t, lines->worst[i].outliers, lines->length);
    }
}

static void print_outliers(const tenmap_stats *stats, const value_survey *s) {
    text line = {0};
    text_add_grouped(&line, s->outliers);
    if (s->outliers) {
        text_addf(&line, " (");
        text_add_percent(&line, s->outliers, stats->count);
        text_addf(&line, ")");
    }
    text_addf(&line, " beyond %d std", SURVEY_OUTLIER_STDS);
    add_worst(&line, &s->rows, "row");
    add_worst(&line, &s->columns, "column");
    print_fact("outliers", &line);
    text_free(&line);
}

void survey_print(const tenmap_tensor *t, const tenmap_stats *stats, const value_survey *s) {
    text title = {0};
    text_add_safe(&title, t->name, t->name_len);
    printf("%s%s%s  %s  ", paint(STYLE_BOLD), title.bytes ? title.bytes : "", paint_end(),
           tenmap_dtype_name(t->dtype));
    text_clear(&title);
    text_add_shape(&title, t);
    printf("%s  mean %.4g  std %.4g\n", title.bytes, stats->mean, stats->std);
    text_free(&title);
    if (!s->known) {
        puts("  values of this dtype have no order");
        return;
    }
    if (s->min_at != SURVEY_NONE)
        print_percentiles(s);
    print_place("min", t, s->min_at, &stats->min);
    print_place("max", t, s->max_at, &stats->max);
    print_place("first NaN", t, s->first_nan, NULL);
    print_place("first Inf", t, s->first_infinity, NULL);
    print_dead(&s->rows, "row");
    print_dead(&s->columns, "column");
    print_outliers(stats, s);
}

/* A position is a list of indices. */
static void place_json(const char *key, const tenmap_tensor *t, uint64_t element) {
    uint64_t inner = t->nelems;
    if (element == SURVEY_NONE)
        return;
    json_key(key);
    json_open('[', true);
    for (uint32_t i = 0; i < t->rank && inner; i++) {
        inner /= t->shape[i];
        json_uint(element / inner);
        element %= inner;
    }
    json_close();
}

static void lines_json(const char *key, const line_survey *lines) {
    if (!lines->count)
        return;
    json_key(key);
    json_open('{', true);
    json_key_uint("count", lines->count);
    json_key_uint("length", lines->length);
    json_key_uint("zero", lines->zero);
    json_key_uint("constant", lines->constant);
    if (lines->first_dead != SURVEY_NONE)
        json_key_uint("first_dead", lines->first_dead);
    json_key("most_outliers");
    json_open('[', true);
    for (size_t i = 0; i < lines->worst_count; i++) {
        json_open('{', true);
        json_key_uint("index", lines->worst[i].line);
        json_key_uint("outliers", lines->worst[i].outliers);
        json_close();
    }
    json_close();
    json_close();
}

void survey_json(const tenmap_tensor *t, const value_survey *s) {
    char name[32];
    if (!s->known)
        return;
    json_key("details");
    json_open('{', true);
    json_key("percentiles");
    json_open('{', true);
    for (size_t i = 0; i < SURVEY_PERCENTILES; i++) {
        snprintf(name, sizeof name, "%g", survey_percentiles[i]);
        json_key_real(name, s->percentiles[i]);
    }
    json_close();
    place_json("min_at", t, s->min_at);
    place_json("max_at", t, s->max_at);
    place_json("first_nan", t, s->first_nan);
    place_json("first_infinity", t, s->first_infinity);
    json_key_uint("outliers", s->outliers);
    lines_json("rows", &s->rows);
    lines_json("columns", &s->columns);
    json_close();
}
