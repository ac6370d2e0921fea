/*
 * Runs every family of calls on a file system that lies (lying_fs.c): each call that the kernel
 * makes to it fails in turn, reads are short, sizes and inode numbers change, there are no locks,
 * no mappings, no renames. Nothing may hang or crash. A call that succeeds must have the right
 * result. A call that fails must return an error message, leave the model as it was, and leave no
 * files behind.
 *
 *     test_lying PATH-OF-lying_fs
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "lying.h"
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

static lying *lies;
static char back[4096], seen[4096]; /* the folder, and what the file system shows of it */
static pid_t server;

/* The model: its header has room, so that an edit fits in place. */
enum { A_BYTES = 64 * 1024 * 4, B_BYTES = 100 * 100 * 2, C_BYTES = 100 };
enum { DATA_BYTES = A_BYTES + B_BYTES + C_BYTES, HEADER_BYTES = 2048 };
static const struct {
    const char *name;
    size_t begin, size;
} parts[] = {{"a", 0, A_BYTES}, {"b", A_BYTES, B_BYTES}, {"c", A_BYTES + B_BYTES, C_BYTES}};
static char header[HEADER_BYTES + 1];
static unsigned char data[DATA_BYTES];

/* A path in one of the two folders, in a buffer that the fourth call after this one overwrites. */
static const char *at(const char *folder, const char *name) {
    static char paths[4][8300];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int asked[LIE_CALLS]; /* how often, until the last be_honest */

static void be_honest(void) {
    for (int i = 0; i < LIE_CALLS; i++)
        asked[i] = lies->call[i].count;
    memset(lies, 0, sizeof *lies);
}

/* A fresh folder with the model in it, on an honest file system. */
static void begin_again(void) {
    void *state = back;
    be_honest();
    empty_folder(&state);
    write_model(at(back, "model.safetensors"), header, DATA_BYTES);
    assert_int_equal(chmod(at(back, "model.safetensors"), 0640), 0);
    assert_int_equal(mkdir(at(back, "set"), 0755), 0);
}

static size_t count_descriptors(void) {
    return count_names("/proc/self/fd");
}

/* Opens the model through the file system; every family starts with this. */
static tenmap_status open_seen(uint32_t backend, tenmap_model **m, tenmap_error *e) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.backend = backend;
    tenmap_status status = tenmap_open(at(seen, "model.safetensors"), &options, m, e);
    if (status != TENMAP_OK)
        assert_null(*m);
    else
        assert_int_equal(tenmap_count(*m), COUNT(parts));
    return status;
}

/* False if the bytes may be wrong in a way that nobody can detect. */
static bool trust_bytes = true;

static void bytes_are(size_t part, const void *found) {
    if (trust_bytes)
        assert_memory_equal(found, data + parts[part].begin, parts[part].size);
}

/*
 * The families. Each returns the status of the first call that failed, and checks those that
 * succeeded.
 */

static tenmap_status only_open(uint32_t backend, tenmap_error *e) {
    tenmap_model *m;
    tenmap_status status = open_seen(backend, &m, e);
    tenmap_close(m);
    return status;
}

static tenmap_status open_mapped(tenmap_error *e) {
    return only_open(TENMAP_BACKEND_MAP, e);
}

static tenmap_status open_to_read(tenmap_error *e) {
    return only_open(TENMAP_BACKEND_READ, e);
}

static tenmap_status open_folder(tenmap_error *e) {
    tenmap_model *m;
    tenmap_status status = tenmap_open(seen, NULL, &m, e);
    tenmap_close(m);
    return status;
}

static tenmap_status open_descriptor(tenmap_error *e) {
    tenmap_model *m = NULL;
    int fd = open(at(seen, "model.safetensors"), O_RDONLY);
    if (fd < 0)
        return TENMAP_OK;
    tenmap_status status = tenmap_open_fd(fd, NULL, &m, e);
    tenmap_close(m);
    close(fd);
    return status;
}

static void ignore_finding(void *ctx, const tenmap_finding *finding) {
    size_t *errors = ctx;
    *errors += finding->severity == TENMAP_FINDING_ERROR;
    assert_true(strlen(finding->message) > 0);
}

/* tenmap_check succeeds even if it finds an error. */
static tenmap_status check_model(tenmap_error *e) {
    size_t errors = 0;
    return tenmap_check(at(seen, "model.safetensors"), NULL, ignore_finding, &errors, e);
}

