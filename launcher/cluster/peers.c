/*
 * peers.c - see peers.h.
 *
 * A connection is a guest until it has proven itself; then it becomes a peer's link, or waits to be handed to the
 * engine of rank 0. Whoever proves nothing in time is turned away, and the job goes on: strangers scan ports.
 */
#include "launcher/cluster/peers.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "launcher/cluster/view_frame.h"
#include "launcher/common/memory.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* ROUND_MS: at the least between two rounds of all leaves. */
enum { GUEST_LIMIT_MS = 10000, ROUND_MS = 100, EVENTS = 64, GUESTS_MORE = 32 };

struct guest {
    int fd; /* -1: free */
    int64_t since_ms;
    struct proof_challenge challenge;
    unsigned char answer[sizeof(struct proof_answer)];
    size_t got;
};

struct peers {
    int epoll;
    struct listener listener;
    int world_size;
    unsigned char secret[PROOF_BYTES];
    int limit_ms, beat_ms;
    int64_t looked_ms, round_ms, door_ms, said_ms;
    struct peer *items; /* [world_size]; [0] is not used */
    struct guest *guests;
    size_t guest_count;
    bool news;
    bool ended;
    struct peer_order ending;
};

/* What an event is about. */
enum subject { SUBJECT_LISTENER, SUBJECT_GUEST, SUBJECT_PEER };

static uint64_t
tag(enum subject subject, size_t index)
{
    return (uint64_t)subject << 32 | index;
}

static bool
watch(const struct peers *peers, int operation, int fd, uint32_t events, uint64_t about)
{
    struct epoll_event event = {.events = events, .data.u64 = about};
    return epoll_ctl(peers->epoll, operation, fd, &event) == 0;
}

/* ---- opening and closing ---- */

/* How often supervisor 0 says that it is there. */
static int
beat_of(int limit_ms)
{
    int beat_ms = limit_ms / PEERS_BEATS_IN_LIMIT;
    if (limit_ms == 0 || beat_ms > PEERS_SILENT_MS)
        return PEERS_SILENT_MS;
    return beat_ms > PEERS_HEARTBEAT_MS ? beat_ms : PEERS_HEARTBEAT_MS;
}

struct peers *
peers_open(struct listener *listener, int world_size, const unsigned char secret[PROOF_BYTES], unsigned limit_s,
           struct problem *problem)
{
    struct peers *peers = memory_get(1, sizeof(*peers));
    *peers = (struct peers){.world_size = world_size, .limit_ms = (int)limit_s * 1000, .listener = *listener};
    peers->beat_ms = beat_of(peers->limit_ms);
    memcpy(peers->secret, secret, PROOF_BYTES);
    peers->items = memory_get((size_t)world_size, sizeof(*peers->items));
    peers->guest_count = (size_t)world_size * 2 + GUESTS_MORE;
    peers->guests = memory_get(peers->guest_count, sizeof(*peers->guests));
    for (size_t i = 0; i < peers->guest_count; ++i)
        peers->guests[i].fd = -1;
    for (int i = 0; i < world_size; ++i)
        peers->items[i] = (struct peer){.link = {.fd = -1}, .engine_socket = -1};
    listener->fd = -1;
    peers->looked_ms = clock_now_ms();
    peers->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (peers->epoll >= 0 && watch(peers, EPOLL_CTL_ADD, peers->listener.fd, EPOLLIN, tag(SUBJECT_LISTENER, 0)))
        return peers;
    problem_set(problem, DDPRUN_EXIT_FAILURE, "cannot make an epoll: %s; raise the limit of open files",
                strerror(errno));
    peers_close(peers);
    return NULL;
}

void
peers_close(struct peers *peers)
{
    for (size_t i = 0; i < peers->guest_count; ++i) {
        if (peers->guests[i].fd >= 0)
            close(peers->guests[i].fd);
    }
    for (int i = 0; i < peers->world_size; ++i) {
        peer_link_close(&peers->items[i].link);
        free(peers->items[i].report);
        if (peers->items[i].engine_socket >= 0)
            close(peers->items[i].engine_socket);
    }
    listener_close(&peers->listener);
    if (peers->epoll >= 0)
        close(peers->epoll);
    free(peers->items);
    free(peers->guests);
    free(peers);
}

