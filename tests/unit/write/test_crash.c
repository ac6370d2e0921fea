/*
 * What faults leave behind: a process that is killed in the middle of any system call, a disk that
 * is full or fails in any of them, short and interrupted writes, and power loss, where at each
 * point of the recorded calls everything that was not synced is dropped, wholly or in part.
 * Afterwards there is one complete model, the old one or the new one. Also what another program
 * does between any two calls: none of its changes may be lost.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "faults.h"
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TENSORS = 4, BYTES = 3000 };
enum { OLD = 1, NEW = 2, LATER = 3 };

static unsigned long seed = 12345;

static unsigned pick(unsigned below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

/* The format of the scenario. */
static bool gguf;

static const char *model_path(const char *folder) {
    static char path[4200];
    snprintf(path, sizeof path, "%s/model.%s", folder, gguf ? "gguf" : "safetensors");
    return path;
}

static tenmap_dtype byte_dtype(void) {
    return gguf ? TENMAP_I8 : TENMAP_U8;
}

/* The operations. Each changes the model from one version to another, or fails with an error. */

static tenmap_status write_version(const char *folder, int version, tenmap_error *e) {
    unsigned char data[BYTES];
    uint64_t n = BYTES;
    tenmap_writer *w;
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    options.format = gguf ? TENMAP_FORMAT_GGUF : TENMAP_FORMAT_SAFETENSORS;
    memset(data, version, sizeof data);
    tenmap_status status = tenmap_writer_create(model_path(folder), &options, &w, e);
    for (size_t i = 0; status == TENMAP_OK && i < TENSORS; i++)
        status =
            tenmap_writer_add(w, (const char[]){(char)('a' + i)}, 1, byte_dtype(), &n, 1, NULL, e);
    for (size_t i = 0; status == TENMAP_OK && i < TENSORS; i++) {
        status = tenmap_writer_write(w, i, 1000, data, BYTES - 1000, e);
        if (status == TENMAP_OK)
            status = tenmap_writer_write(w, i, 0, data, 1000, e);
    }
    if (status == TENMAP_OK)
        return tenmap_writer_commit(w, e);
    tenmap_writer_abort(w);
    return status;
}

static tenmap_status edit_version(const char *folder, int version, uint32_t flags,
                                  tenmap_error *e) {
    char value[600];
    memset(value, 'a' + version, sizeof value - 1);
    value[sizeof value - 1] = '\0';
    tenmap_edit edit = {"version", TENMAP_CSTR, value, TENMAP_CSTR, NULL};
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    options.flags = flags;
    return tenmap_edit_metadata(model_path(folder), &edit, 1, &options, NULL, e);
}

static tenmap_status edit_in_place(const char *folder, int version, tenmap_error *e) {
    return edit_version(folder, version, 0, e);
}

static tenmap_status edit_by_clone(const char *folder, int version, tenmap_error *e) {
    return edit_version(folder, version, TENMAP_EDIT_NO_IN_PLACE, e);
}

static tenmap_status edit_by_copy(const char *folder, int version, tenmap_error *e) {
    return edit_version(folder, version, TENMAP_EDIT_NO_IN_PLACE | TENMAP_EDIT_NO_CLONE, e);
}

/*
 * Each tensor is named by its letter and the version. The old names are looked up without faults:
 * the change begins with the call that makes it.
 */
static tenmap_status rename_version(const char *folder, int version, uint32_t flags,
                                    tenmap_error *e) {
    const char *path = model_path(folder);
    char value[600], before[TENSORS][8], after[TENSORS][8];
    tenmap_renaming names[TENSORS];
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    bool armed = faults.armed;
    memset(value, 'a' + version, sizeof value - 1);
    value[sizeof value - 1] = '\0';
    tenmap_edit edit = {"version", TENMAP_CSTR, value, TENMAP_CSTR, NULL};
    faults.armed = false;
    tenmap_model *m = must_open(path, NULL);
    for (size_t i = 0; i < TENSORS; i++) {
        snprintf(before[i], sizeof before[i], "%s", tenmap_at(m, i)->name);
        snprintf(after[i], sizeof after[i], "%c%d", before[i][0], version);
        names[i] = (tenmap_renaming){before[i], TENMAP_CSTR, after[i], TENMAP_CSTR};
    }
    tenmap_close(m);
    faults.armed = armed;
    options.flags = flags;
    return tenmap_rename(path, names, TENSORS, &edit, 1, &options, NULL, e);
}

static tenmap_status rename_in_place(const char *folder, int version, tenmap_error *e) {
    return rename_version(folder, version, 0, e);
}

static tenmap_status rename_by_copy(const char *folder, int version, tenmap_error *e) {
    return rename_version(folder, version, TENMAP_EDIT_NO_IN_PLACE | TENMAP_EDIT_NO_CLONE, e);
}

static tenmap_status make_renamed(const char *folder, int version, tenmap_error *e) {
    tenmap_status status = write_version(folder, OLD, e);
    return status == TENMAP_OK ? rename_by_copy(folder, version, e) : status;
}

