/*
 * cluster.c - see cluster.h. What it says to PMIx goes through pmix/member.h, to processes at an address through
 * meeting.h.
 */
#include "launcher/cluster/cluster.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "launcher/cluster/addresses.h"
#include "launcher/cluster/launched.h"
#include "launcher/cluster/meeting.h"
#include "launcher/cluster/pmix/member.h"
#include "launcher/common/xcalloc.h"
#include "launcher/start/environment.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LAST_WAIT_S = 5, IDLE_MS = 100 };

static const struct pmix_member *member; /* once cluster_join() has opened it */
static int wake_fd = -1;                 /* written by wake() */

/* On PMIx's thread. */
static void
wake(void)
{
    ssize_t ignored = write(wake_fd, "x", 1);
    (void)ignored;
}

/* ---- its library ---- */

static const struct pmix_member *
no_library(const char *why, struct error *error)
{
    (void)!error_set(
        error, DDPRUN_EXIT_NOT_RUN,
        "cannot open PMIx, by which ddprun joins a job of srun or mpirun: %s; for such jobs install PMIx 4 "
        "(Debian: libpmix2) and " PMIX_MEMBER_LIBRARY " of this ddprun (its package ddprun-pmix)",
        why);
    return NULL;
}

const struct pmix_member *
pmix_library_open(struct error *error)
{
    char *path = installation_library(PMIX_MEMBER_LIBRARY);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    free(path);
    const struct pmix_member *member = library != NULL ? dlsym(library, PMIX_MEMBER_SYMBOL) : NULL;
    if (member == NULL)
        return no_library(dlerror(), error);
    return member->protocol == DDPRUN_PROTOCOL_VERSION ? member
                                                       : no_library("it is another version of ddprun's", error);
}

/* ---- descriptors ---- */

/*
 * What ddprun was started with is passed on to the ranks (`ddprun ./train <(list)`); what it opens itself is closed on
 * execve by the flag it is opened with. Libraries do not all set it on what they open.
 */
struct descriptors {
    int *fds;
    size_t count;
};

/* Those that are open now; empty where /proc cannot be read. */
static struct descriptors
descriptors_list(void)
{
    struct descriptors list = {0};
    size_t room = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || atoi(entry->d_name) == dirfd(folder))
            continue;
        if (list.count == room) {
            room = room * 2 + 32;
            list.fds = xrealloc(list.fds, room * sizeof(*list.fds));
        }
        list.fds[list.count++] = atoi(entry->d_name);
    }
    if (folder != NULL)
        closedir(folder);
    return list;
}

static void
descriptors_free(struct descriptors *descriptors)
{
    free(descriptors->fds);
    *descriptors = (struct descriptors){0};
}

static bool
has_descriptor(const struct descriptors *list, int fd)
{
    for (size_t i = 0; i < list->count; ++i) {
        if (list->fds[i] == fd)
            return true;
    }
    return false;
}

/* Sets FD_CLOEXEC on all that are open now and were not then; on none if nothing was known then. */
static void
descriptors_keep_new(const struct descriptors *then)
{
    struct descriptors now = descriptors_list();
    for (size_t i = 0; then->count > 0 && i < now.count; ++i) {
        if (!has_descriptor(then, now.fds[i]))
            (void)fcntl(now.fds[i], F_SETFD, FD_CLOEXEC);
    }
    descriptors_free(&now);
}

/* ---- joining ---- */

bool
cluster_launcher_is_gone(void)
{
    return member != NULL && member->server_is_gone();
}

static bool
refused(struct error *error, const char *what, const struct pmix_failure *failure)
{
    return error_set(error, DDPRUN_EXIT_FAILURE,
                     "%s: %s; is the launcher's PMIx (srun --mpi=pmix, mpirun) of another version than ddprun's?", what,
                     failure->words);
}

