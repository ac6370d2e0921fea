/* A temporary folder that leaves nothing behind. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "temp_folder.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATH_ROOM = 512, FILES_AT_MOST = 512 };

/* Static, so that a signal handler can use it at any moment. */
static char folder[PATH_ROOM];
static char files[FILES_AT_MOST][PATH_ROOM];
static volatile sig_atomic_t file_count;
static pid_t owner;

/*
 * A forked child has the list but must not remove anything. Calls only async-signal-safe functions.
 */
static void remove_all(void) {
    if (getpid() != owner)
        return;
    for (int i = 0; i < file_count; i++)
        unlink(files[i]);
    rmdir(folder);
}

static void on_signal(int number) {
    remove_all();
    signal(number, SIG_DFL);
    raise(number);
}

bool temp_folder_make(void) {
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent)
        parent = "/tmp";
    int len = snprintf(folder, sizeof folder, "%s/tenmap-bench-XXXXXX", parent);
    if (len < 0 || len >= PATH_ROOM - 64 || !mkdtemp(folder)) {
        perror(parent);
        return false;
    }
    owner = getpid();
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    atexit(remove_all);
    return true;
}

const char *temp_folder_file(const char *name) {
    int len = file_count < FILES_AT_MOST
                  ? snprintf(files[file_count], PATH_ROOM, "%s/%s", folder, name)
                  : PATH_ROOM;
    if (len < 0 || len >= PATH_ROOM) {
        fprintf(stderr, "%s: too many temporary files, or too long a path\n", name);
        return NULL;
    }
    const char *path = files[file_count];
    file_count = file_count + 1;
    return path;
}
