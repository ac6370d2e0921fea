/* Error messages: quoting, formatting, and the table of status names. */
#include "base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STATUSES(X)                                                                                \
    X(OK)                                                                                          \
    X(ERR_ARGUMENT)                                                                                \
    X(ERR_MEMORY)                                                                                  \
    X(ERR_IO)                                                                                      \
    X(ERR_FORMAT)                                                                                  \
    X(ERR_LIMIT)                                                                                   \
    X(ERR_UNSUPPORTED)                                                                             \
    X(ERR_NOT_FOUND)                                                                               \
    X(ERR_DTYPE)                                                                                   \
    X(ERR_ALIGNMENT)                                                                               \
    X(ERR_RANGE)                                                                                   \
    X(ERR_BUFFER)                                                                                  \
    X(ERR_NO_SPACE)                                                                                \
    X(ERR_CANCELLED)

#define STATUS_NAME(name) [TENMAP_##name] = "TENMAP_" #name,
static const char *const status_names[] = {STATUSES(STATUS_NAME)};

const char *tenmap_status_name(tenmap_status status) {
    size_t count = sizeof status_names / sizeof status_names[0];
    if (status < 0 || (size_t)status >= count)
        return "TENMAP_ERR_UNKNOWN";
    return status_names[status];
}

static const char *const remedy_names[] = {
    [TENMAP_REMEDY_NONE] = "none",
    [TENMAP_REMEDY_ALLOW_PARTIAL] = "allow-partial",
    [TENMAP_REMEDY_ALLOW_LENIENT] = "allow-lenient",
    [TENMAP_REMEDY_DEQUANTIZE] = "dequantize",
    [TENMAP_REMEDY_BACKEND_READ] = "backend-read",
    [TENMAP_REMEDY_RAISE_HEADER_LIMIT] = "raise-header-limit",
    [TENMAP_REMEDY_FETCH_AGAIN] = "fetch-again",
    [TENMAP_REMEDY_REPAIR] = "repair",
    [TENMAP_REMEDY_AS_STORED] = "as-stored",
    [TENMAP_REMEDY_LATER_WINS] = "later-wins",
    [TENMAP_REMEDY_OPEN_AGAIN] = "open-again",
    [TENMAP_REMEDY_TRY_AGAIN] = "try-again",
    [TENMAP_REMEDY_CONVERT] = "convert",
    [TENMAP_REMEDY_RAISE_PROCESS_LIMIT] = "raise-process-limit",
    [TENMAP_REMEDY_READ] = "read",
    [TENMAP_REMEDY_PARTS] = "parts",
    [TENMAP_REMEDY_OPEN_ONE] = "open-one",
    [TENMAP_REMEDY_DOWNLOAD] = "download",
    [TENMAP_REMEDY_CREDENTIALS] = "credentials",
};

const char *tenmap_remedy_name(uint32_t remedy) {
    size_t count = sizeof remedy_names / sizeof remedy_names[0];
    return remedy < count ? remedy_names[remedy] : "unknown";
}

uint32_t tenmap_version(void) {
    return TENMAP_VERSION_MAJOR * 1000000u + TENMAP_VERSION_MINOR * 1000u + TENMAP_VERSION_PATCH;
}

/*
 * Quoting. Each source character becomes one piece of at most 8 bytes, and a piece is never cut.
 * Control characters, invalid bytes, and characters that reorder text on a terminal are escaped.
 */
typedef struct quote_piece {
    char text[12];
    unsigned len;
} quote_piece;

/*
 * Decodes one UTF-8 character of at most `left` bytes. Returns 0 with *size 1 if it is not valid.
 */
static uint32_t decode_one(const unsigned char *s, size_t left, size_t *size) {
    size_t n = tmi_utf8_char(s, left);
    *size = n ? n : 1;
    switch (n) {
    case 1:
        return s[0];
    case 2:
        return (uint32_t)(s[0] & 0x1f) << 6 | (s[1] & 0x3fu);
    case 3:
        return (uint32_t)(s[0] & 0x0f) << 12 | (uint32_t)(s[1] & 0x3f) << 6 | (s[2] & 0x3fu);
    case 4:
        return (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3f) << 12 |
               (uint32_t)(s[2] & 0x3f) << 6 | (s[3] & 0x3fu);
    default:
        return 0;
    }
}

