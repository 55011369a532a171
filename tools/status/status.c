/* status.c - see status.h. A job is found by its ddprun, which holds the job's folder open: /proc says which one. */
#include "tools/status/status.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/protocol.h"
#include "base/status_page.h"
#include "launcher/common/xcalloc.h"
#include "launcher/options/option_rows.h"
#include "launcher/report/progress.h"
#include "launcher/watch/local_ranks.h"
#include "launcher/watch/pace.h"
#include "launcher/watch/processes.h"
#include "launcher/watch/verdict.h"
#include "tools/common/tool_options.h"

#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MS = 1000, JOBS_AT_MOST = 1024 };

/* One ddprun and the ranks that it has started. */
struct running {
    pid_t pid;
    int count, first_rank, world_size; /* of them; of the job */
    void *page;
    struct rank_view *views;
    char program[64];
    uint64_t step, look_ns; /* of the first look */
    double steps_per_s;
};

static const struct option_row rows[] = {HELP_ROW, {0}};

/* ---- finding jobs ---- */

/* The job's folder, which the process has open; false: it has none. */
static bool
find_folder(pid_t pid, char path[PATH_MAX])
{
    char place[64], prefix[32], link[PATH_MAX];
    snprintf(place, sizeof(place), "/proc/%d/fd", (int)pid);
    snprintf(prefix, sizeof(prefix), "/ddprun-%lu-", (unsigned long)geteuid());
    DIR *folder = opendir(place);
    bool found = false;
    for (struct dirent *entry; !found && folder != NULL && (entry = readdir(folder)) != NULL;) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);
        link[length > 0 ? length : 0] = '\0';
        const char *last = strrchr(link, '/');
        found = last != NULL && strncmp(last, prefix, strlen(prefix)) == 0;
        if (found)
            snprintf(path, PATH_MAX, "%s/%s", place, entry->d_name);
    }
    if (folder != NULL)
        closedir(folder);
    return found;
}

static bool
is_ddprun(pid_t pid)
{
    char place[64], link[PATH_MAX];
    snprintf(place, sizeof(place), "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(place, link, sizeof(link) - 1);
    link[length > 0 ? length : 0] = '\0';
    const char *last = strrchr(link, '/');
    return last != NULL && strncmp(last, "/ddprun", 7) == 0 && (last[7] == '\0' || last[7] == ' ');
}

/* A number in the environment that a process was started with; `otherwise` if there is none. */
static int
number_in(pid_t pid, const char *name, int otherwise)
{
    char place[64], *entry = NULL;
    size_t room = 0, length = strlen(name);
    int number = otherwise;
    snprintf(place, sizeof(place), "/proc/%d/environ", (int)pid);
    FILE *file = fopen(place, "re");
    while (file != NULL && getdelim(&entry, &room, '\0', file) > 0) {
        if (strncmp(entry, name, length) == 0 && entry[length] == '=')
            number = atoi(entry + length + 1);
    }
    if (file != NULL)
        fclose(file);
    free(entry);
    return number;
}

static void
look_at_ranks(struct running *running)
{
    uint64_t now = (uint64_t)clock_now_ns();
    for (int i = 0; i < running->count; ++i) {
        const struct rank_status *status = status_page_rank(running->page, i);
        rank_record_read(status, &running->views[i]);
        rank_record_read_activity(status, now, &running->views[i]);
        running->views[i].pid = atomic_load(&status->pid);
    }
}

/* False: this ddprun has no job that can be read; of another version, that is said. */
static bool
open_running(pid_t pid, const char *folder, struct running *running)
{
    struct stat file;
    char *path = xasprintf("%s/" DDPRUN_STATUS_FILE, folder);
    bool ok = stat(path, &file) == 0 && file.st_size >= JOB_OPTIONS_BYTES + RANK_STATUS_STRIDE;
    int count = ok ? (int)((file.st_size - JOB_OPTIONS_BYTES) / RANK_STATUS_STRIDE) : 0;
    free(path);
    void *page = ok ? status_page_map(folder, count, false) : NULL;
    if (page == NULL)
        return false;
    uint32_t protocol = status_page_options(page, count)->protocol;
    if (protocol != DDPRUN_PROTOCOL_VERSION) {
        if (protocol != 0)
            message_line("ddprun process %d has another version; its job is not shown", (int)pid);
        status_page_unmap(page, count);
        return false;
    }
    *running = (struct running){
        .pid = pid, .count = count, .page = page, .views = xcalloc((size_t)count, sizeof(*running->views))};
    look_at_ranks(running);
    pid_t first = running->views[0].pid;
    running->first_rank = number_in(first, DDPRUN_ENV_RANK, 0);
    running->world_size = number_in(first, DDPRUN_ENV_WORLD_SIZE, count);
    struct process process;
    snprintf(running->program, sizeof(running->program), "%s",
             process_read(first, 0, &process) ? process.name : "(no program yet)");
    running->step = verdict_least_steps(running->views, count);
    running->look_ns = (uint64_t)clock_now_ns();
    return true;
}

/* `asked`: the ddprun that is to be shown; 0: all. What a ddprun has started for itself has the folder, too, and is not
 * shown. */
static bool
is_wanted(pid_t pid, pid_t asked)
{
    struct process process;
    char folder[PATH_MAX];
    if (!is_ddprun(pid) || !process_read(pid, 0, &process))
        return false;
    bool is_asked_for = asked == 0 || asked == pid || asked == process.parent;
    return is_asked_for && !(is_ddprun(process.parent) && find_folder(process.parent, folder));
}

static int
find_running(pid_t asked, struct running *found)
{
    int count = 0;
    char folder[PATH_MAX];
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes != NULL && count < JOBS_AT_MOST && (entry = readdir(processes)) != NULL;) {
        pid_t pid = atoi(entry->d_name);
        if (pid > 0 && is_wanted(pid, asked) && find_folder(pid, folder))
            count += open_running(pid, folder, &found[count]);
    }
    if (processes != NULL)
        closedir(processes);
    return count;
}

