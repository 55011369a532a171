/*
 * meeting.c - this process as a member of a job by an address (launcher/cluster/member.h), without PMIx: all connect
 * to one address, and give each other bytes in rounds.
 *
 * One process listens, at the port that was named or the first free one of the 15 after it (torchrun's own store has
 * the first); the others try all of them (search.h). It is the first process of a host that has the address, or rank 0,
 * which gives way to a listener that answers at the address. Both ends prove that they know one key (auth.h): it is
 * made from the user's secret, the name of the run, how often it has begun anew, and the number of processes, and is
 * never sent. The listener's nonces begin with a mark of the run, so that jobs side by side pass each other over. Who
 * proves nothing is dropped (supervisor_server.h), and the meeting does not notice.
 *
 * The listener's end is a supervisor_server, in which rank R is number R + 1, for any rank may listen.
 */
#include "launcher/cluster/member.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/printable.h"
#include "base/protocol.h"
#include "launcher/cluster/address/search.h"
#include "launcher/cluster/supervisor_server.h"
#include "launcher/common/network.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>

enum {
    DEFAULT_PORT = 29500,
    TELL_AFTER_MS = 10000,
    NAMED_AT_MOST = 8,
    REFUSED_MS = 10000, /* after the first listener of this run that does not take us in */
    NO_SECRET_MS = 60000,
    LEAVE_MS = 10000, /* for all to have what was given */
    LINGER_MS = 1500, /* for those that come just then to hear why the meeting is over */
    STEP_MS = 100,
};

static struct meeting {
    int rank, world_size;
    char address[LAUNCHED_HOST_BYTES];
    unsigned port;
    char run[512]; /* its name, which jobs side by side do not share */
    unsigned restart;
    bool tells, tells_left; /* says what is waited for, and who has left */
    const char *secret_file;
    char secret_path[SECRET_PATH_BYTES];
    bool has_key;
    unsigned char key[AUTH_BYTES], mark[AUTH_BYTES]; /* of the mark its first AUTH_MARK_BYTES, half of them the run's */
    int64_t begun_ms;
    bool has_told; /* what is waited for */

    bool in_round, is_over, has_met; /* has_met: one round is over, so all had come */
    bool is_told;                    /* why this process gives up: by the one that listens */
    struct cluster_blob *given;      /* [world_size], of this round */

    int claim;           /* held by the one process of this host that may listen; -1: not taken */
    bool may_not_listen; /* another process of this host does, or another host */
    bool is_sole;        /* no other listener is looked for */
    struct supervisor_server *server;
    struct rank_view *views; /* nothing is said of ranks yet */

    struct search *search; /* the others: for the listener, to which */
    struct peer_link link; /* this leads then */
    bool has_sent;         /* its bytes of this round */
    int64_t refused_ms;    /* 0: no listener of this run has refused */
} meeting;

/* ---- keys ---- */

/* What both ends must agree on without saying it, and what may be said. */
static bool
make_keys(const struct secret *secret, struct error *error)
{
    char run[600], whole[700];
    snprintf(run, sizeof(run), "%u %s", meeting.restart, meeting.run);
    snprintf(whole, sizeof(whole), "%d %s", meeting.world_size, run);
    auth_derive("", 0, "mark", run, strlen(run), meeting.mark);
    auth_derive(secret->bytes, secret->count, "meeting", whole, strlen(whole), meeting.key);
    meeting.has_key = auth_random(meeting.mark + AUTH_MARK_BYTES / 2, AUTH_MARK_BYTES / 2);
    if (meeting.has_key)
        search_know(meeting.search, meeting.key, meeting.mark);
    return meeting.has_key || error_set(error, DDPRUN_EXIT_FAILURE, "the system gives no random numbers (getrandom)");
}

/* The process that would listen makes the default secret if there is none; the others wait for it. *is_missing_p: it
 * may still come. */