static tenmap_status read_all(tenmap_error *e) {
    static unsigned char buffer[A_BYTES];
    tenmap_model *m;
    tenmap_status status = open_seen(TENMAP_BACKEND_READ, &m, e);
    for (size_t i = 0; status == TENMAP_OK && i < COUNT(parts); i++) {
        const tenmap_tensor *t = tenmap_find(m, parts[i].name);
        status = tenmap_read(t, 0, t->nelems, TENMAP_AS_STORED, buffer, sizeof buffer, 0, e);
        if (status == TENMAP_OK)
            bytes_are(i, buffer);
        if (status == TENMAP_OK)
            status = tenmap_read_bytes(t, 0, parts[i].size, buffer, e);
        if (status == TENMAP_OK)
            bytes_are(i, buffer);
    }
    tenmap_close(m);
    return status;
}

static tenmap_status load_with(uint32_t backend, uint32_t flags, tenmap_error *e) {
    static unsigned char buffer[DATA_BYTES];
    tenmap_request requests[COUNT(parts)] = {{.tensor = NULL}};
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_model *m;
    options.flags = flags;
    tenmap_status status = open_seen(backend, &m, e);
    for (size_t i = 0; status == TENMAP_OK && i < COUNT(parts); i++) {
        requests[i].tensor = tenmap_find(m, parts[i].name);
        requests[i].dst = buffer + parts[i].begin;
        requests[i].dst_bytes = parts[i].size;
    }
    if (status == TENMAP_OK)
        status = tenmap_load(m, requests, COUNT(parts), &options, e);
    for (size_t i = 0; status == TENMAP_OK && i < COUNT(parts); i++)
        bytes_are(i, buffer + parts[i].begin);
    tenmap_close(m);
    return status;
}

static tenmap_status load_mapped(tenmap_error *e) {
    return load_with(TENMAP_BACKEND_MAP, 0, e);
}

static tenmap_status load_by_reads(tenmap_error *e) {
    return load_with(TENMAP_BACKEND_MAP, TENMAP_LOAD_READ, e);
}

static tenmap_status load_direct(tenmap_error *e) {
    return load_with(TENMAP_BACKEND_READ, TENMAP_LOAD_DIRECT, e);
}

static tenmap_status measure_with(uint32_t backend, tenmap_error *e) {
    tenmap_stats stats[COUNT(parts)];
    const tenmap_tensor *tensors[COUNT(parts)];
    tenmap_model *m;
    tenmap_status status = open_seen(backend, &m, e);
    for (size_t i = 0; status == TENMAP_OK && i < COUNT(parts); i++)
        tensors[i] = tenmap_at(m, i);
    if (status == TENMAP_OK)
        status = tenmap_measure(tensors, COUNT(parts), NULL, stats, e);
    for (size_t i = 0; status == TENMAP_OK && i < COUNT(parts); i++)
        assert_int_equal(stats[i].count, tensors[i]->nelems);
    tenmap_close(m);
    return status;
}

static tenmap_status measure_mapped(tenmap_error *e) {
    return measure_with(TENMAP_BACKEND_MAP, e);
}

static tenmap_status measure_by_reads(tenmap_error *e) {
    return measure_with(TENMAP_BACKEND_READ, e);
}

static tenmap_status advise_with(uint32_t first, uint32_t second, tenmap_error *e) {
    tenmap_model *m;
    tenmap_status status = open_seen(TENMAP_BACKEND_MAP, &m, e);
    if (status == TENMAP_OK)
        status = tenmap_advise(m, NULL, first, e);
    if (status == TENMAP_OK && second)
        status = tenmap_advise(m, NULL, second, e);
    tenmap_close(m);
    return status;
}

static tenmap_status populate(tenmap_error *e) {
    return advise_with(TENMAP_ADVISE_POPULATE, TENMAP_ADVISE_RELEASE, e);
}

static tenmap_status prefetch(tenmap_error *e) {
    return advise_with(TENMAP_ADVISE_PREFETCH, 0, e);
}

static tenmap_status prefetch_and_populate(tenmap_error *e) {
    return advise_with(TENMAP_ADVISE_PREFETCH, TENMAP_ADVISE_POPULATE, e);
}

static tenmap_status lock_in_memory(tenmap_error *e) {
    return advise_with(TENMAP_ADVISE_LOCK, TENMAP_ADVISE_UNLOCK, e);
}

