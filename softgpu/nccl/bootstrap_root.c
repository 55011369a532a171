/*
 * bootstrap_root.c - the thread that serves a unique id until its ranks have met: who may connect, and what is heard of
 * whom. What it answers is in bootstrap_rule.c.
 *
 * It runs in whichever process called ncclGetUniqueId, which need not be a rank. It must hold nothing up: no connection
 * can make it wait, a stranger has ten seconds to show the secret, and it ends by itself. A forked child has no copies
 * of the sockets (inherited.h), so that the death of this process is seen by the ranks even while a child of it lives.
 */
#include "nccl/bootstrap_root.h"

#include "nccl/clock.h"
#include "nccl/inherited.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A stranger this old may be dropped for another one when there are too many. */
#define STRANGER_PATIENCE_NS 1000000000LL

static void
close_connection(struct connection *connection)
{
    if (connection->pidfd >= 0)
        close(connection->pidfd);
    inherited_close(connection->door.socket);
    connection->door.socket = connection->pidfd = connection->rank = -1;
}

/* ---- strangers ---- */

static bool
is_stranger(const struct connection *connection)
{
    return connection->door.socket >= 0 && connection->rank < 0;
}

/* Drops strangers whose time is over; returns when the time of the next one is over, 0 if no stranger is left. */
static int64_t
drop_late_strangers(struct root *root, int64_t now_ns)
{
    int64_t next_ns = 0;
    for (int i = 0; i < CONNECTIONS; ++i) {
        struct connection *connection = &root->connections[i];
        if (!is_stranger(connection))
            continue;
        if (connection->door.deadline_ns <= now_ns)
            close_connection(connection);
        else if (next_ns == 0 || connection->door.deadline_ns < next_ns)
            next_ns = connection->door.deadline_ns;
    }
    return next_ns;
}

/* Where the next stranger goes, if need be that of one who has had time enough; NULL while there are too many. */
static struct connection *
place_for_stranger(struct root *root, int64_t now_ns)
{
    struct connection *oldest = NULL, *place = NULL;
    int strangers = 0;
    for (int i = 0; i < CONNECTIONS; ++i) {
        struct connection *connection = &root->connections[i];
        if (connection->door.socket < 0) {
            place = connection;
        } else if (is_stranger(connection)) {
            ++strangers;
            if (!oldest || connection->door.deadline_ns < oldest->door.deadline_ns)
                oldest = connection;
        }
    }
    if (strangers < STRANGERS)
        return place;
    if (oldest->door.deadline_ns - AUTH_DEADLINE_NS + STRANGER_PATIENCE_NS > now_ns)
        return NULL;
    close_connection(oldest);
    return oldest;
}

static void
accept_stranger(struct root *root, int listener, struct connection *place, int64_t now_ns)
{
    inherited_lock();
    int socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    bool is_noted = socket >= 0 && inherited_add(socket);
    inherited_unlock();
    if (socket < 0)
        return;
    place->door = (struct door){.socket = socket, .deadline_ns = now_ns + AUTH_DEADLINE_NS};
    place->is_tcp = listener == root->tcp_listener;
    place->is_known = false;
    place->got = 0;
    bool is_welcome = is_noted;
    if (is_welcome && place->is_tcp) {
        net_watch(socket);
        is_welcome = door_greet(&place->door, socket, now_ns) == DOOR_WAITS;
    } else if (is_welcome) {
        is_welcome = bootstrap_same_user(socket);
    }
    if (!is_welcome)
        close_connection(place);
}

/* ---- reports ---- */

enum heard { HEARD_NOTHING, HEARD_REPORT, HEARD_END };

