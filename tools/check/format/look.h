/*
 * look.h - every operation of one step, as one rank has made it: for the place where N ranks and one first part
 * (tools/check/command/place.c). "<results>-<rank>" of struct check_run, with ".look" behind it, has records in the
 * order in which they came: contents of memory, and operations with their arguments.
 */
#ifndef DDPRUN_TOOLS_CHECK_FORMAT_LOOK_H
#define DDPRUN_TOOLS_CHECK_FORMAT_LOOK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LOOK_ARGUMENTS = 24,
    LOOK_BYTES = 1 << 20,       /* of one memory that are kept, at most */
    LOOK_COPY_BYTES = 16 << 20, /* the same of a copy from the host */
    LOOK_MORE = 16,             /* steps of one rank that come after the one that is looked at */
    LOOK_OPERATIONS = 4096,
};

struct look_argument {
    uint32_t number; /* as the engine numbers them: with the word of a struct */
    uint32_t tensor; /* 1 + role, in the upper byte, and number of the annotated tensor that it points to; 0: none */
    uint16_t type;   /* its, as in element.h; 0: not known */
    bool is_memory, is_whole, is_part; /* is_whole: a scalar without fraction; is_part: more than so many */
    bool is_member;                    /* a scalar in a struct */
    bool is_before;                    /* set by the reader: the tensor's annotation comes after the operation */
    double value;                      /* of a scalar */
    uint64_t address, bytes;           /* of memory: so many bytes were kept */
    uint64_t offset;                   /* of the address, from where its allocation begins */
    uint64_t before, after;            /* their hashes, by which their contents are found */
    uint64_t first, end;               /* bytes that were changed; `end` 0: none */
};

/* A DDP_REDUCE is one, too, and a DDP_STEP, whose argument is the weight of the rank's share. */
#define LOOK_REDUCES "DDP_REDUCE"
#define LOOK_STEPS   "DDP_STEP"

struct look_operation {
    uint32_t interval;  /* DDP_STEPs before it; in rounds, rounds that have begun */
    uint32_t arguments; /* that follow; 0: contents of `bytes` bytes and this hash follow */
    uint64_t hash, bytes;
    uint64_t blocks;            /* of the grid of a launch; of a DDP_REDUCE: the step that its result counts to */
    bool from_host, is_aside;   /* is_aside: by another thread than the DDP_STEPs */
    char name[104], place[392]; /* frames, as a CHECK_ROW_SITE has them; "train.cu:12" and what a DDP_REDUCE gets */
};

#endif
