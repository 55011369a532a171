/*
 * mutant.h - deliberate defects, with which the tests prove that they would notice.
 *
 * tests/end_to_end builds one engine with -DDDPRUN_MUTANTS, in which the environment selects a defect by its name:
 * DDPRUN_MUTANT=SUM_NOT_MEAN. mutants.sh requires for each that a run which the real engine passes fails. In what users
 * run every MUTANT(...) is a constant false.
 */
#ifndef DDPRUN_BASE_MUTANT_H
#define DDPRUN_BASE_MUTANT_H

/* By the points of a gradient's life. */
enum mutant {
    MUTANT_NONE,

    /* known */
    MUTANT_IDENTITY_MIXED, /* odd ranks give memory that is annotated again to another gradient of the same size */
    MUTANT_OLD_ADDRESS,    /* a bucket is sent from where its gradients were first */

    /* watched */
    MUTANT_PARAMETERS_UNSEEN,        /* the launch filter lets kernels pass that touch averaged parameters only */
    MUTANT_STRUCTS_UNSEEN,           /* of a struct that is passed to a kernel only the first word is looked at */
    MUTANT_OPERANDS_UNSEEN,          /* copies and library calls are not looked at */
    MUTANT_ONE_OF_MANY,              /* of several gradients that an operation covers only the first is touched */
    MUTANT_ESCAPE_IGNORED,           /* addresses in copies to the device are not looked for */
    MUTANT_ESCAPES_ALIGNED_TO_16,    /* only those that are multiples of 16 */
    MUTANT_ESCAPED_LATE_UNCHECKED,   /* gradients launched before their address was copied are not compared */
    MUTANT_TENSOR_MAPS_UNSEEN,       /* addresses in tensor maps are not noted */
    MUTANT_ARRAY_TRUSTED,            /* an array of pointers that a kernel has made counts as one from the host */
    MUTANT_HIDDEN_STREAMS_FORGOTTEN, /* the boundary does not wait for kernels that may reach deferred gradients */

    /* learned */
    MUTANT_LEARNED_TOO_SOON,       /* two intervals count as equal whatever they showed */
    MUTANT_VOTE_ALONE,             /* odd ranks adopt a plan without asking the others */
    MUTANT_PLANS_UNCOMPARED,       /* ranks do not compare their plans */
    MUTANT_CONTROL_BUCKETS_DIFFER, /* control steps of a trial have other buckets */
    MUTANT_OPTIONAL_ANYWHERE,      /* touches that some intervals lack may come behind fixed ones, too */
    MUTANT_OPTIONAL_UNSEEN,        /* and may be others than have been seen */
    MUTANT_OPTIONAL_FIXED,         /* intervals may lack fixed touches, too */
    MUTANT_LAYOUT_DIFFERS,         /* odd ranks have other layouts in a trial than the others do */
    MUTANT_VERDICT_DIFFERS,        /* odd ranks take a layout that the others do not */

    /* ready */
    MUTANT_READY_TOO_EARLY,         /* a gradient counts as ready one touch before its last */
    MUTANT_NO_PRODUCER_WAIT,        /* the communication stream does not wait for the gradients' producers */
    MUTANT_SECOND_STREAM_FORGOTTEN, /* it waits for one stream that touched them, not for all */

    /* reduced */
    MUTANT_GRADIENT_LEFT_OUT, /* one gradient of a bucket is not reduced */
    MUTANT_STAGED_BY_SOME,    /* ranks give NCCL registered memory without asking whether the others do */
    MUTANT_SUM_NOT_MEAN,
    MUTANT_STATE_NOT_AVERAGED,      /* with DDP_STEP_PARAMETERS only parameters are averaged */
    MUTANT_SYNC_COUNTS_PASSES,      /* --sync-every K counts passes of backward, two for each step */
    MUTANT_OUTER_MOMENTUM_LEFT_OUT, /* an outer step keeps no velocity */
    MUTANT_OUTER_AT_EVERY_SYNC,     /* DDP_SYNC makes an outer step, too */
    MUTANT_OUTER_STATE_AVERAGED,    /* states are averaged beside an outer step */
    MUTANT_WEIGHT_IGNORED,          /* all ranks contribute alike, whatever DDP_WEIGHT says */
    MUTANT_SCALE_LEFT_OUT,          /* compressed gradients are not divided by the number of ranks */
    MUTANT_MEMBERS_OVERLAP,         /* in a packed bucket each gradient begins one element too early */
    MUTANT_UNPACK_LEFT_OUT,         /* a packed bucket stays in its buffer */
    MUTANT_COMMUNICATOR_DIFFERS,    /* odd ranks send each bucket through another communicator */
    MUTANT_ORDER_DIFFERS,           /* odd ranks launch buckets in another order */
    MUTANT_GROUP_UNEXPECTED, /* odd ranks send any group's buckets early, not only those of the one that is next */

