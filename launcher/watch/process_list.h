/*
 * process_list.h - a picture of the machine's processes: who descends from whom.
 *
 * Trainers start shells, wrappers and data loaders. The supervisor needs to know all that descends from it, to look
 * whether the preload reached the process that uses the GPU, and to leave no process behind. Supervisor's thread only.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_PROCESS_LIST_H
#define DDPRUN_LAUNCHER_WATCH_PROCESS_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct process {
    pid_t pid;
    pid_t parent, group;
    unsigned long long start; /* clock ticks since the machine started */
    bool is_zombie;
};

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

/* The process numbered `pid`, NULL: no such process. */
const struct process *process_list_find(const struct process_list *list, pid_t pid);

void process_list_free(struct process_list *list);

#endif
