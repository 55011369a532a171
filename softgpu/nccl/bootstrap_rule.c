/*
 * bootstrap_rule.c - what the root of a unique id makes of the ranks' reports, and its rulings: whether the ranks fit
 * together, who is on which host, who is reached where.
 */
#include "nccl/bootstrap_root.h"

#include "nccl/inherited.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void
root_refuse(struct root *root, ncclResult_t result, const char *format, ...)
{
    if (root->result != ncclSuccess)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(root->text, sizeof(root->text), format, args);
    va_end(args);
    root->result = result;
}

void
root_close_listeners(struct root *root)
{
    inherited_close(root->unix_listener);
    inherited_close(root->tcp_listener);
    root->unix_listener = root->tcp_listener = -1;
}

/* ---- rulings ---- */

/* The same to every rank. One ruling fits the buffer of a connection whose rank has read the one before. */
static void
send_ruling(struct root *root, struct ruling *ruling, const int *fds, int fd_count)
{
    memcpy(ruling->magic, RULING_MAGIC, sizeof(ruling->magic));
    for (int i = 0; i < CONNECTIONS; ++i) {
        struct connection *connection = &root->connections[i];
        if (connection->door.socket < 0 || connection->rank < 0)
            continue;
        connection->has_reported = false;
        if (!wire_send(connection->door.socket, ruling, sizeof(*ruling), connection->is_tcp ? NULL : fds,
                       connection->is_tcp ? 0 : fd_count) &&
            root->phase != PHASE_OVER)
            root_refuse(root, ncclRemoteError, "rank %d went away before all %d ranks had come", connection->rank,
                        root->rank_count);
    }
    root->reported = 0;
}

