/*
 * peers_dial.c - see peers_dial.h.
 *
 * One address at a time: connect, hear the challenge, answer, hear the welcome. A stranger on a port that was given
 * away again is no reason to give up: the next address may be right.
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

/* A host that is there answers in milliseconds, or after a second if the first packet is lost: those that do not are
 * passed over, and get their whole time in the second round. */
enum {
    FIRST_ADDRESS_LIMIT_MS = 1500,
    ADDRESS_LIMIT_MS = 5000,
    PROOF_LIMIT_MS = 20000,
    DIAL_LIMIT_MS = 60000,
    ROUNDS = 2,
    SIGNAL_STEP_MS = 20,
};

/* ---- addresses ---- */

static void
add_address(struct peers_dial *dial, const struct host_address *address)
{
    for (int i = 0; i < dial->count; ++i) {
        if (addresses_equal(&dial->addresses[i], address))
            return;
    }
    dial->addresses[dial->count++] = *address;
}

/* What is known to work first, then loopback where it leads to the right host, then what was published. */
static void
list_addresses(struct peers_dial *dial, const char *own_host_id, const struct host_address *known)
{
    static const struct host_address loopbacks[] = {{.family = 4, .bytes = {127, 0, 0, 1}},
                                                    {.family = 6, .bytes = {[15] = 1}}};
    if (known != NULL)
        add_address(dial, known);
    for (int i = 0; i < 2 && strcmp(dial->root->host_id, own_host_id) == 0; ++i)
        add_address(dial, &loopbacks[i]);
    for (int i = 0; i < dial->root->addresses.count; ++i)
        add_address(dial, &dial->root->addresses.items[i]);
}

static void
describe(const struct peers_dial *dial, struct problem *problem)
{
    char texts[512] = "";
    size_t used = 0;
    for (int i = 0; i < dial->count && used < sizeof(texts) - ADDRESS_TEXT_BYTES - 8; ++i) {
        char text[ADDRESS_TEXT_BYTES];
        used += (size_t)snprintf(texts + used, sizeof(texts) - used, "%s%s", i > 0 ? ", " : "",
                                 addresses_text(&dial->addresses[i], text));
    }
    problem_set(problem, DDPRUN_EXIT_FAILURE,
                "cannot reach rank 0's ddprun on host %s, port %d of %s: %s; is there a firewall between the hosts? "
                "--interface NAME or NETWORK chooses the network",
                dial->root->host, dial->root->port, dial->count > 0 ? texts : "(no address)", strerror(dial->reason));
}

/* ---- steps ---- */

void
peers_dial_begin(struct peers_dial *dial, const struct hello *root, const char *own_host_id,
                 const struct host_address *known, enum peer_purpose purpose, int rank)
{
    *dial = (struct peers_dial){.root = root,
                                .purpose = purpose,
                                .rank = rank,
                                .fd = -1,
                                .deadline_ms = clock_now_ms() + DIAL_LIMIT_MS,
                                .reason = EADDRNOTAVAIL};
    list_addresses(dial, own_host_id, known);
}

void
peers_dial_close(struct peers_dial *dial)
{
    if (dial->fd >= 0)
        close(dial->fd);
    dial->fd = -1;
}

/* Begins to connect to the next address; false: there is none, or no time for it. */
static bool
call_next(struct peers_dial *dial)
{
    while (dial->tried < dial->count * ROUNDS && clock_now_ms() < dial->deadline_ms) {
        struct sockaddr_storage to;
        int limit_ms = dial->tried < dial->count ? FIRST_ADDRESS_LIMIT_MS : ADDRESS_LIMIT_MS;
        socklen_t length =
            addresses_socket_address(&dial->addresses[dial->tried++ % dial->count], dial->root->port, &to);
        dial->state = DIAL_CONNECTS;
        dial->got = 0;
        dial->step_deadline_ms = clock_now_ms() + limit_ms;
        dial->fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (dial->fd >= 0 && (connect(dial->fd, (struct sockaddr *)&to, length) == 0 || errno == EINPROGRESS))
            return true;
        dial->reason = errno;
        peers_dial_close(dial);
    }
    return false;
}

/* What one step of a connection came to; FAILED: errno says why. */
enum step { STEP_DONE, STEP_WAITS, STEP_FAILED };

