/*
 * test_verdict.c - what `ddprun check` says of evidence that is made here: each cause once, and beside it what
 * nearly has it; and of any evidence: nothing that differs passes as equal.
 *
 * Compiled with mutants (tests/lib/mutant.h): with a floor that is taken as infinite, or with any rule broken, the
 * table is not what it says.
 */
#include "world.h"

#include "tools/check/evidence/items.h"
#include "tools/check/verdict/rows.h"

#include "tests/lib/test.h"

enum { MOST_EDITS = 8 };

/* ---- scenes ---- */

#define DIFFERENT(name)      .result = CHECK_DIFFERENT, .cause = CAUSE_##name
#define NOT_COMPARABLE(name) .result = CHECK_NOT_COMPARABLE, .cause = CAUSE_##name
#define TENSOR(name)         DIFFERENT(TENSOR), .first = name
#define EDITS(...)           .edits = {__VA_ARGS__}
#define EDIT(...)   \
    {               \
        __VA_ARGS__ \
    }
#define DIFFERS(by, ...)                     \
    {                                        \
        DIFFERENCE, .value = by, __VA_ARGS__ \
    }

/* What several scenes have in common. */
#define OTHER_BITS       EDIT(HASH, .value = 7, ONE(PARAMETER, 2), .from = 3, .rank = 2)
#define IN_16_BITS       EDIT(NARROW, .role = ANY), EDIT(HASH, .value = 7, ONE(PARAMETER, 2), .from = 3, .rank = 2)
#define OTHER_BITS_AGAIN EDIT(HASH, TWICE, 7, ONE(PARAMETER, 2), .from = 3, .rank = 2)
#define OTHER_HOST_MEMORY \
    EDIT(ON_HOST, .value = 2, .from = 3, .rank = 1), EDIT(ON_HOST, .value = 3, .from = 3, .rank = 2)
#define NO_SHARDS            EDIT(SHARD, RANKS, -1), EDIT(SHARD, ALONE, -1)
#define GRADIENTS_TIMES(f)   EDIT(FACTOR, .value = f, EVERY(GRADIENT))
#define HALF_AS_FORCED       GRADIENTS_TIMES(0.5), EDIT(FORCED, .value = 0.5, .from = 1)
#define PARAMETERS_MOVE      DIFFERS(0.1, EVERY(PARAMETER), .from = 2)
#define OVERLAP_DIFFERS      EDIT(OVERLAPPED, .value = 2), DIFFERS(0.1, EVERY(PARAMETER), .from = 3)
#define NAN_IN_ONE_PROCESS   EDIT(NAN_ALONE, ALONE, .first = 2, .from = 3)
#define CHAOS                EDIT(DIFFERENCE, PERTURBED, 1e-2, EVERY(PARAMETER), .from = 3)
#define GRADIENT_FLOOR(by)   EDIT(DIFFERENCE, PERTURBED, by, ONE(GRADIENT, 2))
#define GRADIENT_DIFFERS(by) DIFFERS(by, ONE(GRADIENT, 2))
#define NUDGED_IN(by, step)  EDIT(ADDED, NUDGED, by, ONE(GRADIENT, 3), .from = step)