static tenmap_status save_version(const char *folder, int version, uint64_t most, tenmap_error *e) {
    static unsigned char data[BYTES];
    static const uint64_t shape[] = {BYTES};
    tenmap_source sources[TENSORS];
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    memset(data, version, sizeof data);
    memset(sources, 0, sizeof sources);
    for (size_t i = 0; i < TENSORS; i++)
        sources[i] = (tenmap_source){.name = &"abcd"[i],
                                     .name_len = 1,
                                     .shape = shape,
                                     .rank = 1,
                                     .dtype = byte_dtype(),
                                     .data = data};
    options.max_shard_bytes = most;
    options.format = gguf ? TENMAP_FORMAT_GGUF : TENMAP_FORMAT_SAFETENSORS;
    return tenmap_save_sharded(folder, sources, TENSORS, &options, e);
}

static tenmap_status save_two(const char *folder, int version, tenmap_error *e) {
    return save_version(folder, version, 2 * BYTES, e);
}

static tenmap_status save_four(const char *folder, int version, tenmap_error *e) {
    return save_version(folder, version, BYTES, e);
}

static tenmap_status save_single(const char *folder, int version, tenmap_error *e) {
    return save_version(folder, version, 100 * BYTES, e);
}

static tenmap_status make_editable(const char *folder, int version, tenmap_error *e) {
    tenmap_status status = write_version(folder, OLD, e);
    return status == TENMAP_OK ? edit_by_copy(folder, version, e) : status;
}

typedef tenmap_status operation(const char *folder, int version, tenmap_error *e);

static const struct scenario {
    const char *what;
    operation *before, *change;
    bool by_metadata; /* the version is in the metadata, not in the tensors */
    size_t files;     /* afterwards */
    bool by_names;    /* and in the names */
    bool gguf;
} scenarios[] = {
    {"a write over a file", write_version, write_version, false, 1, false, false},
    {"an edit in place", make_editable, edit_in_place, true, 1, false, false},
    {"an edit by clone (or copy, without reflinks)", make_editable, edit_by_clone, true, 1, false,
     false},
    {"an edit by copy", make_editable, edit_by_copy, true, 1, false, false},
    {"shards over as many", save_two, save_two, false, 3, false, false},
    {"shards over fewer", save_two, save_four, false, 5, false, false},
    {"shards over more", save_four, save_two, false, 3, false, false},
    {"shards over a file", save_single, save_two, false, 3, false, false},
    {"a file over shards", save_two, save_single, false, 1, false, false},
    {"a file over a file", save_single, save_single, false, 1, false, false},
    {"a renaming in place", make_renamed, rename_in_place, true, 1, true, false},
    {"a renaming by copy", make_renamed, rename_by_copy, true, 1, true, false},
    {"a write over a GGUF file", write_version, write_version, false, 1, false, true},
    {"an edit of GGUF in place", make_editable, edit_in_place, true, 1, false, true},
    {"an edit of GGUF by copy", make_editable, edit_by_copy, true, 1, false, true},
    {"a GGUF file over a GGUF file", save_single, save_single, false, 1, false, true},
    {"a renaming of GGUF in place", make_renamed, rename_in_place, true, 1, true, true},
    {"a renaming of GGUF by copy", make_renamed, rename_by_copy, true, 1, true, true},
};

/* Judging. */

static size_t count_files(const char *folder) {
    DIR *dir = opendir(folder);
    size_t count = 0;
    const struct dirent *e;
    while (dir && (e = readdir(dir)))
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (dir)
        closedir(dir);
    return count;
}

/* The version of a complete model; the test fails for a mix. */
static int version_of(const tenmap_model *m, const struct scenario *s) {
    assert_int_equal(tenmap_count(m), TENSORS);
    int version = ((const unsigned char *)tenmap_at(m, 0)->data)[0];
    for (size_t i = 0; i < TENSORS; i++)
        for (size_t k = 0; k < BYTES; k++)
            assert_int_equal(((const unsigned char *)tenmap_at(m, i)->data)[k], version);
    if (!s->by_metadata)
        return version;
    const char *value = tenmap_metadata_get(m, "version");
    assert_non_null(value);
    assert_int_equal(strlen(value), 599);
    for (size_t i = 1; value[i]; i++)
        assert_int_equal(value[i], value[0]);
    for (size_t i = 0; s->by_names && i < TENSORS; i++) {
        const char due[] = {(char)('a' + i), (char)('0' + value[0] - 'a'), '\0'};
        assert_string_equal(tenmap_at(m, i)->name, due);
    }
    return value[0] - 'a';
}

/* Opens the folder, after a repair if the error asks for one. */
static int judge(const char *folder, const struct scenario *s, bool *repaired) {
    tenmap_model *m;
    tenmap_error e = {0};
    *repaired = false;
    if (tenmap_open(folder, NULL, &m, &e) != TENMAP_OK) {
        if (!strstr(e.message, "repairing its metadata"))
            fail_msg("%s: nothing opens: %s", s->what, e.message);
        if (tenmap_repair_metadata(model_path(folder), pick(2), NULL, &e) != TENMAP_OK)
            fail_msg("%s: %s", s->what, e.message);
        *repaired = true;
        m = must_open(folder, NULL);
    }
    int version = version_of(m, s);
    tenmap_close(m);
    if (version != OLD && version != NEW)
        fail_msg("%s: version %d", s->what, version);
    return version;
}

static void clear(const char *folder) {
    void *state = (void *)(uintptr_t)folder;
    assert_int_equal(empty_folder(&state), 0);
}