static tenmap_status ask_cached(tenmap_error *e) {
    tenmap_model *m;
    uint64_t there = 0;
    tenmap_status status = open_seen(TENMAP_BACKEND_READ, &m, e);
    if (status == TENMAP_OK)
        status = tenmap_cached(m, NULL, &there, e);
    assert_true(there <= DATA_BYTES);
    if (status == TENMAP_OK)
        status = tenmap_resident(m, NULL, &there, e);
    tenmap_close(m);
    return status;
}

/* A file that a writer made must be complete. It is read directly, not through the file system. */
static void written_is(const char *name, bool converted) {
    tenmap_model *m = must_open(at(back, name), NULL);
    for (size_t i = 0; i < COUNT(parts); i++) {
        const tenmap_tensor *t = tenmap_find(m, parts[i].name);
        assert_non_null(t);
        if (!converted)
            bytes_are(i, t->data);
    }
    tenmap_close(m);
}

static tenmap_status declare_all(tenmap_writer *w, const tenmap_model *m, tenmap_error *e) {
    tenmap_status status = TENMAP_OK;
    for (size_t i = 0; status == TENMAP_OK && i < COUNT(parts); i++) {
        const tenmap_tensor *t = tenmap_at(m, i);
        status = tenmap_writer_add(w, t->name, t->name_len, t->dtype, t->shape, t->rank, NULL, e);
    }
    return status;
}

static tenmap_status write_bytes(tenmap_error *e) {
    static const uint64_t shape[] = {A_BYTES};
    tenmap_writer *w;
    size_t id;
    tenmap_status status = tenmap_writer_create(at(seen, "out.safetensors"), NULL, &w, e);
    if (status != TENMAP_OK)
        return status;
    for (size_t i = 0; status == TENMAP_OK && i < COUNT(parts); i++) {
        uint64_t size = parts[i].size;
        status = tenmap_writer_add(w, parts[i].name, TENMAP_CSTR, TENMAP_U8, i ? &size : shape, 1,
                                   &id, e);
    }
    for (size_t i = 0; status == TENMAP_OK && i < COUNT(parts); i++)
        status = tenmap_writer_write(w, i, 0, data + parts[i].begin, parts[i].size, e);
    if (status != TENMAP_OK) {
        tenmap_writer_abort(w);
        return status;
    }
    status = tenmap_writer_commit(w, e);
    if (status == TENMAP_OK)
        written_is("out.safetensors", false);
    return status;
}

/* Copies the model to a path, on one thread or several. */
static tenmap_status copy_to(const char *name, bool list, tenmap_error *e) {
    tenmap_source sources[COUNT(parts)] = {{.tensor = NULL}};
    tenmap_model *m;
    tenmap_writer *w = NULL;
    tenmap_status status = open_seen(TENMAP_BACKEND_READ, &m, e);
    if (status == TENMAP_OK)
        status = tenmap_writer_create(at(seen, name), NULL, &w, e);
    if (status == TENMAP_OK)
        status = declare_all(w, m, e);
    for (size_t i = 0; status == TENMAP_OK && i < COUNT(parts); i++) {
        sources[i].tensor = tenmap_at(m, i);
        if (!list)
            status = tenmap_writer_copy(w, i, tenmap_at(m, i), 0, e);
    }
    if (status == TENMAP_OK && list)
        status = tenmap_writer_copy_list(w, sources, COUNT(parts), NULL, e);
    if (status == TENMAP_OK)
        status = tenmap_writer_commit(w, e);
    else
        tenmap_writer_abort(w);
    if (status == TENMAP_OK)
        written_is(name, false);
    tenmap_close(m);
    return status;
}

static tenmap_status copy_one_by_one(tenmap_error *e) {
    return copy_to("out.safetensors", false, e);
}

static tenmap_status copy_list(tenmap_error *e) {
    return copy_to("out.safetensors", true, e);
}

static tenmap_status copy_over_itself(tenmap_error *e) {
    return copy_to("model.safetensors", false, e);
}

static tenmap_status edit_with(uint32_t flags, uint32_t expected, tenmap_error *e) {
    tenmap_edit edit = {"k", TENMAP_CSTR, "new", TENMAP_CSTR, NULL};
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    uint32_t how = 0;
    options.flags = flags;
    tenmap_status status =
        tenmap_edit_metadata(at(seen, "model.safetensors"), &edit, 1, &options, &how, e);
    if (status == TENMAP_OK && expected)
        assert_int_equal(how, expected);
    return status;
}