static const struct scene {
    const char *what;
    int ranks; /* 0: 2 */
    struct edit edits[MOST_EDITS];
    enum check_result result;
    enum check_cause cause;
    const char *first;  /* text of the tensor that the sentence is about; NULL: none, or any */
    const char *says;   /* a part of sentence and advice; NULL: any */
    const char *wishes; /* "plain", "probe", "factor"; NULL: any */
    const char *mutant; /* with this rule broken the scene has another verdict; NULL: none is its own */
} scenes[] = {
    /* ---- equal, or just not ---- */
    {"a right program"},
    {"on four ranks", .ranks = 4},
    {"ten times the floor, below the tolerance", EDITS(EDIT(DIFFERENCE, .value = 0.9e-5, .role = ANY))},
    {"just below the tolerance", EDITS(GRADIENT_DIFFERS(0.99e-5))},
    {"just above the tolerance", EDITS(GRADIENT_DIFFERS(1.01e-5)), TENSOR("gradient_2")},
    {"just below 20 floors", EDITS(GRADIENT_FLOOR(1.5e-6), GRADIENT_DIFFERS(2.99e-5))},
    {"just above 20 floors", EDITS(GRADIENT_FLOOR(1.5e-6), GRADIENT_DIFFERS(3.01e-5)), TENSOR("gradient_2")},
    {"the floor of one tensor is not another's",
     EDITS(EDIT(DIFFERENCE, PERTURBED, 1.5e-6, ONE(GRADIENT, 1)), GRADIENT_DIFFERS(2.99e-5)), TENSOR("gradient_2")},
    {"the floor of a later step is not an earlier one's",
     EDITS(EDIT(DIFFERENCE, PERTURBED, 1.5e-6, ONE(GRADIENT, 2), .from = 2), GRADIENT_DIFFERS(2.99e-5)),
     TENSOR("gradient_2")},
    {"the floor is the larger one of two runs",
     EDITS(EDIT(DIFFERENCE, AGAIN, 1.5e-6, ONE(GRADIENT, 2)), GRADIENT_DIFFERS(2.99e-5))},
    {"of a whole tensor the floor is no block's",
     EDITS(GRADIENT_FLOOR(1.5e-6), EDIT(BLOCK, .value = 0.5, ONE(GRADIENT, 2))), TENSOR("gradient_2"),
     .says = "elements 8 to 11"},
    {"a block alone", EDITS(EDIT(BLOCK, .value = 1.01e-5, ONE(PARAMETER, 4), .from = 2)), TENSOR("parameter_4"),
     .says = "elements 8 to 11"},
    {"a block of noise", EDITS(EDIT(BLOCK, .value = 0.99e-5, ONE(PARAMETER, 4), .from = 2))},
    {"a gradient that is zero in theory: only noise differs",
     EDITS(EDIT(NORM, .value = 1e-8, ONE(GRADIENT, 3)), DIFFERS(0.9, ONE(GRADIENT, 3)))},
    {"the same, with more noise, as rounding alone has it, too",
     EDITS(EDIT(NORM, .value = 1e-6, ONE(GRADIENT, 3)), DIFFERS(1.5, ONE(GRADIENT, 3)),
           EDIT(NORM, PERTURBED, 1e-6, ONE(GRADIENT, 3)), EDIT(DIFFERENCE, PERTURBED, 1.5, ONE(GRADIENT, 3)))},
    {"a gradient that nearly cancels", .mutant = "CHECK_NUDGED_UNSEEN",
     EDITS(EDIT(FORCED, .value = 1, .from = 1), EDIT(NORM, .value = 1e-3, ONE(GRADIENT, 3)),
           DIFFERS(5e-3, ONE(GRADIENT, 3), .from = 1), NUDGED_IN(1e-6, 1), NUDGED_IN(1e-6, 2), NUDGED_IN(1e-6, 3))},
    {"the same, in a step of which that is not known",
     EDITS(EDIT(FORCED, .value = 1, .from = 1), EDIT(NORM, .value = 1e-3, ONE(GRADIENT, 3)),
           DIFFERS(5e-3, ONE(GRADIENT, 3), .from = 1), NUDGED_IN(1e-6, 1), NUDGED_IN(1e-6, 2)),
     TENSOR("gradient_3")},
    {"a gradient whose difference is no rounding beside others",
     EDITS(EDIT(FORCED, .value = 1, .from = 1), DIFFERS(5e-5, ONE(GRADIENT, 3), .from = 1), NUDGED_IN(1e-5, 1),
           NUDGED_IN(1e-5, 2), NUDGED_IN(1e-5, 3)),
     TENSOR("gradient_3")},
    {"a small gradient that is not noise",
     EDITS(EDIT(NORM, .value = 1e-2, ONE(GRADIENT, 3)), DIFFERS(1.5, ONE(GRADIENT, 3))), TENSOR("gradient_3")},
    {"same bits are equal, whatever the norms are", EDITS(EDIT(MISSING, .role = CHECK_BUFFER, .last = 9))},
    {"the floor is not known", EDITS(EDIT(MISSING, AGAIN, .role = ANY), EDIT(MISSING, PERTURBED, .role = ANY))},

    /* ---- copies from the host ---- */
    {"memory of the host that differs from rank to rank", EDITS(OTHER_HOST_MEMORY), NOT_COMPARABLE(CARRIED),
     .says = "in step 3 rank 1 copies 64 bytes", .wishes = "far"},
    {"memory of the host that each rank computes for itself", .mutant = "CHECK_CARRIED_UNSEEN",
     EDITS(OTHER_HOST_MEMORY, EDIT(ON_HOST, FAR, 4, .from = 2)), NOT_COMPARABLE(CARRIED), .says = "trains its own",
     .wishes = ""},
    {"data of the ranks' own, whose size does not depend on them", .mutant = "CHECK_CARRIED_DATA",
     EDITS(OTHER_HOST_MEMORY, EDIT(SHARD, FAR, 24))},
    {"the same on all ranks, and other bits than one rank's",
     EDITS(EDIT(ON_HOST, .value = 2, .from = 3), EDIT(ON_HOST, FAR, 4, .from = 2))},
    {"annotated memory of the host, indices or addresses",
     EDITS(EDIT(ON_HOST, .value = 2, .first = 1, .from = 3, .rank = 1),
           EDIT(ON_HOST, .value = 3, .first = 1, .from = 3, .rank = 2), EDIT(ON_HOST, FAR, 4, .from = 2))},
    {"what one rank does not repeat",
     EDITS(OTHER_HOST_MEMORY, EDIT(ON_HOST, AGAIN, 4, .from = 2), EDIT(ON_HOST, FAR, 4, .from = 2))},

    /* ---- clocks ---- */
    {"a date that nothing depends on", EDITS(EDIT(READS))},
    {"a date, and a program that does not repeat itself",
     EDITS(EDIT(READS), EDIT(DIFFERENCE, AGAIN, 1.1e-3, ONE(GRADIENT, 1), .from = 3)), NOT_COMPARABLE(NOT_REPEATABLE),
     .says = "read by `time` (train.cu:5)"},
    /* ---- the program itself ---- */
    {"does not repeat itself", EDITS(EDIT(DIFFERENCE, AGAIN, 1.1e-3, ONE(GRADIENT, 1), .from = 3)),
     NOT_COMPARABLE(NOT_REPEATABLE), .says = "in one process differ by 0.0011"},
    {"nearly repeats itself", EDITS(EDIT(DIFFERENCE, AGAIN, 0.9e-3, ONE(GRADIENT, 1), .from = 3))},
    {"does not repeat itself, and differs by far",
     EDITS(EDIT(DIFFERENCE, AGAIN, 1, EVERY(PARAMETER)), EDIT(DIFFERENCE, .value = 1, .role = ANY)),
     NOT_COMPARABLE(NOT_REPEATABLE)},
    {"a start nearby makes what rounding cannot, and the ranks differ",
     EDITS(EDIT(FORCED, .value = 1, .from = 1), EDIT(DIFFERENCE, PERTURBED, 0.5, EVERY(GRADIENT)),
           DIFFERS(2, EVERY(GRADIENT))),
     NOT_COMPARABLE(NOT_REPEATABLE), .says = "in one process differ by 0.5 in"},
    {"... and another gradient differs beyond any rounding",
     EDITS(EDIT(FORCED, .value = 1, .from = 1), EDIT(DIFFERENCE, PERTURBED, 0.5, ONE(GRADIENT, 1)),
           DIFFERS(20, ONE(GRADIENT, 1), .from = 2), DIFFERS(0.1, ONE(GRADIENT, 2))),
     TENSOR("gradient_2")},
    {"... where steps do not begin from the reference",
     EDITS(EDIT(DIFFERENCE, PERTURBED, 0.5, EVERY(GRADIENT)), DIFFERS(2, EVERY(GRADIENT))), NOT_COMPARABLE(CHAOTIC)},
    {"... and the ranks do not differ", EDITS(EDIT(DIFFERENCE, PERTURBED, 0.5, EVERY(GRADIENT)))},
    {"ranks that are right in a second run",
     EDITS(DIFFERS(0.5, EVERY(GRADIENT)), EDIT(DIFFERENCE, TWICE, 1e-6, EVERY(GRADIENT))), DIFFERENT(NOT_REPEATABLE),
     .says = "in a second run of the ranks by another amount"},
    {"ranks that differ as much in a second run",
     EDITS(DIFFERS(0.5, EVERY(GRADIENT)), EDIT(DIFFERENCE, TWICE, 0.501, EVERY(GRADIENT))), DIFFERENT(DIRECTION)},
    {"memory that does not repeat is not the program's result",
     EDITS(EDIT(DIFFERENCE, AGAIN, 1, EVERY(MEMORY)), EDIT(DIFFERENCE, AGAIN, 1, ROLE(MEAN), .last = 9))},
    {"chaos", EDITS(CHAOS, DIFFERS(5e-2, EVERY(PARAMETER), .from = 3)), NOT_COMPARABLE(CHAOTIC)},
    {"nearly chaos", EDITS(CHAOS, DIFFERS(3.9e-5, EVERY(PARAMETER), .from = 3))},
    {"just chaos", .mutant = "CHECK_ANY_TOLERANCE", EDITS(CHAOS, DIFFERS(4.1e-5, EVERY(PARAMETER), .from = 3)),
     NOT_COMPARABLE(CHAOTIC), .says = "a tolerance above 4.0e-05 hides mistakes"},
    {"chaos from run to run is no floor where every step begins from the reference", .mutant = "CHECK_DRIFT_COUNTS",
     EDITS(EDIT(FORCED, .value = 1, .from = 1), EDIT(DIFFERENCE, PERTURBED, 1e-2, EVERY(PARAMETER), .from = 2),
           EDIT(DIFFERENCE, PERTURBED, 1e-2, EVERY(GRADIENT), .from = 2), DIFFERS(4.1e-5, ONE(GRADIENT, 2), .from = 3)),
     TENSOR("gradient_2")},
    {"what one unit makes in a step is",
     EDITS(EDIT(FORCED, .value = 1, .from = 1), EDIT(DIFFERENCE, PERTURBED, 3e-7, EVERY(PARAMETER)),
           EDIT(DIFFERENCE, PERTURBED, 1.9e-6, EVERY(GRADIENT), .from = 2),
           DIFFERS(3.7e-5, ONE(GRADIENT, 2), .from = 3))},
    {"a change that is mostly rounding", EDITS(EDIT(TOO_SMALL, .value = 0.07, ONE(PARAMETER, 2), .from = 3)),
     NOT_COMPARABLE(CHAOTIC), .first = "parameter_2", .says = "by little more than"},
    {"a change that is hardly rounding", EDITS(EDIT(TOO_SMALL, .value = 0.06, ONE(PARAMETER, 2), .from = 3))},
    {"products in bfloat16", EDITS(EDIT(TYPES, .value = 2), DIFFERS(0.031, EVERY(GRADIENT)))},
    {"products in float16", EDITS(EDIT(TYPES, .value = 1), GRADIENT_DIFFERS(0.031)), TENSOR("gradient_2")},
    {"products in bfloat16 are in no update",
     EDITS(EDIT(TYPES, .value = 2), EDIT(CHANGED, .value = 1.01e-5, ONE(PARAMETER, 2), .from = 3)),
     TENSOR("parameter_2")},
    {"an update that differs by its rounding",
     EDITS(EDIT(TYPES, .value = 0), EDIT(CHANGED, .value = 0.99e-5, ONE(PARAMETER, 2), .from = 3))},
    {"an update that differs by as little as repeating the program, which hides mistakes",
     EDITS(EDIT(TYPES, .value = 2), EDIT(CHANGED, AGAIN, 1e-5, ONE(PARAMETER, 2), .from = 3),
           EDIT(CHANGED, .value = 4.1e-5, ONE(PARAMETER, 2), .from = 3)),
     NOT_COMPARABLE(CHAOTIC), .first = "parameter_2"},
    {"the noise of a gradient that has vanished",
     EDITS(EDIT(NORM, .value = 1e-7, ONE(GRADIENT, 2), .from = 3), DIFFERS(400, ONE(GRADIENT, 2), .from = 3))},
    {"more than the noise of a gradient that has vanished",
     EDITS(EDIT(NORM, .value = 1e-7, ONE(GRADIENT, 2), .from = 3), DIFFERS(800, ONE(GRADIENT, 2), .from = 3)),
     TENSOR("gradient_2")},
    {"the noise of a gradient that has vanished, as large as it, beside products in bfloat16",
     EDITS(EDIT(TYPES, .value = 2), EDIT(NORM, .value = 1, ONE(GRADIENT, 2), .from = 3),
           DIFFERS(0.17, ONE(GRADIENT, 2), .from = 3)),
     NOT_COMPARABLE(CHAOTIC), .first = "gradient_2"},
    {"last bits that a right update explains", EDITS(EDIT(FLIPPED, .value = 3e-5, ONE(PARAMETER, 2), .from = 3))},
    {"more of them", EDITS(EDIT(FLIPPED, .value = 6e-5, ONE(PARAMETER, 2), .from = 3)), NOT_COMPARABLE(CHAOTIC),
     .first = "parameter_2", .says = "the changes do not have the same bits"},
    {"more of them, as where the program is repeated",
     EDITS(EDIT(FLIPPED, AGAIN, 6e-5, ONE(PARAMETER, 2), .from = 3),
           EDIT(FLIPPED, .value = 6e-5, ONE(PARAMETER, 2), .from = 3))},
    {"far more of them", EDITS(EDIT(FLIPPED, .value = 6.6e-5, ONE(PARAMETER, 2), .from = 3)), TENSOR("parameter_2")},
    {"no parameter moves", .mutant = "CHECK_UNMOVED_EQUAL", EDITS(EDIT(UNMOVED, .role = ANY)), NOT_COMPARABLE(UNMOVED)},
    {"one parameter moves", EDITS(EDIT(UNMOVED, .role = CHECK_PARAMETER, .first = 1, .last = TENSORS - 1))},

    /* ---- the ranks among themselves ---- */
    {"other bits of a parameter on rank 1", .mutant = "CHECK_RANKS_APART", EDITS(OTHER_BITS), DIFFERENT(RANKS),
     .first = "parameter_2", .says = "after step 2 parameter 3 of 6"},
    {"the same: do its ranks repeat them?", EDITS(OTHER_BITS), DIFFERENT(RANKS), .wishes = "again"},
    {"other bits that its ranks repeat", EDITS(OTHER_BITS, OTHER_BITS_AGAIN), DIFFERENT(RANKS), .wishes = ""},
    {"other bits that rank 1 does not repeat",
     EDITS(OTHER_BITS, EDIT(HASH, TWICE, 8, ONE(PARAMETER, 2), .from = 3, .rank = 2))},
    {"the same on rank 0, in another step",
     EDITS(OTHER_BITS, OTHER_BITS_AGAIN, EDIT(HASH, TWICE, 8, ONE(PARAMETER, 2), .from = 4, .rank = 1))},
    {"other bits in 16 bits, in two runs: once more, for noise may have hidden", EDITS(IN_16_BITS, OTHER_BITS_AGAIN),
     DIFFERENT(RANKS), .wishes = "again"},
    {"the same in three runs",
     EDITS(IN_16_BITS, OTHER_BITS_AGAIN, EDIT(HASH, THRICE, 7, ONE(PARAMETER, 2), .from = 3, .rank = 2)),
     DIFFERENT(RANKS), .wishes = "again"},
    {"the same in four runs",
     EDITS(IN_16_BITS, OTHER_BITS_AGAIN, EDIT(HASH, THRICE, 7, ONE(PARAMETER, 2), .from = 3, .rank = 2),
           EDIT(HASH, FOURTH, 7, ONE(PARAMETER, 2), .from = 3, .rank = 2)),
     DIFFERENT(RANKS), .wishes = ""},
    {"other bits in 16 bits that the third run of rank 1 does not repeat",
     EDITS(IN_16_BITS, OTHER_BITS_AGAIN, EDIT(HASH, THRICE, 8, ONE(PARAMETER, 2), .from = 3, .rank = 2))},
    {"other bits of an average, and others each time",
     EDITS(EDIT(HASH, .value = 7, ONE(GRADIENT, 1), .rank = 2), EDIT(HASH, TWICE, 8, ONE(GRADIENT, 1), .rank = 2)),
     DIFFERENT(RANKS), .first = "gradient_1"},
    {"the same of another parameter",
     EDITS(OTHER_BITS, OTHER_BITS_AGAIN, EDIT(HASH, TWICE, 8, ONE(PARAMETER, 1), .from = 3, .rank = 2)),
     DIFFERENT(RANKS), .first = "parameter_2"},
    {"other bits on rank 1 before the first step", EDITS(EDIT(HASH, .value = 7, ONE(PARAMETER, 2), .rank = 2)),
     DIFFERENT(RANKS), .first = "parameter_2", .says = "after initialisation"},
    {"other bits of a gradient on rank 2", .ranks = 4,
     EDITS(EDIT(HASH, .value = 7, ONE(GRADIENT, 1), .from = 2, .rank = 3)), DIFFERENT(RANKS), .first = "gradient_1",
     .says = "in step 2 gradient 2 of 6"},
    {"other bits, and later a difference from one rank",
     EDITS(EDIT(HASH, .value = 7, ONE(PARAMETER, 2), .from = 2, .rank = 2), DIFFERS(0.1, EVERY(PARAMETER), .from = 3)),
     DIFFERENT(RANKS), .first = "parameter_2"},
    {"other bits where one rank's differ, too",
     EDITS(EDIT(HASH, .value = 7, ONE(PARAMETER, 2), .from = 2, .rank = 2), PARAMETERS_MOVE), DIFFERENT(UPDATE)},
    {"a hash that is not known", EDITS(EDIT(HASH, .value = 0, ONE(PARAMETER, 2), .from = 2, .rank = 2))},
    {"more than chaos explains", EDITS(CHAOS, DIFFERS(0.5, EVERY(PARAMETER), .from = 3)), DIFFERENT(UPDATE)},

    /* ---- the first gradients ---- */
    {"one gradient of many, and what comes of it",
     EDITS(DIFFERS(0.5, ONE(GRADIENT, 3)), DIFFERS(0.2, ONE(PARAMETER, 3), .from = 2),
           DIFFERS(0.7, EVERY(GRADIENT), .from = 2), DIFFERS(0.7, EVERY(PARAMETER), .from = 3)),
     TENSOR("gradient_3"),
     .says = "in step 1 averaged gradient 4 of 6, `gradient_3` (train.cu:10), 1024 elements, differs on all "
             "ranks from that of one process by 0.5 times its norm; 5 of 6 gradients are equal"},
    {"on rank 1 alone", .ranks = 3, EDITS(DIFFERS(0.5, ONE(GRADIENT, 3), .rank = 2)), TENSOR("gradient_3"),
     .says = "differs on rank 1 from that of one process by 0.5 times its norm"},
    {"on two ranks of three", .ranks = 3,
     EDITS(DIFFERS(0.5, ONE(GRADIENT, 3), .rank = 2), DIFFERS(0.4, ONE(GRADIENT, 3), .rank = 3)), TENSOR("gradient_3"),
     .says = "on 2 of 3 ranks, rank 1 first"},
    {"a gradient beside a mean that differs more", EDITS(DIFFERS(0.1, ONE(GRADIENT, 3)), DIFFERS(0.5, ONE(MEAN, 0))),
     TENSOR("gradient_3"), .says = "5 of 6 gradients are equal"},
    {"all gradients",
     EDITS(DIFFERS(0.3, EVERY(GRADIENT)), DIFFERS(0.3, EVERY(PARAMETER), .from = 2), DIFFERS(0.3, EVERY(MEMORY))),
     DIFFERENT(DIRECTION), .says = "shuffle", .wishes = "probe"},

    {"without DDP_SHARD shares are not known", EDITS(DIFFERS(0.3, EVERY(GRADIENT)), NO_SHARDS), DIFFERENT(DIRECTION)},

    {"what is equal is noise",
     EDITS(EDIT(DIFFERENCE, .value = 0.3, .role = CHECK_GRADIENT, .first = 0, .last = 4),
           EDIT(NORM, .value = 1e-8, ONE(GRADIENT, 5))),
     DIFFERENT(DIRECTION)},

    {"norms that are nearly the same",
     EDITS(DIFFERS(0.3, EVERY(GRADIENT)), EDIT(NORM, .value = 2, EVERY(GRADIENT)),
           EDIT(NORM, .value = 2.001, EVERY(GRADIENT), .from = 3)),
     DIFFERENT(DIRECTION)},

    {"a gradient of doubles, where parameters are floats",
     EDITS(EDIT(WIDE, ONE(GRADIENT, 3)), DIFFERS(0.3, EVERY(GRADIENT))), DIFFERENT(TENSOR),
     .says = "gradient 4, `gradient_3` (train.cu:10), 1024 elements of float64, and no parameter has this type"},
    {"gradients and parameters of doubles",
     EDITS(EDIT(WIDE, EVERY(GRADIENT)), EDIT(WIDE, EVERY(PARAMETER)), DIFFERS(0.3, EVERY(GRADIENT))),
     DIFFERENT(DIRECTION)},

    /* ---- a factor ---- */
    {"a half", EDITS(GRADIENTS_TIMES(0.5), PARAMETERS_MOVE), DIFFERENT(SCALE),
     .says = "0.5 times that of one process, the reciprocal of the number of ranks"},
    {"a quarter on four ranks", .ranks = 4, EDITS(GRADIENTS_TIMES(0.25), PARAMETERS_MOVE), DIFFERENT(SCALE),
     .says = "the reciprocal of the number of ranks"},
    {"three times on three ranks", .ranks = 3, EDITS(GRADIENTS_TIMES(3), PARAMETERS_MOVE, EDIT(SUMS)), DIFFERENT(SCALE),
     .says = "3 times that of one process, the number of ranks"},
    {"another factor", EDITS(GRADIENTS_TIMES(1.3), PARAMETERS_MOVE), DIFFERENT(SCALE),
     .says = "1.3 times that of one process"},
    {"a factor, but for a gradient that is noise",
     EDITS(GRADIENTS_TIMES(0.5), PARAMETERS_MOVE, EDIT(NORM, .value = 1e-8, ONE(GRADIENT, 3))), DIFFERENT(SCALE),
     .says = "0.5"},
    {"two factors", EDITS(GRADIENTS_TIMES(0.5), EDIT(FACTOR, .value = 0.6, ONE(GRADIENT, 3))), DIFFERENT(DIRECTION)},
    {"a factor of one gradient", EDITS(EDIT(FACTOR, .value = 0.5, ONE(GRADIENT, 3))), DIFFERENT(SCALE),
     .first = "gradient_3", .says = "the reciprocal of the number of ranks; 5 of 6"},
    {"gradients that are zero on the ranks", EDITS(GRADIENTS_TIMES(0)), DIFFERENT(DIRECTION)},
    {"a factor, and memory that the same function updates as parameters",
     EDITS(GRADIENTS_TIMES(0.5), PARAMETERS_MOVE, EDIT(IN_PLACE, .role = CHECK_MEMORY, .last = 5),
           DIFFERS(0.5, EVERY(MEMORY))),
     DIFFERENT(SCALE), .wishes = "probe"},

    {"a half, and equal parameters", EDITS(GRADIENTS_TIMES(0.5)), NOT_COMPARABLE(SCALE),
     .says = "the update removes the factor"},
    {"another factor, and equal parameters", EDITS(GRADIENTS_TIMES(1.3)), NOT_COMPARABLE(SCALE),
     .says = "the update removes the factor"},
    {"a half that the update undoes: one rank's would be another with half of the gradients",
     EDITS(HALF_AS_FORCED, DIFFERS(0.5, ONE(MEMORY, 0)), EDIT(ADDED, SCALED, 0.5, ONE(PARAMETER, 0), .from = 2),
           EDIT(ADDED, SCALED, 0.5, ONE(MEMORY, 0), .from = 3))},
    {"a half that the update undoes, and memory that it does not explain",
     EDITS(HALF_AS_FORCED, DIFFERS(0.7, ONE(MEMORY, 0)), EDIT(ADDED, SCALED, 0.5, ONE(PARAMETER, 0), .from = 2),
           EDIT(ADDED, SCALED, 0.5, ONE(MEMORY, 0), .from = 3)),
     DIFFERENT(UNANNOTATED), .first = "memory_0", .wishes = "probe"},
    {"a half that the update does not know of", .mutant = "CHECK_FACTOR_TRUSTED",
     EDITS(HALF_AS_FORCED, EDIT(ADDED, SCALED, 0, ONE(PARAMETER, 0), .from = 2)), NOT_COMPARABLE(SCALE),
     .says = "the update removes the factor", .wishes = "factor"},
    {"a half that is not known to be undone", EDITS(HALF_AS_FORCED), NOT_COMPARABLE(SCALE), .wishes = "factor"},
    {"a half that the update undoes, and a gradient that is no half in step 3",
     EDITS(HALF_AS_FORCED, EDIT(FACTOR, .value = 0.6, ONE(GRADIENT, 3), .from = 3),
           EDIT(ADDED, SCALED, 0.5, ONE(PARAMETER, 0), .from = 2)),
     TENSOR("gradient_3"), .says = "in step 3"},
    {"a half that the update undoes, and one parameter that differs",
     EDITS(HALF_AS_FORCED, DIFFERS(0.1, ONE(PARAMETER, 2), .from = 3),
           EDIT(ADDED, SCALED, 0.5, ONE(PARAMETER, 0), .from = 2)),
     TENSOR("parameter_2"), .says = "after step 2"},
    {"the same, if only the parameter that differs would show it",
     EDITS(HALF_AS_FORCED, DIFFERS(0.1, ONE(PARAMETER, 2), .from = 3),
           EDIT(ADDED, SCALED, 0.5, ONE(PARAMETER, 2), .from = 2)),
     DIFFERENT(SCALE), .wishes = "factor"},

    /* ---- updates ---- */
    {"parameters that are updated after the last DDP_STEP", EDITS(EDIT(UPDATED_AFTER, .first = 1)), DIFFERENT(UPDATE),
     .says = "after step 3, the last DDP_STEP"},
    {"the same, which is an alarm, too", EDITS(EDIT(UPDATED_AFTER, .first = 1), EDIT(ALARM, .rank = 2)),
     DIFFERENT(UPDATE), .says = "after step 3, the last DDP_STEP"},
    {"the same, and a parameter that differs", EDITS(EDIT(UPDATED_AFTER, .first = 1), PARAMETERS_MOVE),
     DIFFERENT(UPDATE), .says = "gradients of the step are equal"},
    {"ranks that update after two DDP_STEPs, and one process after three",
     EDITS(EDIT(UNMOVED, .role = ANY), EDIT(MOVED, EVERY(PARAMETER), .from = 4),
           DIFFERS(0.1, ONE(PARAMETER, 2), .from = 3)),
     DIFFERENT(UPDATE), .says = "the ranks update it after 2 DDP_STEPs, and one process after 3"},
    {"ranks that update after two DDP_STEPs, and one process after each",
     EDITS(EDIT(TIMES, .value = 0, EVERY(PARAMETER), .from = 3), EDIT(TIMES, .value = 1, EVERY(PARAMETER), .from = 4)),
     DIFFERENT(UPDATE), .says = "one process updates parameters after 1 DDP_STEP, and the ranks after 2"},
    {"ranks that leave one update out",
     EDITS(EDIT(TIMES, .value = 0, EVERY(PARAMETER), .from = 2), EDIT(TIMES, .value = 1, EVERY(PARAMETER), .from = 3)),
     DIFFERENT(UPDATE), .says = "values that are not averaged"},
    {"gradients of fewer elements than what is updated",
     EDITS(EDIT(COUNT, .value = 512, EVERY(GRADIENT)), PARAMETERS_MOVE), DIFFERENT(UPDATE),
     .says = "DDP_GRADIENT names 3072 elements in all"},
    {"a half, and one parameter that differs", EDITS(GRADIENTS_TIMES(0.5), DIFFERS(0.1, ONE(PARAMETER, 2), .from = 3)),
     DIFFERENT(SCALE), .says = "the reciprocal of the number of ranks"},

    /* ---- shares ---- */
    {"the same batch on all ranks", EDITS(EDIT(SAME_DATA)), DIFFERENT(SAME_BATCH), .says = "all 2 ranks"},
    {"two gradients of six that are half of one rank's",
     EDITS(EDIT(FACTOR, .value = 0.5, ONE(GRADIENT, 2)), EDIT(FACTOR, .value = 0.5, ONE(GRADIENT, 4))),
     DIFFERENT(SCALE), .first = "gradient_2", .says = "4 of 6 gradients are equal"},
    {"two gradients of six with factors of their own",
     EDITS(EDIT(FACTOR, .value = 0.5, ONE(GRADIENT, 2)), EDIT(FACTOR, .value = 0.6, ONE(GRADIENT, 4))),
     DIFFERENT(DIRECTION)},
    {"the same own gradients of other data", EDITS(EDIT(OWN, RANKS, 7, .from = 1), EDIT(OWN, RANKS, 8, .from = 2),
                                                   EDIT(ON_HOST, .value = 2, .first = 1, .from = 1, .rank = 1),
                                                   EDIT(ON_HOST, .value = 3, .first = 1, .from = 1, .rank = 2))},
    {"the same own gradients in one step", EDITS(EDIT(OWN, RANKS, 7, .from = 1))},
    {"the same own gradients on two ranks of three", .ranks = 3,
     EDITS(EDIT(OWN, RANKS, 7, .from = 1), EDIT(OWN, RANKS, 8, .from = 2), EDIT(OWN, RANKS, 9, .from = 2, .rank = 3))},
    {"own gradients are not known", EDITS(EDIT(OWN, RANKS, -1))},
    {"one batch on all ranks, and not one rank's", EDITS(EDIT(SAME_DATA), DIFFERS(0.3, EVERY(GRADIENT))),
     DIFFERENT(DIRECTION), .says = "all ranks compute one batch"},
    {"items that do not divide evenly", EDITS(EDIT(UNEVEN, RANKS, 25), DIFFERS(0.3, EVERY(GRADIENT))),
     NOT_COMPARABLE(INDIVISIBLE), .says = "25 items"},
    {"items that do not divide evenly, and gradients that are right all the same", EDITS(EDIT(UNEVEN, RANKS, 25))},
    {"a batch of its own on each rank",
     EDITS(DIFFERS(0.3, EVERY(GRADIENT)), NO_SHARDS, EDIT(COPIED, RANKS, 4700, .from = 2)), NOT_COMPARABLE(DATA_SET)},
    {"half a batch on each rank", EDITS(DIFFERS(0.3, EVERY(GRADIENT)), NO_SHARDS, EDIT(COPIED, RANKS, 2400, .from = 2)),
     DIFFERENT(DIRECTION)},
    {"a whole batch on one rank alone",
     EDITS(DIFFERS(0.3, EVERY(GRADIENT)), NO_SHARDS, EDIT(COPIED, RANKS, 4800, .from = 2, .rank = 1)),
     DIFFERENT(DIRECTION)},
    {"copies too small to tell",
     EDITS(DIFFERS(0.3, EVERY(GRADIENT)), NO_SHARDS, EDIT(COPIED, RANKS, 900, .from = 2),
           EDIT(COPIED, ALONE, 900, .from = 2)),
     DIFFERENT(DIRECTION)},
    {"twice as many items are shared out", EDITS(DIFFERS(0.3, EVERY(GRADIENT)), EDIT(SHARD, RANKS, 48)),
     NOT_COMPARABLE(DATA_SET)},

    /* ---- before the first step, and after it ---- */
    {"another start on rank 1", EDITS(DIFFERS(1, EVERY(PARAMETER), .rank = 2), DIFFERS(0.3, EVERY(GRADIENT))),
     DIFFERENT(START), .says = "before step 1 parameter 1"},
    {"another start of one parameter on rank 1", EDITS(DIFFERS(1, ONE(PARAMETER, 2), .rank = 2)), DIFFERENT(START),
     .first = "parameter_2", .says = "on rank 1"},
    {"parameters have moved before the first boundary, on rank 0 too",
     EDITS(DIFFERS(0.1, EVERY(PARAMETER)), EDIT(HASH, .value = 7, EVERY(PARAMETER), .rank = 2),
           DIFFERS(0.3, EVERY(GRADIENT))),
     DIFFERENT(UPDATE), .says = "before its first DDP_STEP"},
    {"parameters begin with values of rank 0's share", EDITS(DIFFERS(0.1, EVERY(PARAMETER))), DIFFERENT(START),
     .says = "all ranks have the same values"},
    {"one parameter has, as others have not moved by more than the tolerance",
     EDITS(DIFFERS(0.1, ONE(PARAMETER, 2)), EDIT(HASH, .value = 7, ONE(PARAMETER, 2), .rank = 2)),
     TENSOR("parameter_2"), .says = "before its first DDP_STEP"},
    {"gradients are equal, parameters are not", EDITS(PARAMETERS_MOVE, DIFFERS(0.9, EVERY(GRADIENT), .from = 2)),
     DIFFERENT(UPDATE),
     .says = "after step 1 parameter 1 of 6, `parameter_0` (train.cu:10), 1024 elements, differs on all ranks from "
             "that of one process by 0.1 times its norm"},
    {"in a later step",
     EDITS(DIFFERS(0.1, EVERY(PARAMETER), .from = 3), EDIT(HASH, .value = 7, EVERY(PARAMETER), .from = 3, .rank = 2)),
     DIFFERENT(UPDATE), .says = "that are not averaged"},
    {"one parameter", EDITS(DIFFERS(0.1, ONE(PARAMETER, 2), .from = 2)), TENSOR("parameter_2"),
     .says = "after step 1 parameter 3 of 6, `parameter_2` (train.cu:10), 1024 elements, differs on all ranks from "
             "that of one process by 0.1 times its norm; the annotated gradients of the step are equal; 5 of 6 "
             "parameters are equal in that step"},
    {"two parameters of eight",
     EDITS(EDIT(ADDED, .value = 0.1, ONE(PARAMETER, 6), .from = 2),
           EDIT(ADDED, .value = 0.2, ONE(PARAMETER, 7), .from = 2)),
     TENSOR("parameter_7"), .says = "6 of 8 parameters are equal in that step"},
    {"one parameter, and more of its momentum",
     EDITS(DIFFERS(0.1, ONE(PARAMETER, 2), .from = 3), DIFFERS(0.5, ONE(MEMORY, 2), .from = 3)), TENSOR("parameter_2"),
     .says = "5 of 6 parameters are equal in that step", .wishes = "probe"},
    {"gradients of the second step", EDITS(DIFFERS(0.1, EVERY(GRADIENT), .from = 2)), DIFFERENT(UPDATE),
     .says = "in step 2"},

    {"unequal shares of the second batch",
     EDITS(DIFFERS(0.1, EVERY(GRADIENT), .from = 2), EDIT(UNEVEN, .value = 21, .from = 1),
           EDIT(SHARD, ALONE, 21, .from = 1)),
     NOT_COMPARABLE(INDIVISIBLE), .says = "in step 2 the 21 items"},

    {"another number of items in a later step",
     EDITS(DIFFERS(0.1, EVERY(GRADIENT), .from = 2), EDIT(SHARD, .value = 20, .from = 2)), DIFFERENT(UPDATE)},

    {"one gradient of the second step", EDITS(DIFFERS(0.1, ONE(GRADIENT, 2), .from = 2)), TENSOR("gradient_2")},
    {"a buffer", EDITS(DIFFERS(0.1, ONE(BUFFER, 0))), TENSOR("buffer_0"), .says = "copies rank 0's buffer"},
    {"a mean, which may be shown only", EDITS(DIFFERS(0.1, ONE(MEAN, 1)))},
    {"a mean that does not repeat on one rank: a time",
     EDITS(DIFFERS(0.1, ONE(MEAN, 1)), EDIT(DIFFERENCE, AGAIN, 0.2, ONE(MEAN, 1)))},

    /* ---- the factor of the update ---- */
    {"twice one rank's change, on all ranks", .mutant = "CHECK_FACTOR_UNSEEN",
     EDITS(EDIT(TIMES, .value = 2, EVERY(PARAMETER), .from = 2)), DIFFERENT(UPDATE),
     .says = "the change is 2 times that of one process, the number of ranks"},
    {"a quarter on four ranks' updates", .ranks = 4, EDITS(EDIT(TIMES, .value = 0.25, EVERY(PARAMETER), .from = 2)),
     DIFFERENT(UPDATE), .says = "0.25 times that of one process"},
    {"twice one rank's change, on rank 1", EDITS(EDIT(TIMES, .value = 2, EVERY(PARAMETER), .from = 2, .rank = 2)),
     DIFFERENT(UPDATE), .says = "compute it from the step"},
    {"a factor of one parameter", EDITS(EDIT(TIMES, .value = 0.5, ONE(PARAMETER, 3), .from = 2)), TENSOR("parameter_3"),
     .says = "times the change there in this step: the change is 0.5 times that of one process, as if the mean were "
             "divided by the number of ranks after DDP_STEP; the annotated gradients of the step are equal; 5 of 6"},
    {"a factor of a parameter beside another difference, which is larger",
     EDITS(DIFFERS(0.7, ONE(PARAMETER, 1), .from = 2), EDIT(TIMES, .value = 0.5, ONE(PARAMETER, 3), .from = 2)),
     DIFFERENT(UPDATE),
     .says = "by 0.7 times its norm: the change of other parameters is 0.5 times that of one process, as "
             "if the mean were divided by the number of ranks after DDP_STEP; the annotated gradients"},
    {"half the change: what to do", EDITS(EDIT(TIMES, .value = 0.5, EVERY(PARAMETER), .from = 2)), DIFFERENT(UPDATE),
     .says = "divided by the number of ranks after DDP_STEP"},
    {"a half of the first moments and a third of the second",
     EDITS(EDIT(FACTOR, .value = 0.5, .role = CHECK_MEMORY, .first = 0, .last = 2),
           EDIT(FACTOR, .value = 0.33, .role = CHECK_MEMORY, .first = 3, .last = 5)),
     DIFFERENT(UNANNOTATED), .wishes = "probe"},

    {"a parameter at rest", EDITS(EDIT(UNMOVED, ONE(PARAMETER, 2), .from = 3))},

    /* ---- what is not averaged ---- */
    {"half of a gradient",
     EDITS(EDIT(CHANGED, .value = 0.5, ONE(PARAMETER, 2), .from = 2), EDIT(COUNT, .value = 512, ONE(GRADIENT, 2))),
     TENSOR("parameter_2"), .says = "annotate the gradient with DDP_GRADIENT and its full count"},
    {"a gradient of all parameters together",
     EDITS(EDIT(CHANGED, .value = 0.5, ONE(PARAMETER, 2), .from = 2), EDIT(COUNT, .value = 6144, ONE(GRADIENT, 2))),
     TENSOR("parameter_2"), .says = "5 of 6 parameters are equal in that step"},

    /* ---- zeros, and what is not finite ---- */
    {"all gradients but one are zero, and that one differs", .mutant = "CHECK_ZEROS_TELL",
     EDITS(EDIT(NORM, .value = 0, EVERY(GRADIENT)), EDIT(NORM, .value = 10, ONE(GRADIENT, 3)),
           EDIT(NORM, .value = 20, ONE(GRADIENT, 3), .from = 2), DIFFERS(0.5, ONE(GRADIENT, 3))),
     DIFFERENT(DIRECTION)},
    {"a gradient that is not finite on one rank, either", .mutant = "CHECK_ENDLESS_COUNTS",
     EDITS(EDIT(UNBOUNDED, .value = 3, ONE(GRADIENT, 2)), EDIT(ENDLESS, .value = 5, ONE(GRADIENT, 2)))},
    {"parameters that are NaN on one rank, too", .mutant = "CHECK_NAN_EQUAL", EDITS(NAN_IN_ONE_PROCESS),
     NOT_COMPARABLE(ENDLESS), .says = "--steps 1"},
    {"parameters that are NaN from the start on one rank, too", EDITS(EDIT(NAN_ALONE, ALONE, .first = 2, .from = 1))},
    {"parameters that are NaN on one rank, and an earlier difference",
     EDITS(NAN_IN_ONE_PROCESS, DIFFERS(0.5, ONE(GRADIENT, 3))), TENSOR("gradient_3")},
    {"parameters that are NaN on one rank, and finite on the others",
     EDITS(NAN_IN_ONE_PROCESS, EDIT(UNBOUNDED, .value = 3, ONE(PARAMETER, 2), .from = 3)), DIFFERENT(OVERFLOW),
     .first = "parameter_2"},

    /* ---- unannotated memory ---- */
    {"memory in a parameter's place",
     EDITS(EDIT(IN_PLACE, ONE(MEMORY, 1)), DIFFERS(0.2, ONE(MEMORY, 1)), DIFFERS(0.1, EVERY(GRADIENT), .from = 2)),
     DIFFERENT(UNANNOTATED), .first = "memory_1", .says = "annotate all of it with DDP_PARAMETER", .wishes = "probe"},
    {"memory in a parameter's place, which tells the ranks apart",
     EDITS(EDIT(HASH, .value = 7, ONE(PARAMETER, 2), .from = 2, .rank = 2), EDIT(IN_PLACE, ONE(MEMORY, 1)),
           DIFFERS(0.2, ONE(MEMORY, 1), .from = 3)),
     DIFFERENT(UNANNOTATED), .first = "memory_1", .says = "annotate all of it with DDP_PARAMETER"},
    {"memory beside parameters", EDITS(DIFFERS(0.2, ONE(MEMORY, 1))), DIFFERENT(UNANNOTATED), .first = "memory_1",
     .says = "optimizer state", .wishes = "probe"},
    {"scratch memory: of a change nothing is left",
     EDITS(DIFFERS(0.2, ONE(MEMORY, 1)), EDIT(RETAINED, PROBE, 0.05, .first = 1))},
    {"memory of which a change is still there",
     EDITS(DIFFERS(0.2, ONE(MEMORY, 1)), EDIT(RETAINED, PROBE, 0.9, .first = 1)), DIFFERENT(UNANNOTATED),
     .first = "memory_1"},
    {"memory of zeros, of which the probe says nothing",
     EDITS(DIFFERS(0.2, ONE(MEMORY, 1)), EDIT(RETAINED, PROBE, NAN, .first = 1)), DIFFERENT(UNANNOTATED),
     .first = "memory_1"},
    {"the probe has found another one to be scratch",
     EDITS(DIFFERS(0.2, ONE(MEMORY, 1)), EDIT(RETAINED, PROBE, 0.05, .first = 2)), DIFFERENT(UNANNOTATED),
     .first = "memory_1"},

    /* ---- overflow ---- */
    {"infinite on the ranks alone", EDITS(EDIT(UNBOUNDED, .value = 3, ONE(GRADIENT, 2))), DIFFERENT(OVERFLOW),
     .first = "gradient_2"},
    {"infinite with --compress", EDITS(EDIT(UNBOUNDED, .value = 3, EVERY(GRADIENT)), EDIT(COMPRESSED)),
     DIFFERENT(OVERFLOW), .says = "--compress bf16"},
    {"infinite when one rank starts nearby, too",
     EDITS(EDIT(UNBOUNDED, .value = 3, ONE(GRADIENT, 2), .from = 3),
           EDIT(UNBOUNDED, PERTURBED, 3, ONE(GRADIENT, 2), .from = 3)),
     NOT_COMPARABLE(CHAOTIC)},
    {"infinite only after other differences",
     EDITS(GRADIENT_DIFFERS(0.5), EDIT(UNBOUNDED, .value = 3, ONE(GRADIENT, 2), .from = 3)), TENSOR("gradient_2")},

    /* ---- ranks that take turns ---- */
    {"by plan a gradient differs", EDITS(EDIT(BY_PLAN), GRADIENT_DIFFERS(0.5)), DIFFERENT(PLAN), .first = "gradient_2",
     .says = "in round 1 averaged "},
    {"by plan an update differs", EDITS(EDIT(BY_PLAN), DIFFERS(0.5, ONE(PARAMETER, 1), .from = 3)), DIFFERENT(PLAN),
     .first = "parameter_1", .says = "after round 2"},
    {"by plan rounding is no difference", EDITS(EDIT(BY_PLAN), DIFFERS(1e-6, EVERY(GRADIENT)))},
    {"a plan that a proof refuses", EDITS(EDIT(BY_PLAN), EDIT(REFUTED)), DIFFERENT(PLAN),
     .says = "proof (d) of the plan fails: after round 1"},
    {"a plan that cannot be proved", EDITS(EDIT(BY_PLAN), EDIT(UNPROVED)), NOT_COMPARABLE(PLAN),
     .says = "is not possible here: short"},
    {"a plan that cannot be proved, and a gradient differs",
     EDITS(EDIT(BY_PLAN), EDIT(UNPROVED), GRADIENT_DIFFERS(0.5)), DIFFERENT(PLAN), .first = "gradient_2"},

    /* ---- overlap, and ends ---- */
    {"differs with overlap", EDITS(OVERLAP_DIFFERS), DIFFERENT(UPDATE), .wishes = "plain"},
    {"is right without", EDITS(OVERLAP_DIFFERS, EDIT(NOTHING, PLAIN), EDIT(DIFFERENCE, PLAIN, 1e-6, ONE(GRADIENT, 0))),
     DIFFERENT(OVERLAP), .says = "--no-overlap"},
    {"is wrong without, too", EDITS(OVERLAP_DIFFERS, EDIT(DIFFERENCE, PLAIN, 0.1, EVERY(PARAMETER), .from = 3)),
     DIFFERENT(UPDATE)},
    {"ddprun ended the run", EDITS(EDIT(STOPPED), DIFFERS(0.1, EVERY(PARAMETER), .from = 4)), DIFFERENT(STOPPED),
     .says = "rank 1 waited"},
    {"ddprun ended the run a step behind a difference", EDITS(EDIT(STOPPED), DIFFERS(0.1, EVERY(PARAMETER), .from = 3)),
     DIFFERENT(UPDATE), .says = "in a later step ddprun ended the run, perhaps because of this: rank 1 waited"},
    {"ddprun ended the run, in which nothing differs", EDITS(EDIT(STOPPED)), DIFFERENT(STOPPED)},
    {"all ranks end before one process does", EDITS(EDIT(STOPPED_ALIKE, .value = 2)), DIFFERENT(STOPPED),
     .says = "all 2 ranks end by themselves after step 2, and one process continues to step 3"},
    {"one rank's program ends, and the ranks' goes on", .mutant = "CHECK_END_UNSEEN", EDITS(EDIT(ENDED)),
     DIFFERENT(STOPPED), .says = "rank 0 continues"},
    {"ddprun would have ended it", EDITS(EDIT(ALARM, .rank = 2)), DIFFERENT(STOPPED),
     .says = "what would have ended the job"},

    /* ---- DDP_REDUCE ---- */
    {"a result besides", EDITS(EDIT(ADDED, .value = 0.5, ONE(REDUCE, 0), .from = 2)), NOT_COMPARABLE(REDUCTION),
     .first = "reduction_0", .says = "parameters are equal"},
    {"a result besides, behind a mistake",
     EDITS(EDIT(ADDED, .value = 0.5, ONE(REDUCE, 0), .from = 1), GRADIENT_DIFFERS(0.5)), TENSOR("gradient_2")},
    {"a result besides that one rank does not repeat",
     EDITS(EDIT(ADDED, .value = 0.5, ONE(REDUCE, 0), .from = 2), EDIT(ADDED, AGAIN, 0.5, ONE(REDUCE, 0), .from = 2))},
    {"N times a result besides",
     EDITS(EDIT(ADDED, .value = 0.5, ONE(REDUCE, 0), .from = 2), EDIT(FACTOR, .value = 2, ONE(REDUCE, 0)))},
    {"rounds", EDITS(EDIT(ROUNDS))},
    {"rounds, of which none is shown to depend on another", EDITS(EDIT(ROUNDS, .value = 1)),
     NOT_COMPARABLE(INDEPENDENT), .wishes = "factor"},
    {"rounds that do not depend on each other", .mutant = "CHECK_INDEPENDENT_EQUAL",
     EDITS(EDIT(ROUNDS, .value = 1), EDIT(ADDED, SCALED, 0, ONE(REDUCE, 0), .from = 2)), NOT_COMPARABLE(INDEPENDENT),
     .wishes = ""},
    {"a sum of a round", EDITS(EDIT(ROUNDS), DIFFERS(1e-3, ONE(REDUCE, 0), .from = 2)), DIFFERENT(REDUCTION),
     .first = "reduction_0", .says = "has no DDP_REDUCE"},
    {"a whole number of a round", EDITS(EDIT(ROUNDS), DIFFERS(1e-9, ONE(REDUCE, 1), .from = 3)), DIFFERENT(REDUCTION),
     .first = "reduction_1"},
    {"the first of several results", EDITS(EDIT(ROUNDS), DIFFERS(1e-3, ONE(REDUCE, 0)), DIFFERS(0.5, ONE(REDUCE, 1))),
     DIFFERENT(REDUCTION), .first = "reduction_0", .says = "for a sum or a count that has no DDP_REDUCE"},
    {"a maximum alone", EDITS(EDIT(ROUNDS), DIFFERS(0.3, ONE(REDUCE, 2))), NOT_COMPARABLE(REDUCTION),
     .first = "reduction_2"},
    {"half a maximum", EDITS(EDIT(ROUNDS), EDIT(FACTOR, .value = 0.5, ONE(REDUCE, 2)))},
    {"N times a sum", EDITS(EDIT(ROUNDS), EDIT(FACTOR, .value = 2, ONE(REDUCE, 0))), NOT_COMPARABLE(SCALE),
     .first = "reduction_0", .says = "2 times"},
    {"N times a sum in one round only", EDITS(EDIT(ROUNDS), EDIT(FACTOR, .value = 2, ONE(REDUCE, 0), .from = 2)),
     DIFFERENT(REDUCTION), .first = "reduction_0"},
    {"all ranks reduce the same",
     EDITS(EDIT(ROUNDS), EDIT(OWN, .value = 7, .from = 1), EDIT(OWN, .value = 7, .from = 2)), DIFFERENT(SAME_BATCH)},
    {"rounds that no run repeats", EDITS(EDIT(ROUNDS), EDIT(DIFFERENCE, AGAIN, 0.1, .role = ANY)),
     NOT_COMPARABLE(NOT_REPEATABLE)},
    {"rounds of other calls", EDITS(EDIT(ROUNDS), EDIT(MISSING, .role = ANY)), NOT_COMPARABLE(NOTHING)},
    {"only a tolerance makes a sum equal",
     EDITS(EDIT(ROUNDS), DIFFERS(1e-4, ONE(REDUCE, 0)), EDIT(DIFFERENCE, AGAIN, 1e-4, ONE(REDUCE, 0))),
     NOT_COMPARABLE(CHAOTIC), .first = "reduction_0"},
    {"a sum that is infinite on the ranks", EDITS(EDIT(ROUNDS), EDIT(UNBOUNDED, .value = 3, ONE(REDUCE, 0))),
     DIFFERENT(REDUCTION), .says = "infinite or NaN"},
    {"a mean of unequal shares", EDITS(EDIT(ROUNDS), EDIT(UNEVEN, .value = 25), DIFFERS(0.1, ONE(REDUCE, 3))),
     NOT_COMPARABLE(INDIVISIBLE), .first = "reduction_3", .says = "25 items"},
    {"a mean of equal shares", EDITS(EDIT(ROUNDS), DIFFERS(0.1, ONE(REDUCE, 3))), DIFFERENT(REDUCTION),
     .first = "reduction_3"},

    /* ---- evidence that is not all there ---- */
    {"a rank that was compared with nothing", EDITS(EDIT(MISSING, .role = ANY, .rank = 2)), NOT_COMPARABLE(NOTHING)},
    {"norms that are beyond a double", EDITS(EDIT(INFINITE, ONE(GRADIENT, 2))), TENSOR("gradient_2")},
};

