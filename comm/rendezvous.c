/*
 * rendezvous.c - see rendezvous.h: this rank's supervisor knows its place, and has connected its control plane
 * (base/supervisor_link.h).
 */
#include "comm/rendezvous.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "base/supervisor_link.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Of what one rank says, of what rank 0 tells of all, and of connections to the supervisor, one after the other. */
enum { MESSAGE_BYTES_AT_MOST = 64 << 20, ALL_BYTES_AT_MOST = 1 << 30, TRIES = 8 };

static _Atomic int supervisor = -1;

/* A path in sockaddr_un is short; through a descriptor of its folder every path is (proc(5)). */
static bool
address_through(int folder, const char *path, struct sockaddr_un *address)
{
    const char *name = strrchr(path, '/');
    address->sun_family = AF_UNIX;
    return name != NULL && snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d%s", folder, name) <
                               (int)sizeof(address->sun_path);
}

static int
connect_to_supervisor(struct comm_error *error)
{
    const char *path = getenv(DDPRUN_ENV_SUPERVISOR);
    if (path == NULL)
        return comm_fail(error, "%s is not set; start the program with ddprun", DDPRUN_ENV_SUPERVISOR), -1;
    char *copy = strdup(path);
    int folder = copy != NULL ? open(dirname(copy), O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {0};
    bool connected = folder >= 0 && fd >= 0 && address_through(folder, path, &address) &&
                     connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    int reason = errno;
    free(copy);
    if (folder >= 0)
        close(folder);
    if (connected && socket_is_own_user(fd))
        return fd;
    comm_fail(error, "cannot reach this rank's supervisor at %s: %s; is ddprun still running?", path,
              connected ? "it is another user's" : strerror(reason));
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool
send_message(uint32_t kind, int index, unsigned generation)
{
    struct supervisor_message message = {
        .protocol = DDPRUN_PROTOCOL_VERSION, .kind = kind, .rank = index, .generation = generation};
    return send(atomic_load(&supervisor), &message, sizeof(message), MSG_NOSIGNAL) == (ssize_t)sizeof(message);
}

/* The next message, and the descriptor that came with it; -1: none did. */
static bool
receive_message(struct supervisor_message *message, int *fd_p, int64_t deadline_ms, struct comm_error *error)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = message, .iov_len = sizeof(*message)};
    struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    int fd = atomic_load(&supervisor);
    *fd_p = -1;
    if (!socket_wait(fd, POLLIN, deadline_ms))
        return comm_fail(error, "this rank's supervisor does not answer");
    ssize_t got = recvmsg(fd, &packet, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got <= 0)
        return comm_fail(error, "this rank's supervisor is gone");
    if (packet.msg_controllen == sizeof(control.bytes) && control.head.cmsg_type == SCM_RIGHTS)
        memcpy(fd_p, CMSG_DATA(&control.head), sizeof(*fd_p));
    message->text[sizeof(message->text) - 1] = '\0';
    if ((packet.msg_flags & MSG_CTRUNC) != 0)
        return comm_fail_by(error, COMM_OWN,
                            "no descriptor is left for a connection; raise the limit of open files (ulimit -n)");
    if (got != (ssize_t)sizeof(*message) || message->protocol != DDPRUN_PROTOCOL_VERSION)
        comm_fail(error, "this rank's supervisor is another version of ddprun; reinstall it");
    else if (message->kind == SUPERVISOR_REFUSED)
        comm_fail(error, "%s", message->text);
    else
        return true;
    if (*fd_p >= 0)
        close(*fd_p);
    return false;
}

bool
rendezvous_open(struct rendezvous *rendezvous, int index, unsigned generation, int timeout_s, struct comm_error *error)
{
    struct supervisor_message place = {0};
    int64_t deadline_ms = clock_now_ms() + (int64_t)timeout_s * 1000;
    /* Strangers may take the place of a connection before its JOIN is read (launcher/start/engine_link.h). */
    for (int tries = 1; place.kind == 0 && tries <= TRIES; ++tries) {
        rendezvous_forget();
        int fd = connect_to_supervisor(error);
        if (fd < 0)
            return false;
        atomic_store(&supervisor, fd);
        (void)send_message(SUPERVISOR_JOIN, index, generation);
        if (!receive_message(&place, &fd, deadline_ms, error) &&
            (place.kind != 0 || tries == TRIES || clock_now_ms() >= deadline_ms))
            return false;
    }
    if (place.kind != SUPERVISOR_PLACE || place.world_size < 1 || place.rank < 0 || place.rank >= place.world_size)
        return comm_fail(error, "this rank's supervisor sends no address to meet at");
    *rendezvous = (struct rendezvous){.rank = place.rank,
                                      .world_size = place.world_size,
                                      .local_rank = place.local_rank,
                                      .generation = generation,
                                      .open = true};
    return true;
}

static int
link_count(const struct rendezvous *rendezvous)
{
    return rendezvous->rank == 0 ? rendezvous->world_size : 1;
}

/* Puts the descriptor of a message into its place. */
static bool
keep_link(const struct rendezvous *rendezvous, const struct supervisor_message *message, int fd,
          struct peer_link *links, struct comm_error *error)
{
    int first = rendezvous->rank == 0 ? 1 : 0;
    if (message->kind == SUPERVISOR_LINK && fd >= 0 && message->rank >= first &&
        message->rank < link_count(rendezvous) && links[message->rank].fd < 0) {
        peer_link_open(&links[message->rank], fd, message->is_sealed ? message->key : NULL, rendezvous->rank == 0,
                       rendezvous->rank == 0 ? MESSAGE_BYTES_AT_MOST : ALL_BYTES_AT_MOST);
        return true;
    }
    if (fd >= 0)
        close(fd);
    return comm_fail(error, "this rank's supervisor mixed up its connections");
}

bool
rendezvous_links(struct rendezvous *rendezvous, struct peer_link *links, int timeout_s, struct comm_error *error)
{
    int missing = link_count(rendezvous) - (rendezvous->rank == 0);
    int64_t deadline_ms = clock_now_ms() + (int64_t)timeout_s * 1000;
    for (; missing > 0; --missing) {
        struct supervisor_message message;
        int fd;
        if (!receive_message(&message, &fd, deadline_ms, error))
            return clock_now_ms() >= deadline_ms &&
                   comm_fail_by(error, COMM_OTHERS, "waited %d s for %d more rank%s to begin", timeout_s, missing,
                                missing == 1 ? "" : "s");
        if (!keep_link(rendezvous, &message, fd, links, error))
            return false;
    }
    return true;
}

void
rendezvous_abort(struct rendezvous *rendezvous)
{
    if (rendezvous->open)
        (void)send_message(SUPERVISOR_ABORT, 0, 0);
}

/* The supervisor says nothing after the links: what can be read then is its end. */
bool
rendezvous_launcher_is_gone(void)
{
    char byte;
    int fd = atomic_load(&supervisor);
    return fd >= 0 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void
rendezvous_forget(void)
{
    int fd = atomic_exchange(&supervisor, -1);
    if (fd >= 0)
        close(fd);
}

void
rendezvous_close(struct rendezvous *rendezvous)
{
    if (rendezvous->open)
        (void)send_message(SUPERVISOR_BYE, 0, 0);
    rendezvous->open = false;
    rendezvous_forget();
}