/* Two processes with one PMIx rank corrupt every fence (facts): an abstract name that only one can have. */
static bool
claim_rank(struct cluster *cluster, struct error *error)
{
    enum { KEPT = 60 }; /* of the job's name: its end, with the numbers (slurm.pmix.7.0, prterun-HOST-PROCESS@1) */
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const char *job = getenv("PMIX_NAMESPACE"); /* launched_look() has seen that it is there */
    if (job != NULL && strlen(job) > KEPT)
        job += strlen(job) - KEPT;
    cluster->claim = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "ddprun-%u-%s-%s", (unsigned)geteuid(), job,
                          getenv("PMIX_RANK"));
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (cluster->claim >= 0 && length > 0 && (size_t)length < sizeof(name.sun_path) - 1 &&
        bind(cluster->claim, (struct sockaddr *)&name, size) == 0)
        return true;
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "another ddprun already is rank %s of this launcher's job (%s); start one for each rank",
                     getenv("PMIX_RANK"), strerror(errno));
}

static bool
join_by_pmix(struct cluster *cluster_p, struct error *error)
{
    struct cluster cluster = {.pipe = {-1, -1}, .claim = -1};
    member = pmix_library_open(error);
    if (member == NULL || !claim_rank(&cluster, error))
        return false;
    if (pipe2(cluster.pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a pipe: %s; raise the limit of open files",
                         strerror(errno));
    wake_fd = cluster.pipe[1];
    struct pmix_failure failure;
    struct descriptors before = descriptors_list();
    bool joined = member->join(wake, &failure);
    descriptors_keep_new(&before); /* its connection to the launcher is ours, not the trainer's */
    descriptors_free(&before);
    if (!joined)
        return refused(error, "cannot join the launcher's job by PMIx", &failure);
    struct pmix_place place = member->place();
    if (place.world_size < 0 || place.local_rank < 0 || place.local_size < 0)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "the launcher's PMIx does not say how many ranks there are, or on this host "
                         "(PMIX_JOB_SIZE, PMIX_LOCAL_SIZE, PMIX_LOCAL_RANK); a second ddprun in the same task wants "
                         "a step of its own: call srun or mpirun again");
    cluster.rank = place.rank;
    cluster.world_size = place.world_size;
    cluster.local_rank = place.local_rank;
    cluster.local_size = place.local_size;
    *cluster_p = cluster;
    return true;
}

void
cluster_leave(struct cluster *cluster)
{
    cluster_end_exchanges(cluster);
    if (member == NULL)
        return;
    if (!cluster_launcher_is_gone())
        member->leave();
    close(cluster->claim);
    close(cluster->pipe[0]);
    close(cluster->pipe[1]);
}

/* ---- the exchange ---- */

/* Whether an exchange is over, or goes on; false: the error. */
static bool
look_at_exchange(const struct cluster *cluster, bool *is_over_p, struct error *error)
{
    if (cluster->meeting != NULL) {
        if (!meeting_step(cluster->meeting, error))
            return false;
        *is_over_p = meeting_round_is_over(cluster->meeting);
        return true;
    }
    char bytes[64];
    *is_over_p = member->fence_is_over();
    while (!*is_over_p && read(cluster->pipe[0], bytes, sizeof(bytes)) > 0) {
    }
    *is_over_p = *is_over_p || member->fence_is_over();
    return *is_over_p || !cluster_launcher_is_gone() ||
           error_set(error, DDPRUN_EXIT_FAILURE, "the launcher that started ddprun is gone");
}

static bool
refuse_late(const struct cluster *cluster, int timeout_s, struct error *error)
{
    char missing[512] = "the other ranks";
    if (cluster->meeting != NULL)
        meeting_describe(cluster->meeting, missing, sizeof(missing));
    return error_set(error, DDPRUN_EXIT_FAILURE,
                     "waited %d s for %s to begin, as --timeout says; has ddprun started on all hosts?", timeout_s,
                     missing);
}

