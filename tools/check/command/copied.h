/*
 * copied.h - what the ranks have copied from one call site in one step: is it the reference's batch, and if not, in
 * which way? Pure; between data.c, which chooses call site and step, and the rows.
 *
 * A call site says something of the batch where some rank copies less than one rank does. Its copies are right if the
 * ranks' pieces together are the reference's, in whatever order. What is wrong is known only where it is known which of
 * the reference's bytes a rank has, or that it has those of another step: contents that the reference never had, as
 * of an augmentation, prove nothing.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_COPIED_H
#define DDPRUN_TOOLS_CHECK_COMMAND_COPIED_H

#include "tools/check/format/copies.h"

/* Those that tell most come first. */
enum copied_kind {
    COPIED_SILENT, /* nothing is known */
    COPIED_RIGHT,
    COPIED_NOT_ADDED, /* all ranks begin where the batch begins */
    COPIED_UNIT,      /* `first` is added, and not in items */
    COPIED_MOVED,     /* by whole items */
    COPIED_SAME,
    COPIED_OVERLAP,
    COPIED_GAP,
    COPIED_OTHER,   /* pieces that one rank has elsewhere */
    COPIED_UNEQUAL, /* right, and not of one size */
};

/* What ranks have copied from one call site in one step. */
struct copied {
    const struct check_copy **of; /* [ranks]; NULL: nothing */
    int ranks;
    uint32_t step;
    uint64_t site;
    bool was_right; /* in some step before */
    /* Filled in by copied_classify(): */
    enum copied_kind kind;
    int rank, other;   /* that it shows on */
    uint64_t from, to; /* bytes of the batch */
    uint64_t unit;     /* COPIED_UNIT: bytes */
};

/* Some copy of the step, for what all of them say of the reference. */
const struct check_copy *copied_any(const struct copied *copied);

/* Shares of what one rank copies. */
bool copied_is_divided(const struct copied *copied);

/* A piece is enough to know an item by. */
bool copied_is_telling(const struct check_copy *it);

void copied_classify(struct copied *copied);

#endif
