/*
 * rendezvous_pmix.c - the rendezvous on one node: this process is a member of the job of the launcher's PMIx server
 * (base/pmix/member.h).
 */
#include "base/pmix/member.h"
#include "comm/rendezvous_folder.h"
#include "comm/rendezvous_way.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static bool
leads_to(int fd, const struct sockaddr_in *server)
{
    struct sockaddr_in peer = {0};
    socklen_t length = sizeof(peer);
    return getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && length == sizeof(peer) &&
           peer.sin_family == AF_INET && peer.sin_port == server->sin_port &&
           peer.sin_addr.s_addr == server->sin_addr.s_addr;
}

/* Where the launcher's server is, as it says in the environment: "NAME.0;tcp4://127.0.0.1:59507". */
static bool
find_server(struct sockaddr_in *server_p)
{
    const char *text = getenv("PMIX_SERVER_URI41");
    const char *at = text != NULL ? strstr(text, ";tcp4://") : NULL;
    char host[INET_ADDRSTRLEN];
    unsigned short port;
    struct sockaddr_in server = {.sin_family = AF_INET};
    if (at == NULL || sscanf(at, ";tcp4://%15[0-9.]:%hu", host, &port) != 2 ||
        inet_pton(AF_INET, host, &server.sin_addr) != 1)
        return false;
    server.sin_port = htons(port);
    *server_p = server;
    return true;
}

/*
 * PMIx 4 leaves its socket open for every program that the trainer starts, which would keep the connection alive when
 * the trainer is gone. By its other end it cannot be mistaken for a descriptor of the trainer's, which another thread
 * may make at the same time.
 */
static void
keep_from_programs(void)
{
    struct sockaddr_in server;
    DIR *open_files = find_server(&server) ? opendir("/proc/self/fd") : NULL;
    if (open_files == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(open_files)) != NULL;) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && leads_to(fd, &server))
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    closedir(open_files);
}

static bool
open_pmix(struct rendezvous *rendezvous, struct comm_error *error)
{
    struct member_failure failure;
    if (!member_join(NULL, &failure))
        return comm_fail(error, "PMIx_Init: %s; was the program started by ddprun, srun --mpi=pmix or mpirun?",
                         failure.words);

    keep_from_programs();
    struct member_place place = member_place();
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
