/*
 * preload_watch.c - see local_ranks.h.
 */
#include "launcher/watch/local_ranks.h"

#include "launcher/common/xcalloc.h"
#include "launcher/watch/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Short programs must be seen as well, so the looks begin close together. */
#define FIRST_INTERVAL_NS 20000000ull
#define USUAL_INTERVAL_NS 1000000000ull
#define LATER_INTERVAL_NS 10000000000ull
#define BUSY_PERIOD_NS    60000000000ull
/* A probe (nvidia-smi in a cleaned environment) ends sooner than this; a trainer does not. */
#define PATIENCE_NS 5000000000ull

struct preload_watch {
    int rank_count;
    uint64_t start_ns, interval_ns;
    struct process_list processes;
    struct watched {
        pid_t suspect; /* has the driver and not our library; 0: none */
        uint64_t since_ns, next_ns;
        bool saw;
    } * ranks;
};

enum mapping { MAPPING_NO_DRIVER, MAPPING_WITH_SHIM, MAPPING_WITHOUT_SHIM };

static enum mapping
look_at_maps(pid_t pid)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    if (maps == NULL)
        return MAPPING_NO_DRIVER;
    bool driver = false, shim = false;
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, maps) > 0 && !shim) {
        driver = driver || strstr(line, "/libcuda.so") != NULL;
        shim = strstr(line, "/libddprun.so") != NULL;
    }
    free(line);
    fclose(maps);
    if (shim)
        return MAPPING_WITH_SHIM;
    return driver ? MAPPING_WITHOUT_SHIM : MAPPING_NO_DRIVER;
}

/* The first process in the rank's tree that uses the driver without us; 0 if none. */
static pid_t
find_suspect(const struct preload_watch *watch, pid_t root)
{
    for (size_t i = 0; i < watch->processes.count; ++i) {
        const struct process *process = &watch->processes.items[i];
        if (!process->is_zombie && process_list_is_in_tree(&watch->processes, process->pid, root) &&
            look_at_maps(process->pid) == MAPPING_WITHOUT_SHIM)
            return process->pid;
    }
    return 0;
}

struct preload_watch *
preload_watch_new(int rank_count, uint64_t now_ns)
{
    struct preload_watch *watch = xcalloc(1, sizeof(*watch));
    watch->rank_count = rank_count;
    watch->start_ns = now_ns;
    watch->interval_ns = FIRST_INTERVAL_NS;
    watch->ranks = xcalloc((size_t)rank_count, sizeof(*watch->ranks));
    for (int rank = 0; rank < rank_count; ++rank)
        watch->ranks[rank].next_ns = now_ns + FIRST_INTERVAL_NS;
    return watch;
}

static bool
is_due(const struct preload_watch *watch, const struct preload_subject *subjects, int rank, uint64_t now_ns)
{
    return !subjects[rank].is_rank && now_ns >= watch->ranks[rank].next_ns;
}

static bool
any_is_due(const struct preload_watch *watch, const struct preload_subject *subjects, uint64_t now_ns)
{
    for (int rank = 0; rank < watch->rank_count; ++rank) {
        if (is_due(watch, subjects, rank, now_ns))
            return true;
    }
    return false;
}

/* A suspect is looked at again within its patience, however rarely the others are. */
static uint64_t
interval_of(const struct preload_watch *watch, const struct preload_subject *subject, pid_t suspect, uint64_t now_ns)
{
    bool rarely = subject->asked || now_ns - watch->start_ns > BUSY_PERIOD_NS;
    if (!rarely)
        return watch->interval_ns;
    return suspect != 0 ? USUAL_INTERVAL_NS : LATER_INTERVAL_NS;
}

int
preload_watch_look(struct preload_watch *watch, const struct preload_subject *subjects, uint64_t now_ns, pid_t *pid)
{
    if (!any_is_due(watch, subjects, now_ns))
        return -1;

    watch->interval_ns = watch->interval_ns * 2 < USUAL_INTERVAL_NS ? watch->interval_ns * 2 : USUAL_INTERVAL_NS;
    process_list_read(&watch->processes);
    for (int rank = 0; rank < watch->rank_count; ++rank) {
        struct watched *watched = &watch->ranks[rank];
        if (!is_due(watch, subjects, rank, now_ns))
            continue;
        pid_t suspect = find_suspect(watch, subjects[rank].pid);
        if (suspect != watched->suspect)
            watched->since_ns = now_ns;
        watched->suspect = suspect;
        watched->saw = watched->saw || suspect != 0;
        watched->next_ns = now_ns + interval_of(watch, &subjects[rank], suspect, now_ns);
        if (suspect != 0 && now_ns - watched->since_ns >= PATIENCE_NS) {
            *pid = suspect;
            return rank;
        }
    }
    return -1;
}

bool
preload_watch_saw(const struct preload_watch *watch, int rank)
{
    return watch->ranks[rank].saw;
}

void
preload_watch_free(struct preload_watch *watch)
{
    process_list_free(&watch->processes);
    free(watch->ranks);
    free(watch);
}
