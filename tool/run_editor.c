/* Runs the user's editor on a temporary file. */
#include "run_editor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "model/model_files.h"

static const char *editor_command(void) {
    const char *const from[] = {getenv("VISUAL"), getenv("EDITOR")};
    for (size_t i = 0; i < 2; i++)
        if (from[i] && *from[i])
            return from[i];
    return "vi";
}

/* Runs the editor through a shell, since the command may contain arguments ("code --wait"). */
static int run_editor(const char *editor, const char *path) {
    text line = {0};
    int result = -1;
    text_addf(&line, "%s \"$1\"", editor);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", line.bytes, "sh", path, (char *)NULL);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &result, 0) < 0 && errno == EINTR) {
    }
    text_free(&line);
    if (child > 0 && WIFEXITED(result) && WEXITSTATUS(result) == 0)
        return EXIT_FINE;
    return fail(EXIT_FAILED,
                "the editor '%s' failed, so nothing was changed; set $EDITOR to choose another",
                editor);
}

static int read_back(text *t, const char *path) {
    char block[4096];
    size_t n;
    int fd, status = open_regular(path, &fd);
    if (status)
        return status;
    FILE *in = fdopen(fd, "rb");
    text_clear(t);
    while (in && (n = fread(block, 1, sizeof block, in)) > 0)
        text_add(t, block, n);
    bool good = in && !ferror(in);
    if (in)
        fclose(in);
    return good ? EXIT_FINE
                : fail(EXIT_FAILED, "%s: could not be read back: %s", path, os_error_text(errno));
}

/* The file's name ends in .json, so that editors recognize the format. */
static int write_out(const text *t, char **path) {
    const char *folder = getenv("TMPDIR");
    text name = {0};
    text_addf(&name, "%s/tenmap-XXXXXX.json", folder && *folder ? folder : "/tmp");
    int fd = mkstemps(name.bytes, 5);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "wb");
    bool good = out && fwrite(t->bytes, 1, t->len, out) == t->len;
    good = out && fclose(out) == 0 && good;
    if (good) {
        *path = name.bytes;
        return EXIT_FINE;
    }
    int status =
        fail(EXIT_FAILED, "%s: could not be written: %s", name.bytes, os_error_text(errno));
    if (fd >= 0)
        unlink(name.bytes);
    text_free(&name);
    return status;
}

int editor_run(text *t, char **path) {
    *path = NULL;
    int status = write_out(t, path);
    if (!status)
        status = run_editor(editor_command(), *path);
    if (!status)
        status = read_back(t, *path);
    if (status && *path) {
        editor_done(*path, false);
        *path = NULL;
    }
    return status;
}

void editor_done(char *path, bool keep) {
    if (path && !keep)
        unlink(path);
    free(path);
}