static bool
take_signals_while_waiting(const struct signals *signals, struct error *error)
{
    for (int number; (number = signals_next(signals)) != 0;) {
        if (number != SIGCHLD && number != SIGTSTP && !signals_is_for_ranks(number))
            return error_set(error, 128 + number, "SIG%s while waiting for the other ranks to begin",
                             sigabbrev_np(number));
    }
    return true;
}

/* Waits for the exchange with an eye on signals: a launcher that gives up sends one. */
static bool
wait_for_exchange(const struct cluster *cluster, const struct signals *signals, int timeout_s,
                  const struct cluster_idle_callback *idle, struct error *error)
{
    int64_t deadline_ms = clock_now_ms() + (int64_t)timeout_s * 1000;
    bool is_over = false, steps = idle != NULL || cluster->meeting != NULL;
    while (look_at_exchange(cluster, &is_over, error) && !is_over) {
        struct pollfd polled[2 + MEETING_PORTS] = {{.fd = signals->fd, .events = POLLIN},
                                                   {.fd = idle != NULL ? idle->fd : -1, .events = POLLIN},
                                                   {.fd = cluster->pipe[0], .events = POLLIN}};
        if (cluster->meeting != NULL)
            meeting_poll(cluster->meeting, &polled[2]);
        int64_t left_ms = deadline_ms - clock_now_ms();
        if (steps && left_ms > IDLE_MS)
            left_ms = IDLE_MS;
        poll(polled, cluster->meeting != NULL ? 2 + MEETING_PORTS : 3, left_ms > 0 ? (int)left_ms : 0);
        if (idle != NULL)
            idle->step(idle->data);
        if (!take_signals_while_waiting(signals, error))
            return false;
        if (clock_now_ms() >= deadline_ms)
            return refuse_late(cluster, timeout_s, error);
    }
    return is_over;
}

static bool
fence(const struct cluster *cluster, const struct signals *signals, int timeout_s,
      const struct cluster_idle_callback *idle, struct error *error)
{
    struct pmix_failure failure;
    bool begun = member->fence_begin(&failure);
    if (begun && !wait_for_exchange(cluster, signals, timeout_s, idle, error))
        return false;
    return (begun && member->fence_end(&failure)) ||
           refused(error, "the ranks' first exchange by PMIx failed", &failure);
}

static bool
fetch(const char *key, int rank, struct cluster_blob *blob, struct error *error)
{
    struct pmix_bytes bytes;
    struct pmix_failure failure;
    if (!member->fetch(rank, key, &bytes, &failure))
        return failure.is_other_form
                   ? error_set(error, DDPRUN_EXIT_FAILURE,
                               "rank %d published something else than ddprun does; is it the same ddprun?", rank)
                   : error_set(error, DDPRUN_EXIT_FAILURE,
                               "rank %d has left before the ranks' first exchange (%s); its output may say why", rank,
                               failure.words);
    blob->count = bytes.count;
    blob->bytes = xcalloc(1, blob->count + 1);
    memcpy(blob->bytes, bytes.bytes, blob->count);
    member->release(&bytes);
    return true;
}

/* A copy, as of fetch(). */
static struct cluster_blob
blob_of(struct meeting_bytes bytes)
{
    struct cluster_blob blob = {.bytes = xcalloc(1, bytes.count + 1), .count = bytes.count};
    memcpy(blob.bytes, bytes.bytes, bytes.count);
    return blob;
}

static bool
exchange_at_address(struct cluster *cluster, const struct signals *signals, const void *mine, size_t bytes,
                    int timeout_s, const struct cluster_idle_callback *idle, struct error *error)
{
    meeting_begin_round(cluster->meeting, mine, bytes);
    return wait_for_exchange(cluster, signals, timeout_s, idle, error);
}