enum { SCENES = sizeof(scenes) / sizeof(scenes[0]) };

static struct world world;
static struct check_verdict verdict;
static struct check_wishes wishes;
static struct check_facts facts;

static void
judge_world(void)
{
    check_facts_find(&world.evidence, &facts);
    verdict_judge(&facts, &verdict);
    verdict_wish(&facts, &verdict, &wishes);
}

/* The verdict on evidence of so many ranks, 0: two, with these changes; forget_world() forgets it. */
static void
judge(int ranks, const struct edit *edits)
{
    make_world(&world, ranks != 0 ? ranks : 2, STEPS);
    for (int i = 0; i < MOST_EDITS; ++i)
        apply(&world, &edits[i]);
    judge_world();
}

static void
forget_world(void)
{
    check_facts_free(&facts);
    free_world(&world);
}

/* A difference from one process begins with its place: which step, tensor, line, size and ranks. */
static bool
begins_as_it_should(const struct check_verdict *verdict)
{
    if (verdict->first == NULL || !verdict->first->differs || verdict->cause == CAUSE_STOPPED ||
        verdict->cause == CAUSE_RANKS) /* which differ from each other */
        return true;
    const char *text = verdict->text, *name = verdict->first->tensor.text, *differs = strstr(text, "differs on ");
    bool begins = strncmp(text, "in step ", 8) == 0 || strncmp(text, "in round ", 9) == 0 ||
                  strncmp(text, "after round ", 12) == 0 || strncmp(text, "after step ", 11) == 0 ||
                  strncmp(text, "before step 1 ", 14) == 0;
    const char *place = strstr(text, name);
    return begins && place != NULL && differs != NULL && place < differs &&
           (strstr(differs, "on all ranks from") != NULL || strstr(differs, "on rank ") != NULL ||
            strstr(differs, " ranks, rank ") != NULL);
}

