/* Writes the data of the HTML report as compact columns of JSON. docs/report.md describes them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "metadata.h"
#include "model/model_facts_json.h"
#include "model/model_profile.h"
#include "remote/remote.h"
#include "report.h"
#include "view/json_out.h"

enum {
    NAME_LIMIT = 4096,        /* bytes of a name that are shown */
    VALUE_LIMIT = 16384,      /* of a metadata value */
    METADATA_LIMIT = 2000000, /* of all metadata */
    MISSING_LIMIT = 100,      /* missing shards that are named */
    DTYPE_LIMIT = 256         /* dtypes; in a lenient open a file may contain any number */
};

/*
 * Writes a JSON string without <, > or &, so that no text can end its script element, and without
 * U+2028 and U+2029, which end lines in scripts. It also escapes what a terminal would interpret or
 * an editor would display misleadingly. A path may not be valid UTF-8.
 */
static void put_string(FILE *out, const char *bytes, size_t len) {
    const unsigned char *s = (const unsigned char *)bytes;
    putc('"', out);
    for (size_t i = 0, n; i < len; i += n + !n) {
        uint32_t point = 0;
        n = decode_point(s + i, len - i, &point);
        if (!n)
            fputs("\\ufffd", out);
        else if (point > 0xffff && unsafe_point(point))
            fprintf(out, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((point - 0x10000) >> 10)),
                    (unsigned)(0xdc00 + ((point - 0x10000) & 0x3ff)));
        else if (unsafe_point(point) || (point < 0x80 && strchr("<>&\"\\'", (int)point)))
            fprintf(out, "\\u%04x", (unsigned)point);
        else
            fwrite(s + i, 1, n, out);
    }
    putc('"', out);
}

/* The longest prefix of a text that has at most `limit` bytes and ends between characters. */
static size_t cut(const char *bytes, size_t len, size_t limit) {
    if (len <= limit)
        return len;
    while (limit && ((unsigned char)bytes[limit] & 0xc0) == 0x80)
        limit--;
    return limit;
}

static void put_limited(FILE *out, const char *bytes, size_t len, size_t limit) {
    size_t kept = cut(bytes, len, limit);
    if (kept == len) {
        put_string(out, bytes, len);
        return;
    }
    text t = {0};
    text_add(&t, bytes, kept);
    text_addf(&t, "\xe2\x80\xa6 (%zu bytes in all)", len);
    put_string(out, t.bytes, t.len);
    text_free(&t);
}

/*
 * Writes this many digits without the zeros that printf puts into exponents; null if JSON has no
 * such number.
 */
static void put_digits(FILE *out, double x, int count) {
    char digits[40];
    if (!isfinite(x)) {
        fputs("null", out);
        return;
    }
    snprintf(digits, sizeof digits, "%.*g", count, x);
    char *e = strchr(digits, 'e');
    if (!e) {
        fputs(digits, out);
        return;
    }
    *e++ = '\0';
    fprintf(out, "%se%s%d", digits, *e == '-' ? "-" : "", abs(atoi(e)));
}

static void put_real(FILE *out, double x) {
    put_digits(out, x, 6);
}

/*
 * Writes enough digits to restore the value: as a double if the dtype needs one, else as a float.
 */
static void put_exactly(FILE *out, double x, const tenmap_tensor *t) {
    /* tenmap_dtype_bits is 0 for block dtypes. */
    bool narrow = tenmap_dtype_bits(t->dtype) < 32 || t->dtype == TENMAP_F32;
    put_digits(out, x, narrow ? 9 : 17);
}

static void put_comma(FILE *out, size_t i) {
    if (i)
        putc(',', out);
}

/*
 * Writes JSON text that json_out.h made, with the characters escaped that put_string escapes. Those
 * that JSON escapes with a backslash are escaped already.
 */
static void put_embedded(FILE *out, const text *json) {
    for (size_t i = 0; i < json->len; i++) {
        char c = json->bytes[i];
        bool escape = c == '\\' && strchr("\"\\", json->bytes[i + 1]);
        if (escape)
            c = json->bytes[++i];
        if (escape || strchr("<>&'", c))
            fprintf(out, "\\u%04x", (unsigned)c);
        else
            putc(c, out);
    }
}

