/*
 * spread.c - what a rank does when the world has several hosts: the ranks of its host meet under a root of their own,
 * the first of them; then it connects with each rank of another host, the later one to the earlier one.
 *
 * Whom it waits for is always an earlier rank until it has connected with all of them, so the ranks never wait in a
 * circle. Strangers at its door neither hold it up nor are read beyond their answer.
 */
#include "nccl/bootstrap_wire.h"
#include "nccl/clock.h"
#include "nccl/inherited.h"
#include "nccl/remote.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Strangers that are heard at the same time; more than that wait in the listen queue. */
enum { DOORS = 160 };

struct spread {
    struct segment *segment;
    struct meeting *meeting;
    const struct id_content *id;
    int listener; /* -1: none */
    int missing;  /* later ranks of other hosts that have not connected */
    int sockets[SEGMENT_MAX_RANKS];
    struct door doors[DOORS];
};

/* ---- this host ---- */

/* Under which id the ranks of one host meet: its name is the root's choice, one for each host. */
static struct id_content
id_of_host(const struct id_content *id, const struct ruling *spread, unsigned char host)
{
    struct id_content derived = {.magic = ID_MAGIC};
    memcpy(derived.name, spread->name, sizeof(derived.name));
    derived.name[0] ^= host;
    memcpy(derived.secret, id->secret, sizeof(derived.secret));
    return derived;
}

static bool
is_first_of_host(const struct segment *segment)
{
    return segment->place[segment->rank] == 0;
}

/* Meets those of this host under `id`, as number `place` of `count`; the segment knows its places. */
static ncclResult_t
join_host(struct segment *segment, const struct id_content *id, int place, int count, struct meeting *meeting)
{
    int connection = -1;
    struct ruling ruling;
    struct report hello = {.magic = REPORT_MAGIC, .kind = REPORT_HELLO, .rank = place, .rank_count = count};
    TRY(meeting_connect_unix(meeting, id, &connection));
    ncclResult_t result = meeting_hello_unix(meeting, connection, &hello, id);
    if (result == ncclSuccess)
        result = meeting_answer_unix(meeting, connection, segment, &ruling);
    close(connection);
    return result;
}

/* ---- the other hosts ---- */

static ncclResult_t
open_door(struct spread *spread, struct net_address *address_p)
{
    struct bootstrap_error *error = spread->meeting->error;
    if (!net_address_choose(address_p, error->text, sizeof(error->text)))
        return ncclInvalidUsage;
    if (address_p->family == 0) {
        snprintf(error->text, sizeof(error->text), "there are ranks on other hosts, and no network interface is up");
        return ncclSystemError;
    }
    inherited_lock();
    spread->listener = net_listen(address_p, SEGMENT_MAX_RANKS);
    bool good = spread->listener >= 0 && inherited_add(spread->listener);
    inherited_unlock();
    return good ? ncclSuccess : bootstrap_fail(error, ncclSystemError, "cannot listen for the ranks of other hosts");
}

static ncclResult_t
connect_to_earlier(struct spread *spread, const struct ruling *addresses)
{
    struct segment *segment = spread->segment;
    for (int r = 0; r < segment->rank; ++r) {
        if (segment->place[r] >= 0)
            continue;
        TRY(meeting_connect(spread->meeting, &addresses->addresses[r], spread->id->secret, AUTH_PEER, segment->rank,
                            &spread->sockets[r]));
    }
    return ncclSuccess;
}

static void
shut(struct door *door)
{
    inherited_close(door->socket);
    door->socket = -1;
}

/* A place at the door: a free one, or else that of who has stood there longest. */
static struct door *
find_door(struct spread *spread)
{
    struct door *oldest = &spread->doors[0];
    for (int i = 0; i < DOORS; ++i) {
        if (spread->doors[i].socket < 0)
            return &spread->doors[i];
        if (spread->doors[i].deadline_ns < oldest->deadline_ns)
            oldest = &spread->doors[i];
    }
    shut(oldest);
    return oldest;
}

