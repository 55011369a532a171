/*
 * copies.h - what a program copies from the host to the device in a step, by call site: what the reference keeps of it.
 *
 * A REFERENCE_COPIES record is struct check_copies, then `piece_count` hashes (XXH3), then `probe_count` struct
 * check_probe. A piece is a record of the batch where DDP_SHARD says how many there are, else about a 64th of the first
 * copy; the last piece of a copy may be shorter.
 */
#ifndef DDPRUN_TOOLS_CHECK_FORMAT_COPIES_H
#define DDPRUN_TOOLS_CHECK_FORMAT_COPIES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    COPIES_SITES_AT_MOST = 64,
    COPIES_PIECES_AT_MOST = 1 << 16, /* of a call site in a step; of more nothing is known */
    COPIES_PROBES = 32,
    COPIES_PROBE_BYTES = 64,
    COPIES_PROBE_LEAST = 16,
};

#define COPIES_BYTES_AT_MOST (UINT64_C(1) << 30) /* the same */

struct check_copies {
    uint64_t site;        /* identity of the call site */
    uint64_t bytes;       /* of all copies of the step */
    uint64_t record;      /* bytes of one of the items that DDP_SHARD shares out; 0: not known */
    uint64_t piece_bytes; /* of all pieces but the last of a copy */
    uint64_t sum;         /* of the pieces' hashes: their order does not matter */
    uint64_t chain;       /* of the same: it does */
    uint64_t values;      /* hash of what may be floats, of memory that is not annotated; 0: nothing may */
    uint32_t piece_count, probe_count;
    uint64_t calls;
    uint64_t source; /* address of the first copy's source */
};

/* Bytes of a piece, by which its place is found in copies that begin anywhere. */
struct check_probe {
    uint64_t at; /* among the bytes of the step */
    uint32_t bytes, unused;
    unsigned char content[COPIES_PROBE_BYTES];
};

/* What a rank found of its own copies, from one call site in one step (CHECK_ROW_COPY). */
struct check_copy {
    uint64_t site;
    uint64_t bytes, whole;        /* of this rank's copies, and of the reference's in this step */
    uint64_t record;              /* of the reference, as above */
    uint64_t items, first, count; /* DDP_SHARD's, when the first of them was made; 0: there was none */
    uint64_t chain;
    uint64_t sum, whole_sum;
    uint64_t values, whole_values;
    int64_t begins; /* where among the reference's bytes the first copy begins; -1: nowhere */
    uint64_t run;   /* so many pieces from there on are the reference's */
    uint64_t total; /* whole pieces; of them the reference has in this step: */
    uint64_t here;
    uint64_t in_place;       /* of them where the share is, by DDP_SHARD */
    uint64_t elsewhere;      /* and so many in other steps only, */
    uint32_t elsewhere_step; /* for instance this one */
    bool steady;             /* the reference has the same pieces in each step */
    bool distinct;           /* and no two that are equal in this one */
    bool is_data_set; /* and it copies them from other addresses in other steps, as of data that stay on the host */
    int32_t shard_line;
    char shard_file[128];
};

#endif
