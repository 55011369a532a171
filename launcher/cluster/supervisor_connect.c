/*
 * supervisor_connect.c - see supervisor_connect.h.
 *
 * One address at a time: connect, hear the challenge, answer it, hear the welcome. A stranger on a port that was given
 * away again is no reason to give up: the next address may be right.
 */
#include "launcher/cluster/supervisor_connect.h"

#include "base/clock.h"
#include "base/peer_link.h"
#include "base/printable.h"
#include "base/protocol.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

/* A host that is there answers in milliseconds, or after a second if the first packet is lost: those that do not are
 * passed over, and get their whole time in the second round. */
enum {
    FIRST_ADDRESS_LIMIT_MS = 1500,
    ADDRESS_LIMIT_MS = 5000,
    AUTH_LIMIT_MS = 20000,
    CONNECT_LIMIT_MS = 60000,
    ROUNDS = 2,
    SIGNAL_STEP_MS = 20,
};

/* ---- addresses ---- */

static void
add_address(struct supervisor_connect *connection, const struct host_address *address)
{
    for (int i = 0; i < connection->count; ++i) {
        if (addresses_equal(&connection->addresses[i], address))
            return;
    }
    connection->addresses[connection->count++] = *address;
}

/* What is known to work first, then loopback where it leads to the right host, then what was published. */
static void
list_addresses(struct supervisor_connect *connection, const char *own_host_id, const struct host_address *known)
{
    static const struct host_address loopbacks[] = {{.family = 4, .bytes = {127, 0, 0, 1}},
                                                    {.family = 6, .bytes = {[15] = 1}}};
    if (known != NULL)
        add_address(connection, known);
    for (int i = 0; i < 2 && strcmp(connection->root->host_id, own_host_id) == 0; ++i)
        add_address(connection, &loopbacks[i]);
    for (int i = 0; i < connection->root->addresses.count; ++i)
        add_address(connection, &connection->root->addresses.items[i]);
}

static void
describe_connection(const struct supervisor_connect *connection, struct error *error)
{
    char texts[512] = "", text[ADDRESS_TEXT_BYTES];
    for (int i = 0; i < connection->count && strlen(texts) < sizeof(texts) - ADDRESS_TEXT_BYTES - 8; ++i)
        printable_append(texts, sizeof(texts), "%s%s", i > 0 ? ", " : "",
                         addresses_text(&connection->addresses[i], text));
    error_set(error, DDPRUN_EXIT_FAILURE,
              "cannot reach rank 0's ddprun on host %s, port %d of %s: %s; is there a firewall between the hosts? "
              "--interface NAME or NETWORK chooses the network",
              connection->root->host, connection->root->port, connection->count > 0 ? texts : "(no address)",
              strerror(connection->reason));
}

/* ---- steps ---- */

void
supervisor_connect_begin(struct supervisor_connect *connection, const struct handshake *root, const char *own_host_id,
                         const struct host_address *known, enum peer_purpose purpose, int rank)
{
    *connection = (struct supervisor_connect){.root = root,
                                              .purpose = purpose,
                                              .rank = rank,
                                              .fd = -1,
                                              .deadline_ms = clock_now_ms() + CONNECT_LIMIT_MS,
                                              .reason = EADDRNOTAVAIL};
    list_addresses(connection, own_host_id, known);
}

void
supervisor_connect_close(struct supervisor_connect *connection)
{
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
}

/* Begins to connect to the next address; false: no next address, or no time for it. */
static bool
call_next(struct supervisor_connect *connection)
{
    while (connection->tried < connection->count * ROUNDS && clock_now_ms() < connection->deadline_ms) {
        struct sockaddr_storage to;
        int limit_ms = connection->tried < connection->count ? FIRST_ADDRESS_LIMIT_MS : ADDRESS_LIMIT_MS;
        socklen_t length = addresses_socket_address(&connection->addresses[connection->tried++ % connection->count],
                                                    connection->root->port, &to);
        connection->state = CONNECT_OPENS;
        connection->got = 0;
        connection->step_deadline_ms = clock_now_ms() + limit_ms;
        connection->fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connection->fd >= 0 &&
            (connect(connection->fd, (struct sockaddr *)&to, length) == 0 || errno == EINPROGRESS))
            return true;
        connection->reason = errno;
        supervisor_connect_close(connection);
    }
    return false;
}