static tenmap_status edit_in_place(tenmap_error *e) {
    return edit_with(0, 0, e);
}

static tenmap_status edit_by_copying(tenmap_error *e) {
    return edit_with(TENMAP_EDIT_NO_IN_PLACE, TENMAP_EDIT_COPIED, e);
}

/* The n-th write of an edit in place and all after it fail: the header is left half changed. */
static void interrupt_edit(void) {
    tenmap_error e;
    lies->call[LIE_WRITE].error = EIO;
    lies->call[LIE_WRITE].first = 3;
    lies->call[LIE_WRITE].again = 1;
    assert_int_not_equal(edit_in_place(&e), TENMAP_OK);
    assert_non_null(strstr(e.message, "repairing its metadata"));
    be_honest();
}

static tenmap_status repair(tenmap_error *e) {
    uint32_t how;
    return tenmap_repair_metadata(at(seen, "model.safetensors"), 0, &how, e);
}

static tenmap_status save_to(const char *folder, tenmap_error *e) {
    tenmap_source sources[COUNT(parts)] = {{.tensor = NULL}};
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_model *m;
    options.max_shard_bytes = A_BYTES;
    tenmap_status status = open_seen(TENMAP_BACKEND_READ, &m, e);
    for (size_t i = 0; status == TENMAP_OK && i < COUNT(parts); i++)
        sources[i].tensor = tenmap_at(m, i);
    if (status == TENMAP_OK)
        status = tenmap_save_sharded(at(seen, folder), sources, COUNT(parts), &options, e);
    tenmap_close(m);
    if (status == TENMAP_OK)
        written_is(folder, false);
    return status;
}

static tenmap_status save_shards(tenmap_error *e) {
    return save_to("set", e);
}

static tenmap_status save_over(tenmap_error *e) {
    return save_to(".", e);
}

static const struct family {
    const char *name;
    tenmap_status (*run)(tenmap_error *e);
    bool writes;
} families[] = {{"open_mapped", open_mapped, false},
                {"open_to_read", open_to_read, false},
                {"open_folder", open_folder, false},
                {"open_descriptor", open_descriptor, false},
                {"check", check_model, false},
                {"read", read_all, false},
                {"load_mapped", load_mapped, false},
                {"load_by_reads", load_by_reads, false},
                {"load_direct", load_direct, false},
                {"measure_mapped", measure_mapped, false},
                {"measure_by_reads", measure_by_reads, false},
                {"populate", populate, false},
                {"prefetch", prefetch, false},
                {"prefetch_and_populate", prefetch_and_populate, false},
                {"lock", lock_in_memory, false},
                {"cached", ask_cached, false},
                {"write", write_bytes, true},
                {"copy", copy_one_by_one, true},
                {"copy_list", copy_list, true},
                {"copy_over_itself", copy_over_itself, true},
                {"edit_in_place", edit_in_place, true},
                {"edit_by_copying", edit_by_copying, true},
                {"repair", repair, true},
                {"save_shards", save_shards, true},
                {"save_over", save_over, true}};

/* Afterwards. */

/* A file in the folder that no call may leave behind. A record may stay if the error names it. */
static const char *find_rest(const char *folder, bool record_stays) {
    static char found[300];
    DIR *dir = opendir(folder);
    const struct dirent *e;
    found[0] = '\0';
    assert_non_null(dir);
    while ((e = readdir(dir))) {
        bool record = strstr(e->d_name, ".tenmap-undo") != NULL;
        if (strstr(e->d_name, ".tenmap-") && !(record && record_stays))
            snprintf(found, sizeof found, "%s", e->d_name);
    }
    closedir(dir);
    return found[0] ? found : NULL;
}

/*
 * The model exists and is complete, old or new. If it needs a repair, the error said so, or came
 * from the repair.
 */
