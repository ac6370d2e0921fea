/* The ways to open, their options, and the general promises of the contract. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "model/model.h"
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Three tensors: out of order in the header, one misaligned, one empty; two metadata pairs. */
static const char model_json[] =
    "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[1,25]},"
    "\"__metadata__\":{\"format\":\"pt\",\"empty\":\"\"},"
    "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
    "\"c\":{\"dtype\":\"BF16\",\"shape\":[0],\"data_offsets\":[25,25]}}";
enum { MODEL_DATA = 25 };

static void check_model(const tenmap_model *m, uint64_t at, uint64_t size, bool mapped) {
    size_t json_len = strlen(model_json);
    const tenmap_tensor *a = tenmap_find(m, "a"), *b = tenmap_find(m, "b"),
                        *c = tenmap_find(m, "c");
    assert_int_equal(tenmap_count(m), 3);
    assert_ptr_equal(tenmap_at(m, 0), a); /* file order, not header order */
    assert_ptr_equal(tenmap_at(m, 1), b);
    assert_ptr_equal(tenmap_at(m, 2), c);
    assert_null(tenmap_at(m, 3));
    assert_null(tenmap_at(m, SIZE_MAX));
    assert_string_equal(b->name, "b");
    assert_int_equal(b->name_len, 1);
    assert_int_equal(b->dtype, TENMAP_F32);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 3);
    assert_int_equal(b->nbytes, 24);
    assert_int_equal(b->nelems, 6);
    assert_int_equal(b->file_offset, at + 8 + json_len + 1);
    assert_int_equal(b->shard, 0);
    assert_ptr_equal(b->model, m);
    assert_int_equal(c->nelems, 0);
    const tenmap_shard *s = tenmap_shard_at(m, 0);
    assert_int_equal(tenmap_shard_count(m), 1);
    assert_null(tenmap_shard_at(m, 1));
    assert_int_equal(s->size, size);
    assert_int_equal(s->offset, at);
    assert_int_equal(s->header_bytes, json_len);
    assert_int_equal(s->data_offset, at + 8 + json_len);
    assert_int_equal(s->first_tensor, 0);
    assert_int_equal(s->tensor_count, 3);
    assert_int_equal(tenmap_file_size(m), size);
    if (mapped) {
        assert_non_null(c->data); /* never NULL in a mapping, even when empty at the very end */
        assert_ptr_equal(b->data, (const char *)s->base + (b->file_offset - s->offset));
        for (size_t i = 0; i < b->nbytes; i++)
            assert_int_equal(((const unsigned char *)b->data)[i], pattern_byte(1 + i));
    } else {
        assert_null(b->data);
        assert_null(s->base);
    }
    unsigned char copy[24];
    assert_int_equal(tenmap_read_bytes(b, 0, 24, copy, NULL), TENMAP_OK);
    for (size_t i = 0; i < 24; i++)
        assert_int_equal(copy[i], pattern_byte(1 + i));
    assert_int_equal(tenmap_metadata_count(m), 2);
    assert_string_equal(tenmap_metadata_at(m, 0)->key, "format");
    assert_string_equal(tenmap_metadata_at(m, 0)->value, "pt");
    assert_int_equal(tenmap_metadata_at(m, 1)->value_len, 0);
    assert_null(tenmap_metadata_at(m, 2));
    assert_string_equal(tenmap_metadata_get(m, "format"), "pt");
    assert_null(tenmap_metadata_get(m, "forma"));
    assert_null(tenmap_index_json(m, NULL));
    assert_int_equal(tenmap_missing_count(m), 0);
}

static const uint32_t backends[] = {TENMAP_BACKEND_MAP, TENMAP_BACKEND_READ};

