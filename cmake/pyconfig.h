/*
 * Python's configuration for modules of the limited API that are compiled for a 64-bit Linux, macOS
 * or Windows on another machine. scripts/dist.sh puts it in place of the pyconfig.h that belongs to
 * the headers of the build machine's Python. It has what these headers ask for, and nothing else.
 */
#ifndef TENMAP_PYCONFIG_H
#define TENMAP_PYCONFIG_H

#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_FLOAT 4
#define SIZEOF_DOUBLE 8
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_PID_T 4
#define SIZEOF_FPOS_T 8
#define SIZEOF_HKEY 8
#define ALIGNOF_SIZE_T 8
#define ALIGNOF_MAX_ALIGN_T 16

#define WITH_THREAD 1
#define WITH_DOC_STRINGS 1
#define STDC_HEADERS 1
#define HAVE_STDINT_H 1
#define HAVE_STDDEF_H 1
#define HAVE_WCHAR_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_SYS_STAT_H 1

#ifdef _WIN32
#define SIZEOF_LONG 4
#define ALIGNOF_LONG 4
#define SIZEOF_WCHAR_T 2
#define SIZEOF_OFF_T 4
#define MS_WINDOWS 1
#define MS_WIN32 1
#define MS_WIN64 1
#define NT_THREADS 1
/* The names of the limited API come from python3.dll. */
#define Py_ENABLE_SHARED 1
#define HAVE_DECLSPEC_DLL 1
#define HAVE_PY_SSIZE_T 1
typedef long long Py_ssize_t;
#define PY_SSIZE_T_MAX 0x7fffffffffffffffLL
#else
#define SIZEOF_LONG 8
#define ALIGNOF_LONG 8
#define SIZEOF_WCHAR_T 4
#define SIZEOF_OFF_T 8
#define HAVE_SSIZE_T 1
#define HAVE_UNISTD_H 1
#define HAVE_SYS_TIME_H 1
#define _POSIX_THREADS 1
#endif

#endif
