/*
 * spots.h - where a line can stand in a source, and what the search for lines knows. For insert.c and shares.c.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_SPOTS_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_SPOTS_H

#include "tools/scout/command/report/insert.h"
#include "tools/scout/command/report/lift.h"

struct search {
    struct sites *sites;
    const struct scout_log *log;
    const struct scout_finding *finding;
    struct sources sources;
    struct insertions *to;
    uint32_t *memory_of; /* of each allocation */
    uint32_t start;      /* operations before the first step */
};

struct stack {
    const struct site_place *frames;
    uint32_t count;
};

/* Where lines go, and between what: behind a statement that is the whole body of a loop they need braces. */
struct spot {
    const struct source *source;
    uint32_t node;
    size_t behind; /* 0: in front of the node; else behind this place */
    bool needs_braces;
    char loops[LIFT_BYTES];             /* "for (...) " around the line, "" without one */
    const struct site_place *from, *to; /* of a boundary: the calls of the last write and of the first read */
};

/* The frames of a call site. */
struct stack spot_stack(const struct search *search, uint32_t site);
/* Whether two frames are one place of the sources. */
bool spot_is_same(const struct site_place *a, const struct site_place *b);
/* The frames of two stacks that are calls of one function: *a_p, *b_p. Inside them the stacks have nothing in common.
 * False: the stacks have no function in common, or are one. */
bool spot_find_parting(const struct stack *a, const struct stack *b, uint32_t *a_p, uint32_t *b_p);
/* Whether two stacks have the same frames from the call outwards to frame `depth`. */
bool spot_is_same_chain(const struct stack *a, const struct stack *b, uint32_t depth);
/* Adds a line in front of line `line`, once. */
void spot_add(struct insertions *to, const char *file, int line, const char *text);
/* Adds an #include in front of the file, or of its first #include behind a byte-order mark. */
void spot_add_include(struct search *search, const struct spot *spot, const char *text);
/* Whether a whole line can be put there. */
bool spot_is_usable(const struct spot *spot);
/* Adds text at a spot, with the header that it needs. */
void spot_add_text(struct search *search, const struct spot *spot, const char *text);
/* The statement of a frame; NODE_NONE: not known. */
uint32_t spot_node(struct search *search, const struct site_place *place, const struct source **source_p);
/* Behind the statement of a frame; in a function's header, at the begin of its body. */
bool spot_find_behind(struct search *search, const struct site_place *place, struct spot *spot);
/* Behind the statement `set`, for what is said at the statement `made` of the same function. */
bool spot_find_behind_both(struct search *search, const struct site_place *made, const struct site_place *set,
                           const struct lifted *said, struct spot *spot);

/* ---- shares.c: the lines that give each rank its share of the data ---- */
/* All data, or none: labels that are not shared as their images are wrong. */
void shares_place(struct search *search);

#endif