/* What the verdict is that a scene should have, in a line; empty: as it should be. */
static void
judge_scene(const struct scene *scene, char why[2400])
{
    judge(scene->ranks, scene->edits);
    const char *cause = check_cause_name(verdict.cause),
               *first = verdict.first != NULL ? verdict.first->tensor.text : "none";
    char all[48];
    snprintf(all, sizeof(all), "%s%s%s%s%s", wishes.again ? "again " : "", wishes.plain ? "plain " : "",
             wishes.probe ? "probe " : "", wishes.factor > 0 ? "factor " : "", wishes.far ? "far " : "");
    all[strlen(all) - (all[0] != '\0')] = '\0';
    const char *wanted = scene->wishes != NULL ? scene->wishes : all;
    why[0] = '\0';
    if (verdict.result != scene->result || verdict.cause != scene->cause)
        snprintf(why, 2400, "result %d, cause %s: %s", verdict.result, cause != NULL ? cause : "none", verdict.text);
    else if (scene->first != NULL && strcmp(first, scene->first) != 0)
        snprintf(why, 2400, "it is about %s: %s", first, verdict.text);
    else if (scene->says != NULL && strstr(verdict.text, scene->says) == NULL &&
             strstr(verdict.advice, scene->says) == NULL)
        snprintf(why, 2400, "it says: %s; %s", verdict.text, verdict.advice);
    else if (strcmp(all, wanted) != 0)
        snprintf(why, 2400, "it wishes for: %s", all);
    else if (!begins_as_it_should(&verdict))
        snprintf(why, 2400, "it does not begin with its place: %s", verdict.text);
    forget_world();
}

