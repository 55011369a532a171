/*
 * supervisor_server.c - see supervisor_server.h.
 *
 * A connection is pending until it has authenticated itself; then it becomes a peer's link, or waits to be handed to
 * the engine of rank 0. A connection that does not authenticate itself in time is rejected, and the job continues:
 * strangers scan ports.
 */
#include "launcher/cluster/supervisor_server.h"

#include "base/clock.h"
#include "base/printable.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* ROUND_MS: at the least between two rounds of all clients. */
enum { PENDING_LIMIT_MS = 10000, MEETING_LIMIT_MS = 5000, ROUND_MS = 100, EVENTS = 64, PENDING_MORE = 32 };

struct pending_connection {
    int fd; /* -1: free */
    struct host_address source;
    int64_t since_ms;
    struct auth_challenge challenge;
    struct auth_answer answer;
    size_t got; /* of it */
};

struct supervisor_server {
    int epoll;
    struct listener listener;
    int world_size;
    unsigned char secret[AUTH_BYTES];
    unsigned char mark[AUTH_MARK_BYTES];
    bool has_mark;
    int limit_ms, beat_ms;
    int64_t looked_ms, round_ms, expired_ms, said_ms;
    struct peer *items; /* [world_size]; [0] is not used */
    struct pending_connection *pending;
    size_t pending_count;
    struct host_address refused; /* where an answer without the right key came from last; family 0: none came */
    bool news;
    bool ended;
    struct peer_order ending;
};

/* What an event is about. */
enum subject { SUBJECT_LISTENER, SUBJECT_PENDING, SUBJECT_PEER };

static uint64_t
tag(enum subject subject, size_t index)
{
    return (uint64_t)subject << 32 | index;
}

static bool
watch(const struct supervisor_server *server, int operation, int fd, uint32_t events, uint64_t about)
{
    struct epoll_event event = {.events = events, .data.u64 = about};
    return epoll_ctl(server->epoll, operation, fd, &event) == 0;
}

/* ---- opening and closing ---- */

/* How often supervisor 0 says that it is there. */
static int
beat_of(int limit_ms)
{
    int beat_ms = limit_ms / SUPERVISOR_SERVER_BEATS_IN_LIMIT;
    if (limit_ms == 0 || beat_ms > SUPERVISOR_SERVER_SILENT_MS)
        return SUPERVISOR_SERVER_SILENT_MS;
    return beat_ms > SUPERVISOR_SERVER_HEARTBEAT_MS ? beat_ms : SUPERVISOR_SERVER_HEARTBEAT_MS;
}

struct supervisor_server *
supervisor_server_open(struct listener *listener, int world_size, const unsigned char secret[AUTH_BYTES],
                       unsigned limit_s, struct error *error)
{
    struct supervisor_server *server = xcalloc(1, sizeof(*server));
    *server =
        (struct supervisor_server){.world_size = world_size, .limit_ms = (int)limit_s * 1000, .listener = *listener};
    server->beat_ms = beat_of(server->limit_ms);
    memcpy(server->secret, secret, AUTH_BYTES);
    server->items = xcalloc((size_t)world_size, sizeof(*server->items));
    server->pending_count = (size_t)world_size * 2 + PENDING_MORE;
    server->pending = xcalloc(server->pending_count, sizeof(*server->pending));
    for (size_t i = 0; i < server->pending_count; ++i)
        server->pending[i].fd = -1;
    for (int i = 0; i < world_size; ++i)
        server->items[i] = (struct peer){.link = {.fd = -1}, .second = {.fd = -1}, .engine_socket = -1};
    listener->fd = -1;
    server->looked_ms = clock_now_ms();
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (server->epoll >= 0 && watch(server, EPOLL_CTL_ADD, server->listener.fd, EPOLLIN, tag(SUBJECT_LISTENER, 0)))
        return server;
    error_set(error, DDPRUN_EXIT_FAILURE, "cannot make an epoll: %s; raise the limit of open files", strerror(errno));
    supervisor_server_close(server);
    return NULL;
}