static bool is_unprintable(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0x061c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

static quote_piece quote_one(const unsigned char *s, size_t left, size_t *size) {
    quote_piece piece = {{0}, 0};
    uint32_t c = decode_one(s, left, size);
    int written;
    if (c == 0 && s[0] != 0)
        written = snprintf(piece.text, sizeof piece.text, "\\x%02x", s[0]);
    else if (c == '"' || c == '\\')
        written = snprintf(piece.text, sizeof piece.text, "\\%c", (char)c);
    else if (c == '\n' || c == '\t' || c == '\r')
        written = snprintf(piece.text, sizeof piece.text, "\\%c",
                           c == '\n'   ? 'n'
                           : c == '\t' ? 't'
                                       : 'r');
    else if (is_unprintable(c))
        written = snprintf(piece.text, sizeof piece.text, "\\u%04x", (unsigned)c);
    else {
        memcpy(piece.text, s, *size);
        written = (int)*size;
    }
    piece.len = (unsigned)written;
    return piece;
}

/* Where the last `budget` bytes of quoted text begin, on a character boundary. */
static size_t quote_tail(const unsigned char *s, size_t len, size_t budget) {
    size_t at = len, used = 0;
    while (at > 0) {
        size_t start = at - 1, size;
        while (start > 0 && at - start < 4 && (s[start] & 0xc0) == 0x80)
            start--;
        quote_piece piece = quote_one(s + start, at - start, &size);
        if (size != at - start) { /* not a whole character: take the last byte alone */
            start = at - 1;
            piece = quote_one(s + start, 1, &size);
        }
        if (used + piece.len > budget)
            break;
        used += piece.len;
        at = start;
    }
    return at;
}

static tmi_quoted quote_within(const char *bytes, size_t len, size_t limit, size_t head_limit) {
    tmi_quoted out;
    const unsigned char *s = (const unsigned char *)bytes;
    size_t used = 0, at = 0, size, cut_used = 0, cut_at = 0;
    out.text[used++] = '"';
    while (at < len) {
        quote_piece piece = quote_one(s + at, len - at, &size);
        if (used - 1 + piece.len > limit)
            break;
        memcpy(out.text + used, piece.text, piece.len);
        used += piece.len;
        at += size;
        if (used - 1 <= head_limit) {
            cut_used = used;
            cut_at = at;
        }
    }
    if (at < len) { /* too long: keep the head, then "...", then as much of the end as fits */
        used = cut_used ? cut_used : 1;
        memcpy(out.text + used, "...", 3);
        used += 3;
        size_t from = quote_tail(s, len, limit + 1 - used);
        if (from < cut_at)
            from = cut_at;
        for (at = from; at < len; at += size) {
            quote_piece piece = quote_one(s + at, len - at, &size);
            if (used - 1 + piece.len > limit)
                break;
            memcpy(out.text + used, piece.text, piece.len);
            used += piece.len;
        }
    }
    out.text[used++] = '"';
    out.text[used] = '\0';
    return out;
}

tmi_quoted tmi_quote(const char *bytes, size_t len) {
    return quote_within(bytes, len, 96, 48);
}

/* The end of a path, where the file name is, says more than its beginning. */
tmi_quoted tmi_quote_path(const char *path) {
    const char *query = strstr(path, "://") ? strchr(path, '?') : NULL;
    if (!query)
        return quote_within(path, strlen(path), 144, 40);
    /* Anything after the '?' of an address may be a secret signature, so it is not shown. */
    tmi_quoted out = quote_within(path, (size_t)(query - path), 140, 40);
    memcpy(strrchr(out.text, '"'), "?...\"", sizeof "?...\"");
    return out;
}

tmi_quoted tmi_count(uint64_t n, const char *noun) {
    tmi_quoted out;
    snprintf(out.text, sizeof out.text, "%llu %s%s", (ull)n, noun, n == 1 ? "" : "s");
    return out;
}

/* Both shrink alike until the product fits, so that the share of huge files is right too. */
tmi_quoted tmi_share(uint64_t part, uint64_t whole) {
    enum { PER_MILLE = 1000 };
    tmi_quoted out;
    while (part > UINT64_MAX / PER_MILLE) {
        part /= 2;
        whole /= 2;
    }
    uint64_t share = whole ? part * PER_MILLE / whole : 0;
    snprintf(out.text, sizeof out.text, "%llu.%llu%%", (ull)(share / 10), (ull)(share % 10));
    return out;
}

void tmi_list_add(tmi_list *list, const char *name, size_t len) {
    enum { SHOWN_AT_MOST = 5, ROOM_FOR_THE_REST = 32 };
    list->count++;
    if (list->shown == SHOWN_AT_MOST)
        return;
    tmi_quoted quoted = tmi_quote(name, len);
    size_t left = sizeof list->text - list->used;
    if (strlen(quoted.text) + ROOM_FOR_THE_REST > left)
        return;
    list->used += (size_t)snprintf(list->text + list->used, left, "%s%s", list->shown ? ", " : "",
                                   quoted.text);
    list->shown++;
}

const char *tmi_list_end(tmi_list *list) {
    if (list->count > list->shown)
        snprintf(list->text + list->used, sizeof list->text - list->used, " and %llu more",
                 (ull)(list->count - list->shown));
    return list->text;
}

/* If snprintf truncated the message, ends it on a character boundary with "...". */
static void end_message(tenmap_error *error, int wanted) {
    size_t size = sizeof error->message;
    if (wanted < 0) {
        error->message[0] = '\0';
    } else if ((size_t)wanted >= size) {
        size_t end = size - 4, back = end;
        while (back > 0 && ((unsigned char)error->message[back] & 0xc0) == 0x80)
            back--;
        memcpy(error->message + back, "...", 4);
    }
}

static void fill(tenmap_error *error, tenmap_status status, const char *format, va_list args)
    TMI_PRINTF(3, 0);

static void fill(tenmap_error *error, tenmap_status status, const char *format, va_list args) {
    memset(error, 0, sizeof *error);
    error->status = status;
    end_message(error, vsnprintf(error->message, sizeof error->message, format, args));
}

tenmap_status tmi_fail(tenmap_error *error, tenmap_status status, const char *format, ...) {
    if (error) {
        va_list args;
        va_start(args, format);
        fill(error, status, format, args);
        va_end(args);
    }
    return status;
}

tenmap_status tmi_fail_at(tenmap_error *error, tenmap_status status, uint32_t shard,
                          uint64_t offset, const char *format, ...) {
    if (error) {
        va_list args;
        va_start(args, format);
        fill(error, status, format, args);
        va_end(args);
        error->shard = shard;
        error->offset = offset;
    }
    return status;
}

/*
 * We use our own texts, because strerror is not thread-safe everywhere and depends on the locale.
 * If the user can fix the cause, the text says how.
 */
static const struct {
    int code;
    tenmap_status status;
    const char *text;
} os_errors[] = {
    {ENOENT, TENMAP_ERR_NOT_FOUND, "no such file or folder"},
    {ENOTDIR, TENMAP_ERR_NOT_FOUND, "a part of the path is not a folder"},
    {ENOMEM, TENMAP_ERR_MEMORY, "the system is out of memory"},
    {EMFILE, TENMAP_ERR_LIMIT,
     "this process has too many files open (raise the limit with ulimit -n)"},
    {ENFILE, TENMAP_ERR_LIMIT, "the system has too many files open"},
    {ENOSPC, TENMAP_ERR_NO_SPACE, "the disk is full"},
    {EFBIG, TENMAP_ERR_LIMIT,
     "the file would be larger than this process (ulimit -f) or the file system allows"},
#ifdef EDQUOT
    {EDQUOT, TENMAP_ERR_NO_SPACE, "the disk quota is used up"},
#endif
    {EROFS, TENMAP_ERR_IO, "the file system is read-only"},
    {EACCES, TENMAP_ERR_IO, "permission denied"},
    {EPERM, TENMAP_ERR_IO, "operation not permitted"},
    {EISDIR, TENMAP_ERR_IO, "it is a folder"},
    {ELOOP, TENMAP_ERR_IO, "too many symbolic links"},
    {ENAMETOOLONG, TENMAP_ERR_IO, "the name is too long"},
    {EIO, TENMAP_ERR_IO, "the storage reported an error"},
    {EBADF, TENMAP_ERR_IO, "the descriptor is not open for reading"},
    {EAGAIN, TENMAP_ERR_IO, "the resource is not available now"},
    {EINVAL, TENMAP_ERR_IO, "the system rejected the request as invalid"},
    {EFAULT, TENMAP_ERR_IO, "the memory buffer is not accessible"},
    {ENODEV, TENMAP_ERR_IO, "this file system cannot map files"},
    {EEXIST, TENMAP_ERR_IO, "a file of that name already exists"},
    {EBUSY, TENMAP_ERR_IO, "it is in use"},
    {EINTR, TENMAP_ERR_IO, "the file system was interrupted"},
    {EXDEV, TENMAP_ERR_IO, "the file system cannot rename there"},
    {ENOSYS, TENMAP_ERR_IO, "the file system cannot do that"},
#ifdef EOPNOTSUPP
    {EOPNOTSUPP, TENMAP_ERR_IO, "the file system cannot do that"},
#endif
#ifdef ETXTBSY
    {ETXTBSY, TENMAP_ERR_IO, "it is in use as a program"},
#endif
#ifdef ENOLCK
    {ENOLCK, TENMAP_ERR_IO, "the system has no more locks"},
#endif
#ifdef EOVERFLOW
    {EOVERFLOW, TENMAP_ERR_LIMIT, "the file is too large for this system"},
#endif
#ifdef ESTALE
    {ESTALE, TENMAP_ERR_IO, "the network file system lost the file"},
#endif
#ifdef EILSEQ
    {EILSEQ, TENMAP_ERR_IO, "the path is not valid UTF-8"},
#endif
#ifdef ENXIO
    {ENXIO, TENMAP_ERR_IO, "no such device"},
#endif
};

tenmap_status tmi_fail_os(tenmap_error *error, int os_error, const char *format, ...) {
    size_t i = 0, count = sizeof os_errors / sizeof os_errors[0];
    while (i < count && os_errors[i].code != os_error)
        i++;
    tenmap_status status = i < count ? os_errors[i].status : TENMAP_ERR_IO;
    if (!error)
        return status;
    va_list args;
    va_start(args, format);
    fill(error, status, format, args);
    va_end(args);
    error->os_error = os_error;
    if (os_error == EMFILE)
        error->remedy = TENMAP_REMEDY_RAISE_PROCESS_LIMIT;
    size_t used = strlen(error->message), left = sizeof error->message - used;
    int wanted = i < count ? snprintf(error->message + used, left, ": %s", os_errors[i].text)
                           : snprintf(error->message + used, left, ": system error %d", os_error);
    end_message(error, wanted < 0 ? wanted : wanted + (int)used);
    return status;
}

tenmap_status tmi_fail_memory(tenmap_error *error, uint64_t bytes, const char *what) {
    return tmi_fail(error, TENMAP_ERR_MEMORY, "out of memory: could not get %llu bytes for %s",
                    (unsigned long long)bytes, what);
}

tenmap_status tmi_remedy(tenmap_error *error, uint32_t remedy, tenmap_status status) {
    if (error)
        error->remedy = remedy;
    return status;
}

void tmi_fail_more(tenmap_error *error, const char *format, ...) {
    if (!error)
        return;
    size_t used = strlen(error->message);
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(error->message + used, sizeof error->message - used, format, args);
    va_end(args);
    end_message(error, wanted < 0 ? wanted : wanted + (int)used);
}