static bool
take_secret(bool may_make, bool *is_missing_p, struct error *error)
{
    struct secret secret = {.count = 0};
    bool is_private = meeting.secret_file == NULL;
    bool ok = secret_read(meeting.secret_path, is_private, &secret, is_missing_p, error);
    if (!ok && *is_missing_p && is_private && may_make) {
        *is_missing_p = false;
        ok = secret_make(meeting.secret_path, error) &&
             secret_read(meeting.secret_path, is_private, &secret, is_missing_p, error);
    }
    ok = ok && make_keys(&secret, error);
    *is_missing_p = *is_missing_p && is_private;
    explicit_bzero(&secret, sizeof(secret));
    return ok;
}

static bool
need_secret(bool may_make, struct error *error)
{
    struct error why = {0};
    bool is_missing;
    if (meeting.has_key || take_secret(may_make, &is_missing, &why) ||
        (is_missing && clock_now_ms() - meeting.begun_ms < NO_SECRET_MS))
        return true;
    if (!is_missing) {
        *error = why;
        return false;
    }
    return error_set(
        error, why.exit_code,
        "rank %d (host %s): %.400s; the ranks of a job know each other by one secret: copy that of the host of %.200s "
        "here, to the same path, or give all ranks --secret-file FILE",
        meeting.rank, host_name(), why.text, meeting.address);
}

/* ---- joining and leaving ---- */

static void
free_given(int rank)
{
    free(meeting.given[rank].bytes);
    meeting.given[rank] = (struct cluster_blob){0};
}

static void
close_server(void)
{
    if (meeting.server != NULL)
        supervisor_server_close(meeting.server);
    meeting.server = NULL;
    if (meeting.claim >= 0)
        close(meeting.claim);
    meeting.claim = -1;
}

static bool
have_all_heard(void)
{
    bool all = supervisor_server_all(meeting.server, PEERS_LEFT);
    for (int i = 0; i < meeting.world_size; ++i)
        all = all && (i == meeting.rank || supervisor_server_peer(meeting.server, i + 1)->state != PEER_AWAITED);
    return all;
}

/*
 * The others close their connections once they have all. Before that, to close here could take away what is on its way:
 * where something has come that was not read, such as the padding of a frame, the system resets a connection.
 */
static void
wait_until_left(void)
{
    struct pollfd polled = {.fd = supervisor_server_fd(meeting.server), .events = POLLIN};
    int64_t begin_ms = clock_now_ms();
    while ((!supervisor_server_all(meeting.server, PEERS_LEFT) && clock_now_ms() - begin_ms < LEAVE_MS) ||
           (meeting.is_told && !have_all_heard() && clock_now_ms() - begin_ms < LINGER_MS)) {
        poll(&polled, 1, STEP_MS);
        (void)supervisor_server_step(meeting.server, meeting.views);
    }
}

static void
end_fences(void)
{
    if (meeting.given == NULL)
        return;
    if (meeting.server != NULL && (meeting.is_over || meeting.is_told))
        wait_until_left();
    close_server();
    if (meeting.search != NULL)
        search_close(meeting.search);
    peer_link_close(&meeting.link);
    for (int i = 0; i < meeting.world_size; ++i)
        free_given(i);
    free(meeting.views);
    free(meeting.given);
    explicit_bzero(&meeting, sizeof(meeting));
}

static bool
join(const struct launched *launched, const struct cluster_terms *terms, struct cluster_place *place_p,
     struct error *error)
{
    unsigned port = launched->port > 0 ? launched->port : DEFAULT_PORT;
    meeting = (struct meeting){.rank = launched->rank,
                               .world_size = launched->world_size,
                               .port = port,
                               .restart = launched->restart,
                               .tells = launched->nodes == 0 || launched->local_rank == 0,
                               .tells_left = launched->local_rank <= 0,
                               .secret_file = terms->secret_file,
                               .begun_ms = clock_now_ms(),
                               .claim = -1,
                               .link = {.fd = -1}};
    memcpy(meeting.address, launched->address, sizeof(meeting.address));
    if (terms->job != NULL || launched->run[0] != '\0')
        snprintf(meeting.run, sizeof(meeting.run), "%s", terms->job != NULL ? terms->job : launched->run);
    else
        snprintf(meeting.run, sizeof(meeting.run), "port %u", port);
    meeting.given = xcalloc((size_t)meeting.world_size, sizeof(*meeting.given));
    meeting.views = xcalloc((size_t)meeting.world_size + 1, sizeof(*meeting.views));
    meeting.search = search_open(meeting.address, port, meeting.rank + 1);
    if (!secret_path(terms->secret_file, meeting.secret_path, error)) {
        end_fences();
        return false;
    }
    *place_p = (struct cluster_place){launched->rank, launched->world_size, launched->local_rank, launched->local_size};
    return true;
}

