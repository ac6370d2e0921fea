/*
 * The operating system: files, mappings, folders, threads. Only the file*.c sources and
 * replace_mapping.c know which system this is: names with _win32 are for Windows, the others are
 * POSIX or portable.
 */
#ifndef TENMAP_OS_H
#define TENMAP_OS_H

#include "../base/base.h"

/* file.c, or file_win32.c: files for reading. The portable part is in file_common.c. */

enum { TMI_FILE_REGULAR, TMI_FILE_FOLDER, TMI_FILE_OTHER };

/* An open file, or memory that acts as one. Close with tmi_file_close. */
typedef struct tmi_file {
    int fd;                      /* -1 for memory */
    int kind;                    /* TMI_FILE_* */
    const unsigned char *memory; /* borrowed; NULL for a real file */
    uint64_t memory_at;          /* the file offset of its first byte */
    uint64_t size;               /* of the whole file, when it was opened */
    /*
     * mtime: the modification time when opened, in seconds and nanoseconds (other units on
     * Windows). ctime: the time of the last change of any kind, including name and mode; 0 if
     * there is none.
     */
    int64_t mtime[2];
    int64_t ctime[2];
    bool copy_on_write; /* tmi_file_map makes a private, writable mapping */
    void *map;          /* the mapping made by tmi_file_map, or NULL */
    size_t map_size;
    uint64_t map_offset; /* file offset of the mapping, a multiple of the page size */
} tmi_file;

/*
 * A folder that was looked up once. Changing the working directory does not affect later uses;
 * neither does renaming the folder, on systems where files are opened relative to a descriptor.
 */
typedef struct tmi_folder {
    char *path; /* absolute path on Windows, where files are opened by path; elsewhere NULL */
    int fd;     /* the folder; on Windows the lock file, or -1 */
} tmi_folder;

#define TMI_NO_FOLDER ((tmi_folder){NULL, -1})

/*
 * These return 0 or an errno. Only a regular file keeps its descriptor: a folder opens as
 * TMI_FILE_FOLDER and anything else as TMI_FILE_OTHER, both with fd -1.
 */
int tmi_file_open(tmi_file *file, const char *path);
int tmi_file_open_in(tmi_file *file, const tmi_folder *folder, const char *name);
int tmi_file_dup(tmi_file *file, int fd);
void tmi_file_memory(tmi_file *file, const void *bytes, size_t size);
void tmi_file_close(tmi_file *file);
/* Reads until `size` bytes or the end of the file; *got is the number of bytes read. */
int tmi_file_read(const tmi_file *file, uint64_t offset, void *dst, size_t size, size_t *got);
/* Reads once, as much as the system returns; *got is 0 at the end of the file. */
int tmi_fd_read(int fd, uint64_t offset, void *dst, size_t size, size_t *got);
/*
 * Maps [offset, offset+size), read-only unless file->copy_on_write; *base is the address of the
 * byte at offset.
 */
int tmi_file_map(tmi_file *file, uint64_t offset, uint64_t size, const unsigned char **base);

/*
 * Whether the file's size or modification time differs from when it was opened. *size_now (may be
 * NULL) receives the current size. The system updates both before changed bytes can be read, so if
 * this returns false, all bytes read earlier are those of the file as it was opened.
 */
bool tmi_file_changed(const tmi_file *file, uint64_t *size_now);
/*
 * Updates size and both times in *file, and returns whether they are unchanged. Stricter than
 * tmi_file_changed and meant for the moment of opening: later, a rename of the file does not
 * matter.
 */
bool tmi_file_refresh(tmi_file *file);
/*
 * Whether another program holds the file's edit lock (see tmi_fd_lock). The check takes a shared
 * lock briefly, so an editor that asks for the lock at that moment can be refused: call it only if
 * an edit is likely in progress. `path` is the file's path, or NULL.
 */
bool tmi_file_locked(const tmi_file *file, const char *path);
/* Removes the mapping, if there is one. */
void tmi_file_unmap(tmi_file *file);

/*
 * replace_mapping.c: replaces a file mapping with memory, chunk by chunk, while others read it.
 *
 * A replacement is as long as the mapping of its file and has the same position within a huge page,
 * so bytes placed at tmi_replacement_at end up where they belong. It reserves addresses; it uses
 * memory only for what is written to it.
 */
typedef struct tmi_replacement {
    unsigned char *memory;
} tmi_replacement;

