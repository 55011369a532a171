/*
 * meeting.c - see meeting.h. Rank 0's end is a supervisor_server, the others' a supervisor_connect for each port until
 * one is taken in.
 */
#include "launcher/cluster/meeting.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/printable.h"
#include "base/protocol.h"
#include "launcher/cluster/secret.h"
#include "launcher/cluster/supervisor_connect.h"
#include "launcher/cluster/supervisor_server.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TELL_AFTER_MS = 10000,
    NAMED_AT_MOST = 8,
    OTHER_PORTS_MS = 60, /* after which the ports behind the first one are tried, too */
    FIRST_RETRY_MS = 25,
    LAST_RETRY_MS = 1000,
    RESOLVE_MS = 2000,
    REFUSED_MS = 10000, /* after the first listener of this run that does not take us in */
    NO_SECRET_MS = 60000,
};

/* One port of rank 0's host. */
struct meeting_dial {
    struct handshake root; /* where, and by which key */
    struct supervisor_connect connection;
    bool is_open; /* `connection` has begun and not ended */
    int64_t next_ms;
    int tries;
};

struct meeting {
    struct meeting_terms terms;
    char run[512]; /* what `terms.run` says */
    char secret_path[SECRET_PATH_BYTES];
    bool has_key;
    unsigned char key[AUTH_BYTES], mark[AUTH_BYTES]; /* of the mark its first AUTH_MARK_BYTES */
    int64_t begun_ms;
    bool has_told; /* what is waited for */

    bool in_round, is_over;
    struct meeting_bytes *given; /* [world_size], each in memory of its own */

    struct supervisor_server *server; /* rank 0 */
    struct rank_view *views;          /* nothing is said of ranks yet */

    struct peer_link link; /* the others: to rank 0 */
    struct meeting_dial *dials;
    struct host_addresses addresses;
    int64_t resolved_ms; /* 0: never */
    bool has_sent;       /* its bytes of this round */
    int64_t refused_ms;  /* 0: no listener of this run has refused */
    char reason[128];    /* why no port has answered */
};

/* ---- opening and closing ---- */

/* What both ends must agree on without saying it, and what may be said. */
static bool
make_keys(struct meeting *meeting, const struct secret *secret, struct error *error)
{
    const struct meeting_terms *terms = &meeting->terms;
    char run[600], whole[700];
    snprintf(run, sizeof(run), "%u %s", terms->restart, meeting->run);
    snprintf(whole, sizeof(whole), "%d %s", terms->world_size, run);
    meeting->has_key = auth_derive("", 0, "mark", run, strlen(run), meeting->mark) &&
                       auth_derive(secret->bytes, secret->count, "meeting", whole, strlen(whole), meeting->key);
    return meeting->has_key ||
           error_set(error, DDPRUN_EXIT_FAILURE, "libcrypto has no HMAC-SHA256, by which ranks know each other");
}

/* Rank 0 makes the default secret if there is none; the others wait for it. *is_missing_p: it may still come. */
static bool
take_secret(struct meeting *meeting, bool *is_missing_p, struct error *error)
{
    struct secret secret = {.count = 0};
    bool is_private = meeting->terms.secret_file == NULL;
    bool ok = secret_read(meeting->secret_path, is_private, &secret, is_missing_p, error);
    if (!ok && *is_missing_p && is_private && meeting->terms.rank == 0)
        ok = secret_make(meeting->secret_path, error) &&
             secret_read(meeting->secret_path, is_private, &secret, is_missing_p, error);
    ok = ok && make_keys(meeting, &secret, error);
    explicit_bzero(&secret, sizeof(secret));
    return ok;
}

