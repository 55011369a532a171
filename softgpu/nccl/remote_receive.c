/*
 * remote_receive.c - receiving what the ranks of other hosts send, into their mirrors. It waits for nothing but data:
 * who sends to this rank is never held up by what its operations do.
 *
 * An operation that waits for a rank of another host receives in its own thread, so that one wake-up brings what it
 * waits for. At all other times a thread of the remote's own receives. Each of the two waits in a set of all sockets.
 * Both sets are exclusive, and a socket asks the set to which it was added first, the operation's: data wake the
 * operation if it waits there, else the thread, and only one of them. So the one that is woken reads all there is.
 * What comes later wakes again.
 */
#include "nccl/remote_links.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Bytes that are waited for at once. */
enum { LOW_LEAST = 8 << 10, LOW_MOST = 64 << 10 };

/* The number of the eventfd in a set, beside those of the ranks. */
enum { EVENT = SEGMENT_MAX_RANKS };

/* Nothing more comes from this rank: the threads that wait for it look again. */
static void
give_up(struct remote *remote, int peer, enum wait_result health)
{
    struct segment *segment = remote->segment;
    struct link *link = &remote->links[peer];
    for (int r = 0; r < RECEIVER_COUNT; ++r)
        epoll_ctl(remote->receivers[r].set, EPOLL_CTL_DEL, link->socket, NULL);
    atomic_store(&link->health, health);
    segment_ring(segment, segment->rank);
}

/* What the end of a connection means. */
static enum wait_result
health_of_end(int error)
{
    switch (error) {
    case 0:
    case ECONNRESET:
    case EPIPE:
        return WAIT_PEER_ENDED; /* the other host's system closed it, as it does when a process ends */
    default:
        return WAIT_PEER_SILENT;
    }
}

/* What was read ahead, after what the reader had room for. */
static bool
take_ahead(struct link *link, struct mirror *mirror, size_t count, bool *arrived_p)
{
    for (size_t done = 0, some; done < count; done += some) {
        size_t room;
        void *to = frame_room(&link->reader, &room);
        some = count - done < room ? count - done : room;
        memcpy(to, link->ahead + done, some);
        if (!frame_arrived(&link->reader, mirror, some, arrived_p))
            return false;
    }
    return true;
}

/*
 * A part of a frame that completes nothing wakes no thread, unless it is large: LOW_MOST bytes are copied while the
 * rest comes. The system makes room for that many, and wakes at once for the end of a connection.
 */
static void
set_low(struct link *link)
{
    size_t missing = frame_missing(&link->reader);
    int low = missing > LOW_MOST ? LOW_MOST : missing >= LOW_LEAST ? (int)missing : 1;
    if (low != link->low && setsockopt(link->socket, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)) == 0)
        link->low = low;
}

/* A call reads the rest of a frame and the beginning of the next. A call that could have read more has read all. */
static void
receive_turn(struct remote *remote, int peer)
{
    struct link *link = &remote->links[peer];
    struct mirror *mirror = remote->segment->mirrors[peer];
    bool has_arrived = false;
    for (size_t most = 0, got = 0; got == most && atomic_load(&link->health) == WAIT_REACHED;) {
        size_t room;
        struct iovec parts[2] = {{.iov_base = frame_room(&link->reader, &room)},
                                 {.iov_base = link->ahead, .iov_len = sizeof(link->ahead)}};
        parts[0].iov_len = room;
        most = room + sizeof(link->ahead);
        ssize_t result = readv(link->socket, parts, 2);
        if (result < 0 && errno == EINTR)
            continue;
        if (result < 0 && errno == EAGAIN)
            break;
        if (result <= 0) {
            int error = result < 0 ? errno : atomic_load(&link->send_error);
            give_up(remote, peer, health_of_end(error));
            break;
        }
        got = (size_t)result;
        if (!frame_arrived(&link->reader, mirror, got < room ? got : room, &has_arrived) ||
            (got > room && !take_ahead(link, mirror, got - room, &has_arrived))) {
            give_up(remote, peer, WAIT_PEER_GARBLED);
            shutdown(link->socket, SHUT_RDWR);
            break;
        }
    }
    set_low(link);
    if (has_arrived)
        segment_ring(remote->segment, remote->segment->rank);
}

/* Waits for data, at most `timeout_ms` (-1: without end), and receives them. False if the eventfd was signalled. */
static bool
receive(struct remote *remote, enum receiver receiver, int timeout_ms)
{
    struct epoll_event events[SEGMENT_MAX_RANKS + 1];
    int count = epoll_wait(remote->receivers[receiver].set, events, SEGMENT_MAX_RANKS + 1, timeout_ms);
    bool is_signalled = false;
    for (int i = 0; i < count; ++i) { /* none: EINTR, or a passing want of memory */
        if (events[i].data.u32 == EVENT) {
            is_signalled = true;
            continue;
        }
        struct link *link = &remote->links[events[i].data.u32];
        pthread_mutex_lock(&link->receiving);
        receive_turn(remote, (int)events[i].data.u32);
        pthread_mutex_unlock(&link->receiving);
    }
    return !is_signalled;
}

void
remote_signal(struct remote *remote, enum receiver receiver)
{
    const uint64_t one = 1;
    while (write(remote->receivers[receiver].event, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

static void *
receive_main(void *argument)
{
    struct remote *remote = argument;
    while (receive(remote, RECEIVER_THREAD, -1))
        remote_wake(remote); /* an operation may have begun to wait for what came, in its set */
    return NULL;
}

_Atomic uint32_t *
remote_waiters(struct remote *remote)
{
    return &remote->waiters;
}

void
remote_wake(struct remote *remote)
{
    if (atomic_load(&remote->waiters) > 0)
        remote_signal(remote, RECEIVER_OPERATION);
}

void
remote_wait(struct remote *remote, int timeout_ms)
{
    uint64_t signals;
    if (!receive(remote, RECEIVER_OPERATION, timeout_ms))
        (void)!read(remote->receivers[RECEIVER_OPERATION].event, &signals, sizeof(signals));
}

/* An errno, 0 for success. */
static int
make_sets(struct remote *remote)
{
    for (int r = 0; r < RECEIVER_COUNT; ++r) {
        int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), set = epoll_create1(EPOLL_CLOEXEC);
        remote->receivers[r] = (struct receiver_set){.event = event, .set = set};
        struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = EVENT};
        if (event < 0 || set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, event, &wanted) < 0)
            return errno;
        wanted.events = EPOLLIN | EPOLLEXCLUSIVE;
        for (wanted.data.u32 = 0; wanted.data.u32 < EVENT; ++wanted.data.u32) {
            int socket = remote->links[wanted.data.u32].socket;
            if (socket >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, socket, &wanted) < 0)
                return errno;
        }
    }
    return 0;
}

int
remote_receive_start(struct remote *remote)
{
    int error = make_sets(remote);
    if (error != 0)
        return error;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&remote->thread, NULL, receive_main, remote);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
