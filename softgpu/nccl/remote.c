/*
 * remote.c - see remote.h: sending, and the life of the connections. remote_receive.c receives.
 */
#include "nccl/remote_links.h"

#include "nccl/address.h"
#include "nccl/clock.h"
#include "nccl/inherited.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* How long a state or a note tries, and an operation that has been interrupted in the middle of a frame. */
#define PATIENCE_NS 1000000000LL

/* ---- sending ---- */

/* A send that failed: nothing more goes out, so that no frame is ever missing in the middle. */
static void
stop_sending(struct link *link, int reason)
{
    link->can_send = false;
    if (reason != 0 && reason != EPIPE)
        atomic_store(&link->send_error, reason); /* the receiver would only see an end */
    shutdown(link->socket, SHUT_WR);
}

/* False if the socket does not take more in time. `deadline_ns` 0: only the end of the connection or an interrupt. */
static bool
wait_writable(struct remote *remote, struct link *link, int64_t *deadline_ns)
{
    if (*deadline_ns == 0 && atomic_load(&remote->segment->interrupted))
        *deadline_ns = clock_now_ns() + PATIENCE_NS;
    if (*deadline_ns != 0 && clock_now_ns() > *deadline_ns)
        return false;
    if (atomic_load(&link->health) != WAIT_REACHED)
        return false;
    struct pollfd writable = {.fd = link->socket, .events = POLLOUT};
    poll(&writable, 1, 100);
    return true;
}

/* Frames, whole, or none any more. With the link's lock held. True if the data are not there to be read. */
static bool
send_locked(struct remote *remote, struct link *link, const struct outgoing *frames, int count, int64_t deadline_ns)
{
    struct iovec parts[2 * LINK_HELD];
    for (int i = 0; i < count; ++i) {
        parts[2 * i] = (struct iovec){.iov_base = (void *)&frames[i].frame, .iov_len = sizeof(frames[i].frame)};
        parts[2 * i + 1] = (struct iovec){.iov_base = (void *)frames[i].data, .iov_len = frames[i].frame.bytes};
    }
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count * 2};
    while (message.msg_iovlen > 0) {
        ssize_t sent = sendmsg(link->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            bool is_fault = errno == EFAULT;
            stop_sending(link, is_fault ? 0 : errno);
            return is_fault;
        }
        if (sent < 0 && !wait_writable(remote, link, &deadline_ns)) {
            stop_sending(link, 0);
            return false;
        }
        size_t left = sent > 0 ? (size_t)sent : 0;
        for (; message.msg_iovlen > 0 && left >= message.msg_iov->iov_len; --message.msg_iovlen)
            left -= message.msg_iov++->iov_len;
        if (left > 0) {
            message.msg_iov->iov_base = (unsigned char *)message.msg_iov->iov_base + left;
            message.msg_iov->iov_len -= left;
        }
    }
    return false;
}

/*
 * The system would not read a buffer of the program's: reading it here is the fault that it would be in shared memory,
 * and the driver names the operation and the allocation.
 */
static void
read_as_a_kernel(const void *data, size_t bytes)
{
    const volatile unsigned char *at = data;
    if (!at || bytes == 0)
        return;
    for (size_t i = 0; i < bytes; i += 512)
        (void)at[i];
    (void)at[bytes - 1];
}

/* Of the thread that runs operations. `is_held`: with the next frame to this rank, up to which the data stay as they
 * are. */
static void
send_frame(struct remote *remote, int peer, const struct frame *frame, const void *data, bool is_held)
{
    struct link *link = &remote->links[peer];
    link->held[link->held_count++] = (struct outgoing){.frame = *frame, .data = data};
    if (is_held && link->held_count < LINK_HELD)
        return;
    int count = link->held_count;
    link->held_count = 0;
    pthread_mutex_lock(&link->sending);
    bool is_fault = link->can_send && send_locked(remote, link, link->held, count, 0);
    pthread_mutex_unlock(&link->sending);
    for (int i = 0; is_fault && i < count; ++i) /* with no lock held: the thread may not come back */
        read_as_a_kernel(link->held[i].data, link->held[i].frame.bytes);
}

/* From a call of the program's, while an operation may run in another thread: past frames that it holds. */
static void
send_beside(struct remote *remote, int peer, const struct frame *frame)
{
    struct link *link = &remote->links[peer];
    const struct outgoing outgoing = {.frame = *frame};
    pthread_mutex_lock(&link->sending);
    if (link->can_send)
        (void)send_locked(remote, link, &outgoing, 1, 0);
    pthread_mutex_unlock(&link->sending);
}

static void
nap(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
}

/* To one rank, within a time that does not depend on it, and past frames that are held. */
static void
send_urgently(struct remote *remote, int peer, const struct frame *frame, const void *data, int64_t deadline_ns)
{
    struct link *link = &remote->links[peer];
    while (pthread_mutex_trylock(&link->sending) != 0) {
        if (clock_now_ns() > deadline_ns) {
            shutdown(link->socket, SHUT_WR); /* an operation is stuck half-way: the peer learns from the end */
            return;
        }
        nap();
    }
    const struct outgoing outgoing = {.frame = *frame, .data = data};
    if (link->can_send)
        (void)send_locked(remote, link, &outgoing, 1, deadline_ns);
    pthread_mutex_unlock(&link->sending);
}

#define FOR_EACH_LINK(remote, peer)                                  \
    for (int peer = 0; peer < (remote)->segment->rank_count; ++peer) \
        if ((remote)->links[peer].socket >= 0)

