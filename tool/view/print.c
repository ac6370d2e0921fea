/* Colors, terminal width, and text made safe and readable. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command.h"
#include "view/print.h"

static bool colors;
static size_t terminal_width;

void print_setup(void) {
    const char *no_color = getenv("NO_COLOR");
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    static char buffer[1 << 16];
    bool terminal = isatty(STDOUT_FILENO) == 1;
    if (!terminal)
        setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    terminal_width = 0;
    if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        terminal_width = size.ws_col;
    else if (terminal)
        terminal_width = columns && atoi(columns) > 0 ? (size_t)atoi(columns) : 80;
    colors = common.color == 1 || (common.color == 0 && terminal && !(no_color && *no_color));
}

size_t print_width(void) {
    return terminal_width;
}

const char *paint(style which) {
    static const char *const codes[STYLE_COUNT] = {"",         "\033[1m",  "\033[2m",
                                                   "\033[31m", "\033[32m", "\033[33m",
                                                   "\033[34m", "\033[35m", "\033[36m"};
    return colors ? codes[which] : "";
}

const char *paint_end(void) {
    return colors ? "\033[0m" : "";
}

void print_wrapped(const char *words, size_t indent, size_t width) {
    size_t at = indent;
    while (*words) {
        size_t word = strcspn(words, " ");
        if (at > indent && at + 1 + word > width) {
            printf("\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            putchar(' ');
            at++;
        }
        printf("%.*s", (int)word, words);
        at += word;
        words += word;
        words += strspn(words, " ");
    }
    putchar('\n');
}

static void text_reserve(text *t, size_t more) {
    if (more < t->room - t->len)
        return;
    size_t room = t->room + t->room / 2 + more + 64;
    t->bytes = need_more(t->bytes, room, 1);
    t->room = room;
}

void text_add(text *t, const char *bytes, size_t len) {
    text_reserve(t, len + 1);
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    t->bytes[t->len] = '\0';
}

void text_addf(text *t, const char *format, ...) {
    va_list list;
    for (int pass = 0; pass < 2; pass++) {
        va_start(list, format);
        int n = vsnprintf(t->bytes ? t->bytes + t->len : NULL, t->room - t->len, format, list);
        va_end(list);
        if (n < 0)
            return;
        if ((size_t)n < t->room - t->len) {
            t->len += (size_t)n;
            return;
        }
        text_reserve(t, (size_t)n + 1);
    }
}

size_t decode_point(const unsigned char *s, size_t len, uint32_t *out) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80   ? 1
               : s[0] < 0xc2 ? 0
               : s[0] < 0xe0 ? 2
               : s[0] < 0xf0 ? 3
               : s[0] < 0xf5 ? 4
                             : 0;
    if (!n || n > len)
        return 0;
    uint32_t point = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (s[i] & 0x3fu);
    }
    if (point < least[n] || (point >= 0xd800 && point < 0xe000) || point > 0x10ffff)
        return 0;
    *out = point;
    return n;
}

typedef struct span {
    uint32_t first, last;
} span;

static bool in_spans(const span *spans, size_t count, uint32_t point) {
    for (size_t i = 0; i < count; i++)
        if (point >= spans[i].first && point <= spans[i].last)
            return true;
    return false;
}

bool unsafe_point(uint32_t point) {
    static const span spans[] = {
        {0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x200b, 0x200f},
        {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
    return in_spans(spans, sizeof spans / sizeof spans[0], point);
}

/* The letter that follows a backslash in the escape of c, from pairs of both; or 0. */
static char short_escape(const char *pairs, char c) {
    while (*pairs && *pairs != c)
        pairs += 2;
    return *pairs ? pairs[1] : '\0';
}

/* The forms for people and for programs differ only in the short escapes. */
static void add_escaped(text *t, const char *bytes, size_t len, const char *pairs) {
    const unsigned char *s = (const unsigned char *)bytes;
    size_t plain = 0;
    while (plain < len && s[plain] >= 0x20 && s[plain] < 0x7f && s[plain] != '\\')
        plain++;
    text_add(t, bytes, plain);
    for (size_t i = plain; i < len;) {
        uint32_t point = s[i];
        size_t n = decode_point(s + i, len - i, &point);
        char letter = short_escape(pairs, bytes[i]);
        if (!n)
            text_addf(t, "\\x%02x", s[i]);
        else if (letter)
            text_addf(t, "\\%c", letter);
        else if (unsafe_point(point))
            text_addf(t, point > 0xffff ? "\\U%08" PRIx32 : "\\u%04" PRIx32, point);
        else
            text_add(t, bytes + i, n);
        i += n ? n : 1;
    }
}

void text_add_safe(text *t, const char *bytes, size_t len) {
    add_escaped(t, bytes, len, "\\\\");
}

void text_add_visible(text *t, const char *bytes, size_t len) {
    add_escaped(t, bytes, len, "");
}

void text_add_field(text *t, const char *bytes, size_t len) {
    add_escaped(t, bytes, len, "\\\\\tt\nn\rr");
}