int
peers_fd(const struct peers *peers)
{
    return peers->epoll;
}

/* ---- guests ---- */

static void
turn_away(struct guest *guest)
{
    close(guest->fd); /* leaves the epoll with it */
    guest->fd = -1;
}

/* A free place, or the one of the guest that has said nothing for longest: strangers must not keep others out. */
static size_t
find_place(struct peers *peers)
{
    size_t oldest = 0;
    for (size_t i = 0; i < peers->guest_count; ++i) {
        if (peers->guests[i].fd < 0)
            return i;
        if (peers->guests[i].since_ms < peers->guests[oldest].since_ms)
            oldest = i;
    }
    turn_away(&peers->guests[oldest]);
    return oldest;
}

static void
accept_guest(struct peers *peers)
{
    int one = 1, fd = accept4(peers->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    /* What is not over with this call would come back at once: again with the next heartbeat. */
    if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        (void)watch(peers, EPOLL_CTL_MOD, peers->listener.fd, 0, tag(SUBJECT_LISTENER, 0));
    if (fd < 0)
        return;
    size_t place = find_place(peers);
    struct guest *guest = &peers->guests[place];
    *guest = (struct guest){.fd = fd, .since_ms = clock_now_ms()};
    /* A few dozen bytes into the empty buffer of a new connection fit, or it is no connection. */
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 || !proof_challenge_make(&guest->challenge) ||
        send(fd, &guest->challenge, sizeof(guest->challenge), MSG_NOSIGNAL | MSG_DONTWAIT) !=
            (ssize_t)sizeof(guest->challenge) ||
        !watch(peers, EPOLL_CTL_ADD, fd, EPOLLIN, tag(SUBJECT_GUEST, place)))
        turn_away(guest);
}

/* The guest has proven who it is. A second supervisor of a rank is a mistake of the launcher's, and turned away. */
static void
admit(struct peers *peers, struct guest *guest, const struct proof_answer *answer)
{
    struct peer *peer = &peers->items[answer->rank];
    int fd = guest->fd;
    guest->fd = -1;
    if (answer->purpose == PEER_ENGINE) {
        (void)epoll_ctl(peers->epoll, EPOLL_CTL_DEL, fd, NULL); /* lives on in another process */
        if (peer->engine_socket >= 0)
            close(peer->engine_socket);
        peer->engine_socket = fd;
        return;
    }
    if (peer->state != PEER_AWAITED ||
        !watch(peers, EPOLL_CTL_MOD, fd, EPOLLIN, tag(SUBJECT_PEER, (size_t)answer->rank))) {
        close(fd);
        return;
    }
    peer_link_open(&peer->link, fd);
    peer->state = PEER_HERE;
    peer->heard_ms = clock_now_ms();
    if (peers->ended)
        peer_link_send_order(&peer->link, FRAME_END, &peers->ending);
}