static bool
open_server(struct meeting *meeting, struct error *error)
{
    struct listener listener = {.fd = -1};
    int count = meeting->terms.world_size;
    bool is_missing;
    if (!take_secret(meeting, &is_missing, error))
        return false;
    for (unsigned i = 0; i < MEETING_PORTS && listener.fd < 0 && meeting->terms.port + i <= UINT16_MAX; ++i)
        (void)!listener_open(&listener, (uint16_t)(meeting->terms.port + i), count * 2 + 64, error);
    if (listener.fd < 0)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "cannot listen for the other ranks at port %u, nor at the %d behind it: %s; choose another",
                         meeting->terms.port, MEETING_PORTS - 1, strerror(errno));
    meeting->views = xcalloc((size_t)count, sizeof(*meeting->views));
    meeting->server = supervisor_server_open(&listener, count, meeting->key, 0, error);
    if (meeting->server != NULL)
        supervisor_server_mark(meeting->server, meeting->mark);
    return meeting->server != NULL;
}

static bool
open_dials(struct meeting *meeting, struct error *error)
{
    bool is_missing = false;
    meeting->dials = xcalloc(MEETING_PORTS, sizeof(*meeting->dials));
    snprintf(meeting->reason, sizeof(meeting->reason), "no answer");
    return take_secret(meeting, &is_missing, error) || (is_missing && meeting->terms.secret_file == NULL);
}

struct meeting *
meeting_open(const struct meeting_terms *terms, struct error *error)
{
    struct meeting *meeting = xcalloc(1, sizeof(*meeting));
    *meeting = (struct meeting){.terms = *terms, .link = {.fd = -1}, .begun_ms = clock_now_ms()};
    snprintf(meeting->run, sizeof(meeting->run), "%s", terms->run);
    meeting->given = xcalloc((size_t)terms->world_size, sizeof(*meeting->given));
    if (secret_path(terms->secret_file, meeting->secret_path, error) &&
        (terms->rank == 0 ? open_server(meeting, error) : open_dials(meeting, error)))
        return meeting;
    meeting_close(meeting);
    return NULL;
}

static void
free_given(struct meeting *meeting)
{
    for (int i = 0; i < meeting->terms.world_size; ++i) {
        free(meeting->given[i].bytes);
        meeting->given[i] = (struct meeting_bytes){0};
    }
}

static void
close_dials(struct meeting *meeting)
{
    for (int i = 0; meeting->dials != NULL && i < MEETING_PORTS; ++i) {
        if (meeting->dials[i].is_open)
            supervisor_connect_close(&meeting->dials[i].connection);
        meeting->dials[i].is_open = false;
    }
}

void
meeting_close(struct meeting *meeting)
{
    if (meeting->server != NULL)
        supervisor_server_close(meeting->server);
    close_dials(meeting);
    peer_link_close(&meeting->link);
    free_given(meeting);
    explicit_bzero(meeting->key, sizeof(meeting->key));
    free(meeting->views);
    free(meeting->dials);
    free(meeting->given);
    free(meeting);
}

/* ---- what is waited for ---- */

void
meeting_poll(const struct meeting *meeting, struct pollfd polled[MEETING_PORTS])
{
    for (int i = 0; i < MEETING_PORTS; ++i) {
        bool is_open = meeting->dials != NULL && meeting->dials[i].is_open;
        polled[i] = is_open ? supervisor_connect_poll(&meeting->dials[i].connection)
                            : (struct pollfd){.fd = -1, .events = POLLIN};
    }
    if (meeting->server != NULL)
        polled[0].fd = supervisor_server_fd(meeting->server);
    else if (meeting->link.fd >= 0)
        polled[0] = (struct pollfd){.fd = meeting->link.fd, .events = POLLIN};
}

static bool
is_here(const struct meeting *meeting, int rank)
{
    return rank == 0 || supervisor_server_peer(meeting->server, rank)->state != PEER_AWAITED;
}

static int
count_missing(const struct meeting *meeting)
{
    int missing = 0;
    for (int i = 1; meeting->server != NULL && i < meeting->terms.world_size; ++i)
        missing += !is_here(meeting, i);
    return missing;
}

