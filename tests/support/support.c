#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64 /* without it readdir stops at large offsets on 32-bit hosts */
#endif
#include "support.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

unsigned char pattern_byte(size_t i) {
    return (unsigned char)(i * 7 + 3 + (i >> 8));
}

bytes make_model_n(const char *json, size_t json_len, size_t data) {
    bytes file = {malloc(8 + json_len + data + 1), 8 + json_len + data};
    assert_non_null(file.at);
    for (int i = 0; i < 8; i++)
        file.at[i] = (unsigned char)((uint64_t)json_len >> (8 * i));
    memcpy(file.at + 8, json, json_len);
    for (size_t i = 0; i < data; i++)
        file.at[8 + json_len + i] = pattern_byte(i);
    return file;
}

bytes make_model(const char *json, size_t data) {
    return make_model_n(json, strlen(json), data);
}

int make_folder(void **state) {
    const char *base = getenv("TMPDIR");
    char *path = malloc(4096);
    if (!path)
        return 1;
    snprintf(path, 4096, "%s/tenmap-test-XXXXXX", base && *base ? base : "/tmp");
    *state = mkdtemp(path);
    return *state ? 0 : 1;
}

static void remove_inside(const char *folder) {
    DIR *dir = opendir(folder);
    const struct dirent *e;
    while (dir && (e = readdir(dir))) {
        char path[8192];
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            remove_inside(path);
            rmdir(path);
        } else {
            unlink(path);
        }
    }
    if (dir)
        closedir(dir);
}

size_t count_names(const char *folder) {
    DIR *dir = opendir(folder);
    size_t count = 0;
    const struct dirent *e;
    while (dir && (e = readdir(dir)))
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (dir)
        closedir(dir);
    return count;
}

uint64_t inode_of(const char *path) {
#ifdef _WIN32
    return windows_inode(path); /* stat has no inode on Windows */
#else
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
#endif
}

int empty_folder(void **state) {
    remove_inside(*state);
    return 0;
}

int remove_folder(void **state) {
    remove_inside(*state);
    rmdir(*state);
    free(*state);
    return 0;
}

const char *in_folder(void **state, const char *name) {
    static char paths[4][8192];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", (const char *)*state, name);
    return path;
}

void write_file(const char *path, const void *data, size_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    if (size)
        assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

void write_model(const char *path, const char *json, size_t data) {
    bytes file = make_model(json, data);
    write_file(path, file.at, file.size);
    free(file.at);
}

void write_model_slack(const char *path, const char *json, size_t slack, size_t data) {
    size_t len = strlen(json);
    char *text = malloc(len + slack);
    assert_non_null(text);
    memcpy(text, json, len);
    memset(text + len, ' ', slack);
    bytes file = make_model_n(text, len + slack, data);
    write_file(path, file.at, file.size);
    free(file.at);
    free(text);
}

void write_text(const char *path, const char *text) {
    write_file(path, text, strlen(text));
}

bytes read_whole(const char *path) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    bytes file = {NULL, (size_t)ftell(f)};
    rewind(f);
    file.at = malloc(file.size + 1);
    assert_non_null(file.at);
    assert_int_equal(fread(file.at, 1, file.size, f), file.size);
    fclose(f);
    file.at[file.size] = 0;
    return file;
}

void modify_data(const char *path) {
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    assert_int_equal(fputc(0x5a, f), 0x5a);
    assert_int_equal(fclose(f), 0);
    struct utimbuf later = {.actime = time(NULL) + 10, .modtime = time(NULL) + 10};
    assert_int_equal(utime(path, &later), 0); /* file systems may have coarse clocks */
}

/* What a message tells people to do, `remedy` tells programs. The first words that occur count. */
static void check_remedy(const tenmap_error *error) {
    static const struct {
        const char *words;
        uint32_t remedy;
    } told[] = {
        {"repairing its metadata", TENMAP_REMEDY_REPAIR},
        {"missing shards allowed", TENMAP_REMEDY_ALLOW_PARTIAL},
        {"a lenient open takes", TENMAP_REMEDY_ALLOW_LENIENT},
        {"opened to be dequantized", TENMAP_REMEDY_DEQUANTIZE},
        {"open it to be read", TENMAP_REMEDY_BACKEND_READ},
        {"a higher limit for headers", TENMAP_REMEDY_RAISE_HEADER_LIMIT},
        {"fetch the file again", TENMAP_REMEDY_FETCH_AGAIN},
        {"fetch the model again", TENMAP_REMEDY_FETCH_AGAIN},
        {"run `git lfs pull`", TENMAP_REMEDY_FETCH_AGAIN},
        {"opened as it is stored", TENMAP_REMEDY_AS_STORED},
        {"the later file wins", TENMAP_REMEDY_LATER_WINS},
        {": open it again", TENMAP_REMEDY_OPEN_AGAIN},
        {": try again", TENMAP_REMEDY_TRY_AGAIN},
        {": convert ", TENMAP_REMEDY_CONVERT},
        {": unpack it first", TENMAP_REMEDY_CONVERT},
        {"raise the limit", TENMAP_REMEDY_RAISE_PROCESS_LIMIT},
        {"raise it with", TENMAP_REMEDY_RAISE_PROCESS_LIMIT},
        {"(tenmap_read", TENMAP_REMEDY_READ},
        {"tenmap_read the values", TENMAP_REMEDY_READ},
        {"(tenmap_part_at gives", TENMAP_REMEDY_PARTS},
        {"; open one of", TENMAP_REMEDY_OPEN_ONE},
        {"open a file", TENMAP_REMEDY_OPEN_ONE},
    };
    assert_string_not_equal(tenmap_remedy_name(error->remedy), "unknown");
    if (error->status == TENMAP_ERR_ARGUMENT)
        assert_int_equal(error->remedy, TENMAP_REMEDY_NONE);
    for (size_t i = 0; error->status != TENMAP_ERR_ARGUMENT && i < COUNT(told); i++)
        if (strstr(error->message, told[i].words)) {
            if (error->remedy != told[i].remedy)
                fail_msg("the remedy is %s, the message: %s", tenmap_remedy_name(error->remedy),
                         error->message);
            return;
        }
}