static void prepare(const char *folder, const struct scenario *s) {
    tenmap_error e = {0};
    gguf = s->gguf;
    clear(folder);
    if (s->before(folder, OLD, &e) != TENMAP_OK)
        fail_msg("%s: %s", s->what, e.message);
}

/* The next change must work, and remove what the failed one left behind. */
static void check_next(const char *folder, const struct scenario *s) {
    tenmap_error e = {0};
    if (s->change(folder, LATER, &e) != TENMAP_OK)
        fail_msg("%s, the next time: %s", s->what, e.message);
    tenmap_model *m = must_open(folder, NULL);
    assert_int_equal(version_of(m, s), LATER);
    tenmap_close(m);
    if (count_files(folder) != s->files)
        fail_msg("%s: %zu files are left", s->what, count_files(folder));
}

/* How many calls the change makes. */
static long count_calls(const char *folder, const struct scenario *s) {
    tenmap_error e = {0};
    prepare(folder, s);
    faults_reset();
    faults.armed = true;
    tenmap_status status = s->change(folder, NEW, &e);
    faults.armed = false;
    if (status != TENMAP_OK)
        fail_msg("%s: %s", s->what, e.message);
    long count = faults.count;
    faults_reset();
    assert_true(count > 3);
    return count;
}

/* Killed. */

/* How often each change is killed: 200 times, or as often as TENMAP_KILLS says. */
static long kill_count(void) {
    const char *wanted = getenv("TENMAP_KILLS");
    long kills = wanted ? strtol(wanted, NULL, 10) : 0;
    return kills > 0 ? kills : 200;
}

static void kill_in(const char *folder, const struct scenario *s) {
    long calls = count_calls(folder, s), repairs = 0, kept = 0, kills = kill_count();
    for (long i = 0; i < kills; i++) {
        bool repaired;
        long kill_at = i < calls ? i : (long)pick((unsigned)calls);
        prepare(folder, s);
        pid_t child = fork();
        if (child == 0) {
            faults.kill_at = kill_at;
            faults.armed = true;
            (void)s->change(folder, NEW, NULL);
            _exit(0);
        }
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
        kept += judge(folder, s, &repaired) == OLD;
        repairs += repaired;
        check_next(folder, s);
    }
    print_message("           %s: %ld calls, killed %ld times: old %ld, new %ld, repaired %ld\n",
                  s->what, calls, kills, kept, kills - kept, repairs);
}

static void a_kill_leaves_one_whole_model(void **state) {
    for (size_t i = 0; i < COUNT(scenarios); i++)
        kill_in(*state, &scenarios[i]);
}

/* Refused by the system. */

static void fail_in(const char *folder, const struct scenario *s, int error) {
    long calls = count_calls(folder, s), failed = 0;
    for (long i = 0; i < calls; i++) {
        bool repaired;
        tenmap_error e = {0};
        prepare(folder, s);
        faults_reset();
        faults.error_at = i;
        faults.error = error;
        faults.armed = true;
        tenmap_status status = s->change(folder, NEW, &e);
        faults.armed = false;
        faults_reset();
        int version = judge(folder, s, &repaired);
        if (status == TENMAP_OK) /* the change can do without this call */
            assert_int_equal(version, NEW);
        else
            check_error(&e, status);
        if (status != TENMAP_OK && !strstr(e.message, "replaced") &&
            !strstr(e.message, "removed") && !repaired)
            assert_int_equal(version, OLD);
        failed += status != TENMAP_OK;
        check_next(folder, s);
    }
    print_message("           %s: %ld of %ld calls refused\n", s->what, failed, calls);
}

static void a_full_disk_at_any_call_loses_nothing(void **state) {
    for (size_t i = 0; i < COUNT(scenarios); i++)
        fail_in(*state, &scenarios[i], ENOSPC);
}

static void a_failing_disk_at_any_call_loses_nothing(void **state) {
    for (size_t i = 0; i < COUNT(scenarios); i++)
        fail_in(*state, &scenarios[i], EIO);
}

static void short_and_interrupted_writes_go_on(void **state) {
    for (size_t i = 0; i < COUNT(scenarios); i++) {
        const struct scenario *s = &scenarios[i];
        bool repaired;
        tenmap_error e = {0};
        prepare(*state, s);
        faults_reset();
        faults.short_writes = faults.armed = true;
        tenmap_status status = s->change(*state, NEW, &e);
        faults_reset();
        if (status != TENMAP_OK)
            fail_msg("%s: %s", s->what, e.message);
        assert_int_equal(judge(*state, s, &repaired), NEW);
    }
}

/*
 * Another thread changes the working directory to one where the same relative path leads to another
 * model. The operation must finish where it began, and the other model must not change.
 */
