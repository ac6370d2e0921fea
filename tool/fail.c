/* Reports errors, handles signals, and allocates checked memory. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/print.h"
#include "remote/remote.h"
#include "view/progress.h"

static const char *command_name;

void set_command_name(const char *name) {
    command_name = name;
}

/*
 * A message may contain names from files and from the command line, so control characters are
 * escaped and the queries of addresses are removed.
 */
static void tell(const char *format, va_list list) {
    char message[2048];
    text shown = {0}, safe = {0};
    int n = vsnprintf(message, sizeof message, format, list);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof message ? (size_t)n : sizeof message - 1;
    text_add_shown(&shown, message, len);
    text_add_visible(&safe, shown.bytes ? shown.bytes : "", shown.len);
    progress_clear();
    fflush(stdout);
    fprintf(stderr, "tenmap%s%s: %s\n", command_name ? " " : "", command_name ? command_name : "",
            safe.bytes ? safe.bytes : "");
    text_free(&shown);
    text_free(&safe);
}

int fail(int code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    tell(format, list);
    va_end(list);
    return code;
}

void warn(const char *format, ...) {
    va_list list;
    va_start(list, format);
    tell(format, list);
    va_end(list);
}

const char *os_error_text(int code) {
    static const struct {
        int code;
        const char *words;
    } known[] = {
        {ENOSPC, "the disk is full"},
        {EDQUOT, "the disk quota is used up"},
        {EFBIG, "the file would be larger than this process (ulimit -f) or the file system allows"},
        {EROFS, "the file system is read-only"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].code == code)
            return known[i].words;
    return strerror(code);
}

void text_add_error(text *out, const char *message, uint32_t remedy) {
    static const char *const options[] = {
        [TENMAP_REMEDY_ALLOW_PARTIAL] = "use --partial",
        [TENMAP_REMEDY_ALLOW_LENIENT] = "use --lenient",
        [TENMAP_REMEDY_DEQUANTIZE] = "use --dequantize",
        [TENMAP_REMEDY_RAISE_HEADER_LIMIT] = "use --max-header",
        [TENMAP_REMEDY_REPAIR] = "use 'tenmap meta FILE repair'",
        [TENMAP_REMEDY_AS_STORED] = "leave out --dequantize",
    };
    const char *said = remedy < sizeof options / sizeof options[0] ? options[remedy] : NULL;
    text_add(out, message, strlen(message));
    if (said)
        text_addf(out, ": %s", said);
}

const char *end_of_path(const char *message) {
    if (*message != '"')
        return NULL;
    do
        message += *message == '\\' && message[1] ? 2 : 1;
    while (*message && *message != '"');
    return *message && message[1] == ':' && message[2] == ' ' ? message : NULL;
}

int fail_error(const tenmap_error *error) {
    if (error->status == TENMAP_ERR_CANCELLED || interrupted())
        return fail(EXIT_INTERRUPTED, "interrupted");
    text message = {0};
    text_add_error(&message, error->message, error->remedy);
    int code = fail(error->status == TENMAP_ERR_FORMAT ? EXIT_REJECTED : EXIT_FAILED, "%s",
                    message.bytes ? message.bytes : "");
    text_free(&message);
    return code;
}

/* Allocates nothing itself. */
int fail_memory(void) {
    fputs("tenmap: out of memory\n", stderr);
    return EXIT_FAILED;
}

void *need(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory)
        exit(fail_memory());
    return memory;
}

void *need_more(void *old, size_t count, size_t size) {
    void *memory = count && size > SIZE_MAX / count ? NULL : realloc(old, count * size + !count);
    if (!memory)
        exit(fail_memory());
    return memory;
}

void *need_next(void *items, size_t count, size_t size) {
    bool full = (count & (count - 1)) == 0; /* a power of two, or 0 */
    return full ? need_more(items, count ? 2 * count : 1, size) : items;
}

char *need_copy(const char *bytes, size_t len) {
    char *copy = need(len + 1, 1);
    memcpy(copy, bytes, len);
    return copy;
}

static volatile sig_atomic_t interrupt_seen;

static void on_interrupt(int number) {
    (void)number;
    interrupt_seen = 1;
}

void catch_interrupts(void) {
    struct sigaction action = {0}, before;
    action.sa_handler = on_interrupt;
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* set by nohup */
        sigaction(SIGHUP, &action, NULL);
}

static void on_file_limit(int number) {
    (void)number;
}

/* Installs an empty handler, because an ignored signal would also be ignored by the editor. */
void survive_file_limit(void) {
#ifdef SIGXFSZ
    struct sigaction action = {0}, before;
    action.sa_handler = on_file_limit;
    action.sa_flags = (int)SA_RESTART;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGXFSZ, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        sigaction(SIGXFSZ, &action, NULL);
#endif
}

bool interrupted(void) {
    return interrupt_seen != 0;
}