/* A report over TCP may come in parts. */
static enum heard
hear_tcp(struct root *root, struct connection *connection)
{
    if (!connection->is_known) {
        int rank;
        enum door_state state = door_hear(&connection->door, root->id.secret, AUTH_ROOT, &rank);
        connection->is_known = state == DOOR_OPEN;
        return state == DOOR_SHUT ? HEARD_END : HEARD_NOTHING;
    }
    struct report *report = &connection->report;
    ssize_t got = recv(connection->door.socket, (unsigned char *)report + connection->got,
                       sizeof(*report) - connection->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return HEARD_NOTHING;
    if (got <= 0)
        return HEARD_END;
    connection->got += (size_t)got;
    if (connection->got < sizeof(*report))
        return HEARD_NOTHING;
    connection->got = 0;
    return memcmp(report->magic, REPORT_MAGIC, sizeof(report->magic)) == 0 ? HEARD_REPORT : HEARD_END;
}

/* One over a Unix socket comes whole, and the first with a pidfd and the secret. */
static enum heard
hear_unix(struct root *root, struct connection *connection)
{
    struct report *report = &connection->report;
    int pidfd = -1, fd_count = 0;
    ssize_t got = wire_receive(connection->door.socket, report, sizeof(*report), &pidfd, 1, &fd_count);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return HEARD_NOTHING;
    bool is_good = got == (ssize_t)sizeof(*report) && memcmp(report->magic, REPORT_MAGIC, sizeof(report->magic)) == 0 &&
                   auth_equal(report->secret, root->id.secret, sizeof(report->secret));
    bool is_first = connection->rank < 0;
    if (is_good && is_first && fd_count == 1) {
        connection->pidfd = pidfd;
        return HEARD_REPORT;
    }
    if (pidfd >= 0)
        close(pidfd);
    return is_good && !is_first ? HEARD_REPORT : HEARD_END;
}

static void
hear(struct root *root, struct connection *connection)
{
    enum heard heard = connection->is_tcp ? hear_tcp(root, connection) : hear_unix(root, connection);
    if (heard == HEARD_NOTHING)
        return;
    if (heard == HEARD_REPORT) {
        connection->report.text[SEGMENT_TEXT_BYTES - 1] = '\0';
        root_take_report(root, connection);
    } else if (connection->rank >= 0) {
        root_refuse(root, ncclRemoteError, "rank %d went away before all %d ranks had come", connection->rank,
                    root->rank_count);
    }
    if (connection->rank < 0 && root->result == ncclSuccess)
        close_connection(connection);
}

/* ---- the thread ---- */

static void
serve_until_complete(struct root *root)
{
    while (root->result == ncclSuccess && root->phase != PHASE_OVER) {
        struct pollfd fds[2 + CONNECTIONS];
        struct connection *of[2 + CONNECTIONS];
        nfds_t count = 2;
        int64_t now_ns = clock_now_ns(), next_ns = drop_late_strangers(root, now_ns);
        struct connection *place = place_for_stranger(root, now_ns);
        fds[0] = (struct pollfd){.fd = place ? root->unix_listener : -1, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = place ? root->tcp_listener : -1, .events = POLLIN};
        for (int i = 0; i < CONNECTIONS; ++i) {
            if (root->connections[i].door.socket < 0)
                continue;
            of[count] = &root->connections[i];
            fds[count++] = (struct pollfd){.fd = root->connections[i].door.socket, .events = POLLIN};
        }
        /* With too many strangers, look again soon whether one of them has had its time. */
        int timeout_ms = !place ? 100 : next_ns == 0 ? -1 : (int)((next_ns - now_ns) / 1000000 + 1);
        if (poll(fds, count, timeout_ms) < 0)
            continue; /* EINTR, or a passing want of memory */
        for (nfds_t i = 2; i < count && root->result == ncclSuccess; ++i) {
            if (fds[i].revents)
                hear(root, of[i]);
        }
        if (fds[0].revents && root->result == ncclSuccess && place->door.socket < 0)
            accept_stranger(root, root->unix_listener, place, now_ns);
        if (fds[1].revents && root->result == ncclSuccess && place->door.socket < 0)
            accept_stranger(root, root->tcp_listener, place, now_ns);
    }
}

static void
destroy_root(struct root *root)
{
    for (int i = 0; i < CONNECTIONS; ++i)
        close_connection(&root->connections[i]);
    root_close_listeners(root);
    free(root);
}

static void *
root_main(void *argument)
{
    struct root *root = argument;
    serve_until_complete(root);
    if (root->result != ncclSuccess)
        root_dismiss(root);
    destroy_root(root);
    return NULL;
}

/* A detached thread that no signal of the program is delivered to. */
static int
start_quiet_thread(void *(*function)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, function, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

static int
listen_unix(const struct id_content *id)
{
    struct sockaddr_un address;
    socklen_t length = bootstrap_address(id, &address);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0 && (bind(listener, (struct sockaddr *)&address, length) < 0 ||
                          listen(listener, SEGMENT_MAX_RANKS) < 0 || !inherited_add(listener))) {
        int reason = errno;
        close(listener);
        errno = reason;
        return -1;
    }
    return listener;
}

/* True if the root listens wherever its id says; errno otherwise. */
static bool
open_listeners(struct root *root, struct net_address *address, bool has_name)
{
    inherited_lock();
    bool good = true;
    if (has_name)
        good = (root->unix_listener = listen_unix(&root->id)) >= 0;
    if (good && address->family != 0) {
        root->tcp_listener = net_listen(address, SEGMENT_MAX_RANKS);
        good = root->tcp_listener >= 0 && inherited_add(root->tcp_listener);
    }
    inherited_unlock();
    return good;
}

ncclResult_t
bootstrap_root_start(struct id_content *id, struct bootstrap_error *error)
{
    static const unsigned char no_name[sizeof(id->name)];
    struct root *root = calloc(1, sizeof(*root));
    if (!root)
        return bootstrap_fail(error, ncclSystemError, "no memory for a unique id");
    root->id = *id;
    root->unix_listener = root->tcp_listener = -1;
    for (int i = 0; i < CONNECTIONS; ++i)
        root->connections[i] = (struct connection){.door.socket = -1, .rank = -1, .pidfd = -1};

    struct net_address address = id->root;
    if (!open_listeners(root, &address, memcmp(id->name, no_name, sizeof(no_name)) != 0)) {
        char what[80 + ADDRESS_TEXT_BYTES], where[ADDRESS_TEXT_BYTES];
        snprintf(what, sizeof(what), "cannot listen for the ranks%s%s", address.family ? " at " : "",
                 address.family ? net_address_text(&address, where) : "");
        ncclResult_t result = bootstrap_fail(error, ncclSystemError, what);
        destroy_root(root);
        return result;
    }
    errno = start_quiet_thread(root_main, root);
    if (errno) {
        ncclResult_t result = bootstrap_fail(error, ncclSystemError, "no thread to serve the unique id");
        destroy_root(root);
        return result;
    }
    id->root = address;
    return ncclSuccess;
}