/* These return 0 or an errno; ENOTSUP if the system cannot move pages. */
int tmi_replacement_reserve(tmi_replacement *replacement, const tmi_file *file);
/* The address in the replacement of the byte at this file offset. */
unsigned char *tmi_replacement_at(const tmi_replacement *replacement, const tmi_file *file,
                                  uint64_t offset);
/*
 * Moves the replacement's pages for [begin, end), whole pages, over the mapping. A reader sees the
 * file's bytes before and the replacement's bytes after, and nothing in between. If it fails, the
 * mapping is unchanged.
 */
int tmi_replacement_install(tmi_replacement *replacement, const tmi_file *file, uint64_t begin,
                            uint64_t end);
/* Frees the replacement's pages for [begin, end), which must not have been moved. */
void tmi_replacement_discard(tmi_replacement *replacement, const tmi_file *file, uint64_t begin,
                             uint64_t end);
/* Call when the whole mapping was replaced: *file becomes memory, and its descriptor is closed. */
void tmi_file_become_memory(tmi_file *file);

/*
 * fork_rwlock.c: a reader-writer lock that survives fork. A reader may lock it again. It is never
 * held for long, so waiting threads poll every millisecond. In a child of fork it is unlocked,
 * whoever held it. Starts as all zeros; nothing needs to be freed.
 */
typedef struct tmi_rwlock {
    /*
     * Upper half: the process whose threads hold the lock. Lower half: how many readers, or the
     * writer bit.
     */
    _Alignas(8) _Atomic uint64_t state;
} tmi_rwlock;

void tmi_rwlock_read(tmi_rwlock *lock);
void tmi_rwlock_read_end(tmi_rwlock *lock);
/* Exclusive: waits until all readers and any writer have left. */
void tmi_rwlock_write(tmi_rwlock *lock);
void tmi_rwlock_write_end(tmi_rwlock *lock);

/*
 * Opens the same file a second time for reads that bypass the page cache. Returns the descriptor,
 * or -1; close it with tmi_direct_close. Offset, address and size of such reads are multiples of
 * TMI_DIRECT_ALIGN.
 */
enum { TMI_DIRECT_ALIGN = 4096 };
int tmi_direct_open(const tmi_file *file);
void tmi_direct_close(int fd);
int tmi_file_read_direct(int fd, uint64_t offset, void *dst, size_t size, size_t *got);

/*
 * The pages of a mapping. [begin, end) are file offsets inside the mapping, multiples of the page
 * size. These return 0 or an errno.
 */
static inline void *tmi_map_address(const tmi_file *file, uint64_t offset) {
    return (char *)file->map + (offset - file->map_offset);
}
/*
 * Reads the pages into memory. EFAULT if the file no longer has these bytes or its storage cannot
 * be read.
 */
int tmi_map_populate(const tmi_file *file, uint64_t begin, uint64_t end);
/*
 * Does this with one system call. ENOTSUP if the system cannot, or if the pages must also be
 * touched.
 */
int tmi_map_populate_at_once(const tmi_file *file, uint64_t begin, uint64_t end);
int tmi_map_release(const tmi_file *file, uint64_t begin, uint64_t end);
/*
 * Locks pages in memory. Pages that are absent are locked as they are read in: the caller must
 * populate them.
 */
int tmi_map_lock(const tmi_file *file, uint64_t begin, uint64_t end);
int tmi_map_unlock(const tmi_file *file, uint64_t begin, uint64_t end);
/*
 * How many bytes a process may lock; UINT64_MAX if unlimited. *remedy says how to raise the limit.
 */
uint64_t tmi_lock_limit(const char **remedy);
/* How many bytes of the page at `at`, `page` bytes long, are inside [begin, end). */
static inline uint64_t tmi_page_overlap(uint64_t at, uint64_t page, uint64_t begin, uint64_t end) {
    uint64_t from = at > begin ? at : begin, to = at + page < end ? at + page : end;
    return to > from ? to - from : 0;
}
/*
 * How many of these bytes are currently mapped to physical pages. ENOTSUP if the system cannot
 * tell.
 */
int tmi_memory_mapped(const void *at, size_t size, uint64_t *bytes);
/*
 * How many bytes of [begin, end) of the file, not necessarily page-aligned, are in the page cache.
 */
int tmi_file_cached(const tmi_file *file, uint64_t begin, uint64_t end, uint64_t *bytes);

