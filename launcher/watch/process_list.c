/*
 * process_list.c - see process_list.h.
 */
#include "launcher/watch/process_list.h"

#include "launcher/common/xcalloc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parses "pid (name) state ppid ..." (proc(5)); the name may hold anything, also ')'. */
static bool
read_process(int proc, const char *number, struct process *process)
{
    char path[32], text[512];
    snprintf(path, sizeof(path), "%.16s/stat", number);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0)
        return false;
    text[got] = '\0';

    char state;
    int parent, group;
    unsigned long long start;
    const char *name_end = strrchr(text, ')');
    if (name_end == NULL ||
        sscanf(name_end + 1, " %c %d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &state,
               &parent, &group, &start) != 4)
        return false;
    *process = (struct process){.pid = atoi(number),
                                .parent = parent,
                                .group = group,
                                .start = start,
                                .is_zombie = state == 'Z' || state == 'X'};
    return true;
}

static int
by_pid(const void *a, const void *b)
{
    pid_t one = ((const struct process *)a)->pid, other = ((const struct process *)b)->pid;
    return (one > other) - (one < other);
}

void
process_list_read(struct process_list *list)
{
    list->count = 0;
    if (list->items == NULL) { /* also qsort and bsearch want a pointer */
        list->capacity = 512;
        list->items = xcalloc(list->capacity, sizeof(*list->items));
    }
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        struct process process;
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !read_process(dirfd(proc), entry->d_name, &process))
            continue;
        if (list->count == list->capacity) {
            list->capacity *= 2;
            list->items = xrealloc(list->items, list->capacity * sizeof(*list->items));
        }
        list->items[list->count++] = process;
    }
    closedir(proc);
    qsort(list->items, list->count, sizeof(*list->items), by_pid);
}

const struct process *
process_list_find(const struct process_list *list, pid_t pid)
{
    struct process wanted = {.pid = pid};
    return bsearch(&wanted, list->items, list->count, sizeof(wanted), by_pid);
}

static pid_t
parent_of(const struct process_list *list, pid_t pid)
{
    const struct process *found = process_list_find(list, pid);
    return found != NULL ? found->parent : 0;
}

bool
process_list_is_in_tree(const struct process_list *list, pid_t pid, pid_t ancestor)
{
    /* The picture is not of one instant, so a reused number could close a circle: count the generations. */
    for (size_t generation = 0; pid > 1 && generation < 1000; ++generation) {
        if (pid == ancestor)
            return true;
        pid = parent_of(list, pid);
    }
    return pid == ancestor;
}

void
process_list_free(struct process_list *list)
{
    free(list->items);
    *list = (struct process_list){0};
}
