/*
 * bootstrap_root.c - the thread that serves a unique id until its ranks have met.
 *
 * It runs in whichever process called ncclGetUniqueId, which need not be a rank. It must hold nothing up: no connection
 * can make it wait, and it ends by itself. A forked child closes its copies of the sockets, so that the death of this
 * process is seen by the ranks even while a child of it lives.
 */
#include "nccl/bootstrap_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Connections that have not introduced themselves; more than that wait in the listen queue. */
enum { STRANGERS = 16, CONNECTIONS = SEGMENT_MAX_RANKS + STRANGERS };

struct connection {
    int socket; /* -1: free */
    int rank;   /* -1: a stranger, has not said hello */
    int pidfd;  /* -1 */
};

/* One unique id being served. The thread owns it; `sockets` of all of them are closed in forked children. */
struct root {
    struct root *next;
    struct id_content id;
    int listener;
    int rank_count; /* as the first hello said; 0 before */
    int joined;
    struct connection connections[CONNECTIONS];
    ncclResult_t result; /* other than success: why it ends early */
    char text[SEGMENT_TEXT_BYTES];
};

static pthread_mutex_t roots_lock = PTHREAD_MUTEX_INITIALIZER; /* guards `roots` and the socket numbers in them */
static struct root *roots;

static void
before_fork(void)
{
    pthread_mutex_lock(&roots_lock);
}

static void
after_fork_in_parent(void)
{
    pthread_mutex_unlock(&roots_lock);
}

static void
after_fork_in_child(void)
{
    for (struct root *root = roots; root; root = root->next) {
        close(root->listener);
        for (int i = 0; i < CONNECTIONS; ++i) {
            if (root->connections[i].socket >= 0)
                close(root->connections[i].socket);
        }
    }
    roots = NULL; /* the threads did not come along; what they owned is left alone */
    pthread_mutex_unlock(&roots_lock);
}

static void
watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void
close_connection(struct connection *connection)
{
    if (connection->pidfd >= 0)
        close(connection->pidfd);
    pthread_mutex_lock(&roots_lock);
    close(connection->socket);
    connection->socket = -1;
    pthread_mutex_unlock(&roots_lock);
    connection->rank = connection->pidfd = -1;
}

/* Where the next stranger goes, or NULL while there are enough of them. */
static struct connection *
place_for_stranger(struct root *root)
{
    int strangers = 0;
    struct connection *place = NULL;
    for (int i = 0; i < CONNECTIONS; ++i) {
        if (root->connections[i].socket < 0)
            place = &root->connections[i];
        else if (root->connections[i].rank < 0)
            ++strangers;
    }
    return strangers < STRANGERS ? place : NULL;
}

static void
accept_stranger(struct root *root, struct connection *place)
{
    pthread_mutex_lock(&roots_lock);
    int socket = accept4(root->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    place->socket = socket;
    pthread_mutex_unlock(&roots_lock);
    if (socket >= 0 && !bootstrap_same_user(socket))
        close_connection(place);
}

/* True if the secrets are equal; takes the same time wherever they differ. */
static bool
knows_secret(const struct root *root, const struct hello *hello)
{
    unsigned char difference = 0;
    for (size_t i = 0; i < sizeof(hello->secret); ++i)
        difference |= (unsigned char)(hello->secret[i] ^ root->id.secret[i]);
    return difference == 0;
}

/* Decides about a rank that has introduced itself; false, with the root's result set, if the ranks do not fit together.
 */
static bool
admit(struct root *root, struct connection *connection, const struct hello *hello)
{
    if (hello->rank_count < 1 || hello->rank_count > SEGMENT_MAX_RANKS || hello->rank < 0 ||
        hello->rank >= hello->rank_count) {
        root->result = ncclInvalidArgument;
        snprintf(root->text, sizeof(root->text), "a process says that it is rank %d of %d", hello->rank,
                 hello->rank_count);
        return false;
    }
    for (int i = 0; i < CONNECTIONS; ++i) {
        const struct connection *other = &root->connections[i];
        if (other->rank < 0)
            continue;
        if (hello->rank_count != root->rank_count) {
            root->result = ncclInvalidArgument;
            snprintf(root->text, sizeof(root->text), "ranks disagree on their number: rank %d says %d, rank %d says %d",
                     other->rank, root->rank_count, hello->rank, hello->rank_count);
            return false;
        }
        if (other->rank == hello->rank) {
            root->result = ncclInvalidUsage;
            snprintf(root->text, sizeof(root->text), "two processes say that they are rank %d of %d", hello->rank,
                     hello->rank_count);
            return false;
        }
    }
    root->rank_count = hello->rank_count;
    connection->rank = hello->rank;
    ++root->joined;
    return true;
}

/* Something can be read from a connection: a hello, or its end. */
static void
hear(struct root *root, struct connection *connection)
{
    struct hello hello;
    int pidfd = -1, fd_count = 0;
    ssize_t got = wire_receive(connection->socket, &hello, sizeof(hello), &pidfd, 1, &fd_count);
    if (connection->rank >= 0) { /* a rank has nothing more to say */
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        root->result = ncclRemoteError;
        snprintf(root->text, sizeof(root->text), "rank %d went away before all %d ranks had come", connection->rank,
                 root->rank_count);
    } else if (got == (ssize_t)sizeof(hello) && fd_count == 1 &&
               memcmp(hello.magic, HELLO_MAGIC, sizeof(hello.magic)) == 0 && knows_secret(root, &hello)) {
        connection->pidfd = pidfd;
        if (admit(root, connection, &hello))
            return;
        pidfd = -1;
    }
    if (pidfd >= 0)
        close(pidfd);
    if (connection->rank < 0 && root->result == ncclSuccess)
        close_connection(connection);
}

static void
serve_until_complete(struct root *root)
{
    while (root->result == ncclSuccess && (root->rank_count == 0 || root->joined < root->rank_count)) {
        struct pollfd fds[1 + CONNECTIONS];
        struct connection *of[1 + CONNECTIONS];
        nfds_t count = 0;
        struct connection *place = place_for_stranger(root);
        fds[count++] = (struct pollfd){.fd = place ? root->listener : -1, .events = POLLIN};
        for (int i = 0; i < CONNECTIONS; ++i) {
            if (root->connections[i].socket < 0)
                continue;
            of[count] = &root->connections[i];
            fds[count++] = (struct pollfd){.fd = root->connections[i].socket, .events = POLLIN};
        }
        if (poll(fds, count, -1) < 0)
            continue; /* EINTR, or a passing want of memory */
        for (nfds_t i = 1; i < count && root->result == ncclSuccess; ++i) {
            if (fds[i].revents)
                hear(root, of[i]);
        }
        if (fds[0].revents && root->result == ncclSuccess)
            accept_stranger(root, place);
    }
}

/* A sealed file of the segment's size, or -1 with errno set. */
static int
create_segment(int rank_count)
{
    int memfd = memfd_create("softgpu-nccl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memfd >= 0 && (ftruncate(memfd, (off_t)segment_bytes(rank_count)) < 0 ||
                       fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)) {
        int reason = errno;
        close(memfd);
        errno = reason;
        return -1;
    }
    return memfd;
}

