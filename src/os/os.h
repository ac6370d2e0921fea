/*
 * The operating system: files, mappings, folders, threads. The file*.c alone know which one it is
 * (_win32 in a name says which; the others are POSIX, or the same everywhere).
 */
#ifndef TENMAP_OS_H
#define TENMAP_OS_H

#include "../base/base.h"

/*
 * file.c, or file_win32.c: the operating system. The file*.c alone know which one it is; what does
 * not depend on it is in file_common.c.
 */

enum { TMI_FILE_REGULAR, TMI_FILE_FOLDER, TMI_FILE_OTHER };

/* An open file, or bytes in memory that stand for one. Close with tmi_file_close. */
typedef struct tmi_file {
    int fd;                      /* -1 for memory */
    int kind;                    /* TMI_FILE_* */
    const unsigned char *memory; /* borrowed; NULL for a real file */
    uint64_t memory_at;          /* which byte of the file its first one is */
    uint64_t size;               /* of the whole file, when it was opened */
    int64_t modified[2];         /* its time of modification then: seconds, nanoseconds */
    int64_t touched[2];          /* that of any change, its name and mode included; 0 if none */
    void *map;                   /* what tmi_file_map took, or NULL */
    size_t map_size;
    uint64_t map_offset; /* where the mapping starts in the file, a multiple of the page size */
} tmi_file;

/*
 * A folder that was found once: a change of the working directory leads nothing of what follows to
 * another, nor does a rename of the folder where the system works from descriptors.
 */
typedef struct tmi_folder {
    char *path; /* Windows, where files are found by path: absolute. Elsewhere NULL. */
    int fd;     /* the folder; on Windows what locks it, or -1 */
} tmi_folder;

#define TMI_NO_FOLDER ((tmi_folder){NULL, -1})

/* These return 0 or an errno. A folder opens as TMI_FILE_FOLDER with no descriptor kept. */
int tmi_file_open(tmi_file *file, const char *path);
int tmi_file_open_in(tmi_file *file, const tmi_folder *folder, const char *name);
int tmi_file_dup(tmi_file *file, int fd);
void tmi_file_memory(tmi_file *file, const void *bytes, size_t size);
void tmi_file_close(tmi_file *file);
/* Reads until `size` bytes or the end of the file; *got says how many came. */
int tmi_file_read(const tmi_file *file, uint64_t offset, void *dst, size_t size, size_t *got);
/* One read of a descriptor, as much as the system gives; *got is 0 at the end of the file. */
int tmi_fd_read(int fd, uint64_t offset, void *dst, size_t size, size_t *got);
/* Maps [offset, offset+size) for reading; *base is the address of the byte at offset. */
int tmi_file_map(tmi_file *file, uint64_t offset, uint64_t size, const unsigned char **base);

/*
 * Whether the file has another size or time of modification than when it was opened, and which size
 * (may be NULL). Both are set before other bytes can be read, so bytes that were read before this
 * says no are those of the file as it was opened.
 */
bool tmi_file_changed(const tmi_file *file, uint64_t *size_now);
/*
 * Looks again: whether size and both times are as they are in *file, where they are put as they are
 * now. Stricter than tmi_file_changed, for the moment of opening: later on, a file that gets another
 * name is the same to us.
 */
bool tmi_file_look(tmi_file *file);
/*
 * Whether somebody edits the file, as tmi_fd_lock tells. An editor who asks for the lock at this very
 * moment can be refused: for those only who have reason to think that one is there. `path` is that of
 * the file, or NULL.
 */
bool tmi_file_locked(const tmi_file *file, const char *path);
/* Takes back what tmi_file_map did, if it did. */
void tmi_file_unmap(tmi_file *file);

/*
 * replace_mapping.c: memory that takes the place of a mapping, piece by piece, while others read it.
 *
 * A stage is as long as the mapping of its file and has the same place in a huge page, so what is put
 * at tmi_replacement_at lies as it will. It takes addresses, and memory only for what is written to it.
 */
typedef struct tmi_replacement {
    unsigned char *memory;
} tmi_replacement;

