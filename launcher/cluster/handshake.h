/*
 * handshake.h - what every supervisor publishes to the others, once, over PMIx: who and where it is, what it was asked
 * for, and from supervisor 0 how to reach it.
 *
 * Pure functions over bytes. What comes from others is bounded and checked before it is used. Called by job_cluster.c.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_HANDSHAKE_H
#define DDPRUN_LAUNCHER_CLUSTER_HANDSHAKE_H

#include "launcher/cluster/addresses.h"
#include "launcher/cluster/auth.h"
#include "launcher/common/error.h"

#include <stddef.h>

enum {
    HANDSHAKE_BYTES_AT_MOST = 8192,
    HANDSHAKE_HOST_BYTES = 65,
    HANDSHAKE_TERMS_BYTES = 640,
    HANDSHAKE_COMMAND_BYTES = 800,
    HANDSHAKE_VISIBLE_BYTES = 512
};

struct handshake {
    int pid;                           /* of the supervisor */
    char host[HANDSHAKE_HOST_BYTES];   /* its name, for people */
    char host_id[HOST_ID_BYTES];       /* addresses.h */
    char terms[HANDSHAKE_TERMS_BYTES]; /* what must be equal on all ranks: "name value\n" ... (options.h) */
    /* Program and arguments, as they were given: {rank} and the like are still in them. A long text is cut, the hash is
     * of all. */
    char command[HANDSHAKE_COMMAND_BYTES];
    unsigned char command_hash[SEAL_HASH_BYTES];
    char visible[HANDSHAKE_VISIBLE_BYTES]; /* its CUDA_VISIBLE_DEVICES; "": not set */
    int exit_code;                         /* 0, or it cannot start its rank: `error` says why */
    char error[1024];

    /* supervisor 0 */
    int plan_bytes; /* of the plan that it has for all, of --plan; 0: none */
    uint16_t port;  /* TCP, at all of these: */
    struct host_addresses addresses;
    unsigned char secret[AUTH_BYTES];
};

/* Writes `handshake` into bytes[HANDSHAKE_BYTES_AT_MOST]; returns how many. */
size_t handshake_encode(const struct handshake *handshake, unsigned char *bytes);

/* False and untouched `handshake`: these bytes are no handshake of this version. */
bool handshake_decode(const void *bytes, size_t count, struct handshake *handshake) MUST_USE;

/* Fills in what the rank is to run. */
void handshake_take_command(struct handshake *handshake, char *const *program);

/* Where a rank stands among the `count` ranks of the job that are on its host, and that the same GPUs are visible to:
 * `place` of `among`; `on_host`: all ranks of its host. */
struct handshake_neighbours {
    int place, among, on_host;
};
struct handshake_neighbours handshake_find_neighbours(const struct handshake *handshakes, int count, int rank);

/* The first rank that was started with another command than rank 0, and both commands, a line each; 0: all have the
 * same. */
int handshake_find_other_command(const struct handshake *handshakes, int count, char text[2 * HANDSHAKE_COMMAND_BYTES]);

/*
 * Whether all ranks may begin. Error: the first that could not prepare its rank, in its own words; or two ranks whose
 * terms differ, naming them and the first difference.
 */
bool handshake_agree(const struct handshake *handshakes, int count, struct error *error) MUST_USE;

#endif