void
root_dismiss(struct root *root)
{
    struct ruling ruling = {.kind = RULING_WELCOME, .result = root->result};
    memcpy(ruling.text, root->text, sizeof(ruling.text));
    root->phase = PHASE_OVER;
    send_ruling(root, &ruling, NULL, 0); /* who is gone need not hear it */
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

/* All ranks are on this host: they get the memory, and each other. */
static void
welcome_one_host(struct root *root)
{
    int fds[1 + SEGMENT_MAX_RANKS];
    fds[0] = create_segment(root->rank_count);
    if (fds[0] < 0) {
        root_refuse(root, ncclSystemError, "no shared memory for %d ranks: %s", root->rank_count, strerror(errno));
        return;
    }
    for (int i = 0; i < CONNECTIONS; ++i) {
        if (root->connections[i].rank >= 0)
            fds[1 + root->connections[i].rank] = root->connections[i].pidfd;
    }
    struct ruling ruling = {.kind = RULING_WELCOME};
    root->phase = PHASE_OVER;
    send_ruling(root, &ruling, fds, 1 + root->rank_count);
    close(fds[0]);
}

static struct connection *
connection_of(struct root *root, int rank)
{
    for (int i = 0; i < CONNECTIONS; ++i) {
        if (root->connections[i].rank == rank)
            return &root->connections[i];
    }
    return NULL;
}

/* Hosts are numbered in the order of their first ranks. */
static void
rule_spread(struct root *root)
{
    struct ruling ruling = {.kind = RULING_SPREAD};
    int hosts = 0;
    for (int r = 0; r < root->rank_count; ++r) {
        const unsigned char *host = connection_of(root, r)->host;
        int like = 0;
        while (like < r && memcmp(connection_of(root, like)->host, host, HOST_BYTES) != 0)
            ++like;
        ruling.host_of[r] = like < r ? ruling.host_of[like] : (unsigned char)hosts++;
    }
    if (!auth_random(ruling.name, sizeof(ruling.name))) {
        root_refuse(root, ncclSystemError, "no random numbers for the hosts of %d ranks", root->rank_count);
        return;
    }
    root->phase = PHASE_ADDRESS;
    send_ruling(root, &ruling, NULL, 0);
}

static void
rule_addresses(struct root *root)
{
    struct ruling ruling = {.kind = RULING_ADDRESSES};
    for (int r = 0; r < root->rank_count; ++r)
        ruling.addresses[r] = connection_of(root, r)->address;
    root->phase = PHASE_DONE;
    send_ruling(root, &ruling, NULL, 0);
}

static void
welcome_all(struct root *root)
{
    struct ruling ruling = {.kind = RULING_WELCOME};
    root->phase = PHASE_OVER;
    send_ruling(root, &ruling, NULL, 0);
}

/* ---- reports ---- */

/* Decides about a rank that has introduced itself; it becomes one, or the ranks do not fit together. */
static void
admit(struct root *root, struct connection *connection)
{
    const struct report *hello = &connection->report;
    if (hello->rank_count < 1 || hello->rank_count > SEGMENT_MAX_RANKS || hello->rank < 0 ||
        hello->rank >= hello->rank_count) {
        connection->rank = SEGMENT_MAX_RANKS; /* of no other; it gets the reason like the others */
        root_refuse(root, ncclInvalidArgument, "a process says that it is rank %d of %d", hello->rank,
                    hello->rank_count);
        return;
    }
    for (int i = 0; i < CONNECTIONS; ++i) {
        const struct connection *other = &root->connections[i];
        if (other->rank < 0)
            continue;
        if (hello->rank_count != root->rank_count)
            root_refuse(root, ncclInvalidArgument, "ranks disagree on their number: rank %d says %d, rank %d says %d",
                        other->rank, root->rank_count, hello->rank, hello->rank_count);
        else if (other->rank == hello->rank)
            root_refuse(root, ncclInvalidUsage, "two processes say that they are rank %d of %d", hello->rank,
                        hello->rank_count);
    }
    root->rank_count = hello->rank_count;
    connection->rank = hello->rank;
    memcpy(connection->host, hello->host, HOST_BYTES);
}

static bool
all_came_over_unix(const struct root *root)
{
    for (int i = 0; i < CONNECTIONS; ++i) {
        if (root->connections[i].rank >= 0 && root->connections[i].is_tcp)
            return false;
    }
    return true;
}

static void
end_phase(struct root *root)
{
    switch (root->phase) {
    case PHASE_HELLO:
        root_close_listeners(root);
        if (all_came_over_unix(root))
            welcome_one_host(root);
        else
            rule_spread(root);
        break;
    case PHASE_ADDRESS:
        rule_addresses(root);
        break;
    case PHASE_DONE:
        welcome_all(root);
        break;
    case PHASE_OVER:
        break;
    }
}

void
root_take_report(struct root *root, struct connection *connection)
{
    static const enum report_kind wanted[] = {
        [PHASE_HELLO] = REPORT_HELLO, [PHASE_ADDRESS] = REPORT_ADDRESS, [PHASE_DONE] = REPORT_DONE};
    const struct report *report = &connection->report;
    bool is_member = connection->rank >= 0;
    if (!is_member && report->kind == REPORT_HELLO && root->phase == PHASE_HELLO) {
        admit(root, connection);
    } else if (!is_member) {
        return; /* too late, or no hello: a stranger still */
    } else if (report->kind == REPORT_FAILED) {
        root_refuse(root,
                    report->result > ncclSuccess && report->result < ncclNumResults ? (ncclResult_t)report->result
                                                                                    : ncclRemoteError,
                    "%s", report->text);
    } else if (connection->has_reported || report->kind != (uint32_t)wanted[root->phase]) {
        root_refuse(root, ncclInternalError, "rank %d reports out of turn", connection->rank);
    }
    if (root->result != ncclSuccess)
        return;
    if (report->kind == REPORT_ADDRESS)
        connection->address = report->address;
    connection->has_reported = true;
    if (++root->reported == root->rank_count)
        end_phase(root);
}