bool
cluster_exchange(struct cluster *cluster, const struct signals *signals, const char *key, const void *mine,
                 size_t bytes, int timeout_s, const struct cluster_idle_callback *idle, struct cluster_blob *blobs,
                 struct error *error)
{
    struct pmix_failure failure;
    if (cluster->meeting != NULL) {
        if (!exchange_at_address(cluster, signals, mine, bytes, timeout_s, idle, error))
            return false;
        for (int i = 0; i < cluster->world_size; ++i)
            blobs[i] = blob_of(meeting_given(cluster->meeting, i));
        return true;
    }
    bool ok = member->publish(key, mine, bytes, &failure) ||
              refused(error, "cannot publish this rank's address by PMIx", &failure);
    ok = ok && fence(cluster, signals, timeout_s, idle, error);
    for (int i = 0; ok && i < cluster->world_size; ++i)
        ok = fetch(key, i, &blobs[i], error);
    return ok;
}

void
cluster_wait_for_all(struct cluster *cluster, const struct signals *signals)
{
    struct error ignored;
    if (cluster->meeting != NULL)
        (void)!exchange_at_address(cluster, signals, NULL, 0, LAST_WAIT_S, NULL, &ignored);
    else
        (void)!fence(cluster, signals, LAST_WAIT_S, NULL, &ignored);
}

bool
cluster_make_secret(const struct cluster *cluster, unsigned char *bytes)
{
    return cluster->meeting == NULL || meeting_make_secret(cluster->meeting, bytes);
}

void
cluster_end_exchanges(struct cluster *cluster)
{
    if (cluster->meeting != NULL)
        meeting_close(cluster->meeting);
    cluster->meeting = NULL;
}

/* ---- joining at an address ---- */

/* Which of the ranks of this host it is: the launcher's word, or the order of ranks with the same host. */
static bool
find_local_place(struct cluster *cluster, const struct launched *launched, const struct signals *signals, int timeout_s,
                 struct error *error)
{
    cluster->local_rank = launched->local_rank;
    cluster->local_size = launched->local_size;
    if (launched->local_size > 0)
        return true;
    char id[HOST_ID_BYTES] = "";
    addresses_host_id(id);
    if (!exchange_at_address(cluster, signals, id, sizeof(id), timeout_s, NULL, error))
        return false;
    cluster->local_rank = cluster->local_size = 0;
    for (int i = 0; i < cluster->world_size; ++i) {
        struct meeting_bytes other = meeting_given(cluster->meeting, i);
        bool is_here = other.count == sizeof(id) && memcmp(other.bytes, id, sizeof(id)) == 0;
        cluster->local_rank += is_here && i < cluster->rank;
        cluster->local_size += is_here;
    }
    if (launched->local_rank >= 0 && launched->local_rank < cluster->local_size)
        cluster->local_rank = launched->local_rank;
    return true;
}

static bool
join_at_address(struct cluster *cluster_p, const struct launched *launched, const struct cluster_terms *terms,
                const struct signals *signals, struct error *error)
{
    struct cluster cluster = {
        .rank = launched->rank, .world_size = launched->world_size, .pipe = {-1, -1}, .claim = -1};
    unsigned port = launched->port > 0 ? launched->port : MEETING_DEFAULT_PORT;
    char *by_port = xasprintf("port %u", port);
    const struct meeting_terms meeting = {
        .rank = launched->rank,
        .world_size = launched->world_size,
        .address = launched->address,
        .port = port,
        .run = terms->job != NULL         ? terms->job
               : launched->run[0] != '\0' ? launched->run
                                          : by_port,
        .restart = launched->restart,
        .secret_file = terms->secret_file,
    };
    cluster.meeting = meeting_open(&meeting, error);
    free(by_port);
    if (cluster.meeting == NULL)
        return false;
    if (find_local_place(&cluster, launched, signals, terms->timeout_s, error)) {
        *cluster_p = cluster;
        return true;
    }
    cluster_end_exchanges(&cluster);
    return false;
}

bool
cluster_join(struct cluster *cluster, const struct launched *launched, const struct cluster_terms *terms,
             const struct signals *signals, struct error *error)
{
    return launched->address[0] != '\0' ? join_at_address(cluster, launched, terms, signals, error)
                                        : join_by_pmix(cluster, error);
}
