/*
 * peers_dial.c - see peers_dial.h.
 */
#include "launcher/cluster/peers_dial.h"

#include "base/clock.h"
#include "base/protocol.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ADDRESS_LIMIT_MS = 5000,
    PROOF_LIMIT_MS = 20000,
    DIAL_LIMIT_MS = 60000,
    ROUNDS = 2,
    SIGNAL_STEP_MS = 20,
};

/*
 * Waits for the socket; a signal that asks for the end ends it too, and is left to the supervisor. So are others, such
 * as that of a child's end, which are nothing to this.
 */
static bool
wait_for(int fd, short events, const struct signals *signals, int64_t deadline_ms)
{
    for (;;) {
        int64_t left_ms = deadline_ms - clock_now_ms();
        struct pollfd polled[2] = {{.fd = fd, .events = events}, {.fd = signals->fd, .events = POLLIN}};
        int ready = poll(polled, 2, left_ms > 0 ? (int)left_ms : 0);
        if (ready > 0 && polled[0].revents != 0)
            return true;
        bool signalled = ready > 0;
        if (left_ms <= 0 || (signalled && signals_end_is_pending())) {
            errno = left_ms <= 0 ? ETIMEDOUT : EINTR;
            return false;
        }
        if (signalled)
            poll(polled, 1, SIGNAL_STEP_MS);
    }
}

static bool
transfer(int fd, void *bytes, size_t count, bool out, const struct signals *signals, int64_t deadline_ms)
{
    for (size_t done = 0; done < count;) {
        if (!wait_for(fd, out ? POLLOUT : POLLIN, signals, deadline_ms))
            return false;
        char *at = (char *)bytes + done;
        ssize_t moved =
            out ? send(fd, at, count - done, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, count - done, MSG_DONTWAIT);
        if (moved < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (moved == 0)
            errno = ECONNRESET;
        if (moved <= 0)
            return false;
        done += (size_t)moved;
    }
    return true;
}

static int
connect_to(const struct host_address *address, uint16_t port, const struct signals *signals)
{
    struct sockaddr_storage to;
    socklen_t length = addresses_socket_address(address, port, &to);
    int64_t deadline_ms = clock_now_ms() + ADDRESS_LIMIT_MS;
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, error = 0;
    socklen_t size = sizeof(error);
    if (fd < 0)
        return -1;
    bool ok = connect(fd, (struct sockaddr *)&to, length) == 0 ||
              (errno == EINPROGRESS && wait_for(fd, POLLOUT, signals, deadline_ms) &&
               getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0);
    if (ok && error == 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0)
        return fd;
    int reason = ok && error != 0 ? error : errno;
    close(fd);
    errno = reason;
    return -1;
}

/* A stranger on a port that was given away again is no reason to give up: the next address may be right. */
static bool
prove(int fd, const struct hello *root, enum peer_purpose purpose, int rank, const struct signals *signals)
{
    struct proof_challenge challenge;
    struct proof_answer answer;
    struct proof_welcome welcome;
    int64_t deadline_ms = clock_now_ms() + PROOF_LIMIT_MS;
    if (!transfer(fd, &challenge, sizeof(challenge), false, signals, deadline_ms))
        return false;
    errno = EPROTO;
    if (!proof_answer_make(root->secret, &challenge, purpose, rank, &answer) ||
        !transfer(fd, &answer, sizeof(answer), true, signals, deadline_ms) ||
        !transfer(fd, &welcome, sizeof(welcome), false, signals, deadline_ms))
        return false;
    errno = EPROTO;
    return proof_welcome_holds(root->secret, &challenge, &answer, &welcome);
}

static int
try_address(const struct hello *root, const struct host_address *address, enum peer_purpose purpose, int rank,
            const struct signals *signals)
{
    int fd = connect_to(address, root->port, signals);
    if (fd < 0 || prove(fd, root, purpose, rank, signals))
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

/* Loopback first where it leads to the right host, then what was published. */
static int
list_addresses(const struct hello *root, const char *own_host_id, struct host_address list[ADDRESSES_AT_MOST + 2])
{
    int count = 0;
    if (strcmp(root->host_id, own_host_id) == 0) {
        list[count++] = (struct host_address){.family = 4, .bytes = {127, 0, 0, 1}};
        list[count++] = (struct host_address){.family = 6, .bytes = {[15] = 1}};
    }
    for (int i = 0; i < root->addresses.count; ++i)
        list[count++] = root->addresses.items[i];
    return count;
}

static void
describe(const struct hello *root, const struct host_address *list, int count, int reason, struct problem *problem)
{
    char texts[512] = "";
    size_t used = 0;
    for (int i = 0; i < count && used < sizeof(texts) - ADDRESS_TEXT_BYTES - 8; ++i) {
        char text[ADDRESS_TEXT_BYTES];
        used += (size_t)snprintf(texts + used, sizeof(texts) - used, "%s%s", i > 0 ? ", " : "",
                                 addresses_text(&list[i], text));
    }
    problem_set(problem, DDPRUN_EXIT_FAILURE,
                "cannot reach rank 0's ddprun on host %s, port %d of %s: %s; is there a firewall between the hosts? "
                "--interface NAME or NETWORK chooses the network",
                root->host, root->port, count > 0 ? texts : "(no address)", strerror(reason));
}

int
peers_dial(const struct hello *root, const char *own_host_id, enum peer_purpose purpose, int rank,
           const struct signals *signals, struct problem *problem)
{
    struct host_address list[ADDRESSES_AT_MOST + 2];
    int count = list_addresses(root, own_host_id, list), reason = EADDRNOTAVAIL;
    int64_t deadline_ms = clock_now_ms() + DIAL_LIMIT_MS;
    for (int round = 0; round < ROUNDS; ++round) {
        for (int i = 0; i < count && clock_now_ms() < deadline_ms; ++i) {
            int fd = try_address(root, &list[i], purpose, rank, signals);
            if (fd >= 0)
                return fd;
            reason = errno;
            if (reason == EINTR) {
                problem_set(problem, DDPRUN_EXIT_FAILURE, "asked to end while connecting to rank 0's ddprun");
                return -1;
            }
        }
    }
    describe(root, list, count, reason, problem);
    return -1;
}