static void path_descriptor_and_memory_give_the_same_model(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    write_model(path, model_json, MODEL_DATA);
    bytes file = read_whole(path);
    for (size_t i = 0; i < COUNT(backends); i++) {
        bool mapped = backends[i] == TENMAP_BACKEND_MAP;
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = backends[i];
        tenmap_model *m = must_open(path, &options);
        check_model(m, 0, file.size, mapped);
        assert_string_equal(tenmap_path(m), path);
        assert_string_equal(tenmap_shard_at(m, 0)->path, path);
        assert_true(tenmap_shard_at(m, 0)->fd >= 0);
        tenmap_close(m);

        int fd = open(path, O_RDONLY);
        assert_int_equal(tenmap_open_fd(fd, &options, &m, NULL), TENMAP_OK);
        close(fd); /* it was duplicated */
        check_model(m, 0, file.size, mapped);
        assert_string_equal(tenmap_path(m), "");
        assert_string_equal(tenmap_shard_at(m, 0)->path, "");
        tenmap_close(m);

        m = must_open_memory(file, &options);
        check_model(m, 0, file.size, mapped);
        assert_string_equal(tenmap_path(m), "");
        assert_int_equal(tenmap_shard_at(m, 0)->fd, -1);
        tenmap_close(m);
    }
    free(file.at);
}

static void a_model_inside_a_larger_file(void **state) {
    static const size_t offsets[] = {1, 8, 100, 4095, 4096, 4097, 70000};
    const char *path = in_folder(state, "container.bin");
    bytes file = make_model(model_json, MODEL_DATA);
    for (size_t i = 0; i < COUNT(offsets); i++) {
        size_t at = offsets[i], tail = i % 2 ? 999 : 0;
        unsigned char *all = calloc(1, at + file.size + tail);
        memcpy(all + at, file.at, file.size);
        write_file(path, all, at + file.size + tail);
        for (size_t b = 0; b < COUNT(backends); b++) {
            tenmap_options options = TENMAP_OPTIONS_INIT;
            options.backend = backends[b];
            options.offset = at;
            options.length = tail ? file.size : 0; /* 0: to the end */
            tenmap_model *m = must_open(path, &options);
            check_model(m, at, file.size, b == 0);
            tenmap_close(m);
            m = must_open_memory((bytes){all, at + file.size + tail}, &options);
            check_model(m, at, file.size, b == 0);
            tenmap_close(m);
        }
        tenmap_options wrong = TENMAP_OPTIONS_INIT;
        wrong.offset = at;
        wrong.length = file.size + tail + 1;
        must_fail(path, &wrong, TENMAP_ERR_RANGE, "is out of range");
        wrong.length = file.size - 1;
        char share[64];
        snprintf(share, sizeof share, "%zu of %zu bytes", file.size - 1, file.size);
        must_fail(path, &wrong, TENMAP_ERR_FORMAT, share);
        wrong.offset = UINT64_MAX;
        must_fail(path, &wrong, TENMAP_ERR_RANGE, "is out of range");
        free(all);
    }
    free(file.at);
}

static void error_offsets_count_from_the_start_of_the_larger_file(void **state) {
    (void)state;
    bytes file = make_model("{\"a\":1}", 0);
    unsigned char *all = calloc(1, 100 + file.size);
    memcpy(all + 100, file.at, file.size);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.offset = 100;
    tenmap_model *m;
    tenmap_error error;
    assert_int_equal(tenmap_open_memory(all, 100 + file.size, &options, &m, &error),
                     TENMAP_ERR_FORMAT);
    assert_int_equal(error.offset, 100 + 8 + 5);
    assert_non_null(strstr(error.message, "byte 113"));
    free(all);
    free(file.at);
}

static void a_callers_descriptor_is_never_closed_or_changed(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    write_model(path, model_json, MODEL_DATA);
    int fd = open(path, O_RDONLY);
    assert_int_equal(lseek(fd, 5, SEEK_SET), 5);
    int flags = fcntl(fd, F_GETFL), fd_flags = fcntl(fd, F_GETFD);
    tenmap_model *m;
    assert_int_equal(tenmap_open_fd(fd, NULL, &m, NULL), TENMAP_OK);
    int own = tenmap_shard_at(m, 0)->fd;
    assert_int_not_equal(own, fd);
    assert_true(fcntl(own, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 5);
    tenmap_close(m);
    assert_int_equal(fcntl(own, F_GETFD), -1); /* the model's own descriptor is closed */
    assert_int_equal(fcntl(fd, F_GETFL), flags);
    assert_int_equal(fcntl(fd, F_GETFD), fd_flags);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 5);
    close(fd);
    assert_int_equal(tenmap_open_fd(-1, NULL, &m, NULL), TENMAP_ERR_ARGUMENT);
    assert_null(m);
    tenmap_error error;
    assert_int_equal(tenmap_open_fd(fd, NULL, &m, &error), TENMAP_ERR_IO); /* closed */
    assert_int_equal(error.os_error, EBADF);
    int write_only = open(path, O_WRONLY);
    assert_int_equal(tenmap_open_fd(write_only, NULL, &m, &error), TENMAP_ERR_IO);
    check_error(&error, TENMAP_ERR_IO);
    close(write_only);
}