/* ---- what is waited for ---- */

static int
fence_poll(struct pollfd polled[MEMBER_FDS])
{
    search_poll(meeting.search, polled);
    polled[MEETING_PORTS] = (struct pollfd){.fd = meeting.link.fd, .events = POLLIN};
    if (meeting.server != NULL)
        polled[MEETING_PORTS].fd = supervisor_server_fd(meeting.server);
    return MEETING_PORTS + 1;
}

static bool
is_here(int rank)
{
    return rank == meeting.rank || supervisor_server_peer(meeting.server, rank + 1)->state == PEER_HERE;
}

static int
count_missing(void)
{
    int missing = 0;
    for (int i = 0; meeting.server != NULL && i < meeting.world_size; ++i)
        missing += !is_here(i);
    return missing;
}

static void
describe_missing(int missing, char *text, size_t bytes)
{
    int named = 0;
    snprintf(text, bytes, "%d of %d: rank%s", missing, meeting.world_size, missing == 1 ? "" : "s");
    for (int i = 0; i < meeting.world_size && named < NAMED_AT_MOST; ++i) {
        if (!is_here(i))
            printable_append(text, bytes, "%s %d", named++ > 0 ? "," : "", i);
    }
    if (named < missing)
        printable_append(text, bytes, " and %d more", missing - named);
    supervisor_server_describe_refused(meeting.server, text, bytes);
    search_describe_address(meeting.search, text, bytes);
}

static bool
fence_describe(char *text, size_t bytes)
{
    int missing = count_missing();
    if (missing > 0)
        describe_missing(missing, text, bytes);
    else if (meeting.server != NULL || meeting.link.fd >= 0)
        snprintf(text, bytes, "the other ranks");
    else if (!meeting.has_key)
        snprintf(text, bytes, "%.300s, the secret that the ddprun of rank 0 makes", meeting.secret_path);
    else
        snprintf(text, bytes, "a ddprun that listens at %.200s, ports %u to %u (%s)", meeting.address, meeting.port,
                 meeting.port + MEETING_PORTS - 1, search_reason(meeting.search));
    return meeting.link.fd < 0;
}

static void
tell_waiting(void)
{
    char text[512];
    bool waits = meeting.server != NULL ? count_missing() > 0 : meeting.tells && meeting.link.fd < 0;
    if (!waits || meeting.has_told || clock_now_ms() - meeting.begun_ms < TELL_AFTER_MS)
        return;
    meeting.has_told = true;
    (void)fence_describe(text, sizeof(text));
    message_line("waiting for %s", text);
}

/* ---- listening ---- */

static bool
open_server(struct error *error)
{
    struct listener listener = {.fd = -1};
    for (unsigned i = 0; i < MEETING_PORTS && listener.fd < 0 && meeting.port + i <= UINT16_MAX; ++i)
        (void)!listener_open(&listener, (uint16_t)(meeting.port + i), meeting.world_size * 2 + 64, error);
    if (listener.fd < 0)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "cannot listen for the other ranks at port %u or the %d after it: %s; choose another",
                         meeting.port, MEETING_PORTS - 1, strerror(errno));
    meeting.server = supervisor_server_open(&listener, meeting.world_size + 1, meeting.key, 0, error);
    if (meeting.server != NULL)
        supervisor_server_mark(meeting.server, meeting.mark);
    return meeting.server != NULL;
}