/* These return 0 or an errno; ENOTSUP where the system cannot move pages. */
int tmi_replacement_reserve(tmi_replacement *stage, const tmi_file *file);
/* The place for the byte at this offset of the file. */
unsigned char *tmi_replacement_at(const tmi_replacement *stage, const tmi_file *file,
                                  uint64_t offset);
/*
 * Puts what lies on the stage for [begin, end), whole pages, where the mapping is. A reader sees the
 * file's bytes before and the stage's after, and nothing between. If it fails the mapping is as before.
 */
int tmi_replacement_install(tmi_replacement *stage, const tmi_file *file, uint64_t begin,
                            uint64_t end);
/* Gives back the pages for [begin, end), which were not moved. */
void tmi_replacement_discard(tmi_replacement *stage, const tmi_file *file, uint64_t begin,
                             uint64_t end);
/* All of the mapping was replaced: from now on it is memory, and the file is closed. */
void tmi_file_become_memory(tmi_file *file);

/*
 * fork_rwlock.c: a gate for many at a time, or for one alone. Who is inside may enter again. It is never
 * locked for long, so those who wait look again every millisecond; a child of fork finds it empty,
 * whoever was inside. All zeros to begin with, and nothing to free.
 */
typedef struct tmi_rwlock {
    /* The process whose threads are inside, and how many they are. */
    _Alignas(8) _Atomic uint64_t state;
} tmi_rwlock;

void tmi_rwlock_read(tmi_rwlock *gate);
void tmi_rwlock_read_end(tmi_rwlock *gate);
/* Alone: waits until all have left. */
void tmi_rwlock_write(tmi_rwlock *gate);
void tmi_rwlock_write_end(tmi_rwlock *gate);

/*
 * A second descriptor of the same open file that reads around the page cache, or -1; its owner
 * closes it with tmi_direct_close. Offset, address and size of such reads are multiples of
 * TMI_DIRECT_ALIGN.
 */
enum { TMI_DIRECT_ALIGN = 4096 };
int tmi_direct_open(const tmi_file *file);
void tmi_direct_close(int fd);
int tmi_file_read_direct(int fd, uint64_t offset, void *dst, size_t size, size_t *got);

/*
 * The pages of a mapping. [begin, end) are offsets in the file, multiples of the page size, inside
 * the mapping. These return 0 or an errno.
 */
static inline void *tmi_map_address(const tmi_file *file, uint64_t offset) {
    return (char *)file->map + (offset - file->map_offset);
}
/* Brings them in; EFAULT if the file has no such bytes any more, or its storage cannot be read. */
int tmi_map_populate(const tmi_file *file, uint64_t begin, uint64_t end);
/* The same as far as one call of the system does it: ENOTSUP where they must be touched as well. */
int tmi_map_populate_at_once(const tmi_file *file, uint64_t begin, uint64_t end);
int tmi_map_release(const tmi_file *file, uint64_t begin, uint64_t end);
/* What is not in memory is locked as it comes in: the caller sees to that. */
int tmi_map_lock(const tmi_file *file, uint64_t begin, uint64_t end);
int tmi_map_unlock(const tmi_file *file, uint64_t begin, uint64_t end);
/* How much a process may lock; UINT64_MAX if that is not limited. *remedy: how to raise it. */
uint64_t tmi_lock_limit(const char **remedy);
/* How much of the page at `at`, `page` bytes long, is inside [begin, end). */
static inline uint64_t tmi_page_overlap(uint64_t at, uint64_t page, uint64_t begin, uint64_t end) {
    uint64_t from = at > begin ? at : begin, to = at + page < end ? at + page : end;
    return to > from ? to - from : 0;
}
/* How many of these bytes of memory are mapped to pages now. ENOTSUP where nothing tells. */
int tmi_memory_mapped(const void *at, size_t size, uint64_t *bytes);
/* How many bytes [begin, end) of the file, not page-aligned, the page cache has. */
int tmi_file_cached(const tmi_file *file, uint64_t begin, uint64_t end, uint64_t *bytes);

