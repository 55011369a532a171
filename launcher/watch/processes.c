/*
 * processes.c - see processes.h.
 */
#include "launcher/watch/processes.h"

#include "launcher/start/guardian.h"

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

size_t
processes_signal_descendants(struct process_list *processes, pid_t first, int number)
{
    size_t alive = 0;
    pid_t self = getpid();
    process_list_read(processes);
    const struct process *oldest = process_list_find(processes, first);
    for (size_t i = 0; oldest != NULL && i < processes->count; ++i) {
        const struct process *process = &processes->items[i];
        if (process->is_zombie || process->pid == self || process->pid == guardian_process() ||
            process->start < oldest->start || !process_list_is_in_tree(processes, process->pid, self))
            continue;
        ++alive;
        if (number != 0)
            kill(process->pid, number);
    }
    return alive;
}

void
processes_signal_groups(const pid_t *pids, int count, int number)
{
    for (int i = 0; i < count; ++i)
        kill(-pids[i], number);
}

/* Groups first: a signal to a group misses no process that is being forked. */
void
processes_signal_all(struct process_list *processes, const pid_t *pids, int count, int number)
{
    if (count == 0)
        return;
    processes_signal_groups(pids, count, number);
    processes_signal_descendants(processes, pids[0], number);
    if (number != SIGKILL)
        processes_signal_groups(pids, count, SIGCONT);
}

void
processes_reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}