    /* in memory that the host reaches */
    MUTANT_MANAGED_SENT_EARLY,  /* managed memory is reduced before the host's last write to it */
    MUTANT_CONTEXT_NOT_WAITED,  /* and without a wait for streams that write it unseen */
    MUTANT_AVERAGES_NOT_WAITED, /* the host reads before the averages are there */
    MUTANT_STAGED_NOT_WAITED,   /* averages go to the host before they are copied from the device */

    /* used */
    MUTANT_NO_BOUNDARY_WAIT,     /* no stream waits for the reduction */
    MUTANT_NO_JOIN,              /* the boundary does not wait for the other communicators */
    MUTANT_OTHER_STREAMS_RUN_ON, /* the stream that DDP_STEP names waits, others do not */

    /* captured */
    MUTANT_GRAPH_PRODUCERS_FORGOTTEN, /* captured buckets do not come after the work on their gradients */
    MUTANT_GRAPH_STREAMS_RUN_ON,      /* captured streams other than DDP_STEP's do not come after it */
    MUTANT_GRAPH_TOUCHES_UNSEEN,      /* the launch of a graph counts as no touch of what was captured */
    MUTANT_GRAPH_UNCOUNTED,           /* the launch of a graph counts as no step */

    /* deviations */
    MUTANT_DEVIATION_IGNORED, /* buckets leave early in an interval that is not as learned */
    MUTANT_NOT_FLUSHED_FIRST, /* the boundary does not wait for the streams of gradients not launched yet */
    MUTANT_LATE_LET_THROUGH,  /* a write to a gradient that is launched is not noticed */
    MUTANT_LATE_NOT_WAITED,   /* a touch of a gradient that is launched does not wait for its bucket */

    /* DDP_REDUCE */
    MUTANT_REDUCED_AS_FLOATS,      /* integers are summed as floats of their size */
    MUTANT_REDUCED_TOO_EARLY,      /* what the trainer's streams still do to the memory is not waited for */
    MUTANT_REDUCED_NOT_WAITED_FOR, /* the trainer's stream does not wait for the result */
    MUTANT_REDUCED_BEHIND_BUCKETS, /* a call of host memory waits for buckets that another rank has not sent */
    MUTANT_REDUCES_UNCOMPARED,     /* ranks do not compare their calls */

    /* checked */
    MUTANT_CONTENT_UNCHECKED,           /* gradients are not compared between their reduction and the boundary */
    MUTANT_HASH_NOT_RUN,                /* memory is not hashed on the device: all hashes of a length are equal */
    MUTANT_HASHED_AFTER_RELEASE,        /* parameters are hashed when the trainer may change them again */
    MUTANT_PARAMETERS_HASHED_EARLY,     /* those of other groups are compared before their step has averaged them */
    MUTANT_PARAMETERS_UNCHECKED,        /* parameters are not compared across ranks */
    MUTANT_WEIGHTS_UNCOMPARED,          /* weights are not, either */
    MUTANT_OWN_GRADIENTS_LATE,          /* ranks' own gradients are hashed behind their reduction, when all are equal */
    MUTANT_FORGOTTEN_TENSOR_UNCOMPARED, /* whatever is in a parameter's place and changes is taken for a parameter */

    MUTANT_RUNNING_UNSEEN,  /* parameters that forward writes are taken for others */
    MUTANT_STEPLESS_UNSEEN, /* parameters that change although no DDP_STEP comes do not end the job */