static size_t open_descriptors(void) {
    size_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) != -1;
    return count;
}

static void one_close_on_exec_descriptor_per_shard_until_close(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    write_model(path, model_json, MODEL_DATA);
    size_t before = open_descriptors();
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(open_descriptors(), before + 1);
    assert_true(fcntl(tenmap_shard_at(m, 0)->fd, F_GETFD) & FD_CLOEXEC);
    assert_false(fcntl(tenmap_shard_at(m, 0)->fd, F_GETFL) & O_NONBLOCK);
    tenmap_close(m);
    assert_int_equal(open_descriptors(), before);
    must_fail(in_folder(state, "none"), NULL, TENMAP_ERR_NOT_FOUND, "no such file or folder");
    write_text(in_folder(state, "broken"), "broken text");
    must_fail(in_folder(state, "broken"), NULL, TENMAP_ERR_FORMAT, "text file");
    assert_int_equal(open_descriptors(), before);
}

/* Renaming or removing the path must not matter: the model keeps the file that it opened. */
static void a_path_is_never_opened_twice(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    for (size_t i = 0; i < COUNT(backends); i++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = backends[i];
        write_model(path, model_json, MODEL_DATA);
        tenmap_model *m = must_open(path, &options);
        uint64_t size = tenmap_file_size(m);
        assert_int_equal(unlink(path), 0);
        write_text(path, "something else");
        check_model(m, 0, size, i == 0);
        tenmap_close(m);
        unlink(path);
    }
}

static void memory_is_borrowed_and_its_header_copied(void **state) {
    (void)state;
    bytes file = make_model(model_json, MODEL_DATA);
    tenmap_model *m = must_open_memory(file, NULL);
    const tenmap_tensor *b = tenmap_find(m, "b");
    size_t header = 8 + strlen(model_json);
    assert_ptr_equal(b->data, file.at + header + 1); /* zero copy */
    memset(file.at, 0xff, header);                   /* names and shapes live elsewhere */
    check_model(m, 0, file.size, true);
    tenmap_close(m);
    free(file.at);
}

/* Otherwise half of a pointer would be read as a whole one. */
static void a_struct_size_inside_of_a_field_is_refused(void **state) {
    (void)state;
    bytes file = make_model("{}", 0);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    for (size_t size = sizeof options - 1; size % sizeof(size_t); size--) {
        options.struct_size = size;
        must_fail_memory(file, &options, TENMAP_ERR_ARGUMENT, "struct_size is");
    }
    free(file.at);
}

