/*
 * star.c - see star.h.
 */
#include "launcher/cluster/star.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "launcher/common/memory.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BEGIN_LIMIT_MS = 120000, /* in which a leaf has started its rank */
    LEAVE_LIMIT_MS = 10000,  /* in which supervisor 0 reports, or has gone */
    HEARD_LIMIT_MS = 1000,
    STEP_MS = 100,
    REFRESH_LIMIT_MS = 300,
};

/* Leaf: of the one for its engine nothing is left. */
static void
drop_socket(struct star *star)
{
    if (star->dialing)
        peers_dial_close(&star->dial);
    if (star->pending >= 0)
        close(star->pending);
    star->dialing = false;
    star->pending = -1;
}

void
star_open(struct star *star, const struct star_job *job, struct rank_view *views)
{
    *star = (struct star){.job = *job, .views = views, .pending = -1, .begin_ms = clock_now_ms()};
    if (job->peers != NULL)
        star->given = memory_get((size_t)job->cluster->world_size, sizeof(*star->given));
}

void
star_close(struct star *star)
{
    drop_socket(star);
    free(star->given);
}

void
star_poll(const struct star *star, struct pollfd polled[STAR_FDS])
{
    const struct star_job *job = &star->job;
    for (int i = 0; i < STAR_FDS; ++i)
        polled[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    if (job->cluster == NULL)
        return;
    polled[STAR_LAUNCHER].fd = job->cluster->pipe[0];
    polled[STAR_ENGINE].fd = engine_link_fd(job->link);
    if (job->peers != NULL)
        polled[STAR_PEERS].fd = peers_fd(job->peers);
    else if (job->leaf != NULL && job->leaf->lost == NULL)
        polled[STAR_PEERS].fd = job->leaf->link.fd;
    if (star->dialing)
        polled[STAR_DIAL] = peers_dial_poll(&star->dial);
}

/* ---- sockets for the engine ---- */

/* Supervisor 0: those that have come since, in runs of neighbours. */
static void
give_all(struct star *star)
{
    int world_size = star->job.cluster->world_size;
    if (star->joins != star->job.link->joins) {
        star->joins = star->job.link->joins;
        memset(star->given, 0, (size_t)world_size * sizeof(*star->given));
    }
    for (int rank = 1; rank < world_size; ++rank) {
        if (star->given[rank])
            continue;
        int fd = peers_take_engine_socket(star->job.peers, rank);
        if (fd < 0)
            continue;
        if (!engine_link_give(star->job.link, rank, &fd, 1)) {
            peers_put_engine_socket(star->job.peers, rank, fd);
            return;
        }
        star->given[rank] = true;
    }
}

/* Leaf: dials for the engine that joined last, step by step: its rank and supervisor 0 are heard meanwhile. */
static void
give_one(struct star *star)
{
    struct engine_link *link = star->job.link;
    struct problem problem;
    bool needs = link->joined && link->fd >= 0 && star->job.leaf->lost == NULL;
    if (!needs || star->joins != link->joins)
        drop_socket(star);
    if (needs && star->joins != link->joins) {
        star->joins = link->joins;
        star->dialing = true;
        peers_leaf_dial(star->job.leaf, &star->dial);
    }
    enum dial_outcome outcome = star->dialing ? peers_dial_step(&star->dial, &star->pending, &problem) : DIAL_GOES_ON;
    star->dialing = star->dialing && outcome == DIAL_GOES_ON;
    if (outcome == DIAL_FAILED)
        engine_link_refuse(link, problem.text);
    if (star->pending >= 0 && engine_link_give(link, 0, &star->pending, 1))
        star->pending = -1;
}

bool
star_step(struct star *star)
{
    const struct star_job *job = &star->job;
    char bytes[64];
    bool news = false;
    if (job->cluster == NULL)
        return false;
    while (read(job->cluster->pipe[0], bytes, sizeof(bytes)) > 0)
        news = true;
    if (job->peers != NULL)
        news = peers_step(job->peers, star->views) || news;
    else if (job->leaf != NULL)
        peers_leaf_step(job->leaf, &star->views[0]);
    if (job->leaf != NULL)
        give_one(star);
    else if (job->peers != NULL && job->link->joined && job->link->fd >= 0)
        give_all(star);
    return news;
}

/* ---- the end ---- */

static bool
find_lost(const struct star *star, struct problem *problem)
{
    const struct star_job *job = &star->job;
    for (int i = 1; i < job->cluster->world_size; ++i) {
        const struct peer *peer = peers_look_at(job->peers, i);
        const struct hello *hello = &job->hellos[i];
        if (peer->has_problem && peer->problem.signal == 0)
            return !problem_set(problem, peer->problem.exit_code, "rank %d (host %s): %s", i, hello->host,
                                peer->problem.text);
        if (peer->state == PEER_LOST)
            return !problem_set(problem, DDPRUN_EXIT_FAILURE,
                                "the ddprun of rank %d (process %d on host %s) is lost: %s; was it killed, is the host "
                                "or its network down?",
                                i, hello->pid, hello->host, peer->lost);
        if ((peer->state == PEER_AWAITED || (peer->state == PEER_HERE && !peer->spoke)) &&
            clock_now_ms() - star->begin_ms > BEGIN_LIMIT_MS)
            return !problem_set(problem, DDPRUN_EXIT_FAILURE,
                                "the ddprun of rank %d (process %d on host %s) has not started its rank within %d s; "
                                "is the host down, or a file server slow?",
                                i, hello->pid, hello->host, BEGIN_LIMIT_MS / 1000);
    }
    return false;
}

bool
star_find_problem(const struct star *star, struct problem *problem)
{
    const struct star_job *job = &star->job;
    if (job->cluster == NULL)
        return false;
    if (job->peers != NULL && find_lost(star, problem))
        return true;
    if (job->leaf != NULL && job->leaf->lost != NULL)
        return !problem_set(problem, DDPRUN_EXIT_FAILURE,
                            "rank %d (host %s) has lost the ddprun of rank 0 (process %d on host %s): %s; ending this "
                            "rank",
                            job->cluster->rank, job->hellos[job->cluster->rank].host, job->hellos[0].pid,
                            job->hellos[0].host, job->leaf->lost);
    if (cluster_launcher_is_gone())
        return !problem_set(problem, DDPRUN_EXIT_FAILURE,
                            "the launcher that started rank %d's ddprun (host %s) is gone; ending the job",
                            job->cluster->rank, job->hellos[job->cluster->rank].host);
    return false;
}

int
star_signal(const struct star *star)
{
    const struct star_job *job = &star->job;
    for (int i = 1; job->peers != NULL && i < job->cluster->world_size; ++i) {
        const struct peer *peer = peers_look_at(job->peers, i);
        if (peer->has_problem && peer->problem.signal != 0)
            return peer->problem.signal;
    }
    return 0;
}

static bool
is_elsewhere(const struct star *star, int rank)
{
    return star->job.peers != NULL && rank >= star->job.rank_count && rank < star->job.cluster->world_size;
}

void
star_ask_report(struct star *star, int rank)
{
    if (is_elsewhere(star, rank))
        peers_ask_report(star->job.peers, rank, star->views[rank].stage != RANK_STAGE_FAILED);
}

const char *
star_report(const struct star *star, int rank)
{
    return is_elsewhere(star, rank) ? peers_look_at(star->job.peers, rank)->report : NULL;
}

void
star_say_end(struct star *star, int exit_code, int signal, uint64_t grace_ms)
{
    struct peer_order order = {.exit_code = exit_code, .signal = signal, .grace_ms = (int)grace_ms};
    if (star->job.peers != NULL)
        peers_say_end(star->job.peers, &order);
}

void
star_say_problem(struct star *star, const struct problem *problem, int signal)
{
    struct peer_order order = {.exit_code = problem->exit_code, .signal = signal};
    snprintf(order.text, sizeof(order.text), "%.1000s", problem->text);
    if (star->job.leaf != NULL)
        peers_leaf_say_problem(star->job.leaf, &order);
}

bool
star_others_done(const struct star *star)
{
    return star->job.peers == NULL || peers_all_done(star->job.peers);
}

static void
wait_a_moment(const struct star *star)
{
    struct pollfd polled[STAR_FDS];
    star_poll(star, polled);
    poll(&polled[STAR_PEERS], 1, STEP_MS);
}

void
star_refresh(struct star *star)
{
    struct peers *peers = star->job.peers;
    if (peers == NULL)
        return;
    int64_t deadline_ms = clock_now_ms() + REFRESH_LIMIT_MS;
    peers_ask_views(peers);
    while (!peers_have_answered(peers) && clock_now_ms() < deadline_ms) {
        wait_a_moment(star);
        (void)peers_step(peers, star->views);
    }
}

static void
let_go(struct star *star, int exit_code)
{
    int64_t deadline_ms = clock_now_ms() + HEARD_LIMIT_MS;
    peers_say_leave(star->job.peers, exit_code);
    while (!peers_all_left(star->job.peers) && clock_now_ms() < deadline_ms) {
        wait_a_moment(star);
        (void)peers_step(star->job.peers, star->views);
    }
}

static int
wait_to_go(struct star *star, int exit_code)
{
    struct peers_leaf *leaf = star->job.leaf;
    int64_t deadline_ms = clock_now_ms() + LEAVE_LIMIT_MS;
    peers_leaf_say_done(leaf, &star->views[0]);
    while (!leaf->leave && leaf->lost == NULL && clock_now_ms() < deadline_ms) {
        wait_a_moment(star);
        peers_leaf_step(leaf, &star->views[0]);
    }
    return leaf->leave ? leaf->exit_code : leaf->end ? leaf->ending.exit_code : exit_code;
}

int
star_leave(struct star *star, int exit_code)
{
    if (star->job.peers != NULL)
        let_go(star, exit_code);
    else if (star->job.leaf != NULL)
        return wait_to_go(star, exit_code);
    return exit_code;
}