/* The result of one step of a connection; FAILED: errno says why. */
enum step { STEP_DONE, STEP_WAITS, STEP_FAILED };

static enum step
end_connect(struct supervisor_connect *connection)
{
    struct pollfd polled = {.fd = connection->fd, .events = POLLOUT};
    int cause = 0, one = 1;
    socklen_t size = sizeof(cause);
    if (poll(&polled, 1, 0) != 1)
        return STEP_WAITS;
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &cause, &size) != 0)
        return STEP_FAILED;
    errno = cause;
    if (cause != 0 || setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0)
        return STEP_FAILED;
    connection->step_deadline_ms = clock_now_ms() + AUTH_LIMIT_MS;
    return STEP_DONE;
}

static enum step
hear(struct supervisor_connect *connection, void *bytes, size_t count)
{
    enum link_state heard = socket_receive(connection->fd, bytes, count, &connection->got);
    if (heard == LINK_OPEN)
        connection->got = 0;
    return heard == LINK_OPEN ? STEP_DONE : heard == LINK_LATE ? STEP_WAITS : STEP_FAILED;
}

static enum step
take_challenge(struct supervisor_connect *connection)
{
    return hear(connection, &connection->challenge, sizeof(connection->challenge));
}

/* While the answer is held back, the listener may lose patience and close the connection. */
static enum step
await_release(const struct supervisor_connect *connection)
{
    struct pollfd polled = {.fd = connection->fd, .events = POLLRDHUP};
    int ready = poll(&polled, 1, 0);
    errno = ECONNRESET;
    return ready > 0 ? STEP_FAILED : STEP_WAITS;
}

/* A few dozen bytes into the empty buffer of a new connection fit, or it is no connection. */
static enum step
give_answer(struct supervisor_connect *connection)
{
    if (connection->is_held)
        return await_release(connection);
    errno = EPROTO;
    if (!auth_answer_make(connection->root->secret, &connection->challenge, connection->purpose, connection->rank,
                          &connection->answer) ||
        send(connection->fd, &connection->answer, sizeof(connection->answer), MSG_NOSIGNAL | MSG_DONTWAIT) !=
            (ssize_t)sizeof(connection->answer))
        return STEP_FAILED;
    ++connection->answers;
    connection->step_deadline_ms = clock_now_ms() + AUTH_LIMIT_MS;
    return STEP_DONE;
}

static enum step
take_welcome(struct supervisor_connect *connection)
{
    enum step step = hear(connection, &connection->welcome, sizeof(connection->welcome));
    if (step != STEP_DONE)
        return step;
    errno = EPROTO;
    auth_session_key(connection->root->secret, &connection->challenge, &connection->answer, connection->key);
    return auth_welcome_holds(connection->root->secret, &connection->challenge, &connection->answer,
                              &connection->welcome)
               ? STEP_DONE
               : STEP_FAILED;
}

/* Continues the connection as far as it gets. */
static enum step
advance(struct supervisor_connect *connection)
{
    static enum step (*const steps[CONNECT_IS_OPEN])(struct supervisor_connect *) = {end_connect, take_challenge,
                                                                                     give_answer, take_welcome};
    for (; connection->state < CONNECT_IS_OPEN; ++connection->state) {
        enum step step = steps[connection->state](connection);
        if (step != STEP_DONE)
            return step;
    }
    return STEP_DONE;
}

