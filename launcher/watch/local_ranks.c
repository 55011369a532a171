/*
 * local_ranks.c - see local_ranks.h.
 */
#include "launcher/watch/local_ranks.h"

#include "base/protocol.h"
#include "base/status_page.h"
#include "launcher/memory.h"
#include "launcher/watch/out_of_memory.h"
#include "launcher/watch/process_state.h"
#include "launcher/watch/rank_record.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void
read_means(struct rank_view *view, const struct rank_status *status)
{
    uint32_t count = atomic_load(&status->told.mean_count);
    view->mean_count = count < RANK_MEANS_AT_MOST ? count : RANK_MEANS_AT_MOST;
    for (unsigned i = 0; i < view->mean_count; ++i) {
        const struct rank_mean *mean = &status->told.means[i];
        uint64_t bits = atomic_load(&mean->value);
        memcpy(&view->means[i].value, &bits, sizeof(bits));
        view->means[i].step = atomic_load(&mean->step);
        memcpy(view->means[i].name, mean->name, sizeof(mean->name));
        memcpy(view->means[i].place, mean->place, sizeof(mean->place));
        view->means[i].name[sizeof(mean->name) - 1] = view->means[i].place[sizeof(mean->place) - 1] = '\0';
    }
}

static void
read_status(struct rank_view *view, const struct rank_status *status)
{
    view->generation = atomic_load(&status->generation);
    view->stage = atomic_load(&status->stage); /* first: the rest is written before it */
    view->step = atomic_load(&status->step);
    view->overlapped_step = atomic_load(&status->overlapped_step);
    view->graph_step = atomic_load(&status->graph_step);
    view->gradient_count = atomic_load(&status->gradient_count);
    view->gradient_bytes = atomic_load(&status->gradient_bytes);
    view->bucket_count = atomic_load(&status->bucket_count);
    view->exposed_count = atomic_load(&status->exposed_count);
    view->exposed_ns = atomic_load(&status->exposed_ns);
    view->exposed_bound_ns = atomic_load(&status->exposed_bound_ns);
    view->sums = atomic_load(&status->reduction) == DDPRUN_REDUCE_SUM;
    view->shard_total = atomic_load(&status->told.shard_total);
    view->nccl_version = atomic_load(&status->nccl_version);
    read_means(view, status);
    view->check_count = atomic_load(&status->check_count);
    view->checked_step = atomic_load(&status->checked_step);
    view->parameter_hash = atomic_load(&status->parameter_hash);
    if (view->stage != RANK_STAGE_FAILED)
        return;
    uint32_t follows = atomic_load(&status->failure_follows);
    view->failure_follows = follows != RANK_FOLLOWS_NOBODY;
    view->failure_unclear = follows == RANK_MAY_FOLLOW;
    memcpy(view->failure, status->failure, sizeof(view->failure));
    view->failure[sizeof(view->failure) - 1] = '\0';
}

static uint64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* The process that is the rank, if what its record says is a process that was started for it; else that one. */
static pid_t
process_of(const struct rank_status *status, pid_t started)
{
    pid_t pid = atomic_load(&status->pid);
    return pid > 0 && pid != started && process_state_descends(pid, started) ? pid : started;
}

/* A wrapper that goes on after it may have much to do; a program that has ended, only its exit handlers. */
static bool
is_exiting(const struct rank_status *status, pid_t pid)
{
    struct process_state state;
    return atomic_load(&status->stage) == RANK_STAGE_ENDED && atomic_load(&status->pid) == pid &&
           process_state_read(pid, 0, &state) && state.state != 'Z' && state.state != 'X';
}

/* Asks the system about one rank. The ranks take turns, so that many cost no more than one. */
static void
look_at_process(struct local_ranks *local)
{
    if (local->count == 0)
        return;
    int i = local->look_at;
    local->look_at = (i + 1) % local->count;
    struct rank_view *view = &local->views[i];
    if (view->ended)
        return;
    const struct rank_status *status = status_page_rank(local->status_page, i);
    view->pid = process_of(status, local->pids[i]);
    view->stopped = process_state_is_stopped(view->pid);
    view->exiting = is_exiting(status, view->pid);
}

