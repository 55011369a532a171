/* supervisor_net.c - see supervisor_net.h. */
#include "launcher/cluster/supervisor_net.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BEGIN_LIMIT_MS = 120000, /* in which a client has started its rank */
    LEAVE_LIMIT_MS = 10000,  /* in which supervisor 0 reports, or has gone */
    HEARD_LIMIT_MS = 1000,
    STEP_MS = 100,
    REFRESH_LIMIT_MS = 300,
};

/* Client: of the one for its engine nothing is left. */
static void
drop_socket(struct supervisor_net *net)
{
    if (net->connecting)
        supervisor_connect_close(&net->connection);
    if (net->pending >= 0)
        close(net->pending);
    net->connecting = false;
    net->pending = -1;
}

void
supervisor_net_open(struct supervisor_net *net, const struct supervisor_net_job *job, struct rank_view *views)
{
    *net = (struct supervisor_net){.job = *job, .views = views, .pending = -1, .begin_ms = clock_now_ms()};
    if (job->server != NULL)
        net->given = xcalloc((size_t)job->cluster->world_size, sizeof(*net->given));
}

void
supervisor_net_close(struct supervisor_net *net)
{
    drop_socket(net);
    free(net->given);
}

void
supervisor_net_poll(const struct supervisor_net *net, struct pollfd polled[SUPERVISOR_NET_FDS])
{
    const struct supervisor_net_job *job = &net->job;
    for (int i = 0; i < SUPERVISOR_NET_FDS; ++i)
        polled[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    if (job->cluster == NULL)
        return;
    if (job->cluster->member->launcher_fd != NULL)
        polled[SUPERVISOR_NET_LAUNCHER].fd = job->cluster->member->launcher_fd();
    if (job->server != NULL)
        polled[SUPERVISOR_NET_PEERS].fd = supervisor_server_fd(job->server);
    else if (job->client != NULL && job->client->lost == NULL)
        polled[SUPERVISOR_NET_PEERS].fd = job->client->link.fd;
    if (net->connecting)
        polled[SUPERVISOR_NET_CONNECT] = supervisor_connect_poll(&net->connection);
}

/* ---- sockets for the engine ---- */

/* Supervisor 0: those that have come since. */
static void
give_all(struct supervisor_net *net)
{
    int world_size = net->job.cluster->world_size;
    if (net->joins != net->job.link->slots[0].joins) {
        net->joins = net->job.link->slots[0].joins;
        memset(net->given, 0, (size_t)world_size * sizeof(*net->given));
    }
    for (int rank = 1; rank < world_size; ++rank) {
        struct peer *peer = supervisor_server_peer(net->job.server, rank);
        if (net->given[rank] || peer->engine_socket < 0)
            continue;
        if (!engine_link_give(net->job.link, 0, rank, peer->engine_socket, peer->engine_key))
            return;
        peer->engine_socket = -1;
        net->given[rank] = true;
    }
}

/* Client: connects for the engine that joined last, step by step: its rank and supervisor 0 are heard meanwhile. */
static void
give_one(struct supervisor_net *net)
{
    struct engine_link *link = net->job.link;
    const struct engine_slot *slot = &link->slots[0];
    struct error error;
    bool needs = slot->joined && slot->fd >= 0 && net->job.client->lost == NULL;
    if (!needs || net->joins != slot->joins)
        drop_socket(net);
    if (needs && net->joins != slot->joins) {
        net->joins = slot->joins;
        net->connecting = true;
        supervisor_client_connect(net->job.client, &net->connection);
    }
    enum connect_outcome outcome =
        net->connecting ? supervisor_connect_step(&net->connection, &net->pending, &error) : CONNECT_CONTINUES;
    net->connecting = net->connecting && outcome == CONNECT_CONTINUES;
    if (outcome == CONNECT_FAILED)
        engine_link_refuse(link, 0, error.text);
    if (net->pending >= 0 && engine_link_give(link, 0, 0, net->pending, net->connection.key))
        net->pending = -1;
}

/* To the engines here. A job whose start failed before it had its link has no slots, and no engine. */
static void
give_sockets(struct supervisor_net *net)
{
    const struct engine_slot *slots = net->job.link->slots;
    if (slots == NULL)
        return;
    if (net->job.client != NULL)
        give_one(net);
    else if (net->job.server != NULL && slots[0].joined && slots[0].fd >= 0)
        give_all(net);
}

bool
supervisor_net_step(struct supervisor_net *net)
{
    const struct supervisor_net_job *job = &net->job;
    char bytes[64];
    bool news = false;
    if (job->cluster == NULL)
        return false;
    while (job->cluster->member->launcher_fd != NULL &&
           read(job->cluster->member->launcher_fd(), bytes, sizeof(bytes)) > 0)
        news = true;
    if (job->server != NULL)
        news = supervisor_server_step(job->server, net->views) || news;
    else if (job->client != NULL)
        supervisor_client_step(job->client, &net->views[0]);
    give_sockets(net);
    return news;
}

/* ---- the end ---- */

/* The error of another rank's ddprun, with that rank's name once: a text may begin with it. */
static void
take_error(const struct peer *peer, int rank, const char *host, struct error *error)
{
    char name[HANDSHAKE_HOST_BYTES + 32];
    snprintf(name, sizeof(name), "rank %d (host %s)", rank, host);
    bool is_named = strncmp(peer->error.text, name, strlen(name)) == 0;
    error_set(error, peer->error.exit_code, "%s%s%s", is_named ? "" : name, is_named ? "" : ": ", peer->error.text);
}

static bool
find_lost(const struct supervisor_net *net, struct error *error)
{
    const struct supervisor_net_job *job = &net->job;
    for (int i = 1; i < job->cluster->world_size; ++i) {
        const struct peer *peer = supervisor_server_peer(job->server, i);
        const struct handshake *handshake = &job->handshakes[i];
        if (peer->has_error && peer->error.signal == 0) {
            take_error(peer, i, handshake->host, error);
            return true;
        }
        if (peer->state == PEER_LOST)
            return !error_set(error, DDPRUN_EXIT_FAILURE,
                              "the ddprun of rank %d (process %d on host %s) is lost: %s; was it killed, is the host "
                              "or its network down?",
                              i, handshake->pid, handshake->host, peer->lost);
        if ((peer->state == PEER_AWAITED || (peer->state == PEER_HERE && !peer->spoke)) &&
            clock_now_ms() - net->begin_ms > BEGIN_LIMIT_MS)
            return !error_set(error, DDPRUN_EXIT_FAILURE,
                              "the ddprun of rank %d (process %d on host %s) has not started its rank within %d s; "
                              "is the host down, or a file server slow?",
                              i, handshake->pid, handshake->host, BEGIN_LIMIT_MS / 1000);
    }
    return false;
}

bool
supervisor_net_find_error(const struct supervisor_net *net, struct error *error)
{
    const struct supervisor_net_job *job = &net->job;
    if (job->cluster == NULL)
        return false;
    if (job->server != NULL && find_lost(net, error))
        return true;
    if (job->client != NULL && job->client->lost != NULL)
        return !error_set(error, DDPRUN_EXIT_FAILURE,
                          "rank %d (host %s) has lost the ddprun of rank 0 (process %d on host %s): %s; ending this "
                          "rank",
                          job->cluster->rank, job->handshakes[job->cluster->rank].host, job->handshakes[0].pid,
                          job->handshakes[0].host, job->client->lost);
    if (job->cluster->member->launcher_is_gone != NULL && job->cluster->member->launcher_is_gone())
        return !error_set(error, DDPRUN_EXIT_FAILURE,
                          "the launcher that started rank %d's ddprun (host %s) is gone; ending the job",
                          job->cluster->rank, job->handshakes[job->cluster->rank].host);
    return false;
}

bool
supervisor_net_has_reason(const struct supervisor_net *net, int rank)
{
    const struct supervisor_net_job *job = &net->job;
    bool is_peer = job->server != NULL && rank > 0 && rank < job->cluster->world_size;
    const struct peer *peer = is_peer ? supervisor_server_peer(job->server, rank) : NULL;
    return peer != NULL && peer->has_error && peer->error.signal == 0;
}

int
supervisor_net_signal(const struct supervisor_net *net)
{
    const struct supervisor_net_job *job = &net->job;
    for (int i = 1; job->server != NULL && i < job->cluster->world_size; ++i) {
        const struct peer *peer = supervisor_server_peer(job->server, i);
        if (peer->has_error && peer->error.signal != 0)
            return peer->error.signal;
    }
    return 0;
}

static bool
is_elsewhere(const struct supervisor_net *net, int rank)
{
    return net->job.server != NULL && rank >= net->job.rank_count && rank < net->job.cluster->world_size;
}

void
supervisor_net_ask_report(struct supervisor_net *net, int rank)
{
    if (is_elsewhere(net, rank))
        supervisor_server_ask_report(net->job.server, rank, net->views[rank].stage != RANK_STAGE_FAILED);
}

const char *
supervisor_net_report(const struct supervisor_net *net, int rank)
{
    return is_elsewhere(net, rank) ? supervisor_server_peer(net->job.server, rank)->report : NULL;
}

void
supervisor_net_say_end(struct supervisor_net *net, const struct peer_order *order)
{
    if (net->job.server != NULL)
        supervisor_server_say(net->job.server, FRAME_END, order);
}

void
supervisor_net_give_up(struct supervisor_net *net, int rank)
{
    if (is_elsewhere(net, rank))
        supervisor_server_give_up(net->job.server, rank);
}

void
supervisor_net_say_error(struct supervisor_net *net, const struct error *error, int signal, enum job_final final)
{
    struct peer_order order = {.exit_code = error->exit_code, .signal = signal, .final = (int) final};
    snprintf(order.text, sizeof(order.text), "%.1000s", error->text);
    if (net->job.client != NULL)
        peer_order_send(&net->job.client->link, FRAME_ERROR, &order);
}

enum job_final
supervisor_net_final(const struct supervisor_net *net)
{
    const struct supervisor_net_job *job = &net->job;
    if (job->client != NULL)
        return job->client->end ? (enum job_final)job->client->ending.final : JOB_MAY_BEGIN_AGAIN;
    for (int i = 1; job->server != NULL && i < job->cluster->world_size; ++i) {
        const struct peer *peer = supervisor_server_peer(job->server, i);
        if (peer->has_error && peer->error.final != JOB_MAY_BEGIN_AGAIN)
            return (enum job_final)peer->error.final;
    }
    return JOB_MAY_BEGIN_AGAIN;
}

static void
wait_a_moment(const struct supervisor_net *net)
{
    struct pollfd polled[SUPERVISOR_NET_FDS];
    supervisor_net_poll(net, polled);
    poll(&polled[SUPERVISOR_NET_PEERS], 1, STEP_MS);
}

static void
wait_for_all(const struct supervisor_net *net, enum peers_far far, int limit_ms)
{
    int64_t deadline_ms = clock_now_ms() + limit_ms;
    while (!supervisor_server_all(net->job.server, far) && clock_now_ms() < deadline_ms) {
        wait_a_moment(net);
        (void)supervisor_server_step(net->job.server, net->views);
    }
}

void
supervisor_net_ask_views(struct supervisor_net *net)
{
    if (net->job.server != NULL)
        supervisor_server_ask_views(net->job.server);
}

/* Of what has come a step reads a part: more has come to a supervisor that was stopped. */
static void
read_all(const struct supervisor_net *net)
{
    struct pollfd polled = {.fd = supervisor_server_fd(net->job.server), .events = POLLIN};
    int64_t deadline_ms = clock_now_ms() + REFRESH_LIMIT_MS;
    while (poll(&polled, 1, 0) > 0 && clock_now_ms() < deadline_ms)
        (void)supervisor_server_step(net->job.server, net->views);
}

void
supervisor_net_refresh(struct supervisor_net *net)
{
    if (net->job.server == NULL)
        return;
    read_all(net);
    supervisor_server_ask_views(net->job.server);
    wait_for_all(net, PEERS_ANSWERED, REFRESH_LIMIT_MS);
}

bool
supervisor_net_await_end(struct supervisor_net *net)
{
    struct supervisor_client *client = net->job.client;
    int64_t deadline_ms = clock_now_ms() + HEARD_LIMIT_MS;
    while (!client->end && !client->leave && client->lost == NULL && clock_now_ms() < deadline_ms) {
        wait_a_moment(net);
        supervisor_client_step(client, &net->views[0]);
    }
    return client->end || client->leave;
}

static int
wait_to_go(struct supervisor_net *net, int exit_code, int64_t others_ms)
{
    struct supervisor_client *client = net->job.client;
    int64_t deadline_ms = clock_now_ms() + LEAVE_LIMIT_MS + others_ms;
    supervisor_client_say_done(client, &net->views[0]);
    while (!client->leave && client->lost == NULL && clock_now_ms() < deadline_ms) {
        wait_a_moment(net);
        supervisor_client_step(client, &net->views[0]);
    }
    if (exit_code != 0 && (client->leave ? client->exit_code : client->ending.exit_code) == 0)
        return exit_code; /* what failed here has not succeeded */
    return client->leave ? client->exit_code : client->end ? client->ending.exit_code : exit_code;
}

int
supervisor_net_leave(struct supervisor_net *net, int exit_code, int64_t others_ms)
{
    if (net->job.client != NULL)
        return wait_to_go(net, exit_code, others_ms);
    if (net->job.server != NULL) {
        supervisor_server_say(net->job.server, FRAME_LEAVE, &(struct peer_order){.exit_code = exit_code});
        wait_for_all(net, PEERS_LEFT, HEARD_LIMIT_MS);
    }
    return exit_code;
}
