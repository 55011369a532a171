/*
 * remote_receive.c - the thread that receives what the ranks of other hosts send, into their mirrors. It waits for
 * nothing but data: who sends to this rank is never held up by what its operations do.
 */
#include "nccl/remote_links.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

/* Read from one rank before another has its turn. */
enum { TURN_BYTES = 1 << 20 };

/* Nothing more comes from this rank: the threads that wait for it look again. */
static void
give_up(struct remote *remote, int peer, enum wait_result health)
{
    struct segment *segment = remote->segment;
    struct link *link = &remote->links[peer];
    atomic_store(&link->health, health);
    segment_wake_sleepers(segment->slots[peer]);
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

static void
receive_turn(struct remote *remote, int peer)
{
    struct link *link = &remote->links[peer];
    struct mirror *mirror = remote->segment->mirrors[peer];
    bool has_arrived = false;
    for (size_t done = 0; done < TURN_BYTES;) {
        size_t room;
        void *to = frame_room(&link->reader, &room);
        ssize_t got = recv(link->socket, to, room, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (got <= 0) {
            int error = got < 0 ? errno : atomic_load(&link->send_error);
            give_up(remote, peer, health_of_end(error));
            break;
        }
        done += (size_t)got;
        if (!frame_arrived(&link->reader, mirror, (size_t)got, &has_arrived)) {
            give_up(remote, peer, WAIT_PEER_GARBLED);
            shutdown(link->socket, SHUT_RDWR);
            break;
        }
    }
    if (has_arrived)
        segment_ring(remote->segment, remote->segment->rank);
}

static void *
receive_main(void *argument)
{
    struct remote *remote = argument;
    for (;;) {
        struct pollfd fds[1 + SEGMENT_MAX_RANKS];
        int of[1 + SEGMENT_MAX_RANKS];
        nfds_t count = 0;
        fds[count++] = (struct pollfd){.fd = remote->ending, .events = POLLIN};
        for (int r = 0; r < remote->segment->rank_count; ++r) {
            if (remote->links[r].socket < 0 || atomic_load(&remote->links[r].health) != WAIT_REACHED)
                continue;
            of[count] = r;
            fds[count++] = (struct pollfd){.fd = remote->links[r].socket, .events = POLLIN};
        }
        if (poll(fds, count, -1) < 0)
            continue; /* EINTR, or a passing want of memory */
        if (fds[0].revents)
            return NULL;
        for (nfds_t i = 1; i < count; ++i) {
            if (fds[i].revents)
                receive_turn(remote, of[i]);
        }
    }
}

int
remote_receive_start(struct remote *remote)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&remote->thread, NULL, receive_main, remote);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