    /* ddprun check */
    MUTANT_CHECK_LAST_LEFT_OUT,      /* the last tensor of each role is not compared with the reference */
    MUTANT_FILES_WRITTEN_THROUGH,    /* what a run of a check opens for writing is the user's file */
    MUTANT_CHECK_GRADIENTS_LATE,     /* gradients are read when the next step begins, and not at DDP_STEP */
    MUTANT_CHECK_NOT_FORCED,         /* gradients stay as DDP_STEP has left them */
    MUTANT_CHECK_REDUCED_NOT_FORCED, /* what DDP_REDUCE has found stays */
    MUTANT_CHECK_CHANGE_IGNORED,     /* updates are compared by what parameters are, not by what they have changed */
    MUTANT_CHECK_RANKS_APART,        /* ranks are not compared with each other (this and the next in the launcher) */
    MUTANT_CHECK_FACTOR_TRUSTED,     /* whatever undoes a factor of the gradients does so on purpose */
    MUTANT_CHECK_ANY_TOLERANCE,      /* a tolerance may hide mistakes */
    MUTANT_CHECK_DRIFT_COUNTS,       /* how far the run from a start nearby has drifted is a floor of each step */
    MUTANT_CHECK_UNMOVED_EQUAL,      /* parameters that no step moves are equal */
    MUTANT_CHECK_APART_EQUAL,        /* data that depend on the date of each rank are equal */
    MUTANT_CHECK_COPIES_ALIGNED,     /* what is copied is looked for where the reference's pieces begin, only */
    MUTANT_CHECK_DATA_ORDER,         /* shares must be in order (this and the next two in the launcher) */
    MUTANT_CHECK_DATA_ANY_STEP,      /* data that are wrong in any step are the cause */
    MUTANT_CHECK_DATA_NOISE,         /* contents that the reference does not have are another order */
    MUTANT_CHECK_FACTOR_UNSEEN,      /* no update is a multiple of one rank's (this and the next in the launcher) */
    MUTANT_CHECK_GROUPS_UNSEEN,      /* groups that are never stepped do not matter */
    MUTANT_CHECK_ENDLESS_COUNTS,     /* gradients that overflow on one rank, too, are differences */
    MUTANT_CHECK_NAN_EQUAL,          /* what is NaN on all ranks is equal */
    MUTANT_CHECK_ZEROS_ONE_BATCH,    /* own gradients of zeros are of one batch */
    MUTANT_CHECK_ZEROS_TELL,         /* gradients of zeros are equal, and prove that the batch is right */
    MUTANT_CHECK_DATA_STILL,         /* floats from the host are not moved by a unit in the last place */
    MUTANT_CHECK_NUDGED_UNSEEN,      /* nor is it seen what such a unit makes of gradients (in the launcher) */
    MUTANT_CHECK_SCALARS_UNSEEN,     /* scalar arguments of updates that differ are not looked at */
    MUTANT_CHECK_SHORTER_UNSEEN,     /* nor do gradients that end before their parameters */
    MUTANT_CHECK_INDEPENDENT_EQUAL,  /* results of DDP_REDUCE that depend on nothing are equal */
    MUTANT_CHECK_FLOOR_INFINITE,     /* whatever differs is taken for rounding (in the launcher's items.c) */
    MUTANT_FILES_DATE_REAL,          /* the program's date is the system's */
    MUTANT_CHECK_READINGS_UNSEEN,    /* where the program reads the date is not reported */
    MUTANT_CHECK_DATA_NO_CHANCE,     /* what is wrong in one step is no chance */
    MUTANT_CHECK_USED_UNSEEN,        /* what updates make of gradients is not looked at */
    MUTANT_CHECK_UPDATES_UNSEEN,     /* nor how often they come */
    MUTANT_CHECK_MANAGED_UNSEEN,     /* unannotated memory is looked for on the device only */
    MUTANT_CHECK_PARTS_UNSEEN,       /* shares that count as unequal parts are what batch-norm makes */
    MUTANT_CHECK_FAR_NEAR,           /* parameters that are to begin far away begin nearby */
    MUTANT_CHECK_CARRIED_UNSEEN,     /* what ranks copy from the host may have any bits */
    MUTANT_CHECK_GROWN_TAKEN,        /* turns keep what the ranks have averaged, and not what is their own */
    MUTANT_CHECK_LEAVES_BUCKETS,     /* ranks leave with buckets launched early for a step that none makes */
    MUTANT_CHECK_LATE_UNSEEN,        /* unannotated memory is looked for in the first steps only */
    MUTANT_CHECK_STEPS_APART,        /* several DDP_STEPs before an update are several steps */
    MUTANT_CHECK_CARRIED_DATA,       /* also where it does not depend on parameters, it may be state */

    /* what a plan is made from (in the analysis of tools/) */
    MUTANT_SCOUT_CHAIN_NOT_REQUIRED, /* what feeds back is a parameter, whether or not by element from its old value */
    MUTANT_SCOUT_BYTES_SEEN,         /* of a gradient what was seen written is averaged, not the parameter's image */
    MUTANT_SCOUT_DOWNSTREAM,         /* the gradient is what the update reads, not the most upstream */
    MUTANT_SCOUT_BORDER_EARLY,       /* a period begins one operation too early */
    MUTANT_SCOUT_GROUPS_MIXED,       /* gradients are of one group, whatever reads them first */
    MUTANT_SCOUT_SUSPECTS_TRUSTED,   /* what gradients are computed from, and is no parameter, is carried state */
    MUTANT_SCOUT_TYPES_ANY,          /* of two types that are said the first one counts */
    MUTANT_SCOUT_TYPES_ALONE,        /* a gradient's type does not depend on its parameter's */
    MUTANT_SCOUT_LAUNCHES_ALONE,     /* nor on what other launches of a kernel get */
    MUTANT_SCOUT_GUESSES_CERTAIN,    /* what bits look like is no guess */
    MUTANT_SCOUT_ONE_READING,        /* what later periods show is not looked at */
    MUTANT_SCOUT_TURNS_DROP_COMMON,  /* by turns all is dropped that comes before the gradients are averaged */