static void
greet(struct spread *spread)
{
    inherited_lock();
    int socket = accept4(spread->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    bool is_noted = socket >= 0 && inherited_add(socket);
    inherited_unlock();
    if (socket < 0)
        return;
    struct door *door = find_door(spread);
    if (!is_noted || door_greet(door, socket, clock_now_ns()) == DOOR_SHUT) {
        door->socket = -1;
        inherited_close(socket);
    }
}

static void
hear_door(struct spread *spread, struct door *door)
{
    struct segment *segment = spread->segment;
    int rank = -1;
    enum door_state state = door_hear(door, spread->id->secret, AUTH_PEER, &rank);
    if (state == DOOR_WAITS)
        return;
    bool is_expected = state == DOOR_OPEN && rank > segment->rank && rank < segment->rank_count &&
                       segment->place[rank] < 0 && spread->sockets[rank] < 0;
    if (!is_expected) {
        shut(door);
        return;
    }
    spread->sockets[rank] = door->socket;
    door->socket = -1;
    --spread->missing;
}

/* One round of waiting for the listener and the doors; the root may report that the ranks cannot meet. */
static ncclResult_t
hear_doors(struct spread *spread)
{
    struct pollfd fds[2 + DOORS];
    struct door *of[2 + DOORS];
    nfds_t count = 0;
    int64_t now_ns = clock_now_ns();
    fds[count++] = (struct pollfd){.fd = spread->listener, .events = POLLIN};
    fds[count++] = (struct pollfd){.fd = spread->meeting->socket, .events = POLLIN};
    for (int i = 0; i < DOORS; ++i) {
        struct door *door = &spread->doors[i];
        if (door->socket >= 0 && door->deadline_ns <= now_ns)
            shut(door);
        if (door->socket < 0)
            continue;
        of[count] = door;
        fds[count++] = (struct pollfd){.fd = door->socket, .events = POLLIN};
    }
    if (poll(fds, count, 100) < 0 && errno != EINTR)
        return bootstrap_fail(spread->meeting->error, ncclSystemError, "cannot wait for the ranks of other hosts");
    for (nfds_t i = 2; i < count; ++i) {
        if (fds[i].revents)
            hear_door(spread, of[i]);
    }
    if (fds[0].revents)
        greet(spread);
    /* With the socket of the root itself to wait for, this only looks whether it has spoken, and at a cancel. */
    if (fds[1].revents)
        return meeting_wait(spread->meeting, spread->listener, POLLIN, 0);
    return meeting_is_cancelled(spread->meeting) ? meeting_wait(spread->meeting, -1, 0, 0) : ncclSuccess;
}

static ncclResult_t
accept_later(struct spread *spread)
{
    struct segment *segment = spread->segment;
    for (int r = segment->rank + 1; r < segment->rank_count; ++r)
        spread->missing += segment->place[r] < 0;
    ncclResult_t result = ncclSuccess;
    while (spread->missing > 0 && result == ncclSuccess)
        result = hear_doors(spread);
    return result;
}

static ncclResult_t
join_world(struct spread *spread, const struct id_content *host_id)
{
    struct segment *segment = spread->segment;
    struct meeting *meeting = spread->meeting;
    struct report report = {.kind = REPORT_ADDRESS};
    ncclResult_t result = ncclSuccess;
    if (segment->local_count < segment->rank_count)
        result = open_door(spread, &report.address);
    if (result == ncclSuccess && is_first_of_host(segment)) {
        struct id_content served = *host_id;
        result = bootstrap_root_start(&served, meeting->error);
    }
    struct ruling addresses;
    if (result == ncclSuccess)
        result = meeting_report(meeting, &report);
    if (result == ncclSuccess)
        result = meeting_ruling(meeting, RULING_ADDRESSES, &addresses);
    if (result == ncclSuccess)
        result = join_host(segment, host_id, segment->place[segment->rank], segment->local_count, meeting);
    if (result == ncclSuccess)
        result = connect_to_earlier(spread, &addresses);
    if (result == ncclSuccess)
        result = accept_later(spread);
    if (result == ncclSuccess && segment->local_count < segment->rank_count && !remote_start(segment, spread->sockets))
        result = bootstrap_fail(meeting->error, ncclSystemError, "cannot receive from other hosts");
    return result;
}

ncclResult_t
spread_join(struct segment *segment, const struct id_content *id, int rank, int rank_count, const struct ruling *ruling,
            struct meeting *meeting)
{
    struct spread spread = {.segment = segment, .meeting = meeting, .id = id, .listener = -1};
    const struct id_content host_id = id_of_host(id, ruling, ruling->host_of[rank]);
    for (int r = 0; r < SEGMENT_MAX_RANKS; ++r)
        spread.sockets[r] = -1;
    for (int i = 0; i < DOORS; ++i)
        spread.doors[i].socket = -1;
    segment_place(segment, rank, rank_count, ruling->host_of);
    ncclResult_t result = join_world(&spread, &host_id);

    inherited_close(spread.listener);
    for (int i = 0; i < DOORS; ++i)
        shut(&spread.doors[i]);
    for (int r = 0; r < rank_count && result != ncclSuccess; ++r)
        inherited_close(spread.sockets[r]);
    return result;
}

void
spread_undo(struct segment *segment)
{
    remote_stop(segment);
    segment_unmap(segment);
}
