/*
 * notes.c - see notes.h. What is noted lies in static memory, guarded by a flag that nothing waits for: a call that
 * meets it taken, or no room, is not noted.
 */
#include "tools/sandbox/notes.h"

#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <execinfo.h>
#include <stdatomic.h>
#include <stdio.h>

enum { CALLS_AT_MOST = 512, TEXT_BYTES = 128 * 1024 };

static struct host_call calls[CALLS_AT_MOST];
static _Atomic size_t call_count;
static char text[TEXT_BYTES];
static size_t text_used;
static atomic_flag taken = ATOMIC_FLAG_INIT;
static __thread bool inside __attribute__((tls_model("initial-exec")));

size_t
ddprun_host_calls(const struct host_call **list_p)
{
    *list_p = calls;
    return atomic_load(&call_count);
}

/* With `taken`. */
static void
add_note(enum call_kind kind, const char *name, uint64_t bytes)
{
    size_t count = atomic_load(&call_count);
    for (size_t i = 0; i < count; ++i) {
        if (calls[i].kind == (uint32_t)kind && strcmp(calls[i].text, name) == 0)
            return;
    }
    size_t length = strlen(name) + 1;
    if (count == CALLS_AT_MOST || length > TEXT_BYTES - text_used)
        return;
    struct host_call *call = &calls[count];
    *call = (struct host_call){.kind = kind, .bytes = bytes, .text = text + text_used};
    memcpy(text + text_used, name, length);
    text_used += length;
    call->depth = backtrace(call->stack, CALL_FRAMES);
    atomic_store(&call_count, count + 1);
}

static void
note_call(enum call_kind kind, const char *name, uint64_t bytes)
{
    if (inside || atomic_flag_test_and_set(&taken))
        return;
    inside = true;
    add_note(kind, name, bytes);
    inside = false;
    atomic_flag_clear(&taken);
}

/* The file that `path` names, after the folder in which the program believes to be if it is relative. */
static void
note_path(const char *path, uint64_t bytes, bool writes)
{
    char folder[PATH_MAX], absolute[2 * PATH_MAX];
    if (path[0] != '/' && syscall(SYS_getcwd, folder, sizeof(folder)) > 0) {
        const struct files_config *config = files_config();
        const char *seen = config != NULL ? files_below(folder, config->written) : NULL;
        snprintf(absolute, sizeof(absolute), "%s/%s", seen != NULL ? seen : folder, path);
        path = absolute;
    }
    note_call(writes ? CALL_WRITES : CALL_READS, path, bytes);
}

/* Only regular files count. */
void
note_file(int dirfd, const char *path, int fd, int flags)
{
    struct stat file;
    int saved = errno;
    if (fd < 0 || !files_notes() || inside || (dirfd != AT_FDCWD && path[0] != '/'))
        return;
    if (files_below(path, "/proc") == NULL && files_below(path, "/sys") == NULL && raw_fstat(fd, &file) == 0 &&
        S_ISREG(file.st_mode))
        note_path(path, (uint64_t)file.st_size, (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0);
    errno = saved;
}