    /* the same (in the recorder of tools/) */
    MUTANT_SCOUT_NOT_TRIED_ALONE, /* words that could not be changed count as left alone */
    MUTANT_SCOUT_NAMES_UNREAD,    /* kernels' names say nothing of types */
    MUTANT_SCOUT_CALLS_UNREAD,    /* neither do calls of libraries */
    MUTANT_SCOUT_ANSWERS_UNSEEN,  /* a norm on the host reads nothing */
    MUTANT_SCOUT_TAIL_UNSEEN,     /* bytes behind the last whole word are not looked at */
    MUTANT_SCOUT_SIGNS_STAY,      /* numbers keep their sign */
    MUTANT_SCOUT_COUNTS_UNSEEN,   /* how far a launch reaches does not depend on how much it is given to do */
    MUTANT_SCOUT_LOADERS_COUNTED, /* copies of threads that launch nothing belong where they are made */
    MUTANT_SCOUT_SIZES_COUNT,     /* periods whose grids and bytes differ are not alike */
    MUTANT_SCOUT_ANY_WORDS, /* few words are changed wherever they are, not where the launch has changed something */

    /* runs by a plan (in the player of tools/) */
    MUTANT_SCOUT_PLAY_TENSOR_MISSING, /* the plan does not have the last gradient */
    MUTANT_SCOUT_PLAY_ROW_MISSING,    /* of the last gradient it does not have the last element */
    MUTANT_PLAN_DATA_UNHEARD,         /* --plan: ranks may see other batches */
    MUTANT_PLAN_COMPARED_RARELY,      /* --plan: (in the engine) what stays is compared as ever */
    MUTANT_PLAN_NUMBERS_UNHEARD,      /* --plan: ranks may launch a batch's work with other numbers */
    MUTANT_PLAN_RATE_UNHEARD,         /* --plan: and the update */
    MUTANT_PLAN_LOADER_UNHEARD,       /* --plan: and see other batches, where a thread of its own copies them */
    MUTANT_PLAN_UPDATE_ELSEWHERE,     /* --plan: and updates from lines that the plan does not have are none */
    MUTANT_PLAN_PLACES_ALIKE,         /* --plan: the innermost line that calls an operation is not compared */
    MUTANT_PLAN_UPDATE_UNASKED,       /* --plan: a forward pass without an update is taken for a period */
    MUTANT_PLAN_ROUND_LEFT_OPEN,      /* --plan: a rank that has sent gradients of the last round waits for ever */
    MUTANT_PLAN_UPDATE_EACH,          /* --plan: ranks make the update of each batch, not of each round */
    MUTANT_PLAN_PENDING_TOUCHED,      /* --plan: gradients that wait for the others may be changed */
    MUTANT_STATE_NOT_ADDED,           /* --plan, by state: a round ends as it began */
    MUTANT_STATE_NOT_PUT_BACK,        /* --plan, by state: a turn begins with what the turn before has left */
    MUTANT_STATE_NOT_SCALED,          /* --plan, by state: a round of fewer steps is divided by the number of ranks */
    MUTANT_PLAN_READS_OWN,            /* --plan: a copy to the host brings what the rank itself has */
    MUTANT_SCOUT_PLAY_TOO_LATE,       /* gradients are averaged one operation too late */
    MUTANT_SCOUT_PLAY_TYPE_WRONG,     /* gradients are averaged as bfloat16 */
    MUTANT_SCOUT_PLAY_OWN_SHARED,     /* one process that plays all turns does not keep memory for each rank */
    MUTANT_SCOUT_PLAY_ALL_DROPPED,    /* counters and random state advance with their rank's turns only */
};

#ifdef DDPRUN_MUTANTS
#include <stdlib.h>
#include <string.h>
#define MUTANT(name) (MUTANT_##name != MUTANT_NONE && mutant_is(#name))

static inline int
mutant_is(const char *name)
{
    const char *selected = getenv("DDPRUN_MUTANT");
    return selected != NULL && strcmp(selected, name) == 0;
}
#else
#define MUTANT(name) (MUTANT_##name == MUTANT_NONE)
#endif

#endif