static void
hear_guest(struct peers *peers, struct guest *guest)
{
    struct proof_answer answer;
    struct proof_welcome welcome;
    if (guest->fd < 0)
        return;
    ssize_t got = recv(guest->fd, guest->answer + guest->got, sizeof(guest->answer) - guest->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0)
        guest->got += (size_t)got;
    if (got > 0 && guest->got < sizeof(guest->answer))
        return;
    memcpy(&answer, guest->answer, sizeof(answer));
    if (got <= 0 || !proof_welcome_make(peers->secret, &guest->challenge, &answer, peers->world_size, &welcome) ||
        send(guest->fd, &welcome, sizeof(welcome), MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(welcome)) {
        turn_away(guest);
        return;
    }
    admit(peers, guest, &answer);
}

/* ---- peers ---- */

static void
lose(struct peers *peers, struct peer *peer, const char *why)
{
    peers->news = true;
    if (peer->state == PEER_HERE) {
        peer->state = PEER_LOST;
        peer->lost = why;
    }
    peer_link_close(&peer->link);
}

static bool
take_view(struct peers *peers, const struct peer_frame *frame, struct rank_view *view)
{
    struct rank_view before = *view;
    if (!view_decode(frame->bytes, frame->count, view))
        return false;
    peers->news = peers->news || view_is_news(&before, view);
    return true;
}

/* Printed as it is later, so what could steer a terminal is taken out. */
static void
take_report(struct peer *peer, const struct peer_frame *frame)
{
    free(peer->report);
    peer->report = memory_get(1, frame->count + 1);
    for (size_t i = 0; i < frame->count; ++i) {
        unsigned char byte = frame->bytes[i];
        peer->report[i] = (char)(byte >= ' ' || byte == '\n' || byte == '\t' ? byte : '?');
    }
}

static bool
take_frame(struct peers *peers, struct peer *peer, const struct peer_frame *frame, struct rank_view *view)
{
    switch (frame->kind) {
    case FRAME_VIEW:
        peer->owes_view = false;
        return take_view(peers, frame, view);
    case FRAME_PROBLEM:
        peers->news = true;
        peer->has_problem = peer_order_decode(frame->bytes, frame->count, &peer->problem);
        return peer->has_problem;
    case FRAME_REPORT:
        take_report(peer, frame);
        return true;
    case FRAME_DONE:
        peers->news = true;
        peer->state = PEER_DONE;
        return true;
    default:
        return frame->kind == FRAME_HEARTBEAT;
    }
}

static void
hear_peer(struct peers *peers, struct peer *peer, struct rank_view *view)
{
    struct peer_frame frame;
    if (peer->link.fd < 0)
        return;
    peer_link_read(&peer->link);
    while (peer_link_next(&peer->link, &frame)) {
        peer->heard_ms = clock_now_ms();
        peer->spoke = true;
        if (!take_frame(peers, peer, &frame, view))
            peer->link.gone = peer->link.nonsense = true;
    }
}

/* After what was heard and said: what follows for each peer. */
static void
settle(struct peers *peers, int rank, int64_t now_ms)
{
    struct peer *peer = &peers->items[rank];
    if (peer->link.fd < 0)
        return;
    bool waits = !peer_link_flush(&peer->link);
    if (waits != peer->waits_to_write && watch(peers, EPOLL_CTL_MOD, peer->link.fd,
                                               waits ? EPOLLIN | EPOLLOUT : EPOLLIN, tag(SUBJECT_PEER, (size_t)rank)))
        peer->waits_to_write = waits;
    if (peer->link.gone)
        lose(peers, peer, peer->link.nonsense ? "it speaks another protocol" : "its connection is closed");
    else if (peers->limit_ms > 0 && peer->spoke && now_ms - peer->heard_ms > peers->limit_ms)
        lose(peers, peer, "it has been silent for the time of --heartbeat-timeout");
}

static void
take_events(struct peers *peers, struct rank_view *views)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(peers->epoll, events, EVENTS, 0);
    for (int i = 0; i < count; ++i) {
        size_t index = (size_t)(events[i].data.u64 & 0xffffffff);
        switch ((enum subject)(events[i].data.u64 >> 32)) {
        case SUBJECT_LISTENER:
            accept_guest(peers);
            break;
        case SUBJECT_GUEST:
            hear_guest(peers, &peers->guests[index]);
            break;
        case SUBJECT_PEER:
            hear_peer(peers, &peers->items[index], &views[index]);
            settle(peers, (int)index, clock_now_ms());
            break;
        }
    }
}

/* Once in a heartbeat. */
static void
look_at_door(struct peers *peers, int64_t now_ms)
{
    (void)watch(peers, EPOLL_CTL_MOD, peers->listener.fd, EPOLLIN, tag(SUBJECT_LISTENER, 0));
    for (size_t i = 0; i < peers->guest_count; ++i) {
        if (peers->guests[i].fd >= 0 && now_ms - peers->guests[i].since_ms > GUEST_LIMIT_MS)
            turn_away(&peers->guests[i]);
    }
}

