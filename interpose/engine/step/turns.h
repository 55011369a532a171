/*
 * turns.h - what the files of turns know of each other: turns.c has the regions and rounds, turn_work.c which
 * operations are left out, turn_keep.c the gradients that wait for the round's end, turn_batches.c whether ranks load
 * the same data. step.h has what others call.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_STEP_TURNS_H
#define DDPRUN_INTERPOSE_ENGINE_STEP_TURNS_H

#include "interpose/engine/memory/memory.h"

/* A region of turns. */
struct turn_region {
    uint64_t number; /* from 1 */
    struct ddp_site site;
    bool is_mine;      /* this rank computes the batch */
    bool is_everyones; /* and so do all: it is the first batch */
};

/* For "%s (%s:%d)": DDP_TURN_BEGIN (train.c:50). */
#define TURN_SITE(site) (site).text, file_name_of((site).file), (site).line

/* ---- turn_work.c ---- */
/* Whether a thread has a region open. Any thread. */
bool turn_is_open(void);
/* The open region, if it is this thread's; else NULL. */
const struct turn_region *turn_region(void);
/* The open region, whichever thread's; for messages. */
struct ddp_site turn_open_site(void);
/* This thread opens a region, in which nothing is left out yet; and closes it. */
void turn_open(const struct turn_region *region);
void turn_close(void);
/* By the region's thread: device work is left out from here on, or is not. */
void turn_leave_out(bool leaves_out);

/* ---- turn_keep.c; without lock ---- */
/* The rank's gradients of the group are copied to memory of the engine, after all work on them. What the program
 * enqueues after that waits for the copies before it touches gradients. */
void turn_keep(int group, CUstream stream);
/* The copies are written back, after all work on the gradients; does nothing if there are none. */
void turn_put_back(int group, CUstream stream);

/* ---- turn_updates.c; the region's thread ---- */
/* The DDP_STEP of a region has come, and the region ends. May report that the host counts batches. */
void turn_update_begins(void);
void turn_update_ends(const struct ddp_site *step);
/* An operation of the region, which may be left out. */
void turn_update_launched(const struct operation *operation);

/* ---- turn_batches.c; the region's thread ---- */
enum { TURN_BATCHES_KEPT = 16 };

/* What a rank has loaded. */
struct turn_batches {
    uint64_t
        hashes[TURN_BATCHES_KEPT]; /* of the first copy of the last regions, the open one last; 0: there was none */
};

/* A region begins, and ends. */
void turn_batch_begins(void);
void turn_batch_ends(void);
/* What this rank has loaded. Static storage. */
const struct turn_batches *turn_batches_now(void);
/* Ends the job if rank `rank` computes batches that rank 0 has had in earlier regions, or the reverse; rank 0 warns if
 * all data differ. Both ranks have passed the same number of regions. */
void turn_batches_compare(const struct turn_batches *zero, const struct turn_batches *theirs, int rank);

#endif