void
supervisor_server_close(struct supervisor_server *server)
{
    for (size_t i = 0; i < server->pending_count; ++i) {
        if (server->pending[i].fd >= 0)
            close(server->pending[i].fd);
    }
    for (int i = 0; i < server->world_size; ++i) {
        peer_link_close(&server->items[i].link);
        peer_link_close(&server->items[i].second);
        free(server->items[i].report);
        free(server->items[i].given);
        if (server->items[i].engine_socket >= 0)
            close(server->items[i].engine_socket);
    }
    listener_close(&server->listener);
    if (server->epoll >= 0)
        close(server->epoll);
    free(server->items);
    free(server->pending);
    free(server);
}

int
supervisor_server_fd(const struct supervisor_server *server)
{
    return server->epoll;
}

/* ---- pending connections ---- */

static void
reject(struct pending_connection *pending)
{
    close(pending->fd); /* leaves the epoll with it */
    pending->fd = -1;
}

/*
 * A free place, or the one of the pending connection that has said nothing for longest: strangers must not keep others
 * out. One source may hold as many as a host needs on which all ranks are, and then replaces its own.
 */
static size_t
find_free_peer(struct supervisor_server *server, const struct host_address *source)
{
    size_t place = 0, oldest = server->pending_count, own_oldest = oldest, own = 0;
    bool is_free = false;
    for (size_t i = 0; i < server->pending_count; ++i) {
        const struct pending_connection *pending = &server->pending[i];
        if (pending->fd < 0) {
            is_free = true;
            place = i;
            continue;
        }
        if (oldest == server->pending_count || pending->since_ms < server->pending[oldest].since_ms)
            oldest = i;
        if (!addresses_equal(&pending->source, source))
            continue;
        ++own;
        if (own_oldest == server->pending_count || pending->since_ms < server->pending[own_oldest].since_ms)
            own_oldest = i;
    }
    bool is_full = own >= server->pending_count - PENDING_MORE / 2;
    if (is_free && !is_full)
        return place;
    place = is_full ? own_oldest : oldest;
    reject(&server->pending[place]);
    return place;
}

static void
accept_pending(struct supervisor_server *server)
{
    int one = 1, fd = accept4(server->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    /* What is not over with this call would come back at once: again with the next heartbeat. */
    if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        (void)watch(server, EPOLL_CTL_MOD, server->listener.fd, 0, tag(SUBJECT_LISTENER, 0));
    if (fd < 0)
        return;
    struct host_address source = {0};
    (void)!addresses_of_peer(fd, &source);
    size_t place = find_free_peer(server, &source);
    struct pending_connection *pending = &server->pending[place];
    *pending = (struct pending_connection){.fd = fd, .source = source, .since_ms = clock_now_ms()};
    /* A few dozen bytes into the empty buffer of a new connection fit, or it is no connection. */
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
        !auth_challenge_make(&pending->challenge, server->has_mark ? server->mark : NULL) ||
        send(fd, &pending->challenge, sizeof(pending->challenge), MSG_NOSIGNAL | MSG_DONTWAIT) !=
            (ssize_t)sizeof(pending->challenge) ||
        !watch(server, EPOLL_CTL_ADD, fd, EPOLLIN, tag(SUBJECT_PENDING, place)))
        reject(pending);
}

static void hear_peer(struct supervisor_server *server, struct peer *peer, struct rank_view *view);
static void settle(struct supervisor_server *server, int rank, int64_t now_ms);

/* In a meeting, a rank that was started again takes its place, once the connection that it had is closed. */
static void
make_room(struct supervisor_server *server, int rank)
{
    struct peer *peer = &server->items[rank];
    struct rank_view ignored = {.ended = false};
    if (peer->state == PEER_HERE) {
        hear_peer(server, peer, &ignored);
        settle(server, rank, clock_now_ms());
    }
    if (peer->state != PEER_LOST)
        return;
    free(peer->given);
    *peer = (struct peer){.link = {.fd = -1}, .second = {.fd = -1}, .engine_socket = -1, .came_back = true};
}