/* Tells every rank the outcome. */
static void
dismiss(struct root *root)
{
    int fds[1 + SEGMENT_MAX_RANKS];
    int fd_count = 0;
    struct welcome welcome = {.magic = WELCOME_MAGIC};
    if (root->result == ncclSuccess) {
        fds[0] = create_segment(root->rank_count);
        fd_count = 1 + root->rank_count;
        if (fds[0] < 0) {
            root->result = ncclSystemError;
            fd_count = 0;
            snprintf(root->text, sizeof(root->text), "no shared memory for %d ranks: %s", root->rank_count,
                     strerror(errno));
        }
        for (int i = 0; i < CONNECTIONS; ++i) {
            if (root->connections[i].rank >= 0)
                fds[1 + root->connections[i].rank] = root->connections[i].pidfd;
        }
    }
    welcome.result = root->result;
    memcpy(welcome.text, root->text, sizeof(welcome.text));
    for (int i = 0; i < CONNECTIONS; ++i) {
        struct connection *connection = &root->connections[i];
        if (connection->socket >= 0 && connection->pidfd >= 0)
            wire_send(connection->socket, &welcome, sizeof(welcome), fds, fd_count); /* who is gone need not hear it */
    }
    if (fd_count > 0)
        close(fds[0]);
}

static void
destroy_root(struct root *root)
{
    for (int i = 0; i < CONNECTIONS; ++i) {
        if (root->connections[i].socket >= 0)
            close_connection(&root->connections[i]);
    }
    pthread_mutex_lock(&roots_lock);
    struct root **link = &roots;
    while (*link && *link != root)
        link = &(*link)->next;
    if (*link)
        *link = root->next;
    close(root->listener);
    pthread_mutex_unlock(&roots_lock);
    free(root);
}

static void *
root_main(void *argument)
{
    struct root *root = argument;
    serve_until_complete(root);
    dismiss(root);
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

ncclResult_t
bootstrap_root_start(const struct id_content *id, struct bootstrap_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);

    struct root *root = calloc(1, sizeof(*root));
    if (!root)
        return bootstrap_fail(error, ncclSystemError, "no memory for a unique id");
    root->id = *id;
    for (int i = 0; i < CONNECTIONS; ++i)
        root->connections[i] = (struct connection){.socket = -1, .rank = -1, .pidfd = -1};

    struct sockaddr_un address;
    socklen_t length = bootstrap_address(id, &address);
    pthread_mutex_lock(&roots_lock);
    root->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool listening = root->listener >= 0 && bind(root->listener, (struct sockaddr *)&address, length) == 0 &&
                     listen(root->listener, SEGMENT_MAX_RANKS) == 0;
    if (listening) {
        root->next = roots;
        roots = root;
    }
    pthread_mutex_unlock(&roots_lock);
    if (!listening) {
        ncclResult_t result = bootstrap_fail(error, ncclSystemError, "cannot listen for the ranks");
        if (root->listener >= 0)
            close(root->listener);
        free(root);
        return result;
    }
    errno = start_quiet_thread(root_main, root);
    if (errno) {
        ncclResult_t result = bootstrap_fail(error, ncclSystemError, "no thread to serve the unique id");
        destroy_root(root);
        return result;
    }
    return ncclSuccess;
}
