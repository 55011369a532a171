/*
 * copies.h - what a program copies from the host to the device in a step, by call site: hashes (XXH3), which the
 * reference keeps in REFERENCE_COPIES records, and a rank holds against its own.
 */
#ifndef DDPRUN_TOOLS_CHECK_FORMAT_COPIES_H
#define DDPRUN_TOOLS_CHECK_FORMAT_COPIES_H

#include <stdint.h>

enum { COPIES_SITES_AT_MOST = 64 };

struct check_copies {
    uint64_t site;   /* identity of the call site */
    uint64_t bytes;  /* of all copies of the step */
    uint64_t values; /* of what may be floats, of memory that is not annotated; 0: nothing may */
};

/* What a run has copied from one call site in one step, beside the reference (CHECK_ROW_COPY). */
struct check_copy {
    struct check_copies own, whole;
};

#endif