TEST_GROUP(scenes, .timeout_s = 60);

TABLE_TEST(each_scene_has_its_verdict_and_place, scenes)
{
    char why[2400];
    judge_scene(&scenes[_i], why);
    ck_assert_msg(why[0] == '\0', "%s: %s", scenes[_i].what, why);
}

TEST(each_cause_is_in_the_table)
{
    for (int cause = 0; cause < CAUSE_COUNT; ++cause) {
        /* A place proves these (sentence_put_place()), runs with other dates (check.c), and what batches leave
         * (turns.c).
         */
        bool found =
            cause == CAUSE_BATCH_DEPENDENT || cause == CAUSE_DATA || cause == CAUSE_SEEDED || cause == CAUSE_TURNS;
        for (size_t i = 0; i < SCENES; ++i)
            found = found || scenes[i].cause == (enum check_cause)cause;
        const char *name = check_cause_name((enum check_cause)cause);
        ck_assert_int_eq(name == NULL, cause == CAUSE_NONE);
        ck_assert_msg(found, "%s", name);
        for (int other = cause + 1; other < CAUSE_COUNT && name != NULL; ++other)
            ck_assert_str_ne(name, check_cause_name((enum check_cause)other));
    }
}

LOOP_TEST(what_was_not_compared_is_not_equal, 0, 3)
{
    make_world(&world, 3, STEPS);
    change_tensors(&world.ranked[_i], &(struct edit){MISSING, .role = ANY}); /* of one rank, then of more */
    change_tensors(&world.ranked[2], &(struct edit){MISSING, .role = ANY});
    if (_i == 0)
        change_tensors(&world.ranked[1], &(struct edit){MISSING, .role = ANY});
    judge_world();
    ck_assert_int_ne(verdict.result, CHECK_EQUAL);
    ck_assert(verdict.text[0] != '\0');
    forget_world();
}