/* The connection is authenticated. A second supervisor of a rank is a mistake of the launcher, and is rejected. */
static void
admit(struct supervisor_server *server, struct pending_connection *pending)
{
    const struct auth_answer *answer = &pending->answer;
    struct peer *peer = &server->items[answer->rank];
    unsigned char key[AUTH_BYTES];
    int fd = pending->fd;
    pending->fd = -1;
    auth_session_key(server->secret, &pending->challenge, answer, key);
    if (answer->purpose == PEER_ENGINE) {
        (void)epoll_ctl(server->epoll, EPOLL_CTL_DEL, fd, NULL); /* lives on in another process */
        if (peer->engine_socket >= 0)
            close(peer->engine_socket);
        peer->engine_socket = fd;
        memcpy(peer->engine_key, key, AUTH_BYTES);
        return;
    }
    if (server->has_mark)
        make_room(server, answer->rank);
    if (peer->state != PEER_AWAITED ||
        !watch(server, EPOLL_CTL_MOD, fd, EPOLLIN, tag(SUBJECT_PEER, (size_t)answer->rank))) {
        (void)epoll_ctl(server->epoll, EPOLL_CTL_DEL, fd, NULL);
        peer->came_twice = true;
        peer_link_close(&peer->second);
        supervisor_link_open(&peer->second, fd, key, true);
        if (!server->has_mark) /* only a meeting has a word for it */
            peer_link_close(&peer->second);
        return;
    }
    supervisor_link_open(&peer->link, fd, key, true);
    peer->state = PEER_HERE;
    peer->heard_ms = clock_now_ms();
    if (server->ended)
        peer_order_send(&peer->link, FRAME_END, &server->ending);
}