/* The process that may listen does, once it has the key. Of several on a host with the address, the first. */
static bool
choose_listener(enum search_place place, struct error *error)
{
    bool has_address = place == PLACE_HERE || (place == PLACE_LOOPBACK && meeting.rank == 0);
    meeting.is_sole = meeting.is_sole || has_address;
    if (meeting.server != NULL || meeting.link.fd >= 0 || meeting.may_not_listen || (!has_address && meeting.rank != 0))
        return true;
    if (!need_secret(true, error))
        return false;
    if (!meeting.has_key)
        return true;
    /* Made of the key, so that no other user can guess and take it. */
    char name[16 + AUTH_MARK_BYTES] = "meeting-";
    unsigned char secret_name[AUTH_BYTES];
    auth_derive(meeting.key, AUTH_BYTES, "claim", "", 0, secret_name);
    for (int i = 0; i < AUTH_MARK_BYTES / 2; ++i)
        printable_append(name, sizeof(name), "%02x", secret_name[i]);
    meeting.claim = addresses_claim(name);
    meeting.may_not_listen = meeting.claim < 0;
    return meeting.may_not_listen || open_server(error);
}

/* Said by each host, or each process where nothing says which is the first of a host. */
static void
tell_left(const char *text)
{
    if (meeting.tells_left)
        message_line("%s", text);
}

/* Ranks that leave before all have come are named at once, by all; started again they take their places. */
static void
note_left(void)
{
    struct peer_order order = {.exit_code = 0};
    char ranks[200] = "";
    int count = 0;
    for (int i = 0; i < meeting.world_size; ++i) {
        struct peer *peer = supervisor_server_peer(meeting.server, i + 1);
        if (i == meeting.rank || (peer->state != PEER_LOST && !peer->came_back))
            continue;
        free_given(i);
        peer->came_back = false;
        if (peer->state == PEER_LOST && peer->lost != NULL)
            printable_append(ranks, sizeof(ranks), "%s %d", count++ > 0 ? "," : "", i);
        peer->lost = NULL;
    }
    if (count == 0)
        return;
    snprintf(order.text, sizeof(order.text),
             "rank%s%s left before all ranks had met; waiting for %s to be started again", count == 1 ? "" : "s", ranks,
             count == 1 ? "it" : "them");
    supervisor_server_say(meeting.server, FRAME_LEFT, &order);
    tell_left(order.text);
}

/* What a rank has given in this round; false: the error. */
static bool
take_from(int rank, struct error *error)
{
    struct peer *peer = supervisor_server_peer(meeting.server, rank + 1);
    struct cluster_blob *given = &meeting.given[rank];
    bool is_own = rank == meeting.rank;
    if (peer->came_twice || (is_own && peer->given != NULL))
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "two processes are rank %d of this job: each has another rank, or there are two jobs at "
                         "%.100s, port %u: give them another port, or names, --job NAME",
                         rank, meeting.address, meeting.port);
    if (peer->has_error)
        return error_set(error, peer->error.exit_code, "%s", peer->error.text);
    if (peer->lost != NULL && strcmp(peer->lost, PEER_ALTERED) == 0)
        return error_set(error, DDPRUN_EXIT_FAILURE, "rank %d: " PEER_ALTERED, rank);
    if (!meeting.in_round || is_own)
        return true;
    if (given->bytes == NULL) {
        *given = (struct cluster_blob){peer->given, peer->given_count};
        peer->given = NULL;
    }
    bool has_left = meeting.has_met && given->bytes == NULL && (peer->state == PEER_LOST || peer->came_back);
    return !has_left ||
           error_set(error, DDPRUN_EXIT_FAILURE, "rank %d has left while the ranks met; its output may say why", rank);
}

static bool
step_server(struct error *error)
{
    bool have_all = meeting.in_round;
    (void)supervisor_server_step(meeting.server, meeting.views);
    for (int i = 0; i < meeting.world_size; ++i) {
        if (!take_from(i, error))
            return false;
    }
    if (!meeting.has_met && !meeting.is_told)
        note_left();
    for (int i = 0; i < meeting.world_size; ++i)
        have_all = have_all && meeting.given[i].bytes != NULL;
    for (int i = 0; have_all && i < meeting.world_size; ++i)
        supervisor_server_give(meeting.server, i, meeting.given[i].bytes, meeting.given[i].count,
                               i == meeting.world_size - 1);
    meeting.has_met = meeting.has_met || have_all;
    meeting.in_round = meeting.in_round && !have_all;
    meeting.is_over = !meeting.in_round && supervisor_server_all(meeting.server, PEERS_FLUSHED);
    return true;
}