/* Calls `entry` with each name in a folder except "." and ".."; stops early if it returns false. */
int tmi_folder_list(const char *path, bool (*entry)(void *ctx, const char *name), void *ctx);
int tmi_folder_list_in(const tmi_folder *folder, bool (*entry)(void *ctx, const char *name),
                       void *ctx);
/* Whether the path exists and is a folder. */
bool tmi_is_folder(const char *path);

/* How many processors this process may use. */
unsigned tmi_cpu_count(void);

/* The process ID, which differs in a child of fork. */
long tmi_process(void);
void tmi_sleep_ms(unsigned milliseconds);

/*
 * Starts a library thread. It blocks all signals except those that its own actions can raise, such
 * as SIGBUS. Returns 0 or an errno; join with pthread_join.
 */
int tmi_thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx);

/* file_names.c: paths and file names. */

/* Whether this character separates the parts of a path. */
bool tmi_is_separator(char c);
/* The length of the path's folder part, separator included; 0 if it has none. */
size_t tmi_folder_part(const char *path);
/* The folder that contains the path, "." if it names none; NULL if memory runs out. */
char *tmi_folder_of(const char *path);
/*
 * The path of `name` in the folder, which is a path or empty (the current folder). NULL if memory
 * runs out.
 */
char *tmi_join_path(const char *folder, size_t folder_len, const char *name, size_t name_len);
/* Whether Windows treats the name as a device, a stream, a pattern or a different name. */
bool tmi_is_windows_reserved(const char *name, size_t len);
/* Whether this system treats the name, which has no separators, as the name of a plain file. */
bool tmi_is_plain_name(const char *name, size_t len);

/* file_write.c, or file_write_win32.c: files for writing. */

enum { TMI_NAME_BYTES = 256 };

/* Also used by readers. */

/*
 * Resolves the symbolic links of a path that exists; otherwise returns a copy of the path. NULL if
 * memory runs out.
 */
char *tmi_resolve(const char *path);
/* Whether the path exists, even as a dangling link. */
bool tmi_exists(const char *path);

#ifndef TENMAP_NO_WRITE

/* Functions below that return an int return 0 or an errno. */

int tmi_folder_open(tmi_folder *folder, const char *path);
/* EWOULDBLOCK if another program holds the lock. Closing the folder releases it. */
int tmi_folder_lock(tmi_folder *folder);
int tmi_folder_sync(const tmi_folder *folder);
void tmi_folder_close(tmi_folder *folder);

/*
 * The folder and name that a path led to when first used. The path is not looked up again
 * afterwards.
 */
typedef struct tmi_location {
    tmi_folder folder;
    char *name;  /* in the folder; "." if the path ends in a separator */
    char *shown; /* the path, for error messages */
} tmi_location;

#define TMI_NO_LOCATION ((tmi_location){{NULL, -1}, NULL, NULL})

/* `follow`: if the path is a symbolic link to something that exists, finds the link's target. */
int tmi_location_find(tmi_location *location, const char *path, bool follow);
void tmi_location_free(tmi_location *location);

/*
 * A file that appears at its location complete or not at all. Until then it has a temporary name in
 * the same folder, and a lock that shows that its writer is alive.
 */
typedef struct tmi_atomic_file {
    tmi_location location;
    char temp[TMI_NAME_BYTES];
    int fd;
    /*
     * The file that must be at the location, unchanged since it was opened; NULL: any file, or
     * none.
     */
    const tmi_file *expected;
} tmi_atomic_file;

#define TMI_NO_ATOMIC_FILE ((tmi_atomic_file){.location = {{NULL, -1}, NULL, NULL}, .fd = -1})

/* Returned by tmi_atomic_file_begin* if a device, a pipe or a socket is at the location. */
enum { TMI_NOT_A_FILE = -2 };
/* Returned by a commit if another program replaced or changed the file target->expected. */
enum { TMI_NOT_AS_OPENED = -1 };

/*
 * Creates the temporary file. If it will replace a file, it gets that file's mode, its access
 * control list and, where permitted, its owner; it never grants rights to users who had none.
 * Otherwise it has the attributes of any newly created file. Folders, devices, pipes and sockets
 * are never replaced. Also removes temporary files that dead writers of the same path left there.
 */
