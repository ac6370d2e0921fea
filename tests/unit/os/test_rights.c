/*
 * Replacing a file gives nobody rights that the old file did not give, and only regular files are
 * replaced. POSIX only; tests that need the superuser or access control lists are reported as
 * skipped without them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#endif

enum { USER = 12345, GROUP = 12346, LOST_GROUP = 54321, NAMED = 777 };

static tenmap_status write_model_at(const char *path, uint32_t flags, tenmap_error *e) {
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    tenmap_writer *w = NULL;
    options.flags = flags;
    tenmap_status status = tenmap_writer_create(path, &options, &w, e);
    const uint64_t shape[] = {1};
    if (status == TENMAP_OK)
        status = tenmap_writer_add(w, "t", TENMAP_CSTR, TENMAP_U8, shape, 1, NULL, e);
    if (status == TENMAP_OK)
        status = tenmap_writer_write(w, 0, 0, "x", 1, e);
    if (status == TENMAP_OK)
        return tenmap_writer_commit(w, e);
    tenmap_writer_abort(w);
    return status;
}

static tenmap_status edit_model_at(const char *path, tenmap_error *e) {
    tenmap_edit edit = {"key", TENMAP_CSTR, "value", TENMAP_CSTR, NULL};
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    options.flags = TENMAP_EDIT_NO_IN_PLACE;
    return tenmap_edit_metadata(path, &edit, 1, &options, NULL, e);
}

static tenmap_status rename_model_at(const char *path, tenmap_error *e) {
    tenmap_renaming name = {"t", TENMAP_CSTR, "u", TENMAP_CSTR};
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    options.flags = TENMAP_EDIT_NO_IN_PLACE;
    return tenmap_rename(path, &name, 1, NULL, 0, &options, NULL, e);
}

/* The ways to replace a file. */
enum { BY_WRITING, BY_EDIT, BY_RENAMING, WAYS };

static tenmap_status replace_at(const char *path, int way, tenmap_error *e) {
    return way == BY_EDIT       ? edit_model_at(path, e)
           : way == BY_RENAMING ? rename_model_at(path, e)
                                : write_model_at(path, 0, e);
}

/*
 * Replaces m.safetensors as a user without rights or other groups; returns the user's status. Works
 * from inside the folder, because the user may not be able to reach it.
 */