/* The line that `info` begins with, if the model is known. */
static void put_profile(const tenmap_model *model) {
    summary s;
    schemes known;
    model_profile profile;
    text line = {0};
    if (summarize(model, &s))
        return;
    count_quantized(&s, &known);
    profile_read(&s, &known, false, &profile);
    text_add_profile(&line, &profile);
    if (line.len)
        json_key_text("profile", line.bytes, line.len);
    text_free(&line);
    profile_free(&profile);
    schemes_free(&known);
    summary_free(&s);
}

static void put_model(FILE *out, const char *key, const tenmap_model *model) {
    text json = {0};
    json_into(&json);
    json_open('{', true);
    json_key_text("path", shown_path(tenmap_path(model)), TENMAP_CSTR);
    json_key_uint("size", tenmap_file_size(model));
    put_profile(model);
    model_facts_json(model);
    json_close();
    json_into(NULL);
    fprintf(out, "\"%s\":", key);
    put_embedded(out, &json);
    fputs(",\n", out);
    text_free(&json);
}

/* The last component of a path; the model's entry gives the folder once. */
static const char *last_part(const char *path) {
    const char *shown = shown_path(path), *slash = strrchr(shown, '/');
    return slash && slash[1] ? slash + 1 : shown;
}

static void put_shards(FILE *out, const tenmap_model *model) {
    fputs("\"shards\":[", out);
    for (size_t i = 0; i < tenmap_shard_count(model); i++) {
        const tenmap_shard *s = tenmap_shard_at(model, i);
        uint64_t bytes = 0;
        for (size_t k = 0; k < s->tensor_count; k++)
            bytes += tenmap_at(model, s->first_tensor + k)->nbytes;
        put_comma(out, i);
        fputs("{\"path\":", out);
        put_string(out, last_part(s->path), strlen(last_part(s->path)));
        fprintf(out,
                ",\"size\":%" PRIu64 ",\"header\":%" PRIu64 ",\"data\":%" PRIu64
                ",\"tensors\":%zu,\"bytes\":%" PRIu64 "}",
                s->size, s->header_bytes, s->data_offset, s->tensor_count, bytes);
    }
    fputs("],\n\"missing\":[", out);
    for (size_t i = 0; i < tenmap_missing_count(model) && i < MISSING_LIMIT; i++) {
        const char *name = tenmap_missing_at(model, i);
        put_comma(out, i);
        put_string(out, name, strlen(name));
    }
    fputs("],\n", out);
}

/* Returns how many pairs were left out or cut. */
static size_t put_metadata(FILE *out, const char *key, const tenmap_model *model) {
    size_t left = 0, written = 0, bytes = 0;
    fprintf(out, "\"%s\":[", key);
    for (size_t i = 0; i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *m = tenmap_metadata_at(model, i);
        bool array = m->type == TENMAP_VALUE_ARRAY;
        text few = {0}; /* the first few elements of an array */
        if (array)
            metadata_add_value(&few, m, 0);
        const char *value = array ? few.bytes : m->value;
        size_t len = array ? few.len : m->value_len;
        bytes += cut(m->key, m->key_len, NAME_LIMIT) + cut(value, len, VALUE_LIMIT);
        left += bytes > METADATA_LIMIT || len > VALUE_LIMIT;
        if (bytes > METADATA_LIMIT) {
            text_free(&few);
            continue;
        }
        put_comma(out, written++);
        fprintf(out, "[%" PRIu32 ",", m->shard);
        put_limited(out, m->key, m->key_len, NAME_LIMIT);
        putc(',', out);
        put_limited(out, value, len, VALUE_LIMIT);
        putc(']', out);
        text_free(&few);
    }
    fputs("],\n", out);
    return left;
}

static void put_findings(FILE *out, const report *r) {
    fprintf(out, "\"checked\":%s,\n\"findings\":[", r->checked ? "true" : "false");
    for (size_t i = 0; i < r->finding_count; i++) {
        const report_finding *f = &r->findings[i];
        put_comma(out, i);
        fprintf(out, "{\"severity\":%" PRIu32 ",\"code\":\"%s\",\"offset\":", f->severity, f->code);
        fprintf(out, f->offset ? "%" PRIu64 : "null", f->offset);
        fputs(",\"message\":", out);
        put_string(out, f->message, strlen(f->message));
        putc('}', out);
    }
    fprintf(out, "],\n\"findings_omitted\":%zu,\n", r->findings_left);
}

/*
 * A form is a dtype with a shape; a model has few. The hash table's slots hold a form's index plus
 * one.
 */