void check_error(const tenmap_error *error, tenmap_status status) {
    assert_int_equal(error->status, status);
    assert_non_null(memchr(error->message, 0, sizeof error->message));
    assert_true(error->message[0] != '\0');
    for (const unsigned char *c = (const unsigned char *)error->message; *c; c++)
        assert_true(*c >= 0x20 && *c != 0x7f);
    check_remedy(error);
    if (status != TENMAP_ERR_ARGUMENT && strstr(error->message, "TENMAP_"))
        fail_msg("an error message names a macro: %s", error->message);
}

void check_refused(tenmap_status got, const tenmap_error *error, tenmap_status status,
                   const char *fragment) {
    if (got == TENMAP_OK || !strstr(error->message, fragment))
        fail_msg("got %s %s\nbut due was: %s", tenmap_status_name(got), got ? error->message : "",
                 fragment);
    assert_int_equal(got, status);
    check_error(error, status);
}

static void failed_so(tenmap_status got, const tenmap_error *error, const tenmap_model *model,
                      tenmap_status status, const char *fragment) {
    if (got == TENMAP_OK)
        fail_msg("opened, but \"%s\" was due", fragment);
    if (!strstr(error->message, fragment))
        fail_msg("message is: %s\nbut should hold: %s", error->message, fragment);
    assert_int_equal(got, status);
    assert_null(model);
    check_error(error, status);
}

#ifndef TENMAP_NO_CHECK

/* The first error of a check. */
static void take_first_error(void *ctx, const tenmap_finding *f) {
    char *first = ctx;
    if (f->severity == TENMAP_FINDING_ERROR && !*first)
        snprintf(first, sizeof((tenmap_error *)0)->message, "%s", f->message);
}

void check_agrees(const char *path, const tenmap_options *options, tenmap_status opened,
                  const tenmap_error *error) {
    tenmap_error own;
    char first[sizeof error->message] = "";
    tenmap_status checked = tenmap_check(path, options, take_first_error, first, &own);
    if (checked != TENMAP_OK) {
        assert_int_equal(checked, opened);
        assert_string_equal(own.message, error->message);
    } else if ((opened == TENMAP_OK) != !*first ||
               strncmp(error->message, first, opened == TENMAP_OK ? 0 : strlen(first)) != 0) {
        fail_msg("%s: open says \"%s\", check says \"%s\"", path,
                 opened == TENMAP_OK ? "fine" : error->message, first);
    }
}

#else

void check_agrees(const char *path, const tenmap_options *options, tenmap_status opened,
                  const tenmap_error *error) {
    (void)path, (void)options, (void)opened, (void)error; /* this build has no tenmap_check */
}

#endif

void must_fail(const char *path, const tenmap_options *options, tenmap_status status,
               const char *fragment) {
    tenmap_error error;
    tenmap_model *model = (tenmap_model *)&error;
    memset(&error, 0x5a, sizeof error);
    tenmap_status got = tenmap_open(path, options, &model, &error);
    failed_so(got, &error, model, status, fragment);
    assert_int_equal(tenmap_open(path, options, &model, NULL),
                     status); /* a NULL error is allowed */
    check_agrees(path, options, got, &error);
}

void must_fail_memory(bytes file, const tenmap_options *options, tenmap_status status,
                      const char *fragment) {
    tenmap_error error;
    tenmap_model *model = (tenmap_model *)&error;
    memset(&error, 0x5a, sizeof error);
    tenmap_status got = tenmap_open_memory(file.at, file.size, options, &model, &error);
    failed_so(got, &error, model, status, fragment);
}

tenmap_model *must_open(const char *path, const tenmap_options *options) {
    tenmap_error error = {0};
    tenmap_model *model = NULL;
    if (tenmap_open(path, options, &model, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    assert_non_null(model);
    return model;
}

tenmap_model *must_open_memory(bytes file, const tenmap_options *options) {
    tenmap_error error = {0};
    tenmap_model *model = NULL;
    if (tenmap_open_memory(file.at, file.size, options, &model, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    assert_non_null(model);
    return model;
}