TEST(scratch_of_many_tensors_is_no_difference)
{
    enum { RANGES = 150 };
    make_world(&world, 2, STEPS);
    for (uint32_t i = TENSORS; i < RANGES; ++i)
        add_tensor(&world.ranked[1], CHECK_MEMORY, i, STEPS, 0.5);
    bool equal = false;
    for (int round = 0; round < 4 && !equal; ++round) { /* as check.c makes runs for what is wished */
        judge_world();
        equal = verdict.result == CHECK_EQUAL;
        for (int i = 0; i < RANGES && wishes.probe; ++i)
            set_note(&world.evidence.probe, &(struct edit){RETAINED, .first = i, .value = 0.01}, CHECK_ROW_RETAINED);
        check_facts_free(&facts);
    }
    ck_assert_msg(equal, "%d ranges of scratch memory pass as a difference", RANGES);
    free_world(&world);
}

/* ---- two causes at once ---- */

/* In the order of strength: what differs earlier goes first, and then the order of the table in verdict.c. Whatever
 * weaker evidence there is besides, the stronger decides. */
static const struct strength {
    const char *says;
    struct edit edits[MOST_EDITS];
    const char *but[3]; /* beside these it is not the cause, or its evidence is not what it was */
} strengths[] = {
    {"in one process differ by", {{DIFFERENCE, AGAIN, 1.1e-3, ONE(GRADIENT, 1), .from = 3}}},
    {"does not with --no-overlap",
     {{OVERLAPPED, .value = 2},
      {DIFFERENCE, .value = 0.5, ONE(GRADIENT, 2)},
      {DIFFERENCE, PLAIN, 1e-6, ONE(GRADIENT, 0)}}},
    {"do not train by this plan", {{BY_PLAN}, {DIFFERENCE, .value = 0.5, ONE(GRADIENT, 2)}}},
    {"annotate all of it with DDP_PARAMETER",
     {{IN_PLACE, ONE(MEMORY, 1)}, {DIFFERENCE, .value = 0.2, ONE(MEMORY, 1)}},
     .but = {"infinite or NaN, and finite in one process", "every gradient is 1.3 times"}},
    {"does not have rank 0's values", {{DIFFERENCE, .value = 1, ONE(PARAMETER, 2), .rank = 2}}},
    {"infinite or NaN, and finite in one process", {{UNBOUNDED, .value = 3, ONE(GRADIENT, 2)}}},
    {"the 25 items do not", {{UNEVEN, RANKS, 25}, {DIFFERENCE, .value = 0.3, EVERY(GRADIENT)}}},
    {"every gradient is 1.3 times",
     {{FACTOR, .value = 1.3, EVERY(GRADIENT)}, {DIFFERENCE, .value = 0.1, EVERY(PARAMETER), .from = 2}}},

    {"is 2 times that of one process", {{TIMES, .value = 2, EVERY(PARAMETER), .from = 2}}},

    {"does not have the same bits on ranks 0 and 1", {{HASH, .value = 7, ONE(PARAMETER, 2), .from = 3, .rank = 2}}},
    {"rank 1 waited", {{STOPPED}}},
    {"what would have ended the job", {{ALARM, .rank = 2}}},
    {"all 2 ranks", {{SAME_DATA}}},
    {"no parameter has moved", {{UNMOVED, .role = ANY}}},
};