static void options_grow_by_struct_size(void **state) {
    (void)state;
    struct {
        tenmap_options known;
        uint64_t future[4];
    } larger = {.known = TENMAP_OPTIONS_INIT};
    bytes file = make_model(model_json, MODEL_DATA);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    assert_int_equal(options.struct_size, sizeof options);
    tenmap_close(must_open_memory(file, &options));
    options.struct_size = 0;
    must_fail_memory(file, &options, TENMAP_ERR_ARGUMENT, "struct_size is 0");
    options.struct_size = 8;
    must_fail_memory(file, &options, TENMAP_ERR_ARGUMENT, "struct_size is 8");
    options.struct_size = SIZE_MAX;
    must_fail_memory(file, &options, TENMAP_ERR_ARGUMENT, "struct_size is");
    larger.known.struct_size = sizeof larger;
    tenmap_close(must_open_memory(file, &larger.known)); /* an unknown tail of zeros */
    larger.future[3] = 1;
    must_fail_memory(file, &larger.known, TENMAP_ERR_ARGUMENT, "does not know");
    free(file.at);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    bytes file = make_model(model_json, MODEL_DATA);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *m;
    options.flags = 1u << 30;
    must_fail_memory(file, &options, TENMAP_ERR_ARGUMENT, "unknown bits: 0x40000000");
    options.flags = 0;
    options.backend = 2;
    must_fail_memory(file, &options, TENMAP_ERR_ARGUMENT, "backend is 2");
    options.backend = 0;
    options.reserved = 1;
    must_fail_memory(file, &options, TENMAP_ERR_ARGUMENT, "reserved");
    must_fail(NULL, NULL, TENMAP_ERR_ARGUMENT, "path is NULL");
    must_fail_memory((bytes){NULL, 5}, NULL, TENMAP_ERR_ARGUMENT, "NULL");
    assert_int_equal(tenmap_open("x", NULL, NULL, NULL), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_open_memory(file.at, file.size, NULL, NULL, NULL), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_open_fd(0, NULL, NULL, NULL), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_open(NULL, NULL, &m, NULL), TENMAP_ERR_ARGUMENT);
    assert_null(m);
    free(file.at);
}

static void null_models_are_empty(void **state) {
    (void)state;
    size_t len = 7;
    tenmap_close(NULL);
    assert_int_equal(tenmap_count(NULL), 0);
    assert_null(tenmap_at(NULL, 0));
    assert_null(tenmap_find(NULL, "a"));
    assert_null(tenmap_find_n(NULL, "a", 1));
    assert_string_equal(tenmap_path(NULL), "");
    assert_int_equal(tenmap_file_size(NULL), 0);
    assert_int_equal(tenmap_shard_count(NULL), 0);
    assert_null(tenmap_shard_at(NULL, 0));
    assert_int_equal(tenmap_metadata_count(NULL), 0);
    assert_null(tenmap_metadata_at(NULL, 0));
    assert_null(tenmap_metadata_get(NULL, "a"));
    assert_int_equal(tenmap_missing_count(NULL), 0);
    assert_null(tenmap_missing_at(NULL, 0));
    assert_null(tenmap_index_json(NULL, &len));
    assert_int_equal(len, 0);
}

static void names_with_nul_are_found_by_length(void **state) {
    (void)state;
    bytes file =
        make_model("{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                   "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
                   "\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]},"
                   "\"ab\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]}}",
                   4);
    tenmap_model *m = must_open_memory(file, NULL);
    assert_ptr_equal(tenmap_find_n(m, "a\0b", 3), tenmap_at(m, 0));
    assert_int_equal(tenmap_at(m, 0)->name_len, 3);
    assert_memory_equal(tenmap_at(m, 0)->name, "a\0b", 4);
    assert_ptr_equal(tenmap_find(m, "a"), tenmap_at(m, 1));
    assert_ptr_equal(tenmap_find_n(m, "a", TENMAP_CSTR), tenmap_at(m, 1));
    assert_ptr_equal(tenmap_find(m, ""), tenmap_at(m, 2));
    assert_ptr_equal(tenmap_find_n(m, "abc", 2), tenmap_at(m, 3));
    assert_null(tenmap_find(m, "abc")); /* no lookup by prefix */
    assert_null(tenmap_find(m, NULL));
    tenmap_close(m);
    free(file.at);
}