/* ---- the others ---- */

/* A rank and what it has given; the last rank's come last. */
static bool
take_given(const struct peer_frame *frame)
{
    uint32_t rank;
    struct peer_order order;
    if (frame->kind == FRAME_LEFT && peer_order_decode(frame->bytes, frame->count, &order)) {
        tell_left(order.text);
        return true;
    }
    if (frame->kind == FRAME_HEARTBEAT)
        return true;
    if (frame->kind != FRAME_GIVEN || !meeting.in_round || frame->count < sizeof(rank))
        return false;
    memcpy(&rank, frame->bytes, sizeof(rank));
    if (rank >= (uint32_t)meeting.world_size)
        return false;
    struct cluster_blob *given = &meeting.given[rank];
    free(given->bytes);
    *given = (struct cluster_blob){xcalloc(1, frame->count), frame->count - sizeof(rank)};
    memcpy(given->bytes, frame->bytes + sizeof(rank), given->count);
    meeting.is_over = rank == (uint32_t)meeting.world_size - 1;
    meeting.in_round = !meeting.is_over;
    return true;
}

static bool
step_link(struct error *error)
{
    const struct cluster_blob *mine = &meeting.given[meeting.rank];
    struct peer_frame frame;
    if (meeting.in_round && !meeting.has_sent)
        peer_link_send(&meeting.link, FRAME_GIVE, mine->bytes, mine->count);
    meeting.has_sent = meeting.has_sent || meeting.in_round;
    (void)peer_link_flush(&meeting.link);
    peer_link_read(&meeting.link);
    while (peer_link_next(&meeting.link, &frame)) {
        struct peer_order order;
        if (frame.kind == FRAME_END && peer_order_decode(frame.bytes, frame.count, &order) && order.exit_code != 0) {
            meeting.is_told = true;
            return error_set(error, order.exit_code, "%s", order.text);
        }
        if (!take_given(&frame))
            meeting.link.state = LINK_ALTERED;
    }
    if (meeting.link.state == LINK_ALTERED)
        return error_set(error, DDPRUN_EXIT_FAILURE, "the ddprun that listens at %.100s: " PEER_ALTERED,
                         meeting.address);
    return meeting.link.state == LINK_OPEN || meeting.is_over ||
           error_set(error, DDPRUN_EXIT_FAILURE,
                     "rank %d has lost the ddprun that listens at %.100s before all ranks had met: was it killed?",
                     meeting.rank, meeting.address);
}

/* A listener of this run does not take us in: a secret may be copied now, so it has a while. */
static bool
note_refusal(unsigned port, struct error *error)
{
    bool is_missing;
    if (meeting.refused_ms == 0)
        meeting.refused_ms = clock_now_ms();
    if (clock_now_ms() - meeting.refused_ms < REFUSED_MS)
        return take_secret(false, &is_missing, error);
    if (search_other_version(meeting.search) != 0)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "the ddprun that listens at %.100s, port %u, is of another version than that of rank %d (host "
                         "%s), protocols %d and %d; install the same on all hosts",
                         meeting.address, port, meeting.rank, host_name(), search_other_version(meeting.search),
                         DDPRUN_PROTOCOL_VERSION);
    return error_set(
        error, DDPRUN_EXIT_USAGE,
        "the ddprun that listens at %.100s, port %u, does not take in rank %d (host %s): its secret is not that of "
        "%.300s, or it does not count %d processes; copy the secret of its host here, or give all ranks --secret-file "
        "FILE",
        meeting.address, port, meeting.rank, host_name(), meeting.secret_path, meeting.world_size);
}

/* Rank 0, which listens where nothing leads to it, gives way to the listener that is found, unless others have come. */
static void
take_link(int fd, const unsigned char key[AUTH_BYTES])
{
    bool is_needed = meeting.server != NULL && count_missing() < meeting.world_size - 1;
    meeting.is_sole = is_needed;
    if (is_needed) {
        close(fd);
        return;
    }
    close_server();
    meeting.may_not_listen = true;
    supervisor_link_open(&meeting.link, fd, key, false);
}