enum { STRENGTHS = sizeof(strengths) / sizeof(strengths[0]) };

TABLE_TEST(of_two_causes_the_stronger_is_named, strengths)
{
    const struct strength *stronger = &strengths[_i];
    for (int other = _i; other < STRENGTHS; ++other) {
        make_world(&world, 2, STEPS);
        for (int i = 0; i < MOST_EDITS && other > _i; ++i)
            apply(&world, &strengths[other].edits[i]);
        for (int i = 0; i < MOST_EDITS; ++i)
            apply(&world, &stronger->edits[i]);
        judge_world();
        bool excepted = false;
        for (int i = 0; i < 3 && stronger->but[i] != NULL; ++i)
            excepted = excepted || strcmp(stronger->but[i], strengths[other].says) == 0;
        bool says = strstr(verdict.text, stronger->says) != NULL || strstr(verdict.advice, stronger->says) != NULL;
        ck_assert_msg(says != excepted, "\"%s\" beside \"%s\": %s; %s", stronger->says, strengths[other].says,
                      verdict.text, verdict.advice);
        forget_world();
    }
}

/* ---- any evidence ---- */

static struct edit
random_edit(unsigned *seed)
{
    static const enum what all[] = {DIFFERENCE, BLOCK,   FACTOR,    NORM,      UNBOUNDED, IN_PLACE, MISSING,    ADDED,
                                    SHARD,      UNEVEN,  COPIED,    OWN,       ALARM,     RETAINED, OVERLAPPED, STOPPED,
                                    COMPRESSED, SUMS,    UNMOVED,   TOO_SMALL, HASH,      FORCED,   CHANGED,    TYPES,
                                    TIMES,      ENDLESS, UNSTEPPED, NAN_ALONE, COUNT};
    static const double values[] = {0, 1e-7, 0.9e-4, 1.1e-4, 1e-3, 0.05, 0.5, 1, 2, 1e3, 1e-300, 1e300, NAN, -1};
    struct edit edit = {.what = all[(size_t)rand_r(seed) % (sizeof(all) / sizeof(all[0]))],
                        .run = (enum run)(rand_r(seed) % 8),
                        .role = rand_r(seed) % CHECK_ROLES,
                        .first = rand_r(seed) % TENSORS,
                        .from = (uint32_t)rand_r(seed) % (STEPS + 2),
                        .rank = rand_r(seed) % 3};
    bool tensors = edit.what < SHARD;
    do
        edit.value = values[(size_t)rand_r(seed) % (sizeof(values) / sizeof(values[0]))];
    while (tensors && !(edit.value >= 0 && (edit.what != UNBOUNDED || edit.value < 1e10)));
    if (!tensors && edit.what != RETAINED && !(edit.value < 1e10))
        edit.value = 24;
    edit.last = rand_r(seed) % 2 == 0 ? edit.first : TENSORS - 1;
    edit.run = rand_r(seed) % 2 == 0 ? RANKS : edit.run;
    edit.from = edit.what == ADDED && edit.from == 0 ? 1 : edit.from;
    return edit;
}

