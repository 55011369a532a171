/*
 * joined.c - see joined.h. What it says to PMIx goes through the library of member.h.
 */
#include "launcher/cluster/pmix/joined.h"

#include "base/protocol.h"
#include "launcher/cluster/addresses.h"
#include "launcher/cluster/member.h"
#include "launcher/common/xcalloc.h"
#include "launcher/start/environment.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct pmix_member *member; /* once joined() has opened it */
static int wake_pipe[2] = {-1, -1};      /* readable: a fence is over, or the launcher is gone */
static int claim = -1;                   /* held as long as this process is the rank */

/* On PMIx's thread. */
static void
wake(void)
{
    ssize_t ignored = write(wake_pipe[1], "x", 1);
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
    const struct pmix_member *found = library != NULL ? dlsym(library, PMIX_MEMBER_SYMBOL) : NULL;
    if (found == NULL)
        return no_library(dlerror(), error);
    return found->protocol == DDPRUN_PROTOCOL_VERSION ? found : no_library("it is another version of ddprun's", error);
}

/* ---- joining ---- */

/*
 * What ddprun was started with is passed on to the ranks (`ddprun ./train <(list)`); what it opens itself is closed on
 * execve by the flag it is opened with. Libraries do not all set it on what they open, at the lowest free numbers.
 */
enum { DESCRIPTORS = 1024 };

static void
list_descriptors(bool is_open[DESCRIPTORS])
{
    for (int fd = 0; fd < DESCRIPTORS; ++fd)
        is_open[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void
keep_new_descriptors(const bool was_open[DESCRIPTORS])
{
    for (int fd = 0; fd < DESCRIPTORS; ++fd) {
        if (!was_open[fd])
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

static bool
refused(struct error *error, const char *what, const struct pmix_failure *failure)
{
    return error_set(error, DDPRUN_EXIT_FAILURE,
                     "%s: %s; is the launcher's PMIx (srun --mpi=pmix, mpirun) of another version than ddprun's?", what,
                     failure->words);
}

/* Two processes with one PMIx rank corrupt every fence (facts). */
static bool
claim_rank(struct error *error)
{
    enum { KEPT = 60 }; /* of the job's name: its end, with the numbers (slurm.pmix.7.0, prterun-HOST-PROCESS@1) */
    const char *job = getenv("PMIX_NAMESPACE"), *rank = getenv("PMIX_RANK"); /* launched_look() has seen both */
    size_t length = strlen(job);
    char *name = xasprintf("%s-%s", length > KEPT ? job + length - KEPT : job, rank);
    claim = addresses_claim(name);
    free(name);
    return claim >= 0 || error_set(error, DDPRUN_EXIT_USAGE,
                                   "another ddprun already is rank %s of this launcher's job (%s); start one for each "
                                   "rank",
                                   rank, strerror(errno));
}

static bool
join(const struct launched *launched, const struct cluster_terms *terms, struct cluster_place *place_p,
     struct error *error)
{
    (void)launched, (void)terms; /* the environment says more to PMIx */
    member = pmix_library_open(error);
    if (member == NULL || !claim_rank(error))
        return false;
    if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a pipe: %s; raise the limit of open files",
                         strerror(errno));
    struct pmix_failure failure;
    bool was_open[DESCRIPTORS];
    list_descriptors(was_open);
    bool joined = member->join(wake, &failure);
    keep_new_descriptors(was_open); /* its connection to the launcher is ours, not the trainer's */
    if (!joined)
        return refused(error, "cannot join the launcher's job by PMIx", &failure);
    struct pmix_place place = member->place();
    if (place.world_size < 0 || place.local_rank < 0 || place.local_size <= 0)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "the launcher's PMIx does not say how many ranks there are, or on this host "
                         "(PMIX_JOB_SIZE, PMIX_LOCAL_SIZE, PMIX_LOCAL_RANK); a second ddprun in the same task wants "
                         "a step of its own: call srun or mpirun again");
    *place_p = (struct cluster_place){place.rank, place.world_size, place.local_rank, place.local_size};
    return true;
}

static bool
launcher_is_gone(void)
{
    return member->server_is_gone();
}

static int
launcher_fd(void)
{
    return wake_pipe[0];
}

/* ---- the exchange ---- */

static bool
publish(const char *key, const void *bytes, size_t count, struct error *error)
{
    struct pmix_failure failure;
    return member->publish(key, bytes, count, &failure) ||
           refused(error, "cannot publish this rank's address by PMIx", &failure);
}

static bool
fence_begin(struct error *error)
{
    struct pmix_failure failure;
    return member->fence_begin(&failure) || refused(error, "the ranks' first exchange by PMIx failed", &failure);
}

static int
fence_poll(struct pollfd polled[MEMBER_FDS])
{
    polled[0] = (struct pollfd){.fd = wake_pipe[0], .events = POLLIN};
    return 1;
}

static bool
fence_step(bool *is_over_p, struct error *error)
{
    char bytes[64];
    struct pmix_failure failure;
    while (read(wake_pipe[0], bytes, sizeof(bytes)) > 0) {
    }
    *is_over_p = member->fence_is_over();
    if (*is_over_p)
        return member->fence_end(&failure) || refused(error, "the ranks' first exchange by PMIx failed", &failure);
    return !launcher_is_gone() || error_set(error, DDPRUN_EXIT_FAILURE, "the launcher that started ddprun is gone");
}

static void
fence_describe(char *text, size_t bytes)
{
    snprintf(text, bytes, "the other ranks");
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

/* What rank 0 has published, PMIx has brought to this job's processes only. */
static bool
make_secret(unsigned char *bytes)
{
    (void)bytes;
    return true;
}

static void
end_fences(void)
{
}

static void
leave(void)
{
    if (!launcher_is_gone())
        member->leave();
    close(claim);
    close(wake_pipe[0]);
    close(wake_pipe[1]);
}

const struct cluster_member pmix_joined = {
    .join = join,
    .publish = publish,
    .fence_begin = fence_begin,
    .fence_poll = fence_poll,
    .fence_step = fence_step,
    .fence_describe = fence_describe,
    .fetch = fetch,
    .make_secret = make_secret,
    .end_fences = end_fences,
    .leave = leave,
    .launcher_fd = launcher_fd,
    .launcher_is_gone = launcher_is_gone,
};