enum connect_outcome
supervisor_connect_step(struct supervisor_connect *connection, int *fd_p, struct error *error)
{
    while (connection->fd >= 0 || call_next(connection)) {
        enum step step = advance(connection);
        if (step == STEP_DONE) {
            *fd_p = connection->fd;
            connection->fd = -1;
            return CONNECT_DONE;
        }
        if (step == STEP_WAITS && clock_now_ms() < connection->step_deadline_ms)
            return CONNECT_CONTINUES;
        connection->reason = step == STEP_WAITS ? ETIMEDOUT : errno;
        supervisor_connect_close(connection);
    }
    describe_connection(connection, error);
    return CONNECT_FAILED;
}

struct pollfd
supervisor_connect_poll(const struct supervisor_connect *connection)
{
    struct pollfd polled = {.fd = connection->fd, .events = POLLIN};
    if (connection->state == CONNECT_OPENS || connection->state == CONNECT_ANSWERS)
        polled.events = POLLOUT;
    if (connection->state == CONNECT_ANSWERS && connection->is_held)
        polled.events = POLLRDHUP;
    return polled;
}

/* ---- all at once ---- */

/*
 * Waits for the connection. Returns whether a signal asks for the end, which is left to the supervisor; so are others,
 * such as that of a child's end, which are nothing to this.
 */
static bool
wait_for(const struct supervisor_connect *connection, const struct signals *signals)
{
    int64_t left_ms = connection->step_deadline_ms - clock_now_ms();
    struct pollfd polled[2] = {supervisor_connect_poll(connection), {.fd = signals->fd, .events = POLLIN}};
    poll(polled, 2, left_ms > 0 ? (int)left_ms : 0);
    if (polled[1].revents != 0 && signals_pending_end() != 0)
        return true;
    if (polled[1].revents != 0 && polled[0].revents == 0)
        poll(polled, 1, SIGNAL_STEP_MS);
    return false;
}

int
supervisor_connect(const struct handshake *root, const char *own_host_id, enum peer_purpose purpose, int rank,
                   const struct signals *signals, unsigned char key[AUTH_BYTES], struct error *error)
{
    struct supervisor_connect connection;
    int fd = -1;
    supervisor_connect_begin(&connection, root, own_host_id, NULL, purpose, rank);
    while (supervisor_connect_step(&connection, &fd, error) == CONNECT_CONTINUES) {
        if (wait_for(&connection, signals)) {
            error_set(error, DDPRUN_EXIT_FAILURE, "asked to end while connecting to rank 0's ddprun");
            supervisor_connect_close(&connection);
            return -1;
        }
    }
    memcpy(key, connection.key, AUTH_BYTES);
    return fd;
}

/* ---- the other end ---- */

/* A socket at the port on all interfaces, -1: errno says why not. A port that was named may have connections of the
 * last job. */
static int
bind_port(unsigned char family, uint16_t port)
{
    struct sockaddr_storage name;
    socklen_t length = addresses_socket_address(&(struct host_address){.family = family}, port, &name);
    int one = 1, off = 0, fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if ((port == 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0) &&
        (family == 4 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0) &&
        bind(fd, (struct sockaddr *)&name, length) == 0)
        return fd;
    int cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

bool
listener_open(struct listener *listener_p, uint16_t wanted, int backlog, struct error *error)
{
    struct sockaddr_storage name;
    socklen_t length = sizeof(name);
    int fd = bind_port(6, wanted);
    if (fd < 0 && errno != EADDRINUSE) /* a host without IPv6 */
        fd = bind_port(4, wanted);
    if (fd < 0 || listen(fd, backlog) != 0 || getsockname(fd, (struct sockaddr *)&name, &length) != 0) {
        error_set(error, DDPRUN_EXIT_FAILURE, "cannot listen for the ddprun of the other ranks: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    in_port_t port = name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                                : ((struct sockaddr_in *)&name)->sin_port;
    *listener_p = (struct listener){.fd = fd, .port = ntohs(port)};
    return true;
}

void
listener_close(struct listener *listener)
{
    if (listener->fd >= 0)
        close(listener->fd);
    listener->fd = -1;
}