static void wander_in(const char *folder, const struct scenario *s) {
    char here[4200], there[4300], decoy[4400];
    long steps = 0;
    gguf = s->gguf;
    assert_non_null(getcwd(here, sizeof here));
    snprintf(there, sizeof there, "%s-elsewhere", folder);
    snprintf(decoy, sizeof decoy, "%s/m", there);
    for (long i = -1; i < steps; i++) {
        bool repaired;
        tenmap_error e = {0};
        clear(folder);
        assert_int_equal(mkdir(there, 0700), 0);
        assert_int_equal(mkdir(decoy, 0700), 0);
        assert_int_equal(chdir(folder), 0);
        assert_int_equal(mkdir("m", 0700), 0);
        if (s->before("m", OLD, &e) != TENMAP_OK || s->before(decoy, OLD, &e) != TENMAP_OK)
            fail_msg("%s: %s", s->what, e.message);
        size_t files = count_files(decoy);
        faults_reset();
        faults.wander_at = i;
        faults.elsewhere = there;
        faults.armed = true;
        tenmap_status status = s->change("m", NEW, &e);
        faults.armed = false;
        if (i < 0)
            steps = faults.steps;
        faults_reset();
        if (status != TENMAP_OK)
            fail_msg("%s, working directory changed after step %ld: %s", s->what, i, e.message);
        if (judge(decoy, s, &repaired) != OLD || count_files(decoy) != files)
            fail_msg("%s: step %ld: the other folder was changed", s->what, i);
        assert_int_equal(chdir(folder), 0);
        if (judge("m", s, &repaired) != NEW || count_files("m") != s->files)
            fail_msg("%s: step %ld: the change is not whole", s->what, i);
        assert_int_equal(chdir(here), 0);
        clear(there);
        assert_int_equal(rmdir(there), 0);
    }
    print_message("           %s: %ld steps\n", s->what, steps);
}

static void another_working_directory_at_any_call_misleads_nothing(void **state) {
    for (size_t i = 0; i < COUNT(scenarios); i++)
        wander_in(*state, &scenarios[i]);
}

/*
 * Power loss. A simulated disk in memory: files and names with what is durable and what is not yet.
 * Changes of names become durable in order, changes of bytes in any order.
 */
enum { MOST_FILES = 64, FILE_ROOM = 64 << 10, SECTOR = 512 };

typedef struct disk_file {
    ino_t inode;
    unsigned char *durable, *now;
    size_t durable_size, size;
} disk_file;

typedef struct disk_names {
    char name[MOST_FILES][256];
    int file[MOST_FILES]; /* -1: free */
} disk_names;

typedef struct disk {
    disk_file files[MOST_FILES];
    int file_count;
    disk_names durable, now;
    fault_event *pending[FAULT_MOST_EVENTS]; /* changes of names */
    size_t pending_count;
} disk;

static int find_name(const disk_names *names, const char *name) {
    for (int i = 0; i < MOST_FILES; i++)
        if (names->file[i] >= 0 && strcmp(names->name[i], name) == 0)
            return i;
    return -1;
}

static void set_name(disk_names *names, const char *name, int file) {
    int at = find_name(names, name);
    for (int i = 0; at < 0; i++)
        if (names->file[i] < 0)
            at = i;
    snprintf(names->name[at], sizeof names->name[at], "%s", name);
    names->file[at] = file;
}

static void drop_name(disk_names *names, const char *name) {
    int at = find_name(names, name);
    if (at >= 0)
        names->file[at] = -1;
}

static int add_file(disk *d, ino_t inode) {
    assert_true(d->file_count < MOST_FILES);
    d->files[d->file_count] =
        (disk_file){.inode = inode, .durable = calloc(1, FILE_ROOM), .now = calloc(1, FILE_ROOM)};
    return d->file_count++;
}

/* The newest file with this inode, because numbers are reused. */
static int file_of(const disk *d, ino_t inode) {
    int i = d->file_count - 1;
    while (i >= 0 && d->files[i].inode != inode)
        i--;
    assert_true(i >= 0);
    return i;
}

static disk *take_disk(const char *folder) {
    disk *d = calloc(1, sizeof *d);
    memset(d->now.file, -1, sizeof d->now.file);
    DIR *dir = opendir(folder);
    const struct dirent *e;
    while ((e = readdir(dir))) {
        char path[4400];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        bytes whole = read_whole(path);
        assert_true(whole.size <= FILE_ROOM);
        int at = add_file(d, st.st_ino);
        disk_file *f = &d->files[at];
        memcpy(f->durable, whole.at, whole.size);
        memcpy(f->now, whole.at, whole.size);
        f->size = f->durable_size = whole.size;
        set_name(&d->now, e->d_name, at);
        free(whole.at);
    }
    closedir(dir);
    d->durable = d->now;
    return d;
}

static void free_disk(disk *d) {
    for (int i = 0; i < d->file_count; i++) {
        free(d->files[i].durable);
        free(d->files[i].now);
    }
    free(d);
}

static void change_names(disk *d, disk_names *names, const fault_event *e) {
    int at = find_name(names, e->name);
    if (e->call == FAULT_CREATE)
        set_name(names, e->name, file_of(d, e->inode));
    else if (e->call == FAULT_UNLINK)
        drop_name(names, e->name);
    else if (at >= 0) { /* a rename */
        int file = names->file[at];
        drop_name(names, e->name);
        set_name(names, e->to, file);
    }
}

