/*
 * meeting.h - how the ddprun of a job find each other without PMIx: all connect to one address, and give each other
 * bytes in rounds.
 *
 * Rank 0 listens, at the port that was named or the first free one of the 15 behind it (torchrun's own store has the
 * first); the others try all of them. Both ends prove that they know one key (auth.h): it is made from the user's
 * secret, the name of the run, how often it has begun anew, and the number of processes, and is never sent. The nonce
 * of rank 0's ddprun begins with a mark of the run, so that jobs side by side pass each other over. Who proves nothing
 * is dropped (supervisor_server.h), and the meeting does not notice. What follows is neither encrypted nor signed: the
 * job's network is trusted as NCCL trusts it.
 *
 * Nothing blocks but the resolver of names. Called by cluster.c; one thread.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_MEETING_H
#define DDPRUN_LAUNCHER_CLUSTER_MEETING_H

#include "launcher/common/error.h"

#include <poll.h>
#include <stddef.h>

enum { MEETING_PORTS = 16, MEETING_DEFAULT_PORT = 29500 };

struct meeting_terms {
    int rank, world_size; /* rank 0 listens */
    const char *address;  /* a name or number of the host of rank 0 */
    unsigned port;
    const char *run; /* its name, which jobs side by side do not share */
    unsigned restart;
    const char *secret_file; /* NULL: the default */
};

/* What a rank has given in the last round; the meeting's, until the next round begins. */
struct meeting_bytes {
    unsigned char *bytes;
    size_t count;
};

struct meeting;

/* Address and secret file must outlive it. NULL: the error (DDPRUN_EXIT_USAGE, DDPRUN_EXIT_FAILURE). */
struct meeting *meeting_open(const struct meeting_terms *terms, struct error *error)
    __attribute__((warn_unused_result));
void meeting_close(struct meeting *meeting);

/* What it waits for, besides a while: fills in polled[MEETING_PORTS], fd -1 where there is nothing. */
void meeting_poll(const struct meeting *meeting, struct pollfd polled[MEETING_PORTS]);

/* Begins a round: `bytes` (at most 60 KiB) are for all. The round before must be over. */
void meeting_begin_round(struct meeting *meeting, const void *bytes, size_t count);

/* Does what is due, ten times a second and whenever something is ready. False: the meeting has failed. */
bool meeting_step(struct meeting *meeting, struct error *error) __attribute__((warn_unused_result));

/* All have what all have given. */
bool meeting_round_is_over(const struct meeting *meeting);
struct meeting_bytes meeting_given(const struct meeting *meeting, int rank);

/* What is waited for: "2 of 8: ranks 3, 5". */
void meeting_describe(const struct meeting *meeting, char *text, size_t bytes);

/* The job's own secret (AUTH_BYTES), which is not sent: made from what rank 0 has published. In place. */
bool meeting_make_secret(const struct meeting *meeting, unsigned char *bytes) __attribute__((warn_unused_result));

#endif