static void
describe_missing(const struct meeting *meeting, int missing, char *text, size_t bytes)
{
    int named = 0;
    snprintf(text, bytes, "%d of %d: rank%s", missing, meeting->terms.world_size, missing == 1 ? "" : "s");
    for (int i = 1; i < meeting->terms.world_size && named < NAMED_AT_MOST; ++i) {
        if (!is_here(meeting, i))
            printable_append(text, bytes, "%s %d", named++ > 0 ? "," : "", i);
    }
    if (named < missing)
        printable_append(text, bytes, " and %d more", missing - named);
}

void
meeting_describe(const struct meeting *meeting, char *text, size_t bytes)
{
    const struct meeting_terms *terms = &meeting->terms;
    int missing = count_missing(meeting);
    if (missing > 0)
        describe_missing(meeting, missing, text, bytes);
    else if (meeting->server != NULL || meeting->link.fd >= 0)
        snprintf(text, bytes, "the other ranks");
    else if (!meeting->has_key)
        snprintf(text, bytes, "%.300s, the secret that the ddprun of rank 0 makes", meeting->secret_path);
    else
        snprintf(text, bytes, "the ddprun of rank 0 at %.200s, ports %u to %u (%s)", terms->address, terms->port,
                 terms->port + MEETING_PORTS - 1, meeting->reason);
}

static void
tell_waiting(struct meeting *meeting)
{
    char text[512];
    bool waits = meeting->server != NULL ? count_missing(meeting) > 0 : meeting->link.fd < 0;
    if (!waits || meeting->has_told || clock_now_ms() - meeting->begun_ms < TELL_AFTER_MS)
        return;
    meeting->has_told = true;
    meeting_describe(meeting, text, sizeof(text));
    message_line("waiting for %s", text);
}

/* ---- rounds ---- */

void
meeting_begin_round(struct meeting *meeting, const void *bytes, size_t count)
{
    struct meeting_bytes *mine = &meeting->given[meeting->terms.rank];
    free_given(meeting);
    *mine = (struct meeting_bytes){xcalloc(1, count + 1), count};
    if (count > 0)
        memcpy(mine->bytes, bytes, count);
    meeting->in_round = true;
    meeting->is_over = meeting->has_sent = false;
}

bool
meeting_round_is_over(const struct meeting *meeting)
{
    return meeting->is_over;
}

struct meeting_bytes
meeting_given(const struct meeting *meeting, int rank)
{
    return meeting->given[rank];
}

static bool
step_server(struct meeting *meeting, struct error *error)
{
    int count = meeting->terms.world_size;
    bool have_all = meeting->in_round;
    (void)supervisor_server_step(meeting->server, meeting->views);
    for (int i = 1; meeting->in_round && i < count; ++i) {
        struct meeting_bytes *given = &meeting->given[i];
        if (given->bytes == NULL)
            given->bytes = supervisor_server_take_given(meeting->server, i, &given->count);
        if (given->bytes == NULL && supervisor_server_peer(meeting->server, i)->state == PEER_LOST)
            return error_set(error, DDPRUN_EXIT_FAILURE,
                             "rank %d has left before all ranks had met (%s); its output may say why", i,
                             supervisor_server_peer(meeting->server, i)->lost);
        have_all = have_all && given->bytes != NULL;
    }
    for (int i = 0; have_all && i < count; ++i)
        supervisor_server_give(meeting->server, i, meeting->given[i].bytes, meeting->given[i].count, i == count - 1);
    meeting->in_round = meeting->in_round && !have_all;
    meeting->is_over = !meeting->in_round && supervisor_server_is_flushed(meeting->server);
    return true;
}