typedef struct forms {
    const tenmap_tensor **first; /* one tensor of each form */
    uint32_t *dtypes;            /* index of its dtype */
    const char **dtype_names;
    size_t count, dtype_count, slot_count;
    uint32_t *slots;
    uint64_t seed; /* random per run, so that a file cannot choose colliding shapes */
} forms;

static uint64_t hash_more(uint64_t h, uint64_t number) {
    h = (h ^ number) * UINT64_C(0xff51afd7ed558ccd);
    return h ^ h >> 32;
}

/*
 * Hashes everything that same_form compares: a file can choose the text and size of unknown dtypes.
 */
static uint64_t form_hash(uint64_t seed, const tenmap_tensor *t) {
    uint64_t h = hash_more(seed ^ t->dtype, t->nbytes);
    for (uint32_t d = 0; d < t->rank; d++)
        h = hash_more(h, t->shape[d]);
    if (t->dtype == TENMAP_OPAQUE)
        for (const char *c = tenmap_dtype_text(t); *c; c++)
            h = hash_more(h, (unsigned char)*c);
    return h;
}

static bool same_form(const tenmap_tensor *a, const tenmap_tensor *b) {
    return a->dtype == b->dtype && a->rank == b->rank && a->nbytes == b->nbytes &&
           memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0 &&
           strcmp(tenmap_dtype_text(a), tenmap_dtype_text(b)) == 0;
}

static void forms_init(forms *f, size_t tensors) {
    for (f->slot_count = 64; f->slot_count < 2 * tensors;)
        f->slot_count *= 2;
    f->slots = need(f->slot_count, sizeof *f->slots);
    f->seed = ((uint64_t)(uintptr_t)f->slots ^ (uint64_t)time(NULL)) * UINT64_C(0x9e3779b97f4a7c15);
    f->first = need(tensors, sizeof *f->first);
    f->dtypes = need(tensors, sizeof *f->dtypes);
    f->dtype_names = need(DTYPE_LIMIT, sizeof *f->dtype_names);
}

static uint32_t dtype_number(forms *f, const char *name) {
    for (size_t i = 0; i < f->dtype_count; i++)
        if (strcmp(f->dtype_names[i], name) == 0)
            return (uint32_t)i;
    if (f->dtype_count == DTYPE_LIMIT)
        return DTYPE_LIMIT - 1;
    f->dtype_names[f->dtype_count] = f->dtype_count < DTYPE_LIMIT - 1 ? name : "(others)";
    return (uint32_t)f->dtype_count++;
}

static size_t form_number(forms *f, const tenmap_tensor *t) {
    size_t at = (size_t)form_hash(f->seed, t) & (f->slot_count - 1);
    for (; f->slots[at]; at = (at + 1) & (f->slot_count - 1))
        if (same_form(f->first[f->slots[at] - 1], t))
            return f->slots[at] - 1;
    f->first[f->count] = t;
    f->dtypes[f->count] = dtype_number(f, tenmap_dtype_text(t));
    f->slots[at] = (uint32_t)++f->count;
    return f->count - 1;
}

static void forms_free(forms *f) {
    free(f->slots);
    free(f->first);
    free(f->dtypes);
    free(f->dtype_names);
}

/* Writes the forms of all tensors and, in a comparison, the forms in the other model. */
static void put_forms(FILE *out, const report *r, forms *f) {
    fputs("\"form\":[", out);
    for (size_t i = 0; i < r->count; i++) {
        put_comma(out, i);
        fprintf(out, "%zu", form_number(f, r->tensors[i]));
    }
    fputs("],\n\"others\":[", out);
    for (size_t i = 0, written = 0; r->changes && i < r->count; i++) {
        if (!r->changes[i].other)
            continue;
        put_comma(out, written++);
        fprintf(out, "[%zu,%zu]", i, form_number(f, r->changes[i].other));
    }
    fputs("],\n\"forms\":[", out);
    for (size_t i = 0; i < f->count; i++) {
        text dims = {0};
        text_add_dims(&dims, f->first[i]);
        put_comma(out, i);
        fprintf(out, "[%" PRIu32 ",", f->dtypes[i]);
        put_limited(out, dims.bytes ? dims.bytes : "", dims.len, 400);
        fprintf(out, ",%" PRIu64 ",%" PRIu64 "]", f->first[i]->nelems, f->first[i]->nbytes);
        text_free(&dims);
    }
    fputs("],\n\"dtypes\":[", out);
    for (size_t i = 0; i < f->dtype_count; i++) {
        put_comma(out, i);
        put_limited(out, f->dtype_names[i], strlen(f->dtype_names[i]), 100);
    }
    fputs("],\n\"dtype_colors\":[", out);
    for (size_t i = 0; i < f->dtype_count; i++) {
        put_comma(out, i);
        fprintf(out, "\"#%06" PRIx32 "\"", color_of_dtype(f->dtype_names[i]));
    }
    fputs("],\n", out);
}

