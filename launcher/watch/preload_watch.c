/* preload_watch.c - see local_ranks.h. */
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
    uint64_t start_ns, next_ns, interval_ns;
    struct watched {
        pid_t suspect; /* has the driver and not our library; 0: none */
        uint64_t since_ns;
        bool saw; /* one, ever */
    } * ranks;
};

/* Whether it has the driver mapped, and our library not. */
static bool
is_without_shim(pid_t pid)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    if (maps == NULL)
        return false;
    bool driver = false, shim = false;
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, maps) > 0 && !shim) {
        driver = driver || strstr(line, "/libcuda.so") != NULL;
        shim = strstr(line, "/libddprun.so") != NULL;
    }
    free(line);
    fclose(maps);
    return driver && !shim;
}

/* The first process in the rank's tree that uses the driver without us; 0 if none. */
static pid_t
find_suspect(const struct process_list *processes, pid_t root)
{
    for (size_t i = 0; i < processes->count; ++i) {
        const struct process *process = &processes->items[i];
        if (!process->is_zombie && process_list_is_in_tree(processes, process->pid, root) &&
            is_without_shim(process->pid))
            return process->pid;
    }
    return 0;
}

struct preload_watch *
preload_watch_new(int rank_count, uint64_t now_ns)
{
    struct preload_watch *watch = xcalloc(1, sizeof(*watch));
    *watch = (struct preload_watch){.rank_count = rank_count,
                                    .start_ns = now_ns,
                                    .next_ns = now_ns + FIRST_INTERVAL_NS,
                                    .interval_ns = FIRST_INTERVAL_NS,
                                    .ranks = xcalloc((size_t)rank_count, sizeof(*watch->ranks))};
    return watch;
}

/* It has ended, or a process has become the rank, now or in an earlier program: there is nothing to look for. */
static bool
is_settled(const struct rank_view *view)
{
    return view->ended || view->stage >= RANK_STAGE_RANK || view->generation > 0;
}

/* Suspects are looked at again within their patience, however rarely the others are. */
static void
look_at_ranks(struct preload_watch *watch, struct process_list *processes, const pid_t *pids, struct rank_view *views,
              uint64_t now_ns)
{
    bool often = false, any_suspect = false;
    process_list_read(processes);
    for (int rank = 0; rank < watch->rank_count; ++rank) {
        struct watched *watched = &watch->ranks[rank];
        if (is_settled(&views[rank]))
            continue;
        pid_t suspect = find_suspect(processes, pids[rank]);
        if (suspect != watched->suspect)
            watched->since_ns = now_ns;
        watched->suspect = suspect;
        watched->saw = watched->saw || suspect != 0;
        if (suspect != 0 && now_ns - watched->since_ns >= PATIENCE_NS)
            views[rank].preload_suspect = (int)suspect;
        any_suspect = any_suspect || suspect != 0;
        often = often || (views[rank].stage == RANK_STAGE_NONE && now_ns - watch->start_ns <= BUSY_PERIOD_NS);
    }
    watch->interval_ns = watch->interval_ns * 2 < USUAL_INTERVAL_NS ? watch->interval_ns * 2 : USUAL_INTERVAL_NS;
    watch->next_ns = now_ns + (often ? watch->interval_ns : any_suspect ? USUAL_INTERVAL_NS : LATER_INTERVAL_NS);
}

void
preload_watch_look(struct preload_watch *watch, struct process_list *processes, const pid_t *pids,
                   struct rank_view *views, uint64_t now_ns)
{
    bool any = false;
    for (int rank = 0; rank < watch->rank_count; ++rank)
        any = any || !is_settled(&views[rank]);
    if (any && now_ns >= watch->next_ns)
        look_at_ranks(watch, processes, pids, views, now_ns);
    for (int rank = 0; rank < watch->rank_count; ++rank)
        views[rank].missed_preload |= watch->ranks[rank].saw;
}

void
preload_watch_free(struct preload_watch *watch)
{
    free(watch->ranks);
    free(watch);
}