static void
hear_pending(struct supervisor_server *server, struct pending_connection *pending)
{
    struct auth_answer *answer = &pending->answer;
    struct auth_welcome welcome;
    enum link_state heard =
        pending->fd >= 0 ? socket_receive(pending->fd, answer, sizeof(*answer), &pending->got) : LINK_LATE;
    if (heard == LINK_LATE)
        return;
    if (heard == LINK_OPEN &&
        auth_welcome_make(server->secret, &pending->challenge, answer, server->world_size, &welcome) &&
        send(pending->fd, &welcome, sizeof(welcome), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(welcome)) {
        admit(server, pending);
        return;
    }
    if (heard == LINK_OPEN)
        server->refused = pending->source;
    reject(pending);
}

void
supervisor_server_describe_refused(const struct supervisor_server *server, char *text, size_t bytes)
{
    static const char mapped[] = "::ffff:"; /* IPv4, as a socket for both has it (RFC 4291, 2.5.5.2) */
    char address[ADDRESS_TEXT_BYTES];
    if (server->refused.family == 0)
        return;
    const char *plain = addresses_text(&server->refused, address);
    if (strncmp(plain, mapped, sizeof(mapped) - 1) == 0)
        plain += sizeof(mapped) - 1;
    printable_append(text, bytes,
                     " (a ddprun at %s was refused: of another job, or with another secret or number of processes: "
                     "compare -n and --nnodes)",
                     plain);
}

/* ---- peers ---- */

static void
lose(struct supervisor_server *server, struct peer *peer, const char *why)
{
    server->news = true;
    if (peer->state == PEER_HERE) {
        peer->state = PEER_LOST;
        peer->lost = why;
    }
    peer_link_close(&peer->link);
}

static bool
take_view(struct supervisor_server *server, const struct peer_frame *frame, struct rank_view *view)
{
    struct rank_view before = *view;
    if (!rank_view_decode(frame->bytes, frame->count, view))
        return false;
    server->news = server->news || rank_view_is_urgent(&before, view);
    return true;
}

/* Printed as it is later, so what could steer a terminal is taken out. */
static void
take_report(struct peer *peer, const struct peer_frame *frame)
{
    free(peer->report);
    peer->report = xcalloc(1, frame->count + 1);
    for (size_t i = 0; i < frame->count; ++i) {
        unsigned char byte = frame->bytes[i];
        peer->report[i] = (char)(byte >= ' ' || byte == '\n' || byte == '\t' ? byte : '?');
    }
}

/* One at a time: the next round begins when all have what was given in this one. */
static bool
take_gift(struct peer *peer, const struct peer_frame *frame)
{
    if (peer->given != NULL)
        return false;
    peer->given = xcalloc(1, frame->count + 1);
    memcpy(peer->given, frame->bytes, frame->count);
    peer->given_count = frame->count;
    return true;
}

static bool
take_frame(struct supervisor_server *server, struct peer *peer, const struct peer_frame *frame, struct rank_view *view)
{
    switch (frame->kind) {
    case FRAME_VIEW:
        peer->owes_view = false;
        return take_view(server, frame, view);
    case FRAME_ERROR:
        server->news = true;
        peer->has_error = peer_order_decode(frame->bytes, frame->count, &peer->error) && peer->error.exit_code != 0;
        return peer->has_error; /* one that ends by itself has not succeeded */
    case FRAME_REPORT:
        take_report(peer, frame);
        return true;
    case FRAME_GIVE:
        return take_gift(peer, frame);
    case FRAME_DONE:
        server->news = true;
        peer->state = PEER_DONE;
        return true;
    default:
        return frame->kind == FRAME_HEARTBEAT;
    }
}

static void
hear_peer(struct supervisor_server *server, struct peer *peer, struct rank_view *view)
{
    struct peer_frame frame;
    if (peer->link.fd < 0)
        return;
    peer_link_read(&peer->link);
    while (peer_link_next(&peer->link, &frame)) {
        peer->heard_ms = clock_now_ms();
        peer->spoke = true;
        if (!take_frame(server, peer, &frame, view))
            peer->link.state = LINK_ALTERED;
    }
}

/* After what was heard and said: what follows for each peer. */
static void
settle(struct supervisor_server *server, int rank, int64_t now_ms)
{
    struct peer *peer = &server->items[rank];
    if (peer->link.fd < 0)
        return;
    bool waits = !peer_link_flush(&peer->link);
    if (waits != peer->waits_to_write && watch(server, EPOLL_CTL_MOD, peer->link.fd,
                                               waits ? EPOLLIN | EPOLLOUT : EPOLLIN, tag(SUBJECT_PEER, (size_t)rank)))
        peer->waits_to_write = waits;
    if (peer->link.state != LINK_OPEN)
        lose(server, peer, peer->link.state == LINK_ALTERED ? PEER_ALTERED : "its connection is closed");
    else if (server->limit_ms > 0 && peer->spoke && now_ms - peer->heard_ms > server->limit_ms)
        lose(server, peer, "it has been silent for the time of --heartbeat-timeout");
}

static void
take_events(struct supervisor_server *server, struct rank_view *views)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(server->epoll, events, EVENTS, 0);
    for (int i = 0; i < count; ++i) {
        size_t index = (size_t)(events[i].data.u64 & 0xffffffff);
        switch ((enum subject)(events[i].data.u64 >> 32)) {
        case SUBJECT_LISTENER:
            accept_pending(server);
            break;
        case SUBJECT_PENDING:
            hear_pending(server, &server->pending[index]);
            break;
        case SUBJECT_PEER:
            hear_peer(server, &server->items[index], &views[index]);
            settle(server, (int)index, clock_now_ms());
            break;
        }
    }
}

/* Once in a heartbeat. */
static void
reject_expired(struct supervisor_server *server, int64_t now_ms)
{
    int limit_ms = server->has_mark ? MEETING_LIMIT_MS : PENDING_LIMIT_MS;
    (void)watch(server, EPOLL_CTL_MOD, server->listener.fd, EPOLLIN, tag(SUBJECT_LISTENER, 0));
    for (size_t i = 0; i < server->pending_count; ++i) {
        if (server->pending[i].fd >= 0 && now_ms - server->pending[i].since_ms > limit_ms)
            reject(&server->pending[i]);
    }
}

/* Reads heartbeats, which wake no process, from the peers for which it is time; and sends heartbeats. */
static void
go_round(struct supervisor_server *server, struct rank_view *views, int64_t now_ms, bool stalled)
{
    bool says = now_ms - server->said_ms >= server->beat_ms;
    if (says)
        server->said_ms = now_ms;
    for (int i = 1; i < server->world_size; ++i) {
        struct peer *peer = &server->items[i];
        if (stalled)
            peer->heard_ms = now_ms;
        if (now_ms - peer->heard_ms >= SUPERVISOR_SERVER_HEARTBEAT_MS * 3 / 4)
            hear_peer(server, peer, &views[i]);
        if (says)
            peer_link_send_quietly(&peer->link, FRAME_HEARTBEAT, NULL, 0);
        settle(server, i, now_ms);
    }
}

