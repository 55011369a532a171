/*
 * state_finder.h - how turns by state are found (turns.h): by_state.c, state_places.c, state_classes.c.
 *
 * Memory is looked at in places: of the bytes between two offsets that operations name, those that are written, from
 * the first to the last, and what lies in front of them and behind. A place stays if an operation of a later period
 * reads what one has left there.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_STATE_FINDER_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_STATE_FINDER_H

#include "tools/scout/command/analysis/turns.h"

/* Bytes [lo, hi) of a memory. Of each segment, from one of the memory's cuts to the next, there are PARTS. */
enum { IN_FRONT, WRITTEN, BEHIND, PARTS };
struct memory_part {
    uint32_t memory, alloc; /* the last allocation of it */
    uint64_t lo, hi;
    bool is_written;     /* by an operation of the period */
    bool is_read;        /* by one, on the device */
    bool stays;          /* what is there is read in a later period */
    bool host_later;     /* and by the host */
    bool is_shown;       /* the host reads it in the period */
    bool is_state;       /* it feeds back, by way of other memory, and data enters; or is computed from such */
    bool leaves;         /* other memory is computed from it */
    bool is_overwritten; /* of state: no element comes from its own old value alone; */
    bool is_in_place;    /* but each launch that writes it reads it, too */
    bool may_be_sum;     /* of state: nothing else is computed from it */
    bool may_decide;     /* of whole numbers: about a variable of the module, if they count steps */
    enum play_role role; /* 0: none: scratch */
    uint32_t type;       /* enum scout_type */
    uint32_t width;      /* bytes of an element of whole numbers; 0: not known */
};

struct finder {
    const struct graph *graph;
    const struct scout_finding *finding;
    struct turns *to;
    const char *per_rank; /* "a3,a7" */
    struct memory_part *places;
    uint32_t place_count;
    uint32_t *first_place; /* [memory_count]: places of a memory, in the order of its cuts */
    uint32_t *noise;       /* noise_find() */
};

/* ---- state_places.c: places, and which of them are state ---- */
/* For people: "a3[0:64]". Returns `text`. */
const char *state_place_name(const struct memory_part *place, char text[64]);
/* The place of a version. What was there before lies in all parts of its segment, and counts where no operation writes.
 */
struct memory_part *state_place_of(const struct finder *finder, const struct graph_version *version);
/* Whether an operation leaves a version in a place, NULL: in any. */
bool state_place_is_left(const struct finder *finder, const struct graph_version *version,
                         const struct memory_part *place);
bool state_place_is_float(const struct memory_part *place);

#define FOR_EACH_LEFT(version, finder, place)  \
    FOR_EACH_VERSION(version, (finder)->graph) \
        if (state_place_is_left(finder, version, place))
#define ANY_LEFT(version, finder, place, holds) \
    ANY_VERSION(version, (finder)->graph, state_place_is_left(finder, version, place) && (holds))

/* Makes finder->places, and fills in who reads them. The caller frees places and first_place. */
void state_places_make(struct finder *finder);
/* Fills in their types, as of parameters: by names and calls, by other launches, by the bits. False: refused. */
bool state_places_find_types(struct finder *finder);
/* Marks those that are state. False: refused, none is. */
bool state_places_find_state(struct finder *finder);

/* ---- state_classes.c: what ranks do with each place ---- */
/* Fills in roles, and what goes with them. False: refused; the roles are then not all there. */
bool state_classes_judge(struct finder *finder);
/* Gives what no recorded step has written the class of what it lies beside. */
void state_classes_widen(struct finder *finder);

#endif
