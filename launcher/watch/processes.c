/*
 * processes.c - see processes.h. The files: proc_pid_stat(5), proc_vmstat(5), cgroups(7),
 * Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of the kernel.
 */
#include "launcher/watch/processes.h"

#include "base/assertion.h"
#include "launcher/common/xcalloc.h"
#include "launcher/start/spawn.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { GENERATIONS_AT_MOST = 64 };

/* ---- one ---- */

/* A process whose main thread has ended is in state Z, too, while other threads still run or end: until the last of
 * them has ended, waitid() does not return it. */
static bool
has_ended(char state, int threads)
{
    return state == 'X' || (state == 'Z' && threads <= 1);
}

/* "pid (name) state parent group ..."; the name may hold anything, brackets too, so its end is the last one. */
static bool
parse_stat(char *text, struct process *process_p)
{
    struct process process = {.pid = atoi(text)};
    char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (name == NULL || end == NULL || end < name)
        return false;
    *end = '\0';
    snprintf(process.name, sizeof(process.name), "%s", name + 1);
    for (char *at = process.name; *at != '\0'; ++at) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
    unsigned long long own[2], children[2]; /* in the program, in the system */
    int threads;
    if (sscanf(end + 1, " %c %d %d %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %llu %llu %*s %*s %d %*s %llu",
               &process.state, &process.parent, &process.group, &own[0], &own[1], &children[0], &children[1], &threads,
               &process.start) != 9)
        return false;
    process.cpu_ticks = own[0] + own[1] + children[0] + children[1];
    process.is_zombie = has_ended(process.state, threads);
    process.is_stopped = process.state == 'T' || process.state == 't';
    *process_p = process;
    return true;
}

bool
process_read(pid_t pid, pid_t thread, struct process *process)
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
    text[length > 0 ? length : 0] = '\0';
    return parse_stat(text, process);
}

/* The file: "NUMBER ARGUMENT ...", the arguments in hexadecimal; or "running". */
bool
process_thread_waits(pid_t pid, pid_t thread)
{
    char path[64];
    long call;
    unsigned long long argument[4];
    struct process process;
    if (!process_read(pid, thread, &process) || process.state == 'Z' || process.state == 'X')
        return true;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)pid, (int)thread);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    int got = fscanf(file, "%ld %llx %llx %llx %llx", &call, &argument[0], &argument[1], &argument[2], &argument[3]);
    fclose(file);
    if (got < 5)
        return false;
#ifdef SYS_pause
    if (call == SYS_pause)
        return true;
#endif
    bool is_pause = call == SYS_ppoll && argument[1] == 0 && argument[2] == 0; /* pause(2) where it is no call */
    return is_pause || call == SYS_rt_sigsuspend || (call == SYS_futex && argument[3] == 0);
}

/* "\nSigCgt:\t0000000000014a07". */
static bool
parse_set(const char *text, const char *name, uint64_t *set)
{
    char wanted[16];
    snprintf(wanted, sizeof(wanted), "\n%s:", name);
    const char *line = strstr(text, wanted);
    return line != NULL && sscanf(line + strlen(wanted), "%" SCNx64, set) == 1;
}

bool
process_signals_parse(const char *text, struct process_signals *signals_p)
{
    struct process_signals signals;
    if (!parse_set(text, "SigBlk", &signals.blocked) || !parse_set(text, "SigIgn", &signals.ignored) ||
        !parse_set(text, "SigCgt", &signals.caught))
        return false;
    *signals_p = signals;
    return true;
}

bool
process_signals_read(pid_t pid, struct process_signals *signals)
{
    char path[64], text[8192]; /* beyond a kilobyte where a process is in many groups */
    size_t length = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    for (ssize_t got = 1; got > 0 && length<sizeof(text) - 1; length += got> 0 ? (size_t)got : 0)
        got = read(fd, text + length, sizeof(text) - 1 - length);
    close(fd);
    text[length] = '\0';
    return process_signals_parse(text, signals);
}

bool
process_survives(pid_t pid, int number)
{
    struct process_signals signals;
    return process_signals_read(pid, &signals) &&
           process_signal_is_in(signals.blocked | signals.ignored | signals.caught, number);
}

bool
process_has_variable(pid_t pid, const char *variable)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    char *entry = NULL;
    size_t room = 0;
    bool has = false;
    while (!has && getdelim(&entry, &room, '\0', file) > 0)
        has = strcmp(entry, variable) == 0;
    free(entry);
    fclose(file);
    return has;
}