/* ---- what is shown ---- */

/* Since the first look; of steps that take longer than that, their mean so far. */
static void
measure(struct running *running)
{
    look_at_ranks(running);
    double seconds = (double)((uint64_t)clock_now_ns() - running->look_ns) * 1e-9;
    uint64_t steps = verdict_least_steps(running->views, running->count) - running->step;
    running->steps_per_s =
        steps >= 2 ? (double)steps / seconds : pace_of(running->views, running->count, NULL).steps_per_s;
}

static void
print_running(const struct running *running)
{
    char text[512];
    progress_compose(running->views, running->count, running->steps_per_s, text, sizeof(text));
    printf("ddprun %d: %s, ", (int)running->pid, running->program);
    if (running->count == 1)
        printf("rank %d", running->first_rank);
    else
        printf("ranks %d to %d", running->first_rank, running->first_rank + running->count - 1);
    printf(" of %d\n  %s\n", running->world_size, text);
    for (int i = 0; i < running->count; ++i) {
        const struct rank_view *view = &running->views[i];
        printf("  rank %d (process %d): step %llu", running->first_rank + i, view->pid, (unsigned long long)view->step);
        if (view->wait != RANK_WAIT_NONE && view->wait_ns > UINT64_C(1000000000))
            printf(", waits for %s (%.1f s)", view->wait_for, (double)view->wait_ns * 1e-9);
        putchar('\n');
    }
}

static int
show_running(struct running *found, int count)
{
    if (count > 0)
        poll(NULL, 0, LOOK_MS);
    for (int i = 0; i < count; ++i) {
        measure(&found[i]);
        print_running(&found[i]);
        status_page_unmap(found[i].page, found[i].count);
        free(found[i].views);
    }
    return close_stdout(stdout);
}

static int
run_status(const struct command *command, const struct options *options)
{
    pid_t asked = 0;
    char **rest, *end = NULL;
    int exit_code;
    if (!command_begin(command, options->program, NULL, &rest, &exit_code))
        return exit_code;
    if (rest[0] != NULL) {
        asked = (pid_t)strtol(rest[0], &end, 10);
        if (*end != '\0' || asked <= 0 || rest[1] != NULL) {
            message_line("'%s' is not a process number, after status; see ddprun status --help",
                         rest[*end == '\0' && asked > 0 ? 1 : 0]);
            return DDPRUN_EXIT_USAGE;
        }
    }
    struct running *found = xcalloc(JOBS_AT_MOST, sizeof(*found));
    int count = find_running(asked, found);
    exit_code = show_running(found, count);
    free(found);
    if (count == 0 && asked > 0)
        message_line("process %d is not a ddprun of this user with a running job; ddprun status lists all jobs",
                     (int)asked);
    else if (count == 0)
        message_line("no job of this user runs on this machine");
    return count > 0 ? exit_code : DDPRUN_EXIT_FAILURE;
}

const struct command status_command = {
    .name = "status",
    .brief = "show running jobs: steps, losses, waiting ranks",
    .usage = "Usage: ddprun status [PID]\n\n"
             "Shows the running jobs of this user on this machine, or the job whose ddprun is\n"
             "process PID: its step, steps per second over the last second, exposed\n"
             "communication, which rank waits for which, and the last value of each DDP_MEAN.\n"
             "Of a job on several hosts it shows the ranks of this host. It does not change a job.\n",
    .notes = "Exit codes: 0: shown; 1: no such job; 2: wrong options.\n",
    .example = "ddprun status",
    .mixes = true,
    .rows = rows,
    .run = run_status,
};
