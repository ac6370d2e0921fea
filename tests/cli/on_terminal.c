/*
 * Runs a program on its own terminal, and checks what arrived there.
 *
 *     on_terminal COLUMNS PROGRAM [ARGUMENT...]   prints the program's stdout and stderr to stdout;
 *                                                 exits with the program's exit code
 *     on_terminal --safe                          reads such output from stdin; fails if a terminal
 *                                                 would obey something in it, or not show it
 *
 * Line ends stay as the program wrote them. Only the tool's own escape sequences are allowed: the
 * colors of print.c, and clearing a progress bar's line. Lines that begin with the word FORGED are
 * refused too: hostile text of the tests has that word after a line break. Lines that begin with ==
 * are headings.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void die(const char *what) {
    fprintf(stderr, "on_terminal: %s: %s\n", what, strerror(errno));
    exit(125);
}

static void become(const char *terminal, char **command) {
    setsid();
    int fd = open(terminal, O_RDWR);
    if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) != 0)
        die(terminal);
    for (int i = 0; i < 3; i++)
        dup2(fd, i);
    if (fd > 2)
        close(fd);
    execvp(command[0], command);
    die(command[0]);
}

static int run(int columns, char **command) {
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    struct termios modes;
    char block[1 << 16];
    ssize_t n;
    int status, side, main_side = posix_openpt(O_RDWR | O_NOCTTY);
    if (main_side < 0 || grantpt(main_side) != 0 || unlockpt(main_side) != 0)
        die("no terminal");
    const char *name = ptsname(main_side);
    side = open(name, O_RDWR | O_NOCTTY); /* kept open, so that the modes stay */
    if (side < 0 || tcgetattr(side, &modes) != 0)
        die("no terminal");
    modes.c_oflag &= ~(tcflag_t)OPOST;
    if (tcsetattr(side, TCSANOW, &modes) != 0 || ioctl(side, TIOCSWINSZ, &size) != 0)
        die("no terminal");
    pid_t child = fork();
    if (child < 0)
        die("no process");
    if (child == 0) {
        close(main_side);
        close(side);
        become(name, command);
    }
    close(side);
    /* Reading fails before the child has opened its side, and again at the end. */
    bool ended = false;
    for (;;) {
        n = read(main_side, block, sizeof block);
        if (n > 0 && fwrite(block, 1, (size_t)n, stdout) != (size_t)n)
            die("stdout");
        if (n > 0)
            continue;
        if (ended)
            break;
        ended = waitpid(child, &status, WNOHANG) == child;
        if (!ended)
            usleep(1000);
    }
    fflush(stdout);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The length of an escape sequence of the tool that begins here, or 0. */
static size_t own_sequence(const char *at) {
    static const char *const own[] = {"\033[0m",  "\033[1m",  "\033[2m",  "\033[31m", "\033[32m",
                                      "\033[33m", "\033[34m", "\033[35m", "\033[36m", "\r\033[K"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strncmp(at, own[i], strlen(own[i])) == 0)
            return strlen(own[i]);
    return 0;
}

/* Decodes one code point; 0 bytes if there is none. */
static size_t decode(const unsigned char *s, size_t len, uint32_t *out) {
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    *out = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    if (n > len)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        *out = *out << 6 | (s[i] & 0x3fu);
    }
    return n;
}

static bool is_unsafe(uint32_t point) {
    return (point < 0x20 && point != '\n' && point != '\t') || (point >= 0x7f && point < 0xa0) ||
           (point >= 0x200b && point <= 0x200f) || (point >= 0x202a && point <= 0x202e) ||
           (point >= 0x2066 && point <= 0x2069);
}

/* What is wrong with the text at byte i, or NULL; *step is the length of the character. */
static const char *judge(const char *text, size_t len, size_t i, size_t *step) {
    uint32_t point;
    *step = own_sequence(text + i);
    if (*step)
        return NULL;
    if ((i == 0 || text[i - 1] == '\n') && strncmp(text + i, "FORGED", 6) == 0)
        return "a line that a name made";
    *step = decode((const unsigned char *)text + i, len - i, &point);
    if (!*step)
        return "no UTF-8";
    return is_unsafe(point) ? "a character that a terminal obeys or hides" : NULL;
}

static char *read_all(size_t *len) {
    size_t room = 1 << 16;
    char *text = malloc(room);
    *len = 0;
    while (text) {
        size_t n = fread(text + *len, 1, room - *len - 1, stdin);
        *len += n;
        if (!n)
            break;
        if (*len + 1 == room)
            text = realloc(text, room *= 2);
    }
    if (!text)
        die("no memory");
    text[*len] = '\0';
    return text;
}

static void show(const char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++)
        printf((unsigned char)bytes[i] - 0x20u < 0x5f ? "%c" : "<%02x>", (unsigned char)bytes[i]);
    putchar('\n');
}

/* Reports the first problem below each == line. */
static int look(void) {
    size_t len, step, heading = 0, line = 0, told = SIZE_MAX, count = 0;
    char *text = read_all(&len);
    for (size_t i = 0; i < len; i += step) {
        if (i && text[i - 1] == '\n')
            line = i;
        if (line == i && strncmp(text + i, "==", 2) == 0)
            heading = i;
        const char *wrong = judge(text, len, i, &step);
        step += !step;
        if (!wrong || told == heading)
            continue;
        show(text + heading, strcspn(text + heading, "\n"));
        printf("    %s: ", wrong);
        size_t from = i - line > 60 ? i - 60 : line;
        show(text + from, (len - i > 20 ? i + 20 : len) - from);
        told = heading;
        count++;
    }
    free(text);
    return count > 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--safe") == 0)
        return look();
    if (argc < 3 || atoi(argv[1]) <= 0) {
        fprintf(stderr, "usage: on_terminal COLUMNS PROGRAM [ARGUMENT...] | on_terminal --safe\n");
        return 125;
    }
    return run(atoi(argv[1]), argv + 2);
}