/* Hears heartbeats, which wake nobody, of those for whom it is time; and sends them. */
static void
go_round(struct peers *peers, struct rank_view *views, int64_t now_ms, bool stalled)
{
    bool says = now_ms - peers->said_ms >= peers->beat_ms;
    if (says)
        peers->said_ms = now_ms;
    for (int i = 1; i < peers->world_size; ++i) {
        struct peer *peer = &peers->items[i];
        if (stalled)
            peer->heard_ms = now_ms;
        if (now_ms - peer->heard_ms >= PEERS_HEARTBEAT_MS * 3 / 4)
            hear_peer(peers, peer, &views[i]);
        if (says)
            peer_link_send_quietly(&peer->link, FRAME_HEARTBEAT, NULL, 0);
        settle(peers, i, now_ms);
    }
}

bool
peers_step(struct peers *peers, struct rank_view *views)
{
    int64_t now_ms = clock_now_ms();
    bool stalled = now_ms - peers->looked_ms > PEERS_STALL_MS; /* who did not look cannot have heard */
    peers->looked_ms = now_ms;
    peers->news = false;
    take_events(peers, views);
    if (now_ms - peers->round_ms >= ROUND_MS) {
        peers->round_ms = now_ms;
        go_round(peers, views, now_ms, stalled);
    }
    if (now_ms - peers->door_ms >= PEERS_HEARTBEAT_MS) {
        peers->door_ms = now_ms;
        look_at_door(peers, now_ms);
    }
    return peers->news;
}

const struct peer *
peers_look_at(const struct peers *peers, int rank)
{
    return &peers->items[rank];
}

int
peers_take_engine_socket(struct peers *peers, int rank)
{
    int fd = peers->items[rank].engine_socket;
    peers->items[rank].engine_socket = -1;
    return fd;
}

void
peers_put_engine_socket(struct peers *peers, int rank, int fd)
{
    peers->items[rank].engine_socket = fd;
}

void
peers_ask_views(struct peers *peers)
{
    for (int i = 1; i < peers->world_size; ++i) {
        struct peer *peer = &peers->items[i];
        peer->owes_view = peer->state == PEER_HERE;
        peer_link_send(&peer->link, FRAME_LOOK, NULL, 0);
    }
}

bool
peers_have_answered(const struct peers *peers)
{
    for (int i = 1; i < peers->world_size; ++i) {
        if (peers->items[i].owes_view && peers->items[i].state == PEER_HERE)
            return false;
    }
    return true;
}

void
peers_ask_report(struct peers *peers, int rank, bool stacks)
{
    unsigned char byte = stacks;
    struct peer *peer = &peers->items[rank];
    free(peer->report);
    peer->report = NULL;
    peer_link_send(&peer->link, FRAME_ASK, &byte, 1);
}

/* ---- the end ---- */

void
peers_say_end(struct peers *peers, const struct peer_order *order)
{
    peers->ended = true;
    peers->ending = *order;
    for (int i = 1; i < peers->world_size; ++i)
        peer_link_send_order(&peers->items[i].link, FRAME_END, order);
}

void
peers_say_leave(struct peers *peers, int exit_code)
{
    struct peer_order order = {.exit_code = exit_code};
    for (int i = 1; i < peers->world_size; ++i)
        peer_link_send_order(&peers->items[i].link, FRAME_LEAVE, &order);
}

bool
peers_all_done(const struct peers *peers)
{
    for (int i = 1; i < peers->world_size; ++i) {
        if (peers->items[i].state == PEER_AWAITED || peers->items[i].state == PEER_HERE)
            return false;
    }
    return true;
}

bool
peers_all_left(const struct peers *peers)
{
    for (int i = 1; i < peers->world_size; ++i) {
        if (peers->items[i].link.fd >= 0)
            return false;
    }
    return true;
}
