/*
 * left_behind.c - see left_behind.h. The file is described in proc_pid_environ(5).
 */
#include "launcher/watch/left_behind.h"

#include "base/protocol.h"
#include "launcher/start/guardian.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Only what has fallen to us is asked, not what that has started: a ddprun among it has ranks of its own. */
bool
left_behind_is(const struct process_list *list, const struct process *child, pid_t first)
{
    const struct process *oldest = process_list_find(list, first);
    return oldest != NULL && !child->is_zombie && child->parent == getpid() && child->pid != guardian_process() &&
           child->start >= oldest->start;
}

bool
left_behind_runs_program(const struct process_list *list, const struct process *child)
{
    for (size_t i = 0; i < list->count; ++i) {
        const struct process *process = &list->items[i];
        if (!process->is_zombie && !process->is_copy && process_list_is_in_tree(list, process->pid, child->pid))
            return true;
    }
    return false;
}

/* Who has cleared its environment, or is in exec just now, may be anybody's. */
bool
left_behind_may_be_of(pid_t child, int index)
{
    static const char name[] = DDPRUN_ENV_STATUS_INDEX "=";
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)child);
    FILE *environment = fopen(path, "re");
    bool may_be = true;
    char *variable = NULL;
    size_t room = 0;
    while (environment != NULL && getdelim(&variable, &room, '\0', environment) > 0) {
        if (strncmp(variable, name, sizeof(name) - 1) != 0)
            continue;
        may_be = strtol(variable + sizeof(name) - 1, NULL, 10) == index;
        break;
    }
    free(variable);
    if (environment != NULL)
        fclose(environment);
    return may_be;
}
