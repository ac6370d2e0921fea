/*
 * What the tests use of POSIX and Windows has under another name. Included before everything else
 * when tests are built for Windows (see scripts/windows-test.sh). Not for the library, which has
 * its own code for Windows.
 */
#ifndef TENMAP_TESTS_WINDOWS_POSIX_H
#define TENMAP_TESTS_WINDOWS_POSIX_H

#include <direct.h>
#include <fcntl.h>
#include <io.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define O_CLOEXEC _O_NOINHERIT
#define _SC_PAGESIZE 1
enum { LOCK_EX = 2, LOCK_NB = 4 };

#define mkdir(path, mode) _mkdir(path)
#define lstat(path, st) stat(path, st)
#define setenv(name, value, replace) _putenv_s(name, value)
#define unsetenv(name) _putenv_s(name, "")

char *mkdtemp(char *path);
long sysconf(int name);
int symlink(const char *to, const char *path); /* always refused */
int link(const char *old, const char *path);
int flock(int fd, int how);                           /* the lock that the library takes on files */
int windows_rename(const char *from, const char *to); /* over a file that is there, too */
#define rename windows_rename
int windows_unlink(const char *path); /* of any length */
#define unlink windows_unlink
uint64_t windows_inode(const char *path);                   /* 0 if it is not there */
unsigned getuid(void);                                      /* nobody special */
int chown(const char *path, unsigned user, unsigned group); /* always refused */
#define S_ISLNK(mode) 0
void *aligned_alloc(size_t alignment, size_t size);
void windows_free(void *memory);
#define free windows_free /* what either of malloc and aligned_alloc gave */

#endif
