/*
 * rendezvous_pmix.c - the rendezvous on one node: this process is a member of the job of the launcher's PMIx server
 * (base/pmix/member.h).
 *
 * PMIx has one job in a process, that of the first PMIx_Init. MPI_Init of a library that does not find its own launcher
 * makes a job of one process (Open MPI: a singleton). A rank whose program has done so knows its place from the
 * launcher's variables and meets the others in the job folder.
 */
#include "base/pmix/member.h"
#include "base/protocol.h"
#include "comm/rendezvous_folder.h"
#include "comm/rendezvous_way.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A number of the launcher's, or -1. */
static int
launcher_number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? atoi(text) : -1;
}

static bool
open_pmix(struct rendezvous *rendezvous, struct comm_error *error)
{
    int index = launcher_number(DDPRUN_ENV_STATUS_INDEX), count = launcher_number(DDPRUN_ENV_STATUS_COUNT);
    struct member_failure failure;
    if (!member_join(NULL, &failure))
        return comm_fail(error, "PMIx_Init: %s; was the program started by ddprun, srun --mpi=pmix or mpirun?",
                         failure.words);

    struct member_place place = member_place();
    if (index >= 0 && count > index && (place.rank != index || place.world_size != count)) {
        member_leave();
        *rendezvous = (struct rendezvous){
            .rank = index, .world_size = count, .local_rank = index, .open = true, .way = &rendezvous_folder};
        return true;
    }
    if (place.world_size < 0 || place.local_rank < 0) {
        member_leave();
        return comm_fail(error, "the PMIx server does not know %s",
                         place.world_size < 0 ? "the size of the job" : "this rank's local rank");
    }
    *rendezvous = (struct rendezvous){.rank = place.rank,
                                      .world_size = place.world_size,
                                      .local_rank = place.local_rank,
                                      .open = true,
                                      .way = &rendezvous_pmix};
    return true;
}

static bool
share(struct rendezvous *rendezvous, const char *key, const void *mine, void *out, size_t bytes, int timeout_s,
      struct comm_error *error)
{
    if (rendezvous->generation > 0)
        return rendezvous_folder_share(rendezvous, key, mine, out, bytes, timeout_s, error);
    struct member_failure failure;
    if (mine != NULL && !member_publish(key, mine, bytes, &failure))
        return comm_fail(error, "PMIx does not take \"%s\": %s", key, failure.words);
    if (!member_fence(timeout_s, &failure))
        return failure.reason == MEMBER_LATE
                   ? comm_fail_by(error, COMM_OTHERS, "other ranks have not come within %d s", timeout_s)
                   : comm_fail(error, "PMIx_Fence: %s", failure.words);

    struct member_bytes root = {.bytes = NULL};
    if (!member_fetch(0, key, &root, &failure) && failure.reason != MEMBER_NO_BYTES)
        return comm_fail(error, "rank 0 has not published \"%s\": %s", key, failure.words);
    bool fits = root.value != NULL && root.count == bytes;
    if (fits)
        memcpy(out, root.bytes, bytes);
    if (root.value != NULL)
        member_release(&root);
    return fits || comm_fail(error, "rank 0 published \"%s\" in another form; are all ranks the same ddprun?", key);
}

static void
ask_for_abort(struct rendezvous *rendezvous, int status, const char *message)
{
    (void)rendezvous;
    member_abort(status, message);
}

static void
leave(struct rendezvous *rendezvous)
{
    (void)rendezvous;
    member_leave();
}

const struct rendezvous_way rendezvous_pmix = {
    .open = open_pmix,
    .share = share,
    .abort = ask_for_abort,
    .launcher_is_gone = member_server_is_gone,
    .close = leave,
};

/* ---- in the job of another PMIx server ---- */

static bool
share_in_folder(struct rendezvous *rendezvous, const char *key, const void *mine, void *out, size_t bytes,
                int timeout_s, struct comm_error *error)
{
    return rendezvous_folder_share(rendezvous, key, mine, out, bytes, timeout_s, error);
}

/* The launcher finds the reason in this rank's status record, and ends the job because of the exit code. */
static void
end_process(struct rendezvous *rendezvous, int status, const char *message)
{
    (void)rendezvous, (void)message;
    _exit(status);
}

/* The launcher's guardian ends the ranks. */
static bool
is_unknown(void)
{
    return false;
}

static void
leave_nothing(struct rendezvous *rendezvous)
{
    (void)rendezvous;
}

const struct rendezvous_way rendezvous_folder = {
    .open = open_pmix,
    .share = share_in_folder,
    .abort = end_process,
    .launcher_is_gone = is_unknown,
    .close = leave_nothing,
};
