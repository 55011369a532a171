/*
 * member.h - this process as a member of a job that the PMIx server of a cluster's launcher (srun --mpi=pmix, mpirun)
 * knows: its place in it, and the bytes that the members give each other.
 *
 * The only PMIx client of the project, and the only use of PMIx. It is a library of its own, libddprun-pmix.so, which
 * cluster.c opens where such a launcher started ddprun (cluster.h): elsewhere ddprun needs no PMIx.
 *
 * One in a process, and one process at a time for each rank: PMIx takes two for one, and mixes their fences up. One
 * thread calls, except where another rule is given. Not in a forked child, where PMIx hangs. A fence that succeeds does
 * not say that all have come: after a death PMIx lets the others' fences succeed.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_PMIX_MEMBER_H
#define DDPRUN_LAUNCHER_CLUSTER_PMIX_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PMIX_MEMBER_LIBRARY "libddprun-pmix.so"
#define PMIX_MEMBER_SYMBOL  "ddprun_pmix_member"

/* Why a call failed. */
struct pmix_failure {
    const char *words;  /* PMIx's own; static */
    bool is_other_form; /* fetch(): what is there was not published by publish() */
};

/* What the server says of the job; -1: it does not. */
struct pmix_place {
    int rank;
    int world_size; /* above `rank` */
    int local_rank, local_size;
};

/* What a member has published; PMIx's memory, until release(). */
struct pmix_bytes {
    const void *bytes;
    size_t count;
    void *value;
};

/* What the library exports, as PMIX_MEMBER_SYMBOL. */
struct pmix_member {
    uint32_t protocol; /* DDPRUN_PROTOCOL_VERSION that it was built with: look at this first */

    /* Of PMIx, with words around it. Any time, any thread. */
    const char *(*version)(void);

    /*
     * Joins the job that the environment names. The threads that PMIx starts block all signals, for the caller's are
     * not theirs. `wake` is called on one of them when a fence that was begun is over, or the server is gone: it must
     * not wait, nor call anything here but what any thread may.
     */
    bool (*join)(void (*wake)(void), struct pmix_failure *failure);
    struct pmix_place (*place)(void);

    /* Whether the server has gone without ending this process: PMIx notices about a second later. Any thread. */
    bool (*server_is_gone)(void);

    /* Gives `bytes` to all members: they have them after the next fence. Once for each `key`, for PMIx keeps them. */
    bool (*publish)(const char *key, const void *bytes, size_t count, struct pmix_failure *failure);

    /*
     * Collective: begun, then asked for by any thread, then ended once it is over: all members have come. It has no
     * limit of time. After one that was given up no other may begin but to let the process end.
     */
    bool (*fence_begin)(struct pmix_failure *failure);
    bool (*fence_is_over)(void);
    bool (*fence_end)(struct pmix_failure *failure);

    /* What `rank` published under `key` before the last fence. Waits for it if it has not, as long as PMIx does. */
    bool (*fetch)(int rank, const char *key, struct pmix_bytes *bytes, struct pmix_failure *failure);
    void (*release)(struct pmix_bytes *bytes);

    /* Leaves cleanly, which makes this process's end a good one for the server. May wait for a server that does not
     * answer. */
    void (*leave)(void);
};

#endif
