/*
 * mutant.h - deliberately broken builds of the engine, with which the tests prove that they would notice.
 *
 * tests/end_to_end builds the engine once for each entry, with -DDDPRUN_MUTANT=N, and mutants.sh requires that training
 * fails. In what users run DDPRUN_MUTANT is 0 and every MUTANT(...) is a constant false.
 */
#ifndef DDPRUN_BASE_MUTANT_H
#define DDPRUN_BASE_MUTANT_H

#ifndef DDPRUN_MUTANT
#define DDPRUN_MUTANT 0
#endif

enum {
    MUTANT_NO_BOUNDARY_WAIT = 1,  /* the trainer's stream does not wait for the reduction */
    MUTANT_NO_PRODUCER_WAIT = 2,  /* the communication stream does not wait for the gradients' producers */
    MUTANT_GRADIENT_LEFT_OUT = 3, /* one gradient of a bucket is not reduced */
    MUTANT_SUM_NOT_MEAN = 4,
    MUTANT_ORDER_DIFFERS = 5,   /* odd ranks launch buckets in another order */
    MUTANT_READY_TOO_EARLY = 6, /* a gradient counts as ready one touch before its last */

    MUTANT_SCALE_LEFT_OUT = 31,       /* compressed gradients are not divided by the number of ranks */
    MUTANT_UNPACK_LEFT_OUT = 32,      /* a packed bucket stays in its buffer */
    MUTANT_COMMUNICATOR_DIFFERS = 33, /* odd ranks send each bucket through another communicator */
    MUTANT_NO_JOIN = 34,              /* the boundary does not wait for the other communicators */
};

#define MUTANT(name) (DDPRUN_MUTANT == MUTANT_##name)

#endif
