/*
 * The linker redirects the system calls of writing to these functions, which record them, make them
 * fail, cut them short, or kill the process in one of them.
 */
#ifndef TENMAP_TESTS_FAULTS_H
#define TENMAP_TESTS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum fault_call {
    FAULT_CREATE,
    FAULT_WRITE,
    FAULT_RESIZE,
    FAULT_SYNC,
    FAULT_SYNC_FOLDER,
    FAULT_RENAME,
    FAULT_UNLINK
};

/* One call that was made, in order. Names are those within the folder. */
typedef struct fault_event {
    enum fault_call call;
    ino_t inode;
    mode_t mode;           /* of a file that was created, at that moment */
    uint64_t offset, size; /* of a write; the new size of a resize */
    unsigned char *data;
    char name[256], to[256];
} fault_event;

enum { FAULT_MOST_EVENTS = 4096 };

typedef struct fault_state {
    bool armed;
    long count;    /* calls so far */
    long kill_at;  /* in this call, after half of it, the process is killed; -1: none */
    long error_at; /* this call fails with error; -1: none */
    int error;
    long meanwhile_at; /* before this call another program acts; -1: none */
    void (*meanwhile)(void);
    void (*opening)(bool before); /* another program, around each opening for writing; or NULL */
    long steps;                   /* calls so far, openings that only read included */
    long wander_at; /* after this one the process changes its working directory; -1: never */
    const char *elsewhere;
    bool short_writes; /* every write stops early, and every second is interrupted first */
    bool recording;
    bool real_sync; /* otherwise a sync does nothing: neither a kill nor the replay needs it */
    fault_event events[FAULT_MOST_EVENTS];
    size_t event_count;
} fault_state;

extern fault_state faults;

/* From now on nothing fails and nothing is recorded. Frees what was recorded. */
void faults_reset(void);

#endif