bool
supervisor_server_step(struct supervisor_server *server, struct rank_view *views)
{
    int64_t now_ms = clock_now_ms();
    bool stalled = now_ms - server->looked_ms > SUPERVISOR_SERVER_STALL_MS; /* it did not look: no heartbeat was read */
    server->looked_ms = now_ms;
    server->news = false;
    take_events(server, views);
    if (now_ms - server->round_ms >= ROUND_MS) {
        server->round_ms = now_ms;
        go_round(server, views, now_ms, stalled);
    }
    if (now_ms - server->expired_ms >= SUPERVISOR_SERVER_HEARTBEAT_MS) {
        server->expired_ms = now_ms;
        reject_expired(server, now_ms);
    }
    return server->news;
}

struct peer *
supervisor_server_peer(const struct supervisor_server *server, int rank)
{
    return &server->items[rank];
}

void
supervisor_server_ask_views(struct supervisor_server *server)
{
    for (int i = 1; i < server->world_size; ++i) {
        struct peer *peer = &server->items[i];
        peer->owes_view = peer->state == PEER_HERE;
        peer_link_send(&peer->link, FRAME_LOOK, NULL, 0);
    }
}

void
supervisor_server_say_wanted(struct supervisor_server *server, uint64_t wanted)
{
    for (int i = 1; i < server->world_size; ++i)
        peer_link_send(&server->items[i].link, FRAME_WANTED, &wanted, sizeof(wanted));
}

bool
supervisor_server_all(const struct supervisor_server *server, enum peers_far far)
{
    bool all = true;
    for (int i = 1; i < server->world_size && all; ++i) {
        const struct peer *peer = &server->items[i];
        const bool is[] = {
            [PEERS_ANSWERED] = !peer->owes_view || peer->state != PEER_HERE,
            [PEERS_FLUSHED] = peer->link.out.count == 0,
            [PEERS_DONE] = peer->state == PEER_DONE || peer->state == PEER_LOST,
            [PEERS_LEFT] = peer->link.fd < 0,
        };
        all = is[far];
    }
    return all;
}

void
supervisor_server_ask_report(struct supervisor_server *server, int rank, bool stacks)
{
    unsigned char byte = stacks;
    struct peer *peer = &server->items[rank];
    free(peer->report);
    peer->report = NULL;
    peer_link_send(&peer->link, FRAME_ASK, &byte, 1);
}

/* ---- a meeting ---- */

void
supervisor_server_mark(struct supervisor_server *server, const unsigned char *mark)
{
    memcpy(server->mark, mark, AUTH_MARK_BYTES);
    server->has_mark = true;
}

void
supervisor_server_give(struct supervisor_server *server, int rank, const void *bytes, size_t count, bool wakes)
{
    uint32_t number = (uint32_t)rank;
    unsigned char *given = xcalloc(1, sizeof(number) + count);
    memcpy(given, &number, sizeof(number));
    memcpy(given + sizeof(number), bytes, count);
    struct peer_frame frame = {.kind = FRAME_GIVEN, .bytes = given, .count = sizeof(number) + count};
    for (int i = 1; i < server->world_size; ++i)
        peer_link_send_frame(&server->items[i].link, &frame, wakes);
    free(given);
}

/* ---- the end ---- */

void
supervisor_server_say(struct supervisor_server *server, enum frame_kind kind, const struct peer_order *order)
{
    server->ended = server->ended || kind == FRAME_END;
    if (kind == FRAME_END)
        server->ending = *order;
    for (int i = 1; i < server->world_size; ++i) {
        peer_order_send(&server->items[i].link, kind, order);
        peer_order_send(&server->items[i].second, kind, order);
    }
}

void
supervisor_server_give_up(struct supervisor_server *server, int rank)
{
    peer_link_send(&server->items[rank].link, FRAME_GIVE_UP, NULL, 0);
}