static bool
step_search(struct error *error)
{
    unsigned port;
    int fd = -1;
    unsigned char key[AUTH_BYTES];
    bool seeks = meeting.link.fd < 0 && (meeting.server == NULL || !meeting.is_sole);
    if (seeks && !need_secret(false, error))
        return false;
    if (!seeks || !meeting.has_key)
        return true;
    switch (search_step(meeting.search, &fd, key, &port)) {
    case SEARCH_FOUND:
        take_link(fd, key);
        return true;
    case SEARCH_REFUSED:
        return meeting.server != NULL || note_refusal(port, error);
    case SEARCH_SELF:
        meeting.is_sole = true;
        return true;
    default:
        return true;
    }
}

/* ---- rounds ---- */

static bool
publish(const char *key, const void *bytes, size_t count, struct error *error)
{
    struct cluster_blob *mine = &meeting.given[meeting.rank];
    (void)key, (void)error; /* the round says which it is */
    for (int i = 0; i < meeting.world_size; ++i)
        free_given(i);
    *mine = (struct cluster_blob){xcalloc(1, count + 1), count};
    memcpy(mine->bytes, bytes, count);
    return true;
}

static bool
fence_begin(struct error *error)
{
    if (meeting.given[meeting.rank].bytes == NULL && !publish(NULL, "", 0, error))
        return false;
    meeting.in_round = true;
    meeting.is_over = meeting.has_sent = false;
    return true;
}

/* Ten times a second and whenever something is ready. */
static bool
fence_step(bool *is_over_p, struct error *error)
{
    bool has_met = meeting.link.fd >= 0 || (meeting.server != NULL && meeting.is_sole);
    enum search_place place = has_met ? PLACE_ELSEWHERE : search_resolve(meeting.search);
    if ((!has_met && !(choose_listener(place, error) && step_search(error))) ||
        (meeting.server != NULL && !step_server(error)) || (meeting.link.fd >= 0 && !step_link(error)))
        return false;
    tell_waiting();
    *is_over_p = meeting.is_over;
    return true;
}

static bool
fetch(const char *key, int rank, struct cluster_blob *blob, struct error *error)
{
    (void)key, (void)error;
    *blob = meeting.given[rank];
    meeting.given[rank] = (struct cluster_blob){0};
    return true;
}

/* The one that listens ends the meeting for all, also for those who come later; another one only where it cannot come
 * back. */
static bool
give_up(const struct error *error, bool may_come_back)
{
    struct peer_order order = {.exit_code = error->exit_code};
    bool is_of_this = meeting.server == NULL || !meeting.in_round || error->exit_code >= 128;
    if (meeting.is_told)
        return meeting.server == NULL || have_all_heard();
    if (meeting.server == NULL && (meeting.link.fd < 0 || may_come_back))
        return false;
    if (is_of_this)
        snprintf(order.text, sizeof(order.text), "rank %d (host %s): ", meeting.rank, host_name());
    printable_append(order.text, sizeof(order.text), "%.800s", error->text);
    if (meeting.server != NULL)
        supervisor_server_say(meeting.server, FRAME_END, &order);
    else
        peer_order_send(&meeting.link, FRAME_ERROR, &order);
    meeting.is_told = true;
    return meeting.server == NULL;
}

/* It is not sent: made from what rank 0 has published. */
static bool
make_secret(unsigned char *bytes)
{
    unsigned char made[AUTH_BYTES];
    auth_derive(meeting.key, AUTH_BYTES, "job", bytes, AUTH_BYTES, made);
    memcpy(bytes, made, AUTH_BYTES);
    return true;
}

const struct cluster_member address_met = {
    .join = join,
    .publish = publish,
    .fence_begin = fence_begin,
    .fence_poll = fence_poll,
    .fence_step = fence_step,
    .fence_describe = fence_describe,
    .fetch = fetch,
    .make_secret = make_secret,
    .give_up = give_up,
    .end_fences = end_fences,
    .leave = end_fences,
};
