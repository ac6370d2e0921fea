/* Layers and kinds, read off names. */
#include <string.h>

#include "report.h"

static bool is_separator(char c) {
    return c == '.' || c == '/';
}

/* The end of the part that begins here, and whether it is a number that can be a layer. */
static size_t part_end(const char *name, size_t len, size_t at, bool *number) {
    size_t end = at;
    *number = true;
    for (; end < len && !is_separator(name[end]); end++)
        *number = *number && name[end] >= '0' && name[end] <= '9';
    *number = *number && end > at && end - at < 10;
    return end;
}

static void add_kind(text *kind, const char *name, size_t len) {
    for (size_t at = 0; at <= len && len;) {
        bool number;
        size_t end = part_end(name, len, at, &number);
        if (at)
            text_add(kind, ".", 1);
        if (number)
            text_add(kind, "*", 1);
        else
            text_add(kind, name + at, end - at);
        at = end + 1;
    }
}

bool layer_find(const char *name, size_t len, layer_place *out) {
    enum { FAR = 2000 }; /* bytes: longer names are none that people gave */
    size_t most = len < FAR ? len : FAR;
    for (size_t at = 0; at < most;) {
        bool number;
        size_t end = part_end(name, most, at, &number);
        if (!number || (end == most && most < len)) {
            at = end + 1;
            continue;
        }
        out->stack_len = at ? at - 1 : 0;
        out->layer = 0;
        for (; at < end; at++)
            out->layer = out->layer * 10 + (uint64_t)(name[at] - '0');
        text_clear(&out->kind);
        if (end < most)
            add_kind(&out->kind, name + end + 1, most - end - 1);
        if (!out->kind.len)
            text_add(&out->kind, "(itself)", 8);
        return true;
    }
    return false;
}
