/*
 * process.c - see process.h.
 */
#include "process.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP};

/* The one process-wide state: what is to be undone. */
static struct {
    char *folder;
    sigset_t old_mask;            /* before the end signals were blocked */
    volatile sig_atomic_t child;  /* its process id, 0 if none runs */
    volatile sig_atomic_t signal; /* that asked softgpu-cc to stop */
} state;

/* The end signals are blocked except while waiting for a child, so that nothing else can be interrupted half-way. */
static void
on_end_signal(int number)
{
    state.signal = number;
    if (state.child > 0)
        kill((pid_t)state.child, SIGTERM);
}

void
process_begin(void)
{
    sigset_t mask;
    struct sigaction action = {.sa_handler = on_end_signal};
    sigemptyset(&mask);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(end_signals) / sizeof(end_signals[0]); ++i) {
        struct sigaction old;
        sigaddset(&mask, end_signals[i]);
        sigaction(end_signals[i], NULL, &old);
        if (old.sa_handler != SIG_IGN)
            sigaction(end_signals[i], &action, NULL);
    }
    sigprocmask(SIG_BLOCK, &mask, &state.old_mask);
}

char *
process_temporary(const char *name)
{
    if (state.folder == NULL) {
        const char *parent = getenv("TMPDIR");
        char *folder = text_format("%s/softgpu-cc-XXXXXX", parent != NULL && parent[0] != '\0' ? parent : "/tmp");
        if (mkdtemp(folder) == NULL) {
            complain("cannot make a folder for temporary files, %s: %s; $TMPDIR says where", folder, strerror(errno));
            free(folder);
            return NULL;
        }
        state.folder = folder;
    }
    return text_format("%s/%s", state.folder, name);
}

/* Makes the folders above `path`. */
static bool
make_folders(char *path)
{
    for (char *slash = strchr(path + strlen(state.folder) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool ok = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!ok)
            return false;
    }
    return true;
}

static bool
unpack_file(size_t name_length, size_t length)
{
    char *name = memory_grow(NULL, name_length + 1), *content = memory_grow(NULL, length + 1);
    bool ok = fread(name, 1, name_length, stdin) == name_length && fread(content, 1, length, stdin) == length;
    name[ok ? name_length : 0] = '\0';
    char *path = text_format("%s/%s", state.folder, name);
    FILE *file = ok && make_folders(path) ? fopen(path, "we") : NULL;
    ok = file != NULL && fwrite(content, 1, length, file) == length;
    if (file != NULL && fclose(file) != 0)
        ok = false;
    if (!ok)
        complain("cannot write %s: %s", path, strerror(errno));
    free(path);
    free(content);
    free(name);
    return ok;
}

bool
process_adopt(const char *folder)
{
    size_t name_length, length;
    if (mkdir(folder, 0700) != 0) {
        complain("cannot make a folder for temporary files, %s: %s; $TMPDIR says where", folder, strerror(errno));
        return false;
    }
    state.folder = text_format("%s", folder);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* if it is dead already, this runs to its end */
    while (scanf("%zu %zu", &name_length, &length) == 2 && getchar() == '\n') {
        if (!unpack_file(name_length, length))
            return false;
    }
    return true;
}

static int
remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    remove(path); /* what cannot be removed stays, with the folders above it */
    return 0;
}

void
process_end(void)
{
    enum { MOST_OPEN_FOLDERS = 16 };
    if (state.folder == NULL)
        return;
    nftw(state.folder, remove_entry, MOST_OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
    free(state.folder);
    state.folder = NULL;
}

static void
stop_if_signalled(void)
{
    if (state.signal == 0)
        return;
    const int number = state.signal;
    process_end();
    signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &state.old_mask, NULL);
    raise(number);
    _exit(128 + number); /* the signal was blocked from the start */
}

/* Waits for state.child with the end signals open. */
static int
wait_for_child(void)
{
    for (;;) {
        int status;
        const pid_t child = (pid_t)state.child;

        /* SIGCHLD is not handled, so sigsuspend cannot wait for it: wait with the signals open, and see EINTR. */
        sigset_t blocked;
        sigprocmask(SIG_SETMASK, &state.old_mask, &blocked);
        const pid_t ended = waitpid(child, &status, 0);
        sigprocmask(SIG_SETMASK, &blocked, NULL);
        if (ended == child)
            return status;
        if (errno != EINTR)
            return 127 << 8;
    }
}

int
process_run(const struct list *command, const char *errors)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) {
        complain("cannot start %s: %s", command->items[0], strerror(errno));
        return 127;
    }
    if (pid == 0) {
        for (size_t i = 0; i < sizeof(end_signals) / sizeof(end_signals[0]); ++i) {
            struct sigaction old;
            sigaction(end_signals[i], NULL, &old);
            if (old.sa_handler != SIG_IGN)
                signal(end_signals[i], SIG_DFL);
        }
        sigprocmask(SIG_SETMASK, &state.old_mask, NULL);
        if (errors != NULL && freopen(errors, "w", stderr) == NULL)
            _exit(127);
        execvp(command->items[0], command->items);
        complain("cannot start %s: %s", command->items[0], strerror(errno));
        _exit(127);
    }
    state.child = pid;
    const int status = wait_for_child();
    state.child = 0;
    stop_if_signalled();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void
process_show(const struct list *command)
{
    fputs("#$", stderr);
    process_show_words(command);
}

void
process_show_words(const struct list *command)
{
    for (size_t i = 0; i < command->count; ++i) {
        const char *word = command->items[i];
        const bool plain = word[0] != '\0' && strpbrk(word, " \t\n\"'\\$`&|;<>()*?[]#~!{}") == NULL;
        fputc(' ', stderr);
        if (plain) {
            fputs(word, stderr);
            continue;
        }
        fputc('\'', stderr);
        for (const char *c = word; *c != '\0'; ++c) {
            if (*c == '\'')
                fputs("'\\''", stderr);
            else
                fputc(*c, stderr);
        }
        fputc('\'', stderr);
    }
    fputc('\n', stderr);
}
