/* engine_link.c - see engine_link.h. */
#include "launcher/start/engine_link.h"

#include "base/peer_link.h"
#include "base/protocol.h"
#include "base/supervisor_link.h"
#include "launcher/common/xcalloc.h"
#include "launcher/start/job_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Connections without a JOIN beside one for each rank: a rank's is then never the oldest for lack of room. */
enum { MORE_STRANGERS = 16, EVENTS = 64 };

/* What epoll says of a descriptor: the listener, the rank in a slot, or a stranger. */
enum { LISTENER = -1 };

static void
drop(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static bool
watch(const struct engine_link *link, int operation, int fd, uint32_t events, int code)
{
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)code};
    return epoll_ctl(link->epoll, operation, fd, &event) == 0;
}

static bool
listen_in(struct engine_link *link, int folder_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    /* A path in sockaddr_un is short; through a descriptor of its folder every path is (proc(5)). */
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SUPERVISOR_SOCKET_NAME, folder_fd);
    link->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    link->epoll = epoll_create1(EPOLL_CLOEXEC);
    return link->listener >= 0 && link->epoll >= 0 &&
           bind(link->listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
           listen(link->listener, link->stranger_count) == 0 &&
           watch(link, EPOLL_CTL_ADD, link->listener, EPOLLIN | EPOLLET, LISTENER); /* see engine_link_step() */
}

bool
engine_link_open(struct engine_link *link_p, int folder_fd, const char *folder, int first_rank, int count,
                 int world_size, int first_local_rank, struct error *error)
{
    struct engine_link link = {.first_rank = first_rank,
                               .count = count,
                               .world_size = world_size,
                               .first_local_rank = first_local_rank,
                               .slots = xcalloc((size_t)count, sizeof(*link.slots)),
                               .stranger_count = count + MORE_STRANGERS};
    link.strangers = xcalloc((size_t)link.stranger_count, sizeof(*link.strangers));
    for (int i = 0; i < count; ++i)
        link.slots[i].fd = link.slots[i].own_end = link.slots[i].root_end = -1;
    for (int i = 0; i < link.stranger_count; ++i)
        link.strangers[i] = -1;
    if (listen_in(&link, folder_fd)) {
        *link_p = link;
        return true;
    }
    error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a socket in %s: %s; %s", folder, strerror(errno),
              job_folder_remedy(errno));
    engine_link_close(&link);
    return false;
}

/* What was to be sent to a process that is the rank no more. Rank 0 still gets its socket, and by it sees the end. */
static void
forget_process(struct engine_slot *slot)
{
    drop(&slot->fd);
    drop(&slot->own_end);
    free(slot->refusal);
    slot->refusal = NULL;
    slot->place_unsent = false;
}

void
engine_link_close(struct engine_link *link)
{
    for (int i = 0; i < link->count; ++i) {
        forget_process(&link->slots[i]);
        drop(&link->slots[i].root_end);
    }
    for (int i = 0; i < link->stranger_count; ++i)
        drop(&link->strangers[i]);
    free(link->slots);
    free(link->strangers);
    drop(&link->listener);
    drop(&link->epoll);
    link->count = link->stranger_count = 0;
}

/* ---- to the engines ---- */

/*
 * With descriptor `fd` (-1: none) and the key of its connection (NULL: none), and `text` where it is a refusal. False:
 * not now; where the socket is full, the next step begins when it is not.
 */
static bool
send_to(const struct engine_link *link, int i, enum supervisor_message_kind kind, int rank, int fd,
        const unsigned char *key, const char *text)
{
    struct supervisor_message message = {.protocol = DDPRUN_PROTOCOL_VERSION,
                                         .kind = kind,
                                         .rank = rank,
                                         .world_size = link->world_size,
                                         .local_rank = link->first_local_rank + i,
                                         .is_sealed = key != NULL};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(fd))];
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = &message, .iov_len = sizeof(message)};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    snprintf(message.text, sizeof(message.text), "%s", text);
    if (key != NULL)
        memcpy(message.key, key, sizeof(message.key));
    if (fd >= 0) {
        packet.msg_control = control.bytes;
        packet.msg_controllen = sizeof(control.bytes);
        control.head =
            (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(fd)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    }
    int to = link->slots[i].fd;
    if (sendmsg(to, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(message))
        return true;
    if (errno == EAGAIN)
        (void)watch(link, EPOLL_CTL_MOD, to, EPOLLIN | EPOLLOUT, i);
    return false;
}

bool
engine_link_give(struct engine_link *link, int slot, int to, int fd, const unsigned char *key)
{
    if (link->slots[slot].fd < 0 || link->slots[slot].place_unsent ||
        !send_to(link, slot, SUPERVISOR_LINK, to, fd, key, ""))
        return false;
    close(fd); /* the rank has its own; ours would keep the connection open after its death */
    return true;
}

void
engine_link_refuse(struct engine_link *link, int slot, const char *text)
{
    free(link->slots[slot].refusal);
    link->slots[slot].refusal = xstrdup(text);
}

static void
make_pair(struct engine_link *link, int i)
{
    struct engine_slot *slot = &link->slots[i];
    int ends[2];
    slot->pair_unsent = false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        engine_link_refuse(link, i, "ddprun cannot make a socket; raise the limit of open files");
        return;
    }
    slot->own_end = ends[0];
    slot->root_end = ends[1];
    if (slot->fd < 0)
        drop(&slot->own_end);
}