static void
make_random_world(unsigned seed)
{
    make_world(&world, 1 + rand_r(&seed) % MOST_RANKS, STEPS);
    for (int i = rand_r(&seed) % 6; i >= 0; --i) {
        struct edit edit = random_edit(&seed);
        apply(&world, &edit);
    }
}

LOOP_TEST(what_differs_is_never_equal, 0, 500)
{
    make_random_world((unsigned)_i);
    judge_world();
    size_t differing = 0;
    for (size_t i = 0; i < facts.item_count; ++i) {
        const struct check_item *item = &facts.items[i];
        differing += item->differs && item->tensor.role != CHECK_MEAN;
        if (i > 0)
            ck_assert(!item->differs || facts.items[i - 1].differs);
        if (item->differs)
            ck_assert(item->first_step > 0 && item->rank_count > 0 && !item->is_scratch && !item->ignored);
    }
    ck_assert_int_eq(verdict.result == CHECK_EQUAL, verdict.cause == CAUSE_NONE);
    ck_assert(verdict.result != CHECK_EQUAL || differing == 0);
    ck_assert(verdict.result == CHECK_EQUAL || (verdict.text[0] != '\0' && strchr(verdict.text, '\n') == NULL));
    ck_assert(strchr(verdict.advice, '\n') == NULL);
    bool inside = verdict.first == NULL;
    for (size_t i = 0; i < facts.item_count; ++i)
        inside = inside || verdict.first == &facts.items[i];
    ck_assert(inside);
    forget_world();
}

/* ---- the order of rows ---- */

/* Of the rows that apply to the world, two of the same stage; NULL: there are none. */
static const char *
find_rivals(void)
{
    static char rivals[200];
    const struct verdict_row *of_stage[STAGE_LAST + 1] = {NULL};
    for (size_t family = 0; verdict_families[family] != NULL; ++family) {
        for (const struct verdict_row *row = verdict_families[family]; row->name != NULL; ++row) {
            const struct verdict_row **other = &of_stage[row->stage];
            if (!row->applies(&facts))
                continue;
            if (*other != NULL) {
                snprintf(rivals, sizeof(rivals), "%s, and %s", (*other)->name, row->name);
                return rivals;
            }
            *other = row;
        }
    }
    return NULL;
}

TABLE_TEST(rows_of_one_stage_exclude_each_other, scenes)
{
    judge(scenes[_i].ranks, scenes[_i].edits);
    const char *rivals = find_rivals();
    ck_assert_msg(rivals == NULL, "%s: %s", scenes[_i].what, rivals);
    forget_world();
}

LOOP_TEST(rows_of_one_stage_exclude_each_other_in_any_world, 0, 500)
{
    make_random_world((unsigned)_i);
    judge_world();
    const char *rivals = find_rivals();
    ck_assert_msg(rivals == NULL, "%s", rivals);
    forget_world();
}

TEST(each_row_decides_in_a_scene)
{
    for (size_t family = 0; verdict_families[family] != NULL; ++family) {
        for (const struct verdict_row *row = verdict_families[family]; row->name != NULL; ++row) {
            bool decides = false;
            for (size_t i = 0; i < SCENES && !decides; ++i) {
                judge(scenes[i].ranks, scenes[i].edits);
                decides = verdict_find_row(&facts) == row;
                forget_world();
            }
            ck_assert_msg(decides, "no scene has the row of %s", row->name);
        }
    }
}

TEST(many_steps_are_judged_at_once)
{
    enum { MANY = 2000 };
    make_world(&world, 2, MANY);
    struct timespec begin, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    judge_world();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    ck_assert_int_eq(verdict.result, CHECK_EQUAL);
    ck_assert_msg(seconds < 5, "%g s for %d steps", seconds, MANY);
    forget_world();
}

/* ---- the table would notice ---- */

TEST(each_broken_rule_is_noticed)
{
    char why[2400];
    for (const struct scene *scene = scenes; scene < scenes + SCENES; ++scene) {
        if (scene->mutant == NULL)
            continue;
        setenv("DDPRUN_MUTANT", scene->mutant, 1);
        judge_scene(scene, why);
        unsetenv("DDPRUN_MUTANT");
        ck_assert_msg(why[0] != '\0', "%s: \"%s\" has its verdict all the same", scene->mutant, scene->what);
    }
}

TEST(an_infinite_floor_is_noticed)
{
    char why[2400];
    int expected = 0, missed = 0;
    setenv("DDPRUN_MUTANT", "CHECK_FLOOR_INFINITE", 1);
    for (size_t i = 0; i < SCENES; ++i) {
        const struct scene *scene = &scenes[i];
        bool has_hash = false; /* which no floor covers, nor what is not compared, nor what a proof refuses */
        for (size_t k = 0; k < MOST_EDITS; ++k) {
            const enum what what = scene->edits[k].what;
            has_hash = has_hash || what == HASH || what == UPDATED_AFTER || what == REFUTED;
        }
        if (scene->result != CHECK_DIFFERENT || scene->cause == CAUSE_STOPPED || scene->cause == CAUSE_SAME_BATCH ||
            has_hash)
            continue;
        ++expected;
        judge_scene(scene, why);
        missed += why[0] != '\0';
    }
    unsetenv("DDPRUN_MUTANT");
    ck_assert_int_gt(expected, 30);
    ck_assert_int_eq(missed, expected);
}
