/* Helpers shared by file_win32.c and file_write_win32.c. */
#ifndef TENMAP_WIN32_H
#define TENMAP_WIN32_H

#ifdef _WIN32

#include "os.h"

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0602 /* Windows 8: PrefetchVirtualMemory */
#include <windows.h>

/*
 * Other programs may read, write, rename and delete a file that we have open, as on other systems.
 */
enum { TMI_SHARE_ALL = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

/* The errno that corresponds to a Windows error code; EIO for unknown codes. */
int tmi_errno_of(DWORD code);
/*
 * Converts a UTF-8 path to UTF-16, also if it exceeds the system's default limit of 260 characters.
 * Returns NULL with *failed set to an errno; free with free().
 */
wchar_t *tmi_wide_path(const char *path, int *failed);
/* UTF-16 to UTF-8; NULL if it is not valid or memory runs out; free with free(). */
char *tmi_narrow_text(const wchar_t *text);
/* CreateFileW for existing files. Returns INVALID_HANDLE_VALUE with *failed set to an errno. */
HANDLE tmi_handle_open(const char *path, DWORD access, DWORD share, DWORD flags, int *failed);
/* The handle of a descriptor, or INVALID_HANDLE_VALUE. */
HANDLE tmi_handle_of(int fd);
/*
 * Returns a descriptor that owns the handle. On failure closes the handle, sets *failed and returns
 * -1.
 */
int tmi_handle_adopt(HANDLE handle, int flags, int *failed);

#endif
#endif