static void model_is_whole(const struct family *f, tenmap_status status, const tenmap_error *e,
                           const char *what) {
    tenmap_model *m = NULL;
    tenmap_error why;
    if (tenmap_open(back, NULL, &m, &why) != TENMAP_OK) {
        if (status == TENMAP_OK || (f->run != repair && !strstr(e->message, "epair")))
            fail_msg("%s: \"%s\" and then \"%s\"", what, status ? e->message : "", why.message);
        /* The server releases its locks a little later. */
        for (int tries = 0; tries < 12000; tries++, usleep(5000))
            if (tenmap_repair_metadata(at(back, "model.safetensors"), 0, NULL, &why) == TENMAP_OK)
                break;
        m = must_open(back, NULL);
    }
    for (size_t i = 0; i < COUNT(parts); i++) {
        const tenmap_tensor *t = tenmap_find(m, parts[i].name);
        assert_non_null(t);
        bytes_are(i, t->data);
    }
    tenmap_close(m);
}

/* Runs one family with the current faults; true if it failed. */
static bool try_family(const struct family *f, const char *lie) {
    tenmap_error e = {.status = TENMAP_OK};
    char what[200];
    size_t descriptors = count_descriptors();
    snprintf(what, sizeof what, "%s, %s", f->name, lie);
    alarm(300); /* a hang ends the program */
    tenmap_status status = f->run(&e);
    alarm(0);
    bool cannot_remove = lies->call[LIE_UNLINK].error != 0 ||
                         (lies->call[LIE_GETATTR].error && lies->call[LIE_GETATTR].again);
    be_honest();
    if (getenv("LYING_SHOW"))
        printf("%s: %s %s\n", what, tenmap_status_name(status), status ? e.message : "");
    if (count_descriptors() != descriptors)
        fail_msg("%s: %zu descriptors, %zu before", what, count_descriptors(), descriptors);
    if (status != TENMAP_OK) {
        check_error(&e, status);
        if (status == TENMAP_ERR_ARGUMENT || strstr(e.message, "system error"))
            fail_msg("%s: no message for it: %s", what, e.message);
    }
    if (f->writes && !cannot_remove) {
        bool record_stays = status && (f->run == repair || strstr(e.message, "record") ||
                                       strstr(e.message, "repairing its metadata"));
        const char *rest = find_rest(back, record_stays);
        if (!rest)
            rest = find_rest(at(back, "set"), false);
        if (rest)
            fail_msg("%s: left %s behind: %s", what, rest, status ? e.message : "OK");
    }
    model_is_whole(f, status, &e, what);
    return status != TENMAP_OK;
}

static void prepare(const struct family *f) {
    begin_again();
    if (f->run == repair)
        interrupt_edit();
}

static void try_all(const char *lie, void (*set)(void)) {
    for (size_t i = 0; i < COUNT(families); i++) {
        prepare(&families[i]);
        set();
        (void)try_family(&families[i], lie);
    }
}

/* The tests. */

static int needs[COUNT(families)][LIE_CALLS]; /* how many calls of each kind a family makes */

static void without_lies_every_family_works(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(families); i++) {
        prepare(&families[i]);
        if (try_family(&families[i], "honest"))
            fail_msg("%s failed", families[i].name);
        memcpy(needs[i], asked, sizeof asked);
    }
}

static const char *const call_names[LIE_CALLS] = {
    "getattr", "open",      "create",   "read", "write",  "flush",  "fsync", "fsyncdir",
    "flock",   "fallocate", "truncate", "copy", "rename", "unlink", "chmod", "readdir"};

/*
 * Makes the n-th call of a kind fail, for every n until there is none; alone, or with all that
 * follow.
 */
static void every_call_fails(enum lying_call call, int error, bool again) {
    for (size_t i = 0; i < COUNT(families); i++) {
        int n = 0;
        while (needs[i][call] > 0) {
            char what[100];
            prepare(&families[i]);
            n++;
            lies->call[call].first = n;
            lies->call[call].again = again;
            lies->call[call].error = error;
            snprintf(what, sizeof what, "%s %d%s: errno %d", call_names[call], n,
                     again ? " and on" : "", error);
            (void)try_family(&families[i], what);
            if (asked[call] < n || n == 60)
                break;
        }
    }
}

