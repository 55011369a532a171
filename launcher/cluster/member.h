/*
 * member.h - how this process becomes a member of a job of several processes, and gets what the others publish: one
 * table of calls for each way, pmix/member.c and address/meeting.c. One way in a process, called by one thread.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_MEMBER_H
#define DDPRUN_LAUNCHER_CLUSTER_MEMBER_H

#include "launcher/cluster/launched.h"
#include "launcher/common/error.h"

#include <poll.h>
#include <stddef.h>

/* How processes meet. */
struct cluster_terms {
    const char *secret_file; /* NULL: the default (address/search.h) */
    const char *job;         /* its name; NULL: the launcher's */
    int timeout_s;           /* for the others to come */
};

struct cluster_place {
    int rank, world_size;
    int local_rank, local_size; /* -1 and 0: not known yet */
};

/* What one rank has published; malloc'ed. */
struct cluster_blob {
    void *bytes;
    size_t count;
};

enum { MEMBER_FDS = 20 };

/* Functions return false with the error. */
struct cluster_member {
    bool (*join)(const struct launched *launched, const struct cluster_terms *terms, struct cluster_place *place,
                 struct error *error);
    /* Gives `bytes` to all, who have them after the next fence. Once for each `key`. */
    bool (*publish)(const char *key, const void *bytes, size_t count, struct error *error);

    /* Collective: begun, then steps until it is over: all have come. No limit of time. */
    bool (*fence_begin)(struct error *error);
    /* What it waits for, besides a while; returns how many. */
    int (*fence_poll)(struct pollfd polled[MEMBER_FDS]);
    bool (*fence_step)(bool *is_over, struct error *error);
    /* Who is waited for: "2 of 8: ranks 3, 5". False: another process knows, and names them when it gives up.
     */
    bool (*fence_describe)(char *text, size_t bytes);

    /* What `rank` has published under `key`. */
    bool (*fetch)(const char *key, int rank, struct cluster_blob *blob, struct error *error);
    /* The job's secret, of AUTH_BYTES, from what rank 0 has published; in place. NULL: it is that, which is brought to
     * this job's processes only. */
    bool (*make_secret)(unsigned char *bytes);

    /* This process gives up, between fences or in one, and the others hear why: whether they have. `may_come_back`: it
     * was asked to end, or has waited long enough. NULL: it cannot tell them. */
    bool (*give_up)(const struct error *error, bool may_come_back);

    /* No fence follows; then, once the job is over, the membership ends, which may hang. */
    void (*end_fences)(void);
    void (*leave)(void);

    /* Readable: the launcher may be gone. Then, whether it is. NULL: it is not watched. */
    int (*launcher_fd)(void);
    bool (*launcher_is_gone)(void);
};

extern const struct cluster_member address_met; /* that of PMIx: pmix/library.h */

#endif
