/* cluster.c - see cluster.h. */
#include "launcher/cluster/cluster.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "launcher/cluster/addresses.h"
#include "launcher/cluster/pmix/library.h"
#include "launcher/common/xcalloc.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_WAIT_S = 5, IDLE_MS = 100, LATE_MS = 3000, TELL_MS = 10000 };

/* Whether there is time left. Who knows less of who is missing waits a little longer, for the word of one that knows
 * more. */
static bool
has_time(const struct cluster *cluster, int timeout_s, int64_t deadline_ms, struct error *error)
{
    char missing[512];
    int64_t late_ms = clock_now_ms() - deadline_ms;
    if (late_ms < 0 || (!cluster->member->fence_describe(missing, sizeof(missing)) && late_ms < LATE_MS))
        return true;
    return error_set(error, DDPRUN_EXIT_FAILURE,
                     "waited %d s for %s to begin, as --timeout says; has ddprun started on all hosts?", timeout_s,
                     missing);
}

static bool
take_signals_while_waiting(const struct signals *signals, struct error *error)
{
    for (int number; (number = signals_next(signals)) != 0;) {
        if (number == SIGNALS_ORPHANED)
            return error_set(error, 128 + SIGKILL, "the ddprun of this host is gone; was it killed?");
        if (number != SIGCHLD && number != SIGTSTP && !signals_is_for_ranks(number))
            return error_set(error, 128 + number, "SIG%s while waiting for the other ranks to begin",
                             sigabbrev_np(number));
    }
    return true;
}

/* A fence, with an eye on signals: a launcher that gives up sends one. */
static bool
fence(const struct cluster *cluster, const struct signals *signals, int timeout_s, struct supervisor_server *server,
      struct error *error)
{
    int64_t deadline_ms = clock_now_ms() + (int64_t)timeout_s * 1000;
    bool is_over = false, may_come_back = false;
    if (!cluster->member->fence_begin(error))
        return false;
    struct rank_view *views = xcalloc((size_t)cluster->world_size, sizeof(*views)); /* nothing is said of ranks yet */
    while (cluster->member->fence_step(&is_over, error) && !is_over) {
        struct pollfd polled[2 + MEMBER_FDS] = {
            {.fd = signals->fd, .events = POLLIN},
            {.fd = server != NULL ? supervisor_server_fd(server) : -1, .events = POLLIN}};
        int count = 2 + cluster->member->fence_poll(&polled[2]);
        int64_t left_ms = deadline_ms - clock_now_ms();
        poll(polled, (nfds_t)count, left_ms > 0 && left_ms < IDLE_MS ? (int)left_ms : IDLE_MS);
        if (server != NULL)
            (void)supervisor_server_step(server, views);
        if (!take_signals_while_waiting(signals, error) || !has_time(cluster, timeout_s, deadline_ms, error)) {
            may_come_back = true;
            break;
        }
    }
    free(views);
    if (!is_over && cluster->member->give_up != NULL)
        (void)cluster->member->give_up(error, may_come_back);
    return is_over;
}

bool
cluster_exchange(struct cluster *cluster, const struct signals *signals, const char *key, const void *mine,
                 size_t bytes, int timeout_s, struct supervisor_server *server, struct cluster_blob *blobs,
                 struct error *error)
{
    bool ok = cluster->member->publish(key, mine, bytes, error) && fence(cluster, signals, timeout_s, server, error);
    for (int i = 0; ok && i < cluster->world_size; ++i)
        ok = cluster->member->fetch(key, i, &blobs[i], error);
    return ok;
}

void
cluster_wait_for_all(struct cluster *cluster, const struct signals *signals)
{
    struct error ignored;
    (void)!fence(cluster, signals, LAST_WAIT_S, NULL, &ignored);
}

void
cluster_tell(struct cluster *cluster, const struct signals *signals, const struct error *why)
{
    bool ignored;
    struct error error;
    for (int64_t deadline_ms = clock_now_ms() + TELL_MS;
         cluster->member->give_up != NULL && clock_now_ms() < deadline_ms && signals_next_end(signals) == 0;) {
        (void)!cluster->member->fence_step(&ignored, &error); /* another rank may give up, too */
        if (cluster->member->give_up(why, false))
            return;
        struct pollfd polled[1 + MEMBER_FDS] = {{.fd = signals->fd, .events = POLLIN}};
        int count = cluster->member->fence_poll(&polled[1]);
        poll(polled, (nfds_t)count + 1, IDLE_MS);
    }
}

void
cluster_leave(struct cluster *cluster)
{
    if (cluster->member == NULL)
        return;
    cluster->member->leave();
    if (cluster->claim >= 0)
        close(cluster->claim);
}

/* Which of the ranks of this host it is: the launcher's word, or the order of ranks with the same host. */
static bool
find_local_place(struct cluster *cluster, const struct cluster_place *place, const struct signals *signals,
                 int timeout_s, struct error *error)
{
    char id[HOST_ID_BYTES] = "";
    struct cluster_blob *blobs = xcalloc((size_t)cluster->world_size, sizeof(*blobs));
    addresses_host_id(id);
    bool ok = cluster_exchange(cluster, signals, "ddprun.host", id, sizeof(id), timeout_s, NULL, blobs, error);
    cluster->local_rank = cluster->local_size = 0;
    for (int i = 0; i < cluster->world_size; ++i) {
        bool is_here = blobs[i].count == sizeof(id) && memcmp(blobs[i].bytes, id, sizeof(id)) == 0;
        cluster->local_rank += is_here && i < cluster->rank;
        cluster->local_size += is_here;
        free(blobs[i].bytes);
    }
    free(blobs);
    if (place->local_rank >= 0 && place->local_rank < cluster->local_size)
        cluster->local_rank = place->local_rank;
    return ok;
}

bool
cluster_join(struct cluster *cluster, const struct launched *launched, const struct cluster_terms *terms,
             const struct signals *signals, struct error *error)
{
    const struct cluster_member *member = &address_met;
    struct cluster_place place;
    int claim = -1;
    if (launched->address[0] == '\0') {
        const struct pmix_library *library = pmix_library_open(error);
        claim = library != NULL ? pmix_claim_rank(error) : -1;
        if (claim < 0)
            return false;
        member = &library->member;
    }
    if (!member->join(launched, terms, &place, error))
        return false;
    struct cluster joined = {place.rank, place.world_size, place.local_rank, place.local_size, member, claim};
    if (place.local_size == 0 && !find_local_place(&joined, &place, signals, terms->timeout_s, error)) {
        member->end_fences();
        return false;
    }
    *cluster = joined;
    return true;
}