/* Scripts count in UTF-16, where characters outside the basic plane take two units. */
static size_t utf16_units(const char *bytes, size_t len) {
    size_t units = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        units += (c & 0xc0) != 0x80;
        units += c >= 0xf0;
    }
    return units;
}

/* Bytes that a name shares with the previous one, up to the start of a character. */
static size_t common_start(const tenmap_tensor *a, const tenmap_tensor *b) {
    size_t most = cut(a->name, a->name_len, NAME_LIMIT), n = 0;
    size_t other = cut(b->name, b->name_len, NAME_LIMIT);
    while (n < most && n < other && a->name[n] == b->name[n])
        n++;
    while (n && n < other && ((unsigned char)b->name[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* Writes names front-coded: the length kept from the previous name, and the rest. */
static void put_names(FILE *out, const report *r) {
    fputs("\"names\":{\"keep\":[", out);
    for (size_t i = 0; i < r->count; i++) {
        const tenmap_tensor *t = r->tensors[i];
        put_comma(out, i);
        fprintf(out, "%zu",
                i ? utf16_units(t->name, common_start(r->tensors[i - 1], t)) : (size_t)0);
    }
    fputs("],\n\"rest\":[", out);
    for (size_t i = 0; i < r->count; i++) {
        const tenmap_tensor *t = r->tensors[i];
        size_t start = i ? common_start(r->tensors[i - 1], t) : 0;
        put_comma(out, i);
        put_limited(out, t->name + start, t->name_len - start, NAME_LIMIT - start);
    }
    fputs("]},\n", out);
}

/*
 * Writes where data does not begin at the end of the previous tensor, which a lenient open allows.
 */
static void put_gaps(FILE *out, const tenmap_model *model) {
    size_t written = 0;
    fputs("\"gaps\":[", out);
    for (size_t s = 0; s < tenmap_shard_count(model); s++) {
        const tenmap_shard *shard = tenmap_shard_at(model, s);
        uint64_t at = shard->data_offset;
        for (size_t i = shard->first_tensor; i < shard->first_tensor + shard->tensor_count; i++) {
            const tenmap_tensor *t = tenmap_at(model, i);
            if (t->file_offset != at) {
                put_comma(out, written++);
                fprintf(out, "[%zu,%" PRId64 "]", i, (int64_t)(t->file_offset - at));
            }
            at = t->file_offset + t->nbytes;
        }
    }
    fputs("]", out);
}

static void put_stats(FILE *out, const report *r) {
    static const struct {
        const char *name;
        size_t at;
        enum { EXACT, REAL, COUNT } how; /* EXACT: bin edges are computed from min and max */
    } columns[] = {
        {"min", offsetof(report_stats, min), EXACT},
        {"max", offsetof(report_stats, max), EXACT},
        {"mean", offsetof(report_stats, mean), REAL},
        {"std", offsetof(report_stats, std), REAL},
        {"norm", offsetof(report_stats, norm), REAL},
        {"zeros", offsetof(report_stats, zeros), COUNT},
        {"nan", offsetof(report_stats, nan), COUNT},
        {"inf", offsetof(report_stats, inf), COUNT},
    };
    fputs(",\n\"stats\":{", out);
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
        fprintf(out, "%s\"%s\":[", c ? ",\n" : "", columns[c].name);
        for (size_t i = 0; i < r->count; i++) {
            const char *field = (const char *)&r->stats[i] + columns[c].at;
            put_comma(out, i);
            if (!r->stats[i].known)
                fputs("null", out);
            else if (columns[c].how == EXACT)
                put_exactly(out, *(const double *)(const void *)field, r->tensors[i]);
            else if (columns[c].how == REAL)
                put_real(out, *(const double *)(const void *)field);
            else
                fprintf(out, "%" PRIu64, *(const uint64_t *)(const void *)field);
        }
        putc(']', out);
    }
    putc('}', out);
}

/* Writes the tensors that have dead rows or columns. */
static void put_dead(FILE *out, const report *r, const char *name, const report_dead *dead) {
    size_t written = 0;
    fprintf(out, ",\n\"%s\":[", name);
    for (size_t i = 0; i < r->count; i++) {
        const report_dead *d = &dead[i];
        if (!d->zero && !d->constant)
            continue;
        put_comma(out, written++);
        fprintf(out, "[%zu,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", i, d->zero,
                d->constant, d->count, d->first);
    }
    putc(']', out);
}

/* Writes counts that are 0 for most tensors, as pairs of tensor and count. */
static void put_sparse(FILE *out, const report *r, const char *name, size_t at) {
    size_t written = 0;
    fprintf(out, ",\n\"%s\":[", name);
    for (size_t i = 0; i < r->count; i++) {
        uint64_t n = *(const uint64_t *)(const void *)((const char *)&r->changes[i] + at);
        if (!n)
            continue;
        put_comma(out, written++);
        fprintf(out, "[%zu,%" PRIu64 "]", i, n);
    }
    putc(']', out);
}

static void put_changes(FILE *out, const report *r) {
    static const struct {
        const char *name;
        size_t at;
    } columns[] = {{"change", offsetof(report_change, relative)},
                   {"max", offsetof(report_change, largest)},
                   {"share", offsetof(report_change, share)}};
    fputs(",\n\"diff\":{\"state\":[", out);
    for (size_t i = 0; i < r->count; i++) {
        put_comma(out, i);
        fprintf(out, "%d", (int)r->changes[i].state);
    }
    putc(']', out);
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
        fprintf(out, ",\n\"%s\":[", columns[c].name);
        for (size_t i = 0; i < r->count; i++) {
            const char *field = (const char *)&r->changes[i] + columns[c].at;
            put_comma(out, i);
            put_real(out, *(const double *)(const void *)field);
        }
        putc(']', out);
    }
    put_sparse(out, r, "nonfinite_mismatches", offsetof(report_change, unlike));
    put_sparse(out, r, "nonfinite_gained", offsetof(report_change, gained));
    putc('}', out);
}

void report_write_data(const report *r, FILE *out) {
    forms f = {0};
    fputs("{\"format\":3,\n\"tool\":\"tenmap " TENMAP_VERSION_TEXT "\",\n", out);
    if (r->title) {
        fputs("\"title\":", out);
        put_string(out, r->title, strlen(r->title));
        fputs(",\n", out);
    }
    put_model(out, "model", r->model);
    size_t left = put_metadata(out, "metadata", r->model);
    if (r->base) {
        put_model(out, "base", r->base);
        left += put_metadata(out, "base_metadata", r->base);
    }
    fprintf(out, "\"metadata_omitted\":%zu,\n", left);
    put_shards(out, r->model);
    put_findings(out, r);
    forms_init(&f, 2 * r->count);
    put_forms(out, r, &f);
    forms_free(&f);
    put_names(out, r);
    put_gaps(out, r->model);
    if (r->stats)
        put_stats(out, r);
    if (r->dead_rows) {
        put_dead(out, r, "dead_rows", r->dead_rows);
        put_dead(out, r, "dead_columns", r->dead_columns);
    }
    if (r->changes)
        put_changes(out, r);
    fputs("}\n", out);
}

static void put_bins(FILE *out, const report *r, char *const *bins) {
    size_t written = 0;
    fputs("\"tensor\":[", out);
    for (size_t i = 0; bins && i < r->count; i++) {
        if (!bins[i])
            continue;
        put_comma(out, written++);
        fprintf(out, "%zu", i);
    }
    fputs("],\n\"bins\":[", out);
    written = 0;
    for (size_t i = 0; bins && i < r->count; i++) {
        if (!bins[i])
            continue;
        put_comma(out, written++);
        fprintf(out, "\"%s\"", bins[i]);
    }
    fputs("]", out);
}

/* Histograms of the other model have ranges of their own. */
static void put_base_bins(FILE *out, const report *r) {
    size_t written = 0;
    fputs(",\n\"base\":{", out);
    put_bins(out, r, r->base_bins);
    fputs(",\n\"range\":[", out);
    for (size_t i = 0; i < r->count; i++) {
        if (!r->base_bins[i])
            continue;
        put_comma(out, written++);
        fprintf(out, "[%.17g,%.17g]", r->base_stats[i].min, r->base_stats[i].max);
    }
    fputs("]}", out);
}

void report_write_bins(const report *r, FILE *out) {
    putc('{', out);
    put_bins(out, r, r->bins);
    if (r->base_bins)
        put_base_bins(out, r);
    fputs("}\n", out);
}