/* Rank 0 meets those that are in the same program of a script as it is. */
static void
settle_pairs(struct engine_link *link)
{
    const struct engine_slot *root = &link->slots[0];
    for (int i = 1; i < link->count && root->joined && root->fd >= 0; ++i) {
        struct engine_slot *slot = &link->slots[i];
        if (slot->generation != root->generation)
            continue;
        if (slot->pair_unsent)
            make_pair(link, i);
        if (slot->own_end >= 0 && engine_link_give(link, i, 0, slot->own_end, NULL))
            slot->own_end = -1;
        if (slot->root_end >= 0 && !engine_link_give(link, 0, i, slot->root_end, NULL))
            return;
        slot->root_end = -1;
    }
}

static void
settle_refusal(struct engine_link *link, int i)
{
    struct engine_slot *slot = &link->slots[i];
    if (slot->refusal != NULL && !slot->place_unsent &&
        send_to(link, i, SUPERVISOR_REFUSED, 0, -1, NULL, slot->refusal)) {
        free(slot->refusal);
        slot->refusal = NULL;
    }
}

/* ---- from the engines ---- */

static void
join(struct engine_link *link, int i, unsigned generation)
{
    struct engine_slot *slot = &link->slots[i];
    slot->joined = slot->place_unsent = true;
    slot->generation = generation;
    ++slot->joins;
    drop(&slot->own_end);
    drop(&slot->root_end);
    slot->pair_unsent = i > 0 && link->count == link->world_size;
}

/* One packet; false: none has come. *fd becomes -1 when the other end is closed, or another version's. */
static bool
receive(int *fd, struct supervisor_message *message)
{
    ssize_t got = *fd >= 0 ? recv(*fd, message, sizeof(*message), MSG_DONTWAIT) : -1;
    if (*fd < 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
        return false;
    if (got == (ssize_t)sizeof(*message) && message->protocol == DDPRUN_PROTOCOL_VERSION)
        return true;
    drop(fd);
    return false;
}

/* Returns whether it asks for the end of the job. */
static bool
take_messages(struct engine_link *link, int i)
{
    struct engine_slot *slot = &link->slots[i];
    struct supervisor_message message;
    bool asked = false;
    while (receive(&slot->fd, &message)) {
        if (message.kind == SUPERVISOR_JOIN)
            join(link, i, message.generation);
        else if (message.kind == SUPERVISOR_BYE)
            slot->joined = false;
        asked = asked || message.kind == SUPERVISOR_ABORT;
    }
    if (slot->fd < 0)
        forget_process(slot);
    return asked;
}

/* The process that joined last is the one that counts: the lock in the job folder makes one the rank at a time. */
static void
take_stranger(struct engine_link *link, int *stranger)
{
    struct supervisor_message message;
    if (!receive(stranger, &message))
        return;
    int i = message.rank;
    if (message.kind != SUPERVISOR_JOIN || i < 0 || i >= link->count ||
        !watch(link, EPOLL_CTL_MOD, *stranger, EPOLLIN, i)) {
        drop(stranger);
        return;
    }
    forget_process(&link->slots[i]);
    link->slots[i].fd = *stranger;
    *stranger = -1;
    join(link, i, message.generation);
}

/* The place of the oldest stranger is the next one's, also where the limit of open files leaves no other. */
static void
welcome(struct engine_link *link)
{
    for (int i = 0; i < link->stranger_count; ++i) {
        int fd = accept4(link->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && errno != EMFILE)
            return;
        int *place = &link->strangers[link->oldest_stranger];
        take_stranger(link, place);
        drop(place);
        if (fd >= 0 && socket_is_own_user(fd) &&
            watch(link, EPOLL_CTL_ADD, fd, EPOLLIN, link->count + link->oldest_stranger))
            *place = fd;
        else
            drop(&fd);
        link->oldest_stranger = (link->oldest_stranger + 1) % link->stranger_count;
    }
}

bool
engine_link_step(struct engine_link *link)
{
    struct epoll_event events[EVENTS];
    bool asked = false;
    int count = epoll_wait(link->epoll, events, EVENTS, 0);
    /* At each step: a connection for which there is no descriptor yet wakes the caller once, not all the time. */
    welcome(link);
    for (int e = 0; e < count; ++e) {
        int code = (int)events[e].data.u64;
        if (code == LISTENER)
            continue;
        if (code >= link->count) {
            take_stranger(link, &link->strangers[code - link->count]);
        } else {
            if ((events[e].events & EPOLLOUT) != 0)
                (void)watch(link, EPOLL_CTL_MOD, link->slots[code].fd, EPOLLIN, code);
            asked = take_messages(link, code) || asked;
        }
    }
    for (int i = 0; i < link->count; ++i) {
        struct engine_slot *slot = &link->slots[i];
        if (slot->place_unsent)
            slot->place_unsent = !send_to(link, i, SUPERVISOR_PLACE, link->first_rank + i, -1, NULL, "");
    }
    settle_pairs(link);
    for (int i = 0; i < link->count; ++i)
        settle_refusal(link, i);
    return asked;
}
