/*
 * agreement.h - do the ranks have the same bits? Pure: each of them has left a hash of every parameter, state, averaged
 * gradient and buffer at every step. This asks for no tolerance and no reference.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_AGREEMENT_H
#define DDPRUN_TOOLS_CHECK_COMMAND_AGREEMENT_H

#include "tools/check/command/evidence.h"

struct agreement {
    unsigned moment;             /* of the first difference (items_moment()); 0: none */
    const struct check_row *row; /* of the rank that differs from rank 0 then */
    int rank;
};

struct agreement agreement_find(const struct check_evidence *evidence);

#endif