/* A rank and what it has given; the last rank's come last. */
static bool
take_given(struct meeting *meeting, const struct peer_frame *frame)
{
    uint32_t rank;
    if (frame->kind == FRAME_HEARTBEAT)
        return true;
    if (frame->kind != FRAME_GIVEN || !meeting->in_round || frame->count < sizeof(rank))
        return false;
    memcpy(&rank, frame->bytes, sizeof(rank));
    if (rank >= (uint32_t)meeting->terms.world_size)
        return false;
    struct meeting_bytes *given = &meeting->given[rank];
    free(given->bytes);
    *given = (struct meeting_bytes){xcalloc(1, frame->count), frame->count - sizeof(rank)};
    memcpy(given->bytes, frame->bytes + sizeof(rank), given->count);
    meeting->is_over = rank == (uint32_t)meeting->terms.world_size - 1;
    meeting->in_round = !meeting->is_over;
    return true;
}

static bool
step_link(struct meeting *meeting, struct error *error)
{
    struct meeting_bytes *mine = &meeting->given[meeting->terms.rank];
    struct peer_frame frame;
    if (meeting->in_round && !meeting->has_sent)
        peer_link_send(&meeting->link, FRAME_GIVE, mine->bytes, mine->count);
    meeting->has_sent = meeting->has_sent || meeting->in_round;
    (void)peer_link_flush(&meeting->link);
    peer_link_read(&meeting->link);
    while (peer_link_next(&meeting->link, &frame)) {
        if (!take_given(meeting, &frame))
            return error_set(error, DDPRUN_EXIT_FAILURE, "the ddprun of rank 0 speaks another protocol");
    }
    return !meeting->link.gone || meeting->is_over ||
           error_set(error, DDPRUN_EXIT_FAILURE,
                     "rank %d has lost the ddprun of rank 0, at %.100s, before all ranks had met: that has ended, and "
                     "its output may say why, or another process is rank %d, too",
                     meeting->terms.rank, meeting->terms.address, meeting->terms.rank);
}

/* ---- finding rank 0 ---- */

/* Again when what was found is old: a pod's name is known once the pod is. */
static void
resolve(struct meeting *meeting)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct host_addresses *addresses = &meeting->addresses;
    struct addrinfo *list = NULL;
    if (meeting->resolved_ms != 0 && clock_now_ms() - meeting->resolved_ms < RESOLVE_MS)
        return;
    int answer = getaddrinfo(meeting->terms.address, NULL, &hints, &list);
    meeting->resolved_ms = clock_now_ms();
    addresses->count = 0;
    if (answer != 0)
        snprintf(meeting->reason, sizeof(meeting->reason), "%s", gai_strerror(answer));
    for (const struct addrinfo *i = list; i != NULL && addresses->count < ADDRESSES_AT_MOST; i = i->ai_next)
        addresses->count += addresses_take(i->ai_addr, &addresses->items[addresses->count]);
    if (list != NULL)
        freeaddrinfo(list);
}

/* A listener of this run does not take us in: a secret may be copied now, so it has a while. */
static bool
note_refusal(struct meeting *meeting, unsigned port, struct error *error)
{
    char host[65] = "this host";
    bool is_missing;
    if (meeting->refused_ms == 0)
        meeting->refused_ms = clock_now_ms();
    snprintf(meeting->reason, sizeof(meeting->reason), "port %u: another secret or number of processes", port);
    if (clock_now_ms() - meeting->refused_ms < REFUSED_MS)
        return take_secret(meeting, &is_missing, error);
    (void)gethostname(host, sizeof(host) - 1);
    return error_set(
        error, DDPRUN_EXIT_USAGE,
        "the ddprun of rank 0, at %.100s, port %u, does not take in rank %d (host %s): its secret is not "
        "that of %.300s, or it does not count %d processes; copy the secret of rank 0's host here, or give "
        "all ranks --secret-file FILE",
        meeting->terms.address, port, meeting->terms.rank, host, meeting->secret_path, meeting->terms.world_size);
}