static void
note_end(struct rank_view *view, pid_t pid, int order)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid)
        return;
    view->ended = true;
    view->order = order;
    if (info.si_code == CLD_EXITED)
        view->exit_code = info.si_status;
    else
        view->signal = info.si_status;
}

void
local_ranks_place(struct local_ranks *local, const char *const *gpus, bool softgpu)
{
    char host[sizeof(local->views[0].host)] = "";
    local->kills_before = out_of_memory_kills("");
    (void)gethostname(host, sizeof(host) - 1);
    for (int i = 0; i < local->count; ++i) {
        struct rank_view *view = &local->views[i];
        const char *gpu = gpus != NULL ? gpus[i] : NULL;
        memcpy(view->host, host, sizeof(host));
        view->pid = local->pids[i];
        if (gpu == NULL && softgpu)
            snprintf(view->gpu, sizeof(view->gpu), "a device of the stand-in");
        else if (gpu != NULL)
            snprintf(view->gpu, sizeof(view->gpu), softgpu ? "device %.40s of the stand-in" : "GPU %.50s", gpu);
    }
}

/* One call for all of them, in the long time in which nobody has ended. */
static bool
has_anybody_ended(void)
{
    siginfo_t info = {0};
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* What the engines said to our PMIx server. */
static void
ask_server(struct local_ranks *local)
{
    struct pmix_server_abort abort;
    for (int i = 0; i < local->count; ++i)
        local->views[i].connected = pmix_server_is_connected(local->server, i);
    while (pmix_server_next_abort(local->server, &abort)) {
        if (abort.rank < 0 || abort.rank >= local->count || local->views[abort.rank].aborted)
            continue;
        local->views[abort.rank].aborted = true;
        local->views[abort.rank].abort_status = abort.status;
        memcpy(local->views[abort.rank].abort_message, abort.message, sizeof(abort.message));
    }
}

/* What the only engine said to this supervisor. */
static void
ask_link(struct local_ranks *local)
{
    struct rank_view *view = &local->views[0];
    engine_link_step(local->link);
    view->connected = local->link->joined;
    if (!local->link->aborted || view->aborted)
        return;
    view->aborted = true;
    view->abort_status = local->link->abort_status;
    memcpy(view->abort_message, local->link->abort_text, sizeof(view->abort_message));
}

/* Whether our library has reached the processes that use the driver. */
static void
watch_preload(struct local_ranks *local, uint64_t now)
{
    struct preload_subject *subjects = memory_get((size_t)local->count, sizeof(*subjects));
    for (int i = 0; i < local->count; ++i) {
        subjects[i].pid = local->pids[i];
        subjects[i].has_reported = local->views[i].ended || local->views[i].stage != RANK_STAGE_NONE;
    }
    pid_t pid;
    int rank = preload_watch_look(local->watch, subjects, now, &pid);
    free(subjects);
    for (int i = 0; i < local->count; ++i)
        local->views[i].missed_preload = preload_watch_saw(local->watch, i);
    if (rank >= 0)
        local->views[rank].preload_suspect = (int)pid;
}

/* Ends and aborts first: what a rank wrote before is then seen with them. */
void
local_ranks_look(struct local_ranks *local)
{
    uint64_t now = now_ns();
    bool ended = has_anybody_ended();
    ++local->order;
    if (local->count == 0)
        return;
    look_at_process(local);
    for (int i = 0; ended && i < local->count; ++i) {
        if (!local->views[i].ended)
            note_end(&local->views[i], local->pids[i], local->order);
        if (local->views[i].ended && local->views[i].signal == SIGKILL && local->views[i].order == local->order)
            local->views[i].out_of_memory = out_of_memory_kills("") > local->kills_before;
    }
    if (local->link != NULL)
        ask_link(local);
    else
        ask_server(local);
    for (int i = 0; i < local->count; ++i) {
        read_status(&local->views[i], status_page_rank(local->status_page, i));
        rank_record_read_activity(status_page_rank(local->status_page, i), now, &local->views[i]);
    }
    watch_preload(local, now);
}

void
local_ranks_signal(const struct local_ranks *local, int number)
{
    for (int i = 0; i < local->count; ++i) {
        if (!local->views[i].ended)
            kill(process_of(status_page_rank(local->status_page, i), local->pids[i]), number);
    }
}