static void play(disk *d, fault_event *e) {
    disk_file *f = NULL;
    switch (e->call) {
    case FAULT_CREATE:
        (void)add_file(d, e->inode);
        /* fall through */
    case FAULT_RENAME:
    case FAULT_UNLINK:
        change_names(d, &d->now, e);
        d->pending[d->pending_count++] = e;
        break;
    case FAULT_SYNC_FOLDER:
        d->durable = d->now;
        d->pending_count = 0;
        break;
    case FAULT_SYNC:
        f = &d->files[file_of(d, e->inode)];
        memcpy(f->durable, f->now, FILE_ROOM);
        f->durable_size = f->size;
        break;
    case FAULT_RESIZE:
        f = &d->files[file_of(d, e->inode)];
        assert_true(e->size <= FILE_ROOM);
        f->size = (size_t)e->size;
        break;
    case FAULT_WRITE:
        f = &d->files[file_of(d, e->inode)];
        assert_true(e->offset + e->size <= FILE_ROOM);
        memcpy(f->now + e->offset, e->data, (size_t)e->size);
        if (f->size < e->offset + e->size)
            f->size = (size_t)(e->offset + e->size);
        break;
    }
}

/* Which unsynced changes the disk keeps: none, or some sectors and names. */
static void survive(disk *d, const disk_file *f, bool some, unsigned char *out, size_t *size) {
    bool sizes = some && pick(2);
    (void)d;
    memcpy(out, f->durable, FILE_ROOM);
    *size = sizes ? f->size : f->durable_size;
    for (size_t at = 0; some && at < FILE_ROOM; at += SECTOR)
        if (pick(2))
            memcpy(out + at, f->now + at, SECTOR);
}

/*
 * Recreates the folder as the machine finds it after the restart. Existing files keep their inode.
 */
static void restart(disk *d, const char *folder, bool some) {
    static unsigned char out[FILE_ROOM];
    disk_names names = d->durable;
    size_t kept = some ? pick((unsigned)d->pending_count + 1) : 0, size;
    for (size_t i = 0; i < kept; i++)
        change_names(d, &names, d->pending[i]);
    DIR *dir = opendir(folder);
    const struct dirent *e;
    char path[4400];
    while ((e = readdir(dir))) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (find_name(&names, e->d_name) < 0)
            (void)unlink(path);
    }
    closedir(dir);
    for (int i = 0; i < MOST_FILES; i++)
        if (names.file[i] >= 0) {
            survive(d, &d->files[names.file[i]], some, out, &size);
            snprintf(path, sizeof path, "%s/%s", folder, names.name[i]);
            write_file(path, out, size);
        }
}

static size_t lose_power_in(const char *folder, const struct scenario *s) {
    tenmap_error e = {0};
    size_t states = 0, repairs = 0, fresh = 0;
    prepare(folder, s);
    disk *first = take_disk(folder);
    faults_reset();
    faults.recording = faults.armed = true;
    tenmap_status status = s->change(folder, NEW, &e);
    faults.armed = false;
    if (status != TENMAP_OK)
        fail_msg("%s: %s", s->what, e.message);
    size_t events = faults.event_count;
    for (size_t stop = 0; stop <= events; stop++)
        for (int variant = 0; variant < 12; variant++) {
            bool repaired;
            disk *d = calloc(1, sizeof *d);
            *d = *first;
            for (int i = 0; i < d->file_count; i++) {
                d->files[i].durable = malloc(FILE_ROOM);
                d->files[i].now = malloc(FILE_ROOM);
                memcpy(d->files[i].durable, first->files[i].durable, FILE_ROOM);
                memcpy(d->files[i].now, first->files[i].now, FILE_ROOM);
            }
            for (size_t i = 0; i < stop; i++)
                play(d, &faults.events[i]);
            restart(d, folder, variant > 0);
            int version = judge(folder, s, &repaired);
            if (stop == events) /* the call has returned: the change must last */
                assert_int_equal(version, NEW);
            fresh += version == NEW;
            repairs += repaired;
            states++;
            free_disk(d);
        }
    print_message("           %s: %zu calls, %zu states: old %zu, new %zu, repaired %zu\n", s->what,
                  events, states, states - fresh, fresh, repairs);
    free_disk(first);
    faults_reset();
    return events;
}

static void a_loss_of_power_leaves_one_whole_model(void **state) {
    for (size_t i = 0; i < COUNT(scenarios); i++)
        assert_true(lose_power_in(*state, &scenarios[i]) > 3);
}

/*
 * Another program acts between any two calls of an edit. One moment is left out, because no check
 * can cover it: between the last check of the path and the rename.
 */

static char meanwhile_path[4200], meanwhile_aside[4200];
static bytes meanwhile_bytes; /* the newer file's */

static void replace_the_model(void) {
    write_file(meanwhile_aside, meanwhile_bytes.at, meanwhile_bytes.size);
    assert_int_equal(rename(meanwhile_aside, meanwhile_path), 0);
}