static void
begin_dial(struct meeting *meeting, struct meeting_dial *dial)
{
    dial->root.port = (uint16_t)(meeting->terms.port + (unsigned)(dial - meeting->dials));
    memcpy(dial->root.secret, meeting->key, AUTH_BYTES);
    resolve(meeting);
    dial->root.addresses = meeting->addresses;
    supervisor_connect_begin(&dial->connection, &dial->root, "of no host", NULL, PEER_SUPERVISOR, meeting->terms.rank);
    dial->is_open = true;
}

static bool
end_dial(struct meeting *meeting, struct meeting_dial *dial, struct error *error)
{
    static const unsigned char nothing[AUTH_MARK_BYTES];
    const unsigned char *mark = dial->connection.challenge.nonce;
    int64_t wait_ms = FIRST_RETRY_MS << (dial->tries < 6 ? dial->tries : 6);
    dial->is_open = false;
    ++dial->tries;
    dial->next_ms = clock_now_ms() + (wait_ms < LAST_RETRY_MS ? wait_ms : LAST_RETRY_MS);
    if (memcmp(mark, meeting->mark, AUTH_MARK_BYTES) == 0)
        return note_refusal(meeting, dial->root.port, error);
    if (dial == meeting->dials && dial->root.addresses.count > 0)
        snprintf(meeting->reason, sizeof(meeting->reason), "port %d: %s", dial->root.port,
                 memcmp(mark, nothing, AUTH_MARK_BYTES) != 0 ? "of another job" : strerror(dial->connection.reason));
    return true;
}

static bool
step_dial(struct meeting *meeting, struct meeting_dial *dial, struct error *error)
{
    struct error why;
    int fd = -1;
    if (!dial->is_open && clock_now_ms() < dial->next_ms)
        return true;
    if (!dial->is_open)
        begin_dial(meeting, dial);
    enum connect_outcome outcome = supervisor_connect_step(&dial->connection, &fd, &why);
    if (outcome == CONNECT_FAILED)
        return end_dial(meeting, dial, error);
    if (outcome == CONNECT_DONE) {
        dial->is_open = false;
        close_dials(meeting);
        peer_link_open(&meeting->link, fd);
    }
    return true;
}

static bool
wait_for_secret(struct meeting *meeting, struct error *error)
{
    char host[65] = "this host";
    struct error why = {0};
    bool is_missing;
    if (take_secret(meeting, &is_missing, &why) || (is_missing && clock_now_ms() - meeting->begun_ms < NO_SECRET_MS))
        return true;
    (void)gethostname(host, sizeof(host) - 1);
    return error_set(
        error, why.exit_code,
        "rank %d (host %s): %.400s; the ranks of a job know each other by one secret: copy that of rank 0's "
        "host here, to the same path, or give all ranks --secret-file FILE",
        meeting->terms.rank, host, why.text);
}

static bool
step_dials(struct meeting *meeting, struct error *error)
{
    if (!meeting->has_key && !wait_for_secret(meeting, error))
        return false;
    unsigned ports = clock_now_ms() - meeting->begun_ms > OTHER_PORTS_MS ? MEETING_PORTS : 1;
    for (unsigned i = 0; meeting->has_key && i < ports && meeting->link.fd < 0; ++i) {
        if (meeting->terms.port + i <= UINT16_MAX && !step_dial(meeting, &meeting->dials[i], error))
            return false;
    }
    return true;
}

bool
meeting_step(struct meeting *meeting, struct error *error)
{
    if (meeting->server != NULL) {
        if (!step_server(meeting, error))
            return false;
    } else if (meeting->link.fd < 0 && !step_dials(meeting, error)) {
        return false;
    }
    if (meeting->server == NULL && meeting->link.fd >= 0 && !step_link(meeting, error))
        return false;
    tell_waiting(meeting);
    return true;
}

bool
meeting_make_secret(const struct meeting *meeting, unsigned char *bytes)
{
    unsigned char made[AUTH_BYTES];
    if (!auth_derive(meeting->key, AUTH_BYTES, "job", bytes, AUTH_BYTES, made))
        return false;
    memcpy(bytes, made, AUTH_BYTES);
    return true;
}