/* Calls `entry` with each name in a folder but "." and ".."; stops early if it returns false. */
int tmi_folder_list(const char *path, bool (*entry)(void *ctx, const char *name), void *ctx);
int tmi_folder_list_in(const tmi_folder *folder, bool (*entry)(void *ctx, const char *name),
                       void *ctx);
/* Whether the path is there and is a folder. */
bool tmi_is_folder(const char *path);

/* How many processors this process may use. */
unsigned tmi_cpu_count(void);

/* Which process this is: another one after fork. */
long tmi_process(void);
void tmi_sleep_ms(unsigned milliseconds);

/*
 * A thread of the library: it blocks all signals but those that it can raise by what it does, as
 * SIGBUS. Returns 0 or an errno; join with pthread_join.
 */
int tmi_thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx);

/* file_names.c: names of files. */

/* Whether a path can end its folder part with this character. */
bool tmi_is_separator(char c);
/* The length of the path's folder part, separator included; 0 if it has none. */
size_t tmi_folder_part(const char *path);
/* The folder that the path is in, "." where it names none; NULL without memory. */
char *tmi_folder_of(const char *path);
/* `name` in the folder, which is empty (the current one) or a path. */
char *tmi_join_path(const char *folder, size_t folder_len, const char *name, size_t name_len);
/* Whether Windows takes a name for a device, a stream, a pattern or another name. */
bool tmi_windows_reserves(const char *name, size_t len);
/* Whether this system takes a name without separators for that of a file. */
bool tmi_names_a_file(const char *name, size_t len);

/* file_write.c, or file_write_win32.c: the operating system, for writing. */

enum { TMI_NAME_ROOM = 256 };

/* For readers, too. */

/* Follows the symbolic links of a path that exists; a copy of the path otherwise. */
char *tmi_resolve(const char *path);
/* Whether something is there, be it a link to nothing. */
bool tmi_exists(const char *path);

#ifndef TENMAP_NO_WRITE

/* Functions that return an int here return 0 or an errno. */

int tmi_folder_open(tmi_folder *folder, const char *path);
/* EWOULDBLOCK if another program holds it. Gone when the folder is closed. */
int tmi_folder_lock(tmi_folder *folder);
int tmi_folder_sync(const tmi_folder *folder);
void tmi_folder_close(tmi_folder *folder);

/* Where a path led when it was first used. Nothing looks the path up again afterwards. */
typedef struct tmi_location {
    tmi_folder folder;
    char *name;  /* in the folder; "." for a path that ends in a separator */
    char *shown; /* the path, for sentences */
} tmi_location;

#define TMI_NO_LOCATION ((tmi_location){{NULL, -1}, NULL, NULL})

/* `follow`: where the path is a symbolic link to something, the site of that. */
int tmi_location_find(tmi_location *site, const char *path, bool follow);
void tmi_location_free(tmi_location *site);

/*
 * A file that is to appear at its site whole or not at all. Until then it has a name of its own in
 * the same folder, and a lock that says that its writer lives.
 */
typedef struct tmi_atomic_file {
    tmi_location site;
    char temp[TMI_NAME_ROOM];
    int fd;
    const tmi_file *over; /* the file that must be at the site, as it was opened; NULL: any */
} tmi_atomic_file;

#define TMI_NO_ATOMIC_FILE ((tmi_atomic_file){.site = {{NULL, -1}, NULL, NULL}, .fd = -1})

/* What beginning returns if a device, a pipe or a socket is there. */
enum { TMI_NOT_A_FILE = -2 };
/* What a commit returns if another program replaced or changed the file that target->over is. */
enum { TMI_NOT_AS_OPENED = -1 };

/*
 * The new file has the mode, the list of rights and, where permitted, the owner of the file that it
 * will replace, and never gives rights to people who had none; a file that replaces nothing is as a
 * plain creation makes it. What is no file is not replaced. Removes temporary files that dead writers
 * of the same path left.
 */