static int replace_as(const char *folder, int way) {
    const char *path = "m.safetensors";
    pid_t child = fork();
    if (child == 0) {
        tenmap_error e = {0};
        if (chdir(folder) != 0 || setgroups(0, NULL) != 0 || setgid(GROUP) != 0 ||
            setuid(USER) != 0)
            _exit(99);
        tenmap_status status = replace_at(path, way, &e);
        if (status != TENMAP_OK)
            fprintf(stderr, "%s\n", e.message);
        _exit((int)status);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static void a_group_that_cannot_be_kept_leaves_its_rights_to_nobody(void **state) {
    static const struct {
        mode_t before, after;
    } modes[] = {{0640, 0600}, {0660, 0600}, {0664, 0644},
                 {0604, 0600}, {0644, 0644}, {0600, 0600}};
    const char *path = in_folder(state, "m.safetensors");
    if (getuid() != 0) {
        print_message("SKIPPED: not the superuser: no second user to replace files as\n");
        return;
    }
    assert_int_equal(chmod(*state, 0777), 0);
    for (size_t i = 0; i < WAYS * COUNT(modes); i++) {
        struct stat st;
        assert_int_equal(write_model_at(path, 0, NULL), TENMAP_OK);
        assert_int_equal(chown(path, USER, LOST_GROUP), 0);
        assert_int_equal(chmod(path, modes[i / WAYS].before), 0);
        assert_int_equal(replace_as(*state, (int)(i % WAYS)), TENMAP_OK);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_uid, USER);
        assert_int_equal(st.st_gid, GROUP);
        if ((st.st_mode & 0777) != modes[i / WAYS].after)
            fail_msg("mode %o of a group that is lost became %o", (unsigned)modes[i / WAYS].before,
                     (unsigned)st.st_mode & 0777);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(chmod(*state, 0700), 0);
}

#ifdef __linux__

/* As the kernel stores a list: version 2, then tag, rights and id of each entry, little-endian. */
typedef struct acl_bytes {
    unsigned char at[4 + 8 * 5];
    size_t size;
} acl_bytes;

enum { ACL_OWNER = 1, ACL_USER = 2, ACL_GROUP = 4, ACL_MASK = 16, ACL_OTHER = 32 };

static void acl_entry(acl_bytes *acl, unsigned tag, unsigned rights, uint32_t id) {
    unsigned char *e = acl->at + acl->size;
    e[0] = (unsigned char)tag;
    e[1] = 0;
    e[2] = (unsigned char)rights;
    e[3] = 0;
    for (int i = 0; i < 4; i++)
        e[4 + i] = (unsigned char)(id >> (8 * i));
    acl->size += 8;
}

/* The owner reads and writes, the named user reads, the group and others do nothing. */
static acl_bytes acl_for_named(void) {
    acl_bytes acl = {.at = {2, 0, 0, 0}, .size = 4};
    acl_entry(&acl, ACL_OWNER, 6, UINT32_MAX);
    acl_entry(&acl, ACL_USER, 4, NAMED);
    acl_entry(&acl, ACL_GROUP, 0, UINT32_MAX);
    acl_entry(&acl, ACL_MASK, 4, UINT32_MAX);
    acl_entry(&acl, ACL_OTHER, 0, UINT32_MAX);
    return acl;
}

static bool set_list(const char *path, const char *kind) {
    acl_bytes acl = acl_for_named();
    if (setxattr(path, kind, acl.at, acl.size, 0) == 0)
        return true;
    print_message("SKIPPED: no access control lists in %s\n", path);
    return false;
}

static mode_t mode_at(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

/*
 * With an access control list, the group's rights in the mode are the list's mask: without the list
 * the group would get them.
 */
static void a_list_of_rights_is_kept(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    acl_bytes before = acl_for_named();
    unsigned char after[sizeof before.at + 8];
    for (int way = 0; way < WAYS; way++) {
        assert_int_equal(write_model_at(path, 0, NULL), TENMAP_OK);
        if (!set_list(path, "system.posix_acl_access"))
            return;
        assert_int_equal(mode_at(path), 0640);
        assert_int_equal(replace_at(path, way, NULL), TENMAP_OK);
        ssize_t size = getxattr(path, "system.posix_acl_access", after, sizeof after);
        if (size != (ssize_t)before.size || memcmp(after, before.at, before.size) != 0)
            fail_msg("the list is gone, and the mode is %o", (unsigned)mode_at(path));
        assert_int_equal(mode_at(path), 0640);
    }
}

/*
 * The folder's default list applies to new files: a file that had none must not be replaced by one
 * that has.
 */
static void a_folders_list_adds_nobody_to_a_replaced_file(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    char list[64];
    assert_int_equal(write_model_at(path, 0, NULL), TENMAP_OK);
    assert_int_equal(chmod(path, 0640), 0);
    if (!set_list(*state, "system.posix_acl_default"))
        return;
    assert_int_equal(write_model_at(path, 0, NULL), TENMAP_OK);
    assert_int_equal(mode_at(path), 0640);
    if (getxattr(path, "system.posix_acl_access", list, sizeof list) >= 0)
        fail_msg("the folder's list names a reader whom the file before did not have");
    assert_int_equal(removexattr(*state, "system.posix_acl_default"), 0);
}

/* The list's own group then differs, so only the owner keeps rights. */
static void a_list_of_a_group_that_is_lost_gives_nothing(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    if (getuid() != 0) {
        print_message("SKIPPED: not the superuser: no second user to replace files as\n");
        return;
    }
    assert_int_equal(chmod(*state, 0777), 0);
    assert_int_equal(write_model_at(path, 0, NULL), TENMAP_OK);
    assert_int_equal(chown(path, USER, LOST_GROUP), 0);
    if (set_list(path, "system.posix_acl_access")) {
        assert_int_equal(replace_as(*state, false), TENMAP_OK);
        assert_int_equal(mode_at(path), 0600);
    }
    assert_int_equal(chmod(*state, 0700), 0);
}
#endif

/* Not replaced: pipes, sockets, devices. */

static void refused_as_no_file(void **state, const char *path, uint32_t flags, const char *there) {
    struct stat before, after;
    tenmap_error e = {0};
    assert_int_equal(lstat(there, &before), 0);
    size_t names = count_names(*state);
    tenmap_status status = write_model_at(path, flags, &e);
    assert_int_equal(lstat(there, &after), 0);
    if (status == TENMAP_OK || after.st_mode != before.st_mode || after.st_ino != before.st_ino)
        fail_msg("%s was replaced by a file", path);
    check_error(&e, TENMAP_ERR_ARGUMENT);
    if (!strstr(e.message, "not a regular file"))
        fail_msg("message is: %s", e.message);
    assert_int_equal(count_names(*state), names);
}

static void what_is_no_file_is_not_replaced(void **state) {
    char fifo[4200], link_path[4200];
    snprintf(fifo, sizeof fifo, "%s", in_folder(state, "fifo"));
    snprintf(link_path, sizeof link_path, "%s", in_folder(state, "link"));
    assert_int_equal(mkfifo(fifo, 0600), 0);
    refused_as_no_file(state, fifo, 0, fifo);
    assert_int_equal(symlink("fifo", link_path), 0);
    refused_as_no_file(state, link_path, TENMAP_WRITER_FOLLOW_LINKS, fifo);
    /* Without FOLLOW_LINKS a link itself is replaced, whatever it points to. */
    assert_int_equal(write_model_at(link_path, 0, NULL), TENMAP_OK);
    struct stat st;
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(lstat(fifo, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));

    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const char *path = in_folder(state, "socket");
    if (fd >= 0 && strlen(path) < sizeof name.sun_path) {
        strcpy(name.sun_path, path);
        assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
        refused_as_no_file(state, path, 0, path);
    }
    close(fd);
#ifdef __linux__
    path = in_folder(state, "null");
    if (mknod(path, S_IFCHR | 0666, makedev(1, 3)) == 0)
        refused_as_no_file(state, path, 0, path);
    else
        print_message("SKIPPED: not the superuser: no device to write to\n");
#endif
}

/* A save checks all names that it may use before it writes. */
static void a_save_replaces_nothing_but_files(void **state) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "model-00001-of-00002.safetensors"};
    static const uint64_t shape[1] = {4};
    tenmap_source sources[2];
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    options.max_shard_bytes = 4;
    for (size_t i = 0; i < 2; i++)
        sources[i] = (tenmap_source){.name = &"ab"[i],
                                     .name_len = 1,
                                     .dtype = TENMAP_U8,
                                     .shape = shape,
                                     .rank = 1,
                                     .data = "data"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct stat st;
        tenmap_error e = {0};
        const char *path = in_folder(state, names[i]);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(tenmap_save_sharded(*state, sources, 2, &options, &e),
                         TENMAP_ERR_ARGUMENT);
        if (!strstr(e.message, names[i]) || !strstr(e.message, "not a regular file"))
            fail_msg("message is: %s", e.message);
        assert_int_equal(lstat(path, &st), 0);
        assert_true(S_ISFIFO(st.st_mode));
        assert_int_equal(count_names(*state), 1);
        assert_int_equal(unlink(path), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_group_that_cannot_be_kept_leaves_its_rights_to_nobody,
                               empty_folder),
#ifdef __linux__
        cmocka_unit_test_setup(a_list_of_rights_is_kept, empty_folder),
        cmocka_unit_test_setup(a_folders_list_adds_nobody_to_a_replaced_file, empty_folder),
        cmocka_unit_test_setup(a_list_of_a_group_that_is_lost_gives_nothing, empty_folder),
#endif
        cmocka_unit_test_setup(what_is_no_file_is_not_replaced, empty_folder),
        cmocka_unit_test_setup(a_save_replaces_nothing_but_files, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
