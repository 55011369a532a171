/*
 * process_state.c - see process_state.h. The file is described in proc_pid_stat(5).
 */
#include "launcher/watch/process_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { GENERATIONS_AT_MOST = 64 };

/* pid (name) state parent ...; the name may hold anything, brackets too, so its end is the last one. */
static bool
parse(char *text, struct process_state *state)
{
    char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (name == NULL || end == NULL || end < name || strlen(end) < 5)
        return false;
    *end = '\0';
    snprintf(state->name, sizeof(state->name), "%s", name + 1);
    for (char *at = state->name; *at != '\0'; ++at) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
    return sscanf(end + 1, " %c %d", &state->state, &state->parent) == 2;
}

bool
process_state_read(pid_t pid, pid_t thread, struct process_state *state)
{
    char path[64], text[512];
    if (thread != 0)
        snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)thread);
    else
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    return parse(text, state);
}

bool
process_state_is_stopped(pid_t pid)
{
    struct process_state state;
    return process_state_read(pid, 0, &state) && (state.state == 'T' || state.state == 't');
}

bool
process_state_descends(pid_t pid, pid_t ancestor)
{
    struct process_state state;
    for (int i = 0; i < GENERATIONS_AT_MOST && pid > 1; ++i) {
        if (pid == ancestor)
            return true;
        if (!process_state_read(pid, 0, &state))
            return false;
        pid = state.parent;
    }
    return false;
}
