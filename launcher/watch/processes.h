/*
 * processes.h - the machine's processes, as /proc shows them, and the end of all that descends from the launcher.
 *
 * Trainers start shells, wrappers and data loaders, in groups and sessions of their own. The launcher is a child
 * subreaper, so all of them stay its descendants. The supervisor needs to know them, to look whether the preload
 * reached the process that uses the GPU, and to leave no process behind. Supervisor's thread only, but for
 * process_read().
 */
#ifndef DDPRUN_LAUNCHER_WATCH_PROCESSES_H
#define DDPRUN_LAUNCHER_WATCH_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PROCESSES_GRACE_MS = 500,       /* between SIGTERM and SIGKILL after a failure */
    PROCESSES_UNKILLABLE_MS = 5000, /* after SIGKILL: a process that is still there hangs in the kernel */
};

struct process {
    pid_t pid; /* or a thread's number */
    pid_t parent, group;
    unsigned long long start;     /* clock ticks since the machine started */
    char name[64];                /* as the program or thread calls itself, printable */
    char state;                   /* R, S, D, T (stopped), t (stopped by a debugger), Z, ... */
    bool is_zombie;               /* all its threads have ended */
    bool is_stopped;              /* by a signal or a debugger */
    unsigned long long cpu_ticks; /* used by it and by children that it has waited for; sysconf(_SC_CLK_TCK) a second */
};

/* `thread`: 0 for the process itself. False: no such process or thread, or /proc cannot be read. Any thread. */
bool process_read(pid_t pid, pid_t thread, struct process *process) __attribute__((warn_unused_result));

/* Whether the thread waits, without a limit of time, for another thread or for a signal, or has ended: nothing outside
 * of the process wakes it. False where the system does not tell (/proc/PID/task/TID/syscall, proc(5)). */
bool process_thread_waits(pid_t pid, pid_t thread);

/* What a process has said about signals (proc_pid_status(5)): bit N - 1 is of signal N. */
struct process_signals {
    uint64_t blocked; /* by its main thread */
    uint64_t ignored, caught;
};

/* Of the text of /proc/PID/status. False and untouched `signals`: it is not all there. */
bool process_signals_parse(const char *text, struct process_signals *signals) __attribute__((warn_unused_result));

/* False: no such process. */
bool process_signals_read(pid_t pid, struct process_signals *signals) __attribute__((warn_unused_result));

/* Whether `signals` has this one. */
static inline bool
process_signal_is_in(uint64_t signals, int number)
{
    return (signals >> (number - 1) & 1) != 0;
}

/* Whether the process lives on when it gets the signal: it catches, ignores or blocks it. */
bool process_survives(pid_t pid, int number);

/* Whether the process was started with this variable in its environment: "NAME=value". False: it is not to be read. */
bool process_has_variable(pid_t pid, const char *variable);

/* Whether `ancestor` is the process or one of its ancestors. */
bool process_descends(pid_t pid, pid_t ancestor);

/* ---- a picture of all of them ---- */

/* Zero-initialise; release with process_list_free(). */
struct process_list {
    struct process *items;
    size_t count;
    size_t capacity;
};

/* Takes a new picture, of this instant or nearly so. An empty list if /proc cannot be read. */
void process_list_read(struct process_list *list);

/* Is `pid` the process `ancestor`, or a descendant of it? */
bool process_list_is_in_tree(const struct process_list *list, pid_t pid, pid_t ancestor);

void process_list_free(struct process_list *list);

/* ---- their end ---- */

/* `pids`: the processes that the launcher spawned itself, in order of time; each leads a process group, and is not
 * reaped before the end: as long as it is a zombie, its group's number cannot be given to another group. */

/* How many processes descend from the launcher and live. With number != 0, sends that signal to each that is in none of
 * the groups of pids[count]; SIGKILL to all. What is older than pids[0] is not counted: children of a shell that became
 * ddprun by exec. Nor are the launcher's own children in its own group, which are its helpers. `processes`: scratch. */
size_t processes_signal_descendants(struct process_list *processes, const pid_t *pids, int count, int number);

/* Sends a signal to the groups of pids[count]. */
void processes_signal_groups(const pid_t *pids, int count, int number);

/* To groups and other descendants, once; a stopped process is continued, so that it can end. */
void processes_signal_all(struct process_list *processes, const pid_t *pids, int count, int number);

/* Kills (SIGKILL) a process and its descendants, but not what is older: a wrapper around it. */
void processes_kill_tree(struct process_list *processes, pid_t pid);

/* Takes away what has ended. */
void processes_reap(void);

/* How many processes the kernel has killed for lack of memory: of this process's control group, by version 2
 * (memory.events) or 1 (memory.oom_control); where neither is to be seen, of the whole machine (/proc/vmstat); 0 if
 * nothing is. Such a process just ends by SIGKILL, as if a user had sent it by hand; that this number grew meanwhile
 * tells the two apart. `root`: "" but for tests, which have files of their own below. */
uint64_t out_of_memory_kills(const char *root);

#endif