/* Each call of every kind fails in turn, alone or with all calls that follow. */
static void a_call_that_fails_is_told_and_harms_nothing(void **state) {
    static const struct {
        enum lying_call call;
        int error;
        bool from_then_on;
    } faults[] = {
        {LIE_GETATTR, EIO, false},   {LIE_OPEN, EIO, false},         {LIE_OPEN, EACCES, true},
        {LIE_CREATE, ENOSPC, true},  {LIE_CREATE, EROFS, false},     {LIE_READ, EIO, true},
        {LIE_READ, ESTALE, false},   {LIE_WRITE, ENOSPC, true},      {LIE_WRITE, EIO, true},
        {LIE_WRITE, EDQUOT, false},  {LIE_WRITE, EFBIG, false},      {LIE_FLUSH, ENOSPC, true},
        {LIE_FSYNC, EIO, true},      {LIE_FSYNC, ENOSPC, false},     {LIE_FSYNCDIR, EIO, true},
        {LIE_FLOCK, ENOLCK, true},   {LIE_FLOCK, EAGAIN, false},     {LIE_FALLOCATE, ENOSPC, true},
        {LIE_FALLOCATE, EIO, false}, {LIE_TRUNCATE, EIO, false},     {LIE_COPY, EIO, true},
        {LIE_COPY, EXDEV, false},    {LIE_RENAME, EIO, true},        {LIE_RENAME, EPERM, false},
        {LIE_UNLINK, EPERM, true},   {LIE_CHMOD, EPERM, false},      {LIE_CHMOD, ENOTSUP, false},
        {LIE_READDIR, EIO, true},    {LIE_FALLOCATE, ENOTSUP, false}};
    (void)state;
    for (size_t i = 0; i < COUNT(faults); i++) {
        every_call_fails(faults[i].call, faults[i].error, false);
        if (faults[i].from_then_on)
            every_call_fails(faults[i].call, faults[i].error, true);
    }
}

/* A call that is interrupted once is tried again, so the caller does not notice. */
static void an_interrupted_call_is_tried_again(void **state) {
    static const enum lying_call calls[] = {LIE_OPEN,  LIE_READ,      LIE_WRITE,
                                            LIE_FSYNC, LIE_FALLOCATE, LIE_FSYNCDIR};
    (void)state;
    for (size_t c = 0; c < COUNT(calls); c++)
        for (size_t i = 0; i < COUNT(families); i++)
            for (int n = 1; n < 4; n++) {
                char what[100];
                prepare(&families[i]);
                lies->call[calls[c]].first = n;
                lies->call[calls[c]].error = EINTR;
                snprintf(what, sizeof what, "%s %d interrupted", call_names[calls[c]], n);
                if (families[i].run != open_descriptor && try_family(&families[i], what))
                    fail_msg("%s: %s failed", families[i].name, what);
            }
}

static void read_little(void) {
    lies->direct = 1;
    lies->read_at_most = 777;
}

/*
 * A file that cannot be mapped is refused with a message that says what to do; everything else
 * works as usual.
 */
static void short_reads_without_mappings_give_all_the_bytes(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(families); i++) {
        tenmap_error e;
        prepare(&families[i]);
        read_little();
        tenmap_status status = families[i].run(&e);
        if (status == TENMAP_OK)
            continue;
        if (!strstr(e.message, "open it to be read, not mapped") && families[i].run != ask_cached)
            fail_msg("%s: %s", families[i].name, e.message);
        prepare(&families[i]);
        read_little();
        (void)try_family(&families[i], "short reads");
    }
}

/* If the kernel caches, it takes a short read for the end of the file and pads with zeros. */
static void read_little_cached(void) {
    lies->read_at_most = 777;
}

static void short_reads_into_the_cache_crash_nothing(void **state) {
    (void)state;
    trust_bytes = false;
    try_all("short reads, cached", read_little_cached);
    trust_bytes = true;
}

static void sizes_that_change_crash_nothing(void **state) {
    static const long long added[] = {1, -1, -DATA_BYTES, 1LL << 40, INT64_MAX / 2};
    (void)state;
    trust_bytes = false; /* a cache that trusts the size has zeros after the end */
    for (size_t a = 0; a < COUNT(added); a++)
        for (size_t i = 0; i < COUNT(families); i++)
            for (int n = 0; n < 8; n = n * 2 + 1) {
                char what[100];
                prepare(&families[i]);
                lies->true_sizes = n;
                lies->size_added = added[a];
                snprintf(what, sizeof what, "size %+lld from answer %d on", added[a], n);
                (void)try_family(&families[i], what);
            }
    trust_bytes = true;
}

