/*
 * member.h - this process as a member of a job that a PMIx server knows: its place in it, and the bytes that the
 * members give each other. The server is ddprun's own, or that of a cluster's launcher (srun --mpi=pmix, mpirun).
 *
 * The only PMIx client of the project. Used by each process that is a rank to PMIx: the engine on one node
 * (comm/rendezvous_pmix.c), the supervisor under a cluster's launcher (launcher/cluster/cluster.c). A target of its
 * own, pmix_member, because whatever links it needs libpmix.
 *
 * One in a process, and one process at a time for each rank: PMIx takes two for one, and mixes their fences up. One
 * thread calls, except where another rule is given. Not in a forked child, where PMIx hangs. A fence that succeeds does
 * not say that all have come: after a death PMIx lets the others' fences succeed.
 */
#ifndef DDPRUN_BASE_PMIX_MEMBER_H
#define DDPRUN_BASE_PMIX_MEMBER_H

#include <stdbool.h>
#include <stddef.h>

/* Why a call failed. */
struct member_failure {
    enum member_reason {
        MEMBER_REFUSED,  /* PMIx says no */
        MEMBER_LATE,     /* others have not come in time */
        MEMBER_NO_BYTES, /* what is there was not published by member_publish() */
    } reason;
    const char *words; /* PMIx's own; static */
};

/* What the server says of the job; -1: it does not. */
struct member_place {
    int rank;
    int world_size; /* above `rank` */
    int local_rank, local_size;
};

/*
 * Joins the job that the environment names. The threads that PMIx starts block all signals, for the caller's are not
 * theirs. `wake` (or NULL) is called on one of them when a fence that was begun is over, or the server is gone: it must
 * not wait, nor call anything here but what any thread may.
 */
bool member_join(void (*wake)(void), struct member_failure *failure) __attribute__((warn_unused_result));

struct member_place member_place(void);

/* Whether the server has gone without ending this process: PMIx notices about a second later. Any thread. */
bool member_server_is_gone(void);

/* Gives `bytes` to all members: they have them after the next fence. Once for each `key`, for PMIx keeps them all. */
bool member_publish(const char *key, const void *bytes, size_t count, struct member_failure *failure)
    __attribute__((warn_unused_result));

/* Collective: returns when all members have come. MEMBER_LATE: they have not within timeout_s seconds. */
bool member_fence(int timeout_s, struct member_failure *failure) __attribute__((warn_unused_result));

/*
 * The same for a caller that has other things to do meanwhile: begun, then asked for by any thread, then ended once it
 * is over. It has no limit of time. After one that was given up no other may begin but to let the process end.
 */
bool member_fence_begin(struct member_failure *failure) __attribute__((warn_unused_result));
bool member_fence_is_over(void);
bool member_fence_end(struct member_failure *failure) __attribute__((warn_unused_result));

/* What a member has published; PMIx's memory, until member_release(). */
struct member_bytes {
    const void *bytes;
    size_t count;
    void *value;
};

/* What `rank` published under `key` before the last fence. Waits for it if it has not, as long as PMIx does. */
bool member_fetch(int rank, const char *key, struct member_bytes *bytes, struct member_failure *failure)
    __attribute__((warn_unused_result));
void member_release(struct member_bytes *bytes);

/* Asks the server to end the whole job, with `status` as its exit code. Returns when the server has the request, or
 * where this process has no memory left to send it. */
void member_abort(int status, const char *message);

/* Leaves cleanly, which makes this process's end a good one for the server. May wait for a server that does not
 * answer. */
void member_leave(void);

#endif