void text_add_short(text *t, const char *bytes, size_t len, size_t columns) {
    size_t taken = 0, used = 0, start = t->len;
    text_add(t, "", 0);
    while (taken < len && (!columns || used <= columns)) {
        uint32_t point;
        size_t n = decode_point((const unsigned char *)bytes + taken, len - taken, &point);
        size_t before = t->len;
        n += !n;
        text_add_safe(t, bytes + taken, n);
        used += text_columns(t->bytes + before, t->len - before);
        if (columns && used > columns) {
            t->len = before;
            break;
        }
        taken += n;
    }
    t->bytes[t->len] = '\0';
    if (taken == len)
        return;
    text_add(t, t->len > start ? "… (" : "(", t->len > start ? strlen("… (") : 1);
    text_add_bytes(t, len);
    text_add(t, ")", 1);
}

void text_add_percent(text *t, uint64_t part, uint64_t whole) {
    double percent = whole ? 100 * ((double)part / (double)whole) : 0;
    if (part && percent < 0.1)
        text_addf(t, "<0.1%%");
    else if (part < whole && percent > 99.9)
        text_addf(t, ">99.9%%");
    else
        text_addf(t, percent < 10 && part ? "%.1f%%" : "%.0f%%", percent);
}

void text_add_bar(text *t, double share, size_t columns) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    size_t parts = (size_t)(share * (double)columns * 8 + 0.5);
    if (parts == 0 && share > 0)
        parts = 1;
    for (size_t i = 0; i < parts / 8; i++)
        text_add(t, "█", strlen("█"));
    text_add(t, eighths[parts % 8], strlen(eighths[parts % 8]));
}

void text_clear(text *t) {
    t->len = 0;
    if (t->bytes)
        t->bytes[0] = '\0';
}

void text_free(text *t) {
    free(t->bytes);
    *t = (text){0};
}

size_t text_columns(const char *bytes, size_t len) {
    static const span none[] = {
        {0x300, 0x36f}, {0x1ab0, 0x1aff}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}};
    static const span wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},  {0x3041, 0xa4cf},
                                {0xac00, 0xd7a3},   {0xf900, 0xfaff},  {0xfe30, 0xfe4f},
                                {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
                                {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
    const unsigned char *s = (const unsigned char *)bytes;
    size_t plain = 0;
    while (plain < len && s[plain] < 0x80)
        plain++;
    size_t columns = plain;
    for (size_t i = plain; i < len;) {
        uint32_t point = s[i];
        size_t n = s[i] < 0x80 ? 1 : decode_point(s + i, len - i, &point);
        if (point < 0x300)
            columns++;
        else if (in_spans(wide, sizeof wide / sizeof wide[0], point))
            columns += 2;
        else
            columns += !in_spans(none, sizeof none / sizeof none[0], point);
        i += n ? n : 1;
    }
    return columns;
}

void print_safe(FILE *out, const char *bytes, size_t len) {
    text t = {0};
    text_add_safe(&t, bytes, len);
    if (t.bytes)
        fwrite(t.bytes, 1, t.len, out);
    text_free(&t);
}

void text_add_number(text *t, uint64_t number) {
    char digits[20];
    size_t n = sizeof digits;
    do
        digits[--n] = (char)('0' + number % 10);
    while (number /= 10);
    text_add(t, digits + n, sizeof digits - n);
}

/*
 * Adds three significant digits and a unit of a power of 1000, halves rounded up, or a whole number
 * below 1000. Uses integers, since printf is noticeably slow in tables of 100,000 rows.
 */
static void add_scaled(text *t, uint64_t number, const char *const *units, const char *gap) {
    uint64_t thousandth = 1, thousandths = number; /* in the next smaller unit */
    size_t unit = 0;
    if (number < 1000) {
        text_add_number(t, number);
    } else {
        for (unit = 1; number / thousandth >= 999500; unit++)
            thousandth *= 1000;
        thousandths = number / thousandth;
        uint64_t step = thousandths >= 99950 ? 1000 : thousandths >= 9995 ? 100 : 10;
        uint64_t rounded = (thousandths + step / 2) / step, per_one = 1000 / step;
        text_add_number(t, rounded / per_one);
        if (per_one > 1)
            text_add(t, ".", 1);
        for (uint64_t place = per_one / 10; place; place /= 10) {
            char digit = (char)('0' + rounded / place % 10);
            text_add(t, &digit, 1);
        }
    }
    if (*units[unit])
        text_add(t, gap, strlen(gap));
    text_add(t, units[unit], strlen(units[unit]));
}

void text_add_bytes(text *t, uint64_t bytes) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    add_scaled(t, bytes, units, " ");
}

void text_add_count(text *t, uint64_t count) {
    static const char *const units[] = {"", "K", "M", "B", "T", "Q", "Qi"};
    add_scaled(t, count, units, "");
}

void text_add_grouped(text *t, uint64_t number) {
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, number);
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            text_add(t, ",", 1);
        text_add(t, digits + i, 1);
    }
}

void text_add_dims(text *t, const tenmap_tensor *tensor) {
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (d)
            text_add(t, ",", 1);
        text_add_number(t, tensor->shape[d]);
    }
}

void text_add_shape(text *t, const tenmap_tensor *tensor) {
    text_add(t, "[", 1);
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (d)
            text_add(t, ", ", 2);
        text_add_number(t, tensor->shape[d]);
    }
    text_add(t, "]", 1);
}