static enum step
end_connect(struct peers_dial *dial)
{
    struct pollfd polled = {.fd = dial->fd, .events = POLLOUT};
    int error = 0, one = 1;
    socklen_t size = sizeof(error);
    if (poll(&polled, 1, 0) != 1)
        return STEP_WAITS;
    if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return STEP_FAILED;
    errno = error;
    if (error != 0 || setsockopt(dial->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0)
        return STEP_FAILED;
    dial->step_deadline_ms = clock_now_ms() + PROOF_LIMIT_MS;
    return STEP_DONE;
}

static enum step
hear(struct peers_dial *dial, void *bytes, size_t count)
{
    ssize_t got = recv(dial->fd, (char *)bytes + dial->got, count - dial->got, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? STEP_WAITS : STEP_FAILED;
    errno = ECONNRESET;
    if (got == 0)
        return STEP_FAILED;
    dial->got += (size_t)got;
    if (dial->got < count)
        return STEP_WAITS;
    dial->got = 0;
    return STEP_DONE;
}

/* A few dozen bytes into the empty buffer of a new connection fit, or it is no connection. */
static enum step
take_challenge(struct peers_dial *dial)
{
    enum step step = hear(dial, &dial->challenge, sizeof(dial->challenge));
    if (step != STEP_DONE)
        return step;
    errno = EPROTO;
    if (!proof_answer_make(dial->root->secret, &dial->challenge, dial->purpose, dial->rank, &dial->answer) ||
        send(dial->fd, &dial->answer, sizeof(dial->answer), MSG_NOSIGNAL | MSG_DONTWAIT) !=
            (ssize_t)sizeof(dial->answer))
        return STEP_FAILED;
    return STEP_DONE;
}

static enum step
take_welcome(struct peers_dial *dial)
{
    enum step step = hear(dial, &dial->welcome, sizeof(dial->welcome));
    if (step != STEP_DONE)
        return step;
    errno = EPROTO;
    return proof_welcome_holds(dial->root->secret, &dial->challenge, &dial->answer, &dial->welcome) ? STEP_DONE
                                                                                                    : STEP_FAILED;
}

/* Goes on with the connection as far as it gets. */
static enum step
advance(struct peers_dial *dial)
{
    static enum step (*const steps[DIAL_IS_OPEN])(struct peers_dial *) = {end_connect, take_challenge, take_welcome};
    for (; dial->state < DIAL_IS_OPEN; ++dial->state) {
        enum step step = steps[dial->state](dial);
        if (step != STEP_DONE)
            return step;
    }
    return STEP_DONE;
}

enum dial_outcome
peers_dial_step(struct peers_dial *dial, int *fd_p, struct problem *problem)
{
    while (dial->fd >= 0 || call_next(dial)) {
        enum step step = advance(dial);
        if (step == STEP_DONE) {
            *fd_p = dial->fd;
            dial->fd = -1;
            return DIAL_DONE;
        }
        if (step == STEP_WAITS && clock_now_ms() < dial->step_deadline_ms)
            return DIAL_GOES_ON;
        dial->reason = step == STEP_WAITS ? ETIMEDOUT : errno;
        peers_dial_close(dial);
    }
    describe(dial, problem);
    return DIAL_FAILED;
}

struct pollfd
peers_dial_poll(const struct peers_dial *dial)
{
    return (struct pollfd){.fd = dial->fd, .events = dial->state == DIAL_CONNECTS ? POLLOUT : POLLIN};
}

/* ---- all at once ---- */

/*
 * Waits for the connection. Returns whether a signal asks for the end, which is left to the supervisor; so are others,
 * such as that of a child's end, which are nothing to this.
 */
static bool
wait_for(const struct peers_dial *dial, const struct signals *signals)
{
    int64_t left_ms = dial->step_deadline_ms - clock_now_ms();
    struct pollfd polled[2] = {peers_dial_poll(dial), {.fd = signals->fd, .events = POLLIN}};
    poll(polled, 2, left_ms > 0 ? (int)left_ms : 0);
    if (polled[1].revents != 0 && signals_end_is_pending())
        return true;
    if (polled[1].revents != 0 && polled[0].revents == 0)
        poll(polled, 1, SIGNAL_STEP_MS);
    return false;
}

int
peers_dial(const struct hello *root, const char *own_host_id, enum peer_purpose purpose, int rank,
           const struct signals *signals, struct problem *problem)
{
    struct peers_dial dial;
    int fd = -1;
    peers_dial_begin(&dial, root, own_host_id, NULL, purpose, rank);
    while (peers_dial_step(&dial, &fd, problem) == DIAL_GOES_ON) {
        if (wait_for(&dial, signals)) {
            problem_set(problem, DDPRUN_EXIT_FAILURE, "asked to end while connecting to rank 0's ddprun");
            peers_dial_close(&dial);
            return -1;
        }
    }
    return fd;
}