/* Its last byte, a tensor's. */
static void change_a_value(void) {
    FILE *f = fopen(meanwhile_path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    assert_int_equal(fputc('!', f), '!');
    assert_int_equal(fclose(f), 0);
}

static void append_a_byte(void) {
    FILE *f = fopen(meanwhile_path, "ab");
    assert_non_null(f);
    assert_int_equal(fputc('!', f), '!');
    assert_int_equal(fclose(f), 0);
}

static void remove_the_model(void) {
    assert_int_equal(unlink(meanwhile_path), 0);
}

/* Like prepare, with an old modification time, so that any change shows. */
static void prepare_meanwhile(const char *folder, const struct scenario *s) {
    const struct timespec past[2] = {{1000000000, 0}, {1000000000, 0}};
    snprintf(meanwhile_path, sizeof meanwhile_path, "%s/model.safetensors", folder);
    snprintf(meanwhile_aside, sizeof meanwhile_aside, "%s/aside", folder);
    prepare(folder, s);
    free(meanwhile_bytes.at);
    meanwhile_bytes = read_whole(meanwhile_path);
    meanwhile_bytes.at[meanwhile_bytes.size - 1] = '!';
    assert_int_equal(utimensat(AT_FDCWD, meanwhile_path, past, 0), 0);
}

/* The number of the call that renames the new file to the model's name; -1: none does. */
static long call_of_the_rename(const char *folder, const struct scenario *s) {
    prepare_meanwhile(folder, s);
    faults_reset();
    faults.recording = faults.armed = true;
    assert_int_equal(s->change(folder, NEW, NULL), TENMAP_OK);
    faults.armed = false;
    long number = -1;
    for (size_t i = 0; i < faults.event_count; i++)
        if (faults.events[i].call == FAULT_RENAME &&
            strcmp(faults.events[i].to, "model.safetensors") == 0)
            number = (long)i;
    assert_int_equal(faults.event_count, faults.count); /* so that events number the calls */
    faults_reset();
    return number;
}

typedef struct meanwhile_result {
    tenmap_status status;
    tenmap_error error;
    bool after; /* the other program came after the rename */
} meanwhile_result;

/* Whether there was such a call. */
static bool act_at(const char *folder, const struct scenario *s, void (*act)(void), long *call,
                   long rename_at, meanwhile_result *got) {
    *call += *call == rename_at;
    prepare_meanwhile(folder, s);
    faults_reset();
    faults.meanwhile = act;
    faults.meanwhile_at = *call;
    faults.armed = true;
    memset(&got->error, 0, sizeof got->error);
    got->status = s->change(folder, NEW, &got->error);
    bool met = faults.count > *call;
    got->after = rename_at >= 0 && *call > rename_at;
    faults_reset();
    return met;
}

static void refused_meanwhile(const meanwhile_result *got, const char *fragment) {
    if (got->status != TENMAP_ERR_IO || !strstr(got->error.message, fragment))
        fail_msg("got %s: %s", tenmap_status_name(got->status), got->error.message);
    check_error(&got->error, got->status);
}

static void a_newer_file_is_not_replaced_by_an_edit(void **state) {
    for (size_t i = 1; i < 4; i++) {
        const struct scenario *s = &scenarios[i];
        meanwhile_result got;
        long calls = 0, rename_at = call_of_the_rename(*state, s);
        for (long at = 0; act_at(*state, s, replace_the_model, &at, rename_at, &got); at++) {
            bytes there = read_whole(meanwhile_path);
            if (there.size != meanwhile_bytes.size ||
                memcmp(there.at, meanwhile_bytes.at, there.size) != 0)
                fail_msg("%s, call %ld: the newer file is gone", s->what, at);
            free(there.at);
            if (rename_at >= 0 && !got.after)
                refused_meanwhile(&got, "another program has just replaced the file");
            assert_int_equal(count_files(*state), 1);
            calls++;
        }
        for (long at = 0; at < rename_at; at++) {
            assert_true(act_at(*state, s, remove_the_model, &at, rename_at, &got));
            refused_meanwhile(&got, "another program has just replaced the file");
            assert_int_equal(count_files(*state), 0);
        }
        assert_true(calls > 3);
    }
}

static void check_changed_source(const char *folder, const struct scenario *s) {
    void (*const acts[])(void) = {change_a_value, append_a_byte};
    for (size_t i = 0; i < COUNT(acts); i++) {
        meanwhile_result got;
        long rename_at = call_of_the_rename(folder, s);
        assert_true(rename_at > 1);
        for (long at = 0; at < rename_at; at++) {
            assert_true(act_at(folder, s, acts[i], &at, rename_at, &got));
            if (got.status == TENMAP_OK)
                fail_msg("%s, call %ld: the edit went on from a source that changed", s->what, at);
            refused_meanwhile(&got, "changed while it was copied");
            bytes there = read_whole(meanwhile_path);
            assert_int_equal(there.size, meanwhile_bytes.size + i);
            assert_int_equal(there.at[there.size - 1], '!');
            free(there.at);
            assert_int_equal(count_files(folder), 1);
        }
    }
}

static void an_edit_by_copy_notices_a_changed_source(void **state) {
    check_changed_source(*state, &scenarios[3]);
}

/* Another program replaces the file, and a second edit, of the new file, is in progress. */

static const char record_name[] = ".model.safetensors.tenmap-undo";

static void replace_the_model_and_edit_it(void) {
    char record[sizeof meanwhile_path + sizeof record_name];
    size_t folder = strlen(meanwhile_path) - strlen("model.safetensors");
    snprintf(record, sizeof record, "%.*s%s", (int)folder, meanwhile_path, record_name);
    replace_the_model();
    assert_int_equal(unlink(record), 0); /* as an edit does if it finds one */
    write_text(record, "of the second edit");
}

/* The calls of an edit in place while its record exists: [*first, *behind). */
static void calls_with_a_record(const char *folder, long *first, long *behind) {
    prepare_meanwhile(folder, &scenarios[1]);
    faults_reset();
    faults.recording = faults.armed = true;
    assert_int_equal(edit_in_place(folder, NEW, NULL), TENMAP_OK);
    faults.armed = false;
    *first = *behind = 0;
    for (size_t i = 0; i < faults.event_count; i++) {
        if (faults.events[i].call == FAULT_RENAME && strcmp(faults.events[i].to, record_name) == 0)
            *first = (long)i + 1;
        if (faults.events[i].call == FAULT_UNLINK &&
            strcmp(faults.events[i].name, record_name) == 0)
            *behind = (long)i;
    }
    faults_reset();
}

/* Without that record, nobody could repair the file that the second edit may leave behind. */
static void the_record_of_another_edit_stays(void **state) {
    long first, behind;
    calls_with_a_record(*state, &first, &behind);
    assert_true(first > 0 && behind > first + 3);
    for (long at = first; at < behind; at++) {
        meanwhile_result got;
        long call = at;
        assert_true(act_at(*state, &scenarios[1], replace_the_model_and_edit_it, &call, -1, &got));
        if (access(in_folder(state, record_name), F_OK) != 0)
            fail_msg("call %ld: the record of the second edit is gone", at);
    }
}

static char ended_record[4300];

static void end_the_edit(bool before) {
    if (before)
        (void)unlink(ended_record);
}

/* The record that the repair saw is gone once it has the lock. */
static void a_repair_that_comes_too_late_does_nothing(void **state) {
    tenmap_error error = {0};
    uint32_t how = TENMAP_REPAIR_UNDONE;
    prepare_meanwhile(*state, &scenarios[1]);
    snprintf(ended_record, sizeof ended_record, "%s", in_folder(state, record_name));
    write_text(ended_record, "of an edit that ends now");
    faults.opening = end_the_edit;
    tenmap_status status = tenmap_repair_metadata(meanwhile_path, 0, &how, &error);
    faults_reset();
    if (status != TENMAP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(how, TENMAP_REPAIR_NOTHING);
}

/* Renames another file to the model's path while the opening takes place. */
static void swap_for_a_moment(bool before) {
    char away[4300];
    snprintf(away, sizeof away, "%s.away", meanwhile_path);
    if (before) {
        assert_int_equal(rename(meanwhile_path, away), 0);
        assert_int_equal(rename(meanwhile_aside, meanwhile_path), 0);
    } else {
        assert_int_equal(rename(meanwhile_path, meanwhile_aside), 0);
        assert_int_equal(rename(away, meanwhile_path), 0);
    }
}

static void an_edit_in_place_changes_the_file_it_locked(void **state) {
    meanwhile_result got = {0};
    prepare_meanwhile(*state, &scenarios[1]);
    bytes model = read_whole(meanwhile_path);
    write_file(meanwhile_aside, meanwhile_bytes.at, meanwhile_bytes.size);
    faults.opening = swap_for_a_moment;
    got.status = edit_in_place(*state, NEW, &got.error);
    faults_reset();
    bytes there = read_whole(meanwhile_aside);
    if (memcmp(there.at, meanwhile_bytes.at, there.size) != 0)
        fail_msg("the header of another file was changed");
    free(there.at);
    there = read_whole(meanwhile_path);
    assert_memory_equal(there.at, model.at, model.size);
    refused_meanwhile(&got, "another program has just replaced the file");
    assert_int_equal(count_files(*state), 2);
    free(there.at);
    free(model.at);
}

/* Rights: only users who could read the model can read what an edit creates. */

enum { OWNER = 54321 };
static size_t records_seen;

/* Checks the record, if there is one at this moment. */
static void look_at_the_record(void) {
    char record[4300];
    struct stat st;
    snprintf(record, sizeof record, "%.*s/.model.safetensors.tenmap-undo",
             (int)(strrchr(meanwhile_path, '/') - meanwhile_path), meanwhile_path);
    if (lstat(record, &st) != 0)
        return;
    records_seen++;
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_uid, getuid() == 0 ? OWNER : getuid());
}

static void prepare_secret(const char *folder, const struct scenario *s) {
    prepare_meanwhile(folder, s);
    assert_int_equal(chmod(meanwhile_path, 0600), 0);
    if (getuid() == 0)
        assert_int_equal(chown(meanwhile_path, OWNER, OWNER), 0);
    faults_reset();
}

static void an_edit_keeps_a_secret_model_secret(void **state) {
    mode_t mask = umask(0);
    for (size_t i = 1; i < 4; i++) {
        const struct scenario *s = &scenarios[i];
        prepare_secret(*state, s);
        faults.recording = faults.armed = true;
        assert_int_equal(s->change(*state, NEW, NULL), TENMAP_OK);
        for (size_t k = 0; k < faults.event_count; k++)
            if (faults.events[k].call == FAULT_CREATE && (faults.events[k].mode & 0077))
                fail_msg("%s: %s is created with mode %03o", s->what, faults.events[k].name,
                         (unsigned)faults.events[k].mode);
    }
    bool more = true;
    for (long at = 0; more; at++) {
        prepare_secret(*state, &scenarios[1]);
        faults.meanwhile = look_at_the_record;
        faults.meanwhile_at = at;
        faults.armed = true;
        assert_int_equal(scenarios[1].change(*state, NEW, NULL), TENMAP_OK);
        more = faults.count > at;
    }
    faults_reset();
    assert_true(records_seen > 3);
    (void)umask(mask);
}

/* Real file systems, if this machine can make them. */

static bool mount_image(void **state, const char *make, const char *size, char *mounted,
                        size_t room) {
    char command[16384];
    const char *image = in_folder(state, "image");
    snprintf(mounted, room, "%s/mounted", (const char *)*state);
    if (getuid() != 0 || mkdir(mounted, 0777) != 0)
        return false;
    snprintf(command, sizeof command,
             "truncate -s %s %s && %s %s >/dev/null 2>&1 && mount -o loop %s %s 2>/dev/null && "
             "rm -rf %s/lost+found",
             size, image, make, image, image, mounted, mounted);
    return system(command) == 0;
}

static void unmount(const char *mounted) {
    char command[8192];
    snprintf(command, sizeof command, "umount %s", mounted);
    assert_int_equal(system(command), 0);
}

/* Space for the model and a little more, less each time, until not even the temporary file fits. */
static void a_small_disk_fills_up(void **state) {
    char mounted[4096], filler[4200];
    size_t full = 0, tried = 0;
    if (!mount_image(state, "mkfs.ext4 -q -b 1024 -O ^has_journal", "1M", mounted,
                     sizeof mounted)) {
        print_message("SKIPPED: no root, no mkfs.ext4 or no loop device: full disk not tried\n");
        return;
    }
    snprintf(filler, sizeof filler, "%s/filler", mounted);
    faults.real_sync = true;
    for (size_t s = 0; s < COUNT(scenarios); s++)
        for (size_t room = 0; room < 40; room += 2) {
            bool repaired;
            tenmap_error e = {0};
            prepare(mounted, &scenarios[s]);
            FILE *f = fopen(filler, "wb");
            static char kilobyte[1024];
            setvbuf(f, NULL, _IONBF, 0);
            size_t filled = 0;
            while (fwrite(kilobyte, 1, sizeof kilobyte, f) == sizeof kilobyte)
                filled++;
            fclose(f);
            if (truncate(filler, (off_t)((filled - room) * 1024)) != 0)
                fail_msg("cannot make room");
            tenmap_status status = scenarios[s].change(mounted, NEW, &e);
            assert_true(status == TENMAP_OK || status == TENMAP_ERR_NO_SPACE);
            full += status != TENMAP_OK;
            tried++;
            int version = judge(mounted, &scenarios[s], &repaired);
            assert_int_equal(version, status == TENMAP_OK ? NEW : OLD);
            assert_int_equal(unlink(filler), 0);
            check_next(mounted, &scenarios[s]);
        }
    faults.real_sync = false;
    unmount(mounted);
    print_message("           %zu changes, %zu met a full disk\n", tried, full);
    assert_true(full > 20);
}

static void a_kill_on_a_file_system_with_reflinks(void **state) {
    char mounted[4096];
    if (!mount_image(state, "mkfs.xfs -q -m reflink=1", "320M", mounted, sizeof mounted)) {
        print_message("SKIPPED: no root, no mkfs.xfs or no loop device: reflinks not tried\n");
        return;
    }
    kill_in(mounted, &scenarios[2]);
    fail_in(mounted, &scenarios[2], ENOSPC);
    unmount(mounted);
}

static void an_edit_by_clone_notices_a_changed_source(void **state) {
    char mounted[4096];
    if (!mount_image(state, "mkfs.xfs -q -m reflink=1", "320M", mounted, sizeof mounted)) {
        print_message("SKIPPED: no root, no mkfs.xfs or no loop device: reflinks not tried\n");
        return;
    }
    check_changed_source(mounted, &scenarios[2]);
    unmount(mounted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(short_and_interrupted_writes_go_on, empty_folder),
        cmocka_unit_test_setup(another_working_directory_at_any_call_misleads_nothing,
                               empty_folder),
        cmocka_unit_test_setup(a_kill_leaves_one_whole_model, empty_folder),
        cmocka_unit_test_setup(a_full_disk_at_any_call_loses_nothing, empty_folder),
        cmocka_unit_test_setup(a_failing_disk_at_any_call_loses_nothing, empty_folder),
        cmocka_unit_test_setup(a_loss_of_power_leaves_one_whole_model, empty_folder),
        cmocka_unit_test_setup(a_newer_file_is_not_replaced_by_an_edit, empty_folder),
        cmocka_unit_test_setup(an_edit_by_copy_notices_a_changed_source, empty_folder),
        cmocka_unit_test_setup(an_edit_in_place_changes_the_file_it_locked, empty_folder),
        cmocka_unit_test_setup(the_record_of_another_edit_stays, empty_folder),
        cmocka_unit_test_setup(a_repair_that_comes_too_late_does_nothing, empty_folder),
        cmocka_unit_test_setup(an_edit_keeps_a_secret_model_secret, empty_folder),
        cmocka_unit_test_setup(a_small_disk_fills_up, empty_folder),
        cmocka_unit_test_setup(a_kill_on_a_file_system_with_reflinks, empty_folder),
        cmocka_unit_test_setup(an_edit_by_clone_notices_a_changed_source, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
