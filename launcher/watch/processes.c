/*
 * processes.c - see processes.h.
 */
#include "launcher/watch/processes.h"

#include "base/clock.h"
#include "launcher/start/guardian.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_INTERVAL_MS = 20 };

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

void
processes_end_all(const pid_t *pids, int count)
{
    if (count == 0)
        return;
    struct process_list processes = {0};
    int64_t begin_ms = clock_now_ms();
    processes_signal_all(&processes, pids, count, SIGTERM);
    while (processes_signal_descendants(&processes, pids[0], 0) > 0 &&
           clock_now_ms() - begin_ms < PROCESSES_GRACE_MS + PROCESSES_UNKILLABLE_MS) {
        if (clock_now_ms() - begin_ms >= PROCESSES_GRACE_MS)
            processes_signal_all(&processes, pids, count, SIGKILL);
        poll(NULL, 0, LOOK_INTERVAL_MS);
    }
    processes_reap();
    process_list_free(&processes);
}
