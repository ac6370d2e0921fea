/* Prints a comparison of two models as tab-separated values. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "compare/diff.h"
#include "compare/relative_change.h"

/* Both tensors of a row; NULL for a side that lacks it. */
typedef struct tsv_row {
    const char *difference;
    const tenmap_tensor *a, *b;
    const pair *values; /* NULL: not compared */
} tsv_row;

static void add_name(text *line, const tenmap_tensor *t) {
    text_add(line, "\t", 1);
    if (t)
        text_add_field(line, t->name, t->name_len);
}

static void add_dtype(text *line, const tenmap_tensor *t) {
    text_add(line, "\t", 1);
    if (t)
        text_add_field(line, tenmap_dtype_text(t), strlen(tenmap_dtype_text(t)));
}

static void add_dims(text *line, const tenmap_tensor *t) {
    text_add(line, "\t", 1);
    if (t)
        text_add_dims(line, t);
}

/* Fields of values that were not compared, or of dtypes without common values, are empty. */
static void add_values(text *line, const pair *p) {
    const difference *d = p ? &p->found : NULL;
    bool reals = p && p->comparable && d->count;
    if (d)
        text_addf(line, "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, d->count, d->different, d->beyond);
    else
        text_addf(line, "\t\t\t");
    const double numbers[] = {!reals         ? (double)NAN
                              : d->different ? relative_change(p)
                                             : 0.0,
                              reals ? cosine_of(p) : (double)NAN, reals ? d->max_abs : (double)NAN,
                              reals ? d->sum_abs / (double)d->count : (double)NAN,
                              reals ? d->max_rel : (double)NAN};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        text_addf(line, !reals ? "\t" : isnan(numbers[i]) ? "\tnan" : "\t%.17g", numbers[i]);
}

static void print_row(const tsv_row *row) {
    text line = {0};
    text_addf(&line, "%s", row->difference);
    add_name(&line, row->a);
    add_name(&line, row->b);
    add_dtype(&line, row->a);
    add_dtype(&line, row->b);
    add_dims(&line, row->a);
    add_dims(&line, row->b);
    add_values(&line, row->values);
    text_add(&line, "\n", 1);
    fwrite(line.bytes, 1, line.len, stdout);
    text_free(&line);
}

static void print_pairs(const models *m, const diff_settings *set) {
    for (size_t i = 0; i < m->pair_count; i++) {
        const pair *p = &m->pairs[i];
        bool dtypes =
            !any_dtype(set) && strcmp(tenmap_dtype_text(p->a), tenmap_dtype_text(p->b)) != 0;
        if (p->found.different || dtypes)
            print_row(&(tsv_row){p->found.different ? "values" : "dtype", p->a, p->b,
                                 set->headers ? NULL : p});
    }
}

void print_diff_tsv(const models *m, const diff_settings *set, bool same) {
    (void)same;
    puts("difference\tname_a\tname_b\tdtype_a\tdtype_b\tshape_a\tshape_b\tcount\tdifferent\t"
         "beyond_tolerance\trelative_change\tcosine\tmax_abs\tmean_abs\tmax_rel");
    print_pairs(m, set);
    for (size_t i = 0; i < m->shape_count; i++)
        print_row(&(tsv_row){"shape", m->shapes[i].a, m->shapes[i].b, NULL});
    for (size_t i = 0; i < m->found.only_a_count; i++)
        print_row(&(tsv_row){"only_in_a", m->found.only_a[i], NULL, NULL});
    for (size_t i = 0; i < m->found.only_b_count; i++)
        print_row(&(tsv_row){"only_in_b", NULL, m->found.only_b[i], NULL});
}