int tmi_atomic_file_begin(tmi_atomic_file *target, const char *path, bool follow);
/*
 * Like tmi_atomic_file_begin, for a name in a folder that stays the caller's. `shown` is for error
 * messages. `like` is a descriptor of the file whose mode and owner the new file gets; -1: those of
 * the file that it will replace.
 */
int tmi_atomic_file_begin_in(tmi_atomic_file *target, const tmi_folder *folder, const char *name,
                             const char *shown, int like);
/*
 * Syncs the file and renames it into place. *replaced says whether the path now leads to the new
 * file; only a return of 0 means that this is durable. target->expected is checked right before the
 * rename, after the sync, which can take long. Ends *target in every case.
 */
int tmi_atomic_file_commit(tmi_atomic_file *target, bool *replaced);
void tmi_atomic_file_discard(tmi_atomic_file *target);

/* Removes a temporary file if its writer is dead. */
void tmi_remove_if_stale(const tmi_folder *folder, const char *name);

/* Allocates disk space, so that a full disk is detected before hours of writing. */
int tmi_fd_reserve(int fd, uint64_t size);
/* Retries after interruptions and short writes. */
int tmi_fd_write(int fd, uint64_t offset, const void *src, size_t size);
int tmi_fd_sync(int fd);
/*
 * Copies inside the kernel; *done is the number of bytes copied. EOPNOTSUPP means that the kernel
 * cannot copy between these files: copy the rest another way. A return of 0 with *done < size means
 * that the source is shorter.
 */
int tmi_fd_copy(int from, uint64_t from_at, int to, uint64_t to_at, uint64_t size, uint64_t *done);
/*
 * Shares the storage of [from_at, from_at + size) of a file. All three numbers are multiples of
 * tmi_fd_block, except that size may reach to the end of the file.
 */
int tmi_fd_clone(int from, uint64_t from_at, int to, uint64_t to_at, uint64_t size);
/* The block size in bytes for tmi_fd_clone. */
uint64_t tmi_fd_block(int fd);

/* Identifies a file that is to be changed in place. */
typedef struct tmi_identity {
    uint64_t device, inode, size, links;
    bool regular;
} tmi_identity;

int tmi_fd_identity(int fd, tmi_identity *identity);
/* Opens a file for reading and writing without following a link at the last component. */
int tmi_fd_open_write(const tmi_folder *folder, const char *name, int *fd);
/* The same, for reading only. Never blocks, whatever is there. */
int tmi_fd_open_read(const tmi_folder *folder, const char *name, int *fd);
/*
 * Whether the owner of fd's file is trusted for the file `other`: the owner of `other`, the caller
 * or the superuser. *owner is for the error message. Always true on systems where owners are not
 * checked.
 */
bool tmi_fd_owner_is_trusted(int fd, int other, uint64_t *owner);
/* EWOULDBLOCK if another program holds the lock. Closing the descriptor releases it. */
int tmi_fd_lock(int fd);
void tmi_fd_close(int fd);
/* Whether the name still leads to the open file, directly or through links. */
bool tmi_fd_is_at(int fd, const tmi_folder *folder, const char *name);
/* Whether the name exists and is neither a regular file, a folder nor a link. */
bool tmi_is_special(const tmi_folder *folder, const char *name);
/*
 * Whether the system reports that no such file exists. False does not prove that the file exists.
 */
bool tmi_is_absent(const tmi_folder *folder, const char *name);
/* Removes a file and syncs the folder; a missing file is not an error. */
int tmi_remove(const tmi_folder *folder, const char *name);
/* The same without the sync. */
int tmi_unlink(const tmi_folder *folder, const char *name);

#endif

/* file_names.c: names of the library's own files. */

/*
 * The name of a companion file of `path`: a dot, the file's name (shortened if too long) and the
 * suffix.
 */
void tmi_sibling_name(char *out, size_t size, const char *path, const char *suffix);
/* The path of that companion file; NULL if memory runs out. */
char *tmi_sibling_path(const char *path, const char *suffix);
/* A new name for a temporary file that will become `path`. */
void tmi_temp_name(char *out, size_t size, const char *path);
/* Calls `found` with the name of each temporary file for `file` in the folder. */
void tmi_each_temp(const tmi_folder *folder, const char *file,
                   void (*found)(const tmi_folder *folder, const char *name));
/* Whether this is the name of a temporary file for a file whose name satisfies is_ours. */
bool tmi_is_temp_of(const char *name, bool (*is_ours)(const char *name));

#endif
