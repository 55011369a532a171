/*
 * hello.h - what every supervisor publishes to the others, once, over PMIx: who and where it is, what it was asked for,
 * and from supervisor 0 how to reach it.
 *
 * Pure functions over bytes. What comes from others is bounded and checked before it is used. Called by job_cluster.c.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_HELLO_H
#define DDPRUN_LAUNCHER_CLUSTER_HELLO_H

#include "launcher/cluster/addresses.h"
#include "launcher/cluster/proof.h"
#include "launcher/common/problem.h"

#include <stddef.h>

enum { HELLO_BYTES_AT_MOST = 8192, HELLO_HOST_BYTES = 65, HELLO_TERMS_BYTES = 512 };

struct hello {
    int pid;                       /* of the supervisor */
    char host[HELLO_HOST_BYTES];   /* its name, for people */
    char host_id[HOST_ID_BYTES];   /* addresses.h */
    char terms[HELLO_TERMS_BYTES]; /* what must be equal on all ranks: "name value\n" ... (options/terms.h) */
    int exit_code;                 /* 0, or it cannot start its rank: `problem` says why */
    char problem[1024];

    /* supervisor 0 */
    uint16_t port; /* TCP, at all of these: */
    struct host_addresses addresses;
    unsigned char secret[PROOF_BYTES];
};

/* Writes `hello` into bytes[HELLO_BYTES_AT_MOST]; returns how many. */
size_t hello_encode(const struct hello *hello, unsigned char *bytes);

/* False and untouched `hello`: these bytes are no hello of this version. */
bool hello_decode(const void *bytes, size_t count, struct hello *hello) __attribute__((warn_unused_result));

/*
 * Whether all ranks may begin. Problem: the first that could not prepare its rank, in its own words; or two ranks whose
 * terms differ, naming them and the first difference.
 */
bool hello_agree(const struct hello *hellos, int count, struct problem *problem) __attribute__((warn_unused_result));

#endif
