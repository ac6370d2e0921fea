/* Writes the HTML report: the template page/page.html with its placeholders filled. */
#include <string.h>

#include "remote/remote.h"
#include "report.h"
#include "assets.h"

/* Writes text for an element or a quoted attribute. */
static void put_html(FILE *out, const char *bytes, size_t len) {
    text safe = {0};
    text_add_safe(&safe, bytes, len);
    for (size_t i = 0; i < safe.len; i++) {
        char c = safe.bytes[i];
        if (strchr("<>&\"'", c))
            fprintf(out, "&#%d;", c);
        else
            putc(c, out);
    }
    text_free(&safe);
}

/*
 * Only this tool's script and style sheet may run, identified by their hashes. The report loads
 * nothing from elsewhere and cannot send anything.
 */
static void fill_policy(const report *r, FILE *out) {
    (void)r;
    fprintf(out,
            "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; img-src data:; "
            "base-uri 'none'; form-action 'none'",
            report_script_hash, report_style_hash);
}

static void fill_generator(const report *r, FILE *out) {
    (void)r;
    fputs("tenmap " TENMAP_VERSION_TEXT, out);
}

static void fill_title(const report *r, FILE *out) {
    const char *title = r->title ? r->title : shown_path(tenmap_path(r->model));
    size_t len = strlen(title), from = 0;
    while (!r->title && len > 1 && title[len - 1] == '/')
        len--;
    for (size_t i = 0; !r->title && i + 1 < len; i++)
        from = title[i] == '/' ? i + 1 : from;
    put_html(out, title + from, len - from < 200 ? len - from : 200);
}

static void fill_style(const report *r, FILE *out) {
    (void)r;
    fwrite(report_style, 1, report_style_size, out);
}

static void fill_script(const report *r, FILE *out) {
    (void)r;
    fwrite(report_script, 1, report_script_size, out);
}

/*
 * Fills the placeholder at `at` and returns where the template continues, or NULL if there is none.
 */
static const char *fill_gap(const report *r, const char *at, const char *end, FILE *out) {
    static const struct {
        const char *name;
        void (*fill)(const report *r, FILE *out);
    } gaps[] = {{"policy", fill_policy}, {"generator", fill_generator}, {"title", fill_title},
                {"style", fill_style},   {"data", report_write_data},   {"bins", report_write_bins},
                {"script", fill_script}};
    for (size_t i = 0; i < sizeof gaps / sizeof gaps[0]; i++) {
        size_t n = strlen(gaps[i].name);
        if ((size_t)(end - at) < n + 4 || memcmp(at, "{{", 2) != 0 ||
            memcmp(at + 2, gaps[i].name, n) != 0 || memcmp(at + 2 + n, "}}", 2) != 0)
            continue;
        gaps[i].fill(r, out);
        return at + n + 4;
    }
    return NULL;
}

/* A placeholder with an unknown name is copied as text. */
void report_write_page(const report *r, FILE *out) {
    const char *at = (const char *)report_page, *end = at + report_page_size;
    while (at < end) {
        const char *behind = *at == '{' ? fill_gap(r, at, end, out) : NULL;
        if (!behind)
            putc(*at, out);
        at = behind ? behind : at + 1;
    }
}