bool
process_descends(pid_t pid, pid_t ancestor)
{
    struct process process;
    for (int i = 0; i < GENERATIONS_AT_MOST && pid > 1; ++i) {
        if (pid == ancestor)
            return true;
        if (!process_read(pid, 0, &process))
            return false;
        pid = process.parent;
    }
    return false;
}

/* ---- a picture of all of them ---- */

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
        int pid = atoi(entry->d_name);
        if (pid <= 0 || !process_read(pid, 0, &process))
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

static const struct process *
find_process(const struct process_list *list, pid_t pid)
{
    struct process wanted = {.pid = pid};
    return bsearch(&wanted, list->items, list->count, sizeof(wanted), by_pid);
}

static pid_t
parent_of(const struct process_list *list, pid_t pid)
{
    const struct process *found = find_process(list, pid);
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

/* ---- their end ---- */

static bool
is_among(const pid_t *pids, int count, pid_t group)
{
    for (int i = 0; i < count; ++i)
        if (pids[i] == group)
            return true;
    return false;
}

size_t
processes_signal_descendants(struct process_list *processes, const pid_t *pids, int count, int number)
{
    size_t alive = 0;
    pid_t self = getpid(), own_group = getpgrp();
    process_list_read(processes);
    const struct process *oldest = find_process(processes, pids[0]);
    for (size_t i = 0; oldest != NULL && i < processes->count; ++i) {
        const struct process *process = &processes->items[i];
        if (process->is_zombie || process->pid == self || process->pid == guardian_process() ||
            (process->parent == self && process->group == own_group) || process->start < oldest->start ||
            !process_list_is_in_tree(processes, process->pid, self))
            continue;
        ++alive;
        if (number == SIGKILL || (number != 0 && !is_among(pids, count, process->group)))
            kill(process->pid, number);
    }
    return alive;
}

void
processes_signal_groups(const pid_t *pids, int count, int number)
{
    for (int i = 0; i < count; ++i) {
        ASSERT(pids[i] > 1); /* else it would be all processes of the user, or the launcher's own group */
        kill(-pids[i], number);
    }
}

/* Groups first: a signal to a group misses no process that is being forked. */
void
processes_signal_all(struct process_list *processes, const pid_t *pids, int count, int number)
{
    if (count == 0)
        return;
    processes_signal_groups(pids, count, number);
    processes_signal_descendants(processes, pids, count, number);
    if (number != SIGKILL)
        processes_signal_groups(pids, count, SIGCONT);
}

void
processes_kill_tree(struct process_list *processes, pid_t pid)
{
    process_list_read(processes);
    for (size_t i = 0; i < processes->count; ++i) {
        const struct process *process = &processes->items[i];
        if (!process->is_zombie && process_list_is_in_tree(processes, process->pid, pid))
            kill(process->pid, SIGKILL);
    }
}

void
processes_reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

/* ---- out of memory ---- */

/* The number after "oom_kill " in a file of such lines. False: no such line. */
static bool
read_kills(const char *path, uint64_t *kills)
{
    char line[256];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
        found = sscanf(line, "oom_kill %" SCNu64, kills) == 1;
    if (file != NULL)
        fclose(file);
    return found;
}

/* In a control group's folder, or in the root's, which a container sees in its place. */
static bool
read_group(const char *root, const char *mount, const char *group, const char *name, uint64_t *kills)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s%s/%s", root, mount, group, name);
    if (read_kills(path, kills))
        return true;
    snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s/%s", root, mount, name);
    return read_kills(path, kills);
}

/* One line of /proc/self/cgroup: "0::/path", or "4:memory:/path". */
static bool
read_line(const char *root, char *line, uint64_t *kills)
{
    line[strcspn(line, "\n")] = '\0';
    char *kind = strchr(line, ':'), *group = kind != NULL ? strchr(kind + 1, ':') : NULL;
    if (group == NULL)
        return false;
    *group++ = '\0';
    if (strcmp(line, "0:") == 0 && kind[1] == '\0')
        return read_group(root, "", group, "memory.events", kills);
    return strcmp(kind + 1, "memory") == 0 && read_group(root, "/memory", group, "memory.oom_control", kills);
}

uint64_t
out_of_memory_kills(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    uint64_t kills = 0;
    bool found = false;
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
        found = read_line(root, line, &kills);
    if (file != NULL)
        fclose(file);
    snprintf(path, sizeof(path), "%s/proc/vmstat", root);
    return found || read_kills(path, &kills) ? kills : 0;
}