void
remote_progress(struct remote *remote, enum progress which, uint32_t value)
{
    const struct frame frame = {.kind = FRAME_PROGRESS, .which = which, .value = value};
    const bool is_of_call = which == PROGRESS_CONNECTED || which == PROGRESS_MET;
    FOR_EACH_LINK(remote, peer)
    {
        if (is_of_call)
            send_beside(remote, peer, &frame);
        else
            send_frame(remote, peer, &frame, NULL, which == PROGRESS_TAKEN);
    }
}

void
remote_signature(struct remote *remote, uint32_t number, const struct operation_signature *signature, bool is_held)
{
    const struct frame frame = {.kind = FRAME_SIGNATURE, .value = number, .bytes = sizeof(*signature)};
    FOR_EACH_LINK(remote, peer)
    send_frame(remote, peer, &frame, signature, is_held);
}

void
remote_staged(struct remote *remote, int peer, enum staging which, uint32_t stage, size_t offset, const void *data,
              size_t bytes)
{
    const struct frame frame = {
        .kind = FRAME_STAGED, .which = which, .value = stage, .offset = (uint32_t)offset, .bytes = (uint32_t)bytes};
    send_frame(remote, peer, &frame, data, true); /* the progress follows */
}

void
remote_piece(struct remote *remote, int peer, uint32_t type, uint64_t message_bytes, const void *data, size_t bytes)
{
    const struct frame frame = {.kind = FRAME_PIECE, .which = type, .value = message_bytes, .bytes = (uint32_t)bytes};
    send_frame(remote, peer, &frame, data, false);
}

void
remote_taken(struct remote *remote, int peer, uint32_t taken)
{
    const struct frame frame = {.kind = FRAME_TAKEN, .value = taken};
    send_frame(remote, peer, &frame, NULL, false);
}

void
remote_state(struct remote *remote, enum rank_state state, const char *text)
{
    const struct frame frame = {.kind = FRAME_STATE, .which = state, .bytes = SEGMENT_TEXT_BYTES};
    int64_t deadline_ns = clock_now_ns() + PATIENCE_NS;
    FOR_EACH_LINK(remote, peer)
    send_urgently(remote, peer, &frame, text, deadline_ns);
}

void
remote_note(struct remote *remote, uint64_t tag, const void *note, size_t bytes)
{
    const struct frame frame = {.kind = FRAME_NOTE, .value = tag, .bytes = (uint32_t)bytes};
    int64_t deadline_ns = clock_now_ns() + PATIENCE_NS;
    FOR_EACH_LINK(remote, peer)
    send_urgently(remote, peer, &frame, note, deadline_ns);
}

enum wait_result
remote_health(const struct remote *remote, int peer)
{
    return (enum wait_result)atomic_load(&remote->links[peer].health);
}

/* ---- life ---- */

static void
close_sets(struct remote *remote)
{
    for (int r = 0; r < RECEIVER_COUNT; ++r) {
        if (remote->receivers[r].set >= 0)
            close(remote->receivers[r].set);
        if (remote->receivers[r].event >= 0)
            close(remote->receivers[r].event);
    }
}

bool
remote_start(struct segment *segment, const int *sockets)
{
    struct remote *remote = calloc(1, sizeof(*remote));
    if (!remote)
        return false;
    remote->segment = segment;
    for (int r = 0; r < SEGMENT_MAX_RANKS; ++r) {
        struct link *link = &remote->links[r];
        link->socket = r < segment->rank_count && segment_is_remote(segment, r) ? sockets[r] : -1;
        link->can_send = link->socket >= 0;
        pthread_mutex_init(&link->sending, NULL);
        pthread_mutex_init(&link->receiving, NULL);
        link->low = 1;
        if (link->socket >= 0)
            net_watch(link->socket);
    }
    for (int r = 0; r < RECEIVER_COUNT; ++r)
        remote->receivers[r] = (struct receiver_set){.set = -1, .event = -1};
    int error = remote_receive_start(remote);
    if (error != 0) {
        close_sets(remote);
        free(remote);
        errno = error;
        return false;
    }
    segment->remote = remote;
    return true;
}

/* Whether the peer has acknowledged all that was sent, or can no longer do it. */
static bool
has_drained(struct link *link)
{
    int pending = 0;
    return atomic_load(&link->health) != WAIT_REACHED || ioctl(link->socket, SIOCOUTQ, &pending) < 0 || pending == 0;
}

/*
 * A socket that is closed with data unread resets the connection, and what was under way is lost: the receiving thread
 * continues until all has arrived.
 */
static void
linger(struct remote *remote)
{
    const struct rank_slot *mine = remote->segment->slots[remote->segment->rank];
    bool is_in_order = atomic_load(&mine->state) == RANK_LEFT;
    /* A little longer than a silent host has, which then ends the wait. */
    int64_t linger_ns = is_in_order ? (net_silence_s() + 2) * 1000000000LL : PATIENCE_NS;
    int64_t deadline_ns = clock_now_ns() + linger_ns;
    FOR_EACH_LINK(remote, peer)
    {
        struct link *link = &remote->links[peer];
        shutdown(link->socket, SHUT_WR);
        while (!has_drained(link) && clock_now_ns() < deadline_ns)
            nap();
    }
}

void
remote_stop(struct segment *segment)
{
    struct remote *remote = segment->remote;
    if (!remote)
        return;
    linger(remote);
    remote_signal(remote, RECEIVER_THREAD);
    pthread_join(remote->thread, NULL);
    for (int r = 0; r < SEGMENT_MAX_RANKS; ++r) {
        if (remote->links[r].socket >= 0)
            inherited_close(remote->links[r].socket);
        pthread_mutex_destroy(&remote->links[r].sending);
        pthread_mutex_destroy(&remote->links[r].receiving);
    }
    close_sets(remote);
    segment->remote = NULL;
    free(remote);
}