static void what_is_not_a_file_is_refused_without_hanging(void **state) {
    const char *fifo = in_folder(state, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    must_fail(fifo, NULL, TENMAP_ERR_IO, "not a regular file");
    must_fail("/dev/zero", NULL, TENMAP_ERR_IO, "not a regular file");
    int fds[2];
    tenmap_model *m;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(tenmap_open_fd(fds[0], NULL, &m, NULL), TENMAP_ERR_IO);
    close(fds[0]);
    close(fds[1]);
    int folder = open(*state, O_RDONLY);
    tenmap_error error;
    assert_int_equal(tenmap_open_fd(folder, NULL, &m, &error), TENMAP_ERR_IO);
    assert_non_null(strstr(error.message, "folder"));
    close(folder);
}

static void system_errors_carry_errno(void **state) {
    tenmap_error error;
    tenmap_model *m;
    assert_int_equal(tenmap_open(in_folder(state, "gone"), NULL, &m, &error), TENMAP_ERR_NOT_FOUND);
    assert_int_equal(error.os_error, ENOENT);
    write_text(in_folder(state, "file"), "x");
    assert_int_equal(tenmap_open(in_folder(state, "file/inside"), NULL, &m, &error),
                     TENMAP_ERR_NOT_FOUND);
    assert_int_equal(error.os_error, ENOTDIR);
    assert_int_equal(symlink("loop", in_folder(state, "loop")), 0);
    assert_int_equal(tenmap_open(in_folder(state, "loop"), NULL, &m, &error), TENMAP_ERR_IO);
    assert_int_equal(error.os_error, ELOOP);
}

static void limits_of_the_process_are_named(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    write_model(path, model_json, MODEL_DATA);
    struct rlimit before, none;
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    tenmap_error error;
    tenmap_model *m;
    tenmap_status status = tenmap_open(path, NULL, &m, &error);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(status, TENMAP_ERR_LIMIT);
    assert_int_equal(error.os_error, EMFILE);
    assert_non_null(strstr(error.message, "ulimit -n"));
    assert_int_equal(error.remedy, TENMAP_REMEDY_RAISE_PROCESS_LIMIT);
}

/* A sparse file far larger than the address space allowed: mapping fails, reading does not. */
static void an_address_space_limit_names_the_read_backend(void **state) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)state;
    print_message("           skipped: a sanitizer's shadow memory is over any such limit\n");
#else
    if (getenv("TENMAP_MEMCHECK")) {
        print_message("           skipped: valgrind has an address space of its own\n");
        return;
    }
    const char *path = in_folder(state, "huge.safetensors");
    const uint64_t data = UINT64_C(1) << 40;
    char json[128];
    snprintf(json, sizeof json,
             "{\"a\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[0,%llu]}}",
             (unsigned long long)data, (unsigned long long)data);
    write_model(path, json, 0);
    assert_int_equal(truncate(path, (off_t)(8 + strlen(json) + data)), 0);
    struct rlimit before, limit;
    getrlimit(RLIMIT_AS, &before);
    limit = before;
    limit.rlim_cur = (rlim_t)1 << 36;
    setrlimit(RLIMIT_AS, &limit);
    tenmap_error error;
    tenmap_model *m;
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_status status = tenmap_open(path, &options, &m, &error);
    options.backend = TENMAP_BACKEND_READ;
    tenmap_model *readable = NULL;
    tenmap_status read_status = tenmap_open(path, &options, &readable, NULL);
    setrlimit(RLIMIT_AS, &before);
    assert_int_equal(status, TENMAP_ERR_LIMIT);
    assert_non_null(strstr(error.message, "open it to be read, not mapped"));
    assert_int_equal(error.remedy, TENMAP_REMEDY_BACKEND_READ);
    assert_int_equal(read_status, TENMAP_OK);
    tenmap_close(readable);
#endif
}