/* With checked reads, a size that changes in between is an error, and never wrong bytes. */
static void a_file_that_grows_or_shrinks_is_told_by_reads(void **state) {
    static const off_t sizes[] = {8 + HEADER_BYTES + DATA_BYTES + 100, 8 + HEADER_BYTES + 10};
    static unsigned char buffer[A_BYTES];
    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        tenmap_model *m;
        tenmap_error e;
        begin_again();
        assert_int_equal(open_seen(TENMAP_BACKEND_READ, &m, &e), TENMAP_OK);
        lies->same_time = 1;
        assert_int_equal(truncate(at(back, "model.safetensors"), sizes[i]), 0);
        assert_int_equal(tenmap_read_bytes(tenmap_find(m, "a"), 0, A_BYTES, buffer, &e),
                         TENMAP_ERR_IO);
        assert_non_null(strstr(e.message, i ? "truncated" : "modified"));
        tenmap_close(m);
    }
}

static void stop_the_clock(void) {
    lies->same_time = 1;
}

static void a_clock_that_stands_still_breaks_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(families); i++) {
        prepare(&families[i]);
        stop_the_clock();
        if (try_family(&families[i], "same time"))
            fail_msg("%s failed", families[i].name);
    }
}

/* Files cannot be identified then: calls that depend on it refuse, and leave nothing behind. */
static void change_inodes(void) {
    lies->new_inodes = 1;
}

static void inode_numbers_that_change_leave_nothing_behind(void **state) {
    (void)state;
    try_all("new inodes", change_inodes);
}

/*
 * A process that can read a new temporary file can lock it: the writer gives up and removes the
 * file.
 */
static void hold_temporaries(void) {
    lies->call[LIE_FLOCK].error = EAGAIN;
    lies->only_temporary = 1;
}

static void locked_temporaries_are_not_left_behind(void **state) {
    (void)state;
    try_all("temporaries are locked", hold_temporaries);
}

/* The error reports the storage failure, not the limit of locked memory. */
static void storage_that_fails_under_a_lock_is_named(void **state) {
    struct rlimit before, limit = {1 << 20, 1 << 20};
    tenmap_error e;
    (void)state;
    begin_again();
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    limit.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    lies->call[LIE_READ].first = 3;
    lies->call[LIE_READ].again = 1;
    lies->call[LIE_READ].error = EIO;
    tenmap_status status = lock_in_memory(&e);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
    be_honest();
    assert_int_equal(status, TENMAP_ERR_IO);
    assert_non_null(strstr(e.message, "storage"));
}

/* The error names the file that cannot be read, even if the kernel does the copying. */
static void a_copy_names_the_file_that_fails(void **state) {
    tenmap_error e;
    (void)state;
    begin_again();
    lies->call[LIE_COPY].error = EIO;
    lies->call[LIE_READ].error = EIO;
    lies->call[LIE_READ].first = 3;
    lies->call[LIE_READ].again = 1;
    assert_int_equal(copy_one_by_one(&e), TENMAP_ERR_IO);
    be_honest();
    assert_non_null(strstr(e.message, "model.safetensors\": cannot read"));
}

/* Bytes that are refused only at close never get the model's name. */
static void a_file_that_cannot_be_closed_is_not_put_in_place(void **state) {
    tenmap_error e;
    (void)state;
    begin_again();
    lies->call[LIE_FLUSH].error = ENOSPC;
    assert_int_equal(write_bytes(&e), TENMAP_ERR_NO_SPACE);
    be_honest();
    assert_int_not_equal(access(at(back, "out.safetensors"), F_OK), 0);
    begin_again();
    lies->call[LIE_FLUSH].error = EDQUOT;
    assert_int_equal(edit_by_copying(&e), TENMAP_ERR_NO_SPACE);
    be_honest();
    begin_again();
    lies->call[LIE_FLUSH].error = EIO;
    assert_int_equal(edit_in_place(&e), TENMAP_ERR_IO);
    be_honest();
}