int tmi_atomic_file_begin(tmi_atomic_file *target, const char *path, bool follow);
/*
 * The same for a name in a folder, which stays the caller's. `shown` is for sentences. `like` is open
 * on the file whose mode and owner the new one gets; -1: the one that it will replace.
 */
int tmi_atomic_file_begin_in(tmi_atomic_file *target, const tmi_folder *folder, const char *name,
                             const char *shown, int like);
/*
 * *replaced says whether the path leads to the new file, though 0 alone means that it will last. The
 * last look at target->over is right before the rename, after the sync, which takes its time.
 */
int tmi_atomic_file_commit(tmi_atomic_file *target, bool *replaced);
void tmi_atomic_file_discard(tmi_atomic_file *target);

/* Removes a temporary file if its writer is dead. */
void tmi_remove_if_stale(const tmi_folder *folder, const char *name);

/* Takes the room on the disk, so that a full one is known before hours of writing. */
int tmi_fd_reserve(int fd, uint64_t size);
/* Goes on after interruptions and short writes. */
int tmi_fd_write(int fd, uint64_t offset, const void *src, size_t size);
int tmi_fd_sync(int fd);
/*
 * Copies inside the kernel as much as it will, *done bytes. EOPNOTSUPP: it cannot between these
 * files, go on otherwise. Returning 0 with *done < size means that the source is shorter.
 */
int tmi_fd_copy(int from, uint64_t from_at, int to, uint64_t to_at, uint64_t size, uint64_t *done);
/* Shares [from_at, from_at + size) of a file; all three multiples of *block, or size to the end. */
int tmi_fd_clone(int from, uint64_t from_at, int to, uint64_t to_at, uint64_t size);
/* The unit in which files can be shared. */
uint64_t tmi_fd_block(int fd);

/* What must hold for a file to be changed where it lies. */
typedef struct tmi_identity {
    uint64_t device, inode, size, links;
    bool regular;
} tmi_identity;

int tmi_fd_identity(int fd, tmi_identity *identity);
/* Opens a file for reading and writing, without following a link in its last part. */
int tmi_fd_open_write(const tmi_folder *folder, const char *name, int *fd);
/* The same for reading alone. Does not wait, whatever is there. */
int tmi_fd_open_read(const tmi_folder *folder, const char *name, int *fd);
/*
 * Whether a file is of somebody who answers for another one: its owner, the caller or the superuser.
 * *owner is for the error. Always true where the system does not tell.
 */
bool tmi_fd_owner_answers(int fd, int other, uint64_t *owner);
/* EWOULDBLOCK if another program holds it. Gone with the descriptor. */
int tmi_fd_lock(int fd);
void tmi_fd_close(int fd);
/* Whether the name still leads to the open file, itself or through links. */
bool tmi_fd_is_at(int fd, const tmi_folder *folder, const char *name);
/* Whether something is there that is neither a file nor a folder nor a link. */
bool tmi_is_special(const tmi_folder *folder, const char *name);
/* Whether the system knows that there is no such file; where it cannot tell, neither of them holds. */
bool tmi_is_absent(const tmi_folder *folder, const char *name);
/* Removes a file and syncs the folder; a file that is not there is no error. */
int tmi_remove(const tmi_folder *folder, const char *name);
/* The same without the sync. */
int tmi_unlink(const tmi_folder *folder, const char *name);

#endif

/* file_names.c: names of files that we make. */

/* The name of a file of ours beside `path`: ".name" and the suffix, shortened where too long. */
void tmi_sibling_name(char *out, size_t size, const char *path, const char *suffix);
/* The path of the same; NULL without memory. */
char *tmi_sibling_path(const char *path, const char *suffix);
/* A new name for a temporary file that is to become `path`. */
void tmi_temp_name(char *out, size_t size, const char *path);
/* Calls `found` with each name in the folder that is of a temporary file for `file`. */
void tmi_each_temp(const tmi_folder *folder, const char *file,
                   void (*found)(const tmi_folder *folder, const char *name));
/* Whether this is the name of a temporary file for a file that is_ours. */
bool tmi_is_temp_of(const char *name, bool (*is_ours)(const char *name));

#endif