static void after_fork_the_child_may_read(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    write_model(path, model_json, MODEL_DATA);
    for (size_t i = 0; i < COUNT(backends); i++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = backends[i];
        tenmap_model *m = must_open(path, &options);
        pid_t child = fork();
        if (child == 0) {
            unsigned char copy[24];
            const tenmap_tensor *b = tenmap_find(m, "b");
            bool good = b && tenmap_read_bytes(b, 0, 24, copy, NULL) == TENMAP_OK;
            for (size_t k = 0; good && k < 24; k++)
                good = copy[k] == pattern_byte(1 + k);
            tenmap_close(m);
            _exit(good ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        check_model(m, 0, tenmap_file_size(m), i == 0); /* the child's close is its own */
        tenmap_close(m);
    }
}

/* A 16 GB model: opening it must fault in no page of data and bring none into the page cache. */
static void opening_16_gb_touches_no_data_page(void **state) {
    const char *path = in_folder(state, "sparse.safetensors");
    const uint64_t data = UINT64_C(16) << 30;
    char json[160];
    snprintf(json, sizeof json,
             "{\"w\":{\"dtype\":\"BF16\",\"shape\":[%llu,2],\"data_offsets\":[0,%llu]}}",
             (unsigned long long)data / 4, (unsigned long long)data);
    write_model(path, json, 0);
    assert_int_equal(truncate(path, (off_t)(8 + strlen(json) + data)), 0);
    tenmap_model *m = must_open(path, NULL);
    const tenmap_tensor *w = tenmap_find(m, "w");
    const tenmap_shard *s = tenmap_shard_at(m, 0);
    assert_int_equal(w->nbytes, data);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size_t)(s->size + page - 1) / page;
    unsigned char *cached = malloc(pages);
    assert_int_equal(mincore((void *)(uintptr_t)s->base, (size_t)s->size, cached), 0);
    size_t in_cache = 0;
    for (size_t i = 1; i < pages; i++) /* page 0 holds the header */
        in_cache += cached[i] & 1;
    free(cached);
    assert_int_equal(in_cache, 0);
    char line[512], wanted[40];
    snprintf(wanted, sizeof wanted, "%lx-", (unsigned long)(uintptr_t)s->base);
    FILE *smaps = fopen("/proc/self/smaps", "r");
    bool ours = false, seen = false;
    while (smaps && fgets(line, sizeof line, smaps)) {
        unsigned long rss;
        if (strncmp(line, wanted, strlen(wanted)) == 0)
            ours = seen = true;
        else if (ours && sscanf(line, "Rss: %lu kB", &rss) == 1) {
            assert_int_equal(rss, 0);
            ours = false;
        }
    }
    assert_true(!smaps || seen);
    if (smaps)
        fclose(smaps);
    tenmap_close(m);
}

/*
 * Edits do not support a tenmap_io today; a caller that passes one must not get a model that
 * ignores it.
 */
static void an_edited_model_with_a_wrong_io_is_refused(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_io io = TENMAP_IO_INIT;
    tenmap_model *model = NULL;
    tenmap_error error = {0};
    tmi_file file;
    write_model(path, "{}", 0);
    options.io = &io; /* without functions */
    assert_int_equal(tmi_file_open(&file, path), 0);
    tenmap_status status = tmi_open_edited(&file, path, &options, &model, &error);
    assert_int_equal(status, TENMAP_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "options.io has no open function"));
    assert_null(model);
    tmi_file_close(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(path_descriptor_and_memory_give_the_same_model, empty_folder),
        cmocka_unit_test_setup(a_model_inside_a_larger_file, empty_folder),
        cmocka_unit_test(error_offsets_count_from_the_start_of_the_larger_file),
        cmocka_unit_test_setup(a_callers_descriptor_is_never_closed_or_changed, empty_folder),
        cmocka_unit_test_setup(one_close_on_exec_descriptor_per_shard_until_close, empty_folder),
        cmocka_unit_test_setup(a_path_is_never_opened_twice, empty_folder),
        cmocka_unit_test(memory_is_borrowed_and_its_header_copied),
        cmocka_unit_test(a_struct_size_inside_of_a_field_is_refused),
        cmocka_unit_test(options_grow_by_struct_size),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(null_models_are_empty),
        cmocka_unit_test(names_with_nul_are_found_by_length),
        cmocka_unit_test_setup(what_is_not_a_file_is_refused_without_hanging, empty_folder),
        cmocka_unit_test_setup(system_errors_carry_errno, empty_folder),
        cmocka_unit_test_setup(limits_of_the_process_are_named, empty_folder),
        cmocka_unit_test_setup(an_address_space_limit_names_the_read_backend, empty_folder),
        cmocka_unit_test_setup(after_fork_the_child_may_read, empty_folder),
        cmocka_unit_test_setup(opening_16_gb_touches_no_data_page, empty_folder),
        cmocka_unit_test_setup(an_edited_model_with_a_wrong_io_is_refused, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
