/*
 * nonfinite.h - infinite elements and NaN in what is about to be sent, and the squares of what is sent and of averages:
 * what kernels are given to look, and what they leave behind.
 *
 * Between comm/wire.c, the kernels in nonfinite.cu and wire.cu, and the engine, which reads what was found. C, and CUDA
 * C++.
 */
#ifndef DDPRUN_COMM_KERNELS_NONFINITE_H
#define DDPRUN_COMM_KERNELS_NONFINITE_H

#include <stdint.h>

/* The first that was found since `claim` was zeroed; in pinned memory, zeroed by the host. */
struct nonfinite_found {
    uint64_t address; /* of the element */
    uint64_t bits;    /* of the element */
    uint64_t step;    /* the look's */
    uint64_t ready;   /* 1: the others are written */
};

/* What the caller writes before each launch of a graph in which there are looks: it is added to theirs. */
struct nonfinite_launch {
    uint32_t step, turn;
};

/* One look, by value as a kernel's argument. */
struct nonfinite_look {
    uint64_t claim;         /* address of a uint32_t of the device; 0: nothing is looked at */
    uint64_t found;         /* address of struct nonfinite_found */
    uint64_t exponents;     /* of the elements, as hash_infinite() takes them (hash.h) */
    uint64_t step;          /* the caller's number of this look */
    uint64_t element_bytes; /* 2, 4 or 8 */
    uint64_t launch;        /* address of struct nonfinite_launch; 0: nothing is added */
    uint64_t squares;       /* address of a double, to which the squares of elements are added; 0: to none */
    uint64_t after;         /* not 0: squares of the elements as the kernel stores them; else as it loads them */
    uint32_t chunks;        /* of a round */
    uint32_t turn, turns;   /* which rounds are taken: each one in `turns`; 1: all */
};

/*
 * Memory that is sent where it is would be read for the look alone: of its rounds, of so many chunks each, a look takes
 * one in so many, the next look other ones. Small memory is looked at as a whole. Squares are of the same chunks, and
 * count for all: over the turns their mean is right.
 */
enum { NONFINITE_TURNS = 16, NONFINITE_BLOCKS = 16 };

#endif