/* The kernel remembers this as long as the file system is mounted, so this test comes last. */
static void calls_that_do_not_exist_are_done_without(void **state) {
    static const enum lying_call calls[] = {LIE_FALLOCATE, LIE_COPY,     LIE_FLUSH,
                                            LIE_FSYNC,     LIE_FSYNCDIR, LIE_CHMOD};
    (void)state;
    for (size_t c = 0; c < COUNT(calls); c++)
        for (size_t i = 0; i < COUNT(families); i++) {
            prepare(&families[i]);
            lies->call[calls[c]].error = ENOSYS;
            if (try_family(&families[i], call_names[calls[c]]))
                fail_msg("%s needs %s", families[i].name, call_names[calls[c]]);
        }
    for (size_t i = 0; i < COUNT(families); i++) {
        prepare(&families[i]);
        lies->call[LIE_FLOCK].error = ENOSYS;
        if (try_family(&families[i], "no locks"))
            fail_msg("%s needs locks", families[i].name);
        prepare(&families[i]);
        lies->call[LIE_RENAME].error = ENOSYS;
        (void)try_family(&families[i], "no renames");
    }
}

/* Around the tests. */

static void make_contents(void) {
    int used = snprintf(header, sizeof header,
                        "{\"__metadata__\":{\"k\":\"v\"},"
                        "\"a\":{\"dtype\":\"F32\",\"shape\":[64,1024],\"data_offsets\":[0,%d]},"
                        "\"b\":{\"dtype\":\"BF16\",\"shape\":[100,100],\"data_offsets\":[%d,%d]},"
                        "\"c\":{\"dtype\":\"U8\",\"shape\":[100],\"data_offsets\":[%d,%d]}}",
                        A_BYTES, A_BYTES, A_BYTES + B_BYTES, A_BYTES + B_BYTES, DATA_BYTES);
    memset(header + used, ' ', (size_t)(HEADER_BYTES - used));
    for (size_t i = 0; i < DATA_BYTES; i++)
        data[i] = pattern_byte(i);
}

/* Uses a mount namespace of this process, which ends with it, however it ends. */
static int start_server(const char *program, const char *folder) {
    char control[4200];
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=64m") != 0)
        return 77;
    snprintf(back, sizeof back, "%.4000s/back", folder);
    snprintf(seen, sizeof seen, "%.4000s/seen", folder);
    snprintf(control, sizeof control, "%.4000s/control", folder);
    int fd = open(control, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (mkdir(back, 0755) != 0 || mkdir(seen, 0755) != 0 || fd < 0 ||
        ftruncate(fd, sizeof *lies) != 0)
        return 1;
    lies = mmap(NULL, sizeof *lies, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    server = fork();
    if (server == 0) {
        execl(program, program, seen, back, control, (char *)NULL);
        _exit(77);
    }
    for (int tries = 0; tries < 12000; tries++) {
        struct statfs now;
        int ended;
        if (statfs(seen, &now) == 0 && now.f_type == 0x65735546) /* FUSE_SUPER_MAGIC */
            return 0;
        if (waitpid(server, &ended, WNOHANG) == server)
            return WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
        usleep(10000);
    }
    return 1;
}

static void stop_server(void) {
    umount2(seen, MNT_DETACH);
    if (server > 0) {
        kill(server, SIGTERM);
        waitpid(server, NULL, 0);
    }
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_lies_every_family_works),
        cmocka_unit_test(an_interrupted_call_is_tried_again),
        cmocka_unit_test(short_reads_without_mappings_give_all_the_bytes),
        cmocka_unit_test(short_reads_into_the_cache_crash_nothing),
        cmocka_unit_test(sizes_that_change_crash_nothing),
        cmocka_unit_test(a_file_that_grows_or_shrinks_is_told_by_reads),
        cmocka_unit_test(a_clock_that_stands_still_breaks_nothing),
        cmocka_unit_test(inode_numbers_that_change_leave_nothing_behind),
        cmocka_unit_test(locked_temporaries_are_not_left_behind),
        cmocka_unit_test(storage_that_fails_under_a_lock_is_named),
        cmocka_unit_test(a_copy_names_the_file_that_fails),
        cmocka_unit_test(a_file_that_cannot_be_closed_is_not_put_in_place),
        cmocka_unit_test(a_call_that_fails_is_told_and_harms_nothing),
        cmocka_unit_test(calls_that_do_not_exist_are_done_without),
    };
    void *folder = NULL;
    if (count != 2 || make_folder(&folder) != 0)
        return 2;
    make_contents();
    int failed = start_server(arguments[1], folder);
    if (failed == 77)
        printf("skipped: a file system of our own cannot be mounted here (root, /dev/fuse)\n");
    else if (!failed)
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    stop_server();
    umount2(folder, MNT_DETACH);
    remove_folder(&folder);
    return failed > 125 ? 1 : failed;
}
